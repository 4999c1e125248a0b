//! The tiles, and the numbers that their outputs are computed from.

use crate::kernels::conv::Conv;
use core::ops::Range;

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
    pub(super) fn numbers_of(self, sum: usize) -> impl Iterator<Item = usize> + use<> {
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

    /// Returns the tiles that suit a convolution, if any do.
    pub(super) const fn of(conv: &Conv<'_>) -> Option<Tile> {
        if conv.size.len() != 2 || conv.groups != 1 {
            return None;
        }
        let mut axis = 0;
        while axis < 2 {
            let alike = conv.strides[axis] == conv.strides[0];
            if conv.kernel[axis] != 3 || conv.dilations[axis] != 1 || !alike {
                return None;
            }
            axis += 1;
        }
        match conv.strides[0] {
            1 => Some(Tile::Four),
            2 => Some(Tile::TwoApart),
            _ => None,
        }
    }
}
