//! Fused gradients of `Gelu` and `Softmax`, each computed in one pass.

use super::{Entry, internal};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::F32_AND_F64,
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op},
    plan::{Kernel, NoParams, kernel},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    internal("GeluGrad", |node| {
        let approximate = node.choice("approximate", &[("none", false), ("tanh", true)])?;
        Ok(Rc::new(GeluGrad { approximate }))
    }),
    internal("SoftmaxGrad", |_| Ok(Rc::new(SoftmaxGrad))),
];

/// Returns the type of the gradient `dy`, input 0, after checking that input 1 has that type.
fn infer_gradient(cx: &mut Infer<'_>) -> Inferred {
    let ty = cx.of(0, F32_AND_F64)?.clone();
    cx.same_dtype(0, 1)?;
    let x = cx.ranked(1, ty.rank())?.shape.clone();
    for (a, b) in ty.shape.iter().zip(&x) {
        cx.require_equal(a, b, "a size of the gradient and of its operand")?;
    }
    Ok(vec![ty.into()])
}

/// `dy · Gelu'(x)`, with `dy` and `x` as inputs 0 and 1 of the same shape.
pub struct GeluGrad {
    /// Whether `Gelu` is approximated by `tanh`.
    pub approximate: bool,
}

static EXACT: Kernel<NoParams> = kernel!(F32_AND_F64 T, activation_grad::gelu_grad::<T>,
    |f, a, _p| f(a.input(0), a.input(1), a.output(0)),
    in_place gelu_grad_in_place::<T> |f, a, _p| f(a.output(0), a.input(0)));
static APPROXIMATE: Kernel<NoParams> = kernel!(F32_AND_F64 T, activation_grad::gelu_tanh_grad::<T>,
    |f, a, _p| f(a.input(0), a.input(1), a.output(0)),
    in_place gelu_tanh_grad_in_place::<T> |f, a, _p| f(a.output(0), a.input(0)));

impl Op for GeluGrad {
    fn name(&self) -> &'static str {
        "GeluGrad"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.string("approximate", if self.approximate { "tanh" } else { "none" });
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        infer_gradient(cx)
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call(if self.approximate { &APPROXIMATE } else { &EXACT }, NoParams)
    }
}

/// `dx = y (dy - Σ y dy)` along the last axis, with `dy` and `y = Softmax(x)` as inputs 0 and 1.
pub struct SoftmaxGrad;

static SOFTMAX: Kernel<(Dim,)> = kernel!(F32_AND_F64 T, activation_grad::softmax_grad::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p.0),
    in_place softmax_grad_in_place::<T> |f, a, p| f(a.output(0), a.input(0), p.0));

impl Op for SoftmaxGrad {
    fn name(&self) -> &'static str {
        "SoftmaxGrad"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        if cx.of(0, F32_AND_F64)?.rank() == 0 {
            return Err(cx.diagnostic(Code::ShapeMismatch, "a scalar has no axis to sum along"));
        }
        infer_gradient(cx)
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let len = cx.ty(0)?.shape.last().cloned().expect("`infer` requires an axis");
        cx.call(&SOFTMAX, (len,))
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
    fn a_gradient_has_the_shape_of_its_operand() {
        let op = || GeluGrad { approximate: true };
        check(op(), &[tensor(F32, [2, 3]), tensor(F32, [2, 3])], 1, "float[2, 3]");
        let message = "a size of the gradient and of its operand must be equal, but are 3 and 1";
        check(op(), &[tensor(F32, [2, 3]), tensor(F32, [2, 1])], 1, message);
        check(SoftmaxGrad, &[tensor(F32, [2, 3]), tensor(F32, [2, 3])], 1, "float[2, 3]");
        let message = "a scalar has no axis to sum along";
        check(SoftmaxGrad, &[tensor(F32, [0; 0]), tensor(F32, [0; 0])], 1, message);
    }
}
