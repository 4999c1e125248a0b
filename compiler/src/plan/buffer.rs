//! Buffers, and the ranges of them that calls read and write.

use super::Weight;
use crate::{arena::ids, dim::Dim, dtype::DType};

ids! {
    /// The id of a buffer of a plan.
    BufferId
}

/// Memory of one tensor, several tensors one after another, or a sequence.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// The name of the value in the model.
    pub name: String,
    /// The kind of contents.
    pub kind: Kind,
    /// The element type.
    pub dtype: DType,
    /// The number of elements.
    pub len: Dim,
    /// The shape, if the buffer holds one value of the model.
    pub shape: Option<Vec<Dim>>,
    /// The location.
    pub place: Place,
}

/// The contents of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Elements.
    Elements,
    /// A sequence of tensors, which counts as one element.
    Sequence,
}

/// The location of a buffer.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// The caller's memory: the input of this index.
    Input(usize),
    /// The weights.
    Weight {
        /// The offset, in bytes.
        offset: usize,
        /// The elements.
        weight: Weight,
    },
    /// The arena.
    Arena {
        /// The offset, in bytes; 0 for a [`DynamicBuffer`](super::DynamicBuffer).
        offset: usize,
        /// The maximum number of elements: a number, or a formula of the sizes of a run.
        capacity: Dim,
    },
    /// The heap, from its first write on.
    Heap,
}

/// A buffer that a run places in the arena, and the first and the last step that use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynamicBuffer {
    /// The buffer.
    pub buffer: BufferId,
    /// The first step that uses the buffer.
    pub first: u32,
    /// The last step that uses the buffer.
    pub last: u32,
}

/// A range of a buffer that a call reads or writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// The buffer.
    pub buffer: BufferId,
    /// The first element.
    pub start: Dim,
    /// The number of elements.
    pub len: Dim,
}

/// An argument of a call.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A required tensor.
    Tensor(Operand),
    /// An optional tensor.
    Optional(Option<Operand>),
}

impl Operand {
    /// Returns the whole buffer as an operand.
    pub fn whole(buffer: BufferId, len: Dim) -> Operand {
        Operand { buffer, start: 0.into(), len }
    }
}

impl Arg {
    /// Returns the operand, if there is one.
    pub fn operand(&self) -> Option<&Operand> {
        match self {
            Arg::Tensor(operand) => Some(operand),
            Arg::Optional(operand) => operand.as_ref(),
        }
    }

    /// Returns the operand for modification, if there is one.
    pub fn operand_mut(&mut self) -> Option<&mut Operand> {
        match self {
            Arg::Tensor(operand) => Some(operand),
            Arg::Optional(operand) => operand.as_mut(),
        }
    }
}

impl From<Operand> for Arg {
    fn from(operand: Operand) -> Arg {
        Arg::Tensor(operand)
    }
}

impl From<Option<Operand>> for Arg {
    fn from(operand: Option<Operand>) -> Arg {
        Arg::Optional(operand)
    }
}
