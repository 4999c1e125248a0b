//! Copies of the input: planes of several depths, and blocks that would share sets of the cache.

use super::*;
use crate::loops::window_axis::Axis;

#[test]
fn windows_over_three_axes_match() {
    let (one, none) = ([1; 3], [0; 3]);
    for sizes in [
        [[4, 5, 7], [3, 3, 3], one, one, one],
        [[4, 5, 7], [3, 3, 3], [2, 1, 2], one, one],
        [[5, 4, 9], [3, 1, 2], [2, 2, 1], [2, 1, 3], [2, 0, 1]],
        [[3, 4, 5], [2, 2, 2], one, one, none],
        [[3, 1, 20], [3, 1, 3], one, one, [1, 0, 1]],
        [[2, 32, 32], [1, 3, 3], one, one, [0, 1, 1]],
        [[6, 4, 4], [3, 1, 1], [2, 1, 1], one, none],
        [[2, 3, 4], one, one, one, none],
        [[4, 3, 4], one, [3, 1, 2], one, none],
        // Windows of which no tap reads the image along the depth.
        [[1, 3, 4], [2, 3, 3], one, [3, 1, 1], [2, 1, 1]],
    ] {
        with_three_axes(sizes, [2, 1, 20, 24], |geometry| check(&NCHWC, geometry));
        with_three_axes(sizes, [2, 1, 96, 16], |geometry| check(&DEEP, geometry));
        with_three_axes(sizes, [2, 1, 3, 33], |geometry| check(&TO_BLOCKS, geometry));
        with_three_axes(sizes, [2, 3, 5, 7], |geometry| check(&GROUPS, geometry));
    }
}

/// The blocks of such images are a multiple of a page apart: some are copied, and copies of a
/// multiple of a page get a gap.
#[test]
fn images_whose_sizes_are_powers_of_two_match() {
    let pointwise = Over { kernel: [1, 1], pads: [0, 0], ends: [0, 0], ..SQUARE };
    for size in [[32, 32], [32, 64], [64, 64]] {
        Over { size, ..pointwise }.check(&DEEP, 2, 1, 90, 17);
    }
    let sizes = [[16, 64], [14, 62], [30, 30]];
    for over in sizes.map(|size| Over { size, ..SQUARE }) {
        over.check(&DEEP, 1, 1, 90, 16);
        Over { strides: [2, 2], ..over }.check(&NCHWC, 1, 1, 33, 16);
    }
    let plane = |size: usize, channels: usize| {
        let axis = |size| Axis { size, out: size, kernel: 1, stride: 1, dilation: 1, pad: 0 };
        Plane::over([axis(size), axis(size)], channels, Unit::of(BLOCK), LARGE)
    };
    assert_eq!(plane(64, 64).scratch(), 0, "four blocks in one set are read in place");
    assert_eq!(plane(56, 512).scratch(), 0, "32 blocks are in 16 sets");
    let copied = plane(64, 80);
    let band = copied.band(copied.scratch());
    assert!(band.copied && !band.block.is_multiple_of(1024), "{}", band.block);
}
