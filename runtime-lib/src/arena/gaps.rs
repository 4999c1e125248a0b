//! A layout whose time is nearly linear: buffers are placed in the order of their first use, in the
//! gaps that buffers leave after their last use.

use super::layout::{Buffer, sort};
use alloc::collections::{BTreeMap, BTreeSet, BinaryHeap};
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Returns the size of an arena that holds `buffers`, in bytes, and the offset of each of them. The
/// first `head` buffers are at the start of the arena, in this order.
pub(super) fn place_step_by_step(buffers: &[Buffer], head: usize) -> (usize, Vec<usize>) {
    let mut offsets = alloc::vec![0; buffers.len()];
    let mut end = 0;
    for (offset, buffer) in offsets.iter_mut().zip(&buffers[..head]) {
        *offset = end;
        end += buffer.rounded();
    }
    let mut order: Vec<usize> = (head..buffers.len()).collect();
    // By first use, then from large to small.
    sort(buffers, &mut order, |b| {
        (Reverse(usize::MAX - b.first as usize), usize::MAX - b.rounded())
    });
    let mut gaps = Gaps::default();
    // The buffers that are in use, the one whose last use is the earliest on top.
    let mut live: BinaryHeap<Reverse<(u32, usize)>> = BinaryHeap::new();
    for i in order {
        let (first, bytes) = (buffers[i].first, buffers[i].rounded());
        while let Some(&Reverse((last, dead))) = live.peek()
            && last < first
        {
            live.pop();
            gaps.add(offsets[dead], buffers[dead].rounded());
        }
        if bytes == 0 {
            continue;
        }
        offsets[i] = gaps.take(bytes).unwrap_or_else(|| {
            let start = gaps.take_until(end).unwrap_or(end);
            end = start + bytes;
            start
        });
        live.push(Reverse((buffers[i].last, i)));
    }
    (end, offsets)
}

/// The gaps of an arena. Two gaps never touch.
#[derive(Default)]
struct Gaps {
    /// The size of the gap at each offset.
    sizes: BTreeMap<usize, usize>,
    /// The size and the offset of each gap.
    by_size: BTreeSet<(usize, usize)>,
}

impl Gaps {
    /// Adds a gap, and joins it with those that it touches.
    fn add(&mut self, start: usize, size: usize) {
        let (mut first, mut end) = (start, start + size);
        if let Some((&before, &size)) = self.sizes.range(..start).next_back()
            && before + size == start
        {
            self.remove(before, size);
            first = before;
        }
        if let Some(&size) = self.sizes.get(&end) {
            self.remove(end, size);
            end += size;
        }
        self.insert(first, end - first);
    }

    /// Takes bytes of the smallest gap that has as many; returns their offset.
    fn take(&mut self, bytes: usize) -> Option<usize> {
        let &(size, start) = self.by_size.range((bytes, 0)..).next()?;
        self.remove(start, size);
        if size > bytes {
            self.insert(start + bytes, size - bytes);
        }
        Some(start)
    }

    /// Takes the gap that ends at `end`; returns its offset.
    fn take_until(&mut self, end: usize) -> Option<usize> {
        let (&start, &size) = self.sizes.last_key_value()?;
        (start + size == end).then(|| self.remove(start, size))
    }

    fn insert(&mut self, start: usize, size: usize) {
        self.sizes.insert(start, size);
        self.by_size.insert((size, start));
    }

    fn remove(&mut self, start: usize, size: usize) -> usize {
        self.sizes.remove(&start);
        self.by_size.remove(&(size, start));
        start
    }
}
