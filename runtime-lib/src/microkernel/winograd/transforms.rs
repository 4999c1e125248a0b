//! The Winograd transforms of inputs and accumulators.

use super::Tiling;
use crate::simd::Simd;

/// The transforms of a tile, along one axis and along both.
pub(crate) trait Transforms<const TILE: usize, const SPAN: usize> {
    /// The number of accumulators along an axis.
    const SUMS: usize;

    /// Transforms the input along one axis.
    fn transform<S: Simd>(s: S, x: [S::F32; SPAN]) -> [S::F32; SPAN];

    /// Transforms a tile along both axes: all rows, then all columns.
    ///
    /// # Safety
    ///
    /// A vector of every number can be written to `to`, with the stride `apart`.
    #[expect(
        clippy::needless_range_loop,
        reason = "sums stay in registers where constants index them"
    )]
    #[inline(always)]
    unsafe fn transform_tile<S: Simd>(
        s: S,
        row: impl Fn(usize) -> [S::F32; SPAN],
        to: *mut f32,
        apart: usize,
    ) {
        let mut across = [[s.splat(0.0); SPAN]; SPAN];
        for i in 0..SPAN {
            across[i] = Self::transform(s, row(i));
        }
        for j in 0..SPAN {
            let mut column = [s.splat(0.0); SPAN];
            for i in 0..SPAN {
                column[i] = across[i][j];
            }
            let column = Self::transform(s, column);
            for i in 0..SPAN {
                // SAFETY: by this function's contract, the number can be written.
                unsafe { s.store_at(column[i], to.add((i * SPAN + j) * apart)) };
            }
        }
    }

    /// Transforms accumulators to outputs along both axes, and adds `bias` to each output by adding
    /// it to the one accumulator that contributes once to all of them.
    ///
    /// # Safety
    ///
    /// A vector of every accumulator can be read from `sums`, with the stride `apart`.
    unsafe fn transform_tile_back<S: Simd>(
        s: S,
        sums: *const f32,
        apart: usize,
        bias: S::F32,
    ) -> [[S::F32; TILE]; TILE];
}

/// Loads the vectors of a row.
///
/// # Safety
///
/// `SPAN` vectors can be read from `first`, with the stride `apart`.
#[inline(always)]
pub(super) unsafe fn load_row<S: Simd, const SPAN: usize>(
    s: S,
    first: *const f32,
    apart: usize,
) -> [S::F32; SPAN] {
    let mut x = [s.splat(0.0); SPAN];
    for (j, x) in x.iter_mut().enumerate() {
        // SAFETY: by this function's contract, the vector can be read.
        *x = unsafe { s.load_at(first.add(j * apart)) };
    }
    x
}

impl Transforms<4, 6> for Tiling<4, 6> {
    const SUMS: usize = 6;

    #[inline(always)]
    fn transform<S: Simd>(s: S, x: [S::F32; 6]) -> [S::F32; 6] {
        let [even, odd] = [times(s, x[2], -4.0, x[4]), times(s, x[1], -4.0, x[3])];
        let [far, near] = [s.sub(x[4], x[2]), s.sub(x[3], x[1])];
        [
            times(s, s.sub(x[0], x[2]), 4.0, far),
            s.add(even, odd),
            s.sub(even, odd),
            times(s, near, 2.0, far),
            times(s, near, -2.0, far),
            times(s, near, -4.0, s.sub(x[5], x[3])),
        ]
    }

    /// Adds each transformed row to the results that need it before it reads the next one, so that
    /// all values fit in registers.
    #[inline(always)]
    unsafe fn transform_tile<S: Simd>(
        s: S,
        row: impl Fn(usize) -> [S::F32; 6],
        to: *mut f32,
        apart: usize,
    ) {
        // SAFETY: by this function's contract, every number can be written.
        unsafe {
            let row = |i: usize| Self::transform(s, row(i));
            let store = |x: S::F32, i: usize, j: usize| s.store_at(x, to.add((i * 6 + j) * apart));
            let (second, fourth) = (row(2), row(4));
            let mut far = second;
            let mut even = second;
            for j in 0..6 {
                far[j] = s.sub(fourth[j], second[j]);
                even[j] = times(s, second[j], -4.0, fourth[j]);
            }
            let x = row(0);
            for j in 0..6 {
                store(times(s, s.sub(x[j], second[j]), 4.0, far[j]), 0, j);
            }
            let (first, third) = (row(1), row(3));
            let mut near = first;
            for j in 0..6 {
                near[j] = s.sub(third[j], first[j]);
                let odd = times(s, first[j], -4.0, third[j]);
                store(s.add(even[j], odd), 1, j);
                store(s.sub(even[j], odd), 2, j);
                store(times(s, near[j], 2.0, far[j]), 3, j);
                store(times(s, near[j], -2.0, far[j]), 4, j);
            }
            let x = row(5);
            for j in 0..6 {
                store(times(s, near[j], -4.0, s.sub(x[j], third[j])), 5, j);
            }
        }
    }

    #[inline(always)]
    unsafe fn transform_tile_back<S: Simd>(
        s: S,
        sums: *const f32,
        apart: usize,
        bias: S::F32,
    ) -> [[S::F32; 4]; 4] {
        // SAFETY: by this function's contract, every accumulator can be read.
        let row = |i: usize| unsafe { load_row::<S, 6>(s, sums.add(i * 6 * apart), apart) };
        let mut first = row(1);
        first[1] = s.add(first[1], bias);
        let mut rows = [[s.splat(0.0); 4]; 4];
        let [near, across] =
            sum_and_difference(s, Self::transform_back(s, first), Self::transform_back(s, row(2)));
        let [far, beyond] =
            sum_and_difference(s, Self::transform_back(s, row(3)), Self::transform_back(s, row(4)));
        for j in 0..4 {
            rows[1][j] = times(s, beyond[j], 2.0, across[j]);
            rows[2][j] = times(s, far[j], 4.0, near[j]);
            rows[3][j] = times(s, beyond[j], 8.0, across[j]);
            rows[0][j] = s.add(near[j], far[j]);
        }
        let x = Self::transform_back(s, row(0));
        for j in 0..4 {
            rows[0][j] = s.add(x[j], rows[0][j]);
        }
        let x = Self::transform_back(s, row(5));
        for j in 0..4 {
            rows[3][j] = s.add(x[j], rows[3][j]);
        }
        rows
    }
}

impl Tiling<4, 6> {
    /// Transforms accumulators along one axis.
    #[inline(always)]
    fn transform_back<S: Simd>(s: S, x: [S::F32; 6]) -> [S::F32; 4] {
        let [near, far] = [s.add(x[1], x[2]), s.add(x[3], x[4])];
        let [across, beyond] = [s.sub(x[1], x[2]), s.sub(x[3], x[4])];
        [
            s.add(s.add(x[0], near), far),
            times(s, beyond, 2.0, across),
            times(s, far, 4.0, near),
            s.add(times(s, beyond, 8.0, across), x[5]),
        ]
    }
}

impl Transforms<2, 4> for Tiling<2, 4> {
    const SUMS: usize = 4;

    #[inline(always)]
    fn transform<S: Simd>(s: S, x: [S::F32; 4]) -> [S::F32; 4] {
        [s.sub(x[0], x[2]), s.add(x[1], x[2]), s.sub(x[2], x[1]), s.sub(x[1], x[3])]
    }

    #[inline(always)]
    unsafe fn transform_tile_back<S: Simd>(
        s: S,
        sums: *const f32,
        apart: usize,
        bias: S::F32,
    ) -> [[S::F32; 2]; 2] {
        // SAFETY: by this function's contract, every accumulator can be read.
        let row = |i: usize| unsafe { load_row::<S, 4>(s, sums.add(i * 4 * apart), apart) };
        let mut first = row(1);
        first[1] = s.add(first[1], bias);
        let (first, second) = (Self::transform_back(s, first), Self::transform_back(s, row(2)));
        let (x, last) = (Self::transform_back(s, row(0)), Self::transform_back(s, row(3)));
        let mut rows = [x, last];
        for j in 0..2 {
            rows[0][j] = s.add(s.add(x[j], first[j]), second[j]);
            rows[1][j] = s.sub(s.sub(first[j], second[j]), last[j]);
        }
        rows
    }
}

impl Tiling<2, 4> {
    /// Transforms accumulators along one axis.
    #[inline(always)]
    fn transform_back<S: Simd>(s: S, x: [S::F32; 4]) -> [S::F32; 2] {
        [s.add(s.add(x[0], x[1]), x[2]), s.sub(s.sub(x[1], x[2]), x[3])]
    }
}

/// The transform of windows with a stride of 2. Their outer taps read every other input, like
/// windows of two taps with a stride of 1: two outputs take three products instead of four. The
/// middle tap reads the inputs between, each for one output; its product is added to the
/// accumulator that only this output uses.
impl Transforms<2, 5> for Tiling<2, 5> {
    const SUMS: usize = 3;

    #[inline(always)]
    fn transform<S: Simd>(s: S, x: [S::F32; 5]) -> [S::F32; 5] {
        [s.sub(x[0], x[2]), x[1], x[2], s.sub(x[4], x[2]), x[3]]
    }

    #[inline(always)]
    unsafe fn transform_tile_back<S: Simd>(
        s: S,
        sums: *const f32,
        apart: usize,
        bias: S::F32,
    ) -> [[S::F32; 2]; 2] {
        // SAFETY: by this function's contract, every accumulator can be read.
        let row = |i: usize| unsafe { load_row::<S, 3>(s, sums.add(i * 3 * apart), apart) };
        let back = |x: [S::F32; 3]| [s.add(x[0], x[1]), s.add(x[1], x[2])];
        let mut middle = row(1);
        middle[1] = s.add(middle[1], bias);
        let (first, middle, last) = (back(row(0)), back(middle), back(row(2)));
        let add = |x: [S::F32; 2], y: [S::F32; 2]| [s.add(x[0], y[0]), s.add(x[1], y[1])];
        [add(first, middle), add(middle, last)]
    }
}

/// Returns `[x + y, x - y]`, element by element.
#[inline(always)]
fn sum_and_difference<S: Simd, const N: usize>(
    s: S,
    mut x: [S::F32; N],
    y: [S::F32; N],
) -> [[S::F32; N]; 2] {
    let mut difference = x;
    for j in 0..N {
        difference[j] = s.sub(x[j], y[j]);
        x[j] = s.add(x[j], y[j]);
    }
    [x, difference]
}

/// Returns `x · by + and`.
#[inline(always)]
fn times<S: Simd>(s: S, x: S::F32, by: f32, and: S::F32) -> S::F32 {
    s.mul_add(x, s.splat(by), and)
}
