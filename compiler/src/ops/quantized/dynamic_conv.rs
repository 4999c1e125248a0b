//! The convolution of an image that is quantized at run time, which a pass creates from
//! `ConvInteger`.

use super::conv::{MAX_AXES, depth, product_scratch};
use crate::{
    diag::{Code, Result},
    dtype::DType,
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op},
    ops::{
        Entry,
        conv::{geometry, infer_shape, macs},
        internal, pack,
        window::Window,
    },
    plan::{Kernel, geometry::Conv, kernel, size_function},
    ty::Type,
};
use onnxc_runtime::kernels::conv::WeightLayout;
use std::rc::Rc;

pub const OPS: &[Entry] = &[internal("DynamicConv", |node| {
    Ok(Rc::new(DynamicConv { window: Window::read(node)?, group: node.int("group", 1)? }))
})];

/// The convolution of an image that is quantized at run time, by the scale and the zero point in
/// inputs 1 and 2, and constant weights, input 3. For each filter, inputs 4 and 5 hold the scale
/// and the sum of the weights without their zero point, input 6 the bias, and input 7 the zero
/// point of the weights, unless all are 0.
pub struct DynamicConv {
    /// The window.
    pub window: Window,
    /// The number of groups of channels.
    pub group: i64,
}

static KERNEL: Kernel<Conv> = kernel!(F32_ONLY T,
    quantized::dynamic_conv_nchw { operands: quantized::DynamicConvOperands {
        x: input(0), x_scale: input(1), x_zero: input(2), w: input(3), w_zero: optional(7),
        w_scale: input(4), sums: input(5), bias: optional(6),
    } }, |f, a, p| f(operands, a.output(0), a.output(1), a.output(2), p));

impl Op for DynamicConv {
    fn name(&self) -> &'static str {
        "DynamicConv"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        self.window.attributes(a);
        a.int("group", self.group);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.of(3, &[DType::I8])?;
        let shape = infer_shape(cx, &self.window, self.group, [0, 3])?;
        if cx.constant(3).is_none() || shape.len() > 2 + MAX_AXES {
            let message = "the weights must be constant, and the image may have at most three axes";
            return Err(cx.diagnostic(Code::Unsupported, message));
        }
        super::check_dynamic(cx, &shape[1])?;
        Ok(vec![Type::tensor(DType::F32, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let mut geometry = geometry(cx, &self.window, self.group, [0, 3])?;
        geometry.weights = WeightLayout::Packed;
        cx.macs(&macs(&geometry));
        let packed = pack::pack_bytes(cx, 3, pack::ByteFilters(geometry.clone()));
        let weights = packed.ok_or_else(|| cx.unsupported("weights that are not constant"))?;
        let starts = cx.scratch(DType::U32, depth(&geometry));
        let function = size_function!(quantized::dynamic_conv_scratch);
        let scratch = cx.scratch_len(&geometry, function, |_| product_scratch(&geometry));
        let scratch = cx.scratch(DType::U8, scratch);
        let inputs = super::dynamic_inputs(cx, weights)?;
        let outputs = vec![cx.output(0)?.into(), starts.into(), scratch.into()];
        cx.call_on(&KERNEL, DType::F32, inputs, outputs, geometry)
    }
}
