//! Types and shapes.

/// The type of a value.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct TypeProto {
    /// The kind of type.
    #[prost(oneof = "type_proto::Value", tags = "1, 4, 5, 9, 8, 7")]
    pub value: Option<type_proto::Value>,
    /// The meaning of the value, such as `IMAGE`.
    #[prost(string, optional, tag = "6")]
    pub denotation: Option<String>,
}

/// A shape, whose sizes may be unknown.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct TensorShapeProto {
    /// The sizes, one for each axis.
    #[prost(message, repeated, tag = "1")]
    pub dim: Vec<tensor_shape_proto::Dimension>,
}

/// The types nested in [`TypeProto`].
pub mod type_proto {
    /// A dense tensor.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct Tensor {
        /// The type of the elements, a `TensorProto.DataType`.
        #[prost(int32, optional, tag = "1")]
        pub elem_type: Option<i32>,
        /// The shape; absent if the rank is unknown.
        #[prost(message, optional, tag = "2")]
        pub shape: Option<super::TensorShapeProto>,
    }

    /// A list of values of one type.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct Sequence {
        /// The type of the elements.
        #[prost(message, optional, boxed, tag = "1")]
        pub elem_type: Option<Box<super::TypeProto>>,
    }

    /// Keys and their values.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct Map {
        /// The type of the keys, a `TensorProto.DataType`: an integer or STRING.
        #[prost(int32, optional, tag = "1")]
        pub key_type: Option<i32>,
        /// The type of the values.
        #[prost(message, optional, boxed, tag = "2")]
        pub value_type: Option<Box<super::TypeProto>>,
    }

    /// An optional value.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct Optional {
        /// The type of the value.
        #[prost(message, optional, boxed, tag = "1")]
        pub elem_type: Option<Box<super::TypeProto>>,
    }

    /// A sparse tensor.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct SparseTensor {
        /// The type of the elements, a `TensorProto.DataType`.
        #[prost(int32, optional, tag = "1")]
        pub elem_type: Option<i32>,
        /// The shape; absent if the rank is unknown.
        #[prost(message, optional, tag = "2")]
        pub shape: Option<super::TensorShapeProto>,
    }

    /// An opaque type.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct Opaque {
        /// The domain of the type; absent or empty means `ai.onnx`.
        #[prost(string, optional, tag = "1")]
        pub domain: Option<String>,
        /// The name of the type.
        #[prost(string, optional, tag = "2")]
        pub name: Option<String>,
    }

    /// The kind of type.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
    pub enum Value {
        /// A dense tensor.
        #[prost(message, tag = "1")]
        TensorType(Tensor),
        /// A list.
        #[prost(message, tag = "4")]
        SequenceType(Sequence),
        /// Keys and values.
        #[prost(message, tag = "5")]
        MapType(Map),
        /// An optional value.
        #[prost(message, tag = "9")]
        OptionalType(Optional),
        /// A sparse tensor.
        #[prost(message, tag = "8")]
        SparseTensorType(SparseTensor),
        /// An opaque type.
        #[prost(message, tag = "7")]
        OpaqueType(Opaque),
    }
}

/// The types nested in [`TensorShapeProto`].
pub mod tensor_shape_proto {
    /// One size: a number, a symbol, or unknown.
    #[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
    pub struct Dimension {
        /// The size, if it is known.
        #[prost(oneof = "dimension::Value", tags = "1, 2")]
        pub value: Option<dimension::Value>,
        /// The meaning of the axis, such as `DATA_BATCH`.
        #[prost(string, optional, tag = "3")]
        pub denotation: Option<String>,
    }

    /// The types nested in [`Dimension`].
    pub mod dimension {
        /// The size, if it is known.
        #[derive(Clone, PartialEq, Eq, Hash, prost::Oneof)]
        pub enum Value {
            /// A number.
            #[prost(int64, tag = "1")]
            DimValue(i64),
            /// A symbol; equal symbols are equal sizes.
            #[prost(string, tag = "2")]
            DimParam(String),
        }
    }
}
