//! The gradients of Fourier transforms: the inverse transforms.

use super::{Dft, frames::Stft};
use crate::{
    diag::Result,
    ir::{Expr, Gradient},
};
use std::rc::Rc;

/// Truncates `x`, or pads it with zeros, at the end of an axis to `len` elements.
fn resize_axis<'t>(x: Expr<'t>, axis: usize, len: Expr<'t>) -> Expr<'t> {
    let (tape, rank) = (x.tape, x.rank());
    let none = |axes: usize| tape.ints(&vec![0; axes]);
    let more = len - x.size_of(axis);
    x.pad(tape.concat(&[none(rank + axis), more, none(rank - 1 - axis)]))
}

/// The real part of `x` if `like` is real, else `x`.
fn parts_like<'t>(x: Expr<'t>, like: Expr<'t>) -> Expr<'t> {
    let last = x.rank() - 1;
    match like.dims()[last].known() {
        Some(1) => x.between(x.tape.ints(&[0]), x.tape.ints(&[1]), last as i64),
        _ => x,
    }
}

impl Dft {
    /// Sets the gradient of the signal. The transform multiplies by a matrix, so its gradient
    /// multiplies by the conjugate transpose of the matrix, which is the opposite transform,
    /// scaled.
    pub(super) fn set_gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, Some(dy)) = (g.x(0), g.dy(0)) else { return Ok(()) };
        let (tape, rank) = (g.tape(), x.rank());
        let axis = match g.has(2) {
            true => g.ints(2).and_then(|axes| axes.first().copied()),
            false => Some(-2),
        };
        let Some(axis) = axis.map(|axis| g.axis(axis, rank)) else {
            return Err(g.unsupported("along an axis known only at run time"));
        };
        let transform = |inverse, onesided, x| {
            let axis = tape.ints(&[axis as i64]).reshape_to(&[]);
            let op = Rc::new(Dft { inverse, onesided });
            tape.node(op, &[Some(x), None, Some(axis)], 1)[0]
        };
        // The length of the transform.
        let length = match g.optional(1) {
            Some(length) => length.reshape_to(&[1]),
            None if self.is_real() => (x.size_of(axis) - 1.0) * 2.0,
            None => x.size_of(axis),
        };
        let count = length.cast_like(x);
        let dx = match (self.inverse, self.onesided) {
            (false, false) => transform(true, false, dy) * count,
            (false, true) => transform(true, false, resize_axis(dy, axis, length)) * count,
            (true, false) => transform(false, false, dy) / count,
            (true, true) => {
                // All elements but the first, and for an even length the last, also represent their
                // conjugate in the redundant half, and count twice.
                let half = transform(false, true, dy) / count;
                let index = half.indices(axis).cast_like(x);
                let inner = (index * 2.0).equal(count).select(index.number(0.0), index);
                let weight = (inner.above(0.0)).select(index.number(2.0), index.number(1.0));
                let trailing: Vec<i64> = (1..(rank - axis) as i64).collect();
                half * weight.unsqueeze(tape.ints(&trailing))
            }
        };
        let dx = resize_axis(dx, axis, x.size_of(axis));
        g.set(0, parts_like(dx, x));
        Ok(())
    }
}

impl Stft {
    /// Expresses the operator as a gather of the frames, a product with the window, and a `DFT`,
    /// and differentiates that.
    pub(super) fn set_gradients(&self, g: &mut Gradient<'_>) -> Result {
        let (x, tape) = (g.x(0), g.tape());
        let offsets = match (g.optional(2), g.optional(3)) {
            (Some(window), _) => window.indices(0),
            (None, Some(length)) => x.number(0.0).expand_to(length.reshape_to(&[1])).indices(0),
            (None, None) => x.indices(1),
        };
        let frame = g.y(0).indices(1).with_axis(1);
        let indices = frame * g.x(1).reshape_to(&[1]) + offsets;
        let frames = x.gather(indices, 1);
        let frames = match g.optional(2) {
            Some(window) => frames * window.with_axis(1),
            None => frames,
        };
        let axis = tape.ints(&[2]).reshape_to(&[]);
        let op = Rc::new(Dft { inverse: false, onesided: self.onesided });
        let y = tape.node(op, &[Some(frames), None, Some(axis)], 1)[0];
        g.through(&[y])
    }
}
