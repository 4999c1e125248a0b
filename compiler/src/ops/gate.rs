//! Gates: gradients that pass where another tensor is positive, or lies between two bounds.

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

/// Input 0 where input 1, of the same shape, is positive, and zero elsewhere (also where input 1 is
/// NaN).
pub struct Gate;

/// Input 0 where input 1, of the same shape, is neither less than the scalar input 2 nor greater
/// than the scalar input 3 (so also where input 1 is NaN), and zero elsewhere.
pub struct Between;

static GATE: Kernel<NoParams> = kernel!(FLOATS T, gate::gate::<T>,
    |f, a, _p| f(a.input(0), a.input(1), a.output(0)),
    in_place gate_in_place::<T> |f, a, _p| f(a.output(0), a.input(0)));

static BETWEEN: Kernel<NoParams> = kernel!(FLOATS T, gate::between::<T>,
    |f, a, _p| f(a.input(0), a.input(1), a.input(2), a.input(3), a.output(0)),
    in_place between_in_place::<T> |f, a, _p|
        f(a.output(0), a.input(0), a.input(1), a.input(2)));

/// Returns the type of input 0 after checking that the gate, input 1, has the same type.
fn infer_gated(cx: &mut Infer<'_>) -> Inferred {
    let ty = cx.of(0, FLOATS)?.clone();
    cx.same_dtype(0, 1)?;
    let gate = cx.ranked(1, ty.rank())?.shape.clone();
    for (a, b) in ty.shape.iter().zip(&gate) {
        cx.require_equal(a, b, "a size of the input and of the gate")?;
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
        infer_gated(cx)
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
            cx.require_one_element(i)?;
        }
        infer_gated(cx)
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
    /// `self` where `gate` is neither less than `low` nor greater than `high`, and zero elsewhere.
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
    fn a_gate_has_the_shape_of_its_input() {
        check(Gate, &[tensor(F32, [2, 3]), tensor(F32, [2, 3])], 1, "float[2, 3]");
        let message = "a size of the input and of the gate must be equal, but are 3 and 1";
        check(Gate, &[tensor(F32, [2, 3]), tensor(F32, [2, 1])], 1, message);
        let bounds = || [tensor::<usize, 0>(F32, []), tensor(F32, [1])];
        let [low, high] = bounds();
        check(Between, &[tensor(F32, [3]), tensor(F32, [3]), low, high], 1, "float[3]");
        let [low, high] = bounds();
        let message = "a size of the input and of the gate must be equal, but are 3 and 1";
        check(Between, &[tensor(F32, [3]), tensor(F32, [1]), low, high], 1, message);
    }
}
