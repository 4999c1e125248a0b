//! Rows of `f32`, normalized vector by vector. A row is often a few vectors long, so the prologue
//! and epilogue of a loop over lanes would take longer than the row.

use super::operands::{Grad, Layer};
use super::{Distance, Same};
use crate::Float;
use crate::kernels::softmax::End;
use crate::loops::fold::sum_at;
use crate::simd::{Elements, MAX_LANES, Pointwise, Simd, WithSimd};
use core::ops::Range;

/// The normalization `(x - mean) · factor` of a row.
#[derive(Clone, Copy)]
struct Normal {
    mean: f32,
    factor: f32,
}

impl Pointwise for Normal {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F32) -> S::F32 {
        s.mul(s.sub(x, s.splat(self.mean)), s.splat(self.factor))
    }
}

/// Returns the mean of a row, or 0 if it is not subtracted.
#[inline(always)]
fn mean_of<S: Simd, const CENTERED: bool>(s: S, x: &[f32]) -> f32 {
    if CENTERED { sum_at(s, x, Same) / x.len() as f32 } else { 0.0 }
}

/// Returns `1 / √(variance + ε)` of a sum of squared distances.
#[inline(always)]
fn factor_of(squares: f32, count: f32, epsilon: f32) -> f32 {
    1.0 / Float::sqrt(squares / count + epsilon)
}

/// Computes the normalization of a row.
#[inline(always)]
fn normal<S: Simd, const CENTERED: bool>(s: S, x: &[f32], epsilon: f32) -> Normal {
    let mean = mean_of::<S, CENTERED>(s, x);
    let squares = sum_at(s, x, Distance { mean });
    Normal { mean, factor: factor_of(squares, x.len() as f32, epsilon) }
}

/// Returns the ranges of the vectors of `len` elements; the last one may be shorter.
#[inline(always)]
fn vectors<S: Simd>(_: S, len: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(S::LANES).map(move |at| at..len.min(at + S::LANES))
}

/// A factor or a summand for each element of a row, or one for all.
#[derive(Clone, Copy)]
struct Operand<'a> {
    numbers: &'a [f32],
    /// The bits of an index that select a number.
    mask: usize,
}

impl<'a> Operand<'a> {
    /// An operand that is `numbers`, or `neutral` if there are none.
    fn of(numbers: &'a [f32], neutral: &'a [f32; MAX_LANES]) -> Operand<'a> {
        match numbers {
            [] => Operand { numbers: neutral, mask: 0 },
            _ => Operand { numbers, mask: !0 },
        }
    }

    /// Returns a vector of the elements from `at` on.
    #[inline(always)]
    fn load<S: Simd>(&self, s: S, at: usize) -> S::F32 {
        s.load(&self.numbers[at & self.mask..])
    }

    /// Returns the elements of a row that is shorter than a vector.
    #[inline(always)]
    fn load_head<S: Simd>(&self, s: S) -> S::F32 {
        s.load_head(self.numbers)
    }
}

/// A normalization, followed by a scale and a bias for each element of a row.
struct Affine<'a> {
    normal: Normal,
    scale: Operand<'a>,
    bias: Operand<'a>,
}

impl Affine<'_> {
    /// Computes a row from `x`, or in place without it.
    #[inline(always)]
    fn write<S: Simd>(&self, s: S, x: Option<&[f32]>, y: &mut [f32]) {
        let Affine { normal, scale, bias } = self;
        // Not copied to `y` first: to load what was just stored in other parts takes long.
        if y.len() < S::LANES {
            let x = normal.apply(s, s.load_head(x.unwrap_or(y)));
            return s.store_head(s.add(s.mul(x, scale.load_head(s)), bias.load_head(s)), y);
        }
        // Whole vectors: some processors store a part of one slowly.
        let (whole, end) = End::of(s, x.unwrap_or(y));
        Elements::of(x, &mut y[..whole]).each_vector(
            s,
            #[inline(always)]
            |at, x| self.apply(s, x, at),
        );
        end.store(s, self.apply(s, end.x, y.len() - S::LANES), y);
    }

    /// Returns the results of a vector of elements from `at` on.
    #[inline(always)]
    fn apply<S: Simd>(&self, s: S, x: S::F32, at: usize) -> S::F32 {
        let x = self.normal.apply(s, x);
        s.add(s.mul(x, self.scale.load(s, at)), self.bias.load(s, at))
    }
}

/// The rows of a [`Layer`].
pub(super) struct LayerRows<'a, const CENTERED: bool>(pub Layer<'a, f32, CENTERED>);

impl<const CENTERED: bool> WithSimd for LayerRows<'_, CENTERED> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Layer { x, y, scale, bias, geometry, epsilon, mut statistics } = self.0;
        let (rows, len) = (geometry.outer, geometry.len);
        let row = |i: usize| i * len..(i + 1) * len;
        let scale = Operand::of(scale, &[1.0; MAX_LANES]);
        // A sum with -0 keeps the sign of zeros.
        let bias = Operand::of(bias, &[-0.0; MAX_LANES]);
        // A row waits long for its sums and its factor, and the processor works on other rows in
        // the meantime.
        let block = (BLOCK / len.max(1)).clamp(1, MAX_ROWS);
        for first in (0..rows).step_by(block) {
            let block = block.min(rows - first);
            let (mut means, mut factors) = ([0.0; MAX_ROWS], [0.0; MAX_ROWS]);
            let (means, factors) = (&mut means[..block], &mut factors[..block]);
            let from: &[f32] = if x.is_empty() { y } else { x };
            for (i, mean) in means.iter_mut().enumerate() {
                *mean = mean_of::<S, CENTERED>(s, &from[row(first + i)]);
            }
            for (i, (squares, &mean)) in factors.iter_mut().zip(&*means).enumerate() {
                *squares = sum_at(s, &from[row(first + i)], Distance { mean });
            }
            for factor in &mut *factors {
                *factor = factor_of(*factor, len as f32, epsilon);
            }
            for (i, (&mean, &factor)) in (first..).zip(means.iter().zip(&*factors)) {
                let affine = Affine { normal: Normal { mean, factor }, scale, bias };
                affine.write(s, x.get(row(i)), &mut y[row(i)]);
                statistics.write(i, mean, factor);
            }
        }
    }
}

/// The most rows whose statistics are computed together.
const MAX_ROWS: usize = 16;

/// The most elements of such rows, so that they stay in the cache.
const BLOCK: usize = 4096;

/// The rows of a [`Grad`].
pub(super) struct GradRows<'a, const CENTERED: bool>(pub Grad<'a, f32, CENTERED>);

impl<const CENTERED: bool> WithSimd for GradRows<'_, CENTERED> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Grad { x, scale, dy, found: [mut dx, mut d_scale, mut d_bias], .. } = self.0;
        let len = self.0.geometry.len;
        for sums in [&mut d_scale, &mut d_bias].into_iter().flatten() {
            sums.fill(0.0);
        }
        for at in (0..self.0.geometry.outer).map(|row| row * len) {
            let (x, dy) = (&x[at..][..len], &dy[at..][..len]);
            let normal = normal::<S, CENTERED>(s, x, self.0.epsilon);
            if let Some(d_scale) = &mut d_scale {
                add_products(s, d_scale, dy, x, normal);
            }
            if let Some(d_bias) = &mut d_bias {
                add(s, d_bias, dy);
            }
            if let Some(dx) = &mut dx {
                let row = Row { x, scale, dy, normal };
                row.gradient::<S, CENTERED>(s, &mut dx[at..][..len]);
            }
        }
    }
}

/// Adds the row's contribution to the gradient of the bias.
#[inline(always)]
fn add<S: Simd>(s: S, sums: &mut [f32], dy: &[f32]) {
    for at in vectors(s, dy.len()) {
        let sums = &mut sums[at.clone()];
        s.store_head(s.add(s.load_head(sums), s.load_head(&dy[at])), sums);
    }
}

/// Adds the row's contribution to the gradient of the scale.
#[inline(always)]
fn add_products<S: Simd>(s: S, sums: &mut [f32], dy: &[f32], x: &[f32], normal: Normal) {
    for at in vectors(s, dy.len()) {
        let sums = &mut sums[at.clone()];
        let normal = normal.apply(s, s.load_head(&x[at.clone()]));
        let product = s.mul(s.load_head(&dy[at]), normal);
        s.store_head(s.add(s.load_head(sums), product), sums);
    }
}

/// A row and its normalization.
struct Row<'a> {
    x: &'a [f32],
    scale: &'a [f32],
    dy: &'a [f32],
    normal: Normal,
}

impl Row<'_> {
    /// Returns `dy scale` and the normalized elements.
    #[inline(always)]
    fn at<S: Simd>(&self, s: S, at: Range<usize>) -> (S::F32, S::F32) {
        let dy = s.mul(s.load_head(&self.dy[at.clone()]), s.load_head(&self.scale[at.clone()]));
        (dy, self.normal.apply(s, s.load_head(&self.x[at])))
    }

    /// Writes the gradients of the elements.
    #[inline(always)]
    fn gradient<S: Simd, const CENTERED: bool>(&self, s: S, dx: &mut [f32]) {
        let (mut sums, mut products) = (s.splat(0.0), s.splat(0.0));
        // `dy` is 0 in the missing lanes of the last vector.
        for at in vectors(s, dx.len()) {
            let (dy, normal) = self.at(s, at);
            sums = s.add(sums, dy);
            products = s.add(products, s.mul(dy, normal));
        }
        let count = dx.len() as f32;
        let shift = s.splat(if CENTERED { s.sum(sums) / count } else { 0.0 });
        let gradient = s.splat(s.sum(products) / count);
        let factor = s.splat(self.normal.factor);
        for at in vectors(s, dx.len()) {
            let (dy, normal) = self.at(s, at.clone());
            let rest = s.sub(s.sub(dy, shift), s.mul(normal, gradient));
            s.store_head(s.mul(factor, rest), &mut dx[at]);
        }
    }
}
