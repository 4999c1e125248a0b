// The model defaults, compiled by onnxc 0.1.0.
// ONNX IR version 10; operator sets: ai.onnx 21.

/// The model `defaults`.
///
/// | | name | type |
/// |---|---|---|
/// | input | `x` | `float[2, n]` |
/// | input | `scale` | `float`; by default `2.0` |
/// | input | `offset` | `float[2, 1]`; by default `[1.0, -1.0]` |
/// | input | `bias` | `float[n]`; by default `[0.5, 0.25, 0.125]` |
/// | input | `labels` | `string[2]`; by default `["low", "high"]` |
/// | output | `y` | `float[2, n]` |
/// | output | `twice` | `string[2]` |
///
/// - Parameters: 8
/// - Weights: 192 bytes
/// - Arena: 0 bytes
#[derive(Clone, Debug)]
pub struct Defaults {
    /// The caller's, or none for the program's: so a new model is nothing but zeros.
    weights: ::core::option::Option<::onnxc_runtime::arena::Weights>,
    arena: ::onnxc_runtime::arena::InlineArena<0>,
    strings: ::onnxc_runtime::strings::Strings<1>,
}

#[allow(dead_code, clippy::pedantic, clippy::nursery)]
impl Defaults {
    /// The bytes of memory that one run needs, beside what the caller gives.
    pub const PEAK_ARENA_BYTES: usize = 0;
    /// The bytes of all weights.
    pub const WEIGHT_BYTES: usize = 192;
    /// The multiply-adds of one run, where every size is known.
    pub const MACS: u64 = 0;

    /// The model with the weights that the program carries.
    pub const fn new() -> Defaults {
        Defaults {
            weights: ::core::option::Option::None,
            arena: ::onnxc_runtime::arena::InlineArena::new(),
            strings: ::onnxc_runtime::strings::Strings::new(),
        }
    }

    /// The model with weights that the caller has, in flash or mapped from a file.
    ///
    /// # Errors
    ///
    /// Where they are not as long as the model's, or start at no multiple of 16 bytes.
    pub fn with_weights(weights: &'static [u8]) -> ::onnxc_runtime::Result<Defaults> {
        let weights = ::onnxc_runtime::arena::Weights::from_bytes(
            weights,
            Defaults::WEIGHT_BYTES,
        )?;
        Ok(Defaults {
            weights: ::core::option::Option::Some(weights),
            arena: ::onnxc_runtime::arena::InlineArena::new(),
            strings: ::onnxc_runtime::strings::Strings::new(),
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
        scale: ::core::option::Option<f32>,
        offset: ::core::option::Option<&[f32; 2]>,
        bias: ::core::option::Option<::onnxc_runtime::view::View<'_, f32, 1>>,
        labels: ::core::option::Option<&[::onnxc_runtime::String; 2]>,
    ) -> ::onnxc_runtime::Result<DefaultsOutput> {
        defaults::infer(
            &self.weights(),
            self.arena.blocks(),
            self.strings.of(&defaults::STRINGS),
            x,
            scale,
            offset,
            bias,
            labels,
        )
    }

    /// The weights.
    fn weights(&self) -> ::onnxc_runtime::arena::Weights {
        self.weights.unwrap_or(::onnxc_runtime::arena::Weights::new(defaults::WEIGHTS))
    }
}

impl ::core::default::Default for Defaults {
    fn default() -> Self {
        Self::new()
    }
}

/// What [`Defaults`] gives.
#[allow(dead_code)]
#[derive(Clone, Debug)]
pub struct DefaultsOutput {
    /// `y`: `float[2, n]`
    pub y: ::onnxc_runtime::view::Tensor<f32, 2>,
    /// `twice`: `string[2]`
    pub twice: ::onnxc_runtime::view::Tensor<::onnxc_runtime::String, 1>,
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod defaults {
    use ::onnxc_runtime::{binary, text};
    use ::onnxc_runtime::arena::{Aligned, Block, Slot, heap, heap_of};
    use ::onnxc_runtime::geometry::Broadcast;
    use ::onnxc_runtime::view::View;

    ::onnxc_runtime::needs_alloc!();

    pub(super) fn infer(
        weights: &::onnxc_runtime::arena::Weights,
        arena: &mut [Block],
        strings: &::onnxc_runtime::strings::Constants<1>,
        x: View<'_, f32, 2>,
        scale: ::core::option::Option<f32>,
        offset: ::core::option::Option<&[f32; 2]>,
        bias: ::core::option::Option<::onnxc_runtime::view::View<'_, f32, 1>>,
        labels: ::core::option::Option<&[::onnxc_runtime::String; 2]>,
    ) -> ::onnxc_runtime::Result<super::DefaultsOutput> {
        let n = x.shape()[1];
        let scale = scale
            .as_ref()
            .map_or(weights.get(SCALE_DEFAULT), ::core::slice::from_ref);
        let offset = offset.map_or(weights.get(OFFSET_DEFAULT), |offset| &offset[..]);
        let bias = bias.unwrap_or(View::new([3], weights.get(BIAS_DEFAULT))?);
        let labels = labels.map_or(&strings[0][..], |labels| &labels[..]);
        ::onnxc_runtime::view::check_size("x", 0, "2", 2, x.shape()[0])?;
        let x = x.data();
        ::onnxc_runtime::view::check_size("bias", 0, "n", n, bias.shape()[0])?;
        let bias = bias.data();

        // scaled: Mul -> float[2, n]
        let mut scaled = heap_of::<f32>(&[2, n])?;
        binary::mul(
            x,
            scale,
            &mut scaled,
            Broadcast {
                sizes: &[2 * n],
                a: &[1],
                b: &[0],
            },
        );

        // moved: Add -> float[2, n]
        let mut moved = heap_of::<f32>(&[2, n])?;
        binary::add(
            &scaled,
            offset,
            &mut moved,
            Broadcast {
                sizes: &[2, n],
                a: &[n, 1],
                b: &[1, 0],
            },
        );

        // y: Add -> float[2, n]
        let mut y = heap_of::<f32>(&[2, n])?;
        binary::add(
            &moved,
            bias,
            &mut y,
            Broadcast {
                sizes: &[2, n],
                a: &[n, 1],
                b: &[0, 1],
            },
        );

        // twice: StringConcat -> string[2]
        let mut twice = heap::<::onnxc_runtime::String>(2);
        text::string_concat(labels, labels, &mut twice, TWICE_BROADCAST);

        Ok(super::DefaultsOutput {
            y: ::onnxc_runtime::view::Tensor::new([2, n], y)?,
            twice: ::onnxc_runtime::view::Tensor::new([2], twice)?,
        })
    }

    const SCALE_DEFAULT: Slot<f32> = Slot::new(0, 1);
    const OFFSET_DEFAULT: Slot<f32> = Slot::new(64, 2);
    const BIAS_DEFAULT: Slot<f32> = Slot::new(128, 3);

    const TWICE_BROADCAST: Broadcast = Broadcast {
        sizes: &[2],
        a: &[1],
        b: &[1],
    };

    pub(super) static STRINGS: [&[&str]; 1] = [&["low", "high"]];

    pub(super) static WEIGHTS: &Aligned<[u8; 192]> = &Aligned(
        *include_bytes!("defaults.weights"),
    );

    const _: () = ::onnxc_runtime::view::generated_by("0.1.0");
}
