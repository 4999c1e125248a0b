//! Where the memory of a run is, for each public method.

use super::{ArenaIn, context::Context};

/// The memory that a public method runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Fields of a model that trains: its variables stay in them.
    Fields,
    /// The model's arena, a field of the type that belongs to the model.
    Own,
    /// An arena of that type in an argument.
    Argument,
    /// An arena of any type in an argument, which other models use too.
    Shared,
}

impl Memory {
    /// Returns the memory of each public method that runs a plan.
    pub fn of_methods(cx: &Context) -> &'static [Memory] {
        match cx.arena {
            ArenaIn::Caller => &[Memory::Shared],
            ArenaIn::Struct | ArenaIn::Heap if cx.is_training => &[Memory::Fields],
            ArenaIn::Struct | ArenaIn::Heap => &[Memory::Own, Memory::Argument],
        }
    }
}
