//! `onnxc explain`: explains the codes of diagnostics.

use onnxc::diag::{Code, Diagnostic, Result, quoted};

/// Explains the code of a diagnostic, such as E0105, or lists all codes
#[derive(clap::Args)]
pub struct Options {
    /// The code, which a diagnostic shows in brackets
    code: Option<String>,
}

/// Runs the command.
pub fn run(options: &Options) -> Result {
    let Some(text) = &options.code else {
        for code in Code::ALL {
            outln!("{code}  {}", code.summary());
        }
        return Ok(());
    };
    let number = text.trim_start_matches(['E', 'e']).parse().ok();
    let Some(code) = number.and_then(Code::from_number) else {
        let message = format!("there is no code {}", quoted(text));
        let help = "`onnxc explain` lists all";
        return Err(Diagnostic::new(Code::BadOption, message).help(help));
    };
    outln!("{code}: {}", code.explanation());
    Ok(())
}
