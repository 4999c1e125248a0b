//! `onnxc report MODEL -o FILE`: writes a page that shows a model, its memory and its cost.

mod arena;
mod code;
mod graph;
mod kind;
mod measured;
mod page;
mod range;
mod scope;
mod values;
mod weights;

use super::{
    analysis::Analysis,
    bench::{Given, Subject},
    files, inspect, message,
    options::{OfModule, Shared},
    progress,
};
use onnxc::{
    Compiler,
    diag::Diagnostics,
    emit::{self, Style},
};
use onnxc_proto::Bytes;
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
    /// The page to write, or `-` to print it
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
    /// Build the module and run it, and show the time of each node beside its cost
    #[arg(long)]
    measure: bool,
    /// Run the model on this data, and show the range of each value: an `.npz` file with an array
    /// for each input, or a folder in ONNX's layout. `--measure` takes it too
    #[arg(long, value_name = "FOLDER|FILE")]
    data: Option<PathBuf>,
    /// The source of the runtime library, or its version in the registry; by default the source
    /// that fits this program
    #[arg(long, value_name = "PATH|VERSION", requires = "measure")]
    runtime: Option<String>,
    /// The directory in which `--measure` builds the code; by default a temporary one that is
    /// removed afterwards
    #[arg(long, value_name = "DIR", requires = "measure")]
    scratch: Option<PathBuf>,
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
    files::keep_model(&options.output, &options.model, &bytes)?;
    let mut analysis =
        Analysis::of(bytes.clone(), &settings).map_err(|diagnostics| diagnostics.within(&place))?;
    let warnings = Diagnostics(std::mem::take(&mut analysis.warnings));
    message::print_warnings(warnings.within(&place).0);
    let stem = options.model.file_stem().unwrap_or_default().to_string_lossy();
    let source = Compiler::new(&settings).source_of(&bytes, &options.model);
    let style = Style { source, ..settings.style(analysis.plans.infer(), &stem)? };
    let name = style.name.clone();
    let mut data = data(&analysis, style);
    add_runs(&mut data, options, &bytes, &analysis, &settings)?;
    let page = page::html(&name, &data);
    Ok(files::write_text(&options.output, &page)?)
}

/// Adds what runs of the model show: the ranges of its values, and the times of its nodes.
fn add_runs(
    data: &mut Value,
    options: &Options,
    model: &Bytes,
    analysis: &Analysis,
    settings: &onnxc::Options,
) -> Result<(), Diagnostics> {
    let plan = analysis.plans.infer();
    let given = options.data.as_deref();
    let given = given.map(|path| values::inputs(path, model, plan)).transpose()?;
    if let Some(given) = &given {
        let ranges = values::ranges(model, settings, given);
        let place = options.model.display().to_string();
        data["ranges"] = ranges.map_err(|diagnostics| diagnostics.within(&place))?.into();
    }
    if options.measure {
        let given = given.as_ref().map_or(Given::Files(&[]), Given::Values);
        // The program that measures has the arena in the struct or on the heap.
        let mut compile = settings.clone();
        (compile.profile, compile.arena) = (true, None);
        let subject = Subject::inference(&options.model, compile, given);
        let (runtime, scratch) = (options.runtime.as_deref(), options.scratch.as_deref());
        data["measured"] = measured::value(subject, analysis, runtime, scratch)?;
    }
    Ok(())
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
        "ranges": Value::Null,
        "measured": Value::Null,
    })
}
