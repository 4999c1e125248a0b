// The model digits, compiled by onnxc 0.1.0.
// ONNX IR version 10; operator sets: ai.onnx 20; written by pytorch 2.11.0+cu130.

/// The model `digits`.
///
/// | | name | type |
/// |---|---|---|
/// | input | `image` | `float[1, 1, 8, 8]` |
/// | output | `scores` | `float[1, 10]` |
///
/// - Parameters: 14378
/// - Weights: 58304 bytes
/// - Arena: 18688 bytes
/// - Multiply-adds: 451904
#[derive(Clone, Debug)]
pub struct Digits {
    /// The caller's, or none for the program's: so a new model is nothing but zeros.
    weights: ::core::option::Option<::onnxc_runtime::arena::Weights>,
    arena: ::onnxc_runtime::arena::InlineArena<292>,
}

#[allow(dead_code, clippy::pedantic, clippy::nursery)]
impl Digits {
    /// The bytes of memory that one run needs, beside what the caller gives.
    pub const PEAK_ARENA_BYTES: usize = 18688;
    /// The bytes of all weights.
    pub const WEIGHT_BYTES: usize = 58304;
    /// The multiply-adds of one run, where every size is known.
    pub const MACS: u64 = 451904;

    /// The model with the weights that the program carries.
    pub const fn new() -> Digits {
        Digits {
            weights: ::core::option::Option::None,
            arena: ::onnxc_runtime::arena::InlineArena::new(),
        }
    }

    /// The model with weights that the caller has, in flash or mapped from a file.
    ///
    /// # Errors
    ///
    /// Where they are not as long as the model's, or start at no multiple of 16 bytes.
    pub fn with_weights(weights: &'static [u8]) -> ::onnxc_runtime::Result<Digits> {
        let weights = ::onnxc_runtime::arena::Weights::from_bytes(
            weights,
            Digits::WEIGHT_BYTES,
        )?;
        Ok(Digits {
            weights: ::core::option::Option::Some(weights),
            arena: ::onnxc_runtime::arena::InlineArena::new(),
        })
    }

    /// Runs the model.
    pub fn infer(&mut self, image: &[f32; 64]) -> &[f32; 10] {
        digits::infer(&self.weights(), self.arena.blocks(), image)
    }

    /// The weights.
    fn weights(&self) -> ::onnxc_runtime::arena::Weights {
        self.weights.unwrap_or(::onnxc_runtime::arena::Weights::new(digits::WEIGHTS))
    }
}

impl ::core::default::Default for Digits {
    fn default() -> Self {
        Self::new()
    }
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod digits {
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
        let (relu_2, relu_2_scratch, max_pool2d) = borrow(
            arena,
            (RELU_2.write(), RELU_2_SCRATCH.write(), MAX_POOL2D.read()),
        );
        conv::conv_nchwc(
            max_pool2d,
            weights.get(X7_WEIGHT),
            Some(weights.get(X7_BIAS)),
            None,
            relu_2,
            relu_2_scratch,
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
        let (scores, mean) = borrow(arena, (SCORES.write(), MEAN.read()));
        matmul::gemm_f32(
            mean,
            weights.get(X11_WEIGHT),
            Some(weights.get(X11_BIAS)),
            scores,
            &mut [],
            NODE_LINEAR_GEMM,
            Activation::Identity,
        );

        borrow(arena, SCORES.array::<10>())
    }

    const X0_WEIGHT: Slot<f32> = Slot::new(0, 144);
    const X0_BIAS: Slot<f32> = Slot::new(576, 16);
    const RELU: Slot<f32> = Slot::new(14592, 1024);
    const RELU_SCRATCH: Slot<f32> = Slot::new(0, 100);
    const X3_WEIGHT: Slot<f32> = Slot::new(640, 4608);
    const X3_BIAS: Slot<f32> = Slot::new(19072, 32);
    const RELU_1: Slot<f32> = Slot::new(0, 2048);
    const RELU_1_SCRATCH: Slot<f32> = Slot::new(8192, 1600);
    const MAX_POOL2D: Slot<f32> = Slot::new(8192, 512);
    const X7_WEIGHT: Slot<f32> = Slot::new(19200, 9216);
    const X7_BIAS: Slot<f32> = Slot::new(56064, 32);
    const RELU_2: Slot<f32> = Slot::new(4608, 512);
    const RELU_2_SCRATCH: Slot<f32> = Slot::new(0, 1152);
    const RELU_2_2: Slot<f32> = Slot::new(0, 512);
    const MEAN: Slot<f32> = Slot::new(2048, 32);
    const X11_WEIGHT: Slot<f32> = Slot::new(56192, 512);
    const X11_BIAS: Slot<f32> = Slot::new(58240, 10);
    const SCORES: Slot<f32> = Slot::new(0, 10);

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
        b: Layout::Packed,
        c: [0, 1],
        y_row: 10,
        alpha: 1.0,
        beta: 1.0,
    };

    pub(super) static WEIGHTS: &Aligned<[u8; 58304]> = &Aligned(
        *include_bytes!("digits.weights"),
    );

    const _: () = ::onnxc_runtime::view::generated_by("0.1.0");
}
