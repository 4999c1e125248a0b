//! The reference of a comparison: where the expected values come from.

use super::{
    archive,
    given::Model,
    onnxruntime,
    values::{BEFORE_FUSION, Traced, Values},
};
use crate::cli::{
    files,
    inputs::{self, Inputs},
    message, npz,
    options::{Shared, input},
    test::folder,
    tolerance::Tolerance,
};
use onnxc::{
    Optimize, Options, Precision,
    diag::{Code, Diagnostic, Diagnostics, quoted},
    file, ident, import,
    value::Value,
};
use onnxc_proto::{Bytes, ModelProto};
use std::{
    collections::HashSet,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

/// The word for ONNX Runtime.
const ONNX_RUNTIME: &str = "onnxruntime";

/// The forms of a reference.
const FORMS: &str = "a reference is a model, an `.npz` file, a folder with `output_0.pb`, \
    `onnxruntime`, or an option such as `optimize=size`";

/// The options of this program with which a model is compared with itself.
const OPTIONS: &[&str] = &["optimize", "precision"];

/// The options about the two sides of a comparison.
#[derive(clap::Args)]
#[group(skip)]
pub struct Sides {
    /// The reference: another model; an `.npz` file of inputs and other values by their names; a
    /// folder with `input_0.pb` and `output_0.pb`; `onnxruntime`; or this model with another
    /// option, such as `optimize=size`
    #[arg(long, value_name = "REFERENCE")]
    with: Option<String>,
    /// The Python interpreter that has ONNX Runtime
    #[arg(long, value_name = "PATH", default_value = "python3")]
    python: PathBuf,
    /// The file of an input: `.npy`, or `.pb`
    #[arg(long, value_name = "NAME=FILE", value_parser = input)]
    input: Vec<String>,
    #[command(flatten)]
    tolerance: Tolerance,
    #[command(flatten)]
    shared: Shared,
}

/// Where the expected values come from.
pub enum Reference {
    /// The model before fusion, in full precision.
    BeforeFusion,
    /// The model with another value of an option.
    Option(String, String),
    /// Another model.
    Model(PathBuf),
    /// An archive of NumPy, and the values in it.
    Archive(PathBuf, Values),
    /// A data set in ONNX's layout, which has the outputs only.
    DataSet(PathBuf),
    /// ONNX Runtime.
    OnnxRuntime,
}

/// A compiled model and its inputs.
pub struct Case<'c> {
    /// The path of the model.
    pub path: &'c Path,
    /// The bytes of the model.
    pub bytes: Bytes,
    /// The options of the compilation.
    pub settings: Options,
    /// The compiled model.
    pub compiled: Traced,
    /// The inputs, in the order of the compiled model.
    pub given: Vec<Value>,
    /// The values of an archive that the compiled model does not keep.
    pub merged: Vec<String>,
}

impl Sides {
    /// Returns the files that a comparison of `model` reads.
    pub fn files(&self, model: &Path) -> impl Iterator<Item = PathBuf> {
        [model.to_owned()].into_iter().chain(self.with.as_deref().map(PathBuf::from))
    }

    /// Returns the options of the compilation.
    pub fn settings(&self, model: &Path) -> Result<Options, Diagnostics> {
        Ok(self.shared.options()?.beside(model))
    }

    /// Returns the tolerance: the parts that are set, or those of a data set.
    pub fn tolerance(&self, reference: &Reference) -> Result<Tolerance, Diagnostics> {
        Ok(match reference {
            Reference::DataSet(folder) => self.tolerance.or(folder::tolerance(folder)?),
            Reference::BeforeFusion
            | Reference::Option(..)
            | Reference::Model(_)
            | Reference::Archive(..)
            | Reference::OnnxRuntime => self.tolerance,
        })
    }

    /// Returns the reference.
    pub fn reference(&self) -> Result<Reference, Diagnostic> {
        let Some(with) = &self.with else { return Ok(Reference::BeforeFusion) };
        let path = PathBuf::from(with);
        if path.is_dir() {
            let first = path.join("test_data_set_0");
            return Ok(Reference::DataSet(if first.is_dir() { first } else { path }));
        }
        if path.exists() {
            let is_archive = path.extension().is_some_and(|end| end == "npz");
            if !is_archive {
                return Ok(Reference::Model(path));
            }
            let values = npz::open(&path)?;
            return Ok(Reference::Archive(path, values));
        }
        if with == ONNX_RUNTIME {
            return Ok(Reference::OnnxRuntime);
        }
        if let Some((name, value)) = with.split_once('=')
            && let Some(near) = ident::nearest(name, OPTIONS.iter().copied())
        {
            let within = |error: Diagnostic| error.within(format!("--with {with}"));
            if name != near {
                let message = format!("there is no option {} to compare with", quoted(name));
                let error = Diagnostic::new(Code::BadOption, message).note(FORMS);
                let help = format!("did you mean {}?", quoted(&format!("{near}={value}")));
                return Err(within(error.help(help)));
            }
            Options::default().set(name, value).map_err(within)?;
            return Ok(Reference::Option(name.to_owned(), value.to_owned()));
        }
        let missing = file::unreadable(&path)(io::Error::from(ErrorKind::NotFound));
        Err(match missing.help {
            Some(_) => missing,
            None => message::suggest(missing.note(FORMS), with, [ONNX_RUNTIME]),
        })
    }

    /// Compiles a model, and chooses its inputs. Warns of arrays that no value of the model has the
    /// name of.
    pub fn case<'c>(&self, path: &'c Path, reference: &Reference) -> Result<Case<'c>, Diagnostics> {
        if let Reference::DataSet(folder) = reference
            && !folder.join("output_0.pb").is_file()
        {
            return Err(no_outputs(folder).into());
        }
        let settings = self.settings(path)?;
        let bytes = files::bytes(path)?;
        let place = path.display().to_string();
        let compiled =
            Traced::of(bytes.clone(), &settings, None).map_err(|all| all.within(&place))?;
        let graph = import::decode(bytes.clone())?.graph.unwrap_or_default();
        let model = Model { path, graph: &graph, compiled: &compiled, files: &self.input };
        let given = match reference {
            Reference::BeforeFusion
            | Reference::Option(..)
            | Reference::Model(_)
            | Reference::OnnxRuntime => model.inputs()?,
            Reference::Archive(place, values) => model.inputs_of_archive(place, values)?,
            Reference::DataSet(folder) => model.inputs_of_data_set(folder)?,
        };
        let mut merged = Vec::new();
        if let Reference::Archive(place, values) = reference {
            if let Some(warning) = archive::warning(place, values, &graph, &compiled) {
                message::print(&warning.into());
            }
            merged = archive::merged(values, &graph, &compiled);
        }
        Ok(Case { path, bytes, settings, compiled, given, merged })
    }

    /// Returns the expected values of a case.
    pub fn values(&self, reference: &Reference, case: &Case<'_>) -> Result<Values, Diagnostics> {
        match reference {
            Reference::BeforeFusion => case.before_fusion(),
            Reference::Option(name, value) => {
                let mut settings = case.settings.clone();
                settings.set(name, value)?;
                case.run(&Traced::of(case.bytes.clone(), &settings, None)?, case.path)
            }
            Reference::Model(path) => {
                let settings = unfused(&case.settings).beside(path);
                let place = path.display().to_string();
                let traced = Traced::of(files::bytes(path)?, &settings, None);
                case.run(&traced.map_err(|all| all.within(&place))?, path)
            }
            Reference::Archive(_, values) => Ok(values.clone()),
            Reference::DataSet(folder) => case.expected(folder),
            Reference::OnnxRuntime => case.onnxruntime(&self.python),
        }
    }
}

impl Case<'_> {
    /// Returns the values of the model before fusion.
    pub fn before_fusion(&self) -> Result<Values, Diagnostics> {
        let settings = unfused(&self.settings);
        let traced = Traced::of(self.bytes.clone(), &settings, Some(BEFORE_FUSION))?;
        self.run(&traced, self.path)
    }

    /// Returns the inputs by name.
    pub fn inputs(&self) -> Inputs {
        let names = self.compiled.plan().inputs.iter().map(|port| port.name.clone());
        names.zip(self.given.iter().cloned()).collect()
    }

    /// Runs another model on the inputs of this one, matched by name.
    fn run(&self, other: &Traced, path: &Path) -> Result<Values, Diagnostics> {
        let wanted: HashSet<&str> =
            other.plan().inputs.iter().map(|port| port.name.as_str()).collect();
        let inputs: Inputs =
            self.inputs().into_iter().filter(|(name, _)| wanted.contains(name.as_str())).collect();
        let place = path.display().to_string();
        let ordered = inputs::in_order(other.plan(), &inputs).map_err(|all| all.within(&place))?;
        other.run(&ordered)
    }

    /// Reads the outputs of a data set.
    fn expected(&self, folder: &Path) -> Result<Values, Diagnostics> {
        let graph = import::decode(self.bytes.clone())?.graph.unwrap_or_default();
        let outputs = folder::outputs(folder, &graph, self.compiled.plan())?;
        let tensor = |(name, value): (String, Value)| Some((name, value.into_tensor()?));
        Ok(outputs.into_iter().filter_map(tensor).collect())
    }

    /// Runs the model with ONNX Runtime.
    fn onnxruntime(&self, python: &Path) -> Result<Values, Diagnostics> {
        let mut model = import::decode(self.bytes.clone())?;
        import::gather(&mut model, self.settings.settings.directory.clone())?;
        let inputs = self.inputs();
        all_given(&model, &inputs)?;
        let names: HashSet<&str> =
            self.compiled.names().iter().map(|traced| traced.value.as_str()).collect();
        onnxruntime::run(python, model, &inputs, |name| names.contains(name))
    }
}

/// The error for a folder that is no reference.
fn no_outputs(folder: &Path) -> Diagnostic {
    Diagnostic::new(Code::BadOption, "the folder has no `output_0.pb` to compare with")
        .help("name a folder such as `test_data_set_0`, or the folder around it")
        .within(folder.display().to_string())
}

/// Returns an error for an input of the model that the compiled model lacks, because an option
/// fixes it.
fn all_given(model: &ModelProto, inputs: &Inputs) -> Result<(), Diagnostic> {
    let Some(graph) = &model.graph else { return Ok(()) };
    let constants: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name()).collect();
    let missing = graph.input.iter().map(|input| input.name());
    let mut missing =
        missing.filter(|name| !constants.contains(name) && !inputs.contains_key(*name));
    let Some(name) = missing.next() else { return Ok(()) };
    let message = format!(
        "ONNX Runtime needs the input {}, which an option makes a constant or a state",
        quoted(name)
    );
    Err(Diagnostic::new(Code::BadOption, message)
        .help("omit the option, and set the input with `--input NAME=FILE`"))
}

/// Returns options for simple kernels and full precision.
pub fn unfused(settings: &Options) -> Options {
    let mut settings = settings.clone();
    (settings.optimize, settings.precision) = (Optimize::Size, Precision::Full);
    settings
}
