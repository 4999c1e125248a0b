//! Memory planning: which calls run in place, where each buffer is in the arena, and where each
//! weight is in the blob.

pub use super::step::operands;

use super::{
    Arg, Block, BufferId, Form, Operand, Optimize, Place, Plan, Port, State, Step, WeightTable,
    dynamic,
    liveness::{Life, lives},
    step::rename,
};
use crate::{
    arena::Map,
    diag::{Code, Diagnostic, quoted},
    dtype::DType,
};
use onnxc_runtime::arena;
use std::{cmp::Ordering, collections::HashSet};

/// The alignment of buffers, and of weights when optimizing for speed, in bytes: a cache line, and
/// the widest vector.
pub const ALIGNMENT: usize = 64;

/// Lays out the memory that `plans` share.
///
/// # Errors
///
/// Returns an error if a buffer does not fit the address space.
pub fn lay_out(plans: &mut [&mut Plan]) -> Result<(), Diagnostic> {
    for plan in &mut *plans {
        fits(plan)?;
        reuse(plan);
        super::state_memory::share_state_memory(plan);
        dynamic::list(plan);
        place_buffers(plan);
    }
    place_weights(plans);
    let bytes = plans.iter().map(|plan| plan.arena_bytes).max().unwrap_or(0);
    let is_dynamic = plans.iter().any(|plan| !plan.dynamic.is_empty());
    for plan in plans {
        plan.arena_bytes = bytes;
        plan.has_dynamic_arena = is_dynamic;
    }
    Ok(())
}

/// Rejects buffers that exceed the address space, alone or in total, so that no sum of sizes below
/// overflows.
fn fits(plan: &Plan) -> Result<(), Diagnostic> {
    let mut all = 0_usize;
    for (_, buffer) in plan.buffers.iter() {
        let elements = match &buffer.place {
            Place::Arena { capacity, .. } => capacity.known(),
            _ => buffer.len.known(),
        };
        let elements = usize::try_from(elements.unwrap_or(0)).unwrap_or(usize::MAX);
        let bytes = elements.saturating_mul(buffer.dtype.bytes()).saturating_add(ALIGNMENT);
        all = all.saturating_add(bytes);
        if all > isize::MAX as usize {
            let name = quoted(&buffer.name);
            let message = format!("{name} has {elements} elements, which fit no address space");
            return Err(Diagnostic::new(Code::TooLarge, message));
        }
    }
    Ok(())
}

/// The memory pressure of a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pressure {
    /// The size of the arena, in bytes.
    pub arena_bytes: usize,
    /// The first step at which the most bytes are live; steps are counted through all blocks.
    pub fullest: usize,
    /// The number of bytes live at the peak, and the number of steps at the peak.
    most: (usize, usize),
}

impl Pressure {
    /// Returns whether the peak is lower, or as high at fewer steps.
    pub fn is_less_than(&self, other: &Pressure) -> bool {
        self.most < other.most
    }
}

/// Returns the memory pressure of `plan` if it were laid out now.
pub(super) fn pressure(plan: &Plan) -> Result<Pressure, Diagnostic> {
    let mut plan = plan.clone();
    fits(&plan)?;
    reuse(&mut plan);
    super::state_memory::share_state_memory(&mut plan);
    place_buffers(&mut plan);
    let mut most = (0, 0);
    let mut fullest = 0;
    for (step, live) in live_bytes(&boxes(&plan)).into_iter().enumerate() {
        match live.cmp(&most.0) {
            Ordering::Less => {}
            Ordering::Equal => most.1 += 1,
            Ordering::Greater => (most, fullest) = ((live, 1), step),
        }
    }
    Ok(Pressure { arena_bytes: plan.arena_bytes, fullest, most })
}

/// Returns the number of bytes that are live at each step; steps are counted through all blocks.
pub(super) fn live_bytes(boxes: &[Placed]) -> Vec<usize> {
    let steps = boxes.iter().map(|b| b.life.last + 1).max().unwrap_or(0);
    let mut change = vec![0_isize; steps + 1];
    for b in boxes {
        change[b.life.first] += b.bytes.cast_signed();
        change[b.life.last + 1] -= b.bytes.cast_signed();
    }
    let sums = change.into_iter().take(steps).scan(0, |live, change| {
        *live += change;
        Some(*live)
    });
    sums.map(isize::unsigned_abs).collect()
}

/// Returns the index in `steps` of the step with this number, counted through all blocks.
pub(super) fn step_at(steps: &[Step], number: usize) -> usize {
    let mut seen = 0;
    let last = steps.iter().position(|step| {
        seen += count(step);
        seen >= number
    });
    last.unwrap_or(steps.len())
}

/// Returns how far a step advances the count of [`Lives`].
fn count(step: &Step) -> usize {
    let all = |block: &Block| block.steps.iter().map(count).sum::<usize>() + 1;
    match step {
        Step::Call(_) | Step::Check(_) => 1,
        Step::If(step) => 2 + step.branches.iter().map(all).sum::<usize>(),
        Step::Loop(step) => 1 + all(&step.body),
    }
}

/// Returns a lower bound of any layout, in bytes: the most bytes that are live at one step.
pub fn lower_bound(plan: &Plan) -> usize {
    live_bytes(&boxes(plan)).into_iter().max().unwrap_or(0)
}

/// A buffer to place.
pub(super) struct Placed {
    pub(super) buffer: BufferId,
    pub(super) bytes: usize,
    pub(super) life: Life,
}

/// Returns the buffers that the compiler places in the arena.
pub(super) fn boxes(plan: &Plan) -> Vec<Placed> {
    let lives = lives(plan);
    let always = Life { first: 0, last: lives.ids().map(|id| lives[id].last).max().unwrap_or(0) };
    let is_dynamic = |buffer| !plan.dynamic.is_empty() && !plan.holds_state(buffer);
    let each = plan.buffers.iter().filter_map(|(buffer, found)| {
        let Place::Arena { capacity, .. } = &found.place else { return None };
        if is_dynamic(buffer) {
            return None;
        }
        let capacity = usize::try_from(capacity.known()?).unwrap_or(usize::MAX);
        let bytes = (capacity * found.dtype.bytes()).next_multiple_of(ALIGNMENT);
        let life = if plan.holds_state(buffer) { always } else { *lives.get(buffer)? };
        Some(Placed { buffer, bytes, life })
    });
    each.collect()
}

fn place_buffers(plan: &mut Plan) {
    let mut boxes = boxes(plan);
    // Variables are at the head of the arena, in the same order in all plans of a model.
    boxes.sort_by_key(|b| (plan.variable(b.buffer).unwrap_or(usize::MAX), b.buffer));
    let head = boxes.iter().filter(|b| plan.variable(b.buffer).is_some()).count();
    let step = |step: usize| u32::try_from(step).expect("a plan has fewer than 2^32 steps");
    let buffers = boxes.iter().map(|b| arena::Buffer {
        bytes: b.bytes,
        first: step(b.life.first),
        last: step(b.life.last),
    });
    let (bytes, offsets) = arena::lay_out(&buffers.collect::<Vec<_>>(), head);
    plan.arena_bytes = bytes;
    for (placed, at) in boxes.iter().zip(offsets) {
        if let Place::Arena { offset, .. } = &mut plan.buffers[placed.buffer].place {
            *offset = at;
        }
    }
}

/// Returns the alignment of a weight: that of its elements when optimizing for size.
fn alignment(optimize: Optimize, dtype: DType) -> usize {
    match optimize {
        Optimize::Speed => ALIGNMENT,
        Optimize::Size => dtype.bytes().max(1),
    }
}

/// Places the weights one after another; equal weights of several plans share memory.
fn place_weights(plans: &mut [&mut Plan]) {
    let mut placed: WeightTable<usize> = WeightTable::default();
    let mut end = 0_usize;
    for plan in &mut *plans {
        let lives = lives(plan);
        for id in plan.buffers.ids() {
            if !lives.contains(id) && matches!(plan.buffers[id].place, Place::Weight { .. }) {
                // No call reads the weight, so it is not written.
                plan.buffers[id].place = Place::Heap;
            }
            let alignment = alignment(plan.optimize, plan.buffers[id].dtype);
            if let Place::Weight { offset, weight, .. } = &mut plan.buffers[id].place {
                *offset = match placed.find(weight, |at| at.is_multiple_of(alignment)) {
                    Some(at) => *at,
                    None => {
                        let at = end.next_multiple_of(alignment);
                        placed.insert(weight.clone(), at);
                        end = (at + weight.bytes()).next_multiple_of(alignment);
                        at
                    }
                };
            }
        }
    }
    plans.iter_mut().for_each(|plan| plan.weight_bytes = end);
}

/// Runs calls in place where their inputs are dead.
fn reuse(plan: &mut Plan) {
    let lives = lives(plan);
    let mut merged: Map<BufferId, BufferId> = Map::default();
    let kept: HashSet<BufferId> = plan.results().map(|operand| operand.buffer).collect();
    let mut steps = std::mem::take(&mut plan.steps);
    let mut now = 0;
    reuse_in(&mut steps, &mut now, &mut |step, now| {
        let Step::Call(call) = step else { return };
        if call.form != Form::MayReuse {
            return;
        }
        call.form = Form::Apart;
        let whole = |o: &Operand| o.start.known() == Some(0) && plan.buffers[o.buffer].len == o.len;
        let planned = |id: BufferId| matches!(plan.buffers[id].place, Place::Arena { .. });
        let mut homes = Vec::new();
        for i in 0..call.overwrites {
            let (Some(x), Some(y)) = (
                call.inputs.get(i).and_then(|arg| arg.operand()),
                call.outputs.get(i).and_then(|arg| arg.operand()),
            ) else {
                return;
            };
            let of = |args: &[Arg], id: BufferId| {
                args.iter().filter_map(|arg| arg.operand()).filter(|o| o.buffer == id).count()
            };
            let apart = of(&call.inputs, x.buffer) == 1 && of(&call.outputs, x.buffer) == 0;
            let dies = lives.get(x.buffer).is_some_and(|life| life.last == now);
            let starts = lives.get(y.buffer).is_some_and(|life| life.first == now);
            let free = planned(x.buffer) && planned(y.buffer) && !kept.contains(&x.buffer);
            // An output is not placed in the memory of a state, unless it is the next state.
            let home = settled(&merged, x.buffer);
            let is_next = |state: &State| {
                state.found.operand.buffer == home && state.next.operand.buffer == y.buffer
            };
            let stays = plan.holds_state(home) && kept.contains(&y.buffer);
            let free = free && (!stays || plan.states.iter().any(is_next));
            // A call that returns an error may have written before.
            let free = free && !(call.checked && plan.variable(home).is_some());
            if !(whole(x) && whole(y) && apart && dies && starts && free) {
                return;
            }
            homes.push((y.buffer, home));
        }
        for (buffer, home) in homes {
            merged.insert(buffer, home);
        }
        call.form = Form::InPlace;
    });
    rename(&mut steps, &|id| settled(&merged, id));
    let states = plan.states.iter_mut().map(|state| &mut state.next);
    for operand in plan.outputs.iter_mut().chain(states).flat_map(Port::operands_mut) {
        operand.buffer = settled(&merged, operand.buffer);
    }
    plan.steps = steps;
}

fn settled(merged: &Map<BufferId, BufferId>, id: BufferId) -> BufferId {
    merged.get(id).copied().unwrap_or(id)
}

/// Calls `see` with every step and its number, counted like [`Lives`].
fn reuse_in(steps: &mut [Step], now: &mut usize, see: &mut dyn FnMut(&mut Step, usize)) {
    for step in steps {
        *now += 1;
        see(step, *now);
        match step {
            Step::Call(_) | Step::Check(_) => {}
            Step::If(step) => {
                for block in &mut step.branches {
                    reuse_in(&mut block.steps, now, see);
                    *now += 1;
                }
                *now += 1;
            }
            Step::Loop(step) => {
                reuse_in(&mut step.body.steps, now, see);
                *now += 1;
            }
        }
    }
}
