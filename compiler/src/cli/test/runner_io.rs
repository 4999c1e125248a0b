//! Reads and writes the files in which the test program and compiled models exchange values.
//!
//! All numbers are little-endian. A tensor is stored as the number of its element type, the rank,
//! the sizes, the size of the data in bytes, and the elements. A sequence or an optional is stored
//! as its kind, the number of values, and the values. A map is stored as its kind and two tensors.

use onnxc_runtime::{
    Complex, F4E2M1, F6E2M3, F6E3M2, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, I2, I4, U2,
    U4, bf16, f16, sequence::Sequence,
};

/// A value in a file.
pub enum Value {
    Tensor { dtype: u32, shape: Vec<usize>, data: Vec<u8> },
    Sequence(Vec<Value>),
    Optional(Option<Box<Value>>),
    Map(Box<[Value; 2]>),
}

/// The kinds of values other than tensors, stored where a tensor has its element type.
const SEQUENCE: u64 = 1000;
const OPTIONAL: u64 = 1001;
const MAP: u64 = 1002;

/// An element type of tensors in files.
pub trait Element: Sized {
    /// The number of the type in ONNX's file format.
    const CODE: u32;
    /// Appends the encoded elements to `data`.
    fn encode(elements: &[Self], data: &mut Vec<u8>);
}

/// An element type whose elements may borrow the data of a file.
pub trait Decode<'d>: Element {
    /// Decodes elements.
    fn decode(data: &'d [u8]) -> Vec<Self>;
}

macro_rules! numbers {
    ($($T:ty = $code:literal)*) => {$(
        impl Element for $T {
            const CODE: u32 = $code;

            fn encode(elements: &[$T], data: &mut Vec<u8>) {
                data.extend(elements.iter().flat_map(|x| x.to_le_bytes()));
            }
        }

        impl Decode<'_> for $T {
            fn decode(data: &[u8]) -> Vec<$T> {
                data.as_chunks().0.iter().map(|&bytes| <$T>::from_le_bytes(bytes)).collect()
            }
        }
    )*};
}

numbers!(f32 = 1 u8 = 2 i8 = 3 u16 = 4 i16 = 5 i32 = 6 i64 = 7 f16 = 10 f64 = 11 u32 = 12 u64 = 13
    Complex<f32> = 14 Complex<f64> = 15 bf16 = 16 F8E4M3FN = 17 F8E4M3FNUZ = 18 F8E5M2 = 19
    F8E5M2FNUZ = 20 U4 = 21 I4 = 22 F4E2M1 = 23 F8E8M0 = 24 U2 = 25 I2 = 26 F6E2M3 = 27
    F6E3M2 = 28);

impl Element for bool {
    const CODE: u32 = 9;

    fn encode(elements: &[bool], data: &mut Vec<u8>) {
        data.extend(elements.iter().map(|&x| u8::from(x)));
    }
}

impl Decode<'_> for bool {
    fn decode(data: &[u8]) -> Vec<bool> {
        data.iter().map(|&byte| byte != 0).collect()
    }
}

impl Element for &str {
    const CODE: u32 = 8;

    fn encode(elements: &[&str], data: &mut Vec<u8>) {
        for text in elements {
            data.extend((text.len() as u64).to_le_bytes());
            data.extend(text.as_bytes());
        }
    }
}

impl<'d> Decode<'d> for &'d str {
    fn decode(mut data: &'d [u8]) -> Vec<&'d str> {
        let mut strings = Vec::new();
        while let Some((len, rest)) = data.split_first_chunk() {
            let (text, rest) = rest.split_at(u64::from_le_bytes(*len) as usize);
            strings.push(str::from_utf8(text).expect("the test program writes UTF-8"));
            data = rest;
        }
        strings
    }
}

impl Element for String {
    const CODE: u32 = 8;

    fn encode(elements: &[String], data: &mut Vec<u8>) {
        <&str>::encode(&elements.iter().map(String::as_str).collect::<Vec<_>>(), data);
    }
}

impl Decode<'_> for String {
    fn decode(data: &[u8]) -> Vec<String> {
        <&str>::decode(data).into_iter().map(String::from).collect()
    }
}

impl Value {
    /// Creates a tensor of these elements.
    pub fn new<T: Element>(shape: &[usize], elements: &[T]) -> Value {
        let mut data = Vec::new();
        T::encode(elements, &mut data);
        Value::Tensor { dtype: T::CODE, shape: shape.to_vec(), data }
    }

    /// Creates a sequence of tensors.
    pub fn of_sequence<T: Element>(sequence: &Sequence<T>) -> Value {
        Value::Sequence(sequence.iter().map(|(shape, data)| Value::new(shape, data)).collect())
    }

    /// Creates an optional value.
    pub fn of_optional(value: Option<Value>) -> Value {
        Value::Optional(value.map(Box::new))
    }

    /// Creates a sequence with a map for each row of values.
    pub fn of_maps<K: Element, V: Element>(keys: &[K], values: &[V]) -> Value {
        let maps = values.chunks(keys.len().max(1)).map(|values| {
            let tensors = [Value::new(&[keys.len()], keys), Value::new(&[values.len()], values)];
            Value::Map(Box::new(tensors))
        });
        Value::Sequence(maps.collect())
    }

    /// Returns the elements, or an error if they have another type.
    pub fn elements<'d, T: Decode<'d>>(&'d self) -> Result<Vec<T>, String> {
        match self {
            Value::Tensor { dtype, data, .. } if *dtype == T::CODE => Ok(T::decode(data)),
            Value::Tensor { dtype, .. } => {
                Err(format!("an input has element type {dtype}, not {}", T::CODE))
            }
            Value::Optional(Some(value)) => value.elements(),
            _ => Err("an input is not a tensor".into()),
        }
    }

    /// Returns the shape, or an error if the rank is not `R`.
    pub fn shape<const R: usize>(&self) -> Result<[usize; R], String> {
        let Value::Tensor { shape, .. } = self else {
            return Err("an input is not a tensor".into());
        };
        let found = shape.as_slice();
        found.try_into().map_err(|_| format!("an input has {} axes, not {R}", found.len()))
    }

    /// Returns the sequence, or an error if its elements have another type.
    pub fn sequence<T: for<'d> Decode<'d> + Clone>(&self) -> Result<Sequence<T>, String> {
        let Value::Sequence(values) = self else { return Err("an input is not a sequence".into()) };
        let mut sequence = Sequence::new();
        for value in values {
            let data = value.elements::<T>()?;
            let Value::Tensor { shape, .. } = value else { continue };
            sequence.push(shape, &data).map_err(|error| error.to_string())?;
        }
        Ok(sequence)
    }

    /// Returns the keys and the values, or an error if this is not a map of these types.
    pub fn map<'d, K: Decode<'d>, V: Decode<'d>>(&'d self) -> Result<(Vec<K>, Vec<V>), String> {
        let Value::Map(tensors) = self else { return Err("an input is not a map".into()) };
        Ok((tensors[0].elements()?, tensors[1].elements()?))
    }

    /// Returns the content of an optional, or the value itself if it is not an optional.
    pub fn optional(&self) -> Option<&Value> {
        match self {
            Value::Optional(value) => value.as_deref(),
            value => Some(value),
        }
    }
}

/// Reads a file of weights, which stay in memory: their alignment is that of a model's weights.
pub fn weights(path: &str) -> Result<&'static [u8], String> {
    const ALIGNMENT: usize = 64;
    let mut file = std::fs::File::open(path).map_err(|error| format!("{path}: {error}"))?;
    let len = file.metadata().map_err(|error| format!("{path}: {error}"))?.len() as usize;
    let bytes: &'static mut [u8] = vec![0; len + ALIGNMENT].leak();
    let start = bytes.as_ptr().align_offset(ALIGNMENT);
    let bytes = &mut bytes[start..][..len];
    std::io::Read::read_exact(&mut file, bytes).map_err(|error| format!("{path}: {error}"))?;
    Ok(bytes)
}

/// Decodes the values in a file.
pub fn read(mut bytes: &[u8]) -> Vec<Value> {
    std::iter::from_fn(|| read_value(&mut bytes)).collect()
}

fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*number))
}

fn read_value(bytes: &mut &[u8]) -> Option<Value> {
    let kind = read_number(bytes)?;
    let many = |bytes: &mut &[u8]| {
        let count = read_number(bytes)?;
        (0..count).map(|_| read_value(bytes)).collect::<Option<Vec<Value>>>()
    };
    Some(match kind {
        SEQUENCE => Value::Sequence(many(bytes)?),
        OPTIONAL => Value::Optional(many(bytes)?.pop().map(Box::new)),
        MAP => Value::Map(Box::new([read_value(bytes)?, read_value(bytes)?])),
        dtype => {
            let rank = read_number(bytes)?;
            let shape = (0..rank).map(|_| Some(read_number(bytes)? as usize));
            let shape = shape.collect::<Option<Vec<usize>>>()?;
            let len = read_number(bytes)? as usize;
            let (data, rest) = bytes.split_at(len.min(bytes.len()));
            *bytes = rest;
            Value::Tensor { dtype: dtype as u32, shape, data: data.to_vec() }
        }
    })
}

/// Encodes values as a file.
pub fn write(values: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    values.iter().for_each(|value| write_value(value, &mut bytes));
    bytes
}

fn write_value(value: &Value, bytes: &mut Vec<u8>) {
    let number = |n: u64, bytes: &mut Vec<u8>| bytes.extend(n.to_le_bytes());
    match value {
        Value::Tensor { dtype, shape, data } => {
            number(u64::from(*dtype), bytes);
            number(shape.len() as u64, bytes);
            shape.iter().for_each(|&size| number(size as u64, bytes));
            number(data.len() as u64, bytes);
            bytes.extend(data);
        }
        Value::Sequence(values) => {
            number(SEQUENCE, bytes);
            number(values.len() as u64, bytes);
            values.iter().for_each(|value| write_value(value, bytes));
        }
        Value::Optional(value) => {
            number(OPTIONAL, bytes);
            number(u64::from(value.is_some()), bytes);
            value.iter().for_each(|value| write_value(value, bytes));
        }
        Value::Map(tensors) => {
            number(MAP, bytes);
            tensors.iter().for_each(|value| write_value(value, bytes));
        }
    }
}
