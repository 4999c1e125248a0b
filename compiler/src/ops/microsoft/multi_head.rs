//! Attention of queries, keys and values, each of its own or packed.

use super::{
    super::{Entry, microsoft_function},
    attention::{Attributes, UNBIASED, add_biases, count_keys, mask, refuse},
    decoder::attend_in_buffer,
};
use crate::{diag::Result, ir::Reader};

pub const OPS: &[Entry] = &[microsoft_function("MultiHeadAttention", multi_head)];

/// The nodes that take `count` tensors from the axis 3 of a packed tensor.
fn unpack(packed: &str, names: &[&str]) -> String {
    let count = names.len();
    let parts: Vec<String> = names.iter().map(|name| format!("{name}_part")).collect();
    let flat = names.iter().map(|name| {
        format!(
            "{name}_heads = Squeeze ({name}_part, packed_axis)
            {name}_flat = Reshape ({name}_heads, three_axes)"
        )
    });
    let flat: Vec<String> = flat.collect();
    format!(
        "packed_axis = Constant <value_ints = [3]> ()
        three_axes = Constant <value_ints = [0, 0, -1]> ()
        {} = Split <axis = 3, num_outputs = {count}> ({packed}) {}",
        parts.join(", "),
        flat.join(" ")
    )
}

/// The nodes that give queries, keys and values as rows: `q_flat`, `k_flat` and `v_flat`.
fn unpack_rows(node: &Reader<'_>) -> Result<String> {
    Ok(match (node.rank(0)?, node.has(1)) {
        (5, false) => unpack("query", &["q", "k", "v"]),
        (3, true) => match node.rank(1)? {
            5 => format!("q_flat = Identity (query) {}", unpack("key", &["k", "v"])),
            4 => "three_axes = Constant <value_ints = [0, 0, -1]> ()
                q_flat = Identity (query)
                k_rows = Transpose <perm = [0, 2, 1, 3]> (key)
                v_rows = Transpose <perm = [0, 2, 1, 3]> (value)
                k_flat = Reshape (k_rows, three_axes) v_flat = Reshape (v_rows, three_axes)"
                .to_owned(),
            _ => "q_flat = Identity (query) k_flat = Identity (key) v_flat = Identity (value)"
                .to_owned(),
        },
        _ => {
            return refuse(
                "a query of this number of axes",
                "give queries, keys and values of three axes, or a packed query of five",
            );
        }
    })
}

/// The inputs of the mask, the bias of the scores, and the beams.
const OF_MULTI_HEAD: [usize; 3] = [4, 5, 9];

fn multi_head(node: &mut Reader<'_>) -> Result<String> {
    let attributes = Attributes::read(node)?;
    let rows = unpack_rows(node)?;
    let biased = if node.has(3) { add_biases(node)? } else { UNBIASED.to_owned() };
    let [i, bias, beams] = OF_MULTI_HEAD;
    let [has_past, has_length, has_beams] = [6, 8, beams].map(|i| node.has(i));
    if has_length && !has_past || has_beams && !has_length {
        return refuse(
            "`past_sequence_length` or `cache_indirection` without a cache",
            "give `past_key` and `past_value`, or remove these inputs",
        );
    }
    let queries = node.ty(0).and_then(|ty| ty.as_tensor()?.shape.get(1)?.known());
    if has_beams && queries.is_none() {
        return refuse(
            "`cache_indirection` with an unknown number of queries",
            "fix the number of queries with `--dim`",
        );
    }
    let outputs = attributes.outputs("present");
    // The beams are those of one query; ONNX Runtime ignores them with more.
    let (caches, outputs, attention) = if has_beams && queries == Some(1) {
        ("past_k, past_v", outputs, attend_in_buffer(node, &attributes, OF_MULTI_HEAD)?)
    } else {
        let total = count_keys(has_past.then_some("past_k"));
        let (nodes, mask) = mask(node, (i, bias), attributes.masked, &total)?;
        let attention = format!("{nodes} {}", attributes.attention(mask, has_past));
        match has_length {
            true => (
                "buffer_k, buffer_v",
                attributes.outputs("filled"),
                in_buffer(attributes.heads, &attention),
            ),
            false => ("past_k, past_v", outputs, attention),
        }
    };
    Ok(format!(
        "(query, key, value, bias, given, bias_of_scores, {caches}, past_length, indirection)
            => ({outputs})
        {{ {rows} {biased} {attention} }}"
    ))
}

/// Writes an attention whose caches are buffers with more positions than are used, of which the new
/// keys and values take those from `past_length` on.
fn in_buffer(heads: i64, attention: &str) -> String {
    let fill = |name: &str| {
        format!(
            "{name}_of_heads = Reshape ({name}, buffer_shape)
            new_{name} = Transpose <perm = [0, 2, 1, 3]> ({name}_of_heads)
            filled_{name} = TensorScatter (buffer_{name}, new_{name}, places_of_rows)"
        )
    };
    format!(
        "one_axis = Constant <value_ints = [-1]> ()
        place_given = Reshape (past_length, one_axis) place = Cast <to = 7> (place_given)
        buffer_start = Constant <value_ints = [0]> () buffer_axis = Constant <value_ints = [2]> ()
        past_k = Slice (buffer_k, buffer_start, place, buffer_axis)
        past_v = Slice (buffer_v, buffer_start, place, buffer_axis)
        {attention}
        buffer_shape = Constant <value_ints = [0, 0, {heads}, -1]> ()
        rows_of_buffer = Shape <start = 0, end = 1> (buffer_k)
        places_of_rows = Expand (place, rows_of_buffer)
        {k} {v}",
        k = fill("k"),
        v = fill("v"),
    )
}
