//! AVX-512, of x86-64 server processors since 2017 (Intel) and 2022 (AMD).

use super::{Sealed, Simd, WithSimd, instructions};
use crate::loops::bounds::reach;
use crate::simd;
use core::arch::asm;
use core::arch::x86_64::*;
use core::mem::transmute;

/// The token of AVX-512 F, BW, DQ and VL, and of BF16 if `BF16`: vectors of sixteen `f32`.
#[derive(Clone, Copy, Debug)]
pub struct Avx512<const BF16: bool = false>(());

impl Avx512 {
    /// Creates the token without checking the processor.
    ///
    /// # Safety
    ///
    /// The processor has AVX-512 F, BW, DQ and VL, AVX2 and FMA.
    #[inline(always)]
    pub const unsafe fn assume() -> Avx512 {
        Avx512(())
    }

    /// Returns the token with BF16, if the processor has it.
    #[inline(always)]
    pub fn with_bf16(self) -> Option<Avx512<true>> {
        #[cfg(feature = "std")]
        let has = std::is_x86_feature_detected!("avx512bf16");
        #[cfg(not(feature = "std"))]
        let has = cfg!(target_feature = "avx512bf16");
        has.then_some(Avx512(()))
    }
}

#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
fn compiled<O: WithSimd>(s: impl Simd, op: O) -> O::Output {
    op.run(s)
}

#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
fn compiled_with_bf16<O: WithSimd>(s: impl Simd, op: O) -> O::Output {
    op.run(s)
}

/// Computes [`Simd::add_pairs`], with pairs in vectors of `f32`.
#[target_feature(enable = "avx512f,avx512bf16")]
#[inline]
fn add_pairs(a: __m512, b: __m512, c: __m512) -> __m512 {
    // SAFETY: the types are 512 bits, and all bit patterns of them are valid.
    unsafe {
        _mm512_dpbf16_ps(c, transmute::<__m512, __m512bh>(a), transmute::<__m512, __m512bh>(b))
    }
}

/// Rounds the numbers of two vectors to pairs.
#[target_feature(enable = "avx512f,avx512bf16")]
#[inline]
fn pairs([first, second]: [__m512; 2]) -> __m512 {
    // SAFETY: the types are 512 bits, and all bit patterns of them are valid.
    unsafe { transmute::<__m512bh, __m512>(_mm512_cvtne2ps_pbh(second, first)) }
}

const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
const UP: i32 = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC;

#[target_feature(enable = "avx512f")]
#[inline]
fn evens_and_odds(a: __m512, b: __m512) -> [__m512; 2] {
    let evens = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    let odds = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    [_mm512_permutex2var_ps(a, evens, b), _mm512_permutex2var_ps(a, odds, b)]
}

/// Transposes the quarters of four rows: the first vector has columns 0, 4, 8 and 12.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn columns([a, b, c, d]: [__m512; 4]) -> [__m512; 4] {
    // Not `map`, whose closure is not always inlined.
    let [ab, cd] = [
        [_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)],
        [_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d)],
    ];
    let [ab, cd] = [
        [_mm512_castps_pd(ab[0]), _mm512_castps_pd(ab[1])],
        [_mm512_castps_pd(cd[0]), _mm512_castps_pd(cd[1])],
    ];
    [
        _mm512_castpd_ps(_mm512_unpacklo_pd(ab[0], cd[0])),
        _mm512_castpd_ps(_mm512_unpackhi_pd(ab[0], cd[0])),
        _mm512_castpd_ps(_mm512_unpacklo_pd(ab[1], cd[1])),
        _mm512_castpd_ps(_mm512_unpackhi_pd(ab[1], cd[1])),
    ]
}

/// Transposes a square.
#[target_feature(enable = "avx512f,avx512dq")]
#[inline]
fn transpose(rows: &mut [__m512; 16]) {
    const EVENS: i32 = 0b10_00_10_00;
    const ODDS: i32 = 0b11_01_11_01;
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *rows;
    let parts = [
        columns([a, b, c, d]),
        columns([e, f, g, h]),
        columns([i, j, k, l]),
        columns([m, n, o, p]),
    ];
    for j in 0..4 {
        // Column `4 q + j` is quarter `q` of the four parts.
        let [a, b, c, d] = [parts[0][j], parts[1][j], parts[2][j], parts[3][j]];
        let evens = [_mm512_shuffle_f32x4::<EVENS>(a, b), _mm512_shuffle_f32x4::<EVENS>(c, d)];
        let odds = [_mm512_shuffle_f32x4::<ODDS>(a, b), _mm512_shuffle_f32x4::<ODDS>(c, d)];
        rows[j] = _mm512_shuffle_f32x4::<EVENS>(evens[0], evens[1]);
        rows[4 + j] = _mm512_shuffle_f32x4::<EVENS>(odds[0], odds[1]);
        rows[8 + j] = _mm512_shuffle_f32x4::<ODDS>(evens[0], evens[1]);
        rows[12 + j] = _mm512_shuffle_f32x4::<ODDS>(odds[0], odds[1]);
    }
}

/// Returns the mask of the first `n` lanes.
#[inline(always)]
fn head(n: usize) -> __mmask16 {
    // The shift is at most 15, because `n` is from 1 to 16.
    if n == 0 { 0 } else { u16::MAX >> (16 - n.min(16)) }
}

/// Limits indices to the last of `len` elements (at least one) and to nonnegative `i32`, because
/// the processor's indices are signed.
///
/// # Safety
///
/// The processor has AVX-512 F.
#[inline(always)]
unsafe fn within(at: __m512i, len: usize) -> __m512i {
    assert!(len > 0);
    let last = (len - 1).min(i32::MAX as usize) as i32;
    // SAFETY: by this function's contract, the processor has the instructions.
    unsafe { _mm512_min_epu32(at, _mm512_set1_epi32(last)) }
}

impl<const BF16: bool> Sealed for Avx512<BF16> {}

/// Returns its operands, each as if computed from both.
#[target_feature(enable = "avx512f")]
#[inline]
#[cfg_attr(miri, expect(unused_mut, reason = "Miri runs no assembly"))]
fn in_turn(mut sum: __m512, mut next: usize) -> (__m512, usize) {
    // SAFETY: no instruction is executed.
    #[cfg(not(miri))]
    unsafe {
        asm!(
            "/* {0} {1} */",
            inout(zmm_reg) sum,
            inout(reg) next,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    (sum, next)
}

impl<const BF16: bool> Simd for Avx512<BF16> {
    type F32 = __m512;
    type I32 = __m512i;
    type F64 = __m512d;
    type Mask = __mmask16;
    const LANES: usize = 16;
    const FUSES: bool = true;
    const GATHERS: bool = true;
    const LOOKS_UP: bool = true;

    #[inline(always)]
    fn run<O: WithSimd>(self, op: O) -> O::Output {
        // SAFETY: `self` is a token, so the processor has the level's instructions.
        unsafe { if BF16 { compiled_with_bf16(self, op) } else { compiled(self, op) } }
    }

    #[inline(always)]
    fn pairs(self, x: [__m512; 2]) -> __m512 {
        if BF16 {
            // SAFETY: `self` is a token with BF16, so the processor has the instructions.
            return unsafe { pairs(x) };
        }
        simd::bf16_pair::round_pairs(self, x)
    }

    #[inline(always)]
    fn add_pairs(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        if BF16 {
            // SAFETY: `self` is a token with BF16, so the processor has the instructions.
            return unsafe { add_pairs(a, b, c) };
        }
        simd::bf16_pair::add(self, a, b, c)
    }

    #[inline(always)]
    fn in_turn(self, sum: __m512, next: usize) -> (__m512, usize) {
        // SAFETY: `self` is a token.
        unsafe { in_turn(sum, next) }
    }

    #[inline(always)]
    fn load(self, from: &[f32]) -> __m512 {
        let from: &[f32; 16] = from.first_chunk().expect("the slice has `LANES` elements");
        // SAFETY: the array has sixteen elements.
        unsafe { self.load_at(from.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, x: __m512, to: &mut [f32]) {
        let to: &mut [f32; 16] = to.first_chunk_mut().expect("the slice has `LANES` elements");
        // SAFETY: the array has sixteen elements.
        unsafe { self.store_at(x, to.as_mut_ptr()) }
    }

    #[inline(always)]
    fn gather(self, from: &[f32], at: __m512i) -> __m512 {
        // SAFETY: `self` is a token; `within` limits the indices to elements of the slice.
        unsafe { _mm512_i32gather_ps::<4>(within(at, from.len()), from.as_ptr()) }
    }

    #[inline(always)]
    fn gather_u32(self, from: &[u32], at: __m512i) -> __m512i {
        // SAFETY: `self` is a token; `within` limits the indices to elements of the slice.
        unsafe { _mm512_i32gather_epi32::<4>(within(at, from.len()), from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn lookup(self, table: &[f32; 16], at: __m512i) -> __m512 {
        // SAFETY: `self` is a token; the table has sixteen elements, and the instruction reads the
        // lowest four bits of an index.
        unsafe { _mm512_permutexvar_ps(at, self.load_at(table.as_ptr())) }
    }

    #[inline(always)]
    fn load_head(self, from: &[f32]) -> __m512 {
        // SAFETY: `self` is a token; the mask excludes lanes behind the end of the slice.
        unsafe { _mm512_maskz_loadu_ps(head(from.len()), from.as_ptr()) }
    }

    #[inline(always)]
    fn load_head_or(self, from: &[f32], fill: f32) -> __m512 {
        // SAFETY: `self` is a token; the mask excludes lanes behind the end of the slice.
        unsafe { _mm512_mask_loadu_ps(self.splat(fill), head(from.len()), from.as_ptr()) }
    }

    #[inline(always)]
    fn store_head(self, x: __m512, to: &mut [f32]) {
        // The processor forwards what a masked store writes to later loads slowly or not at all.
        if to.len() >= Self::LANES {
            return self.store(x, to);
        }
        // SAFETY: `self` is a token; the mask excludes lanes behind the end of the slice.
        unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), head(to.len()), x) }
    }

    #[inline(always)]
    unsafe fn load_at(self, from: *const f32) -> __m512 {
        // SAFETY: `self` is a token; the caller guarantees the elements.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn repeat_two(self, from: *const f32) -> __m512 {
        // SAFETY: `self` is a token; the caller guarantees the elements.
        unsafe { _mm512_castpd_ps(_mm512_set1_pd(from.cast::<f64>().read_unaligned())) }
    }

    #[inline(always)]
    unsafe fn repeat_four(self, from: *const f32) -> __m512 {
        // SAFETY: `self` is a token; the caller guarantees the elements.
        unsafe { _mm512_broadcast_f32x4(_mm_loadu_ps(from)) }
    }

    #[inline(always)]
    unsafe fn store_at(self, x: __m512, to: *mut f32) {
        // SAFETY: `self` is a token; the caller guarantees the elements.
        unsafe { _mm512_storeu_ps(to, x) }
    }

    #[inline(always)]
    fn store_columns(self, [a, b, c, d]: [__m512; 4], to: &mut [f32], apart: usize) {
        let to = &mut to[..reach([[15, apart], [4, 1]])];
        // SAFETY: `self` is a token; the slice above includes the last column.
        unsafe {
            for (j, column) in columns([a, b, c, d]).into_iter().enumerate() {
                let to = to.as_mut_ptr().add(j * apart);
                _mm_storeu_ps(to, _mm512_castps512_ps128(column));
                _mm_storeu_ps(to.add(4 * apart), _mm512_extractf32x4_ps::<1>(column));
                _mm_storeu_ps(to.add(8 * apart), _mm512_extractf32x4_ps::<2>(column));
                _mm_storeu_ps(to.add(12 * apart), _mm512_extractf32x4_ps::<3>(column));
            }
        }
    }

    #[inline(always)]
    fn transpose(self, rows: &mut [__m512; 16]) {
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
    unsafe fn load_f64_at(self, from: *const f64) -> __m512d {
        // SAFETY: `self` is a token; the caller guarantees the elements.
        unsafe { _mm512_loadu_pd(from) }
    }

    #[inline(always)]
    unsafe fn store_f64_at(self, x: __m512d, to: *mut f64) {
        // SAFETY: `self` is a token; the caller guarantees the elements.
        unsafe { _mm512_storeu_pd(to, x) }
    }

    instructions! {
        splat(x: f32) -> __m512 = _mm512_set1_ps(x);
        add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        sub(a: __m512, b: __m512) -> __m512 = _mm512_sub_ps(a, b);
        mul(a: __m512, b: __m512) -> __m512 = _mm512_mul_ps(a, b);
        div(a: __m512, b: __m512) -> __m512 = _mm512_div_ps(a, b);
        mul_add(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        evens_and_odds(a: __m512, b: __m512) -> [__m512; 2] = evens_and_odds(a, b);
        max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        min(a: __m512, b: __m512) -> __m512 = _mm512_min_ps(a, b);
        sqrt(x: __m512) -> __m512 = _mm512_sqrt_ps(x);
        round(x: __m512) -> __m512 = _mm512_roundscale_ps::<NEAREST>(x);
        floor(x: __m512) -> __m512 = _mm512_roundscale_ps::<DOWN>(x);
        ceil(x: __m512) -> __m512 = _mm512_roundscale_ps::<UP>(x);
        scale(x: __m512, n: __m512) -> __m512 = _mm512_scalef_ps(x, n);

        lt(a: __m512, b: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b);
        le(a: __m512, b: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(a, b);
        eq(a: __m512, b: __m512) -> __mmask16 = _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b);
        select(mask: __mmask16, a: __m512, b: __m512) -> __m512 = _mm512_mask_blend_ps(mask, b, a);
        any(mask: __mmask16) -> bool = mask != 0;

        bits(x: __m512) -> __m512i = _mm512_castps_si512(x);
        with_bits(x: __m512i) -> __m512 = _mm512_castsi512_ps(x);
        to_i32(x: __m512) -> __m512i = _mm512_cvtps_epi32(x);
        to_f32(x: __m512i) -> __m512 = _mm512_cvtepi32_ps(x);
        splat_i32(x: i32) -> __m512i = _mm512_set1_epi32(x);
        add_i32(a: __m512i, b: __m512i) -> __m512i = _mm512_add_epi32(a, b);
        sub_i32(a: __m512i, b: __m512i) -> __m512i = _mm512_sub_epi32(a, b);
        and_i32(a: __m512i, b: __m512i) -> __m512i = _mm512_and_si512(a, b);
        or_i32(a: __m512i, b: __m512i) -> __m512i = _mm512_or_si512(a, b);

        sum(x: __m512) -> f32 = _mm512_reduce_add_ps(x);
        largest(x: __m512) -> f32 = _mm512_reduce_max_ps(x);

        splat_f64(x: f64) -> __m512d = _mm512_set1_pd(x);
        add_f64(a: __m512d, b: __m512d) -> __m512d = _mm512_add_pd(a, b);
        max_f64(a: __m512d, b: __m512d) -> __m512d = _mm512_max_pd(a, b);
        min_f64(a: __m512d, b: __m512d) -> __m512d = _mm512_min_pd(a, b);
        sum_f64(x: __m512d) -> f64 = _mm512_reduce_add_pd(x);
        mul_add_f64(a: __m512d, b: __m512d, c: __m512d) -> __m512d = _mm512_fmadd_pd(a, b, c);
    }

    #[inline(always)]
    fn shl_i32<const N: i32>(self, x: __m512i) -> __m512i {
        // SAFETY: `self` is a token. (This instruction takes its count from a register: the one
        // with an immediate takes a `u32`, to which the `i32` parameter `N` cannot be converted.)
        unsafe { _mm512_sll_epi32(x, _mm_cvtsi32_si128(N)) }
    }

    #[inline(always)]
    fn shr_i32<const N: i32>(self, x: __m512i) -> __m512i {
        // SAFETY: `self` is a token, so the processor has the level's instructions.
        unsafe { _mm512_sra_epi32(x, _mm_cvtsi32_si128(N)) }
    }
}
