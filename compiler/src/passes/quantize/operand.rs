//! Quantized operands, and the quantization of results.

use super::super::fuse::function;
use crate::{
    dtype::DType,
    ir::{Graph, Node, Site, ValueId},
    ops::{
        quantize::{DequantizeLinear, QuantizeLinear},
        quantized::requantize::{Requantization, limits},
    },
    tensor::Tensor,
};
use onnxc_runtime::kernels::{epilogue::Activation, quantized::Requantize};

/// A quantized tensor, which represents `(x - zero) · scale`.
pub struct Operand {
    /// The integers.
    pub x: ValueId,
    /// The type of the integers.
    pub dtype: DType,
    /// One scale, or one per index of `axis`.
    pub scales: Vec<f32>,
    /// The zero points, as many as scales.
    pub zeros: Vec<i32>,
    /// The axis of the scales.
    pub axis: i64,
}

impl Operand {
    /// Returns the quantized tensor that `value`, an `f32` tensor, is dequantized from.
    pub fn of(site: &Site<'_>, value: ValueId) -> Option<Operand> {
        let node = site.producer(value)?;
        let op = node.op.downcast::<DequantizeLinear>()?;
        let ty = site.graph[value].ty.as_tensor()?;
        if ty.dtype != DType::F32 || op.granularity.block_size != 0 {
            return None;
        }
        Operand::with(site, [0, 1, 2].map(|i| node.input(i)), op.granularity.axis)
    }

    /// Creates an operand from values: integers, constant scales, constant zero points.
    pub fn with(site: &Site<'_>, of: [Option<ValueId>; 3], axis: i64) -> Option<Operand> {
        let [x, scales, zeros] = of;
        let x = x?;
        let scales = numbers(site.graph, scales?)?;
        let zeros = match zeros {
            Some(zero) => {
                let zeros = site.graph[zero].constant.as_ref()?.ints()?.into_iter();
                zeros.map(|zero| i32::try_from(zero).ok()).collect::<Option<Vec<_>>>()?
            }
            None => vec![0; scales.len()],
        };
        let dtype = site.graph[x].ty.as_tensor()?.dtype;
        let fits = scales.len() == zeros.len() && scales.iter().all(|scale| *scale > 0.0);
        fits.then_some(Operand { x, dtype, scales, zeros, axis })
    }

    /// Returns the 8-bit tensor with one scale that `value` is dequantized from.
    pub fn bytes(site: &Site<'_>, value: ValueId) -> Option<Operand> {
        let is_byte = |operand: &Operand| matches!(operand.dtype, DType::I8 | DType::U8);
        Operand::of(site, value).filter(|operand| is_byte(operand) && operand.scales.len() == 1)
    }

    /// Returns the first scale, which is the only one of per-tensor quantization.
    pub fn scale(&self) -> f32 {
        self.scales[0]
    }

    /// Returns the first zero point, which is the only one of per-tensor quantization.
    pub fn zero(&self) -> i32 {
        self.zeros[0]
    }
}

/// Returns the elements of an `f32` constant.
pub fn numbers(graph: &Graph, value: ValueId) -> Option<Vec<f32>> {
    let constant = graph[value].constant.as_ref().filter(|found| found.dtype == DType::F32)?;
    Some(constant.floats()?.into_iter().map(|x| x as f32).collect())
}

/// The quantization of a result.
pub struct Target {
    /// The type.
    pub dtype: DType,
    /// The scale.
    pub scale: f32,
    /// The zero point.
    pub zero: i32,
    /// The least and the greatest result: those of the type, or tighter ones where a `Relu` or
    /// `Clip` comes before.
    pub limits: (i32, i32),
}

impl Target {
    /// Returns the quantization that a `QuantizeLinear` applies, and the value before any `Relu` or
    /// `Clip` in front of it.
    pub fn of(site: &Site<'_>, node: &Node) -> Option<(Target, ValueId)> {
        let op = node.op.downcast::<QuantizeLinear>()?;
        let mut value = node.input(0)?;
        let single = site.graph[value].ty.as_tensor()?.dtype == DType::F32;
        let [scale] = numbers(site.graph, node.input(1)?)?[..] else { return None };
        let zero = match node.input(2) {
            Some(zero) => site.graph[zero].constant.as_ref()?.ints()?,
            None => vec![0],
        };
        let of_zero = node.input(2).and_then(|zero| site.graph[zero].ty.as_tensor());
        let dtype = op.dtype.or(of_zero.map(|ty| ty.dtype)).unwrap_or(DType::U8);
        let dtype = Some(dtype).filter(|dtype| matches!(dtype, DType::I8 | DType::U8))?;
        let &[zero] = zero.as_slice() else { return None };
        if !single || scale <= 0.0 || op.precision.is_some_and(|found| found != DType::F32) {
            return None;
        }
        let zero = i32::try_from(zero).ok()?;
        let mut target = Target { dtype, scale, zero, limits: limits(dtype) };
        while let Some((before, low, high)) = clip_of(site, value) {
            let (least, most) = target.limits;
            // The later clip has the last word.
            let within = |x: f32| target.byte(x).clamp(least, most);
            target.limits = (within(low), within(high));
            value = before;
        }
        Some((target, value))
    }

    /// Quantizes a number.
    fn byte(&self, x: f32) -> i32 {
        let (least, most) = limits(self.dtype);
        let steps = (x / self.scale).round_ties_even() + self.zero as f32;
        steps.clamp(least as f32, most as f32) as i32
    }

    /// Returns whether the operand has the same quantization, so that its integers are the result.
    pub fn is(&self, operand: &Operand) -> bool {
        self.dtype == operand.dtype
            && self.scale == operand.scale()
            && self.zero == operand.zero()
            && self.limits == limits(self.dtype)
    }

    /// Returns the requantization parameters of a kernel whose input has the zero point `x_zero`.
    pub fn requantized(&self, x_zero: i32) -> Requantization {
        let (low, high) = self.limits;
        let to = Requantize { x_zero, y_zero: self.zero, low, high };
        Requantization { to, dtype: self.dtype }
    }
}

/// Returns the input and the limits of the `Relu` or `Clip` that computes `value`.
fn clip_of(site: &Site<'_>, value: ValueId) -> Option<(ValueId, f32, f32)> {
    let node = site.producer(value)?;
    let (low, high) = match function::activation_of(site.graph, node)? {
        Activation::Relu => (0.0, f32::INFINITY),
        Activation::Clip { min, max } if min <= max => (min, max),
        _ => return None,
    };
    Some((node.input(0)?, low, high))
}

/// Returns the offset that maps the type to `u8`: 128 for `i8`.
pub fn shift(dtype: DType) -> i32 {
    if dtype == DType::I8 { 128 } else { 0 }
}

/// Returns an `i8` constant.
pub fn signed_bytes(shape: Vec<usize>, bytes: &[i8]) -> Tensor {
    let bytes: Vec<u8> = bytes.iter().map(|&x| x as u8).collect();
    Tensor::from_raw(DType::I8, shape, bytes.into())
}
