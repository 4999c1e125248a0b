//! Sorts nodes topologically, including the values that attributes name.
//!
//! The specification demands that nodes are sorted by their inputs. A node may still name a value
//! in an attribute (`Gradient`) before the value is computed.

use super::context::{Given, Scope, entry};
use crate::ops::Reading;
use onnxc_proto::NodeProto;
use std::collections::HashMap;

/// The indices of `nodes` in an order in which each follows the producers of the values that it
/// uses. If no attribute names a value, the order is unchanged.
pub(super) fn sort(nodes: &[NodeProto], scope: &Scope<'_>) -> Vec<usize> {
    let names: Vec<Vec<&str>> = nodes.iter().map(|node| names(node, scope)).collect();
    if names.iter().all(Vec::is_empty) {
        return (0..nodes.len()).collect();
    }
    let made = nodes.iter().enumerate().flat_map(|(i, node)| {
        node.output.iter().filter(|name| !name.is_empty()).map(move |name| (name.as_str(), i))
    });
    let producers: HashMap<&str, usize> = made.collect();
    let mut order = Order { nodes, names, producers, state: vec![State::Open; nodes.len()] };
    let mut found = Vec::new();
    for i in 0..nodes.len() {
        order.visit(i, &mut found);
    }
    found
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

/// The inputs of a node and of the nodes in its subgraphs.
fn inputs<'n>(node: &'n NodeProto, used: &mut Vec<&'n str>) {
    used.extend(node.input.iter().map(String::as_str));
    let graphs = node.attribute.iter().flat_map(|attribute| attribute.g.iter());
    graphs.for_each(|graph| graph.node.iter().for_each(|node| inputs(node, used)));
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Open,
    Entered,
}

struct Order<'n> {
    nodes: &'n [NodeProto],
    names: Vec<Vec<&'n str>>,
    producers: HashMap<&'n str, usize>,
    state: Vec<State>,
}

impl Order<'_> {
    /// Visits what node `i` needs, then the node. A cycle is not resolved: importing its first node
    /// reports it.
    fn visit(&mut self, first: usize, found: &mut Vec<usize>) {
        let mut stack = vec![(first, false)];
        while let Some((i, done)) = stack.pop() {
            if done {
                found.push(i);
                continue;
            }
            if self.state[i] == State::Entered {
                continue;
            }
            self.state[i] = State::Entered;
            stack.push((i, true));
            let mut used = self.names[i].clone();
            inputs(&self.nodes[i], &mut used);
            let needed = used.iter().filter_map(|name| self.producers.get(name).copied());
            let needed: Vec<usize> = needed.collect();
            stack.extend(needed.into_iter().rev().map(|producer| (producer, false)));
        }
    }
}
