//! The geometry of quantized operators.

use crate::{dim::Dim, plan::formula::formulas};
use onnxc_runtime::kernels::quantized;

formulas! {
    /// Requantization parameters.
    "kernels::quantized::Requantize" Requantize: quantized::Requantize {
        x_zero: i32,
        y_zero: i32,
        low: i32,
        high: i32,
    }

    /// The sizes of an integer matrix product.
    "kernels::quantized::Product" Product: quantized::Product {
        m: Dim,
        n: Dim,
        k: Dim,
    }

    /// The scales and zero points of two operands.
    "kernels::quantized::Blend" Blend: quantized::Blend {
        zeros: [i32; 2],
        scales: [f32; 2],
        scale: f32,
        one: bool,
        factors: Option<[f32; 2]>,
    }

    /// Rows that are repeated.
    "kernels::quantized::Repeated" Repeated: quantized::Repeated {
        row: Dim,
        times: Dim,
    }
}
