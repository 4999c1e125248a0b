//! Attention, and products and slices among movements of data, are recognized in the spellings of
//! exporters.

use crate::recognition::{model, recognize, recognize_model, run};
use crate::recognized::{check_kernel, plan};

/// Two negations keep a pattern from matching, and change no number.
fn apart(model: &str, value: &str) -> String {
    let to = format!("minus = Neg({value}_0)  {value} = Neg(minus)");
    let (before, rest) = model.split_once(&format!("{value} = ")).expect("the value is there");
    let (node, after) = rest.split_once(['\n', '}']).expect("a node ends");
    format!("{before}{value}_0 = {node}\n{to}\n{after}")
}

const INPUTS: &str = "float[2, 3, 5, 4] q, float[2, 3, 7, 4] k, float[2, 3, 7, 4] v";
const SHAPES: [&[usize]; 3] = [&[2, 3, 5, 4], &[2, 3, 7, 4], &[2, 3, 7, 4]];

/// The transposition of keys as a batch of matrices, which the exporter of PyTorch writes.
const MERGED_KEYS: &str = "
    merge = Constant<value = int64[3] {-1, 7, 4}>()
    back = Constant<value = int64[4] {2, 3, 4, 7}>()
    matrices = Reshape(k, merge)
    swapped = Transpose<perm = [0, 2, 1]>(matrices)
    kt = Reshape(swapped, back)";

/// Returns attention with these nodes for the keys, the scores and the weights.
fn attention(keys: &str, scores: &str, weights: &str) -> String {
    format!(
        "{{ {keys}
    root = Constant<value = float {{0.7071}}>()
    zero = Constant<value = float {{0.0}}>()
    qs = Mul(q, root)
    ks = Mul(kt, root)
    products = MatMul(qs, ks)
    {scores}
    softmax = Softmax<axis = -1>(scores)
    {weights}
    y = MatMul(weights, v)
    }}"
    )
}

/// Requires that attention is recognized, with the results of the nodes.
fn check_attention(inputs: &str, body: &str, shapes: &[&[usize]]) {
    let text = recognize(inputs, body);
    assert!(text.contains("Attention") && !text.contains("Softmax"), "{text}");
    let apart = apart(body, "softmax");
    assert!(!recognize(inputs, &apart).contains("Attention"));
    let (one, other) = (run(&model(inputs, body), shapes), run(&model(inputs, &apart), shapes));
    let far = one.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(one.len() == other.len() && far < 1e-6, "{far}: {body}");
}

const PLAIN: &str = "scores = Identity(products)";
const UNGUARDED: &str = "weights = Identity(softmax)";
const GUARDED: &str = "is_nan = IsNaN(softmax)  weights = Where(is_nan, zero, softmax)";

#[test]
fn attention_is_recognized_with_keys_that_are_transposed_as_matrices() {
    check_attention(INPUTS, &attention(MERGED_KEYS, PLAIN, UNGUARDED), &SHAPES);
    check_attention(INPUTS, &attention(MERGED_KEYS, PLAIN, GUARDED), &SHAPES);
    // The matrices come from a transposition of other axes.
    let keys = "
    back = Constant<value = int64[4] {2, 3, 4, 7}>()
    matrices = Transpose<perm = [1, 0, 2]>(k)
    swapped = Transpose<perm = [0, 2, 1]>(matrices)
    kt = Reshape(swapped, back)";
    let inputs = INPUTS.replace("float[2, 3, 7, 4] k", "float[7, 6, 4] k");
    let shapes: [&[usize]; 3] = [SHAPES[0], &[7, 6, 4], SHAPES[2]];
    check_attention(&inputs, &attention(keys, PLAIN, GUARDED), &shapes);
    // Other matrices are no transposed keys.
    let wrong = MERGED_KEYS.replace("-1, 7, 4", "-1, 4, 7").replace("[0, 2, 1]", "[0, 1, 2]");
    let text = recognize(INPUTS, &attention(&wrong, PLAIN, UNGUARDED));
    assert!(!text.contains("Attention"), "{text}");
}

#[test]
fn attention_is_recognized_with_several_masks() {
    let inputs = format!("{INPUTS}, float[3, 5, 7] bias, float[1, 2, 1, 5, 7] mask");
    let shapes = [&SHAPES[..], &[&[3, 5, 7], &[1, 2, 1, 5, 7]]].concat();
    let longer = "
    more = Constant<value = int64[5] {1, 2, 3, 5, 7}>()
    less = Constant<value = int64[4] {2, 3, 5, 7}>()
    biased = Add(products, bias)
    windows = Reshape(biased, more)
    masked = Add(windows, mask)
    scores = Reshape(masked, less)";
    check_attention(&inputs, &attention(MERGED_KEYS, longer, UNGUARDED), &shapes);
    let inputs = format!("{INPUTS}, float[3, 5, 7] bias, float[7] mask");
    let shapes = [&SHAPES[..], &[&[3, 5, 7], &[7]]].concat();
    let scores = "biased = Add(bias, products)  scores = Add(biased, mask)";
    check_attention(&inputs, &attention(MERGED_KEYS, scores, GUARDED), &shapes);
}

#[test]
fn a_guarded_query_without_keys_gives_zeros() {
    let inputs = format!("{INPUTS}, float[5, 7] mask");
    let hidden = "none = Sub(mask, mask)  hidden = Log(none)  scores = Add(products, hidden)";
    let body = attention(MERGED_KEYS, hidden, GUARDED);
    assert!(recognize(&inputs, &body).contains("Attention"));
    let shapes = [&SHAPES[..], &[&[5, 7]]].concat();
    assert_eq!(run(&model(&inputs, &body), &shapes), [0.0; 120]);
}

#[test]
fn attention_that_broadcasts_its_batches_or_heads_stays_apart() {
    let body = attention("kt = Transpose<perm = [0, 1, 3, 2]>(k)", PLAIN, UNGUARDED);
    let of = |q: &str, keys: &str| {
        let keys = format!("float[{keys}, 7, 4] k, float[{keys}, 7, 4] v");
        let text = model(&format!("float[{q}, 5, 4] q, {keys}"), &body);
        text.replace(&format!("=> (float[{q}, 5, 4] y)"), "=> (float[a, b, 5, 4] y)")
    };
    for (q, keys) in [("1, 3", "n, 3"), ("n, 3", "1, 3"), ("n, 3", "m, 3"), ("2, 1", "2, n")] {
        let text = recognize_model(of(q, keys));
        assert!(!text.contains("Attention"), "{text}");
    }
    assert!(recognize_model(of("n, m", "n, m")).contains("Attention"));
    // A query for all batches gives a result for each.
    let (query, batches) = ([1, 3, 5, 4], [2, 3, 7, 4]);
    assert_eq!(run(&of("1, 3", "n, 3"), &[&query, &batches, &batches]).len(), 120);
}

/// Returns a model with these nodes, whose result has other sizes than its input.
fn from_input(input: &str, output: &str, body: &str) -> String {
    let types = format!("(float[{input}] x) => (float[{output}] y)");
    format!("<ir_version: 10, opset_import: [\"\" : 18]>\nmodel {types} {{\n{body}\n}}")
}

#[test]
fn a_product_of_channels_is_a_convolution() {
    let weights = (1..=12).map(|n| format!("{}.5", n % 5)).collect::<Vec<_>>().join(", ");
    let body = format!(
        "w = Constant<value = float[3, 4] {{{weights}}}>()
    b = Constant<value = float[4] {{1.0, -2.0, 0.5, 3.0}}>()
    last = Transpose<perm = [0, 2, 3, 1]>(x)
    product = MatMul(last, w)
    sum = Add(product, b)
    y = Transpose<perm = [0, 3, 1, 2]>(sum)"
    );
    let model = from_input("2, 3, 5, 7", "2, 4, 5, 7", &body);
    check_kernel("conv_f32", &model, &apart(&model, "sum"), &[&[2, 3, 5, 7]]);
}

#[test]
fn two_slices_in_the_other_order_are_a_roll() {
    let body = "zero = Constant<value = int64[1] {0}>()
    two = Constant<value = int64[1] {2}>()
    far = Constant<value = int64[1] {9999}>()
    axis = Constant<value = int64[1] {1}>()
    end = Slice(x, two, far, axis)
    start = Slice(x, zero, two, axis)
    y = Concat<axis = 1>(end, start)";
    let model = from_input("2, 5, 3", "2, 5, 3", body);
    check_kernel("slice::roll", &model, &apart(&model, "end"), &[&[2, 5, 3]]);
    // The slices overlap.
    let overlapping = model.replace("end = Slice(x, two", "end = Slice(x, axis");
    let overlapping = overlapping.replace("2, 5, 3] y", "2, 6, 3] y");
    assert!(!plan(&overlapping).contains("slice::roll"), "{overlapping}");
}

#[test]
fn a_convolution_of_patches_with_channels_last_is_a_product() {
    let weights = (0..3 * 2 * 3 * 2).map(|n| format!("{}.25", n % 7)).collect::<Vec<_>>();
    let weights = weights.join(", ");
    let conv = format!(
        "w = Constant<value = float[3, 2, 3, 2] {{{weights}}}>()
    b = Constant<value = float[3] {{1.0, -2.0, 0.5}}>()
    images = Conv<strides = [3, 2]>(x, w, b)"
    );
    let last = format!("{conv}\n    y = Transpose<perm = [0, 2, 3, 1]>(images)");
    let merged = format!(
        "{conv}\n    sizes = Constant<value = int64[3] {{2, 3, 8}}>()
    rows = Reshape(images, sizes)\n    y = Transpose<perm = [0, 2, 1]>(rows)"
    );
    for (output, body) in [("2, 2, 4, 3", last), ("2, 8, 3", merged)] {
        let model = from_input("2, 2, 6, 8", output, &body);
        let apart = apart(&model, "images");
        let text = plan(&model);
        assert!(text.contains("gemm") && !text.contains("conv"), "{text}");
        assert!(plan(&apart).contains("conv"));
        let shapes: &[&[usize]] = &[&[2, 2, 6, 8]];
        let (found, expected) = (run(&model, shapes), run(&apart, shapes));
        let far = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(found.len() == expected.len() && far < 1e-5, "{far}: {model}");
        // A row of the image is left over.
        let uneven = model.replace("2, 2, 6, 8] x", "2, 2, 7, 8] x");
        assert!(plan(&uneven).contains("conv"), "{uneven}");
    }
}

/// Returns attention of packed queries, keys and values `[2, 5, 3 · 2 · 3]`.
fn packed_attention(parts: &str) -> String {
    let body = format!(
        "split = Constant<value = int64[5] {{2, 5, 3, 2, 3}}>()
    scale = Constant<value = float {{0.5}}>()
    zero = Constant<value = int64 {{0}}>()
    one = Constant<value = int64 {{1}}>()
    last = Constant<value = int64 {{-1}}>()
    zeros = Constant<value = int64[1] {{0}}>()
    ones = Constant<value = int64[1] {{1}}>()
    twos = Constant<value = int64[1] {{2}}>()
    threes = Constant<value = int64[1] {{3}}>()
    apart = Reshape(x, split)
    packed = Transpose<perm = [2, 0, 3, 1, 4]>(apart)
    {parts}
    kt = Transpose<perm = [0, 1, 3, 2]>(k)
    qs = Mul(q, scale)
    scores = MatMul(qs, kt)
    softmax = Softmax<axis = -1>(scores)
    heads = MatMul(softmax, v)
    y = Transpose<perm = [0, 2, 1, 3]>(heads)"
    );
    from_input("2, 5, 18", "2, 5, 2, 3", &body)
}

#[test]
fn attention_reads_packed_operands_in_place() {
    let gathers = "q = Gather(packed, zero)  k = Gather(packed, one)  v = Gather(packed, last)";
    let slices = "
    q1 = Slice(packed, zeros, ones, zeros)  q = Squeeze(q1, zeros)
    k1 = Slice(packed, ones, twos, zeros)  k = Squeeze(k1, zeros)
    v1 = Slice(packed, twos, threes, zeros)  v = Squeeze(v1, zeros)";
    for parts in [gathers, slices] {
        let model = packed_attention(parts);
        let apart = apart(&model, "softmax");
        check_kernel("attention_f32", &model, &apart, &[&[2, 5, 18]]);
    }
    // A batch without sequences has no elements before its keys.
    let free = packed_attention(gathers).replace("[5] {2, 5", "[5] {0, 5");
    let free = free.replace("2, 5, 18] x", "n, 5, 18] x").replace("2, 5, 2, 3] y", "n, 5, 2, 3] y");
    assert!(plan(&free).contains("attention_f32"), "{free}");
    assert!(run(&free, &[&[0, 5, 18]]).is_empty());
    // An index with an axis keeps the axis of the parts.
    let kept = gathers.replace("Gather(packed, zero)", "Gather(packed, zeros)");
    let kept = packed_attention(&kept.replace("  k =", "  q5 = Identity(q)  k ="));
    let kept = kept
        .replace("2, 5, 2, 3] y", "1, 2, 5, 2, 3] y")
        .replace("[0, 2, 1, 3]>(heads)", "[0, 1, 3, 2, 4]>(heads)");
    assert!(!plan(&kept).contains("attention_f32"), "{kept}");
}
