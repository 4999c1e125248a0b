//! Weights of convolutions in blocks in pairs of `bfloat16` numbers.

use super::blocked_kernels::{Convolves, Filters, Kind, NCHWC_BF16, TO_BLOCKS_BF16, WINOGRAD_BF16};
use crate::{
    dim::Dim,
    ir::Lower,
    ops::pack::{PIECE, Pack, numbers, paired},
    plan::{Operand, geometry},
};
use onnxc_runtime::{
    Number,
    kernels::{
        conv::{self, Tile},
        weight_precision,
    },
};

/// Constant weights in pairs of `bfloat16` numbers, and the kernel that reads them.
pub(super) struct InPairs {
    pub weights: Operand,
    pub kernel: &'static Convolves,
    pub scratch: fn(&conv::Conv<'_>) -> usize,
    /// What the kernel is told.
    pub geometry: geometry::Conv,
}

/// Those of a convolution, where they are to stand so.
pub(super) fn in_pairs(
    cx: &mut Lower<'_>,
    kind: Kind,
    geometry: &geometry::Conv,
) -> Option<InPairs> {
    let geometry = geometry.clone();
    let channels = usize::try_from(geometry.channels.known()?).ok()?;
    let filters = |kind| Filters { kind, geometry: geometry.clone(), piece: PIECE };
    match kind {
        Kind::Blocks if numbers(&geometry, |conv| conv::winograd_pays_in_pairs(&conv)) => {
            let weights = paired(cx, 1, filters(Kind::Winograd(Tile::Two)), channels)?;
            Some(InPairs {
                weights,
                kernel: &WINOGRAD_BF16,
                scratch: weight_precision::winograd_scratch,
                geometry,
            })
        }
        Kind::Blocks => {
            let weights = paired(cx, 1, filters(kind), channels)?;
            Some(InPairs {
                weights,
                kernel: &NCHWC_BF16,
                scratch: weight_precision::conv_scratch,
                geometry,
            })
        }
        Kind::Channels => {
            let columns = Columns::of(&geometry)?;
            let geometry = columns.wider.geometry.clone();
            let rows = columns.count();
            let weights = paired(cx, 1, columns, rows)?;
            Some(InPairs {
                weights,
                kernel: &TO_BLOCKS_BF16,
                scratch: weight_precision::nchw_to_nchwc_scratch,
                geometry,
            })
        }
        Kind::Winograd(_) | Kind::Depthwise | Kind::Groups(_) => None,
    }
}

/// The weights of a convolution whose windows are two columns apart: with columns of zeros, so that an
/// even number of columns is before the image, and the window has an even number.
struct Columns {
    wider: Filters,
    /// How many columns are given, and how many of zeros are before them.
    given: usize,
    before: usize,
}

impl Columns {
    fn of(geometry: &geometry::Conv) -> Option<Columns> {
        let known = |of: &[Dim]| usize::try_from(of.last()?.known()?).ok();
        let [size, given, pad] =
            [known(&geometry.size)?, known(&geometry.kernel)?, known(&geometry.pads)?];
        let apart = [geometry.strides.last()?, geometry.dilations.last()?];
        if geometry.size.len() != 2 || apart != [&2, &1] || !size.is_multiple_of(2) {
            return None;
        }
        let before = pad % 2;
        let mut wider = geometry.clone();
        wider.kernel[1] = Dim::from((before + given).next_multiple_of(2));
        wider.pads[1] = Dim::from(pad + before);
        if !numbers(&wider, |conv| conv::has_blocks(conv.kernel)) {
            return None;
        }
        let wider = Filters { kind: Kind::Channels, geometry: wider, piece: PIECE };
        Some(Columns { wider, given, before })
    }

    /// How many columns the window has then.
    fn count(&self) -> usize {
        numbers(&self.wider.geometry, |conv| conv.kernel[1])
    }
}

impl Pack for Columns {
    fn len<T>(&self) -> usize {
        self.wider.len::<T>()
    }

    fn pieces<T>(&self) -> usize {
        self.wider.pieces::<T>()
    }

    fn pack<T: Number>(&self, i: usize, from: &[T]) -> Vec<T> {
        let mut wide = vec![T::ZERO; from.len() / self.given * self.count()];
        for (to, from) in wide.chunks_exact_mut(self.count()).zip(from.chunks_exact(self.given)) {
            to[self.before..][..self.given].copy_from_slice(from);
        }
        self.wider.pack(i, &wide)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::blocked::BLOCK;
    use onnxc_runtime::kernels::conv::WeightLayout;

    #[test]
    fn columns_of_zeros_make_the_padding_and_the_window_even() {
        for (pad, before, columns) in [(0, 0, 4), (1, 1, 4), (2, 0, 4)] {
            let both = |n: usize| vec![Dim::from(n); 2];
            let mut geometry = geometry::Conv {
                batch: 1.into(),
                groups: 1,
                channels: 2.into(),
                filters: 20.into(),
                size: both(9),
                out: both(4),
                kernel: both(3),
                strides: vec![1, 2],
                dilations: vec![1, 1],
                pads: both(pad),
                weights: WeightLayout::Packed,
            };
            assert!(Columns::of(&geometry).is_none(), "a row has 9 columns");
            geometry.size[1] = 10.into();
            let plain = Filters { kind: Kind::Channels, geometry: geometry.clone(), piece: PIECE };
            let wide = Columns::of(&geometry).expect("all sizes are known");
            assert_eq!((wide.before, wide.count()), (before, columns));
            assert_eq!(wide.wider.geometry.pads[1], Dim::from(pad + before));
            let from: Vec<f32> = (0..20 * 18).map(|i| (i + 1) as f32).collect();
            let (plain, wide) = (plain.pack(0, &from), wide.pack(0, &from));
            for (taps, window) in plain.chunks(3 * BLOCK).zip(wide.chunks(columns * BLOCK)) {
                let (zeros, window) = window.split_at(before * BLOCK);
                let (there, behind) = window.split_at(3 * BLOCK);
                assert!(there == taps && zeros.iter().chain(behind).all(|&x| x == 0.0));
            }
        }
    }
}
