//! Recurrent networks: `RNN`, `GRU` and `LSTM`, in either direction or both.
//!
//! The inputs of many steps are multiplied with their weights at once, before the steps follow
//! each other: of as many steps as the scratch memory has room for. The `_scratch` functions say
//! what serves best, the `_least_scratch` functions what is needed.

mod gru;
mod lstm;
mod multiply;
mod pass;
mod simple;
#[cfg(all(test, feature = "std"))]
mod tests;

pub use crate::microkernel::STRIPE;
pub use gru::{Gru, gru, gru_f32, gru_groups, gru_least_scratch, gru_scratch};
pub use lstm::{Lstm, lstm, lstm_f32, lstm_least_scratch, lstm_scratch};
pub use simple::{Rnn, rnn, rnn_f32, rnn_least_scratch, rnn_scratch};

use crate::Number;
use crate::kernels::matmul::{Packing, pack_b, packed_b_len};
use crate::microkernel::{Matrix, pack_stripes};

/// What all recurrent networks are told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sequence {
    /// How many steps there are.
    pub steps: usize,
    /// How many sequences there are.
    pub batch: usize,
    /// Inputs of a step.
    pub inputs: usize,
    /// Elements of a state.
    pub hidden: usize,
    /// In which order the steps follow each other.
    pub direction: Direction,
    /// In which order tensors stand in memory.
    pub order: Order,
    /// The largest magnitude of what a gate's activation is applied to; infinite for no bound.
    pub clip: f32,
    /// How the weights stand in memory.
    pub weights: Weights,
}

/// In which order steps follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first to the last.
    Forward,
    /// From the last to the first.
    Reverse,
    /// Both ways, each with weights of its own.
    Both,
}

/// In which order tensors stand in memory: ONNX's `layout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Layout 0: `[steps, batch, inputs]`, outputs `[steps, directions, batch, hidden]`, states
    /// `[directions, batch, hidden]`.
    StepsFirst,
    /// Layout 1: `[batch, steps, inputs]`, outputs `[batch, steps, directions, hidden]`, states
    /// `[batch, directions, hidden]`.
    BatchFirst,
}

/// How the weights of a recurrent network stand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weights {
    /// `[directions, gates · hidden, inputs]` and `[directions, gates · hidden, hidden]`, as in
    /// ONNX.
    Plain,
    /// Both as [`pack_gates`] leaves them; for kernels of `f32` only.
    Packed,
    /// Those of inputs as [`pack_gates`] leaves them, those of states as [`pack_states`] does; for
    /// kernels of `f32` only. Fastest for a single sequence whose weights have no room in a
    /// first-level cache.
    Striped,
}

impl Sequence {
    /// How many ways the steps are gone.
    pub(crate) const fn directions(&self) -> usize {
        match self.direction {
            Direction::Forward | Direction::Reverse => 1,
            Direction::Both => 2,
        }
    }

    /// Whether the steps are gone from the last to the first, on a way.
    fn is_reverse(&self, way: usize) -> bool {
        match self.direction {
            Direction::Forward => false,
            Direction::Reverse => true,
            Direction::Both => way == 1,
        }
    }
}

/// The weights of gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates<'a> {
    /// How many directions there are.
    pub directions: usize,
    /// How many gates are multiplied at once: all for the weights `W` of inputs; for the weights
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

    /// How many elements the packed weights of one direction have.
    const fn packed_direction<T>(&self) -> usize {
        let (mut len, mut group) = (0, 0);
        while group < self.groups.len() {
            len += packed_b_len::<T>(&self.packing(group));
            group += 1;
        }
        len
    }
}

/// How many elements [`pack_gates`] writes.
pub const fn packed_gates_len<T>(geometry: &Gates<'_>) -> usize {
    geometry.directions * geometry.packed_direction::<T>()
}

/// Packs the weights of gates; what is packed is best placed at a multiple of 64 bytes.
pub fn pack_gates<T: Number>(w: &[T], y: &mut [T], geometry: Gates<'_>) {
    pack_groups(w, y, geometry, pack_b);
}

/// Packs the weights of states for one sequence: in stripes, which are read in order. They have as
/// many elements as what [`pack_gates`] writes.
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
