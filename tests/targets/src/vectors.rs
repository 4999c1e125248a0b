//! The vector table of a board without interrupts, so that the size of a firmware does not include
//! one.

/// An empty table of interrupts.
#[used]
#[unsafe(no_mangle)]
#[unsafe(link_section = ".vector_table.interrupts")]
pub static __INTERRUPTS: [usize; 1] = [0];
