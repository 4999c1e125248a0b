//! Convolutions whose results are in the NCHWc layout.

use super::{
    Conv,
    blocked_bf16::{Bf16Weights, pack_bf16},
    blocked_kernels::{Algorithm, ConvKernel, Filters, scratch_len},
    check_bias, check_residual, convolution, geometry_of, macs,
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
        pack::{PIECE, Pack, pack_constant, with_numbers},
        window::{self, Rounding, Slide},
    },
    plan::{
        Arg, Formula, Kernel, NoParams, Operand, Optimize, Precision, Symbols, geometry, kernel,
        size_function,
    },
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

/// A [`Conv`] whose result, and input 3, which is added to it, are in the NCHWc layout. Filters and
/// bias are those of [`Conv`]. With an input 4, the image is first multiplied by it: a gate in the
/// NCHWc layout, with one pixel for each image. The window is then one pixel.
pub struct BlockedConv {
    /// The convolution.
    pub conv: Conv,
    /// Whether the images are in the NCHWc layout, not NCHW.
    pub nchwc: bool,
    /// The number of groups of a channel shuffle that precedes the convolution: the kernel reads
    /// channels from their positions before the shuffle. 1 for no shuffle.
    pub shuffled: i64,
}

/// The power of two up to which sizes are tried where they are free: the choice among algorithms
/// no longer changes beyond it.
const MOST_SIZE: u32 = 12;

/// The index of the gate.
const GATE: usize = 4;

static GATED: ConvKernel = convolution!(F32_ONLY T, conv::gated_conv_nchwc, operands,
    |f, a, p| f(operands, a.input(4), a.output(0), a.output(1), p.0, p.1));
static GATE_CHANNELS: Kernel<NoParams> =
    kernel!(F32_ONLY T, conv::gate_nchwc, |f, a, _p| f(a.input(0), a.input(1), a.output(0)));
static PAD_CHANNELS: Kernel<NoParams> =
    kernel!(F32_ONLY T, blocked::pad_channels, |f, a, _p| f(a.input(0), a.output(0)));

impl BlockedConv {
    /// Chooses the algorithm.
    fn algorithm(&self, cx: &Lower<'_>, geometry: &geometry::Conv) -> Algorithm {
        // Winograd transforms enlarge the weights, which reduced precision is meant to shrink.
        let may_transform = (cx.optimize(), cx.precision()) == (Optimize::Speed, Precision::Full);
        let shuffled = usize::try_from(self.shuffled).unwrap_or(1);
        let is_full = cx.precision() == Precision::Full;
        match self.conv.group {
            1 if shuffled > 1 => Algorithm::Grouped(shuffled),
            1 if self.nchwc && may_transform => of_one_group(cx, geometry),
            1 if self.nchwc => Algorithm::Nchwc,
            1 => Algorithm::NchwToNchwc,
            _ if geometry.channels.known() == Some(1) && geometry.filters.known() == Some(1) => {
                Algorithm::Depthwise
            }
            // The lanes of narrower weights would have the factors of other channels.
            _ if shuffled == 1 && is_full && has_narrow_groups(geometry) => Algorithm::Narrow,
            _ => Algorithm::Grouped(shuffled),
        }
    }

    /// The batch size, and the window's slide along each axis of an image; `None` if there are no
    /// channels.
    fn slides(&self, x: &[Dim], w: &[Dim]) -> Option<(Dim, Vec<Slide>)> {
        let (batch, image) = match (self.nchwc, x) {
            (true, x) => blocked::batch_and_image(x)?,
            (false, [batch, _, image @ ..]) => (batch, image),
            _ => return None,
        };
        let slides = self.conv.window.slides(image, w.get(2..)?, Rounding::Down);
        Some((batch.clone(), slides))
    }

    /// The parameters of the kernels.
    fn geometry(&self, cx: &Lower<'_>) -> Result<geometry::Conv> {
        let (x, w) = (&cx.ty(0)?.shape, &cx.ty(1)?.shape);
        let (batch, slides) = self.slides(x, w).expect("`infer` checks the axes");
        let geometry = geometry_of(&batch, w, &slides, self.conv.group);
        Ok(geometry::Conv { weights: WeightLayout::Packed, ..geometry })
    }

    /// The inputs and outputs of a kernel.
    fn operands(
        &self,
        cx: &mut Lower<'_>,
        [x, weights]: [Operand; 2],
        scratch: Option<Dim>,
    ) -> Result<(Vec<Arg>, Vec<Arg>)> {
        let bias = self.bias(cx)?;
        let inputs = vec![x.into(), weights.into(), bias.into(), cx.optional(3)?.into()];
        let mut outputs = vec![cx.output(0)?.into()];
        outputs.extend(scratch.map(|len| cx.scratch(DType::F32, len).into()));
        Ok((inputs, outputs))
    }

    /// Calls the kernel that first multiplies by the gate.
    fn lower_gated(&self, cx: &mut Lower<'_>, geometry: geometry::Conv) -> Result {
        let weights = packed_weights(cx, Algorithm::Nchwc, &geometry)?;
        let scratch = size_function!(conv::gated_conv_nchwc_scratch);
        let scratch = scratch_len(cx, &geometry, scratch);
        let x = cx.input(0)?;
        let (mut inputs, outputs) = self.operands(cx, [x, weights], Some(scratch))?;
        inputs.push(cx.input(GATE)?.into());
        cx.call_on(&GATED, DType::F32, inputs, outputs, (geometry, self.conv.activation))
    }

    /// The bias, padded with zeros to whole blocks.
    fn bias(&self, cx: &mut Lower<'_>) -> Result<Option<Operand>> {
        let Some(bias) = cx.constant(2).and_then(Tensor::floats) else {
            return pad_bias_at_run_time(cx);
        };
        let mut bias: Vec<f32> = bias.into_iter().map(|x| x as f32).collect();
        bias.resize(bias.len().next_multiple_of(BLOCK), 0.0);
        Ok(Some(cx.weight_for(2, Tensor::from_floats(&bias).into())))
    }
}

/// Returns whether the groups have a kernel that wastes no lanes.
fn has_narrow_groups(geometry: &geometry::Conv) -> bool {
    with_numbers(geometry, |conv| conv::has_narrow_groups(&conv))
}

/// Chooses between direct convolution and Winograd tiles: for bounded sizes the better one for the
/// largest.
fn of_one_group(cx: &Lower<'_>, geometry: &geometry::Conv) -> Algorithm {
    let chosen = |tile: Option<Tile>| tile.map_or(Algorithm::Nchwc, Algorithm::Winograd);
    if cx.constant(1).is_none() {
        let pays = with_numbers(geometry, |conv| conv::winograd_pays_packed_now(&conv));
        return chosen(pays.then_some(Tile::Four));
    }
    let reading = reading(cx);
    let tile = |sizes: &Symbols<'_>| {
        let mut tile = None;
        geometry.with(sizes, &mut |conv| tile = conv::winograd_tile(&conv, reading));
        tile
    };
    let mut is_bounded = true;
    geometry.visit(&mut |dim| is_bounded &= cx.upper(dim).is_some());
    if is_bounded {
        let most = |symbol: &str| cx.upper(&Dim::symbol(symbol)).unwrap_or(1 << MOST_SIZE);
        return chosen(tile(&most));
    }
    // The choice of a large and of a small size differ, if those of any do.
    let tiles = (0..=MOST_SIZE).map(|power| tile(&|_| 1 << power));
    match tiles.clone().flatten().next() {
        Some(tile) if tiles.clone().any(|tile| tile.is_none()) => Algorithm::BySize(tile, reading),
        tile => chosen(tile),
    }
}

/// Returns the packed weights.
fn packed_weights(
    cx: &mut Lower<'_>,
    algorithm: Algorithm,
    geometry: &geometry::Conv,
) -> Result<Operand> {
    let filters = Filters { algorithm, geometry: geometry.clone(), piece: PIECE };
    match pack_constant(cx, 1, filters) {
        Some(weights) => Ok(weights),
        None => pack_at_run_time(cx, algorithm, geometry),
    }
}

/// Calls the kernel that packs weights that are not constant.
fn pack_at_run_time(
    cx: &mut Lower<'_>,
    algorithm: Algorithm,
    geometry: &geometry::Conv,
) -> Result<Operand> {
    let len = Filters { algorithm, geometry: geometry.clone(), piece: PIECE }.len::<f32>();
    let packed = cx.scratch(DType::F32, Dim::from(len));
    let inputs = vec![cx.input(1)?.into()];
    algorithm.pack(cx, inputs, vec![packed.clone().into()], geometry.clone())?;
    Ok(packed)
}

/// Calls the kernel that pads a bias that is not constant, unless it fills its blocks.
fn pad_bias_at_run_time(cx: &mut Lower<'_>) -> Result<Option<Operand>> {
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
            cx.require_equal(&x[1], &depth, "the channels of the images and of the filters")?;
        }
        for slide in &slides {
            slide.require(cx)?;
        }
        check_bias(cx, 2, &w[0])?;
        let mut shape = vec![batch, w[0].clone()];
        shape.extend(window::shape(&slides));
        let shape = blocked::blocked_shape(&shape).expect("the shape has two leading axes");
        check_residual(cx, true, &shape)?;
        if cx.has(GATE) {
            check_gate(cx)?;
        }
        Ok(vec![Type::tensor(DType::F32, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = self.geometry(cx)?;
        let algorithm = self.algorithm(cx, &geometry);
        cx.macs(&macs(&geometry));
        if cx.node().input(GATE).is_some() && cx.precision() == Precision::Full {
            return self.lower_gated(cx, geometry);
        }
        let x = gated_input(cx)?;
        if let Some(bf16) = pack_bf16(cx, algorithm, &geometry) {
            let Bf16Weights { weights, kernel, scratch, geometry } = bf16;
            let scratch = scratch_len(cx, &geometry, scratch);
            let (inputs, outputs) = self.operands(cx, [x, weights], Some(scratch))?;
            let formula = (geometry, self.conv.activation);
            return cx.call_on(kernel, DType::F32, inputs, outputs, formula);
        }
        let weights = packed_weights(cx, algorithm, &geometry)?;
        let scratch = algorithm.scratch(cx, &geometry);
        let (inputs, outputs) = self.operands(cx, [x, weights], scratch)?;
        algorithm.convolve(cx, inputs, outputs, (geometry, self.conv.activation))
    }
}

/// Returns the input times its gate, if it has one: weights that are stored in fewer bits cannot be
/// multiplied by the gate instead.
fn gated_input(cx: &mut Lower<'_>) -> Result<Operand> {
    let x = cx.input(0)?;
    let Some(gate) = cx.optional(GATE)? else { return Ok(x) };
    let gated = cx.scratch(DType::F32, cx.ty(0)?.len());
    let (inputs, outputs) = (vec![x.into(), gate.into()], vec![gated.clone().into()]);
    cx.call_on(&GATE_CHANNELS, DType::F32, inputs, outputs, NoParams)?;
    Ok(gated)
}

/// Checks that a gate has the images and channels of the input, in single pixels.
fn check_gate(cx: &mut Infer<'_>) -> Inferred<()> {
    cx.same_dtype(0, GATE)?;
    let (x, gate) = (cx.shape(0)?, cx.ranked(GATE, cx.shape(0)?.len())?.shape.as_slice());
    for (axis, (size, of_gate)) in x.iter().zip(gate).enumerate() {
        let is_pixel = axis > 1 && axis + 1 < x.len();
        let wanted = if is_pixel { &Dim::from(1) } else { size };
        cx.require_equal(of_gate, wanted, "a size of the gate and of the image")?;
    }
    Ok(())
}

/// Returns whether constant weights stay in the second-level cache between runs of the model.
fn reading(cx: &Lower<'_>) -> Reading {
    /// The largest number of constants that stay in a second-level cache of 1 MiB, given that a
    /// Winograd transform may quadruple some.
    const FEW: usize = 128 * 1024;
    if cx.constants_len() <= FEW { Reading::Near } else { Reading::Far }
}
