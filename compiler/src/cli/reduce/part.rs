//! Cuts parts out of a model.

use super::super::compare::values::Values;
use onnxc::{check, import, tensor::Tensor};
use onnxc_proto::{
    GraphProto, ModelProto, TensorProto, ValueInfoProto,
    tensor_shape_proto::{Dimension, dimension},
    type_proto,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// An integer tensor of at most this many elements is likely a shape or a list of axes, which the
/// compiler must know.
const MOST_ELEMENTS: usize = 64;

/// The types of values, by name.
pub type Types = BTreeMap<String, ValueInfoProto>;

/// A model of which parts can be cut out: any nodes, in their order.
pub struct Whole {
    /// The model without nodes, initializers, inputs and outputs.
    empty: ModelProto,
    graph: GraphProto,
    types: Types,
    /// The names that each node uses, those of its subgraphs among them.
    used: Vec<Vec<String>>,
    /// The node that computes each value.
    made: HashMap<String, usize>,
    initializers: HashMap<String, usize>,
    /// The values of the model for one set of inputs.
    recorded: Values,
}

/// A part of a model.
pub struct Part {
    /// The model.
    pub model: ModelProto,
    /// The nodes, as indices of nodes of the whole.
    pub nodes: Vec<usize>,
    /// The names of its outputs.
    pub outputs: Vec<String>,
}

impl Whole {
    /// Prepares a model. `types` are those of its values, and `recorded` are values with which the
    /// inputs of a part are sized.
    pub fn new(mut model: ModelProto, mut types: Types, recorded: Values) -> Whole {
        model.training_info.clear();
        let graph = model.graph.take().unwrap_or_default();
        types.extend(types_in(&graph));
        let order = check::sort(&graph.node, |_| Vec::new()).indices;
        let mut graph = graph;
        graph.node = order.into_iter().map(|i| graph.node[i].clone()).collect();
        let used = graph.node.iter().map(|node| {
            let names: BTreeSet<&str> = check::used_values(node).into_iter().collect();
            names.into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect()
        });
        let used = used.collect();
        let nodes = graph.node.iter().enumerate();
        let made =
            nodes.flat_map(|(i, node)| node.output.iter().map(move |name| (name.clone(), i)));
        let made = made.filter(|(name, _)| !name.is_empty()).collect();
        let initializers = graph.initializer.iter().enumerate();
        let initializers = initializers.map(|(i, tensor)| (tensor.name().to_owned(), i)).collect();
        Whole { empty: model, graph, types, used, made, initializers, recorded }
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.graph.node.len()
    }

    /// Returns the part of these nodes, or `None` if the type of one of its inputs is unknown. Its
    /// outputs are `watched` values, those of the model, and those that other nodes use.
    pub fn part(&self, nodes: &[usize], watched: &[String]) -> Option<Part> {
        let kept: HashSet<usize> = nodes.iter().copied().collect();
        let others = (0..self.len()).filter(|i| !kept.contains(i));
        let used_outside: HashSet<&String> = others.flat_map(|i| &self.used[i]).collect();
        let of_model: HashSet<&str> = self.graph.output.iter().map(|o| o.name()).collect();
        let made = nodes.iter().flat_map(|&i| &self.graph.node[i].output);
        let made: Vec<&String> = made.filter(|name| !name.is_empty()).collect();
        let is_output = |name: &&&String| {
            used_outside.contains(*name)
                || of_model.contains(name.as_str())
                || watched.contains(name)
        };
        let mut outputs: Vec<String> = made.iter().filter(is_output).map(|&n| n.clone()).collect();
        if outputs.is_empty() {
            outputs = made.last().map(|&name| name.clone()).into_iter().collect();
        }
        self.with_outputs(nodes.to_vec(), outputs)
    }

    /// Returns the nodes of a part that one of its outputs needs, with that output only.
    pub fn with_output(&self, part: &Part, output: &str) -> Option<Part> {
        let kept: HashSet<usize> = part.nodes.iter().copied().collect();
        let (mut needed, mut open) = (BTreeSet::new(), vec![output]);
        while let Some(name) = open.pop() {
            let node = self.made.get(name).filter(|node| kept.contains(*node));
            if let Some(&node) = node.filter(|&&node| needed.insert(node)) {
                open.extend(self.used[node].iter().map(String::as_str));
            }
        }
        self.with_outputs(needed.into_iter().collect(), vec![output.to_owned()])
    }

    fn with_outputs(&self, nodes: Vec<usize>, outputs: Vec<String>) -> Option<Part> {
        let kept: HashSet<usize> = nodes.iter().copied().collect();
        let mut graph = GraphProto { name: self.graph.name.clone(), ..GraphProto::default() };
        let mut seen = HashSet::new();
        for name in nodes.iter().flat_map(|&i| &self.used[i]) {
            let is_made_here = self.made.get(name).is_some_and(|node| kept.contains(node));
            if !is_made_here && seen.insert(name) {
                self.add_operand(&mut graph, name)?;
            }
        }
        graph.node = nodes.iter().map(|&i| self.graph.node[i].clone()).collect();
        graph.output = outputs.iter().map(|name| self.typed_or_named(name)).collect();
        let model = ModelProto { graph: Some(graph), ..self.empty.clone() };
        Some(Part { model, nodes, outputs })
    }

    /// Adds a value that a node uses and no node computes: a constant, or an input.
    fn add_operand(&self, to: &mut GraphProto, name: &str) -> Option<()> {
        if let Some(&constant) = self.initializers.get(name) {
            to.initializer.push(self.graph.initializer[constant].clone());
        }
        let sparse = self.graph.sparse_initializer.iter();
        let mut sparse = sparse.filter(|s| s.values.as_ref().is_some_and(|v| v.name() == name));
        to.sparse_initializer.extend(sparse.next().cloned());
        if self.graph.input.iter().any(|input| input.name() == name) {
            to.input.push(self.typed(name)?);
        } else if self.made.contains_key(name) {
            match self.recorded.get(name).and_then(|tensor| as_sizes(tensor, name)) {
                Some(sizes) => to.initializer.push(sizes),
                None => to.input.push(self.typed(name)?),
            }
        }
        Some(())
    }

    fn typed_or_named(&self, name: &str) -> ValueInfoProto {
        let info = ValueInfoProto { name: Some(name.to_owned()), ..ValueInfoProto::default() };
        self.typed(name).unwrap_or(info)
    }

    /// Returns the type of a value, with the sizes of the recorded one.
    fn typed(&self, name: &str) -> Option<ValueInfoProto> {
        let mut info = self.types.get(name)?.clone();
        let Some(recorded) = self.recorded.get(name) else { return Some(info) };
        if let Some(type_proto::Value::TensorType(ty)) =
            info.r#type.as_mut().and_then(|ty| ty.value.as_mut())
        {
            let size = |&size: &usize| Dimension {
                value: i64::try_from(size).ok().map(dimension::Value::DimValue),
                ..Dimension::default()
            };
            ty.shape.get_or_insert_default().dim = recorded.shape.iter().map(size).collect();
        }
        Some(info)
    }
}

/// Returns the types that a graph states.
pub fn types_in(graph: &GraphProto) -> Types {
    let infos = graph.value_info.iter().chain(&graph.input).chain(&graph.output);
    let typed = infos.filter(|info| info.r#type.is_some());
    typed.map(|info| (info.name().to_owned(), info.clone())).collect()
}

/// Returns a short list of integers as a constant.
fn as_sizes(tensor: &Tensor, name: &str) -> Option<TensorProto> {
    let is_list = tensor.shape.len() <= 1 && tensor.len() <= MOST_ELEMENTS;
    (is_list && tensor.ints().is_some()).then(|| import::proto(tensor, name))
}
