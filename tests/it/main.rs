//! Tests of all the crates together. One program, so that it is linked once.

mod emitted;
mod errors;
mod golden;
mod library;
mod macros;
mod memory;
mod programs;
mod tidy;
