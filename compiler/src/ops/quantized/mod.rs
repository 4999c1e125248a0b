//! Operators on int8 data, which passes create from operators between quantized tensors.

pub(crate) mod binary;
pub(crate) mod conv;
pub(crate) mod matmul;
pub(crate) mod pool;
pub(crate) mod requantize;
pub(crate) mod table;

/// A kernel that takes `Int8Operands`, as a variable of this name.
macro_rules! int8_kernel {
    ($set:ident $T:ident, $home:ident :: $name:ident $(:: <$($G:ty),+>)?, $operands:ident,
        |$f:ident, $a:ident, $p:ident| $body:expr) => {
        $crate::plan::kernel!($set $T, $home::$name $(::<$($G),+>)? {
            $operands: quantized::Int8Operands {
                x: input(0), w: input(1), bias: input(2), factor: input(3), offset: optional(4),
            }
        }, |$f, $a, $p| $body)
    };
}
pub(crate) use int8_kernel;
