//! Tests of all the crates together. One program, so that it is linked once.

mod golden;
mod macros;
mod programs;
