//! Which nodes compute the same, so that one of them does.

use super::{Attributes, Graph, Node, ValueId};
use crate::tensor::{Data, Tensor};

/// What makes two nodes compute the same; `None` where they may differ all the same.
pub(super) fn key(graph: &Graph, node: &Node) -> Option<String> {
    if !node.regions.is_empty() || node.op.is_random() {
        return None;
    }
    let mut attributes = Attributes::default();
    node.op.attributes(&mut attributes);
    let wanted: Vec<bool> = node.outputs.iter().map(Option::is_some).collect();
    let (domain, name) = (node.op.domain(), node.op.name());
    let inputs: Vec<String> = node.inputs.iter().map(|&id| of_input(graph, id)).collect();
    Some(format!("{domain}.{name}{attributes}{}{wanted:?}", inputs.join(" ")))
}

/// What makes two inputs the same: equal constants are, such as shapes that were written twice.
fn of_input(graph: &Graph, input: Option<ValueId>) -> String {
    let constant = input.and_then(|id| graph[id].constant.as_ref());
    constant.and_then(of_constant).unwrap_or_else(|| format!("{input:?}"))
}

/// What makes two constants the same; `None` where that is not looked at.
pub(crate) fn of_constant(tensor: &Tensor) -> Option<String> {
    /// Constants of more bytes are the same where they share their memory.
    const SMALL: usize = 256;
    let Tensor { dtype, shape, data: Data::Bytes(bytes) } = tensor else { return None };
    Some(match bytes.len() {
        0..=SMALL => format!("{dtype}{shape:?}{:?}", &**bytes),
        len => format!("{dtype}{shape:?}{:p}{len}", bytes.as_ptr()),
    })
}
