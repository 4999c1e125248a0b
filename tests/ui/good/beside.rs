//! A model that lies beside the file, not in the package's folder.
#![deny(warnings)]

onnxc_macros::include_onnx!("beside.onnxtxt");

pub fn run() -> f32 {
    Beside::default().infer(&[0.0; 3])[0]
}
