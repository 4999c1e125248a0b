//! Detaches training information from a model while its graph is optimized.

use super::names::{graphs, mentioned};
use crate::{
    check::GradientNames,
    diag::{Code, Diagnostic, DiagnosticSink, Diagnostics, quoted},
    domain::canonical,
    import::as_input,
    ir::Domain,
    ops,
};
use onnxc_proto::{
    FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    TrainingInfoProto, ValueInfoProto,
};
use std::collections::HashSet;

/// Training information detached from a model. Meanwhile, the values of the model's graph that it
/// reads are inputs or outputs, which passes preserve with their names.
pub struct Kept {
    infos: Vec<TrainingInfoProto>,
    /// The initializers that it refers to.
    tensors: Vec<TensorProto>,
    /// The inputs that replace the initializers.
    inputs: HashSet<String>,
    /// The outputs that only it reads.
    outputs: HashSet<String>,
    sets: Vec<OperatorSetIdProto>,
    functions: Vec<FunctionProto>,
}

impl Kept {
    /// Detaches the training information of a model.
    ///
    /// # Errors
    ///
    /// Returns an error for a `Gradient` by an intermediate value of the model's graph, because an
    /// optimized graph may not compute that value.
    pub fn taken(model: &mut ModelProto) -> Result<Kept, Diagnostics> {
        let infos = std::mem::take(&mut model.training_info);
        let graph = model.graph.get_or_insert_default();
        let made: HashSet<String> =
            graph.node.iter().flat_map(|node| &node.output).cloned().collect();
        cuts(&infos, &made)?;
        let named = named(&infos);
        let (tensors, rest) =
            graph.initializer.drain(..).partition(|tensor| named.contains(tensor.name()));
        graph.initializer = rest;
        let mut inputs: HashSet<String> =
            tensors.iter().map(|tensor: &TensorProto| tensor.name().to_owned()).collect();
        for input in &graph.input {
            inputs.remove(input.name());
        }
        let added = tensors.iter().filter(|tensor| inputs.contains(tensor.name()));
        graph.input.extend(added.map(as_input));
        let given: HashSet<&str> = graph.output.iter().map(ValueInfoProto::name).collect();
        let outputs: HashSet<String> =
            named.into_iter().filter(|n| made.contains(n) && !given.contains(n.as_str())).collect();
        let mut sorted: Vec<String> = outputs.iter().cloned().collect();
        sorted.sort();
        let output = |name| ValueInfoProto { name: Some(name), ..ValueInfoProto::default() };
        graph.output.extend(sorted.into_iter().map(output));
        let (sets, functions) = (model.opset_import.clone(), model.functions.clone());
        Ok(Kept { infos, tensors, inputs, outputs, sets, functions })
    }

    /// Attaches the training information again.
    ///
    /// # Errors
    ///
    /// Returns an error for nodes whose meaning would change, because the model imports newer
    /// versions of operator sets.
    pub fn put_back(self, model: &mut ModelProto) -> Result<(), Diagnostics> {
        let graph = model.graph.get_or_insert_default();
        graph.input.retain(|input| !self.inputs.contains(input.name()));
        graph.output.retain(|output| !self.outputs.contains(output.name()));
        graph.initializer.extend(self.tensors);
        let diagnostics = DiagnosticSink::default();
        for before in &self.sets {
            let same = |set: &&OperatorSetIdProto| is_main(set.domain(), before.domain());
            let Some(now) = model.opset_import.iter().find(same) else {
                model.opset_import.push(before.clone());
                continue;
            };
            for node in self.infos.iter().flat_map(all_nodes) {
                if is_main(node.domain(), before.domain()) {
                    diagnostics.keep(same_operator(node, before.version(), now.version()));
                }
            }
        }
        let calls = |node: &&NodeProto| {
            self.functions.iter().any(|f| f.name() == node.op_type() && f.domain() == node.domain())
        };
        if self.infos.iter().flat_map(all_nodes).any(|node| calls(&node)) {
            model.functions = self.functions;
        }
        model.training_info = self.infos;
        diagnostics.finish()
    }
}

/// Returns whether two names denote the same operator set.
fn is_main(a: &str, b: &str) -> bool {
    canonical(a) == canonical(b)
}

/// Rejects a node whose operator changed between two versions.
fn same_operator(node: &NodeProto, before: i64, now: i64) -> Result<(), Diagnostic> {
    let Some(domain) = Domain::from_name(node.domain()) else { return Ok(()) };
    let since = |version| ops::find(domain, node.op_type(), version).map_or(0, |entry| entry.since);
    if since(before) == since(now) {
        return Ok(());
    }
    let op = node.op_type();
    let message = format!(
        "the model would come to import version {now} of its operators, where `{op}` differs from \
         version {before}, which training means"
    );
    let place = format!("node {}", quoted(node.output.first().map_or("", String::as_str)));
    Err(Diagnostic::new(Code::Unsupported, message)
        .within(place)
        .within("`training_info`")
        .help(format!("convert the model to version {now}, or optimize it before `train-prep`")))
}

/// Rejects gradients by values that nodes of the model compute.
fn cuts(infos: &[TrainingInfoProto], made: &HashSet<String>) -> Result<(), Diagnostics> {
    let diagnostics = DiagnosticSink::default();
    for names in infos.iter().flat_map(all_nodes).filter_map(GradientNames::of) {
        for x in names.xs.iter().chain(&names.zs).filter(|x| made.contains(**x)) {
            let message =
                format!("a `Gradient` holds {} fixed, which a node of the model makes", quoted(x));
            let diagnostic = Diagnostic::new(Code::Unsupported, message).within("`training_info`");
            let note = "a simpler graph may compute the same without that value";
            diagnostics.push(diagnostic.note(note));
        }
    }
    diagnostics.finish()
}

/// Returns the names that training information reads or assigns to.
fn named(infos: &[TrainingInfoProto]) -> HashSet<String> {
    let mut names = Vec::new();
    for info in infos {
        for node in info.algorithm.iter().flat_map(|graph| &graph.node) {
            mentioned(node, &mut names);
        }
        let outputs = info.algorithm.iter().flat_map(|graph| &graph.output);
        names.extend(outputs.map(|output| output.name().to_owned()));
        for binding in info.initialization_binding.iter().chain(&info.update_binding) {
            names.extend([binding.key().to_owned(), binding.value().to_owned()]);
        }
    }
    names.into_iter().collect()
}

/// Returns the nodes of both graphs, and of their subgraphs.
fn all_nodes(info: &TrainingInfoProto) -> Vec<&NodeProto> {
    let mut nodes = Vec::new();
    let mut open: Vec<&GraphProto> = info.algorithm.iter().chain(&info.initialization).collect();
    while let Some(graph) = open.pop() {
        nodes.extend(&graph.node);
        open.extend(graph.node.iter().flat_map(graphs));
    }
    nodes
}
