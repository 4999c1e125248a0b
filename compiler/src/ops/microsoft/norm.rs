//! Normalizations of a sum, of embeddings and of groups of channels.

use super::super::{Entry, function, microsoft_function};
use crate::{
    diag::{Code, Diagnostic, Result},
    dtype::DType,
    ir::Reader,
};

pub const OPS: &[Entry] = &[
    function("SimplifiedLayerNormalization", 1, simplified),
    microsoft_function("EmbedLayerNormalization", embed),
    microsoft_function("GroupNorm", |node| group(node, false)),
    microsoft_function("QEmbedLayerNormalization", quantized_embed),
    microsoft_function("SkipGroupNorm", |node| group(node, true)),
    microsoft_function("SkipLayerNormalization", skip_layer),
    microsoft_function("SkipSimplifiedLayerNormalization", skip_rms),
];

/// The nodes that compute `mean`, the mean of `x`, and `inverse`, `1 / √(mean(x²) + epsilon)`, over
/// the axes from `axis` on, in single precision or wider.
fn moments(node: &Reader<'_>, x: &str, axis: i64, epsilon: f32) -> Result<String> {
    let rank = node.rank(0)? as i64;
    if !(-rank..rank).contains(&axis) {
        let message = format!("`axis` is {axis}, but there are {rank} axes");
        return Err(Diagnostic::new(Code::BadAttribute, message));
    }
    let axes: Vec<i64> = (if axis < 0 { axis + rank } else { axis }..rank).collect();
    let wide = if node.dtype(0)? == DType::F64 { DType::F64 } else { DType::F32 }.code();
    Ok(format!(
        "wide = Cast <to = {wide}> ({x})
        squares = Mul (wide, wide)
        axes = Constant <value_ints = {axes:?}> ()
        mean = ReduceMean (wide, axes)
        mean_of_squares = ReduceMean (squares, axes)
        epsilon_float = Constant <value_float = {epsilon:?}> ()
        epsilon = CastLike (epsilon_float, wide)
        variance = Add (mean_of_squares, epsilon)
        deviation = Sqrt (variance)
        inverse = Reciprocal (deviation)"
    ))
}

/// `x / √(mean(x²) + epsilon) · scale`. The second output is the factor of `x`.
fn simplified(node: &mut Reader<'_>) -> Result<String> {
    let (axis, epsilon) = (node.int("axis", -1)?, node.float("epsilon", 1e-5)?);
    let stash_type = node.int("stash_type", 1)?;
    let (inverse, outputs) = match node.outputs {
        0 | 1 => (String::new(), "y"),
        _ => (moments(node, "x", axis, epsilon)?, "y, inverse"),
    };
    Ok(format!(
        "(x, scale) => ({outputs}) {{
            y = RMSNormalization <axis = {axis}, epsilon = {epsilon:?}, stash_type = {stash_type}>
                (x, scale)
            {inverse}
        }}"
    ))
}

/// The nodes that add input 1, and input `bias` if the node has it, to input 0.
fn skip_sum(node: &Reader<'_>, bias: usize) -> &'static str {
    if node.has(bias) {
        "biased = Add (x, bias) sum = Add (biased, skip)"
    } else {
        "sum = Add (x, skip)"
    }
}

/// `LayerNormalization` of a sum.
fn skip_layer(node: &mut Reader<'_>) -> Result<String> {
    let epsilon = node.float("epsilon", 1e-12)?;
    let sum = skip_sum(node, 4);
    Ok(format!(
        "(x, skip, gamma, beta, bias) => (y, mean, inv_std_var, sum) {{
            {sum}
            y, mean, inv_std_var = LayerNormalization <epsilon = {epsilon:?}> (sum, gamma, beta)
        }}"
    ))
}

/// `RMSNormalization` of a sum.
fn skip_rms(node: &mut Reader<'_>) -> Result<String> {
    let epsilon = node.float("epsilon", 1e-12)?;
    let sum = skip_sum(node, 3);
    let moments = moments(node, "sum", -1, epsilon)?;
    Ok(format!(
        "(x, skip, gamma, bias) => (y, mean, inverse, sum) {{
            {sum}
            y = RMSNormalization <epsilon = {epsilon:?}> (sum, gamma)
            {moments}
        }}"
    ))
}

/// The nodes that count the words of each row of the mask, input 7.
fn count_words(node: &Reader<'_>) -> &'static str {
    if node.has(7) {
        "one = Constant <value_int = 1> ()
        one_of_mask = CastLike (one, mask)
        is_word = Equal (mask, one_of_mask)
        words_of_mask = Cast <to = 6> (is_word)
        mask_index = ReduceSum <keepdims = 0> (words_of_mask, last)"
    } else {
        "batch = Shape <start = 0, end = 1> (ids)
        mask_index = ConstantOfShape <value = int32[1] {0}> (batch)"
    }
}

/// [`embed`] of quantized embeddings, scale and bias.
fn quantized_embed(node: &mut Reader<'_>) -> Result<String> {
    let epsilon = node.float("epsilon", 1e-12)?;
    let has_segments = node.has(1);
    if [4, 10, 15].into_iter().any(|i| node.has(i) != has_segments) {
        let message = "`segment_ids`, and the `segment_embedding` with its scale and zero point";
        let message = format!("{message}, must be given together");
        return Err(Diagnostic::new(Code::BadArity, message));
    }
    let rows = |name: &str, ids: &str| {
        format!(
            "{name}_rows = Gather ({name}_quant, {ids}) {}",
            dequantize(name, &format!("{name}_rows"))
        )
    };
    let words = rows("word", "ids");
    let (segments, sum) = match has_segments {
        true => (rows("segment", "segment_ids"), "Add (place, segment)"),
        false => (String::new(), "Identity (place)"),
    };
    let [position, gamma, beta] = [
        dequantize("position", "position_rows"),
        dequantize("gamma", "gamma_quant"),
        dequantize("beta", "beta_quant"),
    ];
    let mask = count_words(node);
    Ok(format!(
        "(ids, segment_ids, word_quant, position_quant, segment_quant, gamma_quant, beta_quant,
            mask, word_scale, position_scale, segment_scale, gamma_scale, beta_scale, word_zero,
            position_zero, segment_zero, gamma_zero, beta_zero) => (y, mask_index)
        {{
            zero = Constant <value_ints = [0]> ()
            last = Constant <value_ints = [1]> ()
            length = Shape <start = 1, end = 2> (ids)
            position_rows = Slice (position_quant, zero, length, zero)
            {words} {position} {segments} {gamma} {beta}
            place = Add (word, position)
            sum = {sum}
            y = LayerNormalization <epsilon = {epsilon:?}> (sum, gamma, beta)
            {mask}
        }}"
    ))
}

/// The nodes that dequantize `from` to `name`, of the scale and the zero point of that name.
fn dequantize(name: &str, from: &str) -> String {
    format!(
        "{name}_scalar = Squeeze ({name}_scale) {name}_origin = Squeeze ({name}_zero)
        {name} = DequantizeLinear ({from}, {name}_scalar, {name}_origin)"
    )
}

/// `LayerNormalization` of the sum of the embeddings of words, positions and segments.
fn embed(node: &mut Reader<'_>) -> Result<String> {
    let epsilon = node.float("epsilon", 1e-12)?;
    node.int("mask_index_type", 0)?;
    if node.has(1) != node.has(4) {
        let message = "`segment_ids` and `segment_embedding` must be given together";
        return Err(Diagnostic::new(Code::BadArity, message));
    }
    let positions = if node.has(8) {
        "Gather (position_embedding, position_ids)"
    } else {
        "Slice (position_embedding, zero, length, zero)"
    };
    let segments = if node.has(1) {
        "segments = Gather (segment_embedding, segment_ids) sum = Add (place, segments)"
    } else {
        "sum = Identity (place)"
    };
    let mask = count_words(node);
    Ok(format!(
        "(ids, segment_ids, word_embedding, position_embedding, segment_embedding, gamma, beta,
            mask, position_ids) => (y, mask_index, sum)
        {{
            zero = Constant <value_ints = [0]> ()
            last = Constant <value_ints = [1]> ()
            length = Shape <start = 1, end = 2> (ids)
            words = Gather (word_embedding, ids)
            positions = {positions}
            place = Add (words, positions)
            {segments}
            y = LayerNormalization <epsilon = {epsilon:?}> (sum, gamma, beta)
            {mask}
        }}"
    ))
}

/// `GroupNormalization` of images, with channels last by default, and an activation.
fn group(node: &mut Reader<'_>, has_skip: bool) -> Result<String> {
    let epsilon = node.float("epsilon", 1e-5)?;
    let groups = node.required_int("groups")?;
    let activation = match node.required_int("activation")? {
        0 => "Identity (scaled)",
        1 => "Swish (scaled)",
        other => {
            let message = format!("`activation` is {other}, but must be 0 or 1");
            return Err(Diagnostic::new(Code::BadAttribute, message));
        }
    };
    let channels_last = node.flag("channels_last", true)?;
    let [first, last] = if channels_last {
        ["Transpose <perm = [0, 3, 1, 2]> (sum)", "Transpose <perm = [0, 2, 3, 1]> (y_first)"]
    } else {
        ["Identity (sum)", "Identity (y_first)"]
    };
    let sum =
        if has_skip { skip_of_images(node, channels_last)? } else { "sum = Identity (x)".into() };
    let (inputs, outputs) =
        if has_skip { ("x, gamma, beta, skip, bias", "y, sum") } else { ("x, gamma, beta", "y") };
    Ok(format!(
        "({inputs}) => ({outputs}) {{
            {sum}
            x_first = {first}
            scale = CastLike (gamma, x)
            shift = CastLike (beta, x)
            scaled = GroupNormalization <epsilon = {epsilon:?}, num_groups = {groups}>
                (x_first, scale, shift)
            y_first = {activation}
            y = {last}
        }}"
    ))
}

/// The nodes that add the skip connection, an image or one number per channel, and the bias.
fn skip_of_images(node: &Reader<'_>, channels_last: bool) -> Result<String> {
    let axes = if channels_last { [1, 2] } else { [2, 3] };
    let skip = match node.rank(3)? {
        2 => format!("axes = Constant <value_ints = {axes:?}> () wide = Unsqueeze (skip, axes)"),
        _ => "wide = Identity (skip)".to_owned(),
    };
    let bias = match (node.has(4), channels_last) {
        (false, _) => "sum = Identity (both)",
        (true, true) => "sum = Add (both, bias)",
        (true, false) => {
            "last = Constant <value_ints = [1, 2]> ()
            of_channels = Unsqueeze (bias, last)
            sum = Add (both, of_channels)"
        }
    };
    Ok(format!("{skip} both = Add (x, wide) {bias}"))
}
