//! Element-wise sums and products of two 8-bit tensors.

use super::divisor::{Divisor, ORDINARY};
use super::{Limits, Requantize};
use crate::Float;
use crate::simd::Simd;
use crate::simd::int8::{Byte, Bytes, MAX_BYTES, Vector, WithBytes, dispatch_bytes};
use crate::threads;

/// The quantization of both operands and of the result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blend {
    /// The zero points of the operands.
    pub zeros: [i32; 2],
    /// The scales of the operands.
    pub scales: [f32; 2],
    /// The scale of the result.
    pub scale: f32,
    /// Whether the second operand is a single byte, which is broadcast.
    pub one: bool,
    /// For a sum, the factors of its operands that replace the scales; see [`sum_factors`].
    pub factors: Option<[f32; 2]>,
}

/// Finds two factors such that `a · factors[0] + b · factors[1]`, fused and rounded once, gives the
/// same byte as the steps of [`add`] for every pair of bytes. The check tries all pairs. Returns
/// `None` if there are no such factors. Bytes and zero points are unsigned; add 128 to signed ones.
pub fn sum_factors(of: Blend, to: Requantize) -> Option<[f32; 2]> {
    let [first, second] = of.scales.map(|scale| {
        let factor = scale / of.scale;
        [factor, factor.next_up(), factor.next_down()]
    });
    let by_scales = Combined::<false>::new(of, to);
    let mut all = first.into_iter().flat_map(|a| second.map(|b| [a, b]));
    all.find(|factors| {
        let is_ordinary = factors.iter().all(|factor| ORDINARY.contains(factor));
        is_ordinary && by_scales.factors_serve(*factors)
    })
}

/// `y = a + b` with the same roundings as in `f32`: each operand times its scale, and the sum
/// divided by the scale of the result.
#[inline(never)]
pub fn add<A: Byte, B: Byte, Y: Byte>(a: &[A], b: &[B], y: &mut [Y], of: Blend, to: Requantize) {
    share(a, b, y, of, |a, b, y| dispatch_bytes(Binary::<false>::new(a, b, y, of, to)));
}

/// `y = a · b` with the same roundings as in `f32`.
#[inline(never)]
pub fn mul<A: Byte, B: Byte, Y: Byte>(a: &[A], b: &[B], y: &mut [Y], of: Blend, to: Requantize) {
    share(a, b, y, of, |a, b, y| dispatch_bytes(Binary::<true>::new(a, b, y, of, to)));
}

/// The rows of a second operand that are repeated: each `times` times, as often as there are rows
/// of the first operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// The number of elements of a row.
    pub row: usize,
    /// How often each row is repeated.
    pub times: usize,
}

/// `y = a + b` as [`add`] computes it, with the rows of `b` repeated.
#[inline(never)]
pub fn add_repeated<A: Byte, B: Byte, Y: Byte>(
    a: &[A],
    b: &[B],
    y: &mut [Y],
    of: Blend,
    to: Requantize,
    rows: Repeated,
) {
    share_rows(a, b, y, rows, |a, b, y| {
        dispatch_bytes(Rows(Binary::<false>::new(a, b, y, of, to), rows));
    });
}

/// `y = a · b` as [`mul`] computes it, with the rows of `b` repeated.
#[inline(never)]
pub fn mul_repeated<A: Byte, B: Byte, Y: Byte>(
    a: &[A],
    b: &[B],
    y: &mut [Y],
    of: Blend,
    to: Requantize,
    rows: Repeated,
) {
    share_rows(a, b, y, rows, |a, b, y| {
        dispatch_bytes(Rows(Binary::<true>::new(a, b, y, of, to), rows));
    });
}

/// Adds the start of `a` to `y`, as [`add`] does.
#[inline(never)]
pub(crate) fn add_to(y: &mut [u8], a: &[u8], of: Blend, to: Requantize) {
    dispatch_bytes(Added { y, a, of: Combined::new(of, to) });
}

/// Splits the operands and the result between threads if that pays.
#[inline(always)]
fn share<A: Byte, B: Byte, Y: Byte>(
    a: &[A],
    b: &[B],
    y: &mut [Y],
    of: Blend,
    part: impl Fn(&[A], &[B], &mut [Y]) + Sync,
) {
    let cost = y.len();
    threads::share(y, MAX_BYTES, cost, |first, y| {
        let at = first * MAX_BYTES;
        part(&a[at..], if of.one { b } else { &b[at..] }, y);
    });
}

/// Splits the operands and the result between threads by the rows of the second operand, if that
/// pays.
#[inline(always)]
fn share_rows<A: Byte, B: Byte, Y: Byte>(
    a: &[A],
    b: &[B],
    y: &mut [Y],
    rows: Repeated,
    part: impl Fn(&[A], &[B], &mut [Y]) + Sync,
) {
    let (cost, block) = (y.len(), (rows.row * rows.times).max(1));
    threads::share(y, block, cost, |first, y| part(&a[first * block..], &b[first * rows.row..], y));
}

struct Binary<'a, const PRODUCT: bool> {
    operands: [Operand<'a>; 2],
    y: &'a mut [u8],
    of: Combined<PRODUCT>,
    flip: u8,
}

#[derive(Clone, Copy)]
struct Operand<'a> {
    bits: &'a [u8],
    flip: u8,
    one: bool,
}

impl<'a, const PRODUCT: bool> Binary<'a, PRODUCT> {
    fn new<A: Byte, B: Byte, Y: Byte>(
        a: &'a [A],
        b: &'a [B],
        y: &'a mut [Y],
        of: Blend,
        to: Requantize,
    ) -> Binary<'a, PRODUCT> {
        let moved = |zero: i32, flip: u8| zero + i32::from(flip);
        let zeros = [moved(of.zeros[0], A::FLIP), moved(of.zeros[1], B::FLIP)];
        let [y_zero, low, high] = [to.y_zero, to.low, to.high].map(|byte| moved(byte, Y::FLIP));
        let to = Requantize { y_zero, low, high, ..to };
        let a = Operand { bits: A::bits(a), flip: A::FLIP, one: false };
        let b = Operand { bits: B::bits(b), flip: B::FLIP, one: of.one };
        let of = Combined::new(Blend { zeros, ..of }, to);
        Binary { operands: [a, b], y: Y::bits_mut(y), of, flip: Y::FLIP }
    }
}

impl Operand<'_> {
    /// Returns an unsigned byte.
    #[inline(always)]
    fn byte(&self, at: usize) -> u8 {
        self.bits[if self.one { 0 } else { at }] ^ self.flip
    }

    /// Returns a vector of unsigned bytes.
    #[inline(always)]
    fn bytes<S: Bytes>(&self, s: S, at: usize) -> Vector<S> {
        let l = s.level();
        let bytes = match self.one {
            true => l.splat_i32(super::quad(self.bits[0])),
            false => s.load_bytes(&self.bits[at..]),
        };
        s.xor(bytes, l.splat_i32(super::quad(self.flip)))
    }
}

impl<const PRODUCT: bool> Binary<'_, PRODUCT> {
    /// Computes one byte at a time.
    #[inline(never)]
    fn run_scalar(self) {
        let [a, b] = self.operands;
        for (i, y) in self.y.iter_mut().enumerate() {
            *y = self.of.byte(a.byte(i), b.byte(i)) ^ self.flip;
        }
    }
}

impl<const PRODUCT: bool> WithBytes for Binary<'_, PRODUCT> {
    #[inline(always)]
    fn run<S: Bytes>(self, s: S) {
        if S::IS_SCALAR {
            return self.run_scalar();
        }
        self.run_vectors(s);
    }
}

/// The operation with the rows of the second operand repeated.
struct Rows<'a, const PRODUCT: bool>(Binary<'a, PRODUCT>, Repeated);

impl<const PRODUCT: bool> WithBytes for Rows<'_, PRODUCT> {
    #[inline(always)]
    fn run<S: Bytes>(self, s: S) {
        let Rows(Binary { operands: [a, b], y, of, flip }, Repeated { row, times }) = self;
        for (i, y) in y.chunks_exact_mut((row * times).max(1)).enumerate() {
            let b = Operand { bits: &b.bits[i * row..][..row], one: row == 1, ..b };
            let a = Operand { bits: &a.bits[i * row * times..][..row * times], ..a };
            // A row of one element is one number for all elements of the first operand.
            if row == 1 {
                Binary { operands: [a, b], y, of, flip }.run(s);
            } else if S::IS_SCALAR {
                for (a_bits, y) in a.bits.chunks_exact(row).zip(y.chunks_exact_mut(row)) {
                    let a = Operand { bits: a_bits, ..a };
                    Binary { operands: [a, b], y, of, flip }.run_scalar();
                }
            } else {
                Binary { operands: [a, b], y, of, flip }.run_columns(s, row);
            }
        }
    }
}

impl<const PRODUCT: bool> Binary<'_, PRODUCT> {
    /// Combines each row of the first operand with the second operand, which is one row. A vector
    /// of the second operand is scaled once for all rows.
    #[inline(always)]
    fn run_columns<S: Bytes>(self, s: S, row: usize) {
        let Binary { operands: [a, b], y, of, flip } = self;
        let [flip, a_flip] = [flip, a.flip].map(|flip| s.level().splat_i32(super::quad(flip)));
        for first in (0..row).step_by(4 * S::LANES) {
            let count = (row - first).min(4 * S::LANES);
            let b = of.second(s, b.bytes(s, first));
            for (a, y) in a.bits.chunks_exact(row).zip(y.chunks_exact_mut(row)) {
                let a = s.xor(s.load_bytes(&a[first..][..count]), a_flip);
                s.store_bytes(s.xor(of.with(s, a, b), flip), &mut y[first..][..count]);
            }
        }
    }

    /// Computes a vector of bytes at a time.
    #[inline(always)]
    fn run_vectors<S: Bytes>(self, s: S) {
        let Binary { operands: [a, b], y, of, flip } = self;
        let flip = s.level().splat_i32(super::quad(flip));
        let one = if b.one { Some(of.second(s, b.bytes(s, 0))) } else { None };
        for (i, y) in y.chunks_mut(4 * S::LANES).enumerate() {
            let at = i * 4 * S::LANES;
            let b = match one {
                Some(one) => one,
                None => of.second(s, b.bytes(s, at)),
            };
            s.store_bytes(s.xor(of.with(s, a.bytes(s, at), b), flip), y);
        }
    }
}

/// A sum in place of its first operand.
struct Added<'a> {
    y: &'a mut [u8],
    a: &'a [u8],
    of: Combined<false>,
}

impl WithBytes for Added<'_> {
    #[inline(always)]
    fn run<S: Bytes>(self, s: S) {
        let Added { y, a, of } = self;
        if S::IS_SCALAR {
            return y.iter_mut().zip(a).for_each(|(y, &a)| *y = of.byte(*y, a));
        }
        let width = 4 * S::LANES;
        for (y, a) in y.chunks_mut(width).zip(a.chunks(width)) {
            let bytes = of.bytes(s, s.load_bytes(y), s.load_bytes(a));
            s.store_bytes(bytes, y);
        }
    }
}

/// The sum or the product of two unsigned bytes, as an unsigned byte.
#[derive(Clone, Copy)]
struct Combined<const PRODUCT: bool> {
    zeros: [i32; 2],
    scales: [f32; 2],
    scale: Divisor,
    /// The factors that replace the scales of a sum.
    factors: Option<[f32; 2]>,
    to: Requantize,
}

impl<const PRODUCT: bool> Combined<PRODUCT> {
    /// Combines bytes as `of` says, with the zero point and the limits of `to`.
    fn new(of: Blend, to: Requantize) -> Combined<PRODUCT> {
        let Blend { zeros, scales, scale, factors, .. } = of;
        Combined { zeros, scales, scale: Divisor::new(scale, scales), factors, to }
    }

    /// Returns whether these factors give the right byte for every pair.
    fn factors_serve(&self, [a_factor, b_factor]: [f32; 2]) -> bool {
        let number = |byte: u8, i: usize| (i32::from(byte) - self.zeros[i]) as f32;
        let bounds = self.to.bounds();
        let mut all = (0..=u8::MAX).flat_map(|a| (0..=u8::MAX).map(move |b| (a, b)));
        all.all(|(a, b)| {
            let sum = libm::fmaf(number(a, 0), a_factor, number(b, 1) * b_factor);
            bounds.byte(Float::round(sum) as i32) == self.byte(a, b)
        })
    }

    /// Combines two bytes.
    #[inline(always)]
    fn byte(&self, a: u8, b: u8) -> u8 {
        let number = |byte: u8, i: usize| (i32::from(byte) - self.zeros[i]) as f32 * self.scales[i];
        let (a, b) = (number(a, 0), number(b, 1));
        let x = if PRODUCT { a * b } else { a + b };
        self.to.bounds().byte(Float::round(x / self.scale.number()) as i32)
    }

    /// Combines two vectors of bytes.
    #[inline(always)]
    fn bytes<S: Bytes>(&self, s: S, a: Vector<S>, b: Vector<S>) -> Vector<S> {
        self.with(s, a, self.second(s, b))
    }

    /// Returns the factors that replace the scales, if the level can use them.
    #[inline(always)]
    fn fused<S: Bytes>(&self) -> Option<[f32; 2]> {
        self.factors.filter(|_| S::Level::FUSES && !PRODUCT)
    }

    /// Scales the second operand as [`Combined::with`] takes it.
    #[inline(always)]
    fn second<S: Bytes>(&self, s: S, b: Vector<S>) -> [<S::Level as Simd>::F32; 4] {
        let l = s.level();
        let factor = l.splat(self.fused::<S>().unwrap_or(self.scales)[1]);
        self.numbers(s, b, 1).map(
            #[inline(always)]
            |b| l.mul(b, factor),
        )
    }

    /// Combines a vector of bytes with the second operand.
    #[inline(always)]
    fn with<S: Bytes>(&self, s: S, a: Vector<S>, b: [<S::Level as Simd>::F32; 4]) -> Vector<S> {
        let (l, limits) = (s.level(), Limits::new(s, self.to, 0));
        let mut lanes: [Vector<S>; 4] = [l.splat_i32(0); 4];
        for (lane, (a, b)) in lanes.iter_mut().zip(self.numbers(s, a, 0).into_iter().zip(b)) {
            let real = match self.fused::<S>() {
                Some([factor, _]) => l.mul_add(a, l.splat(factor), b),
                None => {
                    let a = l.mul(a, l.splat(self.scales[0]));
                    self.scale.quotient(l, if PRODUCT { l.mul(a, b) } else { l.add(a, b) })
                }
            };
            *lane = limits.near(s, real);
        }
        limits.capped(s, s.collect(lanes))
    }

    /// Returns the bytes of operand `i` minus the zero point, in the order that [`Bytes::collect`]
    /// reverses.
    #[inline(always)]
    fn numbers<S: Bytes>(&self, s: S, bytes: Vector<S>, i: usize) -> [<S::Level as Simd>::F32; 4] {
        let l = s.level();
        // A float from 2²³ on has its integer part in the low bits of its mantissa, here the byte.
        let (none, exponent) = (l.splat_i32(0), l.splat_i32(super::quad(0x4b)));
        let lanes = s.interleave([bytes, none, none, exponent]);
        let zero = l.splat(8_388_608.0 + self.zeros[i] as f32);
        lanes.map(
            #[inline(always)]
            |lane| l.sub(l.with_bits(lane), zero),
        )
    }
}
