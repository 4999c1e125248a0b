//! Messages of `onnxc` for files that are not models, and for invalid models.

use crate::programs::{folder, onnxc, root, scratch};
use std::{fs, path::Path};

/// Compiles the file, and asserts that it fails, that the message has these parts, and that no
/// module was written.
fn assert_error(name: &str, bytes: &[u8], arguments: &[&str], message: &[&str]) {
    let directory = scratch(&format!("errors_{name}"));
    let model = directory.join(name);
    fs::write(&model, bytes).expect("the scratch directory is writable");
    let output = directory.join("model.rs");
    let run = onnxc().arg(&model).arg("-o").arg(&output).args(arguments).output();
    let run = run.expect("the program was built");
    let text = String::from_utf8(run.stderr).expect("messages are UTF-8");
    assert_eq!(run.status.code(), Some(1), "{name}: {text}");
    for part in message.iter().chain(&["error[E", name]) {
        assert!(text.contains(part), "{name}: `{part}` is missing in\n{text}");
    }
    assert!(run.stdout.is_empty() && !text.contains("panicked"), "{name}: {text}");
    let left = fs::read_dir(&directory).expect("the scratch directory is writable").count();
    assert_eq!(left, 1, "{name}: something was written beside the model");
}

fn digits() -> Vec<u8> {
    fs::read(root().join("examples/models/digits.onnx")).expect("the model is checked in")
}

#[test]
fn a_truncated_file() {
    let whole = digits();
    for len in [1, 10, 100, whole.len() / 2, whole.len() - 1] {
        assert_error("truncated.onnx", &whole[..len], &[], &[]);
    }
}

#[test]
fn a_text_file() {
    assert_error("notes.onnx", b"Buy milk.\nCall the plumber.\n", &[], &[]);
    assert_error("empty.onnx", b"", &[], &[]);
}

#[test]
fn a_file_of_another_format_is_named() {
    let cases: [(&str, &[u8], &str); 6] = [
        ("model.pt", b"PK\x03\x04\0\0archive/data.pkl\x80\x02", "a PyTorch archive"),
        ("weights.pth", b"\x80\x02}q\0X\x06\0\0\0weight", "a Python pickle"),
        ("model.tflite", b"\x1c\0\0\0TFL3\x14\0\x20\0", "a TFLite model"),
        ("llama.gguf", b"GGUF\x03\0\0\0", "a GGUF file of llama.cpp"),
        ("model.onnx.gz", b"\x1f\x8b\x08\0\0\0\0\0", "compressed by gzip"),
        ("page.onnx", b"<!DOCTYPE html>\n<html><head>", "a web page"),
    ];
    for (name, bytes, format) in cases {
        assert_error(name, bytes, &[], &[&format!("the file is {format}"), "help: "]);
    }
}

#[test]
fn a_missing_weights_file_is_reported_once() {
    let text = r#"<ir_version: 10, opset_import: ["" : 21]>
        lost (float[2] x) => (float[2] y)
        <float[2] a = ["location": "w"], float[2] b = ["location": "w"],
        float[2] c = ["location": "v"]>
        { ax = Add(a, x) axb = Add(ax, b) y = Add(axb, c) }"#;
    let message = ["`w`", "the data of 2 tensors", "`v`", "the file is missing"];
    assert_error("lost.onnxtxt", text.as_bytes(), &[], &message);
    let verdict = onnxc::Compiler::new(&onnxc::Options::default()).check_bytes(text.into());
    assert_eq!(verdict.invalid.len() + verdict.unsupported.len(), 2, "{verdict:?}");
}

#[test]
fn a_file_that_onnx_runtime_optimized_for_one_machine() {
    let text = r#"<ir_version: 10, opset_import: ["" : 21, "com.microsoft.nchwc" : 1]>
        blocks (float[1, 8, 4, 4] x) => (float[1, 8, 4, 4] y)
        { y = com.microsoft.nchwc.ReorderInput(x) }"#;
    let message = ["for one machine", "optimization level `extended`"];
    assert_error("blocks.onnxtxt", text.as_bytes(), &[], &message);
}

#[test]
fn an_unknown_operator_and_other_errors() {
    let text = fs::read(folder("models/operators.onnxtxt")).expect("the model is checked in");
    let message = ["`Frobnicate`", "node `first`", "[2, 3]", "node `second`", "`missing`"];
    assert_error("operators.onnxtxt", &text, &[], &message);
}

#[test]
fn a_missing_initializer() {
    let text = b"<ir_version: 10, opset_import: [\"\" : 21]>
        g (float[2, 3] x) => (float[2, 4] y) { [product] y = MatMul(x, weights) }";
    assert_error("missing.onnxtxt", text, &[], &["`weights`", "node `product`"]);
}

#[test]
fn a_wrong_dimension() {
    let text = b"<ir_version: 10, opset_import: [\"\" : 21]>
        g (float[2, 3] x, float[4, 5] w) => (float[2, 5] y) { [product] y = MatMul(x, w) }";
    assert_error("shapes.onnxtxt", text, &[], &["node `product`", "3", "4"]);
}

#[test]
fn a_data_dependent_rank() {
    let text = b"<ir_version: 10, opset_import: [\"\" : 21]>
        g (float[n, 3] x) => (y) { [squeeze] y = Squeeze(x) }";
    assert_error("axes.onnxtxt", text, &[], &["how many axes `y` has", "node `squeeze`", "--dim"]);
}

#[test]
fn a_dimension_that_the_model_does_not_have() {
    assert_error("named.onnx", &digits(), &["--dim", "sequence=8"], &["`sequence`"]);
}

#[test]
fn an_input_of_any_number_of_axes() {
    let text = b"<ir_version: 10, opset_import: [\"\" : 21]>
        g (float[] x, float[2] z) => (float[] y) { y = Mul(x, z) }";
    assert_error("unranked.onnxtxt", text, &[], &["the input `x`", "--shape x="]);
    assert_error("unranked.onnxtxt", text, &["--shape", "x=-1"], &["`x`", "negative"]);
    let settled = &["--shape", "x=n,2", "--shape", "z=3"];
    assert_error("unranked.onnxtxt", text, settled, &["`z`", "other axes"]);
    assert_error("unranked.onnxtxt", text, &["--shape", "w=2"], &["no input `w`"]);
    let path = scratch("unranked").join("unranked.onnxtxt");
    fs::write(&path, text).expect("the scratch directory is writable");
    let run = onnxc().arg(&path).args(["--shape", "x=n,2", "--dim", "n=1..=8"]).output();
    let run = run.expect("the program was built");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_is_not_writable() {
    let model = root().join("examples/models/digits.onnx");
    // Nobody can create a file in this folder.
    let run = onnxc().arg(model).args(["-o", "/proc/digits.rs"]).output();
    let run = run.expect("the program was built");
    let text = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{text}");
    assert!(text.contains("`/proc/digits.rs` cannot be written"), "{text}");
    assert!(!text.contains(".weights"), "{text}");
}

#[test]
fn a_missing_file() {
    let run = onnxc().arg("nowhere.onnx").output().expect("the program was built");
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.stderr).contains("nowhere.onnx"));
    assert!(!Path::new("nowhere.rs").exists());
}
