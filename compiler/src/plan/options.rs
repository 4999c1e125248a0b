//! The options of a plan.

use crate::choice::choices;

/// The optimization goal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Optimize {
    /// Speed: kernels use scratch memory, and constant operands are packed.
    #[default]
    Speed,
    /// Size: simple loops over unpacked weights.
    Size,
}

choices! { Optimize:
    Speed "speed" "Speed: kernels use scratch memory, and constant operands are packed";
    Size "size" "Size: simple loops over unpacked weights";
}

/// The memory of a buffer whose size is free: unbounded, but known when a run starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FreeSizes {
    /// An arena that each run lays out for its sizes.
    #[default]
    Arena,
    /// A vector of its own, next to an arena of a fixed size.
    Heap,
}

/// The precision in which constant weights of matrix products, convolutions, recurrent networks and
/// tables are stored. Accumulators are `f32` in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// The precision of the model.
    #[default]
    Full,
    /// `bfloat16`.
    Bf16,
    /// `float16`.
    F16,
    /// `int8` with a scale for each channel.
    Int8Weights,
}

choices! { Precision:
    Full "full" "That of the model";
    Bf16 "bf16" "`bfloat16`";
    F16 "f16" "`float16`";
    Int8Weights "int8-weights" "`int8` with a scale for each channel";
}
