//! 8-bit convolutions in the NHWC layout.

use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::DType,
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op, Reader},
    ops::{
        Entry,
        conv::{geometry_of, macs},
        internal,
        pack::{PIECE, Pack, pack_bytes, with_numbers},
        quantized::{
            binary::{blend_attributes, read_blend, sum_parameters},
            int8_kernel,
            requantize::{Requantization, check_channels},
        },
        window::{self, Rounding, Slide, Window},
    },
    plan::{
        Kernel, Operand,
        geometry::{Blend, Conv, Requantize},
        kernel, size_function,
    },
    tensor::Tensor,
    ty::Type,
};
use onnxc_runtime::{
    Number,
    kernels::{
        conv::{self, WeightLayout},
        nhwc::{self, BLOCK, MAX_AXES},
        quantized,
    },
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[internal("NhwcConv", |node| {
    let (window, group) = (Window::read(node)?, node.int("group", 1)?);
    let added = Added::read(node)?;
    Ok(Rc::new(NhwcConv { window, group, to: Requantization::read(node)?, added }))
})];

/// An ordinary or depthwise convolution of an 8-bit NHWC image. Its inputs are those of
/// `QuantizedConv`, followed by the residual, if there is one.
pub struct NhwcConv {
    /// The window.
    pub window: Window,
    /// 1 (ordinary), or the number of channels (depthwise).
    pub group: i64,
    /// The requantization of the accumulators to `uint8`.
    pub to: Requantization,
    /// The addition of input 5, a residual of the result's shape. Requires a `group` of 1.
    pub added: Option<Added>,
}

/// The quantized addition of a residual to the requantized result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Added {
    /// The zero points and scales of both operands, and the scale of their sum.
    pub of: quantized::Blend,
    /// The requantization of the sum to `uint8`.
    pub to: quantized::Requantize,
}

impl Added {
    fn read(node: &mut Reader<'_>) -> Result<Option<Added>> {
        let of = read_blend(node)?;
        let mut int = |name, default| Ok(node.int(name, default)?.clamp(0, 255) as i32);
        let (y_zero, low, high) = (int("sum_zero", 0)?, int("sum_low", 0)?, int("sum_high", 255)?);
        let to = quantized::Requantize { x_zero: 0, y_zero, low, high };
        Ok(node.flag("added", false)?.then_some(Added { of, to }))
    }

    fn attributes(&self, a: &mut Attributes) {
        a.flag("added", true);
        blend_attributes(&self.of, a);
        a.int("sum_zero", self.to.y_zero.into());
        a.int("sum_low", self.to.low.into());
        a.int("sum_high", self.to.high.into());
    }

    /// The parameters of the kernel.
    fn formula(&self) -> (Blend, Requantize) {
        let quantized::Requantize { x_zero, y_zero, low, high } = self.to;
        let to = Requantize { x_zero, y_zero, low, high };
        (sum_parameters(self.of, false, self.to, [DType::U8; 3]), to)
    }
}

/// A convolution kernel.
type ConvKernel = Kernel<(Conv, Requantize)>;

/// A function that returns the length of the table of starts.
type StartsLen = fn(&conv::Conv<'_>) -> usize;

macro_rules! conv_kernel {
    ($name:ident) => {
        int8_kernel!(U8_ONLY T, nhwc::$name, operands,
            |f, a, p| f(operands, a.output(0), a.output(1), a.output(2), p.0, p.1))
    };
}

static CONV: ConvKernel = conv_kernel!(int8_conv_nhwc);
static DEPTHWISE: ConvKernel = conv_kernel!(int8_depthwise_nhwc);
static CONV_ADD: Kernel<(Conv, Requantize, Blend, Requantize)> = kernel!(U8_ONLY T,
    nhwc::int8_conv_add_nhwc {
        operands: nhwc::Int8AddOperands {
            x: input(0), w: input(1), bias: input(2), factor: input(3), offset: optional(4),
            addend: input(5),
        },
        scratch: nhwc::Int8Scratch { starts: output(1), scratch: output(2) },
    }, |f, a, p| f(operands, a.output(0), scratch, p.0, p.1, p.2, p.3));

/// The weights of a convolution, packed for its kernel. A piece is some blocks of filters.
struct Filters(Conv);

impl Filters {
    fn is_depthwise(&self) -> bool {
        self.0.groups > 1
    }

    fn packed_len(&self, conv: &conv::Conv<'_>) -> usize {
        if self.is_depthwise() {
            nhwc::packed_depthwise_weights_len(conv)
        } else {
            nhwc::packed_weights_len(conv)
        }
    }

    /// The number of filters, and the number of filters in a piece.
    fn counts(&self) -> [usize; 2] {
        with_numbers(&self.0, |conv| {
            let block = self.packed_len(&self.with_filters(&conv, BLOCK)).max(1);
            [conv.groups * conv.filters, (PIECE / block).max(1) * BLOCK]
        })
    }

    /// The same convolution with `count` filters.
    fn with_filters<'a>(&self, conv: &conv::Conv<'a>, count: usize) -> conv::Conv<'a> {
        if self.is_depthwise() {
            conv::Conv { groups: count, ..*conv }
        } else {
            conv::Conv { filters: count, ..*conv }
        }
    }

    /// Packs the weights of `conv`, a convolution of some of the filters.
    fn pack_filters<T: Number>(&self, from: &[T], conv: &conv::Conv<'_>) -> Vec<T> {
        let mut to = vec![T::ZERO; self.packed_len(conv)];
        if self.is_depthwise() {
            nhwc::pack_depthwise_weights(from, &mut to, conv);
        } else {
            nhwc::pack_weights(from, &mut to, conv);
        }
        to
    }
}

impl Pack for Filters {
    fn len<T>(&self) -> usize {
        with_numbers(&self.0, |conv| self.packed_len(&conv))
    }

    fn pieces<T>(&self) -> usize {
        let [all, most] = self.counts();
        all.div_ceil(most)
    }

    fn pack<T: Number>(&self, i: usize, from: &[T]) -> Vec<T> {
        let [all, most] = self.counts();
        let (first, depth) = (i * most, from.len() / all);
        let count = (all - first).min(most);
        let from = &from[first * depth..][..count * depth];
        with_numbers(&self.0, |conv| self.pack_filters(from, &self.with_filters(&conv, count)))
    }
}

impl NhwcConv {
    /// The batch size, and the positions of the windows along each axis of the image.
    fn slides(&self, x: &[Dim], w: &[Dim]) -> Option<(Dim, Vec<Slide>)> {
        let (batch, image) = super::image(x)?;
        let kernel = w.get(2..).filter(|kernel| kernel.len() == image.len())?;
        Some((batch.clone(), self.window.slides(image, kernel, Rounding::Down)))
    }

    fn geometry(&self, cx: &Lower<'_>) -> Result<Conv> {
        let (x, w) = (&cx.ty(0)?.shape, &cx.ty(1)?.shape);
        let (batch, slides) = self.slides(x, w).expect("`infer` checked the rank");
        let geometry = geometry_of(&batch, w, &slides, self.group);
        Ok(Conv { weights: WeightLayout::Packed, ..geometry })
    }

    /// Pads one number per channel to whole blocks, in the channel order of the kernel.
    fn pad_channels<T: Copy + Default>(&self, numbers: &[T]) -> Vec<T> {
        let slots = 0..numbers.len().next_multiple_of(BLOCK);
        let channel = |slot: usize| match self.group {
            1 => slot,
            _ => slot / BLOCK * BLOCK + nhwc::depthwise_order(slot % BLOCK),
        };
        slots.map(|slot| numbers.get(channel(slot)).copied().unwrap_or_default()).collect()
    }

    /// Stores input `i`, a constant with one number per channel, in the order of the kernel.
    fn channel_weights(&self, cx: &mut Lower<'_>, i: usize) -> Result<Operand> {
        let constant = cx.constant(i);
        let pad_channels = constant.and_then(|constant| match constant.dtype {
            DType::I32 => Some(Tensor::from_i32s(&self.pad_channels(&constant.ints()?))),
            _ => {
                let numbers: Vec<f32> = constant.floats()?.iter().map(|&x| x as f32).collect();
                Some(Tensor::from_floats(&self.pad_channels(&numbers)))
            }
        });
        let message = "per-channel parameters that are not constant";
        let pad_channels = pad_channels.ok_or_else(|| cx.unsupported(message))?;
        Ok(cx.weight_for(i, pad_channels.into()))
    }
}

impl Op for NhwcConv {
    fn name(&self) -> &'static str {
        "NhwcConv"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        self.window.attributes(a);
        a.int("group", self.group);
        self.to.attributes(a);
        if let Some(added) = &self.added {
            added.attributes(a);
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.of(0, &[DType::U8])?;
        cx.of(1, &[DType::I8])?;
        let (x, w) = (cx.shape(0)?, cx.shape(1)?);
        let slides = self.slides(x, w).filter(|(_, slides)| slides.len() <= MAX_AXES);
        let Some((batch, slides)) = slides.filter(|_| cx.constant(1).is_some()) else {
            let message = "the weights must be constant and have at most three spatial axes";
            return Err(cx.diagnostic(Code::Unsupported, message));
        };
        for slide in &slides {
            slide.require(cx)?;
        }
        check_channels(cx, 2, &w[0], false)?;
        let mut shape = vec![batch];
        shape.extend(window::shape(&slides));
        shape.push(super::pixel_bytes(&w[0]));
        if self.added.is_some() {
            cx.of(5, &[DType::U8])?;
            for (a, b) in cx.ranked(5, shape.len())?.shape.clone().iter().zip(&shape) {
                cx.require_equal(a, b, "the sizes of the result and of the residual")?;
            }
        }
        Ok(vec![Type::tensor(DType::U8, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = self.geometry(cx)?;
        cx.macs(&macs(&geometry));
        let (kernel, starts, scratch): (_, StartsLen, _) = match self.group {
            1 => (&CONV, nhwc::conv_starts, size_function!(nhwc::conv_scratch)),
            _ => (&DEPTHWISE, nhwc::depthwise_starts, size_function!(nhwc::depthwise_scratch)),
        };
        let starts = with_numbers(&geometry, |conv| starts(&conv));
        let bounded = |most: &dyn Fn(&Dim) -> Dim| geometry.scratch_of(most, scratch);
        let scratch = cx.scratch_len(&geometry, scratch, bounded);
        let packed = pack_bytes(cx, 1, Filters(geometry.clone()));
        let weights = packed.ok_or_else(|| cx.unsupported("weights that are not constant"))?;
        let offset = if cx.has(4) { Some(self.channel_weights(cx, 4)?) } else { None };
        let mut inputs = vec![
            cx.input(0)?.into(),
            weights.into(),
            self.channel_weights(cx, 2)?.into(),
            self.channel_weights(cx, 3)?.into(),
            offset.into(),
        ];
        let starts = cx.scratch(DType::U32, starts as i64);
        let outputs =
            vec![cx.output(0)?.into(), starts.into(), cx.scratch(DType::U8, scratch).into()];
        let to = self.to.formula();
        let Some(added) = &self.added else {
            return cx.call_on(kernel, DType::U8, inputs, outputs, (geometry, to));
        };
        inputs.push(cx.input(5)?.into());
        let (of, sum) = added.formula();
        cx.call_on(&CONV_ADD, DType::U8, inputs, outputs, (geometry, to, of, sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_convolution_concatenate_to_its_packed_weights() {
        let both = |n: usize| vec![n.into(); 2];
        for [groups, filters, channels] in [[1, 1021, 1030], [700_009, 1, 1]] {
            let packing = Filters(Conv {
                batch: 1.into(),
                groups,
                channels: channels.into(),
                filters: filters.into(),
                size: both(9),
                out: both(7),
                kernel: both(3),
                strides: vec![1, 1],
                dilations: vec![1, 1],
                pads: both(0),
                weights: WeightLayout::Packed,
            });
            let count = groups * filters * channels * 9;
            let from: Vec<i8> = (0..count).map(|i| (i % 251) as i8).collect();
            let whole = with_numbers(&packing.0, |conv| packing.pack_filters(&from, &conv));
            assert_eq!(packing.len::<i8>(), whole.len());
            assert!(packing.pieces::<i8>() > 1);
            let pieces = (0..packing.pieces::<i8>()).flat_map(|i| packing.pack(i, &from));
            assert!(pieces.collect::<Vec<i8>>() == whole);
        }
    }
}
