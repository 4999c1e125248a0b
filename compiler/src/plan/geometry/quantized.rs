//! The geometries of operators on quantized tensors.

use crate::{dim::Dim, plan::formula::formulas};
use onnxc_runtime::kernels::quantized;

formulas! {
    /// How sums become bytes.
    "kernels::quantized::Requantize" Requantize: quantized::Requantize {
        x_zero: i32,
        y_zero: i32,
        low: i32,
        high: i32,
    }

    /// The sizes of a product of bytes.
    "kernels::quantized::Product" Product: quantized::Product {
        m: Dim,
        n: Dim,
        k: Dim,
    }

    /// What the bytes of two operands stand for.
    "kernels::quantized::Blend" Blend: quantized::Blend {
        zeros: [i32; 2],
        scales: [f32; 2],
        scale: f32,
        one: bool,
        factors: Option<[f32; 2]>,
    }
}
