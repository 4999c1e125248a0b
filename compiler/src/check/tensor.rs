//! Tensors: data against type and shape, in every field that can hold data.

use super::{context::Context, metadata::metadata};
use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    dtype::DType,
};
use onnxc_proto::{TensorProto, tensor_proto::DataLocation};
use std::collections::HashSet;

/// Checks a tensor; only the first violation is reported, because the others follow from it.
pub(super) fn tensor(cx: &mut Context<'_>, proto: &TensorProto) {
    if let Err(diagnostic) = fault(proto) {
        cx.report(diagnostic);
    }
    metadata(cx, &proto.metadata_props);
}

fn fault(proto: &TensorProto) -> Result {
    let dtype = dtype(proto.data_type.unwrap_or_default())?;
    if proto.segment.is_some() {
        return Err(found(Code::Segmented, "the tensor is stored in segments"));
    }
    let len = element_count(&proto.dims)?;
    let bytes = byte_count(dtype, len)?;
    let filled = filled(proto);
    match proto.data_location.unwrap_or_default() {
        0 => stored(proto, dtype, len, bytes, &filled),
        external if external == DataLocation::External as i32 => {
            if let Some((field, _)) = filled.first() {
                let message = format!("the tensor is stored externally, but `{field}` has data");
                return Err(found(Code::DataFields, message));
            }
            reference(proto, dtype, bytes)
        }
        other => {
            Err(found(Code::BadField, format!("`data_location` is {other}; it may be 0 or 1")))
        }
    }
}

/// Returns the element type of a code.
pub(super) fn dtype(code: i32) -> Result<DType> {
    DType::from_code(code).ok_or_else(|| match code {
        0 => found(Code::ElementType, "the tensor has no element type: `data_type` is missing"),
        _ => found(Code::ElementType, format!("{code} is not an element type of ONNX")),
    })
}

/// Returns the number of elements of a shape.
pub(super) fn element_count(dims: &[i64]) -> Result<u64> {
    if let Some((axis, size)) = dims.iter().enumerate().find(|(_, size)| **size < 0) {
        return Err(found(
            Code::NegativeSize,
            format!("axis {axis} of the tensor has the size {size}"),
        ));
    }
    // A size of 0 makes the product 0, whatever the others are.
    if dims.contains(&0) {
        return Ok(0);
    }
    let len = dims.iter().try_fold(1i64, |len, &size| len.checked_mul(size));
    len.and_then(|len| u64::try_from(len).ok()).ok_or_else(|| too_large(dims))
}

fn too_large(dims: &[i64]) -> Diagnostic {
    found(Code::TensorTooLarge, format!("a tensor of shape {dims:?} is larger than any memory"))
}

/// Returns the length of the elements in `raw_data`, in bytes; strings are not stored there.
fn byte_count(dtype: DType, len: u64) -> Result<u64> {
    let bits = u64::try_from(dtype.bits()).unwrap_or(u64::MAX);
    let bytes = len.checked_mul(bits).map(|bits| bits.div_ceil(8));
    bytes.filter(|&bytes| isize::try_from(bytes).is_ok()).ok_or_else(|| {
        found(
            Code::TensorTooLarge,
            format!("{len} elements of type {dtype} are larger than any memory"),
        )
    })
}

/// Returns the fields that have data, with their numbers of entries.
fn filled(proto: &TensorProto) -> Vec<(&'static str, usize)> {
    let all = [
        ("float_data", proto.float_data.len()),
        ("int32_data", proto.int32_data.len()),
        ("string_data", proto.string_data.len()),
        ("int64_data", proto.int64_data.len()),
        ("raw_data", proto.raw_data.as_ref().map_or(0, |raw| raw.len())),
        ("double_data", proto.double_data.len()),
        ("uint64_data", proto.uint64_data.len()),
    ];
    all.into_iter().filter(|(_, entries)| *entries > 0).collect()
}

fn stored(
    proto: &TensorProto,
    dtype: DType,
    len: u64,
    bytes: u64,
    filled: &[(&'static str, usize)],
) -> Result {
    let (field, entries) = match filled {
        [] if len == 0 => return Ok(()),
        [] => {
            let message = format!("the tensor has {len} elements, but no data");
            return Err(found(Code::DataFields, message));
        }
        [(field, _), ..] if len == 0 => {
            let message = format!("the tensor has no elements, but `{field}` has data");
            return Err(found(Code::DataFields, message));
        }
        [one] => *one,
        several => {
            let names: Vec<&str> = several.iter().map(|(field, _)| *field).collect();
            let message = format!("the tensor has data in `{}`", names.join("` and `"));
            return Err(
                found(Code::DataFields, message).help("keep the one that its type asks for")
            );
        }
    };
    let (own, per_entry) = field_of(dtype, len);
    let expected = match field {
        "raw_data" if dtype != DType::String => bytes,
        _ if field == own => per_entry,
        _ => {
            let message =
                format!("elements of type {dtype} are stored in `{own}`, not in `{field}`");
            return Err(found(Code::DataField, message));
        }
    };
    if u64::try_from(entries) != Ok(expected) {
        let unit = if field == "raw_data" { "bytes" } else { "entries" };
        let sizes: Vec<String> = proto.dims.iter().map(i64::to_string).collect();
        let ty = format!("{dtype}[{}]", sizes.join(", "));
        let message = format!("`{field}` has {entries} {unit}, but {ty} takes {expected}");
        return Err(found(Code::BadTensor, message));
    }
    if dtype == DType::Bool {
        let raw = proto.raw_data.iter().flat_map(|raw| raw.iter().map(|&byte| i32::from(byte)));
        ensure_booleans(raw.chain(proto.int32_data.iter().copied()))?;
    }
    let bad = |text: &&onnxc_proto::Bytes| std::str::from_utf8(text).is_err();
    match proto.string_data.iter().enumerate().find(|(_, text)| bad(text)) {
        Some((i, _)) => {
            Err(found(Code::BadText, format!("string {i} of the tensor is not valid UTF-8")))
        }
        None => Ok(()),
    }
}

/// Rejects booleans other than 0 and 1.
///
/// # Errors
///
/// Returns an error for the first element that is neither 0 nor 1.
pub fn ensure_booleans(elements: impl IntoIterator<Item = i32>) -> Result {
    match elements.into_iter().enumerate().find(|(_, element)| !matches!(element, 0 | 1)) {
        Some((i, element)) => {
            let message = format!("boolean {i} of the tensor is {element}, neither 0 nor 1");
            Err(found(Code::BadTensor, message))
        }
        None => Ok(()),
    }
}

/// Returns the typed field of an element type, and the number of entries for `len` elements.
fn field_of(dtype: DType, len: u64) -> (&'static str, u64) {
    match dtype {
        DType::F32 => ("float_data", len),
        DType::C64 => ("float_data", len.saturating_mul(2)),
        DType::F64 => ("double_data", len),
        DType::C128 => ("double_data", len.saturating_mul(2)),
        DType::I64 => ("int64_data", len),
        DType::U32 | DType::U64 => ("uint64_data", len),
        DType::String => ("string_data", len),
        DType::I4 | DType::U4 | DType::F4E2M1 => ("int32_data", len.div_ceil(2)),
        DType::I2 | DType::U2 => ("int32_data", len.div_ceil(4)),
        DType::I8 | DType::I16 | DType::I32 | DType::U8 | DType::U16 | DType::Bool => {
            ("int32_data", len)
        }
        DType::F16
        | DType::BF16
        | DType::F8E4M3FN
        | DType::F8E4M3FNUZ
        | DType::F8E5M2
        | DType::F8E5M2FNUZ
        | DType::F8E8M0
        | DType::F6E2M3
        | DType::F6E3M2 => ("int32_data", len),
    }
}

/// Checks the location of external data; import checks the file.
fn reference(proto: &TensorProto, dtype: DType, bytes: u64) -> Result {
    let bad = |message: String| found(Code::ExternalReference, message);
    if dtype == DType::String {
        return Err(bad("strings cannot be stored externally".into()));
    }
    let mut seen = HashSet::new();
    let mut location = "";
    for entry in &proto.external_data {
        let (key, value) = (entry.key(), entry.value());
        if !seen.insert(key) {
            return Err(bad(format!("`external_data` has the key {} twice", quoted(key))));
        }
        match key {
            "location" => location = value,
            "offset" | "length" => {
                let number: Option<u64> = value.parse().ok();
                let Some(number) = number.filter(|&number| i64::try_from(number).is_ok()) else {
                    return Err(bad(format!(
                        "`{key}` is {}, not a number of bytes",
                        quoted(value)
                    )));
                };
                if key == "length" && number != bytes {
                    let message = format!("`length` is {number}, but type and shape want {bytes}");
                    return Err(bad(message));
                }
            }
            _ => {}
        }
    }
    if location.is_empty() {
        let help = "`location` names the file, relative to the model";
        return Err(bad("the tensor is stored externally, but has no `location`".into()).help(help));
    }
    Ok(())
}

fn found(code: Code, message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(proto: TensorProto) -> Option<Code> {
        fault(&proto).err().map(|diagnostic| diagnostic.code)
    }

    fn proto(dtype: DType, dims: &[i64]) -> TensorProto {
        TensorProto { dims: dims.to_vec(), data_type: Some(dtype.code()), ..Default::default() }
    }

    #[test]
    fn every_type_has_a_field_and_raw_data() {
        for code in 1..=28 {
            let dtype = DType::from_code(code).expect("ONNX has these types");
            let (field, entries) = field_of(dtype, 5);
            let entries = usize::try_from(entries).expect("there are few");
            let mut typed = proto(dtype, &[5]);
            match field {
                "float_data" => typed.float_data = vec![0.0; entries],
                "double_data" => typed.double_data = vec![0.0; entries],
                "int64_data" => typed.int64_data = vec![0; entries],
                "uint64_data" => typed.uint64_data = vec![0; entries],
                "string_data" => typed.string_data = vec![onnxc_proto::Bytes::new(); entries],
                _ => typed.int32_data = vec![0; entries],
            }
            assert_eq!(fault(&typed), Ok(()), "{dtype}");
            if dtype != DType::String {
                let raw = vec![0; (5 * dtype.bits()).div_ceil(8)].into();
                let raw = TensorProto { raw_data: Some(raw), ..proto(dtype, &[5]) };
                assert_eq!(fault(&raw), Ok(()), "{dtype}");
            }
        }
    }

    #[test]
    fn sizes_cannot_overflow() {
        assert_eq!(code(proto(DType::F32, &[i64::MAX, 2])), Some(Code::TensorTooLarge));
        assert_eq!(code(proto(DType::F32, &[i64::MAX])), Some(Code::TensorTooLarge));
        assert_eq!(code(proto(DType::F32, &[i64::MAX, i64::MAX, 0])), None);
    }
}
