//! The programs that tests call: `onnxc`, and rustc with the arguments of cargo.

use serde_json::Value;
use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

/// The artifacts of cargo's build.
struct Built {
    onnxc: PathBuf,
    compiler: PathBuf,
    proto: PathBuf,
    macros: PathBuf,
    runtime: PathBuf,
    libm: PathBuf,
}

/// The features that `cargo test --workspace` selects, as in `tests/build`. With other ones, cargo
/// builds the kernels and the compiler again.
const FEATURES: &str = "onnxc-runtime/ndarray";

/// Returns the root of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a member of the workspace")
}

/// Returns a folder of this package.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Creates an empty directory for a test.
pub fn scratch(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if path.exists() {
        std::fs::remove_dir_all(&path).expect("the scratch directory is writable");
    }
    std::fs::create_dir_all(&path).expect("cargo made the directory around");
    path
}

/// Returns a command that runs `onnxc`.
pub fn onnxc() -> Command {
    Command::new(&built().onnxc)
}

/// Checks a file with rustc, as a library or a program that depends on the macro and the runtime
/// library. Paths of models are relative to this package.
pub fn rustc(file: &Path, edition: &str, crate_type: &str) -> Output {
    let mut command = tool("rustc", file, edition, crate_type);
    command.arg("--emit=metadata,dep-info");
    command.arg(format!("--out-dir={}", env!("CARGO_TARGET_TMPDIR")));
    command.output().expect("rustc compiled this test")
}

/// Checks a library with rustc that depends on a runtime library without features, which is built
/// in `directory`.
pub fn rustc_without_features(file: &Path, directory: &Path) -> Output {
    let libm = &built().libm;
    let dependencies = libm.parent().expect("an artifact has a parent directory");
    let metadata = |name: &str, file: &Path, needs: (&str, &Path)| {
        Command::new("rustc")
            .arg(file)
            .args(["--edition=2024", "--crate-type=lib", "--emit=metadata"])
            .args(["--cfg", "feature=\"matmul\""])
            .arg(format!("--crate-name={name}"))
            .arg(format!("--extern={}={}", needs.0, needs.1.display()))
            .arg(format!("-Ldependency={}", dependencies.display()))
            .arg(format!("--out-dir={}", directory.display()))
            .env("CARGO_PKG_VERSION", env!("CARGO_PKG_VERSION"))
            .output()
            .expect("rustc compiled this test")
    };
    let runtime = directory.join("libonnxc_runtime.rmeta");
    if !runtime.exists() {
        let source = root().join("runtime-lib/src/lib.rs");
        let output = metadata("onnxc_runtime", &source, ("libm", libm));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    metadata("program", file, ("onnxc_runtime", &runtime))
}

/// Runs rustdoc on a library, with warnings as errors, and writes the pages to `directory`.
pub fn rustdoc(file: &Path, edition: &str, directory: &Path) -> Output {
    let mut command = tool("rustdoc", file, edition, "lib");
    command.arg("-Dwarnings").arg("-o").arg(directory);
    command.output().expect("rustdoc is next to rustc")
}

/// Compiles a program without warnings and runs it. Its assertions must hold.
pub fn run(file: &Path) {
    let program = file.with_extension(env::consts::EXE_EXTENSION);
    let mut command = tool("rustc", file, "2024", "bin");
    let output = command.arg("-Dwarnings").arg("-o").arg(&program).output();
    let output = output.expect("rustc compiled this test");
    let message = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}\n{}", file.display(), message(&output));
    let output = Command::new(&program).output().expect("rustc wrote the file");
    assert!(output.status.success(), "{}\n{}", file.display(), message(&output));
}

/// Returns the arguments that give rustc all crates of the workspace.
pub fn crates() -> Vec<String> {
    let built = built();
    let dependencies = built.runtime.parent().expect("an artifact has a parent directory");
    let crates = [
        ("onnxc", &built.compiler),
        ("onnxc_macros", &built.macros),
        ("onnxc_proto", &built.proto),
        ("onnxc_runtime", &built.runtime),
    ];
    let arguments = crates.map(|(name, path)| format!("--extern={name}={}", path.display()));
    arguments.into_iter().chain([format!("-Ldependency={}", dependencies.display())]).collect()
}

/// Returns a command that runs rustc or rustdoc on a file that depends on the macro and the runtime
/// library.
fn tool(name: &str, file: &Path, edition: &str, crate_type: &str) -> Command {
    let built = built();
    let artifact = |name: &str, path: &Path| format!("--extern={name}={}", path.display());
    let dependencies = built.runtime.parent().expect("an artifact has a parent directory");
    let mut command = Command::new(name);
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"))
        .arg(file)
        .arg(format!("--edition={edition}"))
        .arg(format!("--crate-type={crate_type}"))
        .arg(format!("-Ldependency={}", dependencies.display()))
        .arg(artifact("onnxc_macros", &built.macros))
        .arg(artifact("onnxc_runtime", &built.runtime));
    command
}

/// Builds the workspace with cargo, most of it already built, and returns the paths of artifacts.
fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        // Tests are in `TARGET/PROFILE/deps`.
        let exe = env::current_exe().expect("the program that runs has a path");
        let target = exe.ancestors().nth(3).expect("cargo put it three levels deep");
        let cargo = env::var_os("CARGO").unwrap_or("cargo".into());
        let output = Command::new(cargo)
            .current_dir(root())
            .args(["build", "--workspace", "--message-format=json"])
            .args(["--features", FEATURES, "--target-dir"])
            .arg(target)
            .output()
            .expect("cargo built this test");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let messages = String::from_utf8(output.stdout).expect("JSON is UTF-8");
        let messages = messages.lines().filter_map(|line| serde_json::from_str(line).ok());
        let messages: Vec<Value> = messages.collect();
        Built {
            onnxc: artifact(&messages, "onnxc", "bin"),
            compiler: artifact(&messages, "onnxc", "lib"),
            proto: artifact(&messages, "onnxc_proto", "lib"),
            macros: artifact(&messages, "onnxc_macros", "proc-macro"),
            runtime: artifact(&messages, "onnxc_runtime", "lib"),
            libm: artifact(&messages, "libm", "lib"),
        }
    })
}

/// Returns the file of a target from cargo's messages.
fn artifact(messages: &[Value], name: &str, kind: &str) -> PathBuf {
    let made = |message: &&Value| {
        message["target"]["name"] == name && message["target"]["kind"][0] == kind
    };
    let file = messages.iter().filter(made).find_map(|message| {
        let files = [&message["executable"], &message["filenames"][0]];
        files.into_iter().find_map(Value::as_str)
    });
    file.unwrap_or_else(|| panic!("cargo says nothing of {name}")).into()
}
