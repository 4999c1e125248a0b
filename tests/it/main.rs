//! Tests of all the crates together. One program, so that it is linked once.

mod check;
mod emitted;
mod errors;
#[cfg(target_os = "linux")]
mod external;
mod golden;
mod macros;
mod memory;
mod programs;
mod random;
mod recognized;
mod tidy;
