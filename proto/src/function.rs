//! Functions of a model.

use crate::{
    AttributeProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, ValueInfoProto,
};

/// A function that nodes call like an operator; a compiler may inline it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FunctionProto {
    /// The name that nodes give as `op_type`.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// The names of the inputs.
    #[prost(string, repeated, tag = "4")]
    pub input: Vec<String>,
    /// The names of the outputs.
    #[prost(string, repeated, tag = "5")]
    pub output: Vec<String>,
    /// The attributes without a default.
    #[prost(string, repeated, tag = "6")]
    pub attribute: Vec<String>,
    /// The attributes with a default, and their defaults.
    #[prost(message, repeated, tag = "11")]
    pub attribute_proto: Vec<AttributeProto>,
    /// The body, in topological order.
    #[prost(message, repeated, tag = "7")]
    pub node: Vec<NodeProto>,
    /// Documentation for people, possibly in Markdown.
    #[prost(string, optional, tag = "8")]
    pub doc_string: Option<String>,
    /// The operator sets that the body uses.
    #[prost(message, repeated, tag = "9")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// The domain of the function, which nodes give as `domain`.
    #[prost(string, optional, tag = "10")]
    pub domain: Option<String>,
    /// Distinguishes functions of the same domain and name.
    #[prost(string, optional, tag = "13")]
    pub overload: Option<String>,
    /// The types of values in the body.
    #[prost(message, repeated, tag = "12")]
    pub value_info: Vec<ValueInfoProto>,
    /// Metadata of the function: named text with distinct keys.
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringStringEntryProto>,
}
