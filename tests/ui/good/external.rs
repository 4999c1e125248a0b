//! A model whose weights lie in a file of their own.
#![deny(warnings)]

onnxc_macros::include_onnx!("models/external.onnxtxt");
