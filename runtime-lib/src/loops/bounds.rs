//! Bounds checks of unsafe kernels: the last element that a call touches. Sizes and strides are
//! arbitrary numbers, so an overflow saturates to an index beyond any slice.

/// Returns a saturating sum of products.
#[inline(always)]
pub(crate) fn reach<const TERMS: usize, const FACTORS: usize>(
    terms: [[usize; FACTORS]; TERMS],
) -> usize {
    terms.iter().fold(0, |sum: usize, factors| {
        let term = factors.iter().fold(1, |term: usize, &factor| term.saturating_mul(factor));
        sum.saturating_add(term)
    })
}

/// Returns the number of positions at which `count` elements fit in a slice.
#[inline(always)]
pub(crate) fn places<T>(x: &[T], count: usize) -> usize {
    (x.len() + 1).saturating_sub(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reach_that_overflows_saturates() {
        assert_eq!(reach([[2, 3, 4], [5, 6, 1]]), 54);
        assert_eq!(reach([[0, usize::MAX], [7, 1]]), 7);
        assert_eq!(reach([[1 << (usize::BITS - 1), 2], [7, 1]]), usize::MAX);
        assert_eq!(reach([[usize::MAX, 1], [7, 1]]), usize::MAX);
    }

    #[test]
    fn the_number_of_positions_shrinks_with_the_count() {
        assert_eq!([0, 1, 4, 5, usize::MAX].map(|count| places(&[0; 4], count)), [5, 4, 1, 0, 0]);
    }
}
