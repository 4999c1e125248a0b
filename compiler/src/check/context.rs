//! The location of the checker, and the diagnostics that it collects.

use crate::diag::{Code, Diagnostic, quoted};
use onnxc_proto::{
    AttributeProto, FunctionProto, GraphProto, NodeProto, SparseTensorProto, TensorProto,
    ValueInfoProto,
};
use std::collections::HashSet;

/// The most diagnostics that are kept; a hostile model could cause millions.
const MOST: usize = 200;

/// The outcome of checking a model.
#[derive(Debug, Default)]
pub struct Checked {
    /// The diagnostics, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
    faulty: HashSet<usize>,
}

/// The state of the checker.
#[derive(Default)]
pub(super) struct Context<'p> {
    places: Vec<Place<'p>>,
    diagnostics: Vec<Diagnostic>,
    left_out: usize,
    faulty: HashSet<usize>,
}

/// A part of a model that contains others.
#[derive(Clone, Copy)]
pub(super) enum Place<'p> {
    /// A graph.
    Graph(&'p GraphProto),
    /// A function.
    Function(&'p FunctionProto),
    /// A node and its index in its graph.
    Node(&'p NodeProto, usize),
    /// An attribute of a node.
    Attribute(&'p AttributeProto),
    /// An initializer of a graph.
    Initializer(&'p TensorProto),
    /// A sparse initializer of a graph.
    SparseInitializer(&'p SparseTensorProto),
    /// A declared value, and its role.
    Value(&'static str, &'p ValueInfoProto),
    /// A field.
    Field(&'static str),
    /// An item of a list, with its index.
    Item(&'static str, usize),
}

impl Checked {
    /// Returns whether a message of the model has an error, so that import skips it.
    pub fn is_faulty<M>(&self, message: &M) -> bool {
        self.faulty.contains(&address(message))
    }

    /// Returns the first diagnostic as an error.
    ///
    /// # Errors
    ///
    /// Returns the first diagnostic, if there is one.
    pub fn into_first(self) -> Result<(), Diagnostic> {
        match self.diagnostics.into_iter().next() {
            None => Ok(()),
            Some(first) => Err(first),
        }
    }
}

impl<'p> Context<'p> {
    /// Runs a check inside of `place`.
    pub fn within<T>(&mut self, place: Place<'p>, check: impl FnOnce(&mut Self) -> T) -> T {
        self.places.push(place);
        let result = check(self);
        self.places.pop();
        result
    }

    /// Adds a diagnostic, located at the current place.
    pub fn report(&mut self, diagnostic: Diagnostic) {
        self.mark();
        if self.diagnostics.len() == MOST {
            self.left_out += 1;
            return;
        }
        let located = self.places.iter().rev();
        self.diagnostics
            .push(located.fold(diagnostic, |diagnostic, place| diagnostic.within(place.text())));
    }

    /// Adds an error.
    pub fn fault(&mut self, code: Code, message: impl Into<String>) {
        self.report(Diagnostic::new(code, message));
    }

    /// Adds an error with help.
    pub fn fault_with(&mut self, code: Code, message: impl Into<String>, help: &str) {
        self.report(Diagnostic::new(code, message).help(help));
    }

    /// Marks the innermost part that import can skip, without an error of its own: the error that
    /// it depends on is reported already.
    pub fn mark(&mut self) {
        let markable = self.places.iter().rev().find_map(|place| place.address());
        self.faulty.extend(markable);
    }

    /// Returns whether more diagnostics are kept; expensive searches for details are skipped
    /// otherwise.
    pub fn keeps_more(&self) -> bool {
        self.diagnostics.len() < MOST
    }

    /// Returns the number of diagnostics so far.
    pub fn count(&self) -> usize {
        self.diagnostics.len() + self.left_out
    }

    /// Returns the function around the place, if there is one.
    pub fn in_function(&self) -> Option<&'p FunctionProto> {
        self.places.iter().find_map(|place| match place {
            Place::Function(function) => Some(*function),
            _ => None,
        })
    }

    /// Returns the result.
    pub fn finish(mut self) -> Checked {
        if let (Some(last), more @ 1..) = (self.diagnostics.last_mut(), self.left_out) {
            last.notes.push(format!("{more} more diagnostics are left out"));
        }
        Checked { diagnostics: self.diagnostics, faulty: self.faulty }
    }
}

impl Place<'_> {
    fn text(self) -> String {
        match self {
            Place::Graph(graph) => format!("graph {}", quoted(graph.name())),
            Place::Function(function) => {
                let name = [function.domain(), function.name()].join(".");
                format!("function {}", quoted(name.trim_start_matches('.')))
            }
            Place::Node(node, i) => node_place(node, i),
            Place::Attribute(attribute) => format!("attribute {}", quoted(attribute.name())),
            Place::Initializer(tensor) => format!("initializer {}", quoted(tensor.name())),
            Place::SparseInitializer(tensor) => {
                let name = tensor.values.as_ref().map_or("", |values| values.name());
                format!("sparse initializer {}", quoted(name))
            }
            Place::Value(what, value) => format!("{what} {}", quoted(value.name())),
            Place::Field(name) => format!("`{name}`"),
            Place::Item(what, i) => format!("{what} {i}"),
        }
    }

    /// Returns the identity of the message, if import can skip it.
    fn address(self) -> Option<usize> {
        match self {
            Place::Node(node, _) => Some(address(node)),
            Place::Initializer(tensor) => Some(address(tensor)),
            Place::SparseInitializer(tensor) => Some(address(tensor)),
            Place::Value(_, value) => Some(address(value)),
            Place::Function(function) => Some(address(function)),
            Place::Graph(_) | Place::Attribute(_) | Place::Field(_) | Place::Item(..) => None,
        }
    }
}

/// Returns the location of a node, for messages.
pub fn node_place(node: &NodeProto, i: usize) -> String {
    format!("{}, number {i}", node_name(node))
}

/// Returns the name of a node for messages: its own, or that of its first output.
pub fn node_name(node: &NodeProto) -> String {
    let named = [node.name(), node.output.first().map_or("", String::as_str)];
    let name = named.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    format!("node {} ({})", quoted(name), node.op_type())
}

/// Returns the identity of a message. The model does not change while it is checked and imported,
/// so its address is unique.
fn address<M>(message: &M) -> usize {
    std::ptr::from_ref(message).addr()
}
