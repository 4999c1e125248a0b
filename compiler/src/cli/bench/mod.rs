//! `onnxc bench`: times a compiled model.

pub(super) mod inputs;
mod labels;
mod measured;
mod process;
pub(super) mod profile;
mod project;
mod timed;

use super::{
    options::{Shared, input, not_negative},
    runtime::Runtime,
};
use measured::Measured;
pub use measured::rounded;
use onnxc::{
    diag::{Code, Diagnostic, Diagnostics},
    write_if_changed,
};
use process::Process;
use profile::Profile;
pub use project::{Given, Subject};
use project::{Program, in_scratch, io_diagnostic};
use std::{
    fs,
    num::NonZero,
    path::{Path, PathBuf},
};

/// The number of rows of the table of nodes that are printed, with its two lines of heads.
const MOST_LINES: usize = 22;

/// Compiles a model to Rust, builds it with full optimization, and times it
#[derive(clap::Args)]
pub struct Options {
    /// The model
    model: PathBuf,
    /// The file of an input: `.npy`, or `.pb`. By default the first data set beside the model;
    /// without one, random floating-point numbers, integers with the value 1, and random labels
    #[arg(long, value_name = "NAME=FILE", value_parser = input)]
    input: Vec<String>,
    /// Time a step of training, which starts from initial values; a model with several algorithms
    /// needs the name of one
    #[arg(long, value_name = "ALGORITHM", num_args = 0..=1, require_equals = true)]
    step: Option<Option<String>>,
    #[command(flatten)]
    shared: Shared,
    /// The number of threads
    #[arg(long, value_name = "N", default_value = "1", value_parser = thread_count)]
    threads: NonZero<usize>,
    /// The time for which calls are timed, in seconds
    #[arg(long, default_value_t = 2.0, value_parser = not_negative, allow_negative_numbers = true)]
    seconds: f64,
    /// Print the time of each node too
    #[arg(long, conflicts_with_all = ["step", "no_run"])]
    profile: bool,
    /// Write the times of the nodes to this file: those of one call as JSON for
    /// <https://ui.perfetto.dev>, or if its name ends in `.folded`, those of all calls as the
    /// stacks from which flame graphs are drawn
    #[arg(long, value_name = "FILE", conflicts_with_all = ["step", "no_run"])]
    trace: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// The source of the runtime library, or its version in the registry; by default the source
    /// that fits this program
    #[arg(long, value_name = "PATH|VERSION")]
    runtime: Option<String>,
    /// The directory in which the code is built; by default a temporary one that is removed
    /// afterwards. The program that is timed stays there, as `bench`, with its `inputs`
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Build only
    #[arg(long, requires = "scratch")]
    no_run: bool,
}

/// Parses the number of threads.
fn thread_count(text: &str) -> Result<NonZero<usize>, &'static str> {
    text.parse().map_err(|_| "expected a number of threads, 1 or more")
}

/// Runs the command.
pub fn run(options: &Options) -> Result<(), Diagnostics> {
    let runtime = Runtime::find(options.runtime.as_deref())?;
    in_scratch(options.scratch.as_deref(), |root| {
        let program = options.subject()?.build(&runtime, root)?;
        if options.no_run { Ok(()) } else { measure(options, program) }
    })
}

/// Builds a profiled program, in `scratch` if it is set, and returns the times of its nodes.
pub fn profile(
    subject: Subject<'_>,
    runtime: Option<&str>,
    scratch: Option<&Path>,
    seconds: f64,
) -> Result<Profile, Diagnostics> {
    let (runtime, threads) = (Runtime::find(runtime)?, subject.threads);
    in_scratch(scratch, |root| {
        let program = subject.build(&runtime, root)?;
        let profile = Process::start(&program.path, threads)
            .and_then(|mut process| Profile::of(&mut process, program.nodes, seconds));
        Ok(profile.map_err(failed)?)
    })
}

impl Options {
    fn subject(&self) -> Result<Subject<'_>, Diagnostics> {
        let mut compile = self.shared.options()?;
        compile.profile = self.profile || self.trace.is_some();
        let step = self.step.as_ref().map(Option::as_deref);
        let (model, threads) = (&self.model, self.threads);
        let given = Given::Files(&self.input);
        Ok(Subject { model, compile, given, step, threads })
    }
}

/// Runs the program, and prints what it measures.
fn measure(options: &Options, program: Program) -> Result<(), Diagnostics> {
    let name = options.model.file_stem().unwrap_or_default().to_string_lossy();
    let mut process = Process::start(&program.path, options.threads).map_err(failed)?;
    let measured = Measured::of(&mut process, options.threads, options.seconds).map_err(failed)?;
    let profile = (options.profile || options.trace.is_some())
        .then(|| Profile::of(&mut process, program.nodes, options.seconds).map_err(failed))
        .transpose()?;
    if let Some(file) = &options.trace {
        let is_stacks = file.extension().is_some_and(|end| end == "folded");
        let written = if is_stacks { "stacks.folded" } else { "trace.json" };
        write_if_changed(file, &read(&program.path.with_file_name(written))?)?;
    }
    if options.json {
        let mut line = measured.json(&name, program.macs);
        if let Some(profile) = profile {
            line["profile"] = profile.json();
        }
        outln!("{line}");
        return Ok(());
    }
    measured.print(&name, program.macs);
    if options.profile {
        let table = read(&program.path.with_file_name("profile.txt"))?;
        print_table(&String::from_utf8_lossy(&table));
    }
    Ok(())
}

/// Prints the costliest rows of a table of nodes.
fn print_table(table: &str) {
    let shown: String = table.split_inclusive('\n').take(MOST_LINES).collect();
    outln!("\n{}", shown.trim_end());
    if shown.len() < table.len() {
        outln!("the costliest nodes of {}; `--json` has all", table.lines().count() - 2);
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Diagnostic> {
    fs::read(path).map_err(|error| io_diagnostic(path, &error))
}

fn failed(error: String) -> Diagnostic {
    Diagnostic::new(Code::Io, error).within("the program that is timed")
}
