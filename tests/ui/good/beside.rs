//! A model next to the file, not in the folder of the package.
#![deny(warnings)]

onnxc_macros::include_onnx!("beside.onnxtxt");

pub fn run() -> f32 {
    Beside::default().infer(&[0.0; 3])[0]
}
