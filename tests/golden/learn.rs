// The model learn, compiled by onnxc 0.1.0.
// ONNX IR version 8; operator sets: ai.onnx 17, ai.onnx.preview.training 1.

/// The model `learn`.
///
/// | | name | type |
/// |---|---|---|
/// | input | `x` | `float[4, 2]` |
/// | output | `y` | `float[4, 1]` |
/// | variable | `w` | `float[2, 1]` |
/// | variable | `b` | `float[1]` |
/// | variable | `slow` | `float[2, 1]` |
/// | variable | `iteration` | `int64` |
///
/// - Parameters: 3
/// - Weights: 512 bytes
/// - Arena: 1088 bytes
/// - Multiply-adds: 8
#[derive(Clone, Debug)]
pub struct Learn {
    /// The caller's, or none for the program's: so a new model is nothing but zeros.
    weights: ::core::option::Option<::onnxc_runtime::arena::Weights>,
    arena: ::onnxc_runtime::arena::InlineArena<17>,
    init_draws: ::onnxc_runtime::random::Draws<1>,
    /// Whether the arena holds the variables.
    begun: bool,
}

#[allow(dead_code, clippy::pedantic, clippy::nursery)]
impl Learn {
    /// The bytes of memory that one run needs, beside what the caller gives.
    pub const PEAK_ARENA_BYTES: usize = 1088;
    /// The bytes of all weights.
    pub const WEIGHT_BYTES: usize = 512;
    /// The multiply-adds of one run, where every size is known.
    pub const MACS: u64 = 8;
    /// What the model learns, in the model's order.
    pub const VARIABLES: &'static [::onnxc_runtime::variable::Variable] = &[
        ::onnxc_runtime::variable::Variable::new::<f32>("w", "float", &[2, 1], 0),
        ::onnxc_runtime::variable::Variable::new::<f32>("b", "float", &[1], 64),
        ::onnxc_runtime::variable::Variable::new::<f32>("slow", "float", &[2, 1], 128),
        ::onnxc_runtime::variable::Variable::new::<i64>("iteration", "int64", &[], 192),
    ];

    /// The model with the weights that the program carries.
    pub const fn new() -> Learn {
        Learn {
            weights: ::core::option::Option::None,
            arena: ::onnxc_runtime::arena::InlineArena::new(),
            init_draws: ::onnxc_runtime::random::Draws::new(0),
            begun: false,
        }
    }

    /// The model with weights that the caller has, in flash or mapped from a file.
    ///
    /// # Errors
    ///
    /// Where they are not as long as the model's, or start at no multiple of 16 bytes.
    pub fn with_weights(weights: &'static [u8]) -> ::onnxc_runtime::Result<Learn> {
        let weights = ::onnxc_runtime::arena::Weights::from_bytes(
            weights,
            Learn::WEIGHT_BYTES,
        )?;
        Ok(Learn {
            weights: ::core::option::Option::Some(weights),
            arena: ::onnxc_runtime::arena::InlineArena::new(),
            init_draws: ::onnxc_runtime::random::Draws::new(0),
            begun: false,
        })
    }

    /// Starts the random numbers anew, from this seed; a new model has the seed 0. The
    /// same seed gives the same numbers in the same order of runs, on every machine.
    /// A node with a seed of its own keeps it, and starts anew from that.
    pub fn set_seed(&mut self, seed: u64) {
        self.init_draws = ::onnxc_runtime::random::Draws::new(seed);
    }

    /// Runs the model.
    pub fn infer(&mut self, x: &[f32; 8]) -> &[f32; 4] {
        self.begin();
        learn::infer(&self.weights(), self.arena.blocks(), x)
    }

    /// Runs the algorithm `fit` once, which changes the variables.
    ///
    /// | | name | type |
    /// |---|---|---|
    /// | input | `x` | `float[4, 2]` |
    /// | input | `target` | `float[4, 1]` |
    /// | output | `loss` | `float` |
    pub fn fit(&mut self, x: &[f32; 8], target: &[f32; 4]) -> f32 {
        self.begin();
        learn_fit::fit(&self.weights(), self.arena.blocks(), x, target)
    }

    /// Runs the algorithm `average` once, which changes the variables.
    ///
    /// | | name | type |
    /// |---|---|---|
    /// | input | `x` | `float[4, 2]` |
    pub fn average(&mut self, x: &[f32; 8]) {
        self.begin();
        learn_average::average(&self.weights(), self.arena.blocks(), x)
    }

    /// Sets the variables to what the initializations make of them, and starts the random
    /// numbers anew, from the seed that was set last.
    pub fn init(&mut self) {
        self.init_draws.restart();
        learn_init::init(&self.weights(), self.arena.blocks(), &mut self.init_draws);
        self.begun = true;
    }

    /// Sets the variables to what they are in a new model, and starts the random numbers
    /// anew, from the seed that was set last.
    pub fn reset(&mut self) {
        self.init_draws.restart();
        learn_reset::reset(&self.weights(), self.arena.blocks());
        self.begun = true;
    }

    /// The elements of the variable of that name, as bytes; nothing where there is none.
    pub fn state(&mut self, name: &str) -> ::core::option::Option<&[u8]> {
        self.begin();
        ::onnxc_runtime::variable::bytes(Self::VARIABLES, name, self.arena.blocks())
    }

    /// Sets the variable of that name to the elements that these bytes are.
    ///
    /// # Errors
    ///
    /// Where there is none, or the bytes are no elements of its type, or not as many.
    pub fn load_state(&mut self, name: &str, bytes: &[u8]) -> ::onnxc_runtime::Result {
        self.begin();
        ::onnxc_runtime::variable::load(
            Self::VARIABLES,
            name,
            self.arena.blocks(),
            bytes,
        )
    }

    /// All variables, to be read and set by name, or as a file: feature `safetensors` of the
    /// runtime library.
    pub fn variables(&mut self) -> ::onnxc_runtime::variable::Variables<'_> {
        self.begin();
        ::onnxc_runtime::variable::Variables::new(Self::VARIABLES, self.arena.blocks())
    }

    /// Puts the variables into the arena, where they are not there yet.
    fn begin(&mut self) {
        if !self.begun {
            self.reset();
        }
    }

    /// The weights.
    fn weights(&self) -> ::onnxc_runtime::arena::Weights {
        self.weights.unwrap_or(::onnxc_runtime::arena::Weights::new(learn::WEIGHTS))
    }
}

impl ::core::default::Default for Learn {
    fn default() -> Self {
        Self::new()
    }
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod learn {
    use ::onnxc_runtime::gemm;
    use ::onnxc_runtime::activation_fn::Activation;
    use ::onnxc_runtime::arena::{Aligned, Block, Slot, borrow};
    use ::onnxc_runtime::gemm::{Gemm, Layout};

    pub(super) fn infer<'a>(
        weights: &::onnxc_runtime::arena::Weights,
        arena: &'a mut [Block],
        x: &[f32],
    ) -> &'a [f32; 4] {
        // y: MatMul -> float[4, 1]
        let (y, y_scratch, w, b) = borrow(
            arena,
            (Y.write(), Y_SCRATCH.write(), W.read(), B.read()),
        );
        gemm::gemm_f32(x, w, Some(b), y, y_scratch, Y_GEMM, Activation::Identity);

        borrow(arena, Y.array::<4>())
    }

    const W: Slot<f32> = Slot::new(0, 2);
    const B: Slot<f32> = Slot::new(64, 1);
    const Y: Slot<f32> = Slot::new(640, 4);
    const Y_SCRATCH: Slot<f32> = Slot::new(256, 88);

    const Y_GEMM: Gemm = Gemm {
        m: 4,
        n: 1,
        k: 2,
        a: Layout::Strides(2, 1),
        b: Layout::Strides(1, 1),
        c: [0, 1],
        y_row: 1,
        alpha: 1.0,
        beta: 1.0,
    };

    pub(super) static WEIGHTS: &Aligned<[u8; 512]> = &Aligned(
        *include_bytes!("learn.weights"),
    );

    const _: () = ::onnxc_runtime::view::generated_by("0.1.0");
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod learn_reset {
    use ::onnxc_runtime::reshape;
    use ::onnxc_runtime::arena::{Block, Slot, borrow};

    pub(super) fn reset(weights: &::onnxc_runtime::arena::Weights, arena: &mut [Block]) {
        // w: becomes initial w
        let w = borrow(arena, W.write());
        reshape::identity(weights.get(INITIAL_W), w);

        // b: becomes initial b
        let b = borrow(arena, B.write());
        reshape::identity(weights.get(INITIAL_B), b);

        // slow: becomes initial slow
        let slow = borrow(arena, SLOW.write());
        reshape::identity(weights.get(INITIAL_SLOW), slow);

        // iteration: becomes initial iteration
        let iteration = borrow(arena, ITERATION.write());
        reshape::identity(weights.get(INITIAL_ITERATION), iteration);
    }

    const W: Slot<f32> = Slot::new(0, 2);
    const B: Slot<f32> = Slot::new(64, 1);
    const SLOW: Slot<f32> = Slot::new(128, 2);
    const ITERATION: Slot<i64> = Slot::new(192, 1);
    const INITIAL_W: Slot<f32> = Slot::new(0, 2);
    const INITIAL_B: Slot<f32> = Slot::new(64, 1);
    const INITIAL_SLOW: Slot<f32> = Slot::new(128, 2);
    const INITIAL_ITERATION: Slot<i64> = Slot::new(192, 1);
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod learn_init {
    use ::onnxc_runtime::{random, reshape};
    use ::onnxc_runtime::arena::{Block, Slot, borrow};
    use ::onnxc_runtime::random::Draws;

    pub(super) fn init(
        weights: &::onnxc_runtime::arena::Weights,
        arena: &mut [Block],
        draws: &mut Draws<1>,
    ) {
        // w0: RandomNormal -> float[2, 1]
        let w = borrow(arena, W.write());
        random::random_normal(w, 0.0, 0.1, draws.named(0, 0x08cb8607b56d7952));

        // b: becomes initial b
        let b = borrow(arena, B.write());
        reshape::identity(weights.get(INITIAL_B), b);

        // slow: becomes initial slow
        let slow = borrow(arena, SLOW.write());
        reshape::identity(weights.get(INITIAL_SLOW), slow);

        // iteration: becomes initial iteration
        let iteration = borrow(arena, ITERATION.write());
        reshape::identity(weights.get(INITIAL_ITERATION), iteration);
    }

    const W: Slot<f32> = Slot::new(0, 2);
    const B: Slot<f32> = Slot::new(64, 1);
    const SLOW: Slot<f32> = Slot::new(128, 2);
    const ITERATION: Slot<i64> = Slot::new(192, 1);
    const INITIAL_B: Slot<f32> = Slot::new(64, 1);
    const INITIAL_SLOW: Slot<f32> = Slot::new(128, 2);
    const INITIAL_ITERATION: Slot<i64> = Slot::new(192, 1);
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod learn_fit {
    use ::onnxc_runtime::{binary, gemm, reduce};
    use ::onnxc_runtime::activation_fn::Activation;
    use ::onnxc_runtime::arena::{Block, Slot, borrow};
    use ::onnxc_runtime::gemm::{Gemm, Layout};
    use ::onnxc_runtime::geometry::{Broadcast, Reduction};

    pub(super) fn fit(
        weights: &::onnxc_runtime::arena::Weights,
        arena: &mut [Block],
        x: &[f32],
        target: &[f32],
    ) -> f32 {
        // y: MatMul -> float[4, 1]
        let (y, y_scratch, w, b) = borrow(
            arena,
            (Y.write(), Y_SCRATCH.write(), W.read(), B.read()),
        );
        gemm::gemm_f32(x, w, Some(b), y, y_scratch, Y_GEMM, Activation::Identity);

        // error: Sub -> float[4, 1]
        let y = borrow(arena, Y.write());
        binary::sub_in_place(y, target, ERROR_BROADCAST);

        // square: Mul -> float[4, 1]
        let (square, y) = borrow(arena, (SQUARE.write(), Y.read()));
        binary::mul(y, y, square, ERROR_BROADCAST);

        // loss: ReduceMean -> float
        let (loss, square) = borrow(arena, (LOSS.write(), SQUARE.read()));
        reduce::reduce_mean(square, loss, LOSS_REDUCTION);

        // square gradient/Mul: Mul -> float[4, 1]
        let (square_gradient_mul, y) = borrow(
            arena,
            (SQUARE_GRADIENT_MUL.write(), Y.read()),
        );
        binary::mul(
            weights.get(CONSTANT),
            y,
            square_gradient_mul,
            SQUARE_GRADIENT_MUL_BROADCAST,
        );

        // square gradient/Add: Add -> float[4, 1]
        let (square_gradient_add, square_gradient_mul) = borrow(
            arena,
            (SQUARE_GRADIENT_ADD.write(), SQUARE_GRADIENT_MUL.read()),
        );
        binary::add(
            square_gradient_mul,
            square_gradient_mul,
            square_gradient_add,
            ERROR_BROADCAST,
        );

        // y gradient/ReduceSum: ReduceSum -> float[1, 1]
        let (y_gradient_reduce_sum, square_gradient_add) = borrow(
            arena,
            (Y_GRADIENT_REDUCE_SUM.write(), SQUARE_GRADIENT_ADD.read()),
        );
        reduce::reduce_sum(square_gradient_add, y_gradient_reduce_sum, LOSS_REDUCTION);

        // xw gradient/Gemm: Gemm -> float[2, 1]
        let (dw, dw_scratch, square_gradient_add) = borrow(
            arena,
            (DW.write(), DW_SCRATCH.write(), SQUARE_GRADIENT_ADD.read()),
        );
        gemm::gemm_f32(
            x,
            square_gradient_add,
            None,
            dw,
            dw_scratch,
            XW_GRADIENT_GEMM_GEMM,
            Activation::Identity,
        );

        // w_part: Mul -> float[2, 1]
        let (w_part, dw) = borrow(arena, (W_PART.write(), DW.read()));
        binary::mul(weights.get(RATE), dw, w_part, W_PART_BROADCAST);

        // w1: Sub -> float[2, 1]
        let (w, w_part) = borrow(arena, (W.write(), W_PART.read()));
        binary::sub_in_place(w, w_part, W1_BROADCAST);

        // b_part: Mul -> float[1]
        let (b_part, y_gradient_reduce_sum) = borrow(
            arena,
            (B_PART.write(), Y_GRADIENT_REDUCE_SUM.read()),
        );
        binary::mul(weights.get(RATE), y_gradient_reduce_sum, b_part, B_PART_BROADCAST);

        // b1: Sub -> float[1]
        let (b, b_part) = borrow(arena, (B.write(), B_PART.read()));
        binary::sub_in_place(b, b_part, B_PART_BROADCAST);

        // iteration1: Add -> int64
        let iteration = borrow(arena, ITERATION.write());
        binary::add_in_place(iteration, weights.get(ONE), B_PART_BROADCAST);

        let loss = borrow(arena, LOSS.read());
        loss[0]
    }

    const W: Slot<f32> = Slot::new(0, 2);
    const B: Slot<f32> = Slot::new(64, 1);
    const ITERATION: Slot<i64> = Slot::new(192, 1);
    const Y: Slot<f32> = Slot::new(640, 4);
    const Y_SCRATCH: Slot<f32> = Slot::new(256, 88);
    const SQUARE: Slot<f32> = Slot::new(256, 4);
    const LOSS: Slot<f32> = Slot::new(832, 1);
    const CONSTANT: Slot<f32> = Slot::new(256, 1);
    const SQUARE_GRADIENT_MUL: Slot<f32> = Slot::new(704, 4);
    const SQUARE_GRADIENT_ADD: Slot<f32> = Slot::new(896, 4);
    const Y_GRADIENT_REDUCE_SUM: Slot<f32> = Slot::new(960, 1);
    const DW: Slot<f32> = Slot::new(1024, 2);
    const DW_SCRATCH: Slot<f32> = Slot::new(256, 144);
    const RATE: Slot<f32> = Slot::new(320, 1);
    const W_PART: Slot<f32> = Slot::new(896, 2);
    const B_PART: Slot<f32> = Slot::new(896, 1);
    const ONE: Slot<i64> = Slot::new(384, 1);

    const Y_GEMM: Gemm = Gemm {
        m: 4,
        n: 1,
        k: 2,
        a: Layout::Strides(2, 1),
        b: Layout::Strides(1, 1),
        c: [0, 1],
        y_row: 1,
        alpha: 1.0,
        beta: 1.0,
    };

    const ERROR_BROADCAST: Broadcast = Broadcast {
        sizes: &[4],
        a: &[1],
        b: &[1],
    };

    const LOSS_REDUCTION: Reduction = Reduction {
        kept: &[],
        kept_strides: &[],
        reduced: &[4],
        reduced_strides: &[1],
    };

    const SQUARE_GRADIENT_MUL_BROADCAST: Broadcast = Broadcast {
        sizes: &[4],
        a: &[0],
        b: &[1],
    };

    const XW_GRADIENT_GEMM_GEMM: Gemm = Gemm {
        m: 2,
        n: 1,
        k: 4,
        a: Layout::Strides(1, 2),
        b: Layout::Strides(1, 1),
        c: [0, 0],
        y_row: 1,
        alpha: 1.0,
        beta: 1.0,
    };

    const W_PART_BROADCAST: Broadcast = Broadcast {
        sizes: &[2],
        a: &[0],
        b: &[1],
    };

    const W1_BROADCAST: Broadcast = Broadcast {
        sizes: &[2],
        a: &[1],
        b: &[1],
    };

    const B_PART_BROADCAST: Broadcast = Broadcast {
        sizes: &[],
        a: &[],
        b: &[],
    };
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod learn_average {
    use ::onnxc_runtime::binary;
    use ::onnxc_runtime::arena::{Block, Slot, borrow};
    use ::onnxc_runtime::geometry::Broadcast;

    pub(super) fn average(
        weights: &::onnxc_runtime::arena::Weights,
        arena: &mut [Block],
        x: &[f32],
    ) {
        // new_part: Sub -> float[2, 1]
        let (new_part, w, slow) = borrow(
            arena,
            (NEW_PART.write(), W.read(), SLOW.read()),
        );
        binary::sub(w, slow, new_part, NEW_PART_BROADCAST);

        // part: Mul -> float[2, 1]
        let (part, new_part) = borrow(arena, (PART.write(), NEW_PART.read()));
        binary::mul(weights.get(RATE), new_part, part, PART_BROADCAST);

        // slow1: Add -> float[2, 1]
        let (slow, part) = borrow(arena, (SLOW.write(), PART.read()));
        binary::add_in_place(slow, part, NEW_PART_BROADCAST);
    }

    const W: Slot<f32> = Slot::new(0, 2);
    const SLOW: Slot<f32> = Slot::new(128, 2);
    const NEW_PART: Slot<f32> = Slot::new(256, 2);
    const RATE: Slot<f32> = Slot::new(448, 1);
    const PART: Slot<f32> = Slot::new(320, 2);

    const NEW_PART_BROADCAST: Broadcast = Broadcast {
        sizes: &[2],
        a: &[1],
        b: &[1],
    };

    const PART_BROADCAST: Broadcast = Broadcast {
        sizes: &[2],
        a: &[0],
        b: &[1],
    };
}
