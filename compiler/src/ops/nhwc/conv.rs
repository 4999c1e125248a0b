//! Convolutions of bytes whose channels stand side by side.

use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::DType,
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op, Reader},
    ops::{
        Entry,
        conv::{geometry_of, macs},
        internal,
        pack::{PIECE, Pack, numbers, packed_bytes},
        quantized::{
            binary::{blend_attributes, read_blend, sum_told},
            requantize::{Requantized, check_channels},
        },
        window::{self, Rounding, Slide, Window},
    },
    plan::{
        Kernel, Operand,
        geometry::{Blend, Conv, Requantize},
        kernel,
    },
    tensor::Tensor,
    ty::Type,
};
use onnxc_runtime::{
    Number,
    kernels::{
        conv::{self, WeightLayout},
        nhwc::{self, BLOCK, MOST_AXES},
        quantized,
    },
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[internal("NhwcConv", |node| {
    let (window, group) = (Window::read(node)?, node.int("group", 1)?);
    let added = Added::read(node)?;
    Ok(Rc::new(NhwcConv { window, group, to: Requantized::read(node)?, added }))
})];

/// The convolution of an image of bytes with its channels last, all channels with all or each by
/// itself. Its inputs are those of `QuantizedConv`, and what is added to its result, if anything is.
pub struct NhwcConv {
    /// The window.
    pub window: Window,
    /// 1, or the number of channels.
    pub group: i64,
    /// What the sums become: bytes without a sign.
    pub to: Requantized,
    /// How input 5, which has the shape of the result, is added to it; the group is 1 then.
    pub added: Option<Added>,
}

/// What is made of bytes that sums became and of others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Added {
    /// The zero points and the scales of both, and the scale of their sum.
    pub of: quantized::Blend,
    /// What their sum becomes: bytes without a sign.
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

    /// As the kernel is told.
    fn formula(&self) -> (Blend, Requantize) {
        let quantized::Requantize { x_zero, y_zero, low, high } = self.to;
        let to = Requantize { x_zero, y_zero, low, high };
        (sum_told(self.of, false, self.to, [DType::U8; 3]), to)
    }
}

/// A kernel of a convolution.
type Convolves = Kernel<(Conv, Requantize)>;

/// How much memory a kernel wants.
type Counts = fn(&conv::Conv<'_>) -> usize;

macro_rules! convolves {
    ($name:ident) => {
        kernel!(U8_ONLY T, nhwc::$name, |f, a, p| f(a.input(0), a.input(1), a.input(2),
            a.input(3), a.optional(4), a.output(0), a.output(1), a.output(2), p.0, p.1))
    };
}

static CONV: Convolves = convolves!(int8_conv_nhwc);
static DEPTHWISE: Convolves = convolves!(int8_depthwise_nhwc);
static CONV_ADD: Kernel<(Conv, Requantize, Blend, Requantize)> = kernel!(U8_ONLY T,
    nhwc::int8_conv_add_nhwc, |f, a, p| f(a.input(0), a.input(1), a.input(2), a.input(3),
        a.optional(4), a.input(5), a.output(0), a.output(1), a.output(2), p.0, p.1, p.2, p.3));

/// The weights of a convolution, in the order of its kernel. A piece is some blocks of filters.
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

    /// How many filters there are, and how many of them are packed in a piece.
    fn counts(&self) -> [usize; 2] {
        numbers(&self.0, |conv| {
            let block = self.packed_len(&self.some(&conv, BLOCK)).max(1);
            [conv.groups * conv.filters, (PIECE / block).max(1) * BLOCK]
        })
    }

    /// The convolution of so many filters.
    fn some<'a>(&self, conv: &conv::Conv<'a>, count: usize) -> conv::Conv<'a> {
        if self.is_depthwise() {
            conv::Conv { groups: count, ..*conv }
        } else {
            conv::Conv { filters: count, ..*conv }
        }
    }

    /// The weights of a convolution of some filters.
    fn packed<T: Number>(&self, from: &[T], conv: &conv::Conv<'_>) -> Vec<T> {
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
        numbers(&self.0, |conv| self.packed_len(&conv))
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
        numbers(&self.0, |conv| self.packed(from, &self.some(&conv, count)))
    }
}

impl NhwcConv {
    /// The batch, and how the windows slide over an image.
    fn slides(&self, x: &[Dim], w: &[Dim]) -> Option<(Dim, Vec<Slide>)> {
        let (batch, image) = super::image(x)?;
        let kernel = w.get(2..).filter(|kernel| kernel.len() == image.len())?;
        Some((batch.clone(), self.window.slides(image, kernel, Rounding::Down)))
    }

    fn geometry(&self, cx: &Lower<'_>) -> Result<Conv> {
        let (x, w) = (&cx.ty(0)?.shape, &cx.ty(1)?.shape);
        let (batch, slides) = self.slides(x, w).expect("inferring saw the axes");
        let geometry = geometry_of(&batch, w, &slides, self.group);
        Ok(Conv { weights: WeightLayout::Packed, ..geometry })
    }

    /// Numbers of channels, filled up and in the order of the kernel.
    fn placed<T: Copy + Default>(&self, numbers: &[T]) -> Vec<T> {
        let places = 0..numbers.len().next_multiple_of(BLOCK);
        let channel = |place: usize| match self.group {
            1 => place,
            _ => place / BLOCK * BLOCK + nhwc::depthwise_order(place % BLOCK),
        };
        places.map(|place| numbers.get(channel(place)).copied().unwrap_or_default()).collect()
    }

    /// The numbers of the channels that input `i` is.
    fn numbers(&self, cx: &mut Lower<'_>, i: usize) -> Result<Operand> {
        let constant = cx.constant(i);
        let placed = constant.and_then(|constant| match constant.dtype {
            DType::I32 => Some(Tensor::from_i32s(&self.placed(&constant.ints()?))),
            _ => {
                let numbers: Vec<f32> = constant.floats()?.iter().map(|&x| x as f32).collect();
                Some(Tensor::from_floats(&self.placed(&numbers)))
            }
        });
        let placed = placed.ok_or_else(|| cx.unsupported("channels that are not constant"))?;
        Ok(cx.weight_for(i, placed.into()))
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
        let found = self.slides(x, w).filter(|(_, slides)| slides.len() <= MOST_AXES);
        let Some((batch, slides)) = found.filter(|_| cx.constant(1).is_some()) else {
            let message = "the weights must be constant, with at most three axes of the image";
            return Err(cx.diagnostic(Code::Unsupported, message));
        };
        for slide in &slides {
            slide.require(cx)?;
        }
        check_channels(cx, 2, &w[0])?;
        let mut shape = vec![batch];
        shape.extend(window::shape(&slides));
        shape.push(super::pixel(&w[0]));
        if self.added.is_some() {
            cx.of(5, &[DType::U8])?;
            for (a, b) in cx.ranked(5, shape.len())?.shape.clone().iter().zip(&shape) {
                cx.require_equal(a, b, "the sizes of the result and of the addend")?;
            }
        }
        Ok(vec![Type::tensor(DType::U8, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = self.geometry(cx)?;
        cx.macs(&macs(&geometry));
        let (kernel, starts, scratch): (_, Counts, Counts) = match self.group {
            1 => (&CONV, nhwc::conv_starts, nhwc::conv_scratch),
            _ => (&DEPTHWISE, nhwc::depthwise_starts, nhwc::depthwise_scratch),
        };
        let starts = numbers(&geometry, |conv| starts(&conv));
        let scratch = geometry.scratch_of(&|dim| cx.most(dim), scratch);
        let packed = packed_bytes(cx, 1, Filters(geometry.clone()));
        let weights = packed.ok_or_else(|| cx.unsupported("weights that are not constant"))?;
        let offset = if cx.has(4) { Some(self.numbers(cx, 4)?) } else { None };
        let mut inputs = vec![
            cx.input(0)?.into(),
            weights.into(),
            self.numbers(cx, 2)?.into(),
            self.numbers(cx, 3)?.into(),
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
    fn the_pieces_of_a_convolution_are_its_packed_weights() {
        let both = |n: usize| vec![n.into(); 2];
        for [groups, filters, channels] in [[1, 1021, 1030], [700_009, 1, 1]] {
            let how = Filters(Conv {
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
            let whole = numbers(&how.0, |conv| how.packed(&from, &conv));
            assert_eq!(how.len::<i8>(), whole.len());
            assert!(how.pieces::<i8>() > 1);
            let pieces = (0..how.pieces::<i8>()).flat_map(|i| how.pack(i, &from));
            assert!(pieces.collect::<Vec<i8>>() == whole);
        }
    }
}
