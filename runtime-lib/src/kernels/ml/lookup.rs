//! Lookup tables: the index of an element, and the element at an index.
//!
//! The strings of a table are concatenated to one text, with the end offset of each.

use crate::error::{Error, Result};
#[cfg(feature = "alloc")]
use crate::loops::index::place;
use crate::{Elem, Number};
use core::cmp::Ordering;

/// Writes the index of each element among the keys, which are sorted; the number of keys if it is
/// none of them. NaN sorts last and equals itself.
pub fn index_of<T: Number>(x: &[T], keys: &[T], y: &mut [i64]) {
    for (&x, y) in x.iter().zip(y) {
        *y = found(keys.binary_search_by(|&key| compare(key, x)), keys.len());
    }
}

fn compare<T: Number>(a: T, b: T) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn found(result: core::result::Result<usize, usize>, missing: usize) -> i64 {
    i64::try_from(result.unwrap_or(missing)).unwrap_or(i64::MAX)
}

/// Writes the element of the table at each index.
pub fn element_at<T: Elem>(x: &[i64], table: &[T], y: &mut [T]) {
    for (&x, y) in x.iter().zip(y) {
        if let Some(element) = usize::try_from(x).ok().and_then(|x| table.get(x)) {
            y.clone_from(element);
        }
    }
}

/// Writes 1 in the column of each index and 0 in the other `width` columns; all 0 for an index
/// without a column.
pub fn one_hot(x: &[i64], columns: &[i64], y: &mut [f32], width: usize) {
    y.fill(0.0);
    for (x, y) in x.iter().zip(y.chunks_exact_mut(width.max(1))) {
        let column = usize::try_from(*x).ok().and_then(|x| columns.get(x));
        let column = column.and_then(|&column| usize::try_from(column).ok());
        if let Some(y) = column.and_then(|column| y.get_mut(column)) {
            *y = 1.0;
        }
    }
}

/// [`one_hot`] that returns an error for an index without a column.
///
/// # Errors
///
/// Returns an error for an index without a column.
pub fn one_hot_checked(x: &[i64], columns: &[i64], y: &mut [f32], width: usize) -> Result {
    if x.iter().any(|&x| usize::try_from(x).map_or(true, |x| x >= columns.len())) {
        return Err(Error::Value("an element is none of the categories"));
    }
    one_hot(x, columns, y, width);
    Ok(())
}

/// The strings of a table.
#[cfg(feature = "alloc")]
pub(crate) struct Texts<'a> {
    /// The concatenated strings.
    pub text: &'a [u8],
    /// The end offset of each string.
    pub ends: &'a [u32],
}

#[cfg(feature = "alloc")]
impl<'a> Texts<'a> {
    /// Returns the bytes of string `i`.
    pub fn bytes(&self, i: usize) -> &'a [u8] {
        let start = i.checked_sub(1).map_or(0, |before| place(self.ends[before]));
        &self.text[start..place(self.ends[i])]
    }

    /// Returns string `i`.
    pub fn get(&self, i: usize) -> &'a str {
        core::str::from_utf8(self.bytes(i)).unwrap_or_default()
    }

    /// Returns the index of a string among strings that are sorted by bytes; their number if it is
    /// none of them.
    pub fn position(&self, x: &str) -> usize {
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.bytes(middle).cmp(x.as_bytes()) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return middle,
                Ordering::Greater => high = middle,
            }
        }
        self.ends.len()
    }
}

/// [`index_of`] for strings, which are sorted by bytes.
#[cfg(feature = "alloc")]
pub fn index_of_text(x: &[alloc::string::String], text: &[u8], ends: &[u32], y: &mut [i64]) {
    let texts = Texts { text, ends };
    for (x, y) in x.iter().zip(y) {
        *y = found(Ok(texts.position(x)), ends.len());
    }
}

/// [`element_at`] for strings.
#[cfg(feature = "alloc")]
pub fn text_at(x: &[i64], text: &[u8], ends: &[u32], y: &mut [alloc::string::String]) {
    let texts = Texts { text, ends };
    for (&x, y) in x.iter().zip(y) {
        y.clear();
        if let Some(x) = usize::try_from(x).ok().filter(|&x| x < ends.len()) {
            y.push_str(texts.get(x));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_existing_keys_are_found() {
        let keys = [-2.5, 0.0, 7.0, f32::NAN];
        let mut y = [9; 7];
        index_of(&[0.0, -0.0, 7.0, f32::NAN, -2.5, 8.0, f32::NEG_INFINITY], &keys, &mut y);
        assert_eq!(y, [1, 1, 2, 3, 0, 4, 4]);
        index_of(&[0, 1, 2, 3, i64::MAX, i64::MIN, 5], &[1, 3, i64::MAX], &mut y);
        assert_eq!(y, [3, 0, 3, 1, 2, 3, 3]);
        index_of(&[1i16], &[], &mut y[..1]);
        assert_eq!(y[0], 0);
    }

    #[test]
    fn indices_select_elements() {
        let mut y = [9.0; 4];
        element_at(&[2, 0, -1, 3], &[1.0, 2.0, 3.0], &mut y);
        assert_eq!(y, [3.0, 1.0, 9.0, 9.0]);
        let mut y = [9.0; 6];
        one_hot(&[0, 2], &[2, 0, 1], &mut y, 3);
        assert_eq!(y, [0.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
        one_hot(&[1, 3], &[2, 0, 1], &mut y, 3);
        assert_eq!(y, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert!(one_hot_checked(&[1, 3], &[2, 0, 1], &mut y, 3).is_err());
        assert!(one_hot_checked(&[1, 2], &[2, 0, 1], &mut y, 3).is_ok());
    }

    #[test]
    #[cfg(feature = "alloc")]
    fn strings_are_looked_up_and_returned() {
        let (text, ends) = (b"abz\xc3\xbc".as_slice(), [0, 1, 3, 5]);
        let x = ["a", "", "bz", "ü", "b", "abz"].map(alloc::string::String::from);
        let mut y = [9; 6];
        index_of_text(&x, text, &ends, &mut y);
        assert_eq!(y, [1, 0, 2, 3, 4, 4]);
        let mut words = x.clone();
        text_at(&y, text, &ends, &mut words);
        assert_eq!(words, ["a", "", "bz", "ü", "", ""]);
    }
}
