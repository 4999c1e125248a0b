//! `onnxc optimize --verify`: compares the results of a model before and after.

use super::{bench::inputs, inputs::callable, test::compare, tolerance::Tolerance};
use onnxc::{
    Compiler, Options,
    diag::{Code, Diagnostic, Diagnostics},
    import::Size,
    interpreter,
    plan::Plan,
    value::Value,
};
use onnxc_proto::{Bytes, Message, ModelProto};
use std::{collections::BTreeMap, path::Path};

/// The sizes of free dimensions, in the order in which they are tried: some models need more than a
/// few elements. `None` leaves them free, for inputs from files.
const SIZES: &[Option<i64>] = &[None, Some(2), Some(1), Some(8), Some(64), Some(256)];

/// Runs a model and its optimized form on the same inputs: those of the data set beside the model,
/// or random ones.
///
/// # Errors
///
/// Returns an error if an output differs, or if a model cannot be run.
pub fn same_results(
    (original, path): (Bytes, &Path),
    optimized: &ModelProto,
    options: &Options,
) -> Result<(), Diagnostics> {
    let mut before = options.clone();
    before.settings.states.clear();
    let names = free_dimensions(&original, &before)?;
    let mut failure = Diagnostics(Vec::new());
    for size in SIZES {
        let sizes: BTreeMap<String, Size> =
            names.iter().cloned().zip(size.map(Size::Fixed).into_iter().cycle()).collect();
        let mut sized = before.clone();
        sized.settings.dims.extend(sizes.clone());
        match plan_and_run(&original, path, &sized) {
            Ok((inputs, expected)) => {
                let mut after = Options::default();
                after.settings.dims = sizes;
                after.settings.customs = before.settings.customs;
                after.settings.types = before.settings.types;
                let bytes = optimized.encode_to_vec().into();
                let plan = Compiler::new(&after).plan(bytes)?;
                return compare_outputs(&plan, &run(&plan, &inputs)?, &expected);
            }
            Err(diagnostics) => failure = diagnostics,
        }
    }
    Err(failure)
}

/// Returns the names of the free dimensions of a model's inputs.
fn free_dimensions(model: &Bytes, options: &Options) -> Result<Vec<String>, Diagnostics> {
    let graph = Compiler::new(options).import(model.clone())?.graph;
    let types = graph[graph.body].inputs.iter().filter_map(|&id| graph[id].ty.as_tensor());
    let symbols = types.flat_map(|ty| ty.shape.iter().filter_map(|dim| dim.as_symbol()));
    let known = symbols.filter_map(|symbol| graph.symbols.get(symbol));
    Ok(known.map(|known| known.label.clone()).collect())
}

/// Returns the inputs of a model, and its outputs for them.
fn plan_and_run(
    model: &Bytes,
    path: &Path,
    options: &Options,
) -> Result<(Vec<Value>, Vec<Value>), Diagnostics> {
    let plan = Compiler::new(options).plan(model.clone())?;
    callable(&plan)?;
    let inputs = inputs::of(path, &[], &plan)?;
    let outputs = run(&plan, &inputs)?;
    Ok((inputs, outputs))
}

fn run(plan: &Plan, inputs: &[Value]) -> Result<Vec<Value>, Diagnostic> {
    let mut session = interpreter::Session::new(plan);
    session.run(inputs).map_err(|error| session.diagnose(&error))
}

fn compare_outputs(plan: &Plan, found: &[Value], expected: &[Value]) -> Result<(), Diagnostics> {
    // Folding changes the order of sums, so results may differ in their last bits.
    let distance = compare::compare(found, expected, Tolerance::default());
    let Some(wrong) = distance.wrong else { return Ok(()) };
    let names: Vec<&str> = plan.outputs.iter().map(|port| port.name.as_str()).collect();
    let message = "the optimized model gives other results than the model";
    Err(Diagnostic::new(Code::Internal, message)
        .note(wrong)
        .note(format!("its outputs: {}", names.join(", ")))
        .help("nothing was written: please report this with the model")
        .into())
}
