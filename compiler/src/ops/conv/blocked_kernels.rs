//! The kernels of NCHWc convolutions, and the order in which they read weights.

use crate::{
    diag::Result,
    dtype::DType,
    ir::Lower,
    ops::{
        blocked::BLOCK,
        pack::{Pack, numbers},
    },
    plan::{Arg, Kernel, geometry, kernel},
};
use onnxc_runtime::{
    Number,
    kernels::{
        conv::{self, Tile},
        epilogue::Activation,
        weight_precision::Panels,
    },
};

/// A convolution for which there is a kernel.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// All channels with all, from blocks.
    Blocks,
    /// Likewise, by such tiles.
    Winograd(Tile),
    /// All channels with all, from channels one after another.
    Channels,
    /// Each channel alone.
    Depthwise,
    /// Groups of channels, or channels that are dealt out from so many groups, from blocks.
    Groups(usize),
}

/// A kernel of a convolution.
pub(super) type Convolves = Kernel<(geometry::Conv, Activation)>;

macro_rules! convolves {
    ($home:ident::$name:ident) => {
        kernel!(F32_ONLY T, $home::$name, |f, a, p| f(a.input(0), a.input(1), a.optional(2),
            a.optional(3), a.output(0), a.output(1), p.0, p.1))
    };
}

macro_rules! packs {
    ($name:ident) => {
        kernel!(F32_ONLY T, conv::$name, |f, a, p| f(a.input(0), a.output(0), p))
    };
}

static NCHWC: Convolves = convolves!(conv::conv_nchwc);
pub(super) static NCHWC_BF16: Convolves = convolves!(weight_precision::conv_bf16);
static WINOGRAD: Convolves = convolves!(conv::winograd_nchwc);
pub(super) static TO_BLOCKS_BF16: Convolves = convolves!(weight_precision::conv_nchw_to_nchwc_bf16);
pub(super) static WINOGRAD_BF16: Convolves = convolves!(weight_precision::winograd_bf16);
static TO_BLOCKS: Convolves = convolves!(conv::conv_nchw_to_nchwc);
static DEPTHWISE: Convolves = kernel!(F32_ONLY T, conv::depthwise_nchwc, |f, a, p| f(a.input(0),
    a.input(1), a.optional(2), a.optional(3), a.output(0), p.0, p.1));
static GROUPS: Kernel<(geometry::Conv, usize, Activation)> = kernel!(F32_ONLY T, conv::grouped_conv_nchwc, |f, a, p| f(a.input(0), a.input(1), a.optional(2),
        a.optional(3), a.output(0), a.output(1), p.0, p.1, p.2));

static PACK_NCHWC: Kernel<geometry::Conv> = packs!(pack_nchwc);
static PACK_TO_BLOCKS: Kernel<geometry::Conv> = packs!(pack_nchw_to_nchwc);
static PACK_WINOGRAD: Kernel<geometry::Conv> = packs!(pack_winograd_nchwc);
static PACK_DEPTHWISE: Kernel<geometry::Conv> = packs!(pack_depthwise);
static PACK_GROUPS: Kernel<(geometry::Conv, usize)> =
    kernel!(F32_ONLY T, conv::pack_groups, |f, a, p| f(a.input(0), a.output(0), p.0, p.1));
impl Kind {
    /// In how many parts, of all filters each, the weights are packed.
    fn parts(self) -> usize {
        match self {
            Kind::Winograd(tile) => tile.parts(),
            Kind::Blocks | Kind::Channels | Kind::Depthwise | Kind::Groups(_) => 1,
        }
    }

    /// Calls what packs weights that are no constants.
    pub fn pack(
        self,
        cx: &mut Lower<'_>,
        inputs: Vec<Arg>,
        outputs: Vec<Arg>,
        geometry: geometry::Conv,
    ) -> Result {
        let kernel = match self {
            Kind::Blocks => &PACK_NCHWC,
            Kind::Winograd(_) => &PACK_WINOGRAD,
            Kind::Channels => &PACK_TO_BLOCKS,
            Kind::Depthwise => &PACK_DEPTHWISE,
            Kind::Groups(shuffled) => {
                let formula = (geometry, shuffled);
                return cx.call_on(&PACK_GROUPS, DType::F32, inputs, outputs, formula);
            }
        };
        cx.call_on(kernel, DType::F32, inputs, outputs, geometry)
    }

    /// Calls what convolves.
    pub fn convolve(
        self,
        cx: &mut Lower<'_>,
        inputs: Vec<Arg>,
        outputs: Vec<Arg>,
        (geometry, f): (geometry::Conv, Activation),
    ) -> Result {
        let kernel = match self {
            Kind::Blocks => &NCHWC,
            Kind::Winograd(_) => &WINOGRAD,
            Kind::Channels => &TO_BLOCKS,
            Kind::Depthwise => &DEPTHWISE,
            Kind::Groups(shuffled) => {
                let formula = (geometry, shuffled, f);
                return cx.call_on(&GROUPS, DType::F32, inputs, outputs, formula);
            }
        };
        cx.call_on(kernel, DType::F32, inputs, outputs, (geometry, f))
    }

    /// How many elements of scratch memory its kernel wants, if it takes any.
    pub fn scratch(self) -> Option<fn(&conv::Conv<'_>) -> usize> {
        match self {
            Kind::Blocks | Kind::Groups(_) => Some(conv::conv_nchwc_scratch),
            Kind::Winograd(_) => Some(conv::winograd_nchwc_scratch),
            Kind::Channels => Some(conv::conv_nchw_to_nchwc_scratch),
            Kind::Depthwise => None,
        }
    }
}

/// The weights of a convolution, in the order of its kernel. A piece is a few blocks of filters, or
/// a group.
pub(super) struct Filters {
    pub kind: Kind,
    pub geometry: geometry::Conv,
    /// How many elements a piece has, about.
    pub piece: usize,
}

impl Filters {
    /// How many filters there are, and how many of them are packed in a piece.
    fn counts(&self) -> [usize; 2] {
        numbers(&self.geometry, |conv| {
            let block = conv::packed_blocks_len(&self.some(&conv, 1)).max(1);
            [conv.groups * conv.filters, (self.piece / block).max(1) * BLOCK]
        })
    }

    /// The convolution of so many filters.
    fn some<'a>(&self, conv: &conv::Conv<'a>, count: usize) -> conv::Conv<'a> {
        match self.kind {
            Kind::Blocks | Kind::Winograd(_) | Kind::Channels => {
                conv::Conv { groups: 1, filters: count, ..*conv }
            }
            Kind::Depthwise => conv::Conv { groups: count, filters: 1, ..*conv },
            Kind::Groups(_) => *conv,
        }
    }

    /// How many elements the packed weights of a convolution have.
    fn len_of(&self, conv: &conv::Conv<'_>) -> usize {
        match self.kind {
            Kind::Winograd(tile) => conv::packed_winograd_len(conv, tile),
            Kind::Groups(_) => conv::packed_groups_len(conv),
            Kind::Blocks | Kind::Channels | Kind::Depthwise => conv::packed_blocks_len(conv),
        }
    }

    /// A part of the weights of a convolution of some filters.
    fn packed<T: Number>(&self, from: &[T], conv: &conv::Conv<'_>, part: usize) -> Vec<T> {
        let len = match self.kind {
            Kind::Winograd(tile) => conv::packed_winograd_part_len(conv, tile, part),
            _ => self.len_of(conv),
        };
        let mut to = vec![T::ZERO; len];
        match self.kind {
            Kind::Winograd(tile) => conv::pack_winograd(from, &mut to, conv, (tile, part)),
            Kind::Blocks => conv::pack_blocks(from, &mut to, conv, BLOCK),
            Kind::Channels => conv::pack_blocks(from, &mut to, conv, 1),
            Kind::Depthwise => conv::pack_depthwise_blocks(from, &mut to, conv),
            Kind::Groups(_) => {}
        }
        to
    }

    /// The weights of group `i`, of those that are given of all.
    fn group<T: Number>(&self, from: &[T], i: usize, shuffled: usize) -> Vec<T> {
        numbers(&self.geometry, |conv| {
            let each = from.len() / conv.groups;
            let mut to = vec![T::ZERO; conv::packed_group_len(&conv, i)];
            conv::pack_group(&from[i * each..][..each], &mut to, &conv, shuffled, i);
            to
        })
    }
}

impl Pack for Filters {
    fn len<T>(&self) -> usize {
        numbers(&self.geometry, |conv| self.len_of(&conv))
    }

    fn pieces<T>(&self) -> usize {
        if let Kind::Groups(_) = self.kind {
            return self.geometry.groups;
        }
        let [all, most] = self.counts();
        self.kind.parts() * all.div_ceil(most)
    }

    fn pack<T: Number>(&self, i: usize, from: &[T]) -> Vec<T> {
        if let Kind::Groups(shuffled) = self.kind {
            return self.group(from, i, shuffled);
        }
        let [all, most] = self.counts();
        let pieces = all.div_ceil(most);
        let (part, first, depth) = (i / pieces, i % pieces * most, from.len() / all);
        let count = (all - first).min(most);
        let from = &from[first * depth..][..count * depth];
        numbers(&self.geometry, |conv| self.packed(from, &self.some(&conv, count), part))
    }

    fn panels(&self) -> Option<Panels> {
        let weights =
            numbers(&self.geometry, |conv| conv.channels * conv.kernel.iter().product::<usize>());
        Some(Panels::blocks(weights))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxc_runtime::kernels::conv::WeightLayout;

    fn filters(kind: Kind, [groups, filters, channels]: [usize; 3], kernel: usize) -> Filters {
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
        Filters { kind, geometry, piece: 1 << 12 }
    }

    #[test]
    fn the_pieces_of_groups_are_their_packed_weights() {
        let how = filters(Kind::Groups(2), [4, 10, 6], 3);
        let from: Vec<f32> = (0..40 * 54).map(|i| i as f32).collect();
        numbers(&how.geometry, |conv| {
            let mut packed = vec![0.0; conv::packed_groups_len(&conv)];
            conv::pack_groups(&from, &mut packed, conv, 2);
            let pieces = (0..how.pieces::<f32>()).flat_map(|i| how.pack(i, &from));
            assert!(pieces.collect::<Vec<f32>>() == packed);
        });
    }

    #[test]
    fn the_pieces_of_a_convolution_are_its_packed_weights() {
        for (how, taps) in [
            (filters(Kind::Blocks, [1, 61, 30], 3), 9),
            (filters(Kind::Winograd(Tile::Two), [1, 61, 30], 3), 9),
            (filters(Kind::Winograd(Tile::Four), [1, 61, 30], 3), 9),
            (filters(Kind::Winograd(Tile::TwoApart), [1, 61, 30], 3), 9),
            (filters(Kind::Channels, [1, 61, 30], 3), 9),
            (filters(Kind::Depthwise, [309, 1, 1], 8), 64),
        ] {
            let depth = taps * how.geometry.channels.known().expect("a number") as usize;
            let from: Vec<f32> = (0..how.counts()[0] * depth).map(|i| i as f32).collect();
            let parts = 0..how.kind.parts();
            let part = |part| numbers(&how.geometry, |conv| how.packed(&from, &conv, part));
            let whole: Vec<f32> = parts.flat_map(part).collect();
            assert_eq!(how.len::<f32>(), whole.len());
            assert!(how.pieces::<f32>() > how.kind.parts());
            let pieces = (0..how.pieces::<f32>()).flat_map(|i| how.pack(i, &from));
            assert!(pieces.collect::<Vec<f32>>() == whole);
        }
    }
}
