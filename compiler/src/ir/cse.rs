//! Keys for common-subexpression elimination.

use super::{Attributes, Graph, Node, ValueId};
use crate::tensor::{Data, Tensor};

/// Returns a key that nodes share if they compute the same; `None` if they may not, for example
/// because they are random.
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

/// Returns the key of an input: equal constants have equal keys.
fn of_input(graph: &Graph, input: Option<ValueId>) -> String {
    let constant = input.and_then(|id| graph[id].constant.as_ref());
    constant.and_then(of_constant).unwrap_or_else(|| format!("{input:?}"))
}

/// Returns the key of a constant; `None` if constants of its kind are not compared.
pub(crate) fn of_constant(tensor: &Tensor) -> Option<String> {
    /// Constants of more bytes are equal only if they share their memory.
    const SMALL: usize = 256;
    let Tensor { dtype, shape, data: Data::Bytes(bytes) } = tensor else { return None };
    Some(match bytes.len() {
        0..=SMALL => format!("{dtype}{shape:?}{:?}", &**bytes),
        len => format!("{dtype}{shape:?}{:p}{len}", bytes.as_ptr()),
    })
}
