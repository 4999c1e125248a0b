//! Prints diagnostics: text, in color on a terminal, or JSON.

use super::progress;
use clap::builder::StyledStr;
use onnxc::{
    diag::{Colors, Diagnostic, Diagnostics, quoted},
    ident,
};
use std::{
    env,
    io::{self, IsTerminal},
    ops::Range,
    process::{ExitCode, Termination},
    sync::OnceLock,
};

/// The options of every command about its diagnostics.
#[derive(clap::Args, Clone, Copy)]
#[group(skip)]
pub struct Options {
    /// The form of the diagnostics on standard error
    #[arg(long, global = true, value_enum, value_name = "FORM", default_value = "text")]
    message_format: Format,
}

/// The form of diagnostics.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For readers
    Text,
    /// A line of JSON for each: `code`, `severity`, `message`, `at`, `excerpt`, `notes`, `help`
    Json,
}

static FORMAT: OnceLock<Format> = OnceLock::new();

/// Sets the form of all diagnostics.
pub fn start(options: Options) {
    FORMAT.get_or_init(|| options.message_format);
}

/// Returns the exit status for the outcome of a command. Prints its diagnostics.
pub fn status(outcome: Result<impl Termination, impl Into<Diagnostics>>) -> ExitCode {
    match outcome {
        Ok(status) => status.report(),
        Err(diagnostics) => {
            print(&diagnostics.into());
            ExitCode::FAILURE
        }
    }
}

/// Returns the exit status of a command that judges something.
pub fn judge(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints diagnostics to standard error, and their number if there are several.
pub fn print(diagnostics: &Diagnostics) {
    print_each(diagnostics);
    if let Some(count) = diagnostics.text().count().filter(|_| !is_json()) {
        eprintln!("\n{count}");
    }
}

fn print_each(diagnostics: &Diagnostics) {
    progress::hide();
    if is_json() {
        diagnostics.0.iter().for_each(|diagnostic| eprintln!("{}", json(diagnostic)));
        return;
    }
    eprintln!("{}", diagnostics.text().colors(colors(&io::stderr())));
}

fn is_json() -> bool {
    FORMAT.get() == Some(&Format::Json)
}

/// Returns a diagnostic as JSON.
pub fn json(diagnostic: &Diagnostic) -> serde_json::Value {
    let excerpt = diagnostic.excerpt.as_ref().map(|excerpt| {
        let Range { start, end } = excerpt.underlined;
        serde_json::json!({ "line": excerpt.line, "underlined": [start, end] })
    });
    serde_json::json!({
        "code": diagnostic.code.to_string(),
        "severity": if diagnostic.is_error() { "error" } else { "warning" },
        "message": diagnostic.message,
        "at": diagnostic.at,
        "excerpt": excerpt,
        "notes": diagnostic.notes,
        "help": diagnostic.help,
    })
}

/// Prints warnings to standard error, and their number.
pub fn print_warnings(warnings: Vec<Diagnostic>) {
    if warnings.is_empty() {
        return;
    }
    let warnings = Diagnostics(warnings);
    print_each(&warnings);
    if !is_json() {
        let count = warnings.text().count().unwrap_or_else(|| "one warning".to_owned());
        let is_checked = warnings.0.iter().any(|warning| warning.code.is_invalidity());
        let hint = "; `onnxc check` lists the rules that the model violates";
        eprintln!("\n{count}{}", if is_checked { hint } else { "" });
    }
}

/// Adds the most similar of `names` to an error about an unknown name.
pub fn suggest<'n>(
    error: Diagnostic,
    name: &str,
    names: impl IntoIterator<Item = &'n str>,
) -> Diagnostic {
    match ident::nearest(name, names) {
        Some(near) => error.help(format!("did you mean {}?", quoted(near))),
        None => error,
    }
}

/// Returns the text that another program wrote, without its escape codes for colors.
pub fn plain(bytes: &[u8]) -> String {
    // Clap's styled text is text with escape codes, and is displayed without them.
    StyledStr::from(String::from_utf8_lossy(bytes).into_owned()).to_string()
}

/// Returns the colors for output to `stream`: ANSI colors on a terminal, unless the environment
/// says otherwise.
pub fn colors(stream: &impl IsTerminal) -> Colors {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    let wants = stream.is_terminal() && !is_dumb || is_set("CLICOLOR_FORCE");
    if wants && !is_set("NO_COLOR") { Colors::Ansi } else { Colors::Plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_other_programs_has_no_escape_codes() {
        let found = plain(b"\x1b[1;31m2026 [E:onnxruntime]\x1b[m\tbad \xe2\x80\xa6\n\x1b[0m");
        assert_eq!(found, "2026 [E:onnxruntime]\tbad \u{2026}\n");
    }
}
