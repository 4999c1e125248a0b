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
mod cargo;
mod check;
mod compare;
mod compile;
mod completions;
mod explain;
mod files;
mod inputs;
mod inspect;
mod man;
mod message;
mod new;
mod npy;
mod npz;
mod ops;
mod optimize;
mod options;
mod precision;
mod progress;
mod reduce;
mod reference;
mod report;
mod run;
mod runtime;
mod show;
mod sources;
mod test;
mod train_prep;
mod verify;

use clap::{CommandFactory, Parser};
use onnxc::{
    diag::{Code, Diagnostic, quoted},
    ident,
};
use std::{
    fmt,
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
    process::{self, ExitCode},
    sync::LazyLock,
};

/// Compiles ONNX models to Rust.
#[derive(Parser)]
#[command(version = version(), about, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    compile: compile::Compile,
    #[command(flatten)]
    message: message::Options,
    #[command(flatten)]
    progress: progress::Options,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    Bench(bench::Options),
    Check(check::Options),
    Compare(compare::Options),
    Completions(completions::Options),
    Explain(explain::Options),
    Inspect(inspect::Options),
    Man(man::Options),
    New(new::Options),
    Ops(ops::Options),
    Optimize(optimize::Options),
    Reduce(reduce::Options),
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
    let cli = Cli::parse();
    message::start(cli.message);
    progress::start(cli.progress);
    let status = run_command(cli.command, &cli.compile);
    progress::finish(cli.progress);
    status
}

fn run_command(command: Option<Command>, compile: &compile::Compile) -> ExitCode {
    match command {
        None => match find_misplaced_command(&compile.models) {
            Some(error) => {
                message::print(&error.into());
                ExitCode::FAILURE
            }
            None => compile::run(compile),
        },
        Some(Command::Bench(options)) => bench::run(&options),
        Some(Command::Check(options)) => check::run(&options),
        Some(Command::Compare(options)) => compare::run(&options),
        Some(Command::Completions(options)) => completions::run(&options, Cli::command()),
        Some(Command::Explain(options)) => explain::run(&options),
        Some(Command::Inspect(options)) => inspect::run(&options),
        Some(Command::Man(options)) => man::run(&options, Cli::command()),
        Some(Command::New(options)) => new::run(&options),
        Some(Command::Ops(options)) => ops::run(&options),
        Some(Command::Optimize(options)) => optimize::run(&options),
        Some(Command::Reduce(options)) => reduce::run(&options),
        Some(Command::Reference(options)) => reference::run(&options, Cli::command()),
        Some(Command::Report(options)) => report::run(&options),
        Some(Command::Run(options)) => run::run(&options),
        Some(Command::Show(options)) => show::run(&options),
        Some(Command::Test(options)) => test::run(&options),
        Some(Command::TrainPrep(options)) => train_prep::run(&options),
    }
}

/// The version of the program, and the interface version of the modules that it generates.
fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| {
        let interface = onnxc_runtime::INTERFACE_VERSION;
        format!("{} (interface {interface})", env!("CARGO_PKG_VERSION"))
    });
    &VERSION
}

/// Returns the error for a word among the models that is a command, or a misspelled one.
fn find_misplaced_command(models: &[PathBuf]) -> Option<Diagnostic> {
    let (at, word) = models.iter().enumerate().find(|(_, word)| !word.exists())?;
    let name = quoted(&word.to_string_lossy());
    if Cli::command().find_subcommand(word).is_some() {
        let after = match at {
            0 => "its options".to_owned(),
            _ => quoted(&models[0].to_string_lossy()),
        };
        let message = format!("the command {name} must come before {after}");
        return Some(Diagnostic::new(Code::BadOption, message));
    }
    let command = similar_command(word)?;
    let message = format!("{name} is neither a command nor a file");
    let help = format!("did you mean the command {}?", quoted(&command));
    Some(Diagnostic::new(Code::BadOption, message).help(help))
}

/// Returns the command whose name is most similar to `word`.
fn similar_command(word: &Path) -> Option<String> {
    let cli = Cli::command();
    let names = cli.get_subcommands().filter(|command| !command.is_hide_set());
    ident::nearest(word.to_str()?, names.map(clap::Command::get_name)).map(str::to_owned)
}

/// Prints results to standard output. If the reader is gone (`onnxc … | head`), this is no error.
/// Any other error ends the program, since the result is incomplete.
fn print(text: fmt::Arguments<'_>) {
    progress::hide();
    let mut out = io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("error: the result cannot be printed: {error}");
            process::exit(1);
        }
        Ok(()) | Err(_) => {}
    }
}
