//! Convolutions whose results have their channels in blocks.

use super::{
    Conv, addend, bias,
    blocked_bf16::{InPairs, in_pairs},
    blocked_kernels::{Filters, Kind},
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
        pack::{PIECE, numbers, packed},
        window::{self, Rounding, Slide},
    },
    plan::{Arg, Kernel, NoParams, Operand, Optimize, Precision, geometry, kernel},
    tensor::Tensor,
    ty::Type,
};
use onnxc_runtime::kernels::conv::{self, Reading, Tile, WeightLayout};
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

static PAD_CHANNELS: Kernel<NoParams> =
    kernel!(F32_ONLY T, blocked::pad_channels, |f, a, _p| f(a.input(0), a.output(0)));

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
        Ok(geometry::Conv { weights: WeightLayout::Packed, ..geometry })
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
