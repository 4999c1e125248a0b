//! `GroupQueryAttention`: attention with rotary positions over a cache of keys and values.
//!
//! The new keys and values are written to the cache by `TensorScatter`, and ONNX's `Attention`
//! attends the cache with a mask of the places that each query sees.

use super::{
    super::{Entry, microsoft_function},
    attention::refuse,
    in_angles,
};
use crate::{diag::Result, ir::Reader};

pub const OPS: &[Entry] = &[microsoft_function("GroupQueryAttention", attend)];

/// The indices of inputs.
const KEY: usize = 1;
const PAST: usize = 3;
const COSINES: usize = 7;
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
}

impl Attributes {
    fn read(node: &mut Reader<'_>) -> Result<Attributes> {
        for name in ["k_quant_type", "v_quant_type"] {
            if node.string(name, "NONE")? != "NONE" {
                return refuse(&format!("`{name}`"), "export the model with a cache of floats");
            }
        }
        node.ignore("kv_cache_bit_width");
        if node.flag("sliding_window_cache", false)? {
            return refuse("`sliding_window_cache`", "export the model with a full cache");
        }
        if node.int("qk_output", 0)? != 0 {
            return refuse("`qk_output`", "remove the output `output_qk`");
        }
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
        })
    }
}

fn attend(node: &mut Reader<'_>) -> Result<String> {
    let attributes = Attributes::read(node)?;
    if SCALES.iter().any(|&i| node.has(i)) {
        return refuse("a quantized cache", "export the model with a cache of floats");
    }
    let (heads, sizes) = (split_heads(node, &attributes), SIZES);
    let (past, prepared) = (caches(node, &attributes), prepare(node, &attributes));
    let mask = write_mask(node, &attributes);
    let sink = attributes.smooth || node.has(SINK);
    let [keys, values] =
        if sink { ["keys_and_sink", "values_and_sink"] } else { ["present_k", "present_v"] };
    let mut passed = vec![format!("softcap = {:?}", attributes.softcap)];
    if attributes.scale != 0.0 {
        passed.push(format!("scale = {:?}", attributes.scale));
    }
    let passed = in_angles(&passed);
    Ok(format!(
        "(query, key, value, past_key, past_value, last, total_length, cos, sin, position_ids,
            bias, head_sink, k_scale, v_scale, q_norm, k_norm) => (y, present_k, present_v)
        {{
            {heads} {sizes} {past} {prepared}
            present_k = TensorScatter (past_k, k, starts)
            present_v = TensorScatter (past_v, v, starts)
            {mask}
            y_heads = Attention {passed} (q, {keys}, {values}, mask)
            y_rows = Transpose <perm = [0, 2, 1, 3]> (y_heads)
            joined = Constant <value_ints = [0, 0, -1]> ()
            y = Reshape (y_rows, joined)
        }}"
    ))
}

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
        "batch = Shape <start = 0, end = 1> (query) size = Shape <start = 3, end = 4> (k_heads)
        heads = Constant <value_ints = [{heads}]> ()"
    );
    let zeros = |name: &str, size: &str, of: &str, length: &str| {
        format!(
            "{name}_sizes = Concat <axis = 0> (batch, heads, {length}, {size})
            {name}_zeros = ConstantOfShape ({name}_sizes)
            {name} = CastLike ({name}_zeros, {of})"
        )
    };
    let v_size = "v_size = Shape <start = 3, end = 4> (v)";
    if !node.has(PAST) {
        let (k, v) = (
            zeros("past_k", "size", "k_heads", "capacity"),
            zeros("past_v", "v_size", "v", "capacity"),
        );
        return format!("{sizes} {v_size} capacity = Identity (total) {k} {v}");
    }
    let (k, v) =
        (zeros("more_k", "size", "k_heads", "more"), zeros("more_v", "v_size", "v", "more"));
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
fn prepare(node: &Reader<'_>, attributes: &Attributes) -> String {
    let norm = |i: usize, x: &str| match node.has(NORMS[i]) {
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
    let positions = if node.has(POSITIONS) { "position_ids" } else { "places" };
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
    let angles = node.ty(COSINES).and_then(|ty| ty.as_tensor()?.shape.last()?.known());
    passed.extend(angles.map(|angles| format!("rotary_embedding_dim = {}", 2 * angles)));
    in_angles(&passed)
}

/// Writes the nodes that give `mask` for the scores, and with a sink the keys and values with one
/// more place, whose key is 0.
fn write_mask(node: &Reader<'_>, attributes: &Attributes) -> String {
    let seen = match (attributes.is_causal, attributes.window) {
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
    let (bias, sink) = (node.has(BIAS), attributes.smooth || node.has(SINK));
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
        sink_k_sizes = Concat <axis = 0> (batch, heads, one, size)
        sink_k_zeros = ConstantOfShape (sink_k_sizes) sink_k = CastLike (sink_k_zeros, k)
        sink_v_sizes = Concat <axis = 0> (batch, heads, one, v_size)
        sink_v_zeros = ConstantOfShape (sink_v_sizes) sink_v = CastLike (sink_v_zeros, v)
        keys_and_sink = Concat <axis = 2> (present_k, sink_k)
        values_and_sink = Concat <axis = 2> (present_v, sink_v)"
    )
}
