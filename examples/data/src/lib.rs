//! The 1 797 handwritten digits of the Optical Recognition of Handwritten Digits data set (E.
//! Alpaydin and C. Kaynak, UCI Machine Learning Repository, CC BY 4.0), in the order of
//! scikit-learn. The first 1 500 are for training. The last 297 are held out: no model of the
//! examples is trained on them.
#![no_std]

/// The number of digits that are held out.
pub const COUNT: usize = HELD_OUT.len() / RECORD;

/// An image of 8 rows of 8 pixels, each from 0 (paper) to 1 (ink).
pub type Image = [f32; 64];

/// A handwritten digit.
#[derive(Clone, Debug)]
pub struct Digit {
    /// The image.
    pub image: Image,
    /// The digit that the image shows.
    pub label: usize,
}

/// A record is 64 bytes of pixels, from 0 to 16, and a byte with the label.
static HELD_OUT: &[u8; 297 * RECORD] = include_bytes!("held_out.bin");
static TRAINING: &[u8; 1500 * RECORD] = include_bytes!("training.bin");

const RECORD: usize = 64 + 1;

/// Returns the digits that are held out.
pub fn held_out() -> impl ExactSizeIterator<Item = Digit> {
    digits(HELD_OUT)
}

/// Returns the digits for training.
pub fn training() -> impl ExactSizeIterator<Item = Digit> {
    digits(TRAINING)
}

fn digits(file: &[u8]) -> impl ExactSizeIterator<Item = Digit> {
    file.as_chunks().0.iter().map(|&[ref pixels @ .., label]: &[u8; RECORD]| Digit {
        image: core::array::from_fn(|i| f32::from(pixels[i]) / 16.0),
        label: label.into(),
    })
}

/// Returns the digit with the best score.
pub fn best(scores: &[f32; 10]) -> usize {
    (1..10).fold(0, |best, digit| if scores[digit] > scores[best] { digit } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_occurs_and_every_pixel_is_in_range() {
        assert_eq!([training().len(), held_out().len()], [1500, COUNT]);
        for label in 0..10 {
            assert!(training().any(|digit| digit.label == label));
            assert!(held_out().any(|digit| digit.label == label));
        }
        let mut all = training().chain(held_out());
        assert!(all.all(|digit| digit.image.iter().all(|pixel| (0.0..=1.0).contains(pixel))));
    }
}
