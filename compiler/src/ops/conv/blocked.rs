//! Convolutions whose results have their channels in blocks.

use super::{
    Conv, addend, bias,
    blocked_bf16::{InPairs, in_pairs},
    geometry_of, macs,
};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::DType,
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op},
    ops::{
        Entry,
        blocked::{self, BLOCK},
        internal,
        pack::{PIECE, Pack, numbers, packed},
        window::{self, Rounding, Slide},
    },
    plan::{Arg, Kernel, NoParams, Operand, Optimize, Precision, geometry, kernel},
    tensor::Tensor,
    ty::Type,
};
use onnxc_runtime::{
    Number,
    kernels::{
        conv::{self, Reading, Tile, Weights},
        epilogue::Activation,
        weight_precision::Panels,
    },
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[internal("BlockedConv", |node| {
    let nchwc = node.flag("nchwc", false)?;
    let activation = node.activation()?;
    let shuffled = node.int("shuffled", 1)?;
    let conv = Conv { activation, ..Conv::read(node)? };
    Ok(Rc::new(BlockedConv { conv, nchwc, shuffled }))
})];

/// A convolution whose result, and what is added to it, have their channels in blocks. The kernels
/// and the addend of each channel are those of [`Conv`].
pub struct BlockedConv {
    /// What it computes.
    pub conv: Conv,
    /// Whether the channels of the input stand in blocks, too.
    pub nchwc: bool,
    /// From how many groups the channels of the input are dealt out: they stand as they did before
    /// they were shuffled.
    pub shuffled: i64,
}

/// A convolution for which there is a kernel.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// All channels with all, from blocks.
    Blocks,
    /// Likewise, by such tiles.
    Winograd(Tile),
    /// All channels with all, from channels one after another.
    Channels,
    /// Each channel alone.
    Depthwise,
    /// Groups of channels, or channels that are dealt out from so many groups, from blocks.
    Groups(usize),
}

/// A kernel of a convolution.
pub(super) type Convolves = Kernel<(geometry::Conv, Activation)>;

macro_rules! convolves {
    ($home:ident::$name:ident) => {
        kernel!(F32_ONLY T, $home::$name, |f, a, p| f(a.input(0), a.input(1), a.optional(2),
            a.optional(3), a.output(0), a.output(1), p.0, p.1))
    };
}

macro_rules! packs {
    ($name:ident) => {
        kernel!(F32_ONLY T, conv::$name, |f, a, p| f(a.input(0), a.output(0), p))
    };
}

static NCHWC: Convolves = convolves!(conv::conv_nchwc);
pub(super) static NCHWC_BF16: Convolves = convolves!(weight_precision::conv_bf16);
static WINOGRAD: Convolves = convolves!(conv::winograd_nchwc);
pub(super) static TO_BLOCKS_BF16: Convolves = convolves!(weight_precision::conv_nchw_to_nchwc_bf16);
pub(super) static WINOGRAD_BF16: Convolves = convolves!(weight_precision::winograd_bf16);
static TO_BLOCKS: Convolves = convolves!(conv::conv_nchw_to_nchwc);
static DEPTHWISE: Convolves = kernel!(F32_ONLY T, conv::depthwise_nchwc, |f, a, p| f(a.input(0),
    a.input(1), a.optional(2), a.optional(3), a.output(0), p.0, p.1));
static GROUPS: Kernel<(geometry::Conv, usize, Activation)> = kernel!(F32_ONLY T, conv::grouped_conv_nchwc, |f, a, p| f(a.input(0), a.input(1), a.optional(2),
        a.optional(3), a.output(0), a.output(1), p.0, p.1, p.2));

static PACK_NCHWC: Kernel<geometry::Conv> = packs!(pack_nchwc);
static PACK_TO_BLOCKS: Kernel<geometry::Conv> = packs!(pack_nchw_to_nchwc);
static PACK_WINOGRAD: Kernel<geometry::Conv> = packs!(pack_winograd_nchwc);
static PACK_DEPTHWISE: Kernel<geometry::Conv> = packs!(pack_depthwise);
static PACK_GROUPS: Kernel<(geometry::Conv, usize)> =
    kernel!(F32_ONLY T, conv::pack_groups, |f, a, p| f(a.input(0), a.output(0), p.0, p.1));
static PAD_CHANNELS: Kernel<NoParams> =
    kernel!(F32_ONLY T, blocked::pad_channels, |f, a, _p| f(a.input(0), a.output(0)));

impl Kind {
    /// In how many parts, of all filters each, the weights are packed.
    fn parts(self) -> usize {
        match self {
            Kind::Winograd(tile) => tile.parts(),
            Kind::Blocks | Kind::Channels | Kind::Depthwise | Kind::Groups(_) => 1,
        }
    }

    /// Calls what packs weights that are no constants.
    fn pack(
        self,
        cx: &mut Lower<'_>,
        inputs: Vec<Arg>,
        outputs: Vec<Arg>,
        geometry: geometry::Conv,
    ) -> Result {
        let kernel = match self {
            Kind::Blocks => &PACK_NCHWC,
            Kind::Winograd(_) => &PACK_WINOGRAD,
            Kind::Channels => &PACK_TO_BLOCKS,
            Kind::Depthwise => &PACK_DEPTHWISE,
            Kind::Groups(shuffled) => {
                let formula = (geometry, shuffled);
                return cx.call_on(&PACK_GROUPS, DType::F32, inputs, outputs, formula);
            }
        };
        cx.call_on(kernel, DType::F32, inputs, outputs, geometry)
    }

    /// Calls what convolves.
    fn convolve(
        self,
        cx: &mut Lower<'_>,
        inputs: Vec<Arg>,
        outputs: Vec<Arg>,
        (geometry, f): (geometry::Conv, Activation),
    ) -> Result {
        let kernel = match self {
            Kind::Blocks => &NCHWC,
            Kind::Winograd(_) => &WINOGRAD,
            Kind::Channels => &TO_BLOCKS,
            Kind::Depthwise => &DEPTHWISE,
            Kind::Groups(shuffled) => {
                let formula = (geometry, shuffled, f);
                return cx.call_on(&GROUPS, DType::F32, inputs, outputs, formula);
            }
        };
        cx.call_on(kernel, DType::F32, inputs, outputs, (geometry, f))
    }

    /// How many elements of scratch memory its kernel wants, if it takes any.
    fn scratch(self) -> Option<fn(&conv::Conv<'_>) -> usize> {
        match self {
            Kind::Blocks | Kind::Groups(_) => Some(conv::conv_nchwc_scratch),
            Kind::Winograd(_) => Some(conv::winograd_nchwc_scratch),
            Kind::Channels => Some(conv::conv_nchw_to_nchwc_scratch),
            Kind::Depthwise => None,
        }
    }
}

/// The weights of a convolution, in the order of its kernel. A piece is a few blocks of filters, or
/// a group.
pub(super) struct Filters {
    pub kind: Kind,
    pub geometry: geometry::Conv,
    /// How many elements a piece has, about.
    pub piece: usize,
}

impl Filters {
    /// How many filters there are, and how many of them are packed in a piece.
    fn counts(&self) -> [usize; 2] {
        numbers(&self.geometry, |conv| {
            let block = conv::packed_blocks_len(&self.some(&conv, 1)).max(1);
            [conv.groups * conv.filters, (self.piece / block).max(1) * BLOCK]
        })
    }

    /// The convolution of so many filters.
    fn some<'a>(&self, conv: &conv::Conv<'a>, count: usize) -> conv::Conv<'a> {
        match self.kind {
            Kind::Blocks | Kind::Winograd(_) | Kind::Channels => {
                conv::Conv { groups: 1, filters: count, ..*conv }
            }
            Kind::Depthwise => conv::Conv { groups: count, filters: 1, ..*conv },
            Kind::Groups(_) => *conv,
        }
    }

    /// How many elements the packed weights of a convolution have.
    fn len_of(&self, conv: &conv::Conv<'_>) -> usize {
        match self.kind {
            Kind::Winograd(tile) => conv::packed_winograd_len(conv, tile),
            Kind::Groups(_) => conv::packed_groups_len(conv),
            Kind::Blocks | Kind::Channels | Kind::Depthwise => conv::packed_blocks_len(conv),
        }
    }

    /// A part of the weights of a convolution of some filters.
    fn packed<T: Number>(&self, from: &[T], conv: &conv::Conv<'_>, part: usize) -> Vec<T> {
        let len = match self.kind {
            Kind::Winograd(tile) => conv::packed_winograd_part_len(conv, tile, part),
            _ => self.len_of(conv),
        };
        let mut to = vec![T::ZERO; len];
        match self.kind {
            Kind::Winograd(tile) => conv::pack_winograd(from, &mut to, conv, (tile, part)),
            Kind::Blocks => conv::pack_blocks(from, &mut to, conv, BLOCK),
            Kind::Channels => conv::pack_blocks(from, &mut to, conv, 1),
            Kind::Depthwise => conv::pack_depthwise_blocks(from, &mut to, conv),
            Kind::Groups(_) => {}
        }
        to
    }

    /// The weights of group `i`, of those that are given of all.
    fn group<T: Number>(&self, from: &[T], i: usize, shuffled: usize) -> Vec<T> {
        numbers(&self.geometry, |conv| {
            let each = from.len() / conv.groups;
            let mut to = vec![T::ZERO; conv::packed_group_len(&conv, i)];
            conv::pack_group(&from[i * each..][..each], &mut to, &conv, shuffled, i);
            to
        })
    }
}

impl Pack for Filters {
    fn len<T>(&self) -> usize {
        numbers(&self.geometry, |conv| self.len_of(&conv))
    }

    fn pieces<T>(&self) -> usize {
        if let Kind::Groups(_) = self.kind {
            return self.geometry.groups;
        }
        let [all, most] = self.counts();
        self.kind.parts() * all.div_ceil(most)
    }

    fn pack<T: Number>(&self, i: usize, from: &[T]) -> Vec<T> {
        if let Kind::Groups(shuffled) = self.kind {
            return self.group(from, i, shuffled);
        }
        let [all, most] = self.counts();
        let pieces = all.div_ceil(most);
        let (part, first, depth) = (i / pieces, i % pieces * most, from.len() / all);
        let count = (all - first).min(most);
        let from = &from[first * depth..][..count * depth];
        numbers(&self.geometry, |conv| self.packed(from, &self.some(&conv, count), part))
    }

    fn panels(&self) -> Option<Panels> {
        let weights =
            numbers(&self.geometry, |conv| conv.channels * conv.kernel.iter().product::<usize>());
        Some(Panels::blocks(weights))
    }
}

impl BlockedConv {
    fn kind(&self, cx: &Lower<'_>, geometry: &geometry::Conv) -> Kind {
        let tile = |conv: &conv::Conv<'_>| match cx.constant(1) {
            Some(_) => conv::winograd_tile(conv, reading(cx)),
            None => conv::winograd_pays_packed_now(conv).then_some(Tile::Four),
        };
        // Transformed weights are more than those in fewer bits are to be.
        let may = (cx.optimize(), cx.precision()) == (Optimize::Speed, Precision::Full);
        let shuffled = usize::try_from(self.shuffled).unwrap_or(1);
        match self.conv.group {
            1 if shuffled > 1 => Kind::Groups(shuffled),
            1 if self.nchwc => match may.then(|| numbers(geometry, |g| tile(&g))).flatten() {
                Some(tile) => Kind::Winograd(tile),
                None => Kind::Blocks,
            },
            1 => Kind::Channels,
            _ if geometry.channels.known() == Some(1) && geometry.filters.known() == Some(1) => {
                Kind::Depthwise
            }
            _ => Kind::Groups(shuffled),
        }
    }

    /// The batch, and how the windows slide over an image.
    fn slides(&self, x: &[Dim], w: &[Dim]) -> Option<(Dim, Vec<Slide>)> {
        let (batch, image) = match (self.nchwc, x) {
            (true, x) => blocked::batch_and_image(x)?,
            (false, [batch, _, image @ ..]) => (batch, image),
            _ => return None,
        };
        let slides = self.conv.window.slides(image, w.get(2..)?, Rounding::Down);
        Some((batch.clone(), slides))
    }

    fn geometry(&self, cx: &Lower<'_>) -> Result<geometry::Conv> {
        let (x, w) = (&cx.ty(0)?.shape, &cx.ty(1)?.shape);
        let (batch, slides) = self.slides(x, w).expect("inferring saw the axes");
        let geometry = geometry_of(&batch, w, &slides, self.conv.group);
        Ok(geometry::Conv { weights: Weights::Packed, ..geometry })
    }

    /// What a kernel reads and writes.
    fn operands(
        &self,
        cx: &mut Lower<'_>,
        weights: Operand,
        scratch: Option<Dim>,
    ) -> Result<(Vec<Arg>, Vec<Arg>)> {
        let bias = self.bias(cx)?;
        let inputs = vec![cx.input(0)?.into(), weights.into(), bias.into(), cx.optional(3)?.into()];
        let mut outputs = vec![cx.output(0)?.into()];
        outputs.extend(scratch.map(|len| cx.scratch(DType::F32, len).into()));
        Ok((inputs, outputs))
    }

    /// The addends of the channels, with zeros for those that are missing to a whole block.
    fn bias(&self, cx: &mut Lower<'_>) -> Result<Option<Operand>> {
        let Some(bias) = cx.constant(2).and_then(Tensor::floats) else { return padded_now(cx) };
        let mut bias: Vec<f32> = bias.into_iter().map(|x| x as f32).collect();
        bias.resize(bias.len().next_multiple_of(BLOCK), 0.0);
        Ok(Some(cx.weight_for(2, Tensor::from_floats(&bias).into())))
    }
}

/// Weights that are no constants, packed when the convolution runs.
fn packed_now(cx: &mut Lower<'_>, kind: Kind, geometry: &geometry::Conv) -> Result<Operand> {
    let len = numbers(geometry, |conv| match kind {
        Kind::Groups(_) => conv::packed_groups_len(&conv),
        Kind::Winograd(tile) => conv::packed_winograd_len(&conv, tile),
        Kind::Blocks | Kind::Channels | Kind::Depthwise => conv::packed_blocks_len(&conv),
    });
    let packed = cx.scratch(DType::F32, Dim::from(len));
    let inputs = vec![cx.input(1)?.into()];
    kind.pack(cx, inputs, vec![packed.clone().into()], geometry.clone())?;
    Ok(packed)
}

/// Addends of channels that are no constants, likewise.
fn padded_now(cx: &mut Lower<'_>) -> Result<Option<Operand>> {
    let Some(bias) = cx.optional(2)? else { return Ok(None) };
    let channels = &cx.ty(2)?.shape[0];
    if blocked::fills_blocks(channels) {
        return Ok(Some(bias));
    }
    let padded = cx.scratch(DType::F32, channels.ceil_div(&BLOCK.into()) * BLOCK);
    cx.call_on(
        &PAD_CHANNELS,
        DType::F32,
        vec![bias.into()],
        vec![padded.clone().into()],
        NoParams,
    )?;
    Ok(Some(padded))
}

impl Op for BlockedConv {
    fn name(&self) -> &'static str {
        "BlockedConv"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        self.conv.window.attributes(a);
        a.int("group", self.conv.group);
        a.flag("nchwc", self.nchwc);
        a.int("shuffled", self.shuffled);
        a.activation(self.conv.activation);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.of(0, &[DType::F32])?;
        cx.same_dtype(0, 1)?;
        let (x, w) = (cx.shape(0)?, cx.shape(1)?);
        let Some((batch, slides)) = self.slides(x, w) else {
            return Err(cx.diagnostic(Code::ShapeMismatch, "the images have no channels"));
        };
        if !self.nchwc {
            let depth = &w[1] * self.conv.group;
            cx.require_equal(&x[1], &depth, "the channels of the images and of the kernels")?;
        }
        for slide in &slides {
            slide.require(cx)?;
        }
        bias(cx, 2, &w[0])?;
        let mut shape = vec![batch, w[0].clone()];
        shape.extend(window::shape(&slides));
        let shape = blocked::blocked_shape(&shape).expect("it has channels");
        addend(cx, true, &shape)?;
        Ok(vec![Type::tensor(DType::F32, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = self.geometry(cx)?;
        let kind = self.kind(cx, &geometry);
        cx.macs(&macs(&geometry));
        if let Some(InPairs { weights, kernel, scratch, geometry }) = in_pairs(cx, kind, &geometry)
        {
            let scratch = geometry.scratch_of(&|dim| cx.most(dim), scratch);
            let (inputs, outputs) = self.operands(cx, weights, Some(scratch))?;
            let formula = (geometry, self.conv.activation);
            return cx.call_on(kernel, DType::F32, inputs, outputs, formula);
        }
        let filters = Filters { kind, geometry: geometry.clone(), piece: PIECE };
        let weights = match packed(cx, 1, filters) {
            Some(weights) => weights,
            None => packed_now(cx, kind, &geometry)?,
        };
        let scratch = kind.scratch().map(|wants| geometry.scratch_of(&|dim| cx.most(dim), wants));
        let (inputs, outputs) = self.operands(cx, weights, scratch)?;
        kind.convolve(cx, inputs, outputs, (geometry, self.conv.activation))
    }
}

/// From where constant weights are read when the model has run before.
fn reading(cx: &Lower<'_>) -> Reading {
    /// So many stay in a second-level cache of a megabyte, where some are four times as many.
    const FEW: usize = 128 * 1024;
    if cx.constants_len() <= FEW { Reading::Near } else { Reading::Far }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(kind: Kind, [groups, filters, channels]: [usize; 3], kernel: usize) -> Filters {
        let both = |n: usize| vec![n.into(); 2];
        let geometry = geometry::Conv {
            batch: 1.into(),
            groups,
            channels: channels.into(),
            filters: filters.into(),
            size: both(9),
            out: both(10 - kernel),
            kernel: both(kernel),
            strides: vec![1, 1],
            dilations: vec![1, 1],
            pads: both(0),
            weights: Weights::Packed,
        };
        Filters { kind, geometry, piece: 1 << 12 }
    }

    #[test]
    fn the_pieces_of_groups_are_their_packed_weights() {
        let how = filters(Kind::Groups(2), [4, 10, 6], 3);
        let from: Vec<f32> = (0..40 * 54).map(|i| i as f32).collect();
        numbers(&how.geometry, |conv| {
            let mut packed = vec![0.0; conv::packed_groups_len(&conv)];
            conv::pack_groups(&from, &mut packed, conv, 2);
            let pieces = (0..how.pieces::<f32>()).flat_map(|i| how.pack(i, &from));
            assert!(pieces.collect::<Vec<f32>>() == packed);
        });
    }

    #[test]
    fn the_pieces_of_a_convolution_are_its_packed_weights() {
        for (how, taps) in [
            (filters(Kind::Blocks, [1, 61, 30], 3), 9),
            (filters(Kind::Winograd(Tile::Two), [1, 61, 30], 3), 9),
            (filters(Kind::Winograd(Tile::Four), [1, 61, 30], 3), 9),
            (filters(Kind::Winograd(Tile::TwoApart), [1, 61, 30], 3), 9),
            (filters(Kind::Channels, [1, 61, 30], 3), 9),
            (filters(Kind::Depthwise, [309, 1, 1], 8), 64),
        ] {
            let depth = taps * how.geometry.channels.known().expect("a number") as usize;
            let from: Vec<f32> = (0..how.counts()[0] * depth).map(|i| i as f32).collect();
            let parts = 0..how.kind.parts();
            let part = |part| numbers(&how.geometry, |conv| how.packed(&from, &conv, part));
            let whole: Vec<f32> = parts.flat_map(part).collect();
            assert_eq!(how.len::<f32>(), whole.len());
            assert!(how.pieces::<f32>() > how.kind.parts());
            let pieces = (0..how.pieces::<f32>()).flat_map(|i| how.pack(i, &from));
            assert!(pieces.collect::<Vec<f32>>() == whole);
        }
    }
}
