//! Element types with vectors at every SIMD level.

use crate::loops::epilogue::{Activation, cap_rows};
use crate::simd::{self, MAX_LANES, Simd};
use crate::threads::Own;
use crate::{Float, Number};

/// The number of vectors of a row that are summed together.
pub(super) const SUMMED: usize = 4;

/// `f32` or `f64`, with its vectors.
pub(crate) trait SimdElem: Float<Wide = Self> + Own {
    /// A vector at the level `S`.
    type Vector<S: Simd>: Copy;
    /// The number of lanes of `f32` that one element takes.
    const WIDTH: usize;

    /// Returns `x` in every lane.
    fn splat<S: Simd>(s: S, x: Self) -> Self::Vector<S>;
    /// Returns `a · b + c`.
    fn mul_add<S: Simd>(
        s: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;
    /// Returns `min(max(x, low), high)`, and NaN for NaN.
    fn clamp<S: Simd>(s: S, x: Self::Vector<S>, low: Self, high: Self) -> Self::Vector<S>;
    /// Returns the sum of all lanes.
    fn sum<S: Simd>(s: S, x: Self::Vector<S>) -> Self;
    /// Loads a vector from any address.
    ///
    /// # Safety
    ///
    /// A vector's elements can be read from `from`.
    unsafe fn load_at<S: Simd>(s: S, from: *const Self) -> Self::Vector<S>;
    /// Stores a vector at any address.
    ///
    /// # Safety
    ///
    /// A vector's elements can be written to `to`.
    unsafe fn store_at<S: Simd>(s: S, x: Self::Vector<S>, to: *mut Self);
    /// Loads a slice that may be shorter than a vector, filled with zeros.
    fn load_head<S: Simd>(s: S, from: &[Self]) -> Self::Vector<S>;
    /// Stores the first lanes, up to the length of the slice.
    fn store_head<S: Simd>(s: S, x: Self::Vector<S>, to: &mut [Self]);
    /// Loads the last `n` elements of a slice, fewer than a vector. The other lanes are zeros.
    fn load_last<S: Simd>(s: S, from: &[Self], n: usize) -> Self::Vector<S>;
    /// Returns the sums of the lanes of each vector, row by row. The first vectors of the result
    /// hold them, and at least one is full.
    fn sum_rows<S: Simd, const R: usize>(
        s: S,
        rows: &[[Self::Vector<S>; SUMMED]; R],
    ) -> [Self::Vector<S>; SUMMED];

    /// Returns the products of `x` and a panel, without vectors.
    fn panel_sums(x: &[Self], panel: &[Self]) -> [Self; MAX_LANES];

    /// Returns the bits, as an offset.
    fn offset(self) -> usize;
    /// Returns the element whose bits are `offset`.
    fn of_offset(offset: usize) -> Self;
    /// Computes `y[i] = f(y[i])` for `rows` by `cols` elements with the row stride `stride`.
    fn activate(f: Activation, y: &mut [Self], rows: usize, cols: usize, stride: usize);
    /// Clamps `rows` by `cols` elements with the row stride `stride`.
    fn clamp_rows(bounds: (Self, Self), y: &mut [Self], rows: usize, cols: usize, stride: usize);
}

/// Returns the sums of neighboring lanes, those of `a` first.
#[inline(always)]
fn add_neighbors<S: Simd>(s: S, a: S::F32, b: S::F32) -> S::F32 {
    let [evens, odds] = s.evens_and_odds(a, b);
    s.add(evens, odds)
}

impl SimdElem for f32 {
    type Vector<S: Simd> = S::F32;
    const WIDTH: usize = 1;

    #[inline(always)]
    fn splat<S: Simd>(s: S, x: f32) -> S::F32 {
        s.splat(x)
    }

    #[inline(always)]
    fn mul_add<S: Simd>(s: S, a: S::F32, b: S::F32, c: S::F32) -> S::F32 {
        s.mul_add(a, b, c)
    }

    #[inline(always)]
    fn clamp<S: Simd>(s: S, x: S::F32, low: f32, high: f32) -> S::F32 {
        s.min(s.splat(high), s.max(s.splat(low), x))
    }

    #[inline(always)]
    fn sum<S: Simd>(s: S, x: S::F32) -> f32 {
        s.sum(x)
    }

    #[inline(always)]
    unsafe fn load_at<S: Simd>(s: S, from: *const f32) -> S::F32 {
        // SAFETY: by this function's contract, a vector can be read.
        unsafe { s.load_at(from) }
    }

    #[inline(always)]
    unsafe fn store_at<S: Simd>(s: S, x: S::F32, to: *mut f32) {
        // SAFETY: by this function's contract, a vector can be written.
        unsafe { s.store_at(x, to) }
    }

    #[inline(always)]
    fn load_head<S: Simd>(s: S, from: &[f32]) -> S::F32 {
        s.load_head(from)
    }

    #[inline(always)]
    fn store_head<S: Simd>(s: S, x: S::F32, to: &mut [f32]) {
        s.store_head(x, to);
    }

    #[inline(always)]
    fn load_last<S: Simd>(s: S, from: &[f32], n: usize) -> S::F32 {
        const ALL: f32 = f32::from_bits(u32::MAX);
        const MASKS: [f32; 2 * MAX_LANES] = {
            let mut masks = [0.0; 2 * MAX_LANES];
            let mut i = MAX_LANES;
            while i < 2 * MAX_LANES {
                masks[i] = ALL;
                i += 1;
            }
            masks
        };
        if from.len() < S::LANES {
            return s.load_head(&from[from.len() - n..]);
        }
        // A vector that ends with the slice, without the lanes before the last `n` elements.
        let mask = s.load(&MASKS[MAX_LANES - S::LANES + n..]);
        let all = s.load(&from[from.len() - S::LANES..]);
        s.with_bits(s.and_i32(s.bits(all), s.bits(mask)))
    }

    #[inline(always)]
    fn sum_rows<S: Simd, const R: usize>(s: S, rows: &[[S::F32; SUMMED]; R]) -> [S::F32; SUMMED] {
        let mut sums = [s.splat(0.0); SUMMED];
        for (sum, &[a, b, c, d]) in sums.iter_mut().zip(rows) {
            *sum = add_neighbors(s, add_neighbors(s, a, b), add_neighbors(s, c, d));
        }
        // Four lanes are sums of a row; those of several rows fill a wider vector.
        let (mut count, mut width) = (R, SUMMED);
        while width < S::LANES && count > 1 {
            count /= 2;
            width *= 2;
            for i in 0..count {
                sums[i] = add_neighbors(s, sums[2 * i], sums[2 * i + 1]);
            }
        }
        sums
    }

    #[inline(always)]
    fn panel_sums(x: &[f32], panel: &[f32]) -> [f32; MAX_LANES] {
        let mut sums = [0.0; MAX_LANES];
        assert!(panel.len() >= x.len() * MAX_LANES);
        // SAFETY: as asserted, the panel has `MAX_LANES` weights for each element of `x`.
        unsafe {
            simd::scalar_tile::add_products(&mut sums, panel.as_ptr(), x.as_ptr(), &[0], x.len())
        };
        sums
    }

    #[inline(always)]
    fn offset(self) -> usize {
        self.to_bits() as usize
    }

    #[inline(always)]
    fn of_offset(offset: usize) -> f32 {
        f32::from_bits(offset as u32)
    }

    fn activate(f: Activation, y: &mut [f32], rows: usize, cols: usize, stride: usize) {
        f.apply_rows(y, rows, cols, stride);
    }

    fn clamp_rows((min, max): (f32, f32), y: &mut [f32], rows: usize, cols: usize, stride: usize) {
        cap_rows((min, max), y, rows, cols, stride);
    }
}

impl SimdElem for f64 {
    type Vector<S: Simd> = S::F64;
    const WIDTH: usize = 2;

    #[inline(always)]
    fn splat<S: Simd>(s: S, x: f64) -> S::F64 {
        s.splat_f64(x)
    }

    #[inline(always)]
    fn mul_add<S: Simd>(s: S, a: S::F64, b: S::F64, c: S::F64) -> S::F64 {
        s.mul_add_f64(a, b, c)
    }

    #[inline(always)]
    fn clamp<S: Simd>(s: S, x: S::F64, low: f64, high: f64) -> S::F64 {
        s.min_f64(s.splat_f64(high), s.max_f64(s.splat_f64(low), x))
    }

    #[inline(always)]
    fn sum<S: Simd>(s: S, x: S::F64) -> f64 {
        s.sum_f64(x)
    }

    #[inline(always)]
    unsafe fn load_at<S: Simd>(s: S, from: *const f64) -> S::F64 {
        // SAFETY: by this function's contract, a vector can be read.
        unsafe { s.load_f64_at(from) }
    }

    #[inline(always)]
    unsafe fn store_at<S: Simd>(s: S, x: S::F64, to: *mut f64) {
        // SAFETY: by this function's contract, a vector can be written.
        unsafe { s.store_f64_at(x, to) }
    }

    #[inline(always)]
    fn load_head<S: Simd>(s: S, from: &[f64]) -> S::F64 {
        s.load_head_f64(from)
    }

    #[inline(always)]
    fn store_head<S: Simd>(s: S, x: S::F64, to: &mut [f64]) {
        s.store_head_f64(x, to);
    }

    #[inline(always)]
    fn load_last<S: Simd>(s: S, from: &[f64], n: usize) -> S::F64 {
        s.load_head_f64(&from[from.len() - n..])
    }

    #[inline(always)]
    fn sum_rows<S: Simd, const R: usize>(s: S, rows: &[[S::F64; SUMMED]; R]) -> [S::F64; SUMMED] {
        let mut numbers = [0.0; MAX_LANES];
        for (row, to) in rows.iter().zip(numbers.chunks_exact_mut(SUMMED)) {
            for (&sum, to) in row.iter().zip(to) {
                *to = s.sum_f64(sum);
            }
        }
        let mut sums = [s.splat_f64(0.0); SUMMED];
        for (sum, numbers) in sums.iter_mut().zip(numbers.chunks_exact(S::LANES / 2)) {
            *sum = s.load_head_f64(numbers);
        }
        sums
    }

    #[inline(always)]
    fn panel_sums(x: &[f64], panel: &[f64]) -> [f64; MAX_LANES] {
        let mut sums = [0.0; MAX_LANES];
        for (&x, row) in x.iter().zip(panel.chunks_exact(MAX_LANES / 2)) {
            sums.iter_mut().zip(row).for_each(|(sum, w)| *sum += x * w);
        }
        sums
    }

    #[inline(always)]
    fn offset(self) -> usize {
        self.to_bits() as usize
    }

    #[inline(always)]
    fn of_offset(offset: usize) -> f64 {
        f64::from_bits(offset as u64)
    }

    fn activate(f: Activation, y: &mut [f64], rows: usize, cols: usize, stride: usize) {
        if f != Activation::Identity && cols > 0 {
            let rows = y.chunks_mut(stride).take(rows);
            rows.for_each(|row| row[..cols].iter_mut().for_each(|y| *y = f.of(*y)));
        }
    }

    fn clamp_rows((min, max): (f64, f64), y: &mut [f64], rows: usize, cols: usize, stride: usize) {
        for row in y.chunks_mut(stride.max(1)).take(rows) {
            for y in &mut row[..cols] {
                *y = Number::minimum(Number::maximum(*y, min), max);
            }
        }
    }
}
