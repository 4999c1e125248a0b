//! AVX2 with FMA, of x86-64 processors since 2013 (Intel) and 2015 (AMD).

use super::{MAX_LANES, Sealed, Simd, WithSimd, instructions};
use crate::loops::bounds::reach;
#[cfg(not(miri))]
use core::arch::asm;
use core::arch::x86_64::*;

/// The token of AVX2 and FMA: vectors of eight `f32`.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

impl Avx2 {
    /// Creates the token without checking the processor.
    ///
    /// # Safety
    ///
    /// The processor has AVX2 and FMA.
    #[inline(always)]
    pub const unsafe fn assume() -> Avx2 {
        Avx2(())
    }
}

#[inline(never)]
#[target_feature(enable = "avx2,fma")]
fn compiled<O: WithSimd>(s: Avx2, op: O) -> O::Output {
    op.run(s)
}

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
const UP: i32 = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC;

/// Returns 2^n for `n` from -126 to 127.
#[target_feature(enable = "avx2")]
#[inline]
fn exp2_whole(n: __m256i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(n, _mm256_set1_epi32(127))))
}

#[target_feature(enable = "avx2")]
#[inline]
fn scale(x: __m256, n: __m256) -> __m256 {
    // Two factors, because 2^n may be outside the range of `f32` although x · 2^n is not.
    let n = _mm256_cvtps_epi32(n);
    let half = _mm256_srai_epi32::<1>(n);
    let rest = _mm256_sub_epi32(n, half);
    _mm256_mul_ps(_mm256_mul_ps(x, exp2_whole(half)), exp2_whole(rest))
}

#[target_feature(enable = "avx2")]
#[inline]
fn scale_down(x: __m256, n: __m256) -> __m256 {
    // x · 2^(n + 64) is exact. The sum has the exponent of 2^(n + 64) in its lowest bits.
    const INTEGER: f32 = 12_582_912.0;
    let exponent = _mm256_add_ps(n, _mm256_set1_ps(INTEGER + 64.0 + 127.0));
    let power = _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(exponent)));
    _mm256_mul_ps(_mm256_mul_ps(x, power), _mm256_set1_ps(1.0 / (1u128 << 64) as f32))
}

#[target_feature(enable = "avx2")]
#[inline]
fn sum(x: __m256) -> f32 {
    let x = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)))
}

#[target_feature(enable = "avx2")]
#[inline]
fn largest(x: __m256) -> f32 {
    let x = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
    let x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)))
}

#[target_feature(enable = "avx2")]
#[inline]
fn sum_f64(x: __m256d) -> f64 {
    let x = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd::<1>(x));
    _mm_cvtsd_f64(_mm_add_sd(x, _mm_unpackhi_pd(x, x)))
}

#[target_feature(enable = "avx2")]
#[inline]
fn evens_and_odds(a: __m256, b: __m256) -> [__m256; 2] {
    // Each half of a vector has two numbers of `a` and two of `b`, so the middle pairs are swapped.
    let evens = _mm256_castps_pd(_mm256_shuffle_ps::<0b10_00_10_00>(a, b));
    let odds = _mm256_castps_pd(_mm256_shuffle_ps::<0b11_01_11_01>(a, b));
    [
        _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(evens)),
        _mm256_castpd_ps(_mm256_permute4x64_pd::<0b11_01_10_00>(odds)),
    ]
}

/// Transposes the halves of four rows: the first vector has columns 0 and 4.
#[target_feature(enable = "avx2")]
#[inline]
fn columns([a, b, c, d]: [__m256; 4]) -> [__m256; 4] {
    // Not `map`, whose closure is not always inlined.
    let [ab, cd] = [
        [_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b)],
        [_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d)],
    ];
    let [ab, cd] = [
        [_mm256_castps_pd(ab[0]), _mm256_castps_pd(ab[1])],
        [_mm256_castps_pd(cd[0]), _mm256_castps_pd(cd[1])],
    ];
    [
        _mm256_castpd_ps(_mm256_unpacklo_pd(ab[0], cd[0])),
        _mm256_castpd_ps(_mm256_unpackhi_pd(ab[0], cd[0])),
        _mm256_castpd_ps(_mm256_unpacklo_pd(ab[1], cd[1])),
        _mm256_castpd_ps(_mm256_unpackhi_pd(ab[1], cd[1])),
    ]
}

/// Transposes the square of the first eight rows.
#[target_feature(enable = "avx2")]
#[inline]
fn transpose(rows: &mut [__m256; MAX_LANES]) {
    let [a, b, c, d, e, f, g, h, ..] = *rows;
    let (upper, lower) = (columns([a, b, c, d]), columns([e, f, g, h]));
    for j in 0..4 {
        rows[j] = _mm256_permute2f128_ps::<0x20>(upper[j], lower[j]);
        rows[4 + j] = _mm256_permute2f128_ps::<0x31>(upper[j], lower[j]);
    }
}

/// Returns the mask of the first `n` lanes.
#[target_feature(enable = "avx2")]
#[inline]
fn head(n: usize) -> __m256i {
    const LANES: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    let from = &LANES[8 - n.min(8)..];
    // SAFETY: `from` starts at most at index 8 of 16, so eight lanes can be read.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

/// Returns `x`, without the compiler knowing that.
#[target_feature(enable = "avx2")]
#[inline]
#[cfg_attr(miri, expect(unused_mut, reason = "Miri runs no assembly"))]
pub(super) fn opaque(mut x: __m256) -> __m256 {
    // SAFETY: no instruction is executed.
    #[cfg(not(miri))]
    unsafe {
        asm!("/* {0} */", inout(ymm_reg) x, options(pure, nomem, nostack, preserves_flags));
    }
    x
}

/// Stores the first lanes, up to the length of the slice, which is less than a vector. The parts
/// are stored one by one, because a masked store takes much longer on AMD's processors.
#[target_feature(enable = "avx2")]
#[inline]
fn store_part(x: __m256, to: &mut [f32]) {
    let (fours, rest) = to.split_at_mut(to.len() & 4);
    let mut x = _mm256_castps256_ps128(if fours.is_empty() {
        x
    } else {
        // SAFETY: `fours` has four elements.
        unsafe { _mm_storeu_ps(fours.as_mut_ptr(), _mm256_castps256_ps128(x)) };
        _mm256_permute2f128_ps::<0x81>(x, x)
    });
    let (twos, one) = rest.split_at_mut(rest.len() & 2);
    if !twos.is_empty() {
        // SAFETY: `twos` has two elements.
        unsafe { _mm_storel_pd(twos.as_mut_ptr().cast(), _mm_castps_pd(x)) };
        x = _mm_movehl_ps(x, x);
    }
    if let Some(one) = one.first_mut() {
        *one = _mm_cvtss_f32(x);
    }
}

impl Sealed for Avx2 {}

impl Simd for Avx2 {
    type F32 = __m256;
    type I32 = __m256i;
    type F64 = __m256d;
    type Mask = __m256;
    const LANES: usize = 8;
    const FUSES: bool = true;

    #[inline(always)]
    fn run<O: WithSimd>(self, op: O) -> O::Output {
        // SAFETY: `self` is a token, so the processor has the level's instructions.
        unsafe { compiled(self, op) }
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> __m256 {
        let from: &[f32; 8] = from.first_chunk().expect("the slice has `LANES` elements");
        // SAFETY: the array has eight elements.
        unsafe { self.load_at(from.as_ptr()) }
    }

    #[inline(always)]
    fn load_for_update(self, from: &[f32]) -> __m256 {
        // SAFETY: `self` is a token.
        unsafe { opaque(self.load(from)) }
    }

    #[inline(always)]
    fn store(self, x: __m256, to: &mut [f32]) {
        let to: &mut [f32; 8] = to.first_chunk_mut().expect("the slice has `LANES` elements");
        // SAFETY: the array has eight elements.
        unsafe { self.store_at(x, to.as_mut_ptr()) }
    }

    #[inline(always)]
    fn load_head(self, from: &[f32]) -> __m256 {
        if from.len() >= Self::LANES {
            return self.load(from);
        }
        // SAFETY: `self` is a token; the mask excludes lanes behind the end of the slice.
        unsafe { _mm256_maskload_ps(from.as_ptr(), head(from.len())) }
    }

    #[inline(always)]
    fn load_head_or(self, from: &[f32], fill: f32) -> __m256 {
        if from.len() >= Self::LANES {
            return self.load(from);
        }
        // SAFETY: `self` is a token; the mask excludes lanes behind the end of the slice.
        unsafe {
            let mask = head(from.len());
            let x = _mm256_maskload_ps(from.as_ptr(), mask);
            _mm256_blendv_ps(_mm256_set1_ps(fill), x, _mm256_castsi256_ps(mask))
        }
    }

    #[inline(always)]
    fn store_head(self, x: __m256, to: &mut [f32]) {
        if to.len() >= Self::LANES {
            return self.store(x, to);
        }
        // SAFETY: `self` is a token.
        unsafe { store_part(x, to) }
    }

    #[inline(always)]
    unsafe fn load_at(self, from: *const f32) -> __m256 {
        // SAFETY: `self` is a token; the caller guarantees the elements.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn repeat_two(self, from: *const f32) -> __m256 {
        // SAFETY: `self` is a token; the caller guarantees the elements.
        unsafe { _mm256_castpd_ps(_mm256_set1_pd(from.cast::<f64>().read_unaligned())) }
    }

    #[inline(always)]
    unsafe fn repeat_four(self, from: *const f32) -> __m256 {
        // SAFETY: `self` is a token; the caller guarantees the elements.
        unsafe {
            let four = _mm_loadu_ps(from);
            _mm256_set_m128(four, four)
        }
    }

    #[inline(always)]
    unsafe fn store_at(self, x: __m256, to: *mut f32) {
        // SAFETY: `self` is a token; the caller guarantees the elements.
        unsafe { _mm256_storeu_ps(to, x) }
    }

    #[inline(always)]
    fn store_columns(self, [a, b, c, d]: [__m256; 4], to: &mut [f32], apart: usize) {
        let to = &mut to[..reach([[7, apart], [4, 1]])];
        // SAFETY: `self` is a token; the slice above includes the last column.
        unsafe {
            for (j, column) in columns([a, b, c, d]).into_iter().enumerate() {
                let to = to.as_mut_ptr().add(j * apart);
                _mm_storeu_ps(to, _mm256_castps256_ps128(column));
                _mm_storeu_ps(to.add(4 * apart), _mm256_extractf128_ps::<1>(column));
            }
        }
    }

    #[inline(always)]
    fn transpose(self, rows: &mut [__m256; MAX_LANES]) {
        // SAFETY: `self` is a token.
        unsafe { transpose(rows) }
    }

    #[inline(always)]
    fn prefetch<T>(self, at: *const T, ahead: usize) {
        super::prefetch::into_l1(at, ahead);
    }

    #[inline(always)]
    fn prefetch_l2<T>(self, at: *const T) {
        super::prefetch::into_l2(at);
    }

    #[inline(always)]
    unsafe fn load_f64_at(self, from: *const f64) -> __m256d {
        // SAFETY: `self` is a token; the caller guarantees the elements.
        unsafe { _mm256_loadu_pd(from) }
    }

    #[inline(always)]
    unsafe fn store_f64_at(self, x: __m256d, to: *mut f64) {
        // SAFETY: `self` is a token; the caller guarantees the elements.
        unsafe { _mm256_storeu_pd(to, x) }
    }

    instructions! {
        splat(x: f32) -> __m256 = _mm256_set1_ps(x);
        add(a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
        sub(a: __m256, b: __m256) -> __m256 = _mm256_sub_ps(a, b);
        mul(a: __m256, b: __m256) -> __m256 = _mm256_mul_ps(a, b);
        div(a: __m256, b: __m256) -> __m256 = _mm256_div_ps(a, b);
        mul_add(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
        evens_and_odds(a: __m256, b: __m256) -> [__m256; 2] = evens_and_odds(a, b);
        max(a: __m256, b: __m256) -> __m256 = _mm256_max_ps(a, b);
        min(a: __m256, b: __m256) -> __m256 = _mm256_min_ps(a, b);
        sqrt(x: __m256) -> __m256 = _mm256_sqrt_ps(x);
        round(x: __m256) -> __m256 = _mm256_round_ps::<NEAREST>(x);
        floor(x: __m256) -> __m256 = _mm256_round_ps::<DOWN>(x);
        ceil(x: __m256) -> __m256 = _mm256_round_ps::<UP>(x);
        scale(x: __m256, n: __m256) -> __m256 = scale(x, n);
        scale_down(x: __m256, n: __m256) -> __m256 = scale_down(x, n);

        lt(a: __m256, b: __m256) -> __m256 = _mm256_cmp_ps::<_CMP_LT_OQ>(a, b);
        le(a: __m256, b: __m256) -> __m256 = _mm256_cmp_ps::<_CMP_LE_OQ>(a, b);
        eq(a: __m256, b: __m256) -> __m256 = _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b);
        select(mask: __m256, a: __m256, b: __m256) -> __m256 = _mm256_blendv_ps(b, a, mask);
        any(mask: __m256) -> bool = _mm256_movemask_ps(mask) != 0;

        bits(x: __m256) -> __m256i = _mm256_castps_si256(x);
        with_bits(x: __m256i) -> __m256 = _mm256_castsi256_ps(x);
        to_i32(x: __m256) -> __m256i = _mm256_cvtps_epi32(x);
        to_f32(x: __m256i) -> __m256 = _mm256_cvtepi32_ps(x);
        splat_i32(x: i32) -> __m256i = _mm256_set1_epi32(x);
        add_i32(a: __m256i, b: __m256i) -> __m256i = _mm256_add_epi32(a, b);
        sub_i32(a: __m256i, b: __m256i) -> __m256i = _mm256_sub_epi32(a, b);
        and_i32(a: __m256i, b: __m256i) -> __m256i = _mm256_and_si256(a, b);
        or_i32(a: __m256i, b: __m256i) -> __m256i = _mm256_or_si256(a, b);
        shl_i32<const BITS>(x: __m256i) -> __m256i = _mm256_slli_epi32::<BITS>(x);
        shr_i32<const BITS>(x: __m256i) -> __m256i = _mm256_srai_epi32::<BITS>(x);

        sum(x: __m256) -> f32 = sum(x);
        largest(x: __m256) -> f32 = largest(x);

        splat_f64(x: f64) -> __m256d = _mm256_set1_pd(x);
        add_f64(a: __m256d, b: __m256d) -> __m256d = _mm256_add_pd(a, b);
        max_f64(a: __m256d, b: __m256d) -> __m256d = _mm256_max_pd(a, b);
        min_f64(a: __m256d, b: __m256d) -> __m256d = _mm256_min_pd(a, b);
        sum_f64(x: __m256d) -> f64 = sum_f64(x);
        mul_add_f64(a: __m256d, b: __m256d, c: __m256d) -> __m256d = _mm256_fmadd_pd(a, b, c);
    }
}
