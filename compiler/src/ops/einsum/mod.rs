//! The `Einsum` operator: sums of products along axes that an equation names.

mod contract;
mod equation;
mod gradient;

use super::{Entry, entry};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::NUMERIC,
    ir::{Attributes, Gradient, Infer, Inferred, Lower, Op},
    ty::{TensorType, Type},
};
use contract::Contraction;
use equation::{Equation, Labels, Sizes};
use std::{rc::Rc, slice::from_ref};

pub const OPS: &[Entry] = &[entry("Einsum", 12, |node| {
    let equation = node.maybe_string("equation")?.unwrap_or_default();
    Ok(Rc::new(Einsum { equation }))
})];

/// The sum of products that the equation specifies.
pub struct Einsum {
    /// The equation, such as `bij,bjk->bik`.
    pub equation: String,
}

impl Einsum {
    /// The labels of operands of these shapes.
    fn labels(&self, shapes: &[&[Dim]]) -> std::result::Result<Labels, String> {
        let ranks: Vec<usize> = shapes.iter().map(|shape| shape.len()).collect();
        Equation::parse(&self.equation)?.labels(&ranks)
    }
}

/// The size of each label's axes after broadcasting those of size 1; `None` if two sizes of a label
/// differ.
fn sizes(labels: &Labels, shapes: &[&[Dim]]) -> Option<Sizes> {
    let mut sizes = Sizes::new();
    for (term, shape) in labels.terms.iter().zip(shapes) {
        for (label, dim) in term.iter().zip(*shape) {
            let size = sizes.entry(*label).or_insert_with(|| 1.into());
            *size = size.broadcast(dim)?;
        }
    }
    Some(sizes)
}

impl Op for Einsum {
    fn name(&self) -> &'static str {
        "Einsum"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.string("equation", &self.equation);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = cx.of(0, NUMERIC)?.dtype;
        let mut shapes = Vec::new();
        for i in 0..cx.inputs() {
            cx.same_dtype(0, i)?;
            shapes.push(cx.shape(i)?);
        }
        let bad = |message| {
            cx.diagnostic(
                Code::BadAttribute,
                format!("`equation` is {:?}: {message}", self.equation),
            )
        };
        let labels = self.labels(&shapes).map_err(bad)?;
        let Some(sizes) = sizes(&labels, &shapes) else {
            let message = "axes of one label have different sizes";
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        };
        for (term, shape) in labels.terms.iter().zip(shapes) {
            for (label, dim) in term.iter().zip(shape) {
                cx.broadcast(&[from_ref(dim), from_ref(&sizes[label])])?;
            }
        }
        Ok(vec![Type::tensor(dtype, labels.output.iter().map(|label| sizes[label].clone()))])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let types = (0..cx.node().inputs.len()).map(|i| cx.ty(i)).collect::<Result<Vec<_>>>()?;
        let shapes: Vec<&[Dim]> = types.iter().map(|TensorType { shape, .. }| &**shape).collect();
        let labels = self.labels(&shapes).expect("`infer` checks the equation");
        let sizes = sizes(&labels, &shapes).expect("`infer` checks the sizes");
        cx.macs(&sizes.values().product());
        let mut terms = Vec::new();
        for (i, (term, shape)) in labels.terms.iter().zip(shapes).enumerate() {
            terms.push(contract::Term::new(cx.input(i)?, term, shape, &sizes));
        }
        let mut output = labels.output;
        output.retain(|label| sizes[label].known() != Some(1));
        Contraction { cx, dtype: types[0].dtype, sizes, output }.lower(terms)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let shapes: Vec<Vec<Dim>> = (0..g.inputs()).map(|i| g.x(i).dims()).collect();
        let shapes: Vec<&[Dim]> = shapes.iter().map(Vec::as_slice).collect();
        let labels = self.labels(&shapes).expect("`infer` checks the equation");
        gradient::set_gradients(g, &labels)
    }
}
