//! Internal operators for facts about sizes. No file has these operators.

use super::{
    cast::CastMode,
    reshape::{write, write_sizes},
};
use crate::{
    diag::{Code, Result, counted},
    dim::Dim,
    dtype::DType,
    ir::{Attributes, Domain, Gradient, Infer, Inferred, Lower, Op, Views},
    plan::Check,
    ty::Type,
};
use std::rc::Rc;

/// Sizes as a tensor: replaces shape arithmetic whose result is known.
pub struct Sizes {
    /// The elements.
    pub sizes: Vec<Dim>,
    /// The rank: 1, or 0 for a scalar.
    pub rank: usize,
}

impl Op for Sizes {
    fn name(&self) -> &'static str {
        "Sizes"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        let sizes: Vec<String> = self.sizes.iter().map(|dim| format!("{dim:?}")).collect();
        a.strings("sizes", &sizes);
        a.int("rank", self.rank as i64);
    }

    fn with_sizes(&self, change: &dyn Fn(&Dim) -> Dim) -> Option<Rc<dyn Op>> {
        let sizes = self.sizes.iter().map(change).collect();
        Some(Rc::new(Sizes { sizes, rank: self.rank }))
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        // Values of these sizes require this, too, but passes may have removed them.
        for size in &self.sizes {
            cx.require_size(size)?;
        }
        cx.set_known(0, self.sizes.clone());
        let shape: Vec<usize> = (0..self.rank).map(|_| self.sizes.len()).collect();
        Ok(vec![Type::tensor(DType::I64, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        write_sizes(cx)
    }
}

/// Whether a condition over sizes holds.
pub struct Holds {
    /// 1 if it holds, else 0.
    pub condition: Dim,
}

impl Op for Holds {
    fn name(&self) -> &'static str {
        "Holds"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.string("condition", &format!("{:?}", self.condition));
    }

    fn with_sizes(&self, change: &dyn Fn(&Dim) -> Dim) -> Option<Rc<dyn Op>> {
        Some(Rc::new(Holds { condition: change(&self.condition) }))
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.set_known(0, vec![self.condition.clone()]);
        Ok(vec![Type::tensor::<Dim>(DType::Bool, [])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (number, y) = (cx.scratch(DType::I64, 1), cx.output(0)?);
        write(cx, vec![self.condition.clone()], number.clone())?;
        CastMode::DEFAULT.call(cx, DType::I64, number, DType::Bool, y)
    }
}

/// The conditions of a node of which only the sizes of outputs are read. Sizes become formulas, so
/// nothing would need the node.
pub struct Require {
    /// The conditions.
    pub checks: Vec<Check>,
}

impl Op for Require {
    fn name(&self) -> &'static str {
        "Require"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        let checks: Vec<String> =
            self.checks.iter().map(|check| format!("{:?}", check.condition)).collect();
        a.strings("conditions", &checks);
    }

    fn with_sizes(&self, change: &dyn Fn(&Dim) -> Dim) -> Option<Rc<dyn Op>> {
        let checks = self
            .checks
            .iter()
            .map(|check| Check { condition: check.condition.map(change), ..check.clone() });
        Some(Rc::new(Require { checks: checks.collect() }))
    }

    fn is_kept(&self) -> bool {
        true
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        self.checks.iter().try_for_each(|check| cx.require_check(check))?;
        Ok(Vec::new())
    }

    fn lower(&self, _: &mut Lower<'_>) -> Result {
        Ok(())
    }
}

/// The input with a type or elements that its own node cannot infer, valid where a condition over
/// sizes holds.
pub struct Assume {
    /// The type.
    pub ty: Type,
    /// The elements as sizes, if they are known.
    pub known: Option<Vec<Dim>>,
    /// Sizes that must be equal.
    pub equal: Vec<(Dim, Dim)>,
}

impl Op for Assume {
    fn name(&self) -> &'static str {
        "Assume"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.string("type", &self.ty.to_string());
    }

    fn with_sizes(&self, change: &dyn Fn(&Dim) -> Dim) -> Option<Rc<dyn Op>> {
        let known = self.known.as_ref().map(|known| known.iter().map(change).collect());
        let equal = self.equal.iter().map(|(a, b)| (change(a), change(b))).collect();
        Some(Rc::new(Assume { ty: self.ty.map_dims(change), known, equal }))
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        for (a, b) in &self.equal {
            cx.require_equal(a, b, "a size and its declaration")?;
        }
        if let Some(known) = &self.known {
            cx.set_known(0, known.clone());
        }
        Ok(vec![self.ty.clone()])
    }

    fn views(&self, cx: &mut Views<'_>) {
        cx.view(0, 0, 0.into());
    }

    fn lower(&self, _: &mut Lower<'_>) -> Result {
        Ok(())
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        if let Some(dy) = g.dy(0) {
            let ty = g.x(0).ty().into();
            g.set(0, dy.apply(Assume { ty, known: None, equal: Vec::new() }, &[]));
        }
        Ok(())
    }
}

/// The input, whose number of axes must be the declared one.
pub struct Ranked {
    /// The number of axes.
    pub rank: usize,
}

impl Op for Ranked {
    fn name(&self) -> &'static str {
        "Ranked"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("rank", self.rank as i64);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.ty(0)?;
        if ty.rank() != self.rank {
            let (found, declared) = (ty.rank(), self.rank);
            let (found, declared) = (counted(found, "axis"), counted(declared, "axis"));
            let message = format!("the output has {found}, but is declared with {declared}");
            return Err(cx.diagnostic(Code::DeclaredMismatch, message));
        }
        Ok(vec![ty.clone().into()])
    }

    fn views(&self, cx: &mut Views<'_>) {
        cx.view(0, 0, 0.into());
    }

    fn lower(&self, _: &mut Lower<'_>) -> Result {
        Ok(())
    }
}
