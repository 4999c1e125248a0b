//! How the test program and the models that it runs exchange tensors: files of tensors, each its
//! element type's number, the number of axes, the sizes, and the elements, little-endian.

use onnxc_runtime::{
    Complex, F4E2M1, F6E2M3, F6E3M2, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, I2, I4, U2,
    U4, bf16, f16,
};

/// A tensor as it stands in a file.
pub struct Value {
    dtype: u32,
    shape: Vec<usize>,
    data: Vec<u8>,
}

/// An element type that tensors in files have.
pub trait Element: Sized {
    /// The number of the type in ONNX's file format.
    const CODE: u32;
    /// The elements in `data`.
    fn decode(data: &[u8]) -> Vec<Self>;
    /// Adds the elements to `data`.
    fn encode(elements: &[Self], data: &mut Vec<u8>);
}

macro_rules! numbers {
    ($($T:ty = $code:literal)*) => {$(
        impl Element for $T {
            const CODE: u32 = $code;

            fn decode(data: &[u8]) -> Vec<$T> {
                data.as_chunks().0.iter().map(|&bytes| <$T>::from_le_bytes(bytes)).collect()
            }

            fn encode(elements: &[$T], data: &mut Vec<u8>) {
                data.extend(elements.iter().flat_map(|x| x.to_le_bytes()));
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

    fn decode(data: &[u8]) -> Vec<bool> {
        data.iter().map(|&byte| byte != 0).collect()
    }

    fn encode(elements: &[bool], data: &mut Vec<u8>) {
        data.extend(elements.iter().map(|&x| u8::from(x)));
    }
}

impl Element for String {
    const CODE: u32 = 8;

    fn decode(mut data: &[u8]) -> Vec<String> {
        let mut strings = Vec::new();
        while let Some((len, rest)) = data.split_first_chunk() {
            let (text, rest) = rest.split_at(u64::from_le_bytes(*len) as usize);
            strings.push(String::from_utf8_lossy(text).into_owned());
            data = rest;
        }
        strings
    }

    fn encode(elements: &[String], data: &mut Vec<u8>) {
        for text in elements {
            data.extend((text.len() as u64).to_le_bytes());
            data.extend(text.as_bytes());
        }
    }
}

impl Value {
    /// A tensor of these elements.
    pub fn new<T: Element>(shape: &[usize], elements: &[T]) -> Value {
        let mut data = Vec::new();
        T::encode(elements, &mut data);
        Value { dtype: T::CODE, shape: shape.to_vec(), data }
    }

    /// The elements, where they are of that type.
    pub fn elements<T: Element>(&self) -> Result<Vec<T>, String> {
        if self.dtype != T::CODE {
            return Err(format!("an input has element type {}, not {}", self.dtype, T::CODE));
        }
        Ok(T::decode(&self.data))
    }

    /// The sizes, where there are so many axes.
    pub fn shape<const R: usize>(&self) -> Result<[usize; R], String> {
        let found = self.shape.as_slice();
        found.try_into().map_err(|_| format!("an input has {} axes, not {R}", found.len()))
    }
}

/// The tensors in a file.
pub fn read(mut bytes: &[u8]) -> Vec<Value> {
    fn number(bytes: &mut &[u8]) -> Option<u64> {
        let (number, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(u64::from_le_bytes(*number))
    }
    let mut values = Vec::new();
    while let Some(dtype) = number(&mut bytes) {
        let rank = number(&mut bytes).unwrap_or(0);
        let shape = (0..rank).map(|_| number(&mut bytes).unwrap_or(0) as usize).collect();
        let len = number(&mut bytes).unwrap_or(0) as usize;
        let (data, rest) = bytes.split_at(len.min(bytes.len()));
        values.push(Value { dtype: dtype as u32, shape, data: data.to_vec() });
        bytes = rest;
    }
    values
}

/// The file of these tensors.
pub fn write(values: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in values {
        bytes.extend(u64::from(value.dtype).to_le_bytes());
        bytes.extend((value.shape.len() as u64).to_le_bytes());
        value.shape.iter().for_each(|&size| bytes.extend((size as u64).to_le_bytes()));
        bytes.extend((value.data.len() as u64).to_le_bytes());
        bytes.extend(&value.data);
    }
    bytes
}
