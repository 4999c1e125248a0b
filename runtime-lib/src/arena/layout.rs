//! The layout of an arena: buffers that no step uses at the same time share bytes.

use super::Block;
use super::gaps::place_step_by_step;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// A buffer to place in an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The size in bytes.
    pub bytes: usize,
    /// The first step that uses the buffer.
    pub first: u32,
    /// The last step that uses the buffer.
    pub last: u32,
}

impl Buffer {
    /// Returns the size in bytes, rounded up to whole blocks.
    pub(super) const fn rounded(&self) -> usize {
        self.bytes.next_multiple_of(Block::BYTES)
    }

    /// Returns the number of steps from the first to the last use.
    const fn steps(&self) -> usize {
        self.last as usize - self.first as usize + 1
    }

    /// Returns whether a step uses both buffers, or one is used between two uses of the other.
    const fn meets(&self, other: &Buffer) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The sort key of a buffer: descending, then ascending.
pub(super) type Key = (Reverse<usize>, usize);

/// The orders in which buffers are placed. Each is the best for some models, so all are tried.
const ORDERS: [fn(&Buffer) -> Key; 4] = [
    |b| (Reverse(b.rounded()), b.first as usize),
    |b| (Reverse(b.rounded().saturating_mul(b.steps())), b.first as usize),
    |b| (Reverse(b.steps()), b.first as usize),
    |b| (Reverse(usize::MAX - b.first as usize), b.rounded()),
];

/// More buffers than models usually have. Above this, buffers are placed step by step, because the
/// time of a best fit grows with the square of the number of buffers.
const MANY_BUFFERS: usize = 1 << 13;

/// Returns the size of an arena that holds `buffers`, in bytes, and the offset of each of them. The
/// first `head` buffers are at the start of the arena, in this order, if they are used in all
/// steps.
///
/// The sum of the sizes, rounded up to blocks, must fit the address space.
pub fn lay_out(buffers: &[Buffer], head: usize) -> (usize, Vec<usize>) {
    if buffers.len() > MANY_BUFFERS {
        return place_step_by_step(buffers, head);
    }
    let layouts = ORDERS.iter().map(|&order| {
        let mut sorted: Vec<usize> = (0..buffers.len()).collect();
        sort(buffers, &mut sorted[head..], order);
        best_fit(buffers, &sorted)
    });
    layouts.min_by_key(|(bytes, _)| *bytes).unwrap_or_default()
}

/// Sorts the indices of buffers: buffers with the same key by index. There is one such function,
/// because a sort is much code.
#[inline(never)]
pub(super) fn sort(buffers: &[Buffer], indices: &mut [usize], key: fn(&Buffer) -> Key) {
    indices.sort_unstable_by_key(|&i| (key(&buffers[i]), i));
}

/// Places each buffer in the smallest gap that is free during its live range.
fn best_fit(buffers: &[Buffer], order: &[usize]) -> (usize, Vec<usize>) {
    // The start and the index of each placed buffer, in the order of the arena.
    let mut placed: Vec<(usize, usize)> = Vec::with_capacity(buffers.len());
    let mut offsets = alloc::vec![0; buffers.len()];
    let mut end = 0;
    for &i in order {
        let buffer = &buffers[i];
        let bytes = buffer.rounded();
        let mut best: Option<(usize, usize)> = None;
        let mut from = 0;
        for &(start, other) in &placed {
            let other = &buffers[other];
            if !other.meets(buffer) {
                continue;
            }
            let gap = start.saturating_sub(from);
            if gap >= bytes && best.is_none_or(|(size, _)| gap < size) {
                best = Some((gap, from));
            }
            from = from.max(start + other.rounded());
        }
        let at = best.map_or(from, |(_, at)| at);
        end = end.max(at + bytes);
        offsets[i] = at;
        let place = placed.partition_point(|(other, _)| *other <= at);
        placed.insert(place, (at, i));
    }
    (end, offsets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(bytes: usize, first: u32, last: u32) -> Buffer {
        Buffer { bytes, first, last }
    }

    #[test]
    fn buffers_of_disjoint_live_ranges_share_bytes() {
        let buffers = [buffer(256, 1, 2), buffer(100, 2, 3), buffer(256, 3, 4), buffer(0, 1, 4)];
        let (bytes, offsets) = lay_out(&buffers, 0);
        assert_eq!(bytes, 256 + 128);
        assert_eq!(offsets[0], offsets[2]);
        assert_eq!(lay_out(&[], 0), (0, Vec::new()));
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri takes minutes for many buffers")]
    fn many_buffers_take_no_more_than_the_most_that_are_live() {
        // Each pair of buffers is live for three steps; all are of one size.
        let of_step = |i: u32| [buffer(100, i, i + 2), buffer(64, i, i + 2)];
        let buffers: Vec<Buffer> = (0..MANY_BUFFERS as u32).flat_map(of_step).collect();
        let (bytes, offsets) = lay_out(&buffers, 0);
        assert_eq!(bytes, 3 * (128 + 64));
        for (i, (a, at)) in buffers.iter().zip(&offsets).enumerate() {
            for (b, other) in buffers.iter().zip(&offsets).skip(i + 1).take(8) {
                let is_apart = at + a.rounded() <= *other || other + b.rounded() <= *at;
                assert!(is_apart || !a.meets(b), "{a:?} at {at}, {b:?} at {other}");
            }
        }
    }

    #[test]
    fn the_head_is_at_the_start_of_the_arena() {
        let buffers = [buffer(64, 0, 9), buffer(1, 0, 9), buffer(4096, 2, 3)];
        assert_eq!(lay_out(&buffers, 2), (4224, alloc::vec![0, 64, 128]));
    }
}
