//! Handwritten digits that the model of the examples never saw while it was trained: the last 297
//! of the 1 797 of the Optical Recognition of Handwritten Digits data set (E. Alpaydin and
//! C. Kaynak, UCI Machine Learning Repository, CC BY 4.0), as scikit-learn has them.
#![no_std]

/// How many digits there are.
pub const COUNT: usize = FILE.len() / RECORD;

/// An image of 8 rows of 8 pixels, each from 0 (paper) to 1 (ink).
pub type Image = [f32; 64];

/// A handwritten digit.
#[derive(Clone, Debug)]
pub struct Digit {
    /// What it looks like.
    pub image: Image,
    /// Which digit it is.
    pub label: usize,
}

/// Each digit is 64 pixels from 0 to 16, and what it is: a byte each.
static FILE: &[u8; 297 * RECORD] = include_bytes!("held_out.bin");

const RECORD: usize = 64 + 1;

/// All of them.
pub fn held_out() -> impl ExactSizeIterator<Item = Digit> {
    FILE.as_chunks().0.iter().map(|&[ref pixels @ .., label]: &[u8; RECORD]| Digit {
        image: core::array::from_fn(|i| f32::from(pixels[i]) / 16.0),
        label: label.into(),
    })
}

/// The digit with the best score.
pub fn best(scores: &[f32; 10]) -> usize {
    (1..10).fold(0, |best, digit| if scores[digit] > scores[best] { digit } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_digit_occurs_and_every_pixel_is_in_range() {
        for label in 0..10 {
            assert!(held_out().any(|digit| digit.label == label));
        }
        assert!(
            held_out().all(|digit| digit.image.iter().all(|pixel| (0.0..=1.0).contains(pixel)))
        );
        assert_eq!(held_out().len(), COUNT);
    }
}
