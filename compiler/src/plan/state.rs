//! States, which one run passes to the next.

use super::{Call, Port};

/// A value that one run passes to the next; neither an input nor an output for the caller.
#[derive(Clone)]
pub struct State {
    /// The state at the start of a run, with its initial value as default.
    pub found: Port,
    /// The state at the end of a run.
    pub next: Port,
    /// The call that copies `next` to `found`, unless they share memory.
    pub copy: Option<Call>,
}
