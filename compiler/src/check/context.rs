//! Where the checker is, and what it has found.

use crate::diag::{Code, Diagnostic, quoted};
use onnxc_proto::{
    AttributeProto, FunctionProto, GraphProto, NodeProto, SparseTensorProto, TensorProto,
    ValueInfoProto,
};
use std::collections::HashSet;

/// As many diagnostics are kept; nobody reads more, and a hostile model could cause millions.
const MOST: usize = 200;

/// The outcome of checking a model.
#[derive(Debug, Default)]
pub struct Checked {
    /// What was found, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
    faulty: HashSet<usize>,
}

/// What is checked just now.
#[derive(Default)]
pub(super) struct Context<'p> {
    places: Vec<Place<'p>>,
    diagnostics: Vec<Diagnostic>,
    left_out: usize,
    faulty: HashSet<usize>,
}

/// A part of a model that has others inside.
#[derive(Clone, Copy)]
pub(super) enum Place<'p> {
    /// A graph.
    Graph(&'p GraphProto),
    /// A function.
    Function(&'p FunctionProto),
    /// A node, and its number in its graph.
    Node(&'p NodeProto, usize),
    /// An attribute of a node.
    Attribute(&'p AttributeProto),
    /// A constant of a graph.
    Initializer(&'p TensorProto),
    /// Likewise.
    SparseInitializer(&'p SparseTensorProto),
    /// What is declared of a value, and as what.
    Value(&'static str, &'p ValueInfoProto),
    /// A field.
    Field(&'static str),
    /// One of a list, with its number.
    Item(&'static str, usize),
}

impl Checked {
    /// Whether something is wrong with this message of the model, so that it is to be passed over.
    pub fn is_faulty<M>(&self, message: &M) -> bool {
        self.faulty.contains(&address(message))
    }

    /// The first diagnostic, where there is one.
    pub fn into_first(self) -> Result<(), Diagnostic> {
        match self.diagnostics.into_iter().next() {
            None => Ok(()),
            Some(first) => Err(first),
        }
    }
}

impl<'p> Context<'p> {
    /// Checks what lies inside `place`.
    pub fn within<T>(&mut self, place: Place<'p>, check: impl FnOnce(&mut Self) -> T) -> T {
        self.places.push(place);
        let result = check(self);
        self.places.pop();
        result
    }

    /// Takes a diagnostic in; it is located where the checker is.
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

    /// Says what is wrong.
    pub fn fault(&mut self, code: Code, message: impl Into<String>) {
        self.report(Diagnostic::new(code, message));
    }

    /// Says what is wrong, and what to do.
    pub fn fault_with(&mut self, code: Code, message: impl Into<String>, help: &str) {
        self.report(Diagnostic::new(code, message).help(help));
    }

    /// Marks the innermost part that the builder of the graph can pass over. It need not be said
    /// that it is at fault: what it depends on was.
    pub fn mark(&mut self) {
        let markable = self.places.iter().rev().find_map(|place| place.address());
        self.faulty.extend(markable);
    }

    /// Whether diagnostics are still kept; who would search for long need not search otherwise.
    pub fn has_room(&self) -> bool {
        self.diagnostics.len() < MOST
    }

    /// The number of diagnostics so far.
    pub fn count(&self) -> usize {
        self.diagnostics.len() + self.left_out
    }

    /// The function around the place, where there is one.
    pub fn in_function(&self) -> Option<&'p FunctionProto> {
        self.places.iter().find_map(|place| match place {
            Place::Function(function) => Some(*function),
            _ => None,
        })
    }

    /// What was found.
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

    /// The message, where the builder of the graph can do without it.
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

/// Where a node is, for people.
pub fn node_place(node: &NodeProto, i: usize) -> String {
    format!("{}, number {i}", node_name(node))
}

/// What a node is called, for people: by its own name, or by that of its first output.
pub fn node_name(node: &NodeProto) -> String {
    let named = [node.name(), node.output.first().map_or("", String::as_str)];
    let name = named.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    format!("node {} ({})", quoted(name), node.op_type())
}

/// Names a message of a model. The model is not changed while it is checked and built, so a
/// message stays where it is.
fn address<M>(message: &M) -> usize {
    std::ptr::from_ref(message).addr()
}
