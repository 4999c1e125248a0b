//! Contraction: sums of products along axes that operands share.

use crate::Number;
use crate::loops::walk::{Row, walk};

/// The geometry of a contraction of two operands.
#[derive(Clone, Copy, Debug)]
pub struct Contraction<'a> {
    /// The sizes of the result, which is contiguous.
    pub sizes: &'a [usize],
    /// The strides of the left operand along the axes of the result.
    pub a: &'a [usize],
    /// The strides of the right operand along the axes of the result.
    pub b: &'a [usize],
    /// The sizes of the axes that are summed.
    pub summed: &'a [usize],
    /// The strides of the left operand along the summed axes.
    pub a_summed: &'a [usize],
    /// The strides of the right operand along the summed axes.
    pub b_summed: &'a [usize],
}

/// `y = Σ a · b`, summed along the axes of `geometry.summed`.
pub fn contract<T: Number>(a: &[T], b: &[T], y: &mut [T], geometry: Contraction<'_>) {
    debug_assert_eq!(y.len(), geometry.sizes.iter().product(), "the result has the sizes");
    let strides = [geometry.a_summed, geometry.b_summed];
    let row = Row::of(geometry.summed, strides);
    let steps = [row.steps[0].cast_unsigned(), row.steps[1].cast_unsigned()];
    let mut results = y.iter_mut();
    walk(geometry.sizes, [geometry.a, geometry.b], [0; 2], &mut |at| {
        let mut sum = T::ZERO;
        walk(&geometry.summed[..row.rank], strides, at, &mut |[i, j]| {
            for k in 0..row.len {
                sum = sum.add(a[i + k * steps[0]].mul(b[j + k * steps[1]]));
            }
        });
        if let Some(y) = results.next() {
            *y = sum;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::array::from_fn;

    #[test]
    fn products_are_summed_along_shared_axes() {
        let (a, b): ([u8; 12], [u8; 12]) = (from_fn(|i| i as u8), from_fn(|i| (30 * i) as u8));
        let mut y = [9; 8];
        // ikl,lkj->ij
        let geometry = Contraction {
            sizes: &[2, 2],
            a: &[6, 0],
            b: &[0, 1],
            summed: &[3, 2],
            a_summed: &[2, 1],
            b_summed: &[2, 6],
        };
        contract(&a, &b, &mut y[..4], geometry);
        for (i, j) in (0..2).flat_map(|i| (0..2).map(move |j| (i, j))) {
            let terms = (0..6).map(|at| (at / 2, at % 2));
            let sum = terms.fold(0u8, |sum, (k, l)| {
                sum.wrapping_add(a[i * 6 + k * 2 + l].wrapping_mul(b[l * 6 + k * 2 + j]))
            });
            assert_eq!(y[i * 2 + j], sum);
        }
    }

    #[test]
    fn nothing_sums_to_zero() {
        let mut y = [9i16; 2];
        let geometry = Contraction {
            sizes: &[2],
            a: &[0],
            b: &[1],
            summed: &[0],
            a_summed: &[1],
            b_summed: &[2],
        };
        contract(&[], &[], &mut y, geometry);
        assert_eq!(y, [0, 0]);
    }
}
