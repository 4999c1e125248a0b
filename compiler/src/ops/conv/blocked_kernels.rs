//! The kernels of NCHWc convolutions, and how they pack weights.

use super::convolution;
use crate::{
    diag::Result,
    dim::Dim,
    dtype::DType,
    ir::Lower,
    ops::{
        blocked::BLOCK,
        pack::{Pack, with_numbers},
    },
    plan::{Arg, Kernel, SizeFunction, geometry, kernel, size_function},
};
use onnxc_runtime::{
    Number,
    kernels::{
        conv::{self, Reading, Tile},
        epilogue::Activation,
        weight_precision::Panels,
    },
};

/// The algorithm of an NCHWc convolution.
#[derive(Clone, Copy)]
pub(super) enum Algorithm {
    /// Direct convolution of NCHWc images, in one group.
    Nchwc,
    /// Winograd convolution of NCHWc images with tiles of this size, in one group.
    Winograd(Tile),
    /// [`Nchwc`](Algorithm::Nchwc) or [`Winograd`](Algorithm::Winograd), as the sizes of a run have
    /// it, which no bound limits. The weights are packed for both.
    BySize(Tile, Reading),
    /// Direct convolution of NCHW images to an NCHWc result, in one group.
    NchwToNchwc,
    /// Depthwise convolution of NCHWc images.
    Depthwise,
    /// Convolution of NCHWc images in groups of four or eight channels, and as many filters.
    Narrow,
    /// Grouped convolution of NCHWc images after a channel shuffle of that many groups (1 for
    /// none).
    Grouped(usize),
}

/// A kernel that computes a convolution.
pub(super) type ConvKernel = Kernel<(geometry::Conv, Activation)>;

macro_rules! conv_kernel {
    ($module:ident::$name:ident) => {
        convolution!(F32_ONLY T, $module::$name, operands,
            |f, a, p| f(operands, a.output(0), a.output(1), p.0, p.1))
    };
}

macro_rules! pack_kernel {
    ($name:ident) => {
        kernel!(F32_ONLY T, conv::$name, |f, a, p| f(a.input(0), a.output(0), p))
    };
}

static NCHWC: ConvKernel = conv_kernel!(conv::conv_nchwc);
pub(super) static NCHWC_BF16: ConvKernel = conv_kernel!(weight_precision::conv_bf16);
static WINOGRAD: ConvKernel = conv_kernel!(conv::winograd_nchwc);
pub(super) static NCHW_TO_NCHWC_BF16: ConvKernel =
    conv_kernel!(weight_precision::conv_nchw_to_nchwc_bf16);
pub(super) static WINOGRAD_BF16: ConvKernel = conv_kernel!(weight_precision::winograd_bf16);
static BY_SIZE: Kernel<(geometry::ConvBySize, Activation)> = convolution!(F32_ONLY T,
    conv::conv_by_size_nchwc, operands,
    |f, a, p| f(operands, a.output(0), a.output(1), p.0, p.1));
static NCHW_TO_NCHWC: ConvKernel = conv_kernel!(conv::conv_nchw_to_nchwc);
static DEPTHWISE: ConvKernel = convolution!(F32_ONLY T, conv::depthwise_nchwc, operands,
    |f, a, p| f(operands, a.output(0), p.0, p.1));
static NARROW: ConvKernel = conv_kernel!(conv::narrow_groups_nchwc);
static GROUPED: Kernel<(geometry::Conv, usize, Activation)> = convolution!(F32_ONLY T,
    conv::grouped_conv_nchwc, operands,
    |f, a, p| f(operands, a.output(0), a.output(1), p.0, p.1, p.2));

static PACK_NCHWC: Kernel<geometry::Conv> = pack_kernel!(pack_nchwc);
static PACK_NCHW_TO_NCHWC: Kernel<geometry::Conv> = pack_kernel!(pack_nchw_to_nchwc);
static PACK_WINOGRAD: Kernel<geometry::Conv> = pack_kernel!(pack_winograd_nchwc);
static PACK_DEPTHWISE: Kernel<geometry::Conv> = pack_kernel!(pack_depthwise);
static PACK_NARROW: Kernel<geometry::Conv> = pack_kernel!(pack_narrow);
static PACK_GROUPED: Kernel<(geometry::Conv, usize)> =
    kernel!(F32_ONLY T, conv::pack_groups, |f, a, p| f(a.input(0), a.output(0), p.0, p.1));

impl Algorithm {
    /// The number of parts of the packed weights, each of which covers all filters.
    fn parts(self) -> usize {
        match self {
            Algorithm::Winograd(tile) => tile.parts(),
            Algorithm::BySize(tile, _) => 1 + tile.parts(),
            Algorithm::Nchwc
            | Algorithm::NchwToNchwc
            | Algorithm::Depthwise
            | Algorithm::Narrow
            | Algorithm::Grouped(_) => 1,
        }
    }

    /// Calls the kernel that packs weights that are not constant.
    pub fn pack(
        self,
        cx: &mut Lower<'_>,
        inputs: Vec<Arg>,
        outputs: Vec<Arg>,
        geometry: geometry::Conv,
    ) -> Result {
        let kernel = match self {
            Algorithm::Nchwc => &PACK_NCHWC,
            Algorithm::Winograd(_) => &PACK_WINOGRAD,
            Algorithm::BySize(..) => unreachable!("these weights are constant"),
            Algorithm::NchwToNchwc => &PACK_NCHW_TO_NCHWC,
            Algorithm::Depthwise => &PACK_DEPTHWISE,
            Algorithm::Narrow => &PACK_NARROW,
            Algorithm::Grouped(shuffled) => {
                let formula = (geometry, shuffled);
                return cx.call_on(&PACK_GROUPED, DType::F32, inputs, outputs, formula);
            }
        };
        cx.call_on(kernel, DType::F32, inputs, outputs, geometry)
    }

    /// Calls the kernel that computes the convolution.
    pub fn convolve(
        self,
        cx: &mut Lower<'_>,
        inputs: Vec<Arg>,
        outputs: Vec<Arg>,
        (geometry, f): (geometry::Conv, Activation),
    ) -> Result {
        let kernel = match self {
            Algorithm::Nchwc => &NCHWC,
            Algorithm::Winograd(_) => &WINOGRAD,
            Algorithm::BySize(_, reading) => {
                let formula = (geometry::ConvBySize { conv: geometry, reading }, f);
                return cx.call_on(&BY_SIZE, DType::F32, inputs, outputs, formula);
            }
            Algorithm::NchwToNchwc => &NCHW_TO_NCHWC,
            Algorithm::Depthwise => &DEPTHWISE,
            Algorithm::Narrow => &NARROW,
            Algorithm::Grouped(shuffled) => {
                let formula = (geometry, shuffled, f);
                return cx.call_on(&GROUPED, DType::F32, inputs, outputs, formula);
            }
        };
        cx.call_on(kernel, DType::F32, inputs, outputs, (geometry, f))
    }

    /// The number of elements of scratch memory, if the kernel needs any.
    pub fn scratch(self, cx: &mut Lower<'_>, geometry: &geometry::Conv) -> Option<Dim> {
        let function = match self {
            Algorithm::Nchwc | Algorithm::Grouped(_) => size_function!(conv::conv_nchwc_scratch),
            Algorithm::Winograd(_) => size_function!(conv::winograd_nchwc_scratch),
            Algorithm::BySize(_, reading) => {
                let function = size_function!(conv::conv_by_size_nchwc_scratch);
                let geometry = geometry::ConvBySize { conv: geometry.clone(), reading };
                return Some(cx.computed_scratch_len(&geometry, function));
            }
            Algorithm::NchwToNchwc => size_function!(conv::conv_nchw_to_nchwc_scratch),
            Algorithm::Narrow => size_function!(conv::narrow_groups_nchwc_scratch),
            Algorithm::Depthwise => return None,
        };
        Some(scratch_len(cx, geometry, function))
    }
}

/// Returns the elements of scratch memory of a kernel.
pub(super) fn scratch_len(
    cx: &mut Lower<'_>,
    geometry: &geometry::Conv,
    function: SizeFunction<geometry::Conv>,
) -> Dim {
    cx.scratch_len(geometry, function, |most| geometry.scratch_of(most, function))
}

/// Packs the constant weights of a convolution in pieces: a few blocks of filters, or a group.
pub(super) struct Filters {
    pub algorithm: Algorithm,
    pub geometry: geometry::Conv,
    /// The approximate number of elements of a piece.
    pub piece: usize,
}

impl Filters {
    /// The number of filters, and of filters of a piece.
    fn counts(&self) -> [usize; 2] {
        with_numbers(&self.geometry, |conv| {
            let block = conv::packed_blocks_len(&self.with_filters(&conv, 1)).max(1);
            [conv.groups * conv.filters, (self.piece / block).max(1) * BLOCK]
        })
    }

    /// The convolution reduced to `count` filters.
    fn with_filters<'a>(&self, conv: &conv::Conv<'a>, count: usize) -> conv::Conv<'a> {
        match self.algorithm {
            Algorithm::Nchwc
            | Algorithm::Winograd(_)
            | Algorithm::BySize(..)
            | Algorithm::NchwToNchwc => conv::Conv { groups: 1, filters: count, ..*conv },
            Algorithm::Depthwise => conv::Conv { groups: count, filters: 1, ..*conv },
            Algorithm::Narrow => conv::Conv { groups: count.div_ceil(conv.filters), ..*conv },
            Algorithm::Grouped(_) => *conv,
        }
    }

    /// The number of elements of the packed weights of a convolution.
    fn len_of(&self, conv: &conv::Conv<'_>) -> usize {
        match self.algorithm {
            Algorithm::Winograd(tile) => conv::packed_winograd_len(conv, tile),
            Algorithm::BySize(tile, _) => {
                conv::packed_blocks_len(conv) + conv::packed_winograd_len(conv, tile)
            }
            Algorithm::Grouped(_) => conv::packed_groups_len(conv),
            Algorithm::Nchwc
            | Algorithm::NchwToNchwc
            | Algorithm::Depthwise
            | Algorithm::Narrow => conv::packed_blocks_len(conv),
        }
    }

    /// Packs one part of the weights `from` of a convolution.
    fn pack_part<T: Number>(&self, from: &[T], conv: &conv::Conv<'_>, part: usize) -> Vec<T> {
        if let Algorithm::BySize(tile, _) = self.algorithm {
            let (algorithm, part) = match part.checked_sub(1) {
                Some(part) => (Algorithm::Winograd(tile), part),
                None => (Algorithm::Nchwc, 0),
            };
            let geometry = self.geometry.clone();
            return Filters { algorithm, geometry, ..*self }.pack_part(from, conv, part);
        }
        let len = match self.algorithm {
            Algorithm::Winograd(tile) => conv::packed_winograd_part_len(conv, tile, part),
            _ => self.len_of(conv),
        };
        let mut to = vec![T::ZERO; len];
        match self.algorithm {
            Algorithm::Winograd(tile) => conv::pack_winograd(from, &mut to, conv, (tile, part)),
            Algorithm::Nchwc => conv::pack_blocks(from, &mut to, conv, BLOCK),
            Algorithm::NchwToNchwc => conv::pack_blocks(from, &mut to, conv, 1),
            Algorithm::Depthwise => conv::pack_depthwise_blocks(from, &mut to, conv),
            Algorithm::Narrow => conv::pack_narrow_groups(from, &mut to, conv),
            Algorithm::Grouped(_) | Algorithm::BySize(..) => {}
        }
        to
    }

    /// Packs the weights of group `i`, from the weights of all groups.
    fn pack_group<T: Number>(&self, from: &[T], i: usize, shuffled: usize) -> Vec<T> {
        with_numbers(&self.geometry, |conv| {
            let each = from.len() / conv.groups;
            let mut to = vec![T::ZERO; conv::packed_group_len(&conv, i)];
            conv::pack_group(&from[i * each..][..each], &mut to, &conv, shuffled, i);
            to
        })
    }
}

impl Pack for Filters {
    fn len<T>(&self) -> usize {
        with_numbers(&self.geometry, |conv| self.len_of(&conv))
    }

    fn pieces<T>(&self) -> usize {
        if let Algorithm::Grouped(_) = self.algorithm {
            return self.geometry.groups;
        }
        let [filters, piece] = self.counts();
        self.algorithm.parts() * filters.div_ceil(piece)
    }

    fn pack<T: Number>(&self, i: usize, from: &[T]) -> Vec<T> {
        if let Algorithm::Grouped(shuffled) = self.algorithm {
            return self.pack_group(from, i, shuffled);
        }
        let [filters, piece] = self.counts();
        let pieces = filters.div_ceil(piece);
        let (part, first, depth) = (i / pieces, i % pieces * piece, from.len() / filters);
        let count = (filters - first).min(piece);
        let from = &from[first * depth..][..count * depth];
        with_numbers(&self.geometry, |conv| {
            self.pack_part(from, &self.with_filters(&conv, count), part)
        })
    }

    fn panels(&self) -> Option<Panels> {
        let weights = with_numbers(&self.geometry, |conv| {
            conv.channels * conv.kernel.iter().product::<usize>()
        });
        Some(Panels::blocks(weights))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxc_runtime::kernels::conv::WeightLayout;

    fn filters(
        algorithm: Algorithm,
        [groups, filters, channels]: [usize; 3],
        kernel: usize,
    ) -> Filters {
        let both = |n: usize| vec![n.into(); 2];
        let geometry = geometry::Conv {
            batch: 1.into(),
            groups,
            channels: channels.into(),
            filters: filters.into(),
            size: both(9),
            out: both(10 - kernel),
            kernel: both(kernel),
            strides: vec![1, 1],
            dilations: vec![1, 1],
            pads: both(0),
            weights: WeightLayout::Packed,
        };
        Filters { algorithm, geometry, piece: 1 << 12 }
    }

    #[test]
    fn the_pieces_of_all_groups_are_their_packed_weights() {
        let filters = filters(Algorithm::Grouped(2), [4, 10, 6], 3);
        let from: Vec<f32> = (0..40 * 54).map(|i| i as f32).collect();
        with_numbers(&filters.geometry, |conv| {
            let mut packed = vec![0.0; conv::packed_groups_len(&conv)];
            conv::pack_groups(&from, &mut packed, conv, 2);
            let pieces = (0..filters.pieces::<f32>()).flat_map(|i| filters.pack(i, &from));
            assert!(pieces.collect::<Vec<f32>>() == packed);
        });
    }

    #[test]
    fn the_pieces_of_a_convolution_are_its_packed_weights() {
        for (filters, taps) in [
            (filters(Algorithm::Nchwc, [1, 61, 30], 3), 9),
            (filters(Algorithm::Winograd(Tile::Two), [1, 61, 30], 3), 9),
            (filters(Algorithm::Winograd(Tile::Four), [1, 61, 30], 3), 9),
            (filters(Algorithm::Winograd(Tile::TwoApart), [1, 61, 30], 3), 9),
            (filters(Algorithm::BySize(Tile::Four, Reading::Far), [1, 61, 30], 3), 9),
            (filters(Algorithm::NchwToNchwc, [1, 61, 30], 3), 9),
            (filters(Algorithm::Depthwise, [309, 1, 1], 8), 64),
            (filters(Algorithm::Narrow, [45, 8, 8], 3), 9),
            (filters(Algorithm::Narrow, [89, 4, 4], 3), 9),
        ] {
            let channels = filters.geometry.channels.known().expect("the channels are a number");
            let depth = taps * channels as usize;
            let from: Vec<f32> = (0..filters.counts()[0] * depth).map(|i| i as f32).collect();
            let parts = 0..filters.algorithm.parts();
            let part = |part| {
                with_numbers(&filters.geometry, |conv| filters.pack_part(&from, &conv, part))
            };
            let whole: Vec<f32> = parts.flat_map(part).collect();
            assert_eq!(filters.len::<f32>(), whole.len());
            assert!(filters.pieces::<f32>() > filters.algorithm.parts());
            let pieces = (0..filters.pieces::<f32>()).flat_map(|i| filters.pack(i, &from));
            assert!(pieces.collect::<Vec<f32>>() == whole);
        }
    }
}
