//! Runs cargo on a project that the program wrote.

use super::progress;
use onnxc::diag::{Code, Diagnostic, Result};
use std::{
    env,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

/// Runs `cargo build` in `root`, with its target directory there. Returns the messages of cargo and
/// rustc if the build fails.
///
/// # Errors
///
/// Returns an error if cargo cannot be run.
pub fn build(root: &Path, arguments: &[&str]) -> Result<Option<String>> {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(root).arg("build").args(arguments);
    command.env("CARGO_TARGET_DIR", root.join("target")).env("CARGO_TERM_COLOR", "never");
    let failed = |error: std::io::Error| {
        let message = format!("cargo cannot be run: {error}");
        Diagnostic::new(Code::Io, message).help("install Rust: https://rustup.rs")
    };
    let mut cargo = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().map_err(failed)?;
    let lines = BufReader::new(cargo.stderr.take().expect("it is piped")).lines();
    let mut messages = String::new();
    for line in lines.map_while(std::io::Result::ok) {
        match status(&line) {
            Some((verb, about)) => progress::set_about(format!("({verb} {about})")),
            None => {
                messages.push_str(&line);
                messages.push('\n');
            }
        }
    }
    Ok((!cargo.wait().map_err(failed)?.success()).then_some(messages))
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
}
