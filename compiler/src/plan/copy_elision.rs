//! Copy elision for sequences: updates a sequence in place if its source is dead.

use super::{
    BufferId, Kind, Loop, Place, Plan, Step,
    step::{operands_of, rename},
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    ops::Range,
};

/// Removes each copy of a sequence that nothing reads after the copy.
///
/// Removing a copy renames its destination to its source. In a loop, that may allow an earlier copy
/// to be removed, so the steps are visited until no copy is left that can be.
pub fn move_sequences(plan: &mut Plan) {
    if plan.buffers.iter().all(|(_, buffer)| buffer.kind != Kind::Sequence) {
        return;
    }
    let mut steps = mem::take(&mut plan.steps);
    loop {
        let mut moves = Moves::new(plan, &steps);
        moves.remove_copies(&mut steps, &Around::Model);
        if moves.sources.is_empty() {
            break;
        }
        let source = |id: BufferId| moves.source(id);
        rename(&mut steps, &source);
        for port in &mut plan.outputs {
            port.operand.buffer = source(port.operand.buffer);
        }
    }
    plan.steps = steps;
}

/// The construct that contains a list of steps.
enum Around {
    /// The model.
    Model,
    /// One of two branches.
    Branch,
    /// A loop.
    Loop {
        /// The number of the loop's step.
        number: usize,
        /// For each value that an iteration passes to the next: its buffer at the end of an
        /// iteration, and the one at the start.
        carried: HashMap<BufferId, BufferId>,
    },
}

/// How often each step uses a buffer, by the number of the step.
type Uses = BTreeMap<usize, usize>;

/// The uses of buffers. Steps are numbered in the order of the text; the operands of an `If` or a
/// `Loop` itself have the number of that step.
struct Moves {
    /// The sequences that steps of the model make.
    owned: HashSet<BufferId>,
    /// The uses of each buffer.
    uses: HashMap<BufferId, Uses>,
    /// The outputs of the model.
    outputs: HashSet<BufferId>,
    /// The numbers of the steps of each list, nested steps included, in the order of the text.
    lists: Vec<Range<usize>>,
    /// The first list that is not visited.
    next_list: usize,
    /// The first step that is not visited.
    next_step: usize,
    /// The source of each removed copy, by its destination.
    sources: HashMap<BufferId, BufferId>,
}

impl Moves {
    fn new(plan: &Plan, steps: &[Step]) -> Moves {
        let owned = |id: &BufferId| {
            let buffer = &plan.buffers[*id];
            buffer.kind == Kind::Sequence && buffer.place == Place::Heap
        };
        let mut moves = Moves {
            owned: plan.buffers.ids().filter(owned).collect(),
            uses: HashMap::new(),
            outputs: plan.outputs.iter().map(|port| port.operand.buffer).collect(),
            lists: Vec::new(),
            next_list: 0,
            next_step: 0,
            sources: HashMap::new(),
        };
        moves.count_uses(steps);
        moves.next_step = 0;
        moves
    }

    fn count_uses(&mut self, steps: &[Step]) {
        let (list, first) = (self.lists.len(), self.next_step);
        self.lists.push(0..0);
        for step in steps {
            let number = self.next_step;
            self.next_step += 1;
            operands_of(step, &mut |operand| {
                if self.owned.contains(&operand.buffer) {
                    let uses = self.uses.entry(operand.buffer).or_default();
                    *uses.entry(number).or_default() += 1;
                }
            });
            step.blocks().iter().for_each(|block| self.count_uses(&block.steps));
        }
        self.lists[list] = first..self.next_step;
    }

    /// Removes the copies in a list of steps, the nested ones included.
    fn remove_copies(&mut self, steps: &mut Vec<Step>, around: &Around) {
        let list = self.lists[self.next_list].clone();
        self.next_list += 1;
        steps.retain_mut(|step| {
            let number = self.next_step;
            self.next_step += 1;
            if let Some((from, to)) = self.copy(step)
                && self.is_move(number, &list, around, from, to)
            {
                self.merge(number, from, to);
                return false;
            }
            let around = match step {
                Step::Loop(step) => Around::of_loop(number, step),
                Step::If(_) | Step::Call(_) | Step::Check(_) => Around::Branch,
            };
            for block in step.blocks_mut() {
                self.remove_copies(&mut block.steps, &around);
            }
            true
        });
    }

    /// Returns the source and destination of a step that copies a sequence.
    fn copy(&self, step: &Step) -> Option<(BufferId, BufferId)> {
        let Step::Call(call) = step else { return None };
        let (from, to) = (call.reads().next()?.buffer, call.writes().next()?.buffer);
        let (from, to) = (self.source(from), self.source(to));
        let is_copy = call.kernel == "sequence::identity" && from != to;
        (is_copy && self.owned.contains(&from) && self.owned.contains(&to)).then_some((from, to))
    }

    /// Returns whether the copy with this number, in the steps `list`, can be removed.
    fn is_move(
        &self,
        number: usize,
        list: &Range<usize>,
        around: &Around,
        from: BufferId,
        to: BufferId,
    ) -> bool {
        let uses = |id| &self.uses[&id];
        let is_unused = |id, steps| uses(id).range::<usize, Range<usize>>(steps).next().is_none();
        let is_new = is_unused(to, list.start..number);
        let is_read_last = is_unused(from, number + 1..list.end);
        let is_last = is_read_last && !self.outputs.contains(&from);
        let is_local = outside(uses(from), list).next().is_none();
        is_new
            && match around {
                Around::Model => is_last,
                Around::Branch => is_last && is_local,
                Around::Loop { number, carried } => {
                    let is_passed =
                        carried.get(&to).is_some_and(|&value| self.source(value) == from);
                    let is_carried = is_passed
                        && uses(from).get(number) == Some(&1)
                        && outside(uses(to), list).take(2).eq([(number, &1)]);
                    is_read_last && is_carried || is_last && is_local
                }
            }
    }

    /// Renames `to` to `from` and forgets the copy with this number.
    fn merge(&mut self, number: usize, from: BufferId, to: BufferId) {
        let [mut many, mut few] =
            [from, to].map(|id| self.uses.remove(&id).expect("the copy uses both buffers"));
        if many.len() < few.len() {
            mem::swap(&mut many, &mut few);
        }
        for (step, count) in few {
            *many.entry(step).or_default() += count;
        }
        many.remove(&number);
        self.uses.insert(from, many);
        if self.outputs.contains(&to) {
            self.outputs.insert(from);
        }
        self.sources.insert(to, from);
    }

    /// Returns the buffer that `id` is renamed to.
    fn source(&self, mut id: BufferId) -> BufferId {
        while let Some(&source) = self.sources.get(&id) {
            id = source;
        }
        id
    }
}

impl Around {
    fn of_loop(number: usize, step: &Loop) -> Around {
        let carried = step.carried.iter().map(|c| (c.next.buffer, c.value.buffer)).collect();
        Around::Loop { number, carried }
    }
}

/// Returns the uses outside of the steps `list`.
fn outside<'u>(
    uses: &'u Uses,
    list: &Range<usize>,
) -> impl Iterator<Item = (&'u usize, &'u usize)> {
    uses.range(..list.start).chain(uses.range(list.end..))
}
