//! Weight gradients of convolutions whose results are in the NCHWc layout.

use super::{geometry_of, macs};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::DType,
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op},
    ops::{
        Entry, blocked, internal,
        window::{Rounding, Slide, Window},
    },
    plan::{Kernel, geometry, kernel, size_function},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[internal("BlockedConvWeightGrad", |node| {
    Ok(Rc::new(BlockedConvWeightGrad {
        window: Window::read(node)?,
        channels: node.required_int("channels")?,
        filters: node.required_int("filters")?,
        nchwc: node.flag("nchwc", false)?,
        depthwise: node.flag("depthwise", false)?,
    }))
})];

/// A [`ConvWeightGrad`](super::weight_grad::ConvWeightGrad) whose input 1, `dy`, is in the NCHWc
/// layout: in one group, or depthwise.
pub struct BlockedConvWeightGrad {
    /// The attributes of the window, whose sizes are known.
    pub window: Window,
    /// The number of channels of input 0, without those that pad the last block.
    pub channels: i64,
    /// The number of channels of `dy`, without those that pad the last block.
    pub filters: i64,
    /// Whether input 0, the images, is in the NCHWc layout, not NCHW.
    pub nchwc: bool,
    /// Whether the convolution is depthwise; the images are NCHWc then.
    pub depthwise: bool,
}

static NCHWC: Kernel<geometry::Conv> = kernel!(F32_ONLY T, conv::conv_weight_grad_nchwc,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), a.output(1), p));
static NCHW_TO_NCHWC: Kernel<geometry::Conv> = kernel!(F32_ONLY T,
    conv::conv_weight_grad_nchw_to_nchwc,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), a.output(1), p));
static DEPTHWISE: Kernel<geometry::Conv> = kernel!(F32_ONLY T, conv::depthwise_conv_weight_grad,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), a.output(1), p));

impl BlockedConvWeightGrad {
    /// The NCHW shape of images of shape `x`.
    fn image_shape(&self, x: &[Dim]) -> Option<Vec<Dim>> {
        if !self.nchwc {
            return (x.len() > 2).then(|| x.to_vec());
        }
        let (batch, image) = blocked::batch_and_image(x)?;
        Some([&[batch.clone(), self.channels.into()], image].concat())
    }

    fn weights(&self) -> Vec<Dim> {
        let channels = if self.depthwise { 1 } else { self.channels };
        [vec![self.filters.into(), channels.into()], self.window.sizes()].concat()
    }

    fn slides(&self, images: &[Dim]) -> Vec<Slide> {
        self.window.slides(&images[2..], &self.window.sizes(), Rounding::Down)
    }
}

impl Op for BlockedConvWeightGrad {
    fn name(&self) -> &'static str {
        "BlockedConvWeightGrad"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        self.window.attributes(a);
        a.int("channels", self.channels);
        a.int("filters", self.filters);
        a.flag("nchwc", self.nchwc);
        a.flag("depthwise", self.depthwise);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.of(0, &[DType::F32])?;
        cx.same_dtype(0, 1)?;
        let (x, dy) = (self.image_shape(cx.shape(0)?), cx.shape(1)?.to_vec());
        let (Some(x), Some((batch, places))) = (x, blocked::batch_and_image(&dy)) else {
            return Err(cx.diagnostic(Code::ShapeMismatch, "the images have no channels"));
        };
        self.window.check(cx, x.len() - 2)?;
        self.window.kernel(cx, x.len() - 2)?;
        cx.require_equal(&x[0], batch, "the batch sizes of the images and of their gradients")?;
        for (slide, out) in self.slides(&x).iter().zip(places) {
            cx.require_equal(&slide.windows, out, "the number of windows and of their gradients")?;
        }
        Ok(vec![Type::tensor(DType::F32, self.weights())])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let images = self.image_shape(&cx.ty(0)?.shape).expect("`infer` checks the axes");
        let groups = if self.depthwise { self.channels } else { 1 };
        let geometry = geometry_of(&images[0], &self.weights(), &self.slides(&images), groups);
        cx.macs(&macs(&geometry));
        let (kernel, function) = match (self.depthwise, self.nchwc) {
            (true, _) => (&DEPTHWISE, size_function!(conv::depthwise_conv_weight_grad_scratch)),
            (false, true) => (&NCHWC, size_function!(conv::conv_weight_grad_nchwc_scratch)),
            (false, false) => {
                (&NCHW_TO_NCHWC, size_function!(conv::conv_weight_grad_nchw_to_nchwc_scratch))
            }
        };
        let bounded = |most: &dyn Fn(&Dim) -> Dim| geometry.scratch_of(most, function);
        let scratch = cx.scratch_len(&geometry, function, bounded);
        let inputs = vec![cx.input(0)?.into(), cx.input(1)?.into()];
        let outputs = vec![cx.output(0)?.into(), cx.scratch(DType::F32, scratch).into()];
        cx.call_on(kernel, DType::F32, inputs, outputs, geometry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{
        testing::{check, tensor},
        window::AutoPad,
    };

    #[test]
    fn the_result_has_the_shape_of_the_weights() {
        let op = |nchwc| BlockedConvWeightGrad {
            window: Window {
                auto_pad: AutoPad::NotSet,
                kernel_shape: vec![3, 2],
                strides: vec![2, 1],
                pads: vec![1, 0, 1, 0],
                dilations: vec![1, 1],
            },
            channels: 20,
            filters: 6,
            nchwc,
            depthwise: false,
        };
        let dy = || tensor(DType::F32, [5, 1, 4, 8, 16]);
        check(op(true), &[tensor(DType::F32, [5, 2, 8, 9, 16]), dy()], 1, "float[6, 20, 3, 2]");
        check(op(false), &[tensor(DType::F32, [5, 20, 8, 9]), dy()], 1, "float[6, 20, 3, 2]");
        let depthwise = BlockedConvWeightGrad { filters: 20, depthwise: true, ..op(true) };
        let dy = tensor(DType::F32, [5, 2, 4, 8, 16]);
        check(depthwise, &[tensor(DType::F32, [5, 2, 8, 9, 16]), dy], 1, "float[20, 1, 3, 2]");
    }
}
