//! The options of a plan.

/// The optimization goal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Optimize {
    /// Speed: kernels use scratch memory, and constant operands are packed.
    #[default]
    Speed,
    /// Size: simple loops over unpacked weights.
    Size,
}

/// The precision in which constant weights of matrix products, convolutions, recurrent networks and
/// tables are stored. Accumulators are `f32` in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// That of the model.
    #[default]
    Full,
    /// `bfloat16`.
    Bf16,
    /// `float16`.
    F16,
    /// `int8` with a scale for each channel.
    Int8Weights,
}
