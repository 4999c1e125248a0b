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
use std::{fmt, rc::Rc};

/// A constant. The elements lie in row-major order, little-endian, in as many bytes as
/// [`DType::bytes`] says, and share their memory with the file that they came from.
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
    /// Of every type but strings.
    Bytes(Bytes),
    /// Of strings.
    Strings(Rc<[String]>),
}

impl PartialEq for Data {
    fn eq(&self, other: &Data) -> bool {
        match (self, other) {
            // What is one piece of memory need not be read.
            (Data::Bytes(a), Data::Bytes(b)) => std::ptr::eq(&**a, &**b) || a == b,
            (Data::Strings(a), Data::Strings(b)) => a == b,
            (Data::Bytes(_), Data::Strings(_)) | (Data::Strings(_), Data::Bytes(_)) => false,
        }
    }
}

impl Tensor {
    /// A tensor of whole numbers along one axis.
    pub fn from_ints(values: &[i64]) -> Tensor {
        let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor { dtype: DType::I64, shape: vec![values.len()], data: Data::Bytes(data) }
    }

    /// A single number of type `int64`, without axes.
    pub fn from_int(value: i64) -> Tensor {
        Tensor { shape: Vec::new(), ..Tensor::from_ints(&[value]) }
    }

    /// A single truth value, without axes.
    pub fn from_bool(value: bool) -> Tensor {
        let data = Data::Bytes(Bytes::copy_from_slice(&[u8::from(value)]));
        Tensor { dtype: DType::Bool, shape: Vec::new(), data }
    }

    /// A tensor of `float` along one axis.
    pub fn from_floats(values: &[f32]) -> Tensor {
        let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor { dtype: DType::F32, shape: vec![values.len()], data: Data::Bytes(data) }
    }

    /// A tensor of numbers of type `float` or `double` along one axis.
    pub fn from_wide(dtype: DType, values: &[f64]) -> Tensor {
        let data: Bytes = match dtype {
            DType::F64 => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            _ => values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect(),
        };
        let dtype = if dtype == DType::F64 { dtype } else { DType::F32 };
        Tensor { dtype, shape: vec![values.len()], data: Data::Bytes(data) }
    }

    /// A tensor of `int32` along one axis, with the low bits of each number.
    pub fn from_i32s(values: &[i64]) -> Tensor {
        let data = values.iter().flat_map(|&value| (value as i32).to_le_bytes()).collect();
        Tensor { dtype: DType::I32, shape: vec![values.len()], data: Data::Bytes(data) }
    }

    /// A table of places, along one axis.
    pub fn from_places(values: &[u32]) -> Tensor {
        let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor { dtype: DType::U32, shape: vec![values.len()], data: Data::Bytes(data) }
    }

    /// Text as a tensor of its bytes, along one axis.
    pub fn from_text(text: &str) -> Tensor {
        let data = Bytes::copy_from_slice(text.as_bytes());
        Tensor { dtype: DType::U8, shape: vec![text.len()], data: Data::Bytes(data) }
    }

    /// A single number of a floating-point type, without axes.
    pub fn from_number(dtype: DType, value: f64) -> Result<Tensor> {
        Tensor::from_numbers(dtype, Vec::new(), &[value])
    }

    /// Numbers of a floating-point type, each the nearest there is.
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

    /// A tensor of strings along one axis.
    pub fn from_strings(values: Vec<String>) -> Tensor {
        let shape = vec![values.len()];
        Tensor { dtype: DType::String, shape, data: Data::Strings(values.into()) }
    }

    /// The elements at these places, along one axis.
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

    /// The elements, and behind them those of another tensor of the same type, along one axis.
    pub fn join(&self, other: &Tensor) -> Tensor {
        let data = match (&self.data, &other.data) {
            (Data::Bytes(a), Data::Bytes(b)) => Data::Bytes([&a[..], &b[..]].concat().into()),
            (Data::Strings(a), Data::Strings(b)) => Data::Strings([&a[..], &b[..]].concat().into()),
            _ => unreachable!("both are of one type"),
        };
        Tensor { dtype: self.dtype, shape: vec![self.len() + other.len()], data }
    }

    /// A tensor of these bytes, which are elements as [`Tensor`] has them.
    pub fn from_raw(dtype: DType, shape: Vec<usize>, bytes: Bytes) -> Tensor {
        Tensor { dtype, shape, data: Data::Bytes(bytes) }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        count(&self.shape)
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type of the value that this is.
    pub fn ty(&self) -> Type {
        Type::Tensor(TensorType::new(self.dtype, self.shape.iter().copied()))
    }

    /// The elements as bytes; strings have none.
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Bytes(bytes) => bytes,
            Data::Strings(_) => &[],
        }
    }

    /// The same, in a file of the system's where it is large: what is made of a large model's
    /// constants need not stay in memory.
    pub fn laid_aside(self) -> Tensor {
        match self.data {
            Data::Bytes(bytes) => Tensor { data: Data::Bytes(file::lay_aside(bytes)), ..self },
            Data::Strings(_) => self,
        }
    }

    /// The elements as bytes, which share their memory; strings have none.
    pub fn raw(&self) -> Bytes {
        match &self.data {
            Data::Bytes(bytes) => bytes.clone(),
            Data::Strings(_) => Bytes::new(),
        }
    }

    /// The elements as they lie in memory, where they do so as this machine has them.
    pub fn as_slice<T: bytemuck::Pod>(&self) -> Option<&[T]> {
        let native = cfg!(target_endian = "little") && size_of::<T>() == self.dtype.bytes();
        native.then(|| bytemuck::try_cast_slice(self.bytes()).ok()).flatten()
    }

    /// The elements as whole numbers, where they are of such a type (or `bool`) and all fit.
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

    /// The elements as numbers, where they are real (those of 64 bits to the nearest).
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

    /// The strings, where the elements are strings.
    pub fn strings(&self) -> Option<&[String]> {
        match &self.data {
            Data::Strings(strings) => Some(strings),
            Data::Bytes(_) => None,
        }
    }
}

/// The type, and the elements where they are few.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ty())?;
        if self.len() > 16 {
            return Ok(());
        }
        match (&self.data, self.floats()) {
            (Data::Strings(strings), _) => write!(f, " {strings:?}"),
            (Data::Bytes(_), Some(numbers)) => write!(f, " {numbers:?}"),
            (Data::Bytes(_), None) => Ok(()),
        }
    }
}
