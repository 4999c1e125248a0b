//! Quantization by scales and zero points: `QuantizeLinear`, `DequantizeLinear` and
//! `DynamicQuantizeLinear`.
//!
//! Elements are processed in blocks: one loop converts a type to `f32`, another one converts `f32`
//! to a type, so that there is a loop for each type and not for each pair of types.

mod bytes;
mod quantum;
mod small;

pub use quantum::{Quantum, WholeQuantum};
pub use small::{small_dequantize, small_quantize};

use crate::element::sticky_f32;
use crate::loops::elementwise::map;
use crate::loops::fold::{Fold, Max, Min};
use crate::simd::int8::{HAS_BYTES, dispatch_bytes};
use crate::simd::{HAS_VECTORS, Pointwise, Simd, WithSimd, dispatch, map_at};
use crate::threads::{self, MaybeSync};
use crate::{Exact, Float, Float8, Number, Real};
use bytes::ToBytes;
use core::marker::PhantomData;
use core::ops::Range;

/// The elements that share a scale, in a tensor of `outer · len · inner` elements: those of `block`
/// positions along the axis of `len`. The strides of scales are in elements; a stride is 0 if all
/// positions along an axis share a scale.
#[derive(Clone, Copy, Debug)]
pub struct Scales {
    /// The product of the sizes before the axis.
    pub outer: usize,
    /// The size of the axis.
    pub len: usize,
    /// The product of the sizes after the axis.
    pub inner: usize,
    /// The number of positions along the axis that share a scale.
    pub block: usize,
    /// The stride of scales along the axes before.
    pub outer_step: usize,
    /// The stride of the scales of blocks.
    pub block_step: usize,
    /// The stride of scales along the axes after: 0 or 1.
    pub inner_step: usize,
}

/// Neighboring elements with one scale, or with neighboring scales.
#[derive(Clone, Copy)]
struct Run {
    first: usize,
    len: usize,
    scale: usize,
}

impl Scales {
    /// Returns the geometry of `len` elements with one scale.
    const fn of_one(len: usize) -> Scales {
        let (outer_step, block_step, inner_step) = (0, 0, 0);
        Scales { outer: 1, len, inner: 1, block: len, outer_step, block_step, inner_step }
    }

    /// Returns whether all elements have one scale.
    const fn is_one(&self) -> bool {
        let of_outer = self.outer <= 1 || self.outer_step == 0;
        let from_nchwc = self.len <= self.block || self.block_step == 0;
        of_outer && from_nchwc && self.inner_step == 0
    }

    /// Splits the elements among threads if all have one scale. `part` gets the index of its first
    /// element, its elements, and their scales.
    fn share<Y: Send>(self, y: &mut [Y], part: impl Fn(usize, &mut [Y], Scales) + MaybeSync) {
        if !self.is_one() {
            return part(0, y, self);
        }
        // Each block takes two passes.
        let cost = 2 * y.len();
        threads::share(y, BLOCK, cost, |first, y| {
            let scales = Scales::of_one(y.len());
            part(first * BLOCK, y, scales);
        });
    }

    /// Calls `visit` with every run of elements, in order.
    fn each(self, visit: &mut dyn FnMut(Run)) {
        let Scales { outer, len, inner, block, outer_step, block_step, inner_step } = self;
        if len == 0 || inner == 0 {
            return;
        }
        let mut first = 0;
        for o in 0..outer {
            for (i, at) in (0..len).step_by(block.max(1)).enumerate() {
                let (places, scale) = (block.min(len - at), o * outer_step + i * block_step);
                let (runs, len) =
                    if inner_step == 0 { (1, places * inner) } else { (places, inner) };
                for _ in 0..runs {
                    visit(Run { first, len, scale });
                    first += len;
                }
            }
        }
    }
}

/// The number of elements that are processed at a time, so that they stay in the cache; few on a
/// processor without vectors, whose stack may be small.
const BLOCK: usize = if HAS_VECTORS { 256 } else { 32 };

/// Computes `y = round(x / scale) + zero`, saturated to the type. Ties go to even; NaN becomes the
/// smallest number.
pub fn quantize_linear<T: Float + Real, Y: WholeQuantum>(
    x: &[T],
    scale: &[T],
    zero: Option<&[Y]>,
    y: &mut [Y],
    geometry: Scales,
) {
    quantized((x, scale), zero, y, geometry, |(x, scale), zero, y| {
        if let (Some(x), Some(scale)) = (T::as_f32(x), T::as_f32(scale))
            && let Some(y) = Y::bytes_mut(y)
            && HAS_BYTES
        {
            return dispatch_bytes(ToBytes { x, scale, zero, y, of: PhantomData::<Y> });
        }
        let mut block = [0.0; BLOCK];
        let x = divide(x, scale, &mut block);
        dispatch(ToWhole { block: Quotients { x, zero }, y });
    });
}

/// Computes `y = x / scale + zero`, rounded to the nearest finite number of the type.
pub fn quantize_linear_real<T: Float + Real, Y: Quantum>(
    x: &[T],
    scale: &[T],
    zero: Option<&[Y]>,
    y: &mut [Y],
    geometry: Scales,
) {
    quantized_real((x, scale), zero, y, geometry, Y::nearest);
}

/// Computes [`quantize_linear_real`] without saturation: numbers that are too large become
/// infinities or NaN.
pub fn quantize_linear_unsaturated<T: Float + Real, Y: Quantum + Float8>(
    x: &[T],
    scale: &[T],
    zero: Option<&[Y]>,
    y: &mut [Y],
    geometry: Scales,
) {
    quantized_real((x, scale), zero, y, geometry, Y::unsaturated);
}

/// Some quotients, and the zero point of each.
struct Quotients<'a> {
    x: &'a mut [f32],
    zero: &'a [f32],
}

fn quantized_real<T: Float + Real, Y: Quantum>(
    operands: (&[T], &[T]),
    zero: Option<&[Y]>,
    y: &mut [Y],
    geometry: Scales,
    nearest: fn(Exact) -> Y,
) {
    quantized(operands, zero, y, geometry, |(x, scale), zero, y| {
        let mut block = [0.0; BLOCK];
        let x = divide(x, scale, &mut block);
        to_real(Quotients { x, zero }, y, nearest);
    });
}

/// Calls `part` with blocks of elements and their scales, their zero points, and their results.
fn quantized<T: Float + Real, Y: Quantum>(
    (x, scale): (&[T], &[T]),
    zero: Option<&[Y]>,
    y: &mut [Y],
    geometry: Scales,
    part: impl Fn((&[T], &[T]), &[f32], &mut [Y]) + MaybeSync,
) {
    geometry.share(y, |first, y, geometry| {
        let x = &x[first..];
        each_block(scale, zero, geometry, &mut |here, scale, zero| {
            part((&x[here.clone()], scale), zero, &mut y[here]);
        });
    });
}

/// A function of a range of elements, and the scale and the zero point of each.
type Visit<'a, S> = dyn FnMut(Range<usize>, &[S], &[f32]) + 'a;

/// Calls `visit` with all elements, a block at a time, and the scale and the zero point of each.
fn each_block<S: Number, Z: Quantum>(
    scale: &[S],
    zero: Option<&[Z]>,
    geometry: Scales,
    visit: &mut Visit<'_, S>,
) {
    let (mut scales, mut zeros) = ([S::ONE; BLOCK], [0.0; BLOCK]);
    let mut filled = None;
    geometry.each(&mut |run| {
        let step = geometry.inner_step;
        for at in (0..run.len).step_by(BLOCK) {
            let (n, place) = (BLOCK.min(run.len - at), run.scale + at * step);
            if filled.replace((place, n)) != Some((place, n)) {
                spread(&mut scales[..n], scale, place, step, |scale| scale);
                if let Some(zero) = zero {
                    spread(&mut zeros[..n], zero, place, step, Z::single);
                }
            }
            let first = run.first + at;
            visit(first..first + n, &scales[..n], &zeros[..n]);
        }
    });
}

/// Fills `to` with one number of `from`, or with consecutive ones.
#[inline(always)]
fn spread<A: Copy, B: Copy>(
    to: &mut [B],
    from: &[A],
    at: usize,
    step: usize,
    convert: impl Fn(A) -> B,
) {
    match step {
        0 => to.fill(convert(from[at])),
        _ => to.iter_mut().zip(&from[at..]).for_each(|(to, &from)| *to = convert(from)),
    }
}

/// Returns the quotients, rounded to the type or to numbers that round to the same result in any
/// type here.
#[inline(never)]
fn divide<'q, T: Float + Real>(x: &[T], scale: &[T], block: &'q mut [f32; BLOCK]) -> &'q mut [f32] {
    let q = &mut block[..x.len()];
    dispatch(Divide { x, scale, q: &mut *q });
    q
}

struct Divide<'a, T> {
    x: &'a [T],
    scale: &'a [T],
    q: &'a mut [f32],
}

impl<T: Float + Real> WithSimd for Divide<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for ((q, x), &scale) in self.q.iter_mut().zip(self.x).zip(self.scale) {
            *q = match x.div(scale).exact() {
                Exact::Single(quotient) => quotient,
                other => sticky_f32(other.to_f64()),
            };
        }
    }
}

struct ToWhole<'a, Y> {
    block: Quotients<'a>,
    y: &'a mut [Y],
}

#[derive(Clone, Copy)]
struct Round;

impl Pointwise for Round {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F32) -> S::F32 {
        s.round(x)
    }
}

impl<Y: WholeQuantum> WithSimd for ToWhole<'_, Y> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        map_at(s, None, self.block.x, Round);
        for ((y, &x), &zero) in self.y.iter_mut().zip(&*self.block.x).zip(self.block.zero) {
            // The sum is exact, or far beyond the limits.
            let sum = x + zero;
            let sum = if sum > Y::LOW { sum } else { Y::LOW };
            *y = Y::whole(if sum < Y::HIGH { sum } else { Y::HIGH });
        }
    }
}

fn to_real<Y>(block: Quotients<'_>, y: &mut [Y], nearest: fn(Exact) -> Y) {
    for ((y, &x), &zero) in y.iter_mut().zip(&*block.x).zip(block.zero) {
        *y = nearest(match zero {
            // Keeps the sign of a zero.
            0.0 => Exact::Single(x),
            _ => Exact::Double(f64::from(x) + f64::from(zero)),
        });
    }
}

/// Computes `y = (x - zero) · scale`, in `f32`.
pub fn dequantize_linear<X: Quantum, Y: Float<Wide = f32>>(
    x: &[X],
    scale: &[f32],
    zero: Option<&[X]>,
    y: &mut [Y],
    geometry: Scales,
) {
    geometry.share(y, |first, y, geometry| {
        let (x, mut block) = (&x[first..], [0.0; BLOCK]);
        each_block(scale, zero, geometry, &mut |here, scale, zero| {
            let (x, y) = (&x[here.clone()], &mut y[here]);
            if let Some(y) = Y::as_f32_mut(y) {
                return multiply(x, scale, zero, y);
            }
            let wide = &mut block[..x.len()];
            multiply(x, scale, zero, wide);
            map(wide, y, Y::narrow);
        });
    });
}

#[inline(never)]
fn multiply<X: Quantum>(x: &[X], scale: &[f32], zero: &[f32], y: &mut [f32]) {
    dispatch(Multiply { x, scale, zero, y });
}

struct Multiply<'a, X> {
    x: &'a [X],
    scale: &'a [f32],
    zero: &'a [f32],
    y: &'a mut [f32],
}

impl<X: Quantum> WithSimd for Multiply<'_, X> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let scales = self.scale.iter().zip(self.zero);
        for ((y, x), (&scale, &zero)) in self.y.iter_mut().zip(self.x).zip(scales) {
            *y = (x.single() - zero) * scale;
        }
    }
}

/// Quantizes to bytes with a scale and a zero point that cover all of `x`, and zero.
pub fn dynamic_quantize_linear(x: &[f32], y: &mut [u8], y_scale: &mut [f32], y_zero: &mut [u8]) {
    let most = Number::maximum(Max.take_all(x), 0.0);
    let least = Number::minimum(Min.take_all(x), 0.0);
    let range = if most == least { 1.0 } else { most - least };
    let scale = range / u8::HIGH;
    let zero = Float::round((-least / scale).clamp(u8::LOW, u8::HIGH));
    y_scale[0] = scale;
    y_zero[0] = u8::whole(zero);
    let geometry = Scales {
        outer: 1,
        len: x.len(),
        inner: 1,
        block: x.len(),
        outer_step: 0,
        block_step: 0,
        inner_step: 0,
    };
    quantize_linear(x, y_scale, Some(y_zero), y, geometry);
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::{F8E4M3FN, I4, U4};
    use std::{vec, vec::Vec};

    /// Returns scales of every kind over a tensor of these sizes, and the number of scales.
    fn kinds(outer: usize, len: usize, inner: usize) -> Vec<(Scales, usize)> {
        let one = Scales {
            outer: 1,
            len: outer * len * inner,
            inner: 1,
            block: outer * len * inner,
            outer_step: 0,
            block_step: 0,
            inner_step: 0,
        };
        let axis = Scales { outer, len, inner, block: 1, block_step: 1, ..one };
        let last = Scales { outer, len: 1, inner: len * inner, block: 1, inner_step: 1, ..one };
        let mut kinds = vec![(one, 1), (axis, len), (last, len * inner)];
        for block in 1..=len {
            let blocks = len.div_ceil(block);
            let outer_step = blocks * inner;
            let inner_step = usize::from(inner > 1);
            let blocked =
                Scales { outer, len, inner, block, outer_step, block_step: inner, inner_step };
            kinds.push((blocked, outer * outer_step));
        }
        kinds
    }

    /// Returns the index of the scale of element `at`.
    fn scale_of(s: Scales, at: usize) -> usize {
        let [o, i, j] = [at / (s.len * s.inner), at / s.inner % s.len, at % s.inner];
        o * s.outer_step + i / s.block.max(1) * s.block_step + j * s.inner_step
    }

    fn check<T: Float + Real, Y: WholeQuantum>(scale: impl Fn(usize) -> f64) {
        for (outer, len, inner) in [(1, 1, 1), (2, 3, 4), (3, 5, 1), (1, 600, 1), (2, 3, 300)] {
            let n = outer * len * inner;
            let x: Vec<T> = (0..n).map(|i| T::from_f64((i * 37 % 513) as f64 - 256.0)).collect();
            for (geometry, count) in kinds(outer, len, inner) {
                let scale: Vec<T> = (0..count).map(|i| T::from_f64(scale(i))).collect();
                let zero: Vec<Y> = (0..count).map(|i| Y::whole((i % 2) as f32)).collect();
                let mut y = vec![Y::whole(0.0); n];
                quantize_linear(&x, &scale, Some(&zero), &mut y, geometry);
                for (at, y) in y.iter().enumerate() {
                    let i = scale_of(geometry, at);
                    let quotient = x[at].div(scale[i]).to_f64();
                    let sum = libm::rint(quotient) + f64::from(zero[i].single());
                    let expected = sum.clamp(Y::LOW.into(), Y::HIGH.into());
                    assert_eq!(f64::from(y.single()), expected, "{geometry:?} {at}");
                }
                let mut z = vec![0.0f32; n];
                let wide: Vec<f32> = scale.iter().map(|x| x.to_f64() as f32).collect();
                dequantize_linear(&y, &wide, Some(&zero), &mut z, geometry);
                for (at, z) in z.into_iter().enumerate() {
                    let i = scale_of(geometry, at);
                    assert_eq!(z, (y[at].single() - zero[i].single()) * wide[i]);
                }
            }
        }
    }

    #[test]
    fn every_element_has_the_scale_of_its_block() {
        crate::simd::each_level(|_| {
            check::<f32, u8>(|i| 1.5 + i as f64 / 8.0);
            check::<f32, i8>(|i| 2.5 - (i % 16) as f64 / 8.0);
            check::<f32, i16>(|i| 2.0 - (i % 16) as f64 / 16.0);
        });
        check::<f64, I4>(|i| 40.0 + i as f64);
        #[cfg(feature = "half")]
        {
            check::<half::f16, i8>(|i| 1.0 + (i % 8) as f64 / 8.0);
            check::<half::bf16, crate::U2>(|i| 64.0 + (i % 8) as f64);
        }
    }

    fn one(len: usize) -> Scales {
        kinds(1, len, 1)[0].0
    }

    #[test]
    fn ties_round_to_even_and_large_values_saturate() {
        let x = [-5.0f32, -3.0, -1.0, 1.0, 3.0, 5.0, 1e30, f32::NEG_INFINITY, f32::NAN];
        let (mut y, mut z) = ([9i8; 9], [U4::MIN; 9]);
        quantize_linear(&x, &[2.0], Some(&[1]), &mut y, one(9));
        assert_eq!(y, [-1, -1, 1, 1, 3, 3, 127, -128, -128]);
        quantize_linear(&x, &[2.0], Some(&[U4::new(7)]), &mut z, one(9));
        assert_eq!(z.map(U4::get), [5, 5, 7, 7, 9, 9, 15, 0, 0]);
    }

    #[test]
    fn bytes_are_numbers_rounded_and_limited_for_any_length() {
        crate::simd::each_level(|level| {
            for len in [1, 5, 16, 31, 32, 63, 64, 65, 127, 200, 300] {
                let x: Vec<f32> = (0..len)
                    .map(|i| match i % 11 {
                        3 => f32::NAN,
                        5 => f32::INFINITY,
                        7 => -1e30,
                        _ => (i * 29 % 401) as f32 - 200.0,
                    })
                    .collect();
                for zero in [0u8, 3, 200, 255] {
                    let (scale, signed) = ([2.0], zero.wrapping_sub(128).cast_signed());
                    let (mut y, mut z) = (vec![9u8; len], vec![9i8; len]);
                    quantize_linear(&x, &scale, Some(&[zero]), &mut y, one(len));
                    quantize_linear(&x, &scale, Some(&[signed]), &mut z, one(len));
                    for (i, &x) in x.iter().enumerate() {
                        let sum = libm::rintf(x / 2.0).max(f32::MIN) + f32::from(zero);
                        let expected = if x.is_nan() { 0 } else { sum.clamp(0.0, 255.0) as u8 };
                        assert_eq!(y[i], expected, "{level:?} {x} {zero}");
                        let expected = expected.wrapping_sub(128).cast_signed();
                        assert_eq!(z[i], expected, "{level:?} {x} {zero}");
                    }
                }
            }
        });
    }

    #[test]
    fn small_floats_saturate_or_do_not() {
        let (x, mut y) = ([500.0f32, -0.0, 1.0, 1e9], [F8E4M3FN::default(); 4]);
        quantize_linear_real(&x, &[1.0], None, &mut y, one(4));
        assert_eq!(y.map(F8E4M3FN::to_bits), [0x7e, 0x80, 0x38, 0x7e]);
        quantize_linear_unsaturated(&x, &[1.0], None, &mut y, one(4));
        assert_eq!(y.map(F8E4M3FN::to_bits), [0x7f, 0x80, 0x38, 0x7f]);
        let zero = [F8E4M3FN::from_f32(1.0)];
        quantize_linear_real(&x, &[2.0], Some(&zero), &mut y, one(4));
        assert_eq!(y.map(F8E4M3FN::to_f32), [256.0, 1.0, 1.5, 448.0]);
    }

    #[test]
    fn quotients_of_integers_are_rounded_once() {
        // Next to 2.5, closer than any `f32` but 2.5.
        let scale = f64::from(i32::MAX - 1);
        let (x, mut y) = ([scale * 2.5 - 1.0, scale * 2.5, scale * 2.5 + 1.0], [0u8; 3]);
        quantize_linear(&x, &[scale], None, &mut y, one(3));
        assert_eq!(y, [2, 2, 3]);
    }

    #[test]
    fn a_range_found_covers_zero() {
        let check = |x: &[f32], y: &[u8], scale: f32, zero: u8| {
            let (mut found, mut found_scale, mut found_zero) = (vec![9; x.len()], [0.0], [9]);
            dynamic_quantize_linear(x, &mut found, &mut found_scale, &mut found_zero);
            assert_eq!((&found[..], found_scale[0], found_zero[0]), (y, scale, zero));
        };
        check(&[0.0, 2.0, -3.0, -2.5, 1.34, 0.5], &[153, 255, 0, 26, 221, 179], 5.0 / 255.0, 153);
        check(&[-1.0, -2.1, -1.3], &[134, 0, 97], 2.1 / 255.0, 255);
        check(&[51.0, 255.0], &[51, 255], 1.0, 0);
        check(&[], &[], 1.0 / 255.0, 0);
        check(&[0.0, -0.0], &[0, 0], 1.0 / 255.0, 0);
        let mut y = [9];
        dynamic_quantize_linear(&[f32::NAN], &mut y, &mut [0.0], &mut [0]);
        assert_eq!(y, [0]);
    }
}
