// The model custom, compiled by onnxc 0.1.0.
// ONNX IR version 10; operator sets: ai.onnx 21, com.acme 1.

/// The model `custom`.
///
/// | | name | type |
/// |---|---|---|
/// | input | `x` | `float[n, 3]` |
/// | output | `y` | `float[n, 3]` |
/// | output | `norm` | `float[n]` |
///
/// - Parameters: 0
/// - Weights: 0 bytes
/// - Arena: 0 bytes
/// - `com.acme.Clip` is `crate::clip`: `fn(View<f32, 2>, ViewMut<f32, 2>, Attributes) -> Result`
/// - `com.acme.Mix` is `crate::mix`: `fn(View<f32, 2>, Option<View<f32, 2>>, ViewMut<f32, 2>, Attributes) -> Result`
/// - `com.acme.Norm` is `crate::norm`: `fn(View<f32, 2>, ViewMut<f32, 1>, Attributes) -> Result`
#[derive(Clone, Debug)]
pub struct Custom {
    /// The caller's, or none for the program's: so a new model is nothing but zeros.
    weights: ::core::option::Option<::onnxc_runtime::arena::Weights>,
    arena: ::onnxc_runtime::arena::InlineArena<0>,
}

#[allow(dead_code, clippy::pedantic, clippy::nursery)]
impl Custom {
    /// The bytes of memory that one run needs, beside what the caller gives.
    pub const PEAK_ARENA_BYTES: usize = 0;
    /// The bytes of all weights.
    pub const WEIGHT_BYTES: usize = 0;
    /// The multiply-adds of one run, where every size is known.
    pub const MACS: u64 = 0;

    /// The model with the weights that the program carries.
    pub const fn new() -> Custom {
        Custom {
            weights: ::core::option::Option::None,
            arena: ::onnxc_runtime::arena::InlineArena::new(),
        }
    }

    /// The model with weights that the caller has, in flash or mapped from a file.
    ///
    /// # Errors
    ///
    /// Where they are not as long as the model's, or start at no multiple of 16 bytes.
    pub fn with_weights(weights: &'static [u8]) -> ::onnxc_runtime::Result<Custom> {
        let weights = ::onnxc_runtime::arena::Weights::from_bytes(
            weights,
            Custom::WEIGHT_BYTES,
        )?;
        Ok(Custom {
            weights: ::core::option::Option::Some(weights),
            arena: ::onnxc_runtime::arena::InlineArena::new(),
        })
    }

    /// Runs the model.
    ///
    /// # Errors
    ///
    /// Where the inputs' sizes do not fit the model, or each other.
    /// Where a node refuses what it is given, such as an index outside an axis.
    pub fn infer(
        &mut self,
        x: ::onnxc_runtime::view::View<'_, f32, 2>,
    ) -> ::onnxc_runtime::Result<CustomOutput> {
        custom::infer(&self.weights(), self.arena.blocks(), x)
    }

    /// The weights.
    fn weights(&self) -> ::onnxc_runtime::arena::Weights {
        self.weights.unwrap_or(::onnxc_runtime::arena::Weights::new(custom::WEIGHTS))
    }
}

impl ::core::default::Default for Custom {
    fn default() -> Self {
        Self::new()
    }
}

/// What [`Custom`] gives.
#[allow(dead_code)]
#[derive(Clone, Debug)]
pub struct CustomOutput {
    /// `y`: `float[n, 3]`
    pub y: ::onnxc_runtime::view::Tensor<f32, 2>,
    /// `norm`: `float[n]`
    pub norm: ::onnxc_runtime::view::Tensor<f32, 1>,
}

#[allow(clippy::all, clippy::pedantic, clippy::nursery)]
#[allow(elided_lifetimes_in_paths, unused_parens, unused_variables)]
mod custom {
    use ::onnxc_runtime::arena::{Aligned, Block, heap_of};
    use ::onnxc_runtime::custom::{Attribute, Attributes};
    use ::onnxc_runtime::view::{View, ViewMut};

    ::onnxc_runtime::needs_alloc!();

    pub(super) fn infer(
        weights: &::onnxc_runtime::arena::Weights,
        arena: &mut [Block],
        x: View<'_, f32, 2>,
    ) -> ::onnxc_runtime::Result<super::CustomOutput> {
        let n = x.shape()[0];
        ::onnxc_runtime::view::check_size("x", 1, "3", 3, x.shape()[1])?;
        let x = x.data();

        // clip: com.acme.Clip -> float[n, 3]
        let mut clipped = heap_of::<f32>(&[3, n])?;
        crate::clip(
            View::new([n, 3], x)?,
            ViewMut::new([n, 3], &mut clipped)?,
            CLIP_ATTRIBUTES,
        )?;

        // once: com.acme.Mix -> float[n, 3]
        let mut twice = heap_of::<f32>(&[3, n])?;
        crate::mix(
            View::new([n, 3], &clipped)?,
            None,
            ViewMut::new([n, 3], &mut twice)?,
            Attributes::new(&[]),
        )?;

        // again: com.acme.Mix -> float[n, 3]
        let mut y = heap_of::<f32>(&[3, n])?;
        crate::mix(
            View::new([n, 3], &twice)?,
            Some(View::new([n, 3], x)?),
            ViewMut::new([n, 3], &mut y)?,
            Attributes::new(&[]),
        )?;

        // length: com.acme.Norm -> float[n]
        let mut norm = heap_of::<f32>(&[n])?;
        crate::norm(
            View::new([n, 3], &y)?,
            ViewMut::new([n], &mut norm)?,
            Attributes::new(&[]),
        )?;

        Ok(super::CustomOutput {
            y: ::onnxc_runtime::view::Tensor::new([n, 3], y)?,
            norm: ::onnxc_runtime::view::Tensor::new([n], norm)?,
        })
    }

    const CLIP_ATTRIBUTES: Attributes = Attributes::new(
        &[
            ("axes", Attribute::Ints(&[0, 1])),
            ("mode", Attribute::String("hard")),
            ("most", Attribute::Float(1.5)),
        ],
    );

    pub(super) static WEIGHTS: &Aligned<[u8; 0]> = &Aligned(
        *include_bytes!("custom.weights"),
    );

    const _: () = ::onnxc_runtime::view::generated_by("0.1.0");
}
