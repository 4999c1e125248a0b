//! Tables of bytes with AVX-512 VBMI, of x86-64 processors since 2018 (Intel) and 2022 (AMD).

use crate::simd::Avx512;
use core::arch::x86_64::*;

/// The number of bytes of a vector.
const WIDTH: usize = 64;

/// The token of AVX-512 with VBMI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vbmi(Avx512);

impl Vbmi {
    /// Returns the token, if the processor has VBMI.
    #[inline(always)]
    pub fn of(level: Avx512) -> Option<Vbmi> {
        #[cfg(feature = "std")]
        let has = std::is_x86_feature_detected!("avx512vbmi");
        #[cfg(not(feature = "std"))]
        let has = cfg!(target_feature = "avx512vbmi");
        has.then_some(Vbmi(level))
    }

    /// Sets each byte of `y` to the entry for the byte of `x`. The table starts with the entry for
    /// the byte `first`, 0 or 128.
    #[inline(always)]
    pub fn look_up(self, x: &[u8], table: &[u8; 256], first: u8, y: &mut [u8]) {
        // SAFETY: `self` is a token, so the processor has the instructions.
        unsafe { look_up(x, table, first, y) }
    }
}

#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn look_up(x: &[u8], table: &[u8; 256], first: u8, y: &mut [u8]) {
    let quarter = |i: usize| load(&table[(i * WIDTH) ^ usize::from(first)..][..WIDTH]);
    let [a, b, c, d] = [quarter(0), quarter(1), quarter(2), quarter(3)];
    for (x, y) in x.chunks(WIDTH).zip(y.chunks_mut(WIDTH)) {
        let x = load(x);
        // Seven bits select an entry of a half, and the eighth the half.
        let low = _mm512_permutex2var_epi8(a, x, b);
        let high = _mm512_permutex2var_epi8(c, x, d);
        let found = _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high);
        // SAFETY: the mask excludes bytes behind the end of the slice.
        unsafe { _mm512_mask_storeu_epi8(y.as_mut_ptr().cast(), mask(y.len()), found) }
    }
}

/// Loads up to a vector of bytes.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn load(bytes: &[u8]) -> __m512i {
    // SAFETY: the mask excludes bytes behind the end of the slice.
    unsafe { _mm512_maskz_loadu_epi8(mask(bytes.len()), bytes.as_ptr().cast()) }
}

/// Returns a mask of the first bytes of a vector, at least one.
#[inline(always)]
fn mask(count: usize) -> u64 {
    u64::MAX >> WIDTH.saturating_sub(count)
}
