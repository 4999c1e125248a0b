//! Compares narrow groups that share blocks with NCHW convolutions.

use super::*;

const NARROW: Way = Way {
    unit: BLOCK,
    run: narrow_groups_nchwc,
    scratch: narrow_groups_nchwc_scratch,
    packed: packed_blocks_len,
    is_shared: false,
    pack: pack_narrow_groups,
};

#[test]
fn narrow_groups_share_blocks() {
    for over in windows() {
        for (batch, groups, channels) in [(1, 12, 8), (2, 3, 8), (1, 5, 4), (2, 8, 4)] {
            over.check(&NARROW, batch, groups, channels, channels);
        }
    }
    SQUARE.check(&NARROW, 1, 0, 4, 4);
    let (one, none) = ([1; 3], [0; 3]);
    for sizes in [
        [[4, 5, 7], [3, 3, 3], one, one, one],
        [[5, 4, 9], [3, 1, 2], [2, 2, 1], [2, 1, 3], [2, 0, 1]],
        [[1, 3, 4], [2, 3, 3], one, [3, 1, 1], [2, 1, 1]],
        [[2, 3, 4], one, one, one, none],
    ] {
        with_three_axes(sizes, [2, 6, 4, 4], |geometry| check(&NARROW, geometry));
        with_three_axes(sizes, [1, 3, 8, 8], |geometry| check(&NARROW, geometry));
    }
}
