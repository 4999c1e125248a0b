//! Recurrent networks: `RNN`, `GRU` and `LSTM`, in either direction or both.
//!
//! The inputs of many steps are multiplied by their weights in one GEMM before the steps run: as
//! many steps as the scratch memory holds. The `_scratch` functions return the fastest amount, the
//! `_least_scratch` functions the required one.

mod gru;
mod lstm;
mod multiply;
mod pass;
mod simple;
#[cfg(all(test, feature = "std"))]
mod tests;

pub use crate::microkernel::STRIPE;
pub use gru::{Gru, gru, gru_f32, gru_groups, gru_least_scratch, gru_scratch};
pub use lstm::{
    Lstm, lstm, lstm_f32, lstm_least_scratch, lstm_of_quantized_states,
    lstm_of_quantized_states_f32, lstm_scratch,
};
pub use simple::{Rnn, rnn, rnn_f32, rnn_least_scratch, rnn_scratch};

use crate::Number;
use crate::kernels::matmul::{Packing, pack_b, packed_b_len};
use crate::microkernel::{Matrix, pack_stripes};

/// The operands of an RNN or a GRU.
#[derive(Clone, Copy, Debug)]
pub struct RnnOperands<'a, T> {
    /// The inputs.
    pub x: &'a [T],
    /// The weights of the inputs.
    pub w: &'a [T],
    /// The weights of the states.
    pub r: &'a [T],
    /// The biases.
    pub b: Option<&'a [T]>,
    /// The length of each sequence.
    pub sequence_lens: Option<&'a [i32]>,
    /// The initial states.
    pub initial_h: Option<&'a [T]>,
}

/// The requested outputs of an RNN or a GRU.
#[derive(Debug)]
pub struct RnnOutputs<'a, T> {
    /// The outputs of all steps.
    pub y: Option<&'a mut [T]>,
    /// The last states.
    pub y_h: Option<&'a mut [T]>,
}

/// The operands of an LSTM.
#[derive(Clone, Copy, Debug)]
pub struct LstmOperands<'a, T> {
    /// The inputs.
    pub x: &'a [T],
    /// The weights of the inputs.
    pub w: &'a [T],
    /// The weights of the states.
    pub r: &'a [T],
    /// The biases.
    pub b: Option<&'a [T]>,
    /// The length of each sequence.
    pub sequence_lens: Option<&'a [i32]>,
    /// The initial states.
    pub initial_h: Option<&'a [T]>,
    /// The initial cell states.
    pub initial_c: Option<&'a [T]>,
    /// The peephole weights.
    pub p: Option<&'a [T]>,
}

/// The requested outputs of an LSTM.
#[derive(Debug)]
pub struct LstmOutputs<'a, T> {
    /// The outputs of all steps.
    pub y: Option<&'a mut [T]>,
    /// The last states.
    pub y_h: Option<&'a mut [T]>,
    /// The last cell states.
    pub y_c: Option<&'a mut [T]>,
}

/// The properties that all recurrent networks share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sequence {
    /// The number of steps.
    pub steps: usize,
    /// The number of sequences.
    pub batch: usize,
    /// The number of inputs per step.
    pub inputs: usize,
    /// The number of elements of a state.
    pub hidden: usize,
    /// The direction.
    pub direction: Direction,
    /// The layout of inputs, outputs and states.
    pub order: Order,
    /// The bound on the magnitude of the argument of a gate's activation; infinite for none.
    pub clip: f32,
    /// The layout of the weights.
    pub weights: GateLayout,
}

/// The direction in which the steps run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first to the last.
    Forward,
    /// From the last to the first.
    Reverse,
    /// Both directions, each with its own weights.
    Both,
}

/// The layout of inputs, outputs and states: ONNX's `layout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Layout 0: `[steps, batch, inputs]`, outputs `[steps, directions, batch, hidden]`, states
    /// `[directions, batch, hidden]`.
    StepsFirst,
    /// Layout 1: `[batch, steps, inputs]`, outputs `[batch, steps, directions, hidden]`, states
    /// `[batch, directions, hidden]`.
    BatchFirst,
}

/// The layout of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateLayout {
    /// `[directions, gates · hidden, inputs]` and `[directions, gates · hidden, hidden]`, as in
    /// ONNX.
    Plain,
    /// Both packed by [`pack_gates`]; for `f32` kernels only.
    Packed,
    /// The weights of inputs packed by [`pack_gates`], those of states by [`pack_states`]; for
    /// `f32` kernels only. Fastest for a single sequence whose weights exceed the L1 cache.
    Striped,
}

impl Sequence {
    /// Returns the number of directions.
    pub(crate) const fn directions(&self) -> usize {
        match self.direction {
            Direction::Forward | Direction::Reverse => 1,
            Direction::Both => 2,
        }
    }

    /// Returns whether a direction runs from the last step to the first.
    fn is_reverse(&self, way: usize) -> bool {
        match self.direction {
            Direction::Forward => false,
            Direction::Reverse => true,
            Direction::Both => way == 1,
        }
    }
}

/// The geometry of the weights of gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates<'a> {
    /// The number of directions.
    pub directions: usize,
    /// The gates that are multiplied together: all for the weights `W` of inputs; for the weights
    /// `R` of states `&[1]` of an RNN, `&[4]` of an LSTM, and [`gru_groups`] of a GRU.
    pub groups: &'a [usize],
    /// Rows of a gate.
    pub hidden: usize,
    /// Columns: inputs, or elements of a state.
    pub depth: usize,
}

impl Gates<'_> {
    const fn packing(&self, group: usize) -> Packing {
        let cols = self.groups[group] * self.hidden;
        Packing { rows: self.depth, cols, strides: [1, self.depth] }
    }

    /// Returns the number of elements of the packed weights of one direction.
    const fn packed_direction<T>(&self) -> usize {
        let (mut len, mut group) = (0, 0);
        while group < self.groups.len() {
            len += packed_b_len::<T>(&self.packing(group));
            group += 1;
        }
        len
    }
}

/// Returns the number of elements that [`pack_gates`] writes.
pub const fn packed_gates_len<T>(geometry: &Gates<'_>) -> usize {
    geometry.directions * geometry.packed_direction::<T>()
}

/// Packs the weights of gates. Align the result to 64 bytes.
pub fn pack_gates<T: Number>(w: &[T], y: &mut [T], geometry: Gates<'_>) {
    pack_groups(w, y, geometry, pack_b);
}

/// Packs the weights of states for a single sequence: in stripes that are read in order. The result
/// is as long as that of [`pack_gates`].
pub fn pack_states<T: Number>(r: &[T], y: &mut [T], geometry: Gates<'_>) {
    pack_groups(r, y, geometry, |data, y, Packing { rows, cols, strides: [row, col] }| {
        pack_stripes(Matrix { data, row, col }, (rows, cols), y);
    });
}

/// Packs each group of gates.
fn pack_groups<T: Number>(
    w: &[T],
    y: &mut [T],
    geometry: Gates<'_>,
    pack: impl Fn(&[T], &mut [T], Packing),
) {
    let (mut w, mut y) = (w, y);
    for _ in 0..geometry.directions {
        for group in 0..geometry.groups.len() {
            let packing = geometry.packing(group);
            let (from, rest) = w.split_at(packing.rows * packing.cols);
            let (to, left) = y.split_at_mut(packed_b_len::<T>(&packing));
            pack(from, to, packing);
            (w, y) = (rest, left);
        }
    }
}
