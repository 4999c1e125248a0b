//! How to train a model.

use crate::{GraphProto, StringStringEntryProto};

/// How to reset and how to improve the mutable initializers of a model.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TrainingInfoProto {
    /// A graph without inputs that computes first values.
    #[prost(message, optional, tag = "1")]
    pub initialization: Option<GraphProto>,
    /// One step of training, appended to the graph of the model.
    #[prost(message, optional, tag = "2")]
    pub algorithm: Option<GraphProto>,
    /// From an initializer to the output of `initialization` that is assigned to it.
    #[prost(message, repeated, tag = "3")]
    pub initialization_binding: Vec<StringStringEntryProto>,
    /// From an initializer to the output of the step that is assigned to it.
    #[prost(message, repeated, tag = "4")]
    pub update_binding: Vec<StringStringEntryProto>,
}
