onnxc_macros::include_onnx!("models/nothing.onnx");
