//! Optimizer steps: `Adagrad`, `Adam` and `Momentum`.
//!
//! A kernel updates one tensor from its gradient and its accumulated statistics. The learning rate
//! `rate` and the number of previous steps `step` are tensors of one element.

use crate::loops::elementwise::map;
use crate::simd::{Pointwise, Simd, WithSimd, dispatch, map_at};
use crate::{Float, Number};

/// The attributes of `Adagrad`.
#[derive(Clone, Copy, Debug)]
pub struct Adagrad {
    /// The decay of the learning rate.
    pub decay_factor: f32,
    /// The constant that keeps a divisor from zero.
    pub epsilon: f32,
    /// The coefficient of L2 regularization.
    pub norm_coefficient: f32,
}

/// The attributes of `Adam`.
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    /// The decay rate of the mean gradient, `β₁` in the paper.
    pub alpha: f32,
    /// The decay rate of the mean squared gradient, `β₂` in the paper.
    pub beta: f32,
    /// The constant that keeps a divisor from zero.
    pub epsilon: f32,
    /// The coefficient of L2 regularization.
    pub norm_coefficient: f32,
    /// The coefficient of L2 regularization applied after the step.
    pub norm_coefficient_post: f32,
}

/// The attributes of `Momentum`.
#[derive(Clone, Copy, Debug)]
pub struct Momentum {
    /// The decay rate of the momentum.
    pub alpha: f32,
    /// The coefficient of the gradient in the momentum, except in the first step.
    pub beta: f32,
    /// The coefficient of L2 regularization.
    pub norm_coefficient: f32,
}

/// Elements that are processed together, so that they stay in the cache.
const BLOCK: usize = 256;

fn number<T: Number>(x: f32) -> T {
    T::from_f64(f64::from(x))
}

#[derive(Clone, Copy)]
struct Root;

impl Pointwise for Root {
    #[inline(always)]
    fn apply<S: Simd>(self, s: S, x: S::F32) -> S::F32 {
        s.sqrt(x)
    }
}

/// Returns the square roots of at most a block of numbers.
#[inline(always)]
fn roots<'a, T: Float, S: Simd>(s: S, x: &[T], block: &'a mut [T; BLOCK]) -> &'a [T] {
    let roots = &mut block[..x.len()];
    match (T::as_f32(x), T::as_f32_mut(roots)) {
        (Some(x), Some(roots)) => map_at(s, Some(x), roots, Root),
        _ => map(x, roots, T::sqrt),
    }
    roots
}

/// The operands of [`adagrad`].
#[derive(Clone, Copy, Debug)]
pub struct AdagradOperands<'a, T> {
    /// The tensor.
    pub x: &'a [T],
    /// The accumulated squared gradients.
    pub h: &'a [T],
    /// The gradient of the loss.
    pub gradient: &'a [T],
    /// The learning rate.
    pub rate: &'a [f64],
    /// The number of updates before this one.
    pub step: &'a [i64],
}

/// Updates a tensor `x` and its accumulated squared gradients `h`. (Duchi, Hazan and Singer, 2011.)
pub fn adagrad<T: Float>(
    operands: AdagradOperands<'_, T>,
    new_x: &mut [T],
    new_h: &mut [T],
    adagrad: Adagrad,
) {
    let AdagradOperands { x, h, gradient, rate, step } = operands;
    new_x.copy_from_slice(x);
    new_h.copy_from_slice(h);
    adagrad_in_place(new_x, new_h, gradient, rate, step, adagrad);
}

/// Computes [`adagrad`] in place, overwriting `x` and `h`.
#[inline(never)]
pub fn adagrad_in_place<T: Float>(
    x: &mut [T],
    h: &mut [T],
    gradient: &[T],
    rate: &[f64],
    step: &[i64],
    adagrad: Adagrad,
) {
    let decay = 1.0 + step[0].to_f64() * f64::from(adagrad.decay_factor);
    let rate = T::from_f64(rate[0] / decay);
    dispatch(AdagradStep { adagrad, rate, x, h, gradient });
}

struct AdagradStep<'a, T> {
    adagrad: Adagrad,
    rate: T,
    x: &'a mut [T],
    h: &'a mut [T],
    gradient: &'a [T],
}

impl<T: Float> WithSimd for AdagradStep<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Adagrad { epsilon, norm_coefficient, .. } = self.adagrad;
        let (epsilon, norm) = (number::<T>(epsilon), number::<T>(norm_coefficient));
        let mut block = [T::ZERO; BLOCK];
        let gathered = self.h.chunks_mut(BLOCK).zip(self.gradient.chunks(BLOCK));
        for (x, (h, gradient)) in self.x.chunks_mut(BLOCK).zip(gathered) {
            for ((h, &x), &g) in h.iter_mut().zip(&*x).zip(gradient) {
                let g = norm.mul(x).add(g);
                *h = h.add(g.mul(g));
            }
            let roots = roots(s, h, &mut block);
            for ((x, &root), &g) in x.iter_mut().zip(roots).zip(gradient) {
                let g = norm.mul(*x).add(g);
                *x = x.sub(self.rate.mul(g).div(root.add(epsilon)));
            }
        }
    }
}

/// The operands of [`adam`].
#[derive(Clone, Copy, Debug)]
pub struct AdamOperands<'a, T> {
    /// The tensor.
    pub x: &'a [T],
    /// The mean gradient.
    pub v: &'a [T],
    /// The mean squared gradient.
    pub h: &'a [T],
    /// The gradient of the loss.
    pub gradient: &'a [T],
    /// The learning rate.
    pub rate: &'a [f64],
    /// The number of updates before this one.
    pub step: &'a [i64],
}

/// Updates a tensor `x`, its mean gradient `v` and its mean squared gradient `h`. (Kingma and Ba,
/// 2015.)
pub fn adam<T: Float>(
    operands: AdamOperands<'_, T>,
    new_x: &mut [T],
    new_v: &mut [T],
    new_h: &mut [T],
    adam: Adam,
) {
    let AdamOperands { x, v, h, gradient, rate, step } = operands;
    new_x.copy_from_slice(x);
    new_v.copy_from_slice(v);
    new_h.copy_from_slice(h);
    adam_in_place(new_x, new_v, new_h, gradient, rate, step, adam);
}

/// Computes [`adam`] in place, overwriting `x`, `v` and `h`.
#[inline(never)]
pub fn adam_in_place<T: Float>(
    x: &mut [T],
    v: &mut [T],
    h: &mut [T],
    gradient: &[T],
    rate: &[f64],
    step: &[i64],
    adam: Adam,
) {
    let mut rate = rate[0];
    if step[0] > 0 {
        // Corrects the bias of the means, which start at zero.
        let kept = |share: f32| 1.0 - Float::powf(f64::from(share), step[0].to_f64());
        rate *= Float::sqrt(kept(adam.beta)) / kept(adam.alpha);
    }
    let rate = T::from_f64(rate);
    match (T::as_f32_mut(x), T::as_f32_mut(v), T::as_f32_mut(h), T::as_f32(gradient)) {
        (Some(x), Some(v), Some(h), Some(gradient)) => {
            let rate = rate.to_f64() as f32;
            dispatch(AdamVectors(AdamStep { adam, rate, x, v, h, gradient }));
        }
        _ => dispatch(AdamStep { adam, rate, x, v, h, gradient }),
    }
}

/// An `f32` step that reads and writes each vector once.
struct AdamVectors<'a>(AdamStep<'a, f32>);

impl WithSimd for AdamVectors<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let AdamStep { adam, rate, x, v, h, gradient } = self.0;
        let means = v.chunks_mut(S::LANES).zip(h.chunks_mut(S::LANES));
        let given = x.chunks_mut(S::LANES).zip(gradient.chunks(S::LANES));
        for ((x, gradient), (v, h)) in given.zip(means) {
            let now = [s.load_head(x), s.load_head(v), s.load_head(h), s.load_head(gradient)];
            let [new_x, new_v, new_h] = adam.step(s, rate, now);
            s.store_head(new_x, x);
            s.store_head(new_v, v);
            s.store_head(new_h, h);
        }
    }
}

impl Adam {
    /// Returns the new `x`, `v` and `h`.
    #[inline(always)]
    fn step<S: Simd>(self, s: S, rate: f32, [x, v, h, g]: [S::F32; 4]) -> [S::F32; 3] {
        let Adam { alpha, beta, epsilon, norm_coefficient, norm_coefficient_post } = self;
        let g = s.add(s.mul(s.splat(norm_coefficient), x), g);
        let v = s.add(s.mul(s.splat(alpha), v), s.mul(s.splat(1.0 - alpha), g));
        let h = s.add(s.mul(s.splat(beta), h), s.mul(s.splat(1.0 - beta), s.mul(g, g)));
        let step = s.div(v, s.add(s.sqrt(h), s.splat(epsilon)));
        let x = s.sub(x, s.mul(s.splat(rate), step));
        [s.mul(s.splat(1.0 - norm_coefficient_post), x), v, h]
    }
}

struct AdamStep<'a, T> {
    adam: Adam,
    rate: T,
    x: &'a mut [T],
    v: &'a mut [T],
    h: &'a mut [T],
    gradient: &'a [T],
}

impl<T: Float> WithSimd for AdamStep<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Adam { alpha, beta, epsilon, norm_coefficient, norm_coefficient_post } = self.adam;
        let (alpha, beta) = (number::<T>(alpha), number::<T>(beta));
        let (rest_of_alpha, rest_of_beta) = (T::ONE.sub(alpha), T::ONE.sub(beta));
        let (epsilon, norm) = (number::<T>(epsilon), number::<T>(norm_coefficient));
        let post = T::ONE.sub(number(norm_coefficient_post));
        let mut block = [T::ZERO; BLOCK];
        let means = self.v.chunks_mut(BLOCK).zip(self.h.chunks_mut(BLOCK));
        let given = self.x.chunks_mut(BLOCK).zip(self.gradient.chunks(BLOCK));
        for ((x, gradient), (v, h)) in given.zip(means) {
            let gathered = v.iter_mut().zip(h.iter_mut());
            for ((v, h), (&x, &g)) in gathered.zip(x.iter().zip(gradient)) {
                let g = norm.mul(x).add(g);
                *v = alpha.mul(*v).add(rest_of_alpha.mul(g));
                *h = beta.mul(*h).add(rest_of_beta.mul(g.mul(g)));
            }
            let roots = roots(s, h, &mut block);
            for ((x, &root), &v) in x.iter_mut().zip(roots).zip(&*v) {
                *x = post.mul(x.sub(self.rate.mul(v.div(root.add(epsilon)))));
            }
        }
    }
}

/// The operands of [`momentum`].
#[derive(Clone, Copy, Debug)]
pub struct MomentumOperands<'a, T> {
    /// The tensor.
    pub x: &'a [T],
    /// The momentum.
    pub v: &'a [T],
    /// The gradient of the loss.
    pub gradient: &'a [T],
    /// The learning rate.
    pub rate: &'a [f64],
    /// The number of updates before this one.
    pub step: &'a [i64],
}

/// Updates a tensor `x` and its momentum `v`.
pub fn momentum<T: Float>(
    operands: MomentumOperands<'_, T>,
    new_x: &mut [T],
    new_v: &mut [T],
    momentum: Momentum,
) {
    let MomentumOperands { x, v, gradient, rate, step } = operands;
    new_x.copy_from_slice(x);
    new_v.copy_from_slice(v);
    momentum_in_place(new_x, new_v, gradient, rate, step, momentum);
}

/// Computes [`momentum`] in place, overwriting `x` and `v`.
#[inline(never)]
pub fn momentum_in_place<T: Float>(
    x: &mut [T],
    v: &mut [T],
    gradient: &[T],
    rate: &[f64],
    step: &[i64],
    momentum: Momentum,
) {
    let (rate, beta) = (T::from_f64(rate[0]), momentum.share(step[0]));
    let step = |_: T, v: T| rate.mul(v);
    dispatch(MomentumStep { momentum, beta, step, x, v, gradient });
}

/// [`momentum`] with Nesterov's lookahead.
pub fn nesterov_momentum<T: Float>(
    operands: MomentumOperands<'_, T>,
    new_x: &mut [T],
    new_v: &mut [T],
    momentum: Momentum,
) {
    let MomentumOperands { x, v, gradient, rate, step } = operands;
    new_x.copy_from_slice(x);
    new_v.copy_from_slice(v);
    nesterov_momentum_in_place(new_x, new_v, gradient, rate, step, momentum);
}

/// Computes [`nesterov_momentum`] in place, overwriting `x` and `v`.
#[inline(never)]
pub fn nesterov_momentum_in_place<T: Float>(
    x: &mut [T],
    v: &mut [T],
    gradient: &[T],
    rate: &[f64],
    step: &[i64],
    momentum: Momentum,
) {
    let (rate, beta) = (T::from_f64(rate[0]), momentum.share(step[0]));
    let alpha = number::<T>(momentum.alpha);
    let step = |g: T, v: T| rate.mul(g.add(alpha.mul(v)));
    dispatch(MomentumStep { momentum, beta, step, x, v, gradient });
}

impl Momentum {
    /// Returns the coefficient of the gradient in the momentum.
    fn share<T: Number>(self, step: i64) -> T {
        if step > 0 { number(self.beta) } else { T::ONE }
    }
}

struct MomentumStep<'a, T, F> {
    momentum: Momentum,
    beta: T,
    /// Computes the step from a gradient and a momentum.
    step: F,
    x: &'a mut [T],
    v: &'a mut [T],
    gradient: &'a [T],
}

impl<T: Float, F: Fn(T, T) -> T> WithSimd for MomentumStep<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Momentum { alpha, norm_coefficient, .. } = self.momentum;
        let (alpha, norm) = (number::<T>(alpha), number::<T>(norm_coefficient));
        for ((x, v), &g) in self.x.iter_mut().zip(self.v).zip(self.gradient) {
            let g = norm.mul(*x).add(g);
            *v = alpha.mul(*v).add(self.beta.mul(g));
            *x = x.sub((self.step)(g, *v));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::array::from_fn;

    /// More than a block, with a partial vector at the end.
    const N: usize = 2 * BLOCK + 37;

    fn numbers<T: Number>(factor: usize) -> [T; N] {
        from_fn(|i| T::from_f64((i * factor % 101) as f64 / 50.0 - 1.0))
    }

    fn squares<T: Number>(factor: usize) -> [T; N] {
        numbers::<T>(factor).map(|x| x.mul(x))
    }

    /// Compares the output of a kernel with a formula per element.
    fn close<T: Number>(found: &[T; N], error: f64, expected: impl Fn(usize) -> f64) {
        for (i, y) in found.iter().enumerate() {
            let expected = expected(i);
            assert!((y.to_f64() - expected).abs() <= error, "{i}: {} {expected}", y.to_f64());
        }
    }

    fn check_adagrad<T: Float>(error: f64) {
        let (x, g, h) = (numbers::<T>(37), numbers::<T>(11), squares::<T>(7));
        let (mut new_x, mut new_h) = ([T::ZERO; N], [T::ZERO; N]);
        let attributes = Adagrad { decay_factor: 0.25, epsilon: 0.5, norm_coefficient: 0.125 };
        adagrad(
            AdagradOperands { x: &x, h: &h, gradient: &g, rate: &[0.1], step: &[4] },
            &mut new_x,
            &mut new_h,
            attributes,
        );
        let gradient = |i: usize| 0.125 * x[i].to_f64() + g[i].to_f64();
        let wanted_h = |i: usize| h[i].to_f64() + gradient(i) * gradient(i);
        close(&new_h, error, wanted_h);
        let divisor = |i: usize| libm::sqrt(wanted_h(i)) + 0.5;
        close(&new_x, error, |i| x[i].to_f64() - 0.05 * gradient(i) / divisor(i));
    }

    fn check_adam<T: Float>(step: i64, error: f64) {
        let (x, g, v, h) = (numbers::<T>(37), numbers::<T>(11), numbers::<T>(5), squares::<T>(7));
        let (mut new_x, mut new_v, mut new_h) = ([T::ZERO; N], [T::ZERO; N], [T::ZERO; N]);
        let attributes = Adam {
            alpha: 0.75,
            beta: 0.875,
            epsilon: 0.5,
            norm_coefficient: 0.125,
            norm_coefficient_post: 0.25,
        };
        let outputs = (&mut new_x, &mut new_v, &mut new_h);
        adam(
            AdamOperands { x: &x, v: &v, h: &h, gradient: &g, rate: &[0.1], step: &[step] },
            outputs.0,
            outputs.1,
            outputs.2,
            attributes,
        );
        let gradient = |i: usize| 0.125 * x[i].to_f64() + g[i].to_f64();
        let wanted_v = |i: usize| 0.75 * v[i].to_f64() + 0.25 * gradient(i);
        let wanted_h = |i: usize| 0.875 * h[i].to_f64() + 0.125 * gradient(i) * gradient(i);
        close(&new_v, error, wanted_v);
        close(&new_h, error, wanted_h);
        let rate = match step {
            1.. => 0.1 * libm::sqrt(1.0 - f64::powi(0.875, 3)) / (1.0 - f64::powi(0.75, 3)),
            _ => 0.1,
        };
        let moved = |i: usize| x[i].to_f64() - rate * wanted_v(i) / (libm::sqrt(wanted_h(i)) + 0.5);
        close(&new_x, error, |i| 0.75 * moved(i));
    }

    fn check_momentum<T: Float>(step: i64, error: f64) {
        let (x, g, v) = (numbers::<T>(37), numbers::<T>(11), numbers::<T>(5));
        let (mut new_x, mut new_v) = ([T::ZERO; N], [T::ZERO; N]);
        let attributes = Momentum { alpha: 0.75, beta: 0.5, norm_coefficient: 0.125 };
        momentum(
            MomentumOperands { x: &x, v: &v, gradient: &g, rate: &[0.1], step: &[step] },
            &mut new_x,
            &mut new_v,
            attributes,
        );
        let beta = if step > 0 { 0.5 } else { 1.0 };
        let gradient = |i: usize| 0.125 * x[i].to_f64() + g[i].to_f64();
        let wanted_v = |i: usize| 0.75 * v[i].to_f64() + beta * gradient(i);
        close(&new_v, error, wanted_v);
        close(&new_x, error, |i| x[i].to_f64() - 0.1 * wanted_v(i));
        nesterov_momentum(
            MomentumOperands { x: &x, v: &v, gradient: &g, rate: &[0.1], step: &[step] },
            &mut new_x,
            &mut new_v,
            attributes,
        );
        close(&new_v, error, wanted_v);
        close(&new_x, error, |i| x[i].to_f64() - 0.1 * (gradient(i) + 0.75 * wanted_v(i)));
    }

    #[test]
    fn steps_are_those_of_the_formulas() {
        check_adagrad::<f32>(1e-6);
        check_adagrad::<f64>(1e-14);
        for step in [-1, 0, 3] {
            check_adam::<f32>(step, 1e-6);
            check_adam::<f64>(step, 1e-14);
            check_momentum::<f32>(step, 1e-6);
            check_momentum::<f64>(step, 1e-14);
        }
    }
}
