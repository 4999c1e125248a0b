//! `onnxc completions SHELL`: prints the completions of a shell.

use clap::Command;
use clap_complete::Shell;
use std::process::ExitCode;

/// Prints the completions of the command line for a shell
///
/// The shell reads them from a file, or from this command: `source <(onnxc completions bash)`.
#[derive(clap::Args)]
pub struct Options {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command, for the command line of `program`.
pub fn run(options: &Options, mut program: Command) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut program, "onnxc", &mut text);
    out!("{}", String::from_utf8_lossy(&text));
    ExitCode::SUCCESS
}
