//! Sparse tensors: values, indices, and the shape of the whole.

use super::{
    context::{Context, Place},
    tensor,
};
use crate::{
    diag::{Code, Diagnostic, Result, counted},
    dtype::DType,
};
use onnxc_proto::{SparseTensorProto, TensorProto};

/// Checks a sparse tensor.
pub(super) fn sparse<'p>(cx: &mut Context<'p>, proto: &'p SparseTensorProto) {
    let before = cx.count();
    let parts = [("values", &proto.values), ("indices", &proto.indices)];
    for (field, part) in parts {
        if let Some(part) = part {
            cx.within(Place::Field(field), |cx| tensor::tensor(cx, part));
        }
    }
    // An error in a part is not reported again for the whole.
    if cx.count() == before
        && let Err(diagnostic) = whole(proto)
    {
        cx.report(diagnostic);
    }
}

fn whole(proto: &SparseTensorProto) -> Result {
    let bad = |message: String| Diagnostic::new(Code::SparseForm, message);
    let Some(values) = &proto.values else {
        return Err(bad("the sparse tensor has no `values`".into()));
    };
    let &[count] = values.dims.as_slice() else {
        return Err(bad(format!("`values` must have one axis, but has {}", values.dims.len())));
    };
    if proto.dims.is_empty() || proto.dims.iter().any(|&size| size <= 0) {
        let message =
            format!("the sizes of a sparse tensor must be positive, but are {:?}", proto.dims);
        return Err(bad(message));
    }
    let len = tensor::element_count(&proto.dims)?;
    let Some(indices) = &proto.indices else {
        let message =
            format!("the sparse tensor has {}, but no `indices`", counted(count, "value"));
        return if count == 0 { Ok(()) } else { Err(bad(message)) };
    };
    if indices.data_type() != DType::I64.code() {
        return Err(bad("`indices` must be of type int64".into()));
    }
    let sizes: Vec<i64> = match indices.dims.as_slice() {
        [found] if *found == count => vec![i64::try_from(len).unwrap_or(i64::MAX)],
        [found, axes] if *found == count && usize::try_from(*axes) == Ok(proto.dims.len()) => {
            proto.dims.clone()
        }
        found => {
            let message = format!(
                "`indices` must have the shape [{count}] or [{count}, {}], but has {found:?}",
                proto.dims.len()
            );
            return Err(bad(message));
        }
    };
    places(indices, &sizes)
}

/// Checks that the indices are inside of the tensor and ascending.
fn places(indices: &TensorProto, sizes: &[i64]) -> Result {
    let raw = indices.raw_data.as_deref().unwrap_or_default();
    let (raw, _) = raw.as_chunks();
    let mut all =
        indices.int64_data.iter().copied().chain(raw.iter().map(|x| i64::from_le_bytes(*x)));
    let mut before: Option<Vec<i64>> = None;
    for i in 0.. {
        let place: Vec<i64> = all.by_ref().take(sizes.len()).collect();
        if place.len() < sizes.len() {
            break;
        }
        let bad = |what: &str| {
            let message = format!("index {i} of the sparse tensor, {place:?}, {what}");
            Diagnostic::new(Code::SparseIndices, message)
        };
        if place.iter().zip(sizes).any(|(place, size)| !(0..*size).contains(place)) {
            return Err(bad("lies outside").note(format!("the sizes are {sizes:?}")));
        }
        if before.as_ref().is_some_and(|before| *before >= place) {
            return Err(bad("does not lie behind the one before").help("sort the indices"));
        }
        before = Some(place);
    }
    Ok(())
}
