//! Common-subexpression elimination: which nodes compute the same.

use super::{Attribute, Attributes, Graph, Node, NodeId, ValueId};
use crate::tensor::{Data, Tensor};
use std::{
    collections::HashMap,
    fmt::{self, Write as _},
    hash::{DefaultHasher, Hash, Hasher},
};

/// The nodes so far of each open region, by the hash of their key. A key is recomputed where it is
/// compared: stored keys would lie between the nodes of the graph, and leave its memory in pieces
/// when they are freed.
#[derive(Default)]
pub(super) struct Seen(Vec<HashMap<u64, NodeId>>);

impl Seen {
    /// Opens a region inside the one that is open.
    pub fn open(&mut self) {
        self.0.push(HashMap::new());
    }

    /// Forgets the nodes of the innermost region.
    pub fn close(&mut self) {
        self.0.pop();
    }

    /// Returns the node of an open region that has this key.
    pub fn find(&self, graph: &Graph, wanted: &str) -> Option<NodeId> {
        let hash = hash(wanted);
        let mut nodes = self.0.iter().filter_map(|region| region.get(&hash).copied());
        nodes.find(|&id| key(graph, &graph[id]).as_deref() == Some(wanted))
    }

    /// Adds a node of the innermost region.
    pub fn insert(&mut self, key: &str, node: NodeId) {
        if let Some(region) = self.0.last_mut() {
            region.insert(hash(key), node);
        }
    }
}

fn hash(key: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

/// Returns a key that nodes share if they compute the same; `None` if they may not, for example
/// because they are random.
pub(super) fn key(graph: &Graph, node: &Node) -> Option<String> {
    if !node.regions.is_empty() || node.op.is_random() {
        return None;
    }
    let mut attributes = Attributes::default();
    node.op.attributes(&mut attributes);
    let mut key = String::with_capacity(64);
    write!(key, "{}.{}", node.op.domain(), node.op.name()).ok()?;
    for (name, value) in &attributes.0 {
        write!(key, " {name} = ").ok()?;
        write_attribute(&mut key, value).ok()?;
    }
    for &input in &node.inputs {
        key.push(' ');
        write_input(&mut key, graph, input).ok()?;
    }
    key.extend(node.outputs.iter().map(|id| if id.is_some() { 'y' } else { '-' }));
    Some(key)
}

/// Writes an attribute. Its text leaves out elements of tensors and bytes that are not UTF-8.
fn write_attribute(key: &mut String, value: &Attribute) -> fmt::Result {
    let string = |key: &mut String, bytes: &[u8]| write!(key, "\"{}\"", bytes.escape_ascii());
    match value {
        Attribute::Tensor(tensor) => write_tensor(key, tensor),
        Attribute::Tensors(tensors) => {
            tensors.iter().try_for_each(|tensor| write_tensor(key, tensor))
        }
        Attribute::Sparse(values, indices, ty) => {
            write_tensor(key, values)?;
            write_tensor(key, indices)?;
            write!(key, "{ty}")
        }
        Attribute::String(bytes) => string(key, bytes),
        Attribute::Strings(list) => list.iter().try_for_each(|bytes| string(key, bytes)),
        Attribute::Float(_)
        | Attribute::Int(_)
        | Attribute::Type(_)
        | Attribute::Floats(_)
        | Attribute::Ints(_)
        | Attribute::Types(_)
        | Attribute::Graph(_)
        | Attribute::Graphs(_) => write!(key, "{value}"),
    }
}

/// Writes a tensor of any type.
fn write_tensor(key: &mut String, tensor: &Tensor) -> fmt::Result {
    match tensor.strings() {
        Some(strings) => write!(key, "{:?}{strings:?}", tensor.shape),
        None => write_constant(key, tensor),
    }
}

/// Writes the key of an input: equal constants have equal keys.
fn write_input(key: &mut String, graph: &Graph, input: Option<ValueId>) -> fmt::Result {
    let constant = input.and_then(|id| graph[id].constant.as_ref());
    match (constant.filter(|tensor| is_compared(tensor)), input) {
        (Some(tensor), _) => write_constant(key, tensor),
        (None, Some(id)) => write!(key, "{id}"),
        (None, None) => key.write_char('-'),
    }
}

/// Returns the key of a constant; `None` if constants of its kind are not compared.
pub(crate) fn of_constant(tensor: &Tensor) -> Option<String> {
    let mut key = String::new();
    write_constant(&mut key, tensor).ok().filter(|()| is_compared(tensor)).map(|()| key)
}

fn is_compared(tensor: &Tensor) -> bool {
    matches!(tensor.data, Data::Bytes(_))
}

fn write_constant(key: &mut String, tensor: &Tensor) -> fmt::Result {
    /// Constants of more bytes are equal only if they share their memory.
    const SMALL: usize = 256;
    let Tensor { dtype, shape, data: Data::Bytes(bytes) } = tensor else { return Ok(()) };
    write!(key, "{dtype}{shape:?}")?;
    match bytes.len() {
        0..=SMALL => {
            let digit = |digit: u8| char::from(b"0123456789abcdef"[usize::from(digit)]);
            key.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
            Ok(())
        }
        len => write!(key, "{:p}+{len}", bytes.as_ptr()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Spec, dtype::DType, ty::Type};

    #[test]
    fn nodes_with_other_attributes_have_other_keys() {
        let mut graph = Graph::named("two");
        let x = graph.input(graph.body, "x", Type::tensor(DType::I64, [1]));
        let key_of = |graph: &mut Graph, attribute: Attribute| {
            let spec = Spec::new("ConstantOfShape").called("y").inputs([x]);
            let y = spec.attribute("value", attribute).one(graph);
            let y = y.expect("the value has one element");
            key(graph, graph.producer(y).expect("a node computes it"))
                .expect("the operator has no random numbers")
        };
        let [a, b, again] = [1 << 53, (1 << 53) + 1, 1 << 53]
            .map(|number| key_of(&mut graph, Tensor::from_ints(&[number]).into()));
        assert!(a != b && a == again, "{a}");
        let text = |attribute: Attribute| {
            let mut text = String::new();
            write_attribute(&mut text, &attribute).expect("a string takes any text");
            text
        };
        let long =
            |last: f32| text(Tensor::from_floats(&[[0.0; 16].as_slice(), &[last]].concat()).into());
        assert_ne!(long(1.0), long(2.0));
        let names = |last: &str| {
            let names = (0..20).map(|i| if i < 19 { "a".to_owned() } else { last.to_owned() });
            text(Tensor::from_strings(names.collect()).into())
        };
        assert_ne!(names("b"), names("c"));
        assert_ne!(text(Attribute::String(vec![0xff])), text(Attribute::String(vec![0xfe])));
    }

    #[test]
    fn a_node_is_found_by_its_own_key_only() {
        let mut graph = Graph::named("two");
        let x = graph.input(graph.body, "x", Type::tensor(DType::F32, [2]));
        for op in ["Relu", "Exp"] {
            Spec::new(op)
                .called(op)
                .inputs([x])
                .one(&mut graph)
                .expect("the operator takes floats");
        }
        let [relu, exp] = [0, 1].map(|i| {
            let (id, node) = graph.nodes().nth(i).expect("the graph has two nodes");
            (id, key(&graph, node).expect("the operator has no random numbers"))
        });
        let mut seen = Seen::default();
        seen.open();
        seen.insert(&relu.1, relu.0);
        // As if both keys had the same hash.
        seen.insert(&exp.1, relu.0);
        seen.open();
        assert_eq!(seen.find(&graph, &relu.1), Some(relu.0));
        assert_eq!(seen.find(&graph, &exp.1), None);
        seen.close();
        seen.close();
        assert_eq!(seen.find(&graph, &relu.1), None);
    }
}
