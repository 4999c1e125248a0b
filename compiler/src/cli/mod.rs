//! The commands of the `onnxc` program.

mod compile;
mod files;
mod npy;
mod run;
mod test;

use clap::Parser;
use std::process::ExitCode;

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
    Run(run::Options),
    Test(test::Options),
}

/// Does what the command line says.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        None => compile::run(&cli.compile),
        Some(Command::Run(options)) => run::run(&options),
        Some(Command::Test(options)) => test::run(&options),
    }
}
