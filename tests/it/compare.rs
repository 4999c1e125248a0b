//! `onnxc compare`: finds the first node that departs from a reference.

use crate::{
    numpy::{archive, floats},
    programs::{onnxc, root, scratch},
};
use onnxc::{import::value, tensor::Tensor, value::Value as ModelValue};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

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
fn an_input_that_is_not_given_has_its_default_on_both_sides() {
    let model = scratch("compare_default").join("model.onnxtxt");
    let text = "<ir_version: 10, opset_import: [\"\" : 21]>\n\
        g (float[2] x, float[2] b) => (float[2] y) <float[2] b = {1.0, 2.0}> { y = Add(x, b) }";
    fs::write(&model, text).expect("the scratch directory is writable");
    let output = compare(&model, &["--json"]);
    assert!(output.status.success(), "{}", json(&output));
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

/// Compares two models that have the head of `layers`, and returns the text and the JSON.
fn compare_two(directory: &Path, [model, other]: [&str; 2]) -> (String, Value) {
    let write = |name: &str, body: &str| {
        let path = directory.join(name);
        fs::write(&path, format!("{HEAD}{body}")).expect("the scratch directory is writable");
        path
    };
    let (model, other) = (write("model.onnxtxt", model), write("other.onnxtxt", other));
    let with = ["--with", other.to_str().expect("the path is UTF-8")];
    let text = String::from_utf8_lossy(&compare(&model, &with).stdout).into_owned();
    (text, json(&compare(&model, &[&with[..], &["--json"]].concat())))
}

#[test]
fn a_node_that_computes_several_is_named_with_them() {
    let body = |weight: &str| {
        format!(
            "<float[4, 4] w = {{{weight}, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}>\n\
             {{ p = MatMul (x, w) s = Add (p, x) y = Relu (s) }}"
        )
    };
    let (text, found) = compare_two(&scratch("compare_fused"), [&body("1"), &body("2")]);
    let computes = "it computes these nodes of the model: `p` (MatMul), `s` (Add), `y` (Relu)\n";
    assert!(text.contains(computes), "{text}");
    assert_eq!(found["computes"], serde_json::json!(["p", "s", "y"]));
}

#[test]
fn a_node_that_changes_no_element_is_not_the_cause() {
    let body = |operator: &str, name: &str| {
        format!(
            "<int64[2] shape = {{4, 2}}, int64[2] back = {{2, 4}}>\n\
             {{ {name} = {operator} (x) b = Reshape ({name}, shape) c = Exp (b) \
             y = Reshape (c, back) }}"
        )
    };
    let bodies = [body("Sin", "a"), body("Cos", "other")];
    let (text, found) = compare_two(&scratch("compare_moved"), [&bodies[0], &bodies[1]]);
    let first =
        "the first node that departs is `a` (Sin): after it, in `b` (Reshape), its value `b`";
    assert!(text.starts_with(first), "{text}");
    assert_eq!(found["first_departing_node"], "a");
    assert_eq!(found["first_departing_value"], "b");
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

/// Writes a model that computes `y = -x`, and returns its path.
fn negation(directory: &Path) -> PathBuf {
    let path = directory.join("model.onnxtxt");
    fs::write(&path, format!("{HEAD}{{ y = Neg (x) }}")).expect("the directory is writable");
    path
}

#[test]
fn a_model_is_compared_with_itself_under_another_option() {
    let model = root().join("examples/models/digits.onnx");
    let output = compare(&model, &["--with", "optimize=size", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let exact = ["--rtol", "0", "--atol", "0"];
    let output = compare(&model, &[&["--with", "precision=bf16"], &exact[..]].concat());
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn outputs_of_a_data_set_are_a_reference() {
    let directory = scratch("compare_data_set");
    let model = negation(&directory);
    let set = data_set(&directory, 3.0, -3.0);
    let folder = directory.join("data");
    for folder in [&folder, &set] {
        let output = compare(&model, &["--with", folder.to_str().expect("the path is UTF-8")]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    data_set(&directory, 3.0, 3.0);
    let output = compare(&model, &["--with", set.to_str().expect("the path is UTF-8")]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_tolerance_of_a_data_set_is_that_of_its_folder_unless_it_is_set() {
    let directory = scratch("compare_tolerance");
    let model = negation(&directory);
    let set = data_set(&directory, 3.0, -3.1);
    let with = ["--with", set.to_str().expect("the path is UTF-8")];
    let status = |more: &[&str]| compare(&model, &[&with[..], more].concat()).status.code();
    assert_eq!(status(&[]), Some(1));
    fs::write(directory.join("data/data.json"), r#"{"rtol": 0.02, "atol": 0.1}"#)
        .expect("the scratch directory is writable");
    assert_eq!(status(&[]), Some(0));
    assert_eq!(status(&["--atol", "0", "--rtol", "0.001"]), Some(1));
}

/// Writes a data set for a model that computes `y` of `x`, and returns its folder.
fn data_set(directory: &Path, x: f32, y: f32) -> PathBuf {
    let set = directory.join("data/test_data_set_0");
    fs::create_dir_all(&set).expect("the scratch directory is writable");
    for (file, name, number) in [("input_0.pb", "x", x), ("output_0.pb", "y", y)] {
        let tensor = Tensor { shape: vec![2, 4], ..Tensor::from_floats(&[number; 8]) };
        let bytes = value::write(&ModelValue::Tensor(tensor), name);
        fs::write(set.join(file), bytes).expect("the scratch directory is writable");
    }
    set
}

/// Compares a model with an archive of arrays of 2 × 4 numbers.
fn compare_archive(model: &Path, arrays: &[(&str, [f32; 8])], arguments: &[&str]) -> Output {
    let arrays: Vec<_> =
        arrays.iter().map(|(name, numbers)| (*name, floats("2, 4", numbers))).collect();
    let path = model.with_file_name("values.npz");
    fs::write(&path, archive(&arrays)).expect("the scratch directory is writable");
    let with = ["--with", path.to_str().expect("the path is UTF-8")];
    compare(model, &[&with[..], arguments].concat())
}

#[test]
fn a_reference_that_is_no_number_departs() {
    let directory = scratch("compare_not_finite");
    let model = negation(&directory);
    for wrong in [f32::NAN, f32::INFINITY] {
        let (x, mut y) = ([1.0; 8], [-1.0; 8]);
        y[3] = wrong;
        let output = compare_archive(&model, &[("x", x), ("y", y)], &[]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let says = "1 of 8 elements of its value `y` depart, by NaN or infinity";
        assert!(text.contains(says), "{text}");
        // The same input gives the same value.
        let x = y.map(|y| -y);
        assert!(compare_archive(&model, &[("x", x), ("y", y)], &[]).status.success());
    }
}

#[test]
fn an_archive_has_the_inputs_of_its_values() {
    let directory = scratch("compare_archive");
    let model = negation(&directory);
    let (x, y) = ([7.0; 8], [-7.0; 8]);
    let output = compare_archive(&model, &[("x", x), ("y", y)], &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.starts_with(b"the only value agrees\n"));
    // Without them, the values cannot be compared.
    let output = compare_archive(&model, &[("y", y)], &[]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("lacks the inputs of its values: `x`"), "{text}");
    assert!(text.contains("--input x=FILE"), "{text}");
    // Files take precedence.
    let file = directory.join("x.npy");
    fs::write(&file, floats("2, 4", &x)).expect("the scratch directory is writable");
    let input = ["--input", &format!("x={}", file.display())];
    for arrays in [&[("y", y)][..], &[("x", [0.0; 8]), ("y", y)]] {
        assert!(compare_archive(&model, arrays, &input).status.success());
    }
    let set = data_set(&directory, 7.0, -7.0);
    fs::remove_file(set.join("input_0.pb")).expect("the file was written");
    let with = ["--with", set.to_str().expect("the path is UTF-8")];
    let text = String::from_utf8_lossy(&compare(&model, &with).stderr).into_owned();
    assert!(text.contains("lacks the inputs of its values: `x`"), "{text}");
    assert!(compare(&model, &[&with[..], &input].concat()).status.success());
}

#[test]
fn outputs_that_the_reference_lacks_are_listed() {
    let directory = scratch("compare_lacking");
    let model = directory.join("model.onnxtxt");
    let text = HEAD.replace("(float[2, 4] y)", "(float[2, 4] y, float[2, 4] z)");
    let text = format!("{text}{{ y = Neg (x) z = Abs (x) }}");
    fs::write(&model, text).expect("the scratch directory is writable");
    let arrays = [("x", [1.0; 8]), ("y", [-1.0; 8])];
    let output = compare_archive(&model, &arrays, &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "an archive may have some of the values: {text}");
    assert!(text.starts_with("the only value agrees"), "{text}");
    assert!(text.contains("not compared:\n  `z`: an output that the reference lacks"), "{text}");
    let found = json(&compare_archive(&model, &arrays, &["--json"]));
    assert_eq!(found["not_compared"][0]["value"], "z");
    // Another model has all outputs.
    let other = directory.join("other.onnxtxt");
    fs::write(&other, format!("{HEAD}{{ y = Neg (x) }}")).expect("the directory is writable");
    let output = compare(&model, &["--with", other.to_str().expect("the path is UTF-8")]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("the reference lacks an output"), "{text}");
}

#[test]
fn values_of_an_archive_that_fusion_absorbs_are_listed() {
    let directory = scratch("compare_absorbed");
    let model = directory.join("model.onnxtxt");
    let text =
        format!("{HEAD}<float[4] b = {{1, 1, 1, 1}}, float[4, 4] w = {{{}0}}>", "0, ".repeat(15));
    let text = format!("{text} {{ p = MatMul (x, w) s = Add (p, b) y = Relu (s) }}");
    fs::write(&model, text).expect("the scratch directory is writable");
    let arrays = [("x", [1.0; 8]), ("p", [0.0; 8]), ("s", [1.0; 8]), ("y", [1.0; 8])];
    let output = compare_archive(&model, &arrays, &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let says = "2 values are not compared:\n  \
        `p`: a value that the compiled model does not keep\n  \
        `s`: a value that the compiled model does not keep\n";
    assert!(text.contains(says), "{text}");
}

#[test]
fn values_of_other_types_are_listed_with_both_types() {
    let directory = scratch("compare_types");
    let model = negation(&directory);
    let wide = floats("2, 2, 2", &[-1.0; 8]);
    let path = directory.join("values.npz");
    fs::write(&path, archive(&[("x", floats("2, 4", &[1.0; 8])), ("y", wide)]))
        .expect("the scratch directory is writable");
    let output = compare(&model, &["--with", path.to_str().expect("the path is UTF-8")]);
    let text = String::from_utf8_lossy(&output.stderr);
    let says = "`y`: float[2, 4] here, float[2, 2, 2] in the reference";
    assert!(text.contains(says), "{text}");
    // An output of another type is no agreement, although the other values agree.
    let write = |name: &str, more: &str| {
        let path = directory.join(name);
        let text = format!("{HEAD}<int64[1] axes = {{0}}> {{ a = Sin (x) b = Neg (a) {more} }}");
        fs::write(&path, text.replace("(float[2, 4] y)", "(y)")).expect("it is writable");
        path
    };
    let model = write("sum.onnxtxt", "y = ReduceSum <keepdims = 1> (b, axes)");
    let other = write("other.onnxtxt", "y = ReduceSum <keepdims = 0> (b, axes)");
    let output = compare(&model, &["--with", other.to_str().expect("the path is UTF-8")]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let says = "the reference lacks an output, or has it with another type or shape\n";
    assert!(text.starts_with(says), "{text}");
    assert!(text.contains("`y`: float[1, 4] here, float[4] in the reference"), "{text}");
}

#[test]
fn outputs_that_no_node_computes_are_compared() {
    let directory = scratch("compare_outputs");
    let model = directory.join("model.onnxtxt");
    let text = "<ir_version: 10, opset_import: [\"\" : 21]>
        g (float[2, 4] x) => (float[2, 4] y, float[2, 4] z, float[8] c)
        <float[8] one = {1, 1, 1, 1, 1, 1, 1, 1}> {
            s = Sin (x) z = Neg (s) y = Identity (x) c = Add (one, one)
        }";
    fs::write(&model, text).expect("the scratch directory is writable");
    let path = directory.join("values.npz");
    for (y, c, names) in [(0.0, 2.0, None), (1.0, 2.0, Some("`y`")), (0.0, 3.0, Some("`c`"))] {
        let arrays = [
            ("x", floats("2, 4", &[0.0; 8])),
            ("y", floats("2, 4", &[y; 8])),
            ("z", floats("2, 4", &[0.0; 8])),
            ("c", floats("8,", &[c; 8])),
        ];
        fs::write(&path, archive(&arrays)).expect("the scratch directory is writable");
        let output = compare(&model, &["--with", path.to_str().expect("the path is UTF-8")]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(names.is_some().into()), "{text}");
        let says = match names {
            Some(name) => format!("the first node that departs is {name}"),
            None => "all 3 values agree".to_owned(),
        };
        assert!(text.starts_with(&says), "{text}");
    }
}

#[test]
fn an_output_has_the_element_type_of_the_reference() {
    let directory = scratch("compare_element_types");
    let write = |name: &str, ty: &str, to: i32| {
        let path = directory.join(name);
        let text = format!(
            "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[2, 4] x) => ({ty}[2, 4] y, float[2, 4] z) {{
                z = Neg (x) y = Cast <to = {to}> (z)
            }}"
        );
        fs::write(&path, text).expect("the scratch directory is writable");
        path
    };
    let types = [("double", 11), ("int64", 7), ("int32", 6), ("bool", 9)];
    for (ty, to) in types {
        for (other, other_to) in types {
            let (model, with) = (write("a.onnxtxt", ty, to), write("b.onnxtxt", other, other_to));
            let output = compare(&model, &["--with", with.to_str().expect("the path is UTF-8")]);
            let text = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.success(), ty == other, "{text}");
            let says = format!("`y`: {ty}[2, 4] here, {other}[2, 4] in the reference");
            assert_eq!(text.contains(&says), ty != other, "{text}");
        }
    }
}

/// A program in place of Python. It sees the files for ONNX Runtime in the folder `$2`.
#[cfg(unix)]
fn python(directory: &Path, script: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let path = directory.join("python");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("the directory is writable");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the file is ours");
    path.to_str().expect("the path is UTF-8").to_owned()
}

#[cfg(unix)]
#[test]
fn onnxruntime_gets_the_model_and_its_inputs_and_returns_values() {
    let directory = scratch("compare_onnxruntime");
    let model = negation(&directory);
    let input = directory.join("x.pb");
    let x = Tensor { shape: vec![2, 4], ..Tensor::from_floats(&[2.0; 8]) };
    fs::write(&input, value::write(&ModelValue::Tensor(x), "x")).expect("it is writable");
    fs::write(directory.join("values.npz"), archive(&[("0", floats("2, 4", &[-2.0; 8]))]))
        .expect("it is writable");
    let folder = directory.display();
    let script = format!(
        "test -f $2/model.onnx -a -f $2/0.npy -a -f $1 || exit 1\n\
         cp $2/job.json {folder}\ncp {folder}/values.npz $2"
    );
    let python = python(&directory, &script);
    let input = format!("x={}", input.display());
    let with = ["--with", "onnxruntime", "--python", &python, "--input", &input, "--json"];
    let output = compare(&model, &with);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(json(&output)["values"][0]["max"], 0.0);
    let job = fs::read_to_string(directory.join("job.json")).expect("the script copied it");
    assert_eq!(job, r#"{"inputs":["x"],"values":["y"]}"#);
}

#[cfg(unix)]
#[test]
fn a_missing_package_and_an_error_of_onnxruntime_are_told_apart() {
    let directory = scratch("compare_no_package");
    let model = negation(&directory);
    for (status, message) in [(3, "has no ONNX Runtime"), (1, "ONNX Runtime cannot run the model")]
    {
        let script = format!("printf '\\033[1;31mthe\\033[m reason\\n' >&2\nexit {status}");
        let python = python(&directory, &script);
        let output = compare(&model, &["--with", "onnxruntime", "--python", &python]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(message) && text.contains("the reason"), "{text}");
    }
}
