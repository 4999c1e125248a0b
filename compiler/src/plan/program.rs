//! The plan of a model.

use super::{
    Buffer, BufferId, Call, ComputedSize, Custom, DynamicBuffer, Info, Kind, Operand, Optimize,
    Place, Port, State, Step,
    step::{calls, operands},
};
use crate::{
    arena::Arena,
    dim::{Dim, Known, Symbol},
    tensor::Tensor,
};
use std::{collections::BTreeMap, rc::Rc};

/// The plan of a model.
///
/// ```
/// use onnxc::{Compiler, Options, interpreter, tensor::Tensor};
///
/// let model = r#"<ir_version: 10, opset_import: ["" : 21]>
///     g (float[2] x) => (float[2] y) { y = Add (x, x) }"#;
/// let plan = Compiler::new(&Options::default()).plan(model.into())?;
/// assert_eq!((&*plan.inputs[0].name, &*plan.outputs[0].name), ("x", "y"));
/// assert_eq!(plan.steps.len(), 1);
/// let outputs = interpreter::run(&plan, &[Tensor::from_floats(&[1.0, 2.0]).into()])?;
/// assert_eq!(outputs[0].tensor().and_then(Tensor::floats), Some(vec![2.0, 4.0]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Plan {
    /// The metadata of the model.
    pub info: Rc<Info>,
    /// The sizes that are known only at run time.
    pub symbols: BTreeMap<Symbol, Known>,
    /// All buffers of the calls.
    pub buffers: Arena<BufferId, Buffer>,
    /// The inputs of the model.
    pub inputs: Vec<Port>,
    /// The outputs of the model.
    pub outputs: Vec<Port>,
    /// The states, which one run passes to the next.
    pub states: Vec<State>,
    /// Whether the states are the variables of a training model. Its plans share them at the head
    /// of the arena, and a run that returns an error leaves them unchanged.
    pub learns: bool,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The optimization goal.
    pub optimize: Optimize,
    /// The size of the arena, in bytes. In a model with [dynamic](Plan::dynamic) buffers it is that
    /// of the head, which holds the states.
    pub arena_bytes: usize,
    /// The buffers that a run places in the arena when its sizes are known; empty if the compiler
    /// places all.
    pub dynamic: Vec<DynamicBuffer>,
    /// Whether a plan that shares the arena has dynamic buffers.
    pub has_dynamic_arena: bool,
    /// The sizes that a function of the runtime library computes, by their symbols.
    pub computed: BTreeMap<Symbol, Rc<dyn ComputedSize>>,
    /// The size of all weights, in bytes, with padding for alignment.
    pub weight_bytes: usize,
    /// The multiply-adds of one run, where all sizes are known.
    pub macs: u64,
    /// The multiply-adds of the nodes whose sizes are free.
    pub free_macs: Vec<Dim>,
    /// The number of calls that draw random numbers.
    pub draws: usize,
    /// The calls that are repeated to save memory.
    pub rematerialized: Vec<Rematerialized>,
}

/// A call that is repeated to save memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rematerialized {
    /// The ONNX nodes that the call computes.
    pub node: String,
    /// The cost of the call: see [`Call::operations`].
    pub operations: u64,
}

impl Plan {
    /// Returns the initial value of a state, or the default of an input.
    pub fn initial(&self, port: &Port) -> Option<&Tensor> {
        self.constant(port.default.as_ref()?.buffer)
    }

    /// Returns the constant that a buffer holds.
    pub fn constant(&self, buffer: BufferId) -> Option<&Tensor> {
        match &self.buffers[buffer].place {
            Place::Weight { weight, .. } => Some(weight.constant()),
            Place::Input(_) | Place::Arena { .. } | Place::Heap => None,
        }
    }

    /// Calls `see` with every call, those of branches and loops included.
    pub fn calls<'s>(&'s self, see: &mut dyn FnMut(&'s Call)) {
        calls(&self.steps, see);
    }

    /// Returns the user-defined functions that are called, in order.
    pub fn customs(&self) -> Vec<&Custom> {
        let mut found = Vec::new();
        calls(&self.steps, &mut |call| found.extend(call.params.custom()));
        found
    }

    /// Returns the operands that are read after the last step.
    pub fn results(&self) -> impl Iterator<Item = &Operand> {
        let states = self.states.iter().map(|state| &state.next);
        self.outputs.iter().chain(states).flat_map(Port::operands)
    }

    /// Returns the defaults of inputs and the initial values of states.
    pub fn defaults(&self) -> impl Iterator<Item = &Operand> {
        let states = self.states.iter().map(|state| &state.found);
        self.inputs.iter().chain(states).filter_map(|port| port.default.as_ref())
    }

    /// Returns whether a step allocates memory of a data-dependent size, which may fail.
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

    /// Returns the multiply-adds of a run with these sizes, in which a symbol without a value is 0.
    pub fn macs_of(&self, sizes: &BTreeMap<Symbol, i64>) -> u64 {
        let bound = |name: &str| sizes.get(name).copied().unwrap_or(0);
        let free = self.free_macs.iter().map(|macs| u64::try_from(macs.eval(&bound)).unwrap_or(0));
        free.fold(self.macs, u64::saturating_add)
    }

    /// Returns the upper bound of `dim`.
    pub fn upper(&self, dim: &Dim) -> Option<i64> {
        dim.upper(&|name| self.symbols.get(name)?.max)
    }

    /// Returns the upper bound of `dim` if each of its symbols is bounded.
    pub fn bound(&self, dim: &Dim) -> Option<i64> {
        dim.bound(&|name| self.symbols.get(name)?.max)
    }

    /// Returns whether a buffer holds a state.
    pub fn holds_state(&self, buffer: BufferId) -> bool {
        self.states.iter().any(|state| state.found.operand.buffer == buffer)
    }

    /// Returns the index of the variable that a buffer holds.
    pub fn variable(&self, buffer: BufferId) -> Option<usize> {
        let variables = if self.learns { self.states.as_slice() } else { &[] };
        variables.iter().position(|state| state.found.operand.buffer == buffer)
    }
}
