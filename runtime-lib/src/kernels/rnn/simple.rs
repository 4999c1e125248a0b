//! `RNN`: the state is an activation of a sum.

use super::Sequence;
use super::pass::{Cell, Operands, Outputs, Row, Sizes, activate, run};
use super::{RnnOperands, RnnOutputs};
use crate::loops::epilogue::Activation;
use crate::{Float, Result};

/// The geometry of an RNN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rnn {
    /// The properties that all recurrent networks share.
    pub sequence: Sequence,
    /// `f`, for each direction.
    pub activations: [Activation; 2],
}

const GROUPS: &[usize] = &[1];

/// Returns the elements of scratch memory with which the RNN is fastest.
pub const fn rnn_scratch(geometry: &Rnn) -> usize {
    Sizes { sequence: geometry.sequence, groups: GROUPS }.wanted()
}

/// Returns the least elements of scratch memory that the RNN needs.
pub const fn rnn_least_scratch(geometry: &Rnn) -> usize {
    Sizes { sequence: geometry.sequence, groups: GROUPS }.least()
}

/// Computes all outputs `y` and the last states `y_h` from inputs `x`, weights `w` of inputs and
/// `r` of states, biases `b`, sequence lengths, and initial states.
///
/// # Errors
///
/// Returns an error if the length of a sequence is out of range.
#[inline(never)]
pub fn rnn_f32(
    operands: RnnOperands<'_, f32>,
    outputs: RnnOutputs<'_, f32>,
    scratch: &mut [f32],
    geometry: Rnn,
) -> Result {
    rnn(operands, outputs, scratch, geometry)
}

/// [`rnn_f32`] for other floating-point types, with weights in ONNX's layout.
///
/// # Errors
///
/// Returns an error under the conditions of [`rnn_f32`].
pub fn rnn<T: Float>(
    operands: RnnOperands<'_, T>,
    outputs: RnnOutputs<'_, T>,
    scratch: &mut [T::Wide],
    geometry: Rnn,
) -> Result {
    let RnnOutputs { y, y_h } = outputs;
    let RnnOperands { x, w, r, b, sequence_lens, initial_h } = operands;
    let operands = Operands { x, w, r, b, lens: sequence_lens, h: initial_h, c: None };
    let outputs = Outputs { y, h: y_h, c: None };
    run(operands, outputs, scratch, geometry.sequence, |way| RnnCell::new(&geometry, way))
}

struct RnnCell {
    activation: Activation,
    clip: f32,
}

impl RnnCell {
    fn new(geometry: &Rnn, way: usize) -> RnnCell {
        RnnCell { activation: geometry.activations[way], clip: geometry.sequence.clip }
    }
}

impl<T: Float> Cell<T> for RnnCell {
    fn groups(&self) -> &'static [usize] {
        GROUPS
    }

    fn phase(&self, _: usize, row: Row<'_, T::Wide>) {
        activate(self.activation, self.clip, row.gates);
        row.h.copy_from_slice(row.gates);
    }
}
