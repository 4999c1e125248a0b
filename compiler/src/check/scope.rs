//! The names that are visible in a graph.

use crate::ident;
use onnxc_proto::NodeProto;
use std::{cell::OnceCell, collections::HashMap, iter};

/// The names that a graph defines, within the scopes of outer graphs.
pub(super) struct Scope<'s, 'p> {
    pub kind: Kind,
    pub names: HashMap<&'p str, Definition>,
    nodes: &'p [NodeProto],
    /// The node that defines each name, to find names that are used too early.
    makers: OnceCell<HashMap<&'p str, usize>>,
    pub outer: Option<&'s Scope<'s, 'p>>,
}

/// The owner of a graph.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A model.
    Main,
    /// An attribute of a node.
    Nested,
    /// A function, which has nodes but no graph.
    Function,
    /// A training algorithm, whose outer scope is the model's graph.
    Algorithm,
    /// The initialization of training.
    Initialization,
}

/// The definition of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Definition {
    /// An input or an initializer.
    Given,
    /// The output of the node with this index.
    Node(usize),
    /// Missing, which is reported already.
    Missing,
}

impl<'s, 'p> Scope<'s, 'p> {
    /// Creates a scope without names.
    pub fn new(
        kind: Kind,
        nodes: &'p [NodeProto],
        outer: Option<&'s Scope<'s, 'p>>,
    ) -> Scope<'s, 'p> {
        Scope { kind, names: HashMap::new(), nodes, makers: OnceCell::new(), outer }
    }

    /// Defines a name from outside of the graph.
    pub fn give(&mut self, name: &'p str) -> bool {
        self.names.insert(name, Definition::Given).is_none()
    }

    /// Returns whether this graph or an outer one defines a name.
    pub fn sees(&self, name: &str) -> bool {
        self.defines(name) || self.outer.is_some_and(|outer| outer.sees(name))
    }

    /// Returns whether this graph defines a name. A missing definition counts, so that it is
    /// reported once.
    pub fn defines(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Records that a name is missing, which is reported already.
    pub fn miss(&mut self, name: &'p str) {
        self.names.insert(name, Definition::Missing);
    }

    /// Returns the nodes of the graph, and of the graph that it is merged with.
    pub fn visible_nodes(&self) -> impl Iterator<Item = &'p NodeProto> + use<'p> {
        let outer = self.outer.filter(|_| self.kind == Kind::Algorithm);
        self.nodes.iter().chain(outer.map_or(&[][..], |outer| outer.nodes))
    }

    /// Returns the index of the node that defines a name, and whether it is a node of this graph.
    pub fn maker(&self, name: &str) -> Option<(usize, bool)> {
        let makers = self.makers.get_or_init(|| {
            let outputs = |node: &'p NodeProto| node.output.iter().map(String::as_str);
            let nodes = self.nodes.iter().enumerate().rev();
            nodes.flat_map(|(i, node)| outputs(node).map(move |name| (name, i))).collect()
        });
        let here = makers.get(name).map(|&i| (i, true));
        here.or_else(|| self.outer?.maker(name).map(|(i, _)| (i, false)))
    }

    /// Returns the most similar of the names that this graph and the outer ones define so far.
    pub fn nearest(&self, name: &str) -> Option<&'p str> {
        let scopes = iter::successors(Some(self), |scope| scope.outer);
        let defined = scopes.flat_map(|scope| &scope.names);
        let defined = defined.filter(|(_, definition)| **definition != Definition::Missing);
        ident::nearest(name, defined.map(|(name, _)| *name))
    }

    /// Returns the definition of a name, and whether it is in this graph.
    pub fn taken(&self, name: &str) -> Option<(Definition, bool)> {
        match self.names.get(name) {
            Some(Definition::Missing) => None,
            Some(found) => Some((*found, true)),
            None => self.outer?.taken(name).map(|(found, _)| (found, false)),
        }
    }
}
