//! The tables of an ensemble of trees: files say trees in many ways, the kernels know one.

use crate::{
    diag::{Code, Diagnostic, Result},
    dtype::DType,
    tensor::Tensor,
};
use std::collections::HashMap;

/// How a split compares.
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
    /// `x` is one of these
    Member(Vec<f64>),
}

/// A split as a file says it.
pub struct Split {
    /// The feature that is compared.
    pub feature: u32,
    /// How it is compared.
    pub mode: Mode,
    /// What it is compared with.
    pub value: f64,
    /// Whether NaN counts as yes.
    pub nan_is_yes: bool,
    /// Where to go on, for yes and for no.
    pub to: [usize; 2],
}

/// A node as the kernels know it.
#[derive(Clone)]
enum Node {
    /// `x[feature] ≤ value`
    Leq { feature: u32, value: f64, nan_is_yes: bool, to: [usize; 2] },
    /// What the trees that end here add to the results.
    Leaf(Vec<(usize, f64)>),
}

/// How the weights of several leaves become one.
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

/// An ensemble in the making. Nodes are named by their places.
pub struct Ensemble {
    dtype: DType,
    aggregate: Aggregate,
    nodes: Vec<Node>,
    /// The first node of each tree.
    pub roots: Vec<usize>,
}

/// An ensemble as the kernels read it.
pub struct Tables {
    /// The number of each node.
    pub values: Tensor,
    /// A pair for each node.
    pub nodes: Tensor,
    /// A pair for each tree.
    pub trees: Tensor,
    /// The weights of the leaves; absent where they stand in `values`.
    pub weights: Option<Tensor>,
    /// The number of results that a leaf has weights for.
    pub width: usize,
    /// The number of features that the splits look at.
    pub features: usize,
}

impl Ensemble {
    /// An ensemble of so many nodes over features of `dtype`, each a leaf without weights.
    pub fn new(dtype: DType, aggregate: Aggregate, nodes: usize) -> Ensemble {
        let nodes = vec![Node::Leaf(Vec::new()); nodes];
        Ensemble { dtype, aggregate, nodes, roots: Vec::new() }
    }

    /// Makes node `at` a split.
    pub fn split(&mut self, at: usize, split: Split) {
        let Split { feature, mode, value, nan_is_yes, to } = split;
        self.nodes[at] = match mode {
            Mode::Member(values) => return self.member(at, feature, &values, nan_is_yes, to),
            Mode::Leq => Node::Leq { feature, value, nan_is_yes, to },
            Mode::Lt => Node::Leq { feature, value: self.below(value), nan_is_yes, to },
            // What is not less or equal is greater, or NaN.
            Mode::Gt => Node::Leq { feature, value, nan_is_yes: !nan_is_yes, to: turned(to) },
            Mode::Gte => {
                let value = self.below(value);
                Node::Leq { feature, value, nan_is_yes: !nan_is_yes, to: turned(to) }
            }
            Mode::Eq => self.equal(feature, value, nan_is_yes, to),
            // NaN differs from every number, whatever is said of it.
            Mode::Neq => self.equal(feature, value, false, turned(to)),
        };
    }

    /// Adds a weight to what leaf `at` says of a result.
    pub fn weigh(&mut self, at: usize, target: usize, weight: f64) -> Result {
        let aggregate = self.aggregate;
        let Node::Leaf(weights) = &mut self.nodes[at] else {
            return Err(bad(format!("node {at} has a weight, but is no leaf")));
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

    /// `x = v` where `x ≤ v`, but `x` is not less.
    fn equal(&mut self, feature: u32, value: f64, nan_is_yes: bool, [yes, no]: [usize; 2]) -> Node {
        let value_below = self.below(value);
        let less = Node::Leq { feature, value: value_below, nan_is_yes: false, to: [no, yes] };
        self.nodes.push(less);
        Node::Leq { feature, value, nan_is_yes, to: [self.nodes.len() - 1, no] }
    }

    /// `x` is one of several where it equals one after another.
    fn member(
        &mut self,
        at: usize,
        feature: u32,
        values: &[f64],
        nan_is_yes: bool,
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
            // The first question settles what NaN counts as.
            self.nodes[at] = self.equal(feature, value, nan_is_yes && i == 0, [yes, otherwise]);
            at = otherwise;
        }
        if values.is_empty() {
            self.nodes[at] = Node::Leq { feature, value: f64::NAN, nan_is_yes, to: [yes, no] };
        }
    }

    /// The next number below, so that `x < v` is `x ≤ below(v)`: NaN where there is none.
    fn below(&self, value: f64) -> f64 {
        match self.dtype {
            _ if value == f64::NEG_INFINITY => f64::NAN,
            DType::F64 => value.next_down(),
            _ => f64::from((value as f32).next_down()),
        }
    }

    /// The tables for so many results.
    pub fn tables(&self, targets: usize) -> Result<Tables> {
        let order = self.order()?;
        let single = self.single(&order, targets);
        let mut weights = Weights::new(targets, self.aggregate);
        let (mut values, mut pairs) = (Vec::new(), Vec::new());
        for (place, &at) in order.nodes.iter().enumerate() {
            match &self.nodes[at] {
                Node::Leq { feature, value, nan_is_yes, .. } => {
                    values.push(*value);
                    pairs.push(feature << 2 | u32::from(*nan_is_yes) << 1 | 1);
                    pairs.push(number(order.children[at])?);
                }
                Node::Leaf(said) => {
                    values.push(said.first().map_or(0.0, |(_, weight)| *weight));
                    let row = if single.is_some() { place } else { weights.row(said) };
                    pairs.extend([0, number(row)?]);
                }
            }
        }
        let mut trees = Vec::new();
        for tree in 0..self.roots.len() {
            let target = single.as_ref().map_or(0, |targets| targets[tree]);
            trees.extend([number(tree)?, number(target)?]);
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

    /// The result of each tree, where each of its leaves has one weight, and for the same result.
    fn single(&self, order: &Order, targets: usize) -> Option<Vec<usize>> {
        let target = |leaves: &Vec<usize>| {
            let mut found = leaves.iter().map(|&leaf| match &self.nodes[leaf] {
                Node::Leaf(weights) if weights.len() == 1 => Some(weights[0].0),
                Node::Leaf(_) | Node::Leq { .. } => None,
            });
            let first = found.next()??;
            found.all(|target| target == Some(first)).then_some(first)
        };
        let found = order.leaves.iter().map(target).collect::<Option<Vec<usize>>>();
        found.filter(|_| !order.shared || targets == 1)
    }

    /// The number of features that the splits look at.
    fn features(&self) -> usize {
        let looked_at = |node: &Node| match node {
            Node::Leq { feature, .. } => *feature as usize + 1,
            Node::Leaf(_) => 0,
        };
        self.nodes.iter().map(looked_at).max().unwrap_or(0)
    }

    /// Where each node goes: first the roots, then the pairs that splits lead to, each behind the
    /// split.
    fn order(&self) -> Result<Order> {
        let mut order = Order {
            nodes: self.roots.clone(),
            children: vec![0; self.nodes.len()],
            leaves: Vec::new(),
            shared: false,
        };
        let mut seen = vec![Seen::Not; self.nodes.len()];
        for (tree, &root) in self.roots.iter().enumerate() {
            let mut leaves = Vec::new();
            // Each node on the path with the number of its ways that were gone.
            let mut path = vec![(root, 0)];
            while let Some((at, gone)) = path.pop() {
                let ways: &[usize] = match &self.nodes[at] {
                    Node::Leq { to, .. } => to,
                    Node::Leaf(_) => &[],
                };
                match (gone, seen[at]) {
                    (0, Seen::Open) => {
                        return Err(bad("a node of the trees leads back to itself".into()));
                    }
                    (0, Seen::Done(by)) => {
                        order.shared |= by != tree;
                        continue;
                    }
                    (0, Seen::Not) if ways.is_empty() => leaves.push(at),
                    (0, Seen::Not) => {
                        order.children[at] = order.nodes.len();
                        order.nodes.extend(ways);
                    }
                    _ => {}
                }
                seen[at] = match ways.get(gone) {
                    Some(&next) => {
                        path.extend([(at, gone + 1), (next, 0)]);
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

/// Where the nodes of an ensemble go.
struct Order {
    /// The node at each place.
    nodes: Vec<usize>,
    /// The place of the pair that each split leads to.
    children: Vec<usize>,
    /// The leaves of each tree that no tree before it has.
    leaves: Vec<Vec<usize>>,
    /// Whether a node belongs to two trees.
    shared: bool,
}

/// What is known of a node while the trees are walked through.
#[derive(Clone, Copy, PartialEq)]
enum Seen {
    Not,
    /// The path to here leads through it.
    Open,
    /// It and all behind it have their places; that tree was the first to reach it.
    Done(usize),
}

/// The weights of leaves, a row for each; equal rows are one.
struct Weights {
    width: usize,
    /// What a result has that a leaf has no weight for.
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

    fn row(&mut self, said: &[(usize, f64)]) -> usize {
        let mut row = vec![self.absent; self.width];
        said.iter().for_each(|&(target, weight)| row[target] = weight);
        let next = self.rows.len();
        let bits = row.iter().map(|weight| weight.to_bits()).collect();
        let place = *self.rows.entry(bits).or_insert(next);
        if place == next {
            self.numbers.extend(row);
        }
        place
    }
}

fn turned([yes, no]: [usize; 2]) -> [usize; 2] {
    [no, yes]
}

fn number(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| {
        Diagnostic::new(Code::TooLarge, "the ensemble has more nodes than 32 bits can number")
    })
}

fn bad(message: String) -> Diagnostic {
    Diagnostic::new(Code::BadAttribute, message)
}
