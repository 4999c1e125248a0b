//! The memory of states. A state keeps its place in the arena: a run computes the new state in
//! place if the old one is dead by then, and copies it otherwise.

use super::{BufferId, Place, Plan, Port, State, Step, liveness::lives, step::rename};

/// Shares memory between the old and the new state, where possible.
pub fn share_state_memory(plan: &mut Plan) {
    for i in 0..plan.states.len() {
        let (from, to) = {
            let State { found, next, .. } = &plan.states[i];
            (next.operand.buffer, found.operand.buffer)
        };
        if from != to && (can_be_made_there(plan, i) || can_grow_there(plan, i)) {
            rename_buffer(plan, from, to);
        }
        let State { next, copy, .. } = &mut plan.states[i];
        let copy = copy.take().filter(|_| next.operand.buffer != to);
        if let Some(mut call) = copy {
            // The operand may have moved since the call was created.
            call.inputs = vec![next.operand.clone().into()];
            plan.steps.push(Step::Call(call));
        }
    }
}

/// Returns whether the new state `i` can be computed in place: it is a buffer of its own, first
/// written after the last read of the old state.
fn can_be_made_there(plan: &Plan, i: usize) -> bool {
    let State { found, next, .. } = &plan.states[i];
    let (from, to) = (next.operand.buffer, found.operand.buffer);
    let lives = lives(plan);
    let is_apart = match (lives.get(to), lives.get(from)) {
        (Some(old), Some(new)) => old.last < new.first,
        (None, Some(_)) => true,
        (_, None) => false,
    };
    let buffer = &plan.buffers[from];
    let is_whole = next.operand.start.known() == Some(0) && next.operand.len == buffer.len;
    let is_placed = matches!(buffer.place, Place::Arena { .. });
    is_apart && is_whole && is_placed && !plan.holds_state(from)
}

/// Returns whether the new state `i` is the old one with elements appended; then it grows in place,
/// and the step that copies the old state to the front of the new one is removed.
fn can_grow_there(plan: &mut Plan, i: usize) -> bool {
    let State { found, next, .. } = &plan.states[i];
    let is_front = |step: &Step| {
        let Step::Call(call) = step else { return false };
        let (Some(old), Some(new)) = (call.reads().next(), call.writes().next()) else {
            return false;
        };
        call.kernel == "reshape::identity"
            && *old == found.operand
            && new.buffer == next.operand.buffer
            && new.start.known() == Some(0)
            && new.len == old.len
    };
    let Some(front) = plan.steps.iter().position(is_front) else { return false };
    let copy = plan.steps.remove(front);
    let can = can_be_made_there(plan, i);
    if !can {
        plan.steps.insert(front, copy);
    }
    can
}

/// Replaces one buffer by another in all steps and ports.
fn rename_buffer(plan: &mut Plan, from: BufferId, to: BufferId) {
    let settled = |id: BufferId| if id == from { to } else { id };
    rename(&mut plan.steps, &settled);
    let states = plan.states.iter_mut().map(|state| &mut state.next);
    for operand in plan.outputs.iter_mut().chain(states).flat_map(Port::operands_mut) {
        operand.buffer = settled(operand.buffer);
    }
}
