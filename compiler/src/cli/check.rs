//! `onnxc check`: checks whether models are valid.

use super::options::Shared;
use onnxc::{
    CheckReport, Compiler,
    diag::{Diagnostic, Diagnostics},
};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Checks whether models are valid ONNX, and reports every error
///
/// A model is valid if it follows every rule of the ONNX specification. Parts of a valid model that
/// onnxc cannot compile (an operator, an unbounded size) are reported too, but do not make it
/// invalid. The exit status is 1 if a model is invalid or cannot be read, else 0. `onnxc explain`
/// explains the codes.
#[derive(clap::Args)]
pub struct Options {
    /// The models
    #[arg(required = true)]
    models: Vec<PathBuf>,
    #[command(flatten)]
    shared: Shared,
    /// Print each diagnostic as a line of JSON: `model`, `code`, `invalid` (whether the model is
    /// invalid), `message`, `at`, `notes`, `help`
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(options: &Options) -> ExitCode {
    let shared = options.shared.options().map_err(Diagnostics::from);
    let shared = match shared.and_then(|shared| shared.validate().map(|()| shared)) {
        Ok(shared) => shared,
        Err(diagnostics) => {
            eprintln!("{diagnostics}");
            return ExitCode::FAILURE;
        }
    };
    let mut all_valid = true;
    for model in &options.models {
        let report = Compiler::new(&shared).check(model);
        all_valid &= report.invalid.is_empty();
        if options.json { json(model, &report) } else { text(model, report) }
    }
    if all_valid { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn text(model: &Path, report: CheckReport) {
    let outcome = match (report.invalid.len(), report.unsupported.len()) {
        (0, 0) => "valid",
        (0, _) => "valid, but onnxc cannot compile it",
        (_, _) => "invalid",
    };
    outln!("{}: {outcome}", model.display());
    let found = [report.invalid, report.unsupported].concat();
    if !found.is_empty() {
        outln!("\n{}\n", Diagnostics(found));
    }
}

fn json(model: &Path, report: &CheckReport) {
    let line = |diagnostic: &Diagnostic, invalid: bool| {
        let line = serde_json::json!({
            "model": model.display().to_string(),
            "code": diagnostic.code.to_string(),
            "invalid": invalid,
            "message": diagnostic.message,
            "at": diagnostic.at,
            "notes": diagnostic.notes,
            "help": diagnostic.help,
        });
        outln!("{line}");
    };
    report.invalid.iter().for_each(|diagnostic| line(diagnostic, true));
    report.unsupported.iter().for_each(|diagnostic| line(diagnostic, false));
}
