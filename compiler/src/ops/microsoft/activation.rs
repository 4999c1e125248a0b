//! Activations with a bias, and variants of `Gelu`.

use super::{
    super::{Entry, microsoft_function},
    Passed, in_angles, pass_attributes,
};
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
    microsoft_function("BitmaskBiasDropout", bitmask_bias_dropout),
    microsoft_function("BitmaskDropout", bitmask_dropout),
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

/// Reads the attributes of `Dropout`.
fn read_seed(node: &mut Reader<'_>) -> Result<String> {
    Ok(in_angles(&pass_attributes(node, &[Passed::Int("seed")])?))
}

/// The nodes that pack the elements of `mask` to the bits of `uint32`, the lowest bit first. The
/// bits after the last element are ones.
const PACK_MASK: &str = "
    minus_one = Constant <value_int = -1> () word = Constant <value_int = 32> ()
    count = Size (mask) negative = Mul (count, minus_one) missing = Mod (negative, word)
    first = Constant <value_ints = [0]> () none = Constant <value_int = 0> ()
    amount = Unsqueeze (missing, first)
    ones = ConstantOfShape <value = bool[1] {1}> (amount)
    flat_shape = Constant <value_ints = [-1]> ()
    flat = Reshape (mask, flat_shape)
    filled = Concat <axis = 0> (flat, ones)
    word_shape = Constant <value_ints = [-1, 32]> ()
    words = Reshape (filled, word_shape)
    bits = Cast <to = 12> (words)
    one = Constant <value_int = 1> ()
    places = Range (none, word, one)
    amounts = Cast <to = 12> (places)
    shifted = BitShift <direction = \"LEFT\"> (bits, amounts)
    last = Constant <value_ints = [1]> ()
    packed = ReduceSum <keepdims = 0> (shifted, last)";

/// `Dropout` whose mask has one bit for each element.
fn bitmask_dropout(node: &mut Reader<'_>) -> Result<String> {
    let seed = read_seed(node)?;
    Ok(format!(
        "(x, ratio, training_mode) => (y, packed) {{
            y, mask = Dropout {seed} (x, ratio, training_mode) {PACK_MASK}
        }}"
    ))
}

/// [`bias_dropout`] whose mask has one bit for each element.
fn bitmask_bias_dropout(node: &mut Reader<'_>) -> Result<String> {
    let nodes = drop_sum(node)?;
    Ok(format!(
        "(x, bias, residual, ratio, training_mode) => (y, packed) {{ {nodes} {PACK_MASK} }}"
    ))
}

/// `Dropout` of a sum, to which the residual is added.
fn bias_dropout(node: &mut Reader<'_>) -> Result<String> {
    let nodes = drop_sum(node)?;
    Ok(format!("(x, bias, residual, ratio, training_mode) => (y, mask) {{ {nodes} }}"))
}

fn drop_sum(node: &mut Reader<'_>) -> Result<String> {
    let seed = read_seed(node)?;
    let residual = if node.has(2) { "Add (dropped, residual)" } else { "Identity (dropped)" };
    Ok(format!(
        "sum = Add (x, bias)
        dropped, mask = Dropout {seed} (sum, ratio, training_mode)
        y = {residual}"
    ))
}
