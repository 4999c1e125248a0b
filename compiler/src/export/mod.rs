//! Converts a graph back to a model of ONNX's own operators.
//!
//! Operators are written in their newest form. The model imports the oldest operator set that has
//! all of these forms, but none older than that of the original model. Names are kept where they
//! are unique; functions stay inlined. Operators that only passes create have no form in ONNX and
//! are errors.

mod external;
mod file;
mod graph;
mod names;
mod verify;
mod version;

pub use external::{LARGEST_FILE, Weights, move_out};
pub use file::write;
pub use verify::verify;

use crate::{
    diag::{DiagnosticSink, Diagnostics},
    ir::Graph,
};
use graph::{Writer, entries};
use onnxc_proto::{GraphProto, ModelProto, OperatorSetIdProto};

/// Converts a graph to a model.
///
/// # Errors
///
/// Returns an error for each node that has no operator in ONNX.
pub fn model(graph: &Graph) -> Result<ModelProto, Diagnostics> {
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
    Ok(ModelProto {
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
    })
}

/// Removes the types of intermediate values, which can be inferred, in subgraphs as well.
pub fn without_types(graph: &mut GraphProto) {
    graph.value_info.clear();
    for attribute in graph.node.iter_mut().flat_map(|node| &mut node.attribute) {
        let graphs = attribute.g.as_deref_mut().into_iter().chain(&mut attribute.graphs);
        graphs.for_each(without_types);
    }
}

#[cfg(test)]
mod tests;
