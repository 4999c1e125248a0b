// The model digits_int8, compiled by onnxc 0.1.0.
// ONNX IR version 10; operator sets: ai.onnx 20; written by onnx.quantize 0.1.0.

/// The model `digits_int8`.
///
/// | | name | type |
/// |---|---|---|
/// | input | `image` | `float[1, 1, 8, 8]` |
/// | output | `scores` | `float[1, 10]` |
///
/// - Parameters: 14474
/// - Weights: 16576 bytes
/// - Arena: 6144 bytes
/// - Multiply-adds: 451904
/// - onnx.infer: onnxruntime.quant
#[derive(Clone, Debug)]
pub struct DigitsInt8 {
    /// The caller's, or none for the program's: so a new model is nothing but zeros.
    weights: ::core::option::Option<::onnxc_runtime::arena::Weights>,
}

#[allow(dead_code, clippy::pedantic, clippy::nursery)]
impl DigitsInt8 {
    /// The bytes of memory that one run needs, beside what the caller gives.
    pub const PEAK_ARENA_BYTES: usize = 6144;
    /// The bytes of all weights.
    pub const WEIGHT_BYTES: usize = 16576;
    /// The multiply-adds of one run, where every size is known.
    pub const MACS: u64 = 451904;

    /// The model with the weights that the program carries.
    pub const fn new() -> DigitsInt8 {
        DigitsInt8 {
            weights: ::core::option::Option::None,
        }
    }

    /// The model with weights that the caller has, in flash or mapped from a file.
    ///
    /// # Errors
    ///
    /// Where they are not as long as the model's, or start at no multiple of 16 bytes.
    pub fn with_weights(weights: &'static [u8]) -> ::onnxc_runtime::Result<DigitsInt8> {
        let weights = ::onnxc_runtime::arena::Weights::from_bytes(
            weights,
            DigitsInt8::WEIGHT_BYTES,
        )?;
        Ok(DigitsInt8 {
            weights: ::core::option::Option::Some(weights),
        })
    }

    /// Runs the model in an arena of at least `PEAK_ARENA_BYTES`.
    pub fn infer_in<'a, const BLOCKS: usize>(
        &mut self,
        arena: &'a mut ::onnxc_runtime::arena::InlineArena<BLOCKS>,
        image: &[f32; 64],
    ) -> &'a [f32; 10] {
        digits_int8::infer(&self.weights(), arena.first::<96>(), image)
    }

    /// The weights.
    fn weights(&self) -> ::onnxc_runtime::arena::Weights {
        self.weights
            .unwrap_or(::onnxc_runtime::arena::Weights::new(digits_int8::WEIGHTS))
    }
}

impl ::core::default::Default for DigitsInt8 {
    fn default() -> Self {
        Self::new()
    }
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod digits_int8 {
    use ::onnxc_runtime::kernels::{nhwc, quantize, quantized, reduce};
    use ::onnxc_runtime::arena::{Aligned, Block, Slot, borrow};
    use ::onnxc_runtime::kernels::blocked::Channels;
    use ::onnxc_runtime::kernels::conv::{Conv, Weights};
    use ::onnxc_runtime::kernels::geometry::Reduction;
    use ::onnxc_runtime::kernels::pool::Pool;
    use ::onnxc_runtime::kernels::quantize::Scales;
    use ::onnxc_runtime::kernels::quantized::{Product, Requantize};

    pub(super) fn infer<'a>(
        weights: &::onnxc_runtime::arena::Weights,
        arena: &'a mut [Block],
        image: &[f32],
    ) -> &'a [f32; 10] {
        // image_QuantizeLinear: QuantizeLinear -> int8[1, 1, 8, 8]
        let image_quantize_linear_output = borrow(
            arena,
            IMAGE_QUANTIZE_LINEAR_OUTPUT.write(),
        );
        quantize::quantize_linear(
            image,
            weights.get(IMAGE_SCALE),
            Some(weights.get(IMAGE_ZERO_POINT)),
            image_quantize_linear_output,
            IMAGE_QUANTIZE_LINEAR_SCALES,
        );

        // relu_QuantizeLinear: ToNhwc -> uint8[1, 8, 8, 1]
        let (relu_quantize_linear_output, image_quantize_linear_output) = borrow(
            arena,
            (RELU_QUANTIZE_LINEAR_OUTPUT.write(), IMAGE_QUANTIZE_LINEAR_OUTPUT.read()),
        );
        nhwc::from_channels_first(
            image_quantize_linear_output,
            relu_quantize_linear_output,
            RELU_QUANTIZE_LINEAR_CHANNELS,
        );

        // relu_QuantizeLinear: NhwcConv -> uint8[1, 8, 8, 16]
        let (
            relu_quantize_linear_output_2,
            relu_quantize_linear_output_scratch,
            relu_quantize_linear_output_scratch_2,
            relu_quantize_linear_output,
        ) = borrow(
            arena,
            (
                RELU_QUANTIZE_LINEAR_OUTPUT_2.write(),
                RELU_QUANTIZE_LINEAR_OUTPUT_SCRATCH.write(),
                RELU_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2.write(),
                RELU_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        nhwc::conv(
            relu_quantize_linear_output,
            weights.get(RELU_QUANTIZE_LINEAR_WEIGHTS),
            weights.get(RELU_QUANTIZE_LINEAR_STARTS),
            weights.get(RELU_QUANTIZE_LINEAR_FACTORS),
            None,
            relu_quantize_linear_output_2,
            relu_quantize_linear_output_scratch,
            relu_quantize_linear_output_scratch_2,
            RELU_QUANTIZE_LINEAR_CONV,
            RELU_QUANTIZE_LINEAR_REQUANTIZE,
        );

        // relu_1_QuantizeLinear: NhwcConv -> uint8[1, 8, 8, 32]
        let (
            relu_1_quantize_linear_output,
            relu_1_quantize_linear_output_scratch,
            relu_1_quantize_linear_output_scratch_2,
            relu_quantize_linear_output_2,
        ) = borrow(
            arena,
            (
                RELU_1_QUANTIZE_LINEAR_OUTPUT.write(),
                RELU_1_QUANTIZE_LINEAR_OUTPUT_SCRATCH.write(),
                RELU_1_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2.write(),
                RELU_QUANTIZE_LINEAR_OUTPUT_2.read(),
            ),
        );
        nhwc::conv(
            relu_quantize_linear_output_2,
            weights.get(RELU_1_QUANTIZE_LINEAR_WEIGHTS),
            weights.get(RELU_1_QUANTIZE_LINEAR_STARTS),
            weights.get(RELU_1_QUANTIZE_LINEAR_FACTORS),
            None,
            relu_1_quantize_linear_output,
            relu_1_quantize_linear_output_scratch,
            relu_1_quantize_linear_output_scratch_2,
            RELU_1_QUANTIZE_LINEAR_CONV,
            RELU_QUANTIZE_LINEAR_REQUANTIZE,
        );

        // max_pool2d_QuantizeLinear: NhwcMaxPool -> uint8[1, 4, 4, 32]
        let (max_pool2d_quantize_linear_output, relu_1_quantize_linear_output) = borrow(
            arena,
            (
                MAX_POOL2D_QUANTIZE_LINEAR_OUTPUT.write(),
                RELU_1_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        nhwc::max_pool(
            relu_1_quantize_linear_output,
            max_pool2d_quantize_linear_output,
            MAX_POOL2D_QUANTIZE_LINEAR_POOL,
        );

        // relu_2_QuantizeLinear: NhwcConv -> uint8[1, 4, 4, 32]
        let (
            relu_2_quantize_linear_output,
            relu_2_quantize_linear_output_scratch,
            relu_2_quantize_linear_output_scratch_2,
            max_pool2d_quantize_linear_output,
        ) = borrow(
            arena,
            (
                RELU_2_QUANTIZE_LINEAR_OUTPUT.write(),
                RELU_2_QUANTIZE_LINEAR_OUTPUT_SCRATCH.write(),
                RELU_2_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2.write(),
                MAX_POOL2D_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        nhwc::conv(
            max_pool2d_quantize_linear_output,
            weights.get(RELU_2_QUANTIZE_LINEAR_WEIGHTS),
            weights.get(RELU_2_QUANTIZE_LINEAR_STARTS),
            weights.get(RELU_2_QUANTIZE_LINEAR_FACTORS),
            None,
            relu_2_quantize_linear_output,
            relu_2_quantize_linear_output_scratch,
            relu_2_quantize_linear_output_scratch_2,
            RELU_2_QUANTIZE_LINEAR_CONV,
            RELU_QUANTIZE_LINEAR_REQUANTIZE,
        );

        // relu_2_QuantizeLinear: ToNchw -> int8[1, 32, 4, 4]
        let (relu_2_quantize_linear_output_2, relu_2_quantize_linear_output) = borrow(
            arena,
            (
                RELU_2_QUANTIZE_LINEAR_OUTPUT_2.write(),
                RELU_2_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        nhwc::to_channels_first(
            relu_2_quantize_linear_output,
            relu_2_quantize_linear_output_2,
            RELU_2_QUANTIZE_LINEAR_CHANNELS,
        );

        // relu_2_DequantizeLinear: DequantizeLinear -> float[1, 32, 4, 4]
        let (relu_2_dequantize_linear_output, relu_2_quantize_linear_output_2) = borrow(
            arena,
            (
                RELU_2_DEQUANTIZE_LINEAR_OUTPUT.write(),
                RELU_2_QUANTIZE_LINEAR_OUTPUT_2.read(),
            ),
        );
        quantize::dequantize_linear(
            relu_2_quantize_linear_output_2,
            weights.get(RELU_2_SCALE),
            Some(weights.get(IMAGE_ZERO_POINT)),
            relu_2_dequantize_linear_output,
            RELU_2_DEQUANTIZE_LINEAR_SCALES,
        );

        // node_mean: ReduceMean -> float[1, 32, 1, 1]
        let (mean, relu_2_dequantize_linear_output) = borrow(
            arena,
            (MEAN.write(), RELU_2_DEQUANTIZE_LINEAR_OUTPUT.read()),
        );
        reduce::reduce_mean(relu_2_dequantize_linear_output, mean, NODE_MEAN_REDUCTION);

        // view_QuantizeLinear: QuantizeLinear -> int8[1, 32]
        let (view_quantize_linear_output, mean) = borrow(
            arena,
            (VIEW_QUANTIZE_LINEAR_OUTPUT.write(), MEAN.read()),
        );
        quantize::quantize_linear(
            mean,
            weights.get(VIEW_SCALE),
            Some(weights.get(IMAGE_ZERO_POINT)),
            view_quantize_linear_output,
            VIEW_QUANTIZE_LINEAR_SCALES,
        );

        // scores_QuantizeLinear: QuantizedMatMul -> int8[1, 10]
        let (
            scores_quantize_linear_output,
            scores_quantize_linear_output_scratch,
            view_quantize_linear_output,
        ) = borrow(
            arena,
            (
                SCORES_QUANTIZE_LINEAR_OUTPUT.write(),
                SCORES_QUANTIZE_LINEAR_OUTPUT_SCRATCH.write(),
                VIEW_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        quantized::matmul(
            view_quantize_linear_output,
            weights.get(SCORES_QUANTIZE_LINEAR_WEIGHTS),
            weights.get(SCORES_QUANTIZE_LINEAR_STARTS),
            weights.get(SCORES_QUANTIZE_LINEAR_FACTORS),
            None,
            scores_quantize_linear_output,
            scores_quantize_linear_output_scratch,
            Product { m: 1, n: 10, k: 32 },
            SCORES_QUANTIZE_LINEAR_REQUANTIZE,
        );

        // scores_DequantizeLinear: DequantizeLinear -> float[1, 10]
        let (scores, scores_quantize_linear_output) = borrow(
            arena,
            (SCORES.write(), SCORES_QUANTIZE_LINEAR_OUTPUT.read()),
        );
        quantize::dequantize_linear(
            scores_quantize_linear_output,
            weights.get(SCORES_SCALE),
            Some(weights.get(SCORES_ZERO_POINT)),
            scores,
            SCORES_DEQUANTIZE_LINEAR_SCALES,
        );

        borrow(arena, SCORES.array::<10>())
    }

    const IMAGE_SCALE: Slot<f32> = Slot::new(0, 1);
    const IMAGE_ZERO_POINT: Slot<i8> = Slot::new(64, 1);
    const IMAGE_QUANTIZE_LINEAR_OUTPUT: Slot<i8> = Slot::new(0, 64);
    const RELU_QUANTIZE_LINEAR_OUTPUT: Slot<u8> = Slot::new(384, 64);
    const RELU_QUANTIZE_LINEAR_WEIGHTS: Slot<i8> = Slot::new(128, 192);
    const RELU_QUANTIZE_LINEAR_STARTS: Slot<i32> = Slot::new(320, 64);
    const RELU_QUANTIZE_LINEAR_FACTORS: Slot<f32> = Slot::new(576, 64);
    const RELU_QUANTIZE_LINEAR_OUTPUT_SCRATCH: Slot<u32> = Slot::new(448, 3);
    const RELU_QUANTIZE_LINEAR_OUTPUT_2: Slot<u8> = Slot::new(4928, 1024);
    const RELU_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2: Slot<u8> = Slot::new(0, 325);
    const RELU_1_QUANTIZE_LINEAR_WEIGHTS: Slot<i8> = Slot::new(832, 4608);
    const RELU_1_QUANTIZE_LINEAR_STARTS: Slot<i32> = Slot::new(5440, 64);
    const RELU_1_QUANTIZE_LINEAR_FACTORS: Slot<f32> = Slot::new(5696, 64);
    const RELU_1_QUANTIZE_LINEAR_OUTPUT_SCRATCH: Slot<u32> = Slot::new(5952, 36);
    const RELU_1_QUANTIZE_LINEAR_OUTPUT: Slot<u8> = Slot::new(2880, 2048);
    const RELU_1_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2: Slot<u8> = Slot::new(0, 2880);
    const MAX_POOL2D_QUANTIZE_LINEAR_OUTPUT: Slot<u8> = Slot::new(4928, 512);
    const RELU_2_QUANTIZE_LINEAR_WEIGHTS: Slot<i8> = Slot::new(5952, 9216);
    const RELU_2_QUANTIZE_LINEAR_STARTS: Slot<i32> = Slot::new(15168, 64);
    const RELU_2_QUANTIZE_LINEAR_FACTORS: Slot<f32> = Slot::new(15424, 64);
    const RELU_2_QUANTIZE_LINEAR_OUTPUT_SCRATCH: Slot<u32> = Slot::new(4096, 72);
    const RELU_2_QUANTIZE_LINEAR_OUTPUT: Slot<u8> = Slot::new(3584, 512);
    const RELU_2_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2: Slot<u8> = Slot::new(0, 3584);
    const RELU_2_QUANTIZE_LINEAR_OUTPUT_2: Slot<i8> = Slot::new(2048, 512);
    const RELU_2_SCALE: Slot<f32> = Slot::new(15680, 1);
    const RELU_2_DEQUANTIZE_LINEAR_OUTPUT: Slot<f32> = Slot::new(0, 512);
    const MEAN: Slot<f32> = Slot::new(2048, 32);
    const VIEW_SCALE: Slot<f32> = Slot::new(15744, 1);
    const VIEW_QUANTIZE_LINEAR_OUTPUT: Slot<i8> = Slot::new(128, 32);
    const SCORES_QUANTIZE_LINEAR_WEIGHTS: Slot<i8> = Slot::new(15808, 512);
    const SCORES_QUANTIZE_LINEAR_OUTPUT_SCRATCH: Slot<u8> = Slot::new(0, 96);
    const SCORES_QUANTIZE_LINEAR_STARTS: Slot<i32> = Slot::new(16320, 10);
    const SCORES_QUANTIZE_LINEAR_FACTORS: Slot<f32> = Slot::new(16384, 10);
    const SCORES_QUANTIZE_LINEAR_OUTPUT: Slot<i8> = Slot::new(192, 10);
    const SCORES_SCALE: Slot<f32> = Slot::new(16448, 1);
    const SCORES_ZERO_POINT: Slot<i8> = Slot::new(16512, 1);
    const SCORES: Slot<f32> = Slot::new(0, 10);

    const IMAGE_QUANTIZE_LINEAR_SCALES: Scales = Scales {
        outer: 1,
        len: 64,
        inner: 1,
        block: 64,
        outer_step: 0,
        block_step: 0,
        inner_step: 0,
    };

    const RELU_QUANTIZE_LINEAR_CHANNELS: Channels = Channels {
        batch: 1,
        channels: 1,
        pixels: 64,
    };

    const RELU_QUANTIZE_LINEAR_CONV: Conv = Conv {
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

    const RELU_QUANTIZE_LINEAR_REQUANTIZE: Requantize = Requantize {
        x_zero: 0,
        y_zero: 0,
        low: 0,
        high: 255,
    };

    const RELU_1_QUANTIZE_LINEAR_CONV: Conv = Conv {
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

    const MAX_POOL2D_QUANTIZE_LINEAR_POOL: Pool = Pool {
        planes: 1,
        size: &[8, 8],
        out: &[4, 4],
        kernel: &[2, 2],
        strides: &[2, 2],
        dilations: &[1, 1],
        pads: &[0, 0],
        ends: &[0, 0],
    };

    const RELU_2_QUANTIZE_LINEAR_CONV: Conv = Conv {
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

    const RELU_2_QUANTIZE_LINEAR_CHANNELS: Channels = Channels {
        batch: 1,
        channels: 32,
        pixels: 16,
    };

    const RELU_2_DEQUANTIZE_LINEAR_SCALES: Scales = Scales {
        outer: 1,
        len: 512,
        inner: 1,
        block: 512,
        outer_step: 0,
        block_step: 0,
        inner_step: 0,
    };

    const NODE_MEAN_REDUCTION: Reduction = Reduction {
        kept: &[32],
        kept_strides: &[16],
        reduced: &[16],
        reduced_strides: &[1],
    };

    const VIEW_QUANTIZE_LINEAR_SCALES: Scales = Scales {
        outer: 1,
        len: 32,
        inner: 1,
        block: 32,
        outer_step: 0,
        block_step: 0,
        inner_step: 0,
    };

    const SCORES_QUANTIZE_LINEAR_REQUANTIZE: Requantize = Requantize {
        x_zero: -128,
        y_zero: 32,
        low: -128,
        high: 127,
    };

    const SCORES_DEQUANTIZE_LINEAR_SCALES: Scales = Scales {
        outer: 1,
        len: 10,
        inner: 1,
        block: 10,
        outer_step: 0,
        block_step: 0,
        inner_step: 0,
    };

    pub(super) static WEIGHTS: &Aligned<[u8; 16576]> = &Aligned(
        *include_bytes!("digits_int8.weights"),
    );

    const _: () = ::onnxc_runtime::view::generated_by("0.1.0");
}
