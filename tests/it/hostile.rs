//! Models that ask for too much, and inputs of types that no kernel takes: errors, never a panic.

use onnxc::{Compiler, Options, interpreter, plan::Step, tensor::Tensor};
use onnxc_runtime::Error;

/// Returns the first error of a model with this interface, constants and nodes.
fn first_error(graph: &str) -> String {
    let opsets = r#""" : 21, "ai.onnx.ml" : 4, "com.microsoft" : 1,
        "ai.onnx.preview.training" : 1"#;
    let text = format!("<ir_version: 10, opset_import: [{opsets}]> g {graph}");
    let found = Compiler::new(&Options::default()).compile_bytes(text.into(), "model");
    let diagnostics = found.err().unwrap_or_else(|| panic!("no error: {graph}"));
    diagnostics.0[0].to_string()
}

fn assert_error(graph: &str, expected: &[&str]) {
    let found = first_error(graph);
    for part in expected {
        assert!(found.contains(part), "{graph}: {found:?} does not contain {part:?}");
    }
}

#[test]
fn a_list_of_axes_is_no_longer_than_the_rank_limit() {
    for n in ["100000", "2147483648", "9223372036854775807"] {
        for nodes in [
            "(float[2] x, int64[N] s) => (y) { y = Expand (x, s) }",
            "(float[2] x, int64[N] s) => (y) { y = Reshape (x, s) }",
            "(float[2] x, int64[N] s) => (y) { y = Slice (x, s, s) }",
            "(float[2] x, int64[N] s) => (y) { y = Unsqueeze (x, s) }",
            "(float[2] x, int64[N] s) => (y) { y = Squeeze (x, s) }",
            "(float[2] x, int64[N] s) => (y) { y = Tile (x, s) }",
            "(float[2] x, int64[N] s) => (y) { y = Pad (x, s) }",
            "(int64[N] s) => (y) { y = ConstantOfShape (s) }",
        ] {
            assert_error(&nodes.replace('N', n), &["E0302", &format!("lists {n} axes")]);
        }
    }
}

#[test]
fn a_split_has_no_more_parts_than_the_limit() {
    let graph = "(float[2] x, int64[2147483648] s) => (y) { y = Split<axis = 0> (x, s) }";
    assert_error(graph, &["E0302", "2147483648 sizes"]);
}

#[test]
fn nodes_cannot_multiply_the_number_of_axes_without_end() {
    let gathers: Vec<String> =
        (0..40).map(|i| format!("x{} = Gather (x{i}, x{i})", i + 1)).collect();
    let graph = format!("(int64[1, 1, 1] x0) => (x40) {{ {} }}", gathers.join(" "));
    assert_error(&graph, &["E0302", "axes; a tensor has at most 256"]);
}

#[test]
fn a_pattern_with_many_states_is_refused() {
    let graph = "(string[2] x) => (y) {
        y = RegexFullMatch<pattern = \"((a{1000}){1000}){1000}\"> (x)
    }";
    assert_error(graph, &["E0301", "this many states"]);
}

#[test]
fn a_product_with_a_single_number_is_an_error() {
    for (a, b) in [("", "[3, 2]"), ("[2, 3]", ""), ("", "")] {
        for of_each in ["", "[1]", "[2]", "[1, 1]"] {
            let graph = format!(
                "(uint8{a} a, float{of_each} s, uint8{of_each} z, uint8{b} b, float t, uint8 o)
                    => (y) {{ y = QLinearMatMul (a, s, z, b, s, z, t, o) }}"
            );
            assert_error(&graph, &["E0202", "an operand has no axes"]);
            let graph = format!(
                "(uint8{a} a, uint8{b} b, uint8{of_each} z) => (y) {{
                    y = MatMulInteger (a, b, z, z)
                }}"
            );
            assert_error(&graph, &["E0202", "an operand has no axes"]);
        }
    }
}

#[test]
fn features_have_rows_in_every_input() {
    for axes in ["", "[1, 2, 2]"] {
        let graph = format!(
            "(float[1, 1] x, float{axes} z) => (y) {{
                y = ai.onnx.ml.FeatureVectorizer<inputdimensions = [3, 2]> (x, z)
            }}"
        );
        assert_error(&graph, &["E0202", "input 1 must have 1 or 2 axes"]);
    }
}

#[test]
fn a_tensor_of_several_elements_does_not_become_a_single_number() {
    let squeezed = "(float[3] x, int64[1] a) => (y) { y = Squeeze (x, a) }";
    assert_error(squeezed, &["E0202", "are 3 and 1"]);
    let squeezed = "(float[1, 1] x, int64[3] a) => (y) { y = Squeeze (x, a) }";
    assert_error(squeezed, &["E0202", "more axes than the 2"]);
    // A size of 0 that makes no sense is read as unknown.
    for graph in [
        "(float[3] x, int64[0] s) => (y) { y = Reshape (x, s) }",
        "(int64[0] x) => (y) { y = Reshape (x, x) }",
    ] {
        assert_error(graph, &["E0204", "how many axes `y` has"]);
    }
}

#[test]
fn a_tensor_is_padded_with_a_single_number() {
    let graph = "(float[3] x, float[5] v) => (y) <int64[2] p = {0, 1}> { y = Pad (x, p, v) }";
    assert_error(graph, &["E0202", "the value has at most one element"]);
}

#[test]
fn sizes_that_exceed_64_bits_are_errors() {
    let graph = "(float[2, 4611686018427387904] x) => (y) {
        a = Sign (x)
        y = Concat<axis = -1> (a, a)
    }";
    assert_error(graph, &["E0302"]);
    let graph = "(float[2, 1] x) => (y) {
        y = ai.onnx.ml.FeatureVectorizer<inputdimensions = [9223372036854775807,
            9223372036854775807, 9223372036854775807]> (x, x, x)
    }";
    assert_error(graph, &["E0302"]);
}

#[test]
fn the_lengths_of_scanned_sequences_are_one_for_each_of_the_batch() {
    for (lengths, message) in [("2", "the sizes of the batch"), ("1, 0", "one axis")] {
        let text = format!(
            "<ir_version: 3, opset_import: [\"\" : 8]>
            g (int64[{lengths}] n, float[1, 2] s, float[1, 3] x) => (y, z) {{
                y, z = Scan <num_scan_inputs = 1, body = b (a, e) => (c, d)
                    {{ c = Identity (a) d = Identity (e) }}> (n, s, x)
            }}"
        );
        let plan = Compiler::new(&Options::default()).plan(text.into_bytes().into());
        let error = plan.err().expect("the model is refused").to_string();
        assert!(error.contains("E0202") && error.contains(message), "{error}");
    }
}

#[test]
fn the_columns_of_grams_are_bounded() {
    let graph = "(int64[3] x) => (y) {
        y = TfIdfVectorizer<mode = \"TF\", min_gram_length = 1, max_gram_length = 1,
            max_skip_count = 0, ngram_counts = [0], ngram_indexes = [9223372036854775807],
            pool_int64s = [4]> (x)
    }";
    assert_error(graph, &["9223372036854775807", "below 2147483648"]);
}

#[test]
fn a_window_with_a_mask_has_no_more_places_than_the_limit() {
    for side in ["33", "4294967296"] {
        let graph = format!(
            "(float[1, 1, 40, 40] x, int32[1, 1, 40, 40] m) => (y) {{
                y = com.microsoft.MaxpoolWithMask<kernel_shape = [{side}, {side}]> (x, m)
            }}"
        );
        assert_error(&graph, &["E0302", "more than 1024 places"]);
    }
}

#[test]
fn a_window_has_no_more_places_than_the_limit() {
    let half = 1 << 29;
    for op in ["MaxPool", "AveragePool", "LpPool"] {
        for (image, sides, pads) in [
            ("4, 4", format!("{0}, {0}", 2 * half), format!("{half}, {half}, {half}, {half}")),
            ("4", format!("{}", 2 * half), format!("{half}, {half}")),
        ] {
            let graph = format!(
                "(float[1, 1, {image}] x) => (y) {{
                    y = {op}<kernel_shape = [{sides}], pads = [{pads}]> (x)
                }}"
            );
            assert_error(&graph, &["E0302", "more than 16777216 places"]);
        }
    }
}

#[test]
fn the_type_of_an_input_is_one_that_the_operator_allows() {
    let cases = [
        (
            "(float[1, 5, 5] x, float[2] s, int16[2] b) => (y) { y = Col2Im (x, s, b) }",
            ["input 1, `image_shape`, is of type float", "allowed: int64"],
        ),
        (
            "(float[2, 6] x, float[2] s) => (y, z) { y, z = Split<axis = 1> (x, s) }",
            ["input 1, `split`, is of type float", "allowed: int64"],
        ),
        (
            "(seq(int64[n]) s, int64[3] t) => (y) { y = SequenceInsert (s, t, s) }",
            ["input 2, `position`, is of type seq(int64)", "allowed: int32, int64"],
        ),
        (
            "(seq(uint4[n]) s) => (y) { y = Identity (s) }",
            ["input 0, `input`, is of type seq(uint4)", "seq(uint8)"],
        ),
    ];
    for (graph, expected) in cases {
        assert_error(graph, &["E0201", expected[0], expected[1]]);
    }
}

#[test]
fn a_large_table_is_computed_at_run_time() {
    let text = "<ir_version: 10, opset_import: [\"\" : 21]>
        g (float[1, 2] x) => (y) <int64[2] s = {1, 16000001}> {
            y = Resize<mode = \"nearest\"> (x, \"\", \"\", s)
        }";
    let compiled = Compiler::new(&Options::default()).compile_bytes(text.into(), "model");
    let compiled = compiled.expect("the model is valid");
    assert!(compiled.module.code.contains("nearest_table"), "{}", compiled.module.code);
    assert!(compiled.plans.infer().weight_bytes < 1 << 20);
}

#[test]
fn a_run_that_asks_for_more_than_all_memory_is_an_error() {
    let text = "<ir_version: 10, opset_import: [\"\" : 21]>
        g (int32[1, 3, 4, 5] x, int64[8] p) => (y) { y = Pad<mode = \"constant\">(x, p) }";
    let plan = Compiler::new(&Options::default()).plan(text.into()).expect("the model is valid");
    let x = Tensor::from_raw(onnxc::dtype::DType::I32, vec![1, 3, 4, 5], vec![0; 240].into());
    for added in [1 << 57, 1 << 60] {
        let pads = Tensor::from_ints(&[0, 0, 0, 0, 0, 0, 0, added]);
        let found = interpreter::run(&plan, &[x.clone().into(), pads.into()]);
        assert!(matches!(found, Err(Error::Memory { .. })), "{found:?}");
    }
}

#[test]
fn a_signal_has_no_more_axes_than_the_rank_limit() {
    for op in ["Rfft", "Irfft"] {
        for axes in ["0", "257", "9223372036854775807"] {
            let attributes = format!("onesided = 1, normalized = 0, signal_ndim = {axes}");
            let graph = format!(
                "(float[2, 4, 2] x) => (y) {{ y = com.microsoft.{op} <{attributes}> (x) }}"
            );
            assert_error(&graph, &["`signal_ndim` is", "must be from 1 to 256"]);
        }
    }
}

#[test]
fn a_mixture_of_too_many_experts_is_an_error() {
    let graph = "(float[2, 4] x, float[2, N] r, float[N, 4, 4] a, float[N, 4, 4] b) => (y) {
        y = com.microsoft.MoE <k = 1> (x, r, a, \"\", b) }";
    for n in ["4097", "2147483648"] {
        let expected = format!("there are {n} experts; onnxc takes up to 4096");
        assert_error(&graph.replace('N', n), &["E0302", &expected]);
    }
}

#[test]
fn an_input_that_is_one_number_has_one_element() {
    let cases = [
        ("(float[3] x, int64[n] i) => (y) { s = SequenceConstruct (x) y = SequenceAt (s, i) }", 1),
        (
            "(float[3] x, int64[n] i) => (y) {
                s = SequenceConstruct (x) t = SequenceInsert (s, x, i) y = SequenceLength (t) }",
            2,
        ),
        (
            "(float[3] x, int64[n] i) => (y) {
                s = SequenceConstruct (x) t = SequenceErase (s, i) y = SequenceLength (t) }",
            1,
        ),
        ("(float[3] x, int64[n] i) => (y) { y = CumSum (x, i) }", 1),
        ("(float[3, 3] x, int64[n] i) => (y) { y = Trilu (x, i) }", 1),
        ("(float[6] x, int64[n] i) => (y) { y, at = TopK (x, i) }", 1),
        ("(float[1, 4, 2] x, int64[n] i) => (y) { y = DFT (x, \"\", i) }", 2),
        (
            "(float[1, 6, 4] b, int64[n] i, float[1, 1, 6] s) => (y) {
                y = NonMaxSuppression (b, s, i) }",
            2,
        ),
        (
            "(float[3] x, bool[n] i) => (y) { y = If <
                then_branch = a () => (float[3] p) { p = Neg (x) },
                else_branch = b () => (float[3] q) { q = Abs (x) }> (i) }",
            0,
        ),
    ];
    for (graph, input) in cases {
        let fixed = graph.replace("[n]", "[2]");
        let message = format!("input {input} must have one element, but has 2");
        assert_error(&fixed, &["E0202", &message]);
        let text = format!("<ir_version: 10, opset_import: [\"\" : 21]> g {graph}");
        let compiled = Compiler::new(&Options::default()).compile_bytes(text.into(), "model");
        let code = compiled.expect(graph).module.code;
        assert!(code.contains(&format!("the number of elements of input {input} and 1")), "{code}");
    }
}

#[test]
fn a_loop_over_an_empty_tensor_ends() {
    let text = "<ir_version: 10, opset_import: [\"\" : 21]>
        g (float[576460752303423488, 0] x) => (y, z) {
            y = Scan<num_scan_inputs = 1, body = b (float[0] v) => (float[0] w) { w = Neg (v) }> (x)
            z = ReduceSum<keepdims = 0> (y)
        }";
    let plan = Compiler::new(&Options::default()).plan(text.into()).expect("the model is valid");
    assert!(!plan.steps.iter().any(|step| matches!(step, Step::Loop(_))));
}

#[test]
fn a_gradient_that_cannot_be_expressed_is_an_error() {
    let graph = "(float[3, 2, n, 3] w) => (loss, g) <int64[4] s = {1, 2, 2, 2}> {
        x = ConstantOfShape (s) y = Conv (x, w) loss = ReduceSum<keepdims = 0> (y)
        g = ai.onnx.preview.training.Gradient<xs = [\"w\"], y = \"loss\"> (w)
    }";
    assert_error(graph, &["gradient"]);
}

#[test]
fn attributes_do_not_become_lists_without_a_limit() {
    let graph = "(map(int64, float) x) => (y) {
        y = ai.onnx.ml.CastMap<cast_to = \"TO_FLOAT\", map_form = \"SPARSE\",
            max_map = 8589934592> (x) }";
    assert_error(graph, &["E0302", "keys of a map"]);
    let graph = "(float[2, 3] x, float[3] s) => (y, i) {
        y, i = SimplifiedLayerNormalization<axis = -9223372036854775808> (x, s) }";
    assert_error(graph, &["E0113", "there are 2 axes"]);
    let graph = "(float[1, 1, 4, 4] x, float[1, 4] r, int64[1] i) => (d) {
        y = RoiAlign<output_height = 2, output_width = 2, sampling_ratio = 1073741824> (x, r, i)
        d = ai.onnx.preview.training.Gradient<xs = [\"r\"], zs = [\"x\", \"i\"], y = \"y\">
            (r, x, i)
    }";
    assert_error(graph, &["E0302", "samples along an axis"]);
}

#[test]
fn a_constant_that_costs_much_work_is_computed_in_each_run() {
    let text = "<ir_version: 10, opset_import: [\"\" : 21]>
        g () => (y) <float[1, 1, 1, 1] x = {1}, float[1, 4] r = {0, 0, 1, 1}, int64[1] i = {0}> {
            y = RoiAlign<sampling_ratio = 1048576> (x, r, i)
        }";
    let plan = Compiler::new(&Options::default()).plan(text.into()).expect("the model is valid");
    assert!(plan.steps.iter().any(|step| matches!(step, Step::Call(_))));
}
