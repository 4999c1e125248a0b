//! The kernels of convolutions of bytes. A product with constant weights is one, too: an image of no axes for
//! each row.

use super::requantize::Requantized;
use crate::{
    diag::Result,
    dim::Dim,
    dtype::DType,
    ir::Lower,
    plan::{
        Kernel, Operand,
        geometry::{Conv, Requantize},
        kernel,
    },
};

/// Kernels by the type of the result.
type Kernels = [(DType, Kernel<(Conv, Requantize)>)];

macro_rules! quantized_conv {
    ($kernel:ident, $Y:ty) => {
        kernel!(BYTES T, quantized::$kernel::<T, $Y>, |f, a, p| f(a.input(0), a.input(1), a.input(2),
            a.input(3), a.optional(4), a.output(0), a.output(1), a.output(2), p.0, p.1))
    };
}

/// Those of packed weights.
static PACKED: &Kernels =
    &[(DType::I8, quantized_conv!(conv, i8)), (DType::U8, quantized_conv!(conv, u8))];
/// Those that are small.
static SMALL: &Kernels =
    &[(DType::I8, quantized_conv!(small_conv, i8)), (DType::U8, quantized_conv!(small_conv, u8))];

/// Calls the kernel for the node at hand, with packed weights and what it wants of scratch memory.
pub fn call(
    cx: &mut Lower<'_>,
    weights: Operand,
    scratch: [Operand; 2],
    geometry: Conv,
    to: Requantized,
) -> Result {
    call_of(cx, PACKED, weights, scratch, geometry, to)
}

/// Calls the small kernel for the node at hand, with weights in the order of `[filters, channels,
/// kernel…]`.
pub fn call_small(cx: &mut Lower<'_>, weights: Operand, geometry: Conv, to: Requantized) -> Result {
    let taps: Dim = geometry.kernel.iter().product();
    let starts = cx.scratch(DType::U32, taps.clone());
    let window = cx.scratch(DType::U8, &geometry.channels * geometry.groups * taps);
    call_of(cx, SMALL, weights, [starts, window], geometry, to)
}

fn call_of(
    cx: &mut Lower<'_>,
    kernels: &'static Kernels,
    weights: Operand,
    [starts, scratch]: [Operand; 2],
    geometry: Conv,
    to: Requantized,
) -> Result {
    let inputs = vec![
        cx.input(0)?.into(),
        weights.into(),
        cx.input(2)?.into(),
        cx.input(3)?.into(),
        cx.optional(4)?.into(),
    ];
    let outputs = vec![cx.output(0)?.into(), starts.into(), scratch.into()];
    let found = kernels.iter().find(|(made, _)| *made == to.dtype);
    let (_, kernel) = found.expect("a byte");
    let dtype = cx.ty(0)?.dtype;
    cx.call_on(kernel, dtype, inputs, outputs, (geometry, to.formula()))
}
