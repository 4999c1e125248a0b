//! Operators on bytes that stand for real numbers, `(byte - zero) · scale`, and that give such
//! bytes: what a graph is made of in which passes have found no need for real numbers.
//!
//! Sums are exact, in 32 bits that wrap around. A sum becomes a byte by one multiplication, which is
//! exact, too, rounding to the nearest (halves to even), adding the zero point, and capping at
//! limits that a function after the sum may have narrowed.
//!
//! The processors' instructions multiply bytes without a sign by bytes with one. Activations are
//! made the former by flipping their sign; so their zero point moves by 128, and what that adds
//! to the sums is a number for each channel, which is in the addends already.

mod binary;
mod conv;
mod divisor;
mod matmul;
mod planes;
mod pool;
mod small;
mod table;
#[cfg(all(test, feature = "std"))]
mod tests;

pub(crate) use binary::add_to;
pub use binary::{Blend, add, mul, sum_factors};
pub use conv::{conv_scratch, conv_starts, int8_conv_nchw, pack_weights, packed_weights_len};
pub use matmul::{
    DynamicMatMulOperands, MOST_ROWS, Product, dynamic_matmul, matmul, matmul_scratch,
    pack_columns, packed_columns_depth, packed_columns_len,
};
pub(crate) use pool::requantized;
pub use pool::{average_pool, small_means};
pub use small::small_int8_conv_nchw;
pub use table::table;

use crate::Float;
use crate::simd::int8::{Bounds, Bytes, Ends, MAX_SUMS, Vector, are_steady, near_bytes};
pub(crate) use crate::simd::int8::{Multiplier, scaled};
use crate::simd::{HAS_VECTORS, Simd};

/// The operands of a quantized convolution or product.
#[derive(Clone, Copy, Debug)]
pub struct Int8Operands<'a, X> {
    /// The input.
    pub x: &'a [X],
    /// The weights, which have no zero point.
    pub w: &'a [i8],
    /// The initial accumulator of each channel.
    pub bias: &'a [i32],
    /// The scale of each accumulator.
    pub factor: &'a [f32],
    /// Added to the scaled accumulators.
    pub offset: Option<&'a [f32]>,
}

/// How sums become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requantize {
    /// The zero point of the input.
    pub x_zero: i32,
    /// The zero point of the result.
    pub y_zero: i32,
    /// The least byte of the result.
    pub low: i32,
    /// The largest byte of the result.
    pub high: i32,
}

impl Requantize {
    /// The limits as columns are told.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds { zero: self.y_zero - self.low, low: self.low, span: self.high - self.low }
    }
}

/// What sums are multiplied with, and what is added to them, each a number for each channel.
#[derive(Clone, Copy)]
pub(crate) struct Channels<'a> {
    /// What sums start with.
    pub bias: &'a [i32],
    /// What sums are multiplied with.
    pub factor: &'a [f32],
    /// What is added to the product; nothing where empty.
    pub offset: &'a [f32],
    /// Whether each factor has a [`Multiplier`].
    plain: bool,
    /// Whether the factors [`are_steady`].
    steady: bool,
}

impl<'a> Channels<'a> {
    /// Those of all channels.
    pub fn new(bias: &'a [i32], factor: &'a [f32], offset: Option<&'a [f32]>) -> Channels<'a> {
        // Without a way out of the loop it is one of vectors.
        let plain = factor.iter().fold(true, |all, &x| all & Multiplier::of(x).is_some());
        let steady = HAS_VECTORS && are_steady(factor);
        Channels { bias, factor, offset: offset.unwrap_or(&[]), plain, steady }
    }

    /// Whether each factor has a [`Multiplier`], and nothing is added to products.
    pub fn is_plain(&self) -> bool {
        self.plain && self.offset.is_empty()
    }

    /// These, of some of the same channels.
    pub fn with<'b>(self, bias: &'b [i32], factor: &'b [f32], offset: &'b [f32]) -> Channels<'b> {
        let offset = if self.offset.is_empty() { &[] } else { offset };
        Channels { bias, factor, offset, plain: self.plain, steady: self.steady }
    }

    /// Those from one on.
    pub fn from(self, first: usize) -> Channels<'a> {
        Channels {
            bias: self.bias.get(first..).unwrap_or(&[]),
            factor: self.factor.get(first..).unwrap_or(&[]),
            offset: self.offset.get(first..).unwrap_or(&[]),
            plain: self.plain,
            steady: self.steady,
        }
    }

    /// What vectors of sums of the channels from `at(v)` on are multiplied with, where that takes no look at
    /// the sums. Nothing where they may have too many bits, or where something is added to products: what
    /// is done with those one by one is more than fits in a tile's registers.
    #[inline(always)]
    pub fn steady<S: Bytes, const V: usize>(
        &self,
        s: S,
        limits: Limits<S>,
        at: impl Fn(usize) -> usize,
    ) -> Option<Steady<S, V>> {
        if !self.is_steady::<S>() {
            return None;
        }
        let mut factors = [s.level().splat(0.0); V];
        for (v, factor) in factors.iter_mut().enumerate() {
            *factor = s.level().load(&self.factor[at(v)..]);
        }
        Some(Steady { factors, ends: limits.ends })
    }

    /// The bytes, still as wide as sums, that rows of these become, those of the channels from `first` on,
    /// where all is [`steady`](Channels::steady). They are capped when they are bytes.
    #[inline(always)]
    pub fn rows<S: Bytes, const R: usize, const V: usize>(
        &self,
        s: S,
        limits: Limits<S>,
        sums: &[[Vector<S>; V]; R],
        first: usize,
    ) -> Option<[[Vector<S>; V]; R]> {
        if !self.is_steady::<S>() {
            return None;
        }
        // One look at the numbers' length is all that stands between the sums and what becomes of them.
        let mut factors = [s.level().splat(0.0); V];
        let numbers = &self.factor[first..][..V * S::LANES];
        for (v, factor) in factors.iter_mut().enumerate() {
            *factor = s.level().load(&numbers[v * S::LANES..]);
        }
        let mut rows = *sums;
        for row in &mut rows {
            *row = s.whole_products(row, &factors, limits.ends, true)?;
        }
        Some(rows)
    }

    /// Whether sums are multiplied without a look at them.
    #[inline(always)]
    fn is_steady<S: Bytes>(&self) -> bool {
        S::ROUNDS && self.steady && self.offset.is_empty()
    }

    /// The bytes, still as wide as sums, that vectors of sums become: those of the channels from
    /// `at(v)` on. They are capped when they are bytes.
    #[inline(always)]
    pub fn bytes<S: Bytes, const V: usize>(
        &self,
        s: S,
        limits: Limits<S>,
        sums: [Vector<S>; V],
        at: impl Fn(usize) -> usize,
    ) -> [Vector<S>; V] {
        let l = s.level();
        let mut factors = [l.splat(0.0); V];
        for (v, factor) in factors.iter_mut().enumerate() {
            *factor = l.load(&self.factor[at(v)..]);
        }
        let mut bytes = sums;
        if !self.offset.is_empty() {
            for (v, (byte, &factor)) in bytes.iter_mut().zip(&factors).enumerate() {
                let product = l.mul(l.to_f32(*byte), factor);
                *byte = limits.round(s, l.add(product, l.load(&self.offset[at(v)..])));
            }
        } else if let Some(whole) = s.whole_products(&sums, &factors, limits.ends, self.steady) {
            bytes = whole;
        } else {
            for (v, byte) in bytes.iter_mut().enumerate() {
                let factors = &self.factor[at(v)..][..S::LANES];
                // Where products can be rounded, few sums come here.
                *byte = if self.plain && !S::ROUNDS {
                    limits.cap(s, scale(s, *byte, factors))
                } else {
                    limits.cap(s, scale_each(s, *byte, factors))
                };
            }
        }
        bytes
    }
}

/// Factors of sums whose bits need no look.
#[derive(Clone, Copy)]
pub(crate) struct Steady<S: Bytes, const V: usize> {
    factors: [<S::Level as Simd>::F32; V],
    ends: Ends<S>,
}

impl<S: Bytes, const V: usize> Steady<S, V> {
    /// The bytes, still as wide as sums, that these become. They are capped when they are bytes.
    #[inline(always)]
    pub fn whole(&self, s: S, sums: &[Vector<S>; V]) -> [Vector<S>; V] {
        s.whole_products(sums, &self.factors, self.ends, true).unwrap_or(*sums)
    }
}

/// The byte that a sum becomes: times its factor, and with its offset added if it has one.
#[inline(always)]
fn scaled_byte(sum: i32, factor: f32, offset: Option<&f32>, to: Bounds) -> u8 {
    match offset {
        None => to.scaled(sum, factor),
        Some(offset) => to.byte(Float::round(sum as f32 * factor + offset) as i32),
    }
}

/// [`Requantize`] as vectors.
#[derive(Clone, Copy)]
pub(crate) struct Limits<S: Bytes> {
    ends: Ends<S>,
    whole: [Vector<S>; 2],
    bytes: [Vector<S>; 2],
    flip: Vector<S>,
}

impl<S: Bytes> Limits<S> {
    /// For results whose bits are `flip`ped against those of bytes without a sign.
    #[inline(always)]
    pub fn new(s: S, to: Requantize, flip: u8) -> Limits<S> {
        let s = s.level();
        let (low, high) = (to.low - to.y_zero, to.high - to.y_zero);
        Limits {
            ends: Ends {
                limits: [s.splat(low as f32), s.splat(high as f32)],
                zero: s.splat_i32(to.y_zero + i32::from(flip)),
            },
            whole: [s.splat_i32(low), s.splat_i32(high)],
            bytes: [to.low, to.high].map(|byte| s.splat_i32(quad(byte as u8 ^ flip))),
            flip: s.splat_i32(quad(flip)),
        }
    }

    /// The byte, without a sign, that a real number in steps of the result's scale becomes.
    #[inline(always)]
    pub fn round(&self, s: S, x: <S::Level as Simd>::F32) -> Vector<S> {
        let (s, [low, high]) = (s.level(), self.ends.limits);
        let x = s.min(s.max(x, low), high);
        s.add_i32(s.to_i32(x), self.ends.zero)
    }

    /// Likewise, to be capped when it is a byte.
    #[inline(always)]
    pub fn near(&self, s: S, x: <S::Level as Simd>::F32) -> Vector<S> {
        near_bytes(s, x, self.ends.zero)
    }

    /// The same as [`Limits::round`] of a whole number.
    #[inline(always)]
    pub fn cap(&self, s: S, x: Vector<S>) -> Vector<S> {
        let [low, high] = self.whole;
        s.level().add_i32(s.min_i32(s.max_i32(x, low), high), self.ends.zero)
    }

    /// Bytes without a sign, capped.
    #[inline(always)]
    pub fn capped(&self, s: S, x: Vector<S>) -> Vector<S> {
        let [low, high] = self.bytes;
        s.min_u8(s.max_u8(x, low), high)
    }

    /// The result's bits of bytes without a sign, capped.
    #[inline(always)]
    pub fn bits(&self, s: S, x: Vector<S>) -> Vector<S> {
        s.xor(self.capped(s, x), self.flip)
    }
}

/// The bytes of some vectors of a row, one vector's after the other's.
#[inline(always)]
pub(crate) fn join<S: Bytes, const V: usize>(s: S, row: [Vector<S>; V]) -> Vector<S> {
    let mut bytes = [s.level().splat_i32(0); 4];
    for (to, byte) in bytes.iter_mut().zip(row) {
        *to = byte;
    }
    s.join(bytes)
}

/// Each sum times its factor, rounded, where each factor has a [`Multiplier`].
#[inline(always)]
pub(crate) fn scale<S: Bytes>(s: S, sums: Vector<S>, factors: &[f32]) -> Vector<S> {
    let l = s.level();
    let bits = l.bits(l.load_head(factors));
    let mantissa = l.and_i32(l.shl_i32::<7>(bits), l.splat_i32(0x3fff_ffff));
    let mantissa = l.or_i32(mantissa, l.splat_i32(0x4000_0000));
    // One bit less than the shift, which is 31 at most: the last one rounds.
    let shift = l.sub_i32(l.splat_i32(124), l.shr_i32::<23>(bits));
    let shift = s.min_i32(shift, l.splat_i32(30));
    let double = s.shr_each(s.mul_high(sums, mantissa), shift);
    l.shr_i32::<1>(l.add_i32(double, l.splat_i32(1)))
}

/// Each sum times its factor, rounded, whatever the factors are.
#[inline(always)]
pub(crate) fn scale_each<S: Bytes>(s: S, sums: Vector<S>, factors: &[f32]) -> Vector<S> {
    let mut numbers = [0; MAX_SUMS];
    s.store_sums(sums, &mut numbers);
    scale_numbers(&mut numbers[..S::LANES], factors);
    s.load_sums(&numbers)
}

/// The same of numbers in memory, out of the way of what calls it.
#[cold]
#[inline(never)]
fn scale_numbers(sums: &mut [i32], factors: &[f32]) {
    for (sum, &factor) in sums.iter_mut().zip(factors) {
        *sum = scaled(*sum, factor);
    }
}

/// Four times the byte.
#[inline(always)]
pub(crate) fn quad(byte: u8) -> i32 {
    i32::from_ne_bytes([byte; 4])
}

/// The first `n` elements from an address on that is a multiple of 64 bytes, and what follows.
pub(crate) fn split_aligned(scratch: &mut [u8], n: usize) -> (&mut [u8], &mut [u8]) {
    let skip = scratch.as_ptr().align_offset(ALIGN);
    let skip = if skip > ALIGN { 0 } else { skip };
    scratch[skip..].split_at_mut(n)
}

/// Where a part of scratch memory starts.
pub(crate) const ALIGN: usize = 64;
