//! Reads test folders in ONNX's layout: `model.onnx`, `test_data_set_K/{input,output}_J.pb`, and an
//! optional `data.json` with tolerances and sizes of dimensions: `{"rtol": 1e-3, "atol": 1e-7,
//! "dims": {"batch": "1..=8", "seq": "128"}}`.

use crate::cli::{files, tolerance::Tolerance};
use onnxc::{
    Options,
    diag::Diagnostics,
    import,
    plan::{Plan, Port},
    value::Value,
};
use onnxc_proto::{Bytes, GraphProto, ValueInfoProto};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A test folder.
pub struct Folder {
    /// The path of the folder.
    pub path: PathBuf,
    /// The allowed error of a result.
    pub tolerance: Tolerance,
    /// The sizes of dimensions, in the form of `--dim`.
    dims: Vec<String>,
}

/// Inputs, and the expected outputs.
pub struct DataSet {
    /// The inputs, in the plan's order. An omitted one is an absent optional.
    pub inputs: Vec<Value>,
    /// The outputs, in the plan's order.
    pub outputs: Vec<Value>,
}

/// Finds the test folders at and below `path`, sorted. Each has this tolerance, and its own one for
/// the parts that are not set.
pub fn find(path: &Path, tolerance: Tolerance) -> Vec<Folder> {
    if path.join("model.onnx").is_file() {
        let json = json(path);
        let tolerance = tolerance.or(own_tolerance(&json));
        return vec![Folder { path: path.to_owned(), tolerance, dims: dims(&json) }];
    }
    let mut inside: Vec<PathBuf> = fs::read_dir(path)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    inside.retain(|path| path.is_dir());
    inside.sort();
    inside.iter().flat_map(|path| find(path, tolerance)).collect()
}

/// The inputs of the first data set, if the model is in a test folder.
pub fn first_inputs(model: &Path, plan: &Plan) -> Result<Option<Vec<Value>>, Diagnostics> {
    let path = model.parent().unwrap_or(Path::new(""));
    if model.file_name() != Some("model.onnx".as_ref()) || !path.join("test_data_set_0").is_dir() {
        return Ok(None);
    }
    let tolerance = Tolerance::default();
    let folder = Folder { path: path.to_owned(), tolerance, dims: Vec::new() };
    Ok(folder.data_sets(plan)?.into_iter().next().map(|set| set.inputs))
}

/// Returns the tolerance of a data set: that in `data.json` of its folder, or of the folder around
/// it.
pub fn tolerance(set: &Path) -> Tolerance {
    let around = set.parent().map_or(Tolerance::default(), |around| own_tolerance(&json(around)));
    own_tolerance(&json(set)).or(around)
}

/// Parses `data.json`, or returns null if there is none.
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

fn own_tolerance(json: &serde_json::Value) -> Tolerance {
    let part = |name| json.get(name).and_then(serde_json::Value::as_f64);
    Tolerance { rtol: part("rtol"), atol: part("atol") }
}

impl Folder {
    /// The options for this folder: the shared ones, and the folder's own dimensions.
    pub fn options(&self, shared: &Options) -> Result<Options, Diagnostics> {
        let mut own = Options::default();
        self.dims.iter().try_for_each(|dim| own.dim(dim))?;
        let mut options = shared.clone();
        // The folder's own sizes override the shared ones.
        options.settings.dims.extend(own.settings.dims);
        Ok(options)
    }

    /// Returns whether the folder is for a trainable model. See `learning`.
    pub fn learns(&self) -> bool {
        self.path.join("data.npz").is_file() && self.path.join("meta.json").is_file()
    }

    /// Reads the model.
    pub fn model(&self) -> Result<Bytes, Diagnostics> {
        Ok(files::bytes(&self.path.join("model.onnx"))?)
    }

    /// Reads the data sets for a plan of the model, in order.
    pub fn data_sets(&self, plan: &Plan) -> Result<Vec<DataSet>, Diagnostics> {
        let mut sets = Vec::new();
        let graph = import::decode(self.model()?)?.graph.unwrap_or_default();
        loop {
            let path = self.path.join(format!("test_data_set_{}", sets.len()));
            if !path.is_dir() {
                return Ok(sets);
            }
            let outputs = outputs(&path, &graph, plan)?;
            sets.push(DataSet {
                inputs: inputs(&path, &graph, plan)?,
                outputs: outputs.into_iter().map(|(_, value)| value).collect(),
            });
        }
    }
}

/// Reads the inputs of a data set, in the order of a plan of the model. An omitted one is an absent
/// optional.
pub fn inputs(path: &Path, graph: &GraphProto, plan: &Plan) -> Result<Vec<Value>, Diagnostics> {
    let found = values(path, "input", &graph.input, &plan.inputs)?;
    Ok(found.into_iter().map(|value| value.unwrap_or(Value::Optional(None))).collect())
}

/// Reads the outputs of a data set by name, in the order of a plan of the model.
pub fn outputs(
    path: &Path,
    graph: &GraphProto,
    plan: &Plan,
) -> Result<Vec<(String, Value)>, Diagnostics> {
    let found = values(path, "output", &graph.output, &plan.outputs)?;
    let names = plan.outputs.iter().map(|port| port.name.clone());
    Ok(names.zip(found).filter_map(|(name, value)| Some((name, value?))).collect())
}

/// Reads the values of `ports` from the files of a kind. Depending on their number, the files
/// belong to the ports without a default, to all ports, or to all inputs or outputs of the model.
fn values(
    path: &Path,
    kind: &str,
    infos: &[ValueInfoProto],
    ports: &[Port],
) -> Result<Vec<Option<Value>>, Diagnostics> {
    let file = |i: usize| path.join(format!("{kind}_{i}.pb"));
    let count = (0..).take_while(|&i| file(i).is_file()).count();
    let required: Vec<&str> =
        ports.iter().filter(|port| port.default.is_none()).map(|port| &*port.name).collect();
    let names: Vec<&str> = if count == required.len() {
        required
    } else if count == ports.len() {
        ports.iter().map(|port| &*port.name).collect()
    } else {
        infos.iter().map(ValueInfoProto::name).collect()
    };
    let mut found = Vec::new();
    for (i, name) in names.into_iter().enumerate().take(count) {
        let ty = infos.iter().find(|info| info.name() == name);
        found.push((name, files::read(&file(i), ty.and_then(|info| info.r#type.as_ref()))?));
    }
    let mut value = |port: &Port| {
        let at = found.iter().position(|(name, _)| *name == port.name)?;
        Some(found.remove(at).1)
    };
    Ok(ports.iter().map(&mut value).collect())
}
