//! `onnxc optimize MODEL -o FILE`: simplifies a model.

use super::{files, message, options::Shared, progress, verify};
use onnxc::{
    diag::{Code, Diagnostic, DiagnosticSink, Diagnostics},
    export::{self, Types},
    file,
};
use onnxc_proto::Message;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Folds constants and simplifies a model, and writes it in ONNX's own operators
#[derive(clap::Args)]
pub struct Options {
    /// The models, or folders of models
    #[arg(required = true)]
    models: Vec<PathBuf>,
    /// The file to write, as text if its name ends in `.onnxtxt`, or `-` to print text; for a
    /// folder or several models, the folder to write into
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write the types of all values, and not only of inputs and outputs
    #[arg(long)]
    types: bool,
    /// Run the model before and after on the same inputs, and write the file only if the outputs
    /// agree. The inputs are the first data set beside the model, or random ones
    #[arg(long)]
    verify: bool,
    #[command(flatten)]
    shared: Shared,
}

/// Runs the command.
pub fn run(options: &Options) -> Result<ExitCode, Diagnostics> {
    let jobs = jobs(options)?;
    let mut all_written = true;
    let count = jobs.len();
    for (i, (to, from)) in jobs.into_iter().enumerate() {
        progress::enter("optimize", format!("{} ({} of {count})", from.display(), i + 1));
        if let Err(diagnostics) = optimize_file(options, &from, &to) {
            message::print(&diagnostics);
            all_written = false;
        }
    }
    Ok(message::judge(all_written))
}

/// The files to write, each with the model to read.
type Jobs = BTreeMap<PathBuf, PathBuf>;

fn jobs(options: &Options) -> Result<Jobs, Diagnostics> {
    if let [model] = options.models.as_slice()
        && !model.is_dir()
    {
        return Ok(Jobs::from([(options.output.clone(), model.clone())]));
    }
    let (mut jobs, diagnostics) = (Jobs::new(), DiagnosticSink::default());
    for path in &options.models {
        let root = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
        for model in diagnostics.keep(models(path)).into_iter().flatten() {
            let inside = root.and_then(|root| model.strip_prefix(root).ok()).unwrap_or(&model);
            let to = options.output.join(inside);
            if let Some(other) = jobs.insert(to.clone(), model.clone()) {
                diagnostics.push(files::same_output(&to, &other, &model));
            }
        }
    }
    diagnostics.finish()?;
    Ok(jobs)
}

/// Returns the models at a path, which is a file or a folder.
fn models(path: &Path) -> Result<Vec<PathBuf>, Diagnostic> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    collect_models(path, &mut found)?;
    if found.is_empty() {
        let message = "the folder holds no model: no file whose name ends in `.onnx` or `.onnxtxt`";
        return Err(Diagnostic::new(Code::BadOption, message).within(path.display().to_string()));
    }
    Ok(found)
}

/// Collects the models below a folder. It does not follow links to folders, because they may form a
/// cycle.
fn collect_models(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Diagnostic> {
    let io_error = file::unreadable(folder);
    for entry in fs::read_dir(folder).map_err(&io_error)? {
        let entry = entry.map_err(&io_error)?;
        let path = entry.path();
        if entry.file_type().map_err(&io_error)?.is_dir() {
            collect_models(&path, found)?;
        } else if path.extension().is_some_and(|end| end == "onnx" || end == "onnxtxt")
            && !path.is_dir()
        {
            found.push(path);
        }
    }
    Ok(())
}

fn optimize_file(options: &Options, from: &Path, to: &Path) -> Result<(), Diagnostics> {
    let settings = options.shared.options()?.beside(from);
    let bytes = files::bytes(from)?;
    files::keep_external_data(to, from, &bytes)?;
    let original = bytes.clone();
    let (place, mut compiler) = (from.display().to_string(), onnxc::Compiler::new(&settings));
    let types = if options.types { Types::All } else { Types::Needed };
    let model = compiler.optimize_model_with(bytes, types);
    let mut model = model.map_err(|diagnostics| diagnostics.within(&place))?;
    message::print_warnings(Diagnostics(compiler.take_warnings()).within(&place).0);
    if let Some(graph) = &mut model.graph {
        graph.name = settings.name.clone().or(graph.name.take());
    }
    export::verify(&model).map_err(|diagnostic| diagnostic.within(to.display().to_string()))?;
    if options.verify {
        let same = verify::same_results((original.clone(), from), &model, &settings);
        same.map_err(|diagnostics| diagnostics.within(&place))?;
    }
    if model.encoded_len() > export::LARGEST_FILE {
        files::keep_external_data(&to.with_extension("data"), from, &original)?;
    }
    // The folder of several models is made; that of one model must exist, as for a module.
    if let Some(folder) = to.parent().filter(|_| to != options.output) {
        fs::create_dir_all(folder).map_err(file::refused(folder))?;
    }
    Ok(files::write_model(to, model)?)
}
