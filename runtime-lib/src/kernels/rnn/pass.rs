//! The steps of a recurrent network, one direction after the other.

use super::multiply::{Shape, multiply, multiply_stripes};
use super::{GateLayout, Gates, Order, Sequence, pack_gates};
use crate::loops::epilogue::Activation;
use crate::microkernel::scratch;
use crate::{Elem, Error, Float, Number, Result};

/// One step of one sequence.
pub(super) trait Cell<T: Float> {
    /// Returns the groups of gates that are multiplied together. A phase of the step follows each
    /// product.
    fn groups(&self) -> &'static [usize];

    /// Returns whether the products of states are added to those of inputs. Otherwise they are
    /// added to the recurrent biases, and the cell adds the products of inputs.
    fn adds_inputs(&self) -> bool {
        true
    }

    /// Returns whether the states that are multiplied are quantized to 8 bits.
    fn quantizes_states(&self) -> bool {
        false
    }

    /// Runs a phase. The last phase computes the new state, the others the next operand.
    fn phase(&self, phase: usize, row: Row<'_, T::Wide>);
}

/// One sequence in a step.
pub(super) struct Row<'a, W> {
    /// The products of the inputs plus biases, for each gate.
    pub inputs: &'a [W],
    /// The accumulators of each gate.
    pub gates: &'a mut [W],
    /// The state.
    pub h: &'a mut [W],
    /// The second state of an LSTM.
    pub c: &'a mut [W],
    /// The operand of the second phase's product.
    pub next: &'a mut [W],
}

/// The inputs of a recurrent network.
#[derive(Clone, Copy)]
pub(super) struct Operands<'a, T> {
    pub x: &'a [T],
    pub w: &'a [T],
    pub r: &'a [T],
    pub b: Option<&'a [T]>,
    pub lens: Option<&'a [i32]>,
    pub h: Option<&'a [T]>,
    pub c: Option<&'a [T]>,
}

impl<T> Operands<'_, T> {
    /// Returns whether a sequence includes a step.
    fn includes(&self, step: usize, at: usize) -> bool {
        let len = self.lens.map(|lens| usize::try_from(lens[at]).unwrap_or(0));
        len.is_none_or(|len| step < len)
    }
}

/// The outputs of a recurrent network.
pub(super) struct Outputs<'a, T> {
    pub y: Option<&'a mut [T]>,
    pub h: Option<&'a mut [T]>,
    pub c: Option<&'a mut [T]>,
}

/// `y[i] = f(y[i])`, with the argument of `f` clipped.
pub(super) fn activate<W: Float>(f: Activation, clip: f32, y: &mut [W]) {
    let bound = Activation::Clip { min: -clip, max: clip };
    let bound = if clip.is_finite() { bound } else { Activation::Identity };
    match W::as_f32_mut(y) {
        Some(y) => {
            bound.apply(y);
            f.apply(y);
        }
        None => y.iter_mut().for_each(|y| *y = f.of(bound.of(*y))),
    }
}

/// The number of input rows that a product is fastest with.
const ROWS: usize = 96;

/// Sizes derived from the sequence and the gates.
#[derive(Clone, Copy)]
pub(super) struct Sizes<'g> {
    pub sequence: Sequence,
    pub groups: &'g [usize],
}

impl<'g> Sizes<'g> {
    const fn gates(&self) -> usize {
        let (mut gates, mut group) = (0, 0);
        while group < self.groups.len() {
            gates += self.groups[group];
            group += 1;
        }
        gates
    }

    /// Returns the number of results of all gates.
    const fn width(&self) -> usize {
        self.gates() * self.sequence.hidden
    }

    /// Returns the geometry of the weights of states of one direction.
    const fn recurrent(&self) -> Gates<'g> {
        let Sequence { hidden, .. } = self.sequence;
        Gates { directions: 1, groups: self.groups, hidden, depth: hidden }
    }

    /// Returns whether the weights of states are packed at run time; every step uses them.
    const fn packs(&self) -> bool {
        matches!(self.sequence.weights, GateLayout::Plain) && self.sequence.batch > 1
    }

    const fn packed_len(&self) -> usize {
        if self.packs() { self.recurrent().packed_direction::<f32>() } else { 0 }
    }

    /// Returns the scratch memory of the products.
    const fn products(&self) -> usize {
        let Sequence { steps, batch, inputs, hidden, .. } = self.sequence;
        let plain = matches!(self.sequence.weights, GateLayout::Plain);
        let input = scratch(steps * batch, self.width(), inputs, true, plain);
        let state = scratch(batch, self.width(), hidden, true, plain && !self.packs());
        if input > state { input } else { state }
    }

    /// Returns the scratch memory except for the products of the inputs.
    const fn fixed(&self) -> usize {
        let states = self.sequence.batch * self.sequence.hidden;
        let gates = (self.sequence.batch + 2) * self.width();
        3 * states + gates + self.packed_len() + self.products()
    }

    /// Returns the scratch memory for the products of `rows` input rows, or of one step.
    const fn scratch(&self, rows: usize) -> usize {
        let Sequence { steps, batch, .. } = self.sequence;
        let all = steps * batch;
        let rows = if rows < batch { batch } else { rows.next_multiple_of(at_least_one(batch)) };
        self.fixed() + if rows < all { rows } else { all } * self.width()
    }

    /// Returns the offset of a sequence's state in the tensor of all directions.
    fn state(&self, way: usize, at: usize) -> usize {
        let Sequence { batch, hidden, order, .. } = self.sequence;
        hidden
            * match order {
                Order::StepsFirst => way * batch + at,
                Order::BatchFirst => at * self.sequence.directions() + way,
            }
    }

    /// Returns the fastest amount of scratch memory.
    pub const fn wanted(&self) -> usize {
        self.scratch(ROWS)
    }

    /// Returns the required scratch memory.
    pub const fn least(&self) -> usize {
        self.scratch(0)
    }
}

const fn at_least_one(x: usize) -> usize {
    if x == 0 { 1 } else { x }
}

/// Runs a network in all directions; `cells` are the cells of each direction.
pub(super) fn run<T: Float, C: Cell<T>>(
    operands: Operands<'_, T>,
    mut outputs: Outputs<'_, T>,
    scratch: &mut [T::Wide],
    sequence: Sequence,
    cells: impl Fn(usize) -> C,
) -> Result {
    let Sequence { steps, batch, .. } = sequence;
    let fits = |&len: &i32| usize::try_from(len).is_ok_and(|len| len <= steps);
    if !operands.lens.is_none_or(|lens| lens.iter().all(fits)) {
        return Err(Error::Value("the length of a sequence is negative or more than its steps"));
    }
    if batch * sequence.hidden == 0 {
        return Ok(());
    }
    for way in 0..sequence.directions() {
        let cell = cells(way);
        let sizes = Sizes { sequence, groups: cell.groups() };
        Pass::new(operands, &mut *scratch, sizes, way, cell).run(&mut outputs);
    }
    Ok(())
}

/// One direction.
struct Pass<'a, T: Float, C> {
    operands: Operands<'a, T>,
    sizes: Sizes<'static>,
    way: usize,
    cell: C,
    /// The weights of this direction.
    w: &'a [T],
    r: Recurrent<'a, T>,
    /// The products of the inputs of several steps.
    inputs: &'a mut [T::Wide],
    /// The biases of inputs and of states.
    biases: &'a mut [T::Wide],
    gates: &'a mut [T::Wide],
    h: &'a mut [T::Wide],
    c: &'a mut [T::Wide],
    next: &'a mut [T::Wide],
    /// Scratch memory of the products.
    scratch: &'a mut [T::Wide],
}

/// The weights of states.
#[derive(Clone, Copy)]
enum Recurrent<'a, T: Float> {
    /// In ONNX's layout.
    Given(&'a [T]),
    /// Packed.
    Packed(&'a [T::Wide]),
}

/// Splits off the first `n` elements.
fn take<'s, T>(scratch: &mut &'s mut [T], n: usize) -> &'s mut [T] {
    let (taken, rest) = core::mem::take(scratch).split_at_mut(n);
    *scratch = rest;
    taken
}

impl<'a, T: Float, C: Cell<T>> Pass<'a, T, C> {
    /// Divides the scratch memory and initializes biases and states.
    fn new(
        operands: Operands<'a, T>,
        mut scratch: &'a mut [T::Wide],
        sizes: Sizes<'static>,
        way: usize,
        cell: C,
    ) -> Pass<'a, T, C> {
        let Sequence { batch, inputs, hidden, weights, .. } = sizes.sequence;
        let width = sizes.width();
        let of_inputs = Gates { depth: inputs, groups: &[sizes.gates()], ..sizes.recurrent() };
        let [w, r] = [of_inputs, sizes.recurrent()].map(|gates| match weights {
            GateLayout::Plain => width * gates.depth,
            GateLayout::Packed | GateLayout::Striped => gates.packed_direction::<f32>(),
        });
        let (w, r) = (&operands.w[way * w..][..w], &operands.r[way * r..][..r]);
        let r = recurrent(r, take(&mut scratch, sizes.packed_len()), sizes);
        let [h, c, next] = [(); 3].map(|()| take(&mut scratch, batch * hidden));
        let biases = take(&mut scratch, 2 * width);
        let gates = take(&mut scratch, batch * width);
        let rest = scratch.len() - sizes.products();
        let inputs = take(&mut scratch, rest);
        let mut pass =
            Pass { operands, sizes, way, cell, w, r, inputs, biases, gates, h, c, next, scratch };
        pass.start();
        pass
    }

    /// Initializes biases and states.
    fn start(&mut self) {
        let Sequence { batch, hidden, .. } = self.sizes.sequence;
        let width = self.sizes.width();
        self.biases.fill(Number::ZERO);
        if let Some(b) = self.operands.b {
            let b = &b[self.way * 2 * width..][..2 * width];
            self.biases.iter_mut().zip(b).for_each(|(to, b)| *to = b.widen());
        }
        if self.cell.adds_inputs() {
            let (inputs, states) = self.biases.split_at_mut(width);
            inputs.iter_mut().zip(states).for_each(|(input, state)| *input = input.add(*state));
        }
        let lens = self.operands.lens;
        for (state, given) in [(&mut *self.h, self.operands.h), (&mut *self.c, self.operands.c)] {
            state.fill(Number::ZERO);
            let Some(given) = given else { continue };
            for (at, state) in state.chunks_exact_mut(hidden).enumerate().take(batch) {
                // ONNX does not define the last state of an empty sequence. As in ONNX Runtime, it
                // is 0, and not the initial state.
                if lens.is_some_and(|lens| lens[at] == 0) {
                    continue;
                }
                let given = &given[self.sizes.state(self.way, at)..];
                state.iter_mut().zip(given).for_each(|(to, x)| *to = x.widen());
            }
        }
    }

    /// Runs all steps and writes the requested outputs.
    fn run(mut self, outputs: &mut Outputs<'_, T>) {
        let Sequence { steps, batch, hidden, .. } = self.sizes.sequence;
        let at_once = (self.inputs.len() / (batch * self.sizes.width())).clamp(1, steps.max(1));
        let reverse = self.sizes.sequence.is_reverse(self.way);
        let parts = steps.div_ceil(at_once);
        for part in 0..parts {
            let part = if reverse { parts - 1 - part } else { part };
            let (first, n) = (part * at_once, at_once.min(steps - part * at_once));
            self.multiply_inputs(first, n);
            for step in 0..n {
                let step = if reverse { n - 1 - step } else { step };
                self.step(step, first, n);
                if let Some(y) = &mut outputs.y {
                    self.write_step(first + step, y);
                }
            }
        }
        for (state, to) in [(&*self.h, &mut outputs.h), (&*self.c, &mut outputs.c)] {
            let Some(to) = to else { continue };
            for (at, state) in state.chunks_exact(hidden).enumerate() {
                let to = &mut to[self.sizes.state(self.way, at)..];
                to.iter_mut().zip(state).for_each(|(to, &x)| *to = T::narrow(x));
            }
        }
    }

    /// Multiplies the inputs of `n` steps by their weights, starting at step `first`.
    fn multiply_inputs(&mut self, first: usize, n: usize) {
        let Sequence { steps, batch, inputs, order, weights, .. } = self.sizes.sequence;
        let width = self.sizes.width();
        // The number of contiguous pieces of rows, their length, and their stride.
        let (pieces, m, apart) = match order {
            Order::StepsFirst => (1, n * batch, 0),
            Order::BatchFirst if n == steps => (1, n * batch, 0),
            Order::BatchFirst => (batch, n, steps),
        };
        let start = if order == Order::StepsFirst { first * batch } else { first };
        for piece in 0..pieces {
            let x = &self.operands.x[(start + piece * apart) * inputs..][..m * inputs];
            let to = &mut self.inputs[piece * m * width..];
            let shape = Shape { m, n: width, k: inputs, y_row: width, addend_row: 0 };
            multiply(x, (self.w, weights), &self.biases[..width], to, self.scratch, shape);
        }
    }

    /// Returns the offset of the products of a step and a sequence, among those of `n` steps.
    fn input(&self, step: usize, at: usize, n: usize) -> usize {
        let Sequence { batch, order, .. } = self.sizes.sequence;
        self.sizes.width()
            * match order {
                Order::StepsFirst => step * batch + at,
                Order::BatchFirst => at * n + step,
            }
    }

    /// Runs a step whose inputs are multiplied together with those of `n` steps from `first`.
    fn step(&mut self, step: usize, first: usize, n: usize) {
        let Sequence { batch, .. } = self.sizes.sequence;
        let groups = self.sizes.groups;
        if self.cell.quantizes_states() {
            self.quantize(first + step);
        }
        for phase in 0..groups.len() {
            self.multiply_states(phase, step, n);
            for at in 0..batch {
                if phase + 1 < groups.len() || self.operands.includes(first + step, at) {
                    self.phase(phase, at, self.input(step, at, n));
                }
            }
        }
    }

    /// Quantizes the states before a step into `next`. As in ONNX Runtime, they have one scale, and
    /// those of sequences that had ended before the last step are zeros.
    fn quantize(&mut self, step: usize) {
        let Sequence { hidden, .. } = self.sizes.sequence;
        self.next.copy_from_slice(self.h);
        if step > 0 && !self.sizes.sequence.is_reverse(self.way) {
            for (at, states) in self.next.chunks_exact_mut(hidden).enumerate() {
                if !self.operands.includes(step - 1, at) {
                    states.fill(Number::ZERO);
                }
            }
        }
        quantize_states(self.next);
    }

    /// Multiplies the states, or the operand that a phase computed, by the weights of a group of
    /// gates.
    fn multiply_states(&mut self, phase: usize, step: usize, n: usize) {
        let Sequence { batch: m, hidden: k, weights, order, .. } = self.sizes.sequence;
        let (groups, width) = (self.sizes.groups, self.sizes.width());
        let first = groups[..phase].iter().sum::<usize>() * k;
        let (addend, addend_row) = match (self.cell.adds_inputs(), order) {
            (false, _) => (&self.biases[width..], 0),
            (true, Order::StepsFirst) => (&self.inputs[self.input(step, 0, n)..], width),
            (true, Order::BatchFirst) => (&self.inputs[self.input(step, 0, n)..], n * width),
        };
        let shape = Shape { m, n: groups[phase] * k, k, y_row: width, addend_row };
        let is_state = phase == 0 && !self.cell.quantizes_states();
        let states = if is_state { &*self.h } else { &*self.next };
        let (addend, gates) = (&addend[first..], &mut self.gates[first..]);
        let before = Gates { groups: &groups[..phase], ..self.sizes.recurrent() };
        let packed = before.packed_direction::<f32>();
        match (self.r, weights) {
            (Recurrent::Packed(r), _) => {
                let r = (&r[packed..], GateLayout::Packed);
                multiply(states, r, addend, gates, self.scratch, shape);
            }
            (Recurrent::Given(r), GateLayout::Packed) => {
                let r = (&r[packed..], GateLayout::Packed);
                multiply(states, r, addend, gates, self.scratch, shape);
            }
            (Recurrent::Given(r), GateLayout::Plain) => {
                let r = (&r[first * k..], GateLayout::Plain);
                multiply(states, r, addend, gates, self.scratch, shape);
            }
            (Recurrent::Given(r), GateLayout::Striped) => {
                multiply_stripes(states, &r[packed..], addend, gates, (shape, step % 2 == 1));
            }
        }
    }

    /// Runs a phase of a step of one sequence.
    fn phase(&mut self, phase: usize, at: usize, input: usize) {
        let (width, hidden) = (self.sizes.width(), self.sizes.sequence.hidden);
        let state = at * hidden..(at + 1) * hidden;
        let row = Row {
            inputs: &self.inputs[input..][..width],
            gates: &mut self.gates[at * width..][..width],
            h: &mut self.h[state.clone()],
            c: &mut self.c[state.clone()],
            next: &mut self.next[state],
        };
        self.cell.phase(phase, row);
    }

    /// Writes the states after a step; zeros for sequences that have ended.
    fn write_step(&self, step: usize, y: &mut [T]) {
        let Sequence { steps, batch, hidden, order, .. } = self.sizes.sequence;
        let ways = self.sizes.sequence.directions();
        for (at, h) in self.h.chunks_exact(hidden).enumerate() {
            let to = match order {
                Order::StepsFirst => (step * ways + self.way) * batch + at,
                Order::BatchFirst => (at * steps + step) * ways + self.way,
            };
            let y = &mut y[to * hidden..][..hidden];
            if self.operands.includes(step, at) {
                y.iter_mut().zip(h).for_each(|(y, &h)| *y = T::narrow(h));
            } else {
                y.fill(T::ZERO);
            }
        }
    }
}

/// Changes the states to what 8 bits represent, of a scale and a zero point for all, as
/// `DynamicQuantizeLinear` does.
fn quantize_states<W: Float>(states: &mut [W]) {
    const HIGH: f32 = 255.0;
    let reals = states.iter().map(|state| state.to_f64() as f32);
    let (least, most) = reals.fold((0.0f32, 0.0f32), |(a, b), x| (a.min(x), b.max(x)));
    let range = if most == least { 1.0 } else { most - least };
    let scale = range / HIGH;
    let zero = Float::round((-least / scale).clamp(0.0, HIGH));
    for state in states {
        let whole = Float::round(state.to_f64() as f32 / scale) + zero;
        *state = W::from_f64(f64::from((whole.clamp(0.0, HIGH) - zero) * scale));
    }
}

/// Returns the weights of states, packed into scratch memory if there is enough.
fn recurrent<'a, T: Float>(
    r: &'a [T],
    packed: &'a mut [T::Wide],
    sizes: Sizes<'_>,
) -> Recurrent<'a, T> {
    if !packed.is_empty()
        && let Some(given) = T::as_f32(r)
        && let Some(to) = T::Wide::as_f32_mut(packed)
    {
        pack_gates(given, to, sizes.recurrent());
        return Recurrent::Packed(packed);
    }
    Recurrent::Given(r)
}
