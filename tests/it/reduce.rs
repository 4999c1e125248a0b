//! `onnxc reduce`: the smallest part of a model that still shows a difference or a diagnostic.

use crate::programs::{onnxc, scratch};
use serde_json::Value;
use std::{fs, path::Path, process::Output};

const HEAD: &str = "<ir_version: 10, opset_import: [\"\" : 21]>\n\
    layers (float[2, 64] x) => (float[2, 64] y)\n";

fn reduce(model: &Path, arguments: &[&str]) -> Output {
    onnxc().arg("reduce").arg(model).args(arguments).output().expect("the program was built")
}

/// Returns the names of the nodes that remain, and the whole answer.
fn reduced(model: &Path, arguments: &[&str]) -> (Vec<String>, Value) {
    let output = reduce(model, &[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("the answer is JSON");
    let nodes = found["nodes"].as_array().expect("a list");
    let names = nodes.iter().map(|name| name.as_str().expect("a name").to_owned());
    (names.collect(), found)
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("the scratch directory is writable");
}

#[test]
fn the_node_that_differs_from_another_model_remains() {
    let directory = scratch("reduce_difference");
    let [model, other] = ["model.onnxtxt", "other.onnxtxt"].map(|name| directory.join(name));
    for (path, scale) in [(&model, "2.0"), (&other, "2.5")] {
        let nodes = "{ a = Sin (x) b = Cos (a) s = Softmax (b) c = Mul (s, scale) d = Exp (c)
            e = Softmax (d) y = Neg (e) }";
        write(path, &format!("{HEAD}<float scale = {{{scale}}}>\n{nodes}"));
    }
    let folder = directory.join("part");
    let folder = folder.to_str().expect("the path is UTF-8");
    let with = ["--with", other.to_str().expect("the path is UTF-8"), "-o", folder];
    let (nodes, found) = reduced(&model, &with);
    assert_eq!(nodes, ["c"], "{found}");
    assert_eq!((&found["nodes_before"], &found["complete"]), (&7.into(), &true.into()));
    // The part and its data show the difference without the other model.
    let part = format!("{folder}/model.onnx");
    let output = onnxc().args(["compare", &part, "--with", folder]).output();
    let output = output.expect("the program was built");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("the first node that departs is `c` (Mul)"), "{text}");
}

#[test]
fn the_nodes_of_a_diagnostic_remain() {
    let directory = scratch("reduce_diagnostic");
    let model = directory.join("model.onnxtxt");
    let nodes = "{ a = Sin (x) b = Transpose (a) c = Sin (b) d = MatMul (c, a) e = Softmax (d)
        f = MatMul (a, e) y = Sin (f) }";
    write(&model, &format!("{HEAD}{nodes}"));
    let needs = ["--optimize", "size", "--max-arena", "1000"];
    let (nodes, found) = reduced(&model, &[&["--diagnostic", "E0302"], &needs[..]].concat());
    assert!(nodes.len() <= 2, "{found}");
    assert!(found["shown"].as_str().expect("a text").starts_with("E0302: "), "{found}");
}

#[test]
fn a_part_of_an_invalid_model_has_inferred_types() {
    let directory = scratch("reduce_invalid");
    let (model, part) = (directory.join("model.onnxtxt"), directory.join("part.onnxtxt"));
    let nodes = "{ a = Sin (x) b = Transpose (a) c = MatMul (b, b) y = Sin (a) }";
    write(&model, &format!("{HEAD}{nodes}"));
    let output = onnxc().arg(&model).output().expect("the program was built");
    let text = String::from_utf8_lossy(&output.stderr);
    let code = text.split(['[', ']']).nth(1).expect("the product is an error").to_owned();
    let part_text = part.to_str().expect("the path is UTF-8");
    let (nodes, found) = reduced(&model, &["--diagnostic", &code, "-o", part_text]);
    assert_eq!(nodes, ["c"], "{found}");
    let text = fs::read_to_string(&part).expect("the part was written");
    assert!(text.contains("float[64, 2] b"), "{text}");
}
