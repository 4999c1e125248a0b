//! `onnxc explain`: explains the codes of diagnostics.

use onnxc::diag::{Code, quoted};
use std::process::ExitCode;

/// Explains the code of a diagnostic, such as E0105, or lists all codes
#[derive(clap::Args)]
pub struct Options {
    /// The code, which a diagnostic shows in brackets
    code: Option<String>,
}

/// Runs the command.
pub fn run(options: &Options) -> ExitCode {
    let Some(text) = &options.code else {
        for code in Code::ALL {
            outln!("{code}  {}", code.summary());
        }
        return ExitCode::SUCCESS;
    };
    let number = text.trim_start_matches(['E', 'e']).parse().ok();
    let Some(code) = number.and_then(Code::from_number) else {
        eprintln!("error: there is no code {}; `onnxc explain` lists all", quoted(text));
        return ExitCode::FAILURE;
    };
    outln!("{code}: {}", code.explanation());
    ExitCode::SUCCESS
}
