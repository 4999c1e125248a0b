//! Loops along an axis: over rows, over columns a vector at a time, and over short rows as columns.

use crate::loops::geometry::Axis;
use crate::simd::{HAS_VECTORS, MAX_LANES, Simd, WithSimd, dispatch};
use crate::threads;

/// The cost of an exponential, in elements read or written.
const EXP: usize = 4;
/// From this number of short rows on, processing them as columns is faster.
const SEVERAL_ROWS: usize = 4;

/// Applies `way` to all lanes along the axis, on several threads if that pays.
#[inline(always)]
pub(super) fn share_lanes(y: &mut [f32], geometry: Axis, way: impl Way + Sync) {
    let (whole, cost) = (geometry.len * geometry.inner, EXP * y.len());
    let Axis { len, inner, .. } = geometry;
    if HAS_VECTORS && inner == 1 && len <= MAX_LANES && y.len() >= SEVERAL_ROWS * len {
        return threads::share(y, whole, cost, |_, y| dispatch(ShortRows { y, len, way }));
    }
    threads::share(y, whole, cost, |_, y| dispatch(Lanes { y, geometry, way }));
}

/// An operation along the axis: on a row, or on a vector of columns.
pub(super) trait Way: Copy {
    /// A row of at least a vector.
    fn row<S: Simd>(self, s: S, y: &mut [f32]);
    /// A row of at most a vector, filled with -∞.
    fn vector<S: Simd>(self, s: S, y: S::F32) -> S::F32;
    fn columns<S: Simd>(self, s: S, y: Columns<'_>);
}

/// All lanes of a tensor along an axis.
struct Lanes<'a, W> {
    y: &'a mut [f32],
    geometry: Axis,
    way: W,
}

impl<W: Way> WithSimd for Lanes<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Axis { outer: _, len, inner } = self.geometry;
        if self.y.is_empty() {
            return;
        }
        for y in self.y.chunks_exact_mut(len * inner) {
            if inner == 1 {
                if len > S::LANES {
                    self.way.row(s, y);
                } else {
                    let row = self.way.vector(s, s.load_head_or(y, f32::NEG_INFINITY));
                    s.store_head(row, y);
                }
                continue;
            }
            for first in (0..inner).step_by(S::LANES) {
                let width = S::LANES.min(inner - first);
                self.way.columns(s, Columns { y: &mut y[first..], len, inner, width });
            }
        }
    }
}

/// Rows of at most [`MAX_LANES`] elements, transposed to columns of one vector each.
struct ShortRows<'a, W> {
    y: &'a mut [f32],
    len: usize,
    way: W,
}

impl<W: Way> WithSimd for ShortRows<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let len = self.len;
        let mut turned = [0.0; MAX_LANES * MAX_LANES];
        let turned = &mut turned[..len * S::LANES];
        for rows in self.y.chunks_mut((len * S::LANES).max(1)) {
            for (i, row) in rows.chunks_exact(len).enumerate() {
                turned[i..].iter_mut().step_by(S::LANES).zip(row).for_each(|(to, &x)| *to = x);
            }
            let columns = Columns { y: &mut *turned, len, inner: S::LANES, width: S::LANES };
            self.way.columns(s, columns);
            for (i, row) in rows.chunks_exact_mut(len).enumerate() {
                row.iter_mut().zip(turned[i..].iter().step_by(S::LANES)).for_each(|(x, &y)| *x = y);
            }
        }
    }
}

/// Adjacent columns, at most as many as a vector holds.
pub(super) struct Columns<'a> {
    y: &'a mut [f32],
    pub len: usize,
    inner: usize,
    width: usize,
}

impl Columns<'_> {
    #[inline(always)]
    pub fn load<S: Simd>(&self, s: S, i: usize) -> S::F32 {
        let row = &self.y[i * self.inner..][..self.width];
        if self.width == S::LANES { s.load(row) } else { s.load_head(row) }
    }

    #[inline(always)]
    pub fn store<S: Simd>(&mut self, s: S, i: usize, x: S::F32) {
        let row = &mut self.y[i * self.inner..][..self.width];
        if self.width == S::LANES { s.store(x, row) } else { s.store_head(x, row) }
    }

    #[inline(always)]
    pub fn max<S: Simd>(&self, s: S) -> S::F32 {
        (0..self.len).fold(
            s.splat(f32::NEG_INFINITY),
            #[inline(always)]
            |max, i| s.max(max, self.load(s, i)),
        )
    }
}
