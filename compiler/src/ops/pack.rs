//! Constant factors of products, packed when the model is compiled into the order in which kernels
//! read them. All processors read the same order.

use crate::{
    array::{Array, Element},
    dtype::DType,
    ir::Lower,
    plan::{Formula, Operand, Optimize},
    tensor::Tensor,
};
use onnxc_runtime::{Number, conv, gemm};

/// How a factor is packed.
pub(super) trait Pack {
    /// How many elements that gives.
    fn len<T>(&self) -> usize;
    /// Packs.
    fn pack<T: Number>(&self, from: &[T], to: &mut [T]);
}

/// The right factor of a product of matrices.
pub(super) struct Right(pub gemm::Packing);

impl Pack for Right {
    fn len<T>(&self) -> usize {
        gemm::packed_b_len::<T>(&self.0)
    }

    fn pack<T: Number>(&self, from: &[T], to: &mut [T]) {
        gemm::pack_b(from, to, self.0);
    }
}

/// The weights of a convolution.
impl Pack for conv::Conv<'_> {
    fn len<T>(&self) -> usize {
        conv::packed_weights_len(self)
    }

    fn pack<T: Number>(&self, from: &[T], to: &mut [T]) {
        conv::pack_weights(from, to, self);
    }
}

/// The weights of a transposed convolution.
impl Pack for conv::ConvTranspose<'_> {
    fn len<T>(&self) -> usize {
        conv::packed_transpose_weights_len(self)
    }

    fn pack<T: Number>(&self, from: &[T], to: &mut [T]) {
        conv::pack_transpose_weights(from, to, self);
    }
}

/// Input `i`, packed as the kernel of the geometry reads it, whose sizes that matter are known.
pub(super) fn weights<F: Formula>(cx: &mut Lower<'_>, i: usize, geometry: &F) -> Option<Operand>
where
    for<'n> F::Numbers<'n>: Pack,
{
    let mut found = None;
    geometry.with(&|_| 0, &mut |numbers| found = packed(cx, i, &numbers));
    found
}

/// Input `i`, packed, where it is a constant of a type that kernels take so, and space matters
/// less than time.
pub(super) fn packed(cx: &mut Lower<'_>, i: usize, how: &impl Pack) -> Option<Operand> {
    if cx.optimize() == Optimize::Size {
        return None;
    }
    let tensor = cx.constant(i)?;
    let packed = match tensor.dtype {
        DType::F32 => pack::<f32>(tensor, how)?,
        DType::F64 => pack::<f64>(tensor, how)?,
        _ => return None,
    };
    Some(cx.weight_for(i, &packed))
}

fn pack<T: Element + Number>(tensor: &Tensor, how: &impl Pack) -> Option<Tensor> {
    let (from, len) = (Array::from_tensor(tensor), how.len::<T>());
    let mut to = Array::zeroed(tensor.dtype, len);
    how.pack(T::of(&from)?, T::of_mut(&mut to)?);
    Some(to.into_tensor(vec![len]))
}
