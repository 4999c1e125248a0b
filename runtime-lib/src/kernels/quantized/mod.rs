//! Operators on quantized 8-bit tensors, whose bytes represent `(byte - zero) · scale`. Passes make
//! them of floating-point operators between quantized tensors.
//!
//! Accumulation is exact, in 32 bits that wrap around. Requantization multiplies an accumulator by
//! a factor exactly, rounds to nearest (ties to even), adds the zero point, and saturates at limits
//! that a fused activation may narrow.
//!
//! The instructions of processors multiply unsigned by signed bytes. Signed inputs are made
//! unsigned by flipping their sign bit, which adds 128 to their zero point. The bias of each
//! channel includes the correction.

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
pub use binary::{Blend, Repeated, add, add_repeated, mul, mul_repeated, sum_factors};
pub use conv::{
    DynamicConvOperands, conv_scratch, conv_starts, dynamic_conv_nchw, dynamic_conv_scratch,
    int8_conv_nchw, int8_conv_nchw_with_zeros, pack_weights, packed_weights_len,
};
pub use matmul::{
    DynamicMatMulOperands, MOST_ROWS, Product, dynamic_matmul, matmul, matmul_scratch,
    matmul_with_zeros, pack_columns, packed_columns_depth, packed_columns_len,
};
pub(crate) use pool::requantize_sums;
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

/// The operands of a quantized convolution or product whose weights have zero points.
#[derive(Clone, Copy, Debug)]
pub struct ZeroPointOperands<'a, X> {
    /// The input.
    pub x: &'a [X],
    /// The weights.
    pub w: &'a [i8],
    /// The zero point of each channel's weights.
    pub w_zero: &'a [i32],
    /// The initial accumulator of each channel.
    pub bias: &'a [i32],
    /// The scale of each accumulator.
    pub factor: &'a [f32],
    /// Added to the scaled accumulators.
    pub offset: Option<&'a [f32]>,
}

impl<'a, X> ZeroPointOperands<'a, X> {
    /// Returns the operands, and the zero points of the weights.
    #[inline(always)]
    fn split(self) -> (Int8Operands<'a, X>, &'a [i32]) {
        let ZeroPointOperands { x, w, w_zero, bias, factor, offset } = self;
        (Int8Operands { x, w, bias, factor, offset }, w_zero)
    }
}

/// The parameters of requantization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requantize {
    /// The zero point of the input.
    pub x_zero: i32,
    /// The zero point of the result.
    pub y_zero: i32,
    /// The smallest byte of the result.
    pub low: i32,
    /// The largest byte of the result.
    pub high: i32,
}

impl Requantize {
    /// The limits in the form that scalar code uses.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds { zero: self.y_zero - self.low, low: self.low, span: self.high - self.low }
    }
}

/// The initial accumulators and the scaling of channels.
#[derive(Clone, Copy)]
pub(crate) struct Channels<'a> {
    /// The initial accumulators.
    pub bias: &'a [i32],
    /// The factors of accumulators.
    pub factor: &'a [f32],
    /// Added to the products with the factors; empty for none.
    pub offset: &'a [f32],
    /// Whether each factor has a [`Multiplier`].
    plain: bool,
    /// Whether the factors [`are_steady`].
    steady: bool,
}

impl<'a> Channels<'a> {
    /// The numbers of all channels.
    pub fn new(bias: &'a [i32], factor: &'a [f32], offset: Option<&'a [f32]>) -> Channels<'a> {
        // A loop without an early exit is vectorized.
        let plain = factor.iter().fold(true, |all, &x| all & Multiplier::of(x).is_some());
        let steady = HAS_VECTORS && are_steady(factor);
        Channels { bias, factor, offset: offset.unwrap_or(&[]), plain, steady }
    }

    /// Returns whether each factor has a [`Multiplier`], and there are no offsets.
    pub fn is_plain(&self) -> bool {
        self.plain && self.offset.is_empty()
    }

    /// Replaces the numbers by those of a subset of the channels.
    pub fn with<'b>(self, bias: &'b [i32], factor: &'b [f32], offset: &'b [f32]) -> Channels<'b> {
        let offset = if self.offset.is_empty() { &[] } else { offset };
        Channels { bias, factor, offset, plain: self.plain, steady: self.steady }
    }

    /// The channels from `first` on.
    pub fn from(self, first: usize) -> Channels<'a> {
        Channels {
            bias: self.bias.get(first..).unwrap_or(&[]),
            factor: self.factor.get(first..).unwrap_or(&[]),
            offset: self.offset.get(first..).unwrap_or(&[]),
            plain: self.plain,
            steady: self.steady,
        }
    }

    /// Returns the factors of vectors of accumulators, of the channels from `at(v)` on, if
    /// requantization does not depend on the size of the accumulators. Returns `None` if
    /// accumulators may have too many bits or if there are offsets, whose code needs more registers
    /// than a tile leaves.
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

    /// Requantizes rows of accumulators of the channels from `first` on, if they are
    /// [`steady`](Channels::steady), and leaves each byte in its 32-bit lane. The bytes are not
    /// saturated at the limits yet.
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
        // A single bounds check precedes the loops.
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

    /// Returns whether requantization does not depend on the size of the accumulators.
    #[inline(always)]
    fn is_steady<S: Bytes>(&self) -> bool {
        S::ROUNDS && self.steady && self.offset.is_empty()
    }

    /// Requantizes vectors of accumulators of the channels from `at(v)` on, and leaves each byte in
    /// its 32-bit lane. The bytes may not be saturated at the limits yet.
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
                // If the level rounds products, few accumulators reach this branch.
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

/// The factors of accumulators of any size.
#[derive(Clone, Copy)]
pub(crate) struct Steady<S: Bytes, const V: usize> {
    factors: [<S::Level as Simd>::F32; V],
    ends: Ends<S>,
}

impl<S: Bytes, const V: usize> Steady<S, V> {
    /// Requantizes accumulators, and leaves each byte in its 32-bit lane, not saturated at the
    /// limits yet.
    #[inline(always)]
    pub fn whole(&self, s: S, sums: &[Vector<S>; V]) -> [Vector<S>; V] {
        s.whole_products(sums, &self.factors, self.ends, true).unwrap_or(*sums)
    }
}

/// Requantizes an accumulator: multiplies it by its factor and adds the offset, if there is one.
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
    /// Limits for results that differ from unsigned bytes by an XOR with `flip`.
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

    /// Rounds a number in units of the result's scale to an unsigned byte.
    #[inline(always)]
    pub fn round(&self, s: S, x: <S::Level as Simd>::F32) -> Vector<S> {
        let (s, [low, high]) = (s.level(), self.ends.limits);
        let x = s.min(s.max(x, low), high);
        s.add_i32(s.to_i32(x), self.ends.zero)
    }

    /// The same as [`Limits::round`], but saturated only after the conversion to bytes.
    #[inline(always)]
    pub fn near(&self, s: S, x: <S::Level as Simd>::F32) -> Vector<S> {
        near_bytes(s, x, self.ends.zero)
    }

    /// The same as [`Limits::round`], for integers.
    #[inline(always)]
    pub fn cap(&self, s: S, x: Vector<S>) -> Vector<S> {
        let [low, high] = self.whole;
        s.level().add_i32(s.min_i32(s.max_i32(x, low), high), self.ends.zero)
    }

    /// Saturates unsigned bytes at the limits.
    #[inline(always)]
    pub fn capped(&self, s: S, x: Vector<S>) -> Vector<S> {
        let [low, high] = self.bytes;
        s.min_u8(s.max_u8(x, low), high)
    }

    /// Saturates unsigned bytes and converts them to the type of the result.
    #[inline(always)]
    pub fn bits(&self, s: S, x: Vector<S>) -> Vector<S> {
        s.xor(self.capped(s, x), self.flip)
    }
}

/// Joins the bytes of the vectors of a row in order.
#[inline(always)]
pub(crate) fn join<S: Bytes, const V: usize>(s: S, row: [Vector<S>; V]) -> Vector<S> {
    let mut bytes = [s.level().splat_i32(0); 4];
    for (to, byte) in bytes.iter_mut().zip(row) {
        *to = byte;
    }
    s.join(bytes)
}

/// Multiplies accumulators by factors, each of which has a [`Multiplier`], and rounds.
#[inline(always)]
pub(crate) fn scale<S: Bytes>(s: S, sums: Vector<S>, factors: &[f32]) -> Vector<S> {
    let l = s.level();
    let bits = l.bits(l.load_head(factors));
    let mantissa = l.and_i32(l.shl_i32::<7>(bits), l.splat_i32(0x3fff_ffff));
    let mantissa = l.or_i32(mantissa, l.splat_i32(0x4000_0000));
    // One bit less than the shift, which is 31 at most: the last bit rounds.
    let shift = l.sub_i32(l.splat_i32(124), l.shr_i32::<23>(bits));
    let shift = s.min_i32(shift, l.splat_i32(30));
    let double = s.shr_each(s.mul_high(sums, mantissa), shift);
    l.shr_i32::<1>(l.add_i32(double, l.splat_i32(1)))
}

/// Multiplies accumulators by any factors and rounds.
#[inline(always)]
pub(crate) fn scale_each<S: Bytes>(s: S, sums: Vector<S>, factors: &[f32]) -> Vector<S> {
    let mut numbers = [0; MAX_SUMS];
    s.store_sums(sums, &mut numbers);
    scale_numbers(&mut numbers[..S::LANES], factors);
    s.load_sums(&numbers)
}

/// The same in memory, in a cold function so that its callers stay small.
#[cold]
#[inline(never)]
fn scale_numbers(sums: &mut [i32], factors: &[f32]) {
    for (sum, &factor) in sums.iter_mut().zip(factors) {
        *sum = scaled(*sum, factor);
    }
}

/// Broadcasts a byte to the four bytes of a word.
#[inline(always)]
pub(crate) fn quad(byte: u8) -> i32 {
    i32::from_ne_bytes([byte; 4])
}

/// Splits off `n` bytes at the next multiple of 64 bytes.
pub(crate) fn split_aligned(scratch: &mut [u8], n: usize) -> (&mut [u8], &mut [u8]) {
    let skip = scratch.as_ptr().align_offset(ALIGN);
    let skip = if skip > ALIGN { 0 } else { skip };
    scratch[skip..].split_at_mut(n)
}

/// The alignment of the parts of scratch memory, in bytes.
pub(crate) const ALIGN: usize = 64;
