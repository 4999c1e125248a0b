//! Linear models: `LinearClassifier` and `LinearRegressor`, as a `Gemm` and the outputs.

use super::{
    classifier::{self, Labels, PostTransform},
    input_as,
};
use crate::{
    diag::{Code, Diagnostic, Result},
    dtype::DType,
    ir::{Reader, ValueId},
    ops::{Entry, matmul::Gemm, ml_nodes, reshape::Unsqueeze},
    tensor::Tensor,
    ty::Type,
};
use onnxc_runtime::kernels::epilogue::Activation;

pub const OPS: &[Entry] = &[
    ml_nodes("LinearClassifier", 1, linear_classifier),
    ml_nodes("LinearRegressor", 1, linear_regressor),
];

/// Reads `LinearClassifier`: a linear score per class, and the label of the largest.
fn linear_classifier(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let transform = PostTransform::read(node)?;
    let labels = Labels::read(node, "classlabels_ints", "classlabels_strings")?;
    // The training strategy does not affect inference.
    node.ignore("multi_class");
    let coefficients = coefficients(node)?;
    let intercepts = node.maybe_floats("intercepts")?.unwrap_or_default();
    let rows = if intercepts.is_empty() { labels.len() } else { intercepts.len() };
    let x = input_matrix(node)?;
    let scores = add_linear(node, x, &coefficients, rows, &intercepts)?;
    match (rows, labels.len()) {
        (1, 2) => {
            let spread = classifier::spread_for(transform, true);
            classifier::add_binary_outputs(node, scores, transform, labels, 0.0, spread)
        }
        (1, _) => classifier::add_single_class_outputs(node, scores, transform, labels),
        (rows, classes) if rows == classes => {
            let best = classifier::best_class(node, scores)?;
            classifier::add_outputs(node, best, scores, transform, labels)
        }
        (rows, classes) => {
            Err(bad_attribute(format!("there are {rows} scores for {classes} classes")))
        }
    }
}

/// Reads `LinearRegressor`: linear functions of the features.
fn linear_regressor(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let transform = PostTransform::read(node)?;
    let targets = node.int("targets", 1)?;
    let targets = usize::try_from(targets).ok().filter(|&targets| targets > 0);
    let targets = targets.ok_or_else(|| bad_attribute("`targets` must be at least 1".into()))?;
    let coefficients = coefficients(node)?;
    let intercepts = node.maybe_floats("intercepts")?.unwrap_or_default();
    let x = input_matrix(node)?;
    let scores = add_linear(node, x, &coefficients, targets, &intercepts)?;
    Ok(vec![transform.add(node, scores)?])
}

fn coefficients(node: &mut Reader<'_>) -> Result<Vec<f32>> {
    let missing = || bad_attribute("the attribute `coefficients` is missing".into());
    node.maybe_floats("coefficients")?.filter(|all| !all.is_empty()).ok_or_else(missing)
}

/// Input 0 as a matrix of `float`; a vector is a single row.
pub fn input_matrix(node: &mut Reader<'_>) -> Result<ValueId> {
    let x = input_as(node, DType::F32)?;
    match node.type_of(x) {
        Type::Tensor(ty) if ty.rank() == 1 => node.add(Unsqueeze, &[x], &[Tensor::from_ints(&[0])]),
        _ => Ok(x),
    }
}

/// Adds `x · aᵀ + b`, where `a` has `rows` rows, and `b` one number per row, one for all, or none.
pub fn add_linear(
    node: &mut Reader<'_>,
    x: ValueId,
    a: &[f32],
    rows: usize,
    b: &[f32],
) -> Result<ValueId> {
    if rows == 0 || !a.len().is_multiple_of(rows) || !(b.len() <= 1 || b.len() == rows) {
        let (a, b) = (a.len(), b.len());
        return Err(bad_attribute(format!(
            "{a} coefficients and {b} intercepts do not make {rows} linear functions"
        )));
    }
    let a = constant_matrix(a, rows);
    let gemm = Gemm {
        alpha: 1.0,
        beta: 1.0,
        trans_a: false,
        trans_b: true,
        activation: Activation::Identity,
    };
    match b {
        [] => node.add(gemm, &[x], &[a]),
        _ => node.add(gemm, &[x], &[a, Tensor::from_floats(b)]),
    }
}

/// A constant matrix from row-major values.
pub fn constant_matrix(values: &[f32], rows: usize) -> Tensor {
    let columns = values.len().checked_div(rows).unwrap_or(0);
    Tensor { shape: vec![rows, columns], ..Tensor::from_floats(values) }
}

fn bad_attribute(message: String) -> Diagnostic {
    Diagnostic::new(Code::BadAttribute, message)
}
