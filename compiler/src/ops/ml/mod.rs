//! Classical machine learning: the operator set `ai.onnx.ml`.

pub(super) mod classifier;
pub(super) mod encode;
pub(super) mod feature;
pub(super) mod linear;
pub(super) mod lookup;
pub(super) mod map;
pub(super) mod svm;
pub(super) mod tree;

use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::DType,
    ir::{Infer, Inferred, Reader, ValueId},
    ops::cast::{Cast, CastMode},
    ty::{TensorType, Type},
};

/// The numbers of rows and of features of input 0. A vector is a single row.
fn rows(cx: &Infer<'_>) -> Inferred<[Dim; 2]> {
    rows_of(cx, 0)
}

/// [`rows`] of input `i`.
fn rows_of(cx: &Infer<'_>, i: usize) -> Inferred<[Dim; 2]> {
    match cx.shape(i)? {
        [features] => Ok([1.into(), features.clone()]),
        [rows, features] => Ok([rows.clone(), features.clone()]),
        shape => {
            let message = format!("input {i} must have 1 or 2 axes, but has {}", shape.len());
            Err(cx.diagnostic(Code::ShapeMismatch, message))
        }
    }
}

/// Input 0, cast to `dtype` if it has another type.
fn input_as(node: &mut Reader<'_>, dtype: DType) -> Result<ValueId> {
    let x = node.input(0)?;
    cast_to(node, x, dtype)
}

/// Casts a value to `dtype` if it has another type.
fn cast_to(node: &mut Reader<'_>, x: ValueId, dtype: DType) -> Result<ValueId> {
    match node.type_of(x) {
        Type::Tensor(TensorType { dtype: found, .. }) | Type::Unranked(found)
            if *found == dtype =>
        {
            Ok(x)
        }
        _ => node.add(Cast { to: dtype, mode: CastMode::DEFAULT }, &[x], &[]),
    }
}

/// The type that the operator computes in: `double` if input 0 is `double`, else `float`.
fn compute_type(node: &Reader<'_>) -> Result<DType> {
    Ok(if node.dtype(0)? == DType::F64 { DType::F64 } else { DType::F32 })
}
