//! Biases of attention scores by the relative positions of queries and keys.

use super::super::{Entry, microsoft_function};
use crate::{
    diag::{Code, Diagnostic, Result},
    ir::Reader,
};

pub const OPS: &[Entry] = &[
    microsoft_function("GatedRelativePositionBias", gated),
    microsoft_function("RelativePositionBias", relative),
];

/// The bias of each head for the bucket of each distance, as in T5. Distances below half of the
/// buckets have one each; the others have buckets of logarithmic width. The table holds the buckets
/// of the first head, then of the second one, although its shape is `[buckets, heads]`.
fn relative(node: &mut Reader<'_>) -> Result<String> {
    let both = node.flag("is_bidirectional", false)?;
    let farthest = node.required_int("max_distance")?;
    let size = |axis: usize| node.ty(0)?.as_tensor()?.shape.get(axis)?.known();
    let (Some(buckets), Some(heads)) = (size(0), size(1)) else {
        let message = "the shape of `bias_table` must be known, and have two axes";
        return Err(Diagnostic::new(Code::UnknownShape, message));
    };
    let count = if both { buckets / 2 } else { buckets };
    let near = count / 2;
    if near < 1 || farthest <= near {
        let message = format!("`max_distance` is {farthest}, but distances up to {near} are near");
        return Err(Diagnostic::new(Code::BadAttribute, message)
            .help("give a larger `max_distance`, and a table with at least 4 buckets"));
    }
    let side = match both {
        true => format!(
            "after = Greater (distance, zero)
            half = Constant <value_int = {count}> ()
            from = Where (after, half, zero)
            bucket = Add (of_side, from)"
        ),
        false => "bucket = Identity (of_side)".to_owned(),
    };
    // The quotients and the logarithms are those of single precision.
    let range = farthest as f32 / near as f32;
    Ok(format!(
        "(table, query_length, key_length) => (y) {{
            zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
            queries = Squeeze (query_length) keys = Squeeze (key_length)
            rows = Range (zero, queries, one) columns = Range (zero, keys, one)
            last = Constant <value_ints = [1]> ()
            column = Unsqueeze (rows, last)
            distance = Sub (columns, column)
            size = Abs (distance)
            near = Constant <value_int = {near}> ()
            is_near = Less (size, near)
            far = Max (size, near)
            far_real = Cast <to = 1> (far)
            near_real = Cast <to = 1> (near)
            quotient = Div (far_real, near_real)
            log = Log (quotient)
            range = Constant <value_float = {range:?}> ()
            scale = Log (range)
            share = Div (log, scale)
            rest = Constant <value_float = {rest:?}> ()
            steps_real = Mul (share, rest)
            steps = Cast <to = 7> (steps_real)
            far_bucket = Add (near, steps)
            most = Constant <value_int = {most}> ()
            far_at_most = Min (far_bucket, most)
            of_side = Where (is_near, size, far_at_most)
            {side}
            shape = Constant <value_ints = [{heads}, {buckets}]> ()
            by_head = Reshape (table, shape)
            biases = Gather <axis = 1> (by_head, bucket)
            first = Constant <value_ints = [0]> ()
            y = Unsqueeze (biases, first)
        }}",
        rest = (count - near) as f32,
        most = count - 1,
    ))
}

/// The bias `rel_pos`, multiplied by a gate of each query: `u · (r · eco_a - 1) + 2`, with `u` and
/// `r` the sigmoids of a linear function of the query.
fn gated(node: &mut Reader<'_>) -> Result<String> {
    let heads = node.required_int("num_heads")?;
    if node.has(6) {
        let message = "`token_offset`, which says that queries have no padding, is not supported";
        return Err(Diagnostic::new(Code::Unsupported, message)
            .help("export the model with padded queries of shape `[batch, length, width]`"));
    }
    Ok(format!(
        "(query, query_bias, rel_pos, weight, bias, eco_a) => (y) {{
            sum = Add (query, query_bias)
            head_shape = Constant <value_ints = [0, 0, {heads}, -1]> ()
            rows = Reshape (sum, head_shape)
            of_heads = Transpose <perm = [0, 2, 1, 3]> (rows)
            product = MatMul (of_heads, weight)
            linear = Add (product, bias)
            gate_shape = Constant <value_ints = [0, 0, 0, 2, -1]> ()
            parts = Reshape (linear, gate_shape)
            axis = Constant <value_ints = [4]> ()
            sums = ReduceSum <keepdims = 0> (parts, axis)
            gates = Sigmoid (sums)
            u, r = Split <axis = 3, num_outputs = 2> (gates)
            scaled = Mul (r, eco_a)
            one_float = Constant <value_float = 1.0> () one = CastLike (one_float, scaled)
            two_float = Constant <value_float = 2.0> () two = CastLike (two_float, scaled)
            less = Sub (scaled, one)
            product_of_gates = Mul (u, less)
            gate = Add (product_of_gates, two)
            y = Mul (gate, rel_pos)
        }}"
    ))
}
