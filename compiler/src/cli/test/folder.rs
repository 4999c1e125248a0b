//! Reads test folders in ONNX's layout: `model.onnx`, `test_data_set_K/{input,output}_J.pb`, and an
//! optional `data.json`.

use super::settings::Settings;
use crate::cli::{
    files,
    inputs::{Inputs, in_order},
    tolerance::Tolerance,
};
use onnxc::{
    Options,
    diag::{Code, Diagnostic, Diagnostics, quoted},
    import,
    plan::{Plan, Port},
    ty::Type,
    value::Value,
};
use onnxc_proto::{Bytes, GraphProto, ValueInfoProto};
use std::{
    collections::{BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
};

/// A test folder.
pub struct Folder {
    /// The path of the folder.
    pub path: PathBuf,
    /// The allowed error of a result.
    pub tolerance: Tolerance,
    /// The settings in the folder.
    own: Result<Settings, Diagnostics>,
}

/// Inputs, and the expected outputs.
pub struct DataSet {
    /// The inputs, in the plan's order. An omitted one is an absent optional.
    pub inputs: Vec<Value>,
    /// The outputs, in the plan's order.
    pub outputs: Vec<Value>,
}

/// Returns the tolerance of a data set: that in `data.json` of its folder, or of the folder around
/// it.
pub fn tolerance(set: &Path) -> Result<Tolerance, Diagnostics> {
    let around = set.parent().map(Settings::of).transpose()?.unwrap_or_default();
    Ok(Settings::of(set)?.tolerance.or(around.tolerance))
}

/// Finds the test folders at and below `path`, sorted. Each has this tolerance, and its own one for
/// the parts that are not set.
pub fn find(path: &Path, tolerance: Tolerance) -> Vec<Folder> {
    find_new(path, tolerance, &mut HashSet::new())
}

/// Finds the test folders at and below `path`, except in folders that were `seen`: links may lead
/// to one folder more than once.
fn find_new(path: &Path, tolerance: Tolerance, seen: &mut HashSet<PathBuf>) -> Vec<Folder> {
    if fs::canonicalize(path).is_ok_and(|path| !seen.insert(path)) {
        return Vec::new();
    }
    if path.join("model.onnx").is_file() {
        let own = Settings::of(path);
        let tolerance = own.as_ref().map_or(tolerance, |own| tolerance.or(own.tolerance));
        return vec![Folder { path: path.to_owned(), tolerance, own }];
    }
    let mut inside: Vec<PathBuf> = fs::read_dir(path)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    inside.retain(|path| path.is_dir());
    inside.sort();
    inside.iter().flat_map(|path| find_new(path, tolerance, seen)).collect()
}

/// The inputs of the first data set, if the model is in a test folder.
pub fn first_inputs(model: &Path, plan: &Plan) -> Result<Option<Vec<Value>>, Diagnostics> {
    let set = model.parent().unwrap_or(Path::new("")).join("test_data_set_0");
    if model.file_name() != Some("model.onnx".as_ref()) || !set.is_dir() {
        return Ok(None);
    }
    let graph = import::decode(files::bytes(model)?)?.graph.unwrap_or_default();
    all_inputs(&set, &graph, plan).map(Some)
}

impl Folder {
    /// The options for this folder: the shared ones, and the folder's own dimensions.
    pub fn options(&self, shared: &Options) -> Result<Options, Diagnostics> {
        let mut own = Options::default();
        let settings = self.own.as_ref().map_err(Clone::clone)?;
        settings.dims.iter().try_for_each(|dim| own.dim(dim))?;
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
                inputs: all_inputs(&path, &graph, plan)?,
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

/// Reads the inputs of a data set for a run.
///
/// # Errors
///
/// Returns an error if a file is missing, or if an input has another type than the plan takes.
fn all_inputs(path: &Path, graph: &GraphProto, plan: &Plan) -> Result<Vec<Value>, Diagnostics> {
    let found = values(path, "input", &graph.input, &plan.inputs)?;
    let given = plan.inputs.iter().zip(found).filter_map(|(port, value)| Some((port, value?)));
    let given: Inputs = given.map(|(port, value)| (port.name.clone(), value)).collect();
    let needed = plan.inputs.iter().filter(|port| port.default.is_none());
    let needed = needed.filter(|port| !matches!(port.ty, Type::Optional(_)));
    let open = needed.map(|port| &port.name).filter(|name| !given.contains_key(*name));
    let open: Vec<String> = open.map(|name| quoted(name)).collect();
    if !open.is_empty() {
        let message = format!("`input_{}.pb` is missing", count(path, "input")?);
        let note = format!("no file gives {}", open.join(", "));
        return Err(unusable(path, message).note(note).into());
    }
    in_order(plan, &given).map_err(|all| all.within(&path.display().to_string()))
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
    let count = count(path, kind)?;
    let most = infos.len().max(ports.len());
    if count > most {
        let plural = if most == 1 { "" } else { "s" };
        let message =
            format!("the model has {most} {kind}{plural}, but there is a file `{kind}_{most}.pb`");
        return Err(unusable(path, message).into());
    }
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
        let declared = infos.iter().find(|info| info.name() == name);
        // An output may have no declared type.
        let planned = || {
            let port = ports.iter().find(|port| port.name == name)?;
            import::value::type_message(&port.ty)
        };
        let ty = declared.and_then(|info| info.r#type.clone()).or_else(planned);
        found.push((name, files::read(&file(i), ty.as_ref())?));
    }
    let mut value = |port: &Port| {
        let at = found.iter().position(|(name, _)| *name == port.name)?;
        Some(found.remove(at).1)
    };
    Ok(ports.iter().map(&mut value).collect())
}

/// Returns the number of the files of a kind, which are numbered from 0.
fn count(path: &Path, kind: &str) -> Result<usize, Diagnostic> {
    let number = |name: &str| {
        let number = name.strip_prefix(kind)?.strip_prefix('_')?.strip_suffix(".pb")?;
        number.parse().ok().filter(|i: &usize| i.to_string() == number)
    };
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let numbers: BTreeSet<usize> = names.filter_map(|name| number(&name)).collect();
    let first = (0..).zip(&numbers).take_while(|(i, number)| i == *number).count();
    match numbers.last() {
        Some(last) if *last > first => {
            let message = format!("`{kind}_{first}.pb` is missing");
            Err(unusable(path, message).note(format!("there is a file `{kind}_{last}.pb`")))
        }
        _ => Ok(first),
    }
}

/// The error for a data set whose files do not fit the model.
fn unusable(path: &Path, message: String) -> Diagnostic {
    Diagnostic::new(Code::BadOption, message).within(path.display().to_string())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_in_a_circle_are_followed_once() {
        let root = std::env::temp_dir().join(format!("onnxc-circle-{}", std::process::id()));
        fs::create_dir_all(root.join("x")).expect("the temporary directory can be written");
        fs::write(root.join("x/model.onnx"), "").expect("the test made the directory");
        for link in ["a", "b", "y"] {
            let to = if link == "y" { "x" } else { "." };
            symlink(to, root.join(link)).expect("the test made the directory");
        }
        let found = find(&root, Tolerance::default());
        fs::remove_dir_all(&root).expect("the test made the directory");
        let found: Vec<&Path> = found.iter().map(|folder| &*folder.path).collect();
        assert_eq!(found, [root.join("x")]);
    }
}
