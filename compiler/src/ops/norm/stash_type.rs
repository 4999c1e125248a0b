//! The attribute `stash_type`.

use crate::{
    diag::{Code, Diagnostic, Result},
    dtype::{DType, FLOATS},
    ir::Reader,
};

/// The type that the first stage of a normalization is said to be calculated in.
pub(super) fn stash_type(node: &mut Reader<'_>) -> Result<DType> {
    let dtype = node.maybe_dtype("stash_type")?.unwrap_or(DType::F32);
    if FLOATS.contains(&dtype) {
        return Ok(dtype);
    }
    let message = format!("`stash_type` is {dtype}, which has no fractions");
    Err(Diagnostic::new(Code::BadAttribute, message))
}
