//! The tables of a tree ensemble. All comparisons of ONNX are rewritten to `x ≤ v`, the only one
//! that the kernels implement.

use crate::{
    diag::{Code, Diagnostic, Result},
    dtype::DType,
    limits::{Budget, Limit},
    tensor::Tensor,
};
use std::collections::HashMap;

/// The comparison of a split.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    /// `x ≤ v`
    Leq,
    /// `x < v`
    Lt,
    /// `x ≥ v`
    Gte,
    /// `x > v`
    Gt,
    /// `x = v`
    Eq,
    /// `x ≠ v`
    Neq,
    /// `x` is one of these values
    Member(Vec<f64>),
}

/// A split as ONNX describes it.
pub struct Split {
    /// The feature that is compared.
    pub feature: u32,
    /// The comparison.
    pub mode: Mode,
    /// The value to compare with.
    pub value: f64,
    /// Whether NaN takes the true branch.
    pub nan_is_true: bool,
    /// The next nodes: of the true and of the false branch.
    pub to: [usize; 2],
}

/// A node as the kernels evaluate it.
#[derive(Clone)]
enum Node {
    /// `x[feature] ≤ value`
    Leq { feature: u32, value: f64, nan_is_true: bool, to: [usize; 2] },
    /// The weights of a leaf: result and weight.
    Leaf(Vec<(usize, f64)>),
}

/// The aggregation of the weights of the leaves of all trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// Their sum.
    Sum,
    /// Their sum, divided by the number of trees.
    Average,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

/// An ensemble under construction. Nodes refer to each other by index.
pub struct Ensemble {
    dtype: DType,
    aggregate: Aggregate,
    nodes: Vec<Node>,
    /// The root of each tree.
    pub roots: Vec<usize>,
}

/// An ensemble in the format of the kernels.
pub struct Tables {
    /// For each node, the value to compare with or the first weight.
    pub values: Tensor,
    /// For each node, the feature with two flags, and the index of its children or of its weights.
    pub nodes: Tensor,
    /// For each tree, its root and its result.
    pub trees: Tensor,
    /// The weights of the leaves; absent if each leaf has one weight, which is in `values`.
    pub weights: Option<Tensor>,
    /// The number of results for which a leaf has weights.
    pub width: usize,
    /// The number of features that the splits read.
    pub features: usize,
}

impl Ensemble {
    /// Creates an ensemble of `nodes` nodes over features of `dtype`. Each node is a leaf without
    /// weights.
    pub fn new(dtype: DType, aggregate: Aggregate, nodes: usize) -> Ensemble {
        let nodes = vec![Node::Leaf(Vec::new()); nodes];
        Ensemble { dtype, aggregate, nodes, roots: Vec::new() }
    }

    /// Makes node `at` a split.
    pub fn set_split(&mut self, at: usize, split: Split) {
        let Split { feature, mode, value, nan_is_true, to } = split;
        self.nodes[at] = match mode {
            Mode::Member(values) => {
                return self.set_member_split(at, feature, &values, nan_is_true, to);
            }
            Mode::Leq => Node::Leq { feature, value, nan_is_true, to },
            Mode::Lt => Node::Leq { feature, value: self.next_below(value), nan_is_true, to },
            // No value is greater than NaN, or less.
            Mode::Gt | Mode::Gte if value.is_nan() => Node::Leq { feature, value, nan_is_true, to },
            // A value that is not less than or equal is greater, or NaN.
            Mode::Gt => {
                Node::Leq { feature, value, nan_is_true: !nan_is_true, to: swap_branches(to) }
            }
            Mode::Gte => {
                let value = self.next_below(value);
                Node::Leq { feature, value, nan_is_true: !nan_is_true, to: swap_branches(to) }
            }
            Mode::Eq => self.equality_node(feature, value, nan_is_true, to),
            // NaN differs from every number, whatever the attribute specifies.
            Mode::Neq => self.equality_node(feature, value, false, swap_branches(to)),
        };
    }

    /// Adds a weight of leaf `at` for a result. Several weights for one result are aggregated.
    pub fn add_weight(&mut self, at: usize, target: usize, weight: f64) -> Result {
        let aggregate = self.aggregate;
        let Node::Leaf(weights) = &mut self.nodes[at] else {
            return Err(bad_attribute(format!("node {at} has a weight, but is no leaf")));
        };
        match weights.iter_mut().find(|(known, _)| *known == target) {
            Some((_, known)) => {
                *known = match aggregate {
                    Aggregate::Sum | Aggregate::Average => *known + weight,
                    Aggregate::Min => known.min(weight),
                    Aggregate::Max => known.max(weight),
                }
            }
            None => weights.push((target, weight)),
        }
        Ok(())
    }

    /// Expresses `x = v` as `x ≤ v` and not `x < v`. Adds a node and returns the first of the two.
    fn equality_node(
        &mut self,
        feature: u32,
        value: f64,
        nan_is_true: bool,
        [yes, no]: [usize; 2],
    ) -> Node {
        let value_below = self.next_below(value);
        let less = Node::Leq { feature, value: value_below, nan_is_true: false, to: [no, yes] };
        self.nodes.push(less);
        Node::Leq { feature, value, nan_is_true, to: [self.nodes.len() - 1, no] }
    }

    /// Makes node `at` a chain of equality tests, one for each of `values`.
    fn set_member_split(
        &mut self,
        at: usize,
        feature: u32,
        values: &[f64],
        nan_is_true: bool,
        [yes, no]: [usize; 2],
    ) {
        let mut at = at;
        for (i, &value) in values.iter().enumerate() {
            let otherwise = if i + 1 < values.len() {
                self.nodes.push(Node::Leaf(Vec::new()));
                self.nodes.len() - 1
            } else {
                no
            };
            // Only the first test decides the branch of NaN.
            self.nodes[at] =
                self.equality_node(feature, value, nan_is_true && i == 0, [yes, otherwise]);
            at = otherwise;
        }
        if values.is_empty() {
            self.nodes[at] = Node::Leq { feature, value: f64::NAN, nan_is_true, to: [yes, no] };
        }
    }

    /// The next smaller number, so that `x < v` is `x ≤ next_below(v)`; NaN if there is none.
    fn next_below(&self, value: f64) -> f64 {
        match self.dtype {
            _ if value == f64::NEG_INFINITY => f64::NAN,
            DType::F64 => value.next_down(),
            _ => f64::from((value as f32).next_down()),
        }
    }

    /// Builds the tables for `targets` results.
    pub fn tables(&self, targets: usize, budget: &Budget) -> Result<Tables> {
        let order = self.order_nodes()?;
        let single = self.single_targets(&order, targets);
        let mut weights = Weights::new(targets, self.aggregate);
        let (mut values, mut pairs) = (Vec::new(), Vec::new());
        for (row_index, &at) in order.nodes.iter().enumerate() {
            match &self.nodes[at] {
                Node::Leq { feature, value, nan_is_true, .. } => {
                    values.push(*value);
                    pairs.push(feature << 2 | u32::from(*nan_is_true) << 1 | 1);
                    pairs.push(to_u32(order.children[at])?);
                }
                Node::Leaf(leaf) => {
                    values.push(leaf.first().map_or(0.0, |(_, weight)| *weight));
                    let row = if single.is_some() {
                        row_index
                    } else {
                        weights.intern_row(leaf, budget)?
                    };
                    pairs.extend([0, to_u32(row)?]);
                }
            }
        }
        let mut trees = Vec::new();
        for tree in 0..self.roots.len() {
            let target = single.as_ref().map_or(0, |targets| targets[tree]);
            trees.extend([to_u32(tree)?, to_u32(target)?]);
        }
        Ok(Tables {
            values: Tensor::from_wide(self.dtype, &values),
            nodes: Tensor::from_places(&pairs),
            trees: Tensor::from_places(&trees),
            width: if single.is_some() { 1 } else { targets },
            weights: single.is_none().then(|| Tensor::from_wide(self.dtype, &weights.numbers)),
            features: self.features(),
        })
    }

    /// The result of each tree, if every leaf has exactly one weight and all leaves of a tree have
    /// it for the same result.
    fn single_targets(&self, order: &Order, targets: usize) -> Option<Vec<usize>> {
        let target = |leaves: &Vec<usize>| {
            let mut targets = leaves.iter().map(|&leaf| match &self.nodes[leaf] {
                Node::Leaf(weights) if weights.len() == 1 => Some(weights[0].0),
                Node::Leaf(_) | Node::Leq { .. } => None,
            });
            let first = targets.next()??;
            targets.all(|target| target == Some(first)).then_some(first)
        };
        let single = order.leaves.iter().map(target).collect::<Option<Vec<usize>>>();
        single.filter(|_| !order.shared || targets == 1)
    }

    /// The number of features that the splits read.
    fn features(&self) -> usize {
        let end = |node: &Node| match node {
            Node::Leq { feature, .. } => *feature as usize + 1,
            Node::Leaf(_) => 0,
        };
        self.nodes.iter().map(end).max().unwrap_or(0)
    }

    /// Orders the nodes for the tables: first the roots, then the pair of children of each split,
    /// in depth-first order. Returns an error if the nodes have a cycle.
    fn order_nodes(&self) -> Result<Order> {
        let mut order = Order {
            nodes: self.roots.clone(),
            children: vec![0; self.nodes.len()],
            leaves: Vec::new(),
            shared: false,
        };
        let mut seen = vec![Seen::Not; self.nodes.len()];
        for (tree, &root) in self.roots.iter().enumerate() {
            let mut leaves = Vec::new();
            // Each node on the path with the number of its children that were visited.
            let mut path = vec![(root, 0)];
            while let Some((at, visited)) = path.pop() {
                let next_nodes: &[usize] = match &self.nodes[at] {
                    Node::Leq { to, .. } => to,
                    Node::Leaf(_) => &[],
                };
                match (visited, seen[at]) {
                    (0, Seen::Open) => {
                        return Err(bad_attribute("the nodes of a tree form a cycle".into()));
                    }
                    (0, Seen::Done(by)) => {
                        order.shared |= by != tree;
                        continue;
                    }
                    (0, Seen::Not) if next_nodes.is_empty() => leaves.push(at),
                    (0, Seen::Not) => {
                        order.children[at] = order.nodes.len();
                        order.nodes.extend(next_nodes);
                    }
                    _ => {}
                }
                seen[at] = match next_nodes.get(visited) {
                    Some(&next) => {
                        path.extend([(at, visited + 1), (next, 0)]);
                        Seen::Open
                    }
                    None => Seen::Done(tree),
                };
            }
            order.leaves.push(leaves);
        }
        Ok(order)
    }
}

/// The order of the nodes in the tables.
struct Order {
    /// The node of each table row.
    nodes: Vec<usize>,
    /// For each split, the table row of its first child; the second follows it.
    children: Vec<usize>,
    /// The leaves of each tree that no earlier tree has.
    leaves: Vec<Vec<usize>>,
    /// Whether two trees share a node.
    shared: bool,
}

/// The state of a node during the depth-first traversal.
#[derive(Clone, Copy, PartialEq)]
enum Seen {
    Not,
    /// It is on the current path.
    Open,
    /// It and its descendants are ordered. The first tree that reached it.
    Done(usize),
}

/// The weights of leaves, a row for each leaf. Equal rows are stored once.
struct Weights {
    width: usize,
    /// The value of a result for which a leaf has no weight.
    absent: f64,
    rows: HashMap<Vec<u64>, usize>,
    numbers: Vec<f64>,
}

impl Weights {
    fn new(width: usize, aggregate: Aggregate) -> Weights {
        let absent = match aggregate {
            Aggregate::Sum | Aggregate::Average => 0.0,
            Aggregate::Min => f64::INFINITY,
            Aggregate::Max => f64::NEG_INFINITY,
        };
        Weights { width, absent, rows: HashMap::new(), numbers: Vec::new() }
    }

    /// Adds a row unless there is an equal one, and returns its index.
    fn intern_row(&mut self, weights: &[(usize, f64)], budget: &Budget) -> Result<usize> {
        let mut row = vec![self.absent; self.width];
        weights.iter().for_each(|&(target, weight)| row[target] = weight);
        let next = self.rows.len();
        let bits = row.iter().map(|weight| weight.to_bits()).collect();
        let index = *self.rows.entry(bits).or_insert(next);
        if index == next {
            // What the file does not say. A row that it says as a whole takes nothing.
            let added = self.width.saturating_sub(weights.len());
            budget.spend(Limit::ListElements, added, "results of leaves")?;
            self.numbers.extend(row);
        }
        Ok(index)
    }
}

fn swap_branches([yes, no]: [usize; 2]) -> [usize; 2] {
    [no, yes]
}

fn to_u32(n: usize) -> Result<u32> {
    u32::try_from(n)
        .map_err(|_| Diagnostic::new(Code::TooLarge, "the ensemble has more than 2³² nodes"))
}

fn bad_attribute(message: String) -> Diagnostic {
    Diagnostic::new(Code::BadAttribute, message)
}
