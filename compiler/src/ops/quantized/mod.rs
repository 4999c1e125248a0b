//! Operators on int8 data, which passes create from operators between quantized tensors.

pub(crate) mod binary;
pub(crate) mod conv;
pub(crate) mod dynamic_conv;
pub(crate) mod matmul;
pub(crate) mod pool;
pub(crate) mod requantize;
pub(crate) mod table;

use crate::{
    diag::Result,
    dim::Dim,
    dtype::DType,
    ir::{Infer, Inferred, Lower},
    plan::{Arg, Operand},
};

/// Checks the inputs of a product that is quantized at run time: the bytes, their scale and zero
/// point, the weights, and for each of `channels` the scale, the sum of the weights, and optionally
/// the bias and the zero point of the weights.
fn check_dynamic(cx: &mut Infer<'_>, channels: &Dim) -> Inferred<()> {
    cx.of(0, &[DType::U8])?;
    for (i, dtype) in [(1, DType::F32), (2, DType::U8)] {
        let len = cx.of(i, &[dtype])?.len();
        cx.require_equal(&len, &1.into(), "the number of scales and 1")?;
    }
    for (i, dtype) in [(4, DType::F32), (5, DType::I32), (6, DType::F32), (7, DType::I32)] {
        if i < 6 || cx.has(i) {
            let len = cx.of(i, &[dtype])?.len();
            cx.require_equal(&len, channels, "the numbers of scales and of channels")?;
        }
    }
    Ok(())
}

/// Returns the inputs of a product that is quantized at run time, with packed weights.
fn dynamic_inputs(cx: &mut Lower<'_>, weights: Operand) -> Result<Vec<Arg>> {
    let mut inputs = Vec::new();
    for i in 0..6 {
        inputs.push(cx.input(i)?.into());
    }
    inputs[3] = weights.into();
    inputs.push(cx.optional(6)?.into());
    inputs.push(cx.optional(7)?.into());
    Ok(inputs)
}

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

/// A kernel that takes `ZeroPointOperands`, as a variable of this name.
macro_rules! zero_point_kernel {
    ($home:ident :: $name:ident :: <$($G:ty),+>, $operands:ident,
        |$f:ident, $a:ident, $p:ident| $body:expr) => {
        $crate::plan::kernel!(INT8S T, $home::$name::<$($G),+> {
            $operands: quantized::ZeroPointOperands {
                x: input(0), w: input(1), w_zero: input(5), bias: input(2), factor: input(3),
                offset: optional(4),
            }
        }, |$f, $a, $p| $body)
    };
}
pub(crate) use zero_point_kernel;
