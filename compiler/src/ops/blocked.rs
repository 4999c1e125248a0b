//! The NCHWc layout `[batch, ⌈channels / 16⌉, …, 16]`, and the operators that convert to and from
//! it. The channels that pad the last block hold arbitrary finite values.

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

/// The NCHWc shape of a tensor of `shape`, `[batch, channels, …]`; `None` if it has no channels.
pub fn blocked_shape(shape: &[Dim]) -> Option<Vec<Dim>> {
    let [batch, channels, pixels @ ..] = shape else { return None };
    let mut shape = vec![batch.clone(), channels.ceil_div(&BLOCK.into())];
    shape.extend(pixels.iter().cloned());
    shape.push(BLOCK.into());
    Some(shape)
}

/// The batch size and the image sizes of an NCHWc `shape`.
pub fn batch_and_image(shape: &[Dim]) -> Option<(&Dim, &[Dim])> {
    let [batch, _, image @ .., _] = shape else { return None };
    Some((batch, image))
}

/// Returns whether the number of channels is known to be a multiple of [`BLOCK`].
pub fn fills_blocks(channels: &Dim) -> bool {
    channels.known().is_some_and(|n| usize::try_from(n).is_ok_and(|n| n.is_multiple_of(BLOCK)))
}

/// Returns whether conversion to NCHWc leaves all elements in place: images of one pixel with whole
/// blocks.
fn is_layout_unchanged(channels: &Dim, pixels: &Dim) -> bool {
    pixels.known() == Some(1) && fills_blocks(channels)
}

fn geometry(shape: &[Dim]) -> geometry::Channels {
    let (batch, channels) = (shape[0].clone(), shape[1].clone());
    geometry::Channels { batch, channels, pixels: shape[2..].iter().product() }
}

/// Converts its input from NCHW to NCHWc.
pub struct Block;

static TO_NCHWC: Kernel<geometry::Channels> =
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
        cx.call(&TO_NCHWC, geometry)
    }
}

/// Converts its input from NCHWc to NCHW.
pub struct Unblock {
    /// The number of channels, without those that pad the last block.
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
            return Err(cx.diagnostic(Code::ShapeMismatch, "the input has no blocks of channels"));
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

/// Channel shuffle of an NCHWc tensor: the result interleaves the channels of all groups, first the
/// first of each group, then the second of each, and so on.
#[derive(Clone, Copy)]
pub struct Shuffle {
    /// The number of channels, without those that pad the last block.
    pub channels: i64,
    /// The number of groups, which divides the number of channels.
    pub groups: i64,
}

static SHUFFLE: Kernel<(geometry::Channels, usize)> =
    kernel!(F32_ONLY T, blocked::shuffle, |f, a, p| f(a.input(0), a.output(0), p.0, p.1));

impl Shuffle {
    /// The channel of the input that becomes `channel` of the result.
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

/// `f(scale · x + shift)` of an NCHWc tensor `x`. `scale` and `shift`, inputs 1 and 2, have one
/// element for each channel, including those that pad the last block.
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
        let channels = shape.get(1).map_or_else(|| 0.into(), |count| count * BLOCK);
        for i in 1..3 {
            cx.same_dtype(0, i)?;
            let count = &cx.ranked(i, 1)?.shape[0];
            cx.require_equal(count, &channels, "the number of scales or shifts and of channels")?;
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
    fn channels_are_padded_to_whole_blocks() {
        let x = || [tensor(DType::F32, [Dim::symbol("n"), 20.into(), 3.into()])];
        check(Block, &x(), 1, "float[n, 2, 3, 16]");
        let x = [tensor(DType::F32, [Dim::symbol("n"), 2.into(), 3.into(), 16.into()])];
        check(Unblock { channels: 20 }, &x, 1, "float[n, 20, 3]");
    }
}
