//! The order of nodes, where some name values by attributes: these may stand before what makes the
//! values, though the specification wants nodes to be sorted by their inputs.

use super::context::{Given, Scope, entry};
use crate::ops::How;
use onnxc_proto::NodeProto;
use std::collections::HashMap;

/// The numbers of `nodes` in an order in which each stands behind what makes the values that it
/// names; as they are, where none names any.
pub(super) fn of(nodes: &[NodeProto], scope: &Scope<'_>) -> Vec<usize> {
    let names: Vec<Vec<&str>> = nodes.iter().map(|node| names(node, scope)).collect();
    if names.iter().all(Vec::is_empty) {
        return (0..nodes.len()).collect();
    }
    let made = nodes.iter().enumerate().flat_map(|(i, node)| {
        node.output.iter().filter(|name| !name.is_empty()).map(move |name| (name.as_str(), i))
    });
    let makers: HashMap<&str, usize> = made.collect();
    let mut order = Order { nodes, names, makers, state: vec![State::Open; nodes.len()] };
    let mut found = Vec::new();
    for i in 0..nodes.len() {
        order.visit(i, &mut found);
    }
    found
}

/// The values that the attributes of these names name, in the order of `names`.
pub(super) fn named_values<'n>(names: &[&str], attributes: &[Given<'n>]) -> Vec<&'n str> {
    let of = |name: &&str| attributes.iter().find(|attribute| attribute.name == *name);
    let texts = |attribute: &Given<'n>| {
        let value = attribute.value;
        value.strings.iter().chain(&value.s).map(|text| std::str::from_utf8(text))
    };
    names.iter().filter_map(of).flat_map(texts).filter_map(Result::ok).collect()
}

fn names<'n>(node: &'n NodeProto, scope: &Scope<'n>) -> Vec<&'n str> {
    match entry(node, scope).map(|(entry, _)| entry.how) {
        Ok(How::Naming(names, _)) => named_values(names, &scope.resolved(node)),
        _ => Vec::new(),
    }
}

/// What a node and its subgraphs take in.
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
    makers: HashMap<&'n str, usize>,
    state: Vec<State>,
}

impl Order<'_> {
    /// Puts what node `i` needs in front of it. A circle is left as it is, and found when the
    /// first of its nodes is read.
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
            let needed = used.iter().filter_map(|name| self.makers.get(name).copied());
            let needed: Vec<usize> = needed.collect();
            stack.extend(needed.into_iter().rev().map(|maker| (maker, false)));
        }
    }
}
