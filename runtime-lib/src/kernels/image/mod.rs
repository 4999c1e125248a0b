//! `ImageDecoder`: the pixels of an image file. It needs the feature `image`, because the decoders
//! are third-party crates that need the standard library.
//!
//! JPEG files are read by the decoder of this module, because other decoders differ in the last
//! bits of pixels.

mod jpeg;

use alloc::vec::Vec;
use hayro_jpeg2000::{ColorSpace, DecodeSettings};

/// Writes the height and the width of the image; zeros if the file cannot be decoded.
///
/// The sizes are at the start of a file, but the rest may be invalid, so the whole file is decoded.
pub fn decode_sizes(sizes: &mut [usize], file: &[u8]) {
    let (height, width) = decode(file).map_or((0, 0), |image| (image.height, image.width));
    sizes.copy_from_slice(&[height, width]);
}

/// Writes red, green and blue of each pixel.
pub fn decode_rgb(file: &[u8], y: &mut [u8]) {
    if let Some(image) = decode(file) {
        y.copy_from_slice(&image.pixels);
    }
}

/// Writes blue, green and red of each pixel.
pub fn decode_bgr(file: &[u8], y: &mut [u8]) {
    decode_rgb(file, y);
    y.as_chunks_mut::<3>().0.iter_mut().for_each(|pixel| pixel.swap(0, 2));
}

/// Writes the luma of each pixel.
pub fn decode_grayscale(file: &[u8], y: &mut [u8]) {
    if let Some(image) = decode(file) {
        for (y, pixel) in y.iter_mut().zip(image.pixels.as_chunks().0) {
            *y = luma(*pixel);
        }
    }
}

/// Returns the luma by ITU-R BT.601, with the weights 0.299, 0.587 and 0.114 in units of 2⁻¹⁶.
fn luma([r, g, b]: [u8; 3]) -> u8 {
    let sum = u32::from(r) * 19_595 + u32::from(g) * 38_470 + u32::from(b) * 7_471 + 0x8000;
    sum.to_be_bytes()[1]
}

/// A decoded image.
pub(crate) struct Image {
    pub height: usize,
    pub width: usize,
    /// Red, green and blue of each pixel.
    pub pixels: Vec<u8>,
}

fn decode(file: &[u8]) -> Option<Image> {
    let is_jpeg_2000 =
        file.starts_with(b"\0\0\0\x0cjP  ") || file.starts_with(&[0xff, 0x4f, 0xff, 0x51]);
    if is_jpeg_2000 {
        return decode_jpeg_2000(file);
    }
    if jpeg::is_jpeg(file) {
        return jpeg::decode(file);
    }
    let image = image::load_from_memory(file).ok()?.into_rgb8();
    let (width, height) =
        (usize::try_from(image.width()).ok()?, usize::try_from(image.height()).ok()?);
    Some(Image { height, width, pixels: image.into_raw() })
}

fn decode_jpeg_2000(file: &[u8]) -> Option<Image> {
    let image = hayro_jpeg2000::Image::new(file, &DecodeSettings::default()).ok()?;
    let (width, height) =
        (usize::try_from(image.width()).ok()?, usize::try_from(image.height()).ok()?);
    let colors = match image.color_space() {
        ColorSpace::Gray => 1,
        ColorSpace::RGB => 3,
        ColorSpace::Icc { num_channels: n @ (1 | 3), .. } => usize::from(*n),
        ColorSpace::CMYK | ColorSpace::Icc { .. } | ColorSpace::Unknown { .. } => return None,
    };
    let channels = colors + usize::from(image.has_alpha());
    let decoded = image.decode().ok()?;
    let mut pixels = Vec::with_capacity(width * height * 3);
    for pixel in decoded.chunks_exact(channels) {
        pixels.extend(if colors == 3 { [pixel[0], pixel[1], pixel[2]] } else { [pixel[0]; 3] });
    }
    (pixels.len() == width * height * 3).then_some(Image { height, width, pixels })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image of two pixels: red and a light gray.
    const FILE: &[u8] = b"P6 2 1 255\n\xff\0\0\xc8\xc8\xc8";

    #[test]
    fn colors_have_the_requested_order() {
        let mut sizes = [9; 2];
        decode_sizes(&mut sizes, FILE);
        assert_eq!(sizes, [1, 2]);
        let mut y = [0; 6];
        decode_rgb(FILE, &mut y);
        assert_eq!(y, [255, 0, 0, 200, 200, 200]);
        decode_bgr(FILE, &mut y);
        assert_eq!(y, [0, 0, 255, 200, 200, 200]);
        let mut y = [0; 2];
        decode_grayscale(FILE, &mut y);
        assert_eq!(y, [76, 200]);
    }

    #[test]
    fn an_invalid_file_is_an_empty_image() {
        let broken = [&FILE[..14], b"", b"no image", b"\0\0\0\x0cjP  \r\n", b"\xff\x4f\xff\x51\0"];
        for file in broken {
            let mut sizes = [9; 2];
            decode_sizes(&mut sizes, file);
            assert_eq!(sizes, [0, 0]);
        }
    }
}
