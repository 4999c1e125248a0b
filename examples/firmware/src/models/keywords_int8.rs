// The model keywords_int8, compiled by onnxc 0.1.0.
// ONNX IR version 8; operator sets: ai.onnx 17; written by onnx.quantize 0.1.0.

/// The model `keywords_int8`.
///
/// | | name | type |
/// |---|---|---|
/// | input | `input` | `float[1, 1, 49, 10]` |
/// | output | `output` | `float[1, 12]` |
///
/// - Parameters: 23198
/// - Weights: 28160 bytes
/// - Arena: 28416 bytes
/// - Multiply-adds: 2656768
/// - onnx.infer: onnxruntime.quant
#[derive(Clone, Debug)]
pub struct KeywordsInt8 {
    /// The caller's, or none for the program's: so a new model is nothing but zeros.
    weights: ::core::option::Option<::onnxc_runtime::arena::Weights>,
}

#[allow(dead_code, clippy::pedantic, clippy::nursery)]
impl KeywordsInt8 {
    /// The bytes of memory that one run needs, beside what the caller gives.
    pub const PEAK_ARENA_BYTES: usize = 28416;
    /// The bytes of all weights.
    pub const WEIGHT_BYTES: usize = 28160;
    /// The multiply-adds of one run, where every size is known.
    pub const MACS: u64 = 2656768;

    /// The model with the weights that the program carries.
    pub const fn new() -> KeywordsInt8 {
        KeywordsInt8 {
            weights: ::core::option::Option::None,
        }
    }

    /// The model with weights that the caller has, in flash or mapped from a file.
    ///
    /// # Errors
    ///
    /// Where they are not as long as the model's, or start at no multiple of 16 bytes.
    pub fn with_weights(
        weights: &'static [u8],
    ) -> ::onnxc_runtime::Result<KeywordsInt8> {
        let weights = ::onnxc_runtime::arena::Weights::from_bytes(
            weights,
            KeywordsInt8::WEIGHT_BYTES,
        )?;
        Ok(KeywordsInt8 {
            weights: ::core::option::Option::Some(weights),
        })
    }

    /// Runs the model in an arena of at least `PEAK_ARENA_BYTES`.
    pub fn infer_in<'a, const BLOCKS: usize>(
        &mut self,
        arena: &'a mut ::onnxc_runtime::arena::InlineArena<BLOCKS>,
        input: &[f32; 490],
    ) -> &'a [f32; 12] {
        keywords_int8::infer(&self.weights(), arena.first::<444>(), input)
    }

    /// The weights.
    fn weights(&self) -> ::onnxc_runtime::arena::Weights {
        self.weights
            .unwrap_or(::onnxc_runtime::arena::Weights::new(keywords_int8::WEIGHTS))
    }
}

impl ::core::default::Default for KeywordsInt8 {
    fn default() -> Self {
        Self::new()
    }
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod keywords_int8 {
    use ::onnxc_runtime::kernels::{nhwc, quantize, quantized, softmax};
    use ::onnxc_runtime::arena::{Aligned, Block, Slot, borrow};
    use ::onnxc_runtime::kernels::blocked::Channels;
    use ::onnxc_runtime::kernels::conv::{Conv, Weights};
    use ::onnxc_runtime::kernels::geometry::Axis;
    use ::onnxc_runtime::kernels::pool::Pool;
    use ::onnxc_runtime::kernels::quantize::Scales;
    use ::onnxc_runtime::kernels::quantized::{Product, Requantize};

    pub(super) fn infer<'a>(
        weights: &::onnxc_runtime::arena::Weights,
        arena: &'a mut [Block],
        input: &[f32],
    ) -> &'a [f32; 12] {
        // input_QuantizeLinear: QuantizeLinear -> int8[1, 1, 49, 10]
        let input_quantize_linear_output = borrow(
            arena,
            INPUT_QUANTIZE_LINEAR_OUTPUT.write(),
        );
        quantize::quantize_linear(
            input,
            weights.get(INPUT_SCALE),
            Some(weights.get(INPUT_ZERO_POINT)),
            input_quantize_linear_output,
            INPUT_QUANTIZE_LINEAR_SCALES,
        );

        // relu_5_QuantizeLinear: ToNhwc -> uint8[1, 49, 10, 1]
        let (relu_5_quantize_linear_output, input_quantize_linear_output) = borrow(
            arena,
            (RELU_5_QUANTIZE_LINEAR_OUTPUT.write(), INPUT_QUANTIZE_LINEAR_OUTPUT.read()),
        );
        nhwc::from_channels_first(
            input_quantize_linear_output,
            relu_5_quantize_linear_output,
            RELU_5_QUANTIZE_LINEAR_CHANNELS,
        );

        // relu_5_QuantizeLinear: NhwcConv -> uint8[1, 25, 5, 64]
        let (
            relu_5_quantize_linear_output_2,
            relu_5_quantize_linear_output_scratch,
            relu_5_quantize_linear_output_scratch_2,
            relu_5_quantize_linear_output,
        ) = borrow(
            arena,
            (
                RELU_5_QUANTIZE_LINEAR_OUTPUT_2.write(),
                RELU_5_QUANTIZE_LINEAR_OUTPUT_SCRATCH.write(),
                RELU_5_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2.write(),
                RELU_5_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        nhwc::conv(
            relu_5_quantize_linear_output,
            weights.get(RELU_5_QUANTIZE_LINEAR_WEIGHTS),
            weights.get(RELU_5_QUANTIZE_LINEAR_STARTS),
            weights.get(RELU_5_QUANTIZE_LINEAR_FACTORS),
            None,
            relu_5_quantize_linear_output_2,
            relu_5_quantize_linear_output_scratch,
            relu_5_quantize_linear_output_scratch_2,
            RELU_5_QUANTIZE_LINEAR_CONV,
            RELU_5_QUANTIZE_LINEAR_REQUANTIZE,
        );

        // relu_11_QuantizeLinear: NhwcConv -> uint8[1, 25, 5, 64]
        let (
            relu_11_quantize_linear_output,
            relu_11_quantize_linear_output_scratch,
            relu_11_quantize_linear_output_scratch_2,
            relu_5_quantize_linear_output_2,
        ) = borrow(
            arena,
            (
                RELU_11_QUANTIZE_LINEAR_OUTPUT.write(),
                RELU_11_QUANTIZE_LINEAR_OUTPUT_SCRATCH.write(),
                RELU_11_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2.write(),
                RELU_5_QUANTIZE_LINEAR_OUTPUT_2.read(),
            ),
        );
        nhwc::depthwise(
            relu_5_quantize_linear_output_2,
            weights.get(RELU_11_QUANTIZE_LINEAR_WEIGHTS),
            weights.get(RELU_11_QUANTIZE_LINEAR_STARTS),
            weights.get(RELU_11_QUANTIZE_LINEAR_FACTORS),
            None,
            relu_11_quantize_linear_output,
            relu_11_quantize_linear_output_scratch,
            relu_11_quantize_linear_output_scratch_2,
            RELU_11_QUANTIZE_LINEAR_CONV,
            RELU_11_QUANTIZE_LINEAR_REQUANTIZE,
        );

        // relu_17_QuantizeLinear: NhwcConv -> uint8[1, 25, 5, 64]
        let (
            relu_17_quantize_linear_output,
            relu_17_quantize_linear_output_scratch,
            relu_17_quantize_linear_output_scratch_2,
            relu_11_quantize_linear_output,
        ) = borrow(
            arena,
            (
                RELU_17_QUANTIZE_LINEAR_OUTPUT.write(),
                RELU_17_QUANTIZE_LINEAR_OUTPUT_SCRATCH.write(),
                RELU_17_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2.write(),
                RELU_11_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        nhwc::conv(
            relu_11_quantize_linear_output,
            weights.get(RELU_17_QUANTIZE_LINEAR_WEIGHTS),
            weights.get(RELU_17_QUANTIZE_LINEAR_STARTS),
            weights.get(RELU_17_QUANTIZE_LINEAR_FACTORS),
            None,
            relu_17_quantize_linear_output,
            relu_17_quantize_linear_output_scratch,
            relu_17_quantize_linear_output_scratch_2,
            RELU_17_QUANTIZE_LINEAR_CONV,
            RELU_11_QUANTIZE_LINEAR_REQUANTIZE,
        );

        // relu_23_QuantizeLinear: NhwcConv -> uint8[1, 25, 5, 64]
        let (
            relu_23_quantize_linear_output,
            relu_23_quantize_linear_output_scratch,
            relu_23_quantize_linear_output_scratch_2,
            relu_17_quantize_linear_output,
        ) = borrow(
            arena,
            (
                RELU_23_QUANTIZE_LINEAR_OUTPUT.write(),
                RELU_23_QUANTIZE_LINEAR_OUTPUT_SCRATCH.write(),
                RELU_23_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2.write(),
                RELU_17_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        nhwc::depthwise(
            relu_17_quantize_linear_output,
            weights.get(RELU_23_QUANTIZE_LINEAR_WEIGHTS),
            weights.get(RELU_23_QUANTIZE_LINEAR_STARTS),
            weights.get(RELU_23_QUANTIZE_LINEAR_FACTORS),
            None,
            relu_23_quantize_linear_output,
            relu_23_quantize_linear_output_scratch,
            relu_23_quantize_linear_output_scratch_2,
            RELU_11_QUANTIZE_LINEAR_CONV,
            RELU_11_QUANTIZE_LINEAR_REQUANTIZE,
        );

        // relu_29_QuantizeLinear: NhwcConv -> uint8[1, 25, 5, 64]
        let (
            relu_29_quantize_linear_output,
            relu_29_quantize_linear_output_scratch,
            relu_29_quantize_linear_output_scratch_2,
            relu_23_quantize_linear_output,
        ) = borrow(
            arena,
            (
                RELU_29_QUANTIZE_LINEAR_OUTPUT.write(),
                RELU_29_QUANTIZE_LINEAR_OUTPUT_SCRATCH.write(),
                RELU_29_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2.write(),
                RELU_23_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        nhwc::conv(
            relu_23_quantize_linear_output,
            weights.get(RELU_29_QUANTIZE_LINEAR_WEIGHTS),
            weights.get(RELU_29_QUANTIZE_LINEAR_STARTS),
            weights.get(RELU_29_QUANTIZE_LINEAR_FACTORS),
            None,
            relu_29_quantize_linear_output,
            relu_29_quantize_linear_output_scratch,
            relu_29_quantize_linear_output_scratch_2,
            RELU_17_QUANTIZE_LINEAR_CONV,
            RELU_11_QUANTIZE_LINEAR_REQUANTIZE,
        );

        // relu_35_QuantizeLinear: NhwcConv -> uint8[1, 25, 5, 64]
        let (
            relu_35_quantize_linear_output,
            relu_35_quantize_linear_output_scratch,
            relu_35_quantize_linear_output_scratch_2,
            relu_29_quantize_linear_output,
        ) = borrow(
            arena,
            (
                RELU_35_QUANTIZE_LINEAR_OUTPUT.write(),
                RELU_35_QUANTIZE_LINEAR_OUTPUT_SCRATCH.write(),
                RELU_35_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2.write(),
                RELU_29_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        nhwc::depthwise(
            relu_29_quantize_linear_output,
            weights.get(RELU_35_QUANTIZE_LINEAR_WEIGHTS),
            weights.get(RELU_35_QUANTIZE_LINEAR_STARTS),
            weights.get(RELU_35_QUANTIZE_LINEAR_FACTORS),
            None,
            relu_35_quantize_linear_output,
            relu_35_quantize_linear_output_scratch,
            relu_35_quantize_linear_output_scratch_2,
            RELU_11_QUANTIZE_LINEAR_CONV,
            RELU_11_QUANTIZE_LINEAR_REQUANTIZE,
        );

        // relu_41_QuantizeLinear: NhwcConv -> uint8[1, 25, 5, 64]
        let (
            relu_41_quantize_linear_output,
            relu_41_quantize_linear_output_scratch,
            relu_41_quantize_linear_output_scratch_2,
            relu_35_quantize_linear_output,
        ) = borrow(
            arena,
            (
                RELU_41_QUANTIZE_LINEAR_OUTPUT.write(),
                RELU_41_QUANTIZE_LINEAR_OUTPUT_SCRATCH.write(),
                RELU_41_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2.write(),
                RELU_35_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        nhwc::conv(
            relu_35_quantize_linear_output,
            weights.get(RELU_41_QUANTIZE_LINEAR_WEIGHTS),
            weights.get(RELU_41_QUANTIZE_LINEAR_STARTS),
            weights.get(RELU_41_QUANTIZE_LINEAR_FACTORS),
            None,
            relu_41_quantize_linear_output,
            relu_41_quantize_linear_output_scratch,
            relu_41_quantize_linear_output_scratch_2,
            RELU_17_QUANTIZE_LINEAR_CONV,
            RELU_11_QUANTIZE_LINEAR_REQUANTIZE,
        );

        // relu_47_QuantizeLinear: NhwcConv -> uint8[1, 25, 5, 64]
        let (
            relu_47_quantize_linear_output,
            relu_47_quantize_linear_output_scratch,
            relu_47_quantize_linear_output_scratch_2,
            relu_41_quantize_linear_output,
        ) = borrow(
            arena,
            (
                RELU_47_QUANTIZE_LINEAR_OUTPUT.write(),
                RELU_47_QUANTIZE_LINEAR_OUTPUT_SCRATCH.write(),
                RELU_47_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2.write(),
                RELU_41_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        nhwc::depthwise(
            relu_41_quantize_linear_output,
            weights.get(RELU_47_QUANTIZE_LINEAR_WEIGHTS),
            weights.get(RELU_47_QUANTIZE_LINEAR_STARTS),
            weights.get(RELU_47_QUANTIZE_LINEAR_FACTORS),
            None,
            relu_47_quantize_linear_output,
            relu_47_quantize_linear_output_scratch,
            relu_47_quantize_linear_output_scratch_2,
            RELU_11_QUANTIZE_LINEAR_CONV,
            RELU_11_QUANTIZE_LINEAR_REQUANTIZE,
        );

        // relu_53_QuantizeLinear: NhwcConv -> uint8[1, 25, 5, 64]
        let (
            relu_53_quantize_linear_output,
            relu_53_quantize_linear_output_scratch,
            relu_53_quantize_linear_output_scratch_2,
            relu_47_quantize_linear_output,
        ) = borrow(
            arena,
            (
                RELU_53_QUANTIZE_LINEAR_OUTPUT.write(),
                RELU_53_QUANTIZE_LINEAR_OUTPUT_SCRATCH.write(),
                RELU_53_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2.write(),
                RELU_47_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        nhwc::conv(
            relu_47_quantize_linear_output,
            weights.get(RELU_53_QUANTIZE_LINEAR_WEIGHTS),
            weights.get(RELU_53_QUANTIZE_LINEAR_STARTS),
            weights.get(RELU_53_QUANTIZE_LINEAR_FACTORS),
            None,
            relu_53_quantize_linear_output,
            relu_53_quantize_linear_output_scratch,
            relu_53_quantize_linear_output_scratch_2,
            RELU_17_QUANTIZE_LINEAR_CONV,
            RELU_11_QUANTIZE_LINEAR_REQUANTIZE,
        );

        // averagepool_55_QuantizeLinear: NhwcAveragePool -> uint8[1, 1, 1, 64]
        let (averagepool_55_quantize_linear_output, relu_53_quantize_linear_output) = borrow(
            arena,
            (
                AVERAGEPOOL_55_QUANTIZE_LINEAR_OUTPUT.write(),
                RELU_53_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        nhwc::average_pool(
            relu_53_quantize_linear_output,
            averagepool_55_quantize_linear_output,
            AVERAGEPOOL_55_QUANTIZE_LINEAR_POOL,
            RELU_11_QUANTIZE_LINEAR_REQUANTIZE,
            1.0,
            false,
        );

        // averagepool_55_QuantizeLinear: ToNchw -> int8[1, 64, 1, 1]
        let (
            averagepool_55_quantize_linear_output_2,
            averagepool_55_quantize_linear_output,
        ) = borrow(
            arena,
            (
                AVERAGEPOOL_55_QUANTIZE_LINEAR_OUTPUT_2.write(),
                AVERAGEPOOL_55_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        nhwc::to_channels_first(
            averagepool_55_quantize_linear_output,
            averagepool_55_quantize_linear_output_2,
            AVERAGEPOOL_55_QUANTIZE_LINEAR_CHANNELS,
        );

        // gemm_61_QuantizeLinear: QuantizedMatMul -> int8[1, 12]
        let (
            gemm_61_quantize_linear_output,
            gemm_61_quantize_linear_output_scratch,
            averagepool_55_quantize_linear_output_2,
        ) = borrow(
            arena,
            (
                GEMM_61_QUANTIZE_LINEAR_OUTPUT.write(),
                GEMM_61_QUANTIZE_LINEAR_OUTPUT_SCRATCH.write(),
                AVERAGEPOOL_55_QUANTIZE_LINEAR_OUTPUT_2.read(),
            ),
        );
        quantized::matmul(
            averagepool_55_quantize_linear_output_2,
            weights.get(GEMM_61_QUANTIZE_LINEAR_WEIGHTS),
            weights.get(GEMM_61_QUANTIZE_LINEAR_STARTS),
            weights.get(GEMM_61_QUANTIZE_LINEAR_FACTORS),
            None,
            gemm_61_quantize_linear_output,
            gemm_61_quantize_linear_output_scratch,
            Product { m: 1, n: 12, k: 64 },
            GEMM_61_QUANTIZE_LINEAR_REQUANTIZE,
        );

        // gemm_61_DequantizeLinear: DequantizeLinear -> float[1, 12]
        let (gemm_61_dequantize_linear_output, gemm_61_quantize_linear_output) = borrow(
            arena,
            (
                GEMM_61_DEQUANTIZE_LINEAR_OUTPUT.write(),
                GEMM_61_QUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        quantize::dequantize_linear(
            gemm_61_quantize_linear_output,
            weights.get(GEMM_61_SCALE),
            Some(weights.get(GEMM_61_ZERO_POINT)),
            gemm_61_dequantize_linear_output,
            GEMM_61_DEQUANTIZE_LINEAR_SCALES,
        );

        // n_Softmax_63: Softmax -> float[1, 12]
        let gemm_61_dequantize_linear_output = borrow(
            arena,
            GEMM_61_DEQUANTIZE_LINEAR_OUTPUT.write(),
        );
        softmax::softmax_in_place(gemm_61_dequantize_linear_output, N_SOFTMAX_63_AXIS);

        // output_QuantizeLinear: QuantizeLinear -> int8[1, 12]
        let (output_quantize_linear_output, gemm_61_dequantize_linear_output) = borrow(
            arena,
            (
                OUTPUT_QUANTIZE_LINEAR_OUTPUT.write(),
                GEMM_61_DEQUANTIZE_LINEAR_OUTPUT.read(),
            ),
        );
        quantize::quantize_linear(
            gemm_61_dequantize_linear_output,
            weights.get(OUTPUT_SCALE),
            Some(weights.get(OUTPUT_ZERO_POINT)),
            output_quantize_linear_output,
            GEMM_61_DEQUANTIZE_LINEAR_SCALES,
        );

        // output_DequantizeLinear: DequantizeLinear -> float[1, 12]
        let (output, output_quantize_linear_output) = borrow(
            arena,
            (OUTPUT.write(), OUTPUT_QUANTIZE_LINEAR_OUTPUT.read()),
        );
        quantize::dequantize_linear(
            output_quantize_linear_output,
            weights.get(OUTPUT_SCALE),
            Some(weights.get(OUTPUT_ZERO_POINT)),
            output,
            GEMM_61_DEQUANTIZE_LINEAR_SCALES,
        );

        borrow(arena, OUTPUT.array::<12>())
    }

    const INPUT_SCALE: Slot<f32> = Slot::new(0, 1);
    const INPUT_ZERO_POINT: Slot<i8> = Slot::new(64, 1);
    const INPUT_QUANTIZE_LINEAR_OUTPUT: Slot<i8> = Slot::new(0, 490);
    const RELU_5_QUANTIZE_LINEAR_OUTPUT: Slot<u8> = Slot::new(1152, 490);
    const RELU_5_QUANTIZE_LINEAR_WEIGHTS: Slot<i8> = Slot::new(128, 2560);
    const RELU_5_QUANTIZE_LINEAR_STARTS: Slot<i32> = Slot::new(2688, 64);
    const RELU_5_QUANTIZE_LINEAR_FACTORS: Slot<f32> = Slot::new(2944, 64);
    const RELU_5_QUANTIZE_LINEAR_OUTPUT_SCRATCH: Slot<u32> = Slot::new(1664, 10);
    const RELU_5_QUANTIZE_LINEAR_OUTPUT_2: Slot<u8> = Slot::new(12352, 8000);
    const RELU_5_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2: Slot<u8> = Slot::new(0, 1144);
    const RELU_11_QUANTIZE_LINEAR_WEIGHTS: Slot<i8> = Slot::new(3200, 768);
    const RELU_11_QUANTIZE_LINEAR_STARTS: Slot<i32> = Slot::new(3968, 64);
    const RELU_11_QUANTIZE_LINEAR_FACTORS: Slot<f32> = Slot::new(4224, 64);
    const RELU_11_QUANTIZE_LINEAR_OUTPUT_SCRATCH: Slot<u32> = Slot::new(28352, 12);
    const RELU_11_QUANTIZE_LINEAR_OUTPUT: Slot<u8> = Slot::new(20352, 8000);
    const RELU_11_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2: Slot<u8> = Slot::new(0, 12332);
    const RELU_17_QUANTIZE_LINEAR_WEIGHTS: Slot<i8> = Slot::new(4480, 4096);
    const RELU_17_QUANTIZE_LINEAR_STARTS: Slot<i32> = Slot::new(8576, 64);
    const RELU_17_QUANTIZE_LINEAR_FACTORS: Slot<f32> = Slot::new(8832, 64);
    const RELU_17_QUANTIZE_LINEAR_OUTPUT_SCRATCH: Slot<u32> = Slot::new(640, 16);
    const RELU_17_QUANTIZE_LINEAR_OUTPUT: Slot<u8> = Slot::new(12352, 8000);
    const RELU_17_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2: Slot<u8> = Slot::new(0, 640);
    const RELU_23_QUANTIZE_LINEAR_WEIGHTS: Slot<i8> = Slot::new(9088, 768);
    const RELU_23_QUANTIZE_LINEAR_STARTS: Slot<i32> = Slot::new(9856, 64);
    const RELU_23_QUANTIZE_LINEAR_FACTORS: Slot<f32> = Slot::new(10112, 64);
    const RELU_23_QUANTIZE_LINEAR_OUTPUT_SCRATCH: Slot<u32> = Slot::new(28352, 12);
    const RELU_23_QUANTIZE_LINEAR_OUTPUT: Slot<u8> = Slot::new(20352, 8000);
    const RELU_23_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2: Slot<u8> = Slot::new(0, 12332);
    const RELU_29_QUANTIZE_LINEAR_WEIGHTS: Slot<i8> = Slot::new(10368, 4096);
    const RELU_29_QUANTIZE_LINEAR_STARTS: Slot<i32> = Slot::new(14464, 64);
    const RELU_29_QUANTIZE_LINEAR_FACTORS: Slot<f32> = Slot::new(14720, 64);
    const RELU_29_QUANTIZE_LINEAR_OUTPUT_SCRATCH: Slot<u32> = Slot::new(640, 16);
    const RELU_29_QUANTIZE_LINEAR_OUTPUT: Slot<u8> = Slot::new(12352, 8000);
    const RELU_29_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2: Slot<u8> = Slot::new(0, 640);
    const RELU_35_QUANTIZE_LINEAR_WEIGHTS: Slot<i8> = Slot::new(14976, 768);
    const RELU_35_QUANTIZE_LINEAR_STARTS: Slot<i32> = Slot::new(15744, 64);
    const RELU_35_QUANTIZE_LINEAR_FACTORS: Slot<f32> = Slot::new(16000, 64);
    const RELU_35_QUANTIZE_LINEAR_OUTPUT_SCRATCH: Slot<u32> = Slot::new(28352, 12);
    const RELU_35_QUANTIZE_LINEAR_OUTPUT: Slot<u8> = Slot::new(20352, 8000);
    const RELU_35_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2: Slot<u8> = Slot::new(0, 12332);
    const RELU_41_QUANTIZE_LINEAR_WEIGHTS: Slot<i8> = Slot::new(16256, 4096);
    const RELU_41_QUANTIZE_LINEAR_STARTS: Slot<i32> = Slot::new(20352, 64);
    const RELU_41_QUANTIZE_LINEAR_FACTORS: Slot<f32> = Slot::new(20608, 64);
    const RELU_41_QUANTIZE_LINEAR_OUTPUT_SCRATCH: Slot<u32> = Slot::new(640, 16);
    const RELU_41_QUANTIZE_LINEAR_OUTPUT: Slot<u8> = Slot::new(12352, 8000);
    const RELU_41_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2: Slot<u8> = Slot::new(0, 640);
    const RELU_47_QUANTIZE_LINEAR_WEIGHTS: Slot<i8> = Slot::new(20864, 768);
    const RELU_47_QUANTIZE_LINEAR_STARTS: Slot<i32> = Slot::new(21632, 64);
    const RELU_47_QUANTIZE_LINEAR_FACTORS: Slot<f32> = Slot::new(21888, 64);
    const RELU_47_QUANTIZE_LINEAR_OUTPUT_SCRATCH: Slot<u32> = Slot::new(28352, 12);
    const RELU_47_QUANTIZE_LINEAR_OUTPUT: Slot<u8> = Slot::new(20352, 8000);
    const RELU_47_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2: Slot<u8> = Slot::new(0, 12332);
    const RELU_53_QUANTIZE_LINEAR_WEIGHTS: Slot<i8> = Slot::new(22144, 4096);
    const RELU_53_QUANTIZE_LINEAR_STARTS: Slot<i32> = Slot::new(26240, 64);
    const RELU_53_QUANTIZE_LINEAR_FACTORS: Slot<f32> = Slot::new(26496, 64);
    const RELU_53_QUANTIZE_LINEAR_OUTPUT_SCRATCH: Slot<u32> = Slot::new(8640, 16);
    const RELU_53_QUANTIZE_LINEAR_OUTPUT: Slot<u8> = Slot::new(0, 8000);
    const RELU_53_QUANTIZE_LINEAR_OUTPUT_SCRATCH_2: Slot<u8> = Slot::new(8000, 640);
    const AVERAGEPOOL_55_QUANTIZE_LINEAR_OUTPUT: Slot<u8> = Slot::new(8000, 64);
    const AVERAGEPOOL_55_QUANTIZE_LINEAR_OUTPUT_2: Slot<i8> = Slot::new(128, 64);
    const GEMM_61_QUANTIZE_LINEAR_WEIGHTS: Slot<i8> = Slot::new(26752, 1024);
    const GEMM_61_QUANTIZE_LINEAR_OUTPUT_SCRATCH: Slot<u8> = Slot::new(0, 128);
    const GEMM_61_QUANTIZE_LINEAR_STARTS: Slot<i32> = Slot::new(27776, 12);
    const GEMM_61_QUANTIZE_LINEAR_FACTORS: Slot<f32> = Slot::new(27840, 12);
    const GEMM_61_QUANTIZE_LINEAR_OUTPUT: Slot<i8> = Slot::new(192, 12);
    const GEMM_61_SCALE: Slot<f32> = Slot::new(27904, 1);
    const GEMM_61_ZERO_POINT: Slot<i8> = Slot::new(27968, 1);
    const GEMM_61_DEQUANTIZE_LINEAR_OUTPUT: Slot<f32> = Slot::new(0, 12);
    const OUTPUT_SCALE: Slot<f32> = Slot::new(28032, 1);
    const OUTPUT_ZERO_POINT: Slot<i8> = Slot::new(28096, 1);
    const OUTPUT_QUANTIZE_LINEAR_OUTPUT: Slot<i8> = Slot::new(64, 12);
    const OUTPUT: Slot<f32> = Slot::new(0, 12);

    const INPUT_QUANTIZE_LINEAR_SCALES: Scales = Scales {
        outer: 1,
        len: 490,
        inner: 1,
        block: 490,
        outer_step: 0,
        block_step: 0,
        inner_step: 0,
    };

    const RELU_5_QUANTIZE_LINEAR_CHANNELS: Channels = Channels {
        batch: 1,
        channels: 1,
        pixels: 490,
    };

    const RELU_5_QUANTIZE_LINEAR_CONV: Conv = Conv {
        batch: 1,
        groups: 1,
        channels: 1,
        filters: 64,
        size: &[49, 10],
        out: &[25, 5],
        kernel: &[10, 4],
        strides: &[2, 2],
        dilations: &[1, 1],
        pads: &[4, 1],
        weights: Weights::Packed,
    };

    const RELU_5_QUANTIZE_LINEAR_REQUANTIZE: Requantize = Requantize {
        x_zero: 121,
        y_zero: 0,
        low: 0,
        high: 255,
    };

    const RELU_11_QUANTIZE_LINEAR_CONV: Conv = Conv {
        batch: 1,
        groups: 64,
        channels: 1,
        filters: 1,
        size: &[25, 5],
        out: &[25, 5],
        kernel: &[3, 3],
        strides: &[1, 1],
        dilations: &[1, 1],
        pads: &[1, 1],
        weights: Weights::Packed,
    };

    const RELU_11_QUANTIZE_LINEAR_REQUANTIZE: Requantize = Requantize {
        x_zero: 0,
        y_zero: 0,
        low: 0,
        high: 255,
    };

    const RELU_17_QUANTIZE_LINEAR_CONV: Conv = Conv {
        batch: 1,
        groups: 1,
        channels: 64,
        filters: 64,
        size: &[25, 5],
        out: &[25, 5],
        kernel: &[1, 1],
        strides: &[1, 1],
        dilations: &[1, 1],
        pads: &[0, 0],
        weights: Weights::Packed,
    };

    const AVERAGEPOOL_55_QUANTIZE_LINEAR_POOL: Pool = Pool {
        planes: 1,
        size: &[25, 5],
        out: &[1, 1],
        kernel: &[25, 5],
        strides: &[25, 5],
        dilations: &[1, 1],
        pads: &[0, 0],
        ends: &[0, 0],
    };

    const AVERAGEPOOL_55_QUANTIZE_LINEAR_CHANNELS: Channels = Channels {
        batch: 1,
        channels: 64,
        pixels: 1,
    };

    const GEMM_61_QUANTIZE_LINEAR_REQUANTIZE: Requantize = Requantize {
        x_zero: -128,
        y_zero: 9,
        low: -128,
        high: 127,
    };

    const GEMM_61_DEQUANTIZE_LINEAR_SCALES: Scales = Scales {
        outer: 1,
        len: 12,
        inner: 1,
        block: 12,
        outer_step: 0,
        block_step: 0,
        inner_step: 0,
    };

    const N_SOFTMAX_63_AXIS: Axis = Axis {
        outer: 1,
        len: 12,
        inner: 1,
    };

    pub(super) static WEIGHTS: &Aligned<[u8; 28160]> = &Aligned(
        *include_bytes!("keywords_int8.weights"),
    );

    const _: () = ::onnxc_runtime::view::generated_by("0.1.0");
}
