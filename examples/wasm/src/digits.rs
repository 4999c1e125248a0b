// The model digits, compiled by onnxc 0.1.0.
// ONNX IR version 10; operator sets: ai.onnx 20; written by onnx.quantize 0.1.0.

/// The model `digits`.
///
/// | | name | type |
/// |---|---|---|
/// | input | `image` | `float[1, 1, 8, 8]` |
/// | output | `scores` | `float[1, 10]` |
///
/// - Parameters: 14474
/// - Weights: 15029 bytes
/// - Arena: 3328 bytes
/// - Multiply-adds: 451904
/// - onnx.infer: onnxruntime.quant
#[derive(Clone, Debug)]
pub struct Digits {
    /// The caller's, or none for the program's: so a new model is nothing but zeros.
    weights: ::core::option::Option<::onnxc_runtime::arena::Weights>,
    arena: ::onnxc_runtime::arena::InlineArena<52>,
}

#[allow(dead_code, clippy::pedantic, clippy::nursery)]
impl Digits {
    /// The bytes of memory that one run needs, beside what the caller gives.
    pub const PEAK_ARENA_BYTES: usize = 3328;
    /// The bytes of all weights.
    pub const WEIGHT_BYTES: usize = 15029;
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
    use ::onnxc_runtime::kernels::{pool, quantize, quantized, reduce};
    use ::onnxc_runtime::arena::{Aligned, Block, Slot, borrow};
    use ::onnxc_runtime::kernels::conv::{Conv, Weights};
    use ::onnxc_runtime::kernels::geometry::Reduction;
    use ::onnxc_runtime::kernels::pool::Pool;
    use ::onnxc_runtime::kernels::quantized::Requantize;

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
        quantize::small_quantize(
            image,
            weights.get(IMAGE_SCALE),
            Some(weights.get(IMAGE_ZERO_POINT)),
            image_quantize_linear_output,
        );

        // relu_QuantizeLinear: QuantizedConv -> int8[1, 16, 8, 8]
        let (
            relu_quantize_linear_output,
            relu_quantize_linear_output_scratch,
            relu_quantize_linear_output_scratch_2,
            image_quantize_linear_output,
        ) = borrow(
            arena,
            (
                RELU_QUANTIZE_LINEAR_OUTPUT.write(),
                RELU_QUANTIZE_LINEAR_OUTPUT_SCRATCH.write(),
                RELU_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2.write(),
                IMAGE_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        quantized::small_conv(
            image_quantize_linear_output,
            weights.get(RELU_QUANTIZE_LINEAR_WEIGHTS),
            weights.get(RELU_QUANTIZE_LINEAR_STARTS),
            weights.get(RELU_QUANTIZE_LINEAR_FACTORS),
            None,
            relu_quantize_linear_output,
            relu_quantize_linear_output_scratch,
            relu_quantize_linear_output_scratch_2,
            RELU_QUANTIZE_LINEAR_CONV,
            RELU_QUANTIZE_LINEAR_REQUANTIZE,
        );

        // relu_1_QuantizeLinear: QuantizedConv -> int8[1, 32, 8, 8]
        let (
            relu_1_quantize_linear_output,
            relu_1_quantize_linear_output_scratch,
            relu_1_quantize_linear_output_scratch_2,
            relu_quantize_linear_output,
        ) = borrow(
            arena,
            (
                RELU_1_QUANTIZE_LINEAR_OUTPUT.write(),
                RELU_1_QUANTIZE_LINEAR_OUTPUT_SCRATCH.write(),
                RELU_1_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2.write(),
                RELU_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        quantized::small_conv(
            relu_quantize_linear_output,
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

        // max_pool2d_QuantizeLinear: MaxPool -> int8[1, 32, 4, 4]
        let (max_pool2d_quantize_linear_output, relu_1_quantize_linear_output) = borrow(
            arena,
            (
                MAX_POOL2D_QUANTIZE_LINEAR_OUTPUT.write(),
                RELU_1_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        pool::small_max_pool(
            relu_1_quantize_linear_output,
            max_pool2d_quantize_linear_output,
            MAX_POOL2D_QUANTIZE_LINEAR_POOL,
        );

        // relu_2_QuantizeLinear: QuantizedConv -> int8[1, 32, 4, 4]
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
        quantized::small_conv(
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

        // relu_2_DequantizeLinear: DequantizeLinear -> float[1, 32, 4, 4]
        let (relu_2_dequantize_linear_output, relu_2_quantize_linear_output) = borrow(
            arena,
            (
                RELU_2_DEQUANTIZE_LINEAR_OUTPUT.write(),
                RELU_2_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        quantize::small_dequantize(
            relu_2_quantize_linear_output,
            weights.get(RELU_2_SCALE),
            Some(weights.get(IMAGE_ZERO_POINT)),
            relu_2_dequantize_linear_output,
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
        quantize::small_quantize(
            mean,
            weights.get(VIEW_SCALE),
            Some(weights.get(IMAGE_ZERO_POINT)),
            view_quantize_linear_output,
        );

        // scores_QuantizeLinear: QuantizedMatMul -> int8[1, 10]
        let (
            scores_quantize_linear_output,
            scores_quantize_linear_output_scratch,
            scores_quantize_linear_output_scratch_2,
            view_quantize_linear_output,
        ) = borrow(
            arena,
            (
                SCORES_QUANTIZE_LINEAR_OUTPUT.write(),
                SCORES_QUANTIZE_LINEAR_OUTPUT_SCRATCH.write(),
                SCORES_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2.write(),
                VIEW_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        quantized::small_conv(
            view_quantize_linear_output,
            weights.get(SCORES_QUANTIZE_LINEAR_WEIGHTS),
            weights.get(SCORES_QUANTIZE_LINEAR_STARTS),
            weights.get(SCORES_QUANTIZE_LINEAR_FACTORS),
            None,
            scores_quantize_linear_output,
            scores_quantize_linear_output_scratch,
            scores_quantize_linear_output_scratch_2,
            SCORES_QUANTIZE_LINEAR_CONV,
            SCORES_QUANTIZE_LINEAR_REQUANTIZE,
        );

        // scores_DequantizeLinear: DequantizeLinear -> float[1, 10]
        let (scores, scores_quantize_linear_output) = borrow(
            arena,
            (SCORES.write(), SCORES_QUANTIZE_LINEAR_OUTPUT.read()),
        );
        quantize::small_dequantize(
            scores_quantize_linear_output,
            weights.get(SCORES_SCALE),
            Some(weights.get(SCORES_ZERO_POINT)),
            scores,
        );

        borrow(arena, SCORES.array::<10>())
    }

    const IMAGE_SCALE: Slot<f32> = Slot::new(0, 1);
    const IMAGE_ZERO_POINT: Slot<i8> = Slot::new(4, 1);
    const IMAGE_QUANTIZE_LINEAR_OUTPUT: Slot<i8> = Slot::new(0, 64);
    const RELU_QUANTIZE_LINEAR_WEIGHTS: Slot<i8> = Slot::new(5, 144);
    const RELU_QUANTIZE_LINEAR_OUTPUT_SCRATCH: Slot<u32> = Slot::new(64, 9);
    const RELU_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2: Slot<u8> = Slot::new(128, 9);
    const RELU_QUANTIZE_LINEAR_STARTS: Slot<i32> = Slot::new(152, 16);
    const RELU_QUANTIZE_LINEAR_FACTORS: Slot<f32> = Slot::new(216, 16);
    const RELU_QUANTIZE_LINEAR_OUTPUT: Slot<i8> = Slot::new(2048, 1024);
    const RELU_1_QUANTIZE_LINEAR_WEIGHTS: Slot<i8> = Slot::new(280, 4608);
    const RELU_1_QUANTIZE_LINEAR_OUTPUT_SCRATCH: Slot<u32> = Slot::new(3264, 9);
    const RELU_1_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2: Slot<u8> = Slot::new(3072, 144);
    const RELU_1_QUANTIZE_LINEAR_STARTS: Slot<i32> = Slot::new(4888, 32);
    const RELU_1_QUANTIZE_LINEAR_FACTORS: Slot<f32> = Slot::new(5016, 32);
    const RELU_1_QUANTIZE_LINEAR_OUTPUT: Slot<i8> = Slot::new(0, 2048);
    const MAX_POOL2D_QUANTIZE_LINEAR_OUTPUT: Slot<i8> = Slot::new(2048, 512);
    const RELU_2_QUANTIZE_LINEAR_WEIGHTS: Slot<i8> = Slot::new(5144, 9216);
    const RELU_2_QUANTIZE_LINEAR_OUTPUT_SCRATCH: Slot<u32> = Slot::new(320, 9);
    const RELU_2_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2: Slot<u8> = Slot::new(0, 288);
    const RELU_2_QUANTIZE_LINEAR_STARTS: Slot<i32> = Slot::new(14360, 32);
    const RELU_2_QUANTIZE_LINEAR_FACTORS: Slot<f32> = Slot::new(14488, 32);
    const RELU_2_QUANTIZE_LINEAR_OUTPUT: Slot<i8> = Slot::new(2560, 512);
    const RELU_2_SCALE: Slot<f32> = Slot::new(14616, 1);
    const RELU_2_DEQUANTIZE_LINEAR_OUTPUT: Slot<f32> = Slot::new(0, 512);
    const MEAN: Slot<f32> = Slot::new(2048, 32);
    const VIEW_SCALE: Slot<f32> = Slot::new(14620, 1);
    const VIEW_QUANTIZE_LINEAR_OUTPUT: Slot<i8> = Slot::new(0, 32);
    const SCORES_QUANTIZE_LINEAR_WEIGHTS: Slot<i8> = Slot::new(14624, 320);
    const SCORES_QUANTIZE_LINEAR_OUTPUT_SCRATCH: Slot<u32> = Slot::new(64, 1);
    const SCORES_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2: Slot<u8> = Slot::new(128, 32);
    const SCORES_QUANTIZE_LINEAR_STARTS: Slot<i32> = Slot::new(14944, 10);
    const SCORES_QUANTIZE_LINEAR_FACTORS: Slot<f32> = Slot::new(14984, 10);
    const SCORES_QUANTIZE_LINEAR_OUTPUT: Slot<i8> = Slot::new(192, 10);
    const SCORES_SCALE: Slot<f32> = Slot::new(15024, 1);
    const SCORES_ZERO_POINT: Slot<i8> = Slot::new(15028, 1);
    const SCORES: Slot<f32> = Slot::new(0, 10);

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
        x_zero: -128,
        y_zero: -128,
        low: -128,
        high: 127,
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
        planes: 32,
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

    const NODE_MEAN_REDUCTION: Reduction = Reduction {
        kept: &[32],
        kept_strides: &[16],
        reduced: &[16],
        reduced_strides: &[1],
    };

    const SCORES_QUANTIZE_LINEAR_CONV: Conv = Conv {
        batch: 1,
        groups: 1,
        channels: 32,
        filters: 10,
        size: &[],
        out: &[],
        kernel: &[],
        strides: &[],
        dilations: &[],
        pads: &[],
        weights: Weights::Plain,
    };

    const SCORES_QUANTIZE_LINEAR_REQUANTIZE: Requantize = Requantize {
        x_zero: -128,
        y_zero: 32,
        low: -128,
        high: 127,
    };

    pub(super) static WEIGHTS: &Aligned<[u8; 15029]> = &Aligned(
        *include_bytes!("digits.weights"),
    );

    const _: () = ::onnxc_runtime::view::generated_by("0.1.0");
}
