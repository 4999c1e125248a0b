//! `onnxc man -o DIR`: writes the manual pages.

use clap::Command;
use clap_mangen::Man;
use onnxc::{diag::Result, file, write_if_changed};
use std::{fs, path::PathBuf};

/// Writes a manual page for the program, and one for each command
#[derive(clap::Args)]
pub struct Options {
    /// The directory for the pages, `onnxc.1` and `onnxc-COMMAND.1`
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// Runs the command, for the command line of `program`.
pub fn run(options: &Options, mut program: Command) -> Result {
    fs::create_dir_all(&options.output).map_err(file::refused(&options.output))?;
    program.build();
    let is_listed = |command: &&Command| command.get_name() != "help" && !command.is_hide_set();
    let commands = program.get_subcommands().filter(is_listed);
    for page in [&program].into_iter().chain(commands).cloned().map(Man::new) {
        let path = options.output.join(page.get_filename());
        let page = page.source(concat!("onnxc ", env!("CARGO_PKG_VERSION")));
        let mut text = Vec::new();
        page.render(&mut text).map_err(file::refused(&path))?;
        write_if_changed(&path, &text)?;
    }
    Ok(())
}
