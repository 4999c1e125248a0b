//! Training information of models.

use crate::{GraphProto, StringStringEntryProto};

/// A training algorithm: graphs that initialize and update trainable initializers of a model.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TrainingInfoProto {
    /// A graph without inputs that computes initial values.
    #[prost(message, optional, tag = "1")]
    pub initialization: Option<GraphProto>,
    /// One training step: a graph that is appended to the graph of the model.
    #[prost(message, optional, tag = "2")]
    pub algorithm: Option<GraphProto>,
    /// Maps an initializer to the output of `initialization` that is assigned to it.
    #[prost(message, repeated, tag = "3")]
    pub initialization_binding: Vec<StringStringEntryProto>,
    /// Maps an initializer to the output of the step that is assigned to it.
    #[prost(message, repeated, tag = "4")]
    pub update_binding: Vec<StringStringEntryProto>,
}
