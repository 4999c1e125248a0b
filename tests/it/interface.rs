//! The interface of generated modules: optional inputs, states, custom operators.

use crate::programs::{folder, onnxc, run, rustc, scratch};
use onnxc::{
    Options, diag::Diagnostics, interpreter::Session, plan::Plan, tensor::Tensor, value::Value,
};
use onnxc_runtime::arena::Trailer;
use std::{collections::BTreeMap, fs, path::Path};

/// Compiles a model to a module of that name in `directory`.
fn compile_module(directory: &Path, name: &str, model: &str, options: &[&str]) {
    let model = folder("models").join(format!("{model}.onnxtxt"));
    compile(&model, &directory.join(format!("{name}.rs")), options);
}

/// Compiles a model with `onnxc`.
fn compile(model: &Path, module: &Path, options: &[&str]) {
    let run = onnxc().arg(model).arg("-o").arg(module).args(options).output();
    let run = run.expect("the program was built");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

/// Runs `onnxc` with options that do not fit the model, and returns the message.
fn compile_error(model: &str, options: &[&str]) -> String {
    message(model, options, 1)
}

/// Runs `onnxc` with options that give this exit status, and returns the message.
fn message(model: &str, options: &[&str], status: i32) -> String {
    let model = folder("models").join(format!("{model}.onnxtxt"));
    let run = onnxc().arg(model).args(options).output().expect("the program was built");
    assert_eq!(run.status.code(), Some(status), "{options:?}");
    String::from_utf8(run.stderr).expect("messages are UTF-8")
}

/// Runs `programs/{name}.rs` with the modules in `directory`.
fn run_program(directory: &Path, name: &str) {
    let file = directory.join("main.rs");
    let source = folder("programs").join(format!("{name}.rs"));
    fs::copy(source, &file).expect("the scratch directory is writable");
    run(&file);
}

#[test]
fn inputs_with_a_default_are_optional() {
    let directory = scratch("interface_defaults");
    compile_module(&directory, "defaults", "defaults", &[]);
    compile_module(
        &directory,
        "fixed",
        "defaults",
        &["--dim", "n=3", "--const", "scale", "--const", "bias=[1, 2, 3]"],
    );
    compile_module(&directory, "constant", "defaults", &["--dim", "n=3", "--defaults", "constant"]);
    run_program(&directory, "defaults");
}

#[test]
fn a_missing_or_wrong_default_is_an_error() {
    let text = compile_error("defaults", &["--const", "x"]);
    assert!(text.contains("the input `x` has no default") && text.contains("--const x=VALUE"));
    let directory = scratch("interface_misfit");
    let model = directory.join("misfit.onnxtxt");
    let text = "<ir_version: 10, opset_import: [\"\" : 21]> g (float[2] x) => (float[2] y) \
        <float[3] x = {1, 2, 3}> { y = Relu(x) }";
    fs::write(&model, text).expect("the scratch directory is writable");
    let run = onnxc().arg(&model).output().expect("the program was built");
    let text = String::from_utf8_lossy(&run.stderr);
    assert!(
        text.contains("E0203") && text.contains("float[3]") && text.contains("input `x`"),
        "{text}"
    );
}

#[test]
fn before_version_4_initializers_are_constants() {
    let directory = scratch("interface_old");
    let model = directory.join("old.onnxtxt");
    let text = "<ir_version: 3, opset_import: [\"\" : 9]> g (float[2] x, float[2] b = {1, 2}) \
        => (float[2] y) { y = Add(x, b) }";
    fs::write(&model, text).expect("the scratch directory is writable");
    let run = onnxc().arg(&model).output().expect("the program was built");
    let code = String::from_utf8_lossy(&run.stdout);
    assert!(code.contains("infer(&mut self, x: &[f32; 2]) -> &[f32; 2]"), "{code}");
}

#[test]
fn states_carry_over_to_the_next_run() {
    let directory = scratch("interface_state");
    let state = ["--state", "h=h_next", "--state", "past=sum"];
    compile_module(&directory, "stream", "stream", &state);
    compile_module(&directory, "explicit", "stream", &[]);
    compile_module(&directory, "heap", "stream", &[&state[..], &["--arena", "heap"]].concat());
    run_program(&directory, "stream");
}

/// Plans a model with these states.
fn try_plan(text: &str, states: &[(&str, &str)]) -> Result<Plan, Diagnostics> {
    let text = format!("<ir_version: 10, opset_import: [\"\" : 21]> g {text}");
    let mut options = Options::default();
    for (past, present) in states {
        options.settings.states.insert((*past).into(), (*present).into());
    }
    onnxc::Compiler::new(&options).plan(text.into_bytes().into())
}

fn plan(text: &str, states: &[(&str, &str)]) -> Plan {
    try_plan(text, states).unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
}

/// Compares a model that keeps its states with one that gets them as inputs.
fn check_states(text: &str, states: &[(&str, &str)]) {
    let (kept, explicit) = (plan(text, states), plan(text, &[]));
    let mut session = Session::new(&kept);
    let mut given: BTreeMap<&str, Value> = BTreeMap::new();
    for port in &explicit.inputs {
        let zeros = Value::Tensor(Tensor::from_floats(&[0.0, 0.0]));
        let first = if port.default.is_some() { Value::Optional(None) } else { zeros };
        given.insert(&port.name, first);
    }
    for run in 0..4u8 {
        let x = Tensor::from_floats(&[f32::from(run) + 0.5, 2.0 - f32::from(run)]);
        given.insert("x", x.into());
        let of = |plan: &Plan| -> Vec<Value> {
            plan.inputs.iter().map(|port| given[&*port.name].clone()).collect()
        };
        let found = session.run(&of(&kept)).expect("the inputs fit the model");
        let results =
            onnxc::interpreter::run(&explicit, &of(&explicit)).expect("the inputs fit the model");
        let names = explicit.outputs.iter().map(|port| &*port.name);
        let mut results: BTreeMap<&str, Value> = names.zip(results).collect();
        for (past, present) in states {
            given.insert(past, results[present].clone());
        }
        results.retain(|name, _| states.iter().all(|(_, present)| present != name));
        let expected: Vec<Value> =
            kept.outputs.iter().map(|port| results[&*port.name].clone()).collect();
        assert_eq!(found, expected, "run {run} of {text}");
    }
}

#[test]
fn states_are_not_overwritten_within_a_run() {
    let one = &[("p", "n")];
    let two = &[("p", "n"), ("q", "m")];
    // The output would overwrite the state if it were not kept.
    check_states(
        "(float[2] x, float[2] p) => (float[2] y, float[2] n) { n = Add(p, x) t = Mul(p, x) \
            y = Add(t, n) }",
        one,
    );
    check_states(
        "(float[2] x, float[2] p) => (float[2] y, float[2] n) { y = Identity(p) n = Identity(x) }",
        one,
    );
    check_states(
        "(float[2] x, float[2] p) => (float[2] y, float[2] n) <float[2] c = {5, 6}> { \
            y = Add(p, x) n = Identity(c) }",
        one,
    );
    check_states(
        "(float[2] x, float[2] p = {1, 2}) => (float[2] y, float[2] n) { y = Add(p, x) \
            n = Identity(p) }",
        one,
    );
    // One state becomes the other.
    check_states(
        "(float[2] x, float[2] p, float[2] q) => (float[2] y, float[2] n, float[2] m) { \
            y = Add(p, x) n = Identity(q) m = Add(p, x) }",
        two,
    );
    check_states(
        "(float[2] x, float[2] p = {1, 2}, float[2] q = {3, 4}) \
            => (float[2] y, float[2] n, float[2] m) { y = Sub(p, x) n = Identity(q) \
            m = Identity(p) }",
        two,
    );
    check_states(
        "(float[2] x, float[2] p, float[2] q) => (float[2] y, float[2] n, float[2] m) { \
            n = Add(p, x) m = Identity(n) y = Mul(n, q) }",
        two,
    );
    // A loop reads the state.
    check_states(
        "(float[2] x, float[2] p) => (float[2] y, float[2] n) <int64 m = {3}, bool t = {1}> { \
            n = Loop(m, t, p) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] r) { \
            d = Identity(c) r = Add(s, x) }> y = Sub(n, p) }",
        one,
    );
}

#[test]
fn a_cache_grows_up_to_its_bound() {
    let directory = scratch("interface_cache");
    let state = ["--state", "past_k=present_k", "--state", "past_v=present_v"];
    let dims = ["--dim", "past=1..=4", "--dim", "new=1..=2"];
    compile_module(
        &directory,
        "cache",
        "cache",
        &[state, dims[..].try_into().expect("four")].concat(),
    );
    compile_module(&directory, "explicit", "cache", &[]);
    run_program(&directory, "cache");
}

#[test]
fn a_state_that_grows_at_its_end_is_updated_in_place() {
    let directory = scratch("interface_history");
    compile_module(
        &directory,
        "history",
        "history",
        &["--dim", "rows=1..=8", "--state", "past=present"],
    );
    let code =
        fs::read_to_string(directory.join("history.rs")).expect("the program wrote the file");
    assert_eq!(code.matches("reshape::identity(").count(), 1, "{code}");
    run_program(&directory, "history");
}

#[test]
fn a_state_of_another_type_or_without_a_bound_is_an_error() {
    let text = compile_error("cache", &["--state", "past_k=present_k"]);
    for part in ["E0303", "state `past_k`", "--dim past=1..=N"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let text = compile_error("stream", &["--state", "h=y"]);
    for part in ["E0201", "state `h`", "float[1, 1, 3]", "float[1, 1, 1, 3]"] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let same = try_plan("(string p) => (string n) { n = Identity(p) }", &[("p", "n")]);
    let text = same.err().expect("a state of strings is an error").to_string();
    assert!(text.contains("`p` is string, and `n`, which it becomes, string"), "{text}");
    let open = "(int64 count, int64[2] p) => (int64[m] n, int64[j] y) \
        <int64 zero = {0}, int64 one = {1}> { y = Range(zero, count, one) \
        n = Concat<axis = 0>(p, y) }";
    let text =
        try_plan(open, &[("p", "n")]).err().expect("an unbounded state is an error").to_string();
    assert!(text.contains("only running tells the size"), "{text}");
    let text = compile_error("stream", &["--state", "hidden=h_next", "--state", "h=hidden"]);
    assert!(text.contains("the model has no input `hidden`"), "{text}");
    assert!(text.contains("the model has no output `hidden`"), "{text}");
    let text = compile_error("stream", &["--const", "h", "--state", "h=h_next"]);
    assert!(text.contains("the input `h` is a constant, so no run can change it"), "{text}");
}

#[test]
fn models_share_an_arena_from_the_caller() {
    let directory = scratch("interface_shared");
    let caller = ["--arena", "caller"];
    compile_module(&directory, "mlp", "mlp", &caller);
    compile_module(&directory, "own", "mlp", &[]);
    let sizes = ["--dim", "batch=2", "--dim", "sequence length=3"];
    compile_module(&directory, "scale", "scale", &[&caller[..], &sizes].concat());
    run_program(&directory, "shared");
    // The options exclude each other, whatever the model is.
    let text = message("stream", &["--state", "h=h_next", "--arena", "caller"], 2);
    assert!(
        text.contains("no other model can share it") && text.contains("--arena struct"),
        "{text}"
    );
}

#[test]
fn threads_share_a_model_and_each_has_an_arena() {
    let directory = scratch("interface_threads");
    let table = "--const=table=[1, 2, 0.5, -1, -2, 1.5]";
    let sizes = ["--dim=batch=2", "--dim=n=6", "--dim=classes=3", table];
    compile_module(&directory, "network", "network", &sizes);
    compile_module(&directory, "stream", "stream", &["--state=h=h_next", "--state=past=sum"]);
    compile_module(&directory, "random", "random", &[]);
    run_program(&directory, "threads");
}

#[test]
fn a_program_replaces_saves_and_restores_models_while_they_run() {
    let directory = scratch("interface_long");
    let table = "--const=table=[1, 2, 0.5, -1, -2, 1.5]";
    let sizes = ["--dim=batch=2", "--dim=n=6", "--dim=classes=3", table];
    compile_module(&directory, "network", "network", &sizes);
    compile_module(&directory, "stream", "stream", &["--state=h=h_next", "--state=past=sum"]);
    compile(&folder("models").join("learn.onnx"), &directory.join("learn.rs"), &[]);
    run_program(&directory, "long");
}

#[test]
fn a_module_does_not_compile_with_the_weights_of_another() {
    let directory = scratch("interface_weights");
    compile_module(&directory, "mlp", "mlp", &[]);
    let [module, weights] = ["mlp.rs", "mlp.weights"].map(|name| directory.join(name));
    let file = fs::read(&weights).expect("the module has weights");
    let compile = |file: &[u8]| {
        fs::write(&weights, file).expect("the scratch directory is writable");
        String::from_utf8(rustc(&module, "2024", "lib").stderr).expect("messages are UTF-8")
    };
    assert_eq!(compile(&file), "");
    let mut other = file.clone();
    other[file.len() - 16] ^= 1;
    let text = compile(&other);
    assert!(text.contains("was generated with another module"), "{text}");
    let text = compile(&file[..file.len() - Trailer::BYTES]);
    assert!(text.contains("the weights file has no trailer"), "{text}");
    fs::remove_file(&weights).expect("the file was written above");
    let text = String::from_utf8(rustc(&module, "2024", "lib").stderr);
    let text = text.expect("messages are UTF-8");
    assert!(text.contains("couldn't read"), "{text}");
}

#[test]
fn modules_in_any_folder_include_their_weights() {
    let directory = scratch("interface_folder").join("it's {a} folder");
    fs::create_dir_all(&directory).expect("the scratch directory is writable");
    compile_module(&directory, "mlp", "mlp", &[]);
    run_program(&directory, "included");
}

#[test]
fn strings_are_borrowed_from_the_caller() {
    let directory = scratch("interface_strings");
    compile_module(&directory, "text", "strings", &[]);
    compile_module(&directory, "fixed", "strings", &["--dim", "n=2"]);
    run_program(&directory, "strings");
}

#[test]
fn a_custom_operator_calls_a_function_of_the_program() {
    let directory = scratch("interface_custom");
    let custom = [
        "--custom=com.acme::Clip=crate::ops::clip",
        "--custom=com.acme::Mix=crate::ops::mix",
        "--custom=com.acme::Norm=crate::ops::norm",
    ];
    compile_module(&directory, "custom", "custom", &custom);
    run_program(&directory, "custom");
}

#[test]
fn a_custom_operator_without_an_output_type_is_an_error() {
    let clip = "--custom=com.acme::Clip=crate::clip";
    let text = compile_error("custom", &[]);
    assert!(text.contains("--custom com.acme::Clip=crate::path::of::function"), "{text}");
    let text = compile_error("custom", &["--custom=com.acme::Clip=clip"]);
    assert!(text.contains("`clip` is not the path of a function"), "{text}");
    let text = compile_error("custom", &[clip, "--type", "clipped=float[m, 3]"]);
    assert!(text.contains("neither an input nor a value before it has the size `m`"), "{text}");
    let text = compile_error(
        "custom",
        &[clip, "--custom=com.acme::Nothing=crate::clip", "--type", "y=float"],
    );
    assert!(text.contains("no node has the operator `com.acme::Nothing`"), "{text}");
    assert!(text.contains("no custom operator has the output `y`"), "{text}");
}
