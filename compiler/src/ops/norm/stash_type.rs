//! The attribute `stash_type`.

use crate::{
    diag::{Code, Diagnostic, Result},
    dtype::{DType, FLOATS},
    ir::Reader,
};

/// Reads `stash_type`: the type of the first stage of a normalization.
pub(super) fn stash_type(node: &mut Reader<'_>) -> Result<DType> {
    let dtype = node.maybe_dtype("stash_type")?.unwrap_or(DType::F32);
    if FLOATS.contains(&dtype) {
        return Ok(dtype);
    }
    let message = format!("`stash_type` is {dtype}, but must be a float type");
    Err(Diagnostic::new(Code::BadAttribute, message))
}
