//! Tests of grids and of samples.

use super::*;
use crate::kernels::matmul::tests::numbers;
use std::{vec, vec::Vec};

fn images<'a>(sizes: &'a [usize], points: usize, padding: Padding) -> Images<'a> {
    Images { batch: 1, channels: 1, sizes, points, align_corners: false, padding }
}

/// Maps coordinates to pixels of an image of three pixels.
fn line(at: [f64; 6], padding: Padding, align_corners: bool) -> [f64; 6] {
    let images = Images { align_corners, ..images(&[3], 6, padding) };
    let grid = at.map(|x| if align_corners { x - 1.0 } else { (2.0 * x + 1.0) / 3.0 - 1.0 });
    let (mut y, mut elements, mut weights) = ([9.0; 6], [0; 2 * BLOCK], [0.0; 2 * BLOCK]);
    grid_linear(&[1.0, 3.0, 7.0], &grid, &mut y, &mut elements, &mut weights, images);
    y.map(|y| Float::round(y * 1e6) / 1e6)
}

#[test]
fn samples_outside_follow_the_padding_mode() {
    let at = [0.5, 1.25, -0.25, 2.75, -3.0, 4.0];
    assert_eq!(line(at, Padding::Zeros, false), [2.0, 4.0, 0.75, 1.75, 0.0, 0.0]);
    assert_eq!(line(at, Padding::Border, false), [2.0, 4.0, 1.0, 7.0, 1.0, 7.0]);
    assert_eq!(line(at, Padding::Reflection, false), [2.0, 4.0, 1.0, 7.0, 7.0, 3.0]);
    assert_eq!(line(at, Padding::Reflection, true), [2.0, 4.0, 1.5, 4.0, 3.0, 1.0]);
}

#[test]
fn linear_data_is_interpolated_exactly() {
    let x: [f32; 32] = core::array::from_fn(|i| (i % 8 * 3 + i / 8) as f32);
    let images = images(&[4, 8], 1, Padding::Border);
    let mut y = [0.0; 1];
    let grid = [(2.0 * 3.5 + 1.0) / 8.0 - 1.0, (2.0 * 1.5 + 1.0) / 4.0 - 1.0];
    let (mut elements, mut weights) = ([0; 16 * BLOCK], [0.0; 16 * BLOCK]);
    grid_cubic(&x, &grid, &mut y, &mut elements, &mut weights, images);
    assert!((y[0] - (3.5 * 3.0 + 1.5)).abs() < 1e-5, "{}", y[0]);
    let whole = x.map(|x| x as u8);
    let (mut y, mut weights) = ([0; 1], [0.0; 16 * BLOCK]);
    grid_linear_whole(
        &whole,
        &grid.map(f64::from),
        &mut y,
        &mut elements[..4 * BLOCK],
        &mut weights[..4 * BLOCK],
        images,
    );
    assert_eq!(y, [12]);
}

#[test]
fn cubic_samples_beyond_the_border_follow_pytorch() {
    let images = images(&[1, 3], 3, Padding::Border);
    let x = [1.0, 3.0, 7.0];
    // The columns -0.75, 2.75 and 6, which PyTorch's `grid_sample` samples as these values.
    let grid = [-1.166_666_7, 0.0, 1.166_666_7, 0.0, 3.333_333_3, 0.0];
    let (mut y, mut elements, mut weights) = ([9.0; 3], [0; 16 * BLOCK], [0.0; 16 * BLOCK]);
    grid_cubic(&x, &grid, &mut y, &mut elements, &mut weights, images);
    let found = y.map(|y: f64| Float::round(y * 1e4) / 1e4);
    assert_eq!(found, [0.9297, 7.1406, 7.0]);
}

#[test]
fn the_nearest_element_may_be_of_any_type() {
    let images = Images { channels: 2, ..images(&[2, 2], 3, Padding::Zeros) };
    let mut places = [9; 3];
    grid_places(&[-0.4f32, 0.9, 0.5, -0.5, f32::NAN, 0.0], &mut places, images);
    assert_eq!(places, [2, 1, -1]);
    let mut y = [true; 6];
    let x = [false, true, true, false, true, false, false, true];
    grid_nearest(&x, &places, &mut y, images);
    assert_eq!(y, [true, true, false, false, false, false]);
}

#[test]
fn distant_positions_and_images_of_one_element_are_valid() {
    for padding in [Padding::Zeros, Padding::Border, Padding::Reflection] {
        for align_corners in [false, true] {
            let images = Images { align_corners, ..images(&[1], 4, padding) };
            let (mut places, grid) = ([9; 4], [1e30f32, f32::NEG_INFINITY, f32::NAN, 0.0]);
            grid_places(&grid, &mut places, images);
            assert!(places.iter().all(|&place| place <= 0) && places[3] == 0);
        }
    }
}

#[test]
fn a_grid_is_moved_by_its_matrix() {
    let mut grid = [0.0f32; 12];
    affine_grid(&[1.0, 0.0, 0.0, 0.0, 1.0, 0.5], &mut grid, &[2, 3]);
    let x = 2.0 / 3.0;
    assert_eq!(grid, [-x, 0.0, 0.0, 0.0, x, 0.0, -x, 1.0, 0.0, 1.0, x, 1.0]);
    let mut grid = [0.0f64; 4];
    affine_grid_aligned(&[2.0, 1.0, 0.25, 0.0, 1.0, 0.0], &mut grid, &[1, 2]);
    assert_eq!(grid, [-2.75, -1.0, 1.25, -1.0]);
}

/// The pixels around a point along one axis, `None` for zeros, and their weights.
fn pixels(size: usize, p: f64, images: Images<'_>, cubic: bool) -> Vec<(Option<usize>, f64)> {
    let (len, border) = (size as f64, images.padding == Padding::Border);
    let (start, end) = if images.align_corners { (0.0, len - 1.0) } else { (-0.5, len - 0.5) };
    let reflect = |mut x: f64| {
        while !(start..=end).contains(&x) {
            x = if x < start { 2.0 * start - x } else { 2.0 * end - x };
        }
        x
    };
    let mut x = match images.align_corners {
        true => (p + 1.0) / 2.0 * (len - 1.0),
        false => ((p + 1.0) * len - 1.0) / 2.0,
    };
    x = match images.padding {
        Padding::Reflection => reflect(x),
        Padding::Border if !cubic => x.clamp(0.0, len - 1.0),
        _ => x,
    };
    let before = libm::floor(x);
    let weight = |tap: f64| {
        let far = (x - tap).abs();
        match (cubic, far <= 1.0) {
            (false, _) => 1.0 - far,
            (true, true) => 1.25 * far.powi(3) - 2.25 * far.powi(2) + 1.0,
            (true, false) => -0.75 * (far.powi(3) - 5.0 * far.powi(2) + 8.0 * far - 4.0),
        }
    };
    let taps = if cubic { -1..3 } else { 0..2 };
    taps.map(|tap| {
        let tap = before + f64::from(tap);
        let inside = match images.padding {
            Padding::Reflection => reflect(tap),
            _ if border => tap.clamp(0.0, len - 1.0),
            _ => tap,
        };
        ((0.0..len).contains(&inside).then_some(inside as usize), weight(tap))
    })
    .collect()
}

/// The weighted sum of the pixels around a point, from the axes `of` on.
fn sampled(x: &[f64], point: &[f64], of: &[usize], images: Images<'_>, cubic: bool) -> f64 {
    let [size, inner @ ..] = of else { return x[0] };
    let (stride, p) = (inner.iter().product::<usize>(), point[inner.len()]);
    let terms = pixels(*size, p, images, cubic).into_iter().map(|(at, weight)| {
        let at = at.map(|at| sampled(&x[at * stride..], point, inner, images, cubic));
        weight * at.unwrap_or(0.0)
    });
    terms.sum()
}

#[test]
fn samples_are_sums_of_the_pixels_around_a_point() {
    let axes: [&[usize]; 4] = [&[5], &[4, 7], &[1, 9], &[3, 4, 5]];
    for sizes in axes {
        for padding in [Padding::Zeros, Padding::Border, Padding::Reflection] {
            for align_corners in [false, true] {
                let (batch, channels, points) = (2, 3, BLOCK + 7);
                let images = Images { batch, channels, sizes, points, align_corners, padding };
                // A reflected point of one pixel with aligned corners is the pixel.
                if align_corners && sizes.contains(&1) {
                    continue;
                }
                let (size, axes) = (sizes.iter().product::<usize>(), sizes.len());
                let x = numbers(batch * channels * size, 1);
                let grid: Vec<f64> =
                    numbers(batch * points * axes, 2).iter().map(|x| 1.7 * x).collect();
                for cubic in [false, true] {
                    let count = if cubic { 4usize } else { 2 }.pow(axes as u32) * BLOCK;
                    let (mut elements, mut weights) = (vec![0; count], vec![0.0; count]);
                    let mut y = vec![9.0; batch * channels * points];
                    let sample = if cubic { grid_cubic } else { grid_linear };
                    sample(&x, &grid, &mut y, &mut elements, &mut weights, images);
                    for (i, &y) in y.iter().enumerate() {
                        let (plane, point) = (i / points, i % points);
                        let point = &grid[(plane / channels * points + point) * axes..][..axes];
                        let truth = sampled(&x[plane * size..], point, sizes, images, cubic);
                        assert!((y - truth).abs() < 1e-9, "{images:?} {i}: {y}, not {truth}");
                    }
                }
            }
        }
    }
}
