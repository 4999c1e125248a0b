//! Traversal of a graph, and the uses of its values.

use super::{Graph, Node, NodeId, RegionId, ValueId};
use std::collections::HashMap;

impl Graph {
    /// Returns the nodes of a region in order, each before the nodes of its own regions.
    pub fn walk(&self, region: RegionId) -> impl Iterator<Item = (NodeId, &Node)> {
        let mut found = Vec::new();
        self.collect(region, &mut found);
        found.into_iter().map(|id| (id, &self[id]))
    }

    fn collect(&self, region: RegionId, found: &mut Vec<NodeId>) {
        for &id in &self[region].nodes {
            found.push(id);
            self[id].regions.iter().for_each(|&inner| self.collect(inner, found));
        }
    }

    /// Returns the first node called `name`.
    pub fn node_named(&self, name: &str) -> Option<(NodeId, &Node)> {
        self.walk(self.body).find(|(_, node)| node.name == name)
    }

    /// Returns the first value called `name`.
    pub fn value_named(&self, name: &str) -> Option<ValueId> {
        self.values().find(|(_, value)| value.name == name).map(|(id, _)| id)
    }
}

/// Who uses each value. Borrows the graph, so it cannot go stale.
///
/// ```
/// use onnxc::{Spec, dtype::DType, ir::{Graph, Uses}, ty::Type};
///
/// let mut graph = Graph::named("square");
/// let x = graph.input(graph.body, "x", Type::tensor(DType::F32, [2]));
/// let y = Spec::new("Mul").called("y").inputs([x, x]).one(&mut graph)?;
/// graph.set_outputs(graph.body, vec![y]);
///
/// let uses = Uses::of(&graph);
/// assert_eq!((uses.count(x), uses.count(y)), (2, 1));
/// assert!(uses.nodes(x).all(|(_, node)| node.name == "y"));
/// assert!(uses.regions(y).eq([graph.body]));
/// # Ok::<(), onnxc::diag::Diagnostic>(())
/// ```
pub struct Uses<'a> {
    nodes: HashMap<ValueId, Vec<NodeId>>,
    regions: HashMap<ValueId, Vec<RegionId>>,
    graph: &'a Graph,
}

impl<'a> Uses<'a> {
    /// Creates an empty table, for a graph whose uses do not matter.
    pub(super) fn none(graph: &'a Graph) -> Uses<'a> {
        Uses { nodes: HashMap::new(), regions: HashMap::new(), graph }
    }

    /// Collects the uses of every value of `graph`.
    pub fn of(graph: &'a Graph) -> Uses<'a> {
        let mut uses = Uses { nodes: HashMap::new(), regions: HashMap::new(), graph };
        uses.region(graph.body);
        uses
    }

    fn region(&mut self, region: RegionId) {
        let graph = self.graph;
        for &id in &graph[region].nodes {
            for &input in graph[id].inputs.iter().flatten() {
                self.nodes.entry(input).or_default().push(id);
            }
            graph[id].regions.iter().for_each(|&inner| self.region(inner));
        }
        for &output in &graph[region].outputs {
            self.regions.entry(output).or_default().push(region);
        }
    }

    /// Returns the number of uses of a value, by nodes and as outputs of regions.
    pub fn count(&self, value: ValueId) -> usize {
        let nodes = self.nodes.get(&value).map_or(0, Vec::len);
        nodes + self.regions.get(&value).map_or(0, Vec::len)
    }

    /// Returns the nodes that use a value, once per use.
    pub fn nodes(&self, value: ValueId) -> impl Iterator<Item = (NodeId, &'a Node)> {
        let (ids, graph) = (self.nodes.get(&value), self.graph);
        ids.into_iter().flatten().map(move |&id| (id, &graph[id]))
    }

    /// Returns the regions that output a value, once per output.
    pub fn regions(&self, value: ValueId) -> impl Iterator<Item = RegionId> {
        self.regions.get(&value).into_iter().flatten().copied()
    }
}
