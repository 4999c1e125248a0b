//! The commands of the `onnxc` program.

/// Prints what was asked for, as `print` says.
macro_rules! out {
    ($($text:tt)*) => { $crate::cli::print(format_args!($($text)*)) };
}

/// Prints a line of what was asked for, likewise.
macro_rules! outln {
    ($($text:tt)*) => { out!("{}\n", format_args!($($text)*)) };
}

mod bench;
mod check;
mod compile;
mod explain;
mod files;
mod npy;
mod npz;
mod ops;
mod optimize;
mod precision;
mod run;
mod show;
mod test;
mod train_prep;

use clap::Parser;
use std::{
    fmt,
    io::{self, ErrorKind, Write},
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
    Explain(explain::Options),
    Ops(ops::Options),
    Optimize(optimize::Options),
    Run(run::Options),
    Show(show::Options),
    Test(test::Options),
    TrainPrep(train_prep::Options),
}

/// Does what the command line says.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        None => compile::run(&cli.compile),
        Some(Command::Bench(options)) => bench::run(&options),
        Some(Command::Check(options)) => check::run(&options),
        Some(Command::Explain(options)) => explain::run(&options),
        Some(Command::Ops(options)) => ops::run(&options),
        Some(Command::Optimize(options)) => optimize::run(&options),
        Some(Command::Run(options)) => run::run(&options),
        Some(Command::Show(options)) => show::run(&options),
        Some(Command::Test(options)) => test::run(&options),
        Some(Command::TrainPrep(options)) => train_prep::run(&options),
    }
}

/// Prints what was asked for. Where nobody reads any more (`onnxc … | head`), that is no fault; where
/// a part of it is lost otherwise, nothing that follows is of use.
fn print(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    match out.write_fmt(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("error: what was asked for cannot be printed: {error}");
            process::exit(1);
        }
        Ok(()) | Err(_) => {}
    }
}
