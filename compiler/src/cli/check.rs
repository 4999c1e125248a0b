//! `onnxc check`: checks whether models are valid.

use super::{message, options::Shared, progress};
use onnxc::{
    CheckReport, Compiler,
    diag::{Diagnostic, Diagnostics},
};
use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Checks whether models are valid ONNX, and reports every error
///
/// A model is valid if it follows every rule of the ONNX specification. Violations that onnxc mends
/// when it compiles the model, with a warning, make it invalid too, and so do types and shapes of
/// outputs that it infers, and shapes of inputs that `--shape` gives. Parts of a valid model that
/// onnxc cannot compile (an operator, an unbounded size) are reported, but do not make it invalid.
/// The exit status is 1 if a model is invalid or cannot be read, else 0. `onnxc explain` explains
/// the codes.
#[derive(clap::Args)]
pub struct Options {
    /// The models
    #[arg(required = true)]
    models: Vec<PathBuf>,
    #[command(flatten)]
    shared: Shared,
    /// Print each diagnostic as a line of JSON: `model`, `code`, `severity` (`error`, or `warning`
    /// if the model compiles in spite of it), `invalid` (whether it makes the model invalid),
    /// `message`, `at`, `notes`, `help`
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(options: &Options) -> Result<ExitCode, Diagnostics> {
    let shared = options.shared.options()?;
    shared.validate()?;
    let mut all_valid = true;
    for (i, model) in options.models.iter().enumerate() {
        let (number, count) = (i + 1, options.models.len());
        progress::enter("check", format!("{} ({number} of {count})", model.display()));
        let report = Compiler::new(&shared).check(model);
        all_valid &= report.as_ref().is_ok_and(|report| report.invalid.is_empty());
        match report {
            Ok(report) if options.json => json(model, &report),
            Ok(report) => text(model, report),
            Err(unreadable) if options.json => json_line(model, &unreadable, false),
            Err(unreadable) => message::print(&unreadable.into()),
        }
    }
    Ok(message::judge(all_valid))
}

fn text(model: &Path, report: CheckReport) {
    let is_valid = report.invalid.is_empty();
    let found = Diagnostics([report.invalid, report.unsupported, report.warnings].concat());
    let outcome = match (is_valid, found.0.iter().any(Diagnostic::is_error)) {
        (true, false) => "valid",
        (true, true) => "valid, but onnxc cannot compile it",
        (false, false) => "invalid, but onnxc can compile it",
        (false, true) => "invalid",
    };
    outln!("{}: {outcome}", model.display());
    if !found.0.is_empty() {
        let text = found.text().strict().colors(message::colors(&io::stdout()));
        outln!("\n{text}\n");
        text.count().iter().for_each(|count| outln!("{count}\n"));
    }
}

fn json(model: &Path, report: &CheckReport) {
    report.invalid.iter().for_each(|diagnostic| json_line(model, diagnostic, true));
    let others = report.unsupported.iter().chain(&report.warnings);
    others.for_each(|diagnostic| json_line(model, diagnostic, false));
}

fn json_line(model: &Path, diagnostic: &Diagnostic, invalid: bool) {
    let mut line = message::json(diagnostic);
    line["model"] = model.display().to_string().into();
    line["invalid"] = invalid.into();
    outln!("{line}");
}
