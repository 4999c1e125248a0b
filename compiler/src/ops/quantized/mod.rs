//! Operators on bytes that passes make of real ones between quantized tensors.

pub(crate) mod binary;
pub(crate) mod conv;
pub(crate) mod matmul;
pub(crate) mod pool;
pub(crate) mod requantize;
pub(crate) mod table;
