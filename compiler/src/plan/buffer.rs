//! Buffers, and the parts of them that calls read and write.

use super::Weight;
use crate::{arena::ids, dim::Dim, dtype::DType};

ids! {
    /// Names a buffer of a plan.
    BufferId
}

/// A piece of memory that holds one tensor, or several one after another, or a sequence.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// What the model calls the value.
    pub name: String,
    /// Of what kind it is.
    pub kind: Kind,
    /// The element type.
    pub dtype: DType,
    /// The number of elements.
    pub len: Dim,
    /// Where it is.
    pub place: Place,
}

/// What a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Elements.
    Elements,
    /// A sequence of tensors, which counts as one element.
    Sequence,
}

/// Where a buffer is.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// The caller's memory: the input of that number.
    Input(usize),
    /// Among the weights, from that byte on.
    Weight {
        /// The first byte.
        offset: usize,
        /// The elements.
        weight: Weight,
        /// How many parameters of the model they are, before anything was packed.
        parameters: usize,
    },
    /// In the arena, from that byte on, as many elements as `capacity`.
    Arena {
        /// The first byte.
        offset: usize,
        /// The greatest number of elements that it holds.
        capacity: usize,
    },
    /// On the heap, from when it is first written.
    Heap,
}

/// A part of a buffer: what a call reads or writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// The buffer.
    pub buffer: BufferId,
    /// The first element.
    pub start: Dim,
    /// The number of elements.
    pub len: Dim,
}

/// What a call is given for one of its inputs.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A tensor that the kernel always wants.
    Tensor(Operand),
    /// A tensor that the kernel can do without.
    Optional(Option<Operand>),
}

impl Operand {
    /// All of a buffer.
    pub fn whole(buffer: BufferId, len: Dim) -> Operand {
        Operand { buffer, start: 0.into(), len }
    }
}

impl Arg {
    /// The operand, where there is one.
    pub fn operand(&self) -> Option<&Operand> {
        match self {
            Arg::Tensor(operand) => Some(operand),
            Arg::Optional(operand) => operand.as_ref(),
        }
    }

    /// The operand to be changed, where there is one.
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
