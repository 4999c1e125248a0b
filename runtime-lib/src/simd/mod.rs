//! Vectors at one SIMD level. A kernel is written once against [`Simd`]; a level is one file of
//! this folder, and [`dispatch`] runs the kernel at the best level that the processor has.
//!
//! **The trap.** Whatever runs at a level must be inlined into the level's own function, or its
//! vector operations become calls that are fifty times slower. So [`WithSimd::run`],
//! [`Pointwise::apply`], all functions that take a token, and all closures in them are
//! `#[inline(always)]`.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod bf16_pair;
pub(crate) mod dot;
pub mod int8;
mod level;
mod map;
pub mod math;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon;
mod portable;
#[cfg(target_arch = "x86_64")]
mod prefetch;
pub(crate) mod scalar_tile;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;
#[cfg(all(test, feature = "std"))]
mod tests;

#[cfg(target_arch = "x86_64")]
pub use amx::Amx;
#[cfg(target_arch = "x86_64")]
pub use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub use avx512::Avx512;
#[cfg(all(test, feature = "std"))]
pub(crate) use level::each_level;
#[cfg(target_arch = "x86_64")]
pub(crate) use level::tiles;
pub use level::{Level, dispatch, level};
#[cfg(all(test, feature = "threads"))]
pub(crate) use level::{at_level, forced_level};
pub(crate) use level::{dispatch_pairs, has_pairs};
pub use map::{Pointwise, map, map_at, map_in_place, map_in_place_at};
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
pub use neon::Neon;
pub use portable::Portable;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub use simd128::Simd128;

/// Whether the target has vectors. Where it has none, loops over single numbers are as fast as
/// those over arrays, and smaller.
pub const HAS_VECTORS: bool = cfg!(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon"),
    all(target_arch = "wasm32", target_feature = "simd128")
));

/// The most `f32` that a vector holds at any level.
pub const MAX_LANES: usize = 16;

/// Work that is written once for all levels: the struct holds the arguments, `run` is the body.
pub trait WithSimd {
    /// What the work returns.
    type Output;

    /// Does the work at the level `s`. Every implementation must be `#[inline(always)]`.
    fn run<S: Simd>(self, s: S) -> Self::Output;
}

mod sealed {
    /// A level of this library. There can be no others, for kernels rely on what a level says of its vectors.
    pub trait Sealed: Copy + 'static {}
}
use sealed::Sealed;

/// The operations of one level. To hold a value of the type is the proof that the processor has
/// the level: only [`level`] and the level's own constructors make one.
pub trait Simd: Sealed {
    /// A vector of `f32`.
    type F32: Copy;
    /// A vector of `i32`, with as many lanes.
    type I32: Copy;
    /// A vector of `f64`, with half as many lanes.
    type F64: Copy;
    /// True or false for each lane.
    type Mask: Copy;

    /// How many `f32` a vector holds: a power of two, at most [`MAX_LANES`].
    const LANES: usize;
    /// Whether there are no vectors, so that each sum has a register of its own
    /// (`scalar_tile`).
    const IS_SCALAR: bool = false;
    /// Whether [`gather`](Simd::gather) is an instruction.
    const GATHERS: bool = false;
    /// Whether [`mul_add`](Simd::mul_add) is one, and rounds once.
    const FUSES: bool = false;

    /// Runs `op` compiled for this level.
    fn run<O: WithSimd>(self, op: O) -> O::Output;

    /// `x` in every lane.
    fn splat(self, x: f32) -> Self::F32;
    /// The first `LANES` elements of a slice that has as many.
    fn load(self, from: &[f32]) -> Self::F32;
    /// Writes the first `LANES` elements of a slice that has as many.
    fn store(self, x: Self::F32, to: &mut [f32]);
    /// `LANES` elements from an address.
    ///
    /// # Safety
    /// The elements at the address can be read; the address is aligned for one of them.
    unsafe fn load_at(self, from: *const f32) -> Self::F32;
    /// Writes `LANES` elements at an address.
    ///
    /// # Safety
    /// The elements at the address can be written; the address is aligned for one of them.
    unsafe fn store_at(self, x: Self::F32, to: *mut f32);
    /// Writes four rows as columns: column `j` of the rows is the four elements from `j · apart` on.
    #[inline(always)]
    fn store_columns(self, rows: [Self::F32; 4], to: &mut [f32], apart: usize) {
        let mut numbers = [[0.0; MAX_LANES]; 4];
        for (numbers, row) in numbers.iter_mut().zip(rows) {
            self.store(row, numbers);
        }
        for j in 0..Self::LANES {
            let to = &mut to[j * apart..][..4];
            to.iter_mut().zip(&numbers).for_each(|(to, row)| *to = row[j]);
        }
    }

    /// Asks that the line of memory so many elements behind an address be brought near, if there is
    /// one.
    #[inline(always)]
    fn prefetch<T>(self, _: *const T, _: usize) {}
    /// Likewise, not quite so near: as near as a second-level cache.
    #[inline(always)]
    fn prefetch_for_later<T>(self, _: *const T) {}

    /// `a + b`.
    fn add(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a - b`.
    fn sub(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a · b`.
    fn mul(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a / b`.
    fn div(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a · b + c`, rounded once where the level has the instruction.
    fn mul_add(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// The numbers of two vectors, rounded to `bfloat16`: a lane has the bits of two neighbors, the
    /// first in the lower half. It begins with those of the first vector. NaN stays NaN.
    #[inline(always)]
    fn pairs(self, x: [Self::F32; 2]) -> Self::F32 {
        bf16_pair::rounded(self, x)
    }
    /// `a0 · b0 + a1 · b1 + c`, for the pairs that lanes of `a` and `b` have the bits of. Numbers that
    /// are less than normal may count as zeros.
    #[inline(always)]
    fn add_pairs(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32 {
        bf16_pair::add(self, a, b, c)
    }
    /// The first and the second numbers of pairs.
    #[inline(always)]
    fn split(self, pairs: Self::F32) -> [Self::F32; 2] {
        let bits = self.bits(pairs);
        let second = self.and_i32(bits, self.splat_i32(-1 << 16));
        [self.with_bits(self.shl_i32::<16>(bits)), self.with_bits(second)]
    }
    /// The even lanes of two vectors, one after the other, and the odd ones.
    fn evens_and_odds(self, a: Self::F32, b: Self::F32) -> [Self::F32; 2];
    /// The larger of the two; `b` where either is NaN.
    fn max(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// The smaller of the two; `b` where either is NaN.
    fn min(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// The square root.
    fn sqrt(self, x: Self::F32) -> Self::F32;
    /// The nearest whole number; halves go to the even one.
    fn round(self, x: Self::F32) -> Self::F32;
    /// The largest whole number that is not larger.
    fn floor(self, x: Self::F32) -> Self::F32;
    /// The smallest whole number that is not smaller.
    fn ceil(self, x: Self::F32) -> Self::F32;
    /// `x · 2^n` for a whole `n` in `-252..=254`, rounded once where `|x|` is from 1/2 to 2.
    fn scale(self, x: Self::F32, n: Self::F32) -> Self::F32;

    /// `a < b`; false where either is NaN.
    fn lt(self, a: Self::F32, b: Self::F32) -> Self::Mask;
    /// `a <= b`; false where either is NaN.
    fn le(self, a: Self::F32, b: Self::F32) -> Self::Mask;
    /// `a == b`; false where either is NaN.
    fn eq(self, a: Self::F32, b: Self::F32) -> Self::Mask;
    /// `a` where the mask is true, `b` elsewhere.
    fn select(self, mask: Self::Mask, a: Self::F32, b: Self::F32) -> Self::F32;

    /// The bits of each lane.
    fn bits(self, x: Self::F32) -> Self::I32;
    /// The number that has these bits.
    fn with_bits(self, x: Self::I32) -> Self::F32;
    /// The nearest whole number, where it fits; halves go to the even one.
    fn to_i32(self, x: Self::F32) -> Self::I32;
    /// The nearest `f32`.
    fn to_f32(self, x: Self::I32) -> Self::F32;
    /// `x` in every lane.
    fn splat_i32(self, x: i32) -> Self::I32;
    /// `a + b`, wrapping around.
    fn add_i32(self, a: Self::I32, b: Self::I32) -> Self::I32;
    /// `a - b`, wrapping around.
    fn sub_i32(self, a: Self::I32, b: Self::I32) -> Self::I32;
    /// Every bit that is set in both.
    fn and_i32(self, a: Self::I32, b: Self::I32) -> Self::I32;
    /// Every bit that is set in either.
    fn or_i32(self, a: Self::I32, b: Self::I32) -> Self::I32;
    /// `x · 2^N`; the high bits leave.
    fn shl_i32<const N: i32>(self, x: Self::I32) -> Self::I32;
    /// `x / 2^N`, rounded down.
    fn shr_i32<const N: i32>(self, x: Self::I32) -> Self::I32;

    /// The elements at these places, which are taken without a sign; behind the end, the last one.
    /// There is an element.
    #[inline(always)]
    fn gather(self, from: &[f32], at: Self::I32) -> Self::F32 {
        let mut numbers = [0.0; MAX_LANES];
        self.store(self.with_bits(at), &mut numbers);
        for number in &mut numbers[..Self::LANES] {
            *number = from[(number.to_bits() as usize).min(from.len() - 1)];
        }
        self.load(&numbers)
    }
    /// Likewise, as an `i32` has the bits.
    #[inline(always)]
    fn gather_u32(self, from: &[u32], at: Self::I32) -> Self::I32 {
        let mut numbers = [0.0; MAX_LANES];
        self.store(self.with_bits(at), &mut numbers);
        for number in &mut numbers[..Self::LANES] {
            *number = f32::from_bits(from[(number.to_bits() as usize).min(from.len() - 1)]);
        }
        self.bits(self.load(&numbers))
    }

    /// The sum of all lanes.
    fn sum(self, x: Self::F32) -> f32;
    /// The largest lane; any where one is NaN.
    #[inline(always)]
    fn largest(self, x: Self::F32) -> f32 {
        let mut lanes = [f32::NEG_INFINITY; MAX_LANES];
        self.store(x, &mut lanes);
        let mut half = Self::LANES;
        while half > 1 {
            half /= 2;
            for i in 0..half {
                lanes[i] = lanes[i].max(lanes[i + half]);
            }
        }
        lanes[0]
    }

    /// `x` in every lane.
    fn splat_f64(self, x: f64) -> Self::F64;
    /// `LANES / 2` elements from an address.
    ///
    /// # Safety
    /// The elements at the address can be read; the address is aligned for one of them.
    unsafe fn load_f64_at(self, from: *const f64) -> Self::F64;
    /// Writes `LANES / 2` elements at an address.
    ///
    /// # Safety
    /// The elements at the address can be written; the address is aligned for one of them.
    unsafe fn store_f64_at(self, x: Self::F64, to: *mut f64);
    /// `a + b`.
    fn add_f64(self, a: Self::F64, b: Self::F64) -> Self::F64;
    /// The larger of the two; `b` where either is NaN.
    fn max_f64(self, a: Self::F64, b: Self::F64) -> Self::F64;
    /// The smaller of the two; `b` where either is NaN.
    fn min_f64(self, a: Self::F64, b: Self::F64) -> Self::F64;
    /// `a · b + c`, rounded once where the level has the instruction.
    fn mul_add_f64(self, a: Self::F64, b: Self::F64, c: Self::F64) -> Self::F64;

    /// The sum of all lanes.
    fn sum_f64(self, x: Self::F64) -> f64;

    /// The elements of a slice that may be shorter than a vector; zeros follow.
    #[inline(always)]
    fn load_head_f64(self, from: &[f64]) -> Self::F64 {
        let mut whole = [0.0; MAX_LANES / 2];
        let n = from.len().min(Self::LANES / 2);
        whole[..n].copy_from_slice(&from[..n]);
        // SAFETY: the array is as long as the longest vector.
        unsafe { self.load_f64_at(whole.as_ptr()) }
    }

    /// Writes as many lanes as a slice has room for.
    #[inline(always)]
    fn store_head_f64(self, x: Self::F64, to: &mut [f64]) {
        let mut whole = [0.0; MAX_LANES / 2];
        // SAFETY: the array is as long as the longest vector.
        unsafe { self.store_f64_at(x, whole.as_mut_ptr()) };
        let n = to.len().min(Self::LANES / 2);
        to[..n].copy_from_slice(&whole[..n]);
    }

    /// The elements of a slice that may be shorter than a vector; zeros follow.
    #[inline(always)]
    fn load_head(self, from: &[f32]) -> Self::F32 {
        if from.len() >= Self::LANES {
            return self.load(from);
        }
        let mut whole = [0.0; MAX_LANES];
        whole[..from.len()].copy_from_slice(from);
        self.load(&whole)
    }

    /// Writes as many lanes as a slice has room for.
    #[inline(always)]
    fn store_head(self, x: Self::F32, to: &mut [f32]) {
        if to.len() >= Self::LANES {
            return self.store(x, to);
        }
        let mut whole = [0.0; MAX_LANES];
        self.store(x, &mut whole);
        to.copy_from_slice(&whole[..to.len()]);
    }

    /// `-x`.
    #[inline(always)]
    fn neg(self, x: Self::F32) -> Self::F32 {
        self.sub(self.splat(-0.0), x)
    }

    /// `|x|`.
    #[inline(always)]
    fn abs(self, x: Self::F32) -> Self::F32 {
        self.with_bits(self.and_i32(self.bits(x), self.splat_i32(i32::MAX)))
    }

    /// `|x|`, with the sign of `sign`.
    #[inline(always)]
    fn copysign(self, x: Self::F32, sign: Self::F32) -> Self::F32 {
        let sign = self.and_i32(self.bits(sign), self.splat_i32(i32::MIN));
        self.with_bits(self.or_i32(self.bits(self.abs(x)), sign))
    }

    /// The lanes, folded by a function of two numbers.
    #[inline(always)]
    fn fold(self, x: Self::F32, f: impl Fn(f32, f32) -> f32) -> f32 {
        let mut whole = [0.0; MAX_LANES];
        self.store(x, &mut whole);
        whole[1..Self::LANES].iter().fold(whole[0], |a, &b| f(a, b))
    }
}

/// Writes the methods of a level whose body is one expression over its instructions. The
/// processor has them: a token exists only where it does.
#[allow(unused_macros, reason = "a target without vectors has no level of its own")]
macro_rules! instructions {
    ($($name:ident $(<const $N:ident>)? ($($x:ident: $T:ty),*) -> $R:ty = $body:expr;)*) => {$(
        #[inline(always)]
        #[allow(unused_unsafe, reason = "instructions that all of a target has are safe there")]
        fn $name $(<const $N: i32>)? (self, $($x: $T),*) -> $R {
            // SAFETY: whoever holds the token has the level.
            unsafe { $body }
        }
    )*};
}
#[allow(unused_imports, reason = "likewise")]
pub(crate) use instructions;
