//! Selection of trainable variables, and their roles.

use super::glob;
use crate::{
    check,
    diag::{Code, Diagnostic, Diagnostics, quoted},
    dtype::{DType, F32_AND_F64},
    ir::{Attribute, Attributes, Graph, Node, NodeId, ValueId, is_differentiable},
    tensor::Tensor,
    ty::count,
};
use onnxc_proto::{GraphProto, TensorProto};
use std::collections::{HashMap, HashSet};

/// A tensor that training changes.
#[derive(Clone, Debug)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its type: `float` or `double`.
    pub dtype: DType,
    /// Its sizes.
    pub shape: Vec<usize>,
    /// The role, which determines the initialization.
    pub role: Role,
}

/// The role of a variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    /// The weights of a matrix product or convolution.
    Weight {
        /// The number of terms of each sum.
        fan_in: f64,
        /// The number of sums that each term is part of.
        fan_out: f64,
    },
    /// The weights of a recurrent operator, with the size of its state.
    Gate(f64),
    /// An embedding table.
    Table,
    /// A scale per element or channel.
    Scale,
    /// The slope of a `PRelu`.
    Slope,
    /// A bias.
    Bias,
    /// Anything else.
    Other,
}

/// Operators with constant operands that are not weights, and the first such input.
const FIXED: &[(&str, usize, usize)] = &[
    ("BatchNormalization", 3, 4),
    ("Clip", 1, 2),
    ("DequantizeLinear", 1, 2),
    ("Div", 1, 1),
    ("Dropout", 1, 2),
    ("GridSample", 1, 1),
    ("OneHot", 1, 2),
    ("Pad", 1, 3),
    ("Pow", 0, 1),
    ("QuantizeLinear", 1, 2),
    ("Range", 0, 2),
    ("Resize", 1, 3),
    ("STFT", 1, 3),
    ("Sub", 1, 1),
    ("Where", 0, 2),
];

/// Constants with an element of this magnitude are masks.
const MASK: f64 = 1e4;

/// Returns the dense initializers of types that optimizers support. One without a name has no uses.
pub fn candidates(graph: &GraphProto) -> Vec<&TensorProto> {
    let codes: Vec<i32> = F32_AND_F64.iter().map(|dtype| dtype.code()).collect();
    let named = graph.initializer.iter().filter(|tensor| !tensor.name().is_empty());
    named.filter(|tensor| codes.contains(&tensor.data_type())).collect()
}

/// Returns errors for patterns that match no trainable initializer.
pub fn unknown(patterns: &[String], graph: &GraphProto) -> Vec<Diagnostic> {
    let candidates = candidates(graph);
    let is_known = |pattern: &&String| candidates.iter().any(|t| glob::matches(pattern, t.name()));
    patterns.iter().filter(|pattern| !is_known(pattern)).map(|p| no_match(p, graph)).collect()
}

fn no_match(pattern: &str, graph: &GraphProto) -> Diagnostic {
    const MOST: usize = 20;
    let other = graph.initializer.iter().find(|tensor| glob::matches(pattern, tensor.name()));
    let place = format!("--trainable {pattern}");
    if let Some(other) = other {
        let ty = DType::from_code(other.data_type()).map_or("unknown".into(), |ty| ty.to_string());
        let name = quoted(other.name());
        let message = format!("{name} is of type {ty}; float and double can be trained");
        return Diagnostic::new(Code::BadOption, message).within(place);
    }
    let names: Vec<String> = candidates(graph).iter().map(|t| quoted(t.name())).collect();
    let diagnostic = Diagnostic::new(Code::BadOption, "the model has no initializer of that name");
    let diagnostic = diagnostic.within(place);
    match names.len() {
        0 => diagnostic.note("it has no initializers of type float or double"),
        n if n > MOST => {
            diagnostic.note(format!("it has {n}, such as {}", names[..MOST].join(", ")))
        }
        _ => diagnostic.note(format!("it has {}", names.join(", "))),
    }
}

/// A graph with a loss, and the candidates that it depends on.
pub struct Survey<'g> {
    graph: &'g Graph,
    /// The uses of each value, with the input that it is.
    uses: HashMap<ValueId, Vec<(NodeId, usize)>>,
    /// The values that the loss depends on.
    needed: HashSet<ValueId>,
    y: ValueId,
    names: Vec<String>,
    values: Vec<ValueId>,
}

impl<'g> Survey<'g> {
    /// Creates a survey of a graph whose last outputs are the loss, then the candidates called
    /// `names`.
    pub fn of(graph: &'g Graph, names: Vec<String>) -> Survey<'g> {
        let outputs = &graph[graph.body].outputs;
        let (outputs, values) = outputs.split_at(outputs.len() - names.len());
        let (y, values) = (*outputs.last().expect("the loss is an output"), values.to_vec());
        let (nodes, _) = graph.makers(&HashSet::new(), y);
        let mut needed: HashSet<ValueId> =
            nodes.iter().flat_map(|&id| graph[id].outputs.iter().flatten().copied()).collect();
        let regions = nodes.iter().flat_map(|&id| &graph[id].regions);
        for (_, node) in regions.flat_map(|&region| graph.walk(region)) {
            needed.extend(node.outputs.iter().flatten());
        }
        Survey { graph, uses: uses(graph), needed, y, names, values }
    }

    /// Returns the indices of the candidates that match the patterns; without patterns, all that
    /// look like weights.
    ///
    /// # Errors
    ///
    /// Returns an error for patterns that match no weight.
    pub fn chosen(&self, patterns: &[String]) -> std::result::Result<Vec<usize>, Diagnostics> {
        let all = || 0..self.names.len();
        if patterns.is_empty() {
            return Ok(all().filter(|&i| self.is_weight(i)).collect());
        }
        let fits = |pattern: &str, i: usize| {
            glob::matches(pattern, &self.names[i])
                && (glob::is_literal(pattern) || self.is_weight(i))
        };
        let empty = patterns.iter().filter(|pattern| !all().any(|i| fits(pattern, i)));
        let empty: Vec<Diagnostic> = empty.map(|pattern| no_weight(pattern)).collect();
        if !empty.is_empty() {
            return Err(Diagnostics(empty));
        }
        Ok(all().filter(|&i| patterns.iter().any(|pattern| fits(pattern, i))).collect())
    }

    /// Returns whether a candidate looks like a weight: it has axes, is not a mask, and the loss
    /// depends on it differentiably. A constant of equal elements that is not a factor is a mask
    /// that masks nothing.
    fn is_weight(&self, i: usize) -> bool {
        let id = self.values[i];
        let value = &self.graph[id];
        let has_axes = value.ty.as_tensor().is_some_and(|ty| ty.rank() > 0 && !ty.is_empty());
        if !has_axes || !self.counts(id) {
            return false;
        }
        let filled = |tensor| self.role(id, 0) == Role::Other && is_uniform(tensor);
        !value.constant.as_ref().is_some_and(|tensor| is_mask(tensor) || filled(tensor))
    }

    /// Returns whether the loss depends on a constant other than through fixed operands.
    fn counts(&self, constant: ValueId) -> bool {
        // The constant itself, and values computed from it.
        let (itself, made) = (true, false);
        let mut open = vec![(constant, itself)];
        let mut seen = HashSet::new();
        while let Some((value, is_itself)) = open.pop() {
            for &(id, input) in self.uses.get(&value).into_iter().flatten() {
                let node = &self.graph[id];
                if check::is_flat(node.op.name()) || is_itself && is_fixed(node, input) {
                    continue;
                }
                let still =
                    if is_itself && MOVING.contains(&node.op.name()) { itself } else { made };
                let counts = |output: &&ValueId| {
                    is_differentiable(&self.graph[**output].ty) && self.needed.contains(output)
                };
                for &output in node.outputs.iter().flatten().filter(counts) {
                    if output == self.y {
                        return true;
                    }
                    if seen.insert((output, still)) {
                        open.push((output, still));
                    }
                }
            }
        }
        false
    }

    /// Returns a candidate as a variable.
    pub fn variable(&self, i: usize) -> Option<Variable> {
        let id = self.values[i];
        let ty = self.graph[id].ty.as_tensor()?;
        let (name, shape) = (self.names[i].clone(), ty.known_shape()?);
        Some(Variable { name, dtype: ty.dtype, shape, role: self.role(id, 0) })
    }

    /// Returns the role of a value: that of its first use, with matrix products and convolutions
    /// before others.
    fn role(&self, value: ValueId, depth: usize) -> Role {
        // The most operators that move a weight before its use.
        const DEEPEST: usize = 16;
        let mut found = Role::Other;
        for &(id, input) in self.uses.get(&value).into_iter().flatten() {
            let node = &self.graph[id];
            let role = match node.op.name() {
                _ if depth > DEEPEST => Role::Other,
                name if MOVING.contains(&name) => {
                    node.output(0).map_or(Role::Other, |output| self.role(output, depth + 1))
                }
                _ => self.role_at(node, input, value),
            };
            if matches!(role, Role::Weight { .. }) {
                return role;
            }
            found = if found == Role::Other { role } else { found };
        }
        found
    }

    /// Returns the role of a value that is this input of a node.
    fn role_at(&self, node: &Node, input: usize, value: ValueId) -> Role {
        let shape = self.graph[value].ty.as_tensor().and_then(|ty| ty.known_shape());
        let Some(shape) = shape else { return Role::Other };
        let mut attributes = Attributes::default();
        node.op.attributes(&mut attributes);
        let is_set = |name: &str| attributes.get(name) == Some(&Attribute::Int(1));
        let area = |from: usize| count(shape.get(from..).unwrap_or_default()) as f64;
        match (node.op.name(), input) {
            ("Conv" | "ConvTranspose", 1) => {
                let outer = shape.first().map_or(1.0, |&size| size as f64);
                Role::Weight { fan_in: area(1), fan_out: outer * area(2) }
            }
            ("Gemm", 0) => matrix(&shape, !is_set("transA")),
            ("Gemm", 1) => matrix(&shape, is_set("transB")),
            ("MatMul", 0) => matrix(&shape, true),
            ("MatMul", 1) => matrix(&shape, false),
            ("GRU" | "LSTM" | "RNN", 1 | 2 | 7) => match attributes.get("hidden_size") {
                Some(Attribute::Int(size)) => Role::Gate(*size as f64),
                _ => Role::Gate(shape.last().map_or(1.0, |&size| size as f64)),
            },
            (name, 1) if name.ends_with("Normalization") => Role::Scale,
            ("Mul", _) => Role::Scale,
            ("PRelu", 1) => Role::Slope,
            ("Gather", 0) => Role::Table,
            ("Conv" | "ConvTranspose" | "Gemm", 2) | ("GRU" | "LSTM" | "RNN", 3) => Role::Bias,
            (name, 2) if name.ends_with("Normalization") => Role::Bias,
            ("Add" | "Sum", _) if shape.iter().filter(|&&size| size > 1).count() < 2 => Role::Bias,
            _ => Role::Other,
        }
    }
}

/// Operators that only move elements.
const MOVING: &[&str] = &[
    "Cast",
    "Concat",
    "Expand",
    "Flatten",
    "Identity",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
];

fn uses(graph: &Graph) -> HashMap<ValueId, Vec<(NodeId, usize)>> {
    let mut uses: HashMap<ValueId, Vec<(NodeId, usize)>> = HashMap::new();
    for (id, node) in graph.nodes() {
        let inputs = node.inputs.iter().enumerate();
        // The outputs of a region are outputs of its node.
        let given = node.regions.iter().flat_map(|&region| &graph[region].outputs);
        let used = inputs.filter_map(|(i, input)| Some((i, (*input)?)));
        for (i, value) in used.chain(given.map(|&output| (usize::MAX, output))) {
            uses.entry(value).or_default().push((id, i));
        }
    }
    uses
}

/// Returns the role of a matrix in which each row (or column) contributes to one sum.
fn matrix(shape: &[usize], by_rows: bool) -> Role {
    let columns = shape.last().map_or(1.0, |&size| size as f64);
    let rows = shape.iter().rev().nth(1);
    match (rows, by_rows) {
        (None, _) => Role::Weight { fan_in: columns, fan_out: 1.0 },
        (Some(&rows), true) => Role::Weight { fan_in: columns, fan_out: rows as f64 },
        (Some(&rows), false) => Role::Weight { fan_in: rows as f64, fan_out: columns },
    }
}

fn is_fixed(node: &Node, input: usize) -> bool {
    let is_it = |(op, from, to): &(&str, usize, usize)| {
        *op == node.op.name() && (*from..=*to).contains(&input)
    };
    FIXED.iter().any(is_it)
}

fn is_mask(tensor: &Tensor) -> bool {
    let is_large = |x: f64| !x.is_finite() || x.abs() >= MASK;
    let bytes = tensor.bytes();
    match tensor.dtype {
        DType::F64 => bytes.as_chunks().0.iter().any(|&x| is_large(f64::from_le_bytes(x))),
        _ => bytes.as_chunks().0.iter().any(|&x| is_large(f32::from_le_bytes(x).into())),
    }
}

fn is_uniform(tensor: &Tensor) -> bool {
    let mut elements = tensor.bytes().chunks_exact(tensor.dtype.bytes());
    let first = elements.next();
    elements.all(|element| Some(element) == first)
}

fn no_weight(pattern: &str) -> Diagnostic {
    let message = "no initializer that this stands for looks like a weight";
    Diagnostic::new(Code::BadOption, message)
        .within(format!("--trainable {pattern}"))
        .note(
            "a weight has axes, no elements of 10000 or more, and the loss depends on it, not only \
             as a constant of `Sub`, `Div`, `Pow` and the like or as statistics",
        )
        .help("name an initializer in full to have it trained nevertheless")
}
