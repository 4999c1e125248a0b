onnxc_macros::include_onnx!(mlp);
onnxc_macros::include_onnx!("models/mlp.onnxtxt", speed = fast);
onnxc_macros::include_onnx!("models/mlp.onnxtxt", name = "a", name = "b");
onnxc_macros::include_onnx!("models/mlp.onnxtxt", name = mlp);
onnxc_macros::include_onnx!("models/mlp.onnxtxt", arena = stack);
onnxc_macros::include_onnx!("models/mlp.onnxtxt", weights = file);
onnxc_macros::include_onnx!("models/mlp.onnxtxt" name = "a");
