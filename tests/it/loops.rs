//! The iterations of a loop must give elements of one size for a scan output, or the output is not
//! a tensor. If sizes are data-dependent, the module and the interpreter return the same error.

use crate::programs::{run, scratch};
use onnxc::{CompiledModel, Options, diag::Code, interpreter, tensor::Tensor, value::Value};
use std::fs;

/// A name, the outputs, the nodes, the greatest `n` that succeeds, and the message of a greater
/// one.
type Model = (&'static str, &'static str, &'static str, i64, &'static str);

const MODELS: &[Model] = &[
    (
        "growing",
        "y",
        "[l] last, y = Loop(n, \"\", ones) <body = b (int64 i, bool go, v) => (bool on, w, s) {
            on = Identity(go) w = Concat<axis = 0>(v, v) s = Identity(w)
        }>",
        1,
        "node `l`: a part of output `y` has size 8 along axis 0, expected 4",
    ),
    (
        "numbered",
        "y",
        "[l] y = Loop(n, \"\") <body = b (int64 i, bool go) => (bool on, s) {
            on = Identity(go) size = Unsqueeze(i, first) s = ConstantOfShape(size)
        }>",
        1,
        "node `l`: a part of output `y` has size 1 along axis 0, expected 0",
    ),
    (
        "found",
        "y",
        "[l] y = Loop(n, \"\") <body = b (int64 i, bool go) => (bool on, s) {
            on = Identity(go) row = Gather(x, i) s = NonZero(row)
        }>",
        2,
        "node `l`: a part of output `y` has size 3 along axis 1, expected 2",
    ),
    (
        "rows",
        "y",
        "[s] y = Scan(rows) <num_scan_inputs = 1, body = b (row) => (s) { s = NonZero(row) }>",
        2,
        "node `s`: a part of output `y` has size 3 along axis 1, expected 2",
    ),
    (
        "planes",
        "y",
        "[s] y = Scan(rows) <num_scan_inputs = 1, scan_output_axes = [-1],
            body = b (row) => (s) { s = NonZero(row) }>",
        2,
        "node `s`: a part of output `y` has size 3 along axis 1, expected 2",
    ),
    (
        "backwards",
        "y, z",
        "[s] y, z = Scan(rows) <num_scan_inputs = 1, scan_input_directions = [1],
            scan_output_directions = [0, 1], body = b (row) => (r, s) {
                nothing = Equal(row, zero) r = Not(nothing) s = NonZero(nothing)
        }>",
        2,
        "node `s`: a part of output `z` has size 2 along axis 1, expected 1",
    ),
    (
        "nested",
        "y",
        "[outer] y = Loop(n, \"\") <body = b (int64 i, bool go) => (bool on, s) {
            on = Identity(go) two = Add(i, i) end = Unsqueeze(two, first)
            some = Slice(x, first, end)
            [inner] parts = Scan(some) <num_scan_inputs = 1, scan_output_axes = [1],
                body = c (row) => (r) { r = NonZero(row) }>
            s = Size(parts)
        }>",
        2,
        "node `inner`: a part of output `parts` has size 3 along axis 1, expected 2",
    ),
    (
        "nested_parts",
        "y",
        "[outer] y = Loop(n, \"\") <body = b (int64 i, bool go) => (bool on, parts) {
            on = Identity(go) end = Unsqueeze(i, first) some = Slice(x, first, end)
            [inner] parts = Scan(some) <num_scan_inputs = 1, scan_output_axes = [1],
                body = c (row) => (r) { r = NonZero(row) }>
        }>",
        1,
        "node `outer`: a part of output `y` has size 1 along axis 1, expected 0",
    ),
];

/// The nodes that all models have: the rows of `x` have 2, 2 and 3 nonzero elements, and `rows` are
/// the first `n` of them.
const HEAD: &str = "end_of_rows = Unsqueeze(n, first) rows = Slice(x, first, end_of_rows)";
const CONSTANTS: &str = "float[3, 4] x = {0, 0, 1, 1, 1, 0, 1, 0, 1, 1, 1, 0}, float zero = {0},
    float[2] ones = {1, 1}, int64[1] first = {0}";

/// The greatest `n`.
const LAST: i64 = 3;

fn compile((name, outputs, nodes, ..): &Model) -> CompiledModel {
    let text = format!(
        "<ir_version: 10, opset_import: [\"\" : 21]>
         {name} (int64 n) => ({outputs}) <{CONSTANTS}> {{ {HEAD} {nodes} }}"
    );
    let mut options = Options::default();
    options.name = Some((*name).to_owned());
    options.stem = Some((*name).to_owned());
    let output = onnxc::Compiler::new(&options).compile_bytes(text.into_bytes().into(), name);
    output.unwrap_or_else(|diagnostics| panic!("{name}: {diagnostics}"))
}

#[test]
fn scan_outputs_of_different_sizes_are_errors_in_module_and_interpreter() {
    let directory = scratch("iterations");
    let (mut modules, mut body) = (String::new(), String::new());
    for model @ (name, .., most, message) in MODELS {
        let output = compile(model);
        output
            .write(&directory.join(format!("{name}.rs")))
            .expect("the scratch directory is writable");
        let expected = |n: i64| if n <= *most { "" } else { *message };
        for n in 0..=LAST {
            let found =
                interpreter::run(output.plans.infer(), &[Value::Tensor(Tensor::from_int(n))]);
            let found = found.map_or_else(|error| error.to_string(), |_| String::new());
            assert_eq!(found, expected(n), "{name} of {n}");
        }
        let cases: Vec<(i64, &str)> = (0..=LAST).map(|n| (n, expected(n))).collect();
        let model = onnxc::ident::camel(name);
        modules += &format!("mod {name};\n");
        body += &format!(
            "for (n, expected) in {cases:?} {{
                let found = {name}::{model}::new().infer(n)
                    .map_or_else(|error| error.to_string(), |_| String::new());
                assert_eq!(found, expected, \"{name} of {{n}}\");
            }}\n"
        );
    }
    let main = format!("#![allow(dead_code)]\n{modules}fn main() {{ {body} }}");
    let file = directory.join("main.rs");
    fs::write(&file, main).expect("the scratch directory is writable");
    run(&file);
}

#[test]
fn a_carried_value_keeps_its_element_type_and_its_rank() {
    let loop_of = |result: &str| {
        format!(
            "g (int64 n, float s, float[2] k) => (r) {{
                r = Loop (n, \"\", s) <body = b (int64 i, bool c, a) => (bool d, e)
                    {{ d = Identity (c) e = {result} }}>
            }}"
        )
    };
    let scan_of = |result: &str| {
        format!(
            "g (float[3] n, float s, float[2] k) => (r, t) {{
                r, t = Scan <num_scan_inputs = 1, body = b (a, float i) => (e, float f)
                    {{ f = Identity (i) e = {result} }}> (s, n)
            }}"
        )
    };
    for (result, code) in [
        ("Add (a, a)", None),
        ("Cast <to = 11> (a)", Some(Code::TypeMismatch)),
        ("Add (k, k)", Some(Code::UnknownShape)),
        ("SequenceConstruct (a)", Some(Code::TypeMismatch)),
    ] {
        for graph in [loop_of(result), scan_of(result)] {
            assert_eq!(first_error(&graph), code, "{graph}");
        }
    }
}

#[test]
fn a_sequence_that_starts_empty_takes_the_type_of_what_the_loop_inserts() {
    let text = "<ir_version: 10, opset_import: [\"\" : 21]>
        g (float[3] x, int64 n) => (float[3] last, seq(float[k]) all) <int64 end = {-1}> {
            start = SequenceEmpty()
            last, all = Loop(n, \"\", x, start) <body = b (int64 i, bool go, u, s) => (on, w, t) {
                on = Identity(go)
                is_later = Cast<to = 9>(i)
                w = If(is_later) <
                    then_branch = a () => (v) { p = SequenceAt(s, end) v = Add(p, x) },
                    else_branch = b () => (v) { v = Identity(u) }>
                t = SequenceInsert(s, w)
            }>
        }";
    let plan = onnxc::Compiler::new(&Options::default()).plan(text.to_owned().into());
    let plan = plan.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
    let x = [1.0, -2.0, 3.0];
    let given = [Tensor::from_floats(&x), Tensor::from_int(3)].map(Value::Tensor);
    let found = interpreter::run(&plan, &given).expect("the model runs");
    let last = x.map(|x| f64::from(3.0 * x)).to_vec();
    assert_eq!(found[0].tensor().and_then(Tensor::floats), Some(last));
    let Value::Sequence(all) = &found[1] else { panic!("the output is a sequence") };
    assert_eq!(all.len(), 3);
}

#[test]
fn the_condition_of_the_next_iteration_is_one_bool() {
    for (condition, code) in [
        ("Identity (c)", None),
        ("Unsqueeze (c, first)", None),
        ("Identity (i)", Some(Code::TypeMismatch)),
        ("Expand (c, two)", Some(Code::ShapeMismatch)),
        ("Less (k, k)", Some(Code::ShapeMismatch)),
    ] {
        let graph = format!(
            "g (int64 n, float s, float[m] k) => (r)
            <int64[1] first = {{0}}, int64[1] two = {{2}}> {{
                r = Loop (n, \"\", s) <body = b (int64 i, bool c, a) => (d, e)
                    {{ d = {condition} e = Neg (a) }}>
            }}"
        );
        assert_eq!(first_error(&graph), code, "{condition}");
    }
}

/// Returns the code of the first error of a graph.
fn first_error(graph: &str) -> Option<Code> {
    let text = format!("<ir_version: 10, opset_import: [\"\" : 21]> {graph}");
    let plan = onnxc::Compiler::new(&Options::default()).plan(text.into_bytes().into());
    plan.err().map(|all| all.0[0].code)
}

#[test]
fn the_lists_of_a_scan_have_a_direction_or_an_axis_for_each_input() {
    for (list, is_good) in [
        ("scan_input_axes = [1]", true),
        ("scan_input_axes = [0, 1]", false),
        ("scan_input_directions = [1]", true),
        ("scan_input_directions = [0, 1]", false),
        ("scan_input_directions = [2]", false),
        ("scan_output_directions = [-1]", false),
    ] {
        let graph = format!(
            "g (float[2, 3] x) => (y) {{
                y = Scan <num_scan_inputs = 1, {list}, body = b (r) => (s) {{ s = Neg (r) }}> (x)
            }}"
        );
        let expected = (!is_good).then_some(Code::BadAttribute);
        assert_eq!(first_error(&graph), expected, "{list}");
    }
}

#[test]
fn the_branches_of_an_if_return_one_element_type() {
    for (other, code) in [("Neg (x)", None), ("Cast <to = 7> (x)", Some(Code::TypeMismatch))] {
        let graph = format!(
            "g (bool c, float[3] x) => (y) {{
                y = If (c) <then_branch = t () => (a) {{ a = Abs (x) }},
                    else_branch = e () => (b) {{ b = {other} }}>
            }}"
        );
        assert_eq!(first_error(&graph), code, "{other}");
    }
}
