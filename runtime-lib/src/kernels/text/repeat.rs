//! `NGramRepeatBlock`: excludes words that would repeat an n-gram.

use crate::{Error, Result};

/// Writes the scores of all `words` words for each row of `length` words; those that would end an
/// n-gram that the row already has become `-∞`.
///
/// # Errors
///
/// Returns an error if the last word of a repeated n-gram has no score.
pub fn ngram_repeat_block(
    rows: &[i64],
    scores: &[f32],
    y: &mut [f32],
    length: usize,
    words: usize,
    size: usize,
) -> Result {
    y.copy_from_slice(scores);
    if length < size || words == 0 {
        return Ok(());
    }
    for (row, y) in rows.chunks_exact(length).zip(y.chunks_exact_mut(words)) {
        let end = &row[length + 1 - size..];
        for gram in row.windows(size).filter(|gram| gram[..size - 1] == *end) {
            let score = usize::try_from(gram[size - 1]).ok().and_then(|word| y.get_mut(word));
            *score.ok_or(Error::Value("a word of a row has no score"))? = f32::NEG_INFINITY;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(rows: &[i64], size: usize) -> Result<[f32; 4]> {
        let mut y = [9.0; 4];
        ngram_repeat_block(rows, &[0.0, 1.0, 2.0, 3.0], &mut y, rows.len(), 4, size)?;
        Ok(y)
    }

    #[test]
    fn words_that_repeat_an_n_gram_are_excluded() {
        const NONE: f32 = f32::NEG_INFINITY;
        assert_eq!(block(&[1, 2, 3, 1, 2], 3), Ok([0.0, 1.0, 2.0, NONE]));
        assert_eq!(block(&[1, 2, 3, 1, 2], 1), Ok([0.0, NONE, NONE, NONE]));
        assert_eq!(block(&[1, 2], 3), Ok([0.0, 1.0, 2.0, 3.0]));
        assert_eq!(block(&[0, 0, 0], 2), Ok([NONE, 1.0, 2.0, 3.0]));
        assert!(block(&[1, 9, 1], 2).is_err());
    }
}
