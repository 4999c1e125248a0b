//! Compares pooling with its definition.

use super::*;
use crate::kernels::blocked::{BLOCK, Channels, block, unblock};
use crate::kernels::matmul::tests::numbers;
use crate::simd::each_level;
use std::{vec, vec::Vec};

/// Returns the elements of each window: their indices in the image, `None` in the padding.
fn windows(geometry: &Pool<'_>) -> Vec<Vec<Option<usize>>> {
    let rank = geometry.size.len();
    let unravel = |mut at: usize, sizes: &[usize]| {
        let mut index = vec![0; rank];
        for axis in (0..rank).rev() {
            index[axis] = at % sizes[axis];
            at /= sizes[axis];
        }
        index
    };
    let taps: usize = geometry.kernel.iter().product();
    let places: usize = geometry.out.iter().product();
    let element = |place: usize, tap: usize| {
        let (place, tap) = (unravel(place, geometry.out), unravel(tap, geometry.kernel));
        let (mut padded, mut at) = (true, Some(0));
        for axis in 0..rank {
            let size = geometry.size[axis];
            let x = place[axis] * geometry.strides[axis] + tap[axis] * geometry.dilations[axis];
            padded &= x < geometry.pads[axis] + size + geometry.ends[axis];
            let x = x.checked_sub(geometry.pads[axis]).filter(|&x| x < size);
            at = at.zip(x).map(|(at, x)| at * size + x);
        }
        padded.then_some(at)
    };
    (0..places).map(|place| (0..taps).filter_map(|tap| element(place, tap)).collect()).collect()
}

fn check(geometry: Pool<'_>) {
    let size: usize = geometry.size.iter().product();
    let x: Vec<f32> = numbers(geometry.planes * size, 7).iter().map(|&x| x as f32).collect();
    let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
    let windows = windows(&geometry);
    let truth = |f: &dyn Fn(&[f64], usize) -> f64| -> Vec<f64> {
        let planes = wide.chunks(size);
        let of = |plane: &[f64], window: &Vec<Option<usize>>| {
            let inside: Vec<f64> = window.iter().flatten().map(|&at| plane[at]).collect();
            f(&inside, window.len())
        };
        planes.flat_map(|plane| windows.iter().map(move |window| of(plane, window))).collect()
    };
    let max = truth(&|x, _| x.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    let mean = truth(&|x, _| x.iter().sum::<f64>() / x.len() as f64);
    let padded = truth(&|x, n| x.iter().sum::<f64>() / n as f64);
    let norm = truth(&|x, _| x.iter().map(|x| x.abs().powi(3)).sum::<f64>().cbrt());
    let near = |y: &[f64], truth: &[f64], kernel: &str| {
        let near =
            |(y, t): (&f64, &f64)| y == t || (y.is_nan() && t.is_nan()) || (y - t).abs() < 2e-6;
        assert!(y.iter().zip(truth).all(near), "{geometry:?}, {kernel}: {y:?}, not {truth:?}");
    };
    each_level(|_| {
        near(&run(&x, max.len(), |x, y| max_pool(x, y, geometry)), &max, "max");
        near(&run(&x, max.len(), |x, y| average_pool(x, y, geometry)), &mean, "mean");
        near(&run(&x, max.len(), |x, y| average_pool_padded(x, y, geometry)), &padded, "padded");
    });
    near(&run(&x, max.len(), |x, y| small_max_pool(x, y, geometry)), &max, "small max");
    near(&run(&x, max.len(), |x, y| small_average_pool(x, y, geometry)), &mean, "small mean");
    let small = run(&x, max.len(), |x, y| small_average_pool_padded(x, y, geometry));
    near(&small, &padded, "small padded");
    if geometry.taps().is_whole() {
        near(&run(&x, max.len(), small_means), &mean, "means");
    }
    near(&run(&x, max.len(), |x, y| lp_pool(x, y, geometry, 3)), &norm, "norm");
    near(&run(&wide, max.len(), |x, y| max_pool(x, y, geometry)), &max, "max of f64");
    near(&run(&wide, max.len(), |x, y| average_pool(x, y, geometry)), &mean, "mean of f64");
}

fn run<T: Number>(x: &[T], n: usize, f: impl Fn(&[T], &mut [T])) -> Vec<f64> {
    let mut y = vec![T::ONE; n];
    f(x, &mut y);
    y.into_iter().map(T::to_f64).collect()
}

#[test]
fn windows_of_every_kind() {
    for size in 1..7usize {
        for kernel in 1..5 {
            for stride in 1..4 {
                for dilation in 1..3 {
                    for (pad, end) in [(0, 0), (1, 0), (0, 2), (1, 1)] {
                        let reach = (kernel - 1) * dilation;
                        let padded = size + pad + end;
                        if reach < padded {
                            // One output more than fits, as with `ceil_mode`.
                            let out = (padded - reach - 1).div_ceil(stride) + 1;
                            check(Pool {
                                planes: 2,
                                size: &[size, 5],
                                out: &[out, 4],
                                kernel: &[kernel, 2],
                                strides: &[stride, 1],
                                dilations: &[dilation, 1],
                                pads: &[pad, 0],
                                ends: &[end, 0],
                            });
                            check(Pool {
                                planes: 2,
                                size: &[3, size],
                                out: &[2, out],
                                kernel: &[2, kernel],
                                strides: &[1, stride],
                                dilations: &[1, dilation],
                                pads: &[0, pad],
                                ends: &[0, end],
                            });
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn windows_of_three_and_five_rows_and_columns() {
    for width in [4, 5, 7, 8, 13, 15, 16, 17, 19, 33, 57] {
        for kernel in [3, 5] {
            for stride in [1, 2] {
                let out = |size: usize| (size + kernel / 2 * 2 - kernel) / stride + 1;
                check(Pool {
                    planes: 3,
                    size: &[9, width],
                    out: &[out(9), out(width)],
                    kernel: &[kernel; 2],
                    strides: &[stride; 2],
                    dilations: &[1; 2],
                    pads: &[kernel / 2; 2],
                    ends: &[kernel / 2; 2],
                });
            }
        }
    }
}

#[test]
fn pooling_supports_zero_one_and_three_axes() {
    for (size, kernel, stride) in
        [(200, 3, 2), (150, 2, 1), (701, 2, 2), (700, 300, 3), (90, 90, 1)]
    {
        check(Pool {
            planes: 3,
            size: &[size],
            out: &[(size - kernel) / stride + 1],
            kernel: &[kernel],
            strides: &[stride],
            dilations: &[1],
            pads: &[0],
            ends: &[0],
        });
    }
    let cube = Pool {
        planes: 2,
        size: &[4, 5, 6],
        out: &[2, 3, 5],
        kernel: &[3, 3, 2],
        strides: &[2, 2, 1],
        dilations: &[1, 1, 1],
        pads: &[1, 1, 0],
        ends: &[0, 1, 0],
    };
    check(cube);
    check(Pool { size: &[4, 5, 6], out: &[1; 3], kernel: &[4, 5, 6], pads: &[0; 3], ..cube });
    let none = Pool { size: &[], out: &[], kernel: &[], strides: &[], ..cube };
    check(Pool { dilations: &[], pads: &[], ends: &[], ..none });
}

#[test]
fn an_output_without_elements_is_left_alone() {
    let pool = Pool {
        planes: 2,
        size: &[5, 4],
        out: &[0, 2],
        kernel: &[3, 2],
        strides: &[2, 1],
        dilations: &[1, 1],
        pads: &[0, 0],
        ends: &[0, 0],
    };
    check(pool);
    check(Pool { out: &[2, 0], ..pool });
    check(Pool { planes: 0, out: &[2, 2], ..pool });
    let cube = Pool { size: &[3, 5, 4], kernel: &[1, 3, 2], strides: &[1; 3], ..pool };
    for out in [[0, 2, 2], [2, 0, 2], [2, 2, 0]] {
        check(Pool { out: &out, dilations: &[1; 3], pads: &[0; 3], ends: &[0; 3], ..cube });
    }
}

#[test]
fn a_window_of_an_image_without_elements_has_a_result() {
    let pool = Pool {
        planes: 3,
        size: &[4, 0],
        out: &[1, 1],
        kernel: &[4, 0],
        strides: &[1, 1],
        dilations: &[1, 1],
        pads: &[0, 0],
        ends: &[0, 0],
    };
    each_level(|_| {
        let [mut largest, mut mean] = [[7.0_f32; 3]; 2];
        max_pool(&[], &mut largest, pool);
        average_pool(&[], &mut mean, pool);
        assert_eq!(largest, [f32::NEG_INFINITY; 3]);
        assert!(mean.iter().all(|y| y.is_nan()), "{mean:?}");
        let [mut largest, mut mean] = [[7.0; 3 * BLOCK]; 2];
        max_pool_nchwc(&[], &mut largest, pool);
        average_pool_nchwc(&[], &mut mean, pool);
        assert_eq!(largest, [f32::NEG_INFINITY; 3 * BLOCK]);
        assert!(mean.iter().all(|y| y.is_nan()), "{mean:?}");
    });
}

#[test]
fn not_a_number_is_the_largest() {
    let geometry = Pool {
        planes: 1,
        size: &[40],
        out: &[38],
        kernel: &[3],
        strides: &[1],
        dilations: &[1],
        pads: &[0],
        ends: &[0],
    };
    let mut x = [1.0f32; 40];
    x[20] = f32::NAN;
    each_level(|level| {
        let mut y = [0.0; 38];
        max_pool(&x, &mut y, geometry);
        let nans: Vec<usize> = (0..38).filter(|&i| y[i].is_nan()).collect();
        assert_eq!(nans, [18, 19, 20], "{level:?}");
    });
}

#[test]
fn not_a_number_is_the_largest_of_either_row_and_at_either_end() {
    for (kernel, pad) in [(3, 1), (2, 0)] {
        let geometry = Pool {
            planes: 1,
            size: &[2, 40],
            out: &[1, 20],
            kernel: &[2, kernel],
            strides: &[1, 2],
            dilations: &[1, 1],
            pads: &[0, pad],
            ends: &[0, 0],
        };
        for at in 0..80 {
            let mut x = [1.0f32; 80];
            x[at] = f32::NAN;
            each_level(|level| {
                let mut y = [0.0; 20];
                max_pool(&x, &mut y, geometry);
                for (place, y) in y.into_iter().enumerate() {
                    let sees = (2 * place..2 * place + kernel).contains(&(at % 40 + pad));
                    let is_right = if sees { y.is_nan() } else { y == 1.0 };
                    assert!(is_right, "{level:?} {kernel} {at} {place}: {y}");
                }
            });
        }
    }
}

#[test]
fn rows_longer_than_the_scratch_memory() {
    for (size, kernel, stride, dilation, pad) in [
        (300, 3, 2, 1, 1),
        (700, 5, 1, 1, 2),
        (400, 4, 2, 3, 5),
        (400, 3, 1, 130, 130),
        (600, 25, 2, 20, 3),
        (600, 24, 1, 22, 0),
    ] {
        let out = (size + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1;
        check(Pool {
            planes: 2,
            size: &[5, size],
            out: &[5, out],
            kernel: &[2, kernel],
            strides: &[1, stride],
            dilations: &[1, dilation],
            pads: &[1, pad],
            ends: &[0, pad],
        });
    }
}

#[test]
fn indices_count_in_either_order() {
    let geometry = Pool {
        planes: 2,
        size: &[3, 4],
        out: &[2, 2],
        kernel: &[2, 2],
        strides: &[1, 2],
        dilations: &[1, 1],
        pads: &[0, 0],
        ends: &[0, 0],
    };
    let x: Vec<i8> =
        vec![1, 5, 2, 2, 7, 0, 2, 1, 3, 3, 3, 9, -1, -2, -3, -4, -5, -1, -1, 0, 0, 0, 0, 0];
    let (mut y, mut indices) = ([0; 8], [0; 8]);
    max_pool_indices(&x, &mut y, &mut indices, geometry, &[4, 1]);
    assert_eq!(y, [7, 2, 7, 9, -1, 0, 0, 0]);
    assert_eq!(indices, [4, 2, 4, 11, 12, 19, 20, 19]);
    max_pool_indices(&x, &mut y, &mut indices, geometry, &[1, 3]);
    assert_eq!(indices, [1, 6, 1, 11, 12, 22, 14, 22]);
}

/// Compares pooling in NCHWc and its gradient with those in NCHW.
fn check_blocked(channels: usize, geometry: Pool<'_>) {
    let x = check_blocked_windows(channels, geometry);
    check_blocked_gradient(&x, channels, geometry);
}

/// Compares pooling in NCHWc with pooling in NCHW. Returns the image in NCHW.
fn check_blocked_windows(channels: usize, geometry: Pool<'_>) -> Vec<f32> {
    let [pixels, places] = [geometry.size, geometry.out].map(|sizes| sizes.iter().product());
    let of = |pixels| Channels { batch: geometry.planes, channels, pixels };
    let count = geometry.planes * channels;
    let x: Vec<f32> = numbers(count * pixels, 7).iter().map(|&x| x as f32).collect();
    let blocks = geometry.planes * channels.div_ceil(BLOCK);
    let mut nchwc = vec![f32::NAN; blocks * pixels * BLOCK];
    block(&x, &mut nchwc, of(pixels));
    type Kernel = fn(&[f32], &mut [f32], Pool<'_>);
    let kernels: [[Kernel; 2]; 3] = [
        [max_pool, max_pool_nchwc],
        [average_pool, average_pool_nchwc],
        [average_pool_padded, average_pool_padded_nchwc],
    ];
    each_level(|level| {
        for [plain, blocked] in kernels {
            let mut truth = vec![f32::NAN; count * places];
            plain(&x, &mut truth, Pool { planes: count, ..geometry });
            let mut y = vec![f32::NAN; blocks * places * BLOCK];
            blocked(&nchwc, &mut y, Pool { planes: blocks, ..geometry });
            let mut out = vec![f32::NAN; count * places];
            unblock(&y, &mut out, of(places));
            for (&y, &truth) in out.iter().zip(&truth) {
                let is_right = (y - truth).abs() <= 1e-5 || y.total_cmp(&truth).is_eq();
                assert!(is_right, "{level:?} {geometry:?}: {y} is not {truth}");
            }
        }
    });
    x
}

/// Compares gradients in NCHWc with those in NCHW.
fn check_blocked_gradient(x: &[f32], channels: usize, geometry: Pool<'_>) {
    let [pixels, places] = [geometry.size, geometry.out].map(|sizes| sizes.iter().product());
    let of = |pixels| Channels { batch: geometry.planes, channels, pixels };
    let (count, blocks) = (geometry.planes * channels, geometry.planes * channels.div_ceil(BLOCK));
    // Few values, so that many are equal, and a NaN.
    let mut x: Vec<f32> = x.iter().map(|x| (x * 2.0).round()).collect();
    x[pixels / 2] = f32::NAN;
    let dy: Vec<f32> = numbers(count * places, 9).iter().map(|&x| x as f32).collect();
    let mut truth = vec![f32::NAN; x.len()];
    max_pool_grad(&x, &dy, &mut truth, Pool { planes: count, ..geometry });
    let nchwc = |x: &[f32], of: Channels| {
        let mut y = vec![f32::NAN; blocks * of.pixels * BLOCK];
        block(x, &mut y, of);
        y
    };
    let (x, dy) = (nchwc(&x, of(pixels)), nchwc(&dy, of(places)));
    each_level(|level| {
        let (mut dx, mut found) = (vec![f32::NAN; x.len()], vec![f32::NAN; truth.len()]);
        max_pool_grad_nchwc(&x, &dy, &mut dx, Pool { planes: blocks, ..geometry });
        unblock(&dx, &mut found, of(pixels));
        assert_eq!(found, truth, "{level:?} {geometry:?}");
    });
}

#[test]
fn nchwc_matches_nchw() {
    let geometry = Pool {
        planes: 2,
        size: &[7, 9],
        out: &[4, 5],
        kernel: &[3, 3],
        strides: &[2, 2],
        dilations: &[1, 1],
        pads: &[1, 1],
        ends: &[1, 1],
    };
    check_blocked(19, geometry);
    check_blocked(16, Pool { out: &[3, 3], dilations: &[2, 3], pads: &[1, 1], ..geometry });
    check_blocked(
        32,
        Pool { out: &[1, 1], kernel: &[7, 9], pads: &[0, 0], ends: &[0, 0], ..geometry },
    );
}

#[test]
fn windows_of_blocks_begin_behind_the_image() {
    // More outputs than fit in the memory of folded columns, the last of them in the padding.
    let geometry = Pool {
        planes: 1,
        size: &[3, 50],
        out: &[2, 63],
        kernel: &[2, 5],
        strides: &[1, 1],
        dilations: &[1, 1],
        pads: &[0, 5],
        ends: &[0, 12],
    };
    check_blocked_windows(16, geometry);
    let strides = &[1, 2];
    check_blocked_windows(16, Pool { out: &[2, 40], kernel: &[2, 7], strides, ..geometry });
}

/// Compares the gradient with the indices of the maxima.
fn check_gradient(geometry: Pool<'_>) {
    let size: usize = geometry.size.iter().product();
    let places: usize = geometry.planes * geometry.out.iter().product::<usize>();
    // Few values, so that many are equal, and a NaN.
    let mut x: Vec<f64> =
        numbers(geometry.planes * size, 5).iter().map(|x| (x * 2.0).round()).collect();
    x[size / 2] = f64::NAN;
    let dy = numbers(places, 9);
    let strides: Vec<usize> =
        (0..geometry.size.len()).map(|axis| geometry.size[axis + 1..].iter().product()).collect();
    let (mut y, mut indices) = (vec![0.0; places], vec![0; places]);
    max_pool_indices(&x, &mut y, &mut indices, geometry, &strides);
    let mut truth = vec![0.0; x.len()];
    indices.iter().zip(&dy).for_each(|(&at, dy)| truth[at as usize] += dy);
    let mut dx = vec![1.0; x.len()];
    max_pool_grad(&x, &dy, &mut dx, geometry);
    assert_eq!(dx, truth, "{geometry:?}");
}

#[test]
fn the_gradient_of_a_maximum_goes_to_its_first_occurrence() {
    for (kernel, strides, dilations, pads) in [
        ([2, 2], [2, 2], [1, 1], [0, 0]),
        ([3, 2], [1, 2], [1, 1], [1, 0]),
        ([2, 3], [2, 1], [2, 1], [0, 1]),
    ] {
        let size = [6, 70];
        let out: [usize; 2] = core::array::from_fn(|i| {
            (size[i] + 2 * pads[i] - (kernel[i] - 1) * dilations[i] - 1) / strides[i] + 1
        });
        let (kernel, strides, dilations) = (&kernel, &strides, &dilations);
        let (size, out, pads, ends) = (&size, &out, &pads, &pads);
        check_gradient(Pool { planes: 2, size, out, kernel, strides, dilations, pads, ends });
    }
}
