//! The steps that every plan goes through after lowering.

use super::{Plan, copy_elision, dead_calls, memory, rematerialize};
use crate::diag::Diagnostic;

/// Removes dead calls and needless copies, rematerializes values where the arena would have more
/// than `max_arena` bytes, and lays out the memory that `plans` share.
///
/// # Errors
///
/// Returns an error if no order of the calls fits in `max_arena`, or a buffer does not fit the
/// address space.
pub fn finish(plans: &mut [&mut Plan], max_arena: Option<usize>) -> Result<(), Diagnostic> {
    for plan in &mut *plans {
        dead_calls::drop_unread(plan);
        copy_elision::move_sequences(plan);
    }
    if let Some(most) = max_arena {
        rematerialize::fit(plans.iter_mut().map(|plan| &mut **plan), most)?;
    }
    memory::lay_out(plans)
}
