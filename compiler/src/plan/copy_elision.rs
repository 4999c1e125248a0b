//! Copy elision for sequences: updates a sequence in place if its source is dead.

use super::{
    BufferId, Carried, Kind, Loop, Place, Plan, Step,
    step::{loop_operands, operands, rename},
};
use std::collections::{HashMap, HashSet};

/// Removes such copies.
pub fn move_sequences(plan: &mut Plan) {
    if plan.buffers.iter().all(|(_, buffer)| buffer.kind != Kind::Sequence) {
        return;
    }
    let mut steps = std::mem::take(&mut plan.steps);
    while let Some((from, to)) = Moves::of(plan, &steps).take(&mut steps, &Around::Model) {
        let settled = |id: BufferId| if id == to { from } else { id };
        rename(&mut steps, &settled);
        for port in &mut plan.outputs {
            port.operand.buffer = settled(port.operand.buffer);
        }
    }
    plan.steps = steps;
}

/// The construct that contains a list of steps.
enum Around<'l> {
    /// The model.
    Model,
    /// One of two branches.
    Branch,
    /// A loop.
    Loop(&'l Loop),
}

struct Moves {
    /// The sequences that steps of the model make.
    owned: HashSet<BufferId>,
    /// The number of uses of each buffer.
    uses: HashMap<BufferId, usize>,
    /// The outputs of the model.
    outputs: HashSet<BufferId>,
}

impl Moves {
    fn of(plan: &Plan, steps: &[Step]) -> Moves {
        let owned = |id: &BufferId| {
            let buffer = &plan.buffers[*id];
            buffer.kind == Kind::Sequence && buffer.place == Place::Heap
        };
        Moves {
            owned: plan.buffers.ids().filter(owned).collect(),
            uses: uses(steps),
            outputs: plan.outputs.iter().map(|port| port.operand.buffer).collect(),
        }
    }

    /// Removes one copy; returns its source and destination.
    fn take(&self, steps: &mut Vec<Step>, around: &Around<'_>) -> Option<(BufferId, BufferId)> {
        for i in 0..steps.len() {
            if let Some((from, to)) = self.copy(&steps[i])
                && self.is_move(&steps[..i], &steps[i + 1..], around, from, to)
            {
                steps.remove(i);
                return Some((from, to));
            }
            let found = match &mut steps[i] {
                Step::Call(_) | Step::Check(_) => None,
                Step::If(step) => {
                    step.branches.iter_mut().find_map(|b| self.take(&mut b.steps, &Around::Branch))
                }
                Step::Loop(step) => {
                    let mut body = std::mem::take(&mut step.body.steps);
                    let found = self.take(&mut body, &Around::Loop(step));
                    step.body.steps = body;
                    found
                }
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Returns the source and destination of a step that copies a sequence.
    fn copy(&self, step: &Step) -> Option<(BufferId, BufferId)> {
        let Step::Call(call) = step else { return None };
        let (from, to) = (call.reads().next()?.buffer, call.writes().next()?.buffer);
        let is_copy = call.kernel == "sequence::identity";
        (is_copy && self.owned.contains(&from) && self.owned.contains(&to)).then_some((from, to))
    }

    fn is_move(
        &self,
        before: &[Step],
        after: &[Step],
        around: &Around<'_>,
        from: BufferId,
        to: BufferId,
    ) -> bool {
        let [before, after] = [uses(before), uses(after)];
        let count = |of: &HashMap<BufferId, usize>, id| of.get(&id).copied().unwrap_or(0);
        let is_new = count(&before, to) == 0;
        let is_last = count(&after, from) == 0 && !self.outputs.contains(&from);
        // The copy itself uses each buffer once.
        let inside = |id| count(&before, id) + count(&after, id) + 1;
        let is_local = inside(from) == count(&self.uses, from);
        is_new
            && match around {
                Around::Model => is_last,
                Around::Branch => is_last && is_local,
                Around::Loop(step) => {
                    let is_passed = |c: &Carried| c.value.buffer == from && c.next.buffer == to;
                    let named = |id| loop_operands(step).filter(|o| o.buffer == id).count();
                    let is_carried = step.carried.iter().any(is_passed)
                        && named(from) == 1
                        && named(to) == 1
                        && inside(to) + 1 == count(&self.uses, to);
                    count(&after, from) == 0 && (is_carried || is_last && is_local)
                }
            }
    }
}

/// Counts the uses of each buffer.
fn uses(steps: &[Step]) -> HashMap<BufferId, usize> {
    let mut uses = HashMap::new();
    operands(steps, &mut |operand| *uses.entry(operand.buffer).or_default() += 1);
    uses
}
