//! Bytes at the level of every x86-64 processor.

use super::{Bytes, MAX_SUMS, Vector, WithBytes};
use crate::simd::{Portable, instructions};
use core::arch::x86_64::*;
use core::array::from_fn;

/// Returns the lanes of a vector.
#[inline(always)]
fn lanes(x: __m128i) -> [i32; 4] {
    // SAFETY: both types are 128 bits, and all bit patterns of both are valid.
    unsafe { core::mem::transmute(x) }
}

/// Returns a vector of these lanes.
#[inline(always)]
fn vector(lanes: [i32; 4]) -> __m128i {
    // SAFETY: both types are 128 bits, and all bit patterns of both are valid.
    unsafe { core::mem::transmute(lanes) }
}

/// Returns `a` where the mask is set, `b` elsewhere.
#[target_feature(enable = "sse2")]
#[inline]
fn select(mask: __m128i, a: __m128i, b: __m128i) -> __m128i {
    _mm_or_si128(_mm_and_si128(mask, a), _mm_andnot_si128(mask, b))
}

#[target_feature(enable = "sse2")]
#[inline]
fn mul_high(a: __m128i, b: __m128i) -> __m128i {
    let evens = _mm_srli_epi64::<32>(_mm_mul_epu32(a, b));
    let odds = _mm_mul_epu32(_mm_srli_epi64::<32>(a), _mm_srli_epi64::<32>(b));
    let high = _mm_or_si128(evens, _mm_and_si128(odds, _mm_set1_epi64x(-1 << 32)));
    // These are the upper halves of unsigned products.
    let high = _mm_sub_epi32(high, _mm_and_si128(_mm_srai_epi32::<31>(a), b));
    _mm_sub_epi32(high, _mm_and_si128(_mm_srai_epi32::<31>(b), a))
}

#[target_feature(enable = "sse2")]
#[inline]
fn interleave([a, b, c, d]: [__m128i; 4]) -> [__m128i; 4] {
    let (low, high) = (
        [_mm_unpacklo_epi8(a, b), _mm_unpacklo_epi8(c, d)],
        [_mm_unpackhi_epi8(a, b), _mm_unpackhi_epi8(c, d)],
    );
    [
        _mm_unpacklo_epi16(low[0], low[1]),
        _mm_unpackhi_epi16(low[0], low[1]),
        _mm_unpacklo_epi16(high[0], high[1]),
        _mm_unpackhi_epi16(high[0], high[1]),
    ]
}

#[target_feature(enable = "sse2")]
#[inline]
fn collect([a, b, c, d]: [__m128i; 4]) -> __m128i {
    _mm_packus_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d))
}

impl Bytes for Portable {
    type Level = Portable;
    const LANES: usize = 4;
    const ROWS: usize = 1;
    const IS_SCALAR: bool = true;

    #[inline(always)]
    fn level(self) -> Portable {
        self
    }

    #[inline(always)]
    fn run<O: WithBytes>(self, op: O) {
        op.run(self);
    }

    #[inline(always)]
    unsafe fn load_bytes_at(self, from: *const u8) -> __m128i {
        // SAFETY: the target has SSE2; the caller guarantees the bytes.
        unsafe { _mm_loadu_si128(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_bytes_at(self, x: __m128i, to: *mut u8) {
        // SAFETY: the target has SSE2; the caller guarantees the bytes.
        unsafe { _mm_storeu_si128(to.cast(), x) }
    }

    instructions! {
        widen_unsigned(bytes: __m128i) -> [__m128i; 2] =
            [_mm_and_si128(bytes, _mm_set1_epi16(0xff)), _mm_srli_epi16::<8>(bytes)];
        widen_signed(bytes: __m128i) -> [__m128i; 2] =
            [_mm_srai_epi16::<8>(_mm_slli_epi16::<8>(bytes)), _mm_srai_epi16::<8>(bytes)];
        add_pairs(sum: __m128i, a: __m128i, b: __m128i) -> __m128i =
            _mm_add_epi32(sum, _mm_madd_epi16(a, b));
        max_u8(a: __m128i, b: __m128i) -> __m128i = _mm_max_epu8(a, b);
        min_u8(a: __m128i, b: __m128i) -> __m128i = _mm_min_epu8(a, b);
        xor(a: __m128i, b: __m128i) -> __m128i = _mm_xor_si128(a, b);
        max_i32(a: __m128i, b: __m128i) -> __m128i = select(_mm_cmpgt_epi32(a, b), a, b);
        min_i32(a: __m128i, b: __m128i) -> __m128i = select(_mm_cmpgt_epi32(a, b), b, a);
        mul_high(a: __m128i, b: __m128i) -> __m128i = mul_high(a, b);
        interleave(rows: [__m128i; 4]) -> [__m128i; 4] = interleave(rows);
        collect(columns: [__m128i; 4]) -> __m128i = collect(columns);
        join(vectors: [__m128i; 4]) -> __m128i = collect(vectors);
    }

    #[inline(always)]
    fn shr_each(self, a: __m128i, n: __m128i) -> __m128i {
        let (a, n) = (lanes(a), lanes(n));
        vector(from_fn(|i| a[i].wrapping_shr(n[i] as u32)))
    }

    #[inline(always)]
    fn interleave_few(self, rows: [&[u8; MAX_SUMS]; 4]) -> Vector<Self> {
        vector(from_fn(|j| i32::from_ne_bytes(rows.map(|row| row[j]))))
    }

    #[inline(always)]
    fn low_bytes(self, x: __m128i) -> [u8; MAX_SUMS] {
        let mut bytes = [0; MAX_SUMS];
        for (to, x) in bytes.iter_mut().zip(lanes(x)) {
            *to = x as u8;
        }
        bytes
    }
}
