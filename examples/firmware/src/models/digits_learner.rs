// The model digits_learner, compiled by onnxc 0.1.0.
// ONNX IR version 10; operator sets: ai.onnx 20, ai.onnx.preview.training 1; written by pytorch 2.11.0+cu130.

/// The model `digits_learner`.
///
/// | | name | type |
/// |---|---|---|
/// | input | `image` | `float[1, 1, 8, 8]` |
/// | output | `scores` | `float[1, 10]` |
/// | variable | `7.weight` | `float[32, 32, 3, 3]` |
/// | variable | `7.bias` | `float[32]` |
/// | variable | `11.weight` | `float[10, 32]` |
/// | variable | `11.bias` | `float[10]` |
/// | variable | `step` | `int64` |
/// | variable | `7.weight.momentum` | `float[32, 32, 3, 3]` |
/// | variable | `7.bias.momentum` | `float[32]` |
/// | variable | `11.weight.momentum` | `float[10, 32]` |
/// | variable | `11.bias.momentum` | `float[10]` |
///
/// - Parameters: 14378
/// - Weights: 96384 bytes
/// - Arena: 160576 bytes
/// - Multiply-adds: 451904
#[derive(Clone, Debug)]
pub struct DigitsLearner {
    /// The caller's, or none for the program's: so a new model is nothing but zeros.
    weights: ::core::option::Option<::onnxc_runtime::arena::Weights>,
    arena: ::onnxc_runtime::arena::InlineArena<2509>,
    /// Whether the arena holds the variables.
    begun: bool,
}

#[allow(dead_code, clippy::pedantic, clippy::nursery)]
impl DigitsLearner {
    /// The bytes of memory that one run needs, beside what the caller gives.
    pub const PEAK_ARENA_BYTES: usize = 160576;
    /// The bytes of all weights.
    pub const WEIGHT_BYTES: usize = 96384;
    /// The multiply-adds of one run, where every size is known.
    pub const MACS: u64 = 451904;
    /// What the model learns, in the model's order.
    pub const VARIABLES: &'static [::onnxc_runtime::variable::Variable] = &[
        ::onnxc_runtime::variable::Variable::new::<
            f32,
        >("7.weight", "float", &[32, 32, 3, 3], 0),
        ::onnxc_runtime::variable::Variable::new::<f32>("7.bias", "float", &[32], 36864),
        ::onnxc_runtime::variable::Variable::new::<
            f32,
        >("11.weight", "float", &[10, 32], 36992),
        ::onnxc_runtime::variable::Variable::new::<
            f32,
        >("11.bias", "float", &[10], 38272),
        ::onnxc_runtime::variable::Variable::new::<i64>("step", "int64", &[], 38336),
        ::onnxc_runtime::variable::Variable::new::<
            f32,
        >("7.weight.momentum", "float", &[32, 32, 3, 3], 38400),
        ::onnxc_runtime::variable::Variable::new::<
            f32,
        >("7.bias.momentum", "float", &[32], 75264),
        ::onnxc_runtime::variable::Variable::new::<
            f32,
        >("11.weight.momentum", "float", &[10, 32], 75392),
        ::onnxc_runtime::variable::Variable::new::<
            f32,
        >("11.bias.momentum", "float", &[10], 76672),
    ];

    /// The model with the weights that the program carries.
    pub const fn new() -> DigitsLearner {
        DigitsLearner {
            weights: ::core::option::Option::None,
            arena: ::onnxc_runtime::arena::InlineArena::new(),
            begun: false,
        }
    }

    /// The model with weights that the caller has, in flash or mapped from a file.
    ///
    /// # Errors
    ///
    /// Where they are not as long as the model's, or start at no multiple of 16 bytes.
    pub fn with_weights(
        weights: &'static [u8],
    ) -> ::onnxc_runtime::Result<DigitsLearner> {
        let weights = ::onnxc_runtime::arena::Weights::from_bytes(
            weights,
            DigitsLearner::WEIGHT_BYTES,
        )?;
        Ok(DigitsLearner {
            weights: ::core::option::Option::Some(weights),
            arena: ::onnxc_runtime::arena::InlineArena::new(),
            begun: false,
        })
    }

    /// Runs the model.
    pub fn infer(&mut self, image: &[f32; 64]) -> &[f32; 10] {
        self.begin();
        digits_learner::infer(&self.weights(), self.arena.blocks(), image)
    }

    /// Runs the algorithm `step` once, which changes the variables.
    ///
    /// | | name | type |
    /// |---|---|---|
    /// | input | `image` | `float[1, 1, 8, 8]` |
    /// | input | `label` | `int64[1]` |
    /// | output | `loss` | `float` |
    ///
    /// # Errors
    ///
    /// Where a node refuses what it is given, such as an index outside an axis.
    /// The variables are then as they were.
    pub fn step(
        &mut self,
        image: &[f32; 64],
        label: &[i64; 1],
    ) -> ::onnxc_runtime::Result<f32> {
        self.begin();
        digits_learner_step::step(&self.weights(), self.arena.blocks(), image, label)
    }

    /// Sets the variables to what the initializations make of them, and starts the random
    /// numbers anew, from the seed that was set last.
    pub fn init(&mut self) {
        digits_learner_init::init(&self.weights(), self.arena.blocks());
        self.begun = true;
    }

    /// Sets the variables to what they are in a new model, and starts the random numbers
    /// anew, from the seed that was set last.
    pub fn reset(&mut self) {
        digits_learner_reset::reset(&self.weights(), self.arena.blocks());
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
        self.weights
            .unwrap_or(::onnxc_runtime::arena::Weights::new(digits_learner::WEIGHTS))
    }
}

impl ::core::default::Default for DigitsLearner {
    fn default() -> Self {
        Self::new()
    }
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod digits_learner {
    use ::onnxc_runtime::blocks;
    use ::onnxc_runtime::kernels::{conv, matmul, pool, reduce};
    use ::onnxc_runtime::kernels::epilogue::Activation;
    use ::onnxc_runtime::arena::{Aligned, Block, Slot, borrow};
    use ::onnxc_runtime::kernels::blocked::Channels;
    use ::onnxc_runtime::kernels::conv::{Conv, Weights};
    use ::onnxc_runtime::kernels::matmul::{Gemm, Layout};
    use ::onnxc_runtime::kernels::geometry::Reduction;
    use ::onnxc_runtime::kernels::pool::Pool;

    pub(super) fn infer<'a>(
        weights: &::onnxc_runtime::arena::Weights,
        arena: &'a mut [Block],
        image: &[f32],
    ) -> &'a [f32; 10] {
        // node_relu: BlockedConv -> float[1, 1, 8, 8, 16]
        let (relu, relu_scratch) = borrow(arena, (RELU.write(), RELU_SCRATCH.write()));
        conv::conv_nchw_to_nchwc(
            image,
            weights.get(X0_WEIGHT),
            Some(weights.get(X0_BIAS)),
            None,
            relu,
            relu_scratch,
            NODE_RELU_CONV,
            Activation::Relu,
        );

        // node_relu_1: BlockedConv -> float[1, 2, 8, 8, 16]
        let (relu_1, relu_1_scratch, relu) = borrow(
            arena,
            (RELU_1.write(), RELU_1_SCRATCH.write(), RELU.read()),
        );
        conv::conv_nchwc(
            relu,
            weights.get(X3_WEIGHT),
            Some(weights.get(X3_BIAS)),
            None,
            relu_1,
            relu_1_scratch,
            NODE_RELU_1_CONV,
            Activation::Relu,
        );

        // node_max_pool2d: BlockedPool -> float[1, 2, 4, 4, 16]
        let (max_pool2d, relu_1) = borrow(arena, (MAX_POOL2D.write(), RELU_1.read()));
        pool::max_pool_nchwc(relu_1, max_pool2d, NODE_MAX_POOL2D_POOL);

        // node_relu_2: BlockedConv -> float[1, 2, 4, 4, 16]
        let (relu_2_scratch, x7_weight) = borrow(
            arena,
            (RELU_2_SCRATCH.write(), X7_WEIGHT.read()),
        );
        conv::pack_nchwc(x7_weight, relu_2_scratch, NODE_RELU_2_CONV);

        // node_relu_2: BlockedConv -> float[1, 2, 4, 4, 16]
        let (relu_2, relu_2_scratch_2, max_pool2d, relu_2_scratch, x7_bias) = borrow(
            arena,
            (
                RELU_2.write(),
                RELU_2_SCRATCH_2.write(),
                MAX_POOL2D.read(),
                RELU_2_SCRATCH.read(),
                X7_BIAS.read(),
            ),
        );
        conv::conv_nchwc(
            max_pool2d,
            relu_2_scratch,
            Some(x7_bias),
            None,
            relu_2,
            relu_2_scratch_2,
            NODE_RELU_2_CONV,
            Activation::Relu,
        );

        // node_relu_2: Unblock -> float[1, 32, 4, 4]
        let (relu_2_2, relu_2) = borrow(arena, (RELU_2_2.write(), RELU_2.read()));
        blocks::unblock(relu_2, relu_2_2, NODE_RELU_2_CHANNELS);

        // node_mean: ReduceMean -> float[1, 32, 1, 1]
        let (mean, relu_2_2) = borrow(arena, (MEAN.write(), RELU_2_2.read()));
        reduce::reduce_mean(relu_2_2, mean, NODE_MEAN_REDUCTION);

        // node_linear: Gemm -> float[1, 10]
        let (scores, mean, x11_weight, x11_bias) = borrow(
            arena,
            (SCORES.write(), MEAN.read(), X11_WEIGHT.read(), X11_BIAS.read()),
        );
        matmul::gemm_f32(
            mean,
            x11_weight,
            Some(x11_bias),
            scores,
            &mut [],
            NODE_LINEAR_GEMM,
            Activation::Identity,
        );

        borrow(arena, SCORES.array::<10>())
    }

    const X7_WEIGHT: Slot<f32> = Slot::new(0, 9216);
    const X7_BIAS: Slot<f32> = Slot::new(36864, 32);
    const X11_WEIGHT: Slot<f32> = Slot::new(36992, 320);
    const X11_BIAS: Slot<f32> = Slot::new(38272, 10);
    const X0_WEIGHT: Slot<f32> = Slot::new(0, 144);
    const X0_BIAS: Slot<f32> = Slot::new(576, 16);
    const RELU: Slot<f32> = Slot::new(91328, 1024);
    const RELU_SCRATCH: Slot<f32> = Slot::new(76736, 100);
    const X3_WEIGHT: Slot<f32> = Slot::new(640, 4608);
    const X3_BIAS: Slot<f32> = Slot::new(19072, 32);
    const RELU_1: Slot<f32> = Slot::new(76736, 2048);
    const RELU_1_SCRATCH: Slot<f32> = Slot::new(84928, 1600);
    const MAX_POOL2D: Slot<f32> = Slot::new(118208, 512);
    const RELU_2_SCRATCH: Slot<f32> = Slot::new(76736, 9216);
    const RELU_2: Slot<f32> = Slot::new(120256, 512);
    const RELU_2_SCRATCH_2: Slot<f32> = Slot::new(113600, 1152);
    const RELU_2_2: Slot<f32> = Slot::new(76736, 512);
    const MEAN: Slot<f32> = Slot::new(78784, 32);
    const SCORES: Slot<f32> = Slot::new(76736, 10);

    const NODE_RELU_CONV: Conv = Conv {
        batch: 1,
        groups: 1,
        channels: 1,
        filters: 16,
        size: &[8, 8],
        out: &[8, 8],
        kernel: &[3, 3],
        strides: &[1, 1],
        dilations: &[1, 1],
        pads: &[1, 1],
        weights: Weights::Packed,
    };

    const NODE_RELU_1_CONV: Conv = Conv {
        batch: 1,
        groups: 1,
        channels: 16,
        filters: 32,
        size: &[8, 8],
        out: &[8, 8],
        kernel: &[3, 3],
        strides: &[1, 1],
        dilations: &[1, 1],
        pads: &[1, 1],
        weights: Weights::Packed,
    };

    const NODE_MAX_POOL2D_POOL: Pool = Pool {
        planes: 2,
        size: &[8, 8],
        out: &[4, 4],
        kernel: &[2, 2],
        strides: &[2, 2],
        dilations: &[1, 1],
        pads: &[0, 0],
        ends: &[0, 0],
    };

    const NODE_RELU_2_CONV: Conv = Conv {
        batch: 1,
        groups: 1,
        channels: 32,
        filters: 32,
        size: &[4, 4],
        out: &[4, 4],
        kernel: &[3, 3],
        strides: &[1, 1],
        dilations: &[1, 1],
        pads: &[1, 1],
        weights: Weights::Packed,
    };

    const NODE_RELU_2_CHANNELS: Channels = Channels {
        batch: 1,
        channels: 32,
        pixels: 16,
    };

    const NODE_MEAN_REDUCTION: Reduction = Reduction {
        kept: &[32],
        kept_strides: &[16],
        reduced: &[16],
        reduced_strides: &[1],
    };

    const NODE_LINEAR_GEMM: Gemm = Gemm {
        m: 1,
        n: 10,
        k: 32,
        a: Layout::Strides(32, 1),
        b: Layout::Strides(1, 32),
        c: [0, 1],
        y_row: 10,
        alpha: 1.0,
        beta: 1.0,
    };

    pub(super) static WEIGHTS: &Aligned<[u8; 96384]> = &Aligned(
        *include_bytes!("digits_learner.weights"),
    );

    const _: () = ::onnxc_runtime::view::generated_by("0.1.0");
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod digits_learner_reset {
    use ::onnxc_runtime::kernels::reshape;
    use ::onnxc_runtime::arena::{Block, Slot, borrow};

    pub(super) fn reset(weights: &::onnxc_runtime::arena::Weights, arena: &mut [Block]) {
        // 7.weight: becomes initial 7.weight
        let x7_weight = borrow(arena, X7_WEIGHT.write());
        reshape::identity(weights.get(INITIAL_7_WEIGHT), x7_weight);

        // 7.bias: becomes initial 7.bias
        let x7_bias = borrow(arena, X7_BIAS.write());
        reshape::identity(weights.get(INITIAL_7_BIAS), x7_bias);

        // 11.weight: becomes initial 11.weight
        let x11_weight = borrow(arena, X11_WEIGHT.write());
        reshape::identity(weights.get(INITIAL_11_WEIGHT), x11_weight);

        // 11.bias: becomes initial 11.bias
        let x11_bias = borrow(arena, X11_BIAS.write());
        reshape::identity(weights.get(INITIAL_11_BIAS), x11_bias);

        // step: becomes initial step
        let step = borrow(arena, STEP.write());
        reshape::identity(weights.get(INITIAL_STEP), step);

        // 7.weight.momentum: becomes initial 7.weight.momentum
        let x7_weight_momentum = borrow(arena, X7_WEIGHT_MOMENTUM.write());
        reshape::identity(weights.get(INITIAL_7_WEIGHT_MOMENTUM), x7_weight_momentum);

        // 7.bias.momentum: becomes initial 7.bias.momentum
        let x7_bias_momentum = borrow(arena, X7_BIAS_MOMENTUM.write());
        reshape::identity(weights.get(INITIAL_7_BIAS_MOMENTUM), x7_bias_momentum);

        // 11.weight.momentum: becomes initial 11.weight.momentum
        let x11_weight_momentum = borrow(arena, X11_WEIGHT_MOMENTUM.write());
        reshape::identity(weights.get(INITIAL_11_WEIGHT_MOMENTUM), x11_weight_momentum);

        // 11.bias.momentum: becomes initial 11.bias.momentum
        let x11_bias_momentum = borrow(arena, X11_BIAS_MOMENTUM.write());
        reshape::identity(weights.get(INITIAL_11_BIAS_MOMENTUM), x11_bias_momentum);
    }

    const X7_WEIGHT: Slot<f32> = Slot::new(0, 9216);
    const X7_BIAS: Slot<f32> = Slot::new(36864, 32);
    const X11_WEIGHT: Slot<f32> = Slot::new(36992, 320);
    const X11_BIAS: Slot<f32> = Slot::new(38272, 10);
    const STEP: Slot<i64> = Slot::new(38336, 1);
    const X7_WEIGHT_MOMENTUM: Slot<f32> = Slot::new(38400, 9216);
    const X7_BIAS_MOMENTUM: Slot<f32> = Slot::new(75264, 32);
    const X11_WEIGHT_MOMENTUM: Slot<f32> = Slot::new(75392, 320);
    const X11_BIAS_MOMENTUM: Slot<f32> = Slot::new(76672, 10);
    const INITIAL_7_WEIGHT: Slot<f32> = Slot::new(19200, 9216);
    const INITIAL_7_BIAS: Slot<f32> = Slot::new(56064, 32);
    const INITIAL_11_WEIGHT: Slot<f32> = Slot::new(56192, 320);
    const INITIAL_11_BIAS: Slot<f32> = Slot::new(57472, 10);
    const INITIAL_STEP: Slot<i64> = Slot::new(57536, 1);
    const INITIAL_7_WEIGHT_MOMENTUM: Slot<f32> = Slot::new(57600, 9216);
    const INITIAL_7_BIAS_MOMENTUM: Slot<f32> = Slot::new(94464, 32);
    const INITIAL_11_WEIGHT_MOMENTUM: Slot<f32> = Slot::new(94592, 320);
    const INITIAL_11_BIAS_MOMENTUM: Slot<f32> = Slot::new(95872, 10);
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod digits_learner_init {
    use ::onnxc_runtime::kernels::reshape;
    use ::onnxc_runtime::arena::{Block, Slot, borrow};

    pub(super) fn init(weights: &::onnxc_runtime::arena::Weights, arena: &mut [Block]) {
        // 7.weight: becomes initial 7.weight
        let x7_weight = borrow(arena, X7_WEIGHT.write());
        reshape::identity(weights.get(INITIAL_7_WEIGHT), x7_weight);

        // 7.bias: becomes initial 7.bias
        let x7_bias = borrow(arena, X7_BIAS.write());
        reshape::identity(weights.get(INITIAL_7_BIAS), x7_bias);

        // 11.weight: becomes initial 11.weight
        let x11_weight = borrow(arena, X11_WEIGHT.write());
        reshape::identity(weights.get(INITIAL_11_WEIGHT), x11_weight);

        // 11.bias: becomes initial 11.bias
        let x11_bias = borrow(arena, X11_BIAS.write());
        reshape::identity(weights.get(INITIAL_11_BIAS), x11_bias);

        // step: becomes zeros
        let step = borrow(arena, STEP.write());
        reshape::identity(weights.get(ZEROS), step);

        // 7.weight.momentum: becomes zeros_32_32_3_3
        let x7_weight_momentum = borrow(arena, X7_WEIGHT_MOMENTUM.write());
        reshape::identity(weights.get(ZEROS_32_32_3_3), x7_weight_momentum);

        // 7.bias.momentum: becomes zeros_32
        let x7_bias_momentum = borrow(arena, X7_BIAS_MOMENTUM.write());
        reshape::identity(weights.get(ZEROS_32), x7_bias_momentum);

        // 11.weight.momentum: becomes zeros_10_32
        let x11_weight_momentum = borrow(arena, X11_WEIGHT_MOMENTUM.write());
        reshape::identity(weights.get(ZEROS_10_32), x11_weight_momentum);

        // 11.bias.momentum: becomes zeros_10
        let x11_bias_momentum = borrow(arena, X11_BIAS_MOMENTUM.write());
        reshape::identity(weights.get(ZEROS_10), x11_bias_momentum);
    }

    const X7_WEIGHT: Slot<f32> = Slot::new(0, 9216);
    const X7_BIAS: Slot<f32> = Slot::new(36864, 32);
    const X11_WEIGHT: Slot<f32> = Slot::new(36992, 320);
    const X11_BIAS: Slot<f32> = Slot::new(38272, 10);
    const STEP: Slot<i64> = Slot::new(38336, 1);
    const X7_WEIGHT_MOMENTUM: Slot<f32> = Slot::new(38400, 9216);
    const X7_BIAS_MOMENTUM: Slot<f32> = Slot::new(75264, 32);
    const X11_WEIGHT_MOMENTUM: Slot<f32> = Slot::new(75392, 320);
    const X11_BIAS_MOMENTUM: Slot<f32> = Slot::new(76672, 10);
    const INITIAL_7_WEIGHT: Slot<f32> = Slot::new(19200, 9216);
    const INITIAL_7_BIAS: Slot<f32> = Slot::new(56064, 32);
    const INITIAL_11_WEIGHT: Slot<f32> = Slot::new(56192, 320);
    const INITIAL_11_BIAS: Slot<f32> = Slot::new(57472, 10);
    const ZEROS: Slot<i64> = Slot::new(57536, 1);
    const ZEROS_32_32_3_3: Slot<f32> = Slot::new(57600, 9216);
    const ZEROS_32: Slot<f32> = Slot::new(94464, 32);
    const ZEROS_10_32: Slot<f32> = Slot::new(94592, 320);
    const ZEROS_10: Slot<f32> = Slot::new(95872, 10);
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod digits_learner_step {
    use ::onnxc_runtime::kernels::{binary, compare, conv, expand, gate, matmul, loss, optimizer, pool, reduce, reshape, select, softmax, unary};
    use ::onnxc_runtime::blocks;
    use ::onnxc_runtime::kernels::epilogue::Activation;
    use ::onnxc_runtime::arena::{Block, Slot, borrow};
    use ::onnxc_runtime::kernels::blocked::Channels;
    use ::onnxc_runtime::kernels::conv::{Conv, Weights};
    use ::onnxc_runtime::kernels::matmul::{Gemm, Layout};
    use ::onnxc_runtime::kernels::geometry::{Axis, Broadcast, Broadcast3, Reduction, Shapes};
    use ::onnxc_runtime::kernels::optimizer::Momentum;
    use ::onnxc_runtime::kernels::pool::Pool;

    pub(super) fn step(
        weights: &::onnxc_runtime::arena::Weights,
        arena: &mut [Block],
        image: &[f32],
        label: &[i64],
    ) -> ::onnxc_runtime::Result<f32> {
        // node_relu: BlockedConv -> float[1, 1, 8, 8, 16]
        let (relu, relu_scratch) = borrow(arena, (RELU.write(), RELU_SCRATCH.write()));
        conv::conv_nchw_to_nchwc(
            image,
            weights.get(X0_WEIGHT),
            Some(weights.get(X0_BIAS)),
            None,
            relu,
            relu_scratch,
            NODE_RELU_CONV,
            Activation::Relu,
        );

        // node_relu_1: BlockedConv -> float[1, 2, 8, 8, 16]
        let (relu_1, relu_1_scratch, relu) = borrow(
            arena,
            (RELU_1.write(), RELU_1_SCRATCH.write(), RELU.read()),
        );
        conv::conv_nchwc(
            relu,
            weights.get(X3_WEIGHT),
            Some(weights.get(X3_BIAS)),
            None,
            relu_1,
            relu_1_scratch,
            NODE_RELU_1_CONV,
            Activation::Relu,
        );

        // node_max_pool2d: BlockedPool -> float[1, 2, 4, 4, 16]
        let (max_pool2d, relu_1) = borrow(arena, (MAX_POOL2D.write(), RELU_1.read()));
        pool::max_pool_nchwc(relu_1, max_pool2d, NODE_MAX_POOL2D_POOL);

        // node_relu_2: BlockedConv -> float[1, 2, 4, 4, 16]
        let (relu_2_scratch, x7_weight) = borrow(
            arena,
            (RELU_2_SCRATCH.write(), X7_WEIGHT.read()),
        );
        conv::pack_nchwc(x7_weight, relu_2_scratch, NODE_RELU_2_CONV);

        // node_relu_2: BlockedConv -> float[1, 2, 4, 4, 16]
        let (relu_2, relu_2_scratch_2, max_pool2d, relu_2_scratch, x7_bias) = borrow(
            arena,
            (
                RELU_2.write(),
                RELU_2_SCRATCH_2.write(),
                MAX_POOL2D.read(),
                RELU_2_SCRATCH.read(),
                X7_BIAS.read(),
            ),
        );
        conv::conv_nchwc(
            max_pool2d,
            relu_2_scratch,
            Some(x7_bias),
            None,
            relu_2,
            relu_2_scratch_2,
            NODE_RELU_2_CONV,
            Activation::Relu,
        );

        // node_relu_2: Unblock -> float[1, 32, 4, 4]
        let (relu_2_2, relu_2) = borrow(arena, (RELU_2_2.write(), RELU_2.read()));
        blocks::unblock(relu_2, relu_2_2, NODE_RELU_2_CHANNELS);

        // node_mean: ReduceMean -> float[1, 32, 1, 1]
        let (mean, relu_2_2) = borrow(arena, (MEAN.write(), RELU_2_2.read()));
        reduce::reduce_mean(relu_2_2, mean, NODE_MEAN_REDUCTION);

        // node_linear: Gemm -> float[1, 10]
        let (scores, mean, x11_weight, x11_bias) = borrow(
            arena,
            (SCORES.write(), MEAN.read(), X11_WEIGHT.read(), X11_BIAS.read()),
        );
        matmul::gemm_f32(
            mean,
            x11_weight,
            Some(x11_bias),
            scores,
            &mut [],
            NODE_LINEAR_GEMM,
            Activation::Identity,
        );

        // loss: SoftmaxCrossEntropyLoss -> float
        let (loss, loss_scratch, scores) = borrow(
            arena,
            (LOSS.write(), LOSS_SCRATCH.write(), SCORES.read()),
        );
        loss::softmax_cross_entropy_loss_mean(
            scores,
            label,
            None,
            loss,
            loss_scratch,
            None,
            LOSS_AXIS,
        )?;

        // loss gradient/LogSoftmax: LogSoftmax -> float[1, 10]
        let scores = borrow(arena, SCORES.write());
        softmax::log_softmax_in_place(scores, LOSS_AXIS);

        // loss gradient/Equal: Equal -> bool[1]
        let loss_gradient_equal = borrow(arena, LOSS_GRADIENT_EQUAL.write());
        compare::equal(
            label,
            weights.get(CONSTANT),
            loss_gradient_equal,
            LOSS_GRADIENT_EQUAL_BROADCAST,
        );

        // loss gradient/Where: Where -> int64[1]
        let (loss_gradient_where, loss_gradient_equal) = borrow(
            arena,
            (LOSS_GRADIENT_WHERE.write(), LOSS_GRADIENT_EQUAL.read()),
        );
        compare::where_(
            loss_gradient_equal,
            weights.get(CONSTANT_2),
            label,
            loss_gradient_where,
            LOSS_GRADIENT_WHERE_BROADCAST3,
        );

        // loss gradient/Not: Not -> bool[1]
        let loss_gradient_equal = borrow(arena, LOSS_GRADIENT_EQUAL.write());
        unary::not_in_place(loss_gradient_equal);

        // loss gradient/Where: Where -> float[1]
        let (loss_gradient_where_2, loss_gradient_equal) = borrow(
            arena,
            (LOSS_GRADIENT_WHERE_2.write(), LOSS_GRADIENT_EQUAL.read()),
        );
        compare::where_(
            loss_gradient_equal,
            weights.get(CONSTANT_3),
            weights.get(CONSTANT_4),
            loss_gradient_where_2,
            LOSS_GRADIENT_WHERE_BROADCAST3,
        );

        // loss gradient/OneHot: OneHot -> float[1, 10]
        let (loss_gradient_one_hot, loss_gradient_where) = borrow(
            arena,
            (LOSS_GRADIENT_ONE_HOT.write(), LOSS_GRADIENT_WHERE.read()),
        );
        select::one_hot(
            loss_gradient_where,
            weights.get(LOSS_GRADIENT_CONCAT),
            loss_gradient_one_hot,
            LOSS_AXIS,
        )?;

        // loss gradient/Mul: Mul -> float[1, 10]
        let (loss_gradient_one_hot, loss_gradient_where_2) = borrow(
            arena,
            (LOSS_GRADIENT_ONE_HOT.write(), LOSS_GRADIENT_WHERE_2.read()),
        );
        binary::mul_in_place(
            loss_gradient_one_hot,
            loss_gradient_where_2,
            LOSS_GRADIENT_MUL_BROADCAST,
        );

        // loss gradient/Div: Div -> float
        let (loss_gradient_div, loss_gradient_where_2) = borrow(
            arena,
            (LOSS_GRADIENT_DIV.write(), LOSS_GRADIENT_WHERE_2.read()),
        );
        binary::div(
            weights.get(CONSTANT_3),
            loss_gradient_where_2,
            loss_gradient_div,
            LOSS_GRADIENT_EQUAL_BROADCAST,
        );

        // loss gradient/Neg: Neg -> float[1, 10]
        let loss_gradient_one_hot = borrow(arena, LOSS_GRADIENT_ONE_HOT.write());
        unary::neg_in_place(loss_gradient_one_hot);

        // loss gradient/Mul: Mul -> float[1]
        let (loss_gradient_where_2, loss_gradient_div) = borrow(
            arena,
            (LOSS_GRADIENT_WHERE_2.write(), LOSS_GRADIENT_DIV.read()),
        );
        binary::mul_in_place(
            loss_gradient_where_2,
            loss_gradient_div,
            LOSS_GRADIENT_EQUAL_BROADCAST,
        );

        // loss gradient/Mul: Mul -> float[1, 10]
        let (loss_gradient_one_hot, loss_gradient_where_2) = borrow(
            arena,
            (LOSS_GRADIENT_ONE_HOT.write(), LOSS_GRADIENT_WHERE_2.read()),
        );
        binary::mul_in_place(
            loss_gradient_one_hot,
            loss_gradient_where_2,
            LOSS_GRADIENT_MUL_BROADCAST,
        );

        // loss gradient/Exp: Exp -> float[1, 10]
        let scores = borrow(arena, SCORES.write());
        unary::exp_in_place(scores);

        // loss gradient/ReduceSum: ReduceSum -> float[1, 1]
        let (loss_gradient_reduce_sum, loss_gradient_one_hot) = borrow(
            arena,
            (LOSS_GRADIENT_REDUCE_SUM.write(), LOSS_GRADIENT_ONE_HOT.read()),
        );
        reduce::reduce_sum(
            loss_gradient_one_hot,
            loss_gradient_reduce_sum,
            LOSS_GRADIENT_REDUCE_SUM_REDUCTION,
        );

        // loss gradient/Mul: Mul -> float[1, 10]
        let (scores, loss_gradient_reduce_sum) = borrow(
            arena,
            (SCORES.write(), LOSS_GRADIENT_REDUCE_SUM.read()),
        );
        binary::mul_in_place(
            scores,
            loss_gradient_reduce_sum,
            LOSS_GRADIENT_MUL_BROADCAST,
        );

        // loss gradient/Sub: Sub -> float[1, 10]
        let (loss_gradient_one_hot, scores) = borrow(
            arena,
            (LOSS_GRADIENT_ONE_HOT.write(), SCORES.read()),
        );
        binary::sub_in_place(loss_gradient_one_hot, scores, LOSS_GRADIENT_SUB_BROADCAST);

        // node_linear gradient/Gemm: Gemm -> float[1, 32]
        let (node_linear_gradient_gemm, loss_gradient_one_hot, x11_weight) = borrow(
            arena,
            (
                NODE_LINEAR_GRADIENT_GEMM.write(),
                LOSS_GRADIENT_ONE_HOT.read(),
                X11_WEIGHT.read(),
            ),
        );
        matmul::gemm_f32(
            loss_gradient_one_hot,
            x11_weight,
            None,
            node_linear_gradient_gemm,
            &mut [],
            NODE_LINEAR_GRADIENT_GEMM_GEMM,
            Activation::Identity,
        );

        // node_linear gradient/Gemm: Gemm -> float[10, 32]
        let (
            x11_weight_gradient,
            x11_weight_gradient_scratch,
            loss_gradient_one_hot,
            mean,
        ) = borrow(
            arena,
            (
                X11_WEIGHT_GRADIENT.write(),
                X11_WEIGHT_GRADIENT_SCRATCH.write(),
                LOSS_GRADIENT_ONE_HOT.read(),
                MEAN.read(),
            ),
        );
        matmul::gemm_f32(
            loss_gradient_one_hot,
            mean,
            None,
            x11_weight_gradient,
            x11_weight_gradient_scratch,
            NODE_LINEAR_GRADIENT_GEMM_GEMM_2,
            Activation::Identity,
        );

        // node_mean gradient/Mul: Mul -> float[1, 32, 1, 1]
        let node_linear_gradient_gemm = borrow(arena, NODE_LINEAR_GRADIENT_GEMM.write());
        binary::mul_in_place(
            node_linear_gradient_gemm,
            weights.get(CONSTANT_5),
            NODE_MEAN_GRADIENT_MUL_BROADCAST,
        );

        // node_relu_2 gradient/Where: Expand -> float[1, 2, 4, 4, 16]
        let (node_relu_2_gradient_where, node_linear_gradient_gemm) = borrow(
            arena,
            (NODE_RELU_2_GRADIENT_WHERE.write(), NODE_LINEAR_GRADIENT_GEMM.read()),
        );
        expand::expand(
            node_linear_gradient_gemm,
            node_relu_2_gradient_where,
            NODE_RELU_2_GRADIENT_WHERE_SHAPES,
        );

        // node_relu_2 gradient/Where: Gate -> float[1, 2, 4, 4, 16]
        let (node_relu_2_gradient_where, relu_2) = borrow(
            arena,
            (NODE_RELU_2_GRADIENT_WHERE.write(), RELU_2.read()),
        );
        gate::gate_in_place(node_relu_2_gradient_where, relu_2);

        // node_conv2d_2 gradient/ConvWeightGrad: BlockedConvWeightGrad -> float[32, 32, 3, 3]
        let (
            x7_weight_gradient,
            x7_weight_gradient_scratch,
            max_pool2d,
            node_relu_2_gradient_where,
        ) = borrow(
            arena,
            (
                X7_WEIGHT_GRADIENT.write(),
                X7_WEIGHT_GRADIENT_SCRATCH.write(),
                MAX_POOL2D.read(),
                NODE_RELU_2_GRADIENT_WHERE.read(),
            ),
        );
        conv::conv_weight_grad_nchwc(
            max_pool2d,
            node_relu_2_gradient_where,
            x7_weight_gradient,
            x7_weight_gradient_scratch,
            NODE_CONV2D_2_GRADIENT_CORRELATE_CONV,
        );

        // node_conv2d_2 gradient/ReduceSum: ReduceSum -> float[1, 2, 1, 1, 16]
        let (node_conv2d_2_gradient_reduce_sum, node_relu_2_gradient_where) = borrow(
            arena,
            (
                NODE_CONV2D_2_GRADIENT_REDUCE_SUM.write(),
                NODE_RELU_2_GRADIENT_WHERE.read(),
            ),
        );
        reduce::reduce_sum(
            node_relu_2_gradient_where,
            node_conv2d_2_gradient_reduce_sum,
            NODE_CONV2D_2_GRADIENT_REDUCE_SUM_REDUCTION,
        );

        // step.next: Add -> int64
        let (step_next, step) = borrow(arena, (STEP_NEXT.write(), STEP.read()));
        binary::add(step, weights.get(ONE), step_next, LOSS_GRADIENT_EQUAL_BROADCAST);

        // 7.weight: Momentum -> float[32, 32, 3, 3], float[32, 32, 3, 3]
        let (x7_weight, x7_weight_momentum, x7_weight_gradient, step) = borrow(
            arena,
            (
                X7_WEIGHT.write(),
                X7_WEIGHT_MOMENTUM.write(),
                X7_WEIGHT_GRADIENT.read(),
                STEP.read(),
            ),
        );
        optimizer::momentum_in_place(
            x7_weight,
            x7_weight_momentum,
            x7_weight_gradient,
            weights.get(LEARNING_RATE_CAST),
            step,
            X7_WEIGHT_MOMENTUM_2,
        );

        // 7.bias: Momentum -> float[32], float[32]
        let (x7_bias, x7_bias_momentum, node_conv2d_2_gradient_reduce_sum, step) = borrow(
            arena,
            (
                X7_BIAS.write(),
                X7_BIAS_MOMENTUM.write(),
                NODE_CONV2D_2_GRADIENT_REDUCE_SUM.read(),
                STEP.read(),
            ),
        );
        optimizer::momentum_in_place(
            x7_bias,
            x7_bias_momentum,
            node_conv2d_2_gradient_reduce_sum,
            weights.get(LEARNING_RATE_CAST),
            step,
            X7_WEIGHT_MOMENTUM_2,
        );

        // 11.weight: Momentum -> float[10, 32], float[10, 32]
        let (x11_weight, x11_weight_momentum, x11_weight_gradient, step) = borrow(
            arena,
            (
                X11_WEIGHT.write(),
                X11_WEIGHT_MOMENTUM.write(),
                X11_WEIGHT_GRADIENT.read(),
                STEP.read(),
            ),
        );
        optimizer::momentum_in_place(
            x11_weight,
            x11_weight_momentum,
            x11_weight_gradient,
            weights.get(LEARNING_RATE_CAST),
            step,
            X7_WEIGHT_MOMENTUM_2,
        );

        // 11.bias: Momentum -> float[10], float[10]
        let (x11_bias, x11_bias_momentum, loss_gradient_one_hot, step) = borrow(
            arena,
            (
                X11_BIAS.write(),
                X11_BIAS_MOMENTUM.write(),
                LOSS_GRADIENT_ONE_HOT.read(),
                STEP.read(),
            ),
        );
        optimizer::momentum_in_place(
            x11_bias,
            x11_bias_momentum,
            loss_gradient_one_hot,
            weights.get(LEARNING_RATE_CAST),
            step,
            X7_WEIGHT_MOMENTUM_2,
        );

        // step: becomes step.next
        let (step, step_next) = borrow(arena, (STEP.write(), STEP_NEXT.read()));
        reshape::identity(step_next, step);

        let loss = borrow(arena, LOSS.read());
        Ok(loss[0])
    }

    const X7_WEIGHT: Slot<f32> = Slot::new(0, 9216);
    const X7_BIAS: Slot<f32> = Slot::new(36864, 32);
    const X11_WEIGHT: Slot<f32> = Slot::new(36992, 320);
    const X11_BIAS: Slot<f32> = Slot::new(38272, 10);
    const STEP: Slot<i64> = Slot::new(38336, 1);
    const X7_WEIGHT_MOMENTUM: Slot<f32> = Slot::new(38400, 9216);
    const X7_BIAS_MOMENTUM: Slot<f32> = Slot::new(75264, 32);
    const X11_WEIGHT_MOMENTUM: Slot<f32> = Slot::new(75392, 320);
    const X11_BIAS_MOMENTUM: Slot<f32> = Slot::new(76672, 10);
    const X0_WEIGHT: Slot<f32> = Slot::new(0, 144);
    const X0_BIAS: Slot<f32> = Slot::new(576, 16);
    const RELU: Slot<f32> = Slot::new(91328, 1024);
    const RELU_SCRATCH: Slot<f32> = Slot::new(76736, 100);
    const X3_WEIGHT: Slot<f32> = Slot::new(640, 4608);
    const X3_BIAS: Slot<f32> = Slot::new(19072, 32);
    const RELU_1: Slot<f32> = Slot::new(76736, 2048);
    const RELU_1_SCRATCH: Slot<f32> = Slot::new(84928, 1600);
    const MAX_POOL2D: Slot<f32> = Slot::new(155072, 512);
    const RELU_2_SCRATCH: Slot<f32> = Slot::new(76736, 9216);
    const RELU_2: Slot<f32> = Slot::new(118208, 512);
    const RELU_2_SCRATCH_2: Slot<f32> = Slot::new(113600, 1152);
    const RELU_2_2: Slot<f32> = Slot::new(120256, 512);
    const MEAN: Slot<f32> = Slot::new(157440, 32);
    const SCORES: Slot<f32> = Slot::new(157120, 10);
    const LOSS_SCRATCH: Slot<f32> = Slot::new(157184, 10);
    const LOSS: Slot<f32> = Slot::new(160448, 1);
    const CONSTANT: Slot<i64> = Slot::new(95936, 1);
    const LOSS_GRADIENT_EQUAL: Slot<bool> = Slot::new(157184, 1);
    const CONSTANT_2: Slot<i64> = Slot::new(57536, 1);
    const LOSS_GRADIENT_WHERE: Slot<i64> = Slot::new(157248, 1);
    const CONSTANT_3: Slot<f32> = Slot::new(96000, 1);
    const CONSTANT_4: Slot<f32> = Slot::new(96064, 1);
    const LOSS_GRADIENT_WHERE_2: Slot<f32> = Slot::new(157312, 1);
    const LOSS_GRADIENT_CONCAT: Slot<f32> = Slot::new(96128, 2);
    const LOSS_GRADIENT_ONE_HOT: Slot<f32> = Slot::new(160512, 10);
    const LOSS_GRADIENT_DIV: Slot<f32> = Slot::new(157376, 1);
    const LOSS_GRADIENT_REDUCE_SUM: Slot<f32> = Slot::new(157184, 1);
    const NODE_LINEAR_GRADIENT_GEMM: Slot<f32> = Slot::new(120256, 32);
    const X11_WEIGHT_GRADIENT: Slot<f32> = Slot::new(159168, 320);
    const X11_WEIGHT_GRADIENT_SCRATCH: Slot<f32> = Slot::new(157120, 76);
    const CONSTANT_5: Slot<f32> = Slot::new(96192, 1);
    const NODE_RELU_2_GRADIENT_WHERE: Slot<f32> = Slot::new(157120, 512);
    const X7_WEIGHT_GRADIENT: Slot<f32> = Slot::new(118208, 9216);
    const X7_WEIGHT_GRADIENT_SCRATCH: Slot<f32> = Slot::new(76736, 10368);
    const NODE_CONV2D_2_GRADIENT_REDUCE_SUM: Slot<f32> = Slot::new(155072, 32);
    const ONE: Slot<i64> = Slot::new(96256, 1);
    const STEP_NEXT: Slot<i64> = Slot::new(155200, 1);
    const LEARNING_RATE_CAST: Slot<f64> = Slot::new(96320, 1);

    const NODE_RELU_CONV: Conv = Conv {
        batch: 1,
        groups: 1,
        channels: 1,
        filters: 16,
        size: &[8, 8],
        out: &[8, 8],
        kernel: &[3, 3],
        strides: &[1, 1],
        dilations: &[1, 1],
        pads: &[1, 1],
        weights: Weights::Packed,
    };

    const NODE_RELU_1_CONV: Conv = Conv {
        batch: 1,
        groups: 1,
        channels: 16,
        filters: 32,
        size: &[8, 8],
        out: &[8, 8],
        kernel: &[3, 3],
        strides: &[1, 1],
        dilations: &[1, 1],
        pads: &[1, 1],
        weights: Weights::Packed,
    };

    const NODE_MAX_POOL2D_POOL: Pool = Pool {
        planes: 2,
        size: &[8, 8],
        out: &[4, 4],
        kernel: &[2, 2],
        strides: &[2, 2],
        dilations: &[1, 1],
        pads: &[0, 0],
        ends: &[0, 0],
    };

    const NODE_RELU_2_CONV: Conv = Conv {
        batch: 1,
        groups: 1,
        channels: 32,
        filters: 32,
        size: &[4, 4],
        out: &[4, 4],
        kernel: &[3, 3],
        strides: &[1, 1],
        dilations: &[1, 1],
        pads: &[1, 1],
        weights: Weights::Packed,
    };

    const NODE_RELU_2_CHANNELS: Channels = Channels {
        batch: 1,
        channels: 32,
        pixels: 16,
    };

    const NODE_MEAN_REDUCTION: Reduction = Reduction {
        kept: &[32],
        kept_strides: &[16],
        reduced: &[16],
        reduced_strides: &[1],
    };

    const NODE_LINEAR_GEMM: Gemm = Gemm {
        m: 1,
        n: 10,
        k: 32,
        a: Layout::Strides(32, 1),
        b: Layout::Strides(1, 32),
        c: [0, 1],
        y_row: 10,
        alpha: 1.0,
        beta: 1.0,
    };

    const LOSS_AXIS: Axis = Axis {
        outer: 1,
        len: 10,
        inner: 1,
    };

    const LOSS_GRADIENT_EQUAL_BROADCAST: Broadcast = Broadcast {
        sizes: &[],
        a: &[],
        b: &[],
    };

    const LOSS_GRADIENT_WHERE_BROADCAST3: Broadcast3 = Broadcast3 {
        sizes: &[],
        a: &[],
        b: &[],
        c: &[],
    };

    const LOSS_GRADIENT_MUL_BROADCAST: Broadcast = Broadcast {
        sizes: &[10],
        a: &[1],
        b: &[0],
    };

    const LOSS_GRADIENT_REDUCE_SUM_REDUCTION: Reduction = Reduction {
        kept: &[],
        kept_strides: &[],
        reduced: &[10],
        reduced_strides: &[1],
    };

    const LOSS_GRADIENT_SUB_BROADCAST: Broadcast = Broadcast {
        sizes: &[10],
        a: &[1],
        b: &[1],
    };

    const NODE_LINEAR_GRADIENT_GEMM_GEMM: Gemm = Gemm {
        m: 1,
        n: 32,
        k: 10,
        a: Layout::Strides(10, 1),
        b: Layout::Strides(32, 1),
        c: [0, 0],
        y_row: 32,
        alpha: 1.0,
        beta: 1.0,
    };

    const NODE_LINEAR_GRADIENT_GEMM_GEMM_2: Gemm = Gemm {
        m: 10,
        n: 32,
        k: 1,
        a: Layout::Strides(1, 10),
        b: Layout::Strides(32, 1),
        c: [0, 0],
        y_row: 32,
        alpha: 1.0,
        beta: 1.0,
    };

    const NODE_MEAN_GRADIENT_MUL_BROADCAST: Broadcast = Broadcast {
        sizes: &[32],
        a: &[1],
        b: &[0],
    };

    const NODE_RELU_2_GRADIENT_WHERE_SHAPES: Shapes = Shapes {
        from: &[2, 1, 16],
        to: &[2, 16, 16],
    };

    const NODE_CONV2D_2_GRADIENT_CORRELATE_CONV: Conv = Conv {
        batch: 1,
        groups: 1,
        channels: 32,
        filters: 32,
        size: &[4, 4],
        out: &[4, 4],
        kernel: &[3, 3],
        strides: &[1, 1],
        dilations: &[1, 1],
        pads: &[1, 1],
        weights: Weights::Plain,
    };

    const NODE_CONV2D_2_GRADIENT_REDUCE_SUM_REDUCTION: Reduction = Reduction {
        kept: &[2, 16],
        kept_strides: &[256, 1],
        reduced: &[16],
        reduced_strides: &[16],
    };

    const X7_WEIGHT_MOMENTUM_2: Momentum = Momentum {
        alpha: 0.9,
        beta: 1.0,
        norm_coefficient: 0.0,
    };
}
