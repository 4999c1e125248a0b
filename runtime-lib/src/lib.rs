//! Kernels over slices. No tensor, no graph, no ONNX: a kernel is told its geometry as plain
//! numbers, and reads and writes the slices that it is handed.
//!
//! A kernel's arguments stand in this order: inputs, outputs, geometry. Tensors are row-major
//! (the last axis is contiguous); geometry is checked by the compiler that wrote the call, so a
//! kernel asserts it in debug builds only. What depends on the *values* of an input (an index, a
//! size) is checked by the kernel, which then returns an [`Error`] and never panics.
//!
//! A program with a module that onnxc generated meets few of these: the tensors in the module's
//! signatures ([`view`], and with the feature `alloc` `sequence` and `dictionary`), [`Error`], and,
//! where it has such, arenas of its own ([`arena::InlineArena`]), functions for operators of its own
//! ([`custom`]), what a model learned ([`variable`]) and [`threads`]. All else is what modules call.
//! It goes with the version of onnxc that wrote the module, and changes from one to the next.
//!
//! Without features the crate needs `core` alone; `alloc` adds the heap, `std` the detection of
//! the processor's SIMD level, `half` the element types `f16` and `bf16`, `threads` shares the work of
//! large kernels among threads, `safetensors` writes and reads what a model learned, `image` has the
//! decoders of image files. `std` and `half` are on by default.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(all(test, feature = "std"))]
mod accuracy;
pub mod activation;
pub mod activation_fn;
pub mod activation_grad;
pub mod arena;
pub mod arg;
pub mod attention;
pub mod axes;
pub mod binary;
pub mod blocked;
mod broadcast;
pub mod cast;
pub mod causal_conv;
pub mod classifier;
pub mod compare;
mod complex;
pub mod concat;
pub mod constant;
pub mod conv;
pub mod conv_integer;
pub mod cumulative;
pub mod custom;
pub mod deform_conv;
#[cfg(feature = "alloc")]
pub mod dictionary;
pub mod einsum;
mod elem;
mod error;
pub mod expand;
pub mod feature;
mod fold;
pub mod fourier;
pub mod gate;
pub mod gather;
pub mod gemm;
pub mod geometry;
#[cfg(feature = "image")]
pub mod image_decoder;
mod index;
mod integer;
mod interface;
#[cfg(feature = "image")]
mod jpeg;
pub mod linalg;
pub mod linear_attention;
pub mod lookup;
pub mod loss;
mod map;
pub mod matmul;
pub mod matmul_integer;
pub mod narrow;
pub mod nhwc;
pub mod nms;
pub mod norm;
pub mod optimizer;
pub mod pad;
pub mod pool;
pub mod quantize;
pub mod quantized;
pub mod random;
mod reach;
mod real;
pub mod reduce;
pub mod reshape;
pub mod resize;
pub mod rnn;
pub mod roi;
pub mod rotary_embedding;
#[cfg(feature = "safetensors")]
pub mod safetensors;
pub mod sample;
pub mod scatter;
pub mod select;
#[cfg(feature = "alloc")]
pub mod sequence;
pub mod simd;
pub mod slice;
mod small_float;
mod small_int;
pub mod softmax;
pub mod strided;
#[cfg(feature = "alloc")]
pub mod strings;
pub mod svm;
mod taps;
pub mod text;
pub mod threads;
pub mod transpose;
pub mod tree;
pub mod unary;
pub mod unpool;
pub mod variable;
pub mod variadic;
pub mod view;
mod walk;

#[cfg(feature = "alloc")]
pub use alloc::string::String;
pub use complex::Complex;
pub use elem::{Elem, Float, Integer, Number, Summand};
pub use error::{Error, Result};
#[cfg(feature = "half")]
pub use half::{bf16, f16};
pub use interface::{INTERFACE_VERSION, check_interface};
pub use real::{Exact, Real};
pub use small_float::{
    F4E2M1, F6E2M3, F6E3M2, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0, Float8,
};
pub use small_int::{I2, I4, U2, U4};

/// The examples of the README, which `cargo test` compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
