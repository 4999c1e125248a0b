//! `Softmax`, `LogSoftmax` and `Hardmax`, along one axis.

use super::{
    Entry, entry,
    reshape::{Flatten, shaped_like},
};
use crate::{
    diag::Result,
    dtype::FLOATS,
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{Kernel, geometry::Axis, kernel},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("Hardmax", 1, |node| flattened(node, &HARDMAX)),
    entry("Hardmax", 13, |node| along(node, &HARDMAX)),
    entry("LogSoftmax", 1, |node| flattened(node, &LOG_SOFTMAX)),
    entry("LogSoftmax", 13, |node| along(node, &LOG_SOFTMAX)),
    entry("Softmax", 1, |node| flattened(node, &SOFTMAX)),
    entry("Softmax", 13, |node| along(node, &SOFTMAX)),
];

/// A row of the table: a function along an axis.
pub struct Form {
    name: &'static str,
    kernel: Kernel<Axis>,
    /// The gradient from `y`, `dy` and the axis.
    gradient: for<'t> fn(y: Expr<'t>, dy: Expr<'t>, axis: usize) -> Expr<'t>,
}

/// `e^x / Σ e^x` along an axis, its logarithm, or its limit.
pub struct Softmax {
    /// The function.
    pub form: &'static Form,
    /// The axis.
    pub axis: i64,
}

pub static SOFTMAX: Form = Form {
    name: "Softmax",
    kernel: kernel!(FLOATS T, softmax::softmax::<T>, |f, a, p| f(a.input(0), a.output(0), p),
        in_place softmax_in_place::<T> |f, a, p| f(a.output(0), p)),
    gradient: |y, dy, axis| y * (dy - (y * dy).sum(&[axis])),
};
static LOG_SOFTMAX: Form = Form {
    name: "LogSoftmax",
    kernel: kernel!(FLOATS T, softmax::log_softmax::<T>, |f, a, p| f(a.input(0), a.output(0), p),
        in_place log_softmax_in_place::<T> |f, a, p| f(a.output(0), p)),
    gradient: |y, dy, axis| dy - y.exp() * dy.sum(&[axis]),
};
static HARDMAX: Form = Form {
    name: "Hardmax",
    kernel: kernel!(FLOATS T, softmax::hardmax::<T>, |f, a, p| f(a.input(0), a.output(0), p)),
    gradient: |y, _, _| y.zeros_like(),
};

fn along(node: &mut Reader<'_>, form: &'static Form) -> Result<Rc<dyn Op>> {
    Ok(Rc::new(Softmax { form, axis: node.int("axis", -1)? }))
}

/// Reads a version before 13, which joins all axes from `axis` on.
fn flattened(node: &mut Reader<'_>, form: &'static Form) -> Result<Rc<dyn Op>> {
    let axis = node.int("axis", 1)?;
    let rank = node.ty(0).and_then(Type::as_tensor).map(|ty| ty.rank() as i64);
    let last = Softmax { form, axis: -1 };
    let &[Some(x)] = node.inputs.as_slice() else { return Ok(Rc::new(last)) };
    if rank.is_some_and(|rank| axis == rank - 1 || axis == -1) {
        return Ok(Rc::new(last));
    }
    let flat = node.add(Flatten { axis }, &[x], &[])?;
    let y = node.add(last, &[flat], &[])?;
    shaped_like(node, y, x)
}

impl Op for Softmax {
    fn name(&self) -> &'static str {
        self.form.name
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("axis", self.axis);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, FLOATS)?;
        cx.axis("axis", self.axis, ty.rank())?;
        Ok(vec![ty.clone().into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let shape = &cx.ty(0)?.shape;
        cx.call(&self.form.kernel, Axis::of(shape, cx.axis(self.axis, shape.len())))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (y, Some(dy)) = (g.y(0), g.dy(0)) else { return Ok(()) };
        g.set(0, (self.form.gradient)(y, dy, g.axis(self.axis, y.rank())));
        Ok(())
    }
}

impl<'t> Expr<'t> {
    /// Returns the softmax along an axis.
    pub fn softmax(self, axis: i64) -> Expr<'t> {
        self.apply(Softmax { form: &SOFTMAX, axis }, &[])
    }

    /// Returns the logarithm of the softmax along an axis.
    pub fn log_softmax(self, axis: i64) -> Expr<'t> {
        self.apply(Softmax { form: &LOG_SOFTMAX, axis }, &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dim::Dim,
        dtype::DType,
        ir::{Attribute, Graph},
        ops::reshape::Reshape,
    };
    use std::collections::BTreeMap;

    /// Reads a node of version 11 with an input of rank 3.
    fn read(axis: i64) -> (Graph, Rc<dyn Op>) {
        let mut g = Graph::new(Rc::default());
        let ty = Type::tensor(DType::F32, [Dim::symbol("n"), 3.into(), 4.into()]);
        let x = g.input(g.body, "x", ty);
        let attributes = BTreeMap::from([("axis".to_owned(), Attribute::Int(axis))]);
        let body = g.body;
        let mut reader = Reader::new(&mut g, body, 11, vec![Some(x)], 1, attributes);
        let op = flattened(&mut reader, &SOFTMAX).expect("the node fits");
        (g, op)
    }

    #[test]
    fn old_versions_take_the_last_axes_as_one() {
        let (g, op) = read(1);
        assert!(op.is::<Reshape>());
        let names: Vec<&str> = g.nodes().map(|(_, node)| node.op.name()).collect();
        assert_eq!(names, ["Flatten", "Softmax", "Shape"]);
    }

    #[test]
    fn the_last_axis_alone_was_always_the_same() {
        let (g, op) = read(2);
        assert!(op.is::<Softmax>() && g.nodes().next().is_none());
    }
}
