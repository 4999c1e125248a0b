onnxc_macros::include_onnx!("models/scale.onnxtxt", dims(batch = "1..=many"));
onnxc_macros::include_onnx!("models/scale.onnxtxt", dims(batch = 2..=8));
onnxc_macros::include_onnx!("models/scale.onnxtxt", dims(batch = -1));
onnxc_macros::include_onnx!("models/scale.onnxtxt", dims(rows = 1));
onnxc_macros::include_onnx!("models/scale.onnxtxt", consts(by = [1, 2]));
onnxc_macros::include_onnx!("models/scale.onnxtxt", consts(keep = -true));
onnxc_macros::include_onnx!("models/scale.onnxtxt", consts(nothing = 1));
onnxc_macros::include_onnx!("models/scale.onnxtxt", dims(batch = 1, "batch" = 2));
onnxc_macros::include_onnx!("models/scale.onnxtxt", custom(Clip = a, "ai.onnx::Clip" = b));
