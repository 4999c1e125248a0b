//! One model compiled twice, with different names or in different modules.
#![deny(warnings)]

onnxc_macros::include_onnx!("models/scale.onnxtxt");
onnxc_macros::include_onnx!(
    "models/scale.onnxtxt",
    name = "Small",
    dims(batch = 1, "sequence length" = 2)
);

pub mod inside {
    onnxc_macros::include_onnx!("models/scale.onnxtxt", optimize = size);
}

pub fn models() -> (Scale, Small, inside::Scale) {
    (Scale::new(), Small::new(), inside::Scale::new())
}
