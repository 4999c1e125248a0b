//! `onnxc run`: runs a model on inputs from files.

use super::{
    files::{self, Format},
    inputs::{self, Inputs},
    message,
    options::{Shared, input},
    progress,
};
use onnxc::{
    diag::{Diagnostic, Diagnostics, visible},
    file, import, interpreter,
    plan::Plan,
    value::Value,
};
use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

/// Runs a model in this process, on inputs from files
#[derive(clap::Args)]
pub struct Options {
    /// The model
    model: PathBuf,
    /// The file of an input: `.npy`, or `.pb` with a TensorProto or the message of another value.
    /// Several files for an input are several runs in order, which share the model's state. The
    /// model is compiled for the sizes in the files: one that all runs share is fixed, unless
    /// `--dim NAME=1..=N` keeps it free
    #[arg(long, value_name = "NAME=FILE", value_parser = input)]
    input: Vec<String>,
    /// The directory for the outputs, each in a file of its name. Without it, their types are
    /// printed, and the elements of outputs of up to 16
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// The format of the outputs
    #[arg(long, value_enum, default_value = "npy")]
    format: Format,
    #[command(flatten)]
    shared: Shared,
}

/// Runs the command.
pub fn run(options: &Options) -> Result<(), Diagnostics> {
    let place = options.model.display().to_string();
    progress::enter("run", place.clone());
    let bytes = files::bytes(&options.model)?;
    let proto =
        import::decode(bytes.clone()).map_err(|diagnostic| diagnostic.within(place.clone()))?;
    let runs = inputs::runs(inputs::read(&options.input, proto.graph.as_ref())?)?;
    let outcome = compute(bytes, options, &runs).map_err(|diagnostics| diagnostics.within(&place));
    let Computed { plan, results, warnings } = outcome?;
    message::print_warnings(Diagnostics(warnings).within(&place).0);
    for (run, outputs) in results.iter().enumerate() {
        let run = (results.len() > 1).then_some(run);
        match &options.output_dir {
            None => print(&plan, outputs, run),
            Some(directory) => write(&plan, outputs, run, directory, options.format)?,
        }
    }
    Ok(())
}

/// Prints the outputs of a run. `run` is its number if there are several runs.
fn print(plan: &Plan, outputs: &[Value], run: Option<usize>) {
    let run = run.map_or(String::new(), |run| format!("run {run}, "));
    for (port, value) in plan.outputs.iter().zip(outputs) {
        outln!("{run}{}: {value:?}", visible(&port.name));
    }
}

/// Writes the outputs of a run. If there are several runs, each has its own subdirectory.
fn write(
    plan: &Plan,
    outputs: &[Value],
    run: Option<usize>,
    directory: &Path,
    format: Format,
) -> Result<(), Diagnostics> {
    let directory = run.map_or(directory.to_owned(), |run| directory.join(run.to_string()));
    fs::create_dir_all(&directory).map_err(file::refused(&directory))?;
    let mut taken = HashSet::new();
    for (port, value) in plan.outputs.iter().zip(outputs) {
        let path = directory.join(file_name(&port.name, format, &mut taken));
        files::write(&path, &port.name, value, format)?;
    }
    Ok(())
}

/// The outputs of a model.
struct Computed {
    plan: Plan,
    /// The outputs of each run.
    results: Vec<Vec<Value>>,
    warnings: Vec<Diagnostic>,
}

/// Compiles the model for the sizes of the inputs, and runs it for the inputs of each run.
fn compute(
    bytes: onnxc_proto::Bytes,
    options: &Options,
    runs: &[Inputs],
) -> Result<Computed, Diagnostics> {
    let mut compile = options.shared.options()?.beside(&options.model);
    let proto = import::decode(bytes.clone())?;
    if let Some(graph) = &proto.graph {
        for (name, axes) in runs.iter().flat_map(|inputs| import::free_shapes(graph, inputs)) {
            compile.settings.shapes.entry(name).or_insert(axes);
        }
        // Sizes that differ between runs, or between inputs of one name, stay free.
        let shapes = &compile.settings.shapes;
        let sizes = runs.iter().map(|inputs| import::free_sizes(graph, inputs, shapes));
        let sizes: Vec<Vec<(String, import::Size)>> = sizes.collect();
        let stays = |(name, size): &&(String, import::Size)| {
            sizes.iter().flatten().all(|(other, found)| other != name || found == size)
        };
        let dims = &mut compile.settings.dims;
        for (name, size) in sizes.first().into_iter().flatten().filter(stays) {
            dims.entry(name.clone()).or_insert_with(|| size.clone());
        }
    }
    let mut compiler = onnxc::Compiler::new(&compile);
    let planned = compiler.plan(bytes);
    let plan = planned.map_err(|mut diagnostics| {
        // The error may be due to a misspelled input, so unknown inputs are reported too.
        let names: Vec<_> = proto.graph.iter().flat_map(|graph| &graph.input).collect();
        let names: Vec<&str> = names.into_iter().map(|input| input.name()).collect();
        diagnostics
            .0
            .extend(runs.first().into_iter().flat_map(|given| inputs::unknown(&names, given)));
        diagnostics
    })?;
    inputs::callable(&plan)?;
    let mut session = interpreter::Session::new(&plan);
    let mut results = Vec::new();
    for given in runs {
        let found = session.run(&inputs::in_order(&plan, given)?);
        results.push(found.map_err(|error| session.diagnose(&error))?);
    }
    Ok(Computed { plan, results, warnings: compiler.take_warnings() })
}

/// Returns a unique file name for an output: the first characters of its name, where `_` replaces
/// those that are not letters or digits.
fn file_name(output: &str, format: Format, taken: &mut HashSet<String>) -> String {
    /// The most characters. File systems limit names to 255 bytes, and a character has up to 4.
    const LONGEST: usize = 50;
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '-') { c } else { '_' };
    let stem: String = output.chars().take(LONGEST).map(plain).collect();
    let stem = stem.trim_start_matches('.');
    let mut name = stem.to_owned();
    let mut number = 2;
    while name.is_empty() || !taken.insert(name.to_lowercase()) {
        name = format!("{stem}_{number}");
        number += 1;
    }
    format!("{name}.{}", format.extension())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_short_and_unique() {
        let mut taken = HashSet::new();
        let long = "é".repeat(400);
        let names = ["a/b", "A_B", &long, &format!("{long}é"), "../x"];
        let names = names.map(|name| file_name(name, Format::Npy, &mut taken));
        let short = "é".repeat(50);
        let expected =
            ["a_b.npy", "A_B_2.npy", &format!("{short}.npy"), &format!("{short}_2.npy"), "_x.npy"];
        assert_eq!(names, expected);
    }
}
