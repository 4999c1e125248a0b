//! Dead-call elimination. Most dead calls compute shapes that became formulas.

use super::{
    Block, BufferId, Cond, Plan, Step,
    step::{loop_operands, operands},
};
use std::collections::HashSet;

/// Drops calls whose results are not read.
pub fn drop_unread(plan: &mut Plan) {
    let mut read: HashSet<BufferId> = plan.results().map(|operand| operand.buffer).collect();
    let mut steps = std::mem::take(&mut plan.steps);
    keep_read(&mut steps, &mut read);
    plan.steps = steps;
}

/// Keeps the steps whose results are read later, from the last step to the first.
fn keep_read(steps: &mut Vec<Step>, read: &mut HashSet<BufferId>) {
    let mut kept = Vec::new();
    for mut step in std::mem::take(steps).into_iter().rev() {
        if is_needed(&mut step, read) {
            kept.push(step);
        }
    }
    kept.reverse();
    *steps = kept;
}

fn is_needed(step: &mut Step, read: &mut HashSet<BufferId>) -> bool {
    match step {
        Step::Check(_) => true,
        Step::Call(call) => {
            // A call that can return an error, or defines sizes, is kept whether or not its results
            // are read.
            let settles = call.checked || !call.binds.is_empty();
            let needed = settles || call.writes().any(|operand| read.contains(&operand.buffer));
            if needed {
                read.extend(call.reads().map(|operand| operand.buffer));
            }
            needed
        }
        Step::Loop(step) => {
            // An iteration may read what the previous one wrote, so nothing in the body is dropped.
            read.extend(loop_operands(step).map(|operand| operand.buffer));
            operands(&step.body.steps, &mut |operand| {
                read.insert(operand.buffer);
            });
            true
        }
        Step::If(step) => {
            if let Cond::Tensor(cond) = &step.cond {
                read.insert(cond.buffer);
            }
            for Block { steps, results, .. } in &mut step.branches {
                read.extend(results.iter().map(|operand| operand.buffer));
                keep_read(steps, read);
            }
            true
        }
    }
}
