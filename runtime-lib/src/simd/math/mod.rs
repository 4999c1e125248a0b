//! Functions of real numbers, a vector of `f32` at a time, and the same for slices.
//!
//! Each is within 4 units in the last place of the true value at every level (the tests state
//! the bound that holds), and right for zeros of either sign, subnormal numbers, infinities
//! and NaN.

mod erf;
mod exp;
mod gate;
mod gelu;
mod ln;
#[cfg(all(test, feature = "std"))]
mod tests;

pub use erf::erf;
pub use exp::{exp, exp_m1, exp_of_negative, exp_to_one, gated_tanh, mish, sigmoid, tanh};
pub use gate::{gelu_tanh, gelu_tanh_grad, silu, swish};
pub use gelu::{gelu, gelu_grad};
pub use ln::{ln, ln_1p_unit, softplus};

use super::{Pointwise, Simd, map, map_in_place};

/// `c[0] + c[1]·x + c[2]·x² + …`, by Horner's rule.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(s: S, x: S::F32, c: [f32; N]) -> S::F32 {
    let mut y = s.splat(c[N - 1]);
    for i in (0..N - 1).rev() {
        y = s.mul_add(y, x, s.splat(c[i]));
    }
    y
}

/// Names a function of this module as a [`Pointwise`], and lets it run over slices.
macro_rules! on_slices {
    ($($Name:ident $name:ident $slices:ident $in_place:ident $formula:literal;)*) => {$(
        #[doc = concat!($formula, ", as a value.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $Name;

        impl Pointwise for $Name {
            #[inline(always)]
            fn apply<S: Simd>(self, s: S, x: S::F32) -> S::F32 {
                $name(s, x)
            }
        }

        #[doc = concat!("`y[i] = f(x[i])`, where `f(x)` is ", $formula, ".")]
        #[inline(never)]
        pub fn $slices(x: &[f32], y: &mut [f32]) {
            map(x, y, $Name);
        }

        #[doc = concat!("`y[i] = f(y[i])`, where `f(x)` is ", $formula, ".")]
        #[inline(never)]
        pub fn $in_place(y: &mut [f32]) {
            map_in_place(y, $Name);
        }
    )*};
}

on_slices! {
    Exp exp exp_f32 exp_in_place_f32 "`e^x`";
    ExpM1 exp_m1 exp_m1_f32 exp_m1_in_place_f32 "`e^x - 1`";
    Ln ln ln_f32 ln_in_place_f32 "the natural logarithm";
    Tanh tanh tanh_f32 tanh_in_place_f32 "the hyperbolic tangent";
    Sigmoid sigmoid sigmoid_f32 sigmoid_in_place_f32 "`1 / (1 + e^-x)`";
    Softplus softplus softplus_f32 softplus_in_place_f32 "`ln(1 + e^x)`";
    Erf erf erf_f32 erf_in_place_f32 "the error function";
}
