//! Measures the depth of the stack: paints it before the models run, and counts the painted words
//! afterwards.

use core::ptr::{read_volatile, write_volatile};

const PAINT: u32 = 0xa5a5_a5a5;

/// The unused words of a stack, from its far end on.
pub struct Stack {
    first: *mut u32,
    /// The stack frame of the function that measures.
    last: *mut u32,
}

impl Stack {
    /// Paints the stack, which may grow down to `end`.
    ///
    /// # Safety
    ///
    /// The memory from `end` on contains nothing but the stack.
    #[inline(never)]
    pub unsafe fn paint(end: *mut u32) -> Stack {
        let mut here = 0u32;
        // The frame of this function is not painted.
        let last = (&raw mut here).wrapping_sub(32);
        let mut at = end;
        while at < last {
            // SAFETY: the word lies between the stack's end and the used part.
            unsafe { write_volatile(at, PAINT) };
            at = at.wrapping_add(1);
        }
        Stack { first: end, last }
    }

    /// Returns the bytes that were used since painting.
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
