//! The kinds of codes, and the numbers that they stand for.

use crate::simd::Simd;

/// Codes of one kind, in words of 32 bits. The first code is in the lowest bits.
pub(super) trait Codes: Copy + Send + Sync + 'static {
    /// The number of bits of a code.
    const BITS: usize;
    /// The number of codes in a word.
    const PER_WORD: usize = 32 / Self::BITS;
    /// The zero point of weights that have none of their own.
    const ZERO: f32;

    /// Returns the numbers of the lowest codes of the lanes.
    fn numbers<S: Simd>(self, s: S, words: S::I32) -> S::F32;
    /// Moves the next codes to the lowest bits.
    fn shift<S: Simd>(self, s: S, words: S::I32) -> S::I32;
    /// Returns the number of a code.
    fn number(self, code: u8) -> f32 {
        f32::from(code)
    }
}

/// Codes that are unsigned integers.
pub(super) trait Integers: Codes {
    /// The number of groups of four codes in a word, one code in each byte.
    const GROUPS: usize = Self::PER_WORD / 4;
    /// The bits of a group.
    const MASK: i32 = i32::from_ne_bytes([((1u32 << Self::BITS) - 1) as u8; 4]);
}

impl Integers for Two {}
impl Integers for Four {}
impl Integers for Eight {}

/// Returns the lowest `bits` bits of the lanes as numbers.
#[inline(always)]
fn low_bits<S: Simd>(s: S, words: S::I32, bits: usize) -> S::F32 {
    s.to_f32(s.and_i32(words, s.splat_i32((1 << bits) - 1)))
}

/// Unsigned integers of 2 bits.
#[derive(Clone, Copy)]
pub(super) struct Two;

impl Codes for Two {
    const BITS: usize = 2;
    const ZERO: f32 = 2.0;

    #[inline(always)]
    fn numbers<S: Simd>(self, s: S, words: S::I32) -> S::F32 {
        low_bits(s, words, 2)
    }

    #[inline(always)]
    fn shift<S: Simd>(self, s: S, words: S::I32) -> S::I32 {
        s.shr_i32::<2>(words)
    }
}

/// The numbers of the codes of [`Four`].
const NATURAL: [f32; 16] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

/// Unsigned integers of 4 bits.
#[derive(Clone, Copy)]
pub(super) struct Four;

impl Codes for Four {
    const BITS: usize = 4;
    const ZERO: f32 = 8.0;

    #[inline(always)]
    fn numbers<S: Simd>(self, s: S, words: S::I32) -> S::F32 {
        if S::LOOKS_UP { s.lookup(&NATURAL, words) } else { low_bits(s, words, 4) }
    }

    #[inline(always)]
    fn shift<S: Simd>(self, s: S, words: S::I32) -> S::I32 {
        s.shr_i32::<4>(words)
    }
}

/// Unsigned integers of 8 bits.
#[derive(Clone, Copy)]
pub(super) struct Eight;

impl Codes for Eight {
    const BITS: usize = 8;
    const ZERO: f32 = 128.0;

    #[inline(always)]
    fn numbers<S: Simd>(self, s: S, words: S::I32) -> S::F32 {
        low_bits(s, words, 8)
    }

    #[inline(always)]
    fn shift<S: Simd>(self, s: S, words: S::I32) -> S::I32 {
        s.shr_i32::<8>(words)
    }
}

/// Defines codes of 4 bits that a table maps to numbers.
macro_rules! tables {
    ($($(#[$doc:meta])* $Name:ident: $TABLE:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $Name;

        impl Codes for $Name {
            const BITS: usize = 4;
            const ZERO: f32 = 0.0;

            #[inline(always)]
            fn numbers<S: Simd>(self, s: S, words: S::I32) -> S::F32 {
                s.lookup(&$TABLE, words)
            }

            #[inline(always)]
            fn shift<S: Simd>(self, s: S, words: S::I32) -> S::I32 {
                s.shr_i32::<4>(words)
            }

            fn number(self, code: u8) -> f32 {
                $TABLE[usize::from(code & 15)]
            }
        }
    )*};
}

tables! {
    /// The 4-bit floats of `bitsandbytes`: a sign, two bits of exponent and one of mantissa, scaled
    /// to ±1.
    Fp4: FP4;
    /// The 4-bit normal floats of QLoRA (Dettmers et al. 2023, appendix E).
    Nf4: NF4;
}

const FP4: [f32; 16] = [
    0.0,
    5.208_333_3e-3,
    0.666_666_7,
    1.0,
    0.333_333_34,
    0.5,
    0.166_666_67,
    0.25,
    -0.0,
    -5.208_333_3e-3,
    -0.666_666_7,
    -1.0,
    -0.333_333_34,
    -0.5,
    -0.166_666_67,
    -0.25,
];

const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];
