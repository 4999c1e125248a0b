//! The kernels that generated modules call, one module for each family of operators of the
//! compiler.
//!
//! They go with the version of onnxc that wrote the module, and change from one to the next.
//!
//! A kernel's arguments stand in this order: inputs, outputs, geometry. Tensors are row-major
//! (the last axis is contiguous); geometry is checked by the compiler that wrote the call, so a
//! kernel asserts it in debug builds only. What depends on the *values* of an input (an index, a
//! size) is checked by the kernel, which then returns an [`Error`](crate::Error) and never panics.

#[cfg(all(test, feature = "std"))]
pub(crate) mod accuracy;
pub mod activation;
pub mod activation_grad;
pub mod arg;
#[cfg(feature = "attention")]
pub mod attention;
pub mod binary;
#[cfg(feature = "conv")]
pub mod blocked;
#[cfg(feature = "matmul")]
pub mod blockwise;
pub mod cast;
pub mod compare;
pub mod concat;
pub mod constant;
#[cfg(feature = "conv")]
pub mod conv;
pub mod cumulative;
#[cfg(feature = "matmul")]
pub mod einsum;
pub mod expand;
pub mod fourier;
pub mod gate;
pub mod gather;
#[cfg(feature = "image")]
pub mod image;
pub mod linalg;
pub mod loss;
#[cfg(feature = "matmul")]
pub mod matmul;
pub mod ml;
#[cfg(feature = "int8")]
pub mod nhwc;
pub mod nms;
pub mod norm;
pub mod optimizer;
pub mod pad;
#[cfg(feature = "pool")]
pub mod pool;
pub mod quantize;
#[cfg(feature = "int8")]
pub mod quantized;
pub mod random;
pub mod reduce;
pub mod reshape;
pub mod resize;
#[cfg(feature = "rnn")]
pub mod rnn;
pub mod roi;
pub mod sample;
pub mod scatter;
pub mod select;
#[cfg(feature = "alloc")]
pub mod sequence;
pub mod slice;
pub mod softmax;
pub mod text;
pub mod transpose;
pub mod unary;
pub mod variadic;
pub mod warping;
#[cfg(feature = "matmul")]
pub mod weight_precision;

pub use crate::loops::{epilogue, geometry};
