//! Which level the processor has, and how work gets there.

#[cfg(target_arch = "x86_64")]
use super::{Avx2, Avx512};
use super::{Portable, Simd, WithSimd};

/// A level, with the proof that the processor has it.
#[derive(Clone, Copy, Debug)]
pub enum Level {
    /// Any processor.
    Portable(Portable),
    /// AVX2 with FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-512.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

/// Runs `op` at the best level that the processor has.
///
/// With the feature `std` the level is found when it is first asked for, and the environment
/// variable `ONNXC_SIMD` (`portable`, `avx2`, `avx512`) may lower it. Without `std` it is what
/// the crate was compiled for.
#[inline(always)]
pub fn dispatch<O: WithSimd>(op: O) -> O::Output {
    match level() {
        Level::Portable(s) => s.run(op),
        #[cfg(target_arch = "x86_64")]
        Level::Avx2(s) => s.run(op),
        #[cfg(target_arch = "x86_64")]
        Level::Avx512(s) => s.run(op),
    }
}

/// The level that [`dispatch`] uses.
#[cfg(feature = "std")]
#[inline]
pub fn level() -> Level {
    #[cfg(test)]
    if let Some(level) = forced::level() {
        return level;
    }
    found::level()
}

/// The level that [`dispatch`] uses.
#[cfg(not(feature = "std"))]
#[inline(always)]
pub fn level() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        if cfg!(all(
            target_feature = "avx512f",
            target_feature = "avx512bw",
            target_feature = "avx512dq",
            target_feature = "avx512vl"
        )) {
            // SAFETY: the crate is compiled for processors that have the level.
            return Level::Avx512(unsafe { Avx512::assume() });
        }
        if cfg!(all(target_feature = "avx2", target_feature = "fma")) {
            // SAFETY: the crate is compiled for processors that have the level.
            return Level::Avx2(unsafe { Avx2::assume() });
        }
    }
    Level::Portable(Portable)
}

#[cfg(feature = "std")]
mod found {
    use super::*;
    use core::sync::atomic::{AtomicU8, Ordering};

    const UNKNOWN: u8 = 0;
    const PORTABLE: u8 = 1;
    const AVX2: u8 = 2;
    const AVX512: u8 = 3;

    static RANK: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[inline]
    pub fn level() -> Level {
        let rank = RANK.load(Ordering::Relaxed);
        if rank == UNKNOWN { look() } else { of_rank(rank) }
    }

    /// Asks the processor and the environment. Threads that come at once find the same.
    #[cold]
    fn look() -> Level {
        let asked = match std::env::var("ONNXC_SIMD").as_deref() {
            Ok("portable") => PORTABLE,
            Ok("avx2") => AVX2,
            _ => AVX512,
        };
        let rank = asked.min(best_rank());
        RANK.store(rank, Ordering::Relaxed);
        of_rank(rank)
    }

    #[cfg(target_arch = "x86_64")]
    pub fn best_rank() -> u8 {
        use std::is_x86_feature_detected as has;
        if !(has!("avx2") && has!("fma")) {
            PORTABLE
        } else if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") {
            AVX512
        } else {
            AVX2
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub fn best_rank() -> u8 {
        PORTABLE
    }

    /// The level of a rank that is at most [`best_rank`].
    #[inline]
    pub fn of_rank(rank: u8) -> Level {
        match rank {
            // SAFETY: the rank is at most the best one, so the processor has the level.
            #[cfg(target_arch = "x86_64")]
            AVX2 => Level::Avx2(unsafe { Avx2::assume() }),
            // SAFETY: the rank is at most the best one, so the processor has the level.
            #[cfg(target_arch = "x86_64")]
            AVX512 => Level::Avx512(unsafe { Avx512::assume() }),
            _ => Level::Portable(Portable),
        }
    }

    #[cfg(test)]
    pub const LOWEST: u8 = PORTABLE;
}

#[cfg(all(test, feature = "std"))]
mod forced {
    use super::Level;
    use core::cell::Cell;

    std::thread_local! {
        pub static LEVEL: Cell<Option<Level>> = const { Cell::new(None) };
    }

    pub fn level() -> Option<Level> {
        LEVEL.get()
    }
}

/// Runs `f` once for each level that this processor has; what it dispatches goes there.
#[cfg(all(test, feature = "std"))]
pub(crate) fn each_level(f: impl Fn(Level)) {
    for rank in found::LOWEST..=found::best_rank() {
        let level = found::of_rank(rank);
        forced::LEVEL.set(Some(level));
        f(level);
    }
    forced::LEVEL.set(None);
}
