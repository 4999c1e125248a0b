//! `onnxc compare`: finds the first node that departs from a reference.

use crate::programs::{onnxc, root, scratch};
use serde_json::Value;
use std::{fs, path::Path, process::Output};

const HEAD: &str = "<ir_version: 10, opset_import: [\"\" : 21]>\n\
    layers (float[2, 4] x) => (float[2, 4] y)\n";

fn compare(model: &Path, arguments: &[&str]) -> Output {
    onnxc().arg("compare").arg(model).args(arguments).output().expect("the program was built")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn a_compiled_model_agrees_with_the_model_before_fusion() {
    let model = root().join("examples/models/digits.onnx");
    let output = compare(&model, &["--json"]);
    let found = json(&output);
    assert!(output.status.success(), "{found}");
    assert_eq!(found["first_departing_node"], Value::Null);
    let values = found["values"].as_array().expect("a list");
    // Images in NCHWc are compared, too.
    assert!(values.iter().any(|value| value["operator"] == "BlockedConv"), "{found}");
    assert!(values.iter().any(|value| value["value"] == "scores"), "{found}");
}

#[test]
fn the_first_node_that_departs_is_named() {
    let directory = scratch("compare");
    let write = |name: &str, scale: &str| {
        let path = directory.join(name);
        let nodes = "{ a = Sin (x) b = Mul (a, scale) c = Exp (b) y = Neg (c) }";
        fs::write(&path, format!("{HEAD}<float scale = {{{scale}}}>\n{nodes}"))
            .expect("the scratch directory is writable");
        path
    };
    let (model, other) = (write("model.onnxtxt", "2.0"), write("other.onnxtxt", "2.5"));
    let with = ["--with", other.to_str().expect("the path is UTF-8")];
    let output = compare(&model, &with);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("the first node that departs is `b` (Mul)"), "{text}");
    let found = json(&compare(&model, &[&with[..], &["--json"]].concat()));
    let values = found["values"].as_array().expect("a list");
    let departs: Vec<_> = values.iter().map(|value| value["departs"] == true).collect();
    assert_eq!(departs, [false, true, true, true]);
    let same = compare(&model, &["--with", model.to_str().expect("the path is UTF-8")]);
    assert!(same.status.success());
}

#[test]
fn reduced_precision_departs_by_a_little() {
    let model = root().join("examples/models/digits.onnx");
    let output = compare(&model, &["--precision", "bf16", "--json", "--rtol", "0", "--atol", "0"]);
    assert_eq!(output.status.code(), Some(1));
    let found = json(&output);
    let values = found["values"].as_array().expect("a list");
    let scores = values.iter().find(|value| value["value"] == "scores").expect("an output");
    assert!(scores["cosine"].as_f64() > Some(0.99) && scores["max"].as_f64() > Some(0.0));
}
