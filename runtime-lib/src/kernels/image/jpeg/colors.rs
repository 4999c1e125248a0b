//! Color conversion: from the samples of the components to red, green and blue.

use super::{Hints, plane::Plane};
use alloc::vec::Vec;

/// The color space of the components.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Gray,
    Rgb,
    /// YCbCr: luma, and the differences of blue and red from it.
    Ycc,
    /// CMYK; `inverted` if 255 means no ink.
    Cmyk {
        inverted: bool,
    },
    /// CMYK with the first three components as YCbCr.
    Ycck {
        inverted: bool,
    },
}

/// Returns the color space of components with these names.
pub(super) fn kind(ids: &[u8], hints: Hints) -> Kind {
    let inverted = hints.adobe.is_some();
    match (ids, hints.adobe) {
        ([_], _) => Kind::Gray,
        ([_, _, _], _) if hints.jfif => Kind::Ycc,
        ([_, _, _], Some(0)) => Kind::Rgb,
        ([_, _, _], Some(_)) => Kind::Ycc,
        ([b'R', b'G', b'B'], None) => Kind::Rgb,
        ([_, _, _], None) => Kind::Ycc,
        (_, None | Some(0)) => Kind::Cmyk { inverted },
        (_, Some(_)) => Kind::Ycck { inverted },
    }
}

/// Returns the pixels of an image of these sizes.
pub(super) fn rgb(planes: &[Plane], [height, width]: [usize; 2], kind: Kind) -> Vec<u8> {
    let mut pixels = Vec::with_capacity(height * width * 3);
    for row in 0..height {
        let rows: Vec<&[u8]> = planes.iter().map(|plane| plane.row(row)).collect();
        match (kind, rows.as_slice()) {
            (Kind::Gray, [gray]) => pixels.extend(gray[..width].iter().flat_map(|&x| [x; 3])),
            (_, [a, b, c]) => {
                for ((&a, &b), &c) in a[..width].iter().zip(*b).zip(*c) {
                    pixels.extend(if kind == Kind::Rgb { [a, b, c] } else { ycc(a, b, c) });
                }
            }
            (_, [a, b, c, k]) => {
                for (((&a, &b), &c), &k) in a[..width].iter().zip(*b).zip(*c).zip(*k) {
                    pixels.extend(inks([a, b, c], k, kind));
                }
            }
            _ => {}
        }
    }
    pixels
}

/// The fractional bits of color factors.
const BITS: u32 = 16;

/// Returns a factor with [`BITS`] fractional bits.
const fn fixed(x: f64) -> i32 {
    (x * (1 << BITS) as f64 + 0.5) as i32
}

/// Converts YCbCr to RGB, by ITU-R BT.601.
fn ycc(y: u8, cb: u8, cr: u8) -> [u8; 3] {
    const HALF: i32 = 1 << (BITS - 1);
    let [y, cb, cr] = [y.into(), i32::from(cb) - 128, i32::from(cr) - 128];
    let red = (fixed(1.402) * cr + HALF) >> BITS;
    let green = (-fixed(0.344_14) * cb - fixed(0.714_14) * cr + HALF) >> BITS;
    let blue = (fixed(1.772) * cb + HALF) >> BITS;
    [red, green, blue].map(|x| (y + x).clamp(0, 255) as u8)
}

/// Converts inks to RGB.
fn inks(colors: [u8; 3], k: u8, kind: Kind) -> [u8; 3] {
    let (colors, inverted) = match kind {
        Kind::Ycck { inverted } => {
            (ycc(colors[0], colors[1], colors[2]).map(|x| 255 - x), inverted)
        }
        Kind::Cmyk { inverted } => (colors, inverted),
        Kind::Gray | Kind::Rgb | Kind::Ycc => (colors, false),
    };
    let ink = |x: u8| u16::from(if inverted { 255 - x } else { x });
    let white = 255 - ink(k);
    colors.map(|color| {
        // The part of white that the ink absorbs: their product divided by 255, rounded.
        let product = u32::from(ink(color)) * u32::from(white) + 128;
        let taken = ((product >> 8) + product) >> 8;
        (u32::from(white) - taken) as u8
    })
}
