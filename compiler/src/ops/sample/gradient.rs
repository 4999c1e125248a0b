//! The gradients of `GridSample` and `AffineGrid`.

use super::{AffineGrid, GridSample, Mode};
use crate::{
    diag::Result,
    dtype::DType,
    ir::{Expr, Gradient},
    ops::expand::Expand,
};
use onnxc_runtime::kernels::sample::Padding;

/// How images are sampled: between elements, and outside the image.
#[derive(Clone, Copy)]
pub struct Sampler {
    /// The interpolation between elements.
    pub mode: Mode,
    /// The padding outside the image.
    pub padding: Padding,
    /// Whether reflections are at the centers of the outermost elements, instead of their edges.
    pub align_corners: bool,
}

/// The taps along an axis: the index of the first one, and the weight of each.
struct Taps<'t> {
    first: Expr<'t>,
    weights: Vec<Expr<'t>>,
}

impl Sampler {
    /// Returns the taps of coordinates along an axis.
    fn taps<'t>(&self, places: Expr<'t>) -> Taps<'t> {
        const A: f64 = -0.75;
        let floor = places.floor();
        let part = places - floor;
        let near = |d: Expr<'t>| (d * (A + 2.0) - (A + 3.0)) * d * d + 1.0;
        let far = |d: Expr<'t>| ((d * A - 5.0 * A) * d + 8.0 * A) * d - 4.0 * A;
        match self.mode {
            Mode::Nearest => Taps { first: places.round(), weights: vec![places.ones_like()] },
            Mode::Linear => Taps { first: floor, weights: vec![-part + 1.0, part] },
            Mode::Cubic => Taps {
                first: floor - 1.0,
                weights: vec![far(part + 1.0), near(part), near(-part + 1.0), far(-part + 2.0)],
            },
        }
    }

    /// Moves coordinates beyond the edges of the image to the outermost element if the padding
    /// repeats it, so that samples there are constant. Cubic interpolation repeats it tap by tap.
    fn clamp_to_border<'t>(&self, at: Expr<'t>, size: Expr<'t>) -> Expr<'t> {
        if self.padding != Padding::Border || matches!(self.mode, Mode::Cubic) {
            return at;
        }
        let (edge, last) = (if self.align_corners { 0.0 } else { 0.5 }, size - 1.0);
        let inside = at.at_least(at.number(-edge)).and(at.at_most(last + edge));
        inside.select(at, at.greater(last).select(last, at.number(0.0)))
    }

    /// Returns the index of the element that a tap at `place` reads, and whether that element
    /// exists if the padding is zero.
    fn inside<'t>(&self, place: Expr<'t>, size: Expr<'t>) -> (Expr<'t>, Option<Expr<'t>>) {
        let last = size - 1.0;
        let clip = |place: Expr<'t>| {
            let place = place.cast(DType::I64);
            let zero = place.number(0.0);
            place.apply(crate::ops::activation::Clip, &[zero, last.cast(DType::I64)])
        };
        match self.padding {
            Padding::Zeros => {
                let there = place.at_least(place.number(0.0)).and(place.at_most(last));
                (clip(place), Some(there))
            }
            Padding::Border => (clip(place), None),
            Padding::Reflection => {
                let (period, turn) = if self.align_corners {
                    (last * 2.0, last * 2.0)
                } else {
                    (size * 2.0, size * 2.0 - 1.0)
                };
                let period = period.replace_zeros(1.0);
                let place = place - (place / period).floor() * period;
                let back = turn - place;
                (clip(place.less(back).select(place, back)), None)
            }
        }
    }

    /// Samples images `[n, c, …]` at coordinates along each axis, each `[n, p]`, in elements.
    /// Returns `[n, c, p]`.
    pub fn sample<'t>(&self, x: Expr<'t>, places: &[Expr<'t>]) -> Expr<'t> {
        let tape = x.tape;
        let flat = x.reshape_to(&[0, 0, -1]);
        let shape = tape.concat(&[x.sizes(0, 2), places[0].size_of(1)]);
        // For the axes so far: the flat index of each tap, whether it exists, and its weight.
        let mut reads: Vec<(Expr<'t>, Option<Expr<'t>>, Expr<'t>)> = Vec::new();
        for (axis, &at) in places.iter().enumerate() {
            let size = x.size_of(axis + 2).cast_like(at);
            let taps = self.taps(self.clamp_to_border(at, size));
            let mut next = Vec::new();
            for (k, &weight) in taps.weights.iter().enumerate() {
                let place = taps.first + k as f64;
                let (element, there) = self.inside(place, size);
                if reads.is_empty() || axis == 0 {
                    next.push((element, there, weight));
                    continue;
                }
                next.extend(reads.iter().map(|&(before, was, so_far)| {
                    let both = [was, there].into_iter().flatten().reduce(|a, b| a.and(b));
                    (before * x.size_of(axis + 2) + element, both, so_far * weight)
                }));
            }
            reads = next;
        }
        let value = |(element, there, weight): (Expr<'t>, Option<Expr<'t>>, Expr<'t>)| {
            let weight = there.map_or(weight, |there| weight.only_where(there));
            let elements = element.with_axis(1).apply(Expand, &[shape]);
            flat.gather_elements(elements, 2) * weight.cast_like(x).with_axis(1)
        };
        let sum = reads.into_iter().map(value).reduce(|a, b| a + b);
        sum.unwrap_or(flat)
    }
}

impl GridSample {
    /// Differentiates the formula of the samples: the sum of the taps times their weights.
    pub(super) fn gradient_of_samples(&self, g: &mut Gradient<'_>) -> Result {
        let (x, grid, axes) = (g.x(0), g.x(1), g.x(0).rank() - 2);
        let flat = grid.reshape_to(&[0, -1, axes as i64]);
        let place = |axis: usize| {
            // The first coordinate of the grid belongs to the last axis of the image.
            let coordinate = g.tape().ints(&[(axes - 1 - axis) as i64]);
            let at = flat.gather(coordinate, 2).squeeze(&[2]) + 1.0;
            let size = x.size_of(axis + 2).cast_like(grid);
            if self.align_corners { at * (size - 1.0) / 2.0 } else { (at * size - 1.0) / 2.0 }
        };
        let places: Vec<Expr<'_>> = (0..axes).map(place).collect();
        let GridSample { mode, padding, align_corners } = *self;
        let y = Sampler { mode, padding, align_corners }.sample(x, &places);
        let y = y.reshape_like(g.y(0));
        g.through(&[y])
    }
}

impl AffineGrid {
    /// The product of `dy` and the coordinates of the image, which the unit matrix gives.
    pub(super) fn gradient_of_matrices(&self, g: &mut Gradient<'_>) -> Result {
        let (theta, Some(dy)) = (g.x(0), g.dy(0)) else { return Ok(()) };
        let tape = g.tape();
        let unit = theta.identity_matrix(1).pad(tape.ints(&[0, 0, 0, 1])).expand_like(theta);
        let places = tape.node(g.node().op.clone(), &[Some(unit), g.optional(1)], 1)[0];
        let places = places.concat(&[places.gather(tape.ints(&[0]), -1).ones_like()], -1);
        let rows = |value| {
            let last = Expr::rank(value) - 1;
            let flat = [value.size_of(0), tape.ints(&[-1]), value.size_of(last)];
            value.reshape_by(tape.concat(&flat))
        };
        let (dy, places) = (rows(dy), rows(places));
        g.set(0, dy.transpose_matrices().matmul(places));
        Ok(())
    }
}
