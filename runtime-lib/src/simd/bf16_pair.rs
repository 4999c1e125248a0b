//! Pairs of `bfloat16` numbers, each in the bits of an `f32`: what is multiplied at once where the
//! processor has the instruction ([`Simd::add_pairs`]).

use super::{MAX_LANES, Simd};

/// Numbers of a pair.
pub const PAIR: usize = 2;

/// The nearest `bfloat16` number, of which an `f32` has the upper half; of two that are as near, the
/// even one.
#[inline(always)]
fn round(x: f32) -> u32 {
    let bits = x.to_bits();
    if x.is_nan() {
        // Its first bit below the exponent keeps it one.
        return bits >> 16 | 1 << 6;
    }
    bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16
}

/// The pair of two numbers, rounded.
#[inline(always)]
pub fn of([first, second]: [f32; PAIR]) -> f32 {
    f32::from_bits(round(first) | round(second) << 16)
}

/// The numbers of a pair.
#[inline(always)]
pub fn split(pair: u32) -> [f32; PAIR] {
    [f32::from_bits(pair << 16), f32::from_bits(pair & !0xffff)]
}

/// [`Simd::pairs`] where it is no instruction.
#[inline(always)]
pub fn rounded<S: Simd>(s: S, [first, second]: [S::F32; PAIR]) -> S::F32 {
    let mut numbers = [0.0; PAIR * MAX_LANES];
    s.store(first, &mut numbers);
    s.store(second, &mut numbers[S::LANES..]);
    let mut pairs = [0.0; MAX_LANES];
    for (pair, &x) in pairs.iter_mut().zip(numbers.as_chunks().0) {
        *pair = of(x);
    }
    s.load(&pairs)
}

/// [`Simd::add_pairs`] where it is no instruction.
#[inline(always)]
pub fn add<S: Simd>(s: S, a: S::F32, b: S::F32, c: S::F32) -> S::F32 {
    let [a, b] = [s.split(a), s.split(b)];
    s.mul_add(a[0], b[0], s.mul_add(a[1], b[1], c))
}

/// Pairs by their bits, as kernels take them.
pub fn words(bits: &[u32]) -> &[f32] {
    // SAFETY: both types are four bytes, of which all bits are allowed.
    unsafe { core::slice::from_raw_parts(bits.as_ptr().cast(), bits.len()) }
}
