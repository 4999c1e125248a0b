//! What nodes are checked with: the version of the format, operator sets and functions.

use super::opsets::Opsets;
use crate::domain::canonical;
use onnxc_proto::{FunctionProto, NodeProto, TrainingInfoProto, Version};
use std::collections::{HashMap, HashSet};

/// What nodes are bound to: the model, and its operator sets or those of a function.
#[derive(Clone, Copy)]
pub(super) struct Unit<'a, 'p> {
    /// The model.
    pub model: &'a Model<'p>,
    /// The operator sets.
    pub opsets: &'a Opsets,
}

/// What all of a model's nodes are checked with.
pub(super) struct Model<'p> {
    /// The version of the file format.
    pub ir_version: i64,
    /// The model's operator sets.
    pub opsets: Opsets,
    /// The names of the devices' configurations.
    pub configurations: HashSet<&'p str>,
    /// The model's functions.
    pub functions: Functions<'p>,
    /// How to train it.
    pub training: &'p [TrainingInfoProto],
}

impl Model<'_> {
    /// That of functions that belong to no model.
    pub fn none() -> Self {
        Model {
            ir_version: i64::from(Version::IrVersion as i32),
            opsets: Opsets::default(),
            configurations: HashSet::new(),
            functions: Functions::default(),
            training: &[],
        }
    }
}

/// What tells functions apart: domain, name and overload.
pub(super) type Key<'p> = (&'p str, &'p str, &'p str);

/// The functions of a model.
#[derive(Default)]
pub(super) struct Functions<'p>(pub HashMap<Key<'p>, &'p FunctionProto>);

impl<'p> Functions<'p> {
    /// The function that a node calls, where it calls one.
    pub fn find(&self, node: &NodeProto) -> Option<&'p FunctionProto> {
        self.0.get(&(canonical(node.domain()), node.op_type(), node.overload())).copied()
    }
}
