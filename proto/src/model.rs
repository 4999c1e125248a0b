//! Models, the messages that ONNX files hold.

use crate::{DeviceConfigurationProto, FunctionProto, GraphProto, TrainingInfoProto};

/// A whole ONNX file: a graph, the operator sets and functions that its nodes use, and metadata.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ModelProto {
    /// The version of the file format, a `Version`.
    #[prost(int64, optional, tag = "1")]
    pub ir_version: Option<i64>,
    /// The operator sets that the nodes are bound to, one for each domain.
    #[prost(message, repeated, tag = "8")]
    pub opset_import: Vec<OperatorSetIdProto>,
    /// The tool that wrote the file.
    #[prost(string, optional, tag = "2")]
    pub producer_name: Option<String>,
    /// The version of that tool.
    #[prost(string, optional, tag = "3")]
    pub producer_version: Option<String>,
    /// The namespace of the model, as a reversed domain name.
    #[prost(string, optional, tag = "4")]
    pub domain: Option<String>,
    /// The version of the model itself.
    #[prost(int64, optional, tag = "5")]
    pub model_version: Option<i64>,
    /// Documentation for people, possibly in Markdown.
    #[prost(string, optional, tag = "6")]
    pub doc_string: Option<String>,
    /// The graph that is run for inference.
    #[prost(message, optional, tag = "7")]
    pub graph: Option<GraphProto>,
    /// Metadata of the model: named text with distinct keys.
    #[prost(message, repeated, tag = "14")]
    pub metadata_props: Vec<StringStringEntryProto>,
    /// The training algorithms of the model, in the order in which they run.
    #[prost(message, repeated, tag = "20")]
    pub training_info: Vec<TrainingInfoProto>,
    /// Functions of the model, unique by domain, name and overload.
    #[prost(message, repeated, tag = "25")]
    pub functions: Vec<FunctionProto>,
    /// The sets of devices that nodes may refer to.
    #[prost(message, repeated, tag = "26")]
    pub configuration: Vec<DeviceConfigurationProto>,
}

/// The version of one operator set.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct OperatorSetIdProto {
    /// The domain of the set; absent or empty means `ai.onnx`.
    #[prost(string, optional, tag = "1")]
    pub domain: Option<String>,
    /// The version of the set.
    #[prost(int64, optional, tag = "2")]
    pub version: Option<i64>,
}

/// A key and its value, both text.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct StringStringEntryProto {
    /// The key.
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    /// The value.
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// Versions of the file format, the values of `ModelProto.ir_version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Version {
    /// No version; proto3 requires an enumeration to have a zero.
    StartVersion = 0,
    /// The first published format.
    IrVersion20171010 = 1,
    /// Attributes store their type.
    IrVersion20171030 = 2,
    /// Models import operator sets by version, and nodes have a domain.
    IrVersion2017113 = 3,
    /// Initializers need not be graph inputs; BFLOAT16.
    IrVersion2019122 = 4,
    /// Quantization annotations.
    IrVersion2019318 = 5,
    /// Sparse tensors and sparse initializers.
    IrVersion2019919 = 6,
    /// Training information.
    IrVersion202058 = 7,
    /// Functions in models, optional and sparse tensor types.
    IrVersion2021730 = 8,
    /// Default attributes of functions; the four 8-bit floats.
    IrVersion202355 = 9,
    /// UINT4 and INT4, overloads of functions, metadata on nodes, values, tensors and graphs.
    IrVersion2024325 = 10,
    /// FLOAT4E2M1 and device configurations.
    IrVersion20250512 = 11,
    /// FLOAT8E8M0.
    IrVersion20250826 = 12,
    /// UINT2 and INT2.
    IrVersion20251106 = 13,
    /// The newest format: FLOAT6E2M3 and FLOAT6E3M2.
    IrVersion = 14,
}
