//! Memory that is asked for before its iteration, on x86-64.
//!
//! Not by intrinsics: the compiler takes those for reads of any memory, and then keeps sums that
//! should stay in registers there.

use core::arch::asm;

/// Asks for the line that so many elements behind an address has, as near as a first-level cache.
#[inline(always)]
pub fn near<T>(at: *const T, ahead: usize) {
    // SAFETY: the instruction changes nothing but caches, and any address will do.
    unsafe {
        asm!(
            "prefetcht0 [{at} + {ahead}]",
            at = in(reg) at.addr(),
            ahead = in(reg) ahead * size_of::<T>(),
            options(nomem, nostack, preserves_flags)
        );
    }
}

/// Asks for the line of an address, as near as a second-level cache.
#[inline(always)]
pub fn less_near<T>(at: *const T) {
    // SAFETY: as above.
    unsafe {
        asm!("prefetcht1 [{at}]", at = in(reg) at.addr(), options(nomem, nostack, preserves_flags));
    }
}
