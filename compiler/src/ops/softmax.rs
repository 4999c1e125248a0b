//! `Softmax`, `LogSoftmax` and `Hardmax`, along one axis.

use super::{
    Entry, entry,
    reshape::{Flatten, read_as_reshape},
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
    entry("Hardmax", 1, |node| read_flattened(node, &HARDMAX)),
    entry("Hardmax", 13, |node| read(node, &HARDMAX)),
    entry("LogSoftmax", 1, |node| read_flattened(node, &LOG_SOFTMAX)),
    entry("LogSoftmax", 13, |node| read(node, &LOG_SOFTMAX)),
    entry("Softmax", 1, |node| read_flattened(node, &SOFTMAX)),
    entry("Softmax", 13, |node| read(node, &SOFTMAX)),
];

/// A row of the table: a function along an axis.
pub struct Function {
    name: &'static str,
    kernel: Kernel<Axis>,
    /// The gradient from `y`, `dy` and the axis.
    gradient: for<'t> fn(y: Expr<'t>, dy: Expr<'t>, axis: usize) -> Expr<'t>,
}

/// `e^x / Σ e^x` along an axis, its logarithm, or its limit.
pub struct Softmax {
    /// The function.
    pub function: &'static Function,
    /// The axis.
    pub axis: i64,
}

pub static SOFTMAX: Function = Function {
    name: "Softmax",
    kernel: kernel!(FLOATS T, softmax::softmax::<T>, |f, a, p| f(a.input(0), a.output(0), p),
        in_place softmax_in_place::<T> |f, a, p| f(a.output(0), p)),
    gradient: |y, dy, axis| y * (dy - (y * dy).sum(&[axis])),
};
static LOG_SOFTMAX: Function = Function {
    name: "LogSoftmax",
    kernel: kernel!(FLOATS T, softmax::log_softmax::<T>, |f, a, p| f(a.input(0), a.output(0), p),
        in_place log_softmax_in_place::<T> |f, a, p| f(a.output(0), p)),
    gradient: |y, dy, axis| dy - y.exp() * dy.sum(&[axis]),
};
static HARDMAX: Function = Function {
    name: "Hardmax",
    kernel: kernel!(FLOATS T, softmax::hardmax::<T>, |f, a, p| f(a.input(0), a.output(0), p)),
    gradient: |y, _, _| y.zeros_like(),
};

fn read(node: &mut Reader<'_>, function: &'static Function) -> Result<Rc<dyn Op>> {
    Ok(Rc::new(Softmax { function, axis: node.int("axis", -1)? }))
}

/// Reads a version before 13, which joins all axes from `axis` on.
fn read_flattened(node: &mut Reader<'_>, function: &'static Function) -> Result<Rc<dyn Op>> {
    let axis = node.int("axis", 1)?;
    let rank = node.ty(0).and_then(Type::as_tensor).map(|ty| ty.rank() as i64);
    let last = Softmax { function, axis: -1 };
    let &[Some(x)] = node.inputs.as_slice() else { return Ok(Rc::new(last)) };
    if rank.is_some_and(|rank| axis == rank - 1 || axis == -1) {
        return Ok(Rc::new(last));
    }
    let flat = node.add(Flatten { axis }, &[x], &[])?;
    let y = node.add(last, &[flat], &[])?;
    read_as_reshape(node, y, x)
}

impl Op for Softmax {
    fn name(&self) -> &'static str {
        self.function.name
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
        cx.call(&self.function.kernel, Axis::of(shape, cx.axis(self.axis, shape.len())))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (y, Some(dy)) = (g.y(0), g.dy(0)) else { return Ok(()) };
        g.set(0, (self.function.gradient)(y, dy, g.axis(self.axis, y.rank())));
        Ok(())
    }
}

impl<'t> Expr<'t> {
    /// Returns the softmax along an axis.
    pub fn softmax(self, axis: i64) -> Expr<'t> {
        self.apply(Softmax { function: &SOFTMAX, axis }, &[])
    }

    /// Returns the logarithm of the softmax along an axis.
    pub fn log_softmax(self, axis: i64) -> Expr<'t> {
        self.apply(Softmax { function: &LOG_SOFTMAX, axis }, &[])
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
    fn read_11(axis: i64) -> (Graph, Rc<dyn Op>) {
        let mut g = Graph::new(Rc::default());
        let ty = Type::tensor(DType::F32, [Dim::symbol("n"), 3.into(), 4.into()]);
        let x = g.input(g.body, "x", ty);
        let attributes = BTreeMap::from([("axis".to_owned(), Attribute::Int(axis))]);
        let body = g.body;
        let mut reader = Reader::new(&mut g, body, 11, vec![Some(x)], 1, attributes);
        let op = read_flattened(&mut reader, &SOFTMAX).expect("the node is valid");
        (g, op)
    }

    #[test]
    fn old_versions_flatten_the_axes_from_axis_on() {
        let (g, op) = read_11(1);
        assert!(op.is::<Reshape>());
        let names: Vec<&str> = g.nodes().map(|(_, node)| node.op.name()).collect();
        assert_eq!(names, ["Flatten", "Softmax", "Shape"]);
    }

    #[test]
    fn the_last_axis_needs_no_flattening() {
        let (g, op) = read_11(2);
        assert!(op.is::<Softmax>() && g.nodes().next().is_none());
    }
}
