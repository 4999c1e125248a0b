//! Bytes at the level AVX2. Its instruction for products of bytes saturates their sums, so even and
//! odd bytes are widened to 16 bits and multiplied separately.

use super::{Bytes, EXACT, Ends, MAX_SUMS, Vector, WithBytes, fused_products, largest};
use crate::simd::avx2::opaque;
use crate::simd::{Avx2, instructions};
use core::arch::x86_64::*;

#[inline(never)]
#[target_feature(enable = "avx2,fma")]
fn compiled<O: WithBytes>(s: Avx2, op: O) {
    op.run(s);
}

#[target_feature(enable = "avx2")]
#[inline]
fn widen_unsigned(bytes: __m256i) -> [__m256i; 2] {
    [_mm256_and_si256(bytes, _mm256_set1_epi16(0xff)), _mm256_srli_epi16::<8>(bytes)]
}

#[target_feature(enable = "avx2")]
#[inline]
fn widen_signed(bytes: __m256i) -> [__m256i; 2] {
    [_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes)), _mm256_srai_epi16::<8>(bytes)]
}

/// The sum is opaque to LLVM, which would otherwise reorder the terms of several calls, and spill
/// accumulators.
#[target_feature(enable = "avx2")]
#[inline]
fn add_pairs(sum: __m256i, a: __m256i, b: __m256i) -> __m256i {
    let sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
    _mm256_castps_si256(opaque(_mm256_castsi256_ps(sum)))
}

#[target_feature(enable = "avx2")]
#[inline]
fn interleave([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    let (ab, cd) = (_mm256_unpacklo_epi8(a, b), _mm256_unpacklo_epi8(c, d));
    let (ab_high, cd_high) = (_mm256_unpackhi_epi8(a, b), _mm256_unpackhi_epi8(c, d));
    [
        _mm256_unpacklo_epi16(ab, cd),
        _mm256_unpackhi_epi16(ab, cd),
        _mm256_unpacklo_epi16(ab_high, cd_high),
        _mm256_unpackhi_epi16(ab_high, cd_high),
    ]
}

#[target_feature(enable = "avx2")]
#[inline]
fn collect([a, b, c, d]: [__m256i; 4]) -> __m256i {
    _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d))
}

#[target_feature(enable = "avx2")]
#[inline]
fn in_order([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    [
        _mm256_permute2x128_si256::<0x20>(a, b),
        _mm256_permute2x128_si256::<0x20>(c, d),
        _mm256_permute2x128_si256::<0x31>(a, b),
        _mm256_permute2x128_si256::<0x31>(c, d),
    ]
}

#[target_feature(enable = "avx2")]
#[inline]
fn join(vectors: [__m256i; 4]) -> __m256i {
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    _mm256_permutevar8x32_epi32(collect(vectors), order)
}

#[target_feature(enable = "avx2")]
#[inline]
fn interleave_few(rows: [&[u8; MAX_SUMS]; 4]) -> __m256i {
    // SAFETY: every array has sixteen bytes.
    let load = |row: &[u8; MAX_SUMS]| unsafe { _mm_loadu_si128(row.as_ptr().cast()) };
    let ab = _mm_unpacklo_epi8(load(rows[0]), load(rows[1]));
    let cd = _mm_unpacklo_epi8(load(rows[2]), load(rows[3]));
    _mm256_set_m128i(_mm_unpackhi_epi16(ab, cd), _mm_unpacklo_epi16(ab, cd))
}

#[target_feature(enable = "avx2")]
#[inline]
fn mul_high(a: __m256i, b: __m256i) -> __m256i {
    let odd = |x| _mm256_srli_epi64::<32>(x);
    let (even, odd) = (_mm256_mul_epi32(a, b), _mm256_mul_epi32(odd(a), odd(b)));
    _mm256_blend_epi32::<0b1010_1010>(_mm256_srli_epi64::<32>(even), odd)
}

/// Returns whether all numbers are below a limit.
#[target_feature(enable = "avx2")]
#[inline]
fn are_below(x: __m256, limit: f32) -> bool {
    _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NLT_UQ>(x, _mm256_set1_ps(limit))) == 0
}

impl Bytes for Avx2 {
    type Level = Avx2;
    const LANES: usize = 8;
    const ROWS: usize = 2;
    const PAIRS: bool = true;
    const ROUNDS: bool = true;

    #[inline(always)]
    fn level(self) -> Avx2 {
        self
    }

    #[inline(always)]
    fn run<O: WithBytes>(self, op: O) {
        // SAFETY: `self` is a token, so the processor has the level's instructions.
        unsafe { compiled(self, op) }
    }

    #[inline(always)]
    unsafe fn load_bytes_at(self, from: *const u8) -> __m256i {
        // SAFETY: `self` is a token; the caller guarantees the bytes.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_bytes_at(self, x: __m256i, to: *mut u8) {
        // SAFETY: `self` is a token; the caller guarantees the bytes.
        unsafe { _mm256_storeu_si256(to.cast(), x) }
    }

    #[inline(always)]
    fn whole_products<const V: usize>(
        self,
        sums: &[__m256i; V],
        factors: &[__m256; V],
        ends: Ends<Self>,
        are_steady: bool,
    ) -> Option<[__m256i; V]> {
        // SAFETY: `self` is a token, so the processor has the level's instructions.
        if !are_steady && !unsafe { are_below(largest(self, sums), EXACT) } {
            return None;
        }
        Some(fused_products(self, sums, factors, ends))
    }

    #[inline(always)]
    fn low_bytes(self, x: Vector<Self>) -> [u8; MAX_SUMS] {
        let mut lanes = [0i32; 8];
        // SAFETY: the array has eight lanes, as many as a vector.
        unsafe { self.store_bytes_at(x, lanes.as_mut_ptr().cast()) };
        let mut bytes = [0; MAX_SUMS];
        for (to, x) in bytes.iter_mut().zip(lanes) {
            *to = x as u8;
        }
        bytes
    }

    instructions! {
        widen_unsigned(bytes: __m256i) -> [__m256i; 2] = widen_unsigned(bytes);
        widen_signed(bytes: __m256i) -> [__m256i; 2] = widen_signed(bytes);
        add_pairs(sum: __m256i, a: __m256i, b: __m256i) -> __m256i = add_pairs(sum, a, b);
        xor(a: __m256i, b: __m256i) -> __m256i = _mm256_xor_si256(a, b);
        max_u8(a: __m256i, b: __m256i) -> __m256i = _mm256_max_epu8(a, b);
        min_u8(a: __m256i, b: __m256i) -> __m256i = _mm256_min_epu8(a, b);
        max_i32(a: __m256i, b: __m256i) -> __m256i = _mm256_max_epi32(a, b);
        min_i32(a: __m256i, b: __m256i) -> __m256i = _mm256_min_epi32(a, b);
        mul_high(a: __m256i, b: __m256i) -> __m256i = mul_high(a, b);
        shr_each(a: __m256i, n: __m256i) -> __m256i = _mm256_srav_epi32(a, n);
        interleave(rows: [__m256i; 4]) -> [__m256i; 4] = interleave(rows);
        collect(columns: [__m256i; 4]) -> __m256i = collect(columns);
        in_order(columns: [__m256i; 4]) -> [__m256i; 4] = in_order(columns);
        join(vectors: [__m256i; 4]) -> __m256i = join(vectors);
        interleave_few(rows: [&[u8; MAX_SUMS]; 4]) -> __m256i = interleave_few(rows);
    }
}
