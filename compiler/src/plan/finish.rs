//! The steps that every plan goes through after lowering.

use super::{Plan, copy_elision, dead_calls, memory, rematerialize};
use crate::diag::{Code, Diagnostic};

/// Removes dead calls and needless copies, rematerializes values where the arena would have more
/// than `max_arena` bytes, and lays out the memory that `plans` share.
///
/// # Errors
///
/// Returns an error if no order of the calls fits in `max_arena`, if it limits an arena whose size
/// is free, or if a buffer does not fit the address space.
pub fn finish(plans: &mut [&mut Plan], max_arena: Option<usize>) -> Result<(), Diagnostic> {
    for plan in &mut *plans {
        dead_calls::drop_unread(plan);
        copy_elision::move_sequences(plan);
    }
    if let Some(most) = max_arena {
        if plans.iter().any(|plan| plan.has_free_buffers()) {
            let message = "the size of the arena depends on free dimensions, so it has no limit";
            let help = "bound them: `--dim NAME=1..=N`, or omit `--max-arena`";
            return Err(Diagnostic::new(Code::BadOption, message).help(help));
        }
        rematerialize::fit(plans.iter_mut().map(|plan| &mut **plan), most)?;
    }
    memory::lay_out(plans)
}
