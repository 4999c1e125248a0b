//! Convolutions and attention with a state that the next run continues.

use super::{
    super::{Entry, microsoft_function},
    Passed, in_angles, pass_attributes,
};
use crate::{
    diag::{Code, Diagnostic, Result},
    ir::Reader,
};

pub const OPS: &[Entry] = &[
    microsoft_function("CausalConvWithState", causal_conv),
    microsoft_function("LinearAttention", linear_attention),
];

/// Returns an error unless the states have no axis for several positions.
fn refuse_window(node: &mut Reader<'_>) -> Result {
    match node.int("state_window", 0)? {
        0 => Ok(()),
        window => {
            let message = format!("the states of {window} positions are not supported");
            Err(Diagnostic::new(Code::Unsupported, message)
                .help("export the model with `state_window` 0: the state after the last position"))
        }
    }
}

/// ONNX's `CausalConvWithState`. A dilated filter has zeros between its elements; channels come
/// first.
fn causal_conv(node: &mut Reader<'_>) -> Result<String> {
    refuse_window(node)?;
    let axes = node.int("ndim", 1)?;
    if axes != 1 {
        let message = format!("signals of {axes} axes are not supported");
        return Err(Diagnostic::new(Code::Unsupported, message)
            .help("use `Concat` and `Conv`, or signals of one axis"));
    }
    let dilation = node.int("dilation", 1)?;
    if dilation < 1 {
        let message = format!("`dilation` is {dilation}, but must be at least 1");
        return Err(Diagnostic::new(Code::BadAttribute, message));
    }
    let channels_last = node.flag("channels_last", false)?;
    let attributes = in_angles(&pass_attributes(node, &[Passed::Text("activation")])?);
    let filter = dilate(dilation);
    let past = node.has(3);
    let [from, to] = match channels_last {
        false => ["x = Identity (x_given)", "y = Identity (y_first) present = Identity (state)"],
        true => [
            "flat = Constant <value_ints = [0, 0, -1]> ()
            x_flat = Reshape (x_given, flat)
            x = Transpose <perm = [0, 2, 1]> (x_flat)",
            "y_flat = Transpose <perm = [0, 2, 1]> (y_first)
            x_sizes = Shape (x_given)
            y = Reshape (y_flat, x_sizes)
            state_flat = Transpose <perm = [0, 2, 1]> (state)
            state_sizes = Shape <end = 2> (state_flat)
            channel_sizes = Shape <start = 2> (x_given)
            present_sizes = Concat <axis = 0> (state_sizes, channel_sizes)
            present = Reshape (state_flat, present_sizes)",
        ],
    };
    let (past, arguments) = match (past, channels_last) {
        (false, _) => ("", "x, w, bias"),
        (true, false) => ("past = Identity (past_given)", "x, w, bias, past"),
        (true, true) => (
            "past_flat = Reshape (past_given, flat)
            past = Transpose <perm = [0, 2, 1]> (past_flat)",
            "x, w, bias, past",
        ),
    };
    Ok(format!(
        "(x_given, weight, bias, past_given) => (y, present) {{
            {filter} {from} {past}
            y_first, state = CausalConvWithState {attributes} ({arguments})
            {to}
        }}"
    ))
}

/// The nodes that put zeros between the elements of a filter, `weight`, which gives `w`.
fn dilate(dilation: i64) -> String {
    if dilation == 1 {
        return "w = Identity (weight)".to_owned();
    }
    format!(
        "column_axis = Constant <value_ints = [3]> ()
        columns = Unsqueeze (weight, column_axis)
        zeros = Constant <value_ints = [0, {zeros}]> ()
        spread = Pad (columns, zeros, \"\", column_axis)
        row_shape = Constant <value_ints = [0, 0, -1]> ()
        rows = Reshape (spread, row_shape)
        from_first = Constant <value_ints = [0]> () to_last = Constant <value_ints = [{end}]> ()
        row_axis = Constant <value_ints = [2]> ()
        w = Slice (rows, from_first, to_last, row_axis)",
        zeros = dilation - 1,
        end = if dilation > 1 { 1 - dilation } else { i64::MAX },
    )
}

/// ONNX's `LinearAttention`. If there are more keys than queries, several share a query.
fn linear_attention(node: &mut Reader<'_>) -> Result<String> {
    refuse_window(node)?;
    node.ignore("chunk_size");
    let (queries, keys) = (node.required_int("q_num_heads")?, node.required_int("kv_num_heads")?);
    let mut attributes = pass_attributes(node, &[Passed::Text("update_rule")])?;
    attributes.push(format!("scale = {:?}", node.float("scale", 0.0)?));
    let repeats = if queries > 0 && keys > queries { keys / queries } else { 1 };
    let heads = queries * repeats;
    attributes.extend([format!("q_num_heads = {heads}"), format!("kv_num_heads = {keys}")]);
    let attributes = in_angles(&attributes);
    let query = match repeats {
        1 => "query = Identity (q)".to_owned(),
        _ => format!(
            "head_shape = Constant <value_ints = [0, 0, {queries}, 1, -1]> ()
            of_heads = Reshape (q, head_shape)
            repeats = Constant <value_ints = [1, 1, 1, {repeats}, 1]> ()
            repeated = Tile (of_heads, repeats)
            flat = Constant <value_ints = [0, 0, -1]> ()
            query = Reshape (repeated, flat)"
        ),
    };
    let last = [3, 4, 5].into_iter().filter(|&i| node.has(i)).max().map_or(0, |i| i - 2);
    let optional: String = [("past", 3), ("decay", 4), ("beta", 5)][..last]
        .iter()
        .map(|&(name, i)| if node.has(i) { format!(", {name}") } else { ", \"\"".to_owned() })
        .collect();
    Ok(format!(
        "(q, k, v, past, decay, beta) => (y, present) {{
            {query}
            y, present = LinearAttention {attributes} (query, k, v{optional})
        }}"
    ))
}
