//! Tests of all the crates together. One program, so that it is linked once.

mod elements;
mod emitted;
mod errors;
mod golden;
mod interface;
mod macros;
mod memory;
mod names;
mod programs;
mod tidy;
