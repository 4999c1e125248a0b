//! Gates: what passes where another tensor is positive.

use super::{Entry, internal};
use crate::{
    diag::Result,
    dtype::FLOATS,
    ir::{Domain, Gradient, Infer, Inferred, Lower, Op},
    plan::{Kernel, NoParams, kernel},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[internal("Gate", |_| Ok(Rc::new(Gate)))];

/// The first input where the second, of the same shape, is positive; elsewhere, also where that is
/// NaN, zero.
pub struct Gate;

static GATE: Kernel<NoParams> = kernel!(FLOATS T, gate::gate::<T>,
    |f, a, _p| f(a.input(0), a.input(1), a.output(0)),
    in_place gate_in_place::<T> |f, a, _p| f(a.output(0), a.input(0)));

impl Op for Gate {
    fn name(&self) -> &'static str {
        "Gate"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, FLOATS)?.clone();
        cx.same_dtype(0, 1)?;
        let gate = cx.ranked(1, ty.rank())?.shape.clone();
        for (a, b) in ty.shape.iter().zip(&gate) {
            cx.require_equal(a, b, "the sizes of what passes and of the gate")?;
        }
        Ok(vec![Type::tensor(ty.dtype, ty.shape)])
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
    }
}
