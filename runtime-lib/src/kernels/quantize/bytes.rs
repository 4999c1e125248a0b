//! Quantization of `f32` to bytes, which is as fast as dividing.

use super::WholeQuantum;
use crate::simd::Simd;
use crate::simd::int8::{Bytes, MAX_BYTES, Vector, WithBytes};
use core::marker::PhantomData;

/// Neighboring elements, and the scale and the zero point of each.
pub(super) struct ToBytes<'a, Y> {
    pub x: &'a [f32],
    pub scale: &'a [f32],
    pub zero: &'a [f32],
    /// The bits of the results.
    pub y: &'a mut [u8],
    /// The type of the results.
    pub of: PhantomData<Y>,
}

impl<Y: WholeQuantum> WithBytes for ToBytes<'_, Y> {
    #[inline(always)]
    fn run<S: Bytes>(self, s: S) {
        let ToBytes { x, scale, zero, y, of: _ } = self;
        // Constants: reading them from the struct, which was just written in pieces, would stall.
        let (limits, flip) = ([Y::LOW, Y::HIGH], if Y::LOW < 0.0 { 0x80 } else { 0 });
        let l = s.level();
        let limits = [l.splat(limits[0]), l.splat(limits[1])];
        let offset = l.splat_i32(i32::from(flip));
        let flip = l.splat_i32(i32::from_ne_bytes([flip; 4]));
        let group = 4 * S::LANES;
        let whole = x.len() - x.len() % group;
        for at in (0..whole).step_by(group) {
            let mut numbers = [offset; 4];
            for (v, number) in numbers.iter_mut().enumerate() {
                let at = at + v * S::LANES;
                let operands = [l.load(&x[at..]), l.load(&scale[at..]), l.load(&zero[at..])];
                *number = l.add_i32(*number, quantized(s, operands, limits));
            }
            s.store_bytes(s.xor(s.join(numbers), flip), &mut y[at..at + group]);
        }
        if whole < x.len() {
            let mut numbers = [offset; 4];
            for (v, number) in numbers.iter_mut().enumerate() {
                let at = (whole + v * S::LANES).min(x.len());
                let operands = [&x[at..], &scale[at..], &zero[at..]];
                let [x, scale, zero] = operands;
                let operands = [l.load_head(x), l.load_head(scale), l.load_head(zero)];
                *number = l.add_i32(*number, quantized(s, operands, limits));
            }
            let mut rest = [0; MAX_BYTES];
            s.store_bytes(s.xor(s.join(numbers), flip), &mut rest[..group]);
            let to = &mut y[whole..];
            to.copy_from_slice(&rest[..to.len()]);
        }
    }
}

/// Returns `round(x / scale) + zero`, saturated.
#[inline(always)]
fn quantized<S: Bytes>(
    s: S,
    [x, scale, zero]: [<S::Level as Simd>::F32; 3],
    [low, high]: [<S::Level as Simd>::F32; 2],
) -> Vector<S> {
    let l = s.level();
    // The limits are integers, so that the order of rounding and saturation does not matter. The
    // maximum of NaN is the lower limit.
    let quotient = l.max(l.div(x, scale), l.sub(low, zero));
    let quotient = l.min(quotient, l.sub(high, zero));
    l.add_i32(l.to_i32(quotient), l.to_i32(zero))
}
