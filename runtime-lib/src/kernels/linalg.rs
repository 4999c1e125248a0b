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

/// Computes the inverse of each matrix of a batch in `f64`, by Gauss–Jordan elimination with
/// partial pivoting. Matrices are `n` × `n`; `work` has `2 · n²` elements. The inverse of a
/// singular matrix has elements that are infinite or NaN.
pub fn inverse<T: Float>(x: &[T], y: &mut [T], work: &mut [f64], n: usize) {
    let width = 2 * n;
    for (x, y) in x.chunks_exact((n * n).max(1)).zip(y.chunks_exact_mut((n * n).max(1))) {
        let rows = &mut work[..n * width];
        for (i, (row, x)) in rows.chunks_exact_mut(width).zip(x.chunks_exact(n)).enumerate() {
            let (left, right) = row.split_at_mut(n);
            left.iter_mut().zip(x).for_each(|(to, x)| *to = x.to_f64());
            right.fill(0.0);
            right[i] = 1.0;
        }
        (0..n).for_each(|column| reduce_column(rows, column, n));
        for (row, y) in rows.chunks_exact(width).zip(y.chunks_exact_mut(n)) {
            row[n..].iter().zip(y).for_each(|(&x, y)| *y = T::from_f64(x));
        }
    }
}

/// Makes a column of `n` rows of `2 · n` elements one of the identity matrix.
fn reduce_column(rows: &mut [f64], column: usize, n: usize) {
    let width = 2 * n;
    let size = |row: usize| rows[row * width + column].abs();
    let largest = (column..n).reduce(|a, b| if size(b) > size(a) { b } else { a });
    let pivot = largest.unwrap_or(column);
    if pivot != column {
        let (above, below) = rows.split_at_mut(pivot * width);
        above[column * width..][..width].swap_with_slice(&mut below[..width]);
    }
    let (above, rest) = rows.split_at_mut(column * width);
    let (row, below) = rest.split_at_mut(width);
    let scale = 1.0 / row[column];
    row.iter_mut().for_each(|x| *x *= scale);
    for other in above.chunks_exact_mut(width).chain(below.chunks_exact_mut(width)) {
        let factor = other[column];
        other.iter_mut().zip(&*row).for_each(|(other, row)| *other -= factor * row);
    }
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
    fn the_product_with_the_inverse_is_the_identity() {
        for n in 0..=4 {
            for seed in 0..50 {
                let element = |i: usize| ((i * 37 + seed * 101) % 19) as f64 - 9.0;
                let x: [f64; 16] =
                    from_fn(|i| element(i) + if i % (n + 1) == 0 { 40.0 } else { 0.0 });
                let (mut y, mut work) = ([9.0; 16], [0.0; 32]);
                inverse(&x[..n * n], &mut y[..n * n], &mut work, n);
                for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    let sum: f64 = (0..n).map(|k| x[i * n + k] * y[k * n + j]).sum();
                    let expected = if i == j { 1.0 } else { 0.0 };
                    assert!((sum - expected).abs() <= 1e-12, "{x:?} {y:?}");
                }
            }
        }
    }

    #[test]
    fn rows_are_exchanged_for_a_pivot() {
        let (mut y, mut work) = ([9.0f32; 8], [0.0; 8]);
        inverse(&[0.0, 2.0, 1.0, 0.0, 1.0, 2.0, 2.0, 4.0], &mut y, &mut work, 2);
        assert_eq!(y[..4], [0.0, 1.0, 0.5, 0.0]);
        assert!(y[4..].iter().all(|y| !y.is_finite()));
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
