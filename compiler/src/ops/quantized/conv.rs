//! Int8 convolutions, which passes create from convolutions between quantized tensors.

use super::{
    int8_kernel,
    requantize::{Requantization, check_channels, has_zero_points, operands},
    zero_point_kernel,
};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, INT8S},
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op},
    ops::{
        Entry,
        conv::{geometry, infer_shape, macs},
        internal, pack,
        window::Window,
    },
    plan::{
        Kernel, Operand, Optimize,
        geometry::{Conv, Requantize},
        size_function,
    },
    ty::Type,
};
use onnxc_runtime::{kernels::conv::WeightLayout, simd::int8::MAX_BYTES};
use std::rc::Rc;

pub const OPS: &[Entry] = &[internal("QuantizedConv", |node| {
    let (window, group) = (Window::read(node)?, node.int("group", 1)?);
    Ok(Rc::new(QuantizedConv { window, group, to: Requantization::read(node)? }))
})];

/// The convolution of a quantized image with constant weights. The inputs after these hold, for
/// each output channel, the initial accumulator, the scale, optionally an offset that is added
/// after scaling, and the zero point of the weights, unless all are 0.
pub struct QuantizedConv {
    /// The window.
    pub window: Window,
    /// The number of groups of channels.
    pub group: i64,
    /// The requantization of the accumulators.
    pub to: Requantization,
}

/// Kernels by output type.
type Kernels = [(DType, Kernel<(Conv, Requantize)>)];

macro_rules! quantized_conv {
    ($kernel:ident, $Y:ty) => {
        int8_kernel!(INT8S T, quantized::$kernel::<T, $Y>, operands,
            |f, a, p| f(operands, a.output(0), a.output(1), a.output(2), p.0, p.1))
    };
}

/// Kernels that read packed weights.
static PACKED: &Kernels = &[
    (DType::I8, quantized_conv!(int8_conv_nchw, i8)),
    (DType::U8, quantized_conv!(int8_conv_nchw, u8)),
];
macro_rules! conv_with_zeros {
    ($Y:ty) => {
        zero_point_kernel!(quantized::int8_conv_nchw_with_zeros::<T, $Y>, operands, |f, a, p| f(
            operands,
            a.output(0),
            a.output(1),
            a.output(2),
            p.0,
            p.1
        ))
    };
}

/// Kernels for weights with zero points.
static WITH_ZEROS: &Kernels =
    &[(DType::I8, conv_with_zeros!(i8)), (DType::U8, conv_with_zeros!(u8))];
/// Kernels for small code.
static SMALL: &Kernels = &[
    (DType::I8, quantized_conv!(small_int8_conv_nchw, i8)),
    (DType::U8, quantized_conv!(small_int8_conv_nchw, u8)),
];

/// The maximum number of image axes.
pub const MAX_AXES: usize = 3;

/// Returns the number of products in an accumulator, rounded up to a multiple of four.
pub(super) fn depth(conv: &Conv) -> Dim {
    let depth = &conv.channels * conv.kernel.iter().product::<Dim>();
    depth.ceil_div(&4.into()) * 4
}

/// The number of columns that the kernel of a depthwise convolution accumulates at least.
const MIN_COLUMNS: i64 = 128;

/// Returns the bytes of scratch memory: the padded input, and some of its columns.
fn scratch(conv: &Conv) -> Dim {
    let bytes = MAX_BYTES as i64;
    let rest = match conv.channels.known() {
        Some(1) => {
            // Without vectors: the accumulators of a few lines, or four columns of all quads.
            let sums = conv.out[conv.out.len() - 1].at_least(&MIN_COLUMNS.into()) * 4;
            columns(conv).at_least(&sums).at_least(&(depth(conv) * 8)) + bytes
        }
        _ => depth(conv) * bytes,
    };
    input_scratch(conv) + rest + 2 * bytes
}

/// Returns the bytes of scratch memory of the product of all channels with a panel of columns.
pub(super) fn product_scratch(conv: &Conv) -> Dim {
    let bytes = MAX_BYTES as i64;
    input_scratch(conv) + depth(conv) * bytes + 2 * bytes
}

/// Returns the number of columns of the planes of one depth: those of the outputs, and of windows
/// that reach beyond them.
fn columns(conv: &Conv) -> Dim {
    let axes = conv.size.len();
    let first = usize::from(axes == MAX_AXES);
    let plane = |i: usize| {
        let reach = (conv.kernel[i].clone() - 1) * conv.dilations[i] as i64;
        &conv.out[i] + reach.floor_div(&(conv.strides[i] as i64).into())
    };
    (first..axes).map(plane).product()
}

/// Returns the bytes of the padded input; none if the input is used as it is.
fn input_scratch(conv: &Conv) -> Dim {
    let (mut planes, mut is_input) = (conv.channels.clone(), true);
    let axes = conv.size.len();
    for i in 0..axes {
        let stride = conv.strides[i];
        let reach = (conv.kernel[i].clone() - 1) * conv.dilations[i] as i64;
        if i == 0 && axes == MAX_AXES {
            planes = planes * ((conv.out[i].clone() - 1) * stride as i64 + &reach + 1);
        } else {
            let phases = (reach.clone() + 1).at_most(&(stride as i64).into());
            let plane = &conv.out[i] + reach.floor_div(&(stride as i64).into());
            planes = planes * phases * plane;
        }
        let plain = conv.kernel[i].known() == Some(1) && stride == 1;
        is_input &= plain && conv.pads[i].known() == Some(0) && conv.size[i] == conv.out[i];
    }
    if is_input { 0.into() } else { planes + MAX_BYTES as i64 }
}

impl Op for QuantizedConv {
    fn name(&self) -> &'static str {
        "QuantizedConv"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        self.window.attributes(a);
        a.int("group", self.group);
        self.to.attributes(a);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.of(0, INT8S)?;
        cx.of(1, &[DType::I8])?;
        let shape = infer_shape(cx, &self.window, self.group, [0, 1])?;
        if cx.constant(1).is_none() || shape.len() > 2 + MAX_AXES {
            let message = "the weights must be constant, and the image may have at most three axes";
            return Err(cx.diagnostic(Code::Unsupported, message));
        }
        check_channels(cx, 2, &shape[1], true)?;
        Ok(vec![Type::tensor(self.to.dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let mut geometry = geometry(cx, &self.window, self.group, [0, 1])?;
        geometry.weights = WeightLayout::Packed;
        cx.macs(&macs(&geometry));
        let has_zeros = has_zero_points(cx);
        if cx.optimize() == Optimize::Size && !has_zeros {
            let weights = cx.input(1)?;
            return call_small(cx, weights, geometry, self.to);
        }
        let packed = pack::pack_bytes(cx, 1, pack::ByteFilters(geometry.clone()));
        let weights = packed.ok_or_else(|| cx.unsupported("weights that are not constant"))?;
        let starts = cx.scratch(DType::U32, depth(&geometry));
        let function = size_function!(quantized::conv_scratch);
        let with_zeros = size_function!(quantized::dynamic_conv_scratch);
        // Zero points take the path of several channels, also for one.
        let function = if has_zeros { with_zeros } else { function };
        let scratch = cx.scratch_len(&geometry, function, |_| match has_zeros {
            true => product_scratch(&geometry),
            false => scratch(&geometry),
        });
        let scratch = cx.scratch(DType::U8, scratch);
        let kernels = if has_zeros { WITH_ZEROS } else { PACKED };
        call_kernel(cx, kernels, weights, [starts, scratch], geometry, self.to)
    }
}

/// Calls the small kernel, with weights in the order `[filters, channels, kernel…]`. It also
/// computes products with constant weights, as a convolution of one image without axes for each
/// row.
pub fn call_small(
    cx: &mut Lower<'_>,
    weights: Operand,
    geometry: Conv,
    to: Requantization,
) -> Result {
    let taps: Dim = geometry.kernel.iter().product();
    let starts = cx.scratch(DType::U32, taps.clone());
    let window = cx.scratch(DType::U8, &geometry.channels * geometry.groups * taps);
    call_kernel(cx, SMALL, weights, [starts, window], geometry, to)
}

fn call_kernel(
    cx: &mut Lower<'_>,
    kernels: &'static Kernels,
    weights: Operand,
    [starts, scratch]: [Operand; 2],
    geometry: Conv,
    to: Requantization,
) -> Result {
    let inputs = operands(cx, weights)?;
    let outputs = vec![cx.output(0)?.into(), starts.into(), scratch.into()];
    let kernel = kernels.iter().find(|(dtype, _)| *dtype == to.dtype);
    let (_, kernel) = kernel.expect("a requantization is to `int8` or `uint8`");
    let dtype = cx.ty(0)?.dtype;
    cx.call_on(kernel, dtype, inputs, outputs, (geometry, to.formula()))
}
