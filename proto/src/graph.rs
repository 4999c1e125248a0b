//! Graphs, their nodes and values.

use crate::{
    AttributeProto, NodeDeviceConfigurationProto, SparseTensorProto, StringStringEntryProto,
    TensorProto, TypeProto,
};

/// A graph: nodes in topological order over named values.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GraphProto {
    /// The nodes in topological order.
    #[prost(message, repeated, tag = "1")]
    pub node: Vec<NodeProto>,
    /// The name of the graph.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// Constants by name; one with the name of an input is that input's default.
    #[prost(message, repeated, tag = "5")]
    pub initializer: Vec<TensorProto>,
    /// Sparse constants, named by their `values`.
    #[prost(message, repeated, tag = "15")]
    pub sparse_initializer: Vec<SparseTensorProto>,
    /// Documentation for people, possibly in Markdown.
    #[prost(string, optional, tag = "10")]
    pub doc_string: Option<String>,
    /// The inputs, with types.
    #[prost(message, repeated, tag = "11")]
    pub input: Vec<ValueInfoProto>,
    /// The outputs, with types.
    #[prost(message, repeated, tag = "12")]
    pub output: Vec<ValueInfoProto>,
    /// The types of values between nodes, where the producer knew them.
    #[prost(message, repeated, tag = "13")]
    pub value_info: Vec<ValueInfoProto>,
    /// The quantization parameters of values.
    #[prost(message, repeated, tag = "14")]
    pub quantization_annotation: Vec<TensorAnnotation>,
    /// Metadata of the graph: named text with distinct keys.
    #[prost(message, repeated, tag = "16")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

/// One application of an operator or a function.
#[derive(Clone, PartialEq, prost::Message)]
pub struct NodeProto {
    /// The names of the inputs; an empty name is an omitted optional input.
    #[prost(string, repeated, tag = "1")]
    pub input: Vec<String>,
    /// The names of the outputs; an empty name is an omitted output.
    #[prost(string, repeated, tag = "2")]
    pub output: Vec<String>,
    /// The name of the node, for people.
    #[prost(string, optional, tag = "3")]
    pub name: Option<String>,
    /// The name of the operator or function.
    #[prost(string, optional, tag = "4")]
    pub op_type: Option<String>,
    /// The domain of the operator; absent or empty means `ai.onnx`.
    #[prost(string, optional, tag = "7")]
    pub domain: Option<String>,
    /// The overload of the function.
    #[prost(string, optional, tag = "8")]
    pub overload: Option<String>,
    /// The attributes, in any order.
    #[prost(message, repeated, tag = "5")]
    pub attribute: Vec<AttributeProto>,
    /// Documentation for people, possibly in Markdown.
    #[prost(string, optional, tag = "6")]
    pub doc_string: Option<String>,
    /// Metadata of the node: named text with distinct keys.
    #[prost(message, repeated, tag = "9")]
    pub metadata_props: Vec<StringStringEntryProto>,
    /// The distribution of the node over devices, for each configuration of the model.
    #[prost(message, repeated, tag = "10")]
    pub device_configurations: Vec<NodeDeviceConfigurationProto>,
}

/// A named value and its type.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct ValueInfoProto {
    /// The name of the value.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// The type; may be absent only where it can be inferred.
    #[prost(message, optional, tag = "2")]
    pub r#type: Option<TypeProto>,
    /// Documentation for people, possibly in Markdown.
    #[prost(string, optional, tag = "3")]
    pub doc_string: Option<String>,
    /// Metadata of the value: named text with distinct keys.
    #[prost(message, repeated, tag = "4")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

/// The quantization parameters of one value.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct TensorAnnotation {
    /// The name of the value.
    #[prost(string, optional, tag = "1")]
    pub tensor_name: Option<String>,
    /// The name of the tensor for each parameter, such as `SCALE_TENSOR`.
    #[prost(message, repeated, tag = "2")]
    pub quant_parameter_tensor_names: Vec<StringStringEntryProto>,
}
