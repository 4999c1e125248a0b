onnxc_macros::include_onnx!("models/operators.onnxtxt");
