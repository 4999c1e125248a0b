//! Sorts nodes topologically, including the values that attributes name.
//!
//! The specification demands that nodes are sorted by their inputs, but not all files are. A node
//! may also name a value in an attribute (`Gradient`) before the value is computed.

use super::context::{Given, Scope, entry};
use crate::{check, ops::Reading};
use onnxc_proto::NodeProto;

/// The indices of `nodes` in an order in which each follows the producers of the values that it
/// uses. If no attribute names a value, nodes that `are_sorted` keep their order. A cycle is not
/// resolved: the checker has reported it.
pub(super) fn sort(nodes: &[NodeProto], are_sorted: bool, scope: &Scope<'_>) -> Vec<usize> {
    let names: Vec<Vec<&str>> = nodes.iter().map(|node| names(node, scope)).collect();
    if are_sorted && names.iter().all(Vec::is_empty) {
        return (0..nodes.len()).collect();
    }
    check::sort(nodes, |i| names[i].clone()).indices
}

/// The values that the attributes `names` name, in order.
pub(super) fn named_values<'n>(names: &[&str], attributes: &[Given<'n>]) -> Vec<&'n str> {
    let of = |name: &&str| attributes.iter().find(|attribute| attribute.name == *name);
    let texts = |attribute: &Given<'n>| {
        let value = attribute.value;
        value.strings.iter().chain(&value.s).map(|text| std::str::from_utf8(text))
    };
    names.iter().filter_map(of).flat_map(texts).filter_map(Result::ok).collect()
}

fn names<'n>(node: &'n NodeProto, scope: &Scope<'n>) -> Vec<&'n str> {
    match entry(node, scope).map(|(entry, _)| entry.reading) {
        Ok(Reading::Naming(names, _)) => named_values(names, &scope.resolve_attributes(node)),
        _ => Vec::new(),
    }
}
