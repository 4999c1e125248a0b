//! Types of values.

use crate::{dim::Dim, dtype::DType};
use std::fmt;

/// The type of a value.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Type {
    /// A tensor whose number of axes is known.
    Tensor(TensorType),
    /// A tensor of any number of axes.
    Unranked(DType),
    /// A list of values of one type.
    Sequence(Box<Type>),
    /// A value that may be absent.
    Optional(Box<Type>),
    /// Values under keys.
    Map(DType, Box<Type>),
    /// A tensor of which only some elements are stored.
    Sparse(TensorType),
    /// Nothing is known, because what comes before is wrong or not yet decided.
    Unknown,
}

/// The type of a tensor: its element and the size of each axis.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// The element type.
    pub dtype: DType,
    /// The size of each axis.
    pub shape: Vec<Dim>,
}

impl TensorType {
    /// A tensor of `dtype` with the axes of `shape`.
    pub fn new<D: Into<Dim>>(dtype: DType, shape: impl IntoIterator<Item = D>) -> TensorType {
        TensorType { dtype, shape: shape.into_iter().map(Into::into).collect() }
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements.
    pub fn len(&self) -> Dim {
        self.shape.iter().product()
    }

    /// Whether there is surely no element.
    pub fn is_empty(&self) -> bool {
        self.len().known() == Some(0)
    }

    /// The sizes, where all are numbers.
    pub fn known_shape(&self) -> Option<Vec<usize>> {
        self.shape.iter().map(|dim| usize::try_from(dim.known()?).ok()).collect()
    }
}

impl Type {
    /// A tensor of `dtype` with the axes of `shape`.
    pub fn tensor<D: Into<Dim>>(dtype: DType, shape: impl IntoIterator<Item = D>) -> Type {
        Type::Tensor(TensorType::new(dtype, shape))
    }

    /// The tensor type, where this is a tensor whose number of axes is known.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(ty) => Some(ty),
            _ => None,
        }
    }

    /// The same type with `change` done to every size.
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
            Type::Unranked(_) | Type::Unknown => self.clone(),
        }
    }
}

impl From<TensorType> for Type {
    fn from(ty: TensorType) -> Type {
        Type::Tensor(ty)
    }
}

/// As ONNX's own text writes it: `float[n, 1000]`.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Tensor(ty) => write!(f, "{ty}"),
            Type::Unranked(dtype) => write!(f, "{dtype}"),
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
