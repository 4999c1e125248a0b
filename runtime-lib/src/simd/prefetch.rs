//! Software prefetching on x86-64.
//!
//! It uses inline assembly, because the compiler treats the intrinsics as reads of arbitrary memory
//! and spills accumulators that should stay in registers.

use core::arch::asm;

/// Prefetches the cache line that is `ahead` elements behind an address into the L1 cache.
#[inline(always)]
pub fn into_l1<T>(at: *const T, ahead: usize) {
    // SAFETY: the instruction only affects caches, and accepts any address.
    unsafe {
        asm!(
            "prefetcht0 [{at} + {ahead}]",
            at = in(reg) at.addr(),
            ahead = in(reg) ahead * size_of::<T>(),
            options(nomem, nostack, preserves_flags)
        );
    }
}

/// Prefetches the cache line of an address into the L2 cache.
#[inline(always)]
pub fn into_l2<T>(at: *const T) {
    // SAFETY: the instruction only affects caches, and accepts any address.
    unsafe {
        asm!("prefetcht1 [{at}]", at = in(reg) at.addr(), options(nomem, nostack, preserves_flags));
    }
}
