//! JPEG: sequential and progressive files of 8 bits a sample, with Huffman codes.
//!
//! The standard (ITU-T T.81) does not define the last bits of the inverse transform, nor the
//! upsampling of colors that are stored at half the size. This decoder uses the integer arithmetic
//! of the common Independent JPEG Group library (the accurate integer transform, triangle filters
//! for halved colors, 16 fractional bits for color conversion), so that its pixels are the same as
//! those of nearly all programs, to the last bit.

mod colors;
mod entropy;
mod frame;
mod plane;
mod scan;
mod transform;

use crate::kernels::image::Image;
use alloc::boxed::Box;
use entropy::{Codes, Tables};
use frame::Frame;

/// The order in which the coefficients of a block are stored: the position of coefficient `i`.
const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// The coefficients of a block, or their quantization factors.
type Block<T> = [T; 64];

/// Returns whether the file is a JPEG file, by its first bytes.
pub(crate) fn is_jpeg(file: &[u8]) -> bool {
    file.starts_with(&[0xff, START, 0xff])
}

/// Decodes a file; `None` if it is invalid, or of an unsupported kind: arithmetic coding, lossless,
/// or other than 8 bits.
pub(crate) fn decode(file: &[u8]) -> Option<Image> {
    let mut decoder = Decoder::default();
    let mut rest = file.get(2..)?;
    while let Some(after) = decoder.segment(rest)? {
        rest = after;
    }
    let frame = decoder.frame?;
    frame.is_whole().then(|| frame.image(decoder.hints))?
}

/// The markers of the start and the end of an image.
const START: u8 = 0xd8;
const END: u8 = 0xd9;

/// The state of the decoder.
#[derive(Default)]
struct Decoder {
    quanta: [Option<Box<Block<u16>>>; 4],
    tables: Tables,
    /// The number of units between two restarts; 0 if there are none.
    restart: usize,
    hints: Hints,
    frame: Option<Frame>,
}

/// The file's information about its color space.
#[derive(Clone, Copy, Default)]
struct Hints {
    /// Whether the file is JFIF, whose color space is always YCbCr.
    jfif: bool,
    /// The transform in the Adobe segment.
    adobe: Option<u8>,
}

impl Decoder {
    /// Reads one segment and returns the rest; `Some(None)` at the end of the image.
    fn segment<'f>(&mut self, file: &'f [u8]) -> Option<Option<&'f [u8]>> {
        let [0xff, rest @ ..] = file else {
            // Some files end without their last marker.
            return (file.is_empty() && self.frame.is_some()).then_some(None);
        };
        let filled = rest.iter().take_while(|&&byte| byte == 0xff).count();
        let (&marker, rest) = rest.get(filled..)?.split_first()?;
        if marker == END {
            return Some(None);
        }
        // Unexpected restart markers, and markers without a length.
        if matches!(marker, 0x01 | 0xd0..=0xd7) {
            return Some(Some(rest));
        }
        let (&length, body) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes(length)).checked_sub(2)?;
        let (body, rest) = body.split_at_checked(length)?;
        match marker {
            0xc4 => self.codes(body)?,
            0xc0..=0xc2 => self.start(body, marker == 0xc2)?,
            // Unsupported processes, and a height that is defined later.
            0xc3 | 0xc5..=0xcf | 0xdc => return None,
            0xda => return self.scan(body, rest).map(Some),
            0xdb => self.quanta(body)?,
            0xdd => self.restart = usize::from(u16::from_be_bytes(*body.first_chunk()?)),
            0xe0 if body.starts_with(b"JFIF\0") => self.hints.jfif = true,
            0xee if body.starts_with(b"Adobe") => self.hints.adobe = body.get(11).copied(),
            _ => {}
        }
        Some(Some(rest))
    }

    /// Reads quantization tables.
    fn quanta(&mut self, mut body: &[u8]) -> Option<()> {
        while let [head, rest @ ..] = body {
            let mut table = Box::new([0; 64]);
            let bytes = if head >> 4 == 0 { 1 } else { 2 };
            let (numbers, rest) = rest.split_at_checked(64 * bytes)?;
            for (place, number) in ZIGZAG.iter().zip(numbers.chunks(bytes)) {
                let number = number.iter().fold(0, |sum, &byte| sum << 8 | u16::from(byte));
                table[usize::from(*place)] = number;
            }
            *self.quanta.get_mut(usize::from(head & 15))? = Some(table);
            body = rest;
        }
        Some(())
    }

    /// Reads Huffman tables.
    fn codes(&mut self, mut body: &[u8]) -> Option<()> {
        while let [head, rest @ ..] = body {
            let (lengths, rest) = rest.split_first_chunk::<16>()?;
            let total = lengths.iter().map(|&n| usize::from(n)).sum();
            let (symbols, rest) = rest.split_at_checked(total)?;
            let tables =
                if head >> 4 == 0 { &mut self.tables.first } else { &mut self.tables.rest };
            *tables.get_mut(usize::from(head & 15))? = Some(Codes::new(lengths, symbols)?);
            body = rest;
        }
        Some(())
    }

    fn start(&mut self, body: &[u8], progressive: bool) -> Option<()> {
        if self.frame.is_some() {
            return None;
        }
        self.frame = Some(Frame::read(body, progressive)?);
        Some(())
    }

    /// Reads a scan, and returns the rest.
    fn scan<'f>(&mut self, body: &[u8], data: &'f [u8]) -> Option<&'f [u8]> {
        let frame = self.frame.as_mut()?;
        let scan = scan::Scan::read(body, frame)?;
        for &(component, ..) in &scan.components {
            let component = &mut frame.components[component];
            if component.quanta.is_none() {
                component.quanta = self.quanta.get(component.table)?.clone();
            }
        }
        scan.run(frame, &self.tables, self.restart, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image 17 pixels high and 11 wide, and its pixels as decoded by Pillow 13 with
    /// libjpeg-turbo 3.2.
    macro_rules! fixture {
        ($name:literal) => {
            (
                include_bytes!(concat!("fixtures/", $name, ".jpg")),
                include_bytes!(concat!("fixtures/", $name, ".rgb")),
            )
        };
    }

    const FIXTURES: [(&[u8], &[u8]); 5] = {
        let (halved, halved_pixels) = fixture!("halved");
        let (wide, wide_pixels) = fixture!("half_as_wide");
        let (progressive, progressive_pixels) = fixture!("progressive");
        let (gray, gray_pixels) = fixture!("gray");
        let (inks, inks_pixels) = fixture!("inks");
        [
            (halved, halved_pixels),
            (wide, wide_pixels),
            (progressive, progressive_pixels),
            (gray, gray_pixels),
            (inks, inks_pixels),
        ]
    };

    #[test]
    fn pixels_are_those_of_other_programs_to_the_last_bit() {
        for (i, (file, expected)) in FIXTURES.iter().enumerate() {
            let image = decode(file).expect("the fixture is a valid file");
            assert_eq!((image.height, image.width), (17, 11));
            assert!(image.pixels == *expected, "fixture {i}");
        }
    }

    #[test]
    fn a_broken_file_is_rejected_or_has_all_its_pixels() {
        for (file, expected) in FIXTURES {
            for end in 0..file.len() {
                if let Some(image) = decode(&file[..end]) {
                    assert_eq!(image.pixels.len(), expected.len(), "of {end} bytes");
                }
                let mut changed = file.to_vec();
                changed[end] ^= 0x55;
                if let Some(image) = decode(&changed) {
                    assert_eq!(image.pixels.len(), image.height * image.width * 3);
                }
            }
        }
    }
}
