//! Attribute types and their names.

use onnxc_proto::attribute_proto::AttributeType;

/// Attribute types with their names.
const KINDS: &[(AttributeType, &str)] = &[
    (AttributeType::Float, "float"),
    (AttributeType::Floats, "floats"),
    (AttributeType::Graph, "graph"),
    (AttributeType::Graphs, "graphs"),
    (AttributeType::Int, "int"),
    (AttributeType::Ints, "ints"),
    (AttributeType::SparseTensor, "sparse_tensor"),
    (AttributeType::SparseTensors, "sparse_tensors"),
    (AttributeType::String, "string"),
    (AttributeType::Strings, "strings"),
    (AttributeType::Tensor, "tensor"),
    (AttributeType::Tensors, "tensors"),
    (AttributeType::TypeProto, "type_proto"),
    (AttributeType::TypeProtos, "type_protos"),
];

/// Returns the name of an attribute type, for messages.
pub(super) fn kind_text(kind: AttributeType) -> &'static str {
    KINDS.iter().find(|(found, _)| *found == kind).map_or("of no type", |(_, name)| *name)
}

/// Returns the attribute type of a name.
pub(super) fn kind_of(text: &str) -> Option<AttributeType> {
    KINDS.iter().find(|(_, name)| *name == text).map(|(kind, _)| *kind)
}
