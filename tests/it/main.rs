//! Integration tests over all crates, in one program, so that it is linked once.

mod additions;
mod check;
mod command_line;
mod documents;
mod elements;
mod emitted;
mod errors;
#[cfg(target_os = "linux")]
mod external;
mod free_sizes;
mod golden;
mod gradients;
mod hostile;
mod import_cycles;
mod interface;
mod language;
mod library;
mod loops;
mod macros;
mod memory;
mod mending;
mod names;
mod precision;
mod programs;
mod quantized;
mod random;
mod ranks;
mod recognition;
mod recognized;
mod reference;
mod rematerialization;
mod sizes;
mod tidy;
mod train_mode;
mod train_prep;
mod training;
