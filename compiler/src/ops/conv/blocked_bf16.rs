//! `bfloat16` weights of NCHWc convolutions, packed in pairs for dot-product instructions.

use super::blocked_kernels::{
    Algorithm, ConvKernel, Filters, NCHW_TO_NCHWC_BF16, NCHWC_BF16, WINOGRAD_BF16,
};
use crate::{
    dim::Dim,
    ir::Lower,
    ops::pack::{PIECE, Pack, pack_bf16_pairs, with_numbers},
    plan::{Operand, SizeFunction, geometry, size_function},
};
use onnxc_runtime::{
    Number,
    kernels::conv::{self, Tile},
};

/// Constant weights in pairs of `bfloat16` numbers, and the kernel that reads them.
pub(super) struct Bf16Weights {
    pub weights: Operand,
    pub kernel: &'static ConvKernel,
    /// Computes the number of elements of scratch memory.
    pub scratch: SizeFunction<geometry::Conv>,
    /// The parameters of the kernel.
    pub geometry: geometry::Conv,
}

/// Packs the weights of a convolution in pairs of `bfloat16` numbers, if the options ask for it,
/// the weights are constant and `algorithm` has such a kernel.
pub(super) fn pack_bf16(
    cx: &mut Lower<'_>,
    algorithm: Algorithm,
    geometry: &geometry::Conv,
) -> Option<Bf16Weights> {
    let geometry = geometry.clone();
    let channels = usize::try_from(geometry.channels.known()?).ok()?;
    let filters = |algorithm| Filters { algorithm, geometry: geometry.clone(), piece: PIECE };
    match algorithm {
        Algorithm::Nchwc if with_numbers(&geometry, |conv| conv::winograd_pays_in_pairs(&conv)) => {
            let weights =
                pack_bf16_pairs(cx, 1, filters(Algorithm::Winograd(Tile::Two)), channels)?;
            Some(Bf16Weights {
                weights,
                kernel: &WINOGRAD_BF16,
                scratch: size_function!(weight_precision::winograd_scratch),
                geometry,
            })
        }
        Algorithm::Nchwc => {
            let weights = pack_bf16_pairs(cx, 1, filters(algorithm), channels)?;
            Some(Bf16Weights {
                weights,
                kernel: &NCHWC_BF16,
                scratch: size_function!(weight_precision::conv_scratch),
                geometry,
            })
        }
        Algorithm::NchwToNchwc => {
            let columns = PaddedColumns::of(&geometry)?;
            let geometry = columns.padded.geometry.clone();
            let rows = columns.count();
            let weights = pack_bf16_pairs(cx, 1, columns, rows)?;
            Some(Bf16Weights {
                weights,
                kernel: &NCHW_TO_NCHWC_BF16,
                scratch: size_function!(weight_precision::nchw_to_nchwc_scratch),
                geometry,
            })
        }
        Algorithm::Winograd(_)
        | Algorithm::BySize(..)
        | Algorithm::Depthwise
        | Algorithm::Narrow
        | Algorithm::Grouped(_) => None,
    }
}

/// The weights of a convolution with a horizontal stride of 2, with columns of zeros added so that
/// both the left padding and the width of the window are even: pairs of pixels are then aligned.
struct PaddedColumns {
    padded: Filters,
    /// The number of columns of the window without padding.
    columns: usize,
    /// The number of columns of zeros before them.
    before: usize,
}

impl PaddedColumns {
    /// Pads the window; `None` if the geometry does not allow pairs of columns.
    fn of(geometry: &geometry::Conv) -> Option<PaddedColumns> {
        let known = |of: &[Dim]| usize::try_from(of.last()?.known()?).ok();
        let [size, columns, pad] =
            [known(&geometry.size)?, known(&geometry.kernel)?, known(&geometry.pads)?];
        let steps = [geometry.strides.last()?, geometry.dilations.last()?];
        if geometry.size.len() != 2 || steps != [&2, &1] || !size.is_multiple_of(2) {
            return None;
        }
        let before = pad % 2;
        let mut padded = geometry.clone();
        padded.kernel[1] = Dim::from((before + columns).next_multiple_of(2));
        padded.pads[1] = Dim::from(pad + before);
        if !with_numbers(&padded, |conv| conv::has_blocks(conv.kernel)) {
            return None;
        }
        let algorithm = Algorithm::NchwToNchwc;
        let padded = Filters { algorithm, geometry: padded, piece: PIECE };
        Some(PaddedColumns { padded, columns, before })
    }

    /// The number of columns of the padded window.
    fn count(&self) -> usize {
        with_numbers(&self.padded.geometry, |conv| conv.kernel[1])
    }
}

impl Pack for PaddedColumns {
    fn len<T>(&self) -> usize {
        self.padded.len::<T>()
    }

    fn pieces<T>(&self) -> usize {
        self.padded.pieces::<T>()
    }

    fn pack<T: Number>(&self, i: usize, from: &[T]) -> Vec<T> {
        let mut padded = vec![T::ZERO; from.len() / self.columns * self.count()];
        let rows = padded.chunks_exact_mut(self.count()).zip(from.chunks_exact(self.columns));
        for (to, from) in rows {
            to[self.before..][..self.columns].copy_from_slice(from);
        }
        self.padded.pack(i, &padded)
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
            assert!(PaddedColumns::of(&geometry).is_none(), "a row has 9 columns");
            geometry.size[1] = 10.into();
            let algorithm = Algorithm::NchwToNchwc;
            let plain = Filters { algorithm, geometry: geometry.clone(), piece: PIECE };
            let wide =
                PaddedColumns::of(&geometry).expect("the stride is 2 and rows have 10 columns");
            assert_eq!((wide.before, wide.count()), (before, columns));
            assert_eq!(wide.padded.geometry.pads[1], Dim::from(pad + before));
            let from: Vec<f32> = (0..20 * 18).map(|i| (i + 1) as f32).collect();
            let (plain, wide) = (plain.pack(0, &from), wide.pack(0, &from));
            for (taps, window) in plain.chunks(3 * BLOCK).zip(wide.chunks(columns * BLOCK)) {
                let (zeros, window) = window.split_at(before * BLOCK);
                let (columns, after) = window.split_at(3 * BLOCK);
                assert!(columns == taps && zeros.iter().chain(after).all(|&x| x == 0.0));
            }
        }
    }
}
