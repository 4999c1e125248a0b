//! Weights: constants, unchanged or packed to the order in which kernels read them.

use crate::{
    dtype::DType,
    tensor::{Data, Tensor},
};
use bytes::Bytes;
use onnxc_runtime::{arena::Checksum, simd::run_portably};
use std::{fmt, rc::Rc};

/// A constant that kernels read.
#[derive(Clone)]
pub struct Weight {
    constant: Tensor,
    order: Option<Rc<dyn Order>>,
}

/// A packed order of a constant's elements, with padding. Pieces are computed one by one when the
/// weights are written, because all weights together may exceed memory.
pub trait Order {
    /// Returns the number of elements of the packed constant.
    fn elements(&self) -> usize;
    /// Returns the element type of the packed constant.
    fn dtype(&self, constant: DType) -> DType {
        constant
    }
    /// Returns the number of pieces.
    fn pieces(&self) -> usize;
    /// Returns piece `i`, with one axis.
    fn piece(&self, i: usize, constant: &Tensor) -> Tensor;
}

/// A key that equal weights share: the type, the number of elements and the first bytes.
pub type Likeness = (DType, usize, Bytes);

impl Weight {
    /// Creates a weight that packs a constant.
    pub fn ordered(constant: Tensor, order: Rc<dyn Order>) -> Weight {
        Weight { constant, order: Some(order) }
    }

    /// Returns the constant before packing.
    pub fn constant(&self) -> &Tensor {
        &self.constant
    }

    /// Returns whether the weight is packed.
    pub fn is_ordered(&self) -> bool {
        self.order.is_some()
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        let dtype = self.constant.dtype;
        self.order.as_ref().map_or(dtype, |order| order.dtype(dtype))
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.order.as_ref().map_or_else(|| self.constant.len(), |order| order.elements())
    }

    /// Returns whether the weight has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the key that equal weights share.
    pub fn likeness(&self) -> Likeness {
        const FIRST: usize = 64;
        let bytes = self.constant.bytes();
        let first = Bytes::copy_from_slice(&bytes[..bytes.len().min(FIRST)]);
        (self.dtype(), self.len(), first)
    }

    /// Returns a checksum of the constant.
    pub fn checksum(&self) -> u64 {
        match &self.constant.data {
            Data::Bytes(bytes) => Checksum::of(bytes),
            Data::Strings(strings) => {
                let mut checksum = Checksum::default();
                for string in strings.iter() {
                    checksum.update(string.as_bytes());
                    checksum.update(&[0]);
                }
                checksum.finish()
            }
        }
    }

    /// Returns the number of bytes among the weights; strings have none.
    pub fn bytes(&self) -> usize {
        match &self.order {
            Some(order) => order.elements() * self.dtype().bytes(),
            None => self.constant.bytes().len(),
        }
    }

    /// Returns the bytes, piece by piece.
    pub fn pieces(&self) -> impl Iterator<Item = Bytes> {
        let count = self.order.as_ref().map_or(1, |order| order.pieces());
        (0..count).map(|i| match &self.order {
            // Kernels pack, and a module has the same weights on every processor.
            Some(order) => run_portably(|| order.piece(i, &self.constant)).raw(),
            None => self.constant.raw(),
        })
    }

    /// Returns all elements as a tensor.
    pub fn tensor(&self) -> Tensor {
        let Some(order) = &self.order else { return self.constant.clone() };
        let first = (order.pieces() == 1).then(|| run_portably(|| order.piece(0, &self.constant)));
        first.unwrap_or_else(|| {
            let bytes: Vec<u8> = self.pieces().flat_map(|piece| piece.to_vec()).collect();
            Tensor::from_raw(self.dtype(), vec![order.elements()], bytes.into())
        })
    }
}

/// Whether both have the same elements in the same order. The elements are computed only if the
/// constants are equal.
impl PartialEq for Weight {
    fn eq(&self, other: &Weight) -> bool {
        let alike = self.dtype() == other.dtype() && self.len() == other.len();
        let alike = alike && self.is_ordered() == other.is_ordered();
        alike
            && self.constant.data == other.constant.data
            && (self.order.is_none() || self.pieces().eq(other.pieces()))
    }
}

impl From<Tensor> for Weight {
    fn from(constant: Tensor) -> Weight {
        Weight { constant, order: None }
    }
}

impl fmt::Debug for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{}", self.constant, if self.is_ordered() { " packed" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Repeats each element, in pieces of one element of the constant.
    struct Times(usize);

    impl Order for Times {
        fn elements(&self) -> usize {
            2 * self.0
        }

        fn pieces(&self) -> usize {
            2
        }

        fn piece(&self, i: usize, constant: &Tensor) -> Tensor {
            constant.take(&vec![i; self.0])
        }
    }

    #[test]
    fn a_weight_is_its_pieces() {
        let constant = Tensor::from_ints(&[5, 7]);
        let times = |n| Weight::ordered(constant.clone(), Rc::new(Times(n)));
        assert_eq!(times(2).tensor().ints(), Some(vec![5, 5, 7, 7]));
        assert_eq!((times(2).len(), times(2).bytes()), (4, 32));
        assert!(times(2) == times(2) && times(2) != times(3));
        let plain = Weight::from(constant.clone());
        assert!(plain == plain.clone() && plain != times(1));
        assert_eq!(plain.tensor(), constant);
    }
}
