//! Rows of `f32`, normalized vector by vector. A row is often a few vectors long, so the prologue
//! and epilogue of a loop over lanes would take longer than the row.

use super::operands::{Grad, Layer};
use crate::Float;
use crate::kernels::softmax::End;
use crate::loops::fold::sum_at;
use crate::simd::{Pointwise, Simd, WithSimd};
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

/// `x`.
#[derive(Clone, Copy)]
struct Same;

impl Pointwise for Same {
    #[inline(always)]
    fn apply<S: Simd>(self, _: S, x: S::F32) -> S::F32 {
        x
    }
}

/// `(x - mean)²`.
#[derive(Clone, Copy)]
struct Distance {
    mean: f32,
}

impl Pointwise for Distance {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F32) -> S::F32 {
        let distance = s.sub(x, s.splat(self.mean));
        s.mul(distance, distance)
    }
}

/// Computes the normalization of a row.
#[inline(always)]
fn normal<S: Simd, const CENTERED: bool>(s: S, x: &[f32], epsilon: f32) -> Normal {
    let count = x.len() as f32;
    let mean = if CENTERED { sum_at(s, x, Same) / count } else { 0.0 };
    let variance = sum_at(s, x, Distance { mean }) / count;
    Normal { mean, factor: 1.0 / Float::sqrt(variance + epsilon) }
}

/// Returns the ranges of the vectors of `len` elements; the last one may be shorter.
#[inline(always)]
fn vectors<S: Simd>(_: S, len: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(S::LANES).map(move |at| at..len.min(at + S::LANES))
}

/// A normalization, followed by a scale and a bias for each element of a row if there are some.
struct Affine<'a> {
    normal: Normal,
    scale: &'a [f32],
    bias: &'a [f32],
}

impl Affine<'_> {
    /// Returns the results of the elements from `at` on.
    #[inline(always)]
    fn apply<S: Simd>(&self, s: S, x: S::F32, at: usize) -> S::F32 {
        let mut x = self.normal.apply(s, x);
        if !self.scale.is_empty() {
            x = s.mul(x, s.load_head(&self.scale[at..]));
        }
        if !self.bias.is_empty() {
            x = s.add(x, s.load_head(&self.bias[at..]));
        }
        x
    }
}

/// The rows of a [`Layer`].
pub(super) struct LayerRows<'a, const CENTERED: bool>(pub Layer<'a, f32, CENTERED>);

impl<const CENTERED: bool> WithSimd for LayerRows<'_, CENTERED> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Layer { x, y, scale, bias, geometry, epsilon, mut statistics } = self.0;
        let len = geometry.len;
        for i in 0..geometry.outer {
            let y = &mut y[i * len..][..len];
            // Not copied to `y` first: to load what was just stored in other parts takes long.
            let x = (!x.is_empty()).then(|| &x[i * len..][..len]);
            let normal = normal::<S, CENTERED>(s, x.unwrap_or(y), epsilon);
            let affine = Affine { normal, scale, bias };
            if len < S::LANES {
                let result = affine.apply(s, s.load_head(x.unwrap_or(y)), 0);
                s.store_head(result, y);
            } else {
                // Whole vectors: some processors store a part of one slowly.
                let (whole, end) = End::of(s, x.unwrap_or(y));
                for at in (0..whole).step_by(S::LANES) {
                    let result = affine.apply(s, s.load(&x.unwrap_or(y)[at..]), at);
                    s.store(result, &mut y[at..]);
                }
                end.store(s, affine.apply(s, end.x, len - S::LANES), y);
            }
            statistics.write(i, normal.mean, normal.factor);
        }
    }
}

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
