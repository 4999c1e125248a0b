//! The commands of the `onnxc` program.

/// Prints results to standard output. See [`print`].
macro_rules! out {
    ($($text:tt)*) => { $crate::cli::print(format_args!($($text)*)) };
}

/// Prints a line of results to standard output.
macro_rules! outln {
    ($($text:tt)*) => { out!("{}\n", format_args!($($text)*)) };
}

mod analysis;
mod bench;
mod check;
mod compare;
mod compile;
mod explain;
mod files;
mod inputs;
mod inspect;
mod message;
mod new;
mod npy;
mod npz;
mod ops;
mod optimize;
mod options;
mod precision;
mod reference;
mod report;
mod run;
mod runtime;
mod show;
mod sources;
mod test;
mod train_prep;
mod verify;

use clap::{
    CommandFactory, Parser,
    error::{ContextKind, ContextValue},
};
use onnxc::{
    diag::{Code, Diagnostic, quoted},
    ident,
};
use std::{
    env,
    ffi::OsString,
    fmt,
    io::{self, ErrorKind, Write},
    path::Path,
    process::{self, ExitCode},
};

/// Compiles ONNX models to Rust.
#[derive(Parser)]
#[command(version, about, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    compile: compile::Compile,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    Bench(bench::Options),
    Check(check::Options),
    Compare(compare::Options),
    Explain(explain::Options),
    Inspect(inspect::Options),
    New(new::Options),
    Ops(ops::Options),
    Optimize(optimize::Options),
    #[command(hide = true)]
    Reference(reference::Options),
    Report(report::Options),
    Run(run::Options),
    Show(show::Options),
    Test(test::Options),
    TrainPrep(train_prep::Options),
}

/// Runs the command of the command line.
pub fn main() -> ExitCode {
    let cli = parse_command_line();
    match cli.command {
        None => match cli.compile.model.as_deref().and_then(no_model) {
            Some(error) => {
                message::print(&error.into());
                ExitCode::FAILURE
            }
            None => compile::run(&cli.compile),
        },
        Some(Command::Bench(options)) => bench::run(&options),
        Some(Command::Check(options)) => check::run(&options),
        Some(Command::Compare(options)) => compare::run(&options),
        Some(Command::Explain(options)) => explain::run(&options),
        Some(Command::Inspect(options)) => inspect::run(&options),
        Some(Command::New(options)) => new::run(&options),
        Some(Command::Ops(options)) => ops::run(&options),
        Some(Command::Optimize(options)) => optimize::run(&options),
        Some(Command::Reference(options)) => reference::run(&options, Cli::command()),
        Some(Command::Report(options)) => report::run(&options),
        Some(Command::Run(options)) => run::run(&options),
        Some(Command::Show(options)) => show::run(&options),
        Some(Command::Test(options)) => test::run(&options),
        Some(Command::TrainPrep(options)) => train_prep::run(&options),
    }
}

/// Parses the command line. Ends the program if it is invalid.
fn parse_command_line() -> Cli {
    let words: Vec<OsString> = env::args_os().collect();
    Cli::try_parse_from(&words).unwrap_or_else(|error| match explain_second_word(&error, &words) {
        Some(message) => Cli::command().error(error.kind(), message).exit(),
        None => error.exit(),
    })
}

/// The message for a word that follows a model, or an unknown command that was parsed as a model:
/// the parser would call the word an unknown command.
fn explain_second_word(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let model = (1..words.len()).filter(|&at| words[at] == word.as_str()).find_map(|at| {
        let before = Cli::try_parse_from(&words[..at]).ok()?;
        before.compile.model
    })?;
    let is_command = Cli::command().find_subcommand(word).is_some();
    let (name, word) = (quoted(&model.to_string_lossy()), quoted(word));
    Some(match (is_command, model.exists()) {
        (true, _) => format!("the command {word} must come before {name}"),
        (false, true) => format!("one model is compiled at a time: {name} or {word}"),
        (false, false) => match similar_command(&model) {
            Some(command) => format!(
                "{name} is neither a command nor a file; did you mean {}?",
                quoted(&command)
            ),
            None => format!("{name} is neither a command nor a file"),
        },
    })
}

/// Returns the error for `model` if it is a misspelled command.
fn no_model(model: &Path) -> Option<Diagnostic> {
    let command = similar_command(model)?;
    let name = quoted(&model.to_string_lossy());
    let message = format!("{name} is neither a command nor a file");
    let help = format!("did you mean the command {}?", quoted(&command));
    Some(Diagnostic::new(Code::BadOption, message).help(help))
}

/// Returns the command whose name is most similar to that of `model`, which is no file.
fn similar_command(model: &Path) -> Option<String> {
    let word = model.to_str().filter(|_| !model.exists())?;
    let cli = Cli::command();
    let names = cli.get_subcommands().filter(|command| !command.is_hide_set());
    ident::nearest(word, names.map(clap::Command::get_name)).map(str::to_owned)
}

/// Prints results to standard output. If the reader is gone (`onnxc … | head`), this is no error.
/// Any other error ends the program, since the result is incomplete.
fn print(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("error: the result cannot be printed: {error}");
            process::exit(1);
        }
        Ok(()) | Err(_) => {}
    }
}
