//! Feature preprocessing, row by row.

use crate::loops::elementwise::map;
use crate::loops::geometry::Axis;
use crate::{Float, Number, Real};

/// 1 if an element exceeds the threshold, else 0.
pub fn binarizer<T: Number>(x: &[T], y: &mut [T], threshold: f32) {
    let threshold = f64::from(threshold);
    map(x, y, |x| if x.to_f64() > threshold { T::ONE } else { T::ZERO });
}

/// Replaces `missing` elements by the value of their feature. There is one value per feature, or
/// one for all.
pub fn imputer<T: Number>(x: &[T], values: &[T], missing: &[T], y: &mut [T]) {
    let missing = missing.first().copied().unwrap_or(T::ZERO);
    for ((&x, &value), y) in x.iter().zip(values.iter().cycle()).zip(y) {
        let is_missing = x == missing || x.is_nan() && missing.is_nan();
        *y = if is_missing { value } else { x };
    }
}

/// Divides each row by its largest element.
pub fn normalizer_max<T: Float>(x: &[T], y: &mut [T], geometry: Axis) {
    scale(x, y, geometry, |row| row.iter().copied().fold(T::LOWEST, T::maximum));
}

/// Divides each row by its L¹ norm.
pub fn normalizer_l1<T: Float>(x: &[T], y: &mut [T], geometry: Axis) {
    scale(x, y, geometry, |row| row.iter().fold(T::ZERO, |sum, x| sum.add(x.abs())));
}

/// Divides each row by its L² norm.
pub fn normalizer_l2<T: Float>(x: &[T], y: &mut [T], geometry: Axis) {
    scale(x, y, geometry, |row| row.iter().fold(T::ZERO, |sum, &x| sum.add(x.mul(x))).sqrt());
}

/// Divides each row by `of(row)`, unless that is 0.
fn scale<T: Float>(x: &[T], y: &mut [T], Axis { len, .. }: Axis, of: impl Fn(&[T]) -> T) {
    for (x, y) in x.chunks_exact(len.max(1)).zip(y.chunks_exact_mut(len.max(1))) {
        let by = of(x);
        let by = if by == T::ZERO { T::ONE } else { by };
        map(x, y, |x| x.div(by));
    }
}

/// A range of columns of a table.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// The number of columns of the table.
    pub of: usize,
    /// The first column.
    pub from: usize,
    /// The number of columns.
    pub count: usize,
}

/// Writes rows of features into columns of `y`, truncated or padded with zeros to the number of
/// columns. Other columns of `y` do not change.
pub fn feature_vectorizer<T: Real>(x: &[T], y: &mut [f32], features: usize, columns: Columns) {
    let Columns { of, from, count } = columns;
    let rows = y.chunks_exact_mut(of.max(1));
    for (i, y) in rows.enumerate() {
        let x = &x[i * features..][..features];
        let y = &mut y[from..from + count];
        let both = features.min(count);
        map(&x[..both], &mut y[..both], |x| f32::nearest(x.exact()));
        y[both..].fill(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_features_are_filled_in() {
        let mut y = [0.0; 4];
        imputer(&[f32::NAN, 2.0, 1.0, f32::NAN], &[9.0, 8.0], &[f32::NAN], &mut y);
        assert_eq!(y, [9.0, 2.0, 1.0, 8.0]);
        imputer(&[1.0, 2.0, 3.0, 1.0], &[9.0], &[1.0], &mut y);
        assert_eq!(y, [9.0, 2.0, 3.0, 9.0]);
        let mut y = [0; 3];
        binarizer(&[0, 1, 2], &mut y, 0.5);
        assert_eq!(y, [0, 1, 1]);
    }

    #[test]
    fn rows_are_scaled_by_their_norms() {
        let geometry = Axis { outer: 3, len: 2, inner: 1 };
        let x = [-3.0, 2.0, 0.0, 0.0, -1.0, -2.0];
        let mut y = [9.0; 6];
        normalizer_max(&x, &mut y, geometry);
        assert_eq!(y, [-1.5, 1.0, 0.0, 0.0, 1.0, 2.0]);
        normalizer_l1(&x, &mut y, geometry);
        assert_eq!(y, [-0.6, 0.4, 0.0, 0.0, -1.0 / 3.0, -2.0 / 3.0]);
        normalizer_l2(&[3.0, 4.0], &mut y[..2], geometry);
        assert_eq!(y[..2], [0.6, 0.8]);
    }

    #[test]
    fn features_fill_their_columns() {
        let mut y = [9.0; 8];
        let columns = Columns { of: 4, from: 1, count: 2 };
        feature_vectorizer(&[1, 2, 3, 4, 5, 6], &mut y, 3, columns);
        assert_eq!(y, [9.0, 1.0, 2.0, 9.0, 9.0, 4.0, 5.0, 9.0]);
        feature_vectorizer(&[1.5f64, 2.5], &mut y, 1, columns);
        assert_eq!(y, [9.0, 1.5, 0.0, 9.0, 9.0, 2.5, 0.0, 9.0]);
    }
}
