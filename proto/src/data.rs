//! Values outside of models, as in test data.

use bytes::Bytes;

use crate::{SparseTensorProto, TensorProto};

/// A list of values of one kind.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SequenceProto {
    /// The name of the value.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// The kind of the elements, a `SequenceProto.DataType`.
    #[prost(int32, optional, tag = "2")]
    pub elem_type: Option<i32>,
    /// Tensors.
    #[prost(message, repeated, tag = "3")]
    pub tensor_values: Vec<TensorProto>,
    /// Sparse tensors.
    #[prost(message, repeated, tag = "4")]
    pub sparse_tensor_values: Vec<SparseTensorProto>,
    /// Sequences.
    #[prost(message, repeated, tag = "5")]
    pub sequence_values: Vec<SequenceProto>,
    /// Maps.
    #[prost(message, repeated, tag = "6")]
    pub map_values: Vec<MapProto>,
    /// Optionals.
    #[prost(message, repeated, tag = "7")]
    pub optional_values: Vec<OptionalProto>,
}

/// A map: keys, and a value for each.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MapProto {
    /// The name of the value.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// The type of the keys, a `TensorProto.DataType`: an integer or STRING.
    #[prost(int32, optional, tag = "2")]
    pub key_type: Option<i32>,
    /// The keys, if they are integers.
    #[prost(int64, repeated, packed = "false", tag = "3")]
    pub keys: Vec<i64>,
    /// The keys, if they are text.
    #[prost(bytes = "bytes", repeated, tag = "4")]
    pub string_keys: Vec<Bytes>,
    /// The values, in the order of the keys.
    #[prost(message, optional, tag = "5")]
    pub values: Option<SequenceProto>,
}

/// An optional value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OptionalProto {
    /// The name of the value.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// The kind of the value, an `OptionalProto.DataType`.
    #[prost(int32, optional, tag = "2")]
    pub elem_type: Option<i32>,
    /// A tensor.
    #[prost(message, optional, tag = "3")]
    pub tensor_value: Option<TensorProto>,
    /// A sparse tensor.
    #[prost(message, optional, tag = "4")]
    pub sparse_tensor_value: Option<SparseTensorProto>,
    /// A sequence.
    #[prost(message, optional, tag = "5")]
    pub sequence_value: Option<SequenceProto>,
    /// A map.
    #[prost(message, optional, tag = "6")]
    pub map_value: Option<MapProto>,
    /// An optional.
    #[prost(message, optional, boxed, tag = "7")]
    pub optional_value: Option<Box<OptionalProto>>,
}

/// The types nested in [`SequenceProto`].
pub mod sequence_proto {
    /// The field that holds the elements.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
    #[repr(i32)]
    pub enum DataType {
        /// Undefined.
        Undefined = 0,
        /// `tensor_values`.
        Tensor = 1,
        /// `sparse_tensor_values`.
        SparseTensor = 2,
        /// `sequence_values`.
        Sequence = 3,
        /// `map_values`.
        Map = 4,
        /// `optional_values`.
        Optional = 5,
    }
}

/// The types nested in [`OptionalProto`].
pub mod optional_proto {
    /// The field that holds the value.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
    #[repr(i32)]
    pub enum DataType {
        /// Nothing.
        Undefined = 0,
        /// `tensor_value`.
        Tensor = 1,
        /// `sparse_tensor_value`.
        SparseTensor = 2,
        /// `sequence_value`.
        Sequence = 3,
        /// `map_value`.
        Map = 4,
        /// `optional_value`.
        Optional = 5,
    }
}
