//! The shortest use, and the items that it expands to.
#![deny(warnings, missing_docs)]
#![no_std]

onnxc_macros::include_onnx!("models/mlp.onnxtxt");

/// The model in a `static`.
pub static MODEL: Mlp = Mlp::new();

/// The classes' scores.
pub fn scores(model: &mut Mlp) -> [f32; 2] {
    const { assert!(Mlp::PEAK_ARENA_BYTES > 0 && Mlp::WEIGHT_BYTES > 0 && Mlp::MACS > 0) };
    *model.infer(&[0.0, 1.0, 2.0])
}
