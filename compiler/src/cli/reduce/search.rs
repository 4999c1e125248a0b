//! Searches for a small list of nodes that still shows what the whole list shows.
//!
//! Two bisections find a window of the nodes, as most faults are in one place. Delta debugging then
//! removes nodes in the window: <https://www.st.cs.uni-saarland.de/dd/>

use crate::cli::progress;
use std::time::{Duration, Instant};

/// A search, which ends early when its time is over.
pub struct Search<'s> {
    /// Returns whether a list of nodes shows it.
    test: &'s mut dyn FnMut(&[usize]) -> bool,
    end: Instant,
    /// The number of tests so far.
    pub tests: usize,
    /// Whether a test was left out because the time was over.
    pub is_cut_short: bool,
}

impl<'s> Search<'s> {
    /// Starts a search.
    pub fn new(test: &'s mut dyn FnMut(&[usize]) -> bool, time: Duration) -> Search<'s> {
        // A time that no clock reaches is the same as a year.
        let year = Duration::from_secs(365 * 24 * 60 * 60);
        Search { test, end: Instant::now() + time.min(year), tests: 0, is_cut_short: false }
    }

    /// Tests a list of nodes, unless the time is over.
    pub fn shows(&mut self, nodes: &[usize]) -> bool {
        if nodes.is_empty() {
            return false;
        }
        if Instant::now() >= self.end {
            self.is_cut_short = true;
            return false;
        }
        self.tests += 1;
        progress::set_about(format!("({} nodes, test {})", nodes.len(), self.tests));
        (self.test)(nodes)
    }

    /// Returns a small part of `nodes`, which show it.
    pub fn reduce(&mut self, nodes: Vec<usize>) -> Vec<usize> {
        let end = self.bisect(nodes.len(), |search, end| search.shows(&nodes[..end]));
        let nodes = &nodes[..end];
        let left = self.bisect(end, |search, left| search.shows(&nodes[end - left..]));
        self.remove_chunks(nodes[end - left..].to_vec())
    }

    /// Returns a small count of nodes that shows it. All `count` of them do.
    fn bisect(
        &mut self,
        count: usize,
        mut shows: impl FnMut(&mut Search<'s>, usize) -> bool,
    ) -> usize {
        let (mut too_few, mut enough) = (0, count);
        while too_few + 1 < enough {
            let middle = too_few.midpoint(enough);
            if shows(self, middle) {
                enough = middle;
            } else {
                too_few = middle;
            }
        }
        enough
    }

    /// Removes chunks of nodes, large ones first, until no single node can be removed.
    fn remove_chunks(&mut self, mut nodes: Vec<usize>) -> Vec<usize> {
        let mut size = nodes.len() / 2;
        while size > 0 && !self.is_cut_short {
            let mut start = 0;
            let before = nodes.len();
            while start < nodes.len() {
                let end = (start + size).min(nodes.len());
                let rest = [&nodes[..start], &nodes[end..]].concat();
                if self.shows(&rest) {
                    nodes = rest;
                } else {
                    start = end;
                }
            }
            // Without a node, another one may have become removable.
            if size > 1 || nodes.len() == before {
                size /= 2;
            }
        }
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced(count: usize, needed: &[usize]) -> Vec<usize> {
        let mut test = |nodes: &[usize]| needed.iter().all(|node| nodes.contains(node));
        let mut search = Search::new(&mut test, Duration::MAX);
        let found = search.reduce((0..count).collect());
        assert!(!search.is_cut_short && search.tests < 200);
        found
    }

    #[test]
    fn only_the_nodes_that_are_needed_remain() {
        for needed in [&[0][..], &[99], &[42, 43, 44], &[3, 50, 97]] {
            assert_eq!(reduced(100, needed), needed);
        }
        assert_eq!(reduced(1, &[0]), [0]);
    }

    #[test]
    fn the_nodes_so_far_remain_when_the_time_is_over() {
        let mut test = |nodes: &[usize]| nodes.contains(&7);
        let mut search = Search::new(&mut test, Duration::ZERO);
        assert_eq!(search.reduce((0..10).collect()), (0..10).collect::<Vec<_>>());
        assert!(search.is_cut_short);
    }
}
