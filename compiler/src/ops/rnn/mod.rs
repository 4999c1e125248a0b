//! Recurrent networks: `RNN`, `GRU` and `LSTM`.

mod cell;
mod gradient;
mod weights;

use super::{Entry, entry, internal};
use crate::{
    diag::{Code, Diagnostic, Result, counted, quoted},
    dim::Dim,
    dtype::{DType, FLOATS},
    ir::{Attributes, Domain, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{
        Field, Formula, Kernel, Operand,
        activation::parts,
        geometry::{Gru, Lstm, Rnn, Sequence},
        kernel, size_function,
    },
    ty::Type,
};
use cell::{Cell, Recurrent};
use onnxc_runtime::{
    Float,
    kernels::{
        epilogue::Activation,
        rnn::{Direction, GateLayout, Order},
    },
};
use std::{rc::Rc, slice::from_ref};

pub const OPS: &[Entry] = &[
    entry("GRU", 1, |node| Recurrent::read(node, Cell::Gru)),
    entry("LSTM", 1, |node| Recurrent::read(node, Cell::Lstm)),
    entry("RNN", 1, |node| Recurrent::read(node, Cell::Rnn)),
    internal(QUANTIZED_LSTM, |node| {
        Ok(Rc::new(Recurrent { quantizes_states: true, ..read_attributes(node, Cell::Lstm)? }))
    }),
];

/// The name of an LSTM whose states are quantized.
const QUANTIZED_LSTM: &str = "LSTMOfQuantizedStates";

/// An activation: its name, and the defaults of `alpha` and `beta` if it has them.
struct Function {
    name: &'static str,
    alpha: Option<f32>,
    beta: Option<f32>,
    make: fn(f32, f32) -> Activation,
}

const fn function(
    name: &'static str,
    alpha: Option<f32>,
    beta: Option<f32>,
    make: fn(f32, f32) -> Activation,
) -> Function {
    Function { name, alpha, beta, make }
}

/// Every activation that the attributes may name.
const FUNCTIONS: &[Function] = &[
    function("Affine", Some(1.0), Some(0.0), |alpha, beta| Activation::Affine { alpha, beta }),
    function("Elu", Some(1.0), None, |alpha, _| Activation::Elu { alpha }),
    function("HardSigmoid", Some(0.2), Some(0.5), |alpha, beta| Activation::HardSigmoid {
        alpha,
        beta,
    }),
    function("LeakyRelu", Some(0.01), None, |alpha, _| Activation::LeakyRelu { alpha }),
    function("Relu", None, None, |_, _| Activation::Relu),
    function("ScaledTanh", Some(1.0), Some(1.0), |alpha, beta| Activation::ScaledTanh {
        alpha,
        beta,
    }),
    function("Sigmoid", None, None, |_, _| Activation::Sigmoid),
    function("Softplus", None, None, |_, _| Activation::Softplus),
    function("Softsign", None, None, |_, _| Activation::Softsign),
    function("Tanh", None, None, |_, _| Activation::Tanh),
    // In recurrent networks the activation keeps `x >= alpha`, the kernel's keeps `x > alpha`.
    function("ThresholdedRelu", Some(1.0), None, |alpha, _| Activation::ThresholdedRelu {
        alpha: alpha.next_down(),
    }),
];

/// The names of directions. The first version of `GRU` misspelled one.
const DIRECTIONS: &[(&str, Direction)] = &[
    ("forward", Direction::Forward),
    ("foward", Direction::Forward),
    ("reverse", Direction::Reverse),
    ("bidirectional", Direction::Both),
];

fn direction_count(direction: Direction) -> usize {
    if direction == Direction::Both { 2 } else { 1 }
}

impl Recurrent {
    fn read(node: &mut Reader<'_>, cell: Cell) -> Result<Rc<dyn Op>> {
        Ok(Rc::new(read_attributes(node, cell)?))
    }

    /// Returns activation `i` of a direction; that of the first, if there is no second.
    fn activation(&self, way: usize, i: usize) -> Activation {
        let each = self.cell.defaults().len();
        let at = if way < direction_count(self.direction) { way * each + i } else { i };
        self.activations[at]
    }

    /// Returns both axes in the order of `layout`: the batch first, or last.
    fn ordered(&self, other: &Dim, batch: &Dim) -> [Dim; 2] {
        let axes = [other.clone(), batch.clone()];
        if self.layout { [axes[1].clone(), axes[0].clone()] } else { axes }
    }

    /// Returns the number of steps and the batch size of an input of that shape.
    fn steps_and_batch<'s>(&self, x: &'s [Dim]) -> (&'s Dim, &'s Dim) {
        if self.layout { (&x[1], &x[0]) } else { (&x[0], &x[1]) }
    }
}

/// Reads the attributes of a node.
fn read_attributes(node: &mut Reader<'_>, cell: Cell) -> Result<Recurrent> {
    // The outputs themselves tell whether the sequence is used.
    node.ignore("output_sequence");
    let direction = node.choice("direction", DIRECTIONS)?;
    let linear_before_reset = cell == Cell::Gru && node.flag("linear_before_reset", false)?;
    let input_forget = cell == Cell::Lstm && node.flag("input_forget", false)?;
    Ok(Recurrent {
        cell,
        direction,
        hidden_size: node.maybe_int("hidden_size")?,
        activations: read_activations(node, cell, direction_count(direction))?,
        clip: node.maybe_float("clip")?,
        layout: node.flag("layout", false)?,
        linear_before_reset,
        input_forget,
        quantizes_states: false,
    })
}

/// Reads the activations of each direction.
fn read_activations(
    node: &mut Reader<'_>,
    cell: Cell,
    directions: usize,
) -> Result<Vec<Activation>> {
    let defaults = cell.defaults().repeat(directions);
    let wanted = defaults.len();
    let names = node.maybe_strings("activations")?.filter(|names| !names.is_empty());
    let names = names.unwrap_or_else(|| defaults.into_iter().map(String::from).collect());
    // The default of the first operator sets lists names for two directions.
    if names.len() < wanted {
        let wanted = counted(wanted, "name");
        let message = format!("`activations` must have {wanted}, but has {}", names.len());
        return Err(Diagnostic::new(Code::BadAttribute, message));
    }
    let mut alphas = node.maybe_floats("activation_alpha")?.unwrap_or_default().into_iter();
    let mut betas = node.maybe_floats("activation_beta")?.unwrap_or_default().into_iter();
    let mut activations = Vec::new();
    for name in &names[..wanted] {
        let function = FUNCTIONS.iter().find(|f| f.name.eq_ignore_ascii_case(name));
        let Some(Function { alpha, beta, make, .. }) = function else {
            let message = format!("unknown activation {}", quoted(name));
            return Err(Diagnostic::new(Code::BadAttribute, message));
        };
        // Each activation takes its parameters from the lists, in order.
        let alpha = alpha.map_or(0.0, |default| alphas.next().unwrap_or(default));
        let beta = beta.map_or(0.0, |default| betas.next().unwrap_or(default));
        activations.push(make(alpha, beta));
    }
    Ok(activations)
}

/// The kernels of a cell: for `float`, and for any floating-point type.
struct Kernels<F: Formula> {
    f32: Kernel<F>,
    float: Kernel<F>,
}

macro_rules! kernels {
    ($f32:ident $float:ident $Operands:ident { $($operands:tt)* }
        $Outputs:ident { $($outputs:tt)* } $scratch:literal) => {
        Kernels {
            f32: kernel!(checked F32_ONLY T, rnn::$f32 {
                operands: rnn::$Operands { $($operands)* },
                outputs: rnn::$Outputs { $($outputs)* },
            }, |f, a, p| f(operands, outputs, a.output($scratch), p)),
            float: kernel!(checked FLOATS T, rnn::$float::<T> {
                operands: rnn::$Operands { $($operands)* },
                outputs: rnn::$Outputs { $($outputs)* },
            }, |f, a, p| f(operands, outputs, a.output::<<T as Float>::Wide>($scratch), p)),
        }
    };
}

macro_rules! rnn_kernels {
    ($f32:ident $float:ident) => {
        kernels!($f32 $float RnnOperands {
            x: input(0), w: input(1), r: input(2), b: optional(3), sequence_lens: optional(4),
            initial_h: optional(5),
        } RnnOutputs { y: optional_output(0), y_h: optional_output(1) } 2)
    };
}

static RNN: Kernels<Rnn> = rnn_kernels!(rnn_f32 rnn);
static GRU: Kernels<Gru> = rnn_kernels!(gru_f32 gru);
macro_rules! lstm_kernels {
    ($f32:ident $float:ident) => {
        kernels!($f32 $float LstmOperands {
            x: input(0), w: input(1), r: input(2), b: optional(3), sequence_lens: optional(4),
            initial_h: optional(5), initial_c: optional(6), p: optional(7),
        } LstmOutputs {
            y: optional_output(0), y_h: optional_output(1), y_c: optional_output(2),
        } 3)
    };
}

static LSTM: Kernels<Lstm> = lstm_kernels!(lstm_f32 lstm);
static LSTM_OF_QUANTIZED_STATES: Kernels<Lstm> =
    lstm_kernels!(lstm_of_quantized_states_f32 lstm_of_quantized_states);

impl Op for Recurrent {
    fn name(&self) -> &'static str {
        if self.quantizes_states { QUANTIZED_LSTM } else { self.cell.name() }
    }

    fn domain(&self) -> Domain {
        if self.quantizes_states { Domain::Internal } else { Domain::Onnx }
    }

    fn attributes(&self, a: &mut Attributes) {
        let named = DIRECTIONS.iter().find(|(_, direction)| *direction == self.direction);
        a.string("direction", named.map_or("forward", |(name, _)| name));
        if let Some(size) = self.hidden_size {
            a.int("hidden_size", size);
        }
        let (mut names, mut alphas, mut betas) = (Vec::new(), Vec::new(), Vec::new());
        for &f in &self.activations {
            let (name, parameters) = parts(f);
            names.push(name);
            let threshold = matches!(f, Activation::ThresholdedRelu { .. });
            for (of, value) in parameters {
                let list = if of == "alpha" { &mut alphas } else { &mut betas };
                list.push(if threshold { value.next_up() } else { value });
            }
        }
        a.strings("activations", &names);
        a.floats("activation_alpha", &alphas);
        a.floats("activation_beta", &betas);
        if let Some(clip) = self.clip {
            a.float("clip", clip);
        }
        a.flag("layout", self.layout);
        match self.cell {
            Cell::Rnn => {}
            Cell::Gru => a.flag("linear_before_reset", self.linear_before_reset),
            Cell::Lstm => a.flag("input_forget", self.input_forget),
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = cx.of(0, FLOATS)?.dtype;
        let (x, r) = (&cx.ranked(0, 3)?.shape, &cx.ranked(2, 3)?.shape);
        let (steps, batch) = self.steps_and_batch(x);
        let (hidden, directions) = (&r[2], Dim::from(direction_count(self.direction)));
        if let Some(size) = self.hidden_size {
            cx.require_equal(hidden, &size.into(), "the size of the state and `hidden_size`")?;
        }
        let rows = hidden * self.cell.gates();
        let state = [&self.ordered(&directions, batch)[..], from_ref(hidden)].concat();
        let wanted: [(usize, Vec<Dim>); 6] = [
            (1, vec![directions.clone(), rows.clone(), x[2].clone()]),
            (2, vec![directions.clone(), rows.clone(), hidden.clone()]),
            (3, vec![directions.clone(), rows * 2]),
            (5, state.clone()),
            (6, state.clone()),
            (7, vec![directions.clone(), hidden * 3]),
        ];
        for (i, shape) in wanted {
            if i > 2 && !cx.has(i) {
                continue;
            }
            cx.same_dtype(0, i)?;
            for (a, b) in cx.ranked(i, shape.len())?.shape.iter().zip(&shape) {
                cx.require_equal(
                    a,
                    b,
                    &format!("a size of input {i} and the size that the network needs"),
                )?;
            }
        }
        if cx.has(4) {
            cx.of(4, &[DType::I32])?;
            let len = &cx.ranked(4, 1)?.shape[0];
            cx.require_equal(len, batch, "the number of lengths and of sequences")?;
        }
        let [outer, inner] = self.ordered(steps, batch);
        let sequence = match self.layout {
            true => vec![outer, inner, directions, hidden.clone()],
            false => vec![outer, directions, inner, hidden.clone()],
        };
        let state = Type::tensor(dtype, state);
        Ok(vec![Type::tensor(dtype, sequence), state.clone(), state])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (x, hidden) = (&cx.ty(0)?.shape, cx.ty(2)?.shape[2].clone());
        if hidden.known().is_none() {
            return Err(cx.unsupported("states whose size is known only when the model runs"));
        }
        let (steps, batch) = self.steps_and_batch(x);
        let weights =
            (&x[2] + &hidden) * &hidden * self.cell.gates() * direction_count(self.direction);
        cx.macs(&(steps * batch * weights));
        let inputs = x[2].clone();
        let striped = batch.known() == Some(1) && weights::are_large(self.cell, &hidden);
        let packed = self.pack_weights(cx, &inputs, &hidden, striped);
        let sequence = Sequence {
            steps: steps.clone(),
            batch: batch.clone(),
            inputs,
            hidden,
            direction: self.direction,
            order: if self.layout { Order::BatchFirst } else { Order::StepsFirst },
            clip: self.clip.unwrap_or(f32::INFINITY),
            weights: match packed {
                Some(_) if striped => GateLayout::Striped,
                Some(_) => GateLayout::Packed,
                None => GateLayout::Plain,
            },
        };
        let f = |way, i| self.activation(way, i);
        match self.cell {
            Cell::Rnn => {
                let geometry = Rnn { sequence, activations: [0, 1].map(|way| f(way, 0)) };
                let function = size_function!(rnn::rnn_scratch);
                let bounded = |most: &dyn Fn(&Dim) -> Dim| geometry.scratch(most);
                let scratch = cx.scratch_len(&geometry, function, bounded);
                call(cx, &RNN, [6, 2], packed, geometry, scratch)
            }
            Cell::Gru => {
                let activations = [0, 1].map(|way| [f(way, 0), f(way, 1)]);
                let linear_before_reset = self.linear_before_reset;
                let geometry = Gru { sequence, activations, linear_before_reset };
                let function = size_function!(rnn::gru_scratch);
                let bounded = |most: &dyn Fn(&Dim) -> Dim| geometry.scratch(most);
                let scratch = cx.scratch_len(&geometry, function, bounded);
                call(cx, &GRU, [6, 2], packed, geometry, scratch)
            }
            Cell::Lstm => {
                let activations = [0, 1].map(|way| [f(way, 0), f(way, 1), f(way, 2)]);
                let input_forget = self.input_forget;
                let geometry = Lstm { sequence, activations, input_forget };
                let function = size_function!(rnn::lstm_scratch);
                let bounded = |most: &dyn Fn(&Dim) -> Dim| geometry.scratch(most);
                let scratch = cx.scratch_len(&geometry, function, bounded);
                let kernels = if self.quantizes_states { &LSTM_OF_QUANTIZED_STATES } else { &LSTM };
                call(cx, kernels, [8, 3], packed, geometry, scratch)
            }
        }
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        self.gradient_of_scans(g)
    }
}

/// Calls the kernel for the element type, with that many inputs and outputs. Packed weights replace
/// inputs 1 and 2.
fn call<F: Formula + Field>(
    cx: &mut Lower<'_>,
    kernels: &'static Kernels<F>,
    [inputs, outputs]: [usize; 2],
    packed: Option<[Operand; 2]>,
    geometry: F,
    scratch: Dim,
) -> Result {
    let dtype = cx.ty(0)?.dtype;
    let mut arguments = Vec::new();
    for i in 0..inputs {
        arguments.push(match (i, &packed) {
            (1 | 2, Some(packed)) => packed[i - 1].clone().into(),
            (0..3, _) => cx.input(i)?.into(),
            _ => cx.optional(i)?.into(),
        });
    }
    let mut results = Vec::new();
    for i in 0..outputs {
        results.push(cx.optional_output(i)?.into());
    }
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    results.push(cx.scratch(wide, scratch).into());
    let kernel = if dtype == DType::F32 { &kernels.f32 } else { &kernels.float };
    cx.call_on(kernel, dtype, arguments, results, geometry)
}
