//! The fate of each node: fused, folded or removed by the passes.

use onnxc::ir::{Graph, Node, NodeId, Uses, ValueId};
use std::collections::{HashMap, HashSet};

/// The fate of a node of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// This node of the optimized graph computes it, alone or together with others.
    Computed(NodeId),
    /// Its outputs are constants, or sizes that are known before the run.
    Folded,
    /// Nothing reads its outputs, or it has no effect.
    Removed,
}

/// Returns the fate of every node of the imported graph. Values are matched by name: a value that
/// is gone is inside of the node that computes the next value that is still there.
pub fn fates(imported: &Graph, optimized: &Graph) -> HashMap<NodeId, Fate> {
    let kept = Kept::of(optimized);
    let fixed = fixed_values(imported);
    let uses = Uses::of(imported);
    let mut fates: HashMap<NodeId, Fate> = HashMap::new();
    let nodes: Vec<(NodeId, &Node)> = imported.walk(imported.body).collect();
    for (id, node) in nodes.into_iter().rev() {
        let outputs = node.outputs.iter().flatten();
        let is_folded = |&value: &ValueId| {
            fixed.contains(&value) || kept.constants.contains(&*imported[value].name)
        };
        let own = outputs.clone().find_map(|&value| kept.producers.get(&*imported[value].name));
        let fate = match own {
            Some(&id) => Fate::Computed(id),
            None if !node.outputs.is_empty() && outputs.clone().all(is_folded) => Fate::Folded,
            None => {
                let readers = outputs.flat_map(|&value| uses.nodes(value));
                let mut fates = readers.filter_map(|(id, _)| fates.get(&id).copied());
                fates.find(|fate| matches!(fate, Fate::Computed(_))).unwrap_or(Fate::Removed)
            }
        };
        fates.insert(id, fate);
    }
    fates
}

/// The values of the optimized graph, by name.
struct Kept<'g> {
    producers: HashMap<&'g str, NodeId>,
    constants: HashSet<&'g str>,
}

impl Kept<'_> {
    fn of(graph: &Graph) -> Kept<'_> {
        let mut kept = Kept { producers: HashMap::new(), constants: HashSet::new() };
        for (_, value) in graph.values() {
            if value.constant.is_some() {
                kept.constants.insert(&value.name);
            } else if let Some(id) = value.producer {
                kept.producers.insert(&value.name, computing(graph, id));
            }
        }
        kept
    }
}

/// Returns the node that computes the value of `id`, a node that may only change its layout.
fn computing(graph: &Graph, id: NodeId) -> NodeId {
    let is_layout = matches!(graph[id].op.name(), "Block" | "Unblock");
    let before = graph[id].input(0).filter(|_| is_layout);
    before.and_then(|value| graph[value].producer).unwrap_or(id)
}

/// Returns the values whose elements are known before a run.
fn fixed_values(graph: &Graph) -> HashSet<ValueId> {
    let is_known = |id: ValueId| graph[id].constant.is_some() || graph[id].known.is_some();
    let mut fixed: HashSet<ValueId> =
        graph.values().map(|(id, _)| id).filter(|&id| is_known(id)).collect();
    for (_, node) in graph.walk(graph.body) {
        let is_plain = node.regions.is_empty() && !node.op.is_random();
        if is_plain && node.inputs.iter().flatten().all(|id| fixed.contains(id)) {
            fixed.extend(node.outputs.iter().flatten());
        }
    }
    fixed
}
