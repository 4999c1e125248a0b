//! The `Gradient` operator, which a pass replaces by the nodes that compute the gradients.

use super::{Entry, training_of_names};
use crate::{
    diag::{Code, Diagnostic, Result, counted, there_are},
    dtype::DType,
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op, ValueId},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[training_of_names("Gradient", 1, &["xs", "zs", "y"], |node| {
    let names = |names: Option<Vec<String>>| names.unwrap_or_default();
    let (xs, zs) = (names(node.maybe_strings("xs")?), names(node.maybe_strings("zs")?));
    let y = node.maybe_string("y")?;
    let missing =
        |name| Diagnostic::new(Code::BadAttribute, format!("the attribute `{name}` is missing"));
    if xs.is_empty() {
        return Err(missing("xs"));
    }
    Ok(Rc::new(Gradient { xs, zs, y: y.ok_or_else(|| missing("y"))? }))
})];

/// The gradients of the sum of a value `y` with respect to values `xs`, evaluated at a point: the
/// inputs are the values to substitute for `xs` and `zs`, then the values named by `xs`, `zs` and
/// `y` themselves.
pub struct Gradient {
    /// The names of the values with respect to which `y` is differentiated.
    pub xs: Vec<String>,
    /// The names of other values to substitute.
    pub zs: Vec<String>,
    /// The name of the value that is differentiated.
    pub y: String,
}

impl Gradient {
    /// Splits the inputs into the substitutes, the values that they replace, and `y`.
    pub fn split<'a>(&self, inputs: &'a [ValueId]) -> (&'a [ValueId], &'a [ValueId], ValueId) {
        let count = self.xs.len() + self.zs.len();
        let (points, named) = inputs.split_at(count);
        (points, &named[..count], named[count])
    }

    /// Checks the numbers and the types of inputs and outputs.
    fn check(&self, cx: &Infer<'_>) -> Inferred<()> {
        const DIFFERENTIABLE: &[DType] = &[DType::F32, DType::F64, DType::F16];
        let names: Vec<&String> = self.xs.iter().chain(&self.zs).collect();
        let count = names.len();
        if cx.given() != 2 * count + 1 {
            let given = cx.given().saturating_sub(count + 1);
            let (inputs, names) = (there_are(given, "input"), counted(count, "name"));
            let message = format!("{inputs} for {names} in `xs` and `zs`");
            return Err(cx.diagnostic(Code::BadArity, message));
        }
        if cx.outputs() > self.xs.len() {
            let outputs = there_are(cx.outputs(), "output");
            let message = format!("{outputs}, but {} `xs`", self.xs.len());
            return Err(cx.diagnostic(Code::BadArity, message));
        }
        if let Some(i) = (1..count).find(|&i| names[..i].contains(&names[i])) {
            let message = format!("`{}` is named twice in `xs` and `zs`", names[i]);
            return Err(cx.diagnostic(Code::BadAttribute, message));
        }
        for i in (0..self.xs.len()).chain([2 * count]) {
            cx.of(i, DIFFERENTIABLE)?;
        }
        for (i, name) in names.iter().enumerate().take(count) {
            let (point, named) = (cx.ty(i)?, cx.ty(count + i)?);
            cx.same_dtype(i, count + i)?;
            let differ = |(a, b): (&crate::dim::Dim, &crate::dim::Dim)| {
                a.known().is_some() && b.known().is_some() && a != b
            };
            let sizes = || point.shape.iter().zip(&named.shape);
            if point.rank() != named.rank() || sizes().any(differ) {
                let message =
                    format!("the shape of the input for `{name}` differs from that of `{name}`");
                return Err(cx.diagnostic(Code::ShapeMismatch, message));
            }
        }
        Ok(())
    }
}

impl Op for Gradient {
    fn name(&self) -> &'static str {
        "Gradient"
    }

    fn domain(&self) -> Domain {
        Domain::Training
    }

    fn attributes(&self, a: &mut Attributes) {
        a.strings("xs", &self.xs);
        a.strings("zs", &self.zs);
        a.string("y", &self.y);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        self.check(cx)?;
        (0..self.xs.len()).map(|i| Ok(cx.ty(i)?.clone().into())).collect()
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let message =
            format!("`{}` was not replaced by the nodes that compute it", cx.node().op.name());
        Err(Diagnostic::new(Code::Unsupported, message))
    }
}
