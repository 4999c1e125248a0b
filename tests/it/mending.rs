//! Models that violate the specification, or leave something out, but whose meaning is clear. They
//! compile with warnings, and are errors with `--deny-warnings`.

use crate::programs::{onnxc, scratch};
use onnxc::{
    Compiler, Options,
    diag::{Code, Diagnostic, Diagnostics, Severity},
    import::text,
    interpreter::Session,
    plan::Plan,
    tensor::Tensor,
    value::Value,
};
use onnxc_proto::{GraphProto, Message, ModelProto, TypeProto};
use std::fs;

/// Plans a model. Returns the warnings too.
fn plan(model: &ModelProto) -> Result<(Plan, Vec<Diagnostic>), Diagnostics> {
    let options = Options::default();
    let mut compiler = Compiler::new(&options);
    let plan = compiler.plan(model.encode_to_vec().into())?;
    Ok((plan, compiler.take_warnings()))
}

/// Runs a plan on one tensor of floats. Returns the shape and the elements of the first output.
fn run(plan: &Plan, shape: &[usize], floats: &[f32]) -> (Vec<usize>, Vec<f64>) {
    let x = Tensor { shape: shape.to_vec(), ..Tensor::from_floats(floats) };
    let outputs = Session::new(plan).run(&[Value::Tensor(x)]).expect("the inputs fit");
    let output = outputs[0].tensor().expect("the output is a tensor");
    (output.shape.clone(), output.floats().expect("the output has floats"))
}

/// Asserts that a model compiles with warnings of one code, that it violates the specification if
/// `is_invalid`, and that `--deny-warnings` makes the warnings errors. Returns the plan.
fn assert_mended(model: &ModelProto, code: Code, is_invalid: bool) -> Plan {
    let (plan, warnings) = plan(model).unwrap_or_else(|all| panic!("{all}"));
    assert!(!warnings.is_empty(), "there is no warning");
    for warning in &warnings {
        assert_eq!((warning.code, warning.severity), (code, Severity::Warning), "{warning}");
    }
    let bytes = model.encode_to_vec();
    let report = Compiler::new(&Options::default()).check_bytes(bytes.clone().into());
    assert_eq!(report.invalid.is_empty(), !is_invalid, "{report:?}");
    assert_eq!(report.warnings.is_empty(), is_invalid, "{report:?}");
    assert!(report.unsupported.is_empty(), "{report:?}");
    let mut options = Options::default();
    options.deny_warnings = true;
    let denied = Compiler::new(&options).plan(bytes.into()).err().expect("warnings are denied");
    assert!(denied.0.iter().all(Diagnostic::is_error), "{denied}");
    plan
}

fn parse(text: &str) -> ModelProto {
    text::model(text).expect("the text is valid")
}

/// Parses a model of version 17 whose graph has this text, after a change of the graph.
fn model(graph: &str, change: impl FnOnce(&mut GraphProto)) -> ModelProto {
    let mut model = parse(&format!("<ir_version: 8, opset_import: [\"\" : 17]> g {graph}"));
    change(model.graph.as_mut().expect("the model has a graph"));
    model
}

#[test]
fn nodes_are_sorted_in_graphs_subgraphs_and_functions() {
    let graph = "(float[2] x) => (float[2] y) { y = Neg(t) t = Add(x, x) }";
    let plan = assert_mended(&model(graph, |_| {}), Code::NotSorted, true);
    assert_eq!(run(&plan, &[2], &[1.0, 2.0]).1, [-2.0, -4.0]);
    let branches = "(float[2] x) => (float[2] y) <bool c = {1}> {
        y = If<then_branch = t () => (a) { a = Neg(b) b = Abs(t) },
               else_branch = e () => (d) { d = Neg(x) }>(c)
        t = Add(x, x)
    }";
    let plan = assert_mended(&model(branches, |_| {}), Code::NotSorted, true);
    assert_eq!(run(&plan, &[2], &[1.0, -2.0]).1, [-2.0, -4.0]);
    let function = parse(
        "<ir_version: 10, opset_import: [\"\" : 21, \"f\" : 1]>
        g (float[2] x) => (float[2] y) { y = f.Twice(x) }
        <domain: \"f\", opset_import: [\"\" : 21]> Twice (v) => (r) { r = Add(s, s) s = Neg(v) }",
    );
    let plan = assert_mended(&function, Code::NotSorted, true);
    assert_eq!(run(&plan, &[2], &[1.0, 2.0]).1, [-2.0, -4.0]);
}

#[test]
fn a_cycle_is_an_error_that_lists_its_nodes() {
    let graph = "(float[2] x) => (float[2] y) { y = Add(a, x) a = Neg(b) b = Abs(d) d = Relu(a) }";
    let all = plan(&model(graph, |_| {})).err().expect("there is a cycle");
    let [cycle] = all.0.as_slice() else { panic!("{all}") };
    assert_eq!((cycle.code, cycle.severity), (Code::Cycle, Severity::Error));
    let notes = [
        "node `a` (Neg), number 1 uses an output of node `b` (Abs), number 2",
        "node `b` (Abs), number 2 uses an output of node `d` (Relu), number 3",
        "node `d` (Relu), number 3 uses an output of node `a` (Neg), number 1",
    ];
    assert_eq!(cycle.notes, notes);
}

#[test]
fn inferred_shapes_count_if_declared_ones_differ() {
    for (declared, shape) in [("float[1, 4]", vec![2]), ("float[3]", vec![2])] {
        let graph = format!("(float[2] x) => ({declared} y) {{ y = Neg(x) }}");
        let plan = assert_mended(&model(&graph, |_| {}), Code::DeclaredMismatch, true);
        assert_eq!(run(&plan, &[2], &[1.0, 2.0]), (shape, vec![-1.0, -2.0]));
    }
    for declared in ["float[7]", "float[2, 1]"] {
        let graph =
            format!("(float[2] x) => (float[2] y) <{declared} t> {{ t = Neg(x) y = Abs(t) }}");
        let plan = assert_mended(&model(&graph, |_| {}), Code::DeclaredMismatch, true);
        assert_eq!(run(&plan, &[2], &[1.0, 2.0]).1, [1.0, 2.0]);
    }
}

#[test]
fn inferred_element_types_of_inner_values_count() {
    let inner = "(float[2] x) => (float[2] y) <double[2] t> { t = Neg(x) y = Abs(t) }";
    let input = "(float[2] x) => (float[2] y) <float16[3] x> { y = Abs(x) }";
    for graph in [inner, input] {
        let plan = assert_mended(&model(graph, |_| {}), Code::DeclaredMismatch, true);
        assert_eq!(run(&plan, &[2], &[1.0, 2.0]).1, [1.0, 2.0]);
    }
    let kind = "(float[2] x) => (float[2] y) <seq(float[2]) t> { t = Neg(x) y = Abs(t) }";
    let plan = assert_mended(&model(kind, |_| {}), Code::DeclaredMismatch, true);
    assert_eq!(run(&plan, &[2], &[1.0, 2.0]).1, [1.0, 2.0]);
    let graph = "(float[2] x, float16[2] w) => (float[2] y)
        <float[2] w = {1, 2}> { y = Add(x, w) }";
    let constant = model(graph, |graph| graph.value_info.extend(graph.input.pop()));
    let plan = assert_mended(&constant, Code::DeclaredMismatch, true);
    assert_eq!(run(&plan, &[2], &[1.0, 2.0]).1, [2.0, 4.0]);
}

#[test]
fn operator_sets_of_runtimes_need_no_import() {
    let relu = "(float[2, 1] x) => (float[2, 1] y) { y = com.microsoft.QuickGelu<alpha = 0.0>(x) }";
    let plan = assert_mended(&model(relu, |_| {}), Code::UnknownDomain, true);
    assert_eq!(run(&plan, &[2, 1], &[1.0, 2.0]).1, [0.5, 1.0]);
    let scaler = "(float[2, 1] x) => (float[2, 1] y)
        { y = ai.onnx.ml.Scaler<scale = [2.0], offset = [1.0]>(x) }";
    let plan = assert_mended(&model(scaler, |_| {}), Code::UnknownDomain, true);
    assert_eq!(run(&plan, &[2, 1], &[1.0, 2.0]).1, [0.0, 2.0]);
    // The newest version is assumed, which has no such operator.
    let removed = "(float[2, 1] x) => (float[2, 1] y) { y = ai.onnx.ml.TreeEnsembleRegressor(x) }";
    assert!(plan_fails(&model(removed, |_| {}), Code::Deprecated));
}

#[test]
fn types_of_newer_versions_of_an_operator_count() {
    let graph = "(float[2] x) => (float[2] y) <float one = {1}> {
        h = Cast<to = 10>(x) s = Cast<to = 10>(one)
        q = QuantizeLinear(h, s) i = Cast<to = 1>(q) y = Neg(i)
    }";
    let plan = assert_mended(&model(graph, |_| {}), Code::TypeMismatch, true);
    assert_eq!(run(&plan, &[2], &[1.0, 2.0]).1, [-1.0, -2.0]);
    let mut newer = model(graph, |_| {});
    newer.opset_import[0].version = Some(19);
    let (_, warnings) = self::plan(&newer).unwrap_or_else(|all| panic!("{all}"));
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn a_version_of_zero_of_the_file_format_is_unknown() {
    let graph = "(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }";
    let mut unknown = model(graph, |_| {});
    unknown.ir_version = Some(0);
    let plan = assert_mended(&unknown, Code::IrVersion, true);
    assert_eq!(run(&plan, &[2], &[1.0, 2.0]).1, [2.0, 4.0]);
    unknown.opset_import.clear();
    assert!(plan_fails(&unknown, Code::OpsetImport));
    unknown.ir_version = None;
    assert!(plan_fails(&unknown, Code::IrVersion));
}

#[test]
fn declared_element_types_of_outputs_must_be_those_of_the_nodes() {
    for graph in [
        "(float[2] x) => (int64[2] y) { y = Neg(x) }",
        "(seq(int32[n]) x) => (seq(float[n]) y) { y = Identity(x) }",
        "(float[2] x) => (seq(float[2]) y) { y = Neg(x) }",
    ] {
        let all = plan(&model(graph, |_| {})).err().expect("the types differ");
        assert_eq!(all.0[0].code, Code::DeclaredMismatch, "{all}");
        assert!(all.0[0].is_error(), "{all}");
    }
}

#[test]
fn inner_shapes_for_other_sizes_are_no_warnings_if_the_user_sets_sizes() {
    let graph = "(float[n] x) => (float[n] y) <float[1] t> { t = Neg(x) y = Abs(t) }";
    let bytes = model(graph, |_| {}).encode_to_vec();
    let mut options = Options::default();
    options.dim("n=8").expect("the option is valid");
    let mut compiler = Compiler::new(&options);
    compiler.plan(bytes.into()).expect("the model is valid");
    assert!(compiler.take_warnings().is_empty());
}

#[test]
fn graphs_have_names_and_initializers_one_meaning() {
    let graph = "(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }";
    let unnamed = model(graph, |graph| graph.name = None);
    let plan = assert_mended(&unnamed, Code::MissingField, true);
    assert_eq!(run(&plan, &[2], &[1.0, 2.0]).1, [2.0, 4.0]);
    let twice = |change: fn(&mut GraphProto)| {
        model(graph, |graph| {
            let again = graph.initializer[0].clone();
            graph.initializer.push(again);
            change(graph);
        })
    };
    let plan = assert_mended(&twice(|_| {}), Code::DuplicateInitializer, true);
    assert_eq!(run(&plan, &[2], &[1.0, 2.0]).1, [2.0, 4.0]);
    let other = twice(|graph| graph.initializer[1].float_data[0] = 9.0);
    assert!(plan_fails(&other, Code::DuplicateInitializer));
    let mut old = model(graph, |_| {});
    (old.ir_version, old.opset_import[0].version) = (Some(3), Some(8));
    let plan = assert_mended(&old, Code::InitializerNotInput, true);
    assert_eq!(run(&plan, &[2], &[1.0, 2.0]).1, [2.0, 4.0]);
}

#[test]
fn initializers_without_a_name_are_left_out() {
    let graph = "(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Clip(x, \"\", m)
        m = Constant<value_float = 3.0>() }";
    for name in [None, Some(String::new())] {
        let unnamed = model(graph, |graph| {
            graph.node.swap(0, 1);
            graph.initializer[0].name.clone_from(&name);
            graph.initializer.push(graph.initializer[0].clone());
        });
        let plan = assert_mended(&unnamed, Code::MissingField, true);
        assert_eq!(run(&plan, &[2], &[-1.0, 4.0]).1, [-1.0, 3.0]);
    }
    let branch = "(float[2] x) => (float[2] y) <bool c = {1}> {
        y = If<then_branch = t () => (a) <float[1] w = {1}> { a = Neg(x) },
               else_branch = e () => (b) { b = Abs(x) }>(c)
    }";
    let unnamed = model(branch, |graph| {
        let then = graph.node[0].attribute[0].g.as_mut().expect("the branch is a graph");
        then.initializer[0].name = None;
    });
    let plan = assert_mended(&unnamed, Code::MissingField, true);
    assert_eq!(run(&plan, &[2], &[1.0, 2.0]).1, [-1.0, -2.0]);
}

#[test]
fn the_removed_group_normalization_scales_groups() {
    let graph =
        "(float[n, 4, 2] x) => (float[n, 4, 2] y) <float[2] s = {1, 2}, float[2] b = {0, 1}>
        { y = GroupNormalization<num_groups = 2, epsilon = 0.0>(x, s, b) }";
    for version in [18, 20] {
        let mut group = model(graph, |_| {});
        group.opset_import[0].version = Some(version);
        let plan = assert_mended(&group, Code::Deprecated, true);
        let x = [0.0, 0.0, 2.0, 2.0, 5.0, 3.0, 3.0, 5.0];
        let y = [-1.0, -1.0, 1.0, 1.0, 3.0, -1.0, -1.0, 3.0];
        assert_eq!(run(&plan, &[1, 4, 2], &x).1, y);
    }
}

#[test]
fn a_split_without_a_number_of_parts_has_as_many_as_outputs() {
    let graph = "(float[2] x) => (float[1] y, float[1] z) { y, z = Split(x) }";
    let mut split = model(graph, |_| {});
    split.opset_import[0].version = Some(18);
    let plan = assert_mended(&split, Code::MissingAttribute, true);
    assert_eq!(run(&plan, &[2], &[1.0, 2.0]).1, [1.0]);
    split.opset_import[0].version = Some(17);
    let (_, warnings) = self::plan(&split).unwrap_or_else(|all| panic!("{all}"));
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn a_flag_that_is_neither_0_nor_1_counts_as_1() {
    let graph = "(float[2] x) => (float[1] y) { y = ReduceSum <keepdims = 2> (x) }";
    let plan = assert_mended(&model(graph, |_| {}), Code::BadAttribute, true);
    assert_eq!(run(&plan, &[2], &[4.0, -1.0]), (vec![1], vec![3.0]));
}

#[test]
fn a_remainder_of_floats_has_the_sign_of_the_divisor() {
    let graph = "(float[2] x) => (float[2] y) <float c = {3.0}> { y = Mod (x, c) }";
    let plan = assert_mended(&model(graph, |_| {}), Code::MissingAttribute, true);
    assert_eq!(run(&plan, &[2], &[4.0, -4.0]), (vec![2], vec![1.0, 2.0]));
}

#[test]
fn types_and_shapes_of_outputs_are_missed_by_the_check_only() {
    let graph = "(float[2] x) => (float[2] y) { y = Neg(x) }";
    for ty in [None, Some(TypeProto::default())] {
        let untyped = model(graph, |graph| graph.output[0].r#type.clone_from(&ty));
        let (plan, warnings) = plan(&untyped).unwrap_or_else(|all| panic!("{all}"));
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(run(&plan, &[2], &[1.0, 2.0]).1, [-1.0, -2.0]);
        let report = Compiler::new(&Options::default()).check_bytes(untyped.encode_to_vec().into());
        let [missing] = report.invalid.as_slice() else { panic!("{report:?}") };
        assert_eq!((missing.code, missing.severity), (Code::MissingType, Severity::Warning));
    }
    // Graphs inside of nodes declare no types.
    let branches = "(float[2] x) => (float[2] y) <bool c = {1}> {
        y = If<then_branch = t () => (a) { a = Neg(x) },
               else_branch = e () => (b) { b = Abs(x) }>(c)
    }";
    let bytes = model(branches, |_| {}).encode_to_vec();
    let report = Compiler::new(&Options::default()).check_bytes(bytes.into());
    assert!(report.invalid.is_empty(), "{report:?}");
}

fn plan_fails(model: &ModelProto, code: Code) -> bool {
    plan(model).err().is_some_and(|all| all.0.iter().any(|one| one.is_error() && one.code == code))
}

const NORMALIZE: &str = "(float[2, 1] x) => (float[2, 1] y)
    <float[1] s = {2}, float[1] b = {1}, float[1] m = {3}, float[1] v = {4}>
    { y, rm, rv, sm, sv = BatchNormalization<epsilon = 0.0>(x, s, b, m, v) }";

#[test]
fn unread_statistics_of_old_batch_normalizations_mean_no_training() {
    for version in [6, 7, 9] {
        let test = if version == 6 { "is_test = 1, " } else { "" };
        let graph = NORMALIZE.replace("<epsilon", &format!("<{test}epsilon"));
        let mut model = model(&graph, |_| {});
        model.opset_import[0].version = Some(version);
        let plan = assert_mended(&model, Code::UnreadOutputs, false);
        assert_eq!(run(&plan, &[2, 1], &[3.0, 5.0]).1, [1.0, 3.0], "version {version}");
    }
    // A statistic that is read means training.
    let graph = NORMALIZE.replace("(float[2, 1] y)", "(float[2, 1] y, float[1] rm)");
    let mut trained = model(&graph, |_| {});
    trained.opset_import[0].version = Some(9);
    let (plan, warnings) = plan(&trained).unwrap_or_else(|all| panic!("{all}"));
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(run(&plan, &[2, 1], &[3.0, 5.0]).1, [-1.0, 3.0]);
}

#[test]
fn a_size_of_minus_one_is_unknown() {
    let graph = "(float[-1] x) => (float[-1] y) { y = Neg(x) }";
    let plan = assert_mended(&model(graph, |_| {}), Code::UnknownSize, false);
    assert_eq!(run(&plan, &[3], &[1.0, 2.0, 3.0]).1, [-1.0, -2.0, -3.0]);
}

#[test]
fn a_size_of_zero_is_unknown_if_the_model_computes_nothing_otherwise() {
    let graph = "(float[0, 2] x) => (float[0, 2] y) { y = Neg(x) }";
    let plan = assert_mended(&model(graph, |_| {}), Code::UnknownSize, false);
    assert_eq!(run(&plan, &[1, 2], &[1.0, 2.0]), (vec![1, 2], vec![-1.0, -2.0]));
    let graph = "(float[0, 2] x) => (float[n, 2] y) <float[1, 2] w = {1, 2}> { y = Sub(x, w) }";
    let plan = assert_mended(&model(graph, |_| {}), Code::UnknownSize, false);
    assert_eq!(run(&plan, &[1, 2], &[3.0, 5.0]).1, [2.0, 3.0]);
}

#[test]
fn a_size_of_zero_is_meant_if_an_output_has_elements() {
    let graph = "(float[0, 2] x) => (float[1, 2] y)
        <float[1, 2] w = {1, 2}> { y = Concat<axis = 0>(x, w) }";
    let (plan, warnings) = plan(&model(graph, |_| {})).unwrap_or_else(|all| panic!("{all}"));
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(run(&plan, &[0, 2], &[]), (vec![1, 2], vec![1.0, 2.0]));
}

#[test]
fn an_operator_of_a_domain_of_the_model_must_be_one_of_its_functions() {
    let called = parse(
        "<ir_version: 10, opset_import: [\"\" : 21, \"f\" : 1]>
        g (float[2] x) => (float[2] y) { y = f.Thrice(x) }
        <domain: \"f\", opset_import: [\"\" : 21]> Twice (v) => (r) { r = Add(v, v) }",
    );
    let all = plan(&called).err().expect("the operator is unknown");
    assert_eq!(all.0[0].code, Code::UnknownOperator);
    assert_eq!(all.0[0].notes, ["the functions of the domain: Twice"]);
}

#[test]
fn warnings_of_a_kind_are_printed_once_with_the_first_places() {
    let path = scratch("warnings").join("many.onnxtxt");
    let chain: String =
        (0..10).map(|i| format!("t{i} = Neg(t{})", i + 1)).collect::<Vec<_>>().join("\n");
    let text = format!(
        "<ir_version: 8, opset_import: [\"\" : 17]>
        g (float[2] x) => (float[2] t0) {{ {chain} t10 = Abs(x) }}"
    );
    fs::write(&path, text).expect("the scratch directory is writable");
    let output = path.with_extension("rs");
    let run = onnxc().arg(&path).arg("-o").arg(&output).output().expect("the program was built");
    let message = String::from_utf8(run.stderr).expect("messages are UTF-8");
    assert!(run.status.success() && output.exists(), "{message}");
    assert_eq!(message.matches("warning[E0108]").count(), 1, "{message}");
    for part in ["(first of 10)", "number 0", "number 2", "and 7 more places", "10 warnings"] {
        assert!(message.contains(part), "`{part}` is missing in\n{message}");
    }
    let denied = onnxc().arg(&path).arg("--deny-warnings").output().expect("the program was built");
    let message = String::from_utf8(denied.stderr).expect("messages are UTF-8");
    assert_eq!(denied.status.code(), Some(1), "{message}");
    assert!(message.contains("error[E0108]") && message.contains("--deny-warnings"), "{message}");
    let check = onnxc().args(["check", "--json"]).arg(&path).output();
    let check = check.expect("the program was built");
    let text = String::from_utf8(check.stdout).expect("the lines are UTF-8");
    assert_eq!(check.status.code(), Some(1));
    assert_eq!(text.lines().filter(|line| line.contains("\"severity\":\"warning\"")).count(), 10);
}
