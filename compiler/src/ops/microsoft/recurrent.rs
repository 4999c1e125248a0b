//! Recurrent networks with quantized weights.

use super::{
    super::{Entry, microsoft_function},
    Passed, in_angles, pass_attributes,
};
use crate::{diag::Result, ir::Reader};

pub const OPS: &[Entry] = &[microsoft_function("DynamicQuantizeLSTM", lstm)];

/// `LSTM` whose inputs and states are quantized at run time. The weights are transposed, and have
/// one scale for each direction, or one for each direction and row of a gate.
fn lstm(node: &mut Reader<'_>) -> Result<String> {
    let mut attributes = pass_attributes(
        node,
        &[Passed::Text("direction"), Passed::Int("hidden_size"), Passed::Int("input_forget")],
    )?;
    attributes.extend(node.maybe_float("clip")?.map(|clip| format!("clip = {clip:?}")));
    if let Some(names) = node.maybe_strings("activations")? {
        attributes.push(format!("activations = {names:?}"));
    }
    for name in ["activation_alpha", "activation_beta"] {
        let values = node.maybe_floats(name)?.filter(|values| !values.is_empty());
        attributes.extend(values.map(|values| format!("{name} = {values:?}")));
    }
    let attributes = in_angles(&attributes);
    let [w, r] = [("w", 8), ("r", 10)].map(|(name, scale)| dequantize(node, name, scale));
    Ok(format!(
        "(x_given, w, r, b, sequence_lens, initial_h, initial_c, p, w_scale, w_zero, r_scale,
            r_zero) => (y, y_h, y_c)
        {{
            q, x_scale, x_zero = DynamicQuantizeLinear (x_given)
            x = DequantizeLinear (q, x_scale, x_zero)
            {w} {r}
            y, y_h, y_c = internal.LSTMOfQuantizedStates {attributes}
                (x, w_real, r_real, b, sequence_lens, initial_h, initial_c, p)
        }}",
        w = w?,
        r = r?,
    ))
}

/// The nodes that dequantize and transpose the weights `name`, whose scale is input `scale`.
fn dequantize(node: &Reader<'_>, name: &str, scale: usize) -> Result<String> {
    let axes = if node.rank(scale)? == 1 { "[1, 2]" } else { "[1]" };
    Ok(format!(
        "{name}_axes = Constant <value_ints = {axes}> ()
        {name}_scales = Unsqueeze ({name}_scale, {name}_axes)
        {name}_zeros = Unsqueeze ({name}_zero, {name}_axes)
        {name}_wide = CastLike ({name}, {name}_scale)
        {name}_zeros_wide = CastLike ({name}_zeros, {name}_scale)
        {name}_centered = Sub ({name}_wide, {name}_zeros_wide)
        {name}_product = Mul ({name}_centered, {name}_scales)
        {name}_real = Transpose <perm = [0, 2, 1]> ({name}_product)"
    ))
}
