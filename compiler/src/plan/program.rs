//! The plan of a model.

use super::{
    Buffer, BufferId, Custom, Info, Kind, Operand, Optimize, Place, Port, State, Step,
    step::{calls, operands},
};
use crate::{
    arena::Arena,
    dim::{Dim, Known, Symbol},
    tensor::Tensor,
};
use std::{collections::BTreeMap, rc::Rc};

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

/// A call that is done again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rematerialized {
    /// The ONNX nodes that it is for.
    pub node: String,
    /// What it costs: see [`Call::operations`].
    pub operations: u64,
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
        operands(std::slice::from_ref(step), &mut |operand| found |= is_open(operand));
        found
    }

    /// The greatest that `dim` can be.
    pub fn upper(&self, dim: &Dim) -> Option<i64> {
        dim.upper(&|name| self.symbols.get(name)?.max)
    }

    /// Whether a buffer holds a state.
    pub fn holds_state(&self, buffer: BufferId) -> bool {
        self.states.iter().any(|state| state.found.operand.buffer == buffer)
    }

    /// Which of the variables of a model that learns a buffer holds.
    pub fn variable(&self, buffer: BufferId) -> Option<usize> {
        let variables = if self.learns { self.states.as_slice() } else { &[] };
        variables.iter().position(|state| state.found.operand.buffer == buffer)
    }
}
