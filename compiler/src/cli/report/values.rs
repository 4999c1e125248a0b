//! The ranges of the values in a run.

use super::range;
use crate::cli::{
    compare::{
        reference::unfused,
        values::{BEFORE_FUSION, Traced},
    },
    inputs::{self, Inputs},
    npz, progress,
    test::folder,
};
use onnxc::{
    Options,
    diag::{Code, Diagnostic, Diagnostics, quoted},
    import,
    plan::Plan,
    ty::Type,
    value::Value,
};
use onnxc_proto::Bytes;
use serde_json::Map;
use std::path::Path;

/// The forms of the data.
const FORMS: &str = "name an `.npz` file with an array for each input, or a folder with a file \
    `input_0.pb` for each";

/// Reads the inputs of a plan: an archive of NumPy, or a folder in ONNX's layout, which may be the
/// one around `test_data_set_0`.
pub fn inputs(path: &Path, model: &Bytes, plan: &Plan) -> Result<Inputs, Diagnostics> {
    let found = if path.is_dir() { of_folder(path, model, plan)? } else { of_archive(path)? };
    let is_needed = |ty: &Type| !matches!(ty, Type::Optional(_));
    let mut needed =
        plan.inputs.iter().filter(|port| port.default.is_none() && is_needed(&port.ty));
    if let Some(port) = needed.find(|port| !found.contains_key(&port.name)) {
        let message = format!("the data has no value for the input {}", quoted(&port.name));
        let error = Diagnostic::new(Code::BadOption, message).help(FORMS);
        return Err(error.within(path.display().to_string()).into());
    }
    Ok(found)
}

fn of_archive(path: &Path) -> Result<Inputs, Diagnostic> {
    let is_other = path.is_file() && path.extension().is_none_or(|end| end != "npz");
    let arrays =
        npz::open(path).map_err(|error| if is_other { error.help(FORMS) } else { error })?;
    Ok(arrays.into_iter().map(|(name, array)| (name, Value::Tensor(array))).collect())
}

fn of_folder(path: &Path, model: &Bytes, plan: &Plan) -> Result<Inputs, Diagnostics> {
    let first = path.join("test_data_set_0");
    let folder = if first.is_dir() { first.as_path() } else { path };
    let graph = import::decode(model.clone())?.graph.unwrap_or_default();
    let values = folder::inputs(folder, &graph, plan)?;
    let named = plan.inputs.iter().map(|port| port.name.clone()).zip(values);
    Ok(named.filter(|(_, value)| !matches!(value, Value::Optional(None))).collect())
}

/// Runs a model on its inputs, compiled and before fusion, and returns the ranges of all values by
/// name. A value of both has the range of the latter, because a convolution pads its channels.
pub fn ranges(
    model: &Bytes,
    options: &Options,
    given: &Inputs,
) -> Result<Map<String, serde_json::Value>, Diagnostics> {
    progress::enter("run", "");
    let mut ranges = Map::new();
    let sides = [(options.clone(), None), (unfused(options), Some(BEFORE_FUSION))];
    for (options, after) in sides {
        let traced = Traced::of(model.clone(), &options, after)?;
        let values = traced.run(&inputs::in_order(traced.plan(), given)?)?;
        let each = given.iter().filter_map(|(name, value)| Some((name, value.tensor()?)));
        for (name, tensor) in values.iter().chain(each) {
            if let Some(range) = range::of(tensor) {
                ranges.insert(name.clone(), range);
            }
        }
    }
    Ok(ranges)
}
