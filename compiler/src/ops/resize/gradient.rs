//! The gradient of `Resize`, which multiplies by a matrix along each axis.

use super::{Mode, ROI, Resize, SCALES, SIZES};
use crate::{
    diag::Result,
    ir::{Expr, Gradient},
    tensor::Tensor,
};
use onnxc_runtime::kernels::resize::{Coordinates, Rounding};
use std::rc::Rc;

impl Resize {
    /// Multiplies `dy` along each axis by the matrix of the interpolation, which is the resized
    /// unit matrix.
    pub(super) fn gradient_by_axes(&self, g: &mut Gradient<'_>) -> Result {
        let (x, y, Some(mut dx)) = (g.x(0), g.y(0), g.dy(0)) else { return Ok(()) };
        let fits = self.fit.is_some() && nonempty_input(g, SIZES).is_some();
        if fits && self.coordinates == Coordinates::TfCropAndResize {
            return Err(g.unsupported("for regions whose sizes keep the aspect ratio"));
        }
        let rank = x.rank();
        let axes: Vec<usize> = match &self.axes {
            Some(axes) => axes.iter().map(|&axis| g.axis(axis, rank)).collect(),
            None => (0..rank).collect(),
        };
        let (from, to) = (x.dims(), y.dims());
        for (at, &axis) in axes.iter().enumerate() {
            if from[axis] == to[axis] && !fits && self.keeps_axis(g, at, axes.len()) {
                continue;
            }
            let matrix = match fits {
                true => self.fitted_matrix(g, x, &axes, at),
                false => self.axis_matrix(g, x, axis, at, axes.len()),
            };
            let last = rank - 1;
            dx = dx.move_axis(axis, last).matmul(matrix.transpose_matrices()).move_axis(last, axis);
        }
        g.set(0, dx);
        Ok(())
    }

    /// Returns whether an axis of constant size certainly stays unchanged: its scale is 1, and each
    /// coordinate maps to itself.
    fn keeps_axis(&self, g: &Gradient<'_>, at: usize, count: usize) -> bool {
        let unscaled = match constant(g, SCALES) {
            Some(scales) => scales.get(at) == Some(&1.0),
            None => nonempty_input(g, SIZES).is_some(),
        };
        let in_place = match self.coordinates {
            Coordinates::TfCropAndResize => self.is_whole(g, at, count),
            Coordinates::TfHalfPixelForNn => {
                matches!(self.mode, Mode::Nearest(Rounding::Floor | Rounding::PreferFloor))
            }
            _ => true,
        };
        unscaled && in_place
    }

    /// Returns whether the region certainly covers the whole axis.
    fn is_whole(&self, g: &Gradient<'_>, at: usize, count: usize) -> bool {
        let ends = |roi: Vec<f64>| Some((*roi.get(at)?, *roi.get(count + at)?));
        constant(g, ROI).and_then(ends) == Some((0.0, 1.0))
    }

    /// Returns the matrix of the interpolation along an axis, with a row for each input element.
    fn axis_matrix<'t>(
        &self,
        g: &Gradient<'t>,
        x: Expr<'t>,
        axis: usize,
        at: usize,
        count: usize,
    ) -> Expr<'t> {
        let one = |i: usize| nonempty_input(g, i).map(|values| values.element(at));
        let roi =
            nonempty_input(g, ROI).map(|roi| roi.element(at).concat(&[roi.element(count + at)], 0));
        let op = Resize {
            mode: self.mode,
            coordinates: self.coordinates,
            extrapolation: 0.0,
            fit: None,
            axes: Some(vec![1]),
        };
        let unit = x.identity_matrix(axis);
        g.tape().node(Rc::new(op), &[Some(unit), roi, one(SCALES), one(SIZES)], 1)[0]
    }

    /// Returns that matrix if all axes together determine the scale: resizes a unit matrix that is
    /// broadcast along the other axes. Weights sum to 1, so resizing does not change it along
    /// those.
    fn fitted_matrix<'t>(
        &self,
        g: &Gradient<'t>,
        x: Expr<'t>,
        axes: &[usize],
        at: usize,
    ) -> Expr<'t> {
        let tape = g.tape();
        let others: Vec<usize> = (1..=axes.len()).filter(|&axis| axis != at + 1).collect();
        let sizes = axes.iter().map(|&axis| x.size_of(axis));
        let sizes: Vec<_> = std::iter::once(x.size_of(axes[at])).chain(sizes).collect();
        let missing: Vec<i64> = others.iter().map(|&axis| axis as i64).collect();
        let unit = x
            .identity_matrix(axes[at])
            .unsqueeze(tape.ints(&missing))
            .expand_to(tape.concat(&sizes));
        let named = (1..=axes.len() as i64).collect();
        let op = Resize { axes: Some(named), extrapolation: 0.0, ..*self };
        let all = tape.node(Rc::new(op), &[Some(unit), None, None, g.optional(SIZES)], 1)[0];
        all.mean(&others).squeeze(&others)
    }
}

/// Returns an input, unless it is missing or empty.
fn nonempty_input<'t>(g: &Gradient<'t>, i: usize) -> Option<Expr<'t>> {
    g.optional(i).filter(|value| value.dims() != [0.into()])
}

/// Returns the elements of a constant input.
fn constant(g: &Gradient<'_>, i: usize) -> Option<Vec<f64>> {
    let value = nonempty_input(g, i)?;
    value.tape.look(|graph| graph[value.id].constant.as_ref().and_then(Tensor::floats))
}
