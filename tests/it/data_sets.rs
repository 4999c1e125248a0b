//! `onnxc test`: compares results with those of data sets.

use crate::programs::{onnxc, scratch};
use onnxc::{
    import::{self, value},
    tensor::Tensor,
    value::Value,
};
use onnxc_proto::Message;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Writes a folder with a model that computes `y = -x`, and an input of zeros.
fn folder(name: &str) -> PathBuf {
    let folder = scratch(name);
    let text = "<ir_version: 10, opset_import: [\"\" : 21]> g (float[4] x, int64[1] i)
        => (float[4] y, int64[1] j) { y = Neg (x) j = Neg (i) }";
    let model = import::decode(text.into()).expect("the model is in ONNX's syntax");
    fs::create_dir(folder.join("test_data_set_0")).expect("the scratch directory is writable");
    fs::write(folder.join("model.onnx"), model.encode_to_vec()).expect("it is writable");
    write(&folder, "input_0.pb", Tensor::from_floats(&[0.0; 4]));
    write(&folder, "input_1.pb", Tensor::from_ints(&[5]));
    folder
}

fn write(folder: &Path, file: &str, tensor: Tensor) {
    let bytes = value::write(&Value::Tensor(tensor), "");
    fs::write(folder.join("test_data_set_0").join(file), bytes).expect("it is writable");
}

/// Runs the command. Returns its exit status and what it prints.
fn test(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = onnxc().args(["test", "--interpret"]).arg(folder).args(arguments).output();
    let output = output.expect("the program was built");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).expect("messages are UTF-8"))
}

#[test]
fn a_folder_without_outputs_has_nothing_to_compare_with() {
    let (status, text) = test(&folder("test_no_outputs"), &[]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.starts_with("failed "), "{text}");
    assert!(text.contains("the folder has no outputs to compare with"), "{text}");
}

#[test]
fn options_take_precedence_over_the_tolerance_of_a_folder() {
    let folder = folder("test_tolerance");
    write(&folder, "output_0.pb", Tensor::from_floats(&[0.0, 0.0, 0.0, 0.01]));
    write(&folder, "output_1.pb", Tensor::from_ints(&[-5]));
    let status = |arguments: &[&str]| test(&folder, arguments).0;
    assert_eq!((status(&[]), status(&["--atol", "0.02"])), (Some(1), Some(0)));
    fs::write(folder.join("data.json"), r#"{"rtol": 0, "atol": 0.02}"#).expect("it is writable");
    assert_eq!((status(&[]), status(&["--atol", "1e-5"])), (Some(0), Some(1)));
    // Integers are equal, unless an error of one is allowed.
    write(&folder, "output_1.pb", Tensor::from_ints(&[-6]));
    let (_, text) = test(&folder, &["--rtol", "1"]);
    assert!(text.contains("output 1[0] differs"), "{text}");
    assert_eq!(status(&["--atol", "1"]), Some(0));
}

#[test]
fn inputs_that_the_model_does_not_take_are_errors() {
    let folder = folder("test_other_inputs");
    write(&folder, "output_0.pb", Tensor::from_floats(&[0.0; 4]));
    write(&folder, "output_1.pb", Tensor::from_ints(&[-5]));
    assert_eq!(test(&folder, &[]).0, Some(0));
    write(&folder, "input_0.pb", Tensor::from_ints(&[0; 4]));
    write(&folder, "input_1.pb", Tensor::from_ints(&[5, 6]));
    let says = [
        "the input `x` is int64[4], but the model takes float[4]",
        "the input `i` is int64[2], but the model takes int64[1]",
    ];
    let (status, text) = test(&folder, &[]);
    assert_eq!(status, Some(1), "{text}");
    assert!(says.iter().all(|says| text.contains(says)), "{text}");
    let optimized = folder.join("optimized.onnx");
    let output = onnxc()
        .args(["optimize", "--verify", "-o"])
        .args([&optimized, &folder.join("model.onnx")])
        .output()
        .expect("the program was built");
    let text = String::from_utf8(output.stderr).expect("messages are UTF-8");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(says.iter().all(|says| text.contains(says)), "{text}");
}

#[test]
fn missing_files_and_those_of_no_value_are_errors() {
    let folder = folder("test_other_files");
    let set = folder.join("test_data_set_0");
    write(&folder, "output_0.pb", Tensor::from_floats(&[0.0; 4]));
    write(&folder, "output_1.pb", Tensor::from_ints(&[-5]));
    let fails = |says: &str| {
        let (status, text) = test(&folder, &[]);
        assert_eq!(status, Some(1), "{text}");
        assert!(text.contains(says) && text.contains("test_data_set_0"), "{text}");
    };
    for kind in ["input", "output"] {
        let more = format!("{kind}_2.pb");
        write(&folder, &more, Tensor::from_ints(&[5]));
        fails(&format!("the model has 2 {kind}s, but there is a file `{more}`"));
        fs::remove_file(set.join(more)).expect("the file was written");
    }
    fs::rename(set.join("input_0.pb"), set.join("kept")).expect("the file was written");
    fails("`input_0.pb` is missing");
    fs::rename(set.join("kept"), set.join("input_0.pb")).expect("the file was written");
    fs::remove_file(set.join("input_1.pb")).expect("the file was written");
    fails("`input_1.pb` is missing");
    fails("no file gives `i`");
}

#[test]
fn a_faulty_file_of_settings_is_an_error() {
    let folder = folder("test_faulty_settings");
    write(&folder, "output_0.pb", Tensor::from_floats(&[0.0; 4]));
    write(&folder, "output_1.pb", Tensor::from_ints(&[-5]));
    for (text, says) in [
        ("{\"rtol", "it is no valid JSON"),
        ("{\"rtol\": NaN}", "it is no valid JSON"),
        ("{\"rtol\": \"big\"}", "`rtol` is \"big\", and not a number of 0 or more"),
        ("{\"rtoll\": 0.1}", "did you mean `rtol`?"),
    ] {
        fs::write(folder.join("data.json"), text).expect("it is writable");
        let (status, text) = test(&folder, &[]);
        assert_eq!(status, Some(1), "{text}");
        assert!(text.contains(says) && text.contains("data.json"), "{text}");
    }
}

#[test]
fn a_sequence_without_a_declared_type_is_compared() {
    let folder = scratch("test_undeclared_sequence");
    let text = "<ir_version: 10, opset_import: [\"\" : 21]> g (float[4] x) => (y)
        { y = SplitToSequence <axis = 0, keepdims = 1> (x) }";
    let mut model = import::decode(text.into()).expect("the model is in ONNX's syntax");
    for output in model.graph.iter_mut().flat_map(|graph| &mut graph.output) {
        output.r#type = None;
    }
    fs::create_dir(folder.join("test_data_set_0")).expect("the scratch directory is writable");
    fs::write(folder.join("model.onnx"), model.encode_to_vec()).expect("it is writable");
    write(&folder, "input_0.pb", Tensor::from_floats(&[1.0, 2.0, 3.0, 4.0]));
    let status = |last: f32| {
        let parts = [1.0, 2.0, 3.0, last].map(|part| Value::Tensor(Tensor::from_floats(&[part])));
        let file = folder.join("test_data_set_0/output_0.pb");
        let bytes = value::write(&Value::Sequence(parts.into()), "");
        fs::write(file, bytes).expect("it is writable");
        test(&folder, &[])
    };
    let (same, other) = (status(4.0), status(5.0));
    assert_eq!(same.0, Some(0), "{}", same.1);
    assert_eq!(other.0, Some(1), "{}", other.1);
    assert!(other.1.contains("differs"), "{}", other.1);
}
