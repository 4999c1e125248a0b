//! Requantization: from accumulators to quantized elements.

use crate::{
    diag::Result,
    dim::Dim,
    dtype::DType,
    ir::{Attributes, Infer, Inferred, Lower, Reader},
    plan::{Arg, Operand, geometry::Requantize},
};
use onnxc_runtime::kernels::quantized;

/// A requantization to a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Requantization {
    /// The zero points and the limits.
    pub to: quantized::Requantize,
    /// The type: `I8` or `U8`.
    pub dtype: DType,
}

impl Requantization {
    /// Reads the attributes.
    pub fn read(node: &mut Reader<'_>) -> Result<Requantization> {
        let dtype = node.maybe_dtype("dtype")?.filter(|&dtype| dtype == DType::I8);
        let dtype = dtype.unwrap_or(DType::U8);
        let (least, most) = limits(dtype);
        let mut int = |name: &str, default: i32| -> Result<i32> {
            let value = node.int(name, default.into())?;
            Ok(i32::try_from(value.clamp(-128, 255)).unwrap_or(default))
        };
        let to = quantized::Requantize {
            x_zero: int("x_zero", 0)?,
            y_zero: int("y_zero", 0)?,
            low: int("low", least)?,
            high: int("high", most)?,
        };
        Ok(Requantization { to, dtype })
    }

    /// Writes the attributes.
    pub fn attributes(&self, a: &mut Attributes) {
        a.int("dtype", self.dtype.code().into());
        a.int("x_zero", self.to.x_zero.into());
        a.int("y_zero", self.to.y_zero.into());
        a.int("low", self.to.low.into());
        a.int("high", self.to.high.into());
    }

    /// Returns the kernels' parameters.
    pub fn formula(&self) -> Requantize {
        let quantized::Requantize { x_zero, y_zero, low, high } = self.to;
        Requantize { x_zero, y_zero, low, high }
    }
}

/// Returns the smallest and largest element of a quantized type.
pub fn limits(dtype: DType) -> (i32, i32) {
    match dtype {
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        _ => (u8::MIN.into(), u8::MAX.into()),
    }
}

/// Checks the lengths of the inputs with one element per channel: the initial accumulators, input
/// `first`, the scales after them, the optional offsets, and with `zeros` the optional zero points
/// of the weights.
pub fn check_channels(
    cx: &mut Infer<'_>,
    first: usize,
    channels: &Dim,
    zeros: bool,
) -> Inferred<()> {
    let wanted = [DType::I32, DType::F32, DType::F32, DType::I32];
    let wanted = &wanted[..if zeros { 4 } else { 3 }];
    for (i, dtype) in (first..).zip(wanted) {
        if i < first + 2 || cx.has(i) {
            cx.of(i, &[*dtype])?;
            let len = cx.ranked(i, 1)?.shape[0].clone();
            cx.require_equal(&len, channels, "the number of elements and of channels")?;
        }
    }
    Ok(())
}

/// Returns the kernels' inputs: the input, the packed `weights`, and for each channel the initial
/// accumulator, the scale, the optional offset, and the zero point of the weights if there is one.
pub fn operands(cx: &mut Lower<'_>, weights: Operand) -> Result<Vec<Arg>> {
    let mut operands = vec![
        cx.input(0)?.into(),
        weights.into(),
        cx.input(2)?.into(),
        cx.input(3)?.into(),
        cx.optional(4)?.into(),
    ];
    if has_zero_points(cx) {
        operands.push(cx.input(5)?.into());
    }
    Ok(operands)
}

/// Returns whether the weights have zero points.
pub fn has_zero_points(cx: &Lower<'_>) -> bool {
    cx.node().input(5).is_some()
}
