//! The level of every x86-64 processor. Its results have the bits of those of arrays, which it
//! replaces there: they take several times as long to compile.

use super::{Sealed, Simd, WithSimd, instructions};
use core::arch::x86_64::*;

/// Vectors of four elements, without instructions that a processor may lack.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

/// 2²³: every `f32` from here on is an integer.
const WHOLE: f32 = 8_388_608.0;

#[target_feature(enable = "sse2")]
#[inline]
fn select(mask: __m128, a: __m128, b: __m128) -> __m128 {
    _mm_or_ps(_mm_and_ps(mask, a), _mm_andnot_ps(mask, b))
}

/// Returns `rounded`, which is zero or has the sign of `x`, with that sign; or `x` if it is an
/// integer because of its size.
#[target_feature(enable = "sse2")]
#[inline]
fn round_with(x: __m128, rounded: __m128) -> __m128 {
    let sign = _mm_set1_ps(-0.0);
    let is_small = _mm_cmplt_ps(_mm_andnot_ps(sign, x), _mm_set1_ps(WHOLE));
    select(is_small, _mm_or_ps(_mm_and_ps(sign, x), rounded), x)
}

#[target_feature(enable = "sse2")]
#[inline]
fn round(x: __m128) -> __m128 {
    // Adding and subtracting 2²³ rounds to an integer.
    let (size, whole) = (_mm_andnot_ps(_mm_set1_ps(-0.0), x), _mm_set1_ps(WHOLE));
    round_with(x, _mm_sub_ps(_mm_add_ps(size, whole), whole))
}

#[target_feature(enable = "sse2")]
#[inline]
fn floor(x: __m128) -> __m128 {
    let t = _mm_cvtepi32_ps(_mm_cvttps_epi32(x));
    round_with(x, _mm_sub_ps(t, _mm_and_ps(_mm_cmpgt_ps(t, x), _mm_set1_ps(1.0))))
}

#[target_feature(enable = "sse2")]
#[inline]
fn ceil(x: __m128) -> __m128 {
    let t = _mm_cvtepi32_ps(_mm_cvttps_epi32(x));
    round_with(x, _mm_add_ps(t, _mm_and_ps(_mm_cmplt_ps(t, x), _mm_set1_ps(1.0))))
}

/// Returns 2^n for `n` from -126 to 127.
#[target_feature(enable = "sse2")]
#[inline]
fn exp2_whole(n: __m128i) -> __m128 {
    _mm_castsi128_ps(_mm_slli_epi32::<23>(_mm_add_epi32(n, _mm_set1_epi32(127))))
}

#[target_feature(enable = "sse2")]
#[inline]
fn scale(x: __m128, n: __m128) -> __m128 {
    // Two factors, because 2^n may be outside the range of `f32` although x · 2^n is not.
    let n = _mm_cvttps_epi32(n);
    let half = _mm_srai_epi32::<1>(n);
    let rest = _mm_sub_epi32(n, half);
    _mm_mul_ps(_mm_mul_ps(x, exp2_whole(half)), exp2_whole(rest))
}

#[target_feature(enable = "sse2")]
#[inline]
fn sum(x: __m128) -> f32 {
    let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps::<1>(x, x)))
}

#[target_feature(enable = "sse2")]
#[inline]
fn sum_f64(x: __m128d) -> f64 {
    _mm_cvtsd_f64(_mm_add_sd(x, _mm_unpackhi_pd(x, x)))
}

#[target_feature(enable = "sse2")]
#[inline]
fn evens_and_odds(a: __m128, b: __m128) -> [__m128; 2] {
    [_mm_shuffle_ps::<0b10_00_10_00>(a, b), _mm_shuffle_ps::<0b11_01_11_01>(a, b)]
}

impl Sealed for Portable {}

impl Simd for Portable {
    type F32 = __m128;
    type I32 = __m128i;
    type F64 = __m128d;
    type Mask = __m128;
    const LANES: usize = 4;
    const IS_SCALAR: bool = true;

    #[inline(always)]
    fn run<O: WithSimd>(self, op: O) -> O::Output {
        op.run(self)
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> __m128 {
        let from: &[f32; 4] = from.first_chunk().expect("the slice has `LANES` elements");
        // SAFETY: the array has four elements.
        unsafe { self.load_at(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, x: __m128, to: &mut [f32]) {
        let to: &mut [f32; 4] = to.first_chunk_mut().expect("the slice has `LANES` elements");
        // SAFETY: the array has four elements.
        unsafe { self.store_at(x, to.as_mut_ptr()) }
    }

    #[inline(always)]
    unsafe fn load_at(self, from: *const f32) -> __m128 {
        // SAFETY: the target has SSE2; the caller guarantees the elements.
        unsafe { _mm_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store_at(self, x: __m128, to: *mut f32) {
        // SAFETY: the target has SSE2; the caller guarantees the elements.
        unsafe { _mm_storeu_ps(to, x) }
    }

    #[inline(always)]
    unsafe fn load_f64_at(self, from: *const f64) -> __m128d {
        // SAFETY: the target has SSE2; the caller guarantees the elements.
        unsafe { _mm_loadu_pd(from) }
    }

    #[inline(always)]
    unsafe fn store_f64_at(self, x: __m128d, to: *mut f64) {
        // SAFETY: the target has SSE2; the caller guarantees the elements.
        unsafe { _mm_storeu_pd(to, x) }
    }

    instructions! {
        splat(x: f32) -> __m128 = _mm_set1_ps(x);
        add(a: __m128, b: __m128) -> __m128 = _mm_add_ps(a, b);
        sub(a: __m128, b: __m128) -> __m128 = _mm_sub_ps(a, b);
        mul(a: __m128, b: __m128) -> __m128 = _mm_mul_ps(a, b);
        div(a: __m128, b: __m128) -> __m128 = _mm_div_ps(a, b);
        mul_add(a: __m128, b: __m128, c: __m128) -> __m128 = _mm_add_ps(_mm_mul_ps(a, b), c);
        evens_and_odds(a: __m128, b: __m128) -> [__m128; 2] = evens_and_odds(a, b);
        max(a: __m128, b: __m128) -> __m128 = _mm_max_ps(a, b);
        min(a: __m128, b: __m128) -> __m128 = _mm_min_ps(a, b);
        sqrt(x: __m128) -> __m128 = _mm_sqrt_ps(x);
        round(x: __m128) -> __m128 = round(x);
        floor(x: __m128) -> __m128 = floor(x);
        ceil(x: __m128) -> __m128 = ceil(x);
        scale(x: __m128, n: __m128) -> __m128 = scale(x, n);

        lt(a: __m128, b: __m128) -> __m128 = _mm_cmplt_ps(a, b);
        le(a: __m128, b: __m128) -> __m128 = _mm_cmple_ps(a, b);
        eq(a: __m128, b: __m128) -> __m128 = _mm_cmpeq_ps(a, b);
        select(mask: __m128, a: __m128, b: __m128) -> __m128 = select(mask, a, b);
        any(mask: __m128) -> bool = _mm_movemask_ps(mask) != 0;

        bits(x: __m128) -> __m128i = _mm_castps_si128(x);
        with_bits(x: __m128i) -> __m128 = _mm_castsi128_ps(x);
        to_i32(x: __m128) -> __m128i = _mm_cvtps_epi32(x);
        to_f32(x: __m128i) -> __m128 = _mm_cvtepi32_ps(x);
        splat_i32(x: i32) -> __m128i = _mm_set1_epi32(x);
        add_i32(a: __m128i, b: __m128i) -> __m128i = _mm_add_epi32(a, b);
        sub_i32(a: __m128i, b: __m128i) -> __m128i = _mm_sub_epi32(a, b);
        and_i32(a: __m128i, b: __m128i) -> __m128i = _mm_and_si128(a, b);
        or_i32(a: __m128i, b: __m128i) -> __m128i = _mm_or_si128(a, b);
        shl_i32<const BITS>(x: __m128i) -> __m128i = _mm_slli_epi32::<BITS>(x);
        shr_i32<const BITS>(x: __m128i) -> __m128i = _mm_srai_epi32::<BITS>(x);

        sum(x: __m128) -> f32 = sum(x);

        splat_f64(x: f64) -> __m128d = _mm_set1_pd(x);
        add_f64(a: __m128d, b: __m128d) -> __m128d = _mm_add_pd(a, b);
        max_f64(a: __m128d, b: __m128d) -> __m128d = _mm_max_pd(a, b);
        min_f64(a: __m128d, b: __m128d) -> __m128d = _mm_min_pd(a, b);
        sum_f64(x: __m128d) -> f64 = sum_f64(x);
        mul_add_f64(a: __m128d, b: __m128d, c: __m128d) -> __m128d =
            _mm_add_pd(_mm_mul_pd(a, b), c);
    }
}
