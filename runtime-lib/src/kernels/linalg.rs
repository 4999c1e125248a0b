//! Linear algebra.

use crate::Float;

/// Computes the determinant of each matrix of a batch in `f64`. Matrices are `n` × `n`; `work` has
/// `n²` elements.
pub fn det<T: Float>(x: &[T], y: &mut [T], work: &mut [f64], n: usize) {
    debug_assert_eq!(x.len(), y.len() * n * n, "each result has a matrix");
    for (i, y) in y.iter_mut().enumerate() {
        let matrix = &mut work[..n * n];
        for (into, x) in matrix.iter_mut().zip(&x[i * n * n..]) {
            *into = x.to_f64();
        }
        *y = T::from_f64(eliminate(matrix, n));
    }
}

/// Returns the product of the pivots of Gaussian elimination with partial pivoting.
fn eliminate(matrix: &mut [f64], n: usize) -> f64 {
    let mut product = 1.0;
    for column in 0..n {
        let size = |row: usize| matrix[row * n + column].abs();
        let largest = (column..n).reduce(|a, b| if size(b) > size(a) { b } else { a });
        let pivot = largest.unwrap_or(column);
        if pivot != column {
            let (above, below) = matrix.split_at_mut(pivot * n);
            above[column * n..][..n].swap_with_slice(&mut below[..n]);
            product = -product;
        }
        let (above, below) = matrix.split_at_mut((column + 1) * n);
        let row = &above[column * n + column..];
        product *= row[0];
        if row[0] == 0.0 {
            return product;
        }
        for other in below.chunks_exact_mut(n) {
            let other = &mut other[column..];
            let factor = other[0] / row[0];
            for (other, row) in other.iter_mut().zip(row) {
                *other -= factor * row;
            }
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::array::from_fn;

    /// Expands the determinant along the first row.
    fn expand(x: &[f64], n: usize) -> f64 {
        if n == 0 {
            return 1.0;
        }
        let minor = |column: usize| {
            let mut minor = [0.0; 16];
            let rest = (n..n * n).filter(|at| at % n != column);
            rest.zip(&mut minor).for_each(|(at, into)| *into = x[at]);
            expand(&minor[..(n - 1) * (n - 1)], n - 1)
        };
        (0..n).map(|j| if j % 2 == 0 { x[j] * minor(j) } else { -x[j] * minor(j) }).sum()
    }

    #[test]
    fn pivoting_matches_expansion_by_minors() {
        for n in 0..=4 {
            for seed in 0..50 {
                let x: [f64; 32] = from_fn(|i| ((i * 37 + seed * 101) % 19) as f64 - 9.0);
                let (x, mut y, mut work) = (&x[..2 * n * n], [9.0; 2], [0.0; 16]);
                det(x, &mut y, &mut work, n);
                for (x, y) in [&x[..n * n], &x[n * n..]].into_iter().zip(y) {
                    let expected = expand(x, n);
                    assert!((y - expected).abs() <= 1e-12 * (1.0 + expected.abs()), "{x:?}");
                }
            }
        }
    }

    #[test]
    fn a_singular_matrix_has_determinant_zero_and_nan_propagates() {
        let (mut y, mut work) = ([9.0f32], [0.0; 4]);
        det(&[1.0, 2.0, 2.0, 4.0], &mut y, &mut work, 2);
        assert_eq!(y, [0.0]);
        det(&[0.0, 1.0, 1.0, 0.0], &mut y, &mut work, 2);
        assert_eq!(y, [-1.0]);
        det(&[1.0, f32::NAN, 0.0, 1.0], &mut y, &mut work, 2);
        assert!(y[0].is_nan());
    }
}
