//! Topological order of nodes.

use onnxc_proto::{GraphProto, NodeProto};
use std::collections::{HashMap, HashSet};

/// An order of nodes.
pub struct Order {
    /// The indices of all nodes. Each node follows the producers of the values that it uses, except
    /// in a cycle. Nodes that are sorted already keep their order.
    pub indices: Vec<usize>,
    /// The first cycle that was found: each node uses an output of the next one, and the last node
    /// an output of the first.
    pub cycle: Option<Vec<usize>>,
}

/// Sorts nodes topologically. `also_used(i)` returns the names that node `i` uses besides its
/// inputs and those of its subgraphs.
pub fn sort<'n>(nodes: &'n [NodeProto], also_used: impl Fn(usize) -> Vec<&'n str>) -> Order {
    let made = nodes.iter().enumerate().flat_map(|(i, node)| {
        node.output.iter().filter(|name| !name.is_empty()).map(move |name| (name.as_str(), i))
    });
    let producers: HashMap<&str, usize> = made.collect();
    let needed = |i: usize| -> Vec<usize> {
        let mut used = also_used(i);
        inputs(&nodes[i], &mut used);
        used.iter().filter_map(|name| producers.get(name).copied()).collect()
    };
    let mut search = Search { states: vec![State::Open; nodes.len()], path: Vec::new() };
    let mut order = Order { indices: Vec::with_capacity(nodes.len()), cycle: None };
    for i in 0..nodes.len() {
        search.visit(i, needed, &mut order);
    }
    order
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Open,
    /// The node is on the path.
    Entered,
    Finished,
}

/// A depth-first search from users to producers.
struct Search {
    states: Vec<State>,
    /// The nodes from the start of the search to the current one.
    path: Vec<usize>,
}

impl Search {
    /// Visits the producers that node `first` needs, then the node.
    fn visit(&mut self, first: usize, needed: impl Fn(usize) -> Vec<usize>, order: &mut Order) {
        let mut stack = vec![(first, false)];
        while let Some((i, is_done)) = stack.pop() {
            match (is_done, self.states[i]) {
                (true, _) => {
                    self.path.pop();
                    self.states[i] = State::Finished;
                    order.indices.push(i);
                }
                (false, State::Open) => {
                    self.path.push(i);
                    self.states[i] = State::Entered;
                    stack.push((i, true));
                    stack.extend(needed(i).into_iter().rev().map(|producer| (producer, false)));
                }
                (false, State::Entered) if order.cycle.is_none() => {
                    let start = self.path.iter().position(|&on_path| on_path == i);
                    order.cycle = start.map(|start| self.path[start..].to_vec());
                }
                (false, State::Entered | State::Finished) => {}
            }
        }
    }
}

/// Returns the names that a node uses: its inputs, and the values around its subgraphs.
pub fn used_values(node: &NodeProto) -> Vec<&str> {
    let mut used = Vec::new();
    inputs(node, &mut used);
    used
}

/// Adds the names that a node uses: its inputs, and the captures of its subgraphs.
fn inputs<'n>(node: &'n NodeProto, used: &mut Vec<&'n str>) {
    used.extend(node.input.iter().map(String::as_str));
    let graphs = node.attribute.iter().flat_map(|a| a.g.as_deref().into_iter().chain(&a.graphs));
    graphs.for_each(|graph| captures(graph, used));
}

/// Adds the names of enclosing graphs that a graph uses.
fn captures<'n>(graph: &'n GraphProto, used: &mut Vec<&'n str>) {
    let mut inside = Vec::new();
    graph.node.iter().for_each(|node| inputs(node, &mut inside));
    let given = graph.input.iter().map(|input| input.name());
    let constants = graph.initializer.iter().map(|tensor| tensor.name());
    let sparse = graph.sparse_initializer.iter().filter_map(|tensor| tensor.values.as_ref());
    let made = graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str));
    let own = given.chain(constants).chain(sparse.map(|values| values.name())).chain(made);
    let own: HashSet<&str> = own.collect();
    used.extend(inside.into_iter().filter(|name| !own.contains(name)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::decode;

    fn order(nodes: &str) -> Order {
        let text = format!(
            "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[2] x, bool c) => (y) {{ {nodes} }}"
        );
        let model = decode(text.into()).expect("the text is a model");
        sort(&model.graph.expect("the model has a graph").node, |_| Vec::new())
    }

    #[test]
    fn sorted_nodes_keep_their_order() {
        let found = order("a = Neg(x) b = Abs(x) y = Add(b, a)");
        assert_eq!((found.indices, found.cycle), (vec![0, 1, 2], None));
    }

    #[test]
    fn producers_come_first_also_those_of_captures() {
        let found = order("y = Add(b, a) b = Abs(a) a = Neg(x)");
        assert_eq!((found.indices, found.cycle), (vec![2, 1, 0], None));
        let branches = "then_branch = t () => (p) { p = Neg(a) }, \
                        else_branch = e () => (q) <float a = {1}> { q = Neg(z) }";
        let found = order(&format!("y = If<{branches}>(c) a = Neg(x) z = Neg(y)"));
        assert_eq!(found.cycle, Some(vec![0, 2]));
        let found = order(&format!("y = If<{branches}>(c) a = Neg(x) z = Neg(x)"));
        assert_eq!((found.indices, found.cycle), (vec![1, 2, 0], None));
    }

    #[test]
    fn a_cycle_is_listed_from_user_to_producer() {
        let found = order("y = Add(a, x) a = Neg(b) b = Abs(d) d = Relu(a)");
        assert_eq!(found.cycle, Some(vec![1, 2, 3]));
        assert_eq!(found.indices.len(), 4);
    }
}
