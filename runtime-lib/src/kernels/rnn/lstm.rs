//! `LSTM`: long short-term memory.

use super::Sequence;
use super::pass::{Cell, Operands, Outputs, Row, Sizes, activate, run};
use super::{LstmOperands, LstmOutputs};
use crate::loops::epilogue::Activation;
use crate::simd::{Simd, WithSimd, dispatch, math};
use crate::{Elem, Float, Number, Result};

/// The geometry of an LSTM. Its gates are, in order: input, output, forget, cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lstm {
    /// The properties that all recurrent networks share.
    pub sequence: Sequence,
    /// `f` of the gates, `g` of the cell, and `h` of the output, for each direction.
    pub activations: [[Activation; 3]; 2],
    /// Whether input and forget gates are coupled: the forget gate is one minus the input gate.
    pub input_forget: bool,
}

const GROUPS: &[usize] = &[4];

/// Returns the elements of scratch memory with which the LSTM is fastest.
pub const fn lstm_scratch(geometry: &Lstm) -> usize {
    Sizes { sequence: geometry.sequence, groups: GROUPS }.wanted()
}

/// Returns the least elements of scratch memory that the LSTM needs.
pub const fn lstm_least_scratch(geometry: &Lstm) -> usize {
    Sizes { sequence: geometry.sequence, groups: GROUPS }.least()
}

/// Computes all outputs `y` and the last states `y_h` and `y_c` from inputs `x`, weights `w` of
/// inputs and `r` of states, biases `b`, sequence lengths, initial states, and peepholes `p`.
///
/// # Errors
///
/// Returns an error if the length of a sequence is out of range.
#[inline(never)]
pub fn lstm_f32(
    operands: LstmOperands<'_, f32>,
    outputs: LstmOutputs<'_, f32>,
    scratch: &mut [f32],
    geometry: Lstm,
) -> Result {
    lstm(operands, outputs, scratch, geometry)
}

/// [`lstm_f32`] for other floating-point types, with weights in ONNX's layout.
///
/// # Errors
///
/// Returns an error under the conditions of [`lstm_f32`].
pub fn lstm<T: Float>(
    operands: LstmOperands<'_, T>,
    outputs: LstmOutputs<'_, T>,
    scratch: &mut [T::Wide],
    geometry: Lstm,
) -> Result {
    run_lstm(operands, outputs, scratch, geometry, false)
}

/// [`lstm_f32`] whose states are quantized to 8 bits for their product with the weights.
///
/// # Errors
///
/// Returns an error under the conditions of [`lstm_f32`].
#[inline(never)]
pub fn lstm_of_quantized_states_f32(
    operands: LstmOperands<'_, f32>,
    outputs: LstmOutputs<'_, f32>,
    scratch: &mut [f32],
    geometry: Lstm,
) -> Result {
    run_lstm(operands, outputs, scratch, geometry, true)
}

/// [`lstm`] whose states are quantized to 8 bits for their product with the weights.
///
/// # Errors
///
/// Returns an error under the conditions of [`lstm_f32`].
pub fn lstm_of_quantized_states<T: Float>(
    operands: LstmOperands<'_, T>,
    outputs: LstmOutputs<'_, T>,
    scratch: &mut [T::Wide],
    geometry: Lstm,
) -> Result {
    run_lstm(operands, outputs, scratch, geometry, true)
}

#[inline(always)]
fn run_lstm<T: Float>(
    operands: LstmOperands<'_, T>,
    outputs: LstmOutputs<'_, T>,
    scratch: &mut [T::Wide],
    geometry: Lstm,
    quantizes_states: bool,
) -> Result {
    let LstmOutputs { y, y_h, y_c } = outputs;
    let LstmOperands { x, w, r, b, sequence_lens, initial_h, initial_c, p } = operands;
    let operands = Operands { x, w, r, b, lens: sequence_lens, h: initial_h, c: initial_c };
    let outputs = Outputs { y, h: y_h, c: y_c };
    run(operands, outputs, scratch, geometry.sequence, |way| LstmCell {
        quantizes_states,
        ..LstmCell::new(&geometry, p, way)
    })
}

struct LstmCell<'a, T> {
    activations: [Activation; 3],
    clip: f32,
    /// The peephole weights of the input, output and forget gates.
    peepholes: Option<[&'a [T]; 3]>,
    input_forget: bool,
    /// Whether [`Usual`] implements the step.
    usual: bool,
    quantizes_states: bool,
}

impl<'a, T> LstmCell<'a, T> {
    fn new(geometry: &Lstm, p: Option<&'a [T]>, way: usize) -> LstmCell<'a, T> {
        let Sequence { hidden, clip, .. } = geometry.sequence;
        let peephole = |p: &'a [T], gate: usize| &p[(way * 3 + gate) * hidden..][..hidden];
        let activations = geometry.activations[way];
        let functions = [Activation::Sigmoid, Activation::Tanh, Activation::Tanh];
        let bare = clip.is_infinite() && p.is_none() && !geometry.input_forget;
        LstmCell {
            activations,
            usual: bare && activations == functions,
            clip,
            peepholes: p.map(|p| [0, 1, 2].map(|gate| peephole(p, gate))),
            input_forget: geometry.input_forget,
            quantizes_states: false,
        }
    }
}

impl<T: Float> Cell<T> for LstmCell<'_, T> {
    fn groups(&self) -> &'static [usize] {
        GROUPS
    }

    fn quantizes_states(&self) -> bool {
        self.quantizes_states
    }

    fn phase(&self, _: usize, row: Row<'_, T::Wide>) {
        let Row { gates, h, c, next, .. } = row;
        if self.usual
            && let (Some(gates), Some(h)) = (T::Wide::as_f32(gates), T::Wide::as_f32_mut(h))
            && let Some(c) = T::Wide::as_f32_mut(c)
        {
            return dispatch(Usual { gates, h, c });
        }
        let ([f, g, to_output], hidden) = (self.activations, c.len());
        let (gates, cell) = gates.split_at_mut(3 * hidden);
        activate(g, self.clip, cell);
        if let Some([to_input, _, to_forget]) = self.peepholes {
            let (input, rest) = gates.split_at_mut(hidden);
            add_products(input, to_input, c);
            add_products(&mut rest[hidden..], to_forget, c);
            activate(f, self.clip, input);
            activate(f, self.clip, &mut rest[hidden..]);
        } else {
            activate(f, self.clip, gates);
        }
        let (input, rest) = gates.split_at_mut(hidden);
        let (output, forget) = rest.split_at_mut(hidden);
        if self.input_forget {
            forget.iter_mut().zip(&*input).for_each(|(f, &i)| *f = T::Wide::ONE.sub(i));
        }
        for (((c, &forget), &input), &cell) in c.iter_mut().zip(&*forget).zip(&*input).zip(&*cell) {
            *c = forget.mul(*c).add(input.mul(cell));
        }
        if let Some([_, to_output, _]) = self.peepholes {
            add_products(output, to_output, c);
            activate(f, self.clip, output);
        }
        next.copy_from_slice(c);
        activate(to_output, f32::INFINITY, next);
        for ((h, &output), &c) in h.iter_mut().zip(&*output).zip(&*next) {
            *h = output.mul(c);
        }
    }
}

/// `y[i] += p[i] · c[i]`.
fn add_products<T: Float>(y: &mut [T::Wide], p: &[T], c: &[T::Wide]) {
    for ((y, p), &c) in y.iter_mut().zip(p).zip(c) {
        *y = y.add(p.widen().mul(c));
    }
}

/// A step with sigmoid gates and tanh otherwise.
struct Usual<'a> {
    gates: &'a [f32],
    h: &'a mut [f32],
    c: &'a mut [f32],
}

impl WithSimd for Usual<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let n = self.c.len();
        let (input, rest) = self.gates.split_at(n);
        let (output, rest) = rest.split_at(n);
        let (forget, cell) = rest.split_at(n);
        for at in (0..n).step_by(S::LANES) {
            let end = n.min(at + S::LANES);
            let [input, output] = [s.load_head(&input[at..end]), s.load_head(&output[at..end])];
            let [forget, cell] = [s.load_head(&forget[at..end]), s.load_head(&cell[at..end])];
            let taken = math::gated_tanh(s, cell, input);
            let c = &mut self.c[at..end];
            let new = s.mul_add(math::sigmoid(s, forget), s.load_head(c), taken);
            s.store_head(new, c);
            s.store_head(math::gated_tanh(s, new, output), &mut self.h[at..end]);
        }
    }
}
