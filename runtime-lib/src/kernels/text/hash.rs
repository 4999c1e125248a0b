//! `MurmurHash3`: the 32-bit form of the hash, of the bytes of each element.

/// An element that has a hash.
pub trait Hashed {
    /// Calls `see` with the bytes of the element, in little-endian order, and returns the result.
    fn with_bytes(&self, see: impl FnOnce(&[u8]) -> u32) -> u32;
}

macro_rules! hashed {
    ($($T:ty)*) => {$(
        impl Hashed for $T {
            fn with_bytes(&self, see: impl FnOnce(&[u8]) -> u32) -> u32 {
                see(&self.to_le_bytes())
            }
        }
    )*};
}

hashed!(f32 f64 i32 i64 u32 u64);

#[cfg(feature = "alloc")]
impl Hashed for alloc::string::String {
    fn with_bytes(&self, see: impl FnOnce(&[u8]) -> u32) -> u32 {
        see(self.as_bytes())
    }
}

/// Writes the hash of each element.
pub fn murmur_hash_3<T: Hashed>(x: &[T], y: &mut [u32], seed: u32) {
    for (x, y) in x.iter().zip(y) {
        *y = x.with_bytes(|bytes| hash(bytes, seed));
    }
}

/// [`murmur_hash_3`] whose results are signed.
pub fn murmur_hash_3_signed<T: Hashed>(x: &[T], y: &mut [i32], seed: u32) {
    for (x, y) in x.iter().zip(y) {
        *y = x.with_bytes(|bytes| hash(bytes, seed)).cast_signed();
    }
}

/// Returns MurmurHash3_x86_32, by Austin Appleby.
fn hash(bytes: &[u8], seed: u32) -> u32 {
    let mix = |word: u32| word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let (words, tail) = bytes.as_chunks::<4>();
    let mut hash = words.iter().fold(seed, |hash, &word| {
        let mixed = (hash ^ mix(u32::from_le_bytes(word))).rotate_left(13);
        mixed.wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    let rest = tail.iter().rev().fold(0, |rest, &byte| rest << 8 | u32::from(byte));
    hash ^= mix(rest);
    hash ^= bytes.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_reference() {
        let mut y = [0; 2];
        murmur_hash_3(&[3i32, 4], &mut y, 0);
        assert_eq!(y, [847_579_505, 1_889_779_975]);
        murmur_hash_3(&[3i64], &mut y, 0);
        assert_eq!(y[0], 2_738_575_283);
        murmur_hash_3(&[1.5f32], &mut y, 0);
        assert_eq!(y[0], 376_679_366);
        let mut signed = [0];
        murmur_hash_3_signed(&[1.5f64], &mut signed, 7);
        assert_eq!(signed, [1_353_323_163]);
    }

    #[cfg(feature = "alloc")]
    #[test]
    fn strings_are_hashed_by_their_bytes() {
        let x = ["hello", "", "ab"].map(alloc::string::String::from);
        let mut y = [9; 3];
        murmur_hash_3(&x, &mut y, 0);
        assert_eq!(y[..2], [613_153_351, 0]);
    }
}
