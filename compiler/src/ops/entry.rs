//! Entries: the name and the versions of an operator in a file, and the function that reads its
//! nodes.

use crate::{
    diag::Result,
    ir::{Domain, Op, Reader, ValueId},
};
use std::rc::Rc;

/// An operator in ONNX files, from version `since` of the operator set until the next entry of the
/// same name.
pub struct Entry {
    /// The operator set.
    pub domain: Domain,
    /// The operator's name.
    pub name: &'static str,
    /// The first version that this entry reads.
    pub since: i64,
    /// The function that reads a node.
    pub reading: Reading,
}

/// A way to read a node.
#[derive(Clone, Copy)]
pub enum Reading {
    /// A function returns the node's [`Op`].
    Read(Read),
    /// A function returns the node's [`Op`], and the attributes with these names name values. The
    /// values are appended to the inputs in that order. The node may precede their producers.
    Naming(&'static [&'static str], Read),
    /// A function adds nodes, and returns the values of the outputs. Until the first pass the node
    /// stays whole, as a `composite::Composite`, so that it can be written unchanged.
    Nodes(Nodes),
    /// The body of a function in ONNX's textual syntax, over the newest operators, such as `<axis:
    /// int = 1> (X) => (Y) { ... }`.
    Body(&'static str),
    /// A function returns the body, as in [`Reading::Body`], which depends on the node's
    /// attributes, inputs and outputs.
    Function(Function),
}

/// Reads a node as one [`Op`].
pub type Read = fn(&mut Reader<'_>) -> Result<Rc<dyn Op>>;

/// Reads a node as several nodes, and returns the values of its outputs.
pub type Nodes = fn(&mut Reader<'_>) -> Result<Vec<ValueId>>;

/// Reads a node as the body of a function in ONNX's textual syntax.
pub type Function = fn(&mut Reader<'_>) -> Result<String>;

/// An operator of ONNX's main operator set.
pub const fn entry(name: &'static str, since: i64, read: Read) -> Entry {
    Entry { domain: Domain::Onnx, name, since, reading: Reading::Read(read) }
}

/// An operator of ONNX's main operator set that a function body defines.
pub const fn body(name: &'static str, since: i64, text: &'static str) -> Entry {
    Entry { domain: Domain::Onnx, name, since, reading: Reading::Body(text) }
}

/// An operator of ONNX's main operator set that expands to other nodes.
pub const fn nodes(name: &'static str, since: i64, read: Nodes) -> Entry {
    Entry { domain: Domain::Onnx, name, since, reading: Reading::Nodes(read) }
}

/// An operator of classical machine learning.
pub const fn ml(name: &'static str, since: i64, read: Read) -> Entry {
    Entry { domain: Domain::Ml, name, since, reading: Reading::Read(read) }
}

/// An operator of classical machine learning that expands to other nodes.
pub const fn ml_nodes(name: &'static str, since: i64, read: Nodes) -> Entry {
    Entry { domain: Domain::Ml, name, since, reading: Reading::Nodes(read) }
}

/// An operator of ONNX's main operator set as a function, or one that ONNX Runtime adds to it.
pub const fn function(name: &'static str, since: i64, write: Function) -> Entry {
    Entry { domain: Domain::Onnx, name, since, reading: Reading::Function(write) }
}

/// An operator of ONNX Runtime.
pub const fn microsoft(name: &'static str, read: Read) -> Entry {
    Entry { domain: Domain::Microsoft, name, since: 1, reading: Reading::Read(read) }
}

/// An operator of ONNX Runtime, as a function.
pub const fn microsoft_function(name: &'static str, write: Function) -> Entry {
    Entry { domain: Domain::Microsoft, name, since: 1, reading: Reading::Function(write) }
}

/// An operator of ONNX Runtime that expands to other nodes.
pub const fn microsoft_nodes(name: &'static str, read: Nodes) -> Entry {
    Entry { domain: Domain::Microsoft, name, since: 1, reading: Reading::Nodes(read) }
}

/// An operator of ONNX's preview operator set.
pub const fn preview(name: &'static str, since: i64, read: Read) -> Entry {
    Entry { domain: Domain::Preview, name, since, reading: Reading::Read(read) }
}

/// An operator that trains a model.
pub const fn training(name: &'static str, since: i64, read: Read) -> Entry {
    Entry { domain: Domain::Training, name, since, reading: Reading::Read(read) }
}

/// An operator that trains a model, some of whose attributes name values.
pub const fn training_of_names(
    name: &'static str,
    since: i64,
    names: &'static [&'static str],
    read: Read,
) -> Entry {
    Entry { domain: Domain::Training, name, since, reading: Reading::Naming(names, read) }
}

/// An operator that only passes create.
pub const fn internal(name: &'static str, read: Read) -> Entry {
    Entry { domain: Domain::Internal, name, since: 1, reading: Reading::Read(read) }
}
