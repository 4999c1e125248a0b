//! The command line of `onnxc`, and how it writes files.

use crate::programs::{folder, onnxc, scratch};
use onnxc::Options;
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Output,
};

const MODEL: &str = r#"<ir_version: 10, opset_import: ["" : 21]>
    scaled (float[2] x) => (float[2] y)
    <float[2] by = {2, 3}>
    {
        y = Mul (x, by)
    }"#;

/// Creates a directory with the model in it. Returns both paths.
fn create_model(name: &str) -> (PathBuf, PathBuf) {
    let directory = scratch(&format!("command_line_{name}"));
    let model = directory.join("scaled.onnxtxt");
    fs::write(&model, MODEL).expect("the scratch directory is writable");
    (directory, model)
}

fn run(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    onnxc().args(arguments).output().expect("the program was built")
}

fn compile(model: &Path, output: &Path) -> Output {
    run([model.as_os_str(), "-o".as_ref(), output.as_os_str()])
}

fn message(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("messages are UTF-8")
}

/// Asserts that the program failed and that its message has each of these parts.
fn assert_error(output: &Output, parts: &[&str]) {
    assert_message(output, 1, parts);
}

/// Asserts the exit status, and that the message has each of these parts.
fn assert_message(output: &Output, status: i32, parts: &[&str]) {
    let text = message(output);
    assert_eq!(output.status.code(), Some(status), "{text}");
    for part in parts.iter().chain(&["error[E"]) {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
}

fn assert_success(output: &Output) {
    assert!(output.status.success(), "{}", message(output));
}

/// Lists the names of a directory's entries, sorted.
fn list_names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("the scratch directory is writable").flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("the command wrote the file")
}

#[test]
#[cfg(unix)]
fn a_pipe_gets_the_same_bytes_as_standard_output() {
    let (_, model) = create_model("pipe");
    let printed = run([&model]);
    assert_success(&printed);
    let piped = compile(&model, Path::new("/dev/stdout"));
    assert_success(&piped);
    assert!(!piped.stdout.is_empty() && piped.stdout == printed.stdout);
}

#[test]
#[cfg(unix)]
fn a_device_is_written_and_not_replaced() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let (directory, model) = create_model("device");
    // Through a link, so that a failure of this test does not replace the device.
    let null = directory.join("null.rs");
    symlink("/dev/null", &null).expect("the scratch directory is writable");
    assert_success(&compile(&model, &null));
    let device = fs::metadata(&null).expect("the link is there").file_type();
    assert!(device.is_char_device());
    assert_eq!(list_names(&directory), ["null.rs", "scaled.onnxtxt"], "nothing lies beside it");
}

#[test]
#[cfg(unix)]
fn a_weights_file_needs_a_regular_module_file() {
    use std::os::unix::fs::symlink;
    let (directory, _) = create_model("weights_of_device");
    let null = directory.join("null.rs");
    symlink("/dev/null", &null).expect("the scratch directory is writable");
    let output = onnxc::Compiler::new(&Options::default()).compile_bytes(MODEL.into(), "m");
    let message = output
        .expect("the model is valid")
        .write(&null)
        .expect_err("a device is an error")
        .to_string();
    assert!(message.contains("no regular file") && message.contains("null.rs"), "{message}");
    assert_eq!(list_names(&directory), ["null.rs", "scaled.onnxtxt"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_device_is_an_error_but_a_closed_pipe_is_not() {
    let (_, model) = create_model("printed");
    let full = fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let output = onnxc().arg(&model).stdout(full).output().expect("the program was built");
    assert_eq!(output.status.code(), Some(1));
    assert!(message(&output).contains("cannot be printed"), "{}", message(&output));
    let (reader, writer) = std::io::pipe().expect("Linux has pipes");
    drop(reader);
    assert_success(&onnxc().arg(&model).stdout(writer).output().expect("the program was built"));
}

#[test]
fn a_module_in_a_directory_is_named_after_the_model() {
    let (directory, model) = create_model("output_directory");
    let renamed = directory.join("Big-model.v2.onnxtxt");
    fs::copy(&model, &renamed).expect("the scratch directory is writable");
    let modules = directory.join("modules");
    fs::create_dir(&modules).expect("the scratch directory is writable");
    assert_success(&compile(&renamed, &modules));
    assert_eq!(list_names(&modules), ["big_model_v2.rs", "big_model_v2.weights"]);
    assert_error(&compile(&model, &directory.join("missing/")), &["there is no folder"]);
}

#[test]
#[cfg(unix)]
fn a_symbolic_link_is_kept_and_its_target_written() {
    use std::os::unix::fs::symlink;
    let (directory, model) = create_model("link");
    let inside = directory.join("inside");
    fs::create_dir(&inside).expect("the scratch directory is writable");
    let links = ["first.rs", "second.rs"].map(|name| directory.join(name));
    symlink("second.rs", &links[0]).expect("the scratch directory is writable");
    symlink("inside/module.rs", &links[1]).expect("the scratch directory is writable");
    // The links dangle in the first iteration.
    for before in [None, Some("// what was there\n")] {
        before.into_iter().for_each(|text| {
            fs::write(&links[0], text).expect("the scratch directory is writable")
        });
        assert_success(&compile(&model, &links[0]));
        assert!(links.iter().all(|link| link.is_symlink()));
        assert!(read(&inside.join("module.rs")).contains("first.weights"));
        assert_eq!(list_names(&inside), ["module.rs"]);
    }
}

#[test]
#[cfg(unix)]
fn a_new_file_has_the_permissions_of_the_old_one() {
    use std::os::unix::fs::PermissionsExt;
    let (directory, model) = create_model("permissions");
    let module = directory.join("module.rs");
    fs::write(&module, "// what was there\n").expect("the scratch directory is writable");
    fs::set_permissions(&module, PermissionsExt::from_mode(0o640))
        .expect("the scratch directory is writable");
    assert_success(&compile(&model, &module));
    let mode = fs::metadata(&module).expect("the file exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert!(read(&module).contains("pub struct"));
}

#[test]
#[cfg(unix)]
fn weights_are_kept_if_the_module_cannot_be_written() {
    use std::os::unix::fs::symlink;
    let (directory, model) = create_model("pair");
    let [module, weights] = ["module.rs", "module.weights"].map(|name| directory.join(name));
    symlink("nowhere/module.rs", &module).expect("the scratch directory is writable");
    fs::write(&weights, "old").expect("the scratch directory is writable");
    assert_error(&compile(&model, &module), &["module.rs"]);
    assert_eq!(read(&weights), "old");
    assert_eq!(list_names(&directory), ["module.rs", "module.weights", "scaled.onnxtxt"]);
}

#[test]
fn a_module_does_not_overwrite_its_weights() {
    let (directory, model) = create_model("same");
    assert_error(&compile(&model, &directory.join("model.weights")), &["model.weights"]);
    assert_eq!(list_names(&directory), ["scaled.onnxtxt"]);
}

#[test]
fn source_files_are_not_overwritten() {
    let (directory, model) = create_model("sources");
    assert_error(
        &compile(&model, &directory.join(".").join("scaled.onnxtxt")),
        &["scaled.onnxtxt"],
    );
    assert_eq!(read(&model), MODEL);
    let text = read(&folder("models/external.onnxtxt")).replace("external.data", "module.weights");
    let [external, weights] = ["external.onnxtxt", "module.weights"].map(|n| directory.join(n));
    fs::write(&external, text).expect("the scratch directory is writable");
    fs::copy(folder("models/external.data"), &weights).expect("the scratch directory is writable");
    let before = fs::read(&weights).expect("the file was copied");
    assert_error(
        &compile(&external, &directory.join("module.rs")),
        &["module.weights", "another path"],
    );
    assert_eq!(fs::read(&weights).expect("the file exists"), before);
    assert_eq!(list_names(&directory), ["external.onnxtxt", "module.weights", "scaled.onnxtxt"]);
    assert_success(&compile(&external, &directory.join("other.rs")));
}

#[test]
fn optimize_rejects_two_models_with_one_output() {
    let (directory, model) = create_model("optimize_same");
    let models = ["first", "second"].map(|name| directory.join(name).join("scaled.onnxtxt"));
    for copy in &models {
        fs::create_dir(copy.with_file_name("")).expect("the scratch directory is writable");
        fs::copy(&model, copy).expect("the scratch directory is writable");
    }
    let out = directory.join("out");
    let output = onnxc().arg("optimize").args(&models).arg("-o").arg(&out).output();
    let named = models.each_ref().map(|path| path.to_str().expect("paths are text"));
    assert_error(&output.expect("the program was built"), &named);
    assert!(!out.exists());
}

#[test]
fn a_folder_without_models_is_an_error() {
    let (directory, model) = create_model("optimize_empty");
    let empty = directory.join("empty");
    fs::create_dir_all(empty.join("deeper")).expect("the scratch directory is writable");
    let out = directory.join("out");
    let output = onnxc().arg("optimize").args([&empty, &model]).arg("-o").arg(&out).output();
    assert_error(&output.expect("the program was built"), &["empty", "holds no model"]);
    assert!(!out.exists());
}

#[test]
#[cfg(unix)]
fn links_to_folders_are_not_followed() {
    use std::os::unix::fs::symlink;
    let (directory, model) = create_model("optimize_links");
    let models = directory.join("models");
    fs::create_dir(&models).expect("the scratch directory is writable");
    symlink("..", models.join("up")).expect("the scratch directory is writable");
    symlink(&model, models.join("linked.onnxtxt")).expect("the scratch directory is writable");
    let out = directory.join("out");
    // The folder on the command line may itself be a link.
    let named = directory.join("named");
    symlink("models", &named).expect("the scratch directory is writable");
    assert_success(
        &onnxc()
            .arg("optimize")
            .arg(&named)
            .arg("-o")
            .arg(&out)
            .output()
            .expect("the program was built"),
    );
    assert_eq!(list_names(&out), ["linked.onnxtxt"]);
}

#[test]
fn an_unknown_pass_is_an_error() {
    let model = folder("models/mlp.onnxtxt");
    let compile =
        |more: &[&str]| onnxc().arg(&model).args(more).output().expect("the program was built");
    let message = ["there is no pass `smplify`", "import, gradient, simplify", "plan"];
    assert_error(&compile(&["--print-after", "smplify"]), &message);
    let small = compile(&["--optimize", "size", "--print-after", "layout"]);
    assert_error(&small, &["there is no pass `layout`"]);
    let shown = onnxc().args(["show", "--after", "smplify"]).arg(&model).output();
    assert_error(
        &shown.expect("the program was built"),
        &["there is no pass `smplify`", "simplify"],
    );
    let help = String::from_utf8(run(["--help"]).stdout).expect("help is UTF-8");
    assert!(help.contains("recognize, fuse, layout"), "{help}");
}

#[test]
fn a_repeated_option_is_an_error() {
    let (_, model) = create_model("twice");
    let twice = |option: &str, values: [&str; 2]| {
        let options = values.into_iter().flat_map(|value| [option, value]);
        onnxc().arg(&model).args(options).output().expect("the program was built")
    };
    let cases = [
        ("--dim", ["n=1", "n=2"], "`n`"),
        ("--shape", ["x=1", "x=2"], "`x`"),
        ("--const", ["by=1", "by"], "`by`"),
        ("--state", ["a=b", "a=c"], "`a`"),
        ("--custom", ["ai.onnx::Clip=a", "Clip=b"], "`Clip`"),
        ("--type", ["y=float", "y=int64"], "`y`"),
    ];
    for (option, values, name) in cases {
        assert_message(&twice(option, values), 2, &[name, "given twice"]);
    }
}

#[test]
fn a_wrong_value_of_an_option_is_a_wrong_command_line() {
    let (_, model) = create_model("wrong_value");
    let model = model.to_str().expect("the path is text");
    let tolerances = ["compare", "reduce", "test"].into_iter().flat_map(|command| {
        ["--rtol", "--atol"].map(|option| (command, option, &["nan", "inf", "-inf", "-1"][..]))
    });
    let inputs = ["run", "bench", "compare", "reduce"];
    let inputs = inputs.map(|command| (command, "--input", &["x.npy"][..]));
    let others = [
        ("inspect", "--flash", &["12Q", "-1"][..]),
        ("inspect", "--ram", &["12Q", "-1"]),
        ("inspect", "--dim", &["n=2x", "n"]),
        ("run", "--dim", &["n=2x"]),
        ("new", "--dim", &["n=2x"]),
        ("bench", "--seconds", &["nan", "-1"]),
    ];
    for (command, option, values) in tolerances.chain(inputs).chain(others) {
        for value in values {
            let value = format!("{option}={value}");
            let needs: &[&str] =
                if command == "new" { &["app", model, "--kind=server"] } else { &[model] };
            let output = run([&[command], needs, &[value.as_str()]].concat());
            let text = message(&output);
            assert_eq!(output.status.code(), Some(2), "{command} {value}: {text}");
            let named = option.trim_start_matches('-');
            assert!(text.contains(named) || text.contains("dimension"), "{command}: {text}");
        }
    }
    // A name that the model lacks is found when the model is read.
    assert_error(&run(["inspect", model, "--dim", "n=2"]), &["`n`"]);
}

#[test]
fn an_unknown_operator_is_an_error() {
    let output = run(["ops", "Relu", "Relux", "Softmix"]);
    assert_eq!(output.status.code(), Some(1));
    let text = message(&output);
    assert!(text.contains("`Relux`") && text.contains("`Softmix`"), "{text}");
    assert!(output.stdout.is_empty());
    assert!(message(&run(["ops", "relu"])).contains("did you mean `Relu`?"));
    let known = run(["ops", "Relu"]);
    assert_success(&known);
    assert!(known.stdout.starts_with(b"Relu (ai.onnx)"));
}

#[test]
fn a_command_after_a_model_is_an_error() {
    let (directory, model) = create_model("behind");
    let model = model.to_str().expect("the path is text");
    for (words, says) in [
        (["chek", model], "`chek` is neither a command nor a file".to_owned()),
        ([model, "check"], format!("the command `check` must come before `{model}`")),
    ] {
        assert_error(&run(words), &[&says]);
    }
    // A file may have the name of a command.
    let mut named = onnxc();
    fs::copy(model, directory.join("check")).expect("the scratch directory is writable");
    named.current_dir(&directory).args([model, "check", "-o", "."]);
    assert_success(&named.output().expect("the program was built"));
    assert!(directory.join("check.rs").exists());
}

#[test]
fn several_models_are_compiled_in_one_call() {
    let (directory, model) = create_model("several");
    let [second, missing] = ["second.onnxtxt", "third.onnxtxt"].map(|name| directory.join(name));
    fs::copy(&model, &second).expect("the scratch directory is writable");
    let modules = directory.join("modules");
    fs::create_dir(&modules).expect("the scratch directory is writable");
    let compile = |models: [&Path; 3]| {
        let models = models.map(Path::as_os_str);
        run(models.into_iter().chain(["-o".as_ref(), modules.as_os_str()]))
    };
    // The other models are compiled in spite of errors.
    assert_error(&compile([&missing, &model, &second]), &["third.onnxtxt` cannot be read"]);
    let names = ["scaled.rs", "scaled.weights", "second.rs", "second.weights"];
    assert_eq!(list_names(&modules), names);
    assert_error(&run([&model, &second]), &["several models need a directory"]);
    assert_error(&compile([&model, &second, &second]), &["would be written to one file"]);
}

#[test]
fn a_dash_as_the_output_is_standard_output() {
    let (directory, model) = create_model("dash");
    let model = model.to_str().expect("the path is text");
    let prepare = ["train-prep", model, "--loss=mse", "--optimizer=sgd", "--lr=0.1"];
    for (command, begins) in [
        (&[model][..], "// "),
        (&["optimize", model], "<"),
        (&["report", model], "<!DOCTYPE html>"),
        (&prepare, "<"),
    ] {
        let mut program = onnxc();
        program.current_dir(&directory).args(command).args(["-o", "-"]);
        let output = program.output().expect("the program was built");
        assert_success(&output);
        let text = String::from_utf8(output.stdout).expect("the output is text");
        assert!(text.starts_with(begins), "{command:?}: {}", &text[..text.len().min(80)]);
        assert_eq!(list_names(&directory), ["scaled.onnxtxt"], "{command:?}");
    }
}

#[test]
fn the_help_of_a_command_of_other_tools_is_that_of_compiling() {
    let output = run(["compile", "--help"]);
    assert_success(&output);
    let text = String::from_utf8(output.stdout).expect("help is UTF-8");
    assert!(text.contains("Usage: onnxc [OPTIONS] [MODEL]...\n"), "{text}");
    assert!(text.contains("--max-arena") && !text.contains("train-prep"), "{text}");
    let bench = message(&run(["benchmark", "--help"]));
    assert!(bench.contains("`onnxc bench` times a model"), "{bench}");
    // Words that are no commands do not change the help.
    for command in [&["inspect", "--help"][..], &["model.onnx", "--help"], &["--help"]] {
        let text = String::from_utf8(run(command).stdout).expect("help is UTF-8");
        let is_of_program = text.contains("train-prep");
        assert!(text.contains("Usage: ") && is_of_program != (command[0] == "inspect"), "{text}");
    }
}

#[test]
fn completions_and_manual_pages_have_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let output = run(["completions", shell]);
        assert_success(&output);
        let text = String::from_utf8(output.stdout).expect("completions are UTF-8");
        assert!(text.contains("train-prep") && text.contains("max-arena"), "{shell}");
    }
    let pages = scratch("command_line_man");
    assert_success(&run(["man".as_ref(), "-o".as_ref(), pages.as_os_str()]));
    let names = list_names(&pages);
    assert!(names.iter().all(|name| name.ends_with(".1")) && names.len() > 10, "{names:?}");
    let page = |name: &str| fs::read_to_string(pages.join(name)).expect("the page was written");
    // The format escapes hyphens.
    assert!(page("onnxc.1").contains(r"onnxc\-bench(1)"));
    assert!(page("onnxc-train-prep.1").contains("optimizer"));
}

#[test]
fn timings_are_printed_on_demand_and_progress_only_on_a_terminal() {
    let (directory, model) = create_model("timings");
    let module = directory.join("module.rs");
    let compile = compile(&model, &module);
    assert_success(&compile);
    assert_eq!(message(&compile), "");
    let timed = run([model.as_os_str(), "-o".as_ref(), module.as_os_str(), "--timings".as_ref()]);
    assert_success(&timed);
    let table = message(&timed);
    let names: Vec<&str> = table.lines().filter_map(|line| line.split(" s  ").nth(1)).collect();
    assert_eq!(names.first(), Some(&"import"), "{table}");
    assert!(names.ends_with(&["plan and emit", "write", "total"]), "{table}");
}

#[test]
fn diagnostics_of_every_command_are_printed_as_json_on_demand() {
    let (directory, _) = create_model("message_format");
    let missing = directory.join("missing.onnx");
    let missing = missing.to_str().expect("the path is text");
    for command in [&[][..], &["bench"], &["inspect"], &["run"], &["show"], &["compare"]] {
        let output = run(command.iter().chain(&[missing, "--message-format=json"]));
        assert_eq!(output.status.code(), Some(1));
        let line: serde_json::Value = serde_json::from_slice(&output.stderr).expect("one object");
        assert_eq!(line["code"], "E0001");
        assert_eq!(line["at"][0], missing);
    }
}

#[test]
fn the_version_has_that_of_the_interface() {
    let output = run(["--version"]);
    let interface = onnxc_runtime::INTERFACE_VERSION;
    let version = format!("onnxc {} (interface {interface})\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), version);
}

#[test]
fn optimizing_compares_results_on_demand() {
    let (directory, _) = create_model("verify");
    let model = directory.join("unsorted.onnxtxt");
    let text = r#"<ir_version: 10, opset_import: ["" : 21]> g (float[n, 2] x) => (float[n, 2] y)
        <float[2] w = {1, 2}> { y = Add (t, w) t = Mul (x, w) }"#;
    fs::write(&model, text).expect("the scratch directory is writable");
    let output = directory.join("sorted.onnx");
    let optimized = self::run([
        "optimize".as_ref(),
        "--verify".as_ref(),
        model.as_os_str(),
        "-o".as_ref(),
        output.as_os_str(),
    ]);
    assert_success(&optimized);
    assert!(message(&optimized).contains("warning[E0108]"), "{}", message(&optimized));
    assert_success(&self::run(["check".as_ref(), output.as_os_str()]));
}
