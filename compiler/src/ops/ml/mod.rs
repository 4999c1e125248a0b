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

/// The numbers of rows and of features of input 0, which may be a single row.
fn rows(cx: &Infer<'_>) -> Inferred<[Dim; 2]> {
    match cx.shape(0)? {
        [features] => Ok([1.into(), features.clone()]),
        [rows, features] => Ok([rows.clone(), features.clone()]),
        shape => {
            let message = format!("input 0 must be rows of features, but has {} axes", shape.len());
            Err(cx.diagnostic(Code::ShapeMismatch, message))
        }
    }
}

/// Input 0 as numbers of `dtype`.
fn input_as(node: &mut Reader<'_>, dtype: DType) -> Result<ValueId> {
    let x = node.input(0)?;
    as_type(node, x, dtype)
}

/// A value as numbers of `dtype`.
fn as_type(node: &mut Reader<'_>, x: ValueId, dtype: DType) -> Result<ValueId> {
    match node.type_of(x) {
        Type::Tensor(TensorType { dtype: found, .. }) | Type::Unranked(found)
            if *found == dtype =>
        {
            Ok(x)
        }
        _ => node.add(Cast { to: dtype, mode: CastMode::DEFAULT }, &[x], &[]),
    }
}

/// `float`, or `double` where input 0 is: what the operator calculates in.
fn wide(node: &Reader<'_>) -> Result<DType> {
    Ok(if node.dtype(0)? == DType::F64 { DType::F64 } else { DType::F32 })
}
