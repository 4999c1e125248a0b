//! The invariants of the graph, which hold after every pass:
//!
//! - every input of a node, and every output of a region, is a constant, or defined before in the
//!   same region or an outer one;
//! - a value is defined once, and its producer defines it, unless it is a constant;
//! - a constant has as many bytes as its type and shape say, and the type of its value;
//! - elements known as sizes are as many as the value's type says;
//! - a symbol that an operator names is a size of a value defined before, in the same region or
//!   an outer one;
//! - a node has as many inputs of each region, and each region as many outputs, as its operator
//!   infers types for (the types are inferred as the graph is built, so they hold by
//!   construction).

use super::{Graph, Node, NodeId, RegionId, ValueId};
use crate::{
    diag::{Code, Diagnostic, DiagnosticSink, Diagnostics, quoted},
    dim::Symbol,
    tensor::Data,
};
use std::{
    cell::RefCell,
    collections::{BTreeSet, HashSet},
};

/// Returns every violation of the invariants, each with its node.
///
/// # Errors
///
/// Returns the violations, if there are any.
pub fn verify(graph: &Graph) -> Result<(), Diagnostics> {
    let mut verifier = Verifier {
        graph,
        diagnostics: DiagnosticSink::default(),
        made: HashSet::new(),
        settled: BTreeSet::new(),
    };
    for (id, value) in graph.values() {
        verifier.value(id);
        if value.constant.is_some() {
            verifier.made.insert(id);
        }
    }
    verifier.region(graph.body);
    verifier.diagnostics.finish()
}

struct Verifier<'a> {
    graph: &'a Graph,
    diagnostics: DiagnosticSink,
    /// The values that are defined here.
    made: HashSet<ValueId>,
    /// The symbols that operators may use here.
    settled: BTreeSet<Symbol>,
}

impl Verifier<'_> {
    fn region(&mut self, id: RegionId) {
        let outside = (self.made.clone(), self.settled.clone());
        let region = &self.graph[id];
        self.made.extend(&region.inputs);
        region.inputs.iter().for_each(|&input| self.settles(input));
        for &node in &region.nodes {
            self.node(node);
        }
        for &output in &region.outputs {
            self.used(output, &format!("graph {}", quoted(&region.name)));
        }
        (self.made, self.settled) = outside;
    }

    fn node(&mut self, id: NodeId) {
        let node = &self.graph[id];
        for &input in node.inputs.iter().flatten() {
            self.used(input, &node.location());
        }
        self.named(node);
        for &region in &node.regions {
            self.region(region);
        }
        self.settled.extend(node.binds.iter().cloned());
        node.outputs.iter().flatten().for_each(|&output| self.settles(output));
        let made = node.outputs.iter().flatten().filter(|&&id| self.graph[id].constant.is_none());
        for &output in made {
            if self.graph[output].producer != Some(id) || !self.made.insert(output) {
                let name = quoted(&self.graph[output].name);
                self.broken(format!("{name} is not made by this node alone"), &node.location());
            }
        }
    }

    /// Adds the symbols of a value.
    fn settles(&mut self, id: ValueId) {
        self.graph[id].ty.symbols(&mut self.settled);
    }

    /// Checks that the symbols of an operator are defined.
    fn named(&self, node: &Node) {
        let named = RefCell::new(BTreeSet::new());
        node.op.with_sizes(&|dim| {
            dim.symbols(&mut named.borrow_mut());
            dim.clone()
        });
        for symbol in named.into_inner().difference(&self.settled) {
            self.broken(format!("nothing settles the size {symbol}"), &node.location());
        }
    }

    fn used(&self, id: ValueId, at: &str) {
        if !self.made.contains(&id) {
            let name = quoted(&self.graph[id].name);
            self.broken(format!("{name} is used before it is made"), at);
        }
    }

    fn value(&self, id: ValueId) {
        let value = &self.graph[id];
        let at = format!("value {}", quoted(&value.name));
        if let Some(tensor) = &value.constant {
            let bytes = tensor.len() * tensor.dtype.bytes();
            let fits = match &tensor.data {
                Data::Bytes(data) => data.len() == bytes,
                Data::Strings(strings) => strings.len() == tensor.len(),
            };
            if !fits || tensor.ty() != value.ty {
                self.broken("the constant does not fit its type".into(), &at);
            }
        }
        let len = value.ty.as_tensor().and_then(|ty| ty.len().known());
        if let (Some(known), Some(len)) = (&value.known, len)
            && known.len() as i64 != len
        {
            self.broken(format!("{} elements are known of {len}", known.len()), &at);
        }
    }

    fn broken(&self, message: String, at: &str) {
        self.diagnostics.push(Diagnostic::new(Code::Internal, message).within(at));
    }
}
