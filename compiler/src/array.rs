//! Buffers in memory, as kernels read and write them.

use crate::{
    dtype::DType,
    tensor::{Data, Tensor},
};
use bytemuck::Pod;
use bytes::Bytes;
use onnxc_runtime::{Error, Result, sequence::Sequence};
use std::{any::Any, fmt};

/// The Rust type of an element.
pub trait Element: onnxc_runtime::Elem {
    /// The element type.
    const DTYPE: DType;
    /// Returns the elements, if they have this type; as an unsigned integer, the bits of those that
    /// have its size.
    fn of(array: &Array) -> Option<&[Self]>;
    /// Returns the elements mutably, as [`Element::of`] does.
    fn of_mut(array: &mut Array) -> Option<&mut [Self]>;
    /// Makes a buffer of `elements`.
    fn array(elements: Vec<Self>) -> Array;
}

macro_rules! arrays {
    ($($variant:ident: $T:ty $(, with bits of $($other:ident)+)?;)*) => {
        /// The Rust type of each [`DType`], under the name of its variant.
        pub mod element {
            $(
                #[doc = concat!("An element of `DType::", stringify!($variant), "`.")]
                pub type $variant = $T;
            )*
        }

        /// The contents of a buffer: elements of one type, or a sequence of tensors.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub enum Array {
            $($variant(Vec<$T>),)*
            Sequence(Box<dyn List>),
        }

        $(
            impl Element for $T {
                const DTYPE: DType = DType::$variant;

                fn of(array: &Array) -> Option<&[$T]> {
                    match array {
                        Array::$variant(x) => Some(x),
                        $($(Array::$other(x) => Some(bytemuck::cast_slice(x)),)+)?
                        _ => None,
                    }
                }
                fn of_mut(array: &mut Array) -> Option<&mut [$T]> {
                    match array {
                        Array::$variant(x) => Some(x),
                        $($(Array::$other(x) => Some(bytemuck::cast_slice_mut(x)),)+)?
                        _ => None,
                    }
                }
                fn array(elements: Vec<$T>) -> Array {
                    Array::$variant(elements)
                }
            }
        )*

        impl Array {
            /// Makes `len` elements that are zero, false or empty.
            pub fn zeroed(dtype: DType, len: usize) -> Array {
                match dtype {
                    $(DType::$variant => Array::$variant(vec![Default::default(); len]),)*
                }
            }

            /// Makes `len` elements as [`Array::zeroed`] does, if there is memory for them.
            ///
            /// # Errors
            ///
            /// Returns an error if the allocation fails.
            pub fn try_zeroed(dtype: DType, len: usize) -> Result<Array> {
                match dtype {
                    $(DType::$variant => try_allocate::<$T>(len)?,)*
                }
                Ok(Array::zeroed(dtype, len))
            }

            /// Makes a sequence of tensors.
            pub fn sequence_of(dtype: DType, tensors: &[Tensor]) -> Array {
                match dtype {
                    $(DType::$variant => Array::Sequence(Box::new(listed::<$T>(tensors))),)*
                }
            }

            /// Returns the element type.
            pub fn dtype(&self) -> DType {
                match self {
                    $(Array::$variant(_) => DType::$variant,)*
                    Array::Sequence(list) => list.dtype(),
                }
            }

            /// Returns the number of elements; a sequence counts as one.
            pub fn len(&self) -> usize {
                match self {
                    $(Array::$variant(x) => x.len(),)*
                    Array::Sequence(_) => 1,
                }
            }

            /// Copies `len` elements from `start` on; a sequence as a whole.
            pub fn part(&self, start: usize, len: usize) -> Array {
                match self {
                    $(Array::$variant(x) => Array::$variant(x[start..start + len].to_vec()),)*
                    Array::Sequence(_) => self.clone(),
                }
            }

            /// Appends the elements of `other`, of the same type.
            pub fn append(&mut self, other: Array) {
                match (self, other) {
                    $((Array::$variant(x), Array::$variant(other)) => x.extend(other),)*
                    _ => unreachable!("both are of the type of one buffer"),
                }
            }

            /// Overwrites the elements from `start` on with `part`, of the same type.
            pub fn set_part(&mut self, start: usize, part: Array) {
                match (self, part) {
                    $((Array::$variant(x), Array::$variant(part)) => {
                        x[start..start + part.len()].clone_from_slice(&part);
                    })*
                    (Array::Sequence(x), Array::Sequence(part)) => *x = part,
                    _ => unreachable!("both are of the type of one buffer"),
                }
            }
        }
    };
}

arrays! {
    F32: f32; F64: f64; F16: half::f16; BF16: half::bf16;
    F8E4M3FN: onnxc_runtime::F8E4M3FN; F8E4M3FNUZ: onnxc_runtime::F8E4M3FNUZ;
    F8E5M2: onnxc_runtime::F8E5M2; F8E5M2FNUZ: onnxc_runtime::F8E5M2FNUZ;
    F8E8M0: onnxc_runtime::F8E8M0; F6E2M3: onnxc_runtime::F6E2M3; F6E3M2: onnxc_runtime::F6E3M2;
    F4E2M1: onnxc_runtime::F4E2M1;
    I2: onnxc_runtime::I2; I4: onnxc_runtime::I4; I8: i8; I16: i16; I32: i32; I64: i64;
    U2: onnxc_runtime::U2; U4: onnxc_runtime::U4;
    U8: u8, with bits of I8;
    U16: u16, with bits of I16;
    U32: u32, with bits of F32 I32;
    U64: u64, with bits of F64 I64;
    Bool: bool; String: std::string::String;
    C64: onnxc_runtime::Complex<f32>; C128: onnxc_runtime::Complex<f64>;
}

/// Tries to allocate `len` elements. An allocation that does not try first ends the program.
fn try_allocate<T>(len: usize) -> Result {
    let bytes = len.saturating_mul(size_of::<T>());
    Vec::<T>::new().try_reserve_exact(len).map_err(|_| Error::Memory { bytes })
}

macro_rules! little_endian {
    ($self:expr, words: $($word:ident)*; others: $($variant:ident)*) => {
        match $self {
            $(Array::$word(x) => to_bytes(x, element::$word::to_le_bytes),)*
            $(Array::$variant(x) => x.iter().flat_map(|x| x.to_le_bytes()).collect(),)*
            Array::Bool(x) => x.iter().map(|&x| u8::from(x)).collect(),
            Array::String(_) | Array::Sequence(_) => Bytes::new(),
        }
    };
}

macro_rules! from_little_endian {
    ($dtype:expr, $bytes:expr, words: $($word:ident)*; others: $($variant:ident)*) => {
        match $dtype {
            $(DType::$word => Array::$word(from_bytes($bytes, element::$word::from_le_bytes)),)*
            $(DType::$variant => {
                let chunks = $bytes.as_chunks().0.iter().copied();
                Array::$variant(chunks.map(element::$variant::from_le_bytes).collect())
            })*
            DType::Bool => Array::Bool($bytes.iter().map(|&b| b != 0).collect()),
            DType::String => Array::String(Vec::new()),
        }
    };
}

/// Returns the elements in little-endian order, without a copy if that is the machine's order,
/// because weights are large.
fn to_bytes<T: Pod + Send, const N: usize>(x: Vec<T>, to_le_bytes: fn(T) -> [u8; N]) -> Bytes {
    if cfg!(target_endian = "little") {
        return Bytes::from_owner(Words(x));
    }
    x.iter().flat_map(|&x| to_le_bytes(x)).collect()
}

/// Elements that `Bytes` owns.
struct Words<T>(Vec<T>);

impl<T: Pod> AsRef<[u8]> for Words<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

/// Reads elements in little-endian order, with one copy if that is the machine's order.
fn from_bytes<T: Pod, const N: usize>(bytes: &[u8], from_le_bytes: fn([u8; N]) -> T) -> Vec<T> {
    if cfg!(target_endian = "little") {
        return bytemuck::allocation::pod_collect_to_vec(bytes);
    }
    bytes.as_chunks().0.iter().map(|&chunk| from_le_bytes(chunk)).collect()
}

impl Array {
    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the elements of a constant.
    pub fn from_tensor(tensor: &Tensor) -> Array {
        if let Data::Strings(strings) = &tensor.data {
            return Array::String(strings.to_vec());
        }
        from_little_endian! {
            tensor.dtype, tensor.bytes(),
            words: F32 F64 I8 I16 I32 I64 U8 U16 U32 U64;
            others: F16 BF16 F8E4M3FN F8E4M3FNUZ F8E5M2 F8E5M2FNUZ F8E8M0 F6E2M3 F6E3M2 F4E2M1
                I2 I4 U2 U4 C64 C128
        }
    }

    /// Returns the elements as integers with the same bits, for a type whose elements cannot be
    /// read as such where they are; see [`Element::of`].
    pub fn into_bits(self) -> Array {
        let dtype = self.dtype().unsigned();
        Array::from_tensor(&Tensor { dtype, ..self.into_tensor(Vec::new()) })
    }

    /// Returns the elements of a type whose bits these integers are.
    pub fn from_bits(self, dtype: DType) -> Array {
        Array::from_tensor(&Tensor { dtype, ..self.into_tensor(Vec::new()) })
    }

    /// Makes a constant of the elements.
    pub fn into_tensor(self, shape: Vec<usize>) -> Tensor {
        let dtype = self.dtype();
        if let Array::String(strings) = self {
            return Tensor { dtype, shape, data: Data::Strings(strings.into()) };
        }
        let bytes: Bytes = little_endian! {
            self,
            words: F32 F64 I8 I16 I32 I64 U8 U16 U32 U64;
            others: F16 BF16 F8E4M3FN F8E4M3FNUZ F8E5M2 F8E5M2FNUZ F8E8M0 F6E2M3 F6E3M2 F4E2M1
                I2 I4 U2 U4 C64 C128
        };
        Tensor { dtype, shape, data: Data::Bytes(bytes) }
    }
}

/// A sequence of tensors of any element type.
pub trait List: Any {
    /// Returns the element type.
    fn dtype(&self) -> DType;
    /// Copies the sequence.
    fn copy(&self) -> Box<dyn List>;
    /// Copies the tensors.
    fn tensors(&self) -> Vec<Tensor>;
    /// Returns the number of elements of all tensors.
    fn elements(&self) -> usize;
}

impl<T: Element> List for Sequence<T> {
    fn dtype(&self) -> DType {
        T::DTYPE
    }

    fn copy(&self) -> Box<dyn List> {
        Box::new(self.clone())
    }

    fn tensors(&self) -> Vec<Tensor> {
        self.iter()
            .map(|(shape, data)| T::array(data.to_vec()).into_tensor(shape.to_vec()))
            .collect()
    }

    fn elements(&self) -> usize {
        self.iter().map(|(_, data)| data.len()).sum()
    }
}

/// Makes a sequence of those tensors that have its element type.
fn listed<T: Element>(tensors: &[Tensor]) -> Sequence<T> {
    let mut list = Sequence::new();
    for tensor in tensors {
        let array = Array::from_tensor(tensor);
        let pushed = T::of(&array).map(|data| list.push(&tensor.shape, data));
        debug_assert_eq!(pushed, Some(Ok(())), "a tensor has the elements of its type and sizes");
    }
    list
}

impl Array {
    /// Returns the number of elements, of all tensors for a sequence.
    pub fn elements(&self) -> usize {
        match self {
            Array::Sequence(list) => list.elements(),
            tensor => tensor.len(),
        }
    }

    /// Returns the sequence, if it has elements of type `T`.
    pub fn sequence<T: Element>(&self) -> Option<&Sequence<T>> {
        let Array::Sequence(list) = self else { return None };
        (&**list as &dyn Any).downcast_ref()
    }

    /// Returns the sequence mutably, if it has elements of type `T`.
    pub fn sequence_mut<T: Element>(&mut self) -> Option<&mut Sequence<T>> {
        let Array::Sequence(list) = self else { return None };
        (&mut **list as &mut dyn Any).downcast_mut()
    }
}

impl Clone for Box<dyn List> {
    fn clone(&self) -> Self {
        (**self).copy()
    }
}

impl PartialEq for Box<dyn List> {
    fn eq(&self, other: &Self) -> bool {
        self.dtype() == other.dtype() && self.tensors() == other.tensors()
    }
}

impl fmt::Debug for Box<dyn List> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tensors()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_survives_the_round_trip_through_a_buffer() {
        let tensor = Tensor::from_ints(&[1, -2, i64::MAX]);
        let array = Array::from_tensor(&tensor);
        assert_eq!(array, Array::I64(vec![1, -2, i64::MAX]));
        assert_eq!(array.into_tensor(vec![3]), tensor);
    }
}
