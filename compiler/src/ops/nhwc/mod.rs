//! 8-bit images in the NHWC layout `[batch, size…, channels]`, and the conversions from and to
//! NCHW.
//!
//! The channels of a pixel are padded to a multiple of four, unless there are at most three. The
//! elements are `uint8`; elements of `int8` are stored with an offset of 128.

pub(crate) mod conv;
pub(crate) mod pool;

use super::{Entry, internal, quantized::requantize::Requantization};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, INT8S},
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op},
    plan::{Kernel, geometry::Channels, kernel},
    ty::Type,
};
use onnxc_runtime::kernels::{nhwc::pixel_len, quantized::Requantize};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    internal("ToNchw", |node| {
        let dtype = node.maybe_dtype("dtype")?.filter(|&dtype| dtype == DType::I8);
        let channels = node.required_int("channels")?;
        Ok(Rc::new(ToNchw { channels, dtype: dtype.unwrap_or(DType::U8) }))
    }),
    internal("ToNhwc", |_| Ok(Rc::new(ToNhwc))),
];

/// The number of bytes to whose multiple pixels are padded.
const QUAD: i64 = 4;

/// Returns whether pixels of `channels` channels may be concatenated into larger pixels: they need
/// no padding, or they are the last ones, whose padding is also that of the result.
pub fn can_concat(channels: i64, is_last: bool) -> bool {
    channels % QUAD == 0 || is_last && channels > QUAD
}

/// The NHWC shape of an image of the NCHW shape `of`.
pub fn shape(of: &[Dim]) -> Option<Vec<Dim>> {
    let [batch, channels, image @ ..] = of else { return None };
    let mut shape = vec![batch.clone()];
    shape.extend(image.iter().cloned());
    shape.push(pixel_bytes(channels));
    Some(shape)
}

/// The number of bytes of a pixel, with padding.
pub fn pixel_bytes(channels: &Dim) -> Dim {
    match channels.known().map(usize::try_from) {
        Some(Ok(channels)) => pixel_len(channels).into(),
        _ => channels.ceil_div(&QUAD.into()) * QUAD,
    }
}

/// Splits an NHWC shape into the batch size and the sizes of the image.
pub fn image(shape: &[Dim]) -> Option<(&Dim, &[Dim])> {
    let [batch, image @ .., _] = shape else { return None };
    Some((batch, image))
}

/// The offset with which elements of a type are stored as `uint8`.
pub fn unsigned_offset(dtype: DType) -> i32 {
    if dtype == DType::I8 { 128 } else { 0 }
}

/// Adjusts a requantization for inputs of type `from` and results that are both stored as `uint8`.
pub fn to_unsigned(to: Requantization, from: DType) -> Requantization {
    let (x, y) = (unsigned_offset(from), unsigned_offset(to.dtype));
    let Requantize { x_zero, y_zero, low, high } = to.to;
    let to = Requantize { x_zero: x_zero + x, y_zero: y_zero + y, low: low + y, high: high + y };
    Requantization { to, dtype: DType::U8 }
}

fn channels(shape: &[Dim]) -> Channels {
    let (batch, channels) = (shape[0].clone(), shape[1].clone());
    Channels { batch, channels, pixels: shape[2..].iter().product() }
}

/// Converts an NCHW image to NHWC.
pub struct ToNhwc;

static FROM_FIRST: Kernel<Channels> = kernel!(INT8S T,
    nhwc::from_channels_first::<T>, |f, a, p| f(a.input(0), a.output(0), p));

impl Op for ToNhwc {
    fn name(&self) -> &'static str {
        "ToNhwc"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let Some(shape) = shape(&cx.of(0, INT8S)?.shape) else {
            return Err(cx.diagnostic(Code::ShapeMismatch, "the input has no channels"));
        };
        Ok(vec![Type::tensor(DType::U8, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = channels(&cx.ty(0)?.shape);
        cx.call_for_input(&FROM_FIRST, geometry)
    }
}

/// Converts an NHWC image to NCHW.
pub struct ToNchw {
    /// The number of channels without padding.
    pub channels: i64,
    /// The type of the result: `I8` or `U8`.
    pub dtype: DType,
}

static TO_FIRST: Kernel<Channels> = kernel!(INT8S T,
    nhwc::to_channels_first::<T>, |f, a, p| f(a.input(0), a.output(0), p));

impl Op for ToNchw {
    fn name(&self) -> &'static str {
        "ToNchw"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("channels", self.channels);
        a.int("dtype", self.dtype.code().into());
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let Some((batch, image)) = image(&cx.of(0, &[DType::U8])?.shape) else {
            return Err(cx.diagnostic(Code::ShapeMismatch, "the input has no channels"));
        };
        let mut shape = vec![batch.clone(), self.channels.into()];
        shape.extend(image.iter().cloned());
        Ok(vec![Type::tensor(self.dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = channels(&cx.output_ty(0)?.shape);
        let (inputs, outputs) = (vec![cx.input(0)?.into()], vec![cx.output(0)?.into()]);
        cx.call_on(&TO_FIRST, self.dtype, inputs, outputs, geometry)
    }
}
