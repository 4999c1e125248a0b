// The model mlp, compiled by onnxc 0.1.0.
// ONNX IR version 10; operator sets: ai.onnx 21; written by hand.

/// The model `mlp`.
///
/// Scores two classes.
///
/// | | name | type |
/// |---|---|---|
/// | input | `features` | `float[1, 3]` |
/// | output | `scores` | `float[1, 2]` |
///
/// - Parameters: 24
/// - Weights: 512 bytes
/// - Arena: 128 bytes
/// - Multiply-adds: 20
/// - license: CC0
/// - author: the tests
#[derive(Clone, Debug)]
pub struct Mlp {
    /// The caller's, or none for the program's: so a new model is nothing but zeros.
    weights: ::core::option::Option<::onnxc_runtime::arena::Weights>,
    arena: ::onnxc_runtime::arena::InlineArena<2>,
}

#[allow(dead_code, clippy::pedantic, clippy::nursery)]
impl Mlp {
    /// The bytes of memory that one run needs, beside what the caller gives.
    pub const PEAK_ARENA_BYTES: usize = 128;
    /// The bytes of all weights.
    pub const WEIGHT_BYTES: usize = 512;
    /// The multiply-adds of one run, where every size is known.
    pub const MACS: u64 = 20;

    /// The model with the weights that the program carries.
    pub const fn new() -> Mlp {
        Mlp {
            weights: ::core::option::Option::None,
            arena: ::onnxc_runtime::arena::InlineArena::new(),
        }
    }

    /// The model with weights that the caller has, in flash or mapped from a file.
    ///
    /// # Errors
    ///
    /// Where they are not as long as the model's, or start at no multiple of 16 bytes.
    pub fn with_weights(weights: &'static [u8]) -> ::onnxc_runtime::Result<Mlp> {
        let weights = ::onnxc_runtime::arena::Weights::from_bytes(
            weights,
            Mlp::WEIGHT_BYTES,
        )?;
        Ok(Mlp {
            weights: ::core::option::Option::Some(weights),
            arena: ::onnxc_runtime::arena::InlineArena::new(),
        })
    }

    /// Runs the model.
    pub fn infer(&mut self, features: &[f32; 3]) -> &[f32; 2] {
        mlp::infer(&self.weights(), self.arena.blocks(), features)
    }

    /// The weights.
    fn weights(&self) -> ::onnxc_runtime::arena::Weights {
        self.weights.unwrap_or(::onnxc_runtime::arena::Weights::new(mlp::WEIGHTS))
    }
}

impl ::core::default::Default for Mlp {
    fn default() -> Self {
        Self::new()
    }
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod mlp {
    use ::onnxc_runtime::{gemm, softmax};
    use ::onnxc_runtime::activation_fn::Activation;
    use ::onnxc_runtime::arena::{Aligned, Block, Slot, borrow};
    use ::onnxc_runtime::gemm::{Gemm, Layout};
    use ::onnxc_runtime::geometry::Axis;

    pub(super) fn infer<'a>(
        weights: &::onnxc_runtime::arena::Weights,
        arena: &'a mut [Block],
        features: &[f32],
    ) -> &'a [f32; 2] {
        // act: MatMul -> float[1, 4]
        let active = borrow(arena, ACTIVE.write());
        gemm::gemm_f32(
            features,
            weights.get(W1),
            Some(weights.get(WEIGHTS_)),
            active,
            &mut [],
            ACT_GEMM,
            Activation::Relu,
        );

        // second: MatMul -> float[1, 2]
        let (logits, active) = borrow(arena, (LOGITS.write(), ACTIVE.read()));
        gemm::gemm_f32(
            active,
            weights.get(W2),
            None,
            logits,
            &mut [],
            SECOND_GEMM,
            Activation::Identity,
        );

        // out: Softmax -> float[1, 2]
        let logits = borrow(arena, LOGITS.write());
        softmax::softmax_in_place(logits, OUT_AXIS);

        borrow(arena, LOGITS.array::<2>())
    }

    const W1: Slot<f32> = Slot::new(0, 48);
    const WEIGHTS_: Slot<f32> = Slot::new(192, 4);
    const ACTIVE: Slot<f32> = Slot::new(0, 4);
    const W2: Slot<f32> = Slot::new(256, 64);
    const LOGITS: Slot<f32> = Slot::new(64, 2);

    const ACT_GEMM: Gemm = Gemm {
        m: 1,
        n: 4,
        k: 3,
        a: Layout::Strides(3, 1),
        b: Layout::Packed,
        c: [0, 1],
        y_row: 4,
        alpha: 1.0,
        beta: 1.0,
    };

    const SECOND_GEMM: Gemm = Gemm {
        m: 1,
        n: 2,
        k: 4,
        a: Layout::Strides(4, 1),
        b: Layout::Packed,
        c: [0, 0],
        y_row: 2,
        alpha: 1.0,
        beta: 1.0,
    };

    const OUT_AXIS: Axis = Axis { outer: 1, len: 2, inner: 1 };

    pub(super) static WEIGHTS: &Aligned<[u8; 512]> = &Aligned(
        *include_bytes!("mlp.weights"),
    );

    const _: () = ::onnxc_runtime::view::generated_by("0.1.0");
}
