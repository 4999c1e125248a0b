//! The context of nodes: format version, operator sets and functions.

use super::opsets::Opsets;
use crate::domain::canonical;
use onnxc_proto::{FunctionProto, NodeProto, TrainingInfoProto, Version};
use std::collections::{HashMap, HashSet};

/// The context of nodes: the model, and the operator sets of the model or of a function.
#[derive(Clone, Copy)]
pub(super) struct Unit<'a, 'p> {
    /// The model.
    pub model: &'a Model<'p>,
    /// The operator sets.
    pub opsets: &'a Opsets,
}

/// The context of all nodes of a model.
pub(super) struct Model<'p> {
    /// The version of the file format.
    pub ir_version: i64,
    /// The model's operator sets.
    pub opsets: Opsets,
    /// The names of the device configurations.
    pub configurations: HashSet<&'p str>,
    /// The model's functions.
    pub functions: Functions<'p>,
    /// The training information.
    pub training: &'p [TrainingInfoProto],
}

impl Model<'_> {
    /// Returns the context of functions without a model.
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

/// The identity of a function: domain, name and overload.
pub(super) type Key<'p> = (&'p str, &'p str, &'p str);

/// The functions of a model.
#[derive(Default)]
pub(super) struct Functions<'p>(pub HashMap<Key<'p>, &'p FunctionProto>);

impl<'p> Functions<'p> {
    /// Returns the function that a node calls, if it calls one.
    pub fn find(&self, node: &NodeProto) -> Option<&'p FunctionProto> {
        self.0.get(&(canonical(node.domain()), node.op_type(), node.overload())).copied()
    }
}
