//! The steps of a plan.

use super::{BufferId, Call, Operand};
use crate::dim::{Dim, Symbol};
use std::slice;

/// One step of a plan.
#[derive(Clone)]
pub enum Step {
    /// Calls a kernel.
    Call(Call),
    /// Checks a condition on sizes.
    Check(Check),
    /// Runs one of two branches.
    If(If),
    /// Runs a loop.
    Loop(Loop),
}

/// A condition on sizes, checked at run time.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// The name of the node that requires it, or of the value if no node does.
    pub node: String,
    /// The rule that the sizes follow, in words.
    pub rule: Rule,
    /// The condition.
    pub condition: Condition,
}

/// The rule behind a check.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// A rule of the node's operator. The words are those of the errors of type inference.
    Node(String),
    /// A rule for a value of the model.
    Value(String),
}

/// A condition on two sizes.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// The sizes are equal.
    Equal(Dim, Dim),
    /// The sizes are equal, or one of them is 1.
    Broadcast(Dim, Dim),
    /// The first size is at least the second.
    AtLeast(Dim, Dim),
}

impl Condition {
    /// Returns both sizes.
    pub fn sizes(&self) -> [&Dim; 2] {
        let (Condition::Equal(a, b) | Condition::Broadcast(a, b) | Condition::AtLeast(a, b)) = self;
        [a, b]
    }

    /// Returns the condition with changed sizes.
    pub fn map(&self, change: &dyn Fn(&Dim) -> Dim) -> Condition {
        match self {
            Condition::Equal(a, b) => Condition::Equal(change(a), change(b)),
            Condition::Broadcast(a, b) => Condition::Broadcast(change(a), change(b)),
            Condition::AtLeast(a, b) => Condition::AtLeast(change(a), change(b)),
        }
    }
}

/// A branch.
#[derive(Clone)]
pub struct If {
    /// The name of the node.
    pub node: String,
    /// The condition.
    pub cond: Cond,
    /// The symbols that the branches define.
    pub binds: Vec<Symbol>,
    /// The destinations of the results.
    pub outputs: Vec<Operand>,
    /// The blocks for a true and a false condition.
    pub branches: [Block; 2],
}

/// A loop.
#[derive(Clone)]
pub struct Loop {
    /// The name of the node.
    pub node: String,
    /// The index of the iteration, from 0; after the loop, the number of iterations.
    pub iteration: Symbol,
    /// The maximum number of iterations.
    pub most: Option<TripCount>,
    /// Whether the first iteration runs: a `bool`.
    pub cond: Option<Operand>,
    /// Whether another iteration runs: a `bool` that each iteration computes.
    pub again: Option<Operand>,
    /// The loop-carried values.
    pub carried: Vec<Carried>,
    /// The outputs that stack a value of each iteration.
    pub stacked: Vec<Stacked>,
    /// The sizes that change from iteration to iteration.
    pub sizes: Vec<Resized>,
    /// The sizes of stacked values, which must be the same in all iterations.
    pub common: Vec<Common>,
    /// The body; the fields above name its results.
    pub body: Block,
}

/// The maximum number of iterations of a [`Loop`].
#[derive(Clone, Debug)]
pub enum TripCount {
    /// A size.
    Size(Dim),
    /// An `int64`.
    Tensor(Operand),
}

/// A loop-carried value of a [`Loop`].
#[derive(Clone)]
pub struct Carried {
    /// The value before the first iteration.
    pub initial: Operand,
    /// The value at the start of each iteration; after the loop, the value after the last
    /// iteration.
    pub value: Operand,
    /// The value at the end of an iteration.
    pub next: Operand,
}

/// A size that changes from iteration to iteration of a [`Loop`].
#[derive(Clone)]
pub struct Resized {
    /// The symbol of the size.
    pub symbol: Symbol,
    /// The size before the first iteration.
    pub at_first: Dim,
    /// The size after an iteration.
    pub after: Dim,
}

/// A size that all values of a stacked output share. The first iteration of a [`Loop`] defines it;
/// later iterations are checked against it.
#[derive(Clone)]
pub struct Common {
    /// The name of the node.
    pub node: String,
    /// The name of the output.
    pub output: String,
    /// The axis of the stacked value.
    pub axis: usize,
    /// The symbol after the loop; 0 if there was no iteration.
    pub symbol: Symbol,
    /// The size in an iteration.
    pub size: Dim,
}

/// A stacked output of a [`Loop`]: a value of each iteration, one after the other.
#[derive(Clone)]
pub struct Stacked {
    /// The value of an iteration.
    pub item: Operand,
    /// The stacked output.
    pub all: Operand,
    /// The offset of this iteration's value; `None` if the number of iterations is not known
    /// before, so that values are appended.
    pub at: Option<Dim>,
}

/// The condition of an [`If`].
#[derive(Clone, Debug)]
pub enum Cond {
    /// A tensor of one `bool`.
    Tensor(Operand),
    /// A size expression: true if it is not 0.
    Size(Dim),
}

/// Steps with results.
#[derive(Clone, Default)]
pub struct Block {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The sizes that the block defines.
    pub sizes: Vec<Dim>,
    /// The results; those that are in their destination already are not copied.
    pub results: Vec<Operand>,
    /// The error with which the block ends; it has no results then.
    pub refusal: Option<String>,
}

impl Step {
    /// Returns whether the step can return an error, because of sizes or of elements.
    pub fn refuses(&self) -> bool {
        self.refuses_sizes() || self.refuses_elements()
    }

    /// Returns whether the step can return an error because of sizes.
    pub fn refuses_sizes(&self) -> bool {
        self.any(&|step| match step {
            Step::Check(_) => true,
            Step::If(step) => step.branches.iter().any(|block| block.refusal.is_some()),
            Step::Loop(step) => !step.common.is_empty(),
            Step::Call(_) => false,
        })
    }

    /// Returns whether a kernel of the step can return an error because of elements.
    pub fn refuses_elements(&self) -> bool {
        self.any(&|step| matches!(step, Step::Call(call) if call.checked))
    }

    /// Returns whether `predicate` holds for the step or a step inside of it.
    fn any(&self, predicate: &dyn Fn(&Step) -> bool) -> bool {
        let inside = |block: &Block| block.steps.iter().any(|step| step.any(predicate));
        predicate(self) || self.blocks().iter().any(inside)
    }

    /// The blocks of the step: two branches, the body of a loop, or none.
    pub fn blocks(&self) -> &[Block] {
        match self {
            Step::Call(_) | Step::Check(_) => &[],
            Step::If(step) => &step.branches,
            Step::Loop(step) => slice::from_ref(&step.body),
        }
    }

    /// The blocks of the step, as [`Self::blocks`], to change them.
    pub(super) fn blocks_mut(&mut self) -> &mut [Block] {
        match self {
            Step::Call(_) | Step::Check(_) => &mut [],
            Step::If(step) => &mut step.branches,
            Step::Loop(step) => slice::from_mut(&mut step.body),
        }
    }
}

impl Loop {
    /// Creates a loop without conditions, carried values or outputs.
    pub fn new(node: String, iteration: Symbol, body: Block) -> Loop {
        Loop {
            node,
            iteration,
            most: None,
            cond: None,
            again: None,
            carried: Vec::new(),
            stacked: Vec::new(),
            sizes: Vec::new(),
            common: Vec::new(),
            body,
        }
    }
}

/// Calls `see` with every call in `steps`, those of branches and loops included.
pub(super) fn calls<'s>(steps: &'s [Step], see: &mut dyn FnMut(&'s Call)) {
    for step in steps {
        match step {
            Step::Call(call) => see(call),
            Step::Check(_) => {}
            Step::If(step) => step.branches.iter().for_each(|block| calls(&block.steps, see)),
            Step::Loop(step) => calls(&step.body.steps, see),
        }
    }
}

/// Returns the operands of a loop, without those of its body.
pub(super) fn loop_operands(step: &Loop) -> impl Iterator<Item = &Operand> {
    let most = match &step.most {
        Some(TripCount::Tensor(operand)) => Some(operand),
        Some(TripCount::Size(_)) | None => None,
    };
    let carried = step.carried.iter().flat_map(|c| [&c.initial, &c.value, &c.next]);
    let stacked = step.stacked.iter().flat_map(|s| [&s.item, &s.all]);
    most.into_iter().chain(&step.cond).chain(&step.again).chain(carried).chain(stacked)
}

/// Calls `see` with every operand of `steps`.
pub fn operands(steps: &[Step], see: &mut dyn FnMut(&Operand)) {
    for step in steps {
        operands_of(step, see);
        step.blocks().iter().for_each(|block| operands(&block.steps, see));
    }
}

/// Calls `see` with the operands of a step, without those of the steps inside of it.
pub(super) fn operands_of(step: &Step, see: &mut dyn FnMut(&Operand)) {
    match step {
        Step::Call(call) => call.reads().chain(call.writes()).for_each(see),
        Step::Check(_) => {}
        Step::If(step) => {
            if let Cond::Tensor(cond) = &step.cond {
                see(cond);
            }
            let results = step.branches.iter().flat_map(|block| &block.results);
            step.outputs.iter().chain(results).for_each(see);
        }
        Step::Loop(step) => loop_operands(step).for_each(see),
    }
}

pub(super) fn rename(steps: &mut [Step], to: &dyn Fn(BufferId) -> BufferId) {
    let rename_operand = |operand: &mut Operand| operand.buffer = to(operand.buffer);
    for step in steps {
        match step {
            Step::Call(call) => {
                let args = call.inputs.iter_mut().chain(&mut call.outputs);
                args.filter_map(|arg| arg.operand_mut()).for_each(rename_operand);
                call.results.iter_mut().for_each(|written| rename_operand(&mut written.operand));
            }
            Step::Check(_) => {}
            Step::Loop(step) => {
                if let Some(TripCount::Tensor(operand)) = &mut step.most {
                    rename_operand(operand);
                }
                step.cond.iter_mut().chain(&mut step.again).for_each(rename_operand);
                for carried in &mut step.carried {
                    let Carried { initial, value, next, .. } = carried;
                    [initial, value, next].into_iter().for_each(rename_operand);
                }
                for Stacked { item, all, .. } in &mut step.stacked {
                    [item, all].into_iter().for_each(rename_operand);
                }
                rename(&mut step.body.steps, to);
            }
            Step::If(step) => {
                if let Cond::Tensor(cond) = &mut step.cond {
                    rename_operand(cond);
                }
                step.outputs.iter_mut().for_each(rename_operand);
                for block in &mut step.branches {
                    block.results.iter_mut().for_each(rename_operand);
                    rename(&mut block.steps, to);
                }
            }
        }
    }
}
