//! Attention with projections, biases and caches, over ONNX's `Attention`.
//!
//! Queries, keys and values become tensors of three axes, `[batch, length, heads · size]`, which
//! ONNX's operator takes with their numbers of heads.

use super::{
    super::{Entry, microsoft_function},
    in_angles,
};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    ir::Reader,
    ty::Type,
};

pub const OPS: &[Entry] = &[
    microsoft_function("Attention", self_attention),
    microsoft_function("QAttention", quantized),
    microsoft_function("RotaryEmbedding", rotary),
];

/// The value of a masked score, unless the attribute `mask_filter_value` says another.
const MASKED: f32 = -10_000.0;

/// Returns the error for a part of an operator that is not implemented.
pub(super) fn refuse<T>(what: &str, help: &str) -> Result<T> {
    Err(Diagnostic::new(Code::Unsupported, format!("{what} is not supported")).help(help))
}

/// The attributes that all attentions have.
pub(super) struct Attributes {
    pub(super) heads: i64,
    causal: bool,
    pub(super) masked: f32,
    scale: Option<f32>,
    /// Whether the node has the output for the masked scores, the fourth.
    has_scores: bool,
}

impl Attributes {
    pub(super) fn read(node: &mut Reader<'_>) -> Result<Attributes> {
        Ok(Attributes {
            heads: node.required_int("num_heads")?,
            causal: node.flag("unidirectional", false)?,
            masked: node.float("mask_filter_value", MASKED)?,
            scale: node.maybe_float("scale")?,
            has_scores: node.outputs > 3,
        })
    }

    /// Writes the nodes that attend `q`, `k` and `v` and give `y`, the caches and the scores.
    pub(super) fn attention(&self, mask: &str, past: bool) -> String {
        let heads = self.heads;
        let mut attributes = self.of_scores(self.causal);
        attributes.extend([format!("q_num_heads = {heads}"), format!("kv_num_heads = {heads}")]);
        let attributes = in_angles(&attributes);
        let mask = if mask.is_empty() { "\"\"" } else { mask };
        let past = if past { ", past_k, past_v" } else { "" };
        let (results, scores) = self.results("y, present_k, present_v");
        format!("{results} = Attention {attributes} (q, k, v, {mask}{past}) {scores}")
    }

    /// Writes the results of the node, and the nodes after it that give the scores.
    fn results(&self, others: &str) -> (String, &'static str) {
        match self.has_scores {
            true => (format!("{others}, all_scores"), WRITE_SCORES),
            false => (others.to_owned(), ""),
        }
    }

    /// The names of the outputs, where those of the caches start with `cache`.
    pub(super) fn outputs(&self, cache: &str) -> String {
        let scores = if self.has_scores { ", scores" } else { "" };
        format!("y, {cache}_k, {cache}_v{scores}")
    }

    /// The attributes of ONNX's operator but for the numbers of heads.
    fn of_scores(&self, is_causal: bool) -> Vec<String> {
        let mut attributes = vec![format!("is_causal = {}", i32::from(is_causal))];
        // A scale of 0 is none.
        attributes.extend(self.scale.filter(|&s| s != 0.0).map(|s| format!("scale = {s:?}")));
        if self.has_scores {
            attributes.push("qk_matmul_output_mode = 2".to_owned());
        }
        attributes
    }

    /// Writes the node that attends `q_row`, the last query, `k_used` and `v_used`, which have an
    /// axis for the heads.
    pub(super) fn of_heads(&self, mask: &str) -> String {
        let mask = if mask.is_empty() { "\"\"" } else { mask };
        let attributes = in_angles(&self.of_scores(false));
        let others = if self.has_scores { "y_heads, unused_k, unused_v" } else { "y_heads" };
        let (results, scores) = self.results(others);
        format!("{results} = Attention {attributes} (q_row, k_used, v_used, {mask}) {scores}")
    }
}

/// The nodes that give the masked scores. Those of keys after the query are the lowest number.
const WRITE_SCORES: &str = "lowest_float = Constant <value_float = -3.4028235e38> ()
    lowest = CastLike (lowest_float, all_scores)
    scores = Max (all_scores, lowest)";

/// Writes the nodes that compute what is added to the scores, called `mask`, from the integers of
/// input `i`, `given`, and from the input `bias`. Returns them with the name of the mask, which is
/// empty without one. The keys count the cached ones.
pub(super) fn mask(
    node: &Reader<'_>,
    (i, bias): (usize, usize),
    masked: f32,
    total: &str,
) -> Result<(String, &'static str)> {
    let bias = node.has(bias);
    // One number for all keys of a row changes nothing.
    if !node.has(i) || is_for_all_keys(node, i) {
        return Ok(match bias {
            true => (format!("{total} {WHOLE_BIAS}"), "whole_bias"),
            false => (String::new(), ""),
        });
    }
    let ty = node.ty(i).and_then(|ty| ty.as_tensor()).ok_or_else(|| {
        let message = format!("the number of axes of input {i} must be known");
        Diagnostic::new(Code::UnknownShape, message)
    })?;
    let batch = node.ty(0).and_then(|ty| Some(ty.as_tensor()?.shape.first()?.clone()));
    let is_free = |size: &Dim| size.known().is_none();
    let is_times = |count: i64, rest: i64| {
        batch.as_ref().is_some_and(|batch| ty.shape[0] == batch * count + Dim::from(rest))
    };
    let is_kept = match ty.rank() {
        1 if is_times(1, 0) => BEFORE_ENDS,
        // The starts of queries and keys without padding, which follow, are for packed memory.
        1 if is_times(3, 2) => LENGTHS_FIRST,
        1 if is_times(2, 0) => {
            "ends, starts = Split <axis = 0, num_outputs = 2> (given)
            end = Unsqueeze (ends, one) start = Unsqueeze (starts, one)
            before = Less (places, end) from = GreaterOrEqual (places, start)
            kept = And (before, from)
            axes = Constant <value_ints = [1, 2]> ()"
        }
        1 if is_free(&ty.shape[0]) || batch.as_ref().is_some_and(is_free) => {
            return Err(unknown_lengths(node, i));
        }
        2 => {
            "kept = Greater (given, none)
            axes = Constant <value_ints = [1, 2]> ()"
        }
        3 => {
            "kept = Greater (given, none)
            axes = Constant <value_ints = [1]> ()"
        }
        _ => {
            let what = format!("a mask of the shape of input {i}");
            return refuse(
                &what,
                "give lengths `[batch]`, ends and starts `[2 * batch]`, or a mask `[batch, keys]` \
                or `[batch, queries, keys]`",
            );
        }
    };
    let sum = match bias {
        true => format!("{WHOLE_BIAS} mask = Add (filter, whole_bias)"),
        false => "mask = Identity (filter)".to_owned(),
    };
    let nodes = format!(
        "one = Constant <value_ints = [1]> ()
        first = Constant <value_int = 0> () next = Constant <value_int = 1> ()
        {total}
        all_places = Range (first, total, next)
        places = CastLike (all_places, given)
        none = CastLike (first, given)
        {is_kept}
        kept_of_some = Unsqueeze (kept, axes)
        keys_axis = Constant <value_ints = [0]> () width = Unsqueeze (total, keys_axis)
        kept_of_heads = Expand (kept_of_some, width)
        masked_float = Constant <value_float = {masked:?}> ()
        zero_float = Constant <value_float = 0.0> ()
        masked = CastLike (masked_float, q) zero = CastLike (zero_float, q)
        filter = Where (kept_of_heads, zero, masked)
        {sum}"
    );
    Ok((nodes, "mask"))
}

/// The nodes that give the bias a number for each key. `Attention` would hide keys without one.
const WHOLE_BIAS: &str = "bias_axis = Constant <value_ints = [0]> ()
    bias_width = Unsqueeze (total, bias_axis) whole_bias = Expand (bias_of_scores, bias_width)";

/// The nodes that keep the keys before the lengths `given`.
const BEFORE_ENDS: &str = "column = Unsqueeze (given, one) kept = Less (places, column)
    axes = Constant <value_ints = [1, 2]> ()";

/// As [`BEFORE_ENDS`], with more numbers behind the lengths.
const LENGTHS_FIRST: &str = "front = Constant <value_ints = [0]> ()
    row_count = Shape <start = 0, end = 1> (q)
    lengths = Slice (given, front, row_count)
    column = Unsqueeze (lengths, one) kept = Less (places, column)
    axes = Constant <value_ints = [1, 2]> ()";

/// Whether input `i` is a mask of rows with one number.
fn is_for_all_keys(node: &Reader<'_>, i: usize) -> bool {
    let shape = node.ty(i).and_then(|ty| Some(&ty.as_tensor()?.shape));
    shape.is_some_and(|shape| shape.len() == 2 && shape[1].known() == Some(1))
}

/// The error for lengths of keys, input `i`, of another size than the batch.
fn unknown_lengths(node: &Reader<'_>, i: usize) -> Diagnostic {
    let [mask, rows] =
        [i, 0].map(|i| node.ty(i).map_or_else(|| "unknown".to_owned(), Type::to_string));
    let message = format!(
        "the mask, input {i}, is {mask}, which may not be one or two numbers for each row of the \
         batch, {rows}"
    );
    Diagnostic::new(Code::UnknownShape, message)
        .note("one is the number of keys of the row; two are all ends, followed by all starts")
        .help("name the axis of the mask as that of the batch, or fix both sizes with `--dim`")
}

/// The nodes that count the keys, `total`: the new ones, and `past` where there are cached ones.
pub(super) fn count_keys(past: Option<&str>) -> String {
    let new = "new_axis = Constant <value_int = 1> () of_keys = Shape (k)
        new_keys = Gather (of_keys, new_axis)";
    match past {
        None => format!("{new} total = Identity (new_keys)"),
        Some(past) => format!(
            "{new} past_axis = Constant <value_int = 2> () of_past = Shape ({past})
            past_keys = Gather (of_past, past_axis) total = Add (new_keys, past_keys)"
        ),
    }
}

/// The nodes that split the projections `all` into `q`, `k` and `v`.
fn split(sizes: Option<Vec<i64>>) -> String {
    match sizes.filter(|sizes| sizes.len() == 3) {
        None => "q, k, v = Split <axis = -1, num_outputs = 3> (all)".to_owned(),
        Some(sizes) => format!(
            "sizes = Constant <value_ints = {sizes:?}> () q, k, v = Split <axis = -1> (all, sizes)"
        ),
    }
}

/// The nodes that split `past` into the caches of keys and of values.
const SPLIT_PAST: &str =
    "keys_at = Constant <value_int = 0> () values_at = Constant <value_int = 1> ()
    past_k = Gather (past, keys_at) past_v = Gather (past, values_at)";

/// The nodes that join the caches of keys and of values to `present`.
const JOIN_PRESENT: &str = "at_front = Constant <value_ints = [0]> ()
    front_k = Unsqueeze (present_k, at_front) front_v = Unsqueeze (present_v, at_front)
    present = Concat <axis = 0> (front_k, front_v)";

/// Writes an attention of the projections `all`. The mask is input `mask.0`, the bias of the scores
/// input `mask.1`, and the cache input `past`.
fn of_projections(
    node: &mut Reader<'_>,
    inputs: &str,
    projections: &str,
    masks: (usize, usize),
    past: usize,
) -> Result<String> {
    let attributes = Attributes::read(node)?;
    if node.flag("past_present_share_buffer", false)? && node.has(past) {
        return refuse("`past_present_share_buffer`", "export the model without shared buffers");
    }
    let split = split(node.maybe_ints("qkv_hidden_sizes")?);
    let has_past = node.has(past);
    let total = count_keys(has_past.then_some("past_k"));
    let (nodes, mask) = mask(node, masks, attributes.masked, &total)?;
    let past = if has_past { SPLIT_PAST } else { "" };
    let attention = attributes.attention(mask, has_past);
    let (outputs, present) =
        if node.outputs > 1 { ("y, present", JOIN_PRESENT) } else { ("y", "") };
    Ok(format!(
        "({inputs}) => ({outputs}) {{
            {projections} {split} {past} {nodes} {attention} {present}
        }}"
    ))
}

fn self_attention(node: &mut Reader<'_>) -> Result<String> {
    if node.flag("do_rotary", false)? {
        return refuse("`do_rotary`", "apply `RotaryEmbedding` to queries and keys");
    }
    node.ignore("rotary_embedding_dim");
    let sum = if node.has(2) { "all = Add (products, bias)" } else { "all = Identity (products)" };
    let inputs = "x, weights, bias, given, past, bias_of_scores, past_length";
    of_projections(node, inputs, &format!("products = MatMul (x, weights) {sum}"), (3, 5), 4)
}

fn quantized(node: &mut Reader<'_>) -> Result<String> {
    // ONNX Runtime reads it and rotates nothing.
    node.ignore("do_rotary");
    let inputs =
        "x, weights, bias, x_scale, weight_scale, given, x_zero, weight_zero, past, bias_of_scores";
    let projections = "integers = MatMulInteger (x, weights, x_zero, weight_zero)
        factor = Mul (x_scale, weight_scale)
        reals = CastLike (integers, factor)
        products = Mul (reals, factor)
        all = Add (products, bias)";
    of_projections(node, inputs, projections, (5, 9), 8)
}

/// The nodes that name queries, keys and values without a bias.
pub(super) const UNBIASED: &str =
    "q = Identity (q_flat) k = Identity (k_flat) v = Identity (v_flat)";

/// The nodes that add a part of the bias to queries, keys and values each. Cached keys have theirs.
pub(super) fn add_biases(node: &Reader<'_>) -> Result<String> {
    let is_cache = node.has(1) && node.rank(1)? == 4;
    let rest = if is_cache {
        "k = Identity (k_flat) v = Identity (v_flat)"
    } else {
        "k = Add (k_flat, k_bias) v = Add (v_flat, v_bias)"
    };
    Ok(format!(
        "bias_start = Constant <value_ints = [0]> () bias_axis = Constant <value_ints = [2]> ()
        q_size = Shape <start = 2, end = 3> (q_flat) k_size = Shape <start = 2, end = 3> (k_flat)
        v_size = Shape <start = 2, end = 3> (v_flat)
        bias_sizes = Concat <axis = 0> (q_size, k_size, v_size)
        q_bias, k_bias, v_bias = Split <axis = 0> (bias, bias_sizes)
        q = Add (q_flat, q_bias) {rest}"
    ))
}

/// ONNX's `RotaryEmbedding`, with another order of inputs, and positions that may be a first one.
fn rotary(node: &mut Reader<'_>) -> Result<String> {
    let interleaved = node.int("interleaved", 0)?;
    let rotated = node.int("rotary_embedding_dim", 0)?;
    let heads = node.int("num_heads", 0)?;
    node.ignore("is_packed_batching");
    let scale = node.float("scale", 1.0)?;
    if scale != 1.0 {
        return refuse("a `scale` other than 1", "multiply the result");
    }
    let mut attributes = vec![format!("interleaved = {interleaved}")];
    if rotated > 0 {
        attributes.push(format!("rotary_embedding_dim = {rotated}"));
    }
    let rank = node.rank(0)?;
    if rank == 3 {
        attributes.push(format!("num_heads = {}", heads_of_rows(node, heads)?));
    }
    let attributes = in_angles(&attributes);
    let axis = if rank == 3 { 1 } else { 2 };
    let positions = match node.rank(1)? {
        2 => "positions = Identity (position_ids)".to_owned(),
        _ => format!(
            "first = Constant <value_int = 0> () next = Constant <value_int = 1> ()
            sizes = Shape (x) at = Constant <value_int = {axis}> () length = Gather (sizes, at)
            numbers = Range (first, length, next)
            places = Add (numbers, position_ids)
            front = Constant <value_ints = [0]> ()
            row = Unsqueeze (places, front)
            batch = Shape <start = 0, end = 1> (x)
            rows = Unsqueeze (length, front)
            shape = Concat <axis = 0> (batch, rows)
            positions = Expand (row, shape)"
        ),
    };
    Ok(format!(
        "(x, position_ids, cos, sin) => (y) {{
            {positions}
            y = RotaryEmbedding {attributes} (x, cos, sin, positions)
        }}"
    ))
}

/// The number of heads of rows: the attribute, or what the number of cosines tells.
fn heads_of_rows(node: &Reader<'_>, heads: i64) -> Result<i64> {
    if heads > 0 {
        return Ok(heads);
    }
    let last = |i: usize| node.ty(i)?.as_tensor()?.shape.last()?.known();
    match (last(0), last(2)) {
        (Some(row), Some(pairs)) if pairs > 0 => Ok(row / (2 * pairs)),
        _ => Err(Diagnostic::new(
            Code::UnknownShape,
            "the sizes of a row and of `cos_cache` must be known without `num_heads`",
        )),
    }
}
