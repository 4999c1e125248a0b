//! The options of a plan.

/// What matters most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Optimize {
    /// Time: kernels take scratch memory, and constant factors are packed.
    #[default]
    Speed,
    /// Space: simple loops over weights as they are.
    Size,
}

/// In how many bits the constant weights of products, convolutions, recurrent networks and tables
/// stand. Sums are those of `float` in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// As many as in the model.
    #[default]
    Full,
    /// `bfloat16`.
    Bf16,
    /// `float16`.
    F16,
    /// Bytes, times a factor for each channel.
    Int8Weights,
}
