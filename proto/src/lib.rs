//! The ONNX file format as Rust structs.
//!
//! The structs follow `onnx.proto` in this crate: IR version 14, of ONNX 1.23. They are checked in,
//! so building needs neither `protoc` nor a build script. A test compares them with the schema.
//!
//! ```
//! use onnxc_proto::{Bytes, ModelProto, decode_model};
//!
//! let file: &[u8] = &[0x08, 14]; // field 1, `ir_version`
//! let model = decode_model(Bytes::from_static(file))?;
//! assert_eq!(model, ModelProto { ir_version: Some(14), ..ModelProto::default() });
//! # Ok::<(), onnxc_proto::DecodeError>(())
//! ```
//!
//! - A field that is `optional` in the schema is an `Option`, so a checker can distinguish absent
//!   from zero. A method of the same name returns the value or its default: `model.ir_version()`.
//! - A field that is `bytes` in the schema, such as [`TensorProto::raw_data`], is a slice of the
//!   decoded buffer. Decoding does not copy it.
//! - Enumerations are stored as `i32`, because a file may have numbers newer than this crate;
//!   `DataType::try_from` reads them.
//! - Lists of numbers are read in both forms of protobuf, packed and unpacked.
//! - A field that the schema does not have is skipped, so encoding the message again loses it.

mod attribute;
mod data;
mod device;
mod function;
mod graph;
mod model;
mod operator;
mod tensor;
mod training;
mod types;

pub use attribute::{AttributeProto, attribute_proto};
pub use bytes::Bytes;
pub use data::{MapProto, OptionalProto, SequenceProto, optional_proto, sequence_proto};
pub use device::{
    DeviceConfigurationProto, IntIntListEntryProto, NodeDeviceConfigurationProto, ShardedDimProto,
    ShardingSpecProto, SimpleShardedDimProto, simple_sharded_dim_proto,
};
pub use function::FunctionProto;
pub use graph::{GraphProto, NodeProto, TensorAnnotation, ValueInfoProto};
pub use model::{ModelProto, OperatorSetIdProto, StringStringEntryProto, Version};
pub use operator::{OperatorProto, OperatorSetProto, OperatorStatus};
pub use prost::{DecodeError, Message};
pub use tensor::{SparseTensorProto, TensorProto, tensor_proto};
pub use training::TrainingInfoProto;
pub use types::{TensorShapeProto, TypeProto, tensor_shape_proto, type_proto};

/// The examples of the README, which `cargo test` compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Reads a model from the bytes of its file.
///
/// Byte fields of the model are slices of `bytes` and keep it alive. The bytes may be untrusted.
///
/// # Errors
///
/// Returns an error if the bytes are not a model, messages are nested more than 100 deep, or text
/// is not UTF-8. The error names the field.
pub fn decode_model(bytes: Bytes) -> Result<ModelProto, DecodeError> {
    ModelProto::decode(bytes)
}
