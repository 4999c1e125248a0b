//! Test folders in ONNX's layout: `model.onnx`, `test_data_set_K/{input,output}_J.pb`, and an
//! optional `data.json` with tolerances, and with dimensions that are fixed or bounded:
//! `{"rtol": 1e-3, "atol": 1e-7, "dims": {"batch": "1..=8", "seq": "128"}}`.

use crate::cli::files;
use onnxc::{Options, diag::Diagnostics, import, value::Value};
use onnxc_proto::{Bytes, TypeProto, ValueInfoProto};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// One folder.
pub struct Folder {
    /// The folder.
    pub path: PathBuf,
    /// How far a result may lie off: absolute and relative.
    pub tolerance: Tolerance,
    /// What is said of dimensions, each as `--dim` has it.
    dims: Vec<String>,
}

/// How far a result may lie off: `atol + rtol · |expected|`.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// The absolute part.
    pub atol: f64,
    /// The relative part.
    pub rtol: f64,
}

/// Inputs, and the outputs that they should give.
pub struct DataSet {
    /// The inputs, in the model's order.
    pub inputs: Vec<Value>,
    /// The outputs, in the model's order.
    pub outputs: Vec<Value>,
}

/// Every test folder that `path` is or holds, sorted.
pub fn find(path: &Path, tolerance: Tolerance) -> Vec<Folder> {
    if path.join("model.onnx").is_file() {
        let json = json(path);
        let tolerance = own_tolerance(&json).unwrap_or(tolerance);
        return vec![Folder { path: path.to_owned(), tolerance, dims: dims(&json) }];
    }
    let mut inside: Vec<PathBuf> = fs::read_dir(path)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    inside.retain(|path| path.is_dir());
    inside.sort();
    inside.iter().flat_map(|path| find(path, tolerance)).collect()
}

/// The inputs of the first data set of the folder that a model lies in, where it is such a folder.
pub fn first_inputs(model: &Path) -> Result<Option<Vec<Value>>, Diagnostics> {
    let path = model.parent().unwrap_or(Path::new(""));
    if model.file_name() != Some("model.onnx".as_ref()) || !path.join("test_data_set_0").is_dir() {
        return Ok(None);
    }
    let tolerance = Tolerance { atol: 0.0, rtol: 0.0 };
    let folder = Folder { path: path.to_owned(), tolerance, dims: Vec::new() };
    Ok(folder.data_sets()?.into_iter().next().map(|set| set.inputs))
}

/// What `data.json` says; nothing where there is none.
fn json(path: &Path) -> serde_json::Value {
    let text = fs::read(path.join("data.json")).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn dims(json: &serde_json::Value) -> Vec<String> {
    let dims = json.get("dims").and_then(|dims| dims.as_object());
    let each = dims.into_iter().flatten();
    each.map(|(name, size)| match size.as_str() {
        Some(size) => format!("{name}={size}"),
        None => format!("{name}={size}"),
    })
    .collect()
}

fn own_tolerance(json: &serde_json::Value) -> Option<Tolerance> {
    Some(Tolerance { atol: json.get("atol")?.as_f64()?, rtol: json.get("rtol")?.as_f64()? })
}

impl Folder {
    /// The options for this folder: what is said for all of them, and its own dimensions.
    pub fn options(&self, shared: &Options) -> Result<Options, Diagnostics> {
        let mut options = shared.clone();
        self.dims.iter().try_for_each(|dim| options.dim(dim))?;
        Ok(options)
    }

    /// The bytes of the model.
    pub fn model(&self) -> Result<Bytes, Diagnostics> {
        Ok(files::bytes(&self.path.join("model.onnx"))?)
    }

    /// The data sets, in order.
    pub fn data_sets(&self) -> Result<Vec<DataSet>, Diagnostics> {
        let mut sets = Vec::new();
        let graph = import::decode(self.model()?)?.graph.unwrap_or_default();
        let constant = |info: &&ValueInfoProto| {
            graph.initializer.iter().any(|initializer| initializer.name() == info.name())
        };
        let inputs = types(graph.input.iter().filter(|info| !constant(info)));
        let outputs = types(&graph.output);
        loop {
            let path = self.path.join(format!("test_data_set_{}", sets.len()));
            if !path.is_dir() {
                return Ok(sets);
            }
            sets.push(DataSet {
                inputs: values(&path, "input", &inputs)?,
                outputs: values(&path, "output", &outputs)?,
            });
        }
    }
}

fn types<'g>(infos: impl IntoIterator<Item = &'g ValueInfoProto>) -> Vec<Option<&'g TypeProto>> {
    infos.into_iter().map(|info| info.r#type.as_ref()).collect()
}

/// The values in the files of a kind, of the types that the model says.
fn values(
    path: &Path,
    kind: &str,
    types: &[Option<&TypeProto>],
) -> Result<Vec<Value>, Diagnostics> {
    let mut all = Vec::new();
    loop {
        let file = path.join(format!("{kind}_{}.pb", all.len()));
        if !file.is_file() {
            return Ok(all);
        }
        let ty = types.get(all.len()).copied().flatten();
        all.push(files::read(&file, ty)?);
    }
}
