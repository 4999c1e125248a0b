//! The inputs and outputs of a plan.

use super::Operand;
use crate::{dim::Dim, dtype::DType, ty::Type};

/// An input or output of the model.
#[derive(Clone, Debug)]
pub struct Port {
    /// The name in the model.
    pub name: String,
    /// The documentation in the model.
    pub doc: String,
    /// Its type.
    pub ty: Type,
    /// The elements: those of an optional's value, or the values of a map.
    pub operand: Operand,
    /// The companion buffer: the flag of an optional, or the keys of a map.
    pub companion: Option<Operand>,
    /// The default of an input: a constant.
    pub default: Option<Operand>,
}

impl Port {
    /// Returns the shape of the tensor that stores the value.
    pub fn shape(&self) -> &[Dim] {
        self.ty.kept().map_or(&[], |ty| &ty.shape)
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.ty.dtype().expect("a port has a type that is known")
    }

    /// Returns all operands of the value.
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        std::iter::once(&self.operand).chain(&self.companion)
    }

    /// Returns all operands of the value for modification.
    pub fn operands_mut(&mut self) -> impl Iterator<Item = &mut Operand> {
        std::iter::once(&mut self.operand).chain(&mut self.companion)
    }
}
