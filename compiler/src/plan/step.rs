//! The steps of a plan.

use super::{BufferId, Call, Operand};
use crate::dim::{Dim, Symbol};

/// One thing to do.
#[derive(Clone)]
pub enum Step {
    /// Call a kernel.
    Call(Call),
    /// Make sure of what the sizes must fulfil.
    Check(Check),
    /// Do one of two things.
    If(If),
    /// Do something again and again.
    Loop(Loop),
}

/// What sizes must fulfil, for the node named.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What the model calls the node.
    pub node: String,
    /// The condition.
    pub condition: Condition,
}

/// What two sizes must fulfil.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// They are equal.
    Equal(Dim, Dim),
    /// They are equal, or one of them is 1.
    Broadcast(Dim, Dim),
    /// The first is not smaller.
    AtLeast(Dim, Dim),
}

/// Two ways to get the same outputs.
#[derive(Clone)]
pub struct If {
    /// What the model calls the node.
    pub node: String,
    /// What decides.
    pub cond: Cond,
    /// The sizes that the branches settle.
    pub binds: Vec<Symbol>,
    /// Where the results go.
    pub outputs: Vec<Operand>,
    /// What to do where the condition holds, and where it does not.
    pub branches: [Block; 2],
}

/// Steps that are done again and again.
#[derive(Clone)]
pub struct Loop {
    /// What the model calls the node.
    pub node: String,
    /// The number of the iteration, from 0 on; after the loop, the number of iterations.
    pub iteration: Symbol,
    /// The greatest number of iterations.
    pub most: Option<TripCount>,
    /// Whether there is a first iteration, a `bool`.
    pub cond: Option<Operand>,
    /// Whether there is another iteration, a `bool` that each iteration makes.
    pub again: Option<Operand>,
    /// What each iteration gives to the next.
    pub carried: Vec<Carried>,
    /// What the iterations give one behind the other.
    pub stacked: Vec<Stacked>,
    /// The sizes that change from iteration to iteration.
    pub sizes: Vec<Resized>,
    /// The sizes of what iterations give that must not change.
    pub common: Vec<Common>,
    /// What a iteration does; its results are named above.
    pub body: Block,
}

/// The greatest number of iterations of a [`Loop`].
#[derive(Clone, Debug)]
pub enum TripCount {
    /// A size.
    Size(Dim),
    /// An `int64`.
    Tensor(Operand),
}

/// A value that each iteration of a [`Loop`] gives to the next.
#[derive(Clone)]
pub struct Carried {
    /// What the first iteration is given.
    pub initial: Operand,
    /// Where each iteration finds it; after the loop, what the last iteration gave.
    pub value: Operand,
    /// What a iteration gives.
    pub next: Operand,
}

/// A size that changes from iteration to iteration of a [`Loop`].
#[derive(Clone)]
pub struct Resized {
    /// Its name.
    pub symbol: Symbol,
    /// What it is before the first iteration.
    pub at_first: Dim,
    /// What it is after a iteration.
    pub after: Dim,
}

/// A size that all parts of an output have, which iterations of a [`Loop`] give: the first iteration settles
/// it, and those of the others are held against it.
#[derive(Clone)]
pub struct Common {
    /// What the model calls the node.
    pub node: String,
    /// What the model calls the output.
    pub output: String,
    /// The axis of a part.
    pub axis: usize,
    /// Its name behind the loop, where it is 0 if there was no iteration.
    pub symbol: Symbol,
    /// What it is in a iteration.
    pub size: Dim,
}

/// Values that the iterations of a [`Loop`] give, one behind the other.
#[derive(Clone)]
pub struct Stacked {
    /// What a iteration gives.
    pub item: Operand,
    /// Where all are put.
    pub all: Operand,
    /// Where this iteration's is put among them; `None` where their number is not known before, so
    /// that each is put behind those before.
    pub at: Option<Dim>,
}

/// What decides an [`If`].
#[derive(Clone, Debug)]
pub enum Cond {
    /// A tensor of one `bool`.
    Tensor(Operand),
    /// Sizes: true where this is not 0.
    Size(Dim),
}

/// Steps with results.
#[derive(Clone, Default)]
pub struct Block {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The sizes that the block settles.
    pub sizes: Vec<Dim>,
    /// The results; those that lie where they must be already are not copied.
    pub results: Vec<Operand>,
    /// Why the model cannot go on after the steps, where it cannot; there are no results then.
    pub refusal: Option<String>,
}

impl Step {
    /// Whether it can refuse the inputs, be it for their sizes or for their elements.
    pub fn refuses(&self) -> bool {
        self.refuses_sizes() || self.refuses_elements()
    }

    /// Whether it can refuse sizes.
    pub fn refuses_sizes(&self) -> bool {
        self.any(&|step| match step {
            Step::Check(_) => true,
            Step::If(step) => step.branches.iter().any(|block| block.refusal.is_some()),
            Step::Loop(step) => !step.common.is_empty(),
            Step::Call(_) => false,
        })
    }

    /// Whether a kernel can refuse what it is given.
    pub fn refuses_elements(&self) -> bool {
        self.any(&|step| matches!(step, Step::Call(call) if call.checked))
    }

    /// Whether it or a step inside it is such a one.
    fn any(&self, such: &dyn Fn(&Step) -> bool) -> bool {
        let inside = |block: &Block| block.steps.iter().any(|step| step.any(such));
        such(self)
            || match self {
                Step::Call(_) | Step::Check(_) => false,
                Step::Loop(step) => inside(&step.body),
                Step::If(step) => step.branches.iter().any(inside),
            }
    }
}

impl Loop {
    /// TripCount that nothing ends and that give nothing to each other.
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

/// Shows every call among `steps`, those of branches and loops too.
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

/// What a loop itself reads and writes, beside the steps of its body.
pub(super) fn loop_operands(step: &Loop) -> impl Iterator<Item = &Operand> {
    let most = match &step.most {
        Some(TripCount::Tensor(operand)) => Some(operand),
        Some(TripCount::Size(_)) | None => None,
    };
    let carried = step.carried.iter().flat_map(|c| [&c.initial, &c.value, &c.next]);
    let stacked = step.stacked.iter().flat_map(|s| [&s.item, &s.all]);
    most.into_iter().chain(&step.cond).chain(&step.again).chain(carried).chain(stacked)
}

/// Shows every operand of `steps`.
pub fn operands(steps: &[Step], see: &mut dyn FnMut(&Operand)) {
    for step in steps {
        match step {
            Step::Call(call) => call.reads().chain(call.writes()).for_each(&mut *see),
            Step::Check(_) => {}
            Step::If(step) => {
                if let Cond::Tensor(cond) = &step.cond {
                    see(cond);
                }
                step.outputs.iter().for_each(&mut *see);
                for block in &step.branches {
                    block.results.iter().for_each(&mut *see);
                    operands(&block.steps, see);
                }
            }
            Step::Loop(step) => {
                loop_operands(step).for_each(&mut *see);
                operands(&step.body.steps, see);
            }
        }
    }
}

pub(super) fn rename(steps: &mut [Step], to: &dyn Fn(BufferId) -> BufferId) {
    let rename_operand = |operand: &mut Operand| operand.buffer = to(operand.buffer);
    for step in steps {
        match step {
            Step::Call(call) => {
                let args = call.inputs.iter_mut().chain(&mut call.outputs);
                args.filter_map(|arg| arg.operand_mut()).for_each(rename_operand);
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
