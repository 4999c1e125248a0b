//! `onnxc reduce MODEL`: shrinks a model to the smallest part that still shows a difference or a
//! diagnostic.

mod base;
mod diagnosis;
mod difference;
mod part;
mod search;

use super::{
    compare::reference::Sides,
    files::{self, Format},
    options::{OfModule, whole_number},
    progress,
};
use diagnosis::Diagnosis;
use difference::Difference;
use onnxc::{
    diag::{Diagnostics, counted, quoted},
    export, file,
    import::print,
    tensor::Tensor,
    value::Value,
};
use part::{Part, Whole};
use search::Search;
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// The most elements of a constant that are printed.
const LONGEST: usize = 16;

/// Shrinks a model to the smallest part that still differs from a reference, or that still gives a
/// diagnostic
///
/// Nodes are left out as long as the rest shows the same. The values that they computed become
/// inputs of the part, with the values of the reference. Reference, inputs and tolerance are those
/// of `onnxc compare`.
#[derive(clap::Args)]
pub struct Options {
    /// The model
    model: PathBuf,
    /// Keep what gives the diagnostic of this code, such as `E0302`, instead of a difference
    #[arg(long, value_name = "CODE", conflicts_with_all = ["with", "input"])]
    diagnostic: Option<String>,
    /// The file of the part: a model, or a folder in ONNX's layout, with its data
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// The time after which the search ends, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = whole_number)]
    time: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sides: Sides,
    #[command(flatten)]
    of_module: OfModule,
}

/// The result of a search.
struct Reduced {
    part: Part,
    /// The difference or the diagnostic that the part shows.
    shown: String,
    /// The number of nodes of the model.
    count: usize,
    tests: usize,
    is_cut_short: bool,
    /// The inputs and the expected outputs of the part.
    data: Option<[Vec<(String, Tensor)>; 2]>,
}

/// Runs the command.
pub fn run(options: &Options) -> Result<(), Diagnostics> {
    let place = options.model.display().to_string();
    if let Some(to) = &options.output {
        file::keep_sources(to, options.sides.files(&options.model))?;
    }
    progress::enter("reduce", place.clone());
    let reduced = match &options.diagnostic {
        Some(code) => reduce_diagnostic(options, code),
        None => reduce_difference(options),
    };
    let reduced = reduced.map_err(|diagnostics| match options.diagnostic {
        Some(_) => diagnostics.within(&place),
        None => diagnostics,
    })?;
    if let Some(path) = &options.output {
        write(&reduced, path)?;
    }
    if options.json {
        json(&reduced, options);
    } else {
        text(&reduced, options);
    }
    Ok(())
}

fn reduce_difference(options: &Options) -> Result<Reduced, Diagnostics> {
    let reference = options.sides.reference()?;
    difference::require_values(&reference)?;
    let mut case = options.sides.case(&options.model, &reference)?;
    options.of_module.set(&mut case.settings)?;
    let difference = Difference::of(&options.sides, &case, &reference)?;
    let whole = difference.whole()?;
    let shows = |part: &Part| difference.row(part).is_some();
    let found = reduce(&whole, &difference.watched(), &shows, options);
    let row = difference.row(&found.part);
    let shown = row.map_or(String::new(), |row| row.summary());
    Ok(Reduced { data: Some(difference.data(&found.part)), shown, ..found })
}

fn reduce_diagnostic(options: &Options, code: &str) -> Result<Reduced, Diagnostics> {
    let mut settings = options.sides.settings(&options.model)?;
    options.of_module.set(&mut settings)?;
    let diagnosis = Diagnosis::of(code, files::bytes(&options.model)?, settings)?;
    let whole = diagnosis.whole()?;
    let shows = |part: &Part| diagnosis.diagnostic(part).is_some();
    let found = reduce(&whole, &[], &shows, options);
    let diagnostic = diagnosis.diagnostic(&found.part);
    let shown =
        diagnostic.map_or(String::new(), |found| format!("{}: {}", found.code, found.message));
    Ok(Reduced { shown, ..found })
}

/// Reduces the nodes, and then the outputs.
fn reduce(
    whole: &Whole,
    watched: &[String],
    shows: &dyn Fn(&Part) -> bool,
    options: &Options,
) -> Reduced {
    let mut test = |nodes: &[usize]| whole.part(nodes, watched).is_some_and(|part| shows(&part));
    let mut search = Search::new(&mut test, Duration::from_secs(options.time));
    let nodes = search.reduce((0..whole.len()).collect());
    let (tests, is_cut_short) = (search.tests, search.is_cut_short);
    let part = whole.part(&nodes, watched).expect("a part that shows it was cut out before");
    let single = part.outputs.iter().filter_map(|output| whole.with_output(&part, output));
    let single = if part.outputs.len() > 1 && !is_cut_short {
        single.into_iter().find(|part| shows(part))
    } else {
        None
    };
    let part = single.unwrap_or(part);
    let (count, shown) = (whole.len(), String::new());
    Reduced { part, shown, count, tests, is_cut_short, data: None }
}

/// Writes the part: its model, or a folder of the model and its data.
fn write(reduced: &Reduced, path: &Path) -> Result<(), Diagnostics> {
    if is_model(path) {
        return Ok(export::write(reduced.part.model.clone(), path)?);
    }
    fs::create_dir_all(path).map_err(file::refused(path))?;
    export::write(reduced.part.model.clone(), &path.join("model.onnx"))?;
    let Some([inputs, outputs]) = &reduced.data else { return Ok(()) };
    let set = path.join("test_data_set_0");
    fs::create_dir_all(&set).map_err(file::refused(&set))?;
    for (kind, values) in [("input", inputs), ("output", outputs)] {
        for (i, (name, tensor)) in values.iter().enumerate() {
            let value = Value::Tensor(tensor.clone());
            files::write(&set.join(format!("{kind}_{i}.pb")), name, &value, Format::Pb)?;
        }
    }
    Ok(())
}

/// Returns whether the path is that of a model, and not of a folder.
fn is_model(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "onnx" || end == "onnxtxt")
}

fn text(reduced: &Reduced, options: &Options) {
    let Reduced { part, shown, count, tests, is_cut_short, data } = reduced;
    let left = part.nodes.len();
    let (nodes, tests) = (counted(count, "node"), counted(tests, "test"));
    outln!("{left} of {nodes} remain after {tests}: {shown}");
    if *is_cut_short {
        outln!("the time is over; a longer `--time` may remove more nodes");
    }
    outln!("\n{}", print::model(&part.model, LONGEST).trim_end());
    let Some(path) = &options.output else { return };
    outln!("\nwritten to {}", quoted(&path.display().to_string()));
    if data.is_some() && !is_model(path) {
        let path = path.display();
        outln!("`onnxc compare {path}/model.onnx --with {path}` shows the difference");
    }
}

fn json(reduced: &Reduced, options: &Options) {
    let Reduced { part, shown, count, tests, is_cut_short, data: _ } = reduced;
    let names: Vec<String> =
        part.model.graph.iter().flat_map(|graph| &graph.node).map(name).collect();
    outln!(
        "{:#}",
        serde_json::json!({
            "nodes": names,
            "nodes_before": count,
            "tests": tests,
            "complete": !is_cut_short,
            "shown": shown,
            "model": print::model(&part.model, LONGEST),
            "written": options.output,
        })
    );
}

/// Returns the name of a node, or that of its first output.
fn name(node: &onnxc_proto::NodeProto) -> String {
    let first = || node.output.first().cloned().unwrap_or_default();
    Some(node.name().to_owned()).filter(|name| !name.is_empty()).unwrap_or_else(first)
}
