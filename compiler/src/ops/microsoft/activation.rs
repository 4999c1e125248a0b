//! Activations with a bias, and variants of `Gelu`.

use super::super::{Entry, microsoft_function};
use crate::{diag::Result, ir::Reader};

pub const OPS: &[Entry] = &[
    microsoft_function("BiasAdd", |_| {
        Ok("(x, bias, skip) => (y) { sum = Add (x, bias) y = Add (sum, skip) }".to_owned())
    }),
    microsoft_function("BiasDropout", bias_dropout),
    microsoft_function("BiasGelu", |_| {
        Ok("(a, b) => (c) { sum = Add (a, b) c = Gelu (sum) }".to_owned())
    }),
    microsoft_function("BiasSoftmax", bias_softmax),
    microsoft_function("BiasSplitGelu", |_| {
        let text = "(x, bias) => (y) {
            sum = Add (x, bias)
            left, right = Split <axis = -1, num_outputs = 2> (sum)
            gate = Gelu (right)
            y = Mul (left, gate)
        }";
        Ok(text.to_owned())
    }),
    microsoft_function("FastGelu", |node| {
        let sum = if node.has(1) { "Add (x, bias)" } else { "Identity (x)" };
        Ok(format!("(x, bias) => (y) {{ s = {sum} y = Gelu <approximate = \"tanh\"> (s) }}"))
    }),
    microsoft_function("Gelu", |_| Ok("(x) => (y) { y = Gelu (x) }".to_owned())),
    microsoft_function("QuickGelu", quick_gelu),
];

/// `x · sigmoid(alpha · x)`.
fn quick_gelu(node: &mut Reader<'_>) -> Result<String> {
    let alpha = node.float("alpha", 1.702)?;
    Ok(format!("(x) => (y) {{ y = Swish <alpha = {alpha:?}> (x) }}"))
}

/// `Softmax` of a sum, over all axes from `axis` on.
fn bias_softmax(node: &mut Reader<'_>) -> Result<String> {
    let axis = node.int("axis", 1)?;
    node.required_int("is_inner_broadcast")?;
    Ok(format!(
        "(x, bias) => (y) {{
            sum = Add (x, bias)
            rows = Flatten <axis = {axis}> (sum)
            shares = Softmax <axis = -1> (rows)
            sizes = Shape (sum)
            y = Reshape (shares, sizes)
        }}"
    ))
}

/// `Dropout` of a sum, to which the residual is added.
fn bias_dropout(node: &mut Reader<'_>) -> Result<String> {
    let seed = node.maybe_int("seed")?.map(|seed| format!("<seed = {seed}>")).unwrap_or_default();
    let residual = if node.has(2) { "Add (dropped, residual)" } else { "Identity (dropped)" };
    Ok(format!(
        "(x, bias, residual, ratio, training_mode) => (y, mask) {{
            sum = Add (x, bias)
            dropped, mask = Dropout {seed} (sum, ratio, training_mode)
            y = {residual}
        }}"
    ))
}
