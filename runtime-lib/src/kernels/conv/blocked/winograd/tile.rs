//! The tiles, and the numbers that their outputs are computed from.

use crate::kernels::conv::Conv;
use crate::microkernel::MAX_TAPS;
use core::ops::Range;

/// The largest size of a window along the first of three axes.
pub(super) const MAX_DEPTH: usize = MAX_TAPS / 9;

/// The outputs of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tile {
    /// 2 × 2.
    Two,
    /// 4 × 4.
    Four,
    /// 2 × 2, of windows with a stride of 2.
    TwoApart,
}

impl Tile {
    /// Returns the number of outputs along an axis.
    pub(super) const fn side(self) -> usize {
        match self {
            Tile::Two | Tile::TwoApart => 2,
            Tile::Four => 4,
        }
    }

    /// Returns the stride of the windows.
    const fn stride(self) -> usize {
        match self {
            Tile::Two | Tile::Four => 1,
            Tile::TwoApart => 2,
        }
    }

    /// Returns the distance of the inputs of two tiles.
    pub(super) const fn step(self) -> usize {
        self.stride() * self.side()
    }

    /// Returns the number of inputs along an axis.
    pub(super) const fn span(self) -> usize {
        (self.side() - 1) * self.stride() + 3
    }

    /// Returns the number of transformed numbers.
    pub(super) const fn numbers(self) -> usize {
        self.span() * self.span()
    }

    /// Returns the number of accumulators along an axis.
    pub(super) const fn sums(self) -> usize {
        match self {
            Tile::Two | Tile::Four => self.span(),
            Tile::TwoApart => 3,
        }
    }

    /// Returns the number of parts in which `pack_winograd` packs weights: one for each
    /// accumulator.
    pub const fn parts(self) -> usize {
        self.sums() * self.sums()
    }

    /// Returns the numbers whose products an accumulator adds, row by row.
    pub(super) fn numbers_of(self, sum: usize) -> impl Iterator<Item = usize> + Clone + use<> {
        let ([down, across], span) = (self.along_axes(sum), self.span());
        down.flat_map(move |i| across.clone().map(move |j| i * span + j))
    }

    /// Returns the positions of these numbers along each axis.
    pub(super) fn along_axes(self, sum: usize) -> [Range<usize>; 2] {
        const APART: [Range<usize>; 3] = [0..2, 2..3, 3..5];
        [sum / self.sums(), sum % self.sums()].map(|sum| match self {
            Tile::Two | Tile::Four => sum..sum + 1,
            Tile::TwoApart => APART[sum].clone(),
        })
    }

    /// Returns the tiles that suit a convolution, if any do. Along the first of three axes, the
    /// window may have any size.
    pub(super) const fn of(conv: &Conv<'_>) -> Option<Tile> {
        let axes = conv.size.len();
        if conv.groups != 1 || !(axes == 2 || axes == 3 && conv.kernel[0] <= MAX_DEPTH) {
            return None;
        }
        let [h, w] = conv.last_two_axes();
        if h.kernel != 3 || w.kernel != 3 || h.dilation != 1 || w.dilation != 1 {
            return None;
        }
        if h.stride != w.stride {
            return None;
        }
        match h.stride {
            1 => Some(Tile::Four),
            2 => Some(Tile::TwoApart),
            _ => None,
        }
    }
}
