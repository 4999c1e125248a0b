//! Rematerialization: recomputes values instead of keeping them, so that a plan needs less memory.
//!
//! Values of a forward pass that the backward pass reads are in the arena all the time between. A
//! value that many steps merely carry along can be recomputed right before it is read, by repeating
//! its call and the calls before it whose results are no longer there. This repeats, value by
//! value, until the arena is small enough. Each time the pass chooses the value that frees the most
//! bytes at the peak per repeated operation. (Chen, Xu, Zhang and Guestrin, "Training Deep Nets
//! with Sublinear Memory Cost", 2016, recompute segments of a chain; Jain and others, "Checkmate",
//! 2020, treat arbitrary graphs; Kirisame and others, "Dynamic Tensor Rematerialization", 2021,
//! choose by operations and bytes.)
//!
//! Results stay bit-identical: the same kernels run on the same numbers. Calls that draw random
//! numbers, call user-defined functions, may return an error, or define sizes are not repeated, and
//! neither are calls inside of branches and loops.

use super::{
    Arg, Buffer, BufferId, Call, Operand, Optimize, Place, Plan, Rematerialized, Step,
    memory::{self, Pressure},
    step::{loop_operands, operands, rename},
};
use crate::{
    arena::Map,
    diag::{Code, Diagnostic, quoted},
};
use std::{
    cmp::{Ordering, Reverse},
    collections::{BTreeSet, HashMap},
};

/// The most calls that are repeated for one value.
const MOST_CALLS: usize = 64;

/// The number of candidates that are tried, the best first, before the pass gives up.
const MOST_TRIED: usize = 24;

/// Rematerializes values until an arena of `most` bytes holds the buffers of each of `plans`, whose
/// memory is not laid out yet.
///
/// # Errors
///
/// Returns an error if the arena stays larger; the diagnostic states the smallest size.
pub fn fit<'p>(
    plans: impl IntoIterator<Item = &'p mut Plan>,
    most: usize,
) -> Result<(), Diagnostic> {
    let (mut least, mut tightest, mut optimize, mut count) = (0, None, Optimize::Size, 0);
    for plan in plans {
        count += 1;
        let found = made_small(plan, most)?;
        if found > most && found > least {
            tightest = tightest_moment(plan);
        }
        (least, optimize) = (least.max(found), plan.optimize);
    }
    if least <= most {
        return Ok(());
    }
    // A model that trains has several plans.
    let remedy = remedy(optimize, count > 1);
    Err(too_small(most, least, tightest).help(remedy))
}

/// Shrinks the arena of `plan` to `most` bytes, or as far as possible, and returns its size.
fn made_small(plan: &mut Plan, most: usize) -> Result<usize, Diagnostic> {
    let mut least = usize::MAX;
    loop {
        let pressure = memory::pressure(plan)?;
        least = least.min(pressure.arena_bytes);
        if least <= most {
            return Ok(least);
        }
        let Some(relieved) = relieved(plan, &pressure)? else { return Ok(least) };
        *plan = relieved;
    }
}

fn too_small(most: usize, least: usize, tightest: Option<String>) -> Diagnostic {
    let message = format!("the model does not fit an arena of {most} bytes");
    let diagnostic = Diagnostic::new(Code::TooLarge, message)
        .note(format!("computing values again makes it as small as {least} bytes"));
    tightest.into_iter().fold(diagnostic, Diagnostic::note)
}

/// Lists the ways to need a smaller arena.
fn remedy(optimize: Optimize, has_training: bool) -> String {
    let mut ways = vec!["smaller dimensions (`--dim batch=1`)"];
    ways.extend(has_training.then_some("an optimizer with fewer variables"));
    ways.extend((optimize == Optimize::Speed).then_some("`--optimize size`"));
    match ways.as_slice() {
        [way] => format!("{way} need less"),
        [first, last] => format!("{first} or {last} need less"),
        [before @ .., last] => format!("{}, or {last} need less", before.join(", ")),
        [] => String::new(),
    }
}

/// Describes the step at which the most bytes are live, and its largest values.
fn tightest_moment(plan: &Plan) -> Option<String> {
    const LISTED: usize = 3;
    let mut plan = plan.clone();
    memory::lay_out(&mut [&mut plan]).ok()?;
    let moment = plan.fullest()?;
    let node = plan.step_nodes().get(moment.step).copied().unwrap_or_default().to_owned();
    let live = moment.live.iter().take(LISTED).map(|occupant| {
        format!("{} ({} bytes)", quoted(&plan.buffers[occupant.buffer].name), occupant.bytes)
    });
    let live: Vec<String> = live.collect();
    Some(format!("the tightest node is {}; live are {}", quoted(&node), live.join(", ")))
}

/// Returns the plan with one more rematerialized value and a lower peak.
fn relieved(plan: &Plan, pressure: &Pressure) -> Result<Option<Plan>, Diagnostic> {
    let uses = Uses::of(plan);
    let full = memory::step_at(&plan.steps, pressure.fullest);
    let mut candidates: Vec<Candidate> =
        plan.buffers.ids().filter_map(|value| uses.candidate(plan, value, full)).collect();
    candidates.sort_by(Candidate::compare);
    for candidate in candidates.iter().take(MOST_TRIED) {
        let changed = candidate.apply(plan);
        if memory::pressure(&changed)?.is_less_than(pressure) {
            return Ok(Some(changed));
        }
    }
    Ok(None)
}

/// The steps that use each buffer.
struct Uses {
    /// The steps that read or write a buffer, in order.
    steps: Map<BufferId, Vec<usize>>,
    /// The steps that write a buffer, in order.
    writes: Map<BufferId, Vec<usize>>,
}

/// A value that could be rematerialized.
struct Candidate {
    value: BufferId,
    /// The step before which it is recomputed.
    before: usize,
    /// The steps to repeat, in order.
    steps: BTreeSet<usize>,
    /// The bytes that it frees.
    bytes: usize,
    operations: u64,
}

impl Uses {
    fn of(plan: &Plan) -> Uses {
        let mut uses = Uses { steps: Map::default(), writes: Map::default() };
        for (i, step) in plan.steps.iter().enumerate() {
            let step = std::slice::from_ref(step);
            operands(step, &mut |operand| note(&mut uses.steps, operand, i));
            written(step, &mut |operand| note(&mut uses.writes, operand, i));
        }
        for operand in plan.results() {
            note(&mut uses.steps, operand, plan.steps.len());
            note(&mut uses.writes, operand, plan.steps.len());
        }
        uses
    }

    /// Returns how to recompute `value` instead of keeping it during step `full`.
    fn candidate(&self, plan: &Plan, value: BufferId, full: usize) -> Option<Candidate> {
        let Place::Arena { capacity, .. } = &plan.buffers[value].place else { return None };
        let capacity = usize::try_from(capacity.known()?).ok()?;
        let of_value = self.steps.get(value)?;
        let next = of_value.partition_point(|&step| step <= full);
        let (last, before) = (*of_value.get(next.checked_sub(1)?)?, *of_value.get(next)?);
        if last == full {
            return None;
        }
        let mut steps = BTreeSet::new();
        self.gather(plan, value, full, &mut steps)?;
        let operations = |&step: &usize| call(plan, step).map_or(0, |call| call.operations(plan));
        Some(Candidate {
            value,
            before,
            bytes: capacity * plan.buffers[value].dtype.bytes(),
            operations: steps.iter().map(operations).fold(1, u64::saturating_add),
            steps,
        })
    }

    /// Adds to `steps` the calls that recompute `value` after step `full`, if that is possible
    /// without memory at that step.
    fn gather(
        &self,
        plan: &Plan,
        value: BufferId,
        full: usize,
        steps: &mut BTreeSet<usize>,
    ) -> Option<()> {
        let [made] = self.writes.get(value)?[..] else { return None };
        let call = call(plan, made).filter(|call| call.gives_the_same_again())?;
        let alone = |o: &Operand| self.writes.get(o.buffer).is_some_and(|at| at.len() == 1);
        if !call.writes().all(alone) {
            return None;
        }
        if steps.len() == MOST_CALLS || !steps.insert(made) {
            return (steps.len() < MOST_CALLS).then_some(());
        }
        for read in call.reads() {
            let buffer = read.buffer;
            match plan.buffers[buffer].place {
                Place::Input(_) | Place::Weight { .. } => continue,
                Place::Heap => return None,
                Place::Arena { .. } => {}
            }
            let is_there = plan.holds_state(buffer) || *self.steps.get(buffer)?.last()? >= full;
            let changes = self.writes.get(buffer).is_some_and(|at| at.last() > Some(&made));
            match is_there {
                true if changes => return None,
                true => {}
                false => self.gather(plan, buffer, full, steps)?,
            }
        }
        Some(())
    }
}

impl Candidate {
    /// Orders candidates by bytes per operation, the best first.
    fn compare(&self, other: &Candidate) -> Ordering {
        let worth = |a: &Candidate, b: &Candidate| a.bytes as u128 * u128::from(b.operations);
        let order = worth(other, self).cmp(&worth(self, other));
        order.then_with(|| {
            (Reverse(self.bytes), self.value).cmp(&(Reverse(other.bytes), other.value))
        })
    }

    /// Returns the plan that rematerializes the value.
    fn apply(&self, plan: &Plan) -> Plan {
        let mut changed = plan.clone();
        let mut copies = HashMap::new();
        let mut again = Vec::new();
        for &step in &self.steps {
            let Some(found) = call(plan, step) else { continue };
            let mut call = found.clone();
            call.results.clear();
            for operand in call.outputs.iter_mut().filter_map(Arg::operand_mut) {
                let copy = || changed.buffers.push(copy_of(&plan.buffers[operand.buffer]));
                operand.buffer = *copies.entry(operand.buffer).or_insert_with(copy);
            }
            for operand in call.inputs.iter_mut().filter_map(Arg::operand_mut) {
                operand.buffer = copies.get(&operand.buffer).copied().unwrap_or(operand.buffer);
            }
            let operations = found.operations(plan);
            changed.rematerialized.push(Rematerialized { node: call.node.clone(), operations });
            changed.macs = changed.macs.saturating_add(call.macs);
            call.node.push_str(", again");
            again.push(Step::Call(call));
        }
        let copy = copies[&self.value];
        let settled = |id| if id == self.value { copy } else { id };
        rename(&mut changed.steps[self.before..], &settled);
        changed.steps.splice(self.before..self.before, again);
        changed
    }
}

impl Plan {
    /// Returns the number of repeated calls and their operations, if there are any.
    pub fn recomputed(&self) -> Option<(usize, u64)> {
        let operations = self.rematerialized.iter().map(|again| again.operations);
        (!self.rematerialized.is_empty())
            .then(|| (self.rematerialized.len(), operations.fold(0, u64::saturating_add)))
    }
}

impl Call {
    /// Returns whether the call computes the same result from the same inputs, and has no other
    /// effect.
    fn gives_the_same_again(&self) -> bool {
        let draws = self.params.uses().contains(&"random::Draws");
        let updates = self.form == super::Form::Updates;
        let own = self.params.custom().is_some();
        !(draws || updates || own || self.checked || !self.binds.is_empty())
    }

    /// Estimates the floating-point operations: two per multiply-add, and one per element written.
    pub fn operations(&self, plan: &Plan) -> u64 {
        let elements = |o: &Operand| plan.upper(&o.len).and_then(|n| u64::try_from(n).ok());
        let written = self.writes().take(1).filter_map(elements).fold(0, u64::saturating_add);
        self.macs.saturating_mul(2).saturating_add(written)
    }
}

fn copy_of(buffer: &Buffer) -> Buffer {
    Buffer { name: format!("{} again", buffer.name), ..buffer.clone() }
}

fn call(plan: &Plan, step: usize) -> Option<&Call> {
    match plan.steps.get(step)? {
        Step::Call(call) => Some(call),
        Step::Check(_) | Step::If(_) | Step::Loop(_) => None,
    }
}

fn note(uses: &mut Map<BufferId, Vec<usize>>, operand: &Operand, step: usize) {
    match uses.get_mut(operand.buffer) {
        Some(steps) if steps.last() == Some(&step) => {}
        Some(steps) => steps.push(step),
        None => {
            uses.insert(operand.buffer, vec![step]);
        }
    }
}

/// Calls `see` with every operand that steps may write; of branches and loops, all operands.
fn written(steps: &[Step], see: &mut dyn FnMut(&Operand)) {
    for step in steps {
        match step {
            Step::Call(call) => call.writes().for_each(&mut *see),
            Step::Check(_) => {}
            Step::If(step) => {
                step.outputs.iter().for_each(&mut *see);
                for block in &step.branches {
                    block.results.iter().for_each(&mut *see);
                    written(&block.steps, see);
                }
            }
            Step::Loop(step) => {
                loop_operands(step).for_each(&mut *see);
                written(&step.body.steps, see);
            }
        }
    }
}
