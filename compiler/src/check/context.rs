//! The location of the checker, and the diagnostics that it collects.

use super::node_location::{node_place, show_node};
use crate::diag::{Code, Diagnostic, Severity, quoted};
use onnxc_proto::{
    AttributeProto, FunctionProto, GraphProto, NodeProto, SparseTensorProto, TensorProto,
    ValueInfoProto,
};
use std::collections::HashSet;

/// The most errors, and the most warnings, that are kept; a hostile model could cause millions.
const MOST: usize = 200;

/// The outcome of checking a model.
#[derive(Debug, Default)]
pub struct Checked {
    /// The errors and warnings, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
    faulty: HashSet<usize>,
    is_unsorted: bool,
}

/// The state of the checker.
#[derive(Default)]
pub(super) struct Context<'p> {
    places: Vec<Place<'p>>,
    diagnostics: Vec<Diagnostic>,
    errors: Counts,
    warnings: Counts,
    faulty: HashSet<usize>,
    /// The number of names that nodes read before a later node defines them.
    unsorted: usize,
}

/// The numbers of diagnostics of one severity.
#[derive(Default)]
struct Counts {
    kept: usize,
    left_out: usize,
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

    /// Returns whether the nodes of every graph and function are in topological order.
    pub fn is_sorted(&self) -> bool {
        !self.is_unsorted
    }

    /// Returns whether the model has an error.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Returns the first error.
    ///
    /// # Errors
    ///
    /// Returns the first error, if there is one.
    pub fn into_first(self) -> Result<(), Diagnostic> {
        match self.diagnostics.into_iter().find(Diagnostic::is_error) {
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

    /// Adds an error or a warning, located at the current place.
    pub fn report(&mut self, diagnostic: Diagnostic) {
        if diagnostic.is_error() {
            self.mark();
        }
        let counts = if diagnostic.is_error() { &mut self.errors } else { &mut self.warnings };
        if counts.kept == MOST {
            counts.left_out += 1;
            return;
        }
        counts.kept += 1;
        let located = self.places.iter().rev();
        self.diagnostics
            .push(located.fold(diagnostic, |diagnostic, place| place.locate(diagnostic)));
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

    /// Returns the number of diagnostics that are kept so far.
    pub fn reported(&self) -> usize {
        self.diagnostics.len()
    }

    /// Removes the warnings with a code after the first `kept` diagnostics.
    pub fn retract(&mut self, kept: usize, code: Code) {
        let mut i = 0;
        self.diagnostics.retain(|diagnostic| {
            i += 1;
            i <= kept || diagnostic.code != code
        });
    }

    /// Records that a node reads a name before a later node defines it.
    pub fn mark_unsorted(&mut self) {
        self.unsorted += 1;
    }

    /// Returns the number of names so far that nodes read before a later node defines them.
    pub fn unsorted(&self) -> usize {
        self.unsorted
    }

    /// Returns whether more errors are kept; expensive searches for details are skipped otherwise.
    pub fn keeps_more(&self) -> bool {
        self.errors.kept < MOST
    }

    /// Returns the number of errors so far.
    pub fn count(&self) -> usize {
        self.errors.kept + self.errors.left_out
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
        let counts = [(Severity::Error, self.errors), (Severity::Warning, self.warnings)];
        for (severity, Counts { left_out, .. }) in counts {
            let mut of = self.diagnostics.iter_mut().filter(|one| one.severity == severity);
            if let (Some(last), 1..) = (of.next_back(), left_out) {
                last.notes.push(format!("{left_out} more diagnostics are left out"));
            }
        }
        let Context { diagnostics, faulty, unsorted, .. } = self;
        Checked { diagnostics, faulty, is_unsorted: unsorted > 0 }
    }
}

impl Place<'_> {
    /// Adds the place to the location of a diagnostic.
    fn locate(self, diagnostic: Diagnostic) -> Diagnostic {
        let diagnostic = match self {
            Place::Node(node, _) => show_node(diagnostic, node),
            _ => diagnostic,
        };
        diagnostic.within(self.text())
    }

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

/// Returns the identity of a message. The model does not change while it is checked and imported,
/// so its address is unique.
fn address<M>(message: &M) -> usize {
    std::ptr::from_ref(message).addr()
}
