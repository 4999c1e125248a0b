//! The geometry of matrix products, convolutions, pooling and recurrent networks.

use crate::{
    dim::Dim,
    plan::{
        Field, Formula, SizeFunction, SizeText, Symbols,
        formula::{choices, formulas},
    },
};
use onnxc_runtime::kernels::{
    blocked, blockwise, conv, epilogue::Activation, matmul, pool, rnn, weight_precision,
};

formulas! {
    /// A matrix product.
    "kernels::matmul::Gemm" Gemm: matmul::Gemm {
        m: Dim,
        n: Dim,
        k: Dim,
        a: Layout,
        b: Layout,
        c: [Dim; 2],
        y_row: Dim,
        alpha: f32,
        beta: f32,
    }

    /// A batch of matrix products.
    "kernels::matmul::MatMul" MatMul: matmul::MatMul<'a> {
        sizes: Vec<Dim>,
        a: Vec<Dim>,
        b: Vec<Dim>,
        c: Vec<Dim>,
        matrix: Gemm,
    }

    /// A convolution.
    "kernels::conv::Conv" Conv: conv::Conv<'a> {
        batch: Dim,
        groups: usize,
        channels: Dim,
        filters: Dim,
        size: Vec<Dim>,
        out: Vec<Dim>,
        kernel: Vec<Dim>,
        strides: Vec<usize>,
        dilations: Vec<usize>,
        pads: Vec<Dim>,
        weights: conv::WeightLayout,
    }

    /// The position of the channels in packed weights.
    "kernels::weight_precision::Panels" Panels: weight_precision::Panels {
        lanes: usize,
        rows: Dim,
        depth: Dim,
    }

    /// A product with block-quantized weights.
    "kernels::blockwise::Blockwise" Blockwise: blockwise::Blockwise {
        m: Dim,
        n: usize,
        k: usize,
        block: usize,
    }

    /// Block-quantized weights in ONNX Runtime's layout.
    "kernels::blockwise::BlockCodes" BlockCodes: blockwise::BlockCodes {
        k: usize,
        block: usize,
        bits: usize,
    }

    /// NCHWc channels.
    "kernels::blocked::Channels" Channels: blocked::Channels {
        batch: Dim,
        channels: Dim,
        pixels: Dim,
    }

    /// A transposed convolution.
    "kernels::conv::ConvTranspose" ConvTranspose: conv::ConvTranspose<'a> {
        batch: Dim,
        groups: usize,
        channels: Dim,
        filters: Dim,
        size: Vec<Dim>,
        out: Vec<Dim>,
        kernel: Vec<Dim>,
        strides: Vec<usize>,
        dilations: Vec<usize>,
        pads: Vec<Dim>,
        weights: conv::WeightLayout,
    }

    /// A convolution that chooses its algorithm when it runs.
    "kernels::conv::ConvBySize" ConvBySize: conv::ConvBySize<'a> {
        conv: Conv,
        reading: conv::Reading,
    }

    /// A causal convolution.
    "kernels::conv::CausalConv" CausalConv: conv::CausalConv {
        batch: Dim,
        channels: Dim,
        len: Dim,
        kernel: Dim,
    }

    /// Pooling windows.
    "kernels::pool::Pool" Pool: pool::Pool<'a> {
        planes: Dim,
        size: Vec<Dim>,
        out: Vec<Dim>,
        kernel: Vec<Dim>,
        strides: Vec<usize>,
        dilations: Vec<usize>,
        pads: Vec<Dim>,
        ends: Vec<Dim>,
    }

    /// A batch of integer matrix products.
    "kernels::matmul::IntegerMatMul" IntegerMatMul: matmul::IntegerMatMul<'a> {
        sizes: Vec<Dim>,
        a: Vec<Dim>,
        a_scale: Vec<Dim>,
        b: Vec<Dim>,
        b_scale: Vec<Dim>,
        m: Dim,
        n: Dim,
        k: Dim,
        a_step: Dim,
        b_step: Dim,
    }

    /// The properties that all recurrent networks share.
    "kernels::rnn::Sequence" Sequence: rnn::Sequence {
        steps: Dim,
        batch: Dim,
        inputs: Dim,
        hidden: Dim,
        direction: rnn::Direction,
        order: rnn::Order,
        clip: f32,
        weights: rnn::GateLayout,
    }

    /// A simple recurrent network.
    "kernels::rnn::Rnn" Rnn: rnn::Rnn {
        sequence: Sequence,
        activations: [Activation; 2],
    }

    /// Gated recurrent units.
    "kernels::rnn::Gru" Gru: rnn::Gru {
        sequence: Sequence,
        activations: [[Activation; 2]; 2],
        linear_before_reset: bool,
    }

    /// Long short-term memory.
    "kernels::rnn::Lstm" Lstm: rnn::Lstm {
        sequence: Sequence,
        activations: [[Activation; 3]; 2],
        input_forget: bool,
    }
}

choices! {
    conv::Reading: "kernels::conv::Reading" as "Reading";
    conv::WeightLayout: "kernels::conv::WeightLayout" as "WeightLayout";
    rnn::Direction: "kernels::rnn::Direction" as "Direction";
    rnn::Order: "kernels::rnn::Order" as "Order";
    rnn::GateLayout: "kernels::rnn::GateLayout" as "GateLayout";
}

/// The memory layout of an operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Layout {
    /// Row stride and column stride, in elements.
    Strides(Dim, Dim),
    /// Packed panels.
    Packed,
}

impl Field for Layout {
    type Number = matmul::Layout;
    type Given<'a> = matmul::Layout;

    fn source(&self, sizes: &SizeText<'_>) -> String {
        match self {
            Layout::Strides(row, col) => {
                format!("Layout::Strides({}, {})", row.source(sizes), col.source(sizes))
            }
            Layout::Packed => "Layout::Packed".into(),
        }
    }

    fn uses(&self, paths: &mut Vec<&'static str>) {
        paths.push("kernels::matmul::Layout");
    }

    fn visit(&self, see: &mut dyn FnMut(&Dim)) {
        if let Layout::Strides(row, col) = self {
            see(row);
            see(col);
        }
    }

    fn number(&self, symbols: &Symbols<'_>) -> matmul::Layout {
        match self {
            Layout::Strides(row, col) => {
                matmul::Layout::Strides(row.number(symbols), col.number(symbols))
            }
            Layout::Packed => matmul::Layout::Packed,
        }
    }

    fn give(number: &matmul::Layout) -> matmul::Layout {
        *number
    }
}

/// Evaluates a function of the kernel's geometry at the greatest sizes.
pub(super) fn largest<F: Formula>(geometry: &F, of: impl Fn(F::Numbers<'_>) -> usize) -> Dim {
    let mut found = 0;
    geometry.with(&|_| 0, &mut |numbers| found = of(numbers));
    found.into()
}

impl Gemm {
    /// Returns the elements of scratch memory with which the product is fastest; `most` bounds the
    /// sizes.
    pub fn scratch(&self, most: &dyn Fn(&Dim) -> Dim) -> Dim {
        largest(&self.at_most(most), |geometry| matmul::gemm_scratch(&geometry))
    }

    /// [`scratch`](Self::scratch) for a right operand of reduced precision.
    pub fn narrow_scratch(&self, most: &dyn Fn(&Dim) -> Dim) -> Dim {
        largest(&self.at_most(most), |geometry| weight_precision::gemm_scratch(&geometry))
    }

    fn at_most(&self, most: &dyn Fn(&Dim) -> Dim) -> Gemm {
        Gemm { m: most(&self.m), n: most(&self.n), k: most(&self.k), ..self.clone() }
    }
}

impl Blockwise {
    /// Returns the elements of scratch memory that the product needs; `most` bounds the sizes.
    pub fn scratch(&self, most: &dyn Fn(&Dim) -> Dim) -> Dim {
        let most = Blockwise { m: most(&self.m), ..self.clone() };
        largest(&most, |geometry| blockwise::blockwise_scratch(&geometry))
    }

    /// [`scratch`](Self::scratch) for a left operand that is quantized to 8 bits.
    pub fn int8_scratch(&self, most: &dyn Fn(&Dim) -> Dim) -> Dim {
        let most = Blockwise { m: most(&self.m), ..self.clone() };
        largest(&most, |geometry| blockwise::blockwise_int8_scratch(&geometry))
    }
}

impl MatMul {
    /// Returns the elements of scratch memory with which the products are fastest; `most` bounds
    /// the sizes.
    pub fn scratch(&self, most: &dyn Fn(&Dim) -> Dim) -> Dim {
        let stack = MatMul {
            sizes: self.sizes.iter().map(most).collect(),
            matrix: self.matrix.at_most(most),
            ..self.clone()
        };
        largest(&stack, |geometry| matmul::matmul_scratch(&geometry))
    }

    /// Returns the batch as one product, if it has one entry, or if all entries share the right
    /// operand and the rows of the left operands and biases are contiguous.
    pub fn as_one(&self) -> Option<Gemm> {
        let Gemm { m, a: Layout::Strides(row, _), c: [addend_row, _], .. } = &self.matrix else {
            return None;
        };
        match (&*self.sizes, &*self.a, &*self.b, &*self.c) {
            ([], ..) => Some(self.matrix.clone()),
            ([size], [a], [b], [c]) => {
                let follow = b.known() == Some(0) && *a == m * row && *c == m * addend_row;
                follow.then(|| Gemm { m: size * m, ..self.matrix.clone() })
            }
            _ => None,
        }
    }
}

/// Implements the scratch memory of convolutions.
macro_rules! conv_scratch {
    ($Conv:ident) => {
        impl $Conv {
            /// Returns the elements of scratch memory of a kernel; `most` bounds the sizes.
            pub fn scratch_of(
                &self,
                most: &dyn Fn(&Dim) -> Dim,
                function: SizeFunction<$Conv>,
            ) -> Dim {
                let all = |sizes: &[Dim]| sizes.iter().map(most).collect();
                let (channels, filters) = (most(&self.channels), most(&self.filters));
                let (size, out, pads) = (all(&self.size), all(&self.out), all(&self.pads));
                let conv = $Conv { channels, filters, size, out, pads, ..self.clone() };
                largest(&conv, function.run)
            }
        }
    };
}

conv_scratch!(Conv);
conv_scratch!(ConvTranspose);

/// Input rows that a recurrent network multiplies together, plus at most one batch.
const ROWS: i64 = 96;

/// Implements the scratch memory of recurrent networks.
macro_rules! rnn_scratch {
    ($($Network:ident $gates:literal $of:path;)*) => {$(
        impl $Network {
            /// Returns the elements of scratch memory with which the network is fastest. The size
            /// of the state is known; `most` bounds the other sizes.
            pub fn scratch(&self, most: &dyn Fn(&Dim) -> Dim) -> Dim {
                let own = &self.sequence;
                let (steps, batch) = (most(&own.steps), most(&own.batch));
                let inputs = most(&own.inputs);
                let sequence = Sequence { steps, inputs, batch: batch.clone(), ..own.clone() };
                let largest = largest(&$Network { sequence, ..self.clone() }, |g| $of(&g));
                if own.batch.known().is_some() {
                    return largest;
                }
                // Each sequence has three states, and twice the accumulators of its gates; the rest
                // is bounded as the batch grows.
                let width = &own.hidden * $gates;
                let each = &own.hidden * 3 + &width * 2;
                largest - &each * batch + &each * &own.batch + width * ROWS
            }
        }
    )*};
}

rnn_scratch! {
    Rnn 1 rnn::rnn_scratch;
    Gru 3 rnn::gru_scratch;
    Lstm 4 rnn::lstm_scratch;
}
