use super::{flex::FlexAttention, linear::LinearAttention, rotary::RotaryEmbedding, *};
use crate::ops::testing::{Given, check, tensor};
use DType::{BF16, Bool, F16, F32, F64, I64};

fn heads(q: i64, kv: i64) -> Attention {
    Attention { heads: [Some(q), Some(kv)], ..Attention::default() }
}

/// Queries, keys and values of four axes and unknown lengths.
fn four_axes() -> Vec<Given> {
    let (b, s, t) = (Dim::symbol("b"), Dim::symbol("s"), Dim::symbol("t"));
    let size = |n: i64| Dim::from(n);
    vec![
        tensor(F32, [b.clone(), size(6), s, size(8)]),
        tensor(F32, [b.clone(), size(2), t.clone(), size(8)]),
        tensor(F32, [b, size(2), t, size(5)]),
    ]
}

#[test]
fn query_heads_share_key_heads() {
    check(Attention::default(), &four_axes(), 1, "float[b, 6, s, 5]");
    check(
        heads(4, 2),
        &[tensor(F16, [1, 3, 32]), tensor(F16, [1, 7, 16]), tensor(F16, [1, 7, 6])],
        1,
        "float16[1, 3, 12]",
    );
}

#[test]
fn present_keys_and_scores_include_the_cache() {
    let mut inputs = four_axes();
    inputs.push(tensor(Bool, [Dim::symbol("s"), 3.into()]));
    inputs.push(tensor(F32, [Dim::symbol("b"), 2.into(), 3.into(), 8.into()]));
    inputs.push(tensor(F32, [Dim::symbol("b"), 2.into(), 3.into(), 5.into()]));
    check(
        Attention { is_causal: true, ..Attention::default() },
        &inputs,
        4,
        "float[b, 6, s, 5]; float[b, 2, t + 3, 8]; float[b, 2, t + 3, 5]; float[b, 6, s, t + 3]",
    );
}

#[test]
fn values_may_have_another_type_than_keys() {
    check(
        heads(2, 1),
        &[tensor(F16, [1, 3, 32]), tensor(F16, [1, 7, 16]), tensor(F64, [1, 7, 6])],
        3,
        "float16[1, 3, 12]; float16[1, 1, 7, 16]; double[1, 1, 7, 6]",
    );
}

#[test]
fn inputs_of_mismatched_shapes_are_errors() {
    let [q, k] = [|| tensor(F32, [1, 3, 32]), || tensor(F32, [1, 7, 16])];
    check(
        Attention::default(),
        &[q(), k(), k()],
        1,
        "inputs of three axes need `q_num_heads` and `kv_num_heads`",
    );
    check(
        heads(3, 2),
        &[tensor(F32, [1, 3, 24]), k(), k()],
        1,
        "the number of query heads and a multiple of the key heads must be equal, but are 3 and 2",
    );
    check(
        heads(4, 2),
        &[q(), k(), k(), Given::Nothing, tensor(F32, [1, 2, 5, 8])],
        1,
        "`past_key` and `past_value` must be given together",
    );
    check(
        heads(4, 2),
        &[q(), k(), k(), tensor(F32, [3, 8])],
        1,
        "the mask covers more keys than the inputs have: 7 is less than 8",
    );
    let lengths = tensor(I64, [2]);
    let nothing = || Given::Nothing;
    check(
        heads(4, 2),
        &[q(), k(), k(), nothing(), nothing(), nothing(), lengths],
        1,
        "the number of lengths and of sequences must be equal, but are 2 and 1",
    );
}

#[test]
fn probabilities_may_have_another_type() {
    for softmax_precision in [None, Some(F16), Some(F64)] {
        let op =
            FlexAttention { scale: None, softmax_precision, score_mod: false, prob_mod: false };
        check(op, &four_axes(), 1, "float[b, 6, s, 5]");
    }
}

#[test]
fn the_update_rule_determines_the_inputs() {
    let op = |rule| LinearAttention { q_num_heads: 4, kv_num_heads: 2, scale: 0.0, rule };
    let t = || Dim::symbol("t");
    let of = |dtype, size: i64| tensor(dtype, [Dim::from(1), t(), size.into()]);
    let inputs = || vec![of(BF16, 32), of(BF16, 16), of(BF16, 6)];
    let linear = 3;
    check(op(linear), &inputs(), 2, "bfloat16[1, t, 12]; bfloat16[1, 2, 8, 3]");
    check(op(0), &inputs(), 2, "the rule `gated_delta` needs input 4");
    let mut all = inputs();
    all.extend([tensor(F32, [1, 2, 8, 3]), of(BF16, 16), of(BF16, 1)]);
    check(op(0), &all, 2, "bfloat16[1, t, 12]; float[1, 2, 8, 3]");
    check(op(linear), &all, 2, "the rule `linear` does not take input 4");
}

#[test]
fn each_pair_has_one_angle() {
    let op = |num_heads, rotary_embedding_dim| RotaryEmbedding {
        interleaved: false,
        num_heads,
        rotary_embedding_dim,
    };
    let s = || Dim::symbol("s");
    let x = || tensor(F32, [2.into(), s(), 24.into()]);
    let angles = |n: i64| tensor(F32, [Dim::from(50), n.into()]);
    let places = || tensor(I64, [Dim::from(2), s()]);
    check(op(Some(3), 0), &[x(), angles(4), angles(4), places()], 1, "float[2, s, 24]");
    let each = || tensor(F32, [2.into(), s(), 3.into()]);
    check(op(Some(3), 6), &[x(), each(), each()], 1, "float[2, s, 24]");
    check(
        op(Some(3), 0),
        &[x(), angles(3), angles(3), places()],
        1,
        "the number of angles of a row and of its pairs must be equal, but are 3 and 4",
    );
    check(op(None, 0), &[x(), each(), each()], 1, "an input of three axes needs `num_heads`");
}
