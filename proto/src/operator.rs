//! Declarations of operators.

use crate::FunctionProto;

/// A file that declares a set of operators.
#[derive(Clone, PartialEq, prost::Message)]
pub struct OperatorSetProto {
    /// Always `ONNXOPSET`.
    #[prost(string, optional, tag = "1")]
    pub magic: Option<String>,
    /// The version of the file format, a `Version`.
    #[prost(int64, optional, tag = "2")]
    pub ir_version: Option<i64>,
    /// The prerelease part of that version, if any.
    #[prost(string, optional, tag = "3")]
    pub ir_version_prerelease: Option<String>,
    /// The build part of that version, if any.
    #[prost(string, optional, tag = "7")]
    pub ir_build_metadata: Option<String>,
    /// The domain of the set.
    #[prost(string, optional, tag = "4")]
    pub domain: Option<String>,
    /// The version of the set.
    #[prost(int64, optional, tag = "5")]
    pub opset_version: Option<i64>,
    /// Documentation for people, possibly in Markdown.
    #[prost(string, optional, tag = "6")]
    pub doc_string: Option<String>,
    /// The operators.
    #[prost(message, repeated, tag = "8")]
    pub operator: Vec<OperatorProto>,
    /// The functions.
    #[prost(message, repeated, tag = "9")]
    pub functions: Vec<FunctionProto>,
}

/// The declaration of an operator.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct OperatorProto {
    /// The name of the operator.
    #[prost(string, optional, tag = "1")]
    pub op_type: Option<String>,
    /// The version of its set that introduced it.
    #[prost(int64, optional, tag = "2")]
    pub since_version: Option<i64>,
    /// The stability of the operator, an `OperatorStatus`.
    #[prost(enumeration = "OperatorStatus", optional, tag = "3")]
    pub status: Option<i32>,
    /// Documentation for people, possibly in Markdown.
    #[prost(string, optional, tag = "10")]
    pub doc_string: Option<String>,
}

/// The stability of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum OperatorStatus {
    /// May change from one version of its set to the next.
    Experimental = 0,
    /// Keeps its meaning until a newer version replaces it.
    Stable = 1,
}
