//! Gates: what passes where another tensor is positive, or between two bounds.

use super::{Entry, internal};
use crate::{
    diag::Result,
    dtype::FLOATS,
    ir::{Domain, Expr, Gradient, Infer, Inferred, Lower, Op},
    plan::{Kernel, NoParams, kernel},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] =
    &[internal("Gate", |_| Ok(Rc::new(Gate))), internal("Between", |_| Ok(Rc::new(Between)))];

/// The first input where the second, of the same shape, is positive; elsewhere, also where that is
/// NaN, zero.
pub struct Gate;

/// The first input where the second, of the same shape, is neither less than the third, a number, nor
/// greater than the fourth, and so also where it is NaN; elsewhere zero.
pub struct Between;

static GATE: Kernel<NoParams> = kernel!(FLOATS T, gate::gate::<T>,
    |f, a, _p| f(a.input(0), a.input(1), a.output(0)),
    in_place gate_in_place::<T> |f, a, _p| f(a.output(0), a.input(0)));

static BETWEEN: Kernel<NoParams> = kernel!(FLOATS T, gate::between::<T>,
    |f, a, _p| f(a.input(0), a.input(1), a.input(2), a.input(3), a.output(0)),
    in_place between_in_place::<T> |f, a, _p|
        f(a.output(0), a.input(0), a.input(1), a.input(2)));

/// The type of what passes, which is as large as the gate.
fn passing(cx: &mut Infer<'_>) -> Inferred {
    let ty = cx.of(0, FLOATS)?.clone();
    cx.same_dtype(0, 1)?;
    let gate = cx.ranked(1, ty.rank())?.shape.clone();
    for (a, b) in ty.shape.iter().zip(&gate) {
        cx.require_equal(a, b, "the sizes of what passes and of the gate")?;
    }
    Ok(vec![Type::tensor(ty.dtype, ty.shape)])
}

impl Op for Gate {
    fn name(&self) -> &'static str {
        "Gate"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        passing(cx)
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call(&GATE, NoParams)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (gate, Some(dy)) = (g.x(1), g.dy(0)) else { return Ok(()) };
        g.set(0, dy.apply(Gate, &[gate]));
        Ok(())
    }
}

impl Op for Between {
    fn name(&self) -> &'static str {
        "Between"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        for i in [2, 3] {
            cx.same_dtype(0, i)?;
            cx.require_equal(&cx.ty(i)?.len(), &1.into(), "the elements of a bound and 1")?;
        }
        passing(cx)
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call(&BETWEEN, NoParams)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let Some(dy) = g.dy(0) else { return Ok(()) };
        g.set(0, dy.where_between(g.x(1), g.x(2), g.x(3)));
        Ok(())
    }
}

impl<'t> Expr<'t> {
    /// It, where `gate` is neither less than `low` nor greater than `high`, and zero elsewhere.
    pub fn where_between(self, gate: Expr<'t>, low: Expr<'t>, high: Expr<'t>) -> Expr<'t> {
        self.apply(Between, &[gate, low, high])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dtype::DType::F32,
        ops::testing::{check, tensor},
    };

    #[test]
    fn a_gate_is_as_large_as_what_passes() {
        check(Gate, &[tensor(F32, [2, 3]), tensor(F32, [2, 3])], 1, "float[2, 3]");
        let message = "the sizes of what passes and of the gate must be equal, but are 3 and 1";
        check(Gate, &[tensor(F32, [2, 3]), tensor(F32, [2, 1])], 1, message);
        let bounds = || [tensor::<usize, 0>(F32, []), tensor(F32, [1])];
        let [low, high] = bounds();
        check(Between, &[tensor(F32, [3]), tensor(F32, [3]), low, high], 1, "float[3]");
        let [low, high] = bounds();
        let message = "the sizes of what passes and of the gate must be equal, but are 3 and 1";
        check(Between, &[tensor(F32, [3]), tensor(F32, [1]), low, high], 1, message);
    }
}
