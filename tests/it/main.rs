//! Tests of all the crates together. One program, so that it is linked once.

mod emitted;
mod errors;
#[cfg(target_os = "linux")]
mod external;
mod golden;
mod macros;
mod memory;
mod programs;
mod tidy;
