//! The cost of each node.

use super::Analysis;
use onnxc::{
    ir::NodeId,
    plan::{Call, Operand, Plan},
};
use std::collections::HashMap;

/// The cost of a node in one run. In a loop, it is the cost of one iteration.
#[derive(Clone, Debug)]
pub struct NodeCost {
    /// The node of the optimized graph; `None` for copies of inputs and outputs.
    pub id: Option<NodeId>,
    /// The name.
    pub name: String,
    /// The operator.
    pub operator: String,
    /// The kernels that compute it, in order.
    pub kernels: Vec<&'static str>,
    /// The multiply-adds, or 0 if a size is free.
    pub macs: u64,
    /// The operations: see [`Call::operations`].
    pub operations: u64,
    /// The bytes that its calls read and write.
    pub bytes: u64,
}

/// Returns the cost of each node of inference that calls a kernel, in the order of the steps.
pub fn by_node(analysis: &Analysis) -> Vec<NodeCost> {
    let (plan, nodes) = (analysis.plans.infer(), analysis.nodes_by_comment());
    let mut costs: Vec<NodeCost> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    plan.calls(&mut |call| {
        let place = *places.entry(&call.node).or_insert_with(|| {
            costs.push(empty(analysis, &nodes, call));
            costs.len() - 1
        });
        let cost = &mut costs[place];
        if !cost.kernels.contains(&call.kernel) {
            cost.kernels.push(call.kernel);
        }
        cost.macs = cost.macs.saturating_add(call.macs);
        cost.operations = cost.operations.saturating_add(call.operations(plan));
        cost.bytes = cost.bytes.saturating_add(bytes(plan, call));
    });
    costs
}

fn empty(analysis: &Analysis, nodes: &HashMap<String, NodeId>, call: &Call) -> NodeCost {
    let id = nodes.get(&call.node).copied();
    let node = id.map(|id| &analysis.optimized[id]);
    NodeCost {
        id,
        name: node.map_or_else(|| call.node.clone(), |node| node.name.clone()),
        operator: node.map_or_else(|| "copy".to_owned(), |node| node.op.label()),
        kernels: Vec::new(),
        macs: 0,
        operations: 0,
        bytes: 0,
    }
}

fn bytes(plan: &Plan, call: &Call) -> u64 {
    let size = |operand: &Operand| {
        let elements = u64::try_from(plan.upper(&operand.len)?).ok()?;
        Some(elements.saturating_mul(plan.buffers[operand.buffer].dtype.bytes() as u64))
    };
    call.reads().chain(call.writes()).filter_map(size).fold(0, u64::saturating_add)
}
