//! Bytes at WebAssembly's level, which multiplies pairs of 16-bit numbers: even and odd bytes are
//! widened separately.

use super::{Bytes, Ends, MAX_SUMS, Vector, WithBytes};
use crate::simd::{Simd, Simd128, instructions};
use core::arch::wasm32::*;

#[inline(always)]
fn low_pairs(a: v128, b: v128) -> v128 {
    i8x16_shuffle::<0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23>(a, b)
}

#[inline(always)]
fn high_pairs(a: v128, b: v128) -> v128 {
    i8x16_shuffle::<8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31>(a, b)
}

#[inline(always)]
fn low_quads(a: v128, b: v128) -> v128 {
    i16x8_shuffle::<0, 8, 1, 9, 2, 10, 3, 11>(a, b)
}

#[inline(always)]
fn high_quads(a: v128, b: v128) -> v128 {
    i16x8_shuffle::<4, 12, 5, 13, 6, 14, 7, 15>(a, b)
}

#[inline(always)]
fn interleave([a, b, c, d]: [v128; 4]) -> [v128; 4] {
    let (ab, cd) = (low_pairs(a, b), low_pairs(c, d));
    let (ab_high, cd_high) = (high_pairs(a, b), high_pairs(c, d));
    [
        low_quads(ab, cd),
        high_quads(ab, cd),
        low_quads(ab_high, cd_high),
        high_quads(ab_high, cd_high),
    ]
}

#[inline(always)]
fn collect([a, b, c, d]: [v128; 4]) -> v128 {
    u8x16_narrow_i16x8(i16x8_narrow_i32x4(a, b), i16x8_narrow_i32x4(c, d))
}

#[inline(always)]
fn interleave_few(rows: [&[u8; MAX_SUMS]; 4]) -> v128 {
    // SAFETY: every array has sixteen bytes, and four are read.
    let [a, b, c, d] = rows.map(|row| unsafe { v128_load32_zero(row.as_ptr().cast()) });
    low_quads(low_pairs(a, b), low_pairs(c, d))
}

#[inline(always)]
fn mul_high(a: v128, b: v128) -> v128 {
    let (low, high) = (i64x2_extmul_low_i32x4(a, b), i64x2_extmul_high_i32x4(a, b));
    i32x4_shuffle::<1, 3, 5, 7>(low, high)
}

/// Computes [`Bytes::shr_each`] by lanes: no instruction shifts lanes by individual counts.
#[inline(always)]
fn shr_each(a: v128, n: v128) -> v128 {
    i32x4(
        i32x4_extract_lane::<0>(a) >> (i32x4_extract_lane::<0>(n) & 31),
        i32x4_extract_lane::<1>(a) >> (i32x4_extract_lane::<1>(n) & 31),
        i32x4_extract_lane::<2>(a) >> (i32x4_extract_lane::<2>(n) & 31),
        i32x4_extract_lane::<3>(a) >> (i32x4_extract_lane::<3>(n) & 31),
    )
}

/// Returns whether all numbers have so few bits that `f64` represents their product with an `f32`.
#[inline(always)]
fn are_small<const V: usize>(numbers: &[v128; V]) -> bool {
    let mut sizes = i32x4_splat(0);
    for &x in numbers {
        sizes = v128_or(sizes, i32x4_abs(x));
    }
    !v128_any_true(u32x4_shr(sizes, 29))
}

/// Returns the exact products of the two low lanes, rounded.
#[inline(always)]
fn rounded_product(sum: v128, factor: v128) -> v128 {
    let product = f64x2_mul(f64x2_convert_low_i32x4(sum), f64x2_promote_low_f32x4(factor));
    f32x4_demote_f64x2_zero(f64x2_nearest(product))
}

impl Bytes for Simd128 {
    type Level = Simd128;
    const LANES: usize = 4;
    const ROWS: usize = 2;
    const PAIRS: bool = true;
    const ROUNDS: bool = true;

    #[inline(always)]
    fn level(self) -> Simd128 {
        self
    }

    #[inline(always)]
    fn run<O: WithBytes>(self, op: O) {
        op.run(self);
    }

    #[inline(always)]
    unsafe fn load_bytes_at(self, from: *const u8) -> v128 {
        // SAFETY: the caller guarantees the bytes; the load may be unaligned.
        unsafe { v128_load(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_bytes_at(self, x: v128, to: *mut u8) {
        // SAFETY: the caller guarantees the bytes; the store may be unaligned.
        unsafe { v128_store(to.cast(), x) }
    }

    #[inline(always)]
    fn whole_products<const V: usize>(
        self,
        sums: &[v128; V],
        factors: &[v128; V],
        ends: Ends<Self>,
        are_steady: bool,
    ) -> Option<[v128; V]> {
        if !are_steady && !are_small(sums) {
            return None;
        }
        let high = |x| i64x2_shuffle::<1, 1>(x, x);
        let [least, most] = ends.limits;
        let mut whole = *sums;
        for (whole, &factor) in whole.iter_mut().zip(factors) {
            let (sum, [a, b]) = (*whole, [factor, high(factor)]);
            let (low, high) = (rounded_product(sum, a), rounded_product(high(sum), b));
            let product = i64x2_shuffle::<0, 2>(low, high);
            *whole = self.to_i32(self.min(self.max(product, least), most));
            *whole = self.add_i32(*whole, ends.zero);
        }
        Some(whole)
    }

    #[inline(always)]
    fn low_bytes(self, x: Vector<Self>) -> [u8; MAX_SUMS] {
        let mut bytes = [0; MAX_SUMS];
        let low = i8x16_shuffle::<0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12>(x, x);
        // SAFETY: the array has sixteen bytes.
        unsafe { v128_store(bytes.as_mut_ptr().cast(), low) };
        bytes
    }

    instructions! {
        widen_unsigned(bytes: v128) -> [v128; 2] =
            [v128_and(bytes, i16x8_splat(0xff)), u16x8_shr(bytes, 8)];
        widen_signed(bytes: v128) -> [v128; 2] =
            [i16x8_shr(i16x8_shl(bytes, 8), 8), i16x8_shr(bytes, 8)];
        add_pairs(sum: v128, a: v128, b: v128) -> v128 = i32x4_add(sum, i32x4_dot_i16x8(a, b));
        xor(a: v128, b: v128) -> v128 = v128_xor(a, b);
        max_u8(a: v128, b: v128) -> v128 = u8x16_max(a, b);
        min_u8(a: v128, b: v128) -> v128 = u8x16_min(a, b);
        max_i32(a: v128, b: v128) -> v128 = i32x4_max(a, b);
        min_i32(a: v128, b: v128) -> v128 = i32x4_min(a, b);
        mul_high(a: v128, b: v128) -> v128 = mul_high(a, b);
        shr_each(a: v128, n: v128) -> v128 = shr_each(a, n);
        interleave(rows: [v128; 4]) -> [v128; 4] = interleave(rows);
        collect(columns: [v128; 4]) -> v128 = collect(columns);
        join(vectors: [v128; 4]) -> v128 = collect(vectors);
        interleave_few(rows: [&[u8; MAX_SUMS]; 4]) -> v128 = interleave_few(rows);
    }
}
