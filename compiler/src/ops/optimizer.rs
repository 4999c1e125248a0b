//! Optimizer steps: `Adagrad`, `Adam` and `Momentum`.

use super::{
    Entry,
    cast::{Cast, CastMode},
    training,
};
use crate::{
    diag::{Code, Diagnostic, Result, counted},
    dtype::{DType, F32_AND_F64, I64_ONLY},
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op, Reader},
    plan::{Arg, Formula, Kernel, geometry, kernel},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    training("Adagrad", 1, |node| {
        widen_rate(node)?;
        Ok(Rc::new(Adagrad(geometry::Adagrad {
            decay_factor: node.float("decay_factor", 0.0)?,
            epsilon: node.float("epsilon", 1e-6)?,
            norm_coefficient: node.float("norm_coefficient", 0.0)?,
        })))
    }),
    training("Adam", 1, |node| {
        widen_rate(node)?;
        Ok(Rc::new(Adam(geometry::Adam {
            alpha: node.float("alpha", 0.9)?,
            beta: node.float("beta", 0.999)?,
            epsilon: node.float("epsilon", 1e-6)?,
            norm_coefficient: node.float("norm_coefficient", 0.0)?,
            norm_coefficient_post: node.float("norm_coefficient_post", 0.0)?,
        })))
    }),
    training("Momentum", 1, |node| {
        widen_rate(node)?;
        let nesterov = node.choice("mode", &[("standard", false), ("nesterov", true)])?;
        let attributes = geometry::Momentum {
            alpha: required(node, "alpha")?,
            beta: required(node, "beta")?,
            norm_coefficient: required(node, "norm_coefficient")?,
        };
        Ok(Rc::new(Momentum { nesterov, attributes }))
    }),
];

/// Casts the learning rate to `double`, the type that kernels read. CSE merges the casts of all
/// tensors.
fn widen_rate(node: &mut Reader<'_>) -> Result {
    match node.dtype(0) {
        Ok(DType::F32) => node.wrap_input(0, Cast { to: DType::F64, mode: CastMode::DEFAULT }, &[]),
        _ => Ok(()),
    }
}

fn required(node: &mut Reader<'_>, name: &str) -> Result<f32> {
    let missing =
        || Diagnostic::new(Code::MissingAttribute, format!("the attribute `{name}` is missing"));
    node.maybe_float(name)?.ok_or_else(missing)
}

/// Infers the types of the updated tensors and accumulators. Inputs are the learning rate, the step
/// number, and `per_tensor` inputs for each tensor: all tensors, then all gradients, then all
/// accumulators. The outputs have the order of the inputs without the gradients.
fn infer(cx: &mut Infer<'_>, per_tensor: usize) -> Inferred {
    cx.of(0, F32_AND_F64)?;
    cx.of(1, I64_ONLY)?;
    for i in 0..2 {
        cx.require_one_element(i)?;
    }
    let inputs = cx.given() - 2;
    if inputs == 0 || !inputs.is_multiple_of(per_tensor) {
        let message = format!(
            "each tensor needs {}, and the node has {} after the first two",
            counted(per_tensor, "input"),
            counted(inputs, "input")
        );
        return Err(cx.diagnostic(Code::OptimizerInputs, message));
    }
    let tensors = inputs / per_tensor;
    for i in 2..2 + inputs {
        let first = cx.of(2 + (i - 2) % tensors, F32_AND_F64)?;
        cx.same_dtype(2 + (i - 2) % tensors, i)?;
        let ty = cx.ranked(i, first.rank())?;
        for (size, wanted) in ty.shape.iter().zip(&first.shape) {
            cx.require_equal(size, wanted, "the sizes of a tensor and of its gradient")?;
        }
    }
    (0..tensors * (per_tensor - 1)).map(|i| Ok(cx.ty(2 + i % tensors)?.clone().into())).collect()
}

/// A kernel that updates a tensor and one accumulator from a gradient.
macro_rules! step_kernel {
    ($name:ident $in_place:ident $Operands:ident $accumulator:ident) => {
        kernel!(overwrites 2 F32_AND_F64 T, optimizer::$name::<T> {
            operands: optimizer::$Operands {
                x: input(0), $accumulator: input(1), gradient: input(2), rate: input(3),
                step: input(4),
            }
        }, |f, a, p| f(operands, a.output(0), a.output(1), p),
            in_place $in_place::<T> |f, a, p| f(a.output(0), a.output(1), a.input(0), a.input(1),
                a.input(2), p))
    };
}

/// Calls `kernel` for each tensor.
fn lower<F: Formula>(
    cx: &mut Lower<'_>,
    per_tensor: usize,
    kernel: &'static Kernel<F>,
    attributes: &F,
) -> Result {
    let (rate, step) = (cx.input(0)?, cx.input(1)?);
    let tensors = (cx.node().inputs.len() - 2) / per_tensor;
    for i in 0..tensors {
        let ty = cx.ty(2 + i)?;
        // The overwritten inputs come first: all except the gradient.
        let mut inputs: Vec<Arg> = Vec::new();
        for j in (0..per_tensor).filter(|&j| j != 1) {
            inputs.push(cx.input(2 + j * tensors + i)?.into());
        }
        inputs.push(cx.input(2 + tensors + i)?.into());
        inputs.extend([rate.clone().into(), step.clone().into()]);
        let mut outputs = Vec::new();
        for j in 0..per_tensor - 1 {
            // The kernel writes every output, also unused ones.
            let wanted = cx.optional_output(j * tensors + i)?;
            outputs.push(wanted.unwrap_or_else(|| cx.scratch(ty.dtype, ty.len())).into());
        }
        cx.call_on(kernel, ty.dtype, inputs, outputs, attributes.clone())?;
    }
    Ok(())
}

/// A step of Adagrad.
pub struct Adagrad(pub geometry::Adagrad);

static ADAGRAD: Kernel<geometry::Adagrad> =
    step_kernel!(adagrad adagrad_in_place AdagradOperands h);

impl Op for Adagrad {
    fn name(&self) -> &'static str {
        "Adagrad"
    }

    fn domain(&self) -> Domain {
        Domain::Training
    }

    fn attributes(&self, a: &mut Attributes) {
        a.float("decay_factor", self.0.decay_factor);
        a.float("epsilon", self.0.epsilon);
        a.float("norm_coefficient", self.0.norm_coefficient);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        infer(cx, 3)
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        lower(cx, 3, &ADAGRAD, &self.0)
    }
}

/// A step of Adam.
pub struct Adam(pub geometry::Adam);

static ADAM: Kernel<geometry::Adam> = kernel!(overwrites 3 F32_AND_F64 T,
    optimizer::adam::<T> { operands: optimizer::AdamOperands {
        x: input(0), v: input(1), h: input(2), gradient: input(3), rate: input(4), step: input(5),
    } }, |f, a, p| f(operands, a.output(0), a.output(1), a.output(2), p),
    in_place adam_in_place::<T> |f, a, p| f(a.output(0), a.output(1), a.output(2), a.input(0),
        a.input(1), a.input(2), p));

impl Op for Adam {
    fn name(&self) -> &'static str {
        "Adam"
    }

    fn domain(&self) -> Domain {
        Domain::Training
    }

    fn attributes(&self, a: &mut Attributes) {
        a.float("alpha", self.0.alpha);
        a.float("beta", self.0.beta);
        a.float("epsilon", self.0.epsilon);
        a.float("norm_coefficient", self.0.norm_coefficient);
        a.float("norm_coefficient_post", self.0.norm_coefficient_post);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        infer(cx, 4)
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        lower(cx, 4, &ADAM, &self.0)
    }
}

/// A step of gradient descent with momentum.
pub struct Momentum {
    /// Whether the step uses Nesterov's momentum.
    pub nesterov: bool,
    /// The attributes of the kernel.
    pub attributes: geometry::Momentum,
}

static MOMENTUM: Kernel<geometry::Momentum> =
    step_kernel!(momentum momentum_in_place MomentumOperands v);
static NESTEROV_MOMENTUM: Kernel<geometry::Momentum> =
    step_kernel!(nesterov_momentum nesterov_momentum_in_place MomentumOperands v);

impl Op for Momentum {
    fn name(&self) -> &'static str {
        "Momentum"
    }

    fn domain(&self) -> Domain {
        Domain::Training
    }

    fn attributes(&self, a: &mut Attributes) {
        a.float("alpha", self.attributes.alpha);
        a.float("beta", self.attributes.beta);
        a.string("mode", if self.nesterov { "nesterov" } else { "standard" });
        a.float("norm_coefficient", self.attributes.norm_coefficient);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        infer(cx, 3)
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let kernel = if self.nesterov { &NESTEROV_MOMENTUM } else { &MOMENTUM };
        lower(cx, 3, kernel, &self.attributes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Given, check, tensor};

    fn momentum() -> Momentum {
        let attributes = geometry::Momentum { alpha: 0.9, beta: 0.1, norm_coefficient: 0.0 };
        Momentum { nesterov: false, attributes }
    }

    fn inputs(tensors: impl IntoIterator<Item = Given>) -> Vec<Given> {
        let first = [tensor(DType::F32, [0; 0]), tensor(DType::I64, [1])];
        first.into_iter().chain(tensors).collect()
    }

    #[test]
    fn every_tensor_has_a_gradient_and_a_momentum() {
        let tensors = || [tensor(DType::F32, [2, 3]), tensor(DType::F64, [0; 0])];
        let good = inputs((0..3).flat_map(|_| tensors()));
        check(momentum(), &good, 4, "float[2, 3]; double; float[2, 3]; double");
        let expected = "each tensor needs 3 inputs, and the node has 4 inputs after the first two";
        check(momentum(), &inputs((0..2).flat_map(|_| tensors())), 2, expected);
        let expected = "inputs 2 and 3 must have one element type, not float and double";
        check(
            momentum(),
            &inputs(tensors().into_iter().chain([tensor(DType::F32, [2, 3])])),
            2,
            expected,
        );
    }
}
