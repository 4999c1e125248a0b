// The model external, compiled by onnxc 0.1.0.
// ONNX IR version 10; operator sets: ai.onnx 21.

/// The model `external`.
///
/// | | name | type |
/// |---|---|---|
/// | input | `x` | `float[2]` |
/// | output | `y` | `float[2]` |
///
/// - Parameters: 2
/// - Weights: 64 bytes
/// - Arena: 64 bytes
#[derive(Clone, Debug)]
pub struct External {
    /// The caller's, or none for the program's: so a new model is nothing but zeros.
    weights: ::core::option::Option<::onnxc_runtime::arena::Weights>,
    arena: ::onnxc_runtime::arena::InlineArena<1>,
}

#[allow(dead_code, clippy::pedantic, clippy::nursery)]
impl External {
    /// The bytes of memory that one run needs, beside what the caller gives.
    pub const PEAK_ARENA_BYTES: usize = 64;
    /// The bytes of all weights.
    pub const WEIGHT_BYTES: usize = 64;
    /// The multiply-adds of one run, where every size is known.
    pub const MACS: u64 = 0;

    /// The model with the weights that the program carries.
    pub const fn new() -> External {
        External {
            weights: ::core::option::Option::None,
            arena: ::onnxc_runtime::arena::InlineArena::new(),
        }
    }

    /// The model with weights that the caller has, in flash or mapped from a file.
    ///
    /// # Errors
    ///
    /// Where they are not as long as the model's, or start at no multiple of 16 bytes.
    pub fn with_weights(weights: &'static [u8]) -> ::onnxc_runtime::Result<External> {
        let weights = ::onnxc_runtime::arena::Weights::from_bytes(
            weights,
            External::WEIGHT_BYTES,
        )?;
        Ok(External {
            weights: ::core::option::Option::Some(weights),
            arena: ::onnxc_runtime::arena::InlineArena::new(),
        })
    }

    /// Runs the model.
    pub fn infer(&mut self, x: &[f32; 2]) -> &[f32; 2] {
        external::infer(&self.weights(), self.arena.blocks(), x)
    }

    /// The weights.
    fn weights(&self) -> ::onnxc_runtime::arena::Weights {
        self.weights.unwrap_or(::onnxc_runtime::arena::Weights::new(external::WEIGHTS))
    }
}

impl ::core::default::Default for External {
    fn default() -> Self {
        Self::new()
    }
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod external {
    use ::onnxc_runtime::binary;
    use ::onnxc_runtime::arena::{Aligned, Block, Slot, borrow};
    use ::onnxc_runtime::geometry::Broadcast;

    pub(super) fn infer<'a>(
        weights: &::onnxc_runtime::arena::Weights,
        arena: &'a mut [Block],
        x: &[f32],
    ) -> &'a [f32; 2] {
        // y: Mul -> float[2]
        let y = borrow(arena, Y.write());
        binary::mul(x, weights.get(W), y, Y_BROADCAST);

        borrow(arena, Y.array::<2>())
    }

    const W: Slot<f32> = Slot::new(0, 2);
    const Y: Slot<f32> = Slot::new(0, 2);

    const Y_BROADCAST: Broadcast = Broadcast {
        sizes: &[2],
        a: &[1],
        b: &[1],
    };

    pub(super) static WEIGHTS: &Aligned<[u8; 64]> = &Aligned(
        *include_bytes!("external.weights"),
    );

    const _: () = ::onnxc_runtime::view::generated_by("0.1.0");
}
