onnxc_macros::include_onnx!("models/text.onnx");
