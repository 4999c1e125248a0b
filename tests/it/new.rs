//! `onnxc new`: the packages parse, are formatted, and run where that is cheap.

use crate::programs::{crates, onnxc, scratch};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

const KINDS: [&str; 5] = ["build-script", "server", "firmware", "wasm", "train"];

/// A linear layer; `batch` is its batch size.
fn model(folder: &Path, batch: &str) -> PathBuf {
    let path = folder.join("layer.onnxtxt");
    let text = format!(
        "<ir_version: 10, opset_import: [\"\" : 21]>\n\
         layer (float[{batch}, 2] x) => (float[{batch}, 3] scores)\n\
         <float[2, 3] w = {{1, 2, 3, 4, 5, 6}}> {{ scores = MatMul (x, w) }}"
    );
    fs::write(&path, text).expect("the scratch directory is writable");
    path
}

/// Writes a package called `app-KIND`.
fn new(model: &Path, kind: &str, arguments: &[&str]) -> PathBuf {
    let package = model.with_file_name(format!("app-{kind}"));
    let mut command = onnxc();
    command.arg("new").arg(&package).arg(model).args(["--kind", kind]).args(arguments);
    let output = assert_success(command.output());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.trim_start().starts_with("Created "), "{text}");
    package
}

fn assert_success(output: std::io::Result<Output>) -> Output {
    let output = output.expect("the program is installed");
    let text = [&output.stdout[..], &output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
    output
}

/// Returns the files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder was written").flatten();
    let inside = entries.map(|entry| entry.path());
    inside.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn packages_parse_and_are_formatted() {
    let model = model(&scratch("new"), "1");
    for kind in KINDS {
        let package = new(&model, kind, &[]);
        let files = files(&package);
        for file in files.iter().filter(|file| file.extension().is_none_or(|end| end != "weights"))
        {
            let text = fs::read_to_string(file).expect("the files are text");
            assert!(!text.contains("{{") || file.ends_with("src/model.rs"), "{}", file.display());
        }
        let sources = files.iter().filter(|file| file.extension().is_some_and(|end| end == "rs"));
        let sources = sources.filter(|file| !file.ends_with("src/model.rs"));
        let mut rustfmt = Command::new("rustfmt");
        assert_success(rustfmt.args(["--check", "--edition=2024"]).args(sources).output());
        let mut cargo = Command::new("cargo");
        cargo.args(["metadata", "--no-deps", "--offline", "--format-version=1"]);
        let output = assert_success(cargo.current_dir(&package).output());
        let name = format!("\"name\":\"app-{kind}\"");
        assert!(String::from_utf8_lossy(&output.stdout).contains(&name));
    }
}

/// Compiles a file of a package, with `OUT_DIR` set to the folder of `module`.
fn rustc(file: &Path, module: &Path, arguments: &[&str]) {
    let mut rustc = Command::new("rustc");
    rustc.arg(file).args(["--edition=2024", "-Dwarnings"]).args(arguments).args(crates());
    let out_dir = module.parent().expect("a module is in a folder");
    assert_success(rustc.env("OUT_DIR", out_dir).output());
}

/// Compiles and runs the program of a package with a build script. Returns its output.
fn run(package: &Path, module: &Path) -> String {
    let out_dir = module.parent().expect("a module is in a folder");
    let (script, program) = (out_dir.join("script"), out_dir.join("program"));
    let path = |path: &Path| path.to_str().expect("the path is text").to_owned();
    let metadata = ["--emit=metadata", "-o", &path(&script)];
    rustc(&package.join("build.rs"), module, &metadata);
    rustc(&package.join("src/main.rs"), module, &["-o", &path(&program)]);
    let output = assert_success(Command::new(program).output());
    String::from_utf8(output.stdout).expect("the program prints text")
}

#[test]
fn a_package_with_a_build_script_runs() {
    let folder = scratch("new_build_script");
    let model = model(&folder, "batch");
    for arguments in [&[][..], &["--dim", "batch=2"]] {
        let package = new(&model, "build-script", arguments);
        let module = folder.join("out/model.rs");
        fs::create_dir_all(folder.join("out")).expect("the scratch directory is writable");
        let mut compile = onnxc();
        compile.arg(package.join("model.onnxtxt")).arg("-o").arg(&module).args(arguments);
        assert_success(compile.output());
        let text = run(&package, &module);
        assert!(text.starts_with("scores: [0.0, 0.0, 0.0"), "{text}");
        fs::remove_dir_all(package).expect("the scratch directory is writable");
    }
}

#[test]
fn a_scalar_input_is_fixed_to_a_constant() {
    let folder = scratch("new_constant");
    let model = folder.join("layer.onnxtxt");
    let text = "<ir_version: 10, opset_import: [\"\" : 21]>
        layer (float[2] x, int64 sr) => (float[2] scores)
        { r = Cast <to = 1> (sr) scores = Add (x, r) }";
    fs::write(&model, text).expect("the scratch directory is writable");
    let constant = ["--const", "sr=8000"];
    let server = new(&model, "server", &constant);
    let source = fs::read_to_string(server.join("src/main.rs")).expect("the file was written");
    assert!(source.contains("--const sr=8000") && !source.contains("input `sr`"), "{source}");
    let package = new(&model, "build-script", &constant);
    let module = folder.join("out/model.rs");
    fs::create_dir_all(folder.join("out")).expect("the scratch directory is writable");
    let mut compile = onnxc();
    compile.arg(package.join("model.onnxtxt")).arg("-o").arg(&module).args(constant);
    assert_success(compile.output());
    assert_eq!(run(&package, &module), "scores: [8000.0, 8000.0]\n");
    let script = fs::read_to_string(package.join("build.rs")).expect("the file was written");
    assert!(script.contains("model.constant(\"sr\", \"8000\")"), "{script}");
}

#[test]
fn a_package_takes_and_returns_scalars() {
    let folder = scratch("new_scalar");
    let model = folder.join("layer.onnxtxt");
    let text = "<ir_version: 10, opset_import: [\"\" : 21]>
        layer (float[2] x, int64 sr, float factor) => (float[2] scores, int64 twice)
        { r = Cast <to = 1> (sr) s = Mul (x, factor) scores = Add (s, r) twice = Add (sr, sr) }";
    fs::write(&model, text).expect("the scratch directory is writable");
    let source = |kind: &str, file: &str| {
        let package = new(&model, kind, &[]);
        let mut rustfmt = Command::new("rustfmt");
        assert_success(
            rustfmt.args(["--check", "--edition=2024"]).arg(package.join(file)).output(),
        );
        fs::read_to_string(package.join(file)).expect("the file was written")
    };
    let server = source("server", "src/main.rs");
    let lines = [
        "INPUT_BYTES: usize = 20;",
        "let (sr, _) = body[8..16].as_chunks();",
        "let sr = i64::from_le_bytes(sr[0]);",
        "model.try_infer_in(arena, &x, sr, factor)?;",
        "answer.extend(outputs.twice.to_le_bytes());",
    ];
    lines.iter().for_each(|line| assert!(server.contains(line), "{line}: {server}"));
    let firmware = source("firmware", "src/main.rs");
    assert!(firmware.contains("MODEL.infer(&INPUT_0, INPUT_1[0], INPUT_2[0])"), "{firmware}");
    let wasm = source("wasm", "src/lib.rs");
    assert!(wasm.contains("&*addr_of!(INPUT_0), INPUT_1[0], INPUT_2[0]"), "{wasm}");
    assert!(wasm.contains("OUTPUT_1 = [outputs.twice];"), "{wasm}");
}

#[test]
fn a_training_program_runs() {
    let folder = scratch("new_train");
    let package = new(&model(&folder, "2"), "train", &[]);
    let (learner, module) = (folder.join("model.onnx"), folder.join("model.rs"));
    let mut prepare = onnxc();
    prepare.arg("train-prep").arg(package.join("model.onnxtxt")).arg("-o").arg(&learner);
    prepare.args(["--loss", "cross-entropy", "--optimizer", "adam", "--lr", "0.001"]);
    assert_success(prepare.output());
    assert_success(onnxc().arg(&learner).arg("-o").arg(&module).output());
    let text = run(&package, &module);
    assert_eq!(text.lines().filter(|line| line.starts_with("loss: [")).count(), 10, "{text}");
}
