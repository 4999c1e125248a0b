//! Converts attributes between messages and [`Attribute`].

use super::{
    context::{Given, GraphBuilder},
    settings::Settings,
    tensor::{self, sparse, tensor},
    types::{self, Dimensions},
};
use crate::{
    check::attribute_kind,
    diag::{Code, Diagnostic, Result, quoted},
    ir::Attribute,
};
use onnxc_proto::{AttributeProto, Bytes, GraphProto, attribute_proto::AttributeType};
use std::collections::BTreeMap;

/// A subgraph, and the name of the attribute that holds it.
pub(super) type Subgraph<'n> = (&'n str, &'n GraphProto);

impl GraphBuilder<'_> {
    /// Returns the attributes of a node by name, and its subgraphs.
    pub(super) fn read_attributes<'n>(
        &self,
        attributes: &[Given<'n>],
    ) -> Result<(BTreeMap<String, Attribute>, Vec<Subgraph<'n>>)> {
        let mut graphs = Vec::new();
        let mut typed = BTreeMap::new();
        for &Given { name, value } in attributes {
            let at = || format!("attribute {}", quoted(name));
            let value = self.attribute(name, value, &mut graphs).map_err(|f| f.within(at()))?;
            typed.insert(name.to_owned(), value);
        }
        Ok((typed, graphs))
    }

    fn attribute<'n>(
        &self,
        name: &'n str,
        proto: &'n AttributeProto,
        graphs: &mut Vec<Subgraph<'n>>,
    ) -> Result<Attribute> {
        let missing = || Diagnostic::new(Code::MissingField, "the attribute has no value");
        let mut graph = |proto: &'n GraphProto| {
            graphs.push((name, proto));
            graphs.len() - 1
        };
        // This type belongs to no input, so its dimensions get no names.
        let ty = |proto| types::ty(proto, "type", &mut Dimensions::new(&Settings::default()));
        Ok(match attribute_kind(proto) {
            AttributeType::Float => Attribute::Float(proto.f()),
            AttributeType::Int => Attribute::Int(proto.i()),
            AttributeType::String => Attribute::String(proto.s().to_vec()),
            AttributeType::Tensor => {
                Attribute::Tensor(tensor(proto.t.as_deref().ok_or_else(missing)?, &self.files)?)
            }
            AttributeType::Graph => {
                Attribute::Graph(graph(proto.g.as_deref().ok_or_else(missing)?))
            }
            AttributeType::SparseTensor => {
                let proto = proto.sparse_tensor.as_deref().ok_or_else(missing)?;
                Attribute::Tensor(sparse(proto, &self.files, &self.graph.budget)?)
            }
            AttributeType::TypeProto => {
                Attribute::Type(ty(proto.tp.as_deref().ok_or_else(missing)?)?)
            }
            AttributeType::Floats => Attribute::Floats(proto.floats.clone()),
            AttributeType::Ints => Attribute::Ints(proto.ints.clone()),
            AttributeType::Strings => {
                Attribute::Strings(proto.strings.iter().map(|s| s.to_vec()).collect())
            }
            AttributeType::Tensors => {
                let tensors = proto.tensors.iter().map(|proto| tensor(proto, &self.files));
                Attribute::Tensors(tensors.collect::<Result<_>>()?)
            }
            AttributeType::Graphs => Attribute::Graphs(proto.graphs.iter().map(graph).collect()),
            AttributeType::SparseTensors => {
                let (files, budget) = (&self.files, &self.graph.budget);
                let tensors = proto.sparse_tensors.iter().map(|proto| sparse(proto, files, budget));
                Attribute::Tensors(tensors.collect::<Result<_>>()?)
            }
            AttributeType::TypeProtos => {
                Attribute::Types(proto.type_protos.iter().map(ty).collect::<Result<_>>()?)
            }
            AttributeType::Undefined => return Err(missing()),
        })
    }
}

/// Converts an attribute to a message. `graph` returns the subgraph of a region.
pub fn proto(
    name: &str,
    value: &Attribute,
    graph: &mut dyn FnMut(usize) -> GraphProto,
) -> AttributeProto {
    let mut proto = AttributeProto { name: Some(name.to_owned()), ..Default::default() };
    let kind = set_value(&mut proto, value, graph);
    proto.r#type = Some(kind.into());
    proto
}

/// Sets the field that holds a value, and returns the type of the attribute.
fn set_value(
    proto: &mut AttributeProto,
    value: &Attribute,
    graph: &mut dyn FnMut(usize) -> GraphProto,
) -> AttributeType {
    let bytes = |text: &[u8]| Bytes::copy_from_slice(text);
    let ty = |ty| types::proto(ty, &|_| None);
    match value {
        Attribute::Float(x) => {
            proto.f = Some(*x);
            AttributeType::Float
        }
        Attribute::Int(x) => {
            proto.i = Some(*x);
            AttributeType::Int
        }
        Attribute::String(x) => {
            proto.s = Some(bytes(x));
            AttributeType::String
        }
        Attribute::Tensor(x) => {
            proto.t = Some(Box::new(tensor::proto(x, "")));
            AttributeType::Tensor
        }
        Attribute::Type(x) => {
            proto.tp = ty(x).map(Box::new);
            AttributeType::TypeProto
        }
        Attribute::Floats(x) => {
            proto.floats.clone_from(x);
            AttributeType::Floats
        }
        Attribute::Ints(x) => {
            proto.ints.clone_from(x);
            AttributeType::Ints
        }
        Attribute::Strings(x) => {
            proto.strings = x.iter().map(|text| bytes(text)).collect();
            AttributeType::Strings
        }
        Attribute::Tensors(x) => {
            proto.tensors = x.iter().map(|x| tensor::proto(x, "")).collect();
            AttributeType::Tensors
        }
        Attribute::Types(x) => {
            proto.type_protos = x.iter().filter_map(ty).collect();
            AttributeType::TypeProtos
        }
        Attribute::Sparse(values, indices, ty) => {
            proto.sparse_tensor = Some(Box::new(tensor::sparse_proto(values, indices, ty)));
            AttributeType::SparseTensor
        }
        Attribute::Graph(i) => {
            proto.g = Some(Box::new(graph(*i)));
            AttributeType::Graph
        }
        Attribute::Graphs(x) => {
            proto.graphs = x.iter().map(|&i| graph(i)).collect();
            AttributeType::Graphs
        }
    }
}
