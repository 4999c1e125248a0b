//! Runs a model with ONNX Runtime, in the user's Python.

use super::values::Values;
use crate::cli::{inputs::Inputs, message, npy, npz};
use onnxc::{
    diag::{Code, Diagnostic, Diagnostics, quoted},
    export, file,
    value::Value,
};
use onnxc_proto::{ModelProto, ValueInfoProto};
use std::{
    collections::HashSet,
    env, fs,
    path::{Path, PathBuf},
    process::{self, Command, Output},
};

/// The program that runs the model.
const SCRIPT: &str = include_str!("onnxruntime.py");

/// The exit status of [`SCRIPT`] if a package is not installed.
const NOT_INSTALLED: i32 = 3;

/// Runs a model on the inputs, and returns those values of its graph that are `wanted`. The
/// model's external data must be embedded.
///
/// # Errors
///
/// Returns an error if Python or the package is missing, or if ONNX Runtime rejects the model.
pub fn run(
    python: &Path,
    mut model: ModelProto,
    inputs: &Inputs,
    wanted: impl Fn(&str) -> bool,
) -> Result<Values, Diagnostics> {
    let names = expose(&mut model, wanted);
    let folder = Temporary::create()?;
    let given: Vec<(&String, &Value)> =
        inputs.iter().filter(|(_, value)| **value != Value::Optional(None)).collect();
    for (i, (name, value)) in given.iter().enumerate() {
        folder.write(&format!("{i}.npy"), &array(name, value)?)?;
    }
    let given: Vec<&String> = given.into_iter().map(|(name, _)| name).collect();
    let job = serde_json::json!({ "inputs": given, "values": names });
    folder.write("job.json", job.to_string().as_bytes())?;
    folder.write("run.py", SCRIPT.as_bytes())?;
    export::write(model, &folder.path("model.onnx"))?;
    let output = Command::new(python).arg(folder.path("run.py")).arg(&folder.0).output();
    let output = output.map_err(|error| not_found(python, &error))?;
    if !output.status.success() {
        return Err(diagnose(python, &output).into());
    }
    let values = npz::read(&file::read(&folder.path("values.npz")).map_err(no_values)?)?;
    let named = values.into_iter().filter_map(|(place, tensor)| {
        let place: usize = place.parse().ok()?;
        Some((names.get(place)?.clone(), tensor))
    });
    Ok(named.collect())
}

/// Makes the wanted values of the graph outputs, and returns the names of all outputs. Their types
/// are left to ONNX Runtime's inference.
fn expose(model: &mut ModelProto, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    // Training information may name outputs.
    model.training_info.clear();
    let Some(graph) = &mut model.graph else { return Vec::new() };
    let mut names: Vec<String> =
        graph.output.iter().map(|output| output.name().to_owned()).collect();
    let given: HashSet<&String> = names.iter().collect();
    let made = graph.node.iter().flat_map(|node| &node.output);
    let made = made.filter(|name| !name.is_empty() && !given.contains(name) && wanted(name));
    let more: Vec<String> = made.cloned().collect();
    let output =
        |name: &String| ValueInfoProto { name: Some(name.clone()), ..ValueInfoProto::default() };
    graph.output.extend(more.iter().map(output));
    names.extend(more);
    names
}

fn array(name: &str, value: &Value) -> Result<Vec<u8>, Diagnostic> {
    let refused = |what: String| {
        let message =
            format!("the input {} cannot be passed to ONNX Runtime: {what}", quoted(name));
        Diagnostic::new(Code::Unsupported, message)
            .help("set `--with FOLDER` to a folder with the expected outputs")
    };
    let tensor = value.tensor().ok_or_else(|| refused(format!("it is {}", value.kind())))?;
    npy::write(tensor).map_err(|error| refused(error.message))
}

fn not_found(python: &Path, error: &std::io::Error) -> Diagnostic {
    let message = format!("{} cannot be run: {error}", quoted(&python.to_string_lossy()));
    Diagnostic::new(Code::Io, message)
        .note("`--with onnxruntime` runs ONNX Runtime in Python")
        .help("install Python, or set `--python PATH` to an interpreter")
}

/// Returns the diagnostic for a run that failed.
fn diagnose(python: &Path, output: &Output) -> Diagnostic {
    let text = message::plain(&output.stderr);
    let python = python.to_string_lossy();
    if output.status.code() == Some(NOT_INSTALLED) {
        let message = format!("{} has no ONNX Runtime", quoted(&python));
        return Diagnostic::new(Code::BadOption, message).note(text.trim_end()).help(format!(
            "`{python} -m pip install onnxruntime numpy`, or set `--python PATH` to an interpreter \
             of an environment that has them"
        ));
    }
    Diagnostic::new(Code::BadOption, "ONNX Runtime cannot run the model").note(text.trim_end())
}

fn no_values(error: std::io::Error) -> Diagnostic {
    Diagnostic::new(Code::Io, format!("ONNX Runtime wrote no values: {error}"))
}

/// A folder that is removed afterwards.
struct Temporary(PathBuf);

impl Temporary {
    fn create() -> Result<Temporary, Diagnostic> {
        let path = env::temp_dir().join(format!("onnxc-compare-{}", process::id()));
        fs::create_dir(&path).map_err(file::refused(&path))?;
        Ok(Temporary(path))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Diagnostic> {
        let path = self.path(name);
        fs::write(&path, bytes).map_err(file::refused(&path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // The system cleans up its temporary directory.
        drop(fs::remove_dir_all(&self.0));
    }
}
