//! Vectors at one SIMD level. A kernel is written once against [`Simd`]; a level is one file of
//! this folder, and [`dispatch`] runs the kernel at the best level that the processor has.
//!
//! **Inlining is required.** Code that runs at a level must be inlined into the level's own
//! function, or its vector operations become calls that are fifty times slower. So
//! [`WithSimd::run`], [`Pointwise::apply`], all functions that take a token, and all closures in
//! them are `#[inline(always)]`.
//!
//! **A level's own functions stay small.** The time to compile a function grows faster than its
//! length. A kernel with many tiles runs each of them, or a few, with [`Simd::run`]: a call, which
//! is not inlined, for the work of hundreds of cycles.

#[cfg(x86_avx512)]
pub(crate) mod amx;
#[cfg(x86_avx2)]
mod avx2;
#[cfg(x86_avx512)]
mod avx512;
pub(crate) mod bf16_pair;
pub(crate) mod dot;
pub mod int8;
mod level;
mod map;
pub mod math;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon;
#[cfg(any(test, not(x86_sse2)))]
mod portable;
#[cfg(x86_avx2)]
mod prefetch;
pub(crate) mod scalar_tile;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;
pub(crate) mod square;
#[cfg(x86_sse2)]
mod sse2;
pub(crate) mod taps;
#[cfg(all(test, feature = "std"))]
mod tests;

#[cfg(x86_avx512)]
pub use amx::Amx;
#[cfg(x86_avx2)]
pub use avx2::Avx2;
#[cfg(x86_avx512)]
pub use avx512::Avx512;
#[cfg(all(test, feature = "std"))]
pub(crate) use level::each_level;
#[cfg(feature = "portable-scope")]
pub use level::run_portably;
#[cfg(x86_avx512)]
pub(crate) use level::tiles;
pub use level::{Level, dispatch, level};
#[cfg(all(any(test, feature = "portable-scope"), feature = "threads"))]
pub(crate) use level::{at_level, forced_level};
pub(crate) use level::{dispatch_pairs, has_pairs};
pub(crate) use map::{Elements, share};
pub use map::{Pointwise, map, map_at};
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
pub use neon::Neon;
#[cfg(not(x86_sse2))]
pub use portable::Portable;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub use simd128::Simd128;
#[cfg(x86_sse2)]
pub use sse2::Portable;

/// Whether the target has vectors. If it has none, loops over single numbers are as fast as those
/// over arrays, and smaller.
pub const HAS_VECTORS: bool = cfg!(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_feature = "neon"),
    all(target_arch = "wasm32", target_feature = "simd128")
));

/// The largest number of `f32` lanes of a vector at any level.
pub const MAX_LANES: usize = 16;

/// Code that is written once for all levels: the struct holds the arguments, `run` is the body.
pub trait WithSimd {
    /// The result.
    type Output;

    /// Runs at the level `s`. Every implementation must be `#[inline(always)]`.
    fn run<S: Simd>(self, s: S) -> Self::Output;
}

mod sealed {
    /// Restricts levels to those of this library: kernels rely on the sizes that a level declares.
    pub trait Sealed: Copy + 'static {}
}
use sealed::Sealed;

/// The vector operations of one level.
///
/// A value of the type is a token that proves that the processor has the level: only `level` and
/// the level's own constructors create one.
///
/// ```
/// use onnxc_runtime::simd::{Simd, WithSimd, dispatch};
///
/// struct SumOfSquares<'a>(&'a [f32]);
///
/// impl WithSimd for SumOfSquares<'_> {
///     type Output = f32;
///
///     #[inline(always)]
///     fn run<S: Simd>(self, s: S) -> f32 {
///         let mut sum = s.splat(0.0);
///         for x in self.0.chunks(S::LANES) {
///             let x = s.load_head(x);
///             sum = s.mul_add(x, x, sum);
///         }
///         s.sum(sum)
///     }
/// }
///
/// assert_eq!(dispatch(SumOfSquares(&[1.0, 2.0, 3.0])), 14.0);
/// ```
pub trait Simd: Sealed {
    /// A vector of `f32`.
    type F32: Copy;
    /// A vector of `i32`, with as many lanes.
    type I32: Copy;
    /// A vector of `f64`, with half as many lanes.
    type F64: Copy;
    /// A boolean for each lane.
    type Mask: Copy;

    /// The number of `f32` lanes of a vector: a power of two, at most [`MAX_LANES`].
    const LANES: usize;
    /// Whether the level has no vectors, so that each accumulator takes a scalar register
    /// (`scalar_tile`).
    const IS_SCALAR: bool = false;
    /// Whether [`gather`](Simd::gather) is one instruction.
    const GATHERS: bool = false;
    /// Whether [`lookup`](Simd::lookup) is one instruction.
    const LOOKS_UP: bool = false;
    /// Whether [`mul_add`](Simd::mul_add) is one instruction, which rounds once.
    const FUSES: bool = false;

    /// Runs `op` compiled for this level, on x86-64 in a function of its own.
    fn run<O: WithSimd>(self, op: O) -> O::Output;

    /// Returns `x` in every lane.
    fn splat(self, x: f32) -> Self::F32;
    /// Loads the first `LANES` elements of a slice, which must have as many.
    fn load(self, from: &[f32]) -> Self::F32;
    /// [`load`](Simd::load) for a function whose value replaces the elements. The compiler does not
    /// see where the vector comes from. Otherwise it stores only the lanes that a function changes,
    /// by a masked store, which takes ten times as long at AVX2 on AMD's processors.
    #[inline(always)]
    fn load_for_update(self, from: &[f32]) -> Self::F32 {
        self.load(from)
    }
    /// Returns its operands, without the compiler knowing that: what is read from the index `next`
    /// comes after `sum`. Otherwise it may load the factors of all sums first, and spill sums to
    /// the stack.
    #[inline(always)]
    fn in_turn(self, sum: Self::F32, next: usize) -> (Self::F32, usize) {
        (sum, next)
    }
    /// Stores to the first `LANES` elements of a slice, which must have as many.
    fn store(self, x: Self::F32, to: &mut [f32]);
    /// Loads `LANES` elements from an address.
    ///
    /// # Safety
    ///
    /// `LANES` elements can be read from `from`, which is aligned for one of them.
    unsafe fn load_at(self, from: *const f32) -> Self::F32;
    /// Loads two elements from an address, which all pairs of lanes repeat.
    ///
    /// # Safety
    ///
    /// Two elements can be read from `from`, which is aligned for one of them.
    #[inline(always)]
    unsafe fn repeat_two(self, from: *const f32) -> Self::F32 {
        // SAFETY: by this function's contract, the elements can be read.
        let [a, b] = unsafe { from.cast::<[f32; 2]>().read() };
        self.load(&[a, b, a, b, a, b, a, b, a, b, a, b, a, b, a, b])
    }
    /// Loads four elements from an address, which all fours of lanes repeat.
    ///
    /// # Safety
    ///
    /// Four elements can be read from `from`, which is aligned for one of them.
    #[inline(always)]
    unsafe fn repeat_four(self, from: *const f32) -> Self::F32 {
        // SAFETY: by this function's contract, the elements can be read.
        let [a, b, c, d] = unsafe { from.cast::<[f32; 4]>().read() };
        self.load(&[a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d])
    }
    /// Stores `LANES` elements at an address.
    ///
    /// # Safety
    ///
    /// `LANES` elements can be written to `to`, which is aligned for one of them.
    unsafe fn store_at(self, x: Self::F32, to: *mut f32);
    /// Stores four rows as columns: column `j` is the four elements from `j · apart` on.
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

    /// Transposes the square of the first `LANES` rows.
    #[inline(always)]
    fn transpose(self, rows: &mut [Self::F32; MAX_LANES]) {
        // Each round rotates the bits of the index of an element, `row · LANES + lane`, by one.
        for _ in 0..Self::LANES.ilog2() {
            let from = *rows;
            for i in 0..Self::LANES / 2 {
                let [evens, odds] = self.evens_and_odds(from[2 * i], from[2 * i + 1]);
                (rows[i], rows[i + Self::LANES / 2]) = (evens, odds);
            }
        }
    }

    /// Prefetches the cache line that is `ahead` elements behind an address into the L1 cache, if
    /// the level can.
    #[inline(always)]
    fn prefetch<T>(self, _: *const T, _: usize) {}
    /// Prefetches the cache line of an address into the L2 cache, if the level can.
    #[inline(always)]
    fn prefetch_l2<T>(self, _: *const T) {}

    /// `a + b`.
    fn add(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a - b`.
    fn sub(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a · b`.
    fn mul(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a / b`.
    fn div(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// `a · b + c`, rounded once if the level has the instruction.
    fn mul_add(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32;
    /// Rounds the numbers of two vectors to `bfloat16`. A lane of the result holds a pair of
    /// neighbors, the first in its lower half; the pairs of the first vector come first. NaN stays
    /// NaN.
    #[inline(always)]
    fn pairs(self, x: [Self::F32; 2]) -> Self::F32 {
        bf16_pair::round_pairs(self, x)
    }
    /// `a0 · b0 + a1 · b1 + c` for pairs of `bfloat16` numbers. Subnormal numbers may count as
    /// zeros.
    #[inline(always)]
    fn add_pairs(self, a: Self::F32, b: Self::F32, c: Self::F32) -> Self::F32 {
        bf16_pair::add(self, a, b, c)
    }
    /// Returns the first and the second numbers of pairs, as `f32`.
    #[inline(always)]
    fn split(self, pairs: Self::F32) -> [Self::F32; 2] {
        let bits = self.bits(pairs);
        let second = self.and_i32(bits, self.splat_i32(-1 << 16));
        [self.with_bits(self.shl_i32::<16>(bits)), self.with_bits(second)]
    }
    /// Returns the even lanes of `a` and `b`, and the odd ones.
    fn evens_and_odds(self, a: Self::F32, b: Self::F32) -> [Self::F32; 2];
    /// The larger of the two; `b` if either is NaN.
    fn max(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// The smaller of the two; `b` if either is NaN.
    fn min(self, a: Self::F32, b: Self::F32) -> Self::F32;
    /// The square root.
    fn sqrt(self, x: Self::F32) -> Self::F32;
    /// Rounds to the nearest integer, ties to even.
    fn round(self, x: Self::F32) -> Self::F32;
    /// Rounds down to an integer.
    fn floor(self, x: Self::F32) -> Self::F32;
    /// Rounds up to an integer.
    fn ceil(self, x: Self::F32) -> Self::F32;
    /// `x · 2^n` for an integer `n` in `-252..=254`, rounded once if `|x|` is from 1/2 to 2.
    fn scale(self, x: Self::F32, n: Self::F32) -> Self::F32;
    /// [`scale`](Simd::scale) for `|x|` from 1/2 to 2 and `n` in `-160..=0`.
    #[inline(always)]
    fn scale_down(self, x: Self::F32, n: Self::F32) -> Self::F32 {
        self.scale(x, n)
    }

    /// `a < b`; false if either is NaN.
    fn lt(self, a: Self::F32, b: Self::F32) -> Self::Mask;
    /// `a <= b`; false if either is NaN.
    fn le(self, a: Self::F32, b: Self::F32) -> Self::Mask;
    /// `a == b`; false if either is NaN.
    fn eq(self, a: Self::F32, b: Self::F32) -> Self::Mask;
    /// `a` where the mask is true, `b` elsewhere.
    fn select(self, mask: Self::Mask, a: Self::F32, b: Self::F32) -> Self::F32;

    /// Returns whether the mask is true for any lane.
    fn any(self, mask: Self::Mask) -> bool;

    /// Returns the bits of each lane.
    fn bits(self, x: Self::F32) -> Self::I32;
    /// Returns the numbers that have these bits.
    fn with_bits(self, x: Self::I32) -> Self::F32;
    /// Converts to the nearest integer, ties to even, which must fit.
    fn to_i32(self, x: Self::F32) -> Self::I32;
    /// Converts to the nearest `f32`.
    fn to_f32(self, x: Self::I32) -> Self::F32;
    /// Returns `x` in every lane.
    fn splat_i32(self, x: i32) -> Self::I32;
    /// `a + b`, wrapping.
    fn add_i32(self, a: Self::I32, b: Self::I32) -> Self::I32;
    /// `a - b`, wrapping.
    fn sub_i32(self, a: Self::I32, b: Self::I32) -> Self::I32;
    /// Bitwise AND.
    fn and_i32(self, a: Self::I32, b: Self::I32) -> Self::I32;
    /// Bitwise OR.
    fn or_i32(self, a: Self::I32, b: Self::I32) -> Self::I32;
    /// Shifts left by `N` bits.
    fn shl_i32<const N: i32>(self, x: Self::I32) -> Self::I32;
    /// Shifts right by `N` bits, arithmetically: `x / 2^N`, rounded down.
    fn shr_i32<const N: i32>(self, x: Self::I32) -> Self::I32;

    /// Loads the elements at the unsigned indices `at`. Indices behind the end load the last
    /// element; the slice must not be empty.
    #[inline(always)]
    fn gather(self, from: &[f32], at: Self::I32) -> Self::F32 {
        let mut numbers = [0.0; MAX_LANES];
        self.store(self.with_bits(at), &mut numbers);
        for number in &mut numbers[..Self::LANES] {
            *number = from[(number.to_bits() as usize).min(from.len() - 1)];
        }
        self.load(&numbers)
    }
    /// Loads the elements at the unsigned indices `at`, like [`gather`](Simd::gather).
    #[inline(always)]
    fn gather_u32(self, from: &[u32], at: Self::I32) -> Self::I32 {
        let mut numbers = [0.0; MAX_LANES];
        self.store(self.with_bits(at), &mut numbers);
        for number in &mut numbers[..Self::LANES] {
            *number = f32::from_bits(from[(number.to_bits() as usize).min(from.len() - 1)]);
        }
        self.bits(self.load(&numbers))
    }

    /// Loads the elements of `table` at the lowest four bits of the lanes.
    #[inline(always)]
    fn lookup(self, table: &[f32; 16], at: Self::I32) -> Self::F32 {
        self.gather(table, self.and_i32(at, self.splat_i32(15)))
    }

    /// Returns the sum of all lanes.
    fn sum(self, x: Self::F32) -> f32;
    /// Returns the largest lane; any lane if one is NaN.
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

    /// Returns `x` in every lane.
    fn splat_f64(self, x: f64) -> Self::F64;
    /// Loads `LANES / 2` elements from an address.
    ///
    /// # Safety
    ///
    /// `LANES / 2` elements can be read from `from`, which is aligned for one of them.
    unsafe fn load_f64_at(self, from: *const f64) -> Self::F64;
    /// Stores `LANES / 2` elements at an address.
    ///
    /// # Safety
    ///
    /// `LANES / 2` elements can be written to `to`, which is aligned for one of them.
    unsafe fn store_f64_at(self, x: Self::F64, to: *mut f64);
    /// `a + b`.
    fn add_f64(self, a: Self::F64, b: Self::F64) -> Self::F64;
    /// The larger of the two; `b` if either is NaN.
    fn max_f64(self, a: Self::F64, b: Self::F64) -> Self::F64;
    /// The smaller of the two; `b` if either is NaN.
    fn min_f64(self, a: Self::F64, b: Self::F64) -> Self::F64;
    /// `a · b + c`, rounded once if the level has the instruction.
    fn mul_add_f64(self, a: Self::F64, b: Self::F64, c: Self::F64) -> Self::F64;

    /// Returns the sum of all lanes.
    fn sum_f64(self, x: Self::F64) -> f64;

    /// Loads a slice that may be shorter than a vector, filled with zeros.
    #[inline(always)]
    fn load_head_f64(self, from: &[f64]) -> Self::F64 {
        let mut whole = [0.0; MAX_LANES / 2];
        let n = from.len().min(Self::LANES / 2);
        whole[..n].copy_from_slice(&from[..n]);
        // SAFETY: the array has `MAX_LANES / 2` elements, at least a vector.
        unsafe { self.load_f64_at(whole.as_ptr()) }
    }

    /// Stores the first lanes, up to the length of the slice.
    #[inline(always)]
    fn store_head_f64(self, x: Self::F64, to: &mut [f64]) {
        let mut whole = [0.0; MAX_LANES / 2];
        // SAFETY: the array has `MAX_LANES / 2` elements, at least a vector.
        unsafe { self.store_f64_at(x, whole.as_mut_ptr()) };
        let n = to.len().min(Self::LANES / 2);
        to[..n].copy_from_slice(&whole[..n]);
    }

    /// Loads a slice that may be shorter than a vector, filled with zeros.
    #[inline(always)]
    fn load_head(self, from: &[f32]) -> Self::F32 {
        if from.len() >= Self::LANES {
            return self.load(from);
        }
        let mut whole = [0.0; MAX_LANES];
        whole[..from.len()].copy_from_slice(from);
        self.load(&whole)
    }

    /// Loads a slice that may be shorter than a vector, filled with `fill`.
    #[inline(always)]
    fn load_head_or(self, from: &[f32], fill: f32) -> Self::F32 {
        let mut whole = [fill; MAX_LANES];
        let n = from.len().min(Self::LANES);
        whole[..n].copy_from_slice(&from[..n]);
        self.load(&whole)
    }

    /// Stores the first lanes, up to the length of the slice.
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

    /// Folds the lanes, in order, by a function of two numbers.
    #[inline(always)]
    fn fold(self, x: Self::F32, f: impl Fn(f32, f32) -> f32) -> f32 {
        let mut whole = [0.0; MAX_LANES];
        self.store(x, &mut whole);
        whole[1..Self::LANES].iter().fold(whole[0], |a, &b| f(a, b))
    }
}

/// Defines the methods of a level whose body is one expression of its instructions. The processor
/// has them: a token of the level exists only if it does.
#[allow(unused_macros, reason = "a target without vectors has no level of its own")]
macro_rules! instructions {
    ($($name:ident $(<const $N:ident>)? ($($x:ident: $T:ty),*) -> $R:ty = $body:expr;)*) => {$(
        #[inline(always)]
        #[allow(unused_unsafe, reason = "instructions that all of a target has are safe there")]
        fn $name $(<const $N: i32>)? (self, $($x: $T),*) -> $R {
            // SAFETY: `self` is a token, so the processor has the level's instructions.
            unsafe { $body }
        }
    )*};
}
#[allow(unused_imports, reason = "a target without vectors has no level of its own")]
pub(crate) use instructions;
