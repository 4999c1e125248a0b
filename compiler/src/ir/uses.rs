//! Walks over a graph, and the uses of its values.

use super::{Graph, Node, NodeId, RegionId, ValueId};
use std::collections::HashMap;

impl Graph {
    /// The nodes of a region in order, each before those of its own regions.
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

    /// The node of that name, the first in order where several have it.
    pub fn node_named(&self, name: &str) -> Option<(NodeId, &Node)> {
        self.walk(self.body).find(|(_, node)| node.name == name)
    }

    /// The value of that name, the first in order where several have it.
    pub fn value_named(&self, name: &str) -> Option<ValueId> {
        self.values().find(|(_, value)| value.name == name).map(|(id, _)| id)
    }
}

/// Who uses each value. Borrows the graph, so it cannot go stale.
pub struct Uses<'a> {
    nodes: HashMap<ValueId, Vec<NodeId>>,
    outputs: HashMap<ValueId, usize>,
    graph: &'a Graph,
}

impl<'a> Uses<'a> {
    /// The uses of every value in `graph`.
    pub fn of(graph: &'a Graph) -> Uses<'a> {
        let mut uses = Uses { nodes: HashMap::new(), outputs: HashMap::new(), graph };
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
            *self.outputs.entry(output).or_default() += 1;
        }
    }

    /// How often a value is used, by nodes and as the output of a region.
    pub fn count(&self, value: ValueId) -> usize {
        self.nodes.get(&value).map_or(0, Vec::len) + self.outputs.get(&value).copied().unwrap_or(0)
    }

    /// The nodes that use a value; one that does so twice is named twice.
    pub fn nodes(&self, value: ValueId) -> impl Iterator<Item = &'a Node> {
        let ids = self.nodes.get(&value).map(Vec::as_slice).unwrap_or_default();
        let graph = self.graph;
        ids.iter().map(move |&id| &graph[id])
    }
}
