//! Types of values.

use crate::{
    dim::{Dim, Symbol},
    dtype::DType,
};
use std::{collections::BTreeSet, fmt};

/// The type of a value.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Type {
    /// A tensor of known rank.
    Tensor(TensorType),
    /// A tensor of unknown rank.
    Unranked(DType),
    /// A list of tensors of one element type. A size that differs between tensors, or is unknown,
    /// is [`any_size`]. A list of maps with the same keys is a sequence of one map, whose values
    /// are a matrix with a row per map.
    Sequence(Box<Type>),
    /// A value that may be absent.
    Optional(Box<Type>),
    /// A map: the type of its keys, and its values as a tensor with one axis.
    Map(DType, Box<Type>),
    /// A tensor that never exists: the element of a sequence that is always empty, or the content
    /// of an optional that is always absent.
    Never(DType),
    /// A sparse tensor.
    Sparse(TensorType),
    /// Unknown, because its node has an error or is not inferred yet.
    Unknown,
}

/// The type of a tensor: element type and shape.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The size of each axis.
    pub shape: Vec<Dim>,
}

/// The largest number of axes of a tensor. Types are lists of this length, and a node may add as
/// many axes as its inputs have, so a small file could ask for any number.
pub const MAX_RANK: usize = 256;

/// The size of an axis that differs between the tensors of a sequence.
pub fn any_size() -> Dim {
    Dim::symbol("?")
}

/// Returns the number of elements of a tensor with these sizes, saturated to `usize`.
pub fn count(shape: &[usize]) -> usize {
    shape.iter().fold(1, |count, &size| usize::saturating_mul(count, size))
}

/// Returns the index of an axis of a tensor; negative axes count from the last one.
pub(crate) fn axis_from_front(axis: i64, rank: usize) -> usize {
    let rank = i64::try_from(rank.max(1)).unwrap_or(i64::MAX);
    usize::try_from(axis.rem_euclid(rank)).unwrap_or(0)
}

impl TensorType {
    /// Returns the type of a tensor of `dtype` with the axes of `shape`.
    pub fn new<D: Into<Dim>>(dtype: DType, shape: impl IntoIterator<Item = D>) -> TensorType {
        TensorType { dtype, shape: shape.into_iter().map(Into::into).collect() }
    }

    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the number of elements.
    pub fn len(&self) -> Dim {
        self.shape.iter().product()
    }

    /// Returns whether the number of elements is known to be 0.
    pub fn is_empty(&self) -> bool {
        self.len().known() == Some(0)
    }

    /// Returns the sizes, if all are known.
    pub fn known_shape(&self) -> Option<Vec<usize>> {
        self.shape.iter().map(|dim| usize::try_from(dim.known()?).ok()).collect()
    }
}

impl Type {
    /// Returns the type of a tensor of `dtype` with the axes of `shape`.
    pub fn tensor<D: Into<Dim>>(dtype: DType, shape: impl IntoIterator<Item = D>) -> Type {
        Type::Tensor(TensorType::new(dtype, shape))
    }

    /// Returns the tensor type, if this is a tensor of known rank.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(ty) => Some(ty),
            _ => None,
        }
    }

    /// Returns whether every size is known at compile time.
    pub fn is_fixed(&self) -> bool {
        let mut symbols = BTreeSet::new();
        self.symbols(&mut symbols);
        symbols.is_empty()
    }

    /// Returns the type with `change` applied to every size.
    pub fn map_dims(&self, change: &dyn Fn(&Dim) -> Dim) -> Type {
        let tensor = |ty: &TensorType| TensorType {
            dtype: ty.dtype,
            shape: ty.shape.iter().map(change).collect(),
        };
        match self {
            Type::Tensor(ty) => Type::Tensor(tensor(ty)),
            Type::Sparse(ty) => Type::Sparse(tensor(ty)),
            Type::Sequence(ty) => Type::Sequence(ty.map_dims(change).into()),
            Type::Optional(ty) => Type::Optional(ty.map_dims(change).into()),
            Type::Map(key, ty) => Type::Map(*key, ty.map_dims(change).into()),
            Type::Unranked(_) | Type::Never(_) | Type::Unknown => self.clone(),
        }
    }

    /// Returns the type of the content of an optional, or the type itself if it is not optional.
    pub fn content(&self) -> &Type {
        match self {
            Type::Optional(content) => content,
            other => other,
        }
    }

    /// Returns the type of the tensors, if this is a sequence of tensors.
    pub fn element(&self) -> Option<&Type> {
        match self {
            Type::Sequence(element) if !matches!(**element, Type::Map(..)) => Some(element),
            _ => None,
        }
    }

    /// Returns the type of the tensor that stores the value: the content of an optional, or the
    /// values of a map.
    pub fn kept(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(ty) => Some(ty),
            Type::Optional(ty) | Type::Map(_, ty) => ty.kept(),
            Type::Sequence(ty) => ty.key().and_then(|_| ty.kept()),
            _ => None,
        }
    }

    /// Returns the type of the keys, if this is a map or a sequence of maps.
    pub fn key(&self) -> Option<DType> {
        match self {
            Type::Map(key, _) => Some(*key),
            Type::Sequence(map) => map.key(),
            _ => None,
        }
    }

    /// Returns the element type of a tensor, or of the tensors of a sequence.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Type::Tensor(ty) | Type::Sparse(ty) => Some(ty.dtype),
            Type::Unranked(dtype) | Type::Never(dtype) => Some(*dtype),
            Type::Sequence(ty) | Type::Optional(ty) | Type::Map(_, ty) => ty.dtype(),
            Type::Unknown => None,
        }
    }

    /// Returns the size of each axis of the tensor, or of the tensor inside.
    pub fn sizes(&self) -> &[Dim] {
        match self {
            Type::Tensor(ty) | Type::Sparse(ty) => &ty.shape,
            Type::Sequence(ty) | Type::Optional(ty) | Type::Map(_, ty) => ty.sizes(),
            Type::Unranked(_) | Type::Never(_) | Type::Unknown => &[],
        }
    }

    /// Adds the symbols of every size to `found`.
    pub fn symbols(&self, found: &mut BTreeSet<Symbol>) {
        self.sizes().iter().for_each(|size| size.symbols(found));
    }

    /// Returns whether this is a tensor of known or unknown rank.
    pub fn is_tensor(&self) -> bool {
        matches!(self, Type::Tensor(_) | Type::Unranked(_))
    }

    /// Returns the most specific type that has the tensors of both types.
    pub fn either(&self, other: &Type) -> Type {
        match (self, other) {
            (Type::Never(_), other) => other.clone(),
            (one, Type::Never(_)) => one.clone(),
            (Type::Tensor(a), Type::Tensor(b)) if a.dtype == b.dtype && a.rank() == b.rank() => {
                let common = |(a, b): (&Dim, &Dim)| if a == b { a.clone() } else { any_size() };
                let shape = a.shape.iter().zip(&b.shape).map(common).collect();
                TensorType { dtype: a.dtype, shape }.into()
            }
            (one, other) => match (one.dtype(), other.dtype()) {
                (Some(a), Some(b)) if a == b => Type::Unranked(a),
                _ => Type::Unknown,
            },
        }
    }
}

impl From<TensorType> for Type {
    fn from(ty: TensorType) -> Type {
        Type::Tensor(ty)
    }
}

/// ONNX's textual syntax: `float[n, 1000]`, and `float` for a scalar.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shape.as_slice() {
            [] => write!(f, "{}", self.dtype),
            shape => write!(f, "{}{shape:?}", self.dtype),
        }
    }
}

/// ONNX's textual syntax: `float[]` is a tensor of unknown rank.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Tensor(ty) => write!(f, "{ty}"),
            Type::Unranked(dtype) | Type::Never(dtype) => write!(f, "{dtype}[]"),
            Type::Sequence(ty) => write!(f, "seq({ty})"),
            Type::Optional(ty) => write!(f, "optional({ty})"),
            Type::Map(key, ty) => write!(f, "map({key}, {ty})"),
            Type::Sparse(ty) => write!(f, "sparse_tensor({ty})"),
            Type::Unknown => f.write_str("?"),
        }
    }
}

impl fmt::Debug for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
