// The model stream, compiled by onnxc 0.1.0.
// ONNX IR version 10; operator sets: ai.onnx 21.

/// The model `stream`.
///
/// | | name | type |
/// |---|---|---|
/// | input | `x` | `float[1, 1, 2]` |
/// | output | `y` | `float[1, 1, 1, 3]` |
/// | state | `h` → `h_next` | `float[1, 1, 3]`; at first `[0.5, -0.5, 0.25]` |
/// | state | `past` → `sum` | `float[1, 1, 3]`; at first zeros |
///
/// - Parameters: 48
/// - Weights: 576 bytes
/// - Arena: 768 bytes
/// - Multiply-adds: 45
#[derive(Clone, Debug)]
pub struct Stream {
    /// The caller's, or none for the program's: so a new model is nothing but zeros.
    weights: ::core::option::Option<::onnxc_runtime::arena::Weights>,
    arena: ::onnxc_runtime::arena::InlineArena<12>,
    /// The sizes of the state, once there is one.
    held: ::core::option::Option<[usize; 0]>,
}

#[allow(dead_code, clippy::pedantic, clippy::nursery)]
impl Stream {
    /// The bytes of memory that one run needs, beside what the caller gives.
    pub const PEAK_ARENA_BYTES: usize = 768;
    /// The bytes of all weights.
    pub const WEIGHT_BYTES: usize = 576;
    /// The multiply-adds of one run, where every size is known.
    pub const MACS: u64 = 45;

    /// The model with the weights that the program carries.
    pub const fn new() -> Stream {
        Stream {
            weights: ::core::option::Option::None,
            arena: ::onnxc_runtime::arena::InlineArena::new(),
            held: ::core::option::Option::None,
        }
    }

    /// The model with weights that the caller has, in flash or mapped from a file.
    ///
    /// # Errors
    ///
    /// Where they are not as long as the model's, or start at no multiple of 16 bytes.
    pub fn with_weights(weights: &'static [u8]) -> ::onnxc_runtime::Result<Stream> {
        let weights = ::onnxc_runtime::arena::Weights::from_bytes(
            weights,
            Stream::WEIGHT_BYTES,
        )?;
        Ok(Stream {
            weights: ::core::option::Option::Some(weights),
            arena: ::onnxc_runtime::arena::InlineArena::new(),
            held: ::core::option::Option::None,
        })
    }

    /// Forgets what earlier runs left: the next one is again the first.
    pub fn reset(&mut self) {
        self.held = ::core::option::Option::None;
    }

    /// Runs the model.
    ///
    /// # Errors
    ///
    /// Where a node refuses what it is given, such as an index outside an axis.
    /// An error in the middle of a run resets the model.
    pub fn infer(&mut self, x: &[f32; 2]) -> ::onnxc_runtime::Result<&[f32; 3]> {
        stream::infer(&self.weights(), self.arena.blocks(), &mut self.held, x)
    }

    /// The weights.
    fn weights(&self) -> ::onnxc_runtime::arena::Weights {
        self.weights.unwrap_or(::onnxc_runtime::arena::Weights::new(stream::WEIGHTS))
    }
}

impl ::core::default::Default for Stream {
    fn default() -> Self {
        Self::new()
    }
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod stream {
    use ::onnxc_runtime::{binary, reshape, rnn};
    use ::onnxc_runtime::activation_fn::Activation;
    use ::onnxc_runtime::arena::{Aligned, Block, Slot, borrow};
    use ::onnxc_runtime::geometry::Broadcast;
    use ::onnxc_runtime::rnn::{Direction, Gru, Order, Sequence};

    pub(super) fn infer<'a>(
        weights: &::onnxc_runtime::arena::Weights,
        arena: &'a mut [Block],
        held: &mut ::core::option::Option<[usize; 0]>,
        x: &[f32],
    ) -> ::onnxc_runtime::Result<&'a [f32; 3]> {
        if held.take().is_none() {
            borrow(arena, H.write()).copy_from_slice(weights.get(H_DEFAULT));
            borrow(arena, PAST.write()).fill_with(Default::default);
        }

        // y: GRU -> float[1, 1, 1, 3], float[1, 1, 3]
        let (y, h_next, y_scratch, h) = borrow(
            arena,
            (Y.write(), H_NEXT.write(), Y_SCRATCH.write(), H.read()),
        );
        rnn::gru_f32(
            x,
            weights.get(W),
            weights.get(R),
            None,
            None,
            Some(h),
            Some(y),
            Some(h_next),
            y_scratch,
            Y_GRU,
        )?;

        // sum: Add -> float[1, 1, 3]
        let (past, h_next) = borrow(arena, (PAST.write(), H_NEXT.read()));
        binary::add_in_place(past, h_next, SUM_BROADCAST);

        // h_next: kept for the next run
        let (h, h_next) = borrow(arena, (H.write(), H_NEXT.read()));
        reshape::identity(h_next, h);
        *held = Some([]);

        let y = borrow(arena, Y.array::<3>());
        Ok(y)
    }

    const H: Slot<f32> = Slot::new(512, 3);
    const H_DEFAULT: Slot<f32> = Slot::new(0, 3);
    const PAST: Slot<f32> = Slot::new(576, 3);
    const W: Slot<f32> = Slot::new(64, 32);
    const R: Slot<f32> = Slot::new(192, 96);
    const Y: Slot<f32> = Slot::new(640, 3);
    const H_NEXT: Slot<f32> = Slot::new(704, 3);
    const Y_SCRATCH: Slot<f32> = Slot::new(0, 113);

    const Y_GRU: Gru = Gru {
        sequence: Sequence {
            steps: 1,
            batch: 1,
            inputs: 2,
            hidden: 3,
            direction: Direction::Forward,
            order: Order::StepsFirst,
            clip: f32::INFINITY,
            weights: rnn::Weights::Packed,
        },
        activations: [
            [Activation::Sigmoid, Activation::Tanh],
            [Activation::Sigmoid, Activation::Tanh],
        ],
        linear_before_reset: false,
    };

    const SUM_BROADCAST: Broadcast = Broadcast {
        sizes: &[3],
        a: &[1],
        b: &[1],
    };

    pub(super) static WEIGHTS: &Aligned<[u8; 576]> = &Aligned(
        *include_bytes!("stream.weights"),
    );

    const _: () = ::onnxc_runtime::view::generated_by("0.1.0");
}
