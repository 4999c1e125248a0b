//! `onnxc check` and `onnxc explain`.

use super::{bases::PLAIN, swap};
use crate::programs::{onnxc, scratch};
use onnxc::diag::Code;
use serde_json::Value;
use std::{fs, path::PathBuf, process::Output};

/// Writes a valid model, an invalid one, and one with a custom operator; returns their paths.
fn models() -> [PathBuf; 3] {
    let folder = scratch("check");
    let models = [
        ("good.onnxtxt", PLAIN.as_bytes().to_vec()),
        ("bad.onnx", swap(PLAIN, "Mul(y, b)", "Mul(y, c)")),
        ("custom.onnx", swap(&PLAIN.replace("Add(x", "my.Op(x"), "21]", "21, \"my\" : 1]")),
    ];
    models.map(|(name, model)| {
        let path = folder.join(name);
        fs::write(&path, model).expect("the scratch directory is writable");
        path
    })
}

fn text(output: &[u8]) -> String {
    String::from_utf8(output.to_vec()).expect("messages are UTF-8")
}

fn run(arguments: &[&str]) -> Output {
    onnxc().args(arguments).output().expect("the program was built")
}

#[test]
fn the_exit_status_is_1_if_a_model_is_invalid() {
    let [good, bad, custom] = models();
    let check = |models: &[&PathBuf]| {
        let run = onnxc().arg("check").args(models).output().expect("the program was built");
        (run.status.code(), text(&run.stdout))
    };
    let (status, message) = check(&[&good]);
    assert_eq!((status, message), (Some(0), format!("{}: valid\n", good.display())));
    let (status, message) = check(&[&good, &custom]);
    assert_eq!(status, Some(0), "{message}");
    assert!(message.contains("custom.onnx: valid, but onnxc cannot compile it"), "{message}");
    assert!(message.contains("error[E0304]"), "{message}");
    let (status, message) = check(&[&bad, &good]);
    assert_eq!(status, Some(1), "{message}");
    assert!(message.contains("bad.onnx: invalid") && message.contains("error[E0106]"), "{message}");
    assert!(message.contains("good.onnxtxt: valid"), "{message}");
    assert_eq!(check(&[&good.with_file_name("nothing.onnx")]).0, Some(1));
}

#[test]
fn diagnostics_are_printed_as_json() {
    let [_, bad, custom] = models();
    let run = onnxc().args(["check", "--json"]).args([&bad, &custom]).output();
    let run = run.expect("the program was built");
    let lines: Vec<Value> = text(&run.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is an object"))
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["code"], "E0106");
    assert_eq!(lines[0]["invalid"], true);
    assert_eq!(lines[0]["at"][1], "graph `g`");
    assert_eq!(lines[0]["at"][2], "node `second` (Mul), number 1");
    assert!(lines[0]["help"].is_string() && lines[0]["notes"].is_array());
    assert_eq!((&lines[1]["code"], &lines[1]["invalid"]), (&"E0304".into(), &false.into()));
}

#[test]
fn every_code_is_explained() {
    let all = text(&run(&["explain"]).stdout);
    assert_eq!(all.lines().count(), Code::ALL.len());
    for code in ["E0105", "105", "e105"] {
        let run = run(&["explain", code]);
        assert!(run.status.success());
        assert!(text(&run.stdout).contains("single-assignment form"));
    }
    for code in ["E0999", "nothing", ""] {
        let run = run(&["explain", code]);
        assert_eq!(run.status.code(), Some(1));
        assert!(text(&run.stderr).contains("there is no code"));
    }
}
