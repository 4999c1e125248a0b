//! Grads: derivatives of activation functions that are more than a gate, in one pass.

use super::{Entry, internal};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::WIDE,
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

/// The type of a derivative, the first input, which is as large as what it is by, the second.
fn alike(cx: &mut Infer<'_>) -> Inferred {
    let ty = cx.of(0, WIDE)?.clone();
    cx.same_dtype(0, 1)?;
    let x = cx.ranked(1, ty.rank())?.shape.clone();
    for (a, b) in ty.shape.iter().zip(&x) {
        cx.require_equal(a, b, "the sizes of a derivative and of what it is by")?;
    }
    Ok(vec![ty.into()])
}

/// The first input times the gradient of `Gelu` at the second, which has the same shape.
pub struct GeluGrad {
    /// Whether it is the gradient of the `Gelu` that is made of a hyperbolic tangent.
    pub approximate: bool,
}

static EXACT: Kernel<NoParams> = kernel!(WIDE T, activation_grad::gelu_grad::<T>,
    |f, a, _p| f(a.input(0), a.input(1), a.output(0)),
    in_place gelu_grad_in_place::<T> |f, a, _p| f(a.output(0), a.input(0)));
static APPROXIMATE: Kernel<NoParams> = kernel!(WIDE T, activation_grad::gelu_tanh_grad::<T>,
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
        alike(cx)
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call(if self.approximate { &APPROXIMATE } else { &EXACT }, NoParams)
    }
}

/// `y (dy - Σ y dy)` along the last axis, for `dy` and `y`: the derivative by what `y` is the softmax
/// of.
pub struct SoftmaxGrad;

static SOFTMAX: Kernel<(Dim,)> = kernel!(WIDE T, activation_grad::softmax_grad::<T>,
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
        if cx.of(0, WIDE)?.rank() == 0 {
            return Err(cx.diagnostic(Code::ShapeMismatch, "a number has no axis to sum along"));
        }
        alike(cx)
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let len = cx.ty(0)?.shape.last().cloned().expect("inferring the types saw an axis");
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
    fn a_slope_is_for_each_element() {
        let op = || GeluGrad { approximate: true };
        check(op(), &[tensor(F32, [2, 3]), tensor(F32, [2, 3])], 1, "float[2, 3]");
        let message =
            "the sizes of a derivative and of what it is by must be equal, but are 3 and 1";
        check(op(), &[tensor(F32, [2, 3]), tensor(F32, [2, 1])], 1, message);
        check(SoftmaxGrad, &[tensor(F32, [2, 3]), tensor(F32, [2, 3])], 1, "float[2, 3]");
        let message = "a number has no axis to sum along";
        check(SoftmaxGrad, &[tensor(F32, [0; 0]), tensor(F32, [0; 0])], 1, message);
    }
}
