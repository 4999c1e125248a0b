//! `onnxc inspect`: its numbers are those of the generated module.

use crate::{
    golden,
    memory::list_models,
    programs::{onnxc, root, scratch},
};
use onnxc::{Compiler, Options};
use serde_json::Value;
use std::{fs, path::Path, process::Output};

fn inspect(model: &Path, arguments: &[&str]) -> Output {
    onnxc().arg("inspect").arg(model).args(arguments).output().expect("the program was built")
}

fn json(model: &Path, arguments: &[&str]) -> Value {
    let output = inspect(model, &[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("the text is UTF-8")
}

/// Returns the value of a constant of a generated module.
fn constant(code: &str, name: &str) -> Option<u64> {
    let (_, rest) = code.split_once(&format!("pub const {name}: "))?;
    let (_, rest) = rest.split_once(" = ")?;
    rest.split(';').next()?.replace('_', "").parse().ok()
}

#[test]
fn the_numbers_are_the_constants_of_the_module() {
    let examples = golden::files(&root().join("examples/models"), ".onnx");
    let mut compared = 0;
    for model in examples.into_iter().chain(list_models()) {
        // Models that do not compile are left to other tests.
        let Ok(compiled) = Compiler::new(&Options::default()).compile(&model) else { continue };
        let (code, facts) = (&compiled.module.code, json(&model, &[]));
        let constants = [
            ("WEIGHT_BYTES", "weight_bytes"),
            ("PEAK_ARENA_BYTES", "arena_bytes"),
            ("MACS", "multiply_adds"),
        ];
        for (name, key) in constants {
            let Some(expected) = constant(code, name) else { continue };
            // A module has 0 for a number that depends on sizes.
            let found = facts[key].as_u64().unwrap_or(0);
            assert!(found == expected || expected == 0, "{}: {name}", model.display());
            compared += 1;
        }
        let parameters = format!("/// - Parameters: {}\n", facts["parameters"]);
        assert!(code.contains(&parameters), "{}: {parameters}", model.display());
    }
    assert!(compared >= 6, "{compared} constants were compared");
}

#[test]
fn a_model_is_compared_with_a_budget() {
    let model = root().join("examples/models/digits.onnx");
    let enough = inspect(&model, &["--flash", "64K", "--ram", "18688"]);
    assert!(enough.status.success());
    let found = text(&enough);
    assert!(found.contains("18,688 of 18,688 bytes: fits, 0 bytes remain"), "{found}");
    let little = inspect(&model, &["--flash", "50KB", "--ram", "16K"]);
    assert_eq!(little.status.code(), Some(1));
    let found = text(&little);
    for part in [
        "58,328 of 50,000 bytes: 8,328 bytes too many; the largest weight, `",
        "18,688 of 16,384 bytes: 2,304 bytes too many; the arena is fullest at `node_relu_1: ",
    ] {
        assert!(found.contains(part), "`{part}` is missing in\n{found}");
    }
    let wrong = inspect(&model, &["--ram", "64Kib/s"]);
    let message = String::from_utf8_lossy(&wrong.stderr);
    assert_eq!(wrong.status.code(), Some(2));
    let says = "invalid value '64Kib/s' for '--ram <BYTES>': expected a number of bytes";
    assert!(message.contains(says), "{message}");
}

#[test]
fn the_facts_cover_sizes_fusion_and_the_heap() {
    let model = scratch("inspect_facts").join("facts.onnxtxt");
    let text = r#"<ir_version: 10, opset_import: ["" : 21]>
        facts (float[batch, 4] x) => (float[batch, 3] y, int64[1, found] at)
        <float[4, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[3] b = {1, 2, 3}>
        {
            one = Constant <value_float = 1.0> ()
            scale = Neg (one)
            p = MatMul (x, w)
            s = Add (p, b)
            r = Relu (s)
            y = Mul (r, scale)
            row = ReduceSum (x)
            rows = Reshape (row, minus)
            minus = Constant <value_ints = [-1]> ()
            at = NonZero (rows)
        }"#;
    // `minus` is defined after its use, which is a warning.
    fs::write(&model, text).expect("the scratch directory is writable");
    let facts = json(&model, &[]);
    let sizes = facts["free_sizes"].as_array().expect("a list");
    let batch = sizes.iter().find(|size| size["name"] == "batch").expect("`batch` is free");
    assert_eq!(batch["bound_by"][0], "axis 0 of the input `x`");
    let fused = facts["fused"].to_string();
    assert!(fused.contains("`p` (MatMul)") && fused.contains("`r` (Relu)"), "{fused}");
    assert!(facts["folded_nodes"].as_u64() >= Some(3), "{}", facts["folded_nodes"]);
    assert_eq!(facts["arena"], "heap");
    assert_eq!(facts["arena_bytes"], Value::Null);
    let fixed = json(&model, &["--dim", "batch=2"]);
    assert_eq!(fixed["multiply_adds"], 24);
    assert!(fixed["arena_bytes"].as_u64() > Some(0));
}
