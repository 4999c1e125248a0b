//! Runs cargo on a project that the program wrote.

use super::{message, progress};
use onnxc::diag::{Code, Diagnostic, Result, quoted};
use std::{
    env, io,
    io::{BufRead as _, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};

/// The result of a build.
pub enum Build {
    /// The path of the program.
    Program(PathBuf),
    /// The messages of cargo and rustc about what does not build.
    Failed(String),
}

/// Runs `cargo build` in `root`, with its target directory there, for the machine that runs this
/// program, whatever the user's configuration of cargo says. `program` is the name of the program
/// that is built.
///
/// # Errors
///
/// Returns an error if cargo cannot be run.
pub fn build(root: &Path, program: &str, arguments: &[&str]) -> Result<Build> {
    let mut command = cargo(root);
    command.args(["build", "--message-format=json-render-diagnostics", "--target"]);
    command.arg(host(root)?).args(arguments);
    command.env("CARGO_TARGET_DIR", root.join("target")).env("CARGO_TERM_COLOR", "never");
    let mut cargo =
        command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let artifacts = cargo.stdout.take().expect("it is piped");
    // Cargo writes both streams at the same time.
    let artifacts = thread::spawn(move || io::read_to_string(artifacts));
    let messages = messages(cargo.stderr.take().expect("it is piped"));
    let artifacts = artifacts.join().expect("reading does not panic").map_err(failed)?;
    if !cargo.wait().map_err(failed)?.success() {
        return Ok(Build::Failed(messages));
    }
    let found = executable(&artifacts, program).ok_or_else(|| {
        let message = format!("cargo built no program {}", quoted(program));
        Diagnostic::new(Code::Internal, message)
    })?;
    Ok(Build::Program(found))
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(root);
    command
}

fn failed(error: io::Error) -> Diagnostic {
    let message = format!("cargo cannot be run: {error}");
    Diagnostic::new(Code::Io, message).help("install Rust: https://rustup.rs")
}

/// Returns the target of this machine, as the toolchain in `root` names it.
fn host(root: &Path) -> Result<String> {
    let output = cargo(root).arg("-vV").output().map_err(failed)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| {
        let errors = message::plain(&output.stderr);
        let message = "`cargo -vV` does not name this machine";
        Diagnostic::new(Code::Io, message).note(errors.trim_end())
    })
}

/// Reads cargo's standard error: shows its progress, and returns the messages.
fn messages(stderr: impl Read) -> String {
    let mut messages = String::new();
    for line in BufReader::new(stderr).lines().map_while(io::Result::ok) {
        match status(&line) {
            Some((verb, about)) => progress::set_about(format!("({verb} {about})")),
            None => {
                messages.push_str(&line);
                messages.push('\n');
            }
        }
    }
    message::plain(messages.as_bytes())
}

/// Returns the path of a program among cargo's artifacts, which are lines of JSON.
fn executable(artifacts: &str, program: &str) -> Option<PathBuf> {
    artifacts.lines().find_map(|line| {
        let artifact: serde_json::Value = serde_json::from_str(line).ok()?;
        let path = artifact["executable"].as_str()?;
        (artifact["target"]["name"] == program).then(|| path.into())
    })
}

/// Parses a line of cargo's progress: a verb that ends in column 12, and the name of a crate.
fn status(line: &str) -> Option<(&str, &str)> {
    let (verb, about) = (line.get(..12)?.trim_start(), line.get(13..)?);
    let is_verb = verb.starts_with(|c: char| c.is_ascii_uppercase())
        && verb.bytes().all(|c| c.is_ascii_alphabetic());
    is_verb.then(|| (verb, about.split(' ').next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn progress_is_no_message() {
        let line = "   Compiling onnxc-runtime v0.1.0 (/sources/runtime-lib)";
        assert_eq!(status(line), Some(("Compiling", "onnxc-runtime")));
        assert_eq!(
            status("    Finished `release` profile [optimized]"),
            Some(("Finished", "`release`"))
        );
        for message in ["error[E0308]: mismatched types", "  --> src/model.rs:4:5", "", "   |"] {
            assert_eq!(status(message), None, "{message}");
        }
    }

    #[test]
    fn the_configuration_of_the_user_does_not_move_the_program() {
        let outside = env::temp_dir().join(format!("onnxc-cargo-{}", std::process::id()));
        let root = outside.join("project");
        let file = |path: &Path, text: &str| {
            fs::create_dir_all(path.parent().expect("a file is in a directory"))
                .and_then(|()| fs::write(path, text))
                .expect("the temporary directory is writable");
        };
        file(&outside.join(".cargo/config.toml"), "[build]\ntarget = \"no-such-target\"\n");
        let manifest = "[package]\nname = \"greet\"\nedition = \"2024\"\n[workspace]\n";
        file(&root.join("Cargo.toml"), manifest);
        file(&root.join("src/main.rs"), "fn main() { println!(\"built\") }");
        let built = build(&root, "greet", &[]).expect("cargo runs this test");
        let Build::Program(program) = built else { panic!("the program is correct") };
        let output = Command::new(&program).output().expect("it is a program of this machine");
        assert_eq!(output.stdout.trim_ascii(), b"built");
        file(&root.join("src/main.rs"), "fn main() { 1 }");
        let built = build(&root, "greet", &[]).expect("cargo runs this test");
        let Build::Failed(messages) = built else { panic!("1 is not ()") };
        assert!(messages.contains("error[E0308]"), "{messages}");
        fs::remove_dir_all(&outside).expect("this test wrote it");
    }
}
