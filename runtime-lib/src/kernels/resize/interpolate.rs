//! Separable interpolation, one axis after another.

use super::OUTSIDE;
use crate::loops::geometry::Axis;
use crate::simd::{Simd, WithSimd, dispatch};
use crate::{Elem, Float, Integer, Number};

/// The geometry of adjacent axes that are resized with tables of weights.
#[derive(Clone, Copy, Debug)]
pub struct Resample<'a> {
    /// The product of the sizes before the axes.
    pub planes: usize,
    /// The sizes of the axes.
    pub from: &'a [usize],
    /// The sizes of the axes in the result.
    pub to: &'a [usize],
    /// The axes to resize, in the order of the passes.
    pub axes: &'a [usize],
    /// The number of weights per output element in the table of each of these axes.
    pub taps: &'a [usize],
    /// The product of the sizes after the axes.
    pub inner: usize,
}

/// Writes the weighted sums along each axis, from the start index that the table has for each
/// output; `value` where it has none. The tables are in the order of the axes.
pub fn interpolate<T: Float>(
    x: &[T],
    places: &[i64],
    weights: &[T::Wide],
    value: Option<&[T]>,
    y: &mut [T],
    scratch: &mut [T::Wide],
    geometry: Resample<'_>,
) {
    let tables = Tables { places, weights };
    match (T::as_f32(x), T::Wide::as_f32(weights), T::Wide::as_f32_mut(scratch)) {
        (Some(x), Some(weights), Some(scratch)) => {
            if let Some(y) = T::as_f32_mut(y) {
                let tables = Tables { places, weights };
                each_plane(x, y, geometry, |x, y| passes(x, y, tables, scratch, geometry));
            }
        }
        _ => each_plane(x, y, geometry, |x, y| {
            resample(x, y, tables, scratch, geometry, |x| x.widen(), |x| T::narrow(x));
        }),
    }
    set_outside(places, value, y, geometry);
}

/// [`interpolate`] for integers: sums are rounded, halves to even.
pub fn interpolate_whole<T: Integer>(
    x: &[T],
    places: &[i64],
    weights: &[f64],
    value: Option<&[T]>,
    y: &mut [T],
    scratch: &mut [f64],
    geometry: Resample<'_>,
) {
    let tables = Tables { places, weights };
    let round = |x: f64| T::from_f64(Float::round(x));
    each_plane(x, y, geometry, |x, y| {
        resample(x, y, tables, scratch, geometry, Number::to_f64, round);
    });
    set_outside(places, value, y, geometry);
}

#[derive(Clone, Copy)]
struct Tables<'a, W> {
    places: &'a [i64],
    weights: &'a [W],
}

impl Resample<'_> {
    /// Returns the axis that a pass resizes, with the sizes before the pass.
    fn axis(&self, step: usize) -> Axis {
        let size = |axis: usize| match self.axes[..step].contains(&axis) {
            true => self.to[axis],
            false => self.from[axis],
        };
        let axis = self.axes[step];
        Axis {
            outer: (0..axis).map(size).product(),
            len: self.from[axis],
            inner: (axis + 1..self.from.len()).map(size).product::<usize>() * self.inner,
        }
    }
}

fn each_plane<T: Elem>(
    x: &[T],
    y: &mut [T],
    geometry: Resample<'_>,
    mut work: impl FnMut(&[T], &mut [T]),
) {
    if y.is_empty() || x.is_empty() {
        return;
    }
    let (from, to) = (x.len() / geometry.planes, y.len() / geometry.planes);
    for (x, y) in x.chunks_exact(from).zip(y.chunks_exact_mut(to)) {
        work(x, y);
    }
}

/// Resizes a plane whose element type differs from that of the weights.
fn resample<T: Elem + Copy, W: Float>(
    x: &[T],
    y: &mut [T],
    tables: Tables<'_, W>,
    scratch: &mut [W],
    geometry: Resample<'_>,
    widen: impl Fn(T) -> W,
    narrow: impl Fn(W) -> T,
) {
    let (wide_x, scratch) = scratch.split_at_mut(x.len());
    let (wide_y, scratch) = scratch.split_at_mut(y.len());
    for (wide, &x) in wide_x.iter_mut().zip(x) {
        *wide = widen(x);
    }
    passes(wide_x, wide_y, tables, scratch, geometry);
    for (y, &wide) in y.iter_mut().zip(&*wide_y) {
        *y = narrow(wide);
    }
}

/// Resizes a plane, one axis after another. Intermediate results are in scratch memory: one result
/// in all of it for two axes, alternating halves for more.
fn passes<W: Float>(
    x: &[W],
    y: &mut [W],
    tables: Tables<'_, W>,
    scratch: &mut [W],
    geometry: Resample<'_>,
) {
    let steps = geometry.axes.len();
    let half = if steps > 2 { scratch.len() / 2 } else { scratch.len() };
    let (mut read, mut write) = scratch.split_at_mut(half);
    core::mem::swap(&mut read, &mut write);
    let Tables { mut places, mut weights } = tables;
    let mut x = Some(x);
    for step in 0..steps {
        let axis = geometry.axis(step);
        let (to, taps) = (geometry.to[geometry.axes[step]], geometry.taps[step]);
        let (table, row);
        (table, places) = places.split_at(to);
        (row, weights) = weights.split_at(to * taps);
        let pass = Tables { places: table, weights: row };
        let from_len = axis.outer * axis.len * axis.inner;
        let to_len = axis.outer * to * axis.inner;
        let from = x.take().unwrap_or(&read[..from_len.min(read.len())]);
        if step + 1 == steps {
            return resize_axis(from, y, pass, axis);
        }
        resize_axis(from, &mut write[..to_len], pass, axis);
        core::mem::swap(&mut read, &mut write);
    }
    if let Some(x) = x {
        y.copy_from_slice(x);
    }
}

/// Resizes one axis.
fn resize_axis<W: Float>(x: &[W], y: &mut [W], tables: Tables<'_, W>, axis: Axis) {
    if tables.keep_all(axis.len) {
        return y.copy_from_slice(x);
    }
    match (W::as_f32(x), W::as_f32(tables.weights), W::as_f32_mut(y)) {
        (Some(x), Some(weights), Some(y)) => {
            let tables = Tables { places: tables.places, weights };
            dispatch(Lines { x, y, tables, axis });
        }
        _ => lines(x, y, tables, axis, |x, inner, weights, y| {
            for (i, y) in y.iter_mut().enumerate() {
                let terms = weights.iter().enumerate();
                *y = terms.fold(W::ZERO, |sum, (k, &w)| sum.add(w.mul(x[k * inner + i])));
            }
        }),
    }
}

impl<W: Float> Tables<'_, W> {
    fn taps(&self) -> usize {
        self.weights.len().checked_div(self.places.len()).unwrap_or(0)
    }

    /// Returns whether the axis keeps its size, so that the pass is a copy. A copy preserves NaN
    /// and infinities, which a multiplication would spread.
    fn keep_all(&self, len: usize) -> bool {
        let taps = self.taps();
        let kept = |(j, (&place, row)): (usize, (&i64, &[W]))| {
            usize::try_from(place).ok().and_then(|place| j.checked_sub(place)).is_some_and(|at| {
                row.iter().enumerate().all(|(k, &w)| w == if k == at { W::ONE } else { W::ZERO })
                    && at < row.len()
            })
        };
        self.places.len() == len
            && taps > 0
            && self.places.iter().zip(self.weights.chunks_exact(taps)).enumerate().all(kept)
    }
}

/// Calls `sum` for each output of each line with its input elements, their stride, their weights,
/// and the destination.
#[inline(always)]
fn lines<W: Float>(
    x: &[W],
    y: &mut [W],
    tables: Tables<'_, W>,
    axis: Axis,
    sum: impl Fn(&[W], usize, &[W], &mut [W]),
) {
    let Axis { outer: _, len, inner } = axis;
    let (to, taps) = (tables.places.len(), tables.taps());
    for (x, y) in x.chunks_exact(len * inner).zip(y.chunks_exact_mut(to * inner)) {
        let rows = tables.weights.chunks_exact(taps);
        for ((&place, weights), y) in tables.places.iter().zip(rows).zip(y.chunks_exact_mut(inner))
        {
            let first = usize::try_from(place).unwrap_or(0);
            sum(&x[first * inner..][..taps * inner], inner, weights, y);
        }
    }
}

/// All lines of a plane along an axis.
struct Lines<'a> {
    x: &'a [f32],
    y: &'a mut [f32],
    tables: Tables<'a, f32>,
    axis: Axis,
}

impl WithSimd for Lines<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Lines { x, y, tables, axis } = self;
        match (axis.inner, tables.taps()) {
            (1, 2) => neighbors(x, y, tables, axis),
            (1, _) => lines(
                x,
                y,
                tables,
                axis,
                #[inline(always)]
                |x, _, weights, y| y[0] = x.iter().zip(weights).map(|(x, w)| x * w).sum(),
            ),
            (_, 2) => lines(
                x,
                y,
                tables,
                axis,
                #[inline(always)]
                |x, inner, weights, y| {
                    let (a, b) = x.split_at(inner);
                    blend(s, a, b, [weights[0], weights[1]], y);
                },
            ),
            _ => lines(
                x,
                y,
                tables,
                axis,
                #[inline(always)]
                |x, inner, weights, y| sum_rows(s, x, inner, weights, y),
            ),
        }
    }
}

/// Sums two neighbors with two weights along a contiguous axis.
#[inline(always)]
fn neighbors(x: &[f32], y: &mut [f32], tables: Tables<'_, f32>, axis: Axis) {
    let (weights, _) = tables.weights.as_chunks::<2>();
    for (x, y) in x.chunks_exact(axis.len).zip(y.chunks_exact_mut(tables.places.len())) {
        for ((&place, [v, w]), y) in tables.places.iter().zip(weights).zip(y) {
            let first = usize::try_from(place).unwrap_or(0);
            if let [a, b] = x[first..first + 2] {
                *y = a * v + b * w;
            }
        }
    }
}

/// `y = v · a + w · b`.
#[inline(always)]
fn blend<S: Simd>(s: S, a: &[f32], b: &[f32], [v, w]: [f32; 2], y: &mut [f32]) {
    let (v, w) = (s.splat(v), s.splat(w));
    let n = S::LANES;
    let whole = y.len() / n * n;
    for i in (0..whole).step_by(n) {
        let sum = s.mul_add(s.load(&a[i..]), v, s.mul(s.load(&b[i..]), w));
        s.store(sum, &mut y[i..]);
    }
    if whole < y.len() {
        let sum = s.mul_add(s.load_head(&a[whole..]), v, s.mul(s.load_head(&b[whole..]), w));
        s.store_head(sum, &mut y[whole..]);
    }
}

/// Sums rows of `inner` elements with a weight each.
#[inline(always)]
fn sum_rows<S: Simd>(s: S, x: &[f32], inner: usize, weights: &[f32], y: &mut [f32]) {
    let n = S::LANES;
    let whole = y.len() / n * n;
    for i in (0..whole).step_by(n) {
        let mut sum = s.splat(0.0);
        for (row, &w) in x.chunks_exact(inner).zip(weights) {
            sum = s.mul_add(s.load(&row[i..]), s.splat(w), sum);
        }
        s.store(sum, &mut y[i..]);
    }
    if whole < y.len() {
        let mut sum = s.splat(0.0);
        for (row, &w) in x.chunks_exact(inner).zip(weights) {
            sum = s.mul_add(s.load_head(&row[whole..]), s.splat(w), sum);
        }
        s.store_head(sum, &mut y[whole..]);
    }
}

/// Sets the outputs whose index in the table is outside.
fn set_outside<T: Elem>(places: &[i64], value: Option<&[T]>, y: &mut [T], geometry: Resample<'_>) {
    let Resample { to, axes, inner, .. } = geometry;
    let mut places = places;
    for &axis in axes {
        let table;
        (table, places) = places.split_at(to[axis]);
        let inner = to[axis + 1..].iter().product::<usize>() * inner;
        if inner == 0 || !table.contains(&OUTSIDE) {
            continue;
        }
        let value = value.map_or_else(T::default, |value| value[0].clone());
        for (line, &place) in y.chunks_exact_mut(inner).zip(table.iter().cycle()) {
            if place == OUTSIDE {
                line.fill(value.clone());
            }
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::super::{Coordinates, Curve, Filter, Line, filter_table};
    use super::*;
    use std::{vec, vec::Vec};

    /// Compares tables of two axes with sums computed element by element.
    fn check<T: Float>(
        planes: usize,
        from: [usize; 2],
        to: [usize; 2],
        inner: usize,
        curve: Curve,
    ) {
        let filter = Filter { curve, a: -0.5, antialias: to[0] < from[0], exclude_outside: true };
        let axes = [1, 0];
        let taps =
            axes.map(|axis| filter.taps(to[axis] as f64 / from[axis] as f64).min(from[axis]));
        let (mut places, mut weights, mut dense) = (Vec::new(), Vec::new(), Vec::new());
        for (axis, taps) in axes.into_iter().zip(taps) {
            let line = Line {
                from: from[axis],
                to: to[axis],
                at: 0,
                axes: 1,
                coordinates: Coordinates::HalfPixel,
            };
            let (mut table, mut rows) = (vec![0; to[axis]], vec![T::Wide::ZERO; to[axis] * taps]);
            filter_table(None, None, &mut table, &mut rows, line, filter);
            let mut matrix = vec![vec![0.0; from[axis]]; to[axis]];
            for j in 0..to[axis] {
                for k in 0..taps {
                    matrix[j][table[j] as usize + k] += rows[j * taps + k].to_f64();
                }
            }
            dense.push(matrix);
            places.extend(table);
            weights.extend(rows);
        }
        let x: Vec<T> = (0..planes * from[0] * from[1] * inner)
            .map(|i| T::from_f64(((i * 37) % 101) as f64 / 50.0 - 1.0))
            .collect();
        let mut y = vec![T::ZERO; planes * to[0] * to[1] * inner];
        let mut scratch =
            vec![T::Wide::ZERO; (from[0] * from[1] + to[0] * to[1] + from[0] * to[1]) * inner];
        let direct = T::as_f32(&x).is_some();
        let used = if direct { from[0] * to[1] * inner } else { scratch.len() };
        let geometry = Resample { planes, from: &from, to: &to, axes: &axes, taps: &taps, inner };
        interpolate(&x, &places, &weights, None, &mut y, &mut scratch[..used], geometry);
        for (n, &y) in y.iter().enumerate() {
            let (i, rest) = (n % inner, n / inner);
            let (c, r, p) = (rest % to[1], rest / to[1] % to[0], rest / to[1] / to[0]);
            let mut sum = 0.0;
            for a in 0..from[0] {
                for b in 0..from[1] {
                    let at = ((p * from[0] + a) * from[1] + b) * inner + i;
                    sum += dense[1][r][a] * dense[0][c][b] * x[at].to_f64();
                }
            }
            let error = if direct { 1e-6 } else { 4e-3 };
            assert!((sum - y.to_f64()).abs() < error, "{n}: {sum} {}", y.to_f64());
        }
    }

    fn check_all() {
        for curve in [Curve::Linear, Curve::Cubic] {
            check::<f32>(2, [3, 5], [7, 8], 1, curve);
            check::<f32>(1, [3, 5], [7, 8], 19, curve);
            check::<f32>(2, [9, 17], [4, 40], 1, curve);
            check::<f64>(1, [9, 4], [4, 2], 3, curve);
            #[cfg(feature = "half")]
            check::<half::f16>(2, [2, 1], [3, 3], 2, curve);
        }
    }

    #[test]
    fn axes_are_resized_one_after_another() {
        check_all();
        crate::simd::each_level(|_| check_all());
    }

    #[test]
    fn integers_are_rounded_and_positions_outside_get_the_value() {
        let geometry =
            Resample { planes: 1, from: &[2], to: &[4], axes: &[0], taps: &[2], inner: 1 };
        let (places, weights) = ([0, 0, -1, 0], [1.0, 0.0, 0.5, 0.5, 0.0, 0.0, -1.0, 1.0]);
        let (mut y, mut scratch) = ([0u8; 4], [0.0; 6]);
        interpolate_whole(&[4, 7], &places, &weights, Some(&[9]), &mut y, &mut scratch, geometry);
        assert_eq!(y, [4, 6, 9, 3]);
        interpolate_whole(&[7, 4], &places, &weights, None, &mut y, &mut scratch, geometry);
        assert_eq!(y, [7, 6, 0, 0]);
    }

    #[test]
    fn an_unchanged_axis_keeps_nan() {
        let geometry =
            Resample { planes: 1, from: &[3], to: &[3], axes: &[0], taps: &[2], inner: 1 };
        let (places, weights) = ([0, 1, 1], [1.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
        let mut y = [0.0f32; 3];
        interpolate(&[1.0, f32::NAN, 3.0], &places, &weights, None, &mut y, &mut [], geometry);
        assert!(y[0] == 1.0 && y[1].is_nan() && y[2] == 3.0);
    }
}
