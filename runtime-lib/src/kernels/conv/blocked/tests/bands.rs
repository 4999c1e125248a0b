//! Copies of the input: planes of several depths, and blocks that would share sets of the cache.

use super::*;
use crate::loops::window_axis::Axis;

#[test]
fn windows_over_three_axes_match() {
    type Sizes = [usize; 3];
    let check_all = |size: Sizes, kernel: Sizes, strides: Sizes, dilations: Sizes, pads: Sizes| {
        let out = [0, 1, 2].map(|i| {
            let reach = (kernel[i] - 1) * dilations[i];
            (size[i] + 2 * pads[i] - reach - 1) / strides[i] + 1
        });
        let ways =
            [(&NCHWC, 1, 20, 24), (&DEEP, 1, 96, 16), (&TO_BLOCKS, 1, 3, 33), (&GROUPS, 3, 5, 7)];
        for (way, groups, channels, filters) in ways {
            let geometry = Conv {
                batch: 2,
                groups,
                channels,
                filters,
                size: &size,
                out: &out,
                kernel: &kernel,
                strides: &strides,
                dilations: &dilations,
                pads: &pads,
                weights: WeightLayout::Packed,
            };
            check(way, geometry);
        }
    };
    let (one, none) = ([1; 3], [0; 3]);
    check_all([4, 5, 7], [3, 3, 3], one, one, one);
    check_all([4, 5, 7], [3, 3, 3], [2, 1, 2], one, one);
    check_all([5, 4, 9], [3, 1, 2], [2, 2, 1], [2, 1, 3], [2, 0, 1]);
    check_all([3, 4, 5], [2, 2, 2], one, one, none);
    check_all([3, 1, 20], [3, 1, 3], one, one, [1, 0, 1]);
    check_all([2, 32, 32], [1, 3, 3], one, one, [0, 1, 1]);
    check_all([6, 4, 4], [3, 1, 1], [2, 1, 1], one, none);
    check_all([2, 3, 4], one, one, one, none);
    check_all([4, 3, 4], one, [3, 1, 2], one, none);
    // Windows of which no tap reads the image along the depth.
    check_all([1, 3, 4], [2, 3, 3], one, [3, 1, 1], [2, 1, 1]);
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
