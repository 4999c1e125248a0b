//! Detects the SIMD level of the processor, and runs code at it.

#[cfg(x86_avx2)]
use super::Avx2;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
use super::Neon;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use super::Simd128;
#[cfg(x86_avx512)]
use super::{Amx, Avx512};
use super::{Portable, Simd, WithSimd};

/// A level, with its token.
#[derive(Clone, Copy, Debug)]
pub enum Level {
    /// Any processor.
    Portable(Portable),
    /// AVX2 with FMA.
    #[cfg(x86_avx2)]
    Avx2(Avx2),
    /// AVX-512.
    #[cfg(x86_avx512)]
    Avx512(Avx512),
    /// AVX-512, with AMX for products of int8 and `bfloat16` numbers.
    #[cfg(x86_avx512)]
    Amx(Amx),
    /// NEON.
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    Neon(Neon),
    /// WebAssembly's 128-bit vectors.
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    Simd128(Simd128),
}

/// Runs `op` at the best level that the processor has.
///
/// With the feature `std` the first call detects the level, and the environment variable
/// `ONNXC_SIMD` (`portable`, `avx2`, `avx512`, `amx`, `neon`) may lower it. Without `std` it is the
/// level that the crate was compiled for.
#[inline(always)]
pub fn dispatch<O: WithSimd>(op: O) -> O::Output {
    match level() {
        Level::Portable(s) => s.run(op),
        #[cfg(x86_avx2)]
        Level::Avx2(s) => s.run(op),
        #[cfg(x86_avx512)]
        Level::Avx512(s) | Level::Amx(Amx(s)) => s.run(op),
        #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
        Level::Neon(s) => s.run(op),
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        Level::Simd128(s) => s.run(op),
    }
}

/// Returns whether the level has an instruction for pairs, so that [`dispatch_pairs`] pays.
#[inline(always)]
pub(crate) fn has_pairs() -> bool {
    match level() {
        #[cfg(x86_avx512)]
        Level::Avx512(s) | Level::Amx(Amx(s)) => s.with_bf16().is_some(),
        _ => false,
    }
}

/// Runs `op` at the level that has an instruction for pairs, or at the portable one.
#[inline(always)]
pub(crate) fn dispatch_pairs<O: WithSimd>(op: O) -> O::Output {
    match level() {
        #[cfg(x86_avx512)]
        Level::Avx512(s) | Level::Amx(Amx(s)) => match s.with_bf16() {
            Some(s) => s.run(op),
            None => Portable.run(op),
        },
        _ => Portable.run(op),
    }
}

/// Returns the token of the processor's tiles, if the level has them.
#[cfg(x86_avx512)]
#[inline(always)]
pub(crate) fn tiles() -> Option<Amx> {
    #[cfg(all(test, feature = "std"))]
    forced::WANTS_TILES.set(true);
    match level() {
        Level::Amx(amx) => Some(amx),
        _ => None,
    }
}

/// Returns the level that [`dispatch`] uses.
#[cfg(feature = "std")]
#[inline]
pub fn level() -> Level {
    #[cfg(any(test, feature = "portable-scope"))]
    if let Some(level) = forced::level() {
        return level;
    }
    found::level()
}

/// Returns the level that [`dispatch`] uses.
#[cfg(not(feature = "std"))]
#[inline(always)]
pub fn level() -> Level {
    of_rank(native::compiled_rank())
}

/// Returns the level of a rank, which the processor has: 0 is the portable one, the others are
/// [`native`]'s.
#[inline(always)]
fn of_rank(rank: u8) -> Level {
    // SAFETY: callers pass ranks up to the best one, or that of tiles if these are emulated.
    unsafe { native::of_rank(rank) }.unwrap_or(Level::Portable(Portable))
}

/// The levels of x86-64.
#[cfg(x86_avx2)]
mod native {
    use super::*;
    #[cfg(feature = "std")]
    use std::is_x86_feature_detected as has;

    /// The names of the levels from rank 1 on, for `ONNXC_SIMD`.
    #[cfg(feature = "std")]
    pub const NAMES: [&str; 3] = ["avx2", "avx512", "amx"];

    /// Returns the level of a rank above 0.
    ///
    /// # Safety
    ///
    /// The processor has the level.
    #[inline(always)]
    pub unsafe fn of_rank(rank: u8) -> Option<Level> {
        match rank {
            // SAFETY: by this function's contract, the processor has the level.
            1 => Some(Level::Avx2(unsafe { Avx2::assume() })),
            #[cfg(x86_avx512)]
            // SAFETY: by this function's contract, the processor has the level.
            2 => Some(Level::Avx512(unsafe { Avx512::assume() })),
            #[cfg(x86_avx512)]
            // SAFETY: by this function's contract, the processor has the level.
            3 => Some(Level::Amx(unsafe { Amx::assume() })),
            _ => None,
        }
    }

    /// Returns the rank of the best level that the processor and this build have.
    #[cfg(feature = "std")]
    pub fn best_rank() -> u8 {
        if has!("avx2") && has!("fma") { 1 + ranks_above_avx2() } else { 0 }
    }

    /// Returns the number of levels above AVX2 that the processor has.
    #[cfg(all(feature = "std", x86_avx512))]
    fn ranks_above_avx2() -> u8 {
        if !(has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl")) {
            0
        } else if has!("avx512vnni") && has!("avx512bf16") && crate::simd::amx::is_granted() {
            2
        } else {
            1
        }
    }

    #[cfg(all(feature = "std", not(x86_avx512)))]
    fn ranks_above_avx2() -> u8 {
        0
    }

    /// Returns the rank of the level with tiles if the processor lacks only their instructions,
    /// which are emulated then.
    #[cfg(all(test, feature = "std"))]
    pub fn emulated_rank() -> Option<u8> {
        #[cfg(all(target_os = "linux", x86_avx512))]
        if best_rank() == 2 && has!("avx512vnni") && has!("avx512bf16") {
            crate::simd::amx::emulated::install();
            return Some(3);
        }
        None
    }

    /// Returns the rank of the best level that the crate is compiled for. Tiles are excluded: the
    /// operating system has to grant them.
    #[cfg(not(feature = "std"))]
    pub const fn compiled_rank() -> u8 {
        if cfg!(not(all(target_feature = "avx2", target_feature = "fma"))) {
            0
        } else if cfg!(all(
            x86_avx512,
            target_feature = "avx512f",
            target_feature = "avx512bw",
            target_feature = "avx512dq",
            target_feature = "avx512vl"
        )) {
            2
        } else {
            1
        }
    }
}

/// The level of a target that has one kind of vectors, on all of its processors, or none; or of
/// x86-64 without the levels that need detection.
#[cfg(not(x86_avx2))]
mod native {
    use super::*;

    /// The names of the levels from rank 1 on, for `ONNXC_SIMD`.
    #[cfg(feature = "std")]
    pub const NAMES: [&str; 1] = ["neon"];

    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    const LEVEL: Option<Level> = Some(Level::Neon(Neon));
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    const LEVEL: Option<Level> = Some(Level::Simd128(Simd128));
    #[cfg(not(any(
        all(target_arch = "aarch64", target_feature = "neon"),
        all(target_arch = "wasm32", target_feature = "simd128")
    )))]
    const LEVEL: Option<Level> = None;

    /// Returns the level of a rank above 0.
    ///
    /// # Safety
    ///
    /// The processor has the level.
    #[inline(always)]
    pub unsafe fn of_rank(rank: u8) -> Option<Level> {
        if rank == 0 { None } else { LEVEL }
    }

    /// Returns the rank of the best level that the processor has.
    #[cfg(feature = "std")]
    pub fn best_rank() -> u8 {
        compiled_rank()
    }

    /// Returns `None`: no level is emulated.
    #[cfg(all(test, feature = "std"))]
    pub fn emulated_rank() -> Option<u8> {
        None
    }

    /// Returns the rank of the best level that the crate is compiled for.
    pub const fn compiled_rank() -> u8 {
        LEVEL.is_some() as u8
    }
}

#[cfg(feature = "std")]
mod found {
    use super::*;
    use core::sync::atomic::{AtomicU8, Ordering};

    const UNKNOWN: u8 = u8::MAX;

    static RANK: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[inline]
    pub fn level() -> Level {
        let rank = RANK.load(Ordering::Relaxed);
        if rank == UNKNOWN { look() } else { of_rank(rank) }
    }

    /// Reads the processor's features and the environment. Concurrent calls find the same level.
    #[cold]
    fn look() -> Level {
        let asked = std::env::var("ONNXC_SIMD").ok().and_then(|name| rank(&name));
        let best = native::best_rank();
        let rank = asked.map_or(best, |rank| rank.min(best));
        RANK.store(rank, Ordering::Relaxed);
        of_rank(rank)
    }

    /// Returns the rank of the level with this name.
    fn rank(name: &str) -> Option<u8> {
        let names = ["portable"].into_iter().chain(native::NAMES);
        (0..).zip(names).find(|&(_, known)| known == name).map(|(rank, _)| rank)
    }
}

/// The level that a scope forces on its thread.
#[cfg(any(all(test, feature = "std"), feature = "portable-scope"))]
mod forced {
    use super::Level;
    use core::cell::Cell;

    std::thread_local! {
        pub static LEVEL: Cell<Option<Level>> = const { Cell::new(None) };
        /// Whether the code under test asked for tiles on this thread, which runs the first part of
        /// all shared work.
        #[cfg(test)]
        pub static WANTS_TILES: Cell<bool> = const { Cell::new(false) };
    }

    #[inline]
    pub fn level() -> Option<Level> {
        LEVEL.get()
    }
}

/// Runs `f` with the kernels of this thread at the portable level: their results have the same bits
/// on every processor.
#[cfg(feature = "portable-scope")]
pub fn run_portably<R>(f: impl FnOnce() -> R) -> R {
    at_level(Some(Level::Portable(Portable)), f)
}

/// Runs `f` once for each level that this processor has, and makes [`dispatch`] use it. If `f` asks
/// for tiles, it also runs with emulated ones, which differ from the level below in nothing else.
#[cfg(all(test, feature = "std"))]
pub(crate) fn each_level(f: impl Fn(Level)) {
    let run = |rank| {
        let level = of_rank(rank);
        at_level(Some(level), || f(level));
    };
    forced::WANTS_TILES.set(false);
    (0..=native::best_rank()).for_each(run);
    if forced::WANTS_TILES.get()
        && let Some(rank) = native::emulated_rank()
    {
        run(rank);
    }
}

/// Returns the level that a scope around the caller forces.
#[cfg(all(any(test, feature = "portable-scope"), feature = "threads"))]
pub(crate) fn forced_level() -> Option<Level> {
    forced::level()
}

/// Runs `f` at a level, or at the best one if `level` is `None`.
#[cfg(any(all(test, feature = "std"), feature = "portable-scope"))]
pub(crate) fn at_level<R>(level: Option<Level>, f: impl FnOnce() -> R) -> R {
    /// Restores the level of the scope around this one, even if `f` panics.
    struct Restore(Option<Level>);

    impl Drop for Restore {
        fn drop(&mut self) {
            forced::LEVEL.set(self.0);
        }
    }

    let _restore = Restore(forced::LEVEL.replace(level));
    f()
}
