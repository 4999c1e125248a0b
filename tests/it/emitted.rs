//! Properties of every generated module: the same bytes on every machine, no `unsafe`, no warnings.

use crate::{
    golden,
    programs::{folder, onnxc, root, rustc, rustc_without_features, scratch},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Returns the checked-in models that compile, each with the options that it needs.
pub fn models() -> Vec<(PathBuf, &'static [&'static str])> {
    const CUSTOM: &[&str] = &[
        "--custom=com.acme::Clip=crate::clip",
        "--custom=com.acme::Mix=crate::mix",
        "--custom=com.acme::Norm=crate::norm",
    ];
    let names: [(&str, &[&str]); 10] = [
        ("mlp", &[]),
        ("scale", &[]),
        ("external", &[]),
        ("free", &[]),
        ("network", &[]),
        ("blocks", &[]),
        ("defaults", &[]),
        ("stream", &["--state=h=h_next", "--state=past=sum"]),
        (
            "cache",
            &[
                "--dim=past=1..=7",
                "--dim=new=1",
                "--state=past_k=present_k",
                "--state=past_v=present_v",
            ],
        ),
        ("custom", CUSTOM),
    ];
    let path = |name: &str| folder("models").join(format!("{name}.onnxtxt"));
    let mut models: Vec<(PathBuf, &[&str])> =
        names.into_iter().map(|(name, options)| (path(name), options)).collect();
    models.push((folder("models").join("learn.onnx"), &[]));
    models.push((root().join("examples/models/digits.onnx"), &[]));
    models
}

/// The functions of the program that modules call.
const CALLED: &str = "
use onnxc_runtime::{Result, custom::{Attributes, View, ViewMut}};
pub fn clip(_: View<f32, 2>, _: ViewMut<f32, 2>, _: Attributes) -> Result { Ok(()) }
pub fn mix(_: View<f32, 2>, _: Option<View<f32, 2>>, _: ViewMut<f32, 2>, _: Attributes) -> Result {
    Ok(())
}
pub fn norm(_: View<f32, 2>, _: ViewMut<f32, 1>, _: Attributes) -> Result { Ok(()) }
";

/// Compiles the model to `module`. Returns the module and, if they are in a file, the weights.
fn compile(model: &Path, module: &Path, arguments: &[&str]) -> (String, Option<Vec<u8>>) {
    let run = onnxc().arg(model).arg("-o").arg(module).args(arguments).output();
    let run = run.expect("the program was built");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(run.stdout.is_empty() && run.stderr.is_empty(), "compiling says nothing");
    let code = fs::read_to_string(module).expect("the program wrote the file");
    (code, fs::read(module.with_extension("weights")).ok())
}

#[test]
fn modules_do_not_depend_on_the_folder_of_the_model() {
    let (here, there) = (scratch("same_here"), scratch("same_there/deeper"));
    for (model, options) in models() {
        let name = model.file_name().expect("a model is a file");
        fs::copy(&model, there.join(name)).expect("the scratch directory is writable");
        let data = model.with_file_name("external.data");
        if data.exists() {
            fs::copy(&data, there.join("external.data"))
                .expect("the scratch directory is writable");
        }
        let first = compile(&model, &here.join("model.rs"), options);
        assert!(first == compile(&model, &here.join("model.rs"), options), "{name:?} twice");
        let moved = compile(&there.join(name), &there.join("model.rs"), options);
        assert!(first == moved, "{name:?} on another path");
        let root = root().to_string_lossy();
        assert!(!first.0.contains(&*root), "{name:?}: an absolute path");
    }
}

#[test]
fn modules_compile_without_warnings_and_unsafe_in_each_edition() {
    let directory = scratch("emitted");
    for ((model, options), weights) in models().iter().flat_map(|m| [(m, "file"), (m, "inline")]) {
        let arguments = [*options, &["--weights", weights]].concat();
        let (code, _) = compile(model, &directory.join("model.rs"), &arguments);
        assert!(!code.contains("unsafe"), "{}", model.display());
        let program = format!("#![deny(warnings)]\n#![forbid(unsafe_code)]\nmod model;\n{CALLED}");
        fs::write(directory.join("lib.rs"), program).expect("the scratch directory is writable");
        for edition in ["2021", "2024"] {
            let output = rustc(&directory.join("lib.rs"), edition, "lib");
            let text = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && text.is_empty(), "{}\n{text}", model.display());
        }
    }
}

#[test]
fn modules_match_their_golden_files() {
    let directory = scratch("golden");
    for (model, options) in models() {
        let name = model.file_stem().expect("a model is a file").to_string_lossy();
        let (code, _) = compile(&model, &directory.join(format!("{name}.rs")), options);
        golden::check(&folder("golden").join(format!("{name}.rs")), code.as_bytes());
    }
}

/// Compiles the models of the examples as their documentation says, and compares the modules.
#[test]
fn modules_of_the_examples_are_up_to_date() {
    let examples = root().join("examples");
    let model = |name: &str| examples.join(format!("models/{name}.onnx"));
    let directory = scratch("examples");
    let learner = directory.join("digits_learner.onnx");
    let prepared = onnxc()
        .arg("train-prep")
        .arg(model("digits"))
        .arg("-o")
        .arg(&learner)
        .args(["--loss=cross-entropy", "--optimizer=momentum", "--lr=0.002", "--init=keep"])
        .args(["--trainable=7.*", "--trainable=11.*"])
        .status();
    assert!(prepared.expect("the program was built").success());
    let firmware = |name: &str| format!("firmware/src/models/{name}.rs");
    let modules: [(String, PathBuf, &[&str]); 5] = [
        ("cli/src/digits.rs".into(), model("digits"), &[]),
        ("wasm/src/digits.rs".into(), model("digits_int8"), &["--name=digits", "--optimize=size"]),
        (firmware("digits_int8"), model("digits_int8"), &["--arena=caller"]),
        (firmware("keywords_int8"), model("keywords_int8"), &["--arena=caller"]),
        (firmware("digits_learner"), learner, &["--arena=struct"]),
    ];
    for (path, model, options) in modules {
        let module = examples.join(path);
        let name = module.file_name().expect("a module is a file");
        let (code, weights) = compile(&model, &directory.join(name), options);
        golden::check(&module, code.as_bytes());
        golden::check(&module.with_extension("weights"), &weights.expect("a file of their own"));
    }
}

#[test]
fn values_without_elements_are_kept() {
    let directory = scratch("emitted_empty");
    let (model, module) = (directory.join("empty.onnxtxt"), directory.join("empty.rs"));
    let text = "<ir_version: 10, opset_import: [\"\" : 21]>
        g (float[2, 3] x, float[0] p) => (float[2, 0] y, float[2, 3] z, float[0] n)
        <int64[2] sizes = {0, 3}> {
            y, rest = Split<axis = 1>(x, sizes)
            z = Neg(rest)
            n = Neg(p)
        }";
    fs::write(&model, text).expect("the scratch directory is writable");
    for state in [&["--state=p=n"][..], &[]] {
        compile(&model, &module, state);
        let output = rustc(&module, "2024", "lib");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn modules_that_need_the_heap_say_so_in_the_first_error() {
    let directory = scratch("emitted_no_heap");
    let bounded: &[&str] = &["--dim=batch=1..=2", "--dim=sequence length=1..=8"];
    for (name, options, uses_heap) in [
        ("scale", &[][..], true),
        ("scale", bounded, false),
        ("mlp", &[], false),
        ("mlp", &["--arena=heap"], true),
    ] {
        let module = directory.join("module.rs");
        compile(&folder("models").join(format!("{name}.onnxtxt")), &module, options);
        let output = rustc_without_features(&module, &directory);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), !uses_heap, "{name} {options:?}\n{text}");
        let first = text.lines().next().unwrap_or_default();
        let says = ["uses the heap", "the feature `alloc` of `onnxc-runtime`", "`--dim`"];
        assert!(!uses_heap || says.iter().all(|part| first.contains(part)), "{text}");
    }
}
