//! Recurrent networks and their cells.

use onnxc_runtime::kernels::{epilogue::Activation, rnn::Direction};

/// The cell of a recurrent network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    /// The state is the activation of one sum.
    Rnn,
    /// Gated recurrent unit.
    Gru,
    /// Long short-term memory.
    Lstm,
}

/// A recurrent network with any cell.
#[derive(Clone)]
pub(super) struct Recurrent {
    pub cell: Cell,
    pub direction: Direction,
    pub hidden_size: Option<i64>,
    /// The activations of each direction, one direction after the other.
    pub activations: Vec<Activation>,
    pub clip: Option<f32>,
    /// Whether the batch is the first axis.
    pub layout: bool,
    pub linear_before_reset: bool,
    pub input_forget: bool,
    /// Whether the states of an LSTM are quantized to 8 bits for their product with the weights, as
    /// in `DynamicQuantizeLSTM` of ONNX Runtime.
    pub quantizes_states: bool,
}

impl Cell {
    pub fn name(self) -> &'static str {
        match self {
            Cell::Rnn => "RNN",
            Cell::Gru => "GRU",
            Cell::Lstm => "LSTM",
        }
    }

    pub fn gates(self) -> i64 {
        match self {
            Cell::Rnn => 1,
            Cell::Gru => 3,
            Cell::Lstm => 4,
        }
    }

    /// Returns the default activations of one direction.
    pub fn defaults(self) -> &'static [&'static str] {
        match self {
            Cell::Rnn => &["Tanh"],
            Cell::Gru => &["Sigmoid", "Tanh"],
            Cell::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        }
    }
}
