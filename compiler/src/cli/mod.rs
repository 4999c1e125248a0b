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
mod tolerance;
mod train_prep;
mod usage;
mod verify;

use clap::{
    ArgMatches, Args, CommandFactory, FromArgMatches, Parser, builder::StyledStr, error::ErrorKind,
};
use message::status;
use onnxc::{
    diag::{Code, Diagnostic, Diagnostics, quoted},
    ident,
};
use std::{
    env, fmt,
    io::{self, Write},
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
    let (cli, matches) = match parse() {
        Ok(parsed) => parsed,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => return help(error),
        Err(error) => return usage::print(error),
    };
    message::start(cli.message);
    progress::start(cli.progress);
    if let Err(diagnostics) = options::check(&matches) {
        return usage::refuse(&diagnostics);
    }
    let status = run_command(cli.command, &cli.compile);
    progress::finish(cli.progress);
    status
}

/// Parses the command line.
fn parse() -> Result<(Cli, ArgMatches), clap::Error> {
    let matches = Cli::command().try_get_matches()?;
    Ok((Cli::from_arg_matches(&matches)?, matches))
}

/// Prints the help that the command line asks for. The first word may be a command of other tools
/// or a misspelled one, whose help is not that of the program.
fn help(error: clap::Error) -> ExitCode {
    let word = env::args_os().nth(1).unwrap_or_default();
    let is_option = word.to_string_lossy().starts_with('-');
    if is_option || Cli::command().find_subcommand(&word).is_some() {
        return usage::print(error);
    }
    match find_misplaced_command(&[word.into()]) {
        Some(misplaced) if misplaced.help.as_deref() == Some(COMPILES) => {
            outln!("{}", compile_help());
            ExitCode::SUCCESS
        }
        Some(misplaced) => usage::refuse(&misplaced.into()),
        None => usage::print(error),
    }
}

/// Returns the help of compiling, without that of the commands.
fn compile_help() -> StyledStr {
    let command = clap::Command::new("onnxc");
    let command = command.about("Compiles ONNX models to Rust, which needs no command");
    let command = message::Options::augment_args(compile::Compile::augment_args(command));
    progress::Options::augment_args(command).render_long_help()
}

fn run_command(command: Option<Command>, compile: &compile::Compile) -> ExitCode {
    match command {
        None => status(run_without_command(compile)),
        Some(Command::Bench(options)) => status(bench::run(&options)),
        Some(Command::Check(options)) => status(check::run(&options)),
        Some(Command::Compare(options)) => status(compare::run(&options)),
        Some(Command::Completions(options)) => completions::run(&options, Cli::command()),
        Some(Command::Explain(options)) => status(explain::run(&options)),
        Some(Command::Inspect(options)) => status(inspect::run(&options)),
        Some(Command::Man(options)) => status(man::run(&options, Cli::command())),
        Some(Command::New(options)) => status(new::run(&options)),
        Some(Command::Ops(options)) => status(ops::run(&options)),
        Some(Command::Optimize(options)) => status(optimize::run(&options)),
        Some(Command::Reduce(options)) => status(reduce::run(&options)),
        Some(Command::Reference(options)) => reference::run(&options, Cli::command()),
        Some(Command::Report(options)) => status(report::run(&options)),
        Some(Command::Run(options)) => status(run::run(&options)),
        Some(Command::Show(options)) => status(show::run(&options)),
        Some(Command::Test(options)) => status(test::run(&options)),
        Some(Command::TrainPrep(options)) => status(train_prep::run(&options)),
    }
}

fn run_without_command(compile: &compile::Compile) -> Result<ExitCode, Diagnostics> {
    match find_misplaced_command(&compile.models) {
        Some(error) => Err(error.into()),
        None => compile::run(compile),
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
    let known = OTHER_WORDS.iter().find(|(other, _)| word.as_os_str() == *other);
    let help = match known {
        Some((_, help)) => (*help).to_owned(),
        None => format!("did you mean the command {}?", quoted(&similar_command(word)?)),
    };
    let message = format!("{name} is neither a command nor a file");
    Some(Diagnostic::new(Code::BadOption, message).help(help))
}

/// The help for a command of other tools that compiles a model.
const COMPILES: &str = "the program compiles without a command: `onnxc model.onnx -o model.rs`";

/// Commands of other tools, and what onnxc has for them.
const OTHER_WORDS: &[(&str, &str)] = &[
    ("benchmark", "`onnxc bench` times a model"),
    ("build", COMPILES),
    ("compile", COMPILES),
    ("convert", COMPILES),
    ("diff", "`onnxc compare` compares two models"),
    ("export", "`onnxc optimize` writes ONNX, `onnxc model.onnx -o model.rs` a Rust module"),
    ("infer", "`onnxc run` runs a model"),
    ("info", "`onnxc inspect` prints what a model contains and costs"),
    ("print", "`onnxc show` prints a model as text"),
    ("profile", "`onnxc bench --profile` prints the time of each node"),
    ("simplify", "`onnxc optimize` simplifies a model"),
    ("validate", "`onnxc check` checks whether models are valid"),
    ("view", "`onnxc report` writes a page that shows a model"),
];

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
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("error: the result cannot be printed: {error}");
            process::exit(1);
        }
        Ok(()) | Err(_) => {}
    }
}
