//! The inputs on which both sides of a comparison run.

use super::{
    archive,
    values::{Traced, Values},
};
use crate::cli::{
    bench::inputs as generated,
    inputs::{self, Inputs},
    test::folder,
};
use onnxc::{
    diag::{Code, Diagnostic, Diagnostics, quoted},
    ty::Type,
    value::Value,
};
use onnxc_proto::GraphProto;
use std::path::Path;

/// A compiled model, and the files of inputs on the command line, which take precedence.
pub struct Model<'m> {
    pub path: &'m Path,
    /// The graph before it was compiled.
    pub graph: &'m GraphProto,
    pub compiled: &'m Traced,
    /// `NAME=FILE` arguments.
    pub files: &'m [String],
}

impl Model<'_> {
    /// Returns the inputs for a reference that runs: those of the first data set beside the model,
    /// or random ones.
    ///
    /// # Errors
    ///
    /// Returns an error if an input has another type, or if only some are given.
    pub fn inputs(&self) -> Result<Vec<Value>, Diagnostics> {
        generated::of(self.path, self.files, self.compiled.plan())
    }

    /// Returns the inputs in an archive, which has the expected values, or those of the first data
    /// set beside the model if it has none.
    ///
    /// # Errors
    ///
    /// Returns an error if an input has another type or is not known.
    pub fn inputs_of_archive(
        &self,
        place: &Path,
        values: &Values,
    ) -> Result<Vec<Value>, Diagnostics> {
        let known = archive::inputs(values, self.compiled.plan());
        if known.is_empty()
            && self.files.is_empty()
            && let Some(beside) = folder::first_inputs(self.path, self.compiled.plan())?
        {
            return Ok(beside);
        }
        self.fixed(known, |missing| {
            let error = not_given(missing, place, "add arrays of these names to the archive");
            let similar = archive::similar(values, self.graph, self.compiled, missing);
            similar.into_iter().fold(error, Diagnostic::note)
        })
    }

    /// Returns the inputs in the folder of a data set.
    ///
    /// # Errors
    ///
    /// Returns an error if an input has another type or is not known.
    pub fn inputs_of_data_set(&self, place: &Path) -> Result<Vec<Value>, Diagnostics> {
        let plan = self.compiled.plan();
        let named = plan.inputs.iter().map(|port| port.name.clone());
        let named = named.zip(folder::inputs(place, self.graph, plan)?);
        let known = named.filter(|(_, value)| *value != Value::Optional(None)).collect();
        let add = "add them to the folder as `input_0.pb` and so on";
        self.fixed(known, |missing| not_given(missing, place, add))
    }

    /// Returns the known inputs, with those of the files in their place.
    fn fixed(
        &self,
        known: Inputs,
        not_given: impl FnOnce(&[&str]) -> Diagnostic,
    ) -> Result<Vec<Value>, Diagnostics> {
        let plan = self.compiled.plan();
        let mut runs = inputs::runs(inputs::read(self.files, Some(self.graph))?)?;
        let given: Inputs = known.into_iter().chain(runs.swap_remove(0)).collect();
        let needed = plan.inputs.iter().filter(|port| port.default.is_none());
        let needed = needed.filter(|port| !matches!(port.ty, Type::Optional(_)));
        let missing = needed.map(|port| &*port.name).filter(|name| !given.contains_key(*name));
        let missing: Vec<&str> = missing.collect();
        if !missing.is_empty() {
            return Err(not_given(&missing).into());
        }
        inputs::in_order(plan, &given)
    }
}

/// The error for fixed values whose inputs are not known. `add` says how the reference gives them.
fn not_given(missing: &[&str], place: &Path, add: &str) -> Diagnostic {
    let names: Vec<String> = missing.iter().map(|name| quoted(name)).collect();
    let options: Vec<String> = missing.iter().map(|name| format!("--input {name}=FILE")).collect();
    let message = format!("the reference lacks the inputs of its values: {}", names.join(", "));
    Diagnostic::new(Code::BadOption, message)
        .note("fixed values cannot be compared with those of random inputs")
        .help(format!("{add}, or set `{}`", options.join(" ")))
        .within(place.display().to_string())
}
