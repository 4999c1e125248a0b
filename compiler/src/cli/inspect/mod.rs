//! `onnxc inspect MODEL`: prints what a model contains, and what it costs.

mod budget;
mod facts;
mod json;
mod text;

pub use facts::buffer_type;

use super::{
    analysis::Analysis,
    files, message,
    options::{OfModule, Shared},
    progress,
};
use budget::Budget;
use facts::Facts;
use onnxc::{diag::Diagnostics, emit::Style};
use std::{path::PathBuf, process::ExitCode};

/// Prints what a model contains and what it costs: interface, operators, weights, arena, costliest
/// nodes, free sizes
///
/// The model is compiled, but no file is written. The numbers of bytes are those of the module. The
/// exit status is 1 if the model does not fit `--flash` or `--ram`.
#[derive(clap::Args)]
pub struct Options {
    /// The model
    model: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    budget: Budget,
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    of_module: OfModule,
}

/// Runs the command. It fails if the model does not fit the budget.
pub fn run(options: &Options) -> Result<ExitCode, Diagnostics> {
    let place = options.model.display().to_string();
    progress::enter("inspect", place.clone());
    let mut settings = options.shared.options()?.beside(&options.model);
    options.of_module.set(&mut settings)?;
    let bytes = files::bytes(&options.model)?;
    let mut analysis =
        Analysis::of(bytes, &settings).map_err(|diagnostics| diagnostics.within(&place))?;
    let warnings = Diagnostics(std::mem::take(&mut analysis.warnings));
    message::print_warnings(warnings.within(&place).0);
    let stem = options.model.file_stem().unwrap_or_default().to_string_lossy();
    let style = settings.style(analysis.plans.infer(), &stem)?;
    let facts = Facts::of(&analysis, style, options.budget);
    if options.json {
        outln!("{:#}", json::value(&facts));
    } else {
        out!("{}", text::page(&facts));
    }
    Ok(message::judge(facts.fits()))
}

/// Returns the facts about a model that `--json` prints.
pub fn facts(analysis: &Analysis, style: Style) -> serde_json::Value {
    json::value(&Facts::of(analysis, style, Budget::default()))
}
