//! `GroupQueryAttention`: attention with rotary positions over a cache of keys and values.
//!
//! The new keys and values are written to the cache by `TensorScatter`, and ONNX's `Attention`
//! attends the cache with a mask of the places that each query sees. `SparseAttention` is the same
//! with a mask of blocks.

use super::{
    super::{Entry, microsoft_function},
    attention::refuse,
    cache::Cache,
    in_angles,
};
use crate::{
    diag::{Code, Diagnostic, Result},
    ir::Reader,
};

pub const OPS: &[Entry] = &[
    microsoft_function("GroupQueryAttention", attend),
    microsoft_function("SparseAttention", attend_blocks),
];

/// The indices of inputs.
const KEY: usize = 1;
const PAST: usize = 3;
const COSINES: usize = 7;
const SPARSE_COSINES: usize = 9;
const POSITIONS: usize = 9;
const BIAS: usize = 10;
const SINK: usize = 11;
const SCALES: [usize; 2] = [12, 13];
const NORMS: [usize; 2] = [14, 15];

/// The attributes.
struct Attributes {
    heads: [i64; 2],
    is_causal: bool,
    /// The number of keys that a query sees, its own included.
    window: Option<i64>,
    rotary: bool,
    interleaved: i64,
    epsilon: f32,
    softcap: f32,
    scale: f32,
    /// Whether the softmax has one more score of 0 for each head.
    smooth: bool,
    /// The scores that an output has.
    scores: Scores,
    /// The caches of keys and values.
    caches: [Cache; 2],
    /// The cosines of the angles.
    cosines: usize,
    /// The number of places of a block, for a mask of blocks.
    block: Option<i64>,
}

/// The scores that an output has, at the places that a query sees.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scores {
    None,
    BeforeSoftmax,
    AfterSoftmax,
}

/// Optional inputs that only `GroupQueryAttention` has.
struct Optional {
    positions: bool,
    bias: bool,
    sink: bool,
    norms: [bool; 2],
}

impl Optional {
    fn of(node: &Reader<'_>, attributes: &Attributes) -> Optional {
        let has = |i: usize| attributes.block.is_none() && node.has(i);
        Optional {
            positions: has(POSITIONS),
            bias: has(BIAS),
            sink: attributes.smooth || has(SINK),
            norms: NORMS.map(has),
        }
    }
}

impl Attributes {
    fn read(node: &mut Reader<'_>) -> Result<Attributes> {
        if node.flag("sliding_window_cache", false)? {
            return refuse("`sliding_window_cache`", "export the model with a full cache");
        }
        let scores = match node.int("qk_output", 0)? {
            0 => Scores::None,
            1 => Scores::BeforeSoftmax,
            2 => Scores::AfterSoftmax,
            kind => {
                let message = format!("`qk_output` is {kind}, but must be from 0 to 2");
                return Err(Diagnostic::new(Code::BadAttribute, message));
            }
        };
        Ok(Attributes {
            heads: [node.required_int("num_heads")?, node.required_int("kv_num_heads")?],
            is_causal: node.flag("causal", true)?,
            window: Some(node.int("local_window_size", -1)?).filter(|&size| size > 0),
            rotary: node.flag("do_rotary", false)?,
            interleaved: node.int("rotary_interleaved", 0)?,
            epsilon: node.float("qk_norm_epsilon", 1e-6)?,
            softcap: node.float("softcap", 0.0)?,
            scale: node.float("scale", 0.0)?,
            smooth: node.int("smooth_softmax", -1)? == 1,
            scores,
            caches: Cache::read_both(node, SCALES)?,
            cosines: COSINES,
            block: None,
        })
    }

    /// Reads the attributes of `SparseAttention`.
    fn read_sparse(node: &mut Reader<'_>) -> Result<Attributes> {
        Ok(Attributes {
            heads: [node.required_int("num_heads")?, node.required_int("kv_num_heads")?],
            is_causal: true,
            window: None,
            rotary: node.flag("do_rotary", false)?,
            interleaved: node.int("rotary_interleaved", 0)?,
            epsilon: 0.0,
            softcap: 0.0,
            scale: node.float("scale", 0.0)?,
            smooth: false,
            scores: Scores::None,
            caches: [Cache::Float; 2],
            cosines: SPARSE_COSINES,
            block: Some(node.required_int("sparse_block_size")?),
        })
    }
}

fn attend(node: &mut Reader<'_>) -> Result<String> {
    let attributes = Attributes::read(node)?;
    let nodes = write_attention(node, &attributes);
    let scores = if attributes.scores == Scores::None { "" } else { ", scores" };
    Ok(format!(
        "(query, key, value, past_key, past_value, last, total_length, cos, sin, position_ids,
            bias, head_sink, k_scale, v_scale, q_norm, k_norm) => (y, present_k, present_v{scores})
        {{ {nodes} }}"
    ))
}

fn attend_blocks(node: &mut Reader<'_>) -> Result<String> {
    let attributes = Attributes::read_sparse(node)?;
    let nodes = write_attention(node, &attributes);
    Ok(format!(
        "(query, key, value, past_key, past_value, row_indices, column_indices, total_length,
            lengths_given, cos, sin) => (y, present_k, present_v)
        {{
            last_one = Constant <value_int = 1> () wide_lengths = Cast <to = 7> (lengths_given)
            last = Sub (wide_lengths, last_one)
            {nodes}
        }}"
    ))
}

/// Writes the nodes that give `y`, the caches, and `scores`.
fn write_attention(node: &Reader<'_>, attributes: &Attributes) -> String {
    let optional = Optional::of(node, attributes);
    let (heads, sizes) = (split_heads(node, attributes), SIZES);
    let (past, prepared) = (caches(node, attributes), prepare(node, attributes, &optional));
    let mask = write_mask(node, attributes, &optional);
    let [keys, values] = if optional.sink {
        ["keys_and_sink", "values_and_sink"]
    } else {
        ["all_keys", "all_values"]
    };
    let mut passed = vec![format!("softcap = {:?}", attributes.softcap)];
    if attributes.scale != 0.0 {
        passed.push(format!("scale = {:?}", attributes.scale));
    }
    let (mode, result, scores) = match attributes.scores {
        Scores::None => (None, "y_heads", ""),
        Scores::BeforeSoftmax => {
            (Some(2), "y_heads, unused_keys, unused_values, all_scores", WRITE_SCORES)
        }
        Scores::AfterSoftmax => {
            (Some(3), "y_heads, unused_keys, unused_values, all_scores", WRITE_SCORES)
        }
    };
    passed.extend(mode.map(|mode| format!("qk_matmul_output_mode = {mode}")));
    let (passed, [k, v]) = (in_angles(&passed), attributes.caches);
    let encoded = [k.write_encoding("k", "k", "new_k"), v.write_encoding("v", "v", "new_v")];
    let decoded = [
        k.write_decoding("k", "present_k", "all_keys"),
        v.write_decoding("v", "present_v", "all_values"),
    ];
    let ([encoded_k, encoded_v], [decoded_k, decoded_v]) = (encoded, decoded);
    format!(
        "{heads} {sizes} {prepared} {encoded_k} {encoded_v} {past}
        present_k = TensorScatter (past_k, new_k, starts)
        present_v = TensorScatter (past_v, new_v, starts)
        {decoded_k} {decoded_v}
        {mask}
        {result} = Attention {passed} (q, {keys}, {values}, mask)
        {scores}
        y_rows = Transpose <perm = [0, 2, 1, 3]> (y_heads)
        joined = Constant <value_ints = [0, 0, -1]> ()
        y = Reshape (y_rows, joined)"
    )
}

/// The nodes that give the scores of all tokens, which are 0 where a query does not see a token.
const WRITE_SCORES: &str = "scores_axis = Constant <value_ints = [3]> ()
    own_scores = Slice (all_scores, none, total, scores_axis)
    seen_axis = Constant <value_ints = [-1]> ()
    own_seen = Slice (seen, none, total, seen_axis)
    unseen_score = Constant <value_float = 0.0> () no_score = CastLike (unseen_score, query)
    scores = Where (own_seen, own_scores, no_score)";

/// Writes the nodes that give the heads `q_heads`, `k_heads` and `v` as `[batch, heads, length,
/// size]`.
fn split_heads(node: &Reader<'_>, attributes: &Attributes) -> String {
    let [queries, keys] = attributes.heads;
    let reshape = |to: &str, from: &str, heads: i64| {
        format!(
            "{to}_sizes = Constant <value_ints = [0, 0, {heads}, -1]> ()
            {to}_rows = Reshape ({from}, {to}_sizes)"
        )
    };
    let rows = if node.has(KEY) {
        let parts = [("q", "query", queries), ("k", "key", keys), ("v", "value", keys)];
        parts.map(|(to, from, heads)| reshape(to, from, heads)).join(" ")
    } else {
        let packed = reshape("packed", "query", queries + 2 * keys);
        format!(
            "{packed}
            counts = Constant <value_ints = [{queries}, {keys}, {keys}]> ()
            q_rows, k_rows, v_rows = Split <axis = 2> (packed_rows, counts)"
        )
    };
    format!(
        "{rows}
        q_heads = Transpose <perm = [0, 2, 1, 3]> (q_rows)
        k_heads = Transpose <perm = [0, 2, 1, 3]> (k_rows)
        v = Transpose <perm = [0, 2, 1, 3]> (v_rows)"
    )
}

/// The nodes that give, as integers, the number of new tokens `new` and the greatest number of all
/// tokens `total`, both of one element, and for each batch the number of all tokens `lengths` and
/// the place `starts` of the first new one. Without tokens before the new ones, that is 0.
const SIZES: &str = "one_axis = Constant <value_ints = [-1]> ()
    none = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
    new = Shape <start = 1, end = 2> (query)
    total_wide = Cast <to = 7> (total_length) total = Reshape (total_wide, one_axis)
    last_wide = Cast <to = 7> (last) last_row = Reshape (last_wide, one_axis)
    lengths = Add (last_row, one)
    before = Sub (lengths, new) is_first = Equal (new, total)
    starts = Where (is_first, none, before)";

/// Writes the nodes that give the caches `past_k` and `past_v`, which hold all tokens, and their
/// length `capacity`.
fn caches(node: &Reader<'_>, attributes: &Attributes) -> String {
    let heads = attributes.heads[1];
    let sizes = format!(
        "batch = Shape <start = 0, end = 1> (query) size = Shape <start = 3, end = 4> (new_k)
        heads = Constant <value_ints = [{heads}]> ()"
    );
    let zeros = |name: &str, size: &str, of: &str, length: &str| {
        format!(
            "{name}_sizes = Concat <axis = 0> (batch, heads, {length}, {size})
            {name}_zeros = ConstantOfShape ({name}_sizes)
            {name} = CastLike ({name}_zeros, {of})"
        )
    };
    let v_size = "v_size = Shape <start = 3, end = 4> (new_v)";
    if !node.has(PAST) {
        let (k, v) = (
            zeros("past_k", "size", "new_k", "capacity"),
            zeros("past_v", "v_size", "new_v", "capacity"),
        );
        return format!("{sizes} {v_size} capacity = Identity (total) {k} {v}");
    }
    let (k, v) =
        (zeros("more_k", "size", "new_k", "more"), zeros("more_v", "v_size", "new_v", "more"));
    format!(
        "{sizes} {v_size}
        cached = Shape <start = 2, end = 3> (past_key)
        capacity = Max (cached, total) more = Sub (capacity, cached)
        cached_sizes = Concat <axis = 0> (batch, heads, cached, size)
        cached_v_sizes = Concat <axis = 0> (batch, heads, cached, v_size)
        cached_k = Reshape <allowzero = 1> (past_key, cached_sizes)
        cached_v = Reshape <allowzero = 1> (past_value, cached_v_sizes)
        {k} {v}
        past_k = Concat <axis = 2> (cached_k, more_k)
        past_v = Concat <axis = 2> (cached_v, more_v)"
    )
}

/// Writes the nodes that normalize queries and keys and rotate them by their positions: `q` and `k`
/// from `q_heads` and `k_heads`, and the places `places` of the new tokens, `[batch, length]`.
fn prepare(node: &Reader<'_>, attributes: &Attributes, optional: &Optional) -> String {
    let norm = |i: usize, x: &str| match optional.norms[i] {
        true => format!(
            "{x}_normal = RMSNormalization <axis = -1, epsilon = {:?}> ({x}_heads, {x}_norm)",
            attributes.epsilon
        ),
        false => format!("{x}_normal = Identity ({x}_heads)"),
    };
    let rotary = write_rotary(node, attributes);
    let rotate = |x: &str| match attributes.rotary {
        true => format!("{x} = RotaryEmbedding {rotary} ({x}_normal, cos, sin, positions)"),
        false => format!("{x} = Identity ({x}_normal)"),
    };
    let positions = if optional.positions { "position_ids" } else { "places" };
    let (normals, rotated) =
        ([norm(0, "q"), norm(1, "k")].join(" "), [rotate("q"), rotate("k")].join(" "));
    format!(
        "first = Constant <value_int = 0> () next = Constant <value_int = 1> ()
        
        new_count = Squeeze (new) numbers = Range (first, new_count, next)
        starts_column = Unsqueeze (starts, one) places = Add (starts_column, numbers)
        positions = Identity ({positions})
        {normals} {rotated}"
    )
}

/// Writes the attributes of `RotaryEmbedding`. With fewer angles than half the size of a head, only
/// the first elements are rotated.
fn write_rotary(node: &Reader<'_>, attributes: &Attributes) -> String {
    let mut passed = vec![format!("interleaved = {}", attributes.interleaved)];
    let angles = node.ty(attributes.cosines).and_then(|ty| ty.as_tensor()?.shape.last()?.known());
    passed.extend(angles.map(|angles| format!("rotary_embedding_dim = {}", 2 * angles)));
    in_angles(&passed)
}

/// Writes the nodes that give `mask` for the scores, and with a sink the keys and values with one
/// more place, whose key is 0.
fn write_mask(node: &Reader<'_>, attributes: &Attributes, optional: &Optional) -> String {
    let seen = match (attributes.is_causal, attributes.window) {
        _ if attributes.block.is_some() => write_blocks(attributes),
        (false, _) => "ends_axes = Constant <value_ints = [1, 2, 3]> ()
            ends = Unsqueeze (lengths, ends_axes) seen = Less (columns, ends)"
            .to_owned(),
        (true, None) => "seen = LessOrEqual (columns, rows)".to_owned(),
        (true, Some(size)) => format!(
            "window = Constant <value_ints = [{size}]> () bounds = Sub (rows, window)
            not_later = LessOrEqual (columns, rows) near = Greater (columns, bounds)
            seen = And (not_later, near)"
        ),
    };
    let places = format!(
        "capacity_scalar = Squeeze (capacity) columns = Range (first, capacity_scalar, next)
        row_axes = Constant <value_ints = [1, 3]> () rows = Unsqueeze (places, row_axes)
        {seen}"
    );
    let Optional { bias, sink, .. } = *optional;
    if !bias && !sink {
        return format!("{places} mask = Identity (seen)");
    }
    let added = if bias {
        "bias_length = Shape <start = 3, end = 4> (bias) missing = Sub (capacity, bias_length)
        last_axis = Constant <value_ints = [3]> () sides = Concat <axis = 0> (none, missing)
        added = Pad (bias, sides, \"\", last_axis)"
    } else {
        "added = CastLike (zero, q)"
    };
    let sums = format!(
        "{places} zero = Constant <value_float = 0.0> () {added}
        least = Constant <value_float = -inf> () masked = CastLike (least, q)
        filter = Where (seen, added, masked)"
    );
    if sink {
        format!("{sums} {}", write_sink(node))
    } else {
        format!("{sums} mask = Identity (filter)")
    }
}

/// Writes the nodes that give `seen` for a mask of blocks, `[batch, heads, length, capacity]`.
///
/// The compressed rows of the mask become a dense matrix: row `r` has the entries from
/// `row_from[r]` to `row_to[r]`, and entry `j` is column `column_indices[j]`. Head `h` uses
/// mask `h` modulo the number of masks.
fn write_blocks(attributes: &Attributes) -> String {
    let (heads, block) = (attributes.heads[0], attributes.block.unwrap_or(1));
    format!(
        "compressed = Cast <to = 7> (row_indices) block_columns = Cast <to = 7> (column_indices)
        to_end = Constant <value_ints = [{end}]> () last_place = Constant <value_ints = [-1]> ()
        two = Constant <value_ints = [2]> ()
        row_from_flat = Slice (compressed, none, last_place, one)
        row_to_flat = Slice (compressed, one, to_end, one)
        row_from = Unsqueeze (row_from_flat, two) row_to = Unsqueeze (row_to_flat, two)
        entry_count = Shape <start = 1, end = 2> (block_columns)
        entry_scalar = Squeeze (entry_count) entries = Range (first, entry_scalar, next)
        is_after = LessOrEqual (row_from, entries) is_before = Less (entries, row_to)
        of_row = And (is_after, is_before) of_row_number = Cast <to = 1> (of_row)
        blocks = Shape <start = 1, end = 2> (row_from_flat)
        blocks_scalar = Squeeze (blocks) block_numbers = Range (first, blocks_scalar, next)
        entry_columns = Unsqueeze (block_columns, two)
        of_column = Equal (entry_columns, block_numbers)
        of_column_number = Cast <to = 1> (of_column)
        entry_counts = MatMul (of_row_number, of_column_number)
        no_entries = Constant <value_float = 0.0> () layout = Greater (entry_counts, no_entries)
        block_size = Constant <value_int = {block}> () row_blocks = Div (places, block_size)
        column_blocks_all = Div (columns, block_size) last_block = Sub (blocks_scalar, next)
        column_blocks = Min (column_blocks_all, last_block)
        by_row = Gather <axis = 1> (layout, row_blocks)
        by_place = Gather <axis = 3> (by_row, column_blocks)
        by_batch = Transpose <perm = [1, 0, 2, 3]> (by_place)
        layouts = Shape <start = 0, end = 1> (compressed)
        head_count = Constant <value_ints = [{heads}]> () uses = Div (head_count, layouts)
        repeats = Concat <axis = 0> (one, uses, one, one) by_head = Tile (by_batch, repeats)
        not_later = LessOrEqual (columns, rows) seen = And (not_later, by_head)",
        end = i64::MAX
    )
}

/// Writes the nodes that add a place with the key 0, whose score is the sink of the head.
fn write_sink(node: &Reader<'_>) -> String {
    let scores = match node.has(SINK) {
        true => {
            "sink_axes = Constant <value_ints = [0, 2, 3]> ()
            sink_scores = Unsqueeze (head_sink, sink_axes)"
        }
        false => "sink_scores = CastLike (zero, q)",
    };
    format!(
        "{scores}
        q_outer = Shape <start = 0, end = 3> (q)
        sink_shape = Concat <axis = 0> (q_outer, one) sinks = Expand (sink_scores, sink_shape)
        filter_shape = Concat <axis = 0> (q_outer, capacity) filters = Expand (filter, filter_shape)
        mask = Concat <axis = 3> (filters, sinks)
        k_size = Shape <start = 3, end = 4> (k) value_size = Shape <start = 3, end = 4> (v)
        sink_k_sizes = Concat <axis = 0> (batch, heads, one, k_size)
        sink_k_zeros = ConstantOfShape (sink_k_sizes) sink_k = CastLike (sink_k_zeros, k)
        sink_v_sizes = Concat <axis = 0> (batch, heads, one, value_size)
        sink_v_zeros = ConstantOfShape (sink_v_sizes) sink_v = CastLike (sink_v_zeros, v)
        keys_and_sink = Concat <axis = 2> (all_keys, sink_k)
        values_and_sink = Concat <axis = 2> (all_values, sink_v)"
    )
}
