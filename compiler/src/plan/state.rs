//! States: what a model passes from one run to the next.

use super::{Call, Port};

/// What a model hands from one run to the next: neither input nor output for the caller.
#[derive(Clone)]
pub struct State {
    /// Where a run finds it, and what the first one finds.
    pub found: Port,
    /// What a run makes of it.
    pub next: Port,
    /// The call that puts it where the next run finds it, unless it is made there.
    pub copy: Option<Call>,
}
