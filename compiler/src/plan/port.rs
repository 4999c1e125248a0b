//! The inputs and outputs of a plan.

use super::Operand;
use crate::{dim::Dim, dtype::DType, ty::Type};

/// An input or an output of the model.
#[derive(Clone, Debug)]
pub struct Port {
    /// What the model calls it.
    pub name: String,
    /// What the model says of it.
    pub doc: String,
    /// Its type.
    pub ty: Type,
    /// Where its elements are: those of an optional's value, the values of a map.
    pub operand: Operand,
    /// What stands beside them: whether an optional has its value, the keys of a map.
    pub beside: Option<Operand>,
    /// What an input is where the caller leaves it out: a constant.
    pub default: Option<Operand>,
}

impl Port {
    /// The sizes of the tensor in which the value is kept.
    pub fn shape(&self) -> &[Dim] {
        self.ty.kept().map_or(&[], |ty| &ty.shape)
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.ty.dtype().expect("a port has a type that is known")
    }

    /// Every part of a buffer that the value is made of.
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        std::iter::once(&self.operand).chain(&self.beside)
    }

    /// The same, to be changed.
    pub fn operands_mut(&mut self) -> impl Iterator<Item = &mut Operand> {
        std::iter::once(&mut self.operand).chain(&mut self.beside)
    }
}
