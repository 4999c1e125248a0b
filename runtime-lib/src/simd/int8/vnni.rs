//! AVX-512 with VNNI, of x86-64 server processors since 2019 (Intel) and 2022 (AMD).

use super::{Bytes, EXACT, Ends, MAX_SUMS, Vector, WithBytes, fused_products, largest};
use crate::simd::{Avx512, Sealed, instructions};
use core::arch::x86_64::*;

/// The token of AVX-512 with VNNI: vectors of 64 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Vnni(Avx512);

impl Vnni {
    /// Returns the token, if the processor has VNNI.
    #[inline(always)]
    pub fn of(level: Avx512) -> Option<Vnni> {
        #[cfg(feature = "std")]
        let has = std::is_x86_feature_detected!("avx512vnni");
        #[cfg(not(feature = "std"))]
        let has = cfg!(target_feature = "avx512vnni");
        has.then_some(Vnni(level))
    }
}

// Not inlined into callers with the same features, so that it has a stack frame of its own.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma")]
fn compiled<O: WithBytes>(s: Vnni, op: O) {
    op.run(s);
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn interleave([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab, cd) = (_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d));
    let (ab_high, cd_high) = (_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d));
    [
        _mm512_unpacklo_epi16(ab, cd),
        _mm512_unpackhi_epi16(ab, cd),
        _mm512_unpacklo_epi16(ab_high, cd_high),
        _mm512_unpackhi_epi16(ab_high, cd_high),
    ]
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn collect([a, b, c, d]: [__m512i; 4]) -> __m512i {
    _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d))
}

#[target_feature(enable = "avx512f")]
#[inline]
fn in_order([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    // The four parts of a vector are columns that lie sixteen apart.
    let low = [_mm512_shuffle_i32x4::<0x44>(a, b), _mm512_shuffle_i32x4::<0x44>(c, d)];
    let high = [_mm512_shuffle_i32x4::<0xee>(a, b), _mm512_shuffle_i32x4::<0xee>(c, d)];
    [
        _mm512_shuffle_i32x4::<0x88>(low[0], low[1]),
        _mm512_shuffle_i32x4::<0xdd>(low[0], low[1]),
        _mm512_shuffle_i32x4::<0x88>(high[0], high[1]),
        _mm512_shuffle_i32x4::<0xdd>(high[0], high[1]),
    ]
}

/// Returns whether all numbers are below a limit.
#[target_feature(enable = "avx512f")]
#[inline]
fn are_below(x: __m512, limit: f32) -> bool {
    _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x, _mm512_set1_ps(limit)) == 0
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn join(vectors: [__m512i; 4]) -> __m512i {
    let order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_permutexvar_epi32(order, collect(vectors))
}

#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn interleave_few(rows: [&[u8; MAX_SUMS]; 4]) -> __m512i {
    // SAFETY: every array has sixteen bytes.
    let load = |row: &[u8; MAX_SUMS]| unsafe { _mm_loadu_si128(row.as_ptr().cast()) };
    let [a, b, c, d] = [load(rows[0]), load(rows[1]), load(rows[2]), load(rows[3])];
    let (ab, cd) = (_mm_unpacklo_epi8(a, b), _mm_unpacklo_epi8(c, d));
    let (ab_high, cd_high) = (_mm_unpackhi_epi8(a, b), _mm_unpackhi_epi8(c, d));
    let low = _mm256_set_m128i(_mm_unpackhi_epi16(ab, cd), _mm_unpacklo_epi16(ab, cd));
    let high = _mm256_set_m128i(
        _mm_unpackhi_epi16(ab_high, cd_high),
        _mm_unpacklo_epi16(ab_high, cd_high),
    );
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

#[target_feature(enable = "avx512f")]
#[inline]
fn mul_high(a: __m512i, b: __m512i) -> __m512i {
    let odd = |x| _mm512_srli_epi64::<32>(x);
    let (even, odd) = (_mm512_mul_epi32(a, b), _mm512_mul_epi32(odd(a), odd(b)));
    _mm512_mask_shuffle_epi32::<0b11_11_01_01>(odd, 0x5555, even)
}

impl Sealed for Vnni {}

impl Bytes for Vnni {
    type Level = Avx512;
    const LANES: usize = 16;
    const ROWS: usize = 6;
    const ROUNDS: bool = true;
    const TILES: bool = true;

    #[inline(always)]
    fn level(self) -> Avx512 {
        self.0
    }

    #[inline(always)]
    fn run<O: WithBytes>(self, op: O) {
        // SAFETY: `self` is a token, so the processor has the level's instructions.
        unsafe { compiled(self, op) }
    }

    #[inline(always)]
    unsafe fn load_bytes_at(self, from: *const u8) -> __m512i {
        // SAFETY: `self` is a token; the caller guarantees the bytes.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store_bytes_at(self, x: __m512i, to: *mut u8) {
        // SAFETY: `self` is a token; the caller guarantees the bytes.
        unsafe { _mm512_storeu_si512(to.cast(), x) }
    }

    #[inline(always)]
    fn load_bytes(self, from: &[u8]) -> Vector<Self> {
        if from.len() >= 64 {
            // SAFETY: the slice has 64 bytes.
            return unsafe { self.load_bytes_at(from.as_ptr()) };
        }
        // SAFETY: `self` is a token; the mask excludes bytes behind the end of the slice.
        unsafe { _mm512_maskz_loadu_epi8((1 << from.len()) - 1, from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store_bytes(self, x: Vector<Self>, to: &mut [u8]) {
        if to.len() >= 64 {
            // SAFETY: the slice has 64 bytes.
            return unsafe { self.store_bytes_at(x, to.as_mut_ptr()) };
        }
        // SAFETY: `self` is a token; the mask excludes bytes behind the end of the slice.
        unsafe { _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), (1 << to.len()) - 1, x) }
    }

    #[inline(always)]
    fn whole_products<const V: usize>(
        self,
        sums: &[__m512i; V],
        factors: &[__m512; V],
        ends: Ends<Self>,
        are_steady: bool,
    ) -> Option<[__m512i; V]> {
        // SAFETY: `self` is a token, so the processor has the level's instructions.
        if !are_steady && !unsafe { are_below(largest(self, sums), EXACT) } {
            return None;
        }
        Some(fused_products(self, sums, factors, ends))
    }

    #[inline(always)]
    fn low_bytes(self, x: __m512i) -> [u8; MAX_SUMS] {
        let mut bytes = [0; MAX_SUMS];
        // SAFETY: `self` is a token; the array has sixteen bytes.
        unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(x)) };
        bytes
    }

    instructions! {
        dot(sum: __m512i, unsigned: __m512i, signed: __m512i) -> __m512i =
            _mm512_dpbusd_epi32(sum, unsigned, signed);
        widen_unsigned(bytes: __m512i) -> [__m512i; 2] =
            [_mm512_and_si512(bytes, _mm512_set1_epi16(0xff)), _mm512_srli_epi16::<8>(bytes)];
        widen_signed(bytes: __m512i) -> [__m512i; 2] =
            [_mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(bytes)), _mm512_srai_epi16::<8>(bytes)];
        add_pairs(sum: __m512i, a: __m512i, b: __m512i) -> __m512i =
            _mm512_dpwssd_epi32(sum, a, b);
        xor(a: __m512i, b: __m512i) -> __m512i = _mm512_xor_si512(a, b);
        max_u8(a: __m512i, b: __m512i) -> __m512i = _mm512_max_epu8(a, b);
        min_u8(a: __m512i, b: __m512i) -> __m512i = _mm512_min_epu8(a, b);
        max_i32(a: __m512i, b: __m512i) -> __m512i = _mm512_max_epi32(a, b);
        min_i32(a: __m512i, b: __m512i) -> __m512i = _mm512_min_epi32(a, b);
        mul_high(a: __m512i, b: __m512i) -> __m512i = mul_high(a, b);
        shr_each(a: __m512i, n: __m512i) -> __m512i = _mm512_srav_epi32(a, n);
        interleave(rows: [__m512i; 4]) -> [__m512i; 4] = interleave(rows);
        collect(columns: [__m512i; 4]) -> __m512i = collect(columns);
        in_order(columns: [__m512i; 4]) -> [__m512i; 4] = in_order(columns);
        join(vectors: [__m512i; 4]) -> __m512i = join(vectors);
        interleave_few(rows: [&[u8; MAX_SUMS]; 4]) -> __m512i = interleave_few(rows);
    }
}
