//! How deep the stack becomes: it is painted before the models run, and looked at afterwards.

use core::ptr::{read_volatile, write_volatile};

const PAINT: u32 = 0xa5a5_a5a5;

/// The unused words of a stack, from its far end on.
pub struct Stack {
    first: *mut u32,
    /// The frame of whoever measures.
    last: *mut u32,
}

impl Stack {
    /// Paints the stack, which may grow down to `end`.
    ///
    /// # Safety
    /// Nothing but the stack is in the memory from `end` on.
    #[inline(never)]
    pub unsafe fn paint(end: *mut u32) -> Stack {
        let mut here = 0u32;
        // What this function itself has on the stack is left alone.
        let last = (&raw mut here).wrapping_sub(32);
        let mut at = end;
        while at < last {
            // SAFETY: the word lies between the stack's end and what is used of it.
            unsafe { write_volatile(at, PAINT) };
            at = at.wrapping_add(1);
        }
        Stack { first: end, last }
    }

    /// The bytes that were used since.
    #[inline(never)]
    pub fn used(&self) -> u32 {
        let mut at = self.first;
        // SAFETY: as in `paint`.
        while at < self.last && unsafe { read_volatile(at) } == PAINT {
            at = at.wrapping_add(1);
        }
        (self.last.addr() - at.addr()) as u32
    }
}
