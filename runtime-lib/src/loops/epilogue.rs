//! Activation functions in the epilogues of matrix products and convolutions, and in recurrent
//! networks.

use crate::simd::{Elements, Simd, WithSimd, dispatch, math};
use crate::{Float, Number};

/// An activation function. Parameters are named after ONNX's attributes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `x`
    Identity,
    /// `max(0, x)`
    Relu,
    /// `x`, or `alpha · x` below 0
    LeakyRelu {
        /// The derivative below 0.
        alpha: f32,
    },
    /// `x`, or 0 where `x ≤ alpha`. (Recurrent operators specify `x < alpha`; their `alpha` is the
    /// next smaller number.)
    ThresholdedRelu {
        /// The threshold.
        alpha: f32,
    },
    /// `min(max(x, min), max)`
    Clip {
        /// The lower bound.
        min: f32,
        /// The upper bound.
        max: f32,
    },
    /// `1 / (1 + e^-x)`
    Sigmoid,
    /// `min(max(alpha · x + beta, 0), 1)`
    HardSigmoid {
        /// The derivative.
        alpha: f32,
        /// The value at 0.
        beta: f32,
    },
    /// The hyperbolic tangent
    Tanh,
    /// `alpha · tanh(beta · x)`
    ScaledTanh {
        /// The factor of the result.
        alpha: f32,
        /// The factor of the argument.
        beta: f32,
    },
    /// `alpha · x + beta`
    Affine {
        /// The derivative.
        alpha: f32,
        /// The value at 0.
        beta: f32,
    },
    /// `x`, or `alpha · (e^x - 1)` below 0
    Elu {
        /// The factor below 0.
        alpha: f32,
    },
    /// `gamma · Elu(x)`
    Selu {
        /// The factor below 0.
        alpha: f32,
        /// The factor of the result.
        gamma: f32,
    },
    /// `x`, or `alpha · (e^(x/alpha) - 1)` below 0
    Celu {
        /// The scale below 0.
        alpha: f32,
    },
    /// `ln(1 + e^x)`
    Softplus,
    /// `x / (1 + |x|)`
    Softsign,
    /// `x / (1 + e^(-alpha · x))`
    Swish {
        /// The factor of the exponent; 1 for SiLU.
        alpha: f32,
    },
    /// `x · min(max(x/6 + 1/2, 0), 1)`
    HardSwish,
    /// `x · tanh(ln(1 + e^x))`
    Mish,
    /// `x/2 · (1 + erf(x/√2))`
    Gelu,
    /// `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))`
    GeluTanh,
}

/// √(1/2).
const SQRT_HALF: f64 = core::f64::consts::FRAC_1_SQRT_2;
/// √(2/π).
const SQRT_2_PI: f64 = 0.797_884_560_802_865_4;
/// The coefficient of x³ in the approximation of Gelu.
const GELU_CUBE: f64 = 0.044_715;

impl Activation {
    /// `y[i] = f(y[i])`.
    #[inline(never)]
    pub fn apply(self, y: &mut [f32]) {
        let cols = y.len();
        self.apply_rows(y, 1, cols, cols);
    }

    /// `y[i] = f(y[i])` for `rows` × `cols` elements with a row stride of `stride`.
    #[inline(never)]
    pub(crate) fn apply_rows(self, y: &mut [f32], rows: usize, cols: usize, stride: usize) {
        if self != Activation::Identity && cols > 0 {
            dispatch(Apply { f: self, rows: Rows { x: None, y, rows, cols, stride } });
        }
    }

    /// `y[i] = f(x[i])`, or `y[i] = f(y[i])` without `x`.
    #[inline(never)]
    pub(crate) fn map(self, x: Option<&[f32]>, y: &mut [f32]) {
        let cols = y.len();
        match x {
            Some(x) if self == Activation::Identity => y.copy_from_slice(x),
            Some(_) if cols > 0 => {
                dispatch(Apply { f: self, rows: Rows { x, y, rows: 1, cols, stride: cols } });
            }
            _ => self.apply_rows(y, 1, cols, cols),
        }
    }

    /// Inlined, so that a function that is a constant at compile time leaves no other code.
    // Returns `f(x)` for one number of any type.
    #[inline(always)]
    pub fn of<T: Float>(self, x: T) -> T {
        T::narrow(self.of_wide(x.widen()))
    }

    /// Returns whether the function only clamps.
    #[inline(always)]
    pub(crate) fn is_clamp(self) -> bool {
        matches!(self, Activation::Identity | Activation::Relu | Activation::Clip { .. })
    }

    /// `y = f(y)` in little code: functions that only clamp share a loop.
    #[inline(always)]
    pub(crate) fn apply_small(self, y: &mut [f32]) {
        match self {
            Activation::Relu => cap_each(y, 0.0, f32::INFINITY),
            Activation::Clip { min, max } => cap_each(y, min, max),
            _ => self.apply_each(y.iter_mut()),
        }
    }

    /// `y = f(y)`, element by element.
    #[inline(always)]
    pub(crate) fn apply_each<'y, T: Float>(self, y: impl Iterator<Item = &'y mut T>) {
        if self != Activation::Identity {
            // A closure would hide the function from the optimizer.
            for y in y {
                *y = self.of(*y);
            }
        }
    }

    #[inline(always)]
    fn of_wide<T: Float>(self, x: T) -> T {
        let c = |x: f32| T::from_f64(f64::from(x));
        let (zero, one) = (T::ZERO, T::ONE);
        let below = |y: T| if x < zero { y } else { x };
        let clamp = |x: T, min, max| Number::minimum(Number::maximum(x, min), max);
        match self {
            Activation::Identity => x,
            Activation::Relu => Number::maximum(x, zero),
            Activation::LeakyRelu { alpha } => below(c(alpha).mul(x)),
            // NaN compares as not larger, so it becomes zero.
            Activation::ThresholdedRelu { alpha } if x > c(alpha) => x,
            Activation::ThresholdedRelu { .. } => zero,
            Activation::Clip { min, max } => clamp(x, c(min), c(max)),
            Activation::Sigmoid => {
                let e = x.abs().neg().exp();
                (if x < zero { e } else { one }).div(one.add(e))
            }
            Activation::HardSigmoid { alpha, beta } => {
                clamp(c(alpha).mul(x).add(c(beta)), zero, one)
            }
            Activation::Tanh => x.tanh(),
            Activation::ScaledTanh { alpha, beta } => c(alpha).mul(c(beta).mul(x).tanh()),
            Activation::Affine { alpha, beta } => c(alpha).mul(x).add(c(beta)),
            Activation::Elu { alpha } => below(c(alpha).mul(x.exp_m1())),
            Activation::Selu { alpha, gamma } => c(gamma).mul(below(c(alpha).mul(x.exp_m1()))),
            Activation::Celu { alpha } => below(c(alpha).mul(x.div(c(alpha)).exp_m1())),
            Activation::Softplus => softplus(x),
            Activation::Softsign => x.div(one.add(x.abs())),
            Activation::Swish { alpha } => gated(x, f64::from(alpha) * x.to_f64()),
            Activation::HardSwish => x.mul(clamp(x.div(c(6.0)).add(c(0.5)), zero, one)),
            Activation::Mish => mish(x),
            Activation::Gelu => gelu(x),
            Activation::GeluTanh => {
                let wide = x.to_f64();
                gated(x, 2.0 * SQRT_2_PI * wide * (1.0 + GELU_CUBE * wide * wide))
            }
        }
    }
}

/// Clamps each element.
#[inline(never)]
fn cap_each(y: &mut [f32], low: f32, high: f32) {
    for y in y {
        let x = if *y < low { low } else { *y };
        *y = if x > high { high } else { x };
    }
}

/// `ln(1 + e^x)`, without overflow.
fn softplus<T: Float>(x: T) -> T {
    Number::maximum(x, T::ZERO).add(x.abs().neg().exp().ln_1p())
}

/// Below this, `e^x` has few bits in `f32`, and is less than one unit in the last place of 1.
const SMALL: f64 = -80.0;

/// `x / (1 + e^-z)`.
fn gated<T: Float>(x: T, z: f64) -> T {
    // Below this, nothing is left of e^z in any type.
    let z = z.max(-1500.0);
    let near = T::from_f64(z);
    // The difference of z and its nearest number of the type.
    let left = T::from_f64(z - near.to_f64());
    let exp = |x: T| {
        let e = x.exp();
        e.add(e.mul(left))
    };
    if z >= 0.0 {
        x.div(T::ONE.add(near.neg().exp()))
    } else if z > SMALL {
        let e = exp(near);
        x.mul(e).div(T::ONE.add(e))
    } else {
        let half = near.mul(T::from_f64(0.5));
        x.mul(exp(half)).mul(half.exp())
    }
}

/// `x tanh(ln(1 + e^x))`.
fn mish<T: Float>(x: T) -> T {
    let two = T::ONE.add(T::ONE);
    if x > T::ZERO {
        x.mul(softplus(x).tanh())
    } else if x.to_f64() > SMALL {
        // With e = e^x, it is x e (e + 2) / (e (e + 2) + 2).
        let e = x.exp();
        let product = e.mul(e.add(two));
        x.mul(product).div(product.add(two))
    } else {
        let root = x.div(two).exp();
        x.mul(root).mul(root)
    }
}

/// `x Φ(x)`, with the distribution function `Φ` of the normal distribution.
fn gelu<T: Float>(x: T) -> T {
    // In `f64`: in `f32` the rounding error of the argument would be amplified, and results have
    // more bits than a subnormal Φ.
    let x = x.to_f64();
    T::from_f64(0.5 * x * libm::erfc(-SQRT_HALF * x))
}

/// Clamps `rows` × `cols` elements with a row stride of `stride`.
#[inline(never)]
pub(crate) fn cap_rows(
    (min, max): (f32, f32),
    y: &mut [f32],
    rows: usize,
    cols: usize,
    stride: usize,
) {
    if cols > 0 {
        dispatch(Cap { rows: Rows { x: None, y, rows, cols, stride }, min, max });
    }
}

struct Rows<'a> {
    /// The elements that `y` is computed from, with its strides; its own without them.
    x: Option<&'a [f32]>,
    y: &'a mut [f32],
    rows: usize,
    cols: usize,
    stride: usize,
}

impl Rows<'_> {
    #[inline(always)]
    fn each<S: Simd>(self, s: S, f: impl Fn(S::F32) -> S::F32 + Copy) {
        // `f` is passed by value: a call of a reference to it is not always inlined.
        for (row, y) in self.y.chunks_mut(self.stride).take(self.rows).enumerate() {
            let x = self.x.map(|x| &x[row * self.stride..][..self.cols]);
            Elements::of(x, &mut y[..self.cols]).each(s, f);
        }
    }
}

/// Applies `f` to the rows, inlined as [`crate::simd`] requires.
macro_rules! each {
    ($rows:ident, $s:ident, |$x:ident| $y:expr) => {
        $rows.each(
            $s,
            #[inline(always)]
            |$x| $y,
        )
    };
}

struct Cap<'a> {
    rows: Rows<'a>,
    min: f32,
    max: f32,
}

impl WithSimd for Cap<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Cap { rows, min, max } = self;
        each!(rows, s, |x| clip(s, x, min, max));
    }
}

struct Apply<'a> {
    f: Activation,
    rows: Rows<'a>,
}

impl WithSimd for Apply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (rows, zero) = (self.rows, s.splat(0.0));
        match self.f {
            Activation::Identity => {}
            Activation::Relu => each!(rows, s, |x| s.max(zero, x)),
            Activation::LeakyRelu { alpha } => {
                each!(rows, s, |x| leaky_relu(s, x, alpha))
            }
            Activation::ThresholdedRelu { alpha } => {
                each!(rows, s, |x| s.select(s.lt(s.splat(alpha), x), x, zero))
            }
            Activation::Clip { min, max } => {
                each!(rows, s, |x| clip(s, x, min, max))
            }
            Activation::Sigmoid => each!(rows, s, |x| math::sigmoid(s, x)),
            Activation::HardSigmoid { alpha, beta } => {
                each!(rows, s, |x| hard_sigmoid(s, x, alpha, beta))
            }
            Activation::Tanh => each!(rows, s, |x| math::tanh(s, x)),
            Activation::ScaledTanh { alpha, beta } => {
                each!(rows, s, |x| s.mul(s.splat(alpha), math::tanh(s, s.mul(s.splat(beta), x))))
            }
            Activation::Affine { alpha, beta } => {
                each!(rows, s, |x| s.mul_add(s.splat(alpha), x, s.splat(beta)))
            }
            Activation::Elu { alpha } => each!(rows, s, |x| elu(s, x, alpha, 1.0)),
            Activation::Selu { alpha, gamma } => {
                each!(rows, s, |x| s.mul(s.splat(gamma), elu(s, x, alpha, 1.0)))
            }
            Activation::Celu { alpha } => each!(rows, s, |x| elu(s, x, alpha, alpha)),
            Activation::Softplus => each!(rows, s, |x| math::softplus(s, x)),
            Activation::Softsign => each!(rows, s, |x| s.div(x, s.add(s.splat(1.0), s.abs(x)))),
            Activation::Swish { alpha: 1.0 } => each!(rows, s, |x| math::silu(s, x)),
            Activation::Swish { alpha } => {
                each!(rows, s, |x| math::swish(s, x, alpha))
            }
            Activation::HardSwish => {
                each!(rows, s, |x| s.mul(x, hard_sigmoid(s, x, 1.0 / 6.0, 0.5)))
            }
            Activation::Mish => each!(rows, s, |x| math::mish(s, x)),
            Activation::Gelu => each!(rows, s, |x| math::gelu(s, x)),
            Activation::GeluTanh => each!(rows, s, |x| math::gelu_tanh(s, x)),
        }
    }
}

/// `min(max(x, min), max)`; the element is the second operand, so that NaN is kept.
#[inline(always)]
fn clip<S: Simd>(s: S, x: S::F32, min: f32, max: f32) -> S::F32 {
    s.min(s.splat(max), s.max(s.splat(min), x))
}

#[inline(always)]
fn hard_sigmoid<S: Simd>(s: S, x: S::F32, alpha: f32, beta: f32) -> S::F32 {
    clip(s, s.mul_add(s.splat(alpha), x, s.splat(beta)), 0.0, 1.0)
}

#[inline(always)]
fn leaky_relu<S: Simd>(s: S, x: S::F32, alpha: f32) -> S::F32 {
    s.select(s.lt(x, s.splat(0.0)), s.mul(s.splat(alpha), x), x)
}

/// `x`, or `alpha · (e^(x/scale) - 1)` below 0.
#[inline(always)]
fn elu<S: Simd>(s: S, x: S::F32, alpha: f32, scale: f32) -> S::F32 {
    let e = math::exp_m1(s, s.div(x, s.splat(scale)));
    s.select(s.lt(x, s.splat(0.0)), s.mul(s.splat(alpha), e), x)
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::simd::each_level;
    use std::vec::Vec;

    const ALL: [Activation; 20] = [
        Activation::Identity,
        Activation::Relu,
        Activation::LeakyRelu { alpha: 0.1 },
        Activation::ThresholdedRelu { alpha: 0.5 },
        Activation::Clip { min: -1.0, max: 2.5 },
        Activation::Sigmoid,
        Activation::HardSigmoid { alpha: 0.2, beta: 0.5 },
        Activation::Tanh,
        Activation::ScaledTanh { alpha: 1.5, beta: 0.7 },
        Activation::Affine { alpha: -2.0, beta: 0.25 },
        Activation::Elu { alpha: 1.5 },
        Activation::Selu { alpha: 1.673_263_2, gamma: 1.050_701 },
        Activation::Celu { alpha: 0.75 },
        Activation::Softplus,
        Activation::Softsign,
        Activation::Swish { alpha: 1.25 },
        Activation::HardSwish,
        Activation::Mish,
        Activation::Gelu,
        Activation::GeluTanh,
    ];

    #[test]
    fn vectors_agree_with_numbers() {
        let x: Vec<f32> = (-300..300).map(|i| i as f32 / 23.0).collect();
        each_level(|level| {
            for f in ALL {
                let mut y = x.clone();
                f.apply(&mut y);
                for (&x, &y) in x.iter().zip(&y) {
                    let truth = f.of(f64::from(x));
                    // Where two terms cancel, the error is relative to the larger one.
                    let bound = 1e-6 * truth.abs().max(x.abs().into()).max(0.1);
                    let near = (f64::from(y) - truth).abs() <= bound;
                    assert!(near, "{level:?}: {f:?} of {x} is {y}, not {truth}");
                }
            }
        });
    }

    #[test]
    fn nan_propagates_except_through_thresholds() {
        each_level(|level| {
            for f in ALL {
                let stays = !matches!(f, Activation::ThresholdedRelu { .. });
                let fits = |y: f32| if stays { y.is_nan() } else { y == 0.0 };
                let mut y = [f32::NAN; 17];
                f.apply(&mut y);
                assert!(y.into_iter().all(fits), "{level:?}: {f:?} gave {y:?}");
                assert!(fits(f.of(f32::NAN)), "{f:?}");
            }
        });
    }

    #[test]
    fn only_the_rows_are_touched() {
        each_level(|level| {
            let mut y = [-1.0; 3 * 20];
            Activation::Relu.apply_rows(&mut y, 3, 19, 20);
            for row in y.chunks(20) {
                assert!(row[..19] == [0.0; 19] && row[19] == -1.0, "{level:?}: {row:?}");
            }
        });
    }
}
