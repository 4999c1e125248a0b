//! Attributes of nodes.

use bytes::Bytes;

use crate::{GraphProto, SparseTensorProto, TensorProto, TypeProto};

/// A named attribute of a node: one value or one list, or a reference to an attribute of the
/// enclosing function.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AttributeProto {
    /// The name of the attribute.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// In a function body: the name of the function's attribute that has the value.
    #[prost(string, optional, tag = "21")]
    pub ref_attr_name: Option<String>,
    /// Documentation for people, possibly in Markdown.
    #[prost(string, optional, tag = "13")]
    pub doc_string: Option<String>,
    /// The field below that holds the value; absent in files of IR version 1.
    #[prost(enumeration = "attribute_proto::AttributeType", optional, tag = "20")]
    pub r#type: Option<i32>,
    /// A number.
    #[prost(float, optional, tag = "2")]
    pub f: Option<f32>,
    /// An integer.
    #[prost(int64, optional, tag = "3")]
    pub i: Option<i64>,
    /// Text in UTF-8, or plain bytes.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub s: Option<Bytes>,
    /// A tensor.
    #[prost(message, optional, boxed, tag = "5")]
    pub t: Option<Box<TensorProto>>,
    /// A graph, such as a branch of `If`.
    #[prost(message, optional, boxed, tag = "6")]
    pub g: Option<Box<GraphProto>>,
    /// A sparse tensor.
    #[prost(message, optional, boxed, tag = "22")]
    pub sparse_tensor: Option<Box<SparseTensorProto>>,
    /// A type.
    #[prost(message, optional, boxed, tag = "14")]
    pub tp: Option<Box<TypeProto>>,
    /// Numbers.
    #[prost(float, repeated, packed = "false", tag = "7")]
    pub floats: Vec<f32>,
    /// Integers.
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub ints: Vec<i64>,
    /// Texts in UTF-8, or plain bytes.
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub strings: Vec<Bytes>,
    /// Tensors.
    #[prost(message, repeated, tag = "10")]
    pub tensors: Vec<TensorProto>,
    /// Graphs.
    #[prost(message, repeated, tag = "11")]
    pub graphs: Vec<GraphProto>,
    /// Sparse tensors.
    #[prost(message, repeated, tag = "23")]
    pub sparse_tensors: Vec<SparseTensorProto>,
    /// Types.
    #[prost(message, repeated, tag = "15")]
    pub type_protos: Vec<TypeProto>,
}

/// The types nested in [`AttributeProto`].
pub mod attribute_proto {
    /// The field that holds the value.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
    #[repr(i32)]
    pub enum AttributeType {
        /// Undefined.
        Undefined = 0,
        /// A number, in `f`.
        Float = 1,
        /// An integer, in `i`.
        Int = 2,
        /// Text, in `s`.
        String = 3,
        /// A tensor, in `t`.
        Tensor = 4,
        /// A graph, in `g`.
        Graph = 5,
        /// A sparse tensor, in `sparse_tensor`.
        SparseTensor = 11,
        /// A type, in `tp`.
        TypeProto = 13,
        /// Numbers, in `floats`.
        Floats = 6,
        /// Integers, in `ints`.
        Ints = 7,
        /// Texts, in `strings`.
        Strings = 8,
        /// Tensors, in `tensors`.
        Tensors = 9,
        /// Graphs, in `graphs`.
        Graphs = 10,
        /// Sparse tensors, in `sparse_tensors`.
        SparseTensors = 12,
        /// Types, in `type_protos`.
        TypeProtos = 14,
    }
}
