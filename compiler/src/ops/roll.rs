//! The internal operator `Roll`, which passes create from slices.

use super::{Entry, internal};
use crate::{
    diag::Result,
    dtype::ANY,
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op},
    plan::{Kernel, geometry::Axis, kernel},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[internal("Roll", |node| {
    let (axis, first) = (node.required_int("axis")?, node.required_int("first")?);
    Ok(Rc::new(Roll { axis, first }))
})];

/// The input with the elements along an axis moved to the front, those before `first` to the end.
pub struct Roll {
    /// The axis.
    pub axis: i64,
    /// The element that becomes the first: at least 0, and at most the size of the axis.
    pub first: i64,
}

static ROLL: Kernel<(Axis, usize)> =
    kernel!(moves T, slice::roll::<T>, |f, a, p| f(a.input(0), a.output(0), p.0, p.1));

impl Op for Roll {
    fn name(&self) -> &'static str {
        "Roll"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("axis", self.axis);
        a.int("first", self.first);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, ANY)?.clone();
        cx.axis("axis", self.axis, ty.rank())?;
        Ok(vec![ty.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let shape = &cx.ty(0)?.shape;
        let geometry = Axis::of(shape, cx.axis(self.axis, shape.len()));
        cx.call(&ROLL, (geometry, self.first as usize))
    }
}
