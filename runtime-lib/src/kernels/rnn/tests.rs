//! Compares recurrent networks with their definition in `f64`, one sequence at a time.

use super::*;
use crate::Float;
use crate::kernels::matmul::tests::numbers;
use crate::loops::epilogue::Activation;
use crate::simd::each_level;
use std::{vec, vec::Vec};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Net {
    Rnn,
    Gru { linear_before_reset: bool },
    Lstm { input_forget: bool },
}
use Net::{Gru, Lstm, Rnn};

impl Net {
    fn gates(self) -> usize {
        match self {
            Rnn => 1,
            Gru { .. } => 3,
            Lstm { .. } => 4,
        }
    }

    fn groups(self) -> &'static [usize] {
        match self {
            Rnn => &[1],
            Gru { linear_before_reset } => gru_groups(linear_before_reset),
            Lstm { .. } => &[4],
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    net: Net,
    steps: usize,
    /// Inputs of a step.
    depth: usize,
    hidden: usize,
    batch: usize,
    direction: Direction,
    order: Order,
    clip: f32,
    /// Whether there are biases, lengths, initial states and peepholes.
    optional: bool,
    activations: [[Activation; 3]; 2],
}

const TANH: [Activation; 3] = [Activation::Sigmoid, Activation::Tanh, Activation::Tanh];
const OTHER: [Activation; 3] = [
    Activation::HardSigmoid { alpha: 0.3, beta: 0.4 },
    Activation::Softsign,
    Activation::ScaledTanh { alpha: 1.5, beta: 0.5 },
];

const CASE: Case = Case {
    net: Rnn,
    steps: 5,
    depth: 3,
    hidden: 18,
    batch: 1,
    direction: Direction::Forward,
    order: Order::StepsFirst,
    clip: f32::INFINITY,
    optional: false,
    activations: [TANH, OTHER],
};

/// All inputs of a network.
struct Inputs<T> {
    x: Vec<T>,
    w: Vec<T>,
    r: Vec<T>,
    b: Vec<T>,
    lens: Vec<i32>,
    h: Vec<T>,
    c: Vec<T>,
    p: Vec<T>,
}

impl Case {
    fn sequence(&self) -> Sequence {
        let Case { steps, depth: inputs, hidden, batch, direction, order, clip, .. } = *self;
        Sequence {
            steps,
            batch,
            inputs,
            hidden,
            direction,
            order,
            clip,
            weights: GateLayout::Plain,
        }
    }

    fn inputs<T: Float>(&self) -> Inputs<T> {
        let ways = self.sequence().directions();
        let rows = ways * self.net.gates() * self.hidden;
        let some = |n: usize, seed| numbers(n, seed).into_iter().map(T::from_f64).collect();
        // States decay, so that rounding errors do not grow from step to step.
        let fading = |x: f64| T::from_f64(x / (self.hidden as f64).sqrt());
        let states = ways * self.batch * self.hidden;
        Inputs {
            x: some(self.steps * self.batch * self.depth, 1),
            w: some(rows * self.depth, 2),
            r: numbers(rows * self.hidden, 3).into_iter().map(fading).collect(),
            b: some(2 * rows, 4),
            lens: (0..self.batch).map(|i| [3, self.steps as i32, 0, 1][i % 4]).collect(),
            h: some(states, 5),
            c: some(states, 6),
            p: some(ways * 3 * self.hidden, 7),
        }
    }

    /// Returns all outputs and the last states.
    fn truth(&self, inputs: &Inputs<f64>) -> [Vec<f64>; 3] {
        let ways = self.sequence().directions();
        let mut y = vec![0.0; self.steps * ways * self.batch * self.hidden];
        let (mut y_h, mut y_c) = (vec![0.0; inputs.h.len()], vec![0.0; inputs.h.len()]);
        for way in 0..ways {
            for at in 0..self.batch {
                let len = if self.optional { inputs.lens[at] as usize } else { self.steps };
                let state = self.hidden
                    * match self.order {
                        Order::StepsFirst => way * self.batch + at,
                        Order::BatchFirst => at * ways + way,
                    };
                let (mut h, mut c) = (vec![0.0; self.hidden], vec![0.0; self.hidden]);
                // The states of an empty sequence are 0.
                if self.optional && len > 0 {
                    h.copy_from_slice(&inputs.h[state..][..self.hidden]);
                    c.copy_from_slice(&inputs.c[state..][..self.hidden]);
                }
                for step in 0..len {
                    let step = if self.sequence().is_reverse(way) { len - 1 - step } else { step };
                    let (x, to) = match self.order {
                        Order::StepsFirst => {
                            (step * self.batch + at, (step * ways + way) * self.batch + at)
                        }
                        Order::BatchFirst => {
                            (at * self.steps + step, (at * self.steps + step) * ways + way)
                        }
                    };
                    self.step(
                        inputs,
                        way,
                        &inputs.x[x * self.depth..][..self.depth],
                        &mut h,
                        &mut c,
                    );
                    y[to * self.hidden..][..self.hidden].copy_from_slice(&h);
                }
                y_h[state..][..self.hidden].copy_from_slice(&h);
                y_c[state..][..self.hidden].copy_from_slice(&c);
            }
        }
        [y, y_h, y_c]
    }

    fn step(&self, inputs: &Inputs<f64>, way: usize, x: &[f64], h: &mut [f64], c: &mut [f64]) {
        let gates = self.net.gates();
        let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
        let row = |gate: usize, j: usize| (way * gates + gate) * self.hidden + j;
        let input = |gate, j| dot(x, &inputs.w[row(gate, j) * self.depth..]);
        let state = |gate, j, h: &[f64]| dot(h, &inputs.r[row(gate, j) * self.hidden..]);
        let bias = |half: usize, gate: usize, j: usize| match self.optional {
            true => inputs.b[((way * 2 + half) * gates + gate) * self.hidden + j],
            false => 0.0,
        };
        let peephole = |gate: usize, j: usize, c: f64| match self.optional {
            true => inputs.p[(way * 3 + gate) * self.hidden + j] * c,
            false => 0.0,
        };
        let [f, g, to_output] = self.activations[way];
        let clipped = |f: Activation, x: f64| {
            let clip = f64::from(self.clip);
            f.of(x.clamp(-clip, clip))
        };
        let old = h.to_vec();
        let sum =
            |gate, j| input(gate, j) + state(gate, j, &old) + bias(0, gate, j) + bias(1, gate, j);
        let reset: Vec<f64> = (0..self.hidden)
            .map(|j| if gates == 3 { clipped(f, sum(1, j)) } else { 0.0 })
            .collect();
        for j in 0..self.hidden {
            h[j] = match self.net {
                Rnn => clipped(f, sum(0, j)),
                Gru { linear_before_reset } => {
                    let z = clipped(f, sum(0, j));
                    let scaled: Vec<f64> = old.iter().zip(&reset).map(|(h, r)| h * r).collect();
                    let from_state = match linear_before_reset {
                        true => reset[j] * (state(2, j, &old) + bias(1, 2, j)),
                        false => state(2, j, &scaled) + bias(1, 2, j),
                    };
                    let new = clipped(g, input(2, j) + bias(0, 2, j) + from_state);
                    (1.0 - z) * new + z * old[j]
                }
                Lstm { input_forget } => {
                    let i = clipped(f, sum(0, j) + peephole(0, j, c[j]));
                    let forget = clipped(f, sum(2, j) + peephole(2, j, c[j]));
                    let forget = if input_forget { 1.0 - i } else { forget };
                    c[j] = forget * c[j] + i * clipped(g, sum(3, j));
                    clipped(f, sum(1, j) + peephole(1, j, c[j])) * to_output.of(c[j])
                }
            };
        }
    }

    /// Runs a kernel with `memory` more elements of scratch memory than the least.
    fn run<T: Float>(&self, inputs: &Inputs<T>, weights: GateLayout, memory: f64) -> [Vec<T>; 3] {
        let Inputs { x, w, r, b, lens, h, c, p } = inputs;
        let sequence = Sequence { weights, ..self.sequence() };
        let [f, s] = self.activations;
        let steps = self.steps * sequence.directions() * self.batch * self.hidden;
        let [mut y, mut y_h, mut y_c] = [steps, h.len(), h.len()].map(|n| vec![T::ONE; n]);
        let (to, to_h, to_c) = (Some(&mut y[..]), Some(&mut y_h[..]), Some(&mut y_c[..]));
        let some = |x| Some(x).filter(|_| self.optional);
        let (b, h, c, p) = (some(&b[..]), some(&h[..]), some(&c[..]), some(&p[..]));
        let lens = Some(&lens[..]).filter(|_| self.optional);
        // From the least to the fastest amount of scratch memory.
        let memory = |least: usize, most: usize| {
            let more = (most - least) as f64 * memory;
            vec![T::Wide::from_f64(f64::NAN); least + more as usize]
        };
        let done = match self.net {
            Rnn => {
                let g = super::Rnn { sequence, activations: [f[0], s[0]] };
                let mut m = memory(rnn_least_scratch(&g), rnn_scratch(&g));
                rnn(
                    RnnOperands { x, w, r, b, sequence_lens: lens, initial_h: h },
                    RnnOutputs { y: to, y_h: to_h },
                    &mut m,
                    g,
                )
            }
            Gru { linear_before_reset } => {
                let activations = [[f[0], f[1]], [s[0], s[1]]];
                let g = super::Gru { sequence, activations, linear_before_reset };
                let mut m = memory(gru_least_scratch(&g), gru_scratch(&g));
                gru(
                    RnnOperands { x, w, r, b, sequence_lens: lens, initial_h: h },
                    RnnOutputs { y: to, y_h: to_h },
                    &mut m,
                    g,
                )
            }
            Lstm { input_forget } => {
                let g = super::Lstm { sequence, activations: [f, s], input_forget };
                let mut m = memory(lstm_least_scratch(&g), lstm_scratch(&g));
                lstm(
                    LstmOperands { x, w, r, b, sequence_lens: lens, initial_h: h, initial_c: c, p },
                    LstmOutputs { y: to, y_h: to_h, y_c: to_c },
                    &mut m,
                    g,
                )
            }
        };
        assert_eq!(done, Ok(()));
        [y, y_h, y_c]
    }

    fn near<T: Float>(&self, found: &[Vec<T>; 3], truth: &[Vec<f64>; 3], tolerance: f64) {
        let outputs = if let Lstm { .. } = self.net { 3 } else { 2 };
        for (which, (y, truth)) in found.iter().zip(truth).enumerate().take(outputs) {
            for (at, (y, truth)) in y.iter().zip(truth).enumerate() {
                let (y, near) = (y.to_f64(), (y.to_f64() - truth).abs() <= tolerance);
                assert!(near, "{self:?}: output {which} at {at} is {y}, not {truth}");
            }
        }
    }

    fn check(self) {
        let truth = self.truth(&self.inputs());
        self.near(&self.run::<f64>(&self.inputs(), GateLayout::Plain, 1.0), &truth, 1e-12);
        let plain = self.inputs::<f32>();
        let mut packed = self.inputs::<f32>();
        let directions = self.sequence().directions();
        let groups = &[self.net.gates()];
        let gates = Gates { directions, groups, hidden: self.hidden, depth: self.depth };
        packed.w = vec![9.0; packed_gates_len::<f32>(&gates)];
        pack_gates(&plain.w, &mut packed.w, gates);
        let gates = Gates { groups: self.net.groups(), depth: self.hidden, ..gates };
        packed.r = vec![9.0; packed_gates_len::<f32>(&gates)];
        pack_gates(&plain.r, &mut packed.r, gates);
        let mut striped = Inputs { w: packed.w.clone(), ..self.inputs() };
        striped.r = vec![9.0; packed.r.len()];
        pack_states(&plain.r, &mut striped.r, gates);
        each_level(|_| {
            for memory in [0.0, 0.5, 1.0] {
                self.near(&self.run(&plain, GateLayout::Plain, memory), &truth, 2e-5);
                self.near(&self.run(&packed, GateLayout::Packed, memory), &truth, 2e-5);
                self.near(&self.run(&striped, GateLayout::Striped, memory), &truth, 2e-5);
            }
        });
    }
}

const NETS: [Net; 5] = [
    Rnn,
    Gru { linear_before_reset: false },
    Gru { linear_before_reset: true },
    Lstm { input_forget: false },
    Lstm { input_forget: true },
];

#[test]
fn every_network_matches_in_every_configuration() {
    for net in NETS {
        for direction in [Direction::Forward, Direction::Reverse, Direction::Both] {
            for order in [Order::StepsFirst, Order::BatchFirst] {
                for batch in [1, 3, 4] {
                    for optional in [false, true] {
                        for clip in [f32::INFINITY, 0.25] {
                            Case { net, batch, direction, order, clip, optional, ..CASE }.check();
                        }
                    }
                }
            }
        }
    }
}

/// More steps than one product takes, and full stripes and panels.
#[test]
fn long_sequences_match_in_every_configuration() {
    for (steps, depth, hidden) in [(50, 16, 32), (67, 5, 64), (96, 40, 32), (130, 9, 96)] {
        for net in NETS {
            for direction in [Direction::Forward, Direction::Reverse, Direction::Both] {
                for optional in [false, true] {
                    let order = if optional { Order::BatchFirst } else { Order::StepsFirst };
                    let sizes = Case { steps, depth, hidden, ..CASE };
                    Case { net, direction, order, optional, ..sizes }.check();
                }
            }
        }
    }
}

#[test]
fn half_precision_results_are_close() {
    for net in NETS {
        let case = Case { net, batch: 2, optional: true, direction: Direction::Both, ..CASE };
        let truth = case.truth(&case.inputs());
        #[cfg(feature = "half")]
        case.near(&case.run::<crate::f16>(&case.inputs(), GateLayout::Plain, 0.5), &truth, 0.02);
        case.near(&case.run::<f32>(&case.inputs(), GateLayout::Plain, 0.5), &truth, 2e-5);
    }
}

#[test]
fn a_length_must_fit() {
    let case = Case { batch: 2, optional: true, ..CASE };
    let inputs = case.inputs::<f32>();
    let geometry = super::Rnn { sequence: case.sequence(), activations: [Activation::Tanh; 2] };
    let mut scratch = vec![0.0; rnn_scratch(&geometry)];
    for lens in [[1, 6], [-1, 2]] {
        let Inputs { x, w, r, .. } = &inputs;
        let done = rnn_f32(
            RnnOperands { x, w, r, b: None, sequence_lens: Some(&lens), initial_h: None },
            RnnOutputs { y: None, y_h: None },
            &mut scratch,
            geometry,
        );
        assert!(done.is_err(), "{lens:?}");
    }
}

type LstmKernel =
    fn(LstmOperands<'_, f32>, LstmOutputs<'_, f32>, &mut [f32], super::Lstm) -> crate::Result;

/// Runs an LSTM of two sequences with three units, and returns the last states.
fn run_lstm(
    kernel: LstmKernel,
    x: &[f32],
    [h, c]: [&[f32]; 2],
    sequence_lens: Option<&[i32]>,
) -> [Vec<f32>; 2] {
    let sequence = Sequence {
        steps: x.len() / 2,
        batch: 2,
        inputs: 1,
        hidden: 3,
        direction: Direction::Forward,
        order: Order::StepsFirst,
        clip: f32::INFINITY,
        weights: GateLayout::Plain,
    };
    let activations = [[Activation::Sigmoid, Activation::Tanh, Activation::Tanh]; 2];
    let geometry = super::Lstm { sequence, activations, input_forget: false };
    let (w, r) = (wave(12, 2.3), wave(36, 0.9));
    let (mut y_h, mut y_c) = (vec![9.0; 6], vec![9.0; 6]);
    let (initial_h, initial_c) = (Some(h), Some(c));
    let (b, p) = (None, None);
    let operands = LstmOperands { x, w: &w, r: &r, b, sequence_lens, initial_h, initial_c, p };
    let outputs = LstmOutputs { y: None, y_h: Some(&mut y_h), y_c: Some(&mut y_c) };
    kernel(operands, outputs, &mut vec![9.0; lstm_scratch(&geometry)], geometry)
        .expect("the lengths fit");
    [y_h, y_c]
}

fn wave(n: usize, by: f32) -> Vec<f32> {
    (0..n).map(|i| (i as f32 * by).sin()).collect()
}

#[test]
fn states_are_quantized_for_their_product() {
    let (x, zero) = (wave(4, 1.7), [0.0; 6]);
    let [h, c] = run_lstm(lstm_f32, &x[..2], [&zero, &zero], None);
    let (mut q, mut scale, mut origin) = ([0; 6], [0.0], [0]);
    crate::kernels::quantize::dynamic_quantize_linear(&h, &mut q, &mut scale, &mut origin);
    let quantized = q.map(|q| (f32::from(q) - f32::from(origin[0])) * scale[0]);
    let expected = run_lstm(lstm_f32, &x[2..], [&quantized, &c], None);
    let found = run_lstm(lstm_of_quantized_states_f32, &x, [&zero, &zero], None);
    assert_eq!(found, expected);
    assert_ne!(found, run_lstm(lstm_f32, &x, [&zero, &zero], None));
}

#[test]
fn states_of_sequences_that_ended_are_quantized_as_zeros() {
    // The states of the first sequence are the larger ones.
    let (x, zero) = ([4.0, 0.1, 0.0, 0.2, 0.0, -0.1], [0.0; 6]);
    let run = |x: &[f32], states, lens| run_lstm(lstm_of_quantized_states_f32, x, states, lens);
    let [h, c] = run(&x[..4], [&zero, &zero], Some(&[1, 2]));
    let [all, _] = run(&x, [&zero, &zero], Some(&[1, 3]));
    let ended = [&[0.0; 3], &h[3..]].concat();
    let [last, _] = run(&x[4..], [&ended, &c], None);
    assert_eq!(all[3..], last[3..]);
    // The first sequence keeps its state.
    assert_eq!(all[..3], h[..3]);
    let [with_ended, _] = run(&x[4..], [&h, &c], None);
    assert_ne!(all[3..], with_ended[3..]);
}
