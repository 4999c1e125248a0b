//! Pairs of `bfloat16` numbers, stored in the bits of an `f32`. Processors with BF16 instructions
//! multiply pairs at once ([`Simd::add_pairs`]).

use super::{MAX_LANES, Simd};

/// The numbers of a pair.
pub const PAIR: usize = 2;

/// Rounds to the nearest `bfloat16` number, which is the upper half of an `f32`; ties to even.
#[inline(always)]
fn round(x: f32) -> u32 {
    let bits = x.to_bits();
    if x.is_nan() {
        // The highest mantissa bit keeps it a NaN.
        return bits >> 16 | 1 << 6;
    }
    bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16
}

/// Rounds two numbers to a pair.
#[inline(always)]
pub fn of([first, second]: [f32; PAIR]) -> f32 {
    f32::from_bits(round(first) | round(second) << 16)
}

/// Returns the numbers of a pair.
#[inline(always)]
pub fn split(pair: u32) -> [f32; PAIR] {
    [f32::from_bits(pair << 16), f32::from_bits(pair & !0xffff)]
}

/// Computes [`Simd::pairs`] at levels without the instruction.
#[inline(always)]
pub fn round_pairs<S: Simd>(s: S, [first, second]: [S::F32; PAIR]) -> S::F32 {
    let mut numbers = [0.0; PAIR * MAX_LANES];
    s.store(first, &mut numbers);
    s.store(second, &mut numbers[S::LANES..]);
    let mut pairs = [0.0; MAX_LANES];
    for (pair, &x) in pairs.iter_mut().zip(numbers.as_chunks().0) {
        *pair = of(x);
    }
    s.load(&pairs)
}

/// Computes [`Simd::add_pairs`] at levels without the instruction.
#[inline(always)]
pub fn add<S: Simd>(s: S, a: S::F32, b: S::F32, c: S::F32) -> S::F32 {
    let [a, b] = [s.split(a), s.split(b)];
    s.mul_add(a[0], b[0], s.mul_add(a[1], b[1], c))
}

/// Returns the bits of pairs as `f32`, the type that kernels take.
pub fn words(bits: &[u32]) -> &[f32] {
    // SAFETY: both types are four bytes, and all bit patterns of both are valid.
    unsafe { core::slice::from_raw_parts(bits.as_ptr().cast(), bits.len()) }
}
