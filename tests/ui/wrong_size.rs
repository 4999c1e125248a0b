//! An input of two features for a model of three.

onnxc_macros::include_onnx!("models/mlp.onnxtxt");

pub fn scores(model: &mut Mlp) -> [f32; 2] {
    *model.infer(&[0.0, 1.0])
}
