//! Types of values.

use crate::{
    dim::{Dim, Symbol},
    dtype::DType,
};
use std::{collections::BTreeSet, fmt};

/// The type of a value.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Type {
    /// A tensor whose number of axes is known.
    Tensor(TensorType),
    /// A tensor of any number of axes.
    Unranked(DType),
    /// A list of tensors of one element type. A size that differs from one to another, or is not
    /// known, is [`any_size`]. A list of maps with the same keys is a sequence of the map that has
    /// for values a matrix with a row for each.
    Sequence(Box<Type>),
    /// A value that may be absent.
    Optional(Box<Type>),
    /// A value for each key: a tensor of one axis.
    Map(DType, Box<Type>),
    /// A tensor that there never is: the element of a sequence that is surely empty, the value of
    /// an optional that surely has none.
    Never(DType),
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

/// The size of an axis that is another one in each tensor of a sequence.
pub fn any_size() -> Dim {
    Dim::symbol("?")
}

/// The number of elements of a tensor with these sizes; the largest number where it is larger.
pub fn count(shape: &[usize]) -> usize {
    shape.iter().fold(1, |count, &size| usize::saturating_mul(count, size))
}

/// Returns the index of an axis of a tensor; negative axes count from the last one.
pub(crate) fn axis_from_front(axis: i64, rank: usize) -> usize {
    let rank = i64::try_from(rank.max(1)).unwrap_or(i64::MAX);
    usize::try_from(axis.rem_euclid(rank)).unwrap_or(0)
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

    /// Whether every size is a number.
    pub fn is_fixed(&self) -> bool {
        let mut symbols = BTreeSet::new();
        self.symbols(&mut symbols);
        symbols.is_empty()
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
            Type::Unranked(_) | Type::Never(_) | Type::Unknown => self.clone(),
        }
    }

    /// The type of the value of an optional; the type itself where it is none.
    pub fn content(&self) -> &Type {
        match self {
            Type::Optional(content) => content,
            other => other,
        }
    }

    /// The type of the tensors, where this is a sequence of such.
    pub fn element(&self) -> Option<&Type> {
        match self {
            Type::Sequence(element) if !matches!(**element, Type::Map(..)) => Some(element),
            _ => None,
        }
    }

    /// The tensor in which the value is kept: an optional's own, the values of a map.
    pub fn kept(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(ty) => Some(ty),
            Type::Optional(ty) | Type::Map(_, ty) => ty.kept(),
            Type::Sequence(ty) => ty.key().and_then(|_| ty.kept()),
            _ => None,
        }
    }

    /// The type of the keys, where this is a map or a sequence of maps.
    pub fn key(&self) -> Option<DType> {
        match self {
            Type::Map(key, _) => Some(*key),
            Type::Sequence(map) => map.key(),
            _ => None,
        }
    }

    /// The element type of a tensor, or of the tensors of a sequence.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Type::Tensor(ty) | Type::Sparse(ty) => Some(ty.dtype),
            Type::Unranked(dtype) | Type::Never(dtype) => Some(*dtype),
            Type::Sequence(ty) | Type::Optional(ty) | Type::Map(_, ty) => ty.dtype(),
            Type::Unknown => None,
        }
    }

    /// The size of each axis of the tensor that it is, or that is inside.
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

    /// Whether this stands for a tensor.
    pub fn is_tensor(&self) -> bool {
        matches!(self, Type::Tensor(_) | Type::Unranked(_))
    }

    /// What the tensors of a sequence are where each is of one of two types.
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

/// As ONNX's own text writes it: `float[n, 1000]`, and `float` for a single number.
impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shape.as_slice() {
            [] => write!(f, "{}", self.dtype),
            shape => write!(f, "{}{shape:?}", self.dtype),
        }
    }
}

/// As ONNX's own text writes it: `float[]` is a tensor of any number of axes.
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
