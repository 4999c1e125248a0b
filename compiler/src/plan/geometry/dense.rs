//! The geometries of products, convolutions, pools and recurrent networks.

use crate::{
    dim::Dim,
    plan::{
        Field, Formula, Symbols,
        formula::{choices, formulas},
    },
};
use onnxc_runtime::kernels::{
    blocked, conv, epilogue::Activation, matmul, pool, rnn, weight_precision,
};

formulas! {
    /// A product of matrices.
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

    /// A stack of products.
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
        weights: conv::Weights,
    }

    /// Where the channels of packed weights are.
    "kernels::weight_precision::Panels" Panels: weight_precision::Panels {
        lanes: usize,
        rows: Dim,
        depth: Dim,
    }

    /// Channels in blocks.
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
        weights: conv::Weights,
    }

    /// Signals of some channels.
    "kernels::conv::CausalConv" CausalConv: conv::CausalConv {
        batch: Dim,
        channels: Dim,
        len: Dim,
        kernel: Dim,
    }

    /// Windows over images.
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

    /// A stack of products of matrices of bytes.
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

    /// What all recurrent networks are told.
    "kernels::rnn::Sequence" Sequence: rnn::Sequence {
        steps: Dim,
        batch: Dim,
        inputs: Dim,
        hidden: Dim,
        direction: rnn::Direction,
        order: rnn::Order,
        clip: f32,
        weights: rnn::Weights,
    }

    /// A network whose state is one function of a sum.
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
    conv::Weights: "kernels::conv::Weights" as "Weights";
    rnn::Direction: "kernels::rnn::Direction" as "Direction";
    rnn::Order: "kernels::rnn::Order" as "Order";
    // Named by its room, since convolutions have such an enum, too.
    rnn::Weights: "kernels::rnn" as "rnn::Weights";
}

/// Where the elements of a factor are.
#[derive(Clone, Debug, PartialEq)]
pub enum Layout {
    /// One row starts as far from the next, and one column.
    Strides(Dim, Dim),
    /// In panels.
    Packed,
}

impl Field for Layout {
    type Number = matmul::Layout;
    type Given<'a> = matmul::Layout;

    fn source(&self) -> String {
        match self {
            Layout::Strides(row, col) => {
                format!("Layout::Strides({}, {})", row.source(), col.source())
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

/// What a kernel says of a geometry that it is never given a larger one of.
pub(super) fn largest<F: Formula>(geometry: &F, of: impl Fn(F::Numbers<'_>) -> usize) -> Dim {
    let mut found = 0;
    geometry.with(&|_| 0, &mut |numbers| found = of(numbers));
    found.into()
}

impl Gemm {
    /// How many elements of scratch memory the product wants, where no size is larger than `most`
    /// says.
    pub fn scratch(&self, most: &dyn Fn(&Dim) -> Dim) -> Dim {
        largest(&self.at_most(most), |geometry| matmul::gemm_scratch(&geometry))
    }

    /// The same, where the right factor has fewer bits.
    pub fn narrow_scratch(&self, most: &dyn Fn(&Dim) -> Dim) -> Dim {
        largest(&self.at_most(most), |geometry| weight_precision::gemm_scratch(&geometry))
    }

    fn at_most(&self, most: &dyn Fn(&Dim) -> Dim) -> Gemm {
        Gemm { m: most(&self.m), n: most(&self.n), k: most(&self.k), ..self.clone() }
    }
}

impl MatMul {
    /// How many elements of scratch memory the products want, where no size is larger than `most`
    /// says.
    pub fn scratch(&self, most: &dyn Fn(&Dim) -> Dim) -> Dim {
        let stack = MatMul {
            sizes: self.sizes.iter().map(most).collect(),
            matrix: self.matrix.at_most(most),
            ..self.clone()
        };
        largest(&stack, |geometry| matmul::matmul_scratch(&geometry))
    }

    /// The one product that the stack is where it is no stack, or where all have the same right
    /// factor, and the rows of the left ones and of the addends follow each other.
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

/// The scratch memory of a convolution.
macro_rules! conv_scratch {
    ($Conv:ident $of:path) => {
        impl $Conv {
            /// How many elements of scratch memory it wants, where no size is larger than `most`
            /// says. It makes do with what it has for larger images, but not for larger kernels.
            pub fn scratch(&self, most: &dyn Fn(&Dim) -> Dim) -> Dim {
                self.scratch_of(most, $of)
            }

            /// The same, for a kernel that wants as many elements as `of` says.
            pub fn scratch_of(
                &self,
                most: &dyn Fn(&Dim) -> Dim,
                of: fn(&<Self as Formula>::Numbers<'_>) -> usize,
            ) -> Dim {
                let all = |sizes: &[Dim]| sizes.iter().map(most).collect();
                let (channels, filters) = (most(&self.channels), most(&self.filters));
                let (size, out, pads) = (all(&self.size), all(&self.out), all(&self.pads));
                let conv = $Conv { channels, filters, size, out, pads, ..self.clone() };
                largest(&conv, |geometry| of(&geometry))
            }
        }
    };
}

conv_scratch!(Conv conv::conv_scratch);
conv_scratch!(ConvTranspose conv::conv_transpose_scratch);

/// How many rows of inputs a recurrent network multiplies at once, at most one batch more.
const ROWS: i64 = 96;

/// The scratch memory of a recurrent network.
macro_rules! rnn_scratch {
    ($($Network:ident $gates:literal $of:path;)*) => {$(
        impl $Network {
            /// How many elements of scratch memory it wants, where the size of the state is known
            /// and no other size is larger than `most` says.
            pub fn scratch(&self, most: &dyn Fn(&Dim) -> Dim) -> Dim {
                let own = &self.sequence;
                let (steps, batch) = (most(&own.steps), most(&own.batch));
                let inputs = most(&own.inputs);
                let sequence = Sequence { steps, inputs, batch: batch.clone(), ..own.clone() };
                let largest = largest(&$Network { sequence, ..self.clone() }, |g| $of(&g));
                if own.batch.known().is_some() {
                    return largest;
                }
                // Each sequence has three states, and its gates' sums twice; what else there is
                // does not grow with the batch without end.
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
