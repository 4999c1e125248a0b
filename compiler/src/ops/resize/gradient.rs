//! The derivative of `Resize`, which multiplies by a matrix along each axis.

use super::{ROI, Resize, SCALES, SIZES};
use crate::{
    diag::Result,
    ir::{Expr, Gradient},
};
use std::rc::Rc;

impl Resize {
    /// Each axis is multiplied by what the operator makes of a unit matrix along it.
    pub(super) fn gradient_by_axes(&self, g: &mut Gradient<'_>) -> Result {
        let (x, y, Some(mut dx)) = (g.x(0), g.y(0), g.dy(0)) else { return Ok(()) };
        if self.fit.is_some() && g.has(SIZES) {
            return Err(g.unsupported("for sizes that keep the proportions"));
        }
        let rank = x.rank();
        let axes: Vec<usize> = match &self.axes {
            Some(axes) => axes.iter().map(|&axis| g.axis(axis, rank)).collect(),
            None => (0..rank).collect(),
        };
        let (from, to) = (x.dims(), y.dims());
        for (at, &axis) in axes.iter().enumerate() {
            if from[axis] != to[axis] || g.has(ROI) && !self.keeps(g, at, axes.len()) {
                let matrix = self.along(g, x, axis, at, axes.len());
                let last = rank - 1;
                dx = dx.moved_axis(axis, last).matmul(matrix.turned()).moved_axis(last, axis);
            }
        }
        g.set(0, dx);
        Ok(())
    }

    /// Whether the region along an axis is known to be all of it.
    fn keeps(&self, g: &Gradient<'_>, at: usize, count: usize) -> bool {
        let roi = g.optional(ROI).and_then(|roi| {
            roi.tape.look(|graph| graph[roi.id].constant.as_ref().and_then(|roi| roi.floats()))
        });
        roi.is_some_and(|roi| {
            roi.is_empty() || roi.get(at) == Some(&0.0) && roi.get(count + at) == Some(&1.0)
        })
    }

    /// What becomes of each place along an axis: a row for each.
    fn along<'t>(
        &self,
        g: &Gradient<'t>,
        x: Expr<'t>,
        axis: usize,
        at: usize,
        count: usize,
    ) -> Expr<'t> {
        let given = |i: usize| g.optional(i).filter(|value| value.dims() != [0.into()]);
        let one = |i: usize| given(i).map(|values| values.element(at));
        let roi = given(ROI).map(|roi| roi.element(at).concat(&[roi.element(count + at)], 0));
        let op = Resize {
            mode: self.mode,
            coordinates: self.coordinates,
            extrapolation: 0.0,
            fit: None,
            axes: Some(vec![1]),
        };
        let unit = x.unit(axis);
        g.tape().node(Rc::new(op), &[Some(unit), roi, one(SCALES), one(SIZES)], 1)[0]
    }
}
