//! Conversions to NHWC bytes and back.

use super::{QUAD, pixel_len};
use crate::kernels::blocked::Channels;
use crate::simd::int8::{Byte, Bytes, WithBytes, dispatch_bytes};

/// Converts `x` from `[batch, channels, pixels]` to NHWC, as unsigned bytes. The padding of a pixel
/// is zero.
#[inline(never)]
pub fn from_channels_first<T: Byte>(x: &[T], y: &mut [u8], shape: Channels) {
    dispatch_bytes(Gather { x: T::bits(x), y, shape, flip: T::FLIP });
}

/// Converts `x` from NHWC to `[batch, channels, pixels]`, with the signedness of `T`.
#[inline(never)]
pub fn to_channels_first<T: Byte>(x: &[u8], y: &mut [T], shape: Channels) {
    let Channels { channels, pixels, .. } = shape;
    let pixel = pixel_len(channels);
    if y.is_empty() {
        return;
    }
    let images = T::bits_mut(y).chunks_exact_mut(channels * pixels);
    for (x, y) in x.chunks_exact(pixel * pixels).zip(images) {
        for (channel, y) in y.chunks_exact_mut(pixels).enumerate() {
            let x = x[channel..].iter().step_by(pixel);
            y.iter_mut().zip(x).for_each(|(y, &x)| *y = x ^ T::FLIP);
        }
    }
}

struct Gather<'a> {
    x: &'a [u8],
    y: &'a mut [u8],
    shape: Channels,
    flip: u8,
}

impl WithBytes for Gather<'_> {
    #[inline(always)]
    fn run<S: Bytes>(self, _: S) {
        let Gather { x, y, shape: Channels { channels, pixels, .. }, flip } = self;
        let pixel = pixel_len(channels);
        if x.is_empty() {
            return;
        }
        let images = y.chunks_exact_mut(pixel * pixels);
        for (x, y) in x.chunks_exact(channels * pixels).zip(images) {
            if pixel < QUAD {
                gather_few(x, pixels, flip, y);
                continue;
            }
            let (quads, _) = y.as_chunks_mut::<QUAD>();
            for (i, x) in x.chunks(QUAD * pixels).enumerate() {
                gather(x, pixels, flip, &mut quads[i..], pixel / QUAD);
            }
        }
    }
}

/// Converts one to three channels.
#[inline(always)]
fn gather_few(x: &[u8], pixels: usize, flip: u8, y: &mut [u8]) {
    let (first, rest) = x.split_at(pixels);
    let (second, third) = rest.split_at(pixels.min(rest.len()));
    match (second.is_empty(), third.is_empty()) {
        (true, _) => y.iter_mut().zip(first).for_each(|(y, &x)| *y = x ^ flip),
        (_, true) => {
            let pixels = y.as_chunks_mut().0.iter_mut().zip(first.iter().zip(second));
            pixels.for_each(|(y, (&a, &b))| *y = [a ^ flip, b ^ flip]);
        }
        _ => {
            let rest = first.iter().zip(second).zip(third);
            let pixels = y.as_chunks_mut().0.iter_mut().zip(rest);
            pixels.for_each(|(y, ((&a, &b), &c))| *y = [a ^ flip, b ^ flip, c ^ flip]);
        }
    }
}

/// Converts up to four channels to quads with the stride `step`.
#[inline(always)]
fn gather(x: &[u8], pixels: usize, flip: u8, y: &mut [[u8; QUAD]], step: usize) {
    let channels = x.len() / pixels;
    // A missing channel reads another one, and is masked to zero.
    let row = |i: usize| &x[if i < channels { i * pixels } else { 0 }..][..pixels];
    let mask: [u8; QUAD] = core::array::from_fn(|i| if i < channels { 0xff } else { 0 });
    let rows = row(0).iter().zip(row(1)).zip(row(2).iter().zip(row(3)));
    let each = |(y, ((&a, &b), (&c, &d))): (&mut [u8; QUAD], _)| {
        *y = [
            (a ^ flip) & mask[0],
            (b ^ flip) & mask[1],
            (c ^ flip) & mask[2],
            (d ^ flip) & mask[3],
        ];
    };
    match step {
        1 => y.iter_mut().zip(rows).for_each(each),
        _ => y.iter_mut().step_by(step).zip(rows).for_each(each),
    }
}
