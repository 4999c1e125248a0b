//! `onnxc test`: compares the results of models with the expected ones.

pub mod compare;
pub mod exchange;
pub mod folder;
pub mod glue;
pub mod learning;
mod parallel;
pub mod project;
mod report;
mod settings;

use super::{
    inputs::callable, message, options::Shared, progress, runtime::Runtime, tolerance::Tolerance,
};
use folder::{DataSet, Folder};
use learning::Script;
use onnxc::{
    diag::{Code, Diagnostic, Diagnostics},
    file, interpreter,
    value::Value,
};
use project::{Part, Project};
use report::Outcome;
use std::{collections::BTreeMap, io::ErrorKind, path::PathBuf, process::ExitCode};

/// Compiles models to Rust, builds and runs them, and compares the results with the expected ones
#[derive(clap::Args)]
pub struct Options {
    /// Folders in ONNX's test layout, or folders of such folders
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    shared: Shared,
    /// Print a line of JSON for each folder
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    tolerance: Tolerance,
    /// Build with full optimization
    #[arg(long)]
    release: bool,
    /// Run the kernels in this process instead of building the generated code
    #[arg(long)]
    interpret: bool,
    /// The source of the runtime library, or its version in the registry; by default the source
    /// that fits this program
    #[arg(long, value_name = "PATH|VERSION")]
    runtime: Option<String>,
    /// The directory in which the code is built; by default a temporary one that is removed
    /// afterwards
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

/// Runs the command. It fails if a folder does.
pub fn run(options: &Options) -> Result<ExitCode, Diagnostics> {
    let missing = options.paths.iter().filter(|path| !path.exists());
    let missing = missing.map(|path| file::unreadable(path)(ErrorKind::NotFound.into()));
    let missing = Diagnostics(missing.collect());
    if !missing.0.is_empty() {
        return Err(missing);
    }
    let folders: Vec<Folder> =
        options.paths.iter().flat_map(|path| folder::find(path, options.tolerance)).collect();
    if folders.is_empty() {
        return Err(no_folder().into());
    }
    let outcomes =
        if options.interpret { interpret(options, &folders) } else { compile(options, &folders) };
    Ok(message::judge(report::summary(&outcomes?, options.json)))
}

/// The error for paths without a test.
fn no_folder() -> Diagnostic {
    Diagnostic::new(Code::BadOption, "no folder in the given paths has a `model.onnx`")
        .help("a test folder has `model.onnx`, and inputs and outputs in `test_data_set_0`")
}

/// Runs each model in this process.
fn interpret(options: &Options, folders: &[Folder]) -> Result<Vec<Outcome>, Diagnostics> {
    let shared = options.shared.options()?;
    progress::enter("run", format!("{} folders", folders.len()));
    let one = |_, folder: &Folder| {
        interpret_one(folder, &shared).unwrap_or_else(|found| compiler_outcome(&found))
    };
    let show = |i: usize, outcome: &Outcome| report::line(&folders[i].path, outcome, options.json);
    Ok(parallel::map(folders, compiling_bytes, one, show))
}

/// Estimates the memory for compiling the model of a folder: its tensors, folded constants, and
/// packed weights.
fn compiling_bytes(folder: &Folder) -> u64 {
    (64 << 20) + 4 * parallel::file_bytes(&folder.path)
}

fn interpret_one(folder: &Folder, options: &onnxc::Options) -> Result<Outcome, Diagnostics> {
    let mut options = folder.options(options)?;
    options.settings.directory = Some(folder.path.clone());
    if folder.learns() {
        let training = onnxc::Compiler::new(&options).training_plans(folder.model()?)?;
        let training = training.ok_or_else(not_trainable)?;
        let script = Script::of(folder, &training)?;
        return Ok(judge_outcome(script.interpret(&training), &script));
    }
    let plan = onnxc::Compiler::new(&options).plan(folder.model()?)?;
    let sets = folder.data_sets(&plan)?;
    callable(&plan)?;
    // A data set starts with the state after the data set before it.
    let mut session = interpreter::Session::new(&plan);
    let results = sets.iter().map(|set| {
        let found = session.run(&set.inputs);
        let found = found.map_err(|error| session.diagnose(&error).to_string());
        compare_outcome(found, set, folder)
    });
    Ok(worst(results))
}

/// Compiles all models into one project, builds it once, and runs them.
fn compile(options: &Options, folders: &[Folder]) -> Result<Vec<Outcome>, Diagnostics> {
    let temporary = std::env::temp_dir().join(format!("onnxc-test-{}", std::process::id()));
    let root = options.scratch.clone().unwrap_or_else(|| temporary.clone());
    // Cargo and the runner have another current directory.
    let root = std::path::absolute(&root).unwrap_or(root);
    let runtime = Runtime::find(options.runtime.as_deref())?;
    let result = compile_in(Project::new(root, runtime, options.release), options, folders);
    if options.scratch.is_none() {
        // The system cleans up its temporary directory.
        drop(std::fs::remove_dir_all(&temporary));
    }
    result
}

fn compile_in(
    mut project: Project,
    options: &Options,
    folders: &[Folder],
) -> Result<Vec<Outcome>, Diagnostics> {
    let shared = options.shared.options()?;
    let mut outcomes: Vec<Option<Outcome>> = folders.iter().map(|_| None).collect();
    let mut sets: Vec<Vec<DataSet>> = Vec::new();
    let mut scripts: BTreeMap<usize, Script> = BTreeMap::new();
    let prepare = |number, folder: &Folder| prepare(&project, number, folder, &shared);
    progress::enter("compile", "");
    let show = |at, _: &_| progress::set_about(format!("folder {} of {}", at + 1, folders.len()));
    let prepared = parallel::map(folders, compiling_bytes, prepare, show);
    for (number, prepared) in prepared.into_iter().enumerate() {
        match prepared {
            Ok(Prepared { part, data, script }) => {
                project.add(&part);
                sets.push(data);
                scripts.extend(script.map(|script| (number, script)));
            }
            Err(diagnostics) => {
                outcomes[number] = Some(compiler_outcome(&diagnostics));
                sets.push(Vec::new());
            }
        }
    }
    progress::enter("build", "");
    for (number, text) in project.build()? {
        outcomes[number] =
            Some(Outcome::Failed(format!("the generated code does not compile\n{text}")));
    }
    let of = |number: usize| sets[number].iter().map(move |set| (number, set));
    let open = (0..folders.len()).filter(|&number| outcomes[number].is_none());
    let jobs: Vec<(usize, &DataSet)> = open.flat_map(of).collect();
    progress::enter("run", format!("{} data sets", jobs.len()));
    let found = project.run(&jobs).map_err(|error| {
        onnxc::diag::Diagnostic::new(Code::Io, error.to_string()).within("the test program")
    })?;
    let mut results: Vec<Vec<Outcome>> = folders.iter().map(|_| Vec::new()).collect();
    for ((number, set), found) in jobs.into_iter().zip(found) {
        results[number].push(match scripts.get(&number) {
            Some(script) => judge_outcome(found, script),
            None => compare_outcome(found, set, &folders[number]),
        });
    }
    let mut finished = Vec::new();
    for ((folder, outcome), results) in folders.iter().zip(outcomes).zip(results) {
        let outcome = outcome.unwrap_or_else(|| worst(results.into_iter()));
        report::line(&folder.path, &outcome, options.json);
        finished.push(outcome);
    }
    Ok(finished)
}

/// A compiled model, its data sets, and the script of a trainable model.
struct Prepared {
    part: Part,
    data: Vec<DataSet>,
    script: Option<Script>,
}

/// Compiles the model of a folder into the project, and reads its data.
fn prepare(
    project: &Project,
    number: usize,
    folder: &Folder,
    shared: &onnxc::Options,
) -> Result<Prepared, Diagnostics> {
    let (path, options) = (folder.path.join("model.onnx"), folder.options(shared)?);
    let (output, part) = project.compile(number, &path, &options, folder.learns())?;
    if folder.learns() {
        let script = Script::of(folder, output.plans.training().ok_or_else(not_trainable)?)?;
        return Ok(Prepared { part, data: vec![script.data_set()], script: Some(script) });
    }
    callable(output.plans.infer())?;
    Ok(Prepared { part, data: folder.data_sets(output.plans.infer())?, script: None })
}

fn judge_outcome(found: Result<Vec<Value>, String>, script: &Script) -> Outcome {
    found.map_or_else(Outcome::Failed, |found| Outcome::of(script.judge(&found)))
}

fn not_trainable() -> Diagnostic {
    Diagnostic::new(
        Code::BadOption,
        "the folder has `data.npz`, but the model has no training information",
    )
}

fn compare_outcome(found: Result<Vec<Value>, String>, set: &DataSet, folder: &Folder) -> Outcome {
    match found {
        Ok(found) if set.outputs.is_empty() && !found.is_empty() => Outcome::Failed(
            "the folder has no outputs to compare with: a data set has no `output_0.pb`".into(),
        ),
        Ok(found) => Outcome::of(compare::compare(&found, &set.outputs, folder.tolerance)),
        Err(error) => Outcome::Failed(error),
    }
}

/// The first outcome that is not good, or the one with the largest error.
fn worst(outcomes: impl Iterator<Item = Outcome>) -> Outcome {
    outcomes
        .reduce(|a, b| if a.is_worse_than(&b) { a } else { b })
        .unwrap_or_else(|| Outcome::Failed("the folder has no data set".into()))
}

/// The outcome for diagnostics of the compiler.
fn compiler_outcome(diagnostics: &Diagnostics) -> Outcome {
    let unsupported = diagnostics.0.iter().all(|diagnostic| !diagnostic.code.is_invalidity());
    let text = diagnostics.to_string();
    if unsupported { Outcome::Unsupported(text) } else { Outcome::Failed(text) }
}
