//! What classifiers share: from scores to labels, and from scores to probabilities.

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

/// What is made of scores at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostTransform {
    /// Nothing.
    None,
    /// `e^x / Σ e^x`
    Softmax,
    /// `1 / (1 + e^-x)`
    Logistic,
    /// Softmax of the scores that are not zero.
    SoftmaxZero,
    /// The number below which a standard normal variable stays with that probability.
    Probit,
}

impl PostTransform {
    /// All, in the order of their numbers.
    const ALL: [(&str, PostTransform); 5] = [
        ("NONE", PostTransform::None),
        ("SOFTMAX", PostTransform::Softmax),
        ("LOGISTIC", PostTransform::Logistic),
        ("SOFTMAX_ZERO", PostTransform::SoftmaxZero),
        ("PROBIT", PostTransform::Probit),
    ];

    /// What the attribute says.
    pub fn read(node: &mut Reader<'_>) -> Result<PostTransform> {
        node.choice("post_transform", &PostTransform::ALL)
    }

    /// The one of that number.
    pub fn from_code(code: i64) -> Option<PostTransform> {
        let all = usize::try_from(code).ok().and_then(|code| PostTransform::ALL.get(code));
        all.map(|(_, transform)| *transform)
    }

    /// Adds the node that transforms the scores.
    pub fn add(self, node: &mut Reader<'_>, scores: ValueId) -> Result<ValueId> {
        match self {
            PostTransform::None => Ok(scores),
            PostTransform::Softmax => {
                node.add(Softmax { form: &SOFTMAX, axis: -1 }, &[scores], &[])
            }
            PostTransform::Logistic => node.add(Activation::sigmoid(), &[scores], &[]),
            PostTransform::SoftmaxZero => node.add(&SOFTMAX_ZERO, &[scores], &[]),
            PostTransform::Probit => node.add(&PROBIT, &[scores], &[]),
        }
    }
}

/// The names of classes.
pub enum Labels {
    /// Numbers.
    Ints(Vec<i64>),
    /// Strings.
    Strings(Vec<String>),
}

impl Labels {
    /// What the attributes of these names say.
    pub fn read(node: &mut Reader<'_>, ints: &str, strings: &str) -> Result<Labels> {
        let found_ints = node.maybe_ints(ints)?.unwrap_or_default();
        let found_strings = node.maybe_strings(strings)?.unwrap_or_default();
        match (found_ints.is_empty(), found_strings.is_empty()) {
            (_, false) => Ok(Labels::Strings(found_strings)),
            (false, true) => Ok(Labels::Ints(found_ints)),
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

    /// The labels of no and yes where these two are not named.
    fn no_and_yes(&self) -> Labels {
        match self {
            Labels::Ints(_) => Labels::Ints(vec![0, 1]),
            Labels::Strings(_) => Labels::Strings(vec!["0".into(), "1".into()]),
        }
    }

    /// Adds the node that names the classes of these numbers.
    fn add(self, node: &mut Reader<'_>, classes: ValueId) -> Result<ValueId> {
        match self {
            // Classes that are named by their numbers need no table.
            Labels::Ints(labels) if labels.iter().copied().eq(0..labels.len() as i64) => {
                Ok(classes)
            }
            Labels::Ints(labels) => lookup::pick(node, classes, Tensor::from_ints(&labels)),
            Labels::Strings(labels) => lookup::pick_text(node, classes, &labels),
        }
    }
}

/// The class of the best score in each row.
pub fn best(node: &mut Reader<'_>, scores: ValueId) -> Result<ValueId> {
    let op = Arg { name: "ArgMax", axis: -1, keepdims: false, select_last_index: false };
    node.add(op, &[scores], &[])
}

/// Class 1 where the score in `column` is above the threshold, else class 0.
pub fn above(
    node: &mut Reader<'_>,
    scores: ValueId,
    column: usize,
    threshold: f32,
) -> Result<ValueId> {
    node.add(Above { column, threshold }, &[scores], &[])
}

/// The labels of classes, and their scores.
pub fn finish(
    node: &mut Reader<'_>,
    classes: ValueId,
    scores: ValueId,
    transform: PostTransform,
    labels: Labels,
) -> Result<Vec<ValueId>> {
    Ok(vec![labels.add(node, classes)?, transform.add(node, scores)?])
}

/// The labels of two classes by the score of the second, and the scores of both.
pub fn binary(
    node: &mut Reader<'_>,
    score: ValueId,
    transform: PostTransform,
    labels: Labels,
    threshold: f32,
    spread: Spread,
) -> Result<Vec<ValueId>> {
    let classes = above(node, score, 0, threshold)?;
    spread_out(node, classes, score, transform, labels, spread)
}

/// The labels of two classes, and the scores of both from that of the second.
pub fn spread_out(
    node: &mut Reader<'_>,
    classes: ValueId,
    score: ValueId,
    transform: PostTransform,
    labels: Labels,
    spread: Spread,
) -> Result<Vec<ValueId>> {
    let both = node.add(spread, &[score], &[])?;
    // What is spread over two classes is not weighed against itself once more.
    let transform = match transform {
        PostTransform::Softmax | PostTransform::SoftmaxZero => PostTransform::None,
        other => other,
    };
    finish(node, classes, both, transform, labels)
}

/// How the score of one class says that of the other.
pub fn spread(transform: PostTransform, is_probability: bool) -> Spread {
    match transform {
        PostTransform::Logistic => Spread::Opposite,
        PostTransform::Probit => Spread::Complement,
        _ if is_probability => Spread::Complement,
        _ => Spread::Opposite,
    }
}

/// The only class has no other to be told from: yes or no, and the score as it is.
pub fn lone(
    node: &mut Reader<'_>,
    score: ValueId,
    transform: PostTransform,
    labels: Labels,
) -> Result<Vec<ValueId>> {
    let classes = above(node, score, 0, 0.0)?;
    let label = labels.no_and_yes().add(node, classes)?;
    let score = match transform {
        PostTransform::Probit => transform.add(node, score)?,
        _ => score,
    };
    Ok(vec![label, score])
}

/// Class 1 where a score is above a threshold, else class 0.
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

/// The scores of two classes from that of the second.
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

/// A transform of scores that is no operator of its own in ONNX.
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
