//! Attention of one query to cached keys and values.

use super::{
    super::{Entry, microsoft_function},
    attention::{Attributes, UNBIASED, add_biases, count_keys, mask, refuse},
};
use crate::{diag::Result, ir::Reader};

pub const OPS: &[Entry] =
    &[microsoft_function("DecoderMaskedMultiHeadAttention", decoder_attention)];

/// The places of the mask, of the bias of the scores, and of the beams whose caches the positions
/// are read from, among the inputs.
const OF_DECODER: [usize; 3] = [3, 4, 9];

/// The cache of keys among the inputs.
const PAST: usize = 5;

fn decoder_attention(node: &mut Reader<'_>) -> Result<String> {
    let attributes = Attributes::read(node)?;
    let is_shared = node.flag("past_present_share_buffer", false)?;
    // The output itself tells.
    node.ignore("output_qk");
    let [i, bias, beams] = OF_DECODER;
    if node.has(beams) && !(is_shared && node.has(PAST)) {
        return refuse("`cache_indirection` without a shared buffer", "share the buffer");
    }
    let is_cross = node.has(1) && node.rank(1)? == 4;
    let unpacked = match (node.has(1), is_cross) {
        (false, _) => "q_flat, k_flat, v_flat = Split <axis = -1, num_outputs = 3> (query)",
        (true, false) => {
            "q_flat = Identity (query) k_flat = Identity (key) v_flat = Identity (value)"
        }
        (true, true) => {
            "q_flat = Identity (query)
            three_axes = Constant <value_ints = [0, 0, -1]> ()
            k_rows = Transpose <perm = [0, 2, 1, 3]> (key)
            v_rows = Transpose <perm = [0, 2, 1, 3]> (value)
            k_flat = Reshape (k_rows, three_axes) v_flat = Reshape (v_rows, three_axes)"
        }
    };
    let biased = if node.has(10) { add_biases(node)? } else { UNBIASED.to_owned() };
    let attention = match node.has(PAST) {
        true if is_shared => attend_in_buffer(node, &attributes, OF_DECODER)?,
        has_past => {
            let total = count_keys(has_past.then_some("past_k"));
            let (nodes, mask) = mask(node, (i, bias), attributes.masked, &total)?;
            format!("{nodes} {}", attributes.attention(mask, has_past))
        }
    };
    Ok(format!(
        "(query, key, value, given, bias_of_scores, past_k, past_v, past_length, beams, indirection,
            bias) => ({outputs})
        {{ {unpacked} {biased} {attention} }}",
        outputs = attributes.outputs("present"),
    ))
}

/// Writes an attention of one query whose caches are buffers with more positions than are used: the
/// new key and value go to the position `past_length`. The inputs are those of the mask, the bias
/// of the scores, and the beams.
pub(super) fn attend_in_buffer(
    node: &Reader<'_>,
    attributes: &Attributes,
    [i, bias, beams]: [usize; 3],
) -> Result<String> {
    let heads = attributes.heads;
    let update = |name: &str| {
        let used = match node.has(beams) {
            true => format!(
                "of_beams_{name} = GatherElements <axis = 0> (past_{name}, rows)
                all_{name} = Where (is_new, {name}_row, of_beams_{name})"
            ),
            false => format!("all_{name} = Identity (present_{name})"),
        };
        format!(
            "{name}_heads = Reshape ({name}, head_shape)
            {name}_row = Transpose <perm = [0, 2, 1, 3]> ({name}_heads)
            present_{name} = Where (is_new, {name}_row, past_{name})
            {used}
            {name}_used = Slice (all_{name}, from_first, to_total, positions_axis)"
        )
    };
    let total = "total = Squeeze (to_total)";
    let (nodes, mask) = mask(node, (i, bias), attributes.masked, total)?;
    let (nodes, mask) = if nodes.is_empty() { (total.to_owned(), mask) } else { (nodes, mask) };
    let attention = attributes.of_heads(mask);
    Ok(format!(
        "head_shape = Constant <value_ints = [0, 0, {heads}, -1]> ()
        flat = Constant <value_ints = [-1]> ()
        place_given = Reshape (past_length, flat)
        place = Cast <to = 7> (place_given)
        next_place = Constant <value_ints = [1]> ()
        to_total = Add (place, next_place)
        from_first = Constant <value_ints = [0]> ()
        positions_axis = Constant <value_ints = [2]> ()
        start = Constant <value_int = 0> () step = Constant <value_int = 1> ()
        size_axis = Constant <value_int = 2> ()
        buffer_sizes = Shape (past_k) buffer_size = Gather (buffer_sizes, size_axis)
        positions = Range (start, buffer_size, step)
        is_place = Equal (positions, place)
        column_axis = Constant <value_ints = [1]> ()
        is_new = Unsqueeze (is_place, column_axis)
        {rows} {k} {v}
        q_heads = Reshape (q, head_shape)
        q_row = Transpose <perm = [0, 2, 1, 3]> (q_heads)
        {nodes} {attention}
        y_rows = Transpose <perm = [0, 2, 1, 3]> (y_heads)
        row_shape = Constant <value_ints = [0, 0, -1]> ()
        y = Reshape (y_rows, row_shape)",
        rows = if node.has(beams) { ROWS_OF_BEAMS } else { "" },
        k = update("k"),
        v = update("v"),
    ))
}

/// The nodes that give `rows`: for each element of a cache, the row of the cache to read it from.
/// The beams of a sequence are consecutive rows, and `indirection` names a beam for each sequence,
/// beam and position. Those of positions that are not filled mean nothing.
const ROWS_OF_BEAMS: &str = "
    filled = Less (positions, place)
    filled_int = CastLike (filled, indirection)
    beams_used = Mul (indirection, filled_int)
    beam_sizes = Shape (indirection)
    first_axis = Constant <value_int = 0> () second_axis = Constant <value_int = 1> ()
    sequence_count = Gather (beam_sizes, first_axis)
    beam_count = Gather (beam_sizes, second_axis)
    sequences = Range (start, sequence_count, step)
    first_rows = Mul (sequences, beam_count)
    beam_axes = Constant <value_ints = [1, 2]> ()
    first_rows_of = Unsqueeze (first_rows, beam_axes)
    beams_wide = Cast <to = 7> (beams_used)
    rows_of_sequences = Add (beams_wide, first_rows_of)
    one_axis = Constant <value_ints = [1]> () any_size = Constant <value_ints = [-1]> ()
    position_count = Shape <start = 2> (indirection)
    rows_shape = Concat <axis = 0> (any_size, one_axis, position_count, one_axis)
    rows_of_positions = Reshape (rows_of_sequences, rows_shape)
    rows = Expand (rows_of_positions, buffer_sizes)";
