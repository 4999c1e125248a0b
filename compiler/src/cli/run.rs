//! `onnxc run`: a model on inputs from files.

use super::{
    compile::Shared,
    files::{self, Format},
};
use onnxc::{
    diag::{Code, Diagnostic, DiagnosticSink, Diagnostics, quoted},
    dim::Symbol,
    file, import, interpreter,
    plan::{Custom, Plan, Port},
    ty::Type,
    value::Value,
};
use onnxc_proto::GraphProto;
use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Runs a model in this process, on inputs from files
#[derive(clap::Args)]
pub struct Options {
    /// The model
    model: PathBuf,
    /// The file of an input: `.npy`, or `.pb` with a TensorProto or the like. Several files for an
    /// input are several runs, one after the other: state is handed on
    #[arg(long, value_name = "NAME=FILE")]
    input: Vec<String>,
    /// Where the outputs are written, each to a file of its name. Without it, they are printed
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// The format of the outputs
    #[arg(long, value_enum, default_value = "npy")]
    format: Format,
    #[command(flatten)]
    shared: Shared,
}

/// Runs the command.
pub fn run(options: &Options) -> ExitCode {
    match try_run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(diagnostics) => {
            eprintln!("{diagnostics}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(options: &Options) -> Result<(), Diagnostics> {
    let place = options.model.display().to_string();
    let bytes = files::bytes(&options.model)?;
    let proto =
        import::decode(bytes.clone()).map_err(|diagnostic| diagnostic.within(place.clone()))?;
    let runs = runs(inputs(&options.input, proto.graph.as_ref())?)?;
    let outcome = compute(bytes, options, &runs).map_err(|diagnostics| diagnostics.within(&place));
    let (plan, results) = outcome?;
    for (run, outputs) in results.iter().enumerate() {
        let run = (results.len() > 1).then_some(run);
        match &options.output_dir {
            None => print(&plan, outputs, run),
            Some(directory) => write(&plan, outputs, run, directory, options.format)?,
        }
    }
    Ok(())
}

/// Prints the outputs of a run, which has a number where there are several.
fn print(plan: &Plan, outputs: &[Value], run: Option<usize>) {
    let run = run.map_or(String::new(), |run| format!("run {run}, "));
    for (port, value) in plan.outputs.iter().zip(outputs) {
        outln!("{run}{}: {value:?}", port.name);
    }
}

/// Writes the outputs of a run, which has a directory of its own where there are several.
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

/// The inputs of one run, by name.
pub type Inputs = BTreeMap<String, Value>;

/// What the files of each input give to each run: one file is for all.
pub fn runs(inputs: BTreeMap<String, Vec<Value>>) -> Result<Vec<Inputs>, Diagnostic> {
    let count = inputs.values().map(Vec::len).max().unwrap_or(1);
    if let Some((name, values)) =
        inputs.iter().find(|(_, v)| !matches!(v.len(), 1) && v.len() != count)
    {
        let message =
            format!("{} has {} files, but another input has {count}", quoted(name), values.len());
        return Err(Diagnostic::new(Code::BadOption, message));
    }
    let of = |run: usize, values: &[Value]| values.get(run).unwrap_or(&values[0]).clone();
    let one = |run| inputs.iter().map(|(name, all)| (name.clone(), of(run, all))).collect();
    Ok((0..count).map(one).collect())
}

/// Compiles the model for the sizes of its inputs, and runs it on each run's.
fn compute(
    bytes: onnxc_proto::Bytes,
    options: &Options,
    runs: &[Inputs],
) -> Result<(Plan, Vec<Vec<Value>>), Diagnostics> {
    let mut compile = options.shared.options()?.beside(&options.model);
    let proto = import::decode(bytes.clone())?;
    if let Some(graph) = &proto.graph {
        for (name, axes) in runs.iter().flat_map(|inputs| import::free_shapes(graph, inputs)) {
            compile.settings.shapes.entry(name).or_insert(axes);
        }
        // What changes from run to run stays free.
        let mut sizes = runs.iter().map(|inputs| import::free_sizes(graph, inputs));
        let first = sizes.next().unwrap_or_default();
        let others: Vec<_> = sizes.flatten().collect();
        let stays = |(name, size): &(String, import::Size)| {
            others.iter().all(|(other, found)| other != name || found == size)
        };
        let dims = &mut compile.settings.dims;
        for (name, size) in first.into_iter().filter(stays) {
            dims.entry(name).or_insert(size);
        }
    }
    let planned = onnxc::Compiler::new(&compile).plan(bytes);
    let plan = planned.map_err(|mut diagnostics| {
        // A shape that the model leaves open may be that of an input of another name.
        let names: Vec<_> = proto.graph.iter().flat_map(|graph| &graph.input).collect();
        let names: Vec<&str> = names.into_iter().map(|input| input.name()).collect();
        diagnostics.0.extend(runs.first().into_iter().flat_map(|inputs| unknown(&names, inputs)));
        diagnostics
    })?;
    callable(&plan)?;
    let mut session = interpreter::Session::new(&plan);
    let mut results = Vec::new();
    for inputs in runs {
        let found = session.run(&in_order(&plan, inputs)?);
        results.push(found.map_err(|error| Diagnostic::new(Code::Refused, error.to_string()))?);
    }
    Ok((plan, results))
}

/// A diagnostic where a plan calls a function of the user's own, of which this program has none.
pub fn callable(plan: &Plan) -> Result<(), Diagnostic> {
    let Some(&Custom { operator, function, .. }) = plan.customs().first() else { return Ok(()) };
    let message = format!(
        "{} is {}, a function that only your program has",
        quoted(operator),
        quoted(function)
    );
    Err(Diagnostic::new(Code::Unsupported, message)
        .help("compile the model, and call the module from your program"))
}

/// The values of `NAME=FILE`, by name.
pub fn inputs(
    texts: &[String],
    graph: Option<&GraphProto>,
) -> Result<BTreeMap<String, Vec<Value>>, Diagnostics> {
    let mut inputs: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let diagnostics = DiagnosticSink::default();
    for text in texts {
        // A file may have an equals sign in its name, and so may an input: the first file that
        // there is counts.
        let splits = text.match_indices('=').map(|(at, _)| (&text[..at], &text[at + 1..]));
        let split = splits.clone().find(|(_, file)| Path::new(file).is_file());
        let Some((name, file)) = split.or_else(|| splits.clone().next()) else {
            let message = format!("{} does not have the form `--input NAME=FILE`", quoted(text));
            diagnostics.push(Diagnostic::new(Code::BadOption, message));
            continue;
        };
        let mut infos = graph.iter().flat_map(|graph| &graph.input);
        let ty = infos.find(|info| info.name() == name).and_then(|info| info.r#type.as_ref());
        if let Some(value) = diagnostics.keep(files::read(Path::new(file), ty)) {
            inputs.entry(name.to_owned()).or_default().push(value);
        }
    }
    diagnostics.finish()?;
    Ok(inputs)
}

/// A diagnostic for each input that the model does not have.
fn unknown(names: &[&str], inputs: &Inputs) -> Vec<Diagnostic> {
    let known: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    let diagnostic = |name: &String| {
        let message = format!("the model has no input {}", quoted(name));
        let note = match known.is_empty() {
            true => "it has none".to_owned(),
            false => format!("its inputs are {}", known.join(", ")),
        };
        Diagnostic::new(Code::BadOption, message).note(note)
    };
    inputs.keys().filter(|name| !names.contains(&name.as_str())).map(diagnostic).collect()
}

/// The inputs as the plan wants them.
pub fn in_order(plan: &Plan, inputs: &Inputs) -> Result<Vec<Value>, Diagnostics> {
    let names: Vec<&str> = plan.inputs.iter().map(|port| port.name.as_str()).collect();
    let mut diagnostics = unknown(&names, inputs);
    let (mut given, mut sizes) = (Vec::new(), BTreeMap::new());
    for port in &plan.inputs {
        match one(port, inputs) {
            Ok(value) => {
                diagnostics.extend(disagrees(port, &value, &mut sizes));
                given.push(value);
            }
            Err(diagnostic) => diagnostics.push(diagnostic),
        }
    }
    if diagnostics.is_empty() { Ok(given) } else { Err(Diagnostics(diagnostics)) }
}

fn one(port: &Port, inputs: &Inputs) -> Result<Value, Diagnostic> {
    let name = quoted(&port.name);
    match (inputs.get(&port.name), &port.ty) {
        (Some(value), ty) if fits(value, ty) => Ok(value.clone()),
        (Some(value), wanted) => {
            let found = match value {
                Value::Tensor(tensor) => tensor.ty().to_string(),
                value => value.kind().to_owned(),
            };
            let message = format!("the input {name} is {found}, but the model wants {wanted}");
            Err(Diagnostic::new(Code::Refused, message))
        }
        (None, Type::Optional(_)) => Ok(Value::Optional(None)),
        (None, _) if port.default.is_some() => Ok(Value::Optional(None)),
        (None, _) => {
            let message = format!("the input {name} is not given");
            Err(Diagnostic::new(Code::BadOption, message)
                .help(format!("say `--input {}=FILE`", port.name)))
        }
    }
}

/// Whether a value is of a type, as far as the sizes are numbers.
fn fits(value: &Value, ty: &Type) -> bool {
    match (value, ty) {
        (Value::Optional(None), _) => matches!(ty, Type::Optional(_)),
        (Value::Optional(Some(value)), ty) => fits(value, ty),
        (value, Type::Optional(ty)) => fits(value, ty),
        (Value::Tensor(tensor), Type::Tensor(ty)) => {
            let mut sizes = ty.shape.iter().zip(&tensor.shape);
            tensor.dtype == ty.dtype
                && tensor.shape.len() == ty.rank()
                && sizes.all(|(dim, &size)| dim.known().is_none_or(|dim| dim == size as i64))
        }
        (Value::Sequence(values), ty) => values.iter().all(|value| {
            let dtype = value.tensor().map(|tensor| tensor.dtype);
            matches!(ty, Type::Sequence(_)) && dtype.is_none_or(|dtype| ty.dtype() == Some(dtype))
        }),
        (Value::Map(..), ty) => matches!(ty, Type::Map(..)),
        (Value::Tensor(_), _) => false,
    }
}

/// DiagnosticSink where an input has another size than an input before for what the model calls the same;
/// `sizes` are those of the inputs before.
fn disagrees<'p>(
    port: &'p Port,
    value: &Value,
    sizes: &mut BTreeMap<&'p Symbol, (&'p str, usize)>,
) -> Vec<Diagnostic> {
    let (Value::Tensor(tensor), Type::Tensor(ty)) = (value, port.ty.content()) else {
        return Vec::new();
    };
    let mut diagnostics = Vec::new();
    for (dim, &size) in ty.shape.iter().zip(&tensor.shape) {
        let Some(symbol) = dim.as_symbol() else { continue };
        let &mut (before, known) = sizes.entry(symbol).or_insert((&port.name, size));
        if known != size {
            let (name, before) = (quoted(&port.name), quoted(before));
            let message =
                format!("`{symbol}` is {size} in the input {name}, but {known} in {before}");
            diagnostics.push(Diagnostic::new(Code::Refused, message));
        }
    }
    diagnostics
}

/// A name for the file of an output: letters and digits of the output's own, each once.
fn file_name(output: &str, format: Format, taken: &mut HashSet<String>) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '.' | '-') { c } else { '_' };
    let stem: String = output.chars().map(plain).collect();
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
    use onnxc::tensor::Tensor;

    #[test]
    fn all_that_is_wrong_with_the_inputs_is_said_at_once() {
        let text = "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[n] a, float[n] b, int64 c, seq(float[2]) d, float e) => (float[n] y) {
                y = Sum(a, b, e)
            }";
        let planned = onnxc::Compiler::new(&onnxc::Options::default()).plan(text.into());
        let plan = planned.expect("the model is whole");
        let floats = |values: &[f32]| Value::Tensor(Tensor::from_floats(values));
        let given = [("a", floats(&[1.0, 2.0])), ("b", floats(&[1.0])), ("c", floats(&[1.0]))];
        let more = [("d", floats(&[1.0, 2.0])), ("f", floats(&[]))];
        let inputs = given.into_iter().chain(more).map(|(name, value)| (name.to_owned(), value));
        let found = in_order(&plan, &inputs.collect()).expect_err("nothing fits").0;
        let found: Vec<&str> = found.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
        assert_eq!(
            found,
            [
                "the model has no input `f`",
                "`n` is 1 in the input `b`, but 2 in `a`",
                "the input `c` is float[1], but the model wants int64",
                "the input `d` is float[2], but the model wants seq(float[2])",
                "the input `e` is not given",
            ]
        );
    }
}
