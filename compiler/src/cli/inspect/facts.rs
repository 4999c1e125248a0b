//! The facts that are printed, as text or as JSON.

use super::budget::{Budget, Use};
use crate::cli::analysis::{
    Analysis, Fate, FreeSize, NodeCost, WeightBytes, by_node, by_type, fates, free_sizes,
    heap_buffers, unfused,
};
use onnxc::{
    byte_count::grouped,
    diag::quoted,
    domain,
    emit::{self, ArenaIn, Style, WeightsIn},
    ir::{Domain, Graph, Node, NodeId},
    plan::{Moment, Place, Plan, Port},
};
use onnxc_runtime::arena::Trailer;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

/// The facts about a model.
pub struct Facts<'a> {
    /// The name of the model.
    pub name: String,
    /// The inference plan.
    pub plan: &'a Plan,
    /// Where the arena is.
    pub arena: ArenaIn,
    /// The size of the weights in the program, in bytes.
    pub stored_weights: usize,
    /// The operators, with their numbers before and after the passes.
    pub operators: Vec<(String, [usize; 2])>,
    /// The number of parameters.
    pub parameters: u64,
    /// The weights by element type.
    pub weights: Vec<(String, WeightBytes)>,
    /// The plans, with their names: that of inference and those of training.
    pub plans: Vec<(&'a str, &'a Plan)>,
    /// The step at which the arena is fullest.
    pub fullest: Option<Fullest>,
    /// The costs of nodes, the costliest first.
    pub costs: Vec<NodeCost>,
    /// The free sizes.
    pub sizes: Vec<FreeSize>,
    /// The nodes that compute several nodes of the model, with their names.
    pub fused: Vec<(String, Vec<String>)>,
    /// The numbers of nodes that are folded, and that are removed.
    pub gone: [usize; 2],
    /// The nodes that are not fused, each with the reason.
    pub unfused: Vec<(String, String)>,
    /// The values on the heap: name, type, reason.
    pub heap: Vec<(String, String, &'static str)>,
    /// The limits, and what the model uses of them.
    pub budget: Vec<Use>,
}

/// The step at which the arena is fullest.
pub struct Fullest {
    /// The number of the step, and the number of all steps.
    pub step: [usize; 2],
    /// The node.
    pub node: String,
    /// The live buffers.
    pub moment: Moment,
}

impl<'a> Facts<'a> {
    /// Collects the facts.
    pub fn of(analysis: &'a Analysis, style: Style, budget: Budget) -> Facts<'a> {
        let plan = analysis.plans.infer();
        let mut costs = by_node(analysis);
        costs.sort_by_key(|cost| (Reverse(cost.operations), Reverse(cost.bytes)));
        let (fused, gone) = fused(analysis);
        let unfused = unfused(&analysis.optimized).into_iter();
        let heap = heap_buffers(plan).into_iter();
        let mut facts = Facts {
            plan,
            arena: style.arena,
            stored_weights: stored_weights(analysis, &style),
            operators: operators(analysis),
            parameters: plan.info.parameters,
            weights: by_type(&analysis.plans)
                .into_iter()
                .map(|(dtype, bytes)| (dtype.to_string(), bytes))
                .collect(),
            plans: plans(analysis),
            fullest: fullest(plan),
            costs,
            sizes: free_sizes(plan),
            fused,
            gone,
            unfused: counted(unfused.map(|(node, reason)| (node.location(), reason))),
            heap: heap
                .map(|(buffer, reason)| (buffer.name.clone(), buffer_type(buffer), reason))
                .collect(),
            budget: Vec::new(),
            name: style.name,
        };
        facts.budget = facts.uses(budget);
        facts
    }

    /// Returns whether the model fits every limit.
    pub fn fits(&self) -> bool {
        self.budget.iter().all(Use::fits)
    }

    /// The size of the arena in bytes, if the compiler lays it out.
    pub fn arena_bytes(&self) -> Option<usize> {
        (!self.plan.has_dynamic_arena).then_some(self.plan.arena_bytes)
    }

    /// The inputs, outputs and states.
    pub fn ports(&self) -> impl Iterator<Item = (&'static str, &Port)> {
        let inputs = self.plan.inputs.iter().map(|port| ("input", port));
        let outputs = self.plan.outputs.iter().map(|port| ("output", port));
        let states = self
            .plan
            .states
            .iter()
            .map(|state| (if self.plan.learns { "variable" } else { "state" }, &state.found));
        inputs.chain(outputs).chain(states)
    }

    /// The operator sets: `ai.onnx 21`.
    pub fn operator_sets(&self) -> Vec<String> {
        let sets = self.plan.info.opsets.iter();
        sets.map(|(name, version)| format!("{} {version}", domain::shown(name))).collect()
    }

    fn uses(&self, budget: Budget) -> Vec<Use> {
        let flash = budget.flash.map(|limit| Use {
            memory: "flash",
            used: Some(self.stored_weights),
            limit,
            tightest: largest_weight(self.plan),
        });
        let ram = budget.ram.map(|limit| Use {
            memory: "ram",
            used: self.arena_bytes(),
            limit,
            tightest: self
                .fullest
                .as_ref()
                .map(|fullest| format!("the arena is fullest at {}", quoted(&fullest.node))),
        });
        flash.into_iter().chain(ram).collect()
    }
}

/// Counts equal entries, as those of a node that several branches contain.
fn counted(entries: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut counts: Vec<((String, String), usize)> = Vec::new();
    let mut places = HashMap::new();
    for entry in entries {
        let place = *places.entry(entry.clone()).or_insert(counts.len());
        match counts.get_mut(place) {
            Some((_, count)) => *count += 1,
            None => counts.push((entry, 1)),
        }
    }
    let text = |((node, reason), count): ((String, String), usize)| match count {
        1 => (node, reason),
        _ => (node, format!("{reason} ({count} times)")),
    };
    counts.into_iter().map(text).collect()
}

/// Returns the size of the weights, with the trailer of a weights file.
fn stored_weights(analysis: &Analysis, style: &Style) -> usize {
    let is_file = style.weights != WeightsIn::Module && emit::has_weights(&analysis.plans);
    analysis.plans.infer().weight_bytes + if is_file { Trailer::BYTES } else { 0 }
}

/// Describes the largest weight.
fn largest_weight(plan: &Plan) -> Option<String> {
    let weights = plan.buffers.iter().filter_map(|(_, buffer)| match &buffer.place {
        Place::Weight { weight, .. } => Some((weight.bytes(), &buffer.name)),
        Place::Input(_) | Place::Arena { .. } | Place::Heap => None,
    });
    let (bytes, name) = weights.max_by_key(|(bytes, name)| (*bytes, Reverse(*name)))?;
    Some(format!("the largest weight, {}, has {} bytes", quoted(name), grouped(bytes as u64)))
}

/// Returns the type of a buffer's contents.
pub fn buffer_type(buffer: &onnxc::plan::Buffer) -> String {
    let sizes = buffer.shape.clone().unwrap_or_else(|| vec![buffer.len.clone()]);
    let sizes: Vec<String> = sizes.iter().map(|dim| format!("{dim:?}")).collect();
    format!("{}[{}]", buffer.dtype, sizes.join(", "))
}

fn plans(analysis: &Analysis) -> Vec<(&str, &Plan)> {
    let infer = [("infer", analysis.plans.infer())].into_iter();
    let steps = analysis.plans.training().map_or(&[][..], |all| &all.steps);
    let is_one = steps.len() == 1;
    let named = steps.iter().map(|step| (if is_one { "step" } else { &*step.name }, &step.plan));
    infer.chain(named).collect()
}

fn operators(analysis: &Analysis) -> Vec<(String, [usize; 2])> {
    let mut counts: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    let mut count = |graph: &Graph, column: usize| {
        for (_, node) in graph.walk(graph.body) {
            counts.entry(operator(node)).or_default()[column] += 1;
        }
    };
    count(&analysis.imported, 0);
    count(&analysis.optimized, 1);
    let mut counts: Vec<(String, [usize; 2])> = counts.into_iter().collect();
    counts.sort_by_key(|(_, [before, after])| Reverse((*before).max(*after)));
    counts
}

/// The operator of a node. The main operator set, and that of onnxc for the same operator, have no
/// prefix.
fn operator(node: &Node) -> String {
    match node.op.domain() {
        Domain::Onnx | Domain::Internal => node.op.name().to_owned(),
        domain => format!("{domain}::{}", node.op.name()),
    }
}

fn fullest(plan: &Plan) -> Option<Fullest> {
    let moment = plan.fullest()?;
    let nodes = plan.step_nodes();
    let node = match nodes.get(moment.step).copied().unwrap_or_default() {
        "" => "the inputs",
        node => node,
    };
    Some(Fullest { step: [moment.step, nodes.len() - 1], node: node.to_owned(), moment })
}

/// Returns the nodes that compute several nodes of the model, and the numbers of nodes that are
/// folded and removed.
fn fused(analysis: &Analysis) -> (Vec<(String, Vec<String>)>, [usize; 2]) {
    let Analysis { imported, optimized, .. } = analysis;
    let fates = fates(&analysis.imported, &analysis.optimized);
    let mut groups: BTreeMap<NodeId, Vec<String>> = BTreeMap::new();
    let mut gone = [0, 0];
    for (id, node) in imported.walk(imported.body) {
        match fates[&id] {
            Fate::Computed(into) => groups.entry(into).or_default().push(node.location()),
            Fate::Folded => gone[0] += 1,
            Fate::Removed => gone[1] += 1,
        }
    }
    let several = groups.into_iter().filter(|(_, nodes)| nodes.len() > 1);
    (several.map(|(id, nodes)| (optimized[id].location(), nodes)).collect(), gone)
}
