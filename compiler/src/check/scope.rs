//! The names that a graph sees.

use onnxc_proto::NodeProto;
use std::collections::HashMap;

/// The names that one graph defines, inside those around it.
pub(super) struct Scope<'s, 'p> {
    pub kind: Kind,
    pub names: HashMap<&'p str, Definition>,
    /// The nodes of the graph, for those that are used too early.
    nodes: &'p [NodeProto],
    pub outer: Option<&'s Scope<'s, 'p>>,
}

/// What a graph is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of a model.
    Main,
    /// Of a node's attribute.
    Nested,
    /// Of a function; no graph, but its nodes.
    Function,
    /// Of a training algorithm, whose outer scope is that of the model's graph.
    Algorithm,
    /// The first values of training.
    Initialization,
}

/// How a name comes to mean something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Definition {
    /// As an input or an initializer.
    Given,
    /// As the output of the node of that number.
    Node(usize),
    /// Not at all, which is a diagnostic already.
    Missing,
}

impl<'s, 'p> Scope<'s, 'p> {
    /// No name is defined.
    pub fn new(
        kind: Kind,
        nodes: &'p [NodeProto],
        outer: Option<&'s Scope<'s, 'p>>,
    ) -> Scope<'s, 'p> {
        Scope { kind, names: HashMap::new(), nodes, outer }
    }

    /// Takes a name that is given from outside.
    pub fn give(&mut self, name: &'p str) -> bool {
        self.names.insert(name, Definition::Given).is_none()
    }

    /// Whether this graph or one around it defines a name.
    pub fn sees(&self, name: &str) -> bool {
        self.defines(name) || self.outer.is_some_and(|outer| outer.sees(name))
    }

    /// Whether this graph defines a name. One whose definition is missing counts, so that it is
    /// missed but once.
    pub fn defines(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Takes note that a name is missing, which is a diagnostic already.
    pub fn miss(&mut self, name: &'p str) {
        self.names.insert(name, Definition::Missing);
    }

    /// The nodes of the graph, and of that which runs as one with it.
    pub fn visible_nodes(&self) -> impl Iterator<Item = &'p NodeProto> + use<'p> {
        let outer = self.outer.filter(|_| self.kind == Kind::Algorithm);
        self.nodes.iter().chain(outer.map_or(&[][..], |outer| outer.nodes))
    }

    /// The number of the node that makes a name, and whether it is a node of this very graph.
    pub fn maker(&self, name: &str) -> Option<(usize, bool)> {
        let makes = |node: &NodeProto| node.output.iter().any(|output| output == name);
        let here = self.nodes.iter().position(makes).map(|i| (i, true));
        here.or_else(|| self.outer?.maker(name).map(|(i, _)| (i, false)))
    }

    /// The definition of a name, and whether it is one of this very graph.
    pub fn taken(&self, name: &str) -> Option<(Definition, bool)> {
        match self.names.get(name) {
            Some(Definition::Missing) => None,
            Some(found) => Some((*found, true)),
            None => self.outer?.taken(name).map(|(found, _)| (found, false)),
        }
    }
}
