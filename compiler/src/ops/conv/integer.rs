//! Convolutions of 8-bit integers: `ConvInteger` and `QLinearConv`.

use super::{geometry, infer_shape, macs};
use crate::{
    diag::Result,
    dim::Dim,
    dtype::{DType, INT8S},
    ir::{Attributes, Infer, Inferred, Lower, Op},
    ops::{Entry, entry, window::Window},
    plan::{Kernel, geometry::Conv, kernel},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("ConvInteger", 10, |node| {
        Ok(Rc::new(ConvInteger { window: Window::read(node)?, group: node.int("group", 1)? }))
    }),
    entry("QLinearConv", 10, |node| {
        Ok(Rc::new(QLinearConv { window: Window::read(node)?, group: node.int("group", 1)? }))
    }),
];

/// The number of rows of weights and of the input that the kernels widen to 16 bits at a time.
const BLOCK: [i64; 2] = [64, 32];

/// The number of elements of scratch memory of a convolution.
fn scratch(conv: &Conv) -> Dim {
    if conv.channels.known() == Some(1) {
        return 0.into();
    }
    let pixels: Dim = conv.out.iter().product();
    let rows = conv.filters.at_most(&BLOCK[0].into()) + pixels.at_most(&BLOCK[1].into());
    rows * &conv.channels * conv.kernel.iter().product::<Dim>()
}

/// Checks a scale or a zero point: one for all channels, or one for each of `channels`.
fn check_scale(cx: &mut Infer<'_>, i: usize, channels: Option<&Dim>) -> Inferred<()> {
    let len = cx.ty(i)?.len();
    match channels {
        Some(channels) if len.known() != Some(1) => {
            cx.require_equal(&len, channels, "the number of scales or zero points and of channels")
        }
        _ => cx.require_equal(&len, &1.into(), "the number of scales or zero points and 1"),
    }
}

/// `Conv(x - x_zero_point, w - w_zero_point)`, in `int32`.
pub struct ConvInteger {
    /// The attributes of the window.
    pub window: Window,
    /// The number of groups of channels.
    pub group: i64,
}

macro_rules! conv_integer {
    ($W:ty) => {
        kernel!(INT8S T, conv::conv_integer::<T, $W>, |f, a, p| f(a.input(0),
            a.input(1), a.optional(2), a.optional(3), a.output(0), a.output(1), p))
    };
}

static CONV_INTEGER: &[(DType, Kernel<Conv>)] =
    &[(DType::I8, conv_integer!(i8)), (DType::U8, conv_integer!(u8))];

impl Op for ConvInteger {
    fn name(&self) -> &'static str {
        "ConvInteger"
    }

    fn attributes(&self, a: &mut Attributes) {
        self.window.attributes(a);
        a.int("group", self.group);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.of(0, INT8S)?;
        cx.of(1, INT8S)?;
        let shape = infer_shape(cx, &self.window, self.group, [0, 1])?;
        if cx.has(2) {
            cx.same_dtype(0, 2)?;
            check_scale(cx, 2, None)?;
        }
        if cx.has(3) {
            cx.same_dtype(1, 3)?;
            check_scale(cx, 3, Some(&shape[1]))?;
        }
        Ok(vec![Type::tensor(DType::I32, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = geometry(cx, &self.window, self.group, [0, 1])?;
        cx.macs(&macs(&geometry));
        let scratch = cx.scratch(DType::I16, scratch(&geometry));
        let inputs = vec![
            cx.input(0)?.into(),
            cx.input(1)?.into(),
            cx.optional(2)?.into(),
            cx.optional(3)?.into(),
        ];
        let outputs = vec![cx.output(0)?.into(), scratch.into()];
        let (x, w) = (cx.ty(0)?.dtype, cx.ty(1)?.dtype);
        let (_, kernel) = CONV_INTEGER
            .iter()
            .find(|(dtype, _)| *dtype == w)
            .expect("`infer` checks that the weights are 8-bit integers");
        cx.call_on(kernel, x, inputs, outputs, geometry)
    }
}

/// A convolution of quantized images with quantized weights, whose result is requantized.
pub struct QLinearConv {
    /// The attributes of the window.
    pub window: Window,
    /// The number of groups of channels.
    pub group: i64,
}

macro_rules! qlinear_conv {
    ($W:ty, $Y:ty) => {
        kernel!(INT8S T, conv::qlinear_conv::<T, $W, $Y> { operands: conv::QLinearConvOperands {
            x: input(0), x_scale: input(1), x_zero: input(2),
            w: input(3), w_scale: input(4), w_zero: input(5),
            y_scale: input(6), y_zero: input(7), bias: optional(8),
        } }, |f, a, p| f(operands, a.output(0), a.output(1), p))
    };
}

/// The kernels by the types of the weights and of the result.
static QLINEAR_CONV: &[([DType; 2], Kernel<Conv>)] = &[
    ([DType::I8, DType::I8], qlinear_conv!(i8, i8)),
    ([DType::I8, DType::U8], qlinear_conv!(i8, u8)),
    ([DType::U8, DType::I8], qlinear_conv!(u8, i8)),
    ([DType::U8, DType::U8], qlinear_conv!(u8, u8)),
];

impl Op for QLinearConv {
    fn name(&self) -> &'static str {
        "QLinearConv"
    }

    fn attributes(&self, a: &mut Attributes) {
        self.window.attributes(a);
        a.int("group", self.group);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        for (operand, scale, zero) in [(0, 1, 2), (3, 4, 5)] {
            cx.of(operand, INT8S)?;
            cx.of(scale, &[DType::F32])?;
            cx.same_dtype(operand, zero)?;
        }
        cx.of(6, &[DType::F32])?;
        let dtype = cx.of(7, INT8S)?.dtype;
        let shape = infer_shape(cx, &self.window, self.group, [0, 3])?;
        for i in [1, 2, 6, 7] {
            check_scale(cx, i, None)?;
        }
        for i in [4, 5] {
            check_scale(cx, i, Some(&shape[1]))?;
        }
        if cx.has(8) {
            cx.of(8, &[DType::I32])?;
            let len = cx.ty(8)?.len();
            cx.require_equal(&len, &shape[1], "the sizes of the bias and of the channels")?;
        }
        Ok(vec![Type::tensor(dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = geometry(cx, &self.window, self.group, [0, 3])?;
        cx.macs(&macs(&geometry));
        let scratch = cx.scratch(DType::I16, scratch(&geometry));
        let mut inputs = (0..8).map(|i| Ok(cx.input(i)?.into())).collect::<Result<Vec<_>>>()?;
        inputs.push(cx.optional(8)?.into());
        let outputs = vec![cx.output(0)?.into(), scratch.into()];
        let types = [cx.ty(3)?.dtype, cx.ty(7)?.dtype];
        let row = QLINEAR_CONV.iter().find(|(of, _)| *of == types);
        let (_, kernel) = row.expect("`infer` checks the types");
        let dtype = cx.ty(0)?.dtype;
        cx.call_on(kernel, dtype, inputs, outputs, geometry)
    }
}
