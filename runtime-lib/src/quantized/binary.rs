//! Sums and products of two tensors of bytes, element by element.

use super::divisor::Divisor;
use super::{Limits, Requantize};
use crate::Float;
use crate::simd::Simd;
use crate::simd::bytes::{Byte, Bytes, MAX_BYTES, Vector, WithBytes, dispatch_bytes};
use crate::threads;

/// What the bytes of two operands and of the result stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Blend {
    /// The zero points of the operands.
    pub zeros: [i32; 2],
    /// The scales of the operands.
    pub scales: [f32; 2],
    /// The scale of the result.
    pub scale: f32,
    /// Whether the second operand is one byte for all.
    pub one: bool,
}

/// `y = a + b`, in the very steps that real numbers would take: each operand times its scale, the
/// sum over that of the result.
#[inline(never)]
pub fn add<A: Byte, B: Byte, Y: Byte>(a: &[A], b: &[B], y: &mut [Y], of: Blend, to: Requantize) {
    share(a, b, y, of, |a, b, y| dispatch_bytes(Binary::<false>::new(a, b, y, of, to)));
}

/// `y = a · b`, likewise.
#[inline(never)]
pub fn mul<A: Byte, B: Byte, Y: Byte>(a: &[A], b: &[B], y: &mut [Y], of: Blend, to: Requantize) {
    share(a, b, y, of, |a, b, y| dispatch_bytes(Binary::<true>::new(a, b, y, of, to)));
}

/// Hands out parts of the operands and of the result, to several threads where that pays.
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

struct Binary<'a, const PRODUCT: bool> {
    operands: [Operand<'a>; 2],
    y: &'a mut [u8],
    scale: f32,
    to: Requantize,
    flip: u8,
}

#[derive(Clone, Copy)]
struct Operand<'a> {
    bits: &'a [u8],
    flip: u8,
    zero: i32,
    scale: f32,
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
        let operand = |bits, flip: u8, i: usize| Operand {
            bits,
            flip,
            zero: of.zeros[i] + i32::from(flip),
            scale: of.scales[i],
            one: i == 1 && of.one,
        };
        let operands = [operand(A::bits(a), A::FLIP, 0), operand(B::bits(b), B::FLIP, 1)];
        Binary { operands, y: Y::bits_mut(y), scale: of.scale, to, flip: Y::FLIP }
    }
}

impl Operand<'_> {
    /// The real number of a byte.
    #[inline(always)]
    fn number(&self, at: usize) -> f32 {
        let byte = self.bits[if self.one { 0 } else { at }] ^ self.flip;
        (i32::from(byte) - self.zero) as f32 * self.scale
    }

    /// The real numbers of `4 · LANES` bytes, in the order that [`Bytes::collect`] undoes.
    #[inline(always)]
    fn real<S: Bytes>(&self, s: S, at: usize) -> [<S::Level as Simd>::F32; 4] {
        let l = s.level();
        let flip = l.splat_i32(super::quad(self.flip));
        let bytes = match self.one {
            true => l.splat_i32(super::quad(self.bits[0])),
            false => s.load_bytes(&self.bits[at..]),
        };
        // The last bits of numbers from 2²³ on count whole ones, and these are bytes.
        let (none, exponent) = (l.splat_i32(0), l.splat_i32(super::quad(0x4b)));
        let lanes = s.interleave([s.xor(bytes, flip), none, none, exponent]);
        let (zero, scale) = (l.splat(8_388_608.0 + self.zero as f32), l.splat(self.scale));
        let mut real = [scale; 4];
        for (real, lane) in real.iter_mut().zip(lanes) {
            *real = l.mul(l.sub(l.with_bits(lane), zero), scale);
        }
        real
    }
}

impl<const PRODUCT: bool> Binary<'_, PRODUCT> {
    /// One byte after the other.
    #[inline(never)]
    fn narrow(self) {
        let (bounds, [a, b]) = (self.to.bounds(), self.operands);
        for (i, y) in self.y.iter_mut().enumerate() {
            let (a, b) = (a.number(i), b.number(i));
            let x = if PRODUCT { a * b } else { a + b };
            *y = bounds.byte(Float::round(x / self.scale) as i32);
        }
    }
}

impl<const PRODUCT: bool> WithBytes for Binary<'_, PRODUCT> {
    #[inline(always)]
    fn run<S: Bytes>(self, s: S) {
        if S::NARROW {
            return self.narrow();
        }
        let l = s.level();
        let limits = Limits::new(s, self.to, self.flip);
        let scale = Divisor::new(self.scale, self.operands.map(|of| of.scale));
        let [a, b] = self.operands;
        for (i, y) in self.y.chunks_mut(4 * S::LANES).enumerate() {
            let (a, b) = (a.real(s, i * 4 * S::LANES), b.real(s, i * 4 * S::LANES));
            let mut lanes: [Vector<S>; 4] = [l.splat_i32(0); 4];
            for (lane, (a, b)) in lanes.iter_mut().zip(a.into_iter().zip(b)) {
                let x = if PRODUCT { l.mul(a, b) } else { l.add(a, b) };
                *lane = limits.near(s, scale.quotient(l, x));
            }
            s.store_bytes(limits.bits(s, s.collect(lanes)), y);
        }
    }
}
