//! Functions of real numbers, for a vector of `f32` at a time and for slices.
//!
//! Each is accurate to 4 ULP at every level (the tests state the bound of each), and correct for
//! zeros of either sign, subnormal numbers, infinities and NaN.

mod erf;
mod exp;
mod gate;
mod gelu;
mod hyperbolic;
mod inverse_trig;
mod ln;
mod pair;
mod pow;
mod remainder;
#[cfg(all(test, feature = "std"))]
mod tests;
mod trig;

pub use erf::erf;
pub use exp::{exp, exp_m1, exp_of_negative, exp_to_one, gated_tanh, mish, sigmoid, tanh};
pub use gate::{gelu_tanh, gelu_tanh_grad, silu, swish};
pub use gelu::{gelu, gelu_grad};
pub use hyperbolic::{acosh, asinh, atanh, cosh, sinh};
pub use inverse_trig::{acos, asin, atan};
pub use ln::{ln, ln_1p_unit, softplus};
pub use pow::pow;
pub use remainder::{floored_remainder, remainder};
pub use trig::{cos, sin, tan};

use super::{MAX_LANES, Pointwise, Simd, map};

/// `c[0] + c[1]·x + c[2]·x² + …`, by Horner's rule.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(s: S, x: S::F32, c: [f32; N]) -> S::F32 {
    let mut y = s.splat(c[N - 1]);
    for i in (0..N - 1).rev() {
        y = s.mul_add(y, x, s.splat(c[i]));
    }
    y
}

/// Computes a function of single numbers for the lanes of a vector.
#[inline(always)]
fn on_each_lane<S: Simd>(s: S, x: S::F32, f: fn(f32) -> f32) -> S::F32 {
    let mut lanes = [0.0; MAX_LANES];
    s.store(x, &mut lanes);
    map_numbers(&mut lanes[..S::LANES], f);
    s.load(&lanes)
}

#[inline(never)]
fn map_numbers(x: &mut [f32], f: fn(f32) -> f32) {
    x.iter_mut().for_each(|x| *x = f(*x));
}

/// Defines a [`Pointwise`] for a function of this module, and its forms for slices.
macro_rules! on_slices {
    ($($Name:ident $name:ident $slices:ident $formula:literal;)*) => {$(
        #[doc = concat!($formula, ", as a value.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $Name;

        impl Pointwise for $Name {
            #[inline(always)]
            fn apply<S: Simd>(self, s: S, x: S::F32) -> S::F32 {
                $name(s, x)
            }
        }

        #[doc = concat!("`y[i] = f(x[i])`, where `f(x)` is ", $formula, "; in place without `x`.")]
        #[inline(never)]
        pub fn $slices(x: Option<&[f32]>, y: &mut [f32]) {
            map(x, y, $Name);
        }
    )*};
}

on_slices! {
    Exp exp exp_f32 "`e^x`";
    ExpM1 exp_m1 exp_m1_f32 "`e^x - 1`";
    Ln ln ln_f32 "the natural logarithm";
    Tanh tanh tanh_f32 "the hyperbolic tangent";
    Sigmoid sigmoid sigmoid_f32 "`1 / (1 + e^-x)`";
    Softplus softplus softplus_f32 "`ln(1 + e^x)`";
    Erf erf erf_f32 "the error function";
}
