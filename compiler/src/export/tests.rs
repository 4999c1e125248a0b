//! Tests that write graphs and read them again.

use super::*;
use crate::{Compiler, Options, import};
use onnxc_proto::{Bytes, GraphProto, Message};

/// Returns the text of a model after optimization, without its header.
fn optimized(text: &str) -> String {
    let graph =
        Compiler::new(&Options::default()).optimize(Bytes::copy_from_slice(text.as_bytes()));
    let model =
        model(&graph.expect("the model is valid")).expect("every operator has a form in ONNX");
    let bytes = Bytes::from(model.encode_to_vec());
    let again = Compiler::new(&Options::default()).import(bytes);
    assert!(again.is_ok(), "{}", again.err().expect("the result is an error"));
    let text = import::print::model(&model, 16);
    text.split_once("\n>\n").map_or(text.clone(), |(_, rest)| rest.to_owned())
}

fn check(text: &str, lines: &[&str]) {
    let found = optimized(text);
    for line in lines {
        assert!(found.lines().any(|found| found.trim() == *line), "{line}\nis not in\n{found}");
    }
}

#[test]
fn constants_are_folded() {
    check(
        r#"<ir_version: 10, opset_import: ["" : 21]>
        g (float[N, 4] x) => (float[N, 4] y) <float[1] a = {2}, float[1] b = {3}>
        { c = Mul (a, b)  unused = Exp (x)  d = Identity (x)  y = Mul (d, c) }"#,
        &["g (float[N, 4] x) => (float[N, 4] y)", "float[1] c = {6.0}", "y = Mul (x, c)"],
    );
}

#[test]
fn equal_constants_are_written_once() {
    let found = optimized(
        r#"<ir_version: 10, opset_import: ["" : 21]>
        g (float[2] x) => (float[2] y, float[2] b)
        <float[2] a = {2, 3}, float[2] b = {2, 3}, int32[2] c = {2, 3}>
        {
            s = Add (x, a)  t = Mul (s, b)  i = Cast <to = 6> (t)
            j = Add (i, c)  y = Cast <to = 1> (j)
        }"#,
    );
    assert_eq!(found.matches("{2.0, 3.0}").count(), 1, "{found}");
    assert_eq!(found.matches("{2, 3}").count(), 1, "{found}");
}

#[test]
fn outputs_keep_their_names() {
    check(
        r#"<ir_version: 10, opset_import: ["" : 21]>
        g (float[2] x) => (float[2] a, float[2] b, float[2] c, float[1] d) <float[1] w = {1}>
        { a = Abs (x)  b = Identity (a)  c = Identity (x)  d = Neg (w) }"#,
        &["a = Abs (x)", "b = Identity (a)", "c = Identity (x)", "d = Identity (w)"]
            .map(|line| line.replace("(w)", "(d_2)"))
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>(),
    );
}

#[test]
fn old_forms_are_upgraded() {
    check(
        r#"<ir_version: 3, opset_import: ["" : 9]>
        g (float[2, 3, 4] x) => (float[2, 4] y) { y = ReduceSum <axes = [1], keepdims = 0> (x) }"#,
        &[
            "int64[1] axes = {1}",
            "y = ReduceSum <keepdims = 0, noop_with_empty_axes = 0> (x, axes)",
        ],
    );
}

#[test]
fn subgraphs_and_their_names_survive() {
    check(
        r#"<ir_version: 10, opset_import: ["" : 21]>
        g (bool c, float[2] x) => (float[2] y) {
            y = If (c) <
                then_branch = t () => (float[2] v) { v = Abs (x) },
                else_branch = e () => (float[2] v) { v = Identity (x) }
            >
        }"#,
        &["then_branch = t () => (float[2] v)", "else_branch = e () => (float[2] x_2)"],
    );
}

#[test]
fn operators_that_stand_for_others_are_written_as_they_were_read() {
    check(
        r#"<ir_version: 10, opset_import: ["" : 21, "ai.onnx.ml" : 4]>
        g (string[2] x) => (int64[2] y) {
            y = ai.onnx.ml.LabelEncoder <keys_strings = ["a"], values_int64s = [7]> (x)
        }"#,
        &["y = ai.onnx.ml.LabelEncoder <keys_strings = [\"a\"], values_int64s = [7]> (x)"],
    );
}

#[test]
fn nodes_keep_their_documentation_and_metadata() {
    let text =
        "<ir_version: 10, opset_import: [\"\" : 21]> g (float x) => (float y) { y = Abs (x) }";
    let mut model_proto = import::text::model(text).expect("the text is valid");
    let graph = model_proto.graph.as_mut().expect("the model has a graph");
    graph.node[0].doc_string = Some("why".into());
    graph.input[0].doc_string = Some("what".into());
    let bytes = Bytes::from(model_proto.encode_to_vec());
    let graph = Compiler::new(&Options::default()).optimize(bytes).expect("the model is valid");
    let written = model(&graph)
        .expect("every operator has a form in ONNX")
        .graph
        .expect("the model has a graph");
    assert_eq!((written.node[0].doc_string(), written.input[0].doc_string()), ("why", "what"));
}

#[test]
fn large_tensors_move_into_a_file_of_their_own() {
    let zeros = vec!["0"; 600].join(", ");
    let text = format!(
        "<ir_version: 10, opset_import: [\"\" : 21]> g (float[600] x) => (float[600] y) \
         <float[600] a = {{{zeros}}}, float[600] b = {{{zeros}}}> \
         {{ c = Add (x, a) y = Mul (c, b) }}"
    );
    let graph =
        Compiler::new(&Options::default()).optimize(Bytes::from(text)).expect("the model is valid");
    let mut written = model(&graph).expect("every operator has a form in ONNX");
    assert!(move_out(&mut written, "w.data", LARGEST_FILE).is_none());
    let weights =
        move_out(&mut written, "w.data", 1000).expect("the model is larger than the limit");
    let mut file = Vec::new();
    weights.write(&mut file).expect("memory can be written");
    assert_eq!((file.len(), written.encoded_len() < 1000), (4096 + 2400, true));
}

/// Optimizes a model whose message `change` changes, and returns its graph.
fn annotated(text: &str, types: Types, change: impl FnOnce(&mut ModelProto)) -> GraphProto {
    let mut read = import::text::model(text).expect("the text is valid");
    change(&mut read);
    let bytes = Bytes::from(read.encode_to_vec());
    let options = Options::default();
    let model = Compiler::new(&options).optimize_model_with(bytes, types);
    let model = model.unwrap_or_else(|all| panic!("{all}"));
    assert_eq!(verify(&model), Ok(()));
    model.graph.expect("the model has a graph")
}

#[test]
fn annotations_stay_with_values_that_no_pass_changes() {
    let text = r#"<ir_version: 10, opset_import: ["" : 21]>
        g (float[2] x) => (float[2] y)
        <float[2] w = {1, 2}, float s = {0.5}, float t = {2}, float[2] m, float[2] r, float[2] c>
        { m = Mul (x, w) i = Identity (m) r = Relu (i) c = Add (w, w) y = Add (r, c) }"#;
    let entry = |key: &str, value: &str| onnxc_proto::StringStringEntryProto {
        key: Some(key.to_owned()),
        value: Some(value.to_owned()),
    };
    let names = ["x", "m", "r", "c", "w", "y", "lost"];
    let written = annotated(text, Types::Needed, |model| {
        model.doc_string = Some("model".into());
        let graph = model.graph.as_mut().expect("the model has a graph");
        graph.doc_string = Some("graph".into());
        graph.metadata_props.push(entry("of", "graph"));
        let values = graph.input.iter_mut().chain(&mut graph.output).chain(&mut graph.value_info);
        for value in values {
            let name = entry("of", value.name());
            value.metadata_props.push(name);
        }
        graph.initializer[0].doc_string = Some("weights".into());
        for name in names {
            let scale = if name == "y" { "t" } else { "s" };
            graph.quantization_annotation.push(onnxc_proto::TensorAnnotation {
                tensor_name: Some(name.into()),
                quant_parameter_tensor_names: vec![entry("SCALE_TENSOR", scale)],
            });
        }
    });
    assert_eq!((written.doc_string(), written.metadata_props[0].value()), ("graph", "graph"));
    let values = written.input.iter().chain(&written.output).chain(&written.value_info);
    let said = values.filter(|value| !value.metadata_props.is_empty());
    // `Relu` has another input, and `c` is a constant.
    assert_eq!(said.map(|value| value.name()).collect::<Vec<_>>(), ["x", "y", "m"]);
    let annotations = written.quantization_annotation.iter();
    let kept: Vec<&str> = annotations.map(|annotation| annotation.tensor_name()).collect();
    assert_eq!(kept, ["x", "m", "w", "y"]);
    let tensors = written.initializer.iter();
    let tensors: Vec<_> = tensors.map(|tensor| (tensor.name(), tensor.doc_string())).collect();
    assert_eq!(tensors, [("w", "weights"), ("c", ""), ("s", ""), ("t", "")]);
}

#[test]
fn declared_types_are_kept_where_nothing_else_tells_them() {
    let listed = r#"<ir_version: 10, opset_import: ["" : 21]>
        g (float[2, 3] x, int64[n] s) => (float[a, b] y) <float[a, b] r, float[2, 3] m>
        { m = Neg (x) r = Reshape (m, s) y = Relu (r) }"#;
    let names = |text: &str, types: Types| -> Vec<String> {
        let values = annotated(text, types, |_| ()).value_info;
        values.iter().map(|value| value.name().to_owned()).collect()
    };
    assert_eq!(names(listed, Types::Needed), ["r"]);
    assert_eq!(names(listed, Types::All), ["m", "r"]);
    let split = r#"<ir_version: 10, opset_import: ["" : 21]>
        g (float[n, 3] x) => (float[3] y) <float[3] r, float[3] q>
        { r = Squeeze (x) q = Neg (r) y = Relu (q) }"#;
    assert_eq!(names(split, Types::All), ["r", "q"]);
}

/// Checks that the optimized form of a model is valid, and has these lines.
fn check_valid(text: &str, lines: &[&str]) {
    let model =
        Compiler::new(&Options::default()).optimize_model(Bytes::copy_from_slice(text.as_bytes()));
    let model = model.unwrap_or_else(|all| panic!("{all}"));
    assert_eq!(verify(&model), Ok(()));
    let text = import::print::model(&model, 16);
    for line in lines {
        assert!(text.lines().any(|found| found.trim() == *line), "{line}\nis not in\n{text}");
    }
}

#[test]
fn an_omitted_input_that_the_operator_counts_is_empty() {
    check_valid(
        r#"<ir_version: 10, opset_import: ["" : 21]> g (float[64] p, int64 t) => (y)
        { y = Loop(t, "") <body = b (int64 i, bool c) => (d, r) { d = Identity(c) r = Neg(p) }> }"#,
        &["y = Loop (t, \"\") <"],
    );
}

#[test]
fn an_output_may_be_an_input_and_may_be_listed_twice() {
    check_valid(
        r#"<ir_version: 10, opset_import: ["" : 21]>
        g (float[2] x) => (float[2] x, float[2] y, float[2] x, float[2] y) { y = Neg (x) }"#,
        &["g (float[2] x) => (float[2] x, float[2] y, float[2] x, float[2] y)", "y = Neg (x)"],
    );
}

#[test]
fn unread_outputs_of_old_versions_are_not_written() {
    check_valid(
        r#"<ir_version: 4, opset_import: ["" : 6]> g (float[2, 3] x) => (float[2, 3] y)
        { d, mask = Dropout <is_test = 1> (x) y = Relu (d) }"#,
        &["y = Relu (x)"],
    );
    check_valid(
        r#"<ir_version: 4, opset_import: ["" : 9]> g (float[2, 1] x) => (float[2, 1] y)
        <float[1] s = {2}, float[1] b = {1}, float[1] m = {3}, float[1] v = {4}>
        { y, rm, rv, sm, sv = BatchNormalization (x, s, b, m, v) }"#,
        &[],
    );
}

#[test]
fn outputs_that_no_newer_version_has_are_errors() {
    let text = r#"<ir_version: 4, opset_import: ["" : 9]> g (float[2, 1] x) => (float[1] sv)
        <float[1] s = {2}, float[1] b = {1}, float[1] m = {3}, float[1] v = {4}>
        { y, rm, rv, sm, sv = BatchNormalization (x, s, b, m, v) }"#;
    let all = Compiler::new(&Options::default()).optimize_model(text.into());
    let all = all.expect_err("version 14 returns no such statistics");
    assert_eq!(all.0[0].code, crate::diag::Code::Unsupported, "{all}");
}

#[test]
fn an_invalid_model_is_not_written() {
    let text = r#"<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y)
        { y = Neg (t) t = Abs (x) }"#;
    let model = import::decode(text.into()).expect("the text is a model");
    let error = verify(&model).expect_err("the nodes are not sorted");
    assert!(error.notes[0].contains("E0108"), "{error}");
}

#[test]
fn operator_sets_have_the_types_of_all_nodes() {
    // Version 19 quantizes floats of 16 bits. Integers have scales of type float before it, and
    // from version 23 on.
    let half = |version: i64| {
        format!(
            r#"<ir_version: 8, opset_import: ["" : {version}]>
            g (float16[2] x, float16 s, int32[2] i, float t) => (uint8[2] y, uint8[2] z) {{
                y = QuantizeLinear (x, s)
                z = QuantizeLinear (i, t)
            }}"#
        )
    };
    check_valid(&half(13), &["opset_import: [\"\" : 23],"]);
    check_valid(&half(23), &["opset_import: [\"\" : 23],"]);
}

#[test]
fn operators_of_onnx_runtime_that_need_a_newer_operator_set_stay_whole() {
    let model = |version: i64| {
        format!(
            r#"<ir_version: 8, opset_import: ["" : {version}, "com.microsoft" : 1]>
            g (float[2] x, float s) => (uint16[2] y, float[2] z) <uint16 zero = {{1}}> {{
                y = com.microsoft.QuantizeLinear (x, s, zero)
                z = com.microsoft.Gelu (x)
            }}"#
        )
    };
    let whole = ["com.microsoft.QuantizeLinear", "com.microsoft.Gelu"];
    let found = optimized(&model(17));
    assert!(whole.iter().all(|name| found.contains(name)), "{found}");
    let found = optimized(&model(21));
    assert!(!whole.iter().any(|name| found.contains(name)), "{found}");
    let found = optimized(
        r#"<ir_version: 8, opset_import: ["com.microsoft" : 1]>
        g (float[2, 2] a) => (y) { y = com.microsoft.FusedGemm (a, a) }"#,
    );
    assert!(found.contains("= Gemm"), "{found}");
    // ONNX Runtime wants a node to have both outputs.
    let found = optimized(
        r#"<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
        g (int32[1, 2] ids, float[3, 4] words, float[2, 4] places, float[4] s) => (y) {
            y, "" = com.microsoft.EmbedLayerNormalization (ids, "", words, places, "", s, s)
        }"#,
    );
    assert!(found.contains("y, \"\" = com.microsoft.EmbedLayerNormalization"), "{found}");
}

#[test]
fn expanded_operators_of_onnx_runtime_are_what_it_accepts() {
    let model = |graph: &str| {
        optimized(&format!(
            r#"<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]> {graph}"#
        ))
    };
    // `auto_pad` excludes `pads`.
    let found = model(
        r#"g (float[1, 1, 3, 3] x, float[1, 1, 2, 2] w) => (y) <int64[4] pads = {0, 1, 0, 0}> {
            y = com.microsoft.ConvTransposeWithDynamicPads <auto_pad = "SAME_UPPER"> (x, w, pads)
        }"#,
    );
    assert!(found.contains("SAME_UPPER") && !found.contains("pads ="), "{found}");
    // Only a zero point gives the type to all readers.
    let found = model(
        "g (int8[2] x, float s) => (int8[2] y) {
            y = com.microsoft.QLinearSigmoid (x, s, \"\", s)
        }",
    );
    assert!(found.lines().any(|line| line.trim().starts_with("int8 ")), "{found}");
    assert!(!found.contains("output_dtype"), "{found}");
    // The blocks are an axis.
    let found = model(
        r#"g (float[2, 32] x, float[2, 2] logits, uint8[2, 16, 16] a, float[2, 16, 2] s,
            uint8[2, 32, 8] b, float[2, 32, 1] t) => (y)
        {
            y = com.microsoft.QMoE <k = 1, block_size = 16, expert_weight_bits = 4>
                (x, logits, a, s, "", b, t, "")
        }"#,
    );
    assert!(found.contains("{16, 2, 8}"), "{found}");
}

#[test]
fn first_versions_are_written_as_newer_operators() {
    let found = optimized(
        r#"<ir_version: 3, opset_import: ["" : 6]>
        g (float[2] x) => (float[2] y, float[2] mask) { y, mask = Dropout <ratio = 0.25> (x) }"#,
    );
    assert!(found.contains("= Dropout") && found.contains("mask = Cast"), "{found}");
    let resize = |given: &str, constants: &str| {
        optimized(&format!(
            r#"<ir_version: 5, opset_import: ["" : 10]>
            g (float[2, 6] x{given}) => (y) {constants} {{ y = Resize <mode = "nearest"> (x, s) }}"#
        ))
    };
    // Along an axis that grows, the nearest element is before a place; along others, behind it.
    let found = resize("", "<float[2] s = {2, 0.5}>");
    assert!(found.contains("\"floor\"") && found.contains("\"ceil\""), "{found}");
    let found = resize(", float[2] s", "");
    assert!(found.contains("\"floor\"") && found.contains("\"ceil\""), "{found}");
    let found = resize("", "<float[2] s = {2, 3}>");
    assert!(found.contains("\"floor\"") && !found.contains("\"ceil\""), "{found}");
}

#[test]
fn operators_of_onnx_runtime_that_onnx_cannot_express_stay_whole() {
    let found = optimized(
        r#"<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
        g (float[3, 1, 4] x, int64[2] at) => (float[3, 1, 1, 2] y, float[2, 16] z)
        <
            uint8[1, 4, 8] w = {
                128, 130, 127, 120, 110, 140, 150, 128, 128, 130, 127, 120, 110, 140, 150, 128,
                128, 130, 127, 120, 110, 140, 150, 128, 128, 130, 127, 120, 110, 140, 150, 128
            },
            uint8[1, 2, 8] r = {
                128, 130, 127, 120, 110, 140, 150, 128, 128, 130, 127, 120, 110, 140, 150, 128
            },
            float[1] scale = {0.1}, uint8[1] zero = {128}, float[2, 1] scales = {1, 2},
            int4[2, 16] codes = {
                1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0,
                1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0
            }
        >
        {
            y, h, c = com.microsoft.DynamicQuantizeLSTM <hidden_size = 2>
                (x, w, r, "", "", "", "", "", scale, zero, scale, zero)
            z = com.microsoft.GatherBlockQuantized <block_size = 16> (codes, at, scales)
        }"#,
    );
    for name in ["DynamicQuantizeLSTM", "GatherBlockQuantized"] {
        assert!(found.contains(&format!("com.microsoft.{name}")), "{found}");
    }
}
