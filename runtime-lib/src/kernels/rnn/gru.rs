//! `GRU`: gated recurrent units.

use super::Sequence;
use super::pass::{Cell, Operands, Outputs, Row, Sizes, activate, run};
use super::{RnnOperands, RnnOutputs};
use crate::loops::epilogue::Activation;
use crate::simd::{Simd, WithSimd, dispatch, math};
use crate::{Elem, Float, Number, Result};

/// The geometry of a GRU. Its gates are, in order: update, reset, hidden.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gru {
    /// The properties that all recurrent networks share.
    pub sequence: Sequence,
    /// `f` of the update and reset gates and `g` of the hidden gate, for each direction.
    pub activations: [[Activation; 2]; 2],
    /// Whether the state is multiplied by its weights before the reset gate is applied.
    pub linear_before_reset: bool,
}

/// Returns the groups of gates that are multiplied by states together.
pub const fn gru_groups(linear_before_reset: bool) -> &'static [usize] {
    if linear_before_reset { &[3] } else { &[2, 1] }
}

impl Gru {
    const fn sizes(&self) -> Sizes<'static> {
        Sizes { sequence: self.sequence, groups: gru_groups(self.linear_before_reset) }
    }
}

/// Returns the elements of scratch memory with which the GRU is fastest.
pub const fn gru_scratch(geometry: &Gru) -> usize {
    geometry.sizes().wanted()
}

/// Returns the least elements of scratch memory that the GRU needs.
pub const fn gru_least_scratch(geometry: &Gru) -> usize {
    geometry.sizes().least()
}

/// Computes all outputs `y` and the last states `y_h` from inputs `x`, weights `w` of inputs and
/// `r` of states, biases `b`, sequence lengths, and initial states.
///
/// # Errors
///
/// Returns an error if the length of a sequence is out of range.
#[inline(never)]
pub fn gru_f32(
    operands: RnnOperands<'_, f32>,
    outputs: RnnOutputs<'_, f32>,
    scratch: &mut [f32],
    geometry: Gru,
) -> Result {
    gru(operands, outputs, scratch, geometry)
}

/// [`gru_f32`] for other floating-point types, with weights in ONNX's layout.
///
/// # Errors
///
/// Returns an error under the conditions of [`gru_f32`].
pub fn gru<T: Float>(
    operands: RnnOperands<'_, T>,
    outputs: RnnOutputs<'_, T>,
    scratch: &mut [T::Wide],
    geometry: Gru,
) -> Result {
    let RnnOutputs { y, y_h } = outputs;
    let RnnOperands { x, w, r, b, sequence_lens, initial_h } = operands;
    let operands = Operands { x, w, r, b, lens: sequence_lens, h: initial_h, c: None };
    let outputs = Outputs { y, h: y_h, c: None };
    run(operands, outputs, scratch, geometry.sequence, |way| GruCell::new(&geometry, way))
}

struct GruCell {
    activations: [Activation; 2],
    clip: f32,
    linear_before_reset: bool,
    /// Whether [`Usual`] implements the step.
    usual: bool,
}

impl GruCell {
    fn new(geometry: &Gru, way: usize) -> GruCell {
        let (activations, clip) = (geometry.activations[way], geometry.sequence.clip);
        let linear_before_reset = geometry.linear_before_reset;
        let bare = clip.is_infinite() && linear_before_reset;
        let usual = bare && activations == [Activation::Sigmoid, Activation::Tanh];
        GruCell { activations, clip, linear_before_reset, usual }
    }
}

impl<T: Float> Cell<T> for GruCell {
    fn groups(&self) -> &'static [usize] {
        gru_groups(self.linear_before_reset)
    }

    fn adds_inputs(&self) -> bool {
        !self.linear_before_reset
    }

    fn phase(&self, phase: usize, row: Row<'_, T::Wide>) {
        let Row { inputs, gates, h, next, .. } = row;
        if self.usual
            && let (Some(inputs), Some(gates)) = (T::Wide::as_f32(inputs), T::Wide::as_f32(gates))
            && let Some(h) = T::Wide::as_f32_mut(h)
        {
            return dispatch(Usual { inputs, gates, h });
        }
        let ([f, g], n) = (self.activations, h.len());
        let (gates, hidden) = gates.split_at_mut(2 * n);
        if self.linear_before_reset {
            gates.iter_mut().zip(inputs).for_each(|(gate, &x)| *gate = gate.add(x));
        }
        if phase == 0 {
            activate(f, self.clip, gates);
        }
        let (update, reset) = gates.split_at(n);
        if self.linear_before_reset {
            for ((hidden, &x), &reset) in hidden.iter_mut().zip(&inputs[2 * n..]).zip(reset) {
                *hidden = x.add(reset.mul(*hidden));
            }
        } else if phase == 0 {
            for ((next, &h), &reset) in next.iter_mut().zip(&*h).zip(reset) {
                *next = reset.mul(h);
            }
            return;
        }
        activate(g, self.clip, hidden);
        for ((h, &hidden), &update) in h.iter_mut().zip(&*hidden).zip(update) {
            // (1 - z) ĥ + z h with one multiplication less.
            *h = hidden.add(update.mul(h.sub(hidden)));
        }
    }
}

/// A step with sigmoid gates, tanh otherwise, and the reset gate applied to products.
struct Usual<'a> {
    inputs: &'a [f32],
    gates: &'a [f32],
    h: &'a mut [f32],
}

impl WithSimd for Usual<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let n = self.h.len();
        let [(to_update, rest), (update, others)] =
            [self.inputs.split_at(n), self.gates.split_at(n)];
        let [(to_reset, to_hidden), (reset, hidden)] = [rest.split_at(n), others.split_at(n)];
        for at in (0..n).step_by(S::LANES) {
            let end = n.min(at + S::LANES);
            let update = s.add(s.load_head(&update[at..end]), s.load_head(&to_update[at..end]));
            let reset = s.add(s.load_head(&reset[at..end]), s.load_head(&to_reset[at..end]));
            let [hidden, to_hidden] =
                [s.load_head(&hidden[at..end]), s.load_head(&to_hidden[at..end])];
            let sum = s.mul_add(math::sigmoid(s, reset), hidden, to_hidden);
            let (hidden, h) = (math::tanh(s, sum), &mut self.h[at..end]);
            let change = s.sub(s.load_head(h), hidden);
            s.store_head(s.mul_add(math::sigmoid(s, update), change, hidden), h);
        }
    }
}
