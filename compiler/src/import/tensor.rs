//! Converts tensors between messages and [`Tensor`].

use super::{external, types};
use crate::{
    check::ensure_booleans,
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::DType,
    limits::{Budget, Limit},
    tensor::{Data, Tensor},
    ty::{TensorType, count},
};
use bytes::Bytes;
use onnxc_proto::{
    SparseTensorProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto,
    tensor_proto::DataLocation,
    tensor_shape_proto::{Dimension, dimension::Value::DimValue},
    type_proto,
};

/// Reads a tensor that the checker has seen. `files` reads its external data.
pub fn tensor(proto: &TensorProto, files: &external::Files) -> Result<Tensor> {
    let dtype = types::dtype(proto.data_type())?;
    let shape = shape(&proto.dims)?;
    let len = checked_len(&shape)?;
    let is_external = proto.data_location() == DataLocation::External;
    if dtype == DType::String {
        return strings(proto, shape);
    }
    let data = if is_external {
        let raw = files.read(proto, raw_len(dtype, len))?;
        // The checker has seen only the data inside the model.
        if dtype == DType::Bool {
            ensure_booleans(raw.iter().map(|&byte| i32::from(byte)))?;
        }
        unpack(dtype, len, raw)?
    } else if let Some(raw) = proto.raw_data.as_ref().filter(|raw| !raw.is_empty()) {
        unpack(dtype, len, raw.clone())?
    } else {
        read_typed_field(proto, dtype, len)?
    };
    Ok(Tensor { dtype, shape, data: Data::Bytes(data) })
}

/// Reads the external data of a tensor, in the encoding of the file format.
pub fn external_data(proto: &TensorProto, files: &external::Files) -> Result<Bytes> {
    let dtype = types::dtype(proto.data_type())?;
    files.read(proto, raw_len(dtype, checked_len(&shape(&proto.dims)?)?))
}

/// The declaration of an input with the type of a tensor.
pub fn as_input(proto: &TensorProto) -> ValueInfoProto {
    let dims = proto
        .dims
        .iter()
        .map(|&size| Dimension { value: Some(DimValue(size)), ..Dimension::default() });
    let shape = Some(TensorShapeProto { dim: dims.collect() });
    let tensor = type_proto::Tensor { elem_type: proto.data_type, shape };
    let ty = TypeProto { value: Some(type_proto::Value::TensorType(tensor)), denotation: None };
    let name = Some(proto.name().to_owned());
    ValueInfoProto { name, r#type: Some(ty), ..ValueInfoProto::default() }
}

/// Reads a sparse tensor, and returns its dense form.
pub fn sparse(
    proto: &SparseTensorProto,
    files: &external::Files,
    budget: &Budget,
) -> Result<Tensor> {
    let missing = |field| Diagnostic::new(Code::MissingField, format!("`{field}` is missing"));
    let values = tensor(proto.values.as_ref().ok_or_else(|| missing("values"))?, files)?;
    let shape = shape(&proto.dims)?;
    let len = checked_len(&shape)?;
    let indices = match &proto.indices {
        Some(indices) => tensor(indices, files)?,
        None if values.is_empty() => Tensor::from_ints(&[]),
        None => return Err(missing("indices")),
    };
    let bad = |what: &str| Diagnostic::new(Code::BadTensor, format!("sparse tensor: {what}"));
    let places = indices.ints().ok_or_else(|| bad("the indices must be int64"))?;
    let axes = if indices.shape.len() == 2 { shape.len() } else { 1 };
    if places.len() != values.len() * axes {
        return Err(bad("there are not as many indices as values"));
    }
    let size = values.dtype.bytes();
    let bytes = len.saturating_mul(size);
    budget.spend(Limit::SparseBytes, bytes, "sparse tensors in dense form")?;
    let mut data = vec![0; bytes];
    for (i, place) in places.chunks_exact(axes.max(1)).enumerate() {
        let mut at = 0;
        let sizes: &[usize] = if axes == 1 && indices.shape.len() < 2 { &[len] } else { &shape };
        for (&index, &size) in place.iter().zip(sizes) {
            let index = usize::try_from(index).ok().filter(|&index| index < size);
            at = at * size + index.ok_or_else(|| bad("an index lies outside the tensor"))?;
        }
        let value = values.bytes().get(i * size..(i + 1) * size);
        let value = value.ok_or_else(|| bad("strings cannot be sparse"))?;
        data[at * size..(at + 1) * size].copy_from_slice(value);
    }
    Ok(Tensor { dtype: values.dtype, shape, data: Data::Bytes(data.into()) })
}

/// Converts a constant to a message.
pub fn proto(tensor: &Tensor, name: &str) -> TensorProto {
    let mut proto = TensorProto {
        name: Some(name.to_owned()),
        dims: tensor.shape.iter().map(|&size| size as i64).collect(),
        data_type: Some(tensor.dtype.code()),
        ..Default::default()
    };
    match &tensor.data {
        Data::Bytes(bytes) => proto.raw_data = Some(pack(tensor.dtype, bytes)),
        Data::Strings(strings) => {
            proto.string_data =
                strings.iter().map(|text| Bytes::copy_from_slice(text.as_bytes())).collect();
        }
    }
    proto
}

/// Converts values at indices to the message of a sparse tensor.
pub fn sparse_proto(values: &Tensor, indices: &Tensor, ty: &TensorType) -> SparseTensorProto {
    SparseTensorProto {
        values: Some(proto(values, "")),
        indices: Some(proto(indices, "")),
        dims: ty.shape.iter().filter_map(Dim::known).collect(),
    }
}

fn shape(dims: &[i64]) -> Result<Vec<usize>> {
    let size = |&n: &i64| {
        usize::try_from(n).map_err(|_| {
            Diagnostic::new(Code::BadTensor, format!("the tensor has an axis of size {n}"))
        })
    };
    dims.iter().map(size).collect()
}

/// The number of elements. Returns an error if their bytes exceed the address space.
fn checked_len(shape: &[usize]) -> Result<usize> {
    const LARGEST: usize = isize::MAX as usize / 32;
    let len = count(shape);
    if len > LARGEST {
        let message = format!("a tensor of shape {shape:?} is too large");
        return Err(Diagnostic::new(Code::TooLarge, message));
    }
    Ok(len)
}

fn raw_len(dtype: DType, len: usize) -> usize {
    (len * dtype.bits()).div_ceil(8)
}

fn wrong_len(field: &str, found: usize, expected: usize) -> Diagnostic {
    let message = format!("`{field}` has {found} entries, but the type and shape need {expected}");
    Diagnostic::new(Code::BadTensor, message)
}

fn strings(proto: &TensorProto, shape: Vec<usize>) -> Result<Tensor> {
    let utf8 = |bytes: &Bytes| {
        String::from_utf8(bytes.to_vec())
            .map_err(|_| Diagnostic::new(Code::BadText, "a string is not valid UTF-8"))
    };
    let strings = proto.string_data.iter().map(utf8).collect::<Result<Vec<String>>>()?;
    Ok(Tensor { dtype: DType::String, shape, data: Data::Strings(strings.into()) })
}

/// Unpacks raw data, which may hold several elements in a byte. Each element gets whole bytes.
fn unpack(dtype: DType, len: usize, raw: Bytes) -> Result<Bytes> {
    let expected = raw_len(dtype, len);
    if raw.len() != expected {
        return Err(wrong_len("raw_data", raw.len(), expected));
    }
    if dtype.bits() >= 8 {
        return Ok(raw);
    }
    // Elements follow each other from the lowest bit of the first byte on.
    let element = |i: usize| {
        let (byte, bit) = (i * dtype.bits() / 8, i * dtype.bits() % 8);
        let next = raw.get(byte + 1).copied().unwrap_or_default();
        let [low, _] = (u16::from_le_bytes([raw[byte], next]) >> bit).to_le_bytes();
        narrow(dtype, low)
    };
    Ok((0..len).map(element).collect())
}

/// Packs elements to raw data. Elements of less than a byte follow each other from the lowest bit
/// on.
fn pack(dtype: DType, bytes: &Bytes) -> Bytes {
    let bits = dtype.bits();
    if bits >= 8 {
        return bytes.clone();
    }
    let mut raw = vec![0; raw_len(dtype, bytes.len())];
    for (i, &element) in bytes.iter().enumerate() {
        let low = u16::from(element & ((1 << bits) - 1));
        let [first, second] = (low << (i * bits % 8)).to_le_bytes();
        raw[i * bits / 8] |= first;
        if second != 0 {
            raw[i * bits / 8 + 1] |= second;
        }
    }
    raw.into()
}

/// The low bits of a byte as an element of less than a byte. Signed elements are sign-extended.
fn narrow(dtype: DType, byte: u8) -> u8 {
    let unused = 8 - dtype.bits();
    match dtype {
        DType::I2 | DType::I4 => ((byte << unused) as i8 >> unused) as u8,
        _ => byte << unused >> unused,
    }
}

/// Reads the elements from the field in which the file format stores the type.
fn read_typed_field(proto: &TensorProto, dtype: DType, len: usize) -> Result<Bytes> {
    match dtype {
        DType::F32 | DType::C64 => {
            Ok(proto.float_data.iter().flat_map(|x| x.to_le_bytes()).collect())
        }
        DType::F64 | DType::C128 => {
            Ok(proto.double_data.iter().flat_map(|x| x.to_le_bytes()).collect())
        }
        DType::I64 => Ok(proto.int64_data.iter().flat_map(|x| x.to_le_bytes()).collect()),
        DType::U64 | DType::U32 => {
            let bytes = dtype.bytes();
            Ok(proto
                .uint64_data
                .iter()
                .flat_map(|x| x.to_le_bytes().into_iter().take(bytes))
                .collect())
        }
        DType::I2 | DType::U2 | DType::I4 | DType::U4 | DType::F4E2M1 => {
            let raw: Bytes = proto.int32_data.iter().map(|&x| x as u8).collect();
            unpack(dtype, len, raw)
        }
        DType::F6E2M3 | DType::F6E3M2 => {
            Ok(proto.int32_data.iter().map(|&x| narrow(dtype, x as u8)).collect())
        }
        _ => {
            let bytes = dtype.bytes();
            Ok(proto
                .int32_data
                .iter()
                .flat_map(|x| x.to_le_bytes().into_iter().take(bytes))
                .collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proto(dtype: DType, dims: &[i64]) -> TensorProto {
        TensorProto { dims: dims.to_vec(), data_type: Some(dtype.code()), ..Default::default() }
    }

    #[test]
    fn four_bits_are_unpacked_low_half_first() {
        let raw_data = Some(Bytes::from_static(&[0x8f, 0x07]));
        let packed = TensorProto { raw_data, ..proto(DType::I4, &[3]) };
        let files = external::Files::none();
        let found = tensor(&packed, &files).expect("the data fits the type and shape");
        assert_eq!(found.ints(), Some(vec![-1, -8, 7]));
    }

    #[test]
    fn a_6_bit_element_may_span_two_bytes() {
        let raw_data = Some(Bytes::from_static(&[0b0100_0001, 0b0011_0000, 0b1111_1100, 0b10]));
        let packed = TensorProto { raw_data, ..proto(DType::F6E2M3, &[5]) };
        let found =
            tensor(&packed, &external::Files::none()).expect("the data fits the type and shape");
        assert_eq!(found.bytes(), [0b1, 0b1, 0b11, 0b111111, 0b10]);
        assert_eq!(found.floats(), Some(vec![0.125, 0.125, 0.375, -7.5, 0.25]));
    }

    #[test]
    fn a_size_of_zero_decides() {
        for dims in [[0, 1 << 40, 1 << 40], [1 << 62, 4, 0]] {
            let empty = tensor(&proto(DType::F32, &dims), &external::Files::none());
            assert_eq!(empty.expect("an empty tensor needs no data").len(), 0);
        }
    }

    #[test]
    fn a_written_tensor_reads_the_same() {
        let files = external::Files::none();
        for (dtype, elements) in
            [(DType::I4, &[0xff, 0xf8, 7]), (DType::U2, &[3, 0, 1]), (DType::F6E2M3, &[1, 0x3f, 3])]
        {
            let data = Data::Bytes(Bytes::from_static(elements));
            let small = Tensor { dtype, shape: vec![3, 1], data };
            assert!(
                tensor(&super::proto(&small, "x"), &files).expect("a written tensor can be read")
                    == small
            );
        }
        let text = Tensor::from_strings(vec!["a".into(), "\u{e4}".into()]);
        assert!(
            tensor(&super::proto(&text, "x"), &files).expect("a written tensor can be read")
                == text
        );
    }
}
