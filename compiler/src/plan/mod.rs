//! A plan: the kernel calls of a model in order, and the buffers between them. It is all that the
//! back ends see; nothing here knows of graphs or operators.

pub mod activation;
mod copy_elision;
pub mod custom;
mod dead_calls;
mod draw;
mod finish;
pub mod formula;
pub mod geometry;
mod info;
mod kernel;
mod literal;
pub mod memory;
mod name;
mod plans;
pub mod rematerialize;
mod sizes;
pub mod state;
mod text;
mod training;
pub mod weight;

pub use custom::Custom;
pub use draw::{Draw, Seed};
pub use finish::finish;
pub use formula::{Field, Formula, NoParams, Symbols};
pub use info::Info;
pub use kernel::{Args, Call, Form, Kernel, Outcome, Params};
pub(crate) use kernel::{dispatch, kernel};
pub use literal::Literal;
pub use name::{Name, kept};
pub use plans::Plans;
pub use rematerialize::Rematerialized;
pub use state::State;
pub use training::{Algorithm, Training};
pub use weight::{Order, Weight};

use crate::{
    arena::{Arena, ids},
    dim::{Dim, Known, Symbol},
    dtype::DType,
    tensor::Tensor,
    ty::Type,
};
use std::{collections::BTreeMap, rc::Rc};

ids! {
    /// Names a buffer of a plan.
    BufferId
}

/// A model, as the calls that compute it.
#[derive(Clone, Default)]
pub struct Plan {
    /// What the model says about itself.
    pub info: Rc<Info>,
    /// The sizes known only when the model runs.
    pub symbols: BTreeMap<Symbol, Known>,
    /// All memory that the calls touch.
    pub buffers: Arena<BufferId, Buffer>,
    /// What the model is given.
    pub inputs: Vec<Port>,
    /// What the model gives.
    pub outputs: Vec<Port>,
    /// What it hands from one run to the next.
    pub states: Vec<State>,
    /// Whether the states are the variables of a model that learns: other plans have the same, at
    /// the head of the arena, and a run that is refused leaves them as they were.
    pub learns: bool,
    /// The calls, in order.
    pub steps: Vec<Step>,
    /// What matters most.
    pub optimize: Optimize,
    /// The bytes of memory that hold the buffers placed in the arena.
    pub arena_bytes: usize,
    /// The bytes of all weights, with the gaps that align them.
    pub weight_bytes: usize,
    /// The multiply-adds of one run, where every size is known.
    pub macs: u64,
    /// How many calls draw random numbers.
    pub draws: usize,
    /// The calls that are done again, to need less memory.
    pub rematerialized: Vec<Rematerialized>,
}

/// What matters most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Optimize {
    /// Time: kernels take scratch memory, and constant factors are packed.
    #[default]
    Speed,
    /// Space: simple loops over weights as they are.
    Size,
}

/// In how many bits the constant weights of products, convolutions, recurrent networks and tables
/// stand. Sums are those of `float` in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// As many as in the model.
    #[default]
    Full,
    /// `bfloat16`.
    Bf16,
    /// `float16`.
    F16,
    /// Bytes, times a factor for each channel.
    Int8Weights,
}

/// A piece of memory that holds one tensor, or several one after another, or a sequence.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// What the model calls the value.
    pub name: String,
    /// Of what kind it is.
    pub kind: Kind,
    /// The element type.
    pub dtype: DType,
    /// The number of elements.
    pub len: Dim,
    /// Where it is.
    pub place: Place,
}

/// What a buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Elements.
    Elements,
    /// A sequence of tensors, which counts as one element.
    Sequence,
}

/// Where a buffer is.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// The caller's memory: the input of that number.
    Input(usize),
    /// Among the weights, from that byte on.
    Weight {
        /// The first byte.
        offset: usize,
        /// The elements.
        weight: Weight,
        /// How many parameters of the model they are, before anything was packed.
        parameters: usize,
    },
    /// In the arena, from that byte on, as many elements as `capacity`.
    Arena {
        /// The first byte.
        offset: usize,
        /// The greatest number of elements that it holds.
        capacity: usize,
    },
    /// On the heap, from when it is first written.
    Heap,
}

/// A part of a buffer: what a call reads or writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// The buffer.
    pub buffer: BufferId,
    /// The first element.
    pub start: Dim,
    /// The number of elements.
    pub len: Dim,
}

/// What a call is given for one of its inputs.
#[derive(Clone, Debug)]
pub enum Arg {
    /// A tensor that the kernel always wants.
    Tensor(Operand),
    /// A tensor that the kernel can do without.
    Optional(Option<Operand>),
}

/// An input or an output of the model.
#[derive(Clone, Debug)]
pub struct Port {
    /// What the model calls it.
    pub name: String,
    /// What the model says of it.
    pub doc: String,
    /// Its type.
    pub ty: Type,
    /// Where its elements are: those of an optional's value, the values of a map.
    pub operand: Operand,
    /// What stands beside them: whether an optional has its value, the keys of a map.
    pub beside: Option<Operand>,
    /// What an input is where the caller leaves it out: a constant.
    pub default: Option<Operand>,
}

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

impl Plan {
    /// The constant that an input, or a state, is at first.
    pub fn initial(&self, port: &Port) -> Option<&Tensor> {
        self.constant(port.default.as_ref()?.buffer)
    }

    /// The constant that a buffer holds.
    pub fn constant(&self, buffer: BufferId) -> Option<&Tensor> {
        match &self.buffers[buffer].place {
            Place::Weight { weight, .. } => Some(weight.constant()),
            Place::Input(_) | Place::Arena { .. } | Place::Heap => None,
        }
    }

    /// The functions of the user's own that are called, in order.
    pub fn customs(&self) -> Vec<&Custom> {
        let mut found = Vec::new();
        calls(&self.steps, &mut |call| found.extend(call.params.custom()));
        found
    }

    /// Every part of a buffer that is read when the steps are done.
    pub fn results(&self) -> impl Iterator<Item = &Operand> {
        let states = self.states.iter().map(|state| &state.next);
        self.outputs.iter().chain(states).flat_map(Port::operands)
    }

    /// The constants that inputs and states are at first.
    pub fn defaults(&self) -> impl Iterator<Item = &Operand> {
        let states = self.states.iter().map(|state| &state.found);
        self.inputs.iter().chain(states).filter_map(|port| port.default.as_ref())
    }

    /// Whether a step writes memory on the heap whose size only running tells, and which may be
    /// more than there is.
    pub fn wants_heap(&self, step: &Step) -> bool {
        let is_open = |operand: &Operand| {
            let buffer = &self.buffers[operand.buffer];
            buffer.place == Place::Heap
                && buffer.kind == Kind::Elements
                && buffer.len.known().is_none()
        };
        let mut found = false;
        memory::operands(std::slice::from_ref(step), &mut |operand| found |= is_open(operand));
        found
    }

    /// The greatest that `dim` can be.
    pub fn upper(&self, dim: &Dim) -> Option<i64> {
        dim.upper(&|name| self.symbols.get(name)?.max)
    }
}

/// Shows every call among `steps`, those of branches and loops too.
fn calls<'s>(steps: &'s [Step], see: &mut dyn FnMut(&'s Call)) {
    for step in steps {
        match step {
            Step::Call(call) => see(call),
            Step::Check(_) => {}
            Step::If(step) => step.branches.iter().for_each(|block| calls(&block.steps, see)),
            Step::Loop(step) => calls(&step.body.steps, see),
        }
    }
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

impl Port {
    /// The sizes of the tensor in which the value is kept.
    pub fn shape(&self) -> &[Dim] {
        self.ty.kept().map_or(&[], |ty| &ty.shape)
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.ty.dtype().expect("a port has a type that is known")
    }

    /// Every part of a buffer that the value is made of.
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        std::iter::once(&self.operand).chain(&self.beside)
    }

    /// The same, to be changed.
    pub fn operands_mut(&mut self) -> impl Iterator<Item = &mut Operand> {
        std::iter::once(&mut self.operand).chain(&mut self.beside)
    }
}

impl Operand {
    /// All of a buffer.
    pub fn whole(buffer: BufferId, len: Dim) -> Operand {
        Operand { buffer, start: 0.into(), len }
    }
}

impl Arg {
    /// The operand, where there is one.
    pub fn operand(&self) -> Option<&Operand> {
        match self {
            Arg::Tensor(operand) => Some(operand),
            Arg::Optional(operand) => operand.as_ref(),
        }
    }

    /// The operand to be changed, where there is one.
    pub fn operand_mut(&mut self) -> Option<&mut Operand> {
        match self {
            Arg::Tensor(operand) => Some(operand),
            Arg::Optional(operand) => operand.as_mut(),
        }
    }
}

impl From<Operand> for Arg {
    fn from(operand: Operand) -> Arg {
        Arg::Tensor(operand)
    }
}

impl From<Option<Operand>> for Arg {
    fn from(operand: Option<Operand>) -> Arg {
        Arg::Optional(operand)
    }
}
