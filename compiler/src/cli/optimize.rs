//! `onnxc optimize MODEL -o FILE`: a smaller model that means the same.

use super::{compile::Shared, files};
use onnxc::{diag::Diagnostics, export};
use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Writes a model again with all folded that is known, in ONNX's own operators
#[derive(clap::Args)]
pub struct Options {
    /// The models, or folders that hold such
    #[arg(required = true)]
    models: Vec<PathBuf>,
    /// The file to write, as text where its name ends in `.onnxtxt`; for a folder or several models,
    /// the folder to write into
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write the types of all values, not of inputs and outputs alone
    #[arg(long)]
    types: bool,
    #[command(flatten)]
    shared: Shared,
}

/// Runs the command.
pub fn run(options: &Options) -> ExitCode {
    let mut failed = false;
    for (from, to) in jobs(options) {
        if let Err(findings) = one(options, &from, &to) {
            eprintln!("{findings}");
            failed = true;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// What is read, and where it is written.
fn jobs(options: &Options) -> Vec<(PathBuf, PathBuf)> {
    if let [model] = options.models.as_slice()
        && !model.is_dir()
    {
        return vec![(model.clone(), options.output.clone())];
    }
    let mut jobs = Vec::new();
    for path in &options.models {
        let root = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
        for model in models(path) {
            let inside = root.and_then(|root| model.strip_prefix(root).ok()).unwrap_or(&model);
            jobs.push((model.clone(), options.output.join(inside)));
        }
    }
    jobs
}

/// The models that a path is or holds, sorted.
fn models(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut inside: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    inside.retain(|path| {
        path.is_dir() || path.extension().is_some_and(|end| end == "onnx" || end == "onnxtxt")
    });
    inside.sort();
    inside.iter().flat_map(|path| models(path)).collect()
}

fn one(options: &Options, from: &Path, to: &Path) -> Result<(), Diagnostics> {
    let mut settings = options.shared.options()?;
    settings.settings.directory = from.parent().map(Path::to_owned);
    let bytes = files::bytes(from)?;
    let model = onnxc::optimized(bytes, &settings);
    let mut model = model.map_err(|findings| findings.within(&from.display().to_string()))?;
    if let Some(graph) = &mut model.graph {
        graph.name = options.shared.name.clone().or(graph.name.take());
        if !options.types {
            export::without_types(graph);
        }
    }
    Ok(export::write(model, to)?)
}
