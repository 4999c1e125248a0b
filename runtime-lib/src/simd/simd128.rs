//! WebAssembly's 128-bit vectors, which every engine has had since 2023. The level is fixed when a
//! module is compiled.

use super::{Sealed, Simd, WithSimd, instructions};
use core::arch::wasm32::*;

/// The token of `simd128`: vectors of four `f32`.
#[derive(Clone, Copy, Debug)]
pub struct Simd128;

/// Returns 2^n for `n` from -126 to 127.
#[inline(always)]
fn exp2_whole(n: v128) -> v128 {
    i32x4_shl(i32x4_add(n, i32x4_splat(127)), 23)
}

#[inline(always)]
fn scale(x: v128, n: v128) -> v128 {
    // Two factors, because 2^n may be outside the range of `f32` although x · 2^n is not.
    let n = i32x4_trunc_sat_f32x4(n);
    let half = i32x4_shr(n, 1);
    let rest = i32x4_sub(n, half);
    f32x4_mul(f32x4_mul(x, exp2_whole(half)), exp2_whole(rest))
}

#[inline(always)]
fn sum(x: v128) -> f32 {
    let x = f32x4_add(x, i32x4_shuffle::<2, 3, 0, 1>(x, x));
    f32x4_extract_lane::<0>(x) + f32x4_extract_lane::<1>(x)
}

impl Sealed for Simd128 {}

impl Simd for Simd128 {
    type F32 = v128;
    type I32 = v128;
    type F64 = v128;
    type Mask = v128;
    const LANES: usize = 4;

    #[inline(always)]
    fn run<O: WithSimd>(self, op: O) -> O::Output {
        op.run(self)
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> v128 {
        let from: &[f32; 4] = from.first_chunk().expect("the slice has `LANES` elements");
        // SAFETY: the array has four elements.
        unsafe { self.load_at(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, x: v128, to: &mut [f32]) {
        let to: &mut [f32; 4] = to.first_chunk_mut().expect("the slice has `LANES` elements");
        // SAFETY: the array has four elements.
        unsafe { self.store_at(x, to.as_mut_ptr()) }
    }

    #[inline(always)]
    unsafe fn load_at(self, from: *const f32) -> v128 {
        // SAFETY: the caller guarantees the elements; the load may be unaligned.
        unsafe { v128_load(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_at(self, x: v128, to: *mut f32) {
        // SAFETY: the caller guarantees the elements; the store may be unaligned.
        unsafe { v128_store(to.cast(), x) }
    }

    #[inline(always)]
    unsafe fn load_f64_at(self, from: *const f64) -> v128 {
        // SAFETY: the caller guarantees the elements; the load may be unaligned.
        unsafe { v128_load(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_f64_at(self, x: v128, to: *mut f64) {
        // SAFETY: the caller guarantees the elements; the store may be unaligned.
        unsafe { v128_store(to.cast(), x) }
    }

    // `pmax(b, a)` is `a` if `b < a`, otherwise `b`; `pmin(b, a)` is `a` if `a < b`, otherwise `b`.
    instructions! {
        splat(x: f32) -> v128 = f32x4_splat(x);
        add(a: v128, b: v128) -> v128 = f32x4_add(a, b);
        sub(a: v128, b: v128) -> v128 = f32x4_sub(a, b);
        mul(a: v128, b: v128) -> v128 = f32x4_mul(a, b);
        div(a: v128, b: v128) -> v128 = f32x4_div(a, b);
        mul_add(a: v128, b: v128, c: v128) -> v128 = f32x4_add(f32x4_mul(a, b), c);
        evens_and_odds(a: v128, b: v128) -> [v128; 2] =
            [i32x4_shuffle::<0, 2, 4, 6>(a, b), i32x4_shuffle::<1, 3, 5, 7>(a, b)];
        max(a: v128, b: v128) -> v128 = f32x4_pmax(b, a);
        min(a: v128, b: v128) -> v128 = f32x4_pmin(b, a);
        sqrt(x: v128) -> v128 = f32x4_sqrt(x);
        round(x: v128) -> v128 = f32x4_nearest(x);
        floor(x: v128) -> v128 = f32x4_floor(x);
        ceil(x: v128) -> v128 = f32x4_ceil(x);
        scale(x: v128, n: v128) -> v128 = scale(x, n);

        lt(a: v128, b: v128) -> v128 = f32x4_lt(a, b);
        le(a: v128, b: v128) -> v128 = f32x4_le(a, b);
        eq(a: v128, b: v128) -> v128 = f32x4_eq(a, b);
        select(mask: v128, a: v128, b: v128) -> v128 = v128_bitselect(a, b, mask);
        any(mask: v128) -> bool = v128_any_true(mask);

        bits(x: v128) -> v128 = x;
        with_bits(x: v128) -> v128 = x;
        to_i32(x: v128) -> v128 = i32x4_trunc_sat_f32x4(f32x4_nearest(x));
        to_f32(x: v128) -> v128 = f32x4_convert_i32x4(x);
        splat_i32(x: i32) -> v128 = i32x4_splat(x);
        add_i32(a: v128, b: v128) -> v128 = i32x4_add(a, b);
        sub_i32(a: v128, b: v128) -> v128 = i32x4_sub(a, b);
        and_i32(a: v128, b: v128) -> v128 = v128_and(a, b);
        or_i32(a: v128, b: v128) -> v128 = v128_or(a, b);
        shl_i32<const BITS>(x: v128) -> v128 = i32x4_shl(x, BITS as u32);
        shr_i32<const BITS>(x: v128) -> v128 = i32x4_shr(x, BITS as u32);

        sum(x: v128) -> f32 = sum(x);

        splat_f64(x: f64) -> v128 = f64x2_splat(x);
        add_f64(a: v128, b: v128) -> v128 = f64x2_add(a, b);
        max_f64(a: v128, b: v128) -> v128 = f64x2_pmax(b, a);
        min_f64(a: v128, b: v128) -> v128 = f64x2_pmin(b, a);
        sum_f64(x: v128) -> f64 = f64x2_extract_lane::<0>(x) + f64x2_extract_lane::<1>(x);
        mul_add_f64(a: v128, b: v128, c: v128) -> v128 = f64x2_add(f64x2_mul(a, b), c);
    }
}
