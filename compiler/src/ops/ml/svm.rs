//! Support vector machines: `SVMClassifier` and `SVMRegressor`.

use super::{
    classifier::{self, Labels, PostTransform},
    linear,
};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::{DType, F32_ONLY},
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op, Reader, ValueId},
    limits::{Budget, Limit},
    ops::{Entry, binary::Pow, matmul::Gemm, ml_nodes, unary::TANH},
    plan::{Kernel, NoParams, kernel},
    tensor::Tensor,
    ty::Type,
};
use onnxc_runtime::kernels::epilogue::Activation;

pub const OPS: &[Entry] =
    &[ml_nodes("SVMClassifier", 1, svm_classifier), ml_nodes("SVMRegressor", 1, svm_regressor)];

/// The kernel function of a support vector machine.
struct KernelFunction {
    kind: KernelType,
    gamma: f32,
    coef0: f32,
    degree: f32,
}

/// The attribute `kernel_type`: a function of two vectors `a` and `b`.
#[derive(Clone, Copy, PartialEq)]
enum KernelType {
    /// `a · b`
    Linear,
    /// `(gamma · a · b + coef0)^degree`
    Poly,
    /// `e^(-gamma · |a - b|²)`
    Rbf,
    /// `tanh(gamma · a · b + coef0)`
    Sigmoid,
}

impl KernelFunction {
    fn read(node: &mut Reader<'_>) -> Result<KernelFunction> {
        let kinds = [
            ("LINEAR", KernelType::Linear),
            ("POLY", KernelType::Poly),
            ("RBF", KernelType::Rbf),
            ("SIGMOID", KernelType::Sigmoid),
        ];
        let kind = node.choice("kernel_type", &kinds)?;
        let parameters = node.maybe_floats("kernel_params")?.unwrap_or_default();
        let [gamma, coef0, degree] = match parameters.as_slice() {
            [] => [0.0; 3],
            &[gamma, coef0, degree] => [gamma, coef0, degree],
            other => {
                let message = format!("`kernel_params` has {} numbers instead of 3", other.len());
                return Err(bad_attribute(message));
            }
        };
        Ok(KernelFunction { kind, gamma, coef0, degree })
    }

    /// Adds the kernel function of each row of `x` and each support vector.
    fn add(&self, node: &mut Reader<'_>, x: ValueId, support: Tensor) -> Result<ValueId> {
        let add_gemm = |node: &mut Reader<'_>, alpha, coef0: f32| {
            let gemm = Gemm {
                alpha,
                beta: 1.0,
                trans_a: false,
                trans_b: true,
                activation: Activation::Identity,
            };
            node.add(gemm, &[x], &[support.clone(), Tensor::from_floats(&[coef0])])
        };
        match self.kind {
            KernelType::Linear => add_gemm(node, 1.0, 0.0),
            KernelType::Rbf => node.add(Rbf { gamma: self.gamma }, &[x], &[support]),
            KernelType::Poly => {
                let base = add_gemm(node, self.gamma, self.coef0)?;
                node.add(Pow, &[base], &[Tensor::from_floats(&[self.degree])])
            }
            KernelType::Sigmoid => {
                let sum = add_gemm(node, self.gamma, self.coef0)?;
                node.add(&TANH, &[sum], &[])
            }
        }
    }
}

/// The attributes that the classifier and the regressor share.
struct Machine {
    kernel: KernelFunction,
    coefficients: Vec<f32>,
    vectors: Vec<f32>,
    rho: Vec<f32>,
}

impl Machine {
    fn read(node: &mut Reader<'_>) -> Result<Machine> {
        let kernel = KernelFunction::read(node)?;
        let mut floats =
            |name: &str| Ok::<_, Diagnostic>(node.maybe_floats(name)?.unwrap_or_default());
        let (coefficients, vectors) = (floats("coefficients")?, floats("support_vectors")?);
        let rho = floats("rho")?;
        if coefficients.is_empty() || rho.is_empty() {
            return Err(bad_attribute("`coefficients` and `rho` must not be empty".into()));
        }
        Ok(Machine { kernel, coefficients, vectors, rho })
    }

    /// The support vectors as a matrix of `rows` rows.
    fn support(&self, rows: usize) -> Result<Tensor> {
        if rows == 0 || self.vectors.is_empty() || !self.vectors.len().is_multiple_of(rows) {
            let len = self.vectors.len();
            return Err(bad_attribute(format!("{len} numbers do not make {rows} support vectors")));
        }
        Ok(linear::constant_matrix(&self.vectors, rows))
    }
}

fn svm_regressor(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let machine = Machine::read(node)?;
    // The transform only applies to the scores of classes.
    node.ignore("post_transform");
    let one_class = node.flag("one_class", false)?;
    let vectors = usize::try_from(node.int("n_supports", 0)?).unwrap_or(0);
    let mut x = linear::input_matrix(node)?;
    if vectors > 0 {
        x = machine.kernel.add(node, x, machine.support(vectors)?)?;
    }
    let y = linear::add_linear(node, x, &machine.coefficients, 1, &machine.rho[..1])?;
    Ok(vec![if one_class { node.add(OneClass, &[y], &[])? } else { y }])
}

fn svm_classifier(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let machine = Machine::read(node)?;
    let transform = PostTransform::read(node)?;
    let labels = Labels::read(node, "classlabels_ints", "classlabels_strings")?;
    let probabilities = ["prob_a", "prob_b"].map(|name| node.maybe_floats(name));
    let vectors = node.maybe_ints("vectors_per_class")?.unwrap_or_default();
    if vectors.iter().all(|&count| count == 0) {
        return linear_classifier(node, machine, transform, labels);
    }
    let classes = labels.len();
    let pairs = classes * classes.saturating_sub(1) / 2;
    let weights = pair_weights(&machine, &vectors, classes, node.budget())?;
    let x = linear::input_matrix(node)?;
    let count = weights.len() / pairs.max(1);
    let similarities = machine.kernel.add(node, x, machine.support(count)?)?;
    let scores = linear::add_linear(node, similarities, &weights, pairs, &machine.rho[..pairs])?;
    let best = node.add(Votes { classes }, &[scores], &[])?;
    let [a, b] = probabilities;
    match (a?.unwrap_or_default(), b?.unwrap_or_default()) {
        (a, b) if a.len() >= pairs && b.len() >= pairs => {
            let [a, b] = [&a[..pairs], &b[..pairs]].map(Tensor::from_floats);
            let shares = node.add(Probabilities { classes }, &[scores], &[a, b])?;
            classifier::add_outputs(node, best, shares, transform, labels)
        }
        (a, b) if !a.is_empty() || !b.is_empty() => {
            Err(bad_attribute(format!("`prob_a` and `prob_b` must have {pairs} numbers each")))
        }
        _ if classes == 2 => {
            let spread = classifier::spread_for(transform, transform != PostTransform::None);
            classifier::add_spread_outputs(node, best, scores, transform, labels, spread)
        }
        _ => classifier::add_outputs(node, best, scores, transform, labels),
    }
}

/// Adds a classifier without support vectors: a linear function for each class.
fn linear_classifier(
    node: &mut Reader<'_>,
    machine: Machine,
    transform: PostTransform,
    labels: Labels,
) -> Result<Vec<ValueId>> {
    let x = linear::input_matrix(node)?;
    let scores =
        linear::add_linear(node, x, &machine.coefficients, labels.len(), &machine.rho[..1])?;
    let positive = machine.coefficients.iter().all(|&coefficient| coefficient >= 0.0);
    let best = match labels.len() {
        // With only positive coefficients, a score of one half selects the second class.
        2 if positive => node.add(Choose { threshold: 0.5f32.next_down() }, &[scores], &[])?,
        2 => node.add(Choose { threshold: 0.0 }, &[scores], &[])?,
        _ => classifier::best_class(node, scores)?,
    };
    // ONNX applies only one transform to a single score.
    let transform = match transform {
        PostTransform::Probit => transform,
        _ if labels.len() == 1 => PostTransform::None,
        other => other,
    };
    classifier::add_outputs(node, best, scores, transform, labels)
}

/// The weights of the support vectors for each pair of classes (one versus one), a row per pair.
///
/// In the file, `coefficients` is a matrix of `classes - 1` rows and a column per support vector:
/// the weights of a vector in the pairs of its class with each other class.
fn pair_weights(
    machine: &Machine,
    vectors: &[i64],
    classes: usize,
    budget: &Budget,
) -> Result<Vec<f32>> {
    let counts: Option<Vec<usize>> = vectors.iter().map(|&n| usize::try_from(n).ok()).collect();
    let counts = counts.filter(|counts| counts.len() == classes && classes > 1);
    let counts = counts.ok_or_else(|| {
        bad_attribute(format!(
            "`vectors_per_class` must have a count for each of {classes} classes"
        ))
    })?;
    let total = counts.iter().fold(0, |total: usize, &count| total.saturating_add(count));
    let pairs = classes * (classes - 1) / 2;
    if machine.coefficients.len() < total.saturating_mul(classes - 1) || machine.rho.len() < pairs {
        let message = format!("`coefficients` and `rho` are too few for {classes} classes");
        return Err(bad_attribute(message));
    }
    budget.spend(
        Limit::ListElements,
        pairs.saturating_mul(total),
        "weights of pairs of classes",
    )?;
    let starts: Vec<usize> = (0..classes).map(|class| counts[..class].iter().sum()).collect();
    let range = |class: usize| starts[class]..starts[class] + counts[class];
    let mut weights = Vec::new();
    for a in 0..classes {
        for b in a + 1..classes {
            let mut row = vec![0.0; total];
            for (class, opponent) in [(a, b - 1), (b, a)] {
                let coefficients = &machine.coefficients[opponent * total..][..total];
                row[range(class)].copy_from_slice(&coefficients[range(class)]);
            }
            weights.extend(row);
        }
    }
    Ok(weights)
}

/// The radial basis function `e^(-gamma · |x - s|²)` of each row `x` and each support vector `s`.
struct Rbf {
    gamma: f32,
}

static RBF: Kernel<(Dim, f32)> = kernel!(F32_ONLY T, ml::svm_rbf::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p.0, p.1));

impl Op for Rbf {
    fn name(&self) -> &'static str {
        "Rbf"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.float("gamma", self.gamma);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.of(0, F32_ONLY)?;
        let (x, support) = (&cx.ranked(0, 2)?.shape, &cx.ranked(1, 2)?.shape);
        cx.require_equal(
            &x[1],
            &support[1],
            "the numbers of features of rows and of support vectors",
        )?;
        Ok(vec![Type::tensor(DType::F32, [x[0].clone(), support[0].clone()])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let features = cx.ty(0)?.shape[1].clone();
        cx.call(&RBF, (features, self.gamma))
    }
}

/// The class that wins the most pairs.
struct Votes {
    classes: usize,
}

static VOTES: Kernel<(usize,)> =
    kernel!(F32_ONLY T, ml::svm_votes::<T>, |f, a, p| f(a.input(0), a.output(0), p.0));

impl Op for Votes {
    fn name(&self) -> &'static str {
        "Votes"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("classes", i64::try_from(self.classes).unwrap_or(i64::MAX));
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        infer_class_per_row(cx)
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call_for_input(&VOTES, (self.classes,))
    }
}

/// Infers one class per row of scores.
fn infer_class_per_row(cx: &Infer<'_>) -> Inferred {
    let rows = cx.ranked(0, 2)?.shape[0].clone();
    Ok(vec![Type::tensor(DType::I64, [rows])])
}

/// Selects one of two classes: the second if a score is above the threshold, else the one with the
/// larger score.
struct Choose {
    threshold: f32,
}

static CHOOSE: Kernel<(f32,)> =
    kernel!(F32_ONLY T, ml::svm_choose::<T>, |f, a, p| f(a.input(0), a.output(0), p.0));

impl Op for Choose {
    fn name(&self) -> &'static str {
        "Choose"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.float("threshold", self.threshold);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        infer_class_per_row(cx)
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call_for_input(&CHOOSE, (self.threshold,))
    }
}

/// The probability of each class, computed from the scores of its pairs: Platt scaling, then the
/// second method of Wu, Lin and Weng (2004), "Probability estimates for multi-class classification
/// by pairwise coupling".
struct Probabilities {
    classes: usize,
}

static PROBABILITIES: Kernel<(usize,)> = kernel!(F32_ONLY T, ml::svm_probabilities::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.output(0), a.output(1), p.0));

impl Op for Probabilities {
    fn name(&self) -> &'static str {
        "Probabilities"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("classes", i64::try_from(self.classes).unwrap_or(i64::MAX));
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let rows = cx.ranked(0, 2)?.shape[0].clone();
        Ok(vec![Type::tensor(DType::F32, [rows, self.classes.into()])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let inputs = (0..3).map(|i| Ok(cx.input(i)?.into())).collect::<Result<_>>()?;
        let scratch = cx.scratch(DType::F32, (2 * self.classes + 1) * self.classes);
        let outputs = vec![cx.output(0)?.into(), scratch.into()];
        cx.call_on(&PROBABILITIES, DType::F32, inputs, outputs, (self.classes,))
    }
}

/// 1 if a score is positive, else -1.
struct OneClass;

static ONE_CLASS: Kernel = kernel!(F32_ONLY T, ml::svm_one_class::<T>,
    |f, a, _p| f(a.input(0), a.output(0)),
    in_place svm_one_class_in_place::<T> |f, a, _p| f(a.output(0)));

impl Op for OneClass {
    fn name(&self) -> &'static str {
        "OneClass"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        Ok(vec![cx.ty(0)?.clone().into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call(&ONE_CLASS, NoParams)
    }
}

fn bad_attribute(message: String) -> Diagnostic {
    Diagnostic::new(Code::BadAttribute, message)
}
