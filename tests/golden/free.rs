// The model free, compiled by onnxc 0.1.0.
// ONNX IR version 10; operator sets: ai.onnx 21.

/// The model `free`.
///
/// | | name | type |
/// |---|---|---|
/// | input | `x` | `float[batch, 1, samples]` |
/// | input | `w` | `float[4, 1, 8]` |
/// | output | `y` | `float[batch, 4, (((samples - 1) / 4) / 2)]` |
///
/// - Parameters: 0
/// - Weights: 0 bytes
/// - Arena: 66560 bytes
#[derive(Clone, Debug)]
pub struct Free {
    /// The caller's, or none for the program's: so a new model is nothing but zeros.
    weights: ::core::option::Option<::onnxc_runtime::arena::Weights>,
    arena: ::onnxc_runtime::arena::HeapArena<1040>,
}

#[allow(dead_code, clippy::pedantic, clippy::nursery)]
impl Free {
    /// The bytes of memory that one run needs, beside what the caller gives.
    pub const PEAK_ARENA_BYTES: usize = 66560;
    /// The bytes of all weights.
    pub const WEIGHT_BYTES: usize = 0;
    /// The multiply-adds of one run, where every size is known.
    pub const MACS: u64 = 0;

    /// The model with the weights that the program carries.
    pub const fn new() -> Free {
        Free {
            weights: ::core::option::Option::None,
            arena: ::onnxc_runtime::arena::HeapArena::new(),
        }
    }

    /// The model with weights that the caller has, in flash or mapped from a file.
    ///
    /// # Errors
    ///
    /// Where they are not as long as the model's, or start at no multiple of 16 bytes.
    pub fn with_weights(weights: &'static [u8]) -> ::onnxc_runtime::Result<Free> {
        let weights = ::onnxc_runtime::arena::Weights::from_bytes(
            weights,
            Free::WEIGHT_BYTES,
        )?;
        Ok(Free {
            weights: ::core::option::Option::Some(weights),
            arena: ::onnxc_runtime::arena::HeapArena::new(),
        })
    }

    /// Runs the model.
    ///
    /// # Errors
    ///
    /// Where the inputs' sizes do not fit the model, or each other.
    pub fn infer(
        &mut self,
        x: ::onnxc_runtime::view::View<'_, f32, 3>,
        w: &[f32; 32],
    ) -> ::onnxc_runtime::Result<::onnxc_runtime::view::Tensor<f32, 3>> {
        free::infer(&self.weights(), self.arena.blocks(), x, w)
    }

    /// The weights.
    fn weights(&self) -> ::onnxc_runtime::arena::Weights {
        self.weights.unwrap_or(::onnxc_runtime::arena::Weights::new(free::WEIGHTS))
    }
}

impl ::core::default::Default for Free {
    fn default() -> Self {
        Self::new()
    }
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod free {
    use ::onnxc_runtime::{conv, pool};
    use ::onnxc_runtime::activation_fn::Activation;
    use ::onnxc_runtime::arena::{Aligned, Block, Slot, borrow, heap_of};
    use ::onnxc_runtime::conv::{Conv, Weights};
    use ::onnxc_runtime::pool::Pool;
    use ::onnxc_runtime::view::View;

    ::onnxc_runtime::needs_alloc!();

    pub(super) fn infer(
        weights: &::onnxc_runtime::arena::Weights,
        arena: &mut [Block],
        x: View<'_, f32, 3>,
        w: &[f32],
    ) -> ::onnxc_runtime::Result<::onnxc_runtime::view::Tensor<f32, 3>> {
        let batch = x.shape()[0];
        let samples = x.shape()[2];
        ::onnxc_runtime::view::check_size("x", 1, "1", 1, x.shape()[1])?;
        let x = x.data();
        ::onnxc_runtime::view::check_at_least("kept", samples, 1)?;

        // kept: Conv -> float[batch, 4, ((samples - 1) / 4)]
        let mut kept = heap_of::<f32>(&[4, batch, ((samples - 1) / 4)])?;
        let kept_scratch = borrow(arena, KEPT_SCRATCH.write());
        conv::conv_f32(
            x,
            w,
            None,
            None,
            &mut kept,
            kept_scratch,
            Conv {
                batch: batch,
                groups: 1,
                channels: 1,
                filters: 4,
                size: &[samples],
                out: &[((samples - 1) / 4)],
                kernel: &[8],
                strides: &[4],
                dilations: &[1],
                pads: &[3],
                weights: Weights::Plain,
            },
            Activation::Relu,
        );
        ::onnxc_runtime::view::check_at_least("y", ((samples - 1) / 4), 0)?;

        // y: MaxPool -> float[batch, 4, (((samples - 1) / 4) / 2)]
        let mut y = heap_of::<f32>(&[4, batch, (((samples - 1) / 4) / 2)])?;
        pool::max_pool(
            &kept,
            &mut y,
            Pool {
                planes: 4 * batch,
                size: &[((samples - 1) / 4)],
                out: &[(((samples - 1) / 4) / 2)],
                kernel: &[2],
                strides: &[2],
                dilations: &[1],
                pads: &[0],
                ends: &[0],
            },
        );

        Ok(::onnxc_runtime::view::Tensor::new([batch, 4, (((samples - 1) / 4) / 2)], y)?)
    }

    const KEPT_SCRATCH: Slot<f32> = Slot::new(0, 16636);

    pub(super) static WEIGHTS: &Aligned<[u8; 0]> = &Aligned(
        *include_bytes!("free.weights"),
    );

    const _: () = ::onnxc_runtime::view::generated_by("0.1.0");
}
