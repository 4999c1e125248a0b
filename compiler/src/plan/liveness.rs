//! The live ranges of buffers.

use super::{
    Block, BufferId, Cond, If, Loop, Operand, Plan, Step,
    step::{loop_operands, operands},
};
use crate::arena::{Id, Map};
use std::collections::HashMap;

/// A live range: the first and the last step that use a buffer. Steps are counted through all
/// blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub first: usize,
    pub last: usize,
}

pub(super) fn lives(plan: &Plan) -> Map<BufferId, Life> {
    let variables = plan.states.iter().filter(|_| plan.learns).map(|state| &state.found.operand);
    let mut lives = Lives { plan, of: Map::default(), now: 0, seen: Vec::new(), refusals: None };
    lives.see_all(plan.defaults());
    lives.steps(&plan.steps);
    // Variables must keep their values until no step can return an error.
    if let Some(refusals) = lives.refusals {
        variables.for_each(|variable| lives.extend(variable.buffer, refusals));
    }
    lives.see_all(plan.results());
    lives.of
}

/// The number of times that the steps of a plan, its outputs and its states use each buffer.
pub struct UseCounts(Vec<usize>);

impl UseCounts {
    /// Counts the uses in `plan`.
    pub fn of(plan: &Plan) -> UseCounts {
        let mut all = vec![0; plan.buffers.len()];
        let mut count = |operand: &Operand| all[operand.buffer.index()] += 1;
        operands(&plan.steps, &mut count);
        let states = plan.states.iter().map(|state| &state.found.operand);
        plan.results().chain(plan.defaults()).chain(states).for_each(count);
        UseCounts(all)
    }

    /// Returns for each of `steps`, the plan's or those of a block, the buffers that no later step
    /// uses. Buffers that other steps, the outputs or the states use are in none of the lists.
    pub fn last_uses(&self, steps: &[Step]) -> Vec<Vec<BufferId>> {
        // The number of uses so far, and the last step.
        let mut uses: HashMap<BufferId, (usize, usize)> = HashMap::new();
        for (i, step) in steps.iter().enumerate() {
            operands(std::slice::from_ref(step), &mut |operand| {
                let (count, last) = uses.entry(operand.buffer).or_default();
                (*count, *last) = (*count + 1, i);
            });
        }
        let mut found = vec![Vec::new(); steps.len()];
        for (buffer, (count, last)) in uses {
            if self.0[buffer.index()] == count {
                found[last].push(buffer);
            }
        }
        found.iter_mut().for_each(|buffers| buffers.sort_unstable());
        found
    }
}

/// The live ranges of buffers up to the current step.
struct Lives<'p> {
    plan: &'p Plan,
    of: Map<BufferId, Life>,
    /// The number of steps so far.
    now: usize,
    /// The buffer of each use so far.
    seen: Vec<BufferId>,
    /// The first and the last step that can return an error.
    refusals: Option<Life>,
}

impl Lives<'_> {
    fn see(&mut self, operand: &Operand, now: usize) {
        self.seen.push(operand.buffer);
        match self.of.get_mut(operand.buffer) {
            Some(life) => life.last = now,
            None => {
                self.of.insert(operand.buffer, Life { first: now, last: now });
            }
        }
    }

    fn extend(&mut self, id: BufferId, by: Life) {
        let life = self.of.get(id).copied().unwrap_or(by);
        let life = Life { first: life.first.min(by.first), last: life.last.max(by.last) };
        self.of.insert(id, life);
    }

    fn see_all<'o>(&mut self, operands: impl IntoIterator<Item = &'o Operand>) {
        let now = self.now;
        operands.into_iter().for_each(|operand| self.see(operand, now));
    }

    fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            self.now += 1;
            match step {
                Step::Call(call) => self.see_all(call.reads().chain(call.writes())),
                Step::Check(_) => {}
                Step::If(step) => self.branches(step),
                Step::Loop(step) => self.iterations(step),
            }
            if self.plan.learns && (step.refuses() || self.plan.wants_heap(step)) {
                let first = self.refusals.map_or(self.now, |refusals| refusals.first);
                self.refusals = Some(Life { first, last: self.now });
            }
        }
    }

    fn branches(&mut self, step: &If) {
        if let Cond::Tensor(cond) = &step.cond {
            self.see_all([cond]);
        }
        // An output that one branch writes must not be overwritten by temporaries of the other
        // branch, nor by values that live until the branches meet.
        for Block { steps, results, .. } in &step.branches {
            self.steps(steps);
            self.now += 1;
            self.see_all(results.iter().chain(&step.outputs));
        }
        self.now += 1;
        self.see_all(&step.outputs);
    }

    fn iterations(&mut self, step: &Loop) {
        self.see_all(loop_operands(step));
        let (start, uses) = (self.now, self.seen.len());
        self.steps(&step.body.steps);
        self.now += 1;
        self.see_all(loop_operands(step).filter(|operand| Some(*operand) != step.cond.as_ref()));
        // A value from before the loop that an iteration uses is needed in all iterations.
        let end = self.now;
        for &id in &self.seen[uses..] {
            if let Some(life) = self.of.get_mut(id)
                && life.first <= start
                && life.last > start
            {
                life.last = end;
            }
        }
    }
}
