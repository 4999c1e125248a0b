//! The same model with narrower weights, which 16 bits represent exactly.

mod whole {
    onnxc_macros::include_onnx!("models/mlp.onnxtxt");
}
mod bf16 {
    onnxc_macros::include_onnx!("models/mlp.onnxtxt", precision = bf16);
}
mod f16 {
    onnxc_macros::include_onnx!("models/mlp.onnxtxt", precision = f16);
}
mod bytes {
    onnxc_macros::include_onnx!("models/mlp.onnxtxt", precision = int8_weights);
}

fn main() {
    let features = [0.3, -1.2, 0.7];
    let near = |a: &[f32; 2], b: &[f32; 2], most: f32| {
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < most), "{a:?} is not {b:?}");
    };
    let mut whole = whole::Mlp::new();
    let scores = whole.infer(&features);
    near(bf16::Mlp::new().infer(&features), scores, 1e-6);
    near(f16::Mlp::new().infer(&features), scores, 1e-6);
    near(bytes::Mlp::new().infer(&features), scores, 2e-2);
    assert!(bf16::Mlp::WEIGHT_BYTES < whole::Mlp::WEIGHT_BYTES);
}
