//! The interpreter: runs a plan in this process, with the kernels that generated code calls.
//!
//! Constant folding, `onnxc run`, `onnxc test --interpret` and the tests of generated modules use
//! it.

mod initial_state;
mod inputs;
mod precision_error;
mod training;

pub use precision_error::{OutputError, measure_errors};
pub use training::Learner;

use crate::{
    arena::Map,
    array::Array,
    diag::{Code, Diagnostic, quoted},
    dim::{Dim, Symbol},
    dtype::DType,
    plan::{
        Args, Block, BufferId, Call, Check, Common, Cond, Condition, If, Kind, Loop, Operand,
        Place, Plan, Port, Rule, Step, TripCount, UseCounts, kept, step::operands,
    },
    tensor::Tensor,
    ty::Type,
    value::Value,
};
use onnxc_runtime::{Error, Result, simd::run_portably, view::check_part};
use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
};

/// Runs `plan` on `inputs`, one for each input of the plan, in order. `Value::Optional(None)` omits
/// an input that has a default.
///
/// # Errors
///
/// Returns an error if the inputs do not match the plan, or if a kernel returns one.
pub fn run(plan: &Plan, inputs: &[Value]) -> Result<Vec<Value>> {
    Session::new(plan).run(inputs)
}

/// Runs a plan without inputs. The results have the same bits on every processor.
///
/// # Errors
///
/// Returns an error if a kernel returns one.
pub fn evaluate(plan: &Plan) -> Result<Vec<Value>> {
    run_portably(|| Session::new(plan).run(&[]))
}

/// Runs a plan without inputs as [`evaluate`] does, within a budget: the elements that its calls
/// touch, plus a constant per call. Subtracts the cost from `work`.
///
/// # Errors
///
/// Returns an error if the budget is exhausted, or if a kernel returns one.
pub fn run_within(plan: &Plan, work: &mut u64) -> Result<Vec<Value>> {
    let mut session = Session { work: Some(*work), ..Session::new(plan) };
    let outputs = run_portably(|| session.run(&[]));
    *work = session.work.unwrap_or_default();
    outputs
}

/// A plan with the state that one run passes to the next.
pub struct Session<'p> {
    plan: &'p Plan,
    /// The states; `None` before the first run.
    states: Option<Vec<Tensor>>,
    /// The number of times that each call has drawn random numbers.
    draws: Vec<u64>,
    /// The remaining budget, if the run has one.
    work: Option<u64>,
    /// The nodes of the call that ended the last run with an error.
    failed: Option<&'p str>,
}

impl<'p> Session<'p> {
    /// Creates a session before its first run.
    pub fn new(plan: &'p Plan) -> Session<'p> {
        Session { plan, states: None, draws: Vec::new(), work: None, failed: None }
    }

    /// Runs the plan once, as [`run`] does, and keeps its states for the next run.
    ///
    /// # Errors
    ///
    /// Returns an error if the inputs do not match the plan, or if a kernel returns one.
    pub fn run(&mut self, inputs: &[Value]) -> Result<Vec<Value>> {
        let plan = self.plan;
        self.failed = None;
        let mut interpreter = Interpreter {
            plan,
            arrays: Map::default(),
            symbols: RefCell::default(),
            draws: RefCell::new(std::mem::take(&mut self.draws)),
            work: &mut self.work,
            failed: &mut self.failed,
        };
        // The inputs that are given bind the symbols before the defaults of the others do.
        let (given, omitted): (Vec<_>, Vec<_>) =
            plan.inputs.iter().zip(inputs).partition(|(_, value)| **value != Value::Optional(None));
        for (port, value) in given.into_iter().chain(omitted) {
            interpreter.set_input(port, value)?;
        }
        interpreter.set_states(self.states.as_deref())?;
        self.states = None;
        let last_uses = UseCounts::of(plan).last_uses(&plan.steps);
        for (step, buffers) in plan.steps.iter().zip(last_uses) {
            interpreter.run_step(step)?;
            buffers.into_iter().for_each(|buffer| drop(interpreter.arrays.remove(buffer)));
        }
        self.draws = interpreter.draws.take();
        let next = plan.states.iter().map(|state| interpreter.output(&state.next));
        let next: Vec<Value> = next.collect::<Result<_>>()?;
        self.states = next.into_iter().map(Value::into_tensor).collect();
        plan.outputs.iter().map(|port| interpreter.output(port)).collect()
    }

    /// Returns the diagnostic for `error`, with which the last run ended. Its location is the node
    /// whose kernel returned the error.
    pub fn diagnose(&self, error: &Error) -> Diagnostic {
        let diagnostic = Diagnostic::new(Code::Refused, error.to_string());
        match self.failed {
            Some(node) => diagnostic.within(format!("node {}", quoted(node))),
            None => diagnostic,
        }
    }
}

/// The memory of one run of a plan that lives for `'p`, within a session that it borrows for `'s`.
struct Interpreter<'p, 's> {
    plan: &'p Plan,
    arrays: Map<BufferId, Array>,
    symbols: RefCell<HashMap<Symbol, i64>>,
    /// The number of times that each call has drawn random numbers.
    draws: RefCell<Vec<u64>>,
    /// The remaining budget, if the run has one.
    work: &'s mut Option<u64>,
    /// The nodes of the call that returned an error.
    failed: &'s mut Option<&'p str>,
}

impl<'p> Interpreter<'p, '_> {
    fn output(&mut self, port: &Port) -> Result<Value> {
        // A buffer without elements may not exist yet, because no call writes it.
        let array = self.take(&port.operand)?;
        let companion =
            port.companion.as_ref().map(|companion| self.take(companion)).transpose()?;
        let value = match (array, companion) {
            (Array::Sequence(list), _) => {
                Value::Sequence(list.tensors().into_iter().map(Value::Tensor).collect())
            }
            (array, Some(keys)) if port.ty.key().is_some() => {
                return Ok(self.maps(port, keys, &array));
            }
            (array, _) => {
                let shape = port.shape().iter().map(|dim| self.size(dim)).collect();
                Value::Tensor(array.into_tensor(shape))
            }
        };
        let given = || port.companion.as_ref().map(|companion| self.part(companion));
        Ok(match &port.ty {
            Type::Optional(_) => {
                let is_there = given() != Some(Array::Bool(vec![false]));
                Value::Optional(is_there.then(|| Box::new(value)))
            }
            _ => value,
        })
    }

    /// Returns a map, or a sequence of maps, one for each row of values.
    fn maps(&self, port: &Port, keys: Array, values: &Array) -> Value {
        let count = keys.len();
        let keys = keys.into_tensor(vec![count]);
        let row = |at: usize| {
            Value::Map(keys.clone(), values.part(at * count, count).into_tensor(vec![count]))
        };
        match port.ty {
            Type::Sequence(_) => {
                let rows = port.shape().first().map_or(0, |rows| self.size(rows));
                Value::Sequence((0..rows).map(row).collect())
            }
            _ => row(0),
        }
    }

    fn eval(&self, dim: &Dim) -> i64 {
        let symbols = self.symbols.borrow();
        dim.eval(&|name| self.plan.symbol(name, &|name| symbols.get(name).copied()))
    }

    fn size(&self, dim: &Dim) -> usize {
        usize::try_from(self.eval(dim)).unwrap_or(0)
    }

    fn run_steps(&mut self, steps: &'p [Step]) -> Result {
        steps.iter().try_for_each(|step| self.run_step(step))
    }

    fn run_step(&mut self, step: &'p Step) -> Result {
        match step {
            Step::Call(call) => {
                self.call(call).inspect_err(|_| *self.failed = Some(call.node.as_str()))
            }
            Step::Check(check) => self.check(check),
            Step::If(step) => self.run_if(step),
            Step::Loop(step) => self.run_loop(step),
        }
    }

    fn check(&self, check: &Check) -> Result {
        let (holds, a, b) = match &check.condition {
            Condition::Equal(a, b) => (self.eval(a) == self.eval(b), a, b),
            Condition::AtLeast(a, b) => (self.eval(a) >= self.eval(b), a, b),
            Condition::Broadcast(a, b) => {
                let (x, y) = (self.eval(a), self.eval(b));
                (x == y || x == 1 || y == 1, a, b)
            }
        };
        if holds {
            return Ok(());
        }
        let (left, right) = (self.size(a), self.size(b));
        let (node, rule) = match &check.rule {
            Rule::Node(rule) => (kept(&check.node), kept(rule)),
            Rule::Value(rule) => ("", kept(rule)),
        };
        Err(match &check.condition {
            Condition::Equal(..) => Error::Mismatch { node, rule, left, right },
            Condition::AtLeast(..) => Error::TooSmall { node, rule, left, right },
            Condition::Broadcast(..) => Error::Broadcast { node, left, right },
        })
    }

    fn run_if(&mut self, step: &'p If) -> Result {
        let taken = match &step.cond {
            Cond::Size(dim) => self.eval(dim) != 0,
            Cond::Tensor(cond) => {
                let start = self.size(&cond.start);
                match self.arrays.get(cond.buffer) {
                    Some(Array::Bool(values)) => values.get(start).copied().unwrap_or(false),
                    _ => false,
                }
            }
        };
        let block: &'p Block = &step.branches[usize::from(!taken)];
        self.run_steps(&block.steps)?;
        if block.refusal.is_some() {
            return Err(Error::Value("a branch was taken that does not fit the inputs"));
        }
        let sizes: Vec<i64> = block.sizes.iter().map(|dim| self.eval(dim)).collect();
        self.symbols.borrow_mut().extend(step.binds.iter().cloned().zip(sizes));
        for (from, to) in block.results.iter().zip(&step.outputs) {
            if from != to {
                let part = self.take(from)?;
                self.put(to, part)?;
            }
        }
        Ok(())
    }

    fn run_loop(&mut self, step: &'p Loop) -> Result {
        let most = match &step.most {
            Some(TripCount::Size(dim)) => self.eval(dim),
            Some(TripCount::Tensor(operand)) => match self.take(operand)? {
                Array::I64(values) => values.first().copied().unwrap_or(0),
                _ => 0,
            },
            None => i64::MAX,
        };
        let is_true = |array: Array| array == Array::Bool(vec![true]);
        let mut again = match &step.cond {
            Some(cond) => is_true(self.take(cond)?),
            None => true,
        };
        for carried in &step.carried {
            let initial = self.take(&carried.initial)?;
            self.replace(&carried.value, initial)?;
        }
        self.bind(step.sizes.iter().map(|size| (&size.symbol, &size.at_first)));
        let none = Dim::from(0);
        self.bind(step.common.iter().map(|common| (&common.symbol, &none)));
        let before: HashSet<BufferId> = self.arrays.ids().collect();
        let mut stacks: Vec<Option<Array>> = vec![None; step.stacked.len()];
        let mut iteration = 0;
        while again && iteration < most {
            self.symbols.borrow_mut().insert(step.iteration.clone(), iteration);
            self.run_steps(&step.body.steps)?;
            if iteration == 0 {
                self.bind(step.common.iter().map(|common| (&common.symbol, &common.size)));
            }
            step.common.iter().try_for_each(|common| self.check_part(common))?;
            again = match &step.again {
                Some(again) => is_true(self.take(again)?),
                None => true,
            };
            for (stack, stacked) in stacks.iter_mut().zip(&step.stacked) {
                let item = self.take(&stacked.item)?;
                if let Some(at) = &stacked.at {
                    let (start, len) = (&stacked.all.start + at, stacked.item.len.clone());
                    self.put(&Operand { buffer: stacked.all.buffer, start, len }, item)?;
                    continue;
                }
                match stack {
                    Some(stack) => stack.append(item),
                    None => *stack = Some(item),
                }
            }
            let next = step.carried.iter().map(|carried| self.take(&carried.next));
            let next: Vec<Array> = next.collect::<Result<_>>()?;
            self.bind(step.sizes.iter().map(|size| (&size.symbol, &size.after)));
            for (carried, next) in step.carried.iter().zip(next) {
                self.replace(&carried.value, next)?;
            }
            self.forget(&step.body.steps, &before);
            iteration += 1;
        }
        self.symbols.borrow_mut().insert(step.iteration.clone(), iteration);
        for (stack, stacked) in stacks.into_iter().zip(&step.stacked) {
            self.ensure(&stacked.all)?;
            if let Some(stack) = stack {
                self.put(&stacked.all, stack)?;
            }
        }
        Ok(())
    }

    fn check_part(&self, common: &Common) -> Result {
        let Common { node, output, axis, symbol, size } = common;
        let (expected, found) = (self.size(&Dim::symbol(symbol)), self.size(size));
        check_part(kept(node), kept(output), *axis, expected, found)
    }

    /// Binds symbols to sizes, which are all evaluated before.
    fn bind<'s>(&self, sizes: impl Iterator<Item = (&'s Symbol, &'s Dim)>) {
        let sizes: Vec<(Symbol, i64)> =
            sizes.map(|(symbol, dim)| (symbol.clone(), self.eval(dim))).collect();
        self.symbols.borrow_mut().extend(sizes);
    }

    /// Removes the buffers of an iteration whose sizes may differ in the next one.
    fn forget(&mut self, steps: &[Step], before: &HashSet<BufferId>) {
        let mut buffers = HashSet::new();
        operands(steps, &mut |operand| {
            buffers.insert(operand.buffer);
        });
        buffers.retain(|id| !before.contains(id) && !self.has_fixed_size(*id));
        for id in buffers {
            self.arrays.remove(id);
        }
    }

    /// Copies the elements of an operand.
    fn take(&mut self, from: &Operand) -> Result<Array> {
        self.ensure(from)?;
        let part = self.part(from);
        self.spend(part.elements());
        Ok(part)
    }

    /// Writes the elements of an operand.
    fn put(&mut self, to: &Operand, part: Array) -> Result {
        self.ensure(to)?;
        let at = self.size(&to.start);
        if let Some(array) = self.arrays.get_mut(to.buffer) {
            array.set_part(at, part);
        }
        Ok(())
    }

    /// Overwrites a buffer whose size may have changed.
    fn replace(&mut self, to: &Operand, array: Array) -> Result {
        if self.has_fixed_size(to.buffer) {
            return self.put(to, array);
        }
        self.arrays.insert(to.buffer, array);
        Ok(())
    }

    /// Returns whether the size of a buffer is known at compile time.
    fn has_fixed_size(&self, id: BufferId) -> bool {
        self.plan.buffers[id].len.known().is_some()
    }

    fn call(&mut self, call: &Call) -> Result {
        self.charge(call)?;
        for operand in call.reads().chain(call.writes()) {
            self.ensure(operand)?;
        }
        // A kernel borrows its outputs exclusively, so inputs in the same buffers are copied first.
        let written: Vec<&Operand> = call.writes().collect();
        let skip = call.overwritten();
        let mut inputs: Vec<Option<Array>> = Vec::new();
        for arg in &call.inputs[skip..] {
            let shared =
                |o: &&Operand| written.iter().any(|w| w.buffer == o.buffer) || !self.is_whole(o);
            inputs.push(arg.operand().filter(shared).map(|operand| self.part(operand)));
        }
        let mut outputs: Vec<Option<Array>> = Vec::new();
        for arg in &call.outputs {
            outputs.push(arg.operand().map(|operand| self.borrow(operand, &written)));
        }
        let mut sizes = vec![0; call.binds.len()];
        let given = call.inputs[skip..].iter().zip(&inputs).map(|(arg, copy)| {
            let operand = arg.operand()?;
            let array = copy.as_ref().unwrap_or_else(|| &self.arrays[operand.buffer]);
            Some((array, 0..array.len()))
        });
        let taken = outputs.iter_mut().map(|array| {
            let array = array.as_mut()?;
            let all = 0..array.len();
            Some((array, all))
        });
        let (given, taken) = (given.collect(), taken.collect());
        let mut args = Args::new(call.dtype, given, taken, &mut sizes, &self.draws);
        let symbols = self.symbols.borrow();
        let eval = |name: &str| self.plan.symbol(name, &|name| symbols.get(name).copied());
        call.params.run(call.form, &eval, &mut args)?;
        drop(symbols);
        for (arg, array) in call.outputs.iter().zip(outputs) {
            if let (Some(operand), Some(array)) = (arg.operand(), array) {
                let at = self.size(&operand.start);
                match self.arrays.get_mut(operand.buffer) {
                    Some(whole) => whole.set_part(at, array),
                    None => drop(self.arrays.insert(operand.buffer, array)),
                }
            }
        }
        let sizes = sizes.into_iter().map(|size| size as i64);
        self.symbols.borrow_mut().extend(call.binds.iter().cloned().zip(sizes));
        Ok(())
    }

    /// Returns the array of an output: the buffer itself if the output is all of it and the only
    /// output in it, a copy otherwise.
    fn borrow(&mut self, operand: &Operand, written: &[&Operand]) -> Array {
        let alone = written.iter().filter(|other| other.buffer == operand.buffer).count() == 1;
        let whole =
            if alone && self.is_whole(operand) { self.arrays.remove(operand.buffer) } else { None };
        whole.unwrap_or_else(|| self.part(operand))
    }

    fn part(&self, operand: &Operand) -> Array {
        self.arrays[operand.buffer].part(self.size(&operand.start), self.size(&operand.len))
    }

    fn is_whole(&self, operand: &Operand) -> bool {
        self.eval(&operand.start) == 0
            && self.size(&operand.len) == self.arrays[operand.buffer].len()
    }

    /// Subtracts the cost of a call from the budget; an error if the budget does not cover it.
    fn charge(&mut self, call: &Call) -> Result {
        /// The constant cost of a call.
        const CALL: usize = 64;
        let Some(work) = *self.work else { return Ok(()) };
        let elements = |operand: &Operand| match self.arrays.get(operand.buffer) {
            Some(array @ Array::Sequence(_)) => array.elements(),
            _ => self.size(&self.plan.buffers[operand.buffer].len),
        };
        let all = call.reads().chain(call.writes()).map(elements);
        let cost = all.fold(CALL, usize::saturating_add);
        self.spend(cost);
        let is_covered = cost as u64 <= work;
        if is_covered { Ok(()) } else { Err(Error::Value("the budget of the run is exhausted")) }
    }

    /// Subtracts elements from the budget.
    fn spend(&mut self, elements: usize) {
        if let Some(work) = self.work {
            *work = work.saturating_sub(elements as u64);
        }
    }

    /// Creates the buffer of an operand if it does not exist yet.
    fn ensure(&mut self, operand: &Operand) -> Result {
        if self.arrays.contains(operand.buffer) {
            return Ok(());
        }
        let buffer = &self.plan.buffers[operand.buffer];
        let array = match &buffer.place {
            Place::Weight { weight, .. } => Array::from_tensor(&weight.tensor()),
            _ if buffer.kind == Kind::Sequence => Array::sequence_of(buffer.dtype, &[]),
            _ => new_array(buffer.dtype, self.size(&buffer.len))?,
        };
        self.arrays.insert(operand.buffer, array);
        Ok(())
    }
}

/// Allocates memory that no call has written. In debug builds it is not zero, as an arena is not,
/// so that a call that reads it gives other results.
fn new_array(dtype: DType, len: usize) -> Result<Array> {
    /// The bytes of NaN in floating-point formats, and of the largest number or -1 in others.
    const POISON: u8 = 0xff;
    let array = Array::try_zeroed(dtype, len)?;
    if !cfg!(debug_assertions) || dtype == DType::String {
        return Ok(array);
    }
    let bytes = vec![POISON; len * dtype.bytes()];
    Ok(Array::from_tensor(&Tensor::from_raw(dtype, vec![len], bytes.into())))
}
