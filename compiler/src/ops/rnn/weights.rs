//! Constant weights of recurrent networks, packed at compile time.

use super::{Cell, Recurrent};
use crate::{
    dim::Dim,
    dtype::DType,
    ir::Lower,
    ops::pack::{Pack, pack_constant},
    plan::Operand,
};
use onnxc_runtime::{
    Number,
    kernels::{
        rnn::{self, Direction},
        weight_precision::Panels,
    },
};

/// The size of a first-level cache, in bytes.
const L1_CACHE: i64 = 32 << 10;

/// Returns whether the weights of states exceed the first-level cache, so that their layout
/// matters.
pub(super) fn are_large(cell: Cell, hidden: &Dim) -> bool {
    let elements = |n: i64| n.checked_mul(n)?.checked_mul(cell.gates());
    hidden.known().is_some_and(|n| elements(n).is_none_or(|n| n > L1_CACHE / 4))
}

impl Recurrent {
    /// Packs constant weights of inputs and of states for the kernels of `f32`; those of states in
    /// stripes if `striped`.
    pub(super) fn pack_weights(
        &self,
        cx: &mut Lower<'_>,
        inputs: &Dim,
        hidden: &Dim,
        striped: bool,
    ) -> Option<[Operand; 2]> {
        let [inputs, hidden] = [inputs, hidden].map(Dim::known);
        let (inputs, hidden) = (usize::try_from(inputs?).ok()?, usize::try_from(hidden?).ok()?);
        let is_constant = |i: usize| cx.constant(i).is_some_and(|w| w.dtype == DType::F32);
        if ![1, 2].into_iter().all(is_constant) {
            return None;
        }
        let directions = if self.direction == Direction::Both { 2 } else { 1 };
        let groups: &[usize] = match self.cell {
            Cell::Rnn => &[1],
            Cell::Gru => rnn::gru_groups(self.linear_before_reset),
            Cell::Lstm => &[4],
        };
        let gates = |groups: &[usize], depth, striped| PackGates {
            directions,
            groups: groups.to_vec(),
            hidden,
            depth,
            striped,
        };
        let w = pack_constant(cx, 1, gates(&[groups.iter().sum()], inputs, false))?;
        Some([w, pack_constant(cx, 2, gates(groups, hidden, striped))?])
    }
}

/// The packing of the weights of gates. A piece is a group of gates of one direction.
struct PackGates {
    directions: usize,
    groups: Vec<usize>,
    hidden: usize,
    depth: usize,
    striped: bool,
}

impl PackGates {
    fn gates<'a>(&self, groups: &'a [usize], directions: usize) -> rnn::Gates<'a> {
        rnn::Gates { directions, groups, hidden: self.hidden, depth: self.depth }
    }
}

impl Pack for PackGates {
    fn len<T>(&self) -> usize {
        rnn::packed_gates_len::<T>(&self.gates(&self.groups, self.directions))
    }

    fn pieces<T>(&self) -> usize {
        self.directions * self.groups.len()
    }

    fn pack<T: Number>(&self, i: usize, from: &[T]) -> Vec<T> {
        let (way, group) = (i / self.groups.len(), i % self.groups.len());
        let before =
            way * self.groups.iter().sum::<usize>() + self.groups[..group].iter().sum::<usize>();
        let from = &from[before * self.hidden * self.depth..];
        let from = &from[..self.groups[group] * self.hidden * self.depth];
        let piece = self.gates(&self.groups[group..=group], 1);
        let mut to = vec![T::ZERO; rnn::packed_gates_len::<T>(&piece)];
        let pack = if self.striped { rnn::pack_states } else { rnn::pack_gates };
        pack(from, &mut to, piece);
        to
    }

    fn panels(&self) -> Option<Panels> {
        if self.striped {
            let lanes = rnn::STRIPE;
            let whole = self.groups.iter().all(|n| (n * self.hidden).is_multiple_of(lanes));
            return whole.then_some(Panels { lanes, rows: self.depth, depth: self.depth });
        }
        // Several matrices of several depth blocks each are not one sequence of panels.
        let panels = Panels::right(self.depth);
        (self.pieces::<f32>() == 1 || panels.depth == panels.rows).then_some(panels)
    }
}
