//! Loops that kernels share: over broadcast operands, strided elements, reductions and windows.

pub(crate) mod bounds;
pub(crate) mod broadcast;
pub(crate) mod broadcast_f32;
pub(crate) mod elementwise;
pub mod epilogue;
pub(crate) mod find;
pub(crate) mod fold;
pub mod geometry;
pub(crate) mod index;
pub(crate) mod strided;
pub(crate) mod walk;
pub(crate) mod window;
pub(crate) mod window_axis;
pub(crate) mod zip_vectors;
