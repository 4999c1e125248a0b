//! Channels in blocks: the layout `[batch, channels / 16, …, 16]`, and what changes to it and back.
//! Channels that are missing to a whole block are numbers that mean nothing, but finite ones.

use super::{Entry, internal};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::DType,
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op, Views},
    plan::{Kernel, geometry, kernel},
    ty::{TensorType, Type},
};
pub use onnxc_runtime::kernels::blocked::BLOCK;
use onnxc_runtime::kernels::epilogue::Activation;
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    internal("Affine", |node| Ok(Rc::new(Affine { activation: node.activation()? }))),
    internal("Block", |_| Ok(Rc::new(Block))),
    internal("Shuffle", |node| {
        let [channels, groups] = ["channels", "groups"].map(|name| node.required_int(name));
        Ok(Rc::new(Shuffle { channels: channels?, groups: groups? }))
    }),
    internal("Unblock", |node| Ok(Rc::new(Unblock { channels: node.required_int("channels")? }))),
];

/// The shape in blocks of what has the shape given: a batch, channels, and more.
pub fn blocked_shape(shape: &[Dim]) -> Option<Vec<Dim>> {
    let [batch, channels, pixels @ ..] = shape else { return None };
    let mut shape = vec![batch.clone(), channels.ceil_div(&BLOCK.into())];
    shape.extend(pixels.iter().cloned());
    shape.push(BLOCK.into());
    Some(shape)
}

/// The batch, and the sizes of an image, of what stands in blocks.
pub fn batch_and_image(shape: &[Dim]) -> Option<(&Dim, &[Dim])> {
    let [batch, _, image @ .., _] = shape else { return None };
    Some((batch, image))
}

/// Whether so many channels fill their blocks.
pub fn fills_blocks(channels: &Dim) -> bool {
    channels.known().is_some_and(|n| usize::try_from(n).is_ok_and(|n| n.is_multiple_of(BLOCK)))
}

/// Whether tensors of these sizes have the same elements in the same order in blocks.
fn is_layout_unchanged(channels: &Dim, pixels: &Dim) -> bool {
    pixels.known() == Some(1) && fills_blocks(channels)
}

fn geometry(shape: &[Dim]) -> geometry::Channels {
    let (batch, channels) = (shape[0].clone(), shape[1].clone());
    geometry::Channels { batch, channels, pixels: shape[2..].iter().product() }
}

/// Its input, with the channels in blocks.
pub struct Block;

static BLOCK_UP: Kernel<geometry::Channels> =
    kernel!(F32_ONLY T, blocked::block, |f, a, p| f(a.input(0), a.output(0), p));

impl Op for Block {
    fn name(&self) -> &'static str {
        "Block"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, &[DType::F32])?;
        let Some(shape) = blocked_shape(&ty.shape) else {
            return Err(cx.diagnostic(Code::ShapeMismatch, "the input has no channels"));
        };
        Ok(vec![Type::tensor(ty.dtype, shape)])
    }

    fn views(&self, cx: &mut Views<'_>) {
        if cx
            .ty(0)
            .is_some_and(|ty| is_layout_unchanged(&ty.shape[1], &ty.shape[2..].iter().product()))
        {
            cx.view(0, 0, 0.into());
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = geometry(&cx.ty(0)?.shape);
        if is_layout_unchanged(&geometry.channels, &geometry.pixels) {
            return Ok(());
        }
        cx.call(&BLOCK_UP, geometry)
    }
}

/// Its input, whose channels stand in blocks, without.
pub struct Unblock {
    /// How many channels are meant.
    pub channels: i64,
}

static UNBLOCK: Kernel<geometry::Channels> =
    kernel!(F32_ONLY T, blocked::unblock, |f, a, p| f(a.input(0), a.output(0), p));

impl Op for Unblock {
    fn name(&self) -> &'static str {
        "Unblock"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("channels", self.channels);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, &[DType::F32])?;
        let Some((batch, image)) = batch_and_image(&ty.shape) else {
            return Err(cx.diagnostic(Code::ShapeMismatch, "the input has no blocks"));
        };
        let mut shape = vec![batch.clone(), self.channels.into()];
        shape.extend(image.iter().cloned());
        Ok(vec![Type::tensor(ty.dtype, shape)])
    }

    fn views(&self, cx: &mut Views<'_>) {
        if cx
            .output_ty(0)
            .is_some_and(|ty| is_layout_unchanged(&ty.shape[1], &ty.shape[2..].iter().product()))
        {
            cx.view(0, 0, 0.into());
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = geometry(&cx.output_ty(0)?.shape);
        if is_layout_unchanged(&geometry.channels, &geometry.pixels) {
            return Ok(());
        }
        cx.call(&UNBLOCK, geometry)
    }
}

/// Its input with the channels, which stand in blocks, dealt out from groups: first the first of each
/// group, then the second of each, and so on.
#[derive(Clone, Copy)]
pub struct Shuffle {
    /// How many channels are meant.
    pub channels: i64,
    /// How many groups there are; the number of channels is a multiple.
    pub groups: i64,
}

static SHUFFLE: Kernel<(geometry::Channels, usize)> =
    kernel!(F32_ONLY T, blocked::shuffle, |f, a, p| f(a.input(0), a.output(0), p.0, p.1));

impl Shuffle {
    /// Where a channel of the result comes from.
    pub fn source(&self, channel: i64) -> i64 {
        channel % self.groups * (self.channels / self.groups) + channel / self.groups
    }
}

impl Op for Shuffle {
    fn name(&self) -> &'static str {
        "Shuffle"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("channels", self.channels);
        a.int("groups", self.groups);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        Ok(vec![cx.of(0, &[DType::F32])?.clone().into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let shape = &cx.ty(0)?.shape;
        let pixels = shape[2..shape.len() - 1].iter().product();
        let channels = self.channels.into();
        let geometry = geometry::Channels { batch: shape[0].clone(), channels, pixels };
        cx.call(&SHUFFLE, (geometry, self.groups as usize))
    }
}

/// `f(scale · x + shift)`, with numbers for each channel of the blocks that `x` stands in.
pub struct Affine {
    /// The function.
    pub activation: Activation,
}

static AFFINE: Kernel<(geometry::Channels, Activation)> = kernel!(F32_ONLY T, blocked::affine,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.output(0), p.0, p.1),
    in_place affine_in_place |f, a, p| f(a.output(0), a.input(0), a.input(1), p.0, p.1));

impl Op for Affine {
    fn name(&self) -> &'static str {
        "Affine"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.activation(self.activation);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, &[DType::F32])?.clone();
        let TensorType { shape, .. } = &ty;
        let channels = shape.get(1).map_or(0.into(), |blocks| blocks * BLOCK);
        for i in 1..3 {
            cx.same_dtype(0, i)?;
            let count = &cx.ranked(i, 1)?.shape[0];
            cx.require_equal(count, &channels, "the numbers of factors and of channels")?;
        }
        Ok(vec![ty.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let shape = &cx.ty(0)?.shape;
        let (batch, channels) = (shape[0].clone(), &shape[1] * BLOCK);
        let pixels = shape[2..shape.len() - 1].iter().product();
        let geometry = geometry::Channels { batch, channels, pixels };
        cx.call(&AFFINE, (geometry, self.activation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{check, tensor};

    #[test]
    fn channels_fill_blocks() {
        let x = || [tensor(DType::F32, [Dim::symbol("n"), 20.into(), 3.into()])];
        check(Block, &x(), 1, "float[n, 2, 3, 16]");
        let x = [tensor(DType::F32, [Dim::symbol("n"), 2.into(), 3.into(), 16.into()])];
        check(Unblock { channels: 20 }, &x, 1, "float[n, 20, 3]");
    }
}
