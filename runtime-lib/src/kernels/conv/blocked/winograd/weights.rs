//! The Winograd transform of weights, and their layout.

use super::Tile;
use crate::Number;
use crate::kernels::conv::{Conv, product};
use crate::loops::geometry::BLOCK;
use crate::simd::{Simd, WithSimd, dispatch};

impl Tile {
    /// Returns the transform of a window, along one axis.
    const fn window(self) -> &'static [[f64; 3]] {
        match self {
            Tile::Two => &WINDOW_OF_TWO,
            Tile::Four => &WINDOW_OF_FOUR,
            Tile::TwoApart => &WINDOW_APART,
        }
    }
}

const WINDOW_OF_TWO: [[f64; 3]; 4] =
    [[1.0, 0.0, 0.0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0.0, 0.0, 1.0]];

const WINDOW_OF_FOUR: [[f64; 3]; 6] = [
    [1.0 / 4.0, 0.0, 0.0],
    [-1.0 / 6.0, -1.0 / 6.0, -1.0 / 6.0],
    [-1.0 / 6.0, 1.0 / 6.0, -1.0 / 6.0],
    [1.0 / 24.0, 1.0 / 12.0, 1.0 / 6.0],
    [1.0 / 24.0, -1.0 / 12.0, 1.0 / 6.0],
    [0.0, 0.0, 1.0],
];

const WINDOW_APART: [[f64; 3]; 5] =
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]];

/// Returns the number of elements that [`pack_winograd`] writes, in all parts.
pub const fn packed_winograd_len(geometry: &Conv<'_>, tile: Tile) -> usize {
    tile.numbers() * each_number(geometry)
}

/// Returns the number of elements that [`pack_winograd`] writes in one part.
pub fn packed_winograd_part_len(geometry: &Conv<'_>, tile: Tile, part: usize) -> usize {
    tile.numbers_of(part).count() * each_number(geometry)
}

/// Returns the elements of one number of all transformed windows.
const fn each_number(geometry: &Conv<'_>) -> usize {
    depth_of(geometry) * geometry.channels * geometry.filters.next_multiple_of(BLOCK)
}

/// Returns the size of the windows along the first of three axes, 1 if there are two.
const fn depth_of(geometry: &Conv<'_>) -> usize {
    product(geometry.kernel) / 9
}

/// Packs one of the [parts](Tile::parts) of the transformed weights: `[filters / 16, channels / 16,
/// depth of the window, numbers of the part, channel of the 16, 16]`.
pub fn pack_winograd<T: Number>(
    w: &[T],
    y: &mut [T],
    geometry: &Conv<'_>,
    (tile, part): (Tile, usize),
) {
    let [down, across] = tile.along_axes(part).map(|of| &tile.window()[of]);
    let (channels, numbers) = (geometry.channels, down.len() * across.len());
    let depth = depth_of(geometry);
    let unit = BLOCK * depth * numbers;
    for (block, y) in y.chunks_mut((channels * unit).max(1)).enumerate() {
        for (first, y) in (0..).step_by(BLOCK).zip(y.chunks_mut(BLOCK * unit)) {
            let together = y.len() / (depth * numbers);
            for (tap, y) in y.chunks_mut(together).enumerate() {
                let (plane, number) = (tap / numbers, tap % numbers);
                let (down, across) = (down[number / across.len()], across[number % across.len()]);
                for (at, y) in y.iter_mut().enumerate() {
                    let (filter, channel) = (block * BLOCK + at % BLOCK, first + at / BLOCK);
                    let window = (filter * channels + channel) * depth + plane;
                    let window = w.get(window * 9..).unwrap_or(&[]);
                    *y = T::from_f64(sum_of_window([down, across], window));
                }
            }
        }
    }
}

/// Returns one number of a transformed window.
fn sum_of_window<T: Number>([down, across]: [[f64; 3]; 2], window: &[T]) -> f64 {
    let terms = window.iter().take(9).enumerate();
    terms.fold(0.0, |sum, (i, w)| sum + down[i / 3] * across[i % 3] * w.to_f64())
}

/// Packs all parts of the weights of `winograd_nchwc` for windows of two axes, at run time.
#[inline(never)]
pub fn pack_winograd_nchwc(w: &[f32], y: &mut [f32], geometry: Conv<'_>) {
    dispatch(PackWinograd { w, y, channels: geometry.channels });
}

struct PackWinograd<'a> {
    w: &'a [f32],
    y: &'a mut [f32],
    channels: usize,
}

impl WithSimd for PackWinograd<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let PackWinograd { w, y, channels } = self;
        let part = y.len() / Tile::Four.numbers();
        for (row, first) in (0..part).step_by(BLOCK).enumerate() {
            let mut windows = [[[0.0; BLOCK]; 3]; 3];
            for lane in 0..BLOCK {
                let filter = row / channels * BLOCK + lane;
                let window = w.get((filter * channels + row % channels) * 9..).unwrap_or(&[]);
                for (to, &w) in windows.as_flattened_mut().iter_mut().zip(window) {
                    to[lane] = f64::from(w);
                }
            }
            for (i, down) in WINDOW_OF_FOUR.iter().enumerate() {
                let mut columns = [[0.0; BLOCK]; 3];
                for (down, row) in down.iter().zip(&windows) {
                    add_scaled(columns.as_flattened_mut(), *down, row.as_flattened());
                }
                for (j, across) in WINDOW_OF_FOUR.iter().enumerate() {
                    let mut number = [0.0; BLOCK];
                    for (across, column) in across.iter().zip(&columns) {
                        add_scaled(&mut number, *across, column);
                    }
                    let to = &mut y[(i * Tile::Four.span() + j) * part + first..][..BLOCK];
                    to.iter_mut().zip(number).for_each(|(to, x)| *to = f32::from_f64(x));
                }
            }
        }
    }
}

/// Adds `x · by`.
#[inline(always)]
fn add_scaled(to: &mut [f64], by: f64, x: &[f64]) {
    to.iter_mut().zip(x).for_each(|(to, x)| *to += by * x);
}
