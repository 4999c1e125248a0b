//! Transposed convolutions of NCHWc images.

use super::transpose::ConvTranspose;
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::DType,
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op},
    ops::{
        Entry, blocked, internal,
        pack::{Pack, pack_constant, with_numbers},
    },
    plan::{Kernel, Operand, geometry, kernel, size_function},
    ty::Type,
};
use onnxc_runtime::{Number, kernels::conv};
use std::rc::Rc;

pub const OPS: &[Entry] = &[internal("BlockedConvTranspose", |node| {
    Ok(Rc::new(BlockedConvTranspose { transpose: ConvTranspose::read(node)? }))
})];

/// A [`ConvTranspose`] whose images and result are in the NCHWc layout: in one group, or depthwise.
/// It has neither bias nor epilogue. Its dilations are 1, and its strides are at most the sizes of
/// the window.
pub struct BlockedConvTranspose {
    /// The transposed convolution.
    pub transpose: ConvTranspose,
}

type TransposeKernel = Kernel<geometry::ConvTranspose>;

static NCHWC: TransposeKernel = kernel!(F32_ONLY T, conv::conv_transpose_nchwc,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), a.output(1), p));
static DEPTHWISE: TransposeKernel = kernel!(F32_ONLY T, conv::transpose_depthwise,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p));
static PACK: TransposeKernel = kernel!(F32_ONLY T, conv::pack_transposed,
    |f, a, p| f(a.input::<f32>(0), a.output::<f32>(0), p));

impl BlockedConvTranspose {
    /// The NCHW shape of images of the NCHWc shape `x`.
    fn image_shape(x: &[Dim], w: &[Dim]) -> Option<Vec<Dim>> {
        let (batch, image) = blocked::batch_and_image(x)?;
        Some([&[batch.clone(), w.first()?.clone()], image].concat())
    }
}

impl Op for BlockedConvTranspose {
    fn name(&self) -> &'static str {
        "BlockedConvTranspose"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        self.transpose.attributes(a);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.of(0, &[DType::F32])?;
        cx.same_dtype(0, 1)?;
        let w = cx.shape(1)?;
        let Some(x) = BlockedConvTranspose::image_shape(cx.shape(0)?, w) else {
            return Err(cx.diagnostic(Code::ShapeMismatch, "the images have no channels"));
        };
        let shape = self.transpose.shape(&x, w);
        let shape = blocked::blocked_shape(&shape).expect("the shape has two leading axes");
        Ok(vec![Type::tensor(DType::F32, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let w = &cx.ty(1)?.shape;
        let x = BlockedConvTranspose::image_shape(&cx.ty(0)?.shape, w);
        let x = x.expect("`infer` checks the axes");
        let geometry = self.transpose.geometry(&x, w);
        cx.macs(&(x.iter().chain(&w[1..]).product::<Dim>()));
        let packed = match pack_constant(cx, 1, Phases(geometry.clone())) {
            Some(packed) => packed,
            None => pack_at_run_time(cx, &geometry)?,
        };
        let inputs = vec![cx.input(0)?.into(), packed.into()];
        let mut outputs = vec![cx.output(0)?.into()];
        if self.transpose.group > 1 {
            return cx.call_on(&DEPTHWISE, DType::F32, inputs, outputs, geometry);
        }
        let function = size_function!(conv::conv_transpose_nchwc_scratch);
        let bounded = |most: &dyn Fn(&Dim) -> Dim| geometry.scratch_of(most, function);
        let scratch = cx.scratch_len(&geometry, function, bounded);
        outputs.push(cx.scratch(DType::F32, scratch).into());
        cx.call_on(&NCHWC, DType::F32, inputs, outputs, geometry)
    }
}

/// Calls the kernel that packs weights that are not constant.
fn pack_at_run_time(cx: &mut Lower<'_>, geometry: &geometry::ConvTranspose) -> Result<Operand> {
    let packed = cx.scratch(DType::F32, Dim::from(Phases(geometry.clone()).len::<f32>()));
    let (from, to) = (vec![cx.input(1)?.into()], vec![packed.clone().into()]);
    cx.call_on(&PACK, DType::F32, from, to, geometry.clone())?;
    Ok(packed)
}

/// The weights of all phases, in one piece.
struct Phases(geometry::ConvTranspose);

impl Pack for Phases {
    fn len<T>(&self) -> usize {
        with_numbers(&self.0, |geometry| conv::packed_transposed_len(&geometry))
    }

    fn pieces<T>(&self) -> usize {
        1
    }

    fn pack<T: Number>(&self, _: usize, from: &[T]) -> Vec<T> {
        with_numbers(&self.0, |geometry| {
            let mut to = vec![T::ZERO; conv::packed_transposed_len(&geometry)];
            conv::pack_transposed(from, &mut to, geometry);
            to
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{
        testing::{check, tensor},
        window::{AutoPad, Window},
    };
    use onnxc_runtime::kernels::epilogue::Activation;

    #[test]
    fn the_result_is_in_the_nchwc_layout() {
        let transpose = |group| ConvTranspose {
            window: Window {
                auto_pad: AutoPad::NotSet,
                kernel_shape: Vec::new(),
                strides: vec![2, 2],
                pads: vec![1; 4],
                dilations: Vec::new(),
            },
            group,
            output_padding: vec![1, 0],
            output_shape: Vec::new(),
            activation: Activation::Identity,
            fused: false,
        };
        let op = |group| BlockedConvTranspose { transpose: transpose(group) };
        let x = || tensor(DType::F32, [5, 2, 4, 6, 16]);
        check(op(1), &[x(), tensor(DType::F32, [20, 36, 3, 3])], 1, "float[5, 3, 8, 11, 16]");
        check(op(20), &[x(), tensor(DType::F32, [20, 1, 3, 3])], 1, "float[5, 2, 8, 11, 16]");
    }
}
