//! Traversal of a graph, and the uses of its values.

use super::{Graph, Node, NodeId, RegionId, ValueId};
use crate::arena::Id;
use std::collections::HashSet;

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

    /// Returns the values of outer regions that `region` uses, without constants.
    pub fn captures(&self, region: RegionId) -> Vec<ValueId> {
        let (mut inside, mut used) = (HashSet::new(), Vec::new());
        self.mentions(region, &mut inside, &mut used);
        // Each is listed once, at its first use.
        used.retain(|&id| self[id].constant.is_none() && inside.insert(id));
        used
    }

    fn mentions(&self, region: RegionId, inside: &mut HashSet<ValueId>, used: &mut Vec<ValueId>) {
        let region = &self[region];
        inside.extend(&region.inputs);
        for &node in &region.nodes {
            let node = &self[node];
            used.extend(node.inputs.iter().flatten());
            inside.extend(node.outputs.iter().flatten());
            for &inner in &node.regions {
                self.mentions(inner, inside, used);
            }
        }
        used.extend(&region.outputs);
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
    nodes: Lists<NodeId>,
    regions: Lists<RegionId>,
    graph: &'a Graph,
}

/// A list for each value, by its index. All of them are in two blocks of memory.
struct Lists<T> {
    /// The end of each list.
    ends: Vec<usize>,
    all: Vec<T>,
}

impl<T: Copy> Lists<T> {
    /// Creates the lists of these pairs, each in the order of the pairs.
    fn of(mut pairs: Vec<(ValueId, T)>) -> Lists<T> {
        pairs.sort_by_key(|(value, _)| *value);
        let mut ends = Vec::new();
        for (i, (value, _)) in pairs.iter().enumerate() {
            // The list before ends here, and so do empty ones between them.
            ends.resize(value.index() + 1, i);
            ends[value.index()] = i + 1;
        }
        Lists { ends, all: pairs.into_iter().map(|(_, item)| item).collect() }
    }

    fn get(&self, value: ValueId) -> &[T] {
        let end = |i: usize| self.ends.get(i).copied().unwrap_or(self.all.len());
        &self.all[value.index().checked_sub(1).map_or(0, end)..end(value.index())]
    }
}

/// The number of uses of each value, by nodes and as outputs of regions.
#[derive(Default)]
pub(super) struct UseCounts(Vec<u32>);

impl UseCounts {
    /// Counts the uses of every value of `graph`.
    pub(super) fn of(graph: &Graph) -> UseCounts {
        let mut counts = UseCounts(vec![0; graph.values().len()]);
        counts.add(graph, graph.body);
        counts
    }

    fn add(&mut self, graph: &Graph, region: RegionId) {
        for &id in &graph[region].nodes {
            graph[id].inputs.iter().flatten().for_each(|input| self.0[input.index()] += 1);
            graph[id].regions.iter().for_each(|&inner| self.add(graph, inner));
        }
        graph[region].outputs.iter().for_each(|output| self.0[output.index()] += 1);
    }

    /// Returns the number of uses of a value.
    pub(super) fn get(&self, value: ValueId) -> usize {
        self.0.get(value.index()).map_or(0, |&count| count as usize)
    }
}

impl<'a> Uses<'a> {
    /// Collects the uses of every value of `graph`.
    pub fn of(graph: &'a Graph) -> Uses<'a> {
        let (mut nodes, mut regions) = (Vec::new(), Vec::new());
        collect_uses(graph, graph.body, &mut nodes, &mut regions);
        Uses { nodes: Lists::of(nodes), regions: Lists::of(regions), graph }
    }

    /// Returns the number of uses of a value, by nodes and as outputs of regions.
    pub fn count(&self, value: ValueId) -> usize {
        self.nodes.get(value).len() + self.regions.get(value).len()
    }

    /// Returns the nodes that use a value, once per use.
    pub fn nodes(&self, value: ValueId) -> impl Iterator<Item = (NodeId, &'a Node)> {
        let graph = self.graph;
        self.nodes.get(value).iter().map(move |&id| (id, &graph[id]))
    }

    /// Returns the regions that output a value, once per output.
    pub fn regions(&self, value: ValueId) -> impl Iterator<Item = RegionId> {
        self.regions.get(value).iter().copied()
    }
}

fn collect_uses(
    graph: &Graph,
    region: RegionId,
    nodes: &mut Vec<(ValueId, NodeId)>,
    regions: &mut Vec<(ValueId, RegionId)>,
) {
    for &id in &graph[region].nodes {
        nodes.extend(graph[id].inputs.iter().flatten().map(|&input| (input, id)));
        graph[id].regions.iter().for_each(|&inner| collect_uses(graph, inner, nodes, regions));
    }
    regions.extend(graph[region].outputs.iter().map(|&output| (output, region)));
}
