//! Kernels over slices: the runtime library of modules that onnxc generates.
//!
//! Nothing here knows of graphs or of ONNX. A kernel takes its geometry as plain numbers, and reads
//! and writes the slices that it is given.
//!
//! A program with a generated module uses the public modules below: the tensors in the module's
//! signatures ([`view`], and with the feature `alloc` `sequence` and `map`), [`Error`], arenas that
//! the program owns ([`arena::InlineArena`]), functions for custom operators ([`custom`]), trained
//! variables ([`variable`]), random streams ([`random`]), [`threads`], and the values and times of
//! nodes ([`observe`]). The kernels that generated modules call are hidden from this documentation:
//! they belong to the version of onnxc that generated the module, and change with each version.
//!
//! Without features the crate needs only `core`. `alloc` adds the heap, `std` the detection of the
//! processor's SIMD level, `half` the element types `f16` and `bf16`; `threads` runs large kernels
//! on several threads, `safetensors` writes and reads trained variables, `ndarray` converts views
//! from and to the arrays of that crate, `image` adds the decoders of image files, and
//! `link-weights` leaves the weights files of modules to the assembler. `avx2` adds the kernels of
//! x86-64 processors with AVX2, and `avx512` those with AVX-512 and AMX. `std`, `half`,
//! `link-weights` and `avx512`, which implies `avx2`, are on by default.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
// Families share loops and microkernels, and each uses a few of them.
#![cfg_attr(not(feature = "all-kernels"), allow(dead_code, unused_imports))]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod arena;
pub mod custom;
mod error;
mod interface;
#[cfg(feature = "alloc")]
pub mod map;
#[cfg(feature = "ndarray")]
mod ndarray;
pub mod observe;
pub mod random;
#[cfg(feature = "safetensors")]
pub mod safetensors;
#[cfg(feature = "alloc")]
pub mod sequence;
#[cfg(feature = "alloc")]
pub mod strings;
pub mod threads;
pub mod variable;
pub mod view;

mod element;
#[doc(hidden)]
pub mod kernels;
mod loops;
#[cfg(feature = "matmul")]
mod microkernel;
#[doc(hidden)]
pub mod simd;

#[cfg(feature = "alloc")]
pub use alloc::string::String;
pub use element::{
    Complex, Elem, Exact, F4E2M1, F6E2M3, F6E3M2, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F8E8M0,
    Float, Float8, I2, I4, Integer, Number, Real, Summand, U2, U4,
};
pub use error::{Error, Result};
#[cfg(feature = "half")]
pub use half::{bf16, f16};
pub use interface::{INTERFACE_VERSION, check_interface};

/// The examples of the README, which `cargo test` compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
