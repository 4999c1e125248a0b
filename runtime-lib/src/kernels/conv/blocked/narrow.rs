//! Convolutions of narrow groups, several of which share a block of channels. The lanes of a block
//! are interleaved in the copy of the input and in the weights, so that no lane is wasted.

use super::band::{Band, LARGE, Plane, Unit};
use super::{BLOCK, ConvOperands, product};
use crate::Number;
use crate::kernels::conv::Conv;
use crate::loops::epilogue::Activation;
use crate::microkernel::{FusedActivation, MAX_TAPS, NarrowGroups};
use crate::threads::{self, By, Piece, Scratch, Share};

/// Returns whether [`narrow_groups_nchwc`] computes a convolution: whether its groups have four or
/// eight channels, and as many filters.
pub const fn has_narrow_groups(geometry: &Conv<'_>) -> bool {
    geometry.channels == geometry.filters && matches!(geometry.channels, 4 | 8)
}

/// Returns the number of groups in a block.
const fn groups(geometry: &Conv<'_>) -> usize {
    BLOCK / geometry.channels
}

/// Returns the plane whose copy is interleaved.
const fn plane(geometry: &Conv<'_>) -> Plane {
    let unit = Unit::interleaved(groups(geometry));
    Plane::of(geometry, geometry.groups * geometry.channels, unit, LARGE)
}

/// Returns the best size of the scratch memory of [`narrow_groups_nchwc`], in elements.
pub const fn narrow_groups_nchwc_scratch(geometry: &Conv<'_>) -> usize {
    plane(geometry).scratch()
}

/// Packs the weights of [`narrow_groups_nchwc`] as `[block, tap, channel of a group, 16]`, with the
/// filters of the groups of a block interleaved. It writes as many elements as
/// [`packed_blocks_len`](super::packed_blocks_len) says.
pub fn pack_narrow_groups<T: Number>(w: &[T], y: &mut [T], geometry: &Conv<'_>) {
    let (of_block, taps) = (groups(geometry), product(geometry.kernel));
    let mut y = y.chunks_exact_mut(BLOCK);
    for block in 0..geometry.groups.div_ceil(of_block) {
        for (tap, channel) in
            (0..taps).flat_map(|tap| (0..geometry.channels).map(move |c| (tap, c)))
        {
            let Some(y) = y.next() else { return };
            for (lane, y) in y.iter_mut().enumerate() {
                let group = block * of_block + lane % of_block;
                let filter = group * geometry.filters + lane / of_block;
                let at = (filter * geometry.channels + channel) * taps + tap;
                *y = w.get(at).copied().unwrap_or(T::ZERO);
            }
        }
    }
}

/// Packs the weights of [`narrow_groups_nchwc`], at run time.
#[inline(never)]
pub fn pack_narrow(w: &[f32], y: &mut [f32], geometry: Conv<'_>) {
    pack_narrow_groups(w, y, &geometry);
}

/// Computes `y = f(w ∗ x + bias + add)` for groups of four or eight channels and filters, like
/// [`grouped_conv_nchwc`](super::grouped_conv_nchwc). The weights are packed by
/// [`pack_narrow_groups`].
#[inline(always)]
pub fn narrow_groups_nchwc(
    operands: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: Conv<'_>,
    f: Activation,
) {
    let compute = |y: &mut [_], f| match groups(&geometry) {
        2 => convolve::<2>(operands, y, scratch, &geometry, f),
        _ => convolve::<4>(operands, y, scratch, &geometry, f),
    };
    FusedActivation::within_all(f, y, compute);
}

#[inline(never)]
fn convolve<const GROUPS: usize>(
    ConvOperands { x, w, bias, add }: ConvOperands<'_, f32>,
    y: &mut [f32],
    scratch: &mut [f32],
    geometry: &Conv<'_>,
    f: FusedActivation<f32>,
) {
    let (plane, pixels) = (plane(geometry), product(geometry.out));
    let blocks = (geometry.groups * geometry.filters).div_ceil(BLOCK);
    let [from, to] = [plane.image(), blocks * pixels * BLOCK];
    if to == 0 {
        return;
    }
    let band = plane.band(scratch.len());
    let mut taps = [0; MAX_TAPS];
    let taps = band.taps(&plane, &mut taps);
    let scratch = Scratch::new(scratch);
    for (image, y) in y.chunks_exact_mut(to).enumerate() {
        let image = Image {
            x: &x[image * from..][..from],
            w,
            bias: bias.unwrap_or(&[]),
            add: add.map_or(&[], |add| &add[image * to..][..to]),
            depth: geometry.depth(),
            taps,
            f,
        };
        let cost = to * geometry.depth() / threads::MACS_PER_ELEMENT;
        // Narrow groups have few weights, which each thread reads.
        Share::of(y, pixels * BLOCK).hand_out(plane.cut(), By::Rows, cost, |piece| {
            scratch.with(|scratch| image.convolve::<GROUPS>(&plane, &band, piece, scratch));
        });
    }
}

/// The operands of one image.
struct Image<'a> {
    x: &'a [f32],
    w: &'a [f32],
    bias: &'a [f32],
    add: &'a [f32],
    /// The number of products of each output.
    depth: usize,
    taps: &'a [usize],
    f: FusedActivation<f32>,
}

impl Image<'_> {
    /// Computes the rows and blocks of `piece`.
    fn convolve<const GROUPS: usize>(
        &self,
        plane: &Plane,
        band: &Band,
        mut piece: Piece<'_, f32>,
        scratch: &mut [f32],
    ) {
        let ([height, width], start) = (plane.out(), piece.rows.start * plane.cut());
        let apart = piece.y.apart();
        let places = plane.windows(piece.rows).flat_map(|(depth, window)| {
            plane.places(band, window).map(move |place| (depth, place))
        });
        for (depth, [row, rows, col, cols]) in places {
            let at = ((depth * height + row) * width + col) * BLOCK;
            let x = band.input(plane, self.x, depth, [row, rows, col], scratch);
            for (i, block) in piece.planes.clone().enumerate() {
                let len = ((rows - 1) * width + cols) * BLOCK;
                let y = &mut piece.y.plane(i)[at - start..][..len];
                NarrowGroups::<GROUPS> {
                    x: &x[block * band.block..],
                    x_row_stride: band.row,
                    taps: plane.used_taps(self.taps, depth),
                    w: &self.w[block * self.depth * BLOCK..],
                    bias: self.bias.get(block * BLOCK..).unwrap_or(&[]),
                    add: self.add.get(block * apart + at..).unwrap_or(&[]),
                    y,
                    y_row_stride: width * BLOCK,
                    rows,
                    cols,
                    clamp: self.f.clamp(),
                }
                .compute();
                self.f.finish(y, 1, len, len);
            }
        }
    }
}
