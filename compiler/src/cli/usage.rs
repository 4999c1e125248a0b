//! Errors of the command line itself, which the parser of arguments finds.

use super::message;
use clap::{
    Error,
    error::{ContextKind, ContextValue, ErrorKind},
};
use onnxc::diag::{Code, Diagnostic, Diagnostics};
use std::{env, ffi::OsString, process::ExitCode};

/// Options of other tools, and what onnxc has for them.
const HINTS: &[(&str, &str)] = &[
    ("--batch", "`--dim NAME=N` fixes a size of the model"),
    ("--batch-size", "`--dim NAME=N` fixes a size of the model"),
    ("--input-shape", "`--dim NAME=N` fixes a size, `--shape NAME=SIZES` the axes of an input"),
    ("--opset", "the model has its operator set; `onnx.version_converter` converts it"),
    ("--fp16", "`--precision f16` stores weights in 16 bits"),
    ("--half", "`--precision f16` stores weights in 16 bits"),
    ("--quantize", "`--precision int8-weights` stores weights in 8 bits"),
    ("-O", "modules are optimized for speed; `--optimize size` makes them small"),
    ("--target", "a module is for every target; `cargo build --target` selects one"),
];

/// The exit status of a wrong command line, which is that of clap.
const STATUS: u8 = 2;

/// Prints errors of the values on the command line. Returns the exit status.
pub fn refuse(diagnostics: &Diagnostics) -> ExitCode {
    message::print(diagnostics);
    STATUS.into()
}

/// Prints an error of the command line, as JSON if the command line asks for it, or the help or the
/// version that it asks for. Returns the exit status.
pub fn print(mut error: Error) -> ExitCode {
    if error.kind() == ErrorKind::UnknownArgument {
        add_hint(&mut error);
    }
    if error.use_stderr() && wants_json(env::args_os().skip(1)) {
        eprintln!("{}", message::json(&diagnostic(&error.render().to_string())));
    } else {
        // The reader may be gone.
        drop(error.print());
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Replaces the tips of an error about an unknown option by a better one, if there is one. Values
/// that start with `-` are rare here, so that a tip how to pass them does not help.
fn add_hint(error: &mut Error) {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return };
    let hint = HINTS.iter().find(|(other, _)| other == option).map(|(_, hint)| *hint);
    error.remove(ContextKind::Suggested);
    if let Some(hint) = hint {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
}

/// Returns whether arguments that cannot be parsed ask for diagnostics as JSON.
fn wants_json(arguments: impl Iterator<Item = OsString>) -> bool {
    let arguments: Vec<OsString> = arguments.take_while(|argument| argument != "--").collect();
    let is_json = |pair: &[OsString]| pair[0] == "--message-format" && pair[1] == "json";
    arguments.iter().any(|argument| argument == "--message-format=json")
        || arguments.windows(2).any(is_json)
}

/// Returns the diagnostic for the text of an error: a paragraph of the message, and others of tips
/// and usage.
fn diagnostic(text: &str) -> Diagnostic {
    let mut paragraphs = text
        .split("\n\n")
        .map(|paragraph| paragraph.lines().map(str::trim).collect::<Vec<_>>().join(" "));
    let message = paragraphs.next().unwrap_or_default();
    let error = Diagnostic::new(Code::BadOption, message.trim_start_matches("error: "));
    paragraphs.fold(error, |error, paragraph| match paragraph.split_once(": ") {
        Some(("tip", tip)) => error.help(tip),
        Some(("Usage", usage)) => error.note(format!("usage: {usage}")),
        Some(_) | None => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_found_among_arguments_that_cannot_be_parsed() {
        let wants = |line: &str| wants_json(line.split(' ').map(OsString::from));
        assert!(wants("m.onnx --wrong --message-format json"));
        assert!(wants("--message-format=json run"));
        assert!(!wants("run json --message-format"));
        assert!(!wants("run --message-format text json"));
        assert!(!wants("run -- --message-format=json"));
    }

    #[test]
    fn an_error_has_its_tip_and_its_usage() {
        let error = diagnostic(
            "error: invalid value 'sise' for '--optimize <optimize>'\n  \
             [possible values: time, size]\n\n  \
             tip: a similar value exists: 'size'\n\n\
             Usage: onnxc [OPTIONS]\n\n\
             For more information, try '--help'.\n",
        );
        let message =
            "invalid value 'sise' for '--optimize <optimize>' [possible values: time, size]";
        assert_eq!(error.message, message);
        assert_eq!(error.help.as_deref(), Some("a similar value exists: 'size'"));
        assert_eq!(error.notes, ["usage: onnxc [OPTIONS]"]);
    }
}
