//! What the tiles of a layer have in common.

/// What all tiles of a layer are told.
#[derive(Clone, Copy)]
pub(super) struct Told {
    /// How many weights a block has.
    pub w_block: usize,
    /// A pixel's share of what all pixels do: so many parts of [`Told::ALL`].
    pixel: u64,
}

impl Told {
    const ALL: u64 = 1 << 24;

    #[inline(always)]
    pub fn of(w_block: usize, pixels: usize) -> Told {
        Told { w_block, pixel: Told::ALL / pixels.max(1) as u64 }
    }

    /// What so many pixels do of `all`. A division for each tile would take as long as some products.
    #[inline(always)]
    pub fn share(self, pixels: usize, all: usize) -> usize {
        (pixels as u64 * self.pixel * all as u64 / Told::ALL) as usize
    }
}
