//! A model with external data.
#![deny(warnings)]

onnxc_macros::include_onnx!("models/external.onnxtxt");
