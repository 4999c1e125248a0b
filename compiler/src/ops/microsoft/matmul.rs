//! Products of transposed matrices, with a factor and an activation, and products of 16-bit
//! integers.

use super::{
    super::{Entry, microsoft_function},
    Passed, apply_activation, in_angles, pass_attributes,
};
use crate::{diag::Result, dtype::DType, ir::Reader};

pub const OPS: &[Entry] = &[
    microsoft_function("FusedGemm", fused_gemm),
    microsoft_function("FusedMatMul", fused),
    microsoft_function("FusedMatMulActivation", fused_activation),
    microsoft_function("MatMulInteger16", |node| {
        // The schema leaves the type of the result open.
        let is_unsigned = [node.dtype(0)?, node.dtype(1)?] == [DType::U16; 2];
        let to = if is_unsigned { DType::U32 } else { DType::I32 }.code();
        Ok(format!(
            "(a, b) => (y) {{
                wide_a = Cast <to = {to}> (a)
                wide_b = Cast <to = {to}> (b)
                y = MatMul (wide_a, wide_b)
            }}"
        ))
    }),
    microsoft_function("TransposeMatMul", fused),
];

/// The order of the axes of a factor. `batch` moves the first axis to the rows and the others to
/// the batch; `matrix` exchanges the last two axes. A vector is never transposed.
fn order(rank: usize, batch: bool, matrix: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank).collect();
    if rank < 2 {
        return order;
    }
    if batch {
        order[..rank - 1].rotate_left(1);
    }
    if matrix {
        order.swap(rank - 2, rank - 1);
    }
    order
}

/// Writes the node that transposes input `i`, called `from`, to `to`.
fn transpose(
    node: &Reader<'_>,
    i: usize,
    [from, to]: [&str; 2],
    [batch, matrix]: [bool; 2],
) -> Result<String> {
    if !batch && !matrix {
        return Ok(format!("{to} = Identity ({from})"));
    }
    let order = order(node.rank(i)?, batch, matrix);
    Ok(format!("{to} = Transpose <perm = {order:?}> ({from})"))
}

/// `alpha · A · B`, with transposed factors.
fn fused(node: &mut Reader<'_>) -> Result<String> {
    Ok(format!("(a, b) => (s) {{ {} }}", product(node)?))
}

/// `FusedMatMul` and an activation.
fn fused_activation(node: &mut Reader<'_>) -> Result<String> {
    let product = product(node)?;
    let name = node.string("activation", "")?;
    let parameters = read_parameters(node)?;
    let axis = node.int("activation_axis", -1)?;
    let activation = match name.as_str() {
        "Softmax" | "LogSoftmax" | "Hardmax" => format!("y = {name} <axis = {axis}> (s)"),
        _ => apply_activation(&name, parameters)?,
    };
    Ok(format!("(a, b) => (y) {{ {product} {activation} }}"))
}

/// Reads the parameters of an activation: alpha, beta and gamma.
fn read_parameters(node: &mut Reader<'_>) -> Result<[Option<f32>; 3]> {
    Ok([
        node.maybe_float("activation_alpha")?,
        node.maybe_float("activation_beta")?,
        node.maybe_float("activation_gamma")?,
    ])
}

/// Writes the nodes that compute `s`, the scaled product of transposed factors.
fn product(node: &mut Reader<'_>) -> Result<String> {
    let a = [node.flag("transBatchA", false)?, node.flag("transA", false)?];
    let b = [node.flag("transBatchB", false)?, node.flag("transB", false)?];
    let alpha = node.float("alpha", 1.0)?;
    let scales_left = alpha != 1.0 && is_left_smaller(node, a, b);
    let left = transpose(node, 0, [if scales_left { "scaled" } else { "a" }, "left"], a)?;
    let right = transpose(node, 1, ["b", "right"], b)?;
    if alpha == 1.0 {
        return Ok(format!("{left} {right} s = MatMul (left, right)"));
    }
    let factor = format!(
        "alpha = Constant <value_float = {alpha:?}> ()
        factor = CastLike (alpha, a)"
    );
    Ok(if scales_left {
        format!("{factor} scaled = Mul (a, factor) {left} {right} s = MatMul (left, right)")
    } else {
        format!("{left} {right} {factor} product = MatMul (left, right) s = Mul (product, factor)")
    })
}

/// Returns whether the left factor has fewer columns than the product, so that it is cheaper to
/// scale, and the product can absorb what is added to it.
fn is_left_smaller(node: &Reader<'_>, a: [bool; 2], b: [bool; 2]) -> bool {
    let columns = |i: usize, [batch, matrix]: [bool; 2]| {
        let shape = &node.ty(i)?.as_tensor()?.shape;
        let order = order(shape.len(), batch, matrix);
        shape.get(*order.last()?)?.known()
    };
    columns(0, a).zip(columns(1, b)).is_some_and(|(left, product)| left < product)
}

/// `Gemm` and an activation.
fn fused_gemm(node: &mut Reader<'_>) -> Result<String> {
    let (alpha, beta) = (node.float("alpha", 1.0)?, node.float("beta", 1.0)?);
    let mut attributes = pass_attributes(node, &[Passed::Int("transA"), Passed::Int("transB")])?;
    attributes.extend([format!("alpha = {alpha:?}"), format!("beta = {beta:?}")]);
    let activation = node.string("activation", "")?;
    let activation = apply_activation(&activation, read_parameters(node)?)?;
    let attributes = in_angles(&attributes);
    Ok(format!("(a, b, c) => (y) {{ s = Gemm {attributes} (a, b, c) {activation} }}"))
}
