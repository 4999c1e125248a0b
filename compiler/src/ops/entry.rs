//! The entries of operators: what a file calls an operator, and how a node of it is read.

use crate::{
    diag::Result,
    ir::{Domain, Op, Reader, ValueId},
};
use std::rc::Rc;

/// How a node of an ONNX file becomes an [`Op`]: from one version of the operator set on, until
/// the next entry of the same name.
pub struct Entry {
    /// The operator set.
    pub domain: Domain,
    /// The operator's name.
    pub name: &'static str,
    /// The first version that is read so.
    pub since: i64,
    /// How it is read.
    pub how: How,
}

/// How a node is read.
#[derive(Clone, Copy)]
pub enum How {
    /// By a function that makes an [`Op`] of it.
    Read(Read),
    /// Likewise, where the attributes of these names are names of values: those values are added
    /// to the inputs, in that order, and the node may stand before what makes them.
    Naming(&'static [&'static str], Read),
    /// By a function that adds nodes for it, and gives the values of its outputs. The node stays as
    /// it is (`composite::Composite`) until the first pass, so that it can be written again.
    Nodes(Nodes),
    /// As other nodes: a function in ONNX's textual syntax without its name, over the newest
    /// operators, such as `<axis: int = 1> (X) => (Y) { ... }`.
    Body(&'static str),
}

/// Reads one node.
pub type Read = fn(&mut Reader<'_>) -> Result<Rc<dyn Op>>;

/// Reads one node as several.
pub type Nodes = fn(&mut Reader<'_>) -> Result<Vec<ValueId>>;

/// An operator of ONNX's main operator set.
pub const fn entry(name: &'static str, since: i64, read: Read) -> Entry {
    Entry { domain: Domain::Onnx, name, since, how: How::Read(read) }
}

/// An operator of ONNX's main operator set that stands for others.
pub const fn body(name: &'static str, since: i64, text: &'static str) -> Entry {
    Entry { domain: Domain::Onnx, name, since, how: How::Body(text) }
}

/// An operator of ONNX's main operator set that stands for other nodes.
pub const fn nodes(name: &'static str, since: i64, read: Nodes) -> Entry {
    Entry { domain: Domain::Onnx, name, since, how: How::Nodes(read) }
}

/// An operator of classical machine learning.
pub const fn ml(name: &'static str, since: i64, read: Read) -> Entry {
    Entry { domain: Domain::Ml, name, since, how: How::Read(read) }
}

/// An operator of classical machine learning that stands for others.
pub const fn ml_nodes(name: &'static str, since: i64, read: Nodes) -> Entry {
    Entry { domain: Domain::Ml, name, since, how: How::Nodes(read) }
}

/// An operator that ONNX is trying out.
pub const fn preview(name: &'static str, since: i64, read: Read) -> Entry {
    Entry { domain: Domain::Preview, name, since, how: How::Read(read) }
}

/// An operator that trains a model.
pub const fn training(name: &'static str, since: i64, read: Read) -> Entry {
    Entry { domain: Domain::Training, name, since, how: How::Read(read) }
}

/// An operator that trains a model, some of whose attributes name values.
pub const fn training_of_names(
    name: &'static str,
    since: i64,
    names: &'static [&'static str],
    read: Read,
) -> Entry {
    Entry { domain: Domain::Training, name, since, how: How::Naming(names, read) }
}

/// What passes make of several nodes.
pub const fn internal(name: &'static str, read: Read) -> Entry {
    Entry { domain: Domain::Internal, name, since: 1, how: How::Read(read) }
}
