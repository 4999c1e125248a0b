//! The trailer of a weights file, which ties the file to the module that it was generated with.

use super::{Aligned, Weights};
use crate::{Error, Result};

/// The last bytes of a weights file. A program that makes weights itself appends them:
///
/// ```
/// use onnxc_runtime::arena::Trailer;
///
/// // `Model::WEIGHT_LAYOUT` of the generated module.
/// const LAYOUT: u64 = 0x1234;
/// let mut weights = 1.5_f32.to_le_bytes().to_vec();
/// weights.extend(Trailer::new(LAYOUT, &weights).to_bytes());
/// assert!(Trailer::of(&weights).is_some_and(|trailer| trailer.layout == LAYOUT));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Identifies the layout: the offsets, sizes and types of the weights, and the kernels that
    /// read them. Weights of equal layout are interchangeable.
    pub layout: u64,
    /// The [`Checksum`] of the bytes before the trailer.
    pub checksum: u64,
}

impl Trailer {
    /// The size of a trailer in bytes.
    pub const BYTES: usize = 24;

    /// The first bytes of a trailer; the digit is the version of the format.
    const MAGIC: u64 = u64::from_le_bytes(*b"onnxc-w1");

    /// Creates the trailer of weights.
    pub fn new(layout: u64, weights: &[u8]) -> Trailer {
        Trailer { layout, checksum: Checksum::of(weights) }
    }

    /// Returns the trailer of a weights file, or `None` if the file has none.
    pub const fn of(file: &[u8]) -> Option<Trailer> {
        let Some(bytes) = file.last_chunk::<{ Trailer::BYTES }>() else { return None };
        let (words, _) = bytes.as_chunks::<8>();
        let &[magic, layout, checksum] = words else { return None };
        if u64::from_le_bytes(magic) != Trailer::MAGIC {
            return None;
        }
        let (layout, checksum) = (u64::from_le_bytes(layout), u64::from_le_bytes(checksum));
        Some(Trailer { layout, checksum })
    }

    /// Returns the bytes at the end of a weights file.
    pub const fn to_bytes(self) -> [u8; Trailer::BYTES] {
        let mut bytes = [0; Trailer::BYTES];
        if let [magic, layout, checksum] = bytes.as_chunks_mut::<8>().0 {
            *magic = Trailer::MAGIC.to_le_bytes();
            *layout = self.layout.to_le_bytes();
            *checksum = self.checksum.to_le_bytes();
        }
        bytes
    }

    /// Checks that a file has the trailer of `layout` after `bytes` bytes of weights.
    pub(super) fn check(file: &[u8], bytes: usize, layout: u64) -> Result {
        let (expected, found) = (bytes.saturating_add(Trailer::BYTES), file.len());
        match Trailer::of(file) {
            None if found == bytes => Err(Error::WeightTrailer),
            Some(trailer) if trailer.layout != layout => {
                Err(Error::WeightLayout { expected: layout, found: trailer.layout })
            }
            _ if found != expected => Err(Error::Weights { expected, found }),
            None => Err(Error::WeightTrailer),
            Some(_) => Ok(()),
        }
    }
}

impl Weights {
    /// Checks that the bytes are those that the weights file was written with. This reads all of
    /// them; [`Self::check`] reads the trailer only.
    ///
    /// # Errors
    ///
    /// Returns an error if the weights do not end with a trailer, or if their checksum differs from
    /// that of the trailer.
    pub fn verify(&self) -> Result {
        let file = self.view().0;
        let (trailer, len) = (Trailer::of(file), file.len().saturating_sub(Trailer::BYTES));
        let expected = trailer.ok_or(Error::WeightTrailer)?.checksum;
        match Checksum::of(&file[..len]) {
            found if found == expected => Ok(()),
            found => Err(Error::WeightChecksum { expected, found }),
        }
    }
}

impl Trailer {
    /// Checks the trailer of a weights file that a module includes.
    ///
    /// # Panics
    ///
    /// Panics, which ends the compilation of the module, unless the file has the layout `layout`.
    #[doc(hidden)]
    pub const fn assert_layout(file: &[u8], layout: u64) {
        let trailer = Trailer::of(file).expect(
            "the weights file has no trailer: generate the module and its weights file again",
        );
        assert!(
            trailer.layout == layout,
            "the weights file was generated with another module: generate both again"
        );
    }
}

impl<const N: usize> Aligned<[u8; N]> {
    /// Returns the weights of a file that a module includes.
    ///
    /// # Panics
    ///
    /// Panics, which ends the compilation of the module, unless the file is a weights file of the
    /// module.
    pub const fn of_file<const FILE: usize>(file: &[u8; FILE], layout: u64) -> Aligned<[u8; N]> {
        Trailer::assert_layout(file, layout);
        assert!(
            FILE == N + Trailer::BYTES,
            "the size of the weights file is not that of its layout: generate it again"
        );
        let weights = file.first_chunk::<N>();
        Aligned(*weights.expect("the assertion above says that the file is longer"))
    }
}

/// A checksum of bytes that arrive in pieces. It detects damage, but gives no protection against
/// an attacker. Every change within eight bytes changes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksum {
    state: u64,
    /// The bytes after the last whole word.
    rest: [u8; 8],
    len: u64,
}

impl Checksum {
    /// Returns the checksum of `bytes`.
    pub fn of(bytes: &[u8]) -> u64 {
        let mut checksum = Checksum::default();
        checksum.update(bytes);
        checksum.finish()
    }

    /// Adds a piece.
    pub fn update(&mut self, piece: &[u8]) {
        let filled = (self.len % 8) as usize;
        self.len += piece.len() as u64;
        let (head, piece) = piece.split_at(piece.len().min((8 - filled) % 8));
        self.rest[filled..][..head.len()].copy_from_slice(head);
        if filled > 0 && filled + head.len() == 8 {
            self.mix(u64::from_le_bytes(self.rest));
        }
        let (words, rest) = piece.as_chunks();
        for &word in words {
            self.mix(u64::from_le_bytes(word));
        }
        self.rest[..rest.len()].copy_from_slice(rest);
    }

    /// Returns the checksum of all pieces.
    pub fn finish(mut self) -> u64 {
        let filled = (self.len % 8) as usize;
        self.rest[filled..].fill(0);
        self.mix(u64::from_le_bytes(self.rest));
        self.mix(self.len);
        self.state ^ self.state >> 32
    }

    /// Mixes a word into the state. For a given state this is a bijection of words, and for a given
    /// word a bijection of states.
    fn mix(&mut self, word: u64) {
        /// 2⁶⁴ divided by the golden ratio, rounded to an odd number.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        self.state = (self.state.rotate_left(29) ^ word).wrapping_mul(FACTOR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: u64 = 0x0123_4567_89ab_cdef;

    /// Returns a weights file with eight bytes of weights.
    fn file() -> [u8; 32] {
        let mut file = core::array::from_fn(|i| i as u8);
        let trailer = Trailer::new(LAYOUT, &file[..8]);
        file[8..].copy_from_slice(&trailer.to_bytes());
        file
    }

    #[test]
    fn a_file_is_checked_against_length_and_layout() {
        let file = file();
        assert_eq!(Trailer::check(&file, 8, LAYOUT), Ok(()));
        let layout = Error::WeightLayout { expected: 1, found: LAYOUT };
        assert_eq!(Trailer::check(&file, 8, 1), Err(layout));
        let length = Error::Weights { expected: 33, found: 32 };
        assert_eq!(Trailer::check(&file, 9, LAYOUT), Err(length));
        assert_eq!(Trailer::check(&file[..8], 8, LAYOUT), Err(Error::WeightTrailer));
        assert_eq!(Trailer::check(&[0; 32], 8, LAYOUT), Err(Error::WeightTrailer));
        let length = Error::Weights { expected: 24, found: 31 };
        assert_eq!(Trailer::check(&file[..31], 0, 0), Err(length));
        assert_eq!(Trailer::check(&[], 0, 0), Err(Error::WeightTrailer));
    }

    #[test]
    fn a_module_includes_the_weights_of_a_file() {
        assert_eq!(Aligned::<[u8; 8]>::of_file(&file(), LAYOUT).0, [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn every_changed_bit_changes_the_checksum() {
        let file = file();
        let weights = |file: &[u8; 32]| Trailer::of(file).map(|trailer| trailer.checksum);
        assert_eq!(weights(&file), Some(Checksum::of(&file[..8])));
        let bytes: [u8; 21] = core::array::from_fn(|i| (i * 37) as u8);
        for bit in 0..8 * bytes.len() {
            let mut other = bytes;
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Checksum::of(&other), Checksum::of(&bytes), "bit {bit}");
        }
        assert_ne!(Checksum::of(&[0; 7]), Checksum::of(&[0; 8]));
        assert_ne!(Checksum::of(&[]), Checksum::of(&[0]));
    }

    #[test]
    fn pieces_have_the_checksum_of_the_whole() {
        let bytes: [u8; 43] = core::array::from_fn(|i| (i * 91) as u8);
        for size in 1..=bytes.len() {
            let mut checksum = Checksum::default();
            bytes.chunks(size).for_each(|piece| checksum.update(piece));
            assert_eq!(checksum.finish(), Checksum::of(&bytes), "pieces of {size} bytes");
        }
    }

    #[test]
    fn damaged_weights_are_detected() {
        static GOOD: [u8; 32] = [0; 32];
        assert_eq!(Weights::from(&GOOD).verify(), Err(Error::WeightTrailer));
        #[cfg(all(feature = "alloc", target_has_atomic = "ptr"))]
        {
            assert_eq!(Weights::from(file().to_vec()).verify(), Ok(()));
            let mut file = file();
            file[3] ^= 1;
            let verified = Weights::from(file.to_vec()).verify();
            assert!(matches!(verified, Err(Error::WeightChecksum { .. })), "{verified:?}");
        }
    }
}
