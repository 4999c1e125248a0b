//! The vector table of a board that is asked for no interrupts, so that a firmware's size is its own.

/// What stands in place of the interrupts.
#[used]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".vector_table.interrupts")]
pub static __INTERRUPTS: [usize; 1] = [0];
