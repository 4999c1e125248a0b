//! Tensors in memory, as the kernels read and write them.

use crate::{
    dtype::DType,
    tensor::{Data, Tensor},
};
use bytemuck::Pod;
use half::{bf16, f16};
use onnxc_runtime::{
    Complex, F4E2M1, F6E2M3, F6E3M2, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, I2, I4, U2,
    U4,
};

/// An element type that kernels work on.
pub trait Element: onnxc_runtime::Elem {
    /// The type's name among the element types.
    const DTYPE: DType;
    /// The elements, where they are of this type.
    fn of(array: &Array) -> Option<&[Self]>;
    /// The elements to be written, where they are of this type.
    fn of_mut(array: &mut Array) -> Option<&mut [Self]>;
}

macro_rules! arrays {
    ($($variant:ident: $T:ty,)*) => {
        /// Elements of one type, owned.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub enum Array {
            $($variant(Vec<$T>),)*
        }

        $(
            impl Element for $T {
                const DTYPE: DType = DType::$variant;

                fn of(array: &Array) -> Option<&[$T]> {
                    if let Array::$variant(x) = array { Some(x) } else { None }
                }
                fn of_mut(array: &mut Array) -> Option<&mut [$T]> {
                    if let Array::$variant(x) = array { Some(x) } else { None }
                }
            }
        )*

        impl Array {
            /// As many elements as `len`, all zero, false or empty.
            pub fn zeroed(dtype: DType, len: usize) -> Array {
                match dtype {
                    $(DType::$variant => Array::$variant(vec![Default::default(); len]),)*
                }
            }

            /// The element type.
            pub fn dtype(&self) -> DType {
                match self {
                    $(Array::$variant(_) => DType::$variant,)*
                }
            }

            /// The number of elements.
            pub fn len(&self) -> usize {
                match self {
                    $(Array::$variant(x) => x.len(),)*
                }
            }

            /// The elements from `start` on, as many as `len`.
            pub fn part(&self, start: usize, len: usize) -> Array {
                match self {
                    $(Array::$variant(x) => Array::$variant(x[start..start + len].to_vec()),)*
                }
            }

            /// Adds the elements of `other`, of the same type, behind these.
            pub fn append(&mut self, other: Array) {
                match (self, other) {
                    $((Array::$variant(x), Array::$variant(other)) => x.extend(other),)*
                    _ => unreachable!("both are of the type of one buffer"),
                }
            }

            /// Writes `part`, of the same type, over the elements from `start` on.
            pub fn set_part(&mut self, start: usize, part: Array) {
                match (self, part) {
                    $((Array::$variant(x), Array::$variant(part)) => {
                        x[start..start + part.len()].clone_from_slice(&part);
                    })*
                    _ => unreachable!("both are of the type of one buffer"),
                }
            }
        }
    };
}

arrays! {
    F32: f32, F64: f64, F16: f16, BF16: bf16,
    F8E4M3FN: F8E4M3FN, F8E4M3FNUZ: F8E4M3FNUZ, F8E5M2: F8E5M2, F8E5M2FNUZ: F8E5M2FNUZ,
    F8E8M0: F8E8M0, F6E2M3: F6E2M3, F6E3M2: F6E3M2, F4E2M1: F4E2M1,
    I2: I2, I4: I4, I8: i8, I16: i16, I32: i32, I64: i64,
    U2: U2, U4: U4, U8: u8, U16: u16, U32: u32, U64: u64,
    Bool: bool, String: String, C64: Complex<f32>, C128: Complex<f64>,
}

macro_rules! little_endian {
    ($self:expr, words: $($word:ident: $W:ty),*; others: $($variant:ident)*) => {
        match $self {
            $(Array::$word(x) => to_bytes(&x, <$W>::to_le_bytes),)*
            $(Array::$variant(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),)*
            Array::Bool(x) => x.iter().map(|&x| u8::from(x)).collect(),
            Array::String(_) => Vec::new(),
        }
    };
}

macro_rules! from_little_endian {
    ($dtype:expr, $bytes:expr, words: $($word:ident: $W:ty),*; others: $($variant:ident: $T:ty),*) => {
        match $dtype {
            $(DType::$word => Array::$word(from_bytes($bytes, <$W>::from_le_bytes)),)*
            $(DType::$variant => {
                let chunks = $bytes.as_chunks().0.iter();
                Array::$variant(chunks.map(|&chunk| <$T>::from_le_bytes(chunk)).collect())
            })*
            DType::Bool => Array::Bool($bytes.iter().map(|&b| b != 0).collect()),
            DType::String => Array::String(Vec::new()),
        }
    };
}

/// The elements as a file has them: a copy in one piece where the machine has the same order of
/// bytes, since weights are many.
fn to_bytes<T: Pod, const N: usize>(x: &[T], to_le_bytes: fn(T) -> [u8; N]) -> Vec<u8> {
    if cfg!(target_endian = "little") {
        return bytemuck::cast_slice(x).to_vec();
    }
    x.iter().flat_map(|&x| to_le_bytes(x)).collect()
}

/// The elements that a file has, likewise.
fn from_bytes<T: Pod, const N: usize>(bytes: &[u8], from_le_bytes: fn([u8; N]) -> T) -> Vec<T> {
    if cfg!(target_endian = "little") {
        return bytemuck::allocation::pod_collect_to_vec(bytes);
    }
    bytes.as_chunks().0.iter().map(|&chunk| from_le_bytes(chunk)).collect()
}

impl Array {
    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements of a constant.
    pub fn from_tensor(tensor: &Tensor) -> Array {
        if let Data::Strings(strings) = &tensor.data {
            return Array::String(strings.to_vec());
        }
        from_little_endian! {
            tensor.dtype, tensor.bytes(),
            words: F32: f32, F64: f64, I8: i8, I16: i16, I32: i32, I64: i64,
            U8: u8, U16: u16, U32: u32, U64: u64;
            others: F16: f16, BF16: bf16,
            F8E4M3FN: F8E4M3FN, F8E4M3FNUZ: F8E4M3FNUZ, F8E5M2: F8E5M2, F8E5M2FNUZ: F8E5M2FNUZ,
            F8E8M0: F8E8M0, F6E2M3: F6E2M3, F6E3M2: F6E3M2, F4E2M1: F4E2M1,
            I2: I2, I4: I4, U2: U2, U4: U4, C64: Complex<f32>, C128: Complex<f64>
        }
    }

    /// A constant of these elements.
    pub fn into_tensor(self, shape: Vec<usize>) -> Tensor {
        let dtype = self.dtype();
        if let Array::String(strings) = self {
            return Tensor { dtype, shape, data: Data::Strings(strings.into()) };
        }
        let bytes: Vec<u8> = little_endian! {
            self,
            words: F32: f32, F64: f64, I8: i8, I16: i16, I32: i32, I64: i64,
            U8: u8, U16: u16, U32: u32, U64: u64;
            others: F16 BF16 F8E4M3FN F8E4M3FNUZ F8E5M2 F8E5M2FNUZ F8E8M0 F6E2M3 F6E3M2 F4E2M1
                I2 I4 U2 U4 C64 C128
        };
        Tensor { dtype, shape, data: Data::Bytes(bytes.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_survives_the_way_through_memory() {
        let tensor = Tensor::from_ints(&[1, -2, i64::MAX]);
        let array = Array::from_tensor(&tensor);
        assert_eq!(array, Array::I64(vec![1, -2, i64::MAX]));
        assert_eq!(array.into_tensor(vec![3]), tensor);
    }
}
