//! Tensors, dense and sparse.

use bytes::Bytes;

use crate::StringStringEntryProto;

/// A tensor with its elements in row-major order: in `raw_data`, in another file, or in the `_data`
/// field for its element type.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TensorProto {
    /// The shape; empty for a scalar.
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub dims: Vec<i64>,
    /// The type of the elements, a `DataType`.
    #[prost(int32, optional, tag = "2")]
    pub data_type: Option<i32>,
    /// The part of the tensor that this message stores, if the tensor is stored in parts.
    #[prost(message, optional, tag = "3")]
    pub segment: Option<tensor_proto::Segment>,
    /// FLOAT, and COMPLEX64 as real, imaginary, real, ...
    #[prost(float, repeated, tag = "4")]
    pub float_data: Vec<f32>,
    /// INT32 and narrower types: floats of 16 and 8 bits by their bits, BOOL as 0 or 1. A number
    /// holds one element of 6 bits, two of 4 bits or four of 2 bits, the first in the lowest bits.
    #[prost(int32, repeated, tag = "5")]
    pub int32_data: Vec<i32>,
    /// STRING.
    #[prost(bytes = "bytes", repeated, tag = "6")]
    pub string_data: Vec<Bytes>,
    /// INT64.
    #[prost(int64, repeated, tag = "7")]
    pub int64_data: Vec<i64>,
    /// The name, which for an initializer is the name of its value.
    #[prost(string, optional, tag = "8")]
    pub name: Option<String>,
    /// Documentation for people, possibly in Markdown.
    #[prost(string, optional, tag = "12")]
    pub doc_string: Option<String>,
    /// The elements of any type but STRING, as little-endian bytes; sub-byte elements are packed
    /// from the lowest bit.
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub raw_data: Option<Bytes>,
    /// The location of external data: `location`, and optionally `offset`, `length` and `checksum`.
    #[prost(message, repeated, tag = "13")]
    pub external_data: Vec<StringStringEntryProto>,
    /// Where the elements are.
    #[prost(enumeration = "tensor_proto::DataLocation", optional, tag = "14")]
    pub data_location: Option<i32>,
    /// DOUBLE, and COMPLEX128 as real, imaginary, real, ...
    #[prost(double, repeated, tag = "10")]
    pub double_data: Vec<f64>,
    /// UINT64 and UINT32.
    #[prost(uint64, repeated, tag = "11")]
    pub uint64_data: Vec<u64>,
    /// Metadata of the tensor: named text with distinct keys.
    #[prost(message, repeated, tag = "16")]
    pub metadata_props: Vec<StringStringEntryProto>,
}

/// A tensor stored as its elements that are not zero.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SparseTensorProto {
    /// The elements, a tensor of rank 1; its name is the name of the sparse tensor.
    #[prost(message, optional, tag = "1")]
    pub values: Option<TensorProto>,
    /// The positions of the elements in ascending order, INT64: linear indices `[n]`, or
    /// coordinates `[n, rank]`.
    #[prost(message, optional, tag = "2")]
    pub indices: Option<TensorProto>,
    /// The shape of the whole tensor.
    #[prost(int64, repeated, packed = "false", tag = "3")]
    pub dims: Vec<i64>,
}

/// The types nested in [`TensorProto`].
pub mod tensor_proto {
    /// The types of elements.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
    #[repr(i32)]
    pub enum DataType {
        /// No type.
        Undefined = 0,
        /// 32-bit IEEE float.
        Float = 1,
        /// 8-bit unsigned integer.
        Uint8 = 2,
        /// 8-bit integer.
        Int8 = 3,
        /// 16-bit unsigned integer.
        Uint16 = 4,
        /// 16-bit integer.
        Int16 = 5,
        /// 32-bit integer.
        Int32 = 6,
        /// 64-bit integer.
        Int64 = 7,
        /// UTF-8 text.
        String = 8,
        /// True or false, a byte each.
        Bool = 9,
        /// 16-bit IEEE float.
        Float16 = 10,
        /// 64-bit IEEE float.
        Double = 11,
        /// 32-bit unsigned integer.
        Uint32 = 12,
        /// 64-bit unsigned integer.
        Uint64 = 13,
        /// Complex number of two 32-bit floats.
        Complex64 = 14,
        /// Complex number of two 64-bit floats.
        Complex128 = 15,
        /// The upper half of a 32-bit float.
        Bfloat16 = 16,
        /// 8-bit float, 4 bits of exponent, NaN but no infinity.
        Float8e4m3fn = 17,
        /// 8-bit float, 4 bits of exponent, NaN but no infinity and no negative zero.
        Float8e4m3fnuz = 18,
        /// 8-bit float, 5 bits of exponent, NaN and infinities.
        Float8e5m2 = 19,
        /// 8-bit float, 5 bits of exponent, NaN but no infinity and no negative zero.
        Float8e5m2fnuz = 20,
        /// 4-bit unsigned integer.
        Uint4 = 21,
        /// 4-bit integer.
        Int4 = 22,
        /// 4-bit float, 2 bits of exponent.
        Float4e2m1 = 23,
        /// A power of two: 8 bits of exponent and nothing else.
        Float8e8m0 = 24,
        /// 2-bit unsigned integer.
        Uint2 = 25,
        /// 2-bit integer.
        Int2 = 26,
        /// 6-bit float, 2 bits of exponent.
        Float6e2m3 = 27,
        /// 6-bit float, 3 bits of exponent.
        Float6e3m2 = 28,
    }

    /// The part of a large tensor that is stored here.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
    pub struct Segment {
        /// The first element.
        #[prost(int64, optional, tag = "1")]
        pub begin: Option<i64>,
        /// One past the last element.
        #[prost(int64, optional, tag = "2")]
        pub end: Option<i64>,
    }

    /// Where the elements are.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
    #[repr(i32)]
    pub enum DataLocation {
        /// In this message.
        Default = 0,
        /// In a file named by `external_data`.
        External = 1,
    }
}
