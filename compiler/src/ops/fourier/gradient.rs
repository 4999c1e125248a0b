//! The derivatives of Fourier transforms: the transforms the other way.

use super::{Dft, frames::Stft};
use crate::{
    diag::Result,
    ir::{Expr, Gradient},
};
use std::rc::Rc;

/// This as long along an axis as `len` says: cut at its end, or with zeros there.
fn of_length<'t>(x: Expr<'t>, axis: usize, len: Expr<'t>) -> Expr<'t> {
    let (tape, rank) = (x.tape, x.rank());
    let none = |axes: usize| tape.ints(&vec![0; axes]);
    let more = len - x.size_of(axis);
    x.pad(tape.concat(&[none(rank + axis), more, none(rank - 1 - axis)]))
}

/// The first part, where `like` has one; both else.
fn parts_like<'t>(x: Expr<'t>, like: Expr<'t>) -> Expr<'t> {
    let last = x.rank() - 1;
    match like.dims()[last].known() {
        Some(1) => x.between(x.tape.ints(&[0]), x.tape.ints(&[1]), last as i64),
        _ => x,
    }
}

impl Dft {
    /// The transform is a matrix; this is the turned and conjugated one.
    pub(super) fn gradient_of_transform(&self, g: &mut Gradient<'_>) -> Result {
        let (x, Some(dy)) = (g.x(0), g.dy(0)) else { return Ok(()) };
        let (tape, rank) = (g.tape(), x.rank());
        let axis = match g.has(2) {
            true => g.ints(2).and_then(|axes| axes.first().copied()),
            false => Some(-2),
        };
        let Some(axis) = axis.map(|axis| g.axis(axis, rank)) else {
            return Err(g.unsupported("along an axis known only when running"));
        };
        let way = |inverse, onesided, x| {
            let axis = tape.ints(&[axis as i64]).reshape_to(&[]);
            let op = Rc::new(Dft { inverse, onesided });
            tape.node(op, &[Some(x), None, Some(axis)], 1)[0]
        };
        // How long the transform is.
        let length = match g.optional(1) {
            Some(length) => length.reshape_to(&[1]),
            None if self.is_real() => (x.size_of(axis) - 1.0) * 2.0,
            None => x.size_of(axis),
        };
        let count = length.cast_like(x);
        let dx = match (self.inverse, self.onesided) {
            (false, false) => way(true, false, dy) * count,
            (false, true) => way(true, false, of_length(dy, axis, length)) * count,
            (true, false) => way(false, false, dy) / count,
            (true, true) => {
                // All but the ends stand for two numbers.
                let half = way(false, true, dy) / count;
                let places = half.indices(axis).cast_like(x);
                let end = (places * 2.0).equal(count).select(places.number(0.0), places);
                let twice = (end.above(0.0)).select(places.number(2.0), places.number(1.0));
                let behind: Vec<i64> = (1..(rank - axis) as i64).collect();
                half * twice.unsqueeze(tape.ints(&behind))
            }
        };
        let dx = of_length(dx, axis, x.size_of(axis));
        g.set(0, parts_like(dx, x));
        Ok(())
    }
}

impl Stft {
    /// By the formula: frames of the signal, times the window, transformed.
    pub(super) fn gradient_of_frames(&self, g: &mut Gradient<'_>) -> Result {
        let (x, tape) = (g.x(0), g.tape());
        let length = match (g.optional(2), g.optional(3)) {
            (Some(window), _) => window.indices(0),
            (None, Some(length)) => x.number(0.0).expand_to(length.reshape_to(&[1])).indices(0),
            (None, None) => x.indices(1),
        };
        let count = g.y(0).indices(1).with_axis(1);
        let places = count * g.x(1).reshape_to(&[1]) + length;
        let frames = x.gather(places, 1);
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
