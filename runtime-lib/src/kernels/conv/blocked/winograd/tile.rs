//! Tiles, and what their outputs are made of.

use crate::kernels::conv::Conv;
use core::ops::Range;

/// Which outputs a tile has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tile {
    /// 2 × 2.
    Two,
    /// 4 × 4.
    Four,
    /// 2 × 2, of windows two steps apart.
    TwoApart,
}

impl Tile {
    /// How many outputs it has along an axis.
    pub(super) const fn side(self) -> usize {
        match self {
            Tile::Two | Tile::TwoApart => 2,
            Tile::Four => 4,
        }
    }

    /// How far its windows are apart.
    const fn stride(self) -> usize {
        match self {
            Tile::Two | Tile::Four => 1,
            Tile::TwoApart => 2,
        }
    }

    /// From what it reads to what the next one does.
    pub(super) const fn step(self) -> usize {
        self.stride() * self.side()
    }

    /// How many numbers it reads along an axis.
    pub(super) const fn span(self) -> usize {
        (self.side() - 1) * self.stride() + 3
    }

    /// How many numbers it is transformed to.
    pub(super) const fn numbers(self) -> usize {
        self.span() * self.span()
    }

    /// How many sums along an axis are made of their products.
    pub(super) const fn sums(self) -> usize {
        match self {
            Tile::Two | Tile::Four => self.span(),
            Tile::TwoApart => 3,
        }
    }

    /// In how many parts `pack_winograd` packs weights: for each sum of products those that it is made of.
    pub const fn parts(self) -> usize {
        self.sums() * self.sums()
    }

    /// The numbers whose products a sum is made of, row by row.
    pub(super) fn numbers_of(self, sum: usize) -> impl Iterator<Item = usize> + use<> {
        let ([down, across], span) = (self.along_axes(sum), self.span());
        down.flat_map(move |i| across.clone().map(move |j| i * span + j))
    }

    /// Which they are along each axis.
    pub(super) fn along_axes(self, sum: usize) -> [Range<usize>; 2] {
        const APART: [Range<usize>; 3] = [0..2, 2..3, 3..5];
        [sum / self.sums(), sum % self.sums()].map(|sum| match self {
            Tile::Two | Tile::Four => sum..sum + 1,
            Tile::TwoApart => APART[sum].clone(),
        })
    }

    /// The tiles of numbers that suit a convolution, if any do.
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
