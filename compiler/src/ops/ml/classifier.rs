//! The outputs of classifiers: labels, and scores or probabilities.

use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::DType,
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op, Reader, ValueId},
    ops::{
        activation::Activation,
        arg::Arg,
        ml::lookup,
        softmax::{SOFTMAX, Softmax},
    },
    plan::{Kernel, NoParams, geometry::Axis, kernel},
    tensor::Tensor,
    ty::Type,
};

/// The transform of the scores: the attribute `post_transform`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostTransform {
    /// The identity.
    None,
    /// `e^x / Σ e^x`
    Softmax,
    /// `1 / (1 + e^-x)`
    Logistic,
    /// Softmax over the nonzero scores.
    SoftmaxZero,
    /// The quantile function of the standard normal distribution.
    Probit,
}

impl PostTransform {
    /// All transforms, in the order of their codes in `TreeEnsemble`.
    const ALL: [(&str, PostTransform); 5] = [
        ("NONE", PostTransform::None),
        ("SOFTMAX", PostTransform::Softmax),
        ("LOGISTIC", PostTransform::Logistic),
        ("SOFTMAX_ZERO", PostTransform::SoftmaxZero),
        ("PROBIT", PostTransform::Probit),
    ];

    /// Reads the attribute `post_transform`.
    pub fn read(node: &mut Reader<'_>) -> Result<PostTransform> {
        node.choice("post_transform", &PostTransform::ALL)
    }

    /// The transform with that code in `TreeEnsemble`.
    pub fn from_code(code: i64) -> Option<PostTransform> {
        let all = usize::try_from(code).ok().and_then(|code| PostTransform::ALL.get(code));
        all.map(|(_, transform)| *transform)
    }

    /// Adds the node that transforms the scores.
    pub fn add(self, node: &mut Reader<'_>, scores: ValueId) -> Result<ValueId> {
        match self {
            PostTransform::None => Ok(scores),
            PostTransform::Softmax => {
                node.add(Softmax { function: &SOFTMAX, axis: -1 }, &[scores], &[])
            }
            PostTransform::Logistic => node.add(Activation::sigmoid(), &[scores], &[]),
            PostTransform::SoftmaxZero => node.add(&SOFTMAX_ZERO, &[scores], &[]),
            PostTransform::Probit => node.add(&PROBIT, &[scores], &[]),
        }
    }
}

/// The labels of classes.
pub enum Labels {
    /// Integers.
    Ints(Vec<i64>),
    /// Strings.
    Strings(Vec<String>),
}

impl Labels {
    /// Reads the labels from the attribute `ints` or `strings`.
    pub fn read(node: &mut Reader<'_>, ints: &str, strings: &str) -> Result<Labels> {
        let int_labels = node.maybe_ints(ints)?.unwrap_or_default();
        let string_labels = node.maybe_strings(strings)?.unwrap_or_default();
        match (int_labels.is_empty(), string_labels.is_empty()) {
            (_, false) => Ok(Labels::Strings(string_labels)),
            (false, true) => Ok(Labels::Ints(int_labels)),
            (true, true) => {
                let message = format!("one of `{ints}` and `{strings}` must name the classes");
                Err(Diagnostic::new(Code::BadAttribute, message))
            }
        }
    }

    /// The number of classes.
    pub fn len(&self) -> usize {
        match self {
            Labels::Ints(labels) => labels.len(),
            Labels::Strings(labels) => labels.len(),
        }
    }

    /// The labels 0 and 1, of the same type.
    fn zero_and_one(&self) -> Labels {
        match self {
            Labels::Ints(_) => Labels::Ints(vec![0, 1]),
            Labels::Strings(_) => Labels::Strings(vec!["0".into(), "1".into()]),
        }
    }

    /// Adds the node that maps class numbers to labels.
    fn add(self, node: &mut Reader<'_>, classes: ValueId) -> Result<ValueId> {
        match self {
            // Labels that equal the class numbers need no table.
            Labels::Ints(labels) if labels.iter().copied().eq(0..labels.len() as i64) => {
                Ok(classes)
            }
            Labels::Ints(labels) => lookup::pick(node, classes, Tensor::from_ints(&labels)),
            Labels::Strings(labels) => lookup::pick_text(node, classes, &labels),
        }
    }
}

/// Adds the node that computes the class with the best score in each row.
pub fn best_class(node: &mut Reader<'_>, scores: ValueId) -> Result<ValueId> {
    let op = Arg { name: "ArgMax", axis: -1, keepdims: false, select_last_index: false };
    node.add(op, &[scores], &[])
}

/// Adds the node that computes class 1 if the score in `column` is above the threshold, else 0.
pub fn class_above(
    node: &mut Reader<'_>,
    scores: ValueId,
    column: usize,
    threshold: f32,
) -> Result<ValueId> {
    node.add(Above { column, threshold }, &[scores], &[])
}

/// Adds the outputs of a classifier: the labels of `classes`, and the transformed scores.
pub fn add_outputs(
    node: &mut Reader<'_>,
    classes: ValueId,
    scores: ValueId,
    transform: PostTransform,
    labels: Labels,
) -> Result<Vec<ValueId>> {
    Ok(vec![labels.add(node, classes)?, transform.add(node, scores)?])
}

/// Adds the outputs of a binary classifier that has a score for the second class only.
pub fn add_binary_outputs(
    node: &mut Reader<'_>,
    score: ValueId,
    transform: PostTransform,
    labels: Labels,
    threshold: f32,
    spread: Spread,
) -> Result<Vec<ValueId>> {
    let classes = class_above(node, score, 0, threshold)?;
    add_spread_outputs(node, classes, score, transform, labels, spread)
}

/// Adds the outputs of a binary classifier whose `classes` are known, and computes both scores from
/// that of the second class.
pub fn add_spread_outputs(
    node: &mut Reader<'_>,
    classes: ValueId,
    score: ValueId,
    transform: PostTransform,
    labels: Labels,
    spread: Spread,
) -> Result<Vec<ValueId>> {
    let both = node.add(spread, &[score], &[])?;
    // ONNX applies no softmax to two scores that were computed from one.
    let transform = match transform {
        PostTransform::Softmax | PostTransform::SoftmaxZero => PostTransform::None,
        other => other,
    };
    add_outputs(node, classes, both, transform, labels)
}

/// The relation between the scores of two classes of which one is computed from the other.
pub fn spread_for(transform: PostTransform, is_probability: bool) -> Spread {
    match transform {
        PostTransform::Logistic => Spread::Opposite,
        PostTransform::Probit => Spread::Complement,
        _ if is_probability => Spread::Complement,
        _ => Spread::Opposite,
    }
}

/// Adds the outputs of a classifier with a single class: 1 if the score is positive, else 0, and
/// the score, to which only [`PostTransform::Probit`] is applied.
pub fn add_single_class_outputs(
    node: &mut Reader<'_>,
    score: ValueId,
    transform: PostTransform,
    labels: Labels,
) -> Result<Vec<ValueId>> {
    let classes = class_above(node, score, 0, 0.0)?;
    let label = labels.zero_and_one().add(node, classes)?;
    let score = match transform {
        PostTransform::Probit => transform.add(node, score)?,
        _ => score,
    };
    Ok(vec![label, score])
}

/// Class 1 if the score in a column is above a threshold, else class 0.
struct Above {
    column: usize,
    threshold: f32,
}

static ABOVE: Kernel<(Dim, usize, f32)> =
    kernel!(F32_AND_F64 T, ml::above::<T>, |f, a, p| f(a.input(0), a.output(0), p.0, p.1, p.2));

impl Op for Above {
    fn name(&self) -> &'static str {
        "Above"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("column", i64::try_from(self.column).unwrap_or(i64::MAX));
        a.float("threshold", self.threshold);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.ranked(0, 2)?;
        Ok(vec![Type::tensor(DType::I64, [ty.shape[0].clone()])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let columns = cx.ty(0)?.shape[1].clone();
        cx.call_for_input(&ABOVE, (columns, self.column, self.threshold))
    }
}

/// Computes the scores of two classes from that of the second, `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// `1 - x` and `x`
    Complement,
    /// `-x` and `x`
    Opposite,
}

static COMPLEMENT: Kernel = kernel!(F32_AND_F64 T, ml::complement::<T>,
    |f, a, _p| f(a.input(0), a.output(0)));
static OPPOSITE: Kernel = kernel!(F32_AND_F64 T, ml::opposite::<T>,
    |f, a, _p| f(a.input(0), a.output(0)));

impl Op for Spread {
    fn name(&self) -> &'static str {
        match self {
            Spread::Complement => "Complement",
            Spread::Opposite => "Opposite",
        }
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.ranked(0, 2)?;
        Ok(vec![Type::tensor(ty.dtype, [ty.shape[0].clone(), 2.into()])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let kernel = match self {
            Spread::Complement => &COMPLEMENT,
            Spread::Opposite => &OPPOSITE,
        };
        cx.call(kernel, NoParams)
    }
}

/// A transform of scores for which ONNX has no operator.
struct Transform {
    name: &'static str,
    kernel: Kernel<Axis>,
}

static SOFTMAX_ZERO: Transform = Transform {
    name: "SoftmaxZero",
    kernel: kernel!(F32_AND_F64 T, ml::softmax_zero::<T>, |f, a, p| f(a.input(0), a.output(0), p),
        in_place softmax_zero_in_place::<T> |f, a, p| f(a.output(0), p)),
};
static PROBIT: Transform = Transform {
    name: "Probit",
    kernel: kernel!(F32_AND_F64 T, ml::probit::<T>, |f, a, p| f(a.input(0), a.output(0), p),
        in_place probit_in_place::<T> |f, a, p| f(a.output(0), p)),
};

impl Op for &'static Transform {
    fn name(&self) -> &'static str {
        self.name
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        Ok(vec![cx.ranked(0, 2)?.clone().into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = Axis::of(&cx.ty(0)?.shape, 1);
        cx.call(&self.kernel, geometry)
    }
}
