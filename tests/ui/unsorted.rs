//! A model that compiles with a warning.

onnxc_macros::include_onnx!("models/unsorted.onnxtxt");

pub fn run(x: &[f32; 2]) -> [f32; 2] {
    *Unsorted::new().infer(x)
}
