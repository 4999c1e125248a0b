//! Converts a graph back to a model of ONNX's own operators.
//!
//! Operators are written in their newest form. The model imports the oldest operator set that has
//! all of these forms, but none older than that of the original model. Names are kept where they
//! are unique; functions stay inlined. Operators that only passes create have no form in ONNX and
//! are errors.

mod annotations;
mod external;
mod file;
mod graph;
mod names;
mod verify;
mod version;

pub use annotations::exist as has_annotations;
pub use external::{LARGEST_FILE, Weights, move_out};
pub use file::write;
pub use verify::verify;

use crate::{
    diag::{DiagnosticSink, Diagnostics},
    ir::Graph,
};
use graph::{Writer, entries};
use onnxc_proto::{ModelProto, OperatorSetIdProto};
use std::{collections::BTreeSet, path::PathBuf};

/// The intermediate values of which a model has the types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types {
    /// All.
    All,
    /// Only values whose axes a declaration decides, or that have documentation or metadata.
    Needed,
}

/// Converts a graph to a model, with the types of all values.
///
/// # Errors
///
/// Returns an error for each node that has no operator in ONNX.
pub fn model(graph: &Graph) -> Result<ModelProto, Diagnostics> {
    Ok(Draft::of(graph)?.model)
}

/// A model that is about to be written, with the types of all values.
pub struct Draft {
    /// The model.
    pub model: ModelProto,
    /// The intermediate values whose types cannot be inferred.
    needed: BTreeSet<String>,
}

impl Draft {
    /// Converts a graph to a model.
    ///
    /// # Errors
    ///
    /// Returns an error for each node that has no operator in ONNX.
    pub fn of(graph: &Graph) -> Result<Draft, Diagnostics> {
        let diagnostics = DiagnosticSink::default();
        let mut writer = Writer::new(graph, diagnostics.clone());
        let body = writer.body();
        diagnostics.finish()?;
        let info = &graph.info;
        let sets = writer.needs.sets(info);
        let ir_version = info.ir_version.max(version::file_format(&sets));
        let set = |(domain, version): &(String, i64)| OperatorSetIdProto {
            domain: Some(domain.clone()),
            version: Some(*version),
        };
        let nonempty = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let model = ModelProto {
            ir_version: Some(ir_version),
            opset_import: sets.iter().map(set).collect(),
            producer_name: Some(env!("CARGO_PKG_NAME").to_owned()),
            producer_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            domain: nonempty(&info.domain),
            model_version: Some(info.version).filter(|&version| version != 0),
            doc_string: nonempty(&info.doc),
            metadata_props: entries(&info.metadata),
            graph: Some(body),
            ..ModelProto::default()
        };
        Ok(Draft { model, needed: writer.needed })
    }

    /// Copies what the model that was read, whose files are in `directory`, says about its values.
    pub fn annotate(&mut self, read: &ModelProto, directory: Option<PathBuf>) {
        annotations::keep(read, directory, &mut self.model);
    }

    /// Copies the types that the model that was read, whose files are in `directory`, declares for
    /// values whose types only a run tells.
    pub fn declare(&mut self, read: &ModelProto, directory: Option<PathBuf>) {
        annotations::declare(read, directory, &mut self.model);
    }

    /// Returns the model with these types of intermediate values.
    pub fn with(mut self, types: Types) -> ModelProto {
        if let (Types::Needed, Some(graph)) = (types, &mut self.model.graph) {
            annotations::without_types(graph, &self.needed);
        }
        self.model
    }
}

#[cfg(test)]
mod tests;
