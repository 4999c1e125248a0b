//! `onnxc compare MODEL`: compares a compiled model with a reference, node by node.

mod metrics;
mod values;

use super::{bench::inputs as generated, files, inputs, message, npz, options::Shared, progress};
use metrics::Row;
use onnxc::{
    Optimize, Precision,
    diag::{Code, Diagnostic, Diagnostics, quoted},
    value::Value,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
};
use values::{Traced, Values};

/// The number of rows that are printed.
const MOST: usize = 20;

/// Compares a compiled model with a reference, node by node, and prints the first node that departs
///
/// The reference is the model before fusion, in full precision, or `--with`. The inputs are
/// `--input`, the first data set beside the model, or random ones. Values are matched by name. The
/// exit status is 1 if a value departs from the reference by more than the tolerance.
#[derive(clap::Args)]
pub struct Options {
    /// The model
    model: PathBuf,
    /// The reference: another model, or an `.npz` file of values by their names
    #[arg(long, value_name = "FILE")]
    with: Option<PathBuf>,
    /// The file of an input: `.npy`, or `.pb`
    #[arg(long, value_name = "NAME=FILE")]
    input: Vec<String>,
    /// The relative part of the tolerance
    #[arg(long, default_value_t = 1e-3)]
    rtol: f64,
    /// The absolute part of the tolerance, as a part of the largest element of the value
    #[arg(long, default_value_t = 1e-5)]
    atol: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    shared: Shared,
}

/// Runs the command.
pub fn run(options: &Options) -> ExitCode {
    match try_run(options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(diagnostics) => {
            message::print(&diagnostics);
            ExitCode::FAILURE
        }
    }
}

/// Returns whether all values are within the tolerance.
fn try_run(options: &Options) -> Result<bool, Diagnostics> {
    let place = options.model.display().to_string();
    progress::enter("compare", place.clone());
    let settings = options.shared.options()?.beside(&options.model);
    let bytes = files::bytes(&options.model)?;
    let within = |diagnostics: Diagnostics| diagnostics.within(&place);
    let compiled = Traced::of(bytes.clone(), &settings, None).map_err(within)?;
    let given = generated::of(&options.model, &options.input, compiled.plan())?;
    let reference = match &options.with {
        Some(path) if path.extension().is_some_and(|end| end == "npz") => {
            npz::read(&files::bytes(path)?)
                .map_err(|error| error.within(path.display().to_string()))?
        }
        with => {
            let mut settings = settings.clone();
            (settings.optimize, settings.precision) = (Optimize::Size, Precision::Full);
            let (path, bytes) = match with {
                Some(path) => (path, files::bytes(path)?),
                None => (&options.model, bytes),
            };
            let settings = settings.beside(path);
            let traced =
                Traced::of(bytes, &settings, with.is_none().then_some(values::BEFORE_FUSION));
            run_reference(&traced?, &compiled, &given, path)?
        }
    };
    let found = compiled.run(&given)?;
    let rows = rows(&compiled, &found, &reference, options);
    if rows.is_empty() {
        let message = "the model and the reference have no value of the same name and type";
        return Err(Diagnostic::new(Code::BadOption, message).into());
    }
    if options.json {
        json(&rows)
    } else {
        text(&rows)
    }
    Ok(rows.iter().all(|row| !row.departs))
}

/// Runs the reference on the inputs of the model, matched by name.
fn run_reference(
    reference: &Traced,
    compiled: &Traced,
    given: &[Value],
    path: &Path,
) -> Result<Values, Diagnostics> {
    let names = compiled.plan().inputs.iter().map(|port| port.name.clone());
    let by_name: BTreeMap<String, Value> = names.zip(given.iter().cloned()).collect();
    let wanted: Vec<&str> = reference.plan().inputs.iter().map(|port| port.name.as_str()).collect();
    let by_name = by_name.into_iter().filter(|(name, _)| wanted.contains(&name.as_str())).collect();
    let place = path.display().to_string();
    let ordered = inputs::in_order(reference.plan(), &by_name).map_err(|all| all.within(&place))?;
    reference.run(&ordered)
}

/// Compares the values of both, in the order of the compiled nodes.
fn rows(compiled: &Traced, found: &Values, reference: &Values, options: &Options) -> Vec<Row> {
    let each = compiled.names().iter().filter_map(|traced| {
        let (found, expected) = (found.get(&traced.value)?, reference.get(&traced.value)?);
        metrics::compare(traced, found, expected, (options.rtol, options.atol))
    });
    each.collect()
}

fn text(rows: &[Row]) {
    match rows.iter().find(|row| row.departs) {
        Some(row) => outln!(
            "the first node that departs is {} ({}): {}",
            quoted(&row.node),
            row.operator,
            row.summary()
        ),
        None => outln!("all {} values agree", rows.len()),
    }
    let mut worst: Vec<&Row> = rows.iter().collect();
    worst.sort_by(|a, b| b.relative().total_cmp(&a.relative()));
    outln!("\n{:>10} {:>10} {:>10} {:>10}  value", "max", "mean", "ULP", "cosine");
    for row in worst.iter().take(MOST) {
        let mark = if row.departs { "  departs" } else { "" };
        outln!(
            "{:>10.2e} {:>10.2e} {:>10} {:>10.6}  {} {} ({}){mark}",
            row.max,
            row.mean,
            row.ulp_text(),
            row.cosine,
            row.value,
            row.ty,
            row.operator
        );
    }
    if rows.len() > MOST {
        outln!("the {MOST} largest errors of {} values; `--json` has all", rows.len());
    }
}

fn json(rows: &[Row]) {
    let first = rows.iter().find(|row| row.departs).map(|row| row.node.clone());
    let values: Vec<serde_json::Value> = rows.iter().map(Row::json).collect();
    outln!("{:#}", serde_json::json!({ "first_departing_node": first, "values": values }));
}
