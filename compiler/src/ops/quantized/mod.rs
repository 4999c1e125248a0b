//! Operators on int8 data, which passes create from operators between quantized tensors.

pub(crate) mod binary;
pub(crate) mod conv;
pub(crate) mod matmul;
pub(crate) mod pool;
pub(crate) mod requantize;
pub(crate) mod table;
