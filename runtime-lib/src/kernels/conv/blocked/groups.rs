//! Groups of NCHWc channels. A group may end inside a block: a block that several groups share is
//! computed for each of them, and each keeps the channels of the groups before it.

use super::{BLOCK, product};
use crate::Number;
use crate::kernels::conv::Conv;
use crate::microkernel::Span;

/// The largest number of groups of a channel shuffle.
pub const MAX_SHUFFLED: usize = 16;

/// A grouped convolution whose input channels are read as they were before a channel shuffle of
/// `shuffled` groups: channel `i` is element `i / shuffled` of group `i % shuffled`.
pub(super) struct Groups<'a> {
    pub geometry: Conv<'a>,
    shuffled: usize,
}

/// The blocks of the output that are computed for one group.
pub(super) struct Part<'a> {
    /// The first block, relative to the start of the request.
    pub block: usize,
    pub blocks: usize,
    /// The offset of the weights.
    pub weights: usize,
    /// The channels that are read.
    pub spans: &'a [Span],
    /// The number of channels of the first block that belong to earlier groups.
    pub kept: usize,
}

/// Returns the blocks of the output that contain channels of a group: the first one and the end.
const fn blocks(geometry: &Conv<'_>, group: usize) -> [usize; 2] {
    let first = group * geometry.filters;
    [first / BLOCK, (first + geometry.filters).div_ceil(BLOCK)]
}

/// Returns the number of elements that [`pack_group`] writes for a group.
pub const fn packed_group_len(geometry: &Conv<'_>, group: usize) -> usize {
    let [first, end] = blocks(geometry, group);
    (end - first) * geometry.depth() * BLOCK
}

/// Returns the number of elements for all groups.
pub const fn packed_groups_len(geometry: &Conv<'_>) -> usize {
    let (mut group, mut len) = (0, 0);
    while group < geometry.groups {
        len += packed_group_len(geometry, group);
        group += 1;
    }
    len
}

/// Packs the weights `w` of one group for [`grouped_conv_nchwc`](super::grouped_conv_nchwc). The
/// channels of other groups in its first and last block get zeros.
pub fn pack_group<T: Number>(
    w: &[T],
    y: &mut [T],
    geometry: &Conv<'_>,
    shuffled: usize,
    group: usize,
) {
    let [first, end] = blocks(geometry, group);
    let start = group * geometry.filters;
    let groups = Groups::of(geometry, shuffled);
    let mut y = y.chunks_exact_mut(BLOCK);
    for block in first..end {
        groups.each_weight(group, |channel, tap| {
            let Some(y) = y.next() else { return };
            for (filter, y) in (block * BLOCK..).zip(y) {
                let filter = filter.checked_sub(start).filter(|&i| i < geometry.filters);
                let at = filter.map(|i| i * geometry.depth() + channel * product(geometry.kernel));
                *y = at.map_or(T::ZERO, |at| w[at + tap]);
            }
        });
    }
}

/// Packs the weights of all groups, at run time.
#[inline(never)]
pub fn pack_groups(w: &[f32], y: &mut [f32], geometry: Conv<'_>, shuffled: usize) {
    let (mut rest, each) = (y, (geometry.filters * geometry.depth()).max(1));
    for (group, w) in w.chunks_exact(each).enumerate() {
        let (packed, behind) = rest.split_at_mut(packed_group_len(&geometry, group));
        pack_group(w, packed, &geometry, shuffled, group);
        rest = behind;
    }
}

impl<'a> Groups<'a> {
    pub fn of(geometry: &Conv<'a>, shuffled: usize) -> Groups<'a> {
        Groups { geometry: *geometry, shuffled }
    }

    /// Returns the channels that a group reads, at their positions before the shuffle.
    fn spans(&self, group: usize) -> ([Span; MAX_SHUFFLED], usize) {
        let Conv { groups, channels, .. } = self.geometry;
        let mut spans = [Span::default(); MAX_SHUFFLED];
        let each = groups * channels / self.shuffled;
        for (from, span) in spans.iter_mut().enumerate().take(self.shuffled) {
            let before = |channel: usize| (channel + self.shuffled - 1 - from) / self.shuffled;
            let [first, end] = [before(group * channels), before((group + 1) * channels)];
            *span = Span { first: from * each + first, count: end - first };
        }
        (spans, self.shuffled.min(MAX_SHUFFLED))
    }

    /// Calls `tell` for each channel of a group and each tap, in the order in which weights are
    /// read.
    fn each_weight(&self, group: usize, mut tell: impl FnMut(usize, usize)) {
        let Conv { groups, channels, kernel, .. } = self.geometry;
        let (spans, count) = self.spans(group);
        let each = groups * channels / self.shuffled;
        for (from, span) in spans[..count].iter().enumerate() {
            let (mut first, end) = (span.first, span.first + span.count);
            while first < end {
                let next = (first / BLOCK + 1) * BLOCK;
                for tap in 0..product(kernel) {
                    for place in first..end.min(next) {
                        let channel = (place - from * each) * self.shuffled + from;
                        tell(channel - group * channels, tap);
                    }
                }
                first = next;
            }
        }
    }

    /// Calls `compute` for each part of `count` blocks of the output.
    #[inline(always)]
    pub fn parts(&self, from: usize, count: usize, mut compute: impl FnMut(&Part<'_>)) {
        let depth = self.geometry.depth();
        let mut weights = 0;
        for group in 0..self.geometry.groups {
            let [first, end] = blocks(&self.geometry, group);
            let [start, stop] = [first.max(from), end.min(from + count)];
            if start < stop {
                let kept = if start == first { group * self.geometry.filters % BLOCK } else { 0 };
                let (spans, spanned) = self.spans(group);
                compute(&Part {
                    block: start - from,
                    blocks: stop - start,
                    weights: weights + (start - first) * depth * BLOCK,
                    spans: &spans[..spanned],
                    kept,
                });
            }
            weights += (end - first) * depth * BLOCK;
        }
    }
}
