//! `onnxc reference`, a hidden command: generates pages of `docs/reference`.
//!
//! `tests/it/reference.rs` compares the pages with its output.

use clap::{Arg, ArgAction, Command};
use onnxc::diag::Code;
use std::process::ExitCode;

/// Prints a reference page of the documentation
#[derive(clap::Args)]
pub struct Options {
    /// The page
    page: Page,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Page {
    Options,
    ErrorCodes,
}

/// Runs the command, about the options of `program`.
pub fn run(options: &Options, program: Command) -> ExitCode {
    let text = match options.page {
        Page::Options => options_page(program),
        Page::ErrorCodes => error_codes_page(),
    };
    out!("{text}");
    ExitCode::SUCCESS
}

const OPTIONS: &str = include_str!("reference/options.md");

/// Generates the page of options.
fn options_page(mut program: Command) -> String {
    program.build();
    let mut text = OPTIONS.to_owned();
    text.push_str(&command(&program, "onnxc"));
    let is_listed = |command: &&Command| command.get_name() != "help" && !command.is_hide_set();
    for subcommand in program.get_subcommands().filter(is_listed) {
        text.push_str(&command(subcommand, &format!("onnxc {}", subcommand.get_name())));
    }
    text
}

/// Generates the section of a command.
fn command(command: &Command, name: &str) -> String {
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string);
    let mut text = format!("\n## {name}\n\n");
    for paragraph in about.unwrap_or_default().split("\n\n") {
        text.push_str(&wrap(&sentence(paragraph)));
        text.push('\n');
    }
    text.push_str("| option | meaning |\n|---|---|\n");
    let documented =
        |arg: &&Arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    // An option of all commands is listed once, with the program.
    let is_listed = |arg: &&Arg| name == "onnxc" || !arg.is_global_set();
    for arg in command.get_arguments().filter(documented).filter(is_listed) {
        text.push_str(&format!("| {} | {} |\n", usage(arg), meaning(arg)));
    }
    text
}

/// The usage of an option or argument.
fn usage(arg: &Arg) -> String {
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let possible: Vec<String> =
        arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    let value = match (takes_value, possible.as_slice()) {
        (false, _) => String::new(),
        (true, []) => {
            let names = arg.get_value_names().unwrap_or_default();
            names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ")
        }
        (true, possible) => possible.join("|"),
    };
    let short = arg.get_short().map_or(String::new(), |short| format!("`-{short}`, "));
    let text = match (arg.get_long(), arg.get_short(), value.as_str()) {
        (Some(long), _, "") => format!("{short}`--{long}`"),
        (Some(long), _, value) if arg.is_require_equals_set() => {
            format!("{short}`--{long}[={value}]`")
        }
        (Some(long), _, value) => format!("{short}`--{long} {value}`"),
        (None, Some(short), value) => format!("`-{short} {value}`"),
        (None, None, value) => format!("`{value}`"),
    };
    text.replace('|', "\\|")
}

/// The help of an option, with its possible values and its default.
fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut parts = vec![sentence(&help)];
    for value in arg.get_possible_values() {
        if let Some(help) = value.get_help() {
            parts.push(format!("`{}`: {}", value.get_name(), sentence(&help.to_string())));
        }
    }
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if !defaults.is_empty() && arg.get_action().takes_values() {
        parts.push(format!("Default: `{}`.", defaults.join(" ")));
    }
    parts.join("<br>").replace('|', "\\|").replace('\n', " ")
}

/// Ends a text with a full stop.
fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', ']']) { text.to_owned() } else { format!("{text}.") }
}

const ERROR_CODES: &str = include_str!("reference/error-codes.md");

/// The groups of codes: the first number, and the title.
const GROUPS: &[(u16, &str)] = &[
    (0, "Files and options"),
    (100, "The file violates the ONNX specification"),
    (200, "Types and sizes"),
    (300, "Valid models that onnxc cannot compile"),
    (400, "Training"),
    (900, "Errors of onnxc"),
];

/// Generates the page of error codes.
fn error_codes_page() -> String {
    let mut text = ERROR_CODES.to_owned();
    for (first, title) in GROUPS {
        text.push_str(&format!("\n## {title}\n"));
        let in_group = |code: &&Code| (*first..first + 100).contains(&(**code as u16));
        for code in Code::ALL.iter().filter(in_group) {
            text.push_str(&format!("\n### {code}\n\n{}", wrap(code.explanation())));
        }
    }
    for code in Code::ALL {
        assert!(text.contains(&format!("### {code}\n")), "{code} is in no group");
    }
    text
}

/// Wraps a paragraph at 100 columns.
fn wrap(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("`lines` starts with one line");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > 100 {
            lines.push(word.to_owned());
        } else {
            let space = if last.is_empty() { "" } else { " " };
            last.push_str(space);
            last.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}
