//! The arena over the time of a run: which buffer occupies which bytes during which steps.

use super::{
    BufferId, Place, Plan, Step,
    memory::{boxes, live_bytes},
};
use std::cmp::Reverse;

/// A buffer in the arena, and the steps during which it is live. Steps are counted through all
/// blocks, from 1; 0 is the time before the first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupant {
    /// The buffer.
    pub buffer: BufferId,
    /// Its first byte in the arena.
    pub offset: usize,
    /// Its size, in bytes, with padding for alignment.
    pub bytes: usize,
    /// The first step that uses it.
    pub first: usize,
    /// The last step that uses it.
    pub last: usize,
}

/// A step at which the most bytes are live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The number of the step.
    pub step: usize,
    /// The bytes that are live.
    pub bytes: usize,
    /// The buffers that are live, the largest first.
    pub live: Vec<Occupant>,
}

impl Plan {
    /// Returns the buffers that the compiler has placed in the arena, by their offset.
    pub fn occupants(&self) -> Vec<Occupant> {
        let offset = |buffer: BufferId| match self.buffers[buffer].place {
            Place::Arena { offset, .. } => offset,
            Place::Input(_) | Place::Weight { .. } | Place::Heap => 0,
        };
        let mut found: Vec<Occupant> = boxes(self)
            .into_iter()
            .map(|placed| Occupant {
                buffer: placed.buffer,
                offset: offset(placed.buffer),
                bytes: placed.bytes,
                first: placed.life.first,
                last: placed.life.last,
            })
            .collect();
        found.sort_by_key(|occupant| (occupant.offset, occupant.first, occupant.buffer));
        found
    }

    /// Returns the first step at which the most bytes of the arena are live. Returns `None` if the
    /// compiler places no buffer.
    pub fn fullest(&self) -> Option<Moment> {
        let bytes = live_bytes(&boxes(self));
        let step = (0..bytes.len()).max_by_key(|&step| (bytes[step], Reverse(step)))?;
        let is_live = |o: &Occupant| o.first <= step && step <= o.last;
        let mut live: Vec<Occupant> = self.occupants().into_iter().filter(is_live).collect();
        live.sort_by_key(|occupant| (Reverse(occupant.bytes), occupant.buffer));
        Some(Moment { step, bytes: bytes[step], live })
    }

    /// Returns the node of each step, by the number of the step. The steps that begin a branch or
    /// end a block belong to its node, and step 0 to none.
    pub fn step_nodes(&self) -> Vec<&str> {
        let mut nodes = vec![""];
        push_nodes(&self.steps, &mut nodes);
        nodes
    }
}

/// Counts as `Lives` does.
fn push_nodes<'p>(steps: &'p [Step], nodes: &mut Vec<&'p str>) {
    for step in steps {
        match step {
            Step::Call(call) => nodes.push(&call.node),
            Step::Check(check) => nodes.push(&check.node),
            Step::If(step) => {
                nodes.push(&step.node);
                for block in &step.branches {
                    push_nodes(&block.steps, nodes);
                    nodes.push(&step.node);
                }
                nodes.push(&step.node);
            }
            Step::Loop(step) => {
                nodes.push(&step.node);
                push_nodes(&step.body.steps, nodes);
                nodes.push(&step.node);
            }
        }
    }
}
