// The model cache, compiled by onnxc 0.1.0.
// ONNX IR version 10; operator sets: ai.onnx 21.

/// The model `cache`.
///
/// | | name | type |
/// |---|---|---|
/// | input | `q` | `float[1, 2, 1, 4]` |
/// | input | `k` | `float[1, 2, 1, 4]` |
/// | input | `v` | `float[1, 2, 1, 4]` |
/// | output | `y` | `float[1, 2, 1, 4]` |
/// | state | `past_k` → `present_k` | `float[1, 2, past, 4]`; at first zeros |
/// | state | `past_v` → `present_v` | `float[1, 2, past, 4]`; at first zeros |
///
/// - Parameters: 0
/// - Weights: 0 bytes
/// - Arena: 9152 bytes
#[derive(Clone, Debug)]
pub struct Cache {
    /// The caller's, or none for the program's: so a new model is nothing but zeros.
    weights: ::core::option::Option<::onnxc_runtime::arena::Weights>,
    arena: ::onnxc_runtime::arena::InlineArena<143>,
    /// The sizes of the state, once there is one.
    held: ::core::option::Option<[usize; 2]>,
}

#[allow(dead_code, clippy::pedantic, clippy::nursery)]
impl Cache {
    /// The bytes of memory that one run needs, beside what the caller gives.
    pub const PEAK_ARENA_BYTES: usize = 9152;
    /// The bytes of all weights.
    pub const WEIGHT_BYTES: usize = 0;
    /// The multiply-adds of one run, where every size is known.
    pub const MACS: u64 = 0;

    /// The model with the weights that the program carries.
    pub const fn new() -> Cache {
        Cache {
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
    pub fn with_weights(weights: &'static [u8]) -> ::onnxc_runtime::Result<Cache> {
        let weights = ::onnxc_runtime::arena::Weights::from_bytes(
            weights,
            Cache::WEIGHT_BYTES,
        )?;
        Ok(Cache {
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
    /// Where the inputs' sizes do not fit the model, or each other.
    /// An error in the middle of a run resets the model.
    pub fn infer(
        &mut self,
        q: &[f32; 8],
        k: &[f32; 8],
        v: &[f32; 8],
    ) -> ::onnxc_runtime::Result<&[f32; 8]> {
        cache::infer(&self.weights(), self.arena.blocks(), &mut self.held, q, k, v)
    }

    /// The weights.
    fn weights(&self) -> ::onnxc_runtime::arena::Weights {
        self.weights.unwrap_or(::onnxc_runtime::arena::Weights::new(cache::WEIGHTS))
    }
}

impl ::core::default::Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod cache {
    use ::onnxc_runtime::{attention, reshape};
    use ::onnxc_runtime::arena::{Aligned, Block, Slot, borrow};
    use ::onnxc_runtime::attention::{Attention, Precision, Stage};

    pub(super) fn infer<'a>(
        weights: &::onnxc_runtime::arena::Weights,
        arena: &'a mut [Block],
        held: &mut ::core::option::Option<[usize; 2]>,
        q: &[f32],
        k: &[f32],
        v: &[f32],
    ) -> ::onnxc_runtime::Result<&'a [f32; 8]> {
        let [past, past_v_2] = held.unwrap_or([0, 0]);
        ::onnxc_runtime::view::check_bound("past", 7, past)?;
        ::onnxc_runtime::view::check_size("past_v", 2, "past", past, past_v_2)?;
        if held.take().is_none() {
            borrow(arena, PAST_K.part(0, 8 * past).write()).fill_with(Default::default);
            borrow(arena, PAST_V.part(0, 8 * past).write()).fill_with(Default::default);
        }

        // y: Attention -> float[1, 2, 1, 4], float[1, 2, past + 1, 4], float[1, 2, past + 1, 4]
        let (y, present_k, present_v, y_scratch, past_k, past_v) = borrow(
            arena,
            (
                Y.write(),
                PRESENT_K.part(0, 8 * past + 8).write(),
                PRESENT_V.part(0, 8 * past + 8).write(),
                Y_SCRATCH.part(0, 104 * past + 1288).write(),
                PAST_K.part(0, 8 * past).read(),
                PAST_V.part(0, 8 * past).read(),
            ),
        );
        attention::attention_cached_f32(
            q,
            k,
            v,
            Some(past_k),
            Some(past_v),
            None,
            None,
            y,
            present_k,
            present_v,
            y_scratch,
            Attention {
                batch: 1,
                heads: 2,
                group: 1,
                queries: 1,
                keys: past + 1,
                depth: 4,
                width: 4,
                q: [8, 4, 4],
                k: [8, 4, 4],
                v: [8, 4, 4],
                y: [8, 4, 4],
                mask: [0, 0, 0],
                mask_len: past + 1,
                past: past,
                left: None,
                right: None,
                scale: Some(1.0),
                softcap: 0.0,
                precision: Precision::Wide,
                stage: Stage::Products,
                rows: 96,
            },
        );

        // present_k: kept for the next run
        let (past_k, present_k) = borrow(
            arena,
            (
                PAST_K.part(0, 8 * past + 8).write(),
                PRESENT_K.part(0, 8 * past + 8).read(),
            ),
        );
        reshape::identity(present_k, past_k);

        // present_v: kept for the next run
        let (past_v, present_v) = borrow(
            arena,
            (
                PAST_V.part(0, 8 * past + 8).write(),
                PRESENT_V.part(0, 8 * past + 8).read(),
            ),
        );
        reshape::identity(present_v, past_v);
        *held = Some([past + 1, past + 1]);

        let y = borrow(arena, Y.array::<8>());
        Ok(y)
    }

    const PAST_K: Slot<f32> = Slot::new(8064, 64);
    const PAST_V: Slot<f32> = Slot::new(8320, 64);
    const Y: Slot<f32> = Slot::new(9088, 8);
    const PRESENT_K: Slot<f32> = Slot::new(8576, 64);
    const PRESENT_V: Slot<f32> = Slot::new(8832, 64);
    const Y_SCRATCH: Slot<f32> = Slot::new(0, 2016);

    pub(super) static WEIGHTS: &Aligned<[u8; 0]> = &Aligned(
        *include_bytes!("cache.weights"),
    );

    const _: () = ::onnxc_runtime::view::generated_by("0.1.0");
}
