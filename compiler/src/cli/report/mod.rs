//! `onnxc report MODEL -o FILE`: writes a page that shows a model, its memory and its cost.

mod arena;
mod code;
mod graph;
mod kind;
mod page;
mod scope;
mod weights;

use super::{
    analysis::Analysis,
    files, inspect, message,
    options::{OfModule, Shared},
    progress,
};
use onnxc::{
    Compiler,
    diag::Diagnostics,
    emit::{self, Style},
    write_if_changed,
};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Writes a page that shows a model: the graph before and after the passes, the arena over time,
/// the cost of each node, and the weights
///
/// The page is one file of HTML. It needs no network and no other file.
#[derive(clap::Args)]
pub struct Options {
    /// The model
    model: PathBuf,
    /// The page to write
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    #[command(flatten)]
    shared: Shared,
    #[command(flatten)]
    of_module: OfModule,
}

/// Runs the command.
pub fn run(options: &Options) -> Result<(), Diagnostics> {
    let place = options.model.display().to_string();
    progress::enter("report", place.clone());
    let mut settings = options.shared.options()?.beside(&options.model);
    options.of_module.set(&mut settings)?;
    let bytes = files::bytes(&options.model)?;
    let mut analysis =
        Analysis::of(bytes.clone(), &settings).map_err(|diagnostics| diagnostics.within(&place))?;
    let warnings = Diagnostics(std::mem::take(&mut analysis.warnings));
    message::print_warnings(warnings.within(&place).0);
    let stem = options.model.file_stem().unwrap_or_default().to_string_lossy();
    let source = Compiler::new(&settings).source_of(&bytes, &options.model);
    let style = Style { source, ..settings.style(analysis.plans.infer(), &stem)? };
    let page = page::html(&style.name.clone(), &data(&analysis, style));
    Ok(write_if_changed(&options.output, page.as_bytes())?)
}

/// Returns the data of the page.
fn data(analysis: &Analysis, style: Style) -> Value {
    let module = emit::module(&analysis.plans, &style).code;
    let (imported, optimized) = graph::both(analysis);
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "facts": inspect::facts(analysis, style),
        "kinds": kind::NAMES,
        "before": imported,
        "after": optimized,
        "fates": graph::fates(analysis),
        "costs": graph::costs(analysis),
        "code": code::by_node(analysis, &module),
        "arena": arena::value(analysis),
        "weights": weights::value(analysis.plans.infer()),
    })
}
