//! Classification losses: `NegativeLogLikelihoodLoss` and `SoftmaxCrossEntropyLoss`.

use super::{Entry, entry};
use crate::{
    diag::{Code, Result},
    dtype::{DType, FLOATS, INDICES},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{Arg, Kernel, geometry::Axis, kernel},
    tensor::Tensor,
    ty::{TensorType, Type},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("NegativeLogLikelihoodLoss", 12, |node| {
        let (reduction, ignore_index) = (Reduction::read(node)?, node.maybe_int("ignore_index")?);
        Ok(Rc::new(NegativeLogLikelihoodLoss { reduction, ignore_index }))
    }),
    entry("SoftmaxCrossEntropyLoss", 12, |node| {
        let (reduction, ignore_index) = (Reduction::read(node)?, node.maybe_int("ignore_index")?);
        Ok(Rc::new(SoftmaxCrossEntropyLoss { reduction, ignore_index }))
    }),
];

/// How the losses of all samples are reduced.
#[derive(Clone, Copy)]
pub enum Reduction {
    /// To the mean: their sum divided by the sum of the weights.
    Mean,
    /// Not at all.
    None,
    /// To their sum.
    Sum,
}

impl Reduction {
    fn read(node: &mut Reader<'_>) -> Result<Reduction> {
        let choices =
            [("mean", Reduction::Mean), ("none", Reduction::None), ("sum", Reduction::Sum)];
        node.choice("reduction", &choices)
    }

    fn name(self) -> &'static str {
        match self {
            Reduction::Mean => "mean",
            Reduction::None => "none",
            Reduction::Sum => "sum",
        }
    }
}

fn attributes(a: &mut Attributes, reduction: Reduction, ignore_index: Option<i64>) {
    a.string("reduction", reduction.name());
    if let Some(index) = ignore_index {
        a.int("ignore_index", index);
    }
}

/// Infers the type of the loss: a scalar, or a number for each sample.
fn infer_loss(
    cx: &mut Infer<'_>,
    reduction: Reduction,
    ignore_index: Option<i64>,
) -> Inferred<Type> {
    let TensorType { dtype, shape } = cx.of(0, FLOATS)?;
    let [batch, classes, rest @ ..] = shape.as_slice() else {
        let message = format!("input 0 must have two axes or more, but has {}", shape.len());
        return Err(cx.diagnostic(Code::ShapeMismatch, message));
    };
    cx.of(1, INDICES)?;
    let targets = &cx.ranked(1, shape.len() - 1)?.shape;
    for (size, expected) in targets.iter().zip([batch].into_iter().chain(rest)) {
        cx.require_equal(size, expected, "a size of the targets and of the samples")?;
    }
    if cx.has(2) {
        cx.same_dtype(0, 2)?;
        let weights = &cx.ranked(2, 1)?.shape[0];
        cx.require_equal(weights, classes, "the number of weights and of classes")?;
    }
    if let Some(count) = classes.known() {
        let targets = cx.ints(1).unwrap_or_default();
        let counted = targets.into_iter().filter(|&target| Some(target) != ignore_index);
        cx.require_inside(counted, 0..count, || {
            format!("axis 1 of input 0, whose size is {count}")
        })?;
    }
    Ok(match reduction {
        Reduction::None => Type::tensor(*dtype, targets),
        Reduction::Mean | Reduction::Sum => Type::tensor(*dtype, [0; 0]),
    })
}

/// The inputs of the kernels: predictions, targets, and weights.
fn inputs(cx: &mut Lower<'_>) -> Result<Vec<Arg>> {
    Ok(vec![cx.input(0)?.into(), cx.input(1)?.into(), cx.optional(2)?.into()])
}

/// Returns the gradient of `x`, logarithms of probabilities, for the negative log-likelihood loss,
/// and sets the gradient of the weights.
fn differentiate<'t>(
    g: &mut Gradient<'t>,
    x: Expr<'t>,
    dy: Expr<'t>,
    reduction: Reduction,
    ignore_index: Option<i64>,
) -> Expr<'t> {
    let targets = g.x(1).cast(DType::I64);
    let ignored = targets.tape.constant(Tensor::from_int(ignore_index.unwrap_or(i64::MIN)));
    let ignored = targets.equal(ignored);
    let targets = ignored.select(targets.number(0.0), targets);
    let counts = x.number(1.0).only_where(ignored.logical_not());
    let one_hot = targets.one_hot(x.size_of(1), x, 1) * counts.with_axis(1);
    let weights = g.optional(2).map_or(counts, |weights| weights.gather(targets, 0) * counts);
    let share = match reduction {
        Reduction::Mean => dy / weights.sum_all(),
        Reduction::None | Reduction::Sum => dy,
    };
    if g.wants(2) {
        let loss = match reduction {
            Reduction::Mean => x + g.y(0),
            Reduction::None | Reduction::Sum => x,
        };
        let share = share.fit(weights).with_axis(1);
        let is_target = one_hot.equal(one_hot.number(1.0));
        g.set(2, (-(loss * share)).only_where(is_target).sum_per_channel(g.x(2)));
    }
    -one_hot * (weights * share).with_axis(1)
}

/// The kernels by the type of the targets.
type Kernels = [(DType, Kernel<(Option<i64>, Axis)>)];

macro_rules! kernels {
    ($name:ident, |$f:ident, $a:ident, $p:ident| $call:expr) => {
        &[
            (DType::I32, kernel!(checked FLOATS T, loss::$name::<T, i32>, |$f, $a, $p| $call)),
            (DType::I64, kernel!(checked FLOATS T, loss::$name::<T, i64>, |$f, $a, $p| $call)),
        ]
    };
}

/// `-weight[target] · x[target]` for each sample, with logarithms `x` of the probabilities of its
/// classes as input 0.
pub struct NegativeLogLikelihoodLoss {
    /// The reduction of the losses of all samples.
    pub reduction: Reduction,
    /// A target whose samples do not count.
    pub ignore_index: Option<i64>,
}

static LIKELIHOODS: &Kernels = kernels!(negative_log_likelihood_loss, |f, a, p| f(
    a.input(0),
    a.input(1),
    a.optional(2),
    a.output(0),
    p.0,
    p.1
));
static LIKELIHOODS_SUM: &Kernels = kernels!(negative_log_likelihood_loss_sum, |f, a, p| f(
    a.input(0),
    a.input(1),
    a.optional(2),
    a.output(0),
    p.0,
    p.1
));
static LIKELIHOODS_MEAN: &Kernels = kernels!(negative_log_likelihood_loss_mean, |f, a, p| f(
    a.input(0),
    a.input(1),
    a.optional(2),
    a.output(0),
    p.0,
    p.1
));

impl NegativeLogLikelihoodLoss {
    /// Calls the kernel on predictions, targets and weights.
    fn call(&self, cx: &mut Lower<'_>, inputs: Vec<Arg>, geometry: Axis) -> Result {
        let kernels = match self.reduction {
            Reduction::None => LIKELIHOODS,
            Reduction::Sum => LIKELIHOODS_SUM,
            Reduction::Mean => LIKELIHOODS_MEAN,
        };
        let (kernel, dtype) = (cx.choose(kernels, 1)?, cx.ty(0)?.dtype);
        let outputs = vec![cx.output(0)?.into()];
        cx.call_on(kernel, dtype, inputs, outputs, (self.ignore_index, geometry))
    }
}

impl Op for NegativeLogLikelihoodLoss {
    fn name(&self) -> &'static str {
        "NegativeLogLikelihoodLoss"
    }

    fn attributes(&self, a: &mut Attributes) {
        attributes(a, self.reduction, self.ignore_index);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        Ok(vec![infer_loss(cx, self.reduction, self.ignore_index)?])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (inputs, geometry) = (inputs(cx)?, Axis::of(&cx.ty(0)?.shape, 1));
        self.call(cx, inputs, geometry)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        if let Some(dy) = g.dy(0) {
            let dx = differentiate(g, g.x(0), dy, self.reduction, self.ignore_index);
            g.set(0, dx);
        }
        Ok(())
    }
}

/// The [`NegativeLogLikelihoodLoss`] of `LogSoftmax` of the scores, input 0. The logarithms are
/// output 1.
pub struct SoftmaxCrossEntropyLoss {
    /// The reduction of the losses of all samples.
    pub reduction: Reduction,
    /// A target whose samples do not count.
    pub ignore_index: Option<i64>,
}

static LOG_SOFTMAX: Kernel<Axis> = kernel!(FLOATS T, softmax::log_softmax::<T>,
    |f, a, p| f(a.input(0), a.output(0), p),
    in_place log_softmax_in_place::<T> |f, a, p| f(a.output(0), p));
static CROSS_ENTROPIES: &Kernels = kernels!(softmax_cross_entropy_loss, |f, a, p| f(
    a.input(0),
    a.input(1),
    a.optional(2),
    a.output(0),
    a.output(1),
    p.0,
    p.1
));
static CROSS_ENTROPIES_SUM: &Kernels = kernels!(softmax_cross_entropy_loss_sum, |f, a, p| f(
    a.input(0),
    a.input(1),
    a.optional(2),
    a.output(0),
    a.output(1),
    p.0,
    p.1
));
static CROSS_ENTROPIES_MEAN: &Kernels = kernels!(softmax_cross_entropy_loss_mean, |f, a, p| f(
    a.input(0),
    a.input(1),
    a.optional(2),
    a.output(0),
    a.output(1),
    p.0,
    p.1
));

impl Op for SoftmaxCrossEntropyLoss {
    fn name(&self) -> &'static str {
        "SoftmaxCrossEntropyLoss"
    }

    fn attributes(&self, a: &mut Attributes) {
        attributes(a, self.reduction, self.ignore_index);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let loss = infer_loss(cx, self.reduction, self.ignore_index)?;
        Ok(vec![loss, cx.ty(0)?.clone().into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (dtype, mut inputs) = (cx.ty(0)?.dtype, inputs(cx)?);
        let geometry = Axis::of(&cx.ty(0)?.shape, 1);
        let SoftmaxCrossEntropyLoss { reduction, ignore_index } = *self;
        if let Some(log) = cx.optional_output(1)? {
            let x = std::mem::replace(&mut inputs[0], log.clone().into());
            cx.call_on(&LOG_SOFTMAX, dtype, vec![x], vec![log.into()], geometry.clone())?;
            if cx.optional_output(0)?.is_none() {
                return Ok(());
            }
            let loss = NegativeLogLikelihoodLoss { reduction, ignore_index };
            return loss.call(cx, inputs, geometry);
        }
        let kernels = match reduction {
            Reduction::None => CROSS_ENTROPIES,
            Reduction::Sum => CROSS_ENTROPIES_SUM,
            Reduction::Mean => CROSS_ENTROPIES_MEAN,
        };
        let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let scratch = cx.scratch(wide, &geometry.len * &geometry.inner);
        let outputs = vec![cx.output(0)?.into(), scratch.into()];
        cx.call_on(cx.choose(kernels, 1)?, dtype, inputs, outputs, (ignore_index, geometry))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let y = g.x(0).log_softmax(1);
        // The gradients of the logarithms, by the loss and by output 1.
        let of_loss = g.dy(0).map(|dy| differentiate(g, y, dy, self.reduction, self.ignore_index));
        let total = [of_loss, g.dy(1)].into_iter().flatten().reduce(|a, b| a + b);
        if let Some(dy) = total {
            g.set(0, dy - y.exp() * dy.sum(&[1]));
        }
        // The logarithms do not depend on the weights.
        g.set_others_to_zero();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dim::Dim,
        ops::testing::{Given, check, tensor},
    };

    fn cross_entropy(reduction: Reduction) -> SoftmaxCrossEntropyLoss {
        SoftmaxCrossEntropyLoss { reduction, ignore_index: None }
    }

    #[test]
    fn a_loss_is_a_scalar_or_a_number_for_each_sample() {
        let x = || Given::Runtime(DType::F16, vec![Dim::symbol("n"), 3.into(), 4.into()]);
        let target = || Given::Runtime(DType::I32, vec![Dim::symbol("n"), 4.into()]);
        let inputs = || [x(), target(), tensor(DType::F16, [3])];
        check(cross_entropy(Reduction::None), &inputs(), 1, "float16[n, 4]");
        check(cross_entropy(Reduction::Mean), &inputs(), 2, "float16; float16[n, 3, 4]");
        let op = NegativeLogLikelihoodLoss { reduction: Reduction::Sum, ignore_index: Some(-1) };
        check(op, &inputs()[..2], 1, "float16");
    }

    #[test]
    fn targets_have_all_axes_except_the_class_axis() {
        let op = || cross_entropy(Reduction::None);
        let x = || tensor(DType::F32, [2, 3]);
        let expected = "input 1 must have 1 axis, but has 2";
        check(op(), &[x(), tensor(DType::I64, [2, 3])], 1, expected);
        let expected = "a size of the targets and of the samples must be equal, but are 3 and 2";
        check(op(), &[x(), tensor(DType::I64, [3])], 1, expected);
        let expected = "the number of weights and of classes must be equal, but are 2 and 3";
        check(op(), &[x(), tensor(DType::I64, [2]), tensor(DType::F32, [2])], 1, expected);
        let expected = "input 0 must have two axes or more, but has 1";
        check(op(), &[tensor(DType::F32, [2]), tensor(DType::I64, [2])], 1, expected);
    }
}
