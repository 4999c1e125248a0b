//! NEON, of every aarch64 processor that has vectors.

use super::{Sealed, Simd, WithSimd, instructions};
use core::arch::aarch64::*;

/// The token of NEON: vectors of four `f32`.
#[derive(Clone, Copy, Debug)]
pub struct Neon;

/// Returns 2^n for `n` from -126 to 127.
#[target_feature(enable = "neon")]
#[inline]
fn exp2_whole(n: int32x4_t) -> float32x4_t {
    vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(n, vdupq_n_s32(127))))
}

#[target_feature(enable = "neon")]
#[inline]
fn scale(x: float32x4_t, n: float32x4_t) -> float32x4_t {
    // Two factors, because 2^n may be outside the range of `f32` although x · 2^n is not.
    let n = vcvtnq_s32_f32(n);
    let half = vshrq_n_s32::<1>(n);
    let rest = vsubq_s32(n, half);
    vmulq_f32(vmulq_f32(x, exp2_whole(half)), exp2_whole(rest))
}

impl Sealed for Neon {}

impl Simd for Neon {
    type F32 = float32x4_t;
    type I32 = int32x4_t;
    type F64 = float64x2_t;
    type Mask = uint32x4_t;
    const LANES: usize = 4;
    const FUSES: bool = true;

    #[inline(always)]
    fn run<O: WithSimd>(self, op: O) -> O::Output {
        op.run(self)
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> float32x4_t {
        let from: &[f32; 4] = from.first_chunk().expect("the slice has `LANES` elements");
        // SAFETY: the array has four elements.
        unsafe { self.load_at(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, x: float32x4_t, to: &mut [f32]) {
        let to: &mut [f32; 4] = to.first_chunk_mut().expect("the slice has `LANES` elements");
        // SAFETY: the array has four elements.
        unsafe { self.store_at(x, to.as_mut_ptr()) }
    }

    #[inline(always)]
    unsafe fn load_at(self, from: *const f32) -> float32x4_t {
        // SAFETY: the target has NEON; the caller guarantees the elements.
        unsafe { vld1q_f32(from) }
    }

    #[inline(always)]
    unsafe fn store_at(self, x: float32x4_t, to: *mut f32) {
        // SAFETY: the target has NEON; the caller guarantees the elements.
        unsafe { vst1q_f32(to, x) }
    }

    #[inline(always)]
    unsafe fn load_f64_at(self, from: *const f64) -> float64x2_t {
        // SAFETY: the target has NEON; the caller guarantees the elements.
        unsafe { vld1q_f64(from) }
    }

    #[inline(always)]
    unsafe fn store_f64_at(self, x: float64x2_t, to: *mut f64) {
        // SAFETY: the target has NEON; the caller guarantees the elements.
        unsafe { vst1q_f64(to, x) }
    }

    // NEON's own maximum and minimum return NaN if either number is NaN.
    instructions! {
        splat(x: f32) -> float32x4_t = vdupq_n_f32(x);
        add(a: float32x4_t, b: float32x4_t) -> float32x4_t = vaddq_f32(a, b);
        sub(a: float32x4_t, b: float32x4_t) -> float32x4_t = vsubq_f32(a, b);
        mul(a: float32x4_t, b: float32x4_t) -> float32x4_t = vmulq_f32(a, b);
        div(a: float32x4_t, b: float32x4_t) -> float32x4_t = vdivq_f32(a, b);
        mul_add(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t = vfmaq_f32(c, a, b);
        evens_and_odds(a: float32x4_t, b: float32x4_t) -> [float32x4_t; 2] =
            [vuzp1q_f32(a, b), vuzp2q_f32(a, b)];
        max(a: float32x4_t, b: float32x4_t) -> float32x4_t = vbslq_f32(vcgtq_f32(a, b), a, b);
        min(a: float32x4_t, b: float32x4_t) -> float32x4_t = vbslq_f32(vcltq_f32(a, b), a, b);
        sqrt(x: float32x4_t) -> float32x4_t = vsqrtq_f32(x);
        round(x: float32x4_t) -> float32x4_t = vrndnq_f32(x);
        floor(x: float32x4_t) -> float32x4_t = vrndmq_f32(x);
        ceil(x: float32x4_t) -> float32x4_t = vrndpq_f32(x);
        scale(x: float32x4_t, n: float32x4_t) -> float32x4_t = scale(x, n);

        lt(a: float32x4_t, b: float32x4_t) -> uint32x4_t = vcltq_f32(a, b);
        le(a: float32x4_t, b: float32x4_t) -> uint32x4_t = vcleq_f32(a, b);
        eq(a: float32x4_t, b: float32x4_t) -> uint32x4_t = vceqq_f32(a, b);
        select(mask: uint32x4_t, a: float32x4_t, b: float32x4_t) -> float32x4_t =
            vbslq_f32(mask, a, b);
        any(mask: uint32x4_t) -> bool = vmaxvq_u32(mask) != 0;

        bits(x: float32x4_t) -> int32x4_t = vreinterpretq_s32_f32(x);
        with_bits(x: int32x4_t) -> float32x4_t = vreinterpretq_f32_s32(x);
        to_i32(x: float32x4_t) -> int32x4_t = vcvtnq_s32_f32(x);
        to_f32(x: int32x4_t) -> float32x4_t = vcvtq_f32_s32(x);
        splat_i32(x: i32) -> int32x4_t = vdupq_n_s32(x);
        add_i32(a: int32x4_t, b: int32x4_t) -> int32x4_t = vaddq_s32(a, b);
        sub_i32(a: int32x4_t, b: int32x4_t) -> int32x4_t = vsubq_s32(a, b);
        and_i32(a: int32x4_t, b: int32x4_t) -> int32x4_t = vandq_s32(a, b);
        or_i32(a: int32x4_t, b: int32x4_t) -> int32x4_t = vorrq_s32(a, b);
        shl_i32<const BITS>(x: int32x4_t) -> int32x4_t = vshlq_n_s32::<BITS>(x);
        shr_i32<const BITS>(x: int32x4_t) -> int32x4_t = vshrq_n_s32::<BITS>(x);

        sum(x: float32x4_t) -> f32 = vaddvq_f32(x);
        largest(x: float32x4_t) -> f32 = vmaxvq_f32(x);

        splat_f64(x: f64) -> float64x2_t = vdupq_n_f64(x);
        add_f64(a: float64x2_t, b: float64x2_t) -> float64x2_t = vaddq_f64(a, b);
        max_f64(a: float64x2_t, b: float64x2_t) -> float64x2_t = vbslq_f64(vcgtq_f64(a, b), a, b);
        min_f64(a: float64x2_t, b: float64x2_t) -> float64x2_t = vbslq_f64(vcltq_f64(a, b), a, b);
        sum_f64(x: float64x2_t) -> f64 = vaddvq_f64(x);
        mul_add_f64(a: float64x2_t, b: float64x2_t, c: float64x2_t) -> float64x2_t =
            vfmaq_f64(c, a, b);
    }
}
