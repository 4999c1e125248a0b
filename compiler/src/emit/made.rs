//! The heap buffers that exist at one place of a function.

use crate::plan::BufferId;
use std::collections::HashSet;

/// The heap buffers that exist, in the order in which statements make them.
#[derive(Default)]
pub struct Made {
    order: Vec<BufferId>,
    all: HashSet<BufferId>,
}

impl Made {
    /// Adds a buffer; returns whether it is new.
    pub fn insert(&mut self, buffer: BufferId) -> bool {
        let is_new = self.all.insert(buffer);
        if is_new {
            self.order.push(buffer);
        }
        is_new
    }

    /// Returns whether a buffer exists.
    pub fn contains(&self, buffer: BufferId) -> bool {
        self.all.contains(&buffer)
    }

    /// Returns the number of buffers.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Removes all buffers but the first `len`. The others were made in a block that ends here.
    pub fn truncate(&mut self, len: usize) {
        for buffer in self.order.drain(len..) {
            self.all.remove(&buffer);
        }
    }
}

impl Extend<BufferId> for Made {
    fn extend<I: IntoIterator<Item = BufferId>>(&mut self, buffers: I) {
        for buffer in buffers {
            self.insert(buffer);
        }
    }
}
