//! Compares Winograd with direct convolutions of 3 × 3 windows.

use super::*;

const WINOGRAD: Way = Way {
    unit: BLOCK,
    run: winograd_nchwc,
    scratch: winograd_nchwc_scratch,
    packed: |geometry| packed_winograd_len(geometry, Tile::Four),
    is_shared: true,
    pack: |w, y, geometry| pack_tiles(w, y, geometry, Tile::Four),
};
const WINOGRAD_APART: Way = Way {
    packed: |geometry| packed_winograd_len(geometry, Tile::TwoApart),
    pack: |w, y, geometry| pack_tiles(w, y, geometry, Tile::TwoApart),
    ..WINOGRAD
};
const TILES_OF_TWO: Way = Way {
    unit: BLOCK,
    run: |operands, y, scratch, geometry, f| {
        FusedActivation::within_all(f, y, |y, f| {
            winograd_two(operands, y, scratch, &geometry, f);
        });
    },
    scratch: winograd_two_scratch,
    packed: |geometry| packed_winograd_len(geometry, Tile::Two),
    is_shared: true,
    pack: |w, y, geometry| pack_tiles(w, y, geometry, Tile::Two),
};

fn pack_tiles(w: &[f32], mut y: &mut [f32], geometry: &Conv<'_>, tile: Tile) {
    for part in 0..tile.parts() {
        let each = packed_winograd_part_len(geometry, tile, part);
        let y = y.split_off_mut(..each).expect("`y` has `packed_winograd_len` elements");
        pack_winograd(w, y, geometry, (tile, part));
    }
    assert!(y.is_empty());
}

#[test]
fn winograd_equals_direct_convolution() {
    check_tiles(&WINOGRAD, 1);
    check_tiles(&TILES_OF_TWO, 1);
    check_tiles(&WINOGRAD_APART, 2);
}

/// Checks windows with this stride.
fn check_tiles(way: &Way, stride: usize) {
    let square = Over { strides: [stride; 2], ..SQUARE };
    for over in windows().into_iter().filter(|over| over.kernel == [3, 3]) {
        if over.strides == [1, 1] && over.dilations == [1, 1] {
            let over = Over { strides: [stride; 2], ..over };
            for (batch, channels, filters) in [(1, 16, 16), (2, 20, 24), (1, 3, 33)] {
                over.check(way, batch, 1, channels, filters);
            }
        }
    }
    let wide = Over { size: [21, 50], pads: [0, 2], ends: [2, 0], ..square };
    wide.check(way, 1, 1, 80, 90);
    // A few tiles, with the accumulators of many blocks at once.
    for size in [[3, 4], [4, 7], [2, 9], [6, 7]] {
        Over { size, ..square }.check(way, 1, 1, 20, 90);
    }
    // The accumulators overwrite the numbers: of eight tiles, of four, and of one.
    for (batch, channels, filters) in [(1, 16, 16), (3, 5, 9)] {
        wide.check(way, batch, 1, channels, filters);
    }
    // The rows of tiles that are transformed at once belong to several images.
    square.check(way, 7, 1, 80, 90);
    Over { size: [6, 9], ..square }.check(way, 7, 1, 16, 16);
    wide.check(way, 0, 1, 4, 4);
    wide.check(way, 1, 1, 0, 4);
    wide.check(way, 1, 1, 4, 0);
}

#[test]
fn windows_over_three_axes_are_sums_of_tiles() {
    let (one, none) = ([1; 3], [0; 3]);
    for [size, kernel, strides, dilations, pads] in [
        [[4, 5, 7], [3, 3, 3], one, one, one],
        [[6, 9, 11], [3, 3, 3], [2, 1, 1], one, [1, 1, 0]],
        [[5, 9, 4], [2, 3, 3], [3, 1, 1], one, none],
        [[7, 6, 6], [3, 3, 3], [2, 1, 1], [2, 1, 1], [2, 1, 1]],
        [[3, 12, 9], [1, 3, 3], [2, 1, 1], one, [0, 1, 1]],
        [[1, 9, 9], [3, 3, 3], one, one, one],
        [[40, 5, 30], [3, 3, 3], one, one, one],
        // Windows of which no tap reads the image along the depth.
        [[1, 3, 4], [2, 3, 3], one, [3, 1, 1], [2, 1, 1]],
    ] {
        let apart = [strides[0], 2, 2];
        for (way, strides) in
            [(&WINOGRAD, strides), (&TILES_OF_TWO, strides), (&WINOGRAD_APART, apart)]
        {
            for of in [[2, 1, 20, 24], [1, 1, 16, 16], [1, 1, 3, 33]] {
                with_three_axes([size, kernel, strides, dilations, pads], of, |geometry| {
                    check(way, geometry);
                });
            }
        }
    }
}

#[test]
fn weights_are_packed_at_once_as_part_by_part() {
    SQUARE.with([1, 1, 5, 20], |geometry| {
        let w = some(20 * geometry.depth(), 2);
        let [mut parts, mut whole] = [(); 2].map(|()| vec![f32::NAN; (WINOGRAD.packed)(&geometry)]);
        (WINOGRAD.pack)(&w, &mut parts, &geometry);
        pack_winograd_nchwc(&w, &mut whole, geometry);
        assert!(parts.iter().zip(&whole).all(|(a, b)| (a - b).abs() <= 1e-6));
    });
}

#[test]
fn tiles_pay_for_many_pixels_or_near_weights() {
    for (size, [channels, filters], pays) in [
        ([32, 32], [16, 16], [true, true]),
        ([14, 14], [256, 256], [true, true]),
        // Each weight is read for four tiles.
        ([8, 8], [64, 64], [true, false]),
        // Little is saved, or most of a block is padding.
        ([8, 8], [16, 32], [false, false]),
        ([32, 32], [3, 16], [false, false]),
    ] {
        Over { size, ..SQUARE }.with([1, 1, channels, filters], |geometry| {
            let said =
                [Reading::Near, Reading::Far].map(|from| winograd_tile(&geometry, from).is_some());
            assert_eq!(said, pays, "{geometry:?}");
        });
    }
    for (depth, pays) in [(1, false), (2, true)] {
        let sizes = [[depth, 14, 14], [3; 3], [1; 3], [1; 3], [1; 3]];
        with_three_axes(sizes, [1, 1, 128, 128], |geometry| {
            assert_eq!(winograd_tile(&geometry, Reading::Far).is_some(), pays, "{depth}");
        });
    }
    for (size, strides, [channels, filters], tile) in [
        ([56, 56], [2, 2], [64, 128], Some(Tile::TwoApart)),
        // A weight is read for 16 tiles.
        ([14, 14], [2, 2], [512, 512], None),
        ([56, 56], [1, 2], [64, 64], None),
        ([56, 56], [3, 3], [64, 64], None),
    ] {
        Over { size, strides, ..SQUARE }.with([1, 1, channels, filters], |geometry| {
            assert_eq!(winograd_tile(&geometry, Reading::Far), tile, "{geometry:?}");
        });
    }
}

/// The terms are positive, so that none cancel.
#[test]
fn tiles_of_products_are_within_a_millionth_times_the_root_of_the_terms() {
    for depth in [1, 17, 64, 500] {
        errors_are_small(&WINOGRAD, SQUARE, depth);
        errors_are_small(&WINOGRAD_APART, Over { strides: [2, 2], ..SQUARE }, depth);
    }
}

fn errors_are_small(way: &Way, over: Over, depth: usize) {
    over.with([1, 1, depth, 5], |geometry| {
        let (of_x, of_y) = (channels(1, depth, geometry.size), channels(1, 5, geometry.out));
        let size = |n, seed| some(n, seed).into_iter().map(f32::abs).collect::<Vec<_>>();
        let (x, w) = (size(depth * of_x.pixels, 7), size(5 * geometry.depth(), 8));
        let mut truth = vec![0.0; 5 * of_y.pixels];
        conv(
            ConvOperands { x: &wide(&x), w: &wide(&w), bias: None, add: None },
            &mut truth,
            geometry,
            Activation::Identity,
        );
        let mut packed = vec![f32::NAN; (way.packed)(&geometry)];
        (way.pack)(&w, &mut packed, &geometry);
        each_level(|level| {
            let mut scratch = vec![f32::NAN; (way.scratch)(&geometry)];
            let mut y = vec![f32::NAN; BLOCK * of_y.pixels];
            let (x, f) = (blocked(&x, of_x), Activation::Identity);
            (way.run)(
                ConvOperands { x: &x, w: &packed, bias: None, add: None },
                &mut y,
                &mut scratch,
                geometry,
                f,
            );
            let mut plain = vec![f32::NAN; truth.len()];
            unblock(&y, &mut plain, of_y);
            for (y, truth) in plain.iter().zip(&truth) {
                let error = (f64::from(*y) - truth).abs() / truth;
                let most = 1e-6 * (geometry.depth() as f64).sqrt();
                assert!(error <= most, "{level:?} {geometry:?}: {y} is {error:e} from {truth}");
            }
        });
    });
}
