//! Encodes and decodes the files in which this program and compiled models exchange values.
//! `runner_io.rs` documents the format.

use onnxc::{
    dtype::DType,
    tensor::{Data, Tensor},
    value::Value,
};

/// The kinds of values other than tensors, stored where a tensor has its element type.
const SEQUENCE: usize = 1000;
const OPTIONAL: usize = 1001;
const MAP: usize = 1002;

/// Encodes values.
pub fn encode(values: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    values.iter().for_each(|value| encode_value(value, &mut bytes));
    bytes
}

fn encode_number(n: usize, bytes: &mut Vec<u8>) {
    bytes.extend((n as u64).to_le_bytes());
}

fn encode_value(value: &Value, bytes: &mut Vec<u8>) {
    match value {
        Value::Tensor(tensor) => encode_tensor(tensor, bytes),
        Value::Sequence(values) => {
            encode_number(SEQUENCE, bytes);
            encode_number(values.len(), bytes);
            values.iter().for_each(|value| encode_value(value, bytes));
        }
        Value::Optional(value) => {
            encode_number(OPTIONAL, bytes);
            encode_number(usize::from(value.is_some()), bytes);
            value.iter().for_each(|value| encode_value(value, bytes));
        }
        Value::Map(keys, values) => {
            encode_number(MAP, bytes);
            encode_tensor(keys, bytes);
            encode_tensor(values, bytes);
        }
    }
}

fn encode_tensor(tensor: &Tensor, bytes: &mut Vec<u8>) {
    encode_number(tensor.dtype.code() as usize, bytes);
    encode_number(tensor.shape.len(), bytes);
    tensor.shape.iter().for_each(|&size| encode_number(size, bytes));
    let data = match &tensor.data {
        Data::Bytes(data) => data.to_vec(),
        Data::Strings(strings) => {
            let each = strings
                .iter()
                .flat_map(|text| (text.len() as u64).to_le_bytes().into_iter().chain(text.bytes()));
            each.collect()
        }
    };
    encode_number(data.len(), bytes);
    bytes.extend(data);
}

/// Decodes values.
pub fn decode(mut bytes: &[u8]) -> Vec<Value> {
    std::iter::from_fn(|| decode_value(&mut bytes)).collect()
}

fn decode_number(bytes: &mut &[u8]) -> Option<usize> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    usize::try_from(u64::from_le_bytes(*number)).ok()
}

fn decode_value(bytes: &mut &[u8]) -> Option<Value> {
    let kind = decode_number(bytes)?;
    let many = |bytes: &mut &[u8]| {
        let count = decode_number(bytes)?;
        (0..count).map(|_| decode_value(bytes)).collect::<Option<Vec<Value>>>()
    };
    Some(match kind {
        SEQUENCE => Value::Sequence(many(bytes)?),
        OPTIONAL => Value::Optional(many(bytes)?.pop().map(Box::new)),
        MAP => Value::Map(decode_value(bytes)?.into_tensor()?, decode_value(bytes)?.into_tensor()?),
        code => Value::Tensor(decode_tensor(i32::try_from(code).ok()?, bytes)?),
    })
}

fn decode_tensor(code: i32, bytes: &mut &[u8]) -> Option<Tensor> {
    let dtype = DType::from_code(code)?;
    let rank = decode_number(bytes)?;
    let shape = (0..rank).map(|_| decode_number(bytes)).collect::<Option<Vec<usize>>>()?;
    let len = decode_number(bytes)?;
    let (mut data, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    let data = if dtype == DType::String {
        let mut strings = Vec::new();
        while let Some(len) = decode_number(&mut data) {
            let (text, rest) = data.split_at(len.min(data.len()));
            strings.push(String::from_utf8_lossy(text).into_owned());
            data = rest;
        }
        Data::Strings(strings.into())
    } else {
        Data::Bytes(data.to_vec().into())
    };
    Some(Tensor { dtype, shape, data })
}
