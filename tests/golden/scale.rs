// The model scale, compiled by onnxc 0.1.0.
// ONNX IR version 10; operator sets: ai.onnx 21.

/// The model `scale`.
///
/// | | name | type |
/// |---|---|---|
/// | input | `x` | `float[batch, sequence_length]` |
/// | input | `by` | `float` |
/// | input | `keep` | `bool` |
/// | output | `y` | `float[batch, sequence_length]` |
///
/// - Parameters: 0
/// - Weights: 0 bytes
/// - Arena: 0 bytes
#[derive(Clone, Debug)]
pub struct Scale {
    /// The caller's, or none for the program's: so a new model is nothing but zeros.
    weights: ::core::option::Option<::onnxc_runtime::arena::Weights>,
    arena: ::onnxc_runtime::arena::InlineArena<0>,
}

#[allow(dead_code, clippy::pedantic, clippy::nursery)]
impl Scale {
    /// The bytes of memory that one run needs, beside what the caller gives.
    pub const PEAK_ARENA_BYTES: usize = 0;
    /// The bytes of all weights.
    pub const WEIGHT_BYTES: usize = 0;
    /// The multiply-adds of one run, where every size is known.
    pub const MACS: u64 = 0;

    /// The model with the weights that the program carries.
    pub const fn new() -> Scale {
        Scale {
            weights: ::core::option::Option::None,
            arena: ::onnxc_runtime::arena::InlineArena::new(),
        }
    }

    /// The model with weights that the caller has, in flash or mapped from a file.
    ///
    /// # Errors
    ///
    /// Where they are not as long as the model's, or start at no multiple of 16 bytes.
    pub fn with_weights(weights: &'static [u8]) -> ::onnxc_runtime::Result<Scale> {
        let weights = ::onnxc_runtime::arena::Weights::from_bytes(
            weights,
            Scale::WEIGHT_BYTES,
        )?;
        Ok(Scale {
            weights: ::core::option::Option::Some(weights),
            arena: ::onnxc_runtime::arena::InlineArena::new(),
        })
    }

    /// Runs the model.
    ///
    /// # Errors
    ///
    /// Where the inputs' sizes do not fit the model, or each other.
    pub fn infer(
        &mut self,
        x: ::onnxc_runtime::view::View<'_, f32, 2>,
        by: f32,
        keep: bool,
    ) -> ::onnxc_runtime::Result<::onnxc_runtime::view::Tensor<f32, 2>> {
        scale::infer(&self.weights(), self.arena.blocks(), x, &[by], &[keep])
    }

    /// The weights.
    fn weights(&self) -> ::onnxc_runtime::arena::Weights {
        self.weights.unwrap_or(::onnxc_runtime::arena::Weights::new(scale::WEIGHTS))
    }
}

impl ::core::default::Default for Scale {
    fn default() -> Self {
        Self::new()
    }
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod scale {
    use ::onnxc_runtime::{binary, compare};
    use ::onnxc_runtime::arena::{Aligned, Block, heap_of};
    use ::onnxc_runtime::geometry::{Broadcast, Broadcast3};
    use ::onnxc_runtime::view::View;

    ::onnxc_runtime::needs_alloc!();

    pub(super) fn infer(
        weights: &::onnxc_runtime::arena::Weights,
        arena: &mut [Block],
        x: View<'_, f32, 2>,
        by: &[f32],
        keep: &[bool],
    ) -> ::onnxc_runtime::Result<::onnxc_runtime::view::Tensor<f32, 2>> {
        let batch = x.shape()[0];
        let sequence_length = x.shape()[1];
        let x = x.data();

        // scaled: Mul -> float[batch, sequence_length]
        let mut scaled = heap_of::<f32>(&[batch, sequence_length])?;
        binary::mul(
            x,
            by,
            &mut scaled,
            Broadcast {
                sizes: &[batch * sequence_length],
                a: &[1],
                b: &[0],
            },
        );

        // y: Where -> float[batch, sequence_length]
        let mut y = heap_of::<f32>(&[batch, sequence_length])?;
        compare::where_(
            keep,
            x,
            &scaled,
            &mut y,
            Broadcast3 {
                sizes: &[batch * sequence_length],
                a: &[0],
                b: &[1],
                c: &[1],
            },
        );

        Ok(::onnxc_runtime::view::Tensor::new([batch, sequence_length], y)?)
    }

    pub(super) static WEIGHTS: &Aligned<[u8; 0]> = &Aligned(
        *include_bytes!("scale.weights"),
    );

    const _: () = ::onnxc_runtime::view::generated_by("0.1.0");
}
