//! Constant tensors.

use crate::{
    diag::{Code, Diagnostic, Result},
    dtype::DType,
    file,
    ty::{TensorType, Type, count},
};
use bytes::Bytes;
use onnxc_runtime::{
    F4E2M1, F6E2M3, F6E3M2, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, Real,
};
use std::{fmt, sync::Arc};

/// A constant tensor. The elements are in row-major order, little-endian, of [`DType::bytes`] bytes
/// each, and share their memory with the file that they came from.
#[derive(Clone, PartialEq)]
pub struct Tensor {
    /// The element type.
    pub dtype: DType,
    /// The size of each axis.
    pub shape: Vec<usize>,
    /// The elements.
    pub data: Data,
}

/// The elements of a constant.
#[derive(Clone)]
pub enum Data {
    /// Elements of any type but strings.
    Bytes(Bytes),
    /// Strings.
    Strings(Arc<[String]>),
}

impl PartialEq for Data {
    fn eq(&self, other: &Data) -> bool {
        match (self, other) {
            // Slices of the same memory are equal without a comparison.
            (Data::Bytes(a), Data::Bytes(b)) => std::ptr::eq(&**a, &**b) || a == b,
            (Data::Strings(a), Data::Strings(b)) => a == b,
            (Data::Bytes(_), Data::Strings(_)) | (Data::Strings(_), Data::Bytes(_)) => false,
        }
    }
}

impl Tensor {
    /// Makes a tensor of `int64` with one axis.
    pub fn from_ints(values: &[i64]) -> Tensor {
        let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor { dtype: DType::I64, shape: vec![values.len()], data: Data::Bytes(data) }
    }

    /// Makes a scalar of type `int64`.
    pub fn from_int(value: i64) -> Tensor {
        Tensor { shape: Vec::new(), ..Tensor::from_ints(&[value]) }
    }

    /// Makes a scalar of type `bool`.
    pub fn from_bool(value: bool) -> Tensor {
        let data = Data::Bytes(Bytes::copy_from_slice(&[u8::from(value)]));
        Tensor { dtype: DType::Bool, shape: Vec::new(), data }
    }

    /// Makes a tensor of `float` with one axis.
    pub fn from_floats(values: &[f32]) -> Tensor {
        let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor { dtype: DType::F32, shape: vec![values.len()], data: Data::Bytes(data) }
    }

    /// Makes a tensor of `double` with one axis, or of `float` for any other `dtype`.
    pub fn from_wide(dtype: DType, values: &[f64]) -> Tensor {
        let data: Bytes = match dtype {
            DType::F64 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            _ => values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect(),
        };
        let dtype = if dtype == DType::F64 { dtype } else { DType::F32 };
        Tensor { dtype, shape: vec![values.len()], data: Data::Bytes(data) }
    }

    /// Makes a tensor of `int32` with one axis, from the low 32 bits of each value.
    pub fn from_i32s(values: &[i64]) -> Tensor {
        let data = values.iter().flat_map(|&value| (value as i32).to_le_bytes()).collect();
        Tensor { dtype: DType::I32, shape: vec![values.len()], data: Data::Bytes(data) }
    }

    /// Makes a tensor of `uint32` with one axis, such as a table of indices.
    pub fn from_places(values: &[u32]) -> Tensor {
        let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor { dtype: DType::U32, shape: vec![values.len()], data: Data::Bytes(data) }
    }

    /// Makes a tensor of `uint16` with one axis, such as a table of states.
    pub fn from_u16s(values: &[u16]) -> Tensor {
        let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor { dtype: DType::U16, shape: vec![values.len()], data: Data::Bytes(data) }
    }

    /// Makes a tensor of `uint8` with one axis.
    pub fn from_bytes(values: &[u8]) -> Tensor {
        let data = Bytes::copy_from_slice(values);
        Tensor { dtype: DType::U8, shape: vec![values.len()], data: Data::Bytes(data) }
    }

    /// Makes a tensor of `uint8` with one axis: the bytes of `text`.
    pub fn from_text(text: &str) -> Tensor {
        Tensor::from_bytes(text.as_bytes())
    }

    /// Makes a scalar of a floating-point type.
    ///
    /// # Errors
    ///
    /// Returns an error if `dtype` is not in [`crate::dtype::FLOATS`].
    pub fn from_number(dtype: DType, value: f64) -> Result<Tensor> {
        Tensor::from_numbers(dtype, Vec::new(), &[value])
    }

    /// Makes a tensor of a floating-point type. Each value is rounded to the nearest.
    ///
    /// # Errors
    ///
    /// Returns an error if `dtype` is not in [`crate::dtype::FLOATS`].
    pub fn from_numbers(dtype: DType, shape: Vec<usize>, values: &[f64]) -> Result<Tensor> {
        let values = values.iter();
        let bytes: Bytes = match dtype {
            DType::F32 => values.flat_map(|&x| (x as f32).to_le_bytes()).collect(),
            DType::F64 => values.flat_map(|x| x.to_le_bytes()).collect(),
            DType::F16 => values.flat_map(|&x| half::f16::from_f64(x).to_le_bytes()).collect(),
            DType::BF16 => values.flat_map(|&x| half::bf16::from_f64(x).to_le_bytes()).collect(),
            other => {
                let message = format!("an attribute stands for an input of type {other}");
                return Err(Diagnostic::new(Code::TypeMismatch, message));
            }
        };
        Ok(Tensor { dtype, shape, data: Data::Bytes(bytes) })
    }

    /// Makes a tensor of strings with one axis.
    pub fn from_strings(values: Vec<String>) -> Tensor {
        let shape = vec![values.len()];
        Tensor { dtype: DType::String, shape, data: Data::Strings(values.into()) }
    }

    /// Returns a tensor with one axis: the elements at these indices, in row-major order.
    pub fn take(&self, places: &[usize]) -> Tensor {
        let size = self.dtype.bytes();
        let data = match &self.data {
            Data::Strings(strings) => {
                Data::Strings(places.iter().map(|&place| strings[place].clone()).collect())
            }
            Data::Bytes(bytes) => {
                let each = places.iter().flat_map(|place| &bytes[place * size..][..size]);
                Data::Bytes(each.copied().collect())
            }
        };
        Tensor { dtype: self.dtype, shape: vec![places.len()], data }
    }

    /// Returns a tensor with one axis: the elements, then those of `other`, of the same type.
    pub fn join(&self, other: &Tensor) -> Tensor {
        let data = match (&self.data, &other.data) {
            (Data::Bytes(a), Data::Bytes(b)) => Data::Bytes([&a[..], &b[..]].concat().into()),
            (Data::Strings(a), Data::Strings(b)) => Data::Strings([&a[..], &b[..]].concat().into()),
            _ => unreachable!("both are of one type"),
        };
        Tensor { dtype: self.dtype, shape: vec![self.len() + other.len()], data }
    }

    /// Makes a tensor of bytes in the layout of [`Tensor`].
    pub fn from_raw(dtype: DType, shape: Vec<usize>, bytes: Bytes) -> Tensor {
        Tensor { dtype, shape, data: Data::Bytes(bytes) }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        count(&self.shape)
    }

    /// Returns whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the type of the tensor.
    pub fn ty(&self) -> Type {
        Type::Tensor(TensorType::new(self.dtype, self.shape.iter().copied()))
    }

    /// Returns the elements as bytes; empty for strings.
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Bytes(bytes) => bytes,
            Data::Strings(_) => &[],
        }
    }

    /// Returns the bytes of the elements, those of strings included.
    pub fn held_bytes(&self) -> usize {
        match &self.data {
            Data::Bytes(bytes) => bytes.len(),
            Data::Strings(strings) => strings.iter().map(String::len).sum(),
        }
    }

    /// Returns the length of the longest string, in bytes; 0 if the elements are no strings.
    pub fn longest_text(&self) -> usize {
        match &self.data {
            Data::Bytes(_) => 0,
            Data::Strings(strings) => strings.iter().map(String::len).max().unwrap_or(0),
        }
    }

    /// Moves the elements of a large tensor to a temporary file that is mapped, so that constants
    /// computed from those of a large model do not stay in memory.
    pub fn laid_aside(self) -> Tensor {
        match self.data {
            Data::Bytes(bytes) => Tensor { data: Data::Bytes(file::lay_aside(bytes)), ..self },
            Data::Strings(_) => self,
        }
    }

    /// Returns the elements as bytes that share their memory; empty for strings.
    pub fn raw(&self) -> Bytes {
        match &self.data {
            Data::Bytes(bytes) => bytes.clone(),
            Data::Strings(_) => Bytes::new(),
        }
    }

    /// Returns the elements as a slice of `T`, if `T` has their size and alignment, and the machine
    /// is little-endian.
    pub fn as_slice<T: bytemuck::Pod>(&self) -> Option<&[T]> {
        let native = cfg!(target_endian = "little") && size_of::<T>() == self.dtype.bytes();
        native.then(|| bytemuck::try_cast_slice(self.bytes()).ok()).flatten()
    }

    /// Returns the elements as `i64`, if they are integers or `bool` and all fit.
    pub fn ints(&self) -> Option<Vec<i64>> {
        fn read<const N: usize>(bytes: &[u8], from: fn([u8; N]) -> i64) -> Vec<i64> {
            bytes.as_chunks::<N>().0.iter().map(|&chunk| from(chunk)).collect()
        }
        let bytes = self.bytes();
        Some(match self.dtype {
            DType::I8 | DType::I4 | DType::I2 => read(bytes, |[b]| i64::from(b as i8)),
            DType::U8 | DType::U4 | DType::U2 | DType::Bool => read(bytes, |[b]| i64::from(b)),
            DType::I16 => read(bytes, |b| i64::from(i16::from_le_bytes(b))),
            DType::U16 => read(bytes, |b| i64::from(u16::from_le_bytes(b))),
            DType::I32 => read(bytes, |b| i64::from(i32::from_le_bytes(b))),
            DType::U32 => read(bytes, |b| i64::from(u32::from_le_bytes(b))),
            DType::I64 => read(bytes, i64::from_le_bytes),
            DType::U64 => {
                let ints = bytes.as_chunks().0.iter().map(|&chunk| u64::from_le_bytes(chunk));
                return ints.map(|x| i64::try_from(x).ok()).collect();
            }
            _ => return None,
        })
    }

    /// Returns the elements as `f64`, rounded to the nearest, if they are real numbers.
    pub fn floats(&self) -> Option<Vec<f64>> {
        fn read<T: Real, const N: usize>(bytes: &[u8], from: fn([u8; N]) -> T) -> Vec<f64> {
            bytes.as_chunks::<N>().0.iter().map(|&chunk| from(chunk).exact().to_f64()).collect()
        }
        let bytes = self.bytes();
        Some(match self.dtype {
            DType::F32 => read(bytes, f32::from_le_bytes),
            DType::F64 => read(bytes, f64::from_le_bytes),
            DType::F16 => read(bytes, half::f16::from_le_bytes),
            DType::BF16 => read(bytes, half::bf16::from_le_bytes),
            DType::F8E4M3FN => read(bytes, F8E4M3FN::from_le_bytes),
            DType::F8E4M3FNUZ => read(bytes, F8E4M3FNUZ::from_le_bytes),
            DType::F8E5M2 => read(bytes, F8E5M2::from_le_bytes),
            DType::F8E5M2FNUZ => read(bytes, F8E5M2FNUZ::from_le_bytes),
            DType::F8E8M0 => read(bytes, F8E8M0::from_le_bytes),
            DType::F6E2M3 => read(bytes, F6E2M3::from_le_bytes),
            DType::F6E3M2 => read(bytes, F6E3M2::from_le_bytes),
            DType::F4E2M1 => read(bytes, F4E2M1::from_le_bytes),
            DType::U64 => read(bytes, u64::from_le_bytes),
            _ => return Some(self.ints()?.into_iter().map(|x| x as f64).collect()),
        })
    }

    /// Returns the elements, if they are strings.
    pub fn strings(&self) -> Option<&[String]> {
        match &self.data {
            Data::Strings(strings) => Some(strings),
            Data::Bytes(_) => None,
        }
    }
}

/// The type, and at most 16 elements.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ty())?;
        if self.len() > 16 {
            return Ok(());
        }
        match (&self.data, self.dtype) {
            (Data::Strings(strings), _) => write!(f, " {strings:?}"),
            (Data::Bytes(bytes), DType::Bool) => {
                let flags: Vec<bool> = bytes.iter().map(|&byte| byte != 0).collect();
                write!(f, " {flags:?}")
            }
            (Data::Bytes(bytes), DType::U64) => {
                let numbers = bytes.as_chunks().0.iter().map(|&x| u64::from_le_bytes(x));
                write!(f, " {:?}", numbers.collect::<Vec<_>>())
            }
            // A float rounds integers of 64 bits.
            (Data::Bytes(_), _) => match (self.ints(), self.floats()) {
                (Some(numbers), _) => write!(f, " {numbers:?}"),
                (None, Some(numbers)) => write!(f, " {numbers:?}"),
                (None, None) => Ok(()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_integers_are_shown_exactly() {
        let large = (1 << 53) + 1;
        assert_eq!(format!("{:?}", Tensor::from_ints(&[large])), "int64[1] [9007199254740993]");
        let bytes = Bytes::copy_from_slice(&u64::MAX.to_le_bytes());
        let tensor = Tensor::from_raw(DType::U64, Vec::new(), bytes);
        assert_eq!(format!("{tensor:?}"), format!("uint64 [{}]", u64::MAX));
        let tensor = Tensor::from_raw(DType::Bool, vec![2], Bytes::from_static(&[1, 0]));
        assert_eq!(format!("{tensor:?}"), "bool[2] [true, false]");
    }
}
