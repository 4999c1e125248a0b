//! The gradients of recurrent networks, by differentiating them as loops over the steps.

use super::{Cell, Recurrent, direction_count};
use crate::{
    diag::Result,
    dtype::DType,
    ir::{Expr, Gradient},
    ops::{control::scan::Scan, expand::Expand},
    ty::Type,
};
use onnxc_runtime::kernels::rnn::Direction;
use std::rc::Rc;

/// The weights of one direction.
#[derive(Clone, Copy)]
struct Weights<'t> {
    /// From the input to the gates.
    input: Expr<'t>,
    /// From the state to the gates.
    state: Expr<'t>,
    /// The biases of the input and of the state.
    biases: Option<[Expr<'t>; 2]>,
    /// The peepholes of the input, output and forget gates.
    peepholes: Option<[Expr<'t>; 3]>,
}

/// Returns part `i` of the last axis, in parts of `size` elements.
fn gate(x: Expr<'_>, i: i64, size: i64) -> Expr<'_> {
    x.between(x.tape.ints(&[i * size]), x.tape.ints(&[(i + 1) * size]), -1)
}

/// The results of a direction: the states of all steps, and the final states.
struct Results<'t> {
    all: Expr<'t>,
    last: Vec<Expr<'t>>,
}

/// A network with its inputs.
struct Network<'a, 't> {
    op: &'a Recurrent,
    x: Expr<'t>,
    hidden: i64,
    /// Whether a step is within its sequence.
    mask: Option<Expr<'t>>,
    /// Whether a sequence has a step: the states of an empty one are 0.
    has_steps: Option<Expr<'t>>,
}

impl Recurrent {
    /// Writes the network as `Scan` nodes, and differentiates these.
    pub(super) fn gradient_of_scans(&self, g: &mut Gradient<'_>) -> Result {
        let Some(hidden) = g.x(2).dims()[2].known() else {
            return Err(g.unsupported("for states whose size is known only when the model runs"));
        };
        let x = if self.layout { g.x(0).move_axis(1, 0) } else { g.x(0) };
        let mask = g
            .optional(4)
            .map(|lengths| x.indices(0).with_axis(1).less(lengths.cast(DType::I64)).with_axis(2));
        let none = g.tape().ints(&[0]);
        let has_steps =
            g.optional(4).map(|lengths| none.less(lengths.cast(DType::I64)).with_axis(1));
        let network = Network { op: self, x, hidden, mask, has_steps };
        let directions: Vec<Results<'_>> = (0..direction_count(self.direction))
            .map(|way| network.direction(g, way))
            .collect::<Result<_>>()?;
        let mut outputs = Vec::new();
        let all: Vec<_> = directions.iter().map(|results| results.all.with_axis(1)).collect();
        let all = all[0].concat(&all[1..], 1);
        outputs.push(if self.layout { all.transpose(&[2, 0, 1, 3]) } else { all });
        for state in 0..directions[0].last.len() {
            let last: Vec<_> =
                directions.iter().map(|results| results.last[state].with_axis(0)).collect();
            let last = last[0].concat(&last[1..], 0);
            outputs.push(if self.layout { last.move_axis(0, 1) } else { last });
        }
        g.through(&outputs)
    }
}

impl<'t> Network<'_, 't> {
    fn direction(&self, g: &Gradient<'t>, way: usize) -> Result<Results<'t>> {
        let (op, tape, hidden) = (self.op, g.tape(), self.hidden);
        let one = |x: Expr<'t>, axis: i64| {
            x.gather(tape.ints(&[way as i64]), axis).squeeze(&[axis as usize])
        };
        let weights = Weights {
            input: one(g.x(1), 0),
            state: one(g.x(2), 0),
            biases: g
                .optional(3)
                .map(|bias| [0, 1].map(|i| gate(one(bias, 0), i, op.cell.gates() * hidden))),
            peepholes: g.optional(7).map(|all| [0, 1, 2].map(|i| gate(one(all, 0), i, hidden))),
        };
        let initial = |i: usize| match g.optional(i) {
            Some(state) => {
                let state = one(state, if op.layout { 1 } else { 0 });
                self.has_steps.map_or(state, |has_steps| state.only_where(has_steps))
            }
            None => {
                let shape = tape.concat(&[self.x.size_of(1), tape.ints(&[hidden])]);
                self.x.number(0.0).apply(Expand, &[shape])
            }
        };
        let states: Vec<Expr<'t>> = match op.cell {
            Cell::Lstm => vec![initial(5), initial(6)],
            _ => vec![initial(5)],
        };
        let mut gates = self.x.matmul(weights.input.transpose_matrices());
        if let Some([input, state]) = weights.biases {
            // With `linear_before_reset`, the reset gate also multiplies the candidate's bias.
            gates = gates + input;
            gates = match op.cell {
                Cell::Gru if op.linear_before_reset => {
                    let outside = state.between(tape.ints(&[0]), tape.ints(&[2 * hidden]), 0);
                    let pads = tape.ints(&[0, hidden]);
                    gates + outside.pad(pads)
                }
                _ => gates + state,
            };
        }
        self.scan(way, weights, states, gates)
    }

    /// Runs one direction. `gates` holds the input's part of the gates.
    fn scan(
        &self,
        way: usize,
        weights: Weights<'t>,
        states: Vec<Expr<'t>>,
        gates: Expr<'t>,
    ) -> Result<Results<'t>> {
        let tape = gates.tape;
        let scanned: Vec<Expr<'t>> = std::iter::once(gates).chain(self.mask).collect();
        let mut types: Vec<Type> = states.iter().map(|state| state.ty().into()).collect();
        for part in &scanned {
            let mut ty = part.ty();
            ty.shape.remove(0);
            types.push(ty.into());
        }
        let region = tape.region("step", &types, |_, inputs| {
            let (before, parts) = inputs.split_at(states.len());
            let after = self.step(way, weights, before, parts[0]);
            let Some(&mask) = parts.get(1) else {
                let all = after[0];
                return Ok(after.into_iter().chain([all]).collect());
            };
            let kept = after.iter().zip(before).map(|(&after, &before)| mask.select(after, before));
            let all = after[0].only_where(mask);
            Ok(kept.chain([all]).collect())
        })?;
        let backward = way == 1 || self.op.direction == Direction::Reverse;
        let scan = Scan {
            scanned: scanned.len(),
            reversed: vec![backward; scanned.len()],
            reversed_outputs: vec![backward],
            ..Scan::default()
        };
        let inputs: Vec<_> = states.iter().copied().chain(scanned).map(Some).collect();
        let count = states.len() + 1;
        let mut outputs = tape.node_around(Rc::new(scan), &inputs, count, vec![region]);
        let all = outputs.split_off(states.len())[0];
        Ok(Results { all, last: outputs })
    }

    fn clip(&self, x: Expr<'t>) -> Expr<'t> {
        match self.op.clip.map(f64::from).filter(|clip| clip.is_finite()) {
            Some(clip) => x.clamp(-clip, clip),
            None => x,
        }
    }

    /// Returns the states after a step.
    fn step(
        &self,
        way: usize,
        weights: Weights<'t>,
        before: &[Expr<'t>],
        gates: Expr<'t>,
    ) -> Vec<Expr<'t>> {
        let f = |i: usize, x: Expr<'t>| self.clip(x).activate(self.op.activation(way, i));
        let (h, size) = (before[0], self.hidden);
        let transposed = weights.state.transpose_matrices();
        match self.op.cell {
            Cell::Rnn => vec![f(0, gates + h.matmul(transposed))],
            Cell::Gru => {
                let (reset_first, rest) =
                    (gate(transposed, 2, size), gate(transposed, 0, 2 * size));
                let both = gate(gates, 0, 2 * size) + h.matmul(rest);
                let (z, r) = (f(0, gate(both, 0, size)), f(0, gate(both, 1, size)));
                let inner = match (self.op.linear_before_reset, weights.biases) {
                    (true, Some([_, bias])) => r * (h.matmul(reset_first) + gate(bias, 2, size)),
                    (true, None) => r * h.matmul(reset_first),
                    (false, _) => (r * h).matmul(reset_first),
                };
                let candidate = f(1, gate(gates, 2, size) + inner);
                vec![candidate + z * (h - candidate)]
            }
            Cell::Lstm => {
                let (all, c) = (gates + h.matmul(transposed), before[1]);
                let peep = |x: Expr<'t>, i: usize, c: Expr<'t>| match weights.peepholes {
                    Some(peepholes) => x + peepholes[i] * c,
                    None => x,
                };
                let i = f(0, peep(gate(all, 0, size), 0, c));
                let forget = match self.op.input_forget {
                    true => -i + 1.0,
                    false => f(0, peep(gate(all, 2, size), 2, c)),
                };
                let next = forget * c + i * f(1, gate(all, 3, size));
                let o = f(0, peep(gate(all, 1, size), 1, next));
                vec![o * next.activate(self.op.activation(way, 2)), next]
            }
        }
    }
}
