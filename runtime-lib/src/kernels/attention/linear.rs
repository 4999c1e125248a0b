//! `LinearAttention`: each head has a state, to which each step adds the product of its key and its
//! value, and from which its query reads.

use crate::Number;
use crate::loops::index::number;
use crate::simd::{Simd, WithSimd, dispatch, math};
use core::ops::Range;

/// The sizes of a linear attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearAttention {
    /// The number of sequences.
    pub batch: usize,
    /// The number of steps of a sequence.
    pub steps: usize,
    /// The number of heads of keys and values, each with a state.
    pub heads: usize,
    /// The number of query heads that read each state.
    pub group: usize,
    /// The number of elements of a query and of a key: the rows of a state.
    pub depth: usize,
    /// The number of elements of a value: the columns of a state.
    pub width: usize,
    /// The number of decays of a head and a step: one for all rows of the state, or one for each.
    pub decays: usize,
    /// The number of rates of a step: one for all heads, or one for each.
    pub rates: usize,
    /// The factor of the results; `1 / √depth` by default.
    pub scale: Option<f32>,
}

/// Returns the length of the scratch buffer, in elements.
pub const fn linear_attention_scratch(geometry: &LinearAttention) -> usize {
    geometry.steps * geometry.decays
}

/// The operands of linear attention.
#[derive(Clone, Copy, Debug)]
pub struct LinearAttentionOperands<'a> {
    /// The queries.
    pub q: &'a [f32],
    /// The keys.
    pub k: &'a [f32],
    /// The values.
    pub v: &'a [f32],
    /// The initial state `S`; zeros if absent.
    pub past: Option<&'a [f32]>,
    /// The logarithms of the decays.
    pub decay: Option<&'a [f32]>,
    /// The rates; 1 if absent.
    pub rate: Option<&'a [f32]>,
}

/// Computes, for each step, `S = e^decay · S`, then `S += k · rate · (v - Sᵀ · k)ᵀ`, and `y = scale
/// · Sᵀ · q`. Without decays, the state does not decay; without rates, the step is `S += k · vᵀ`.
/// The final state is written to `present`.
#[inline(never)]
pub fn linear_attention(
    operands: LinearAttentionOperands<'_>,
    y: &mut [f32],
    present: &mut [f32],
    scratch: &mut [f32],
    geometry: LinearAttention,
) {
    let LinearAttentionOperands { q, k, v, past, decay, rate } = operands;
    let LinearAttention { batch, heads, depth, width, .. } = geometry;
    match past {
        Some(past) => present.copy_from_slice(past),
        None => present.fill(0.0),
    }
    let scale = geometry.scale.map_or(1.0 / libm::sqrt(number(depth)), f64::from);
    let scale = f32::from_f64(scale);
    for (b, h) in (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
        let factors = decay.map(|decay| factors(decay, b, h, geometry, scratch));
        let state = &mut present[(b * heads + h) * depth * width..][..depth * width];
        dispatch(Head { q, k, v, factors, rate, y, state, b, h, scale, geometry });
    }
}

/// `e^decay` for each step of a head.
fn factors<'s>(
    decay: &[f32],
    b: usize,
    h: usize,
    geometry: LinearAttention,
    scratch: &'s mut [f32],
) -> &'s [f32] {
    let LinearAttention { steps, heads, decays, .. } = geometry;
    let scratch = &mut scratch[..steps * decays];
    for (t, to) in scratch.chunks_exact_mut(decays.max(1)).enumerate() {
        to.copy_from_slice(&decay[((b * steps + t) * heads + h) * decays..][..decays]);
    }
    math::exp_f32(None, scratch);
    scratch
}

/// All steps of a head.
struct Head<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    factors: Option<&'a [f32]>,
    rate: Option<&'a [f32]>,
    y: &'a mut [f32],
    state: &'a mut [f32],
    b: usize,
    h: usize,
    scale: f32,
    geometry: LinearAttention,
}

impl WithSimd for Head<'_> {
    type Output = ();

    /// The columns of a state are independent. All steps run for a few columns before the next
    /// ones, so that the columns stay in the first-level cache.
    #[inline(always)]
    fn run<S: Simd>(mut self, s: S) {
        let width = self.geometry.width;
        let mut first = 0;
        while first < width {
            if width - first >= 4 * S::LANES {
                self.columns::<S, 4>(s, first);
                first += 4 * S::LANES;
            } else {
                self.columns::<S, 1>(s, first);
                first += S::LANES;
            }
        }
    }
}

/// Loads columns of a row as `V` vectors.
#[inline(always)]
fn load<S: Simd, const V: usize>(s: S, row: &[f32]) -> [S::F32; V] {
    let mut x = [s.splat(0.0); V];
    for (x, row) in x.iter_mut().zip(row.chunks(S::LANES)) {
        *x = s.load_head(row);
    }
    x
}

#[inline(always)]
fn store<S: Simd, const V: usize>(s: S, x: [S::F32; V], row: &mut [f32]) {
    for (x, row) in x.into_iter().zip(row.chunks_mut(S::LANES)) {
        s.store_head(x, row);
    }
}

/// `x + a · b`.
#[inline(always)]
fn add<S: Simd, const V: usize>(s: S, x: &mut [S::F32; V], a: f32, b: &[S::F32; V]) {
    let a = s.splat(a);
    for (x, &b) in x.iter_mut().zip(b) {
        *x = s.mul_add(a, b, *x);
    }
}

impl<'a> Head<'a> {
    /// Runs all steps for `V` vectors of columns from `first` on.
    #[inline(always)]
    fn columns<S: Simd, const V: usize>(&mut self, s: S, first: usize) {
        let LinearAttention { steps, heads, depth, width, .. } = self.geometry;
        let columns = first..width.min(first + V * S::LANES);
        for t in 0..steps {
            let row = (self.b * steps + t) * heads + self.h;
            let k = &self.k[row * depth..][..depth];
            let mut v = load::<S, V>(s, &self.v[row * width..][columns.clone()]);
            if self.factors.is_some() || self.rate.is_some() {
                let found = self.fade::<S, V>(s, t, k, columns.clone());
                if let Some(rate) = self.rate_of(t) {
                    for (v, found) in v.iter_mut().zip(found) {
                        *v = s.mul(s.splat(rate), s.sub(*v, found));
                    }
                }
            }
            // The first query reads each row of the state as it is written.
            let (mut sum, q) = ([s.splat(0.0); V], self.query(t, 0));
            for ((state, &k), &q) in self.state.chunks_exact_mut(width).zip(k).zip(q) {
                let state = &mut state[columns.clone()];
                let mut x = load::<S, V>(s, state);
                add(s, &mut x, k, &v);
                store(s, x, state);
                add(s, &mut sum, q, &x);
            }
            self.give(s, sum, t, 0, columns.clone());
            for g in 1..self.geometry.group {
                self.read::<S, V>(s, t, g, columns.clone());
            }
        }
    }

    /// The row of a query and of its result.
    fn row(&self, t: usize, g: usize) -> usize {
        let LinearAttention { steps, heads, group, .. } = self.geometry;
        (self.b * steps + t) * heads * group + self.h * group + g
    }

    fn query(&self, t: usize, g: usize) -> &'a [f32] {
        let depth = self.geometry.depth;
        &self.q[self.row(t, g) * depth..][..depth]
    }

    fn rate_of(&self, t: usize) -> Option<f32> {
        let LinearAttention { steps, rates, .. } = self.geometry;
        let head = if rates == 1 { 0 } else { self.h };
        self.rate.map(|rate| rate[(self.b * steps + t) * rates + head])
    }

    /// Applies the decay to the state, and returns the product of the state and the key.
    #[inline(always)]
    fn fade<S: Simd, const V: usize>(
        &mut self,
        s: S,
        t: usize,
        k: &[f32],
        columns: Range<usize>,
    ) -> [S::F32; V] {
        let LinearAttention { width, decays, .. } = self.geometry;
        let factors = self.factors.map_or(&[1.0][..], |all| &all[t * decays..][..decays]);
        let mut found = [s.splat(0.0); V];
        for (i, (state, &k)) in self.state.chunks_exact_mut(width).zip(k).enumerate() {
            let state = &mut state[columns.clone()];
            let factor = s.splat(factors[if factors.len() == 1 { 0 } else { i }]);
            let mut x = load::<S, V>(s, state);
            for x in &mut x {
                *x = s.mul(*x, factor);
            }
            store(s, x, state);
            add(s, &mut found, k, &x);
        }
        found
    }

    /// The product of the state and a query.
    #[inline(always)]
    fn read<S: Simd, const V: usize>(&mut self, s: S, t: usize, g: usize, columns: Range<usize>) {
        let mut sum = [s.splat(0.0); V];
        for (state, &q) in self.state.chunks_exact(self.geometry.width).zip(self.query(t, g)) {
            add(s, &mut sum, q, &load::<S, V>(s, &state[columns.clone()]));
        }
        self.give(s, sum, t, g, columns);
    }

    /// Writes the scaled result of a query.
    #[inline(always)]
    fn give<S: Simd, const V: usize>(
        &mut self,
        s: S,
        mut sum: [S::F32; V],
        t: usize,
        g: usize,
        columns: Range<usize>,
    ) {
        for sum in &mut sum {
            *sum = s.mul(*sum, s.splat(self.scale));
        }
        let row = self.row(t, g);
        store(s, sum, &mut self.y[row * self.geometry.width..][columns]);
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use std::{vec, vec::Vec};

    fn numbers(n: usize, seed: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * 37 + seed * 11) % 101) as f32 / 100.0 - 0.5).collect()
    }

    struct Given {
        past: Vec<f32>,
        decay: Option<Vec<f32>>,
        rate: Option<Vec<f32>>,
    }

    /// Compares the kernel with the formula, in `f64`.
    fn check(geometry: LinearAttention, has_decay: bool, has_rate: bool) {
        let LinearAttention { batch, steps, heads, group, depth, width, decays, rates, scale } =
            geometry;
        let rows = batch * steps * heads;
        let (q, k, v) =
            (numbers(rows * group * depth, 1), numbers(rows * depth, 2), numbers(rows * width, 3));
        let given = Given {
            past: numbers(batch * heads * depth * width, 4),
            decay: has_decay.then(|| numbers(rows * decays, 5)),
            rate: has_rate.then(|| numbers(batch * steps * rates, 6)),
        };
        let mut y = vec![0.0; rows * group * width];
        let mut present = vec![0.0; batch * heads * depth * width];
        let mut scratch = vec![f32::NAN; linear_attention_scratch(&geometry)];
        linear_attention(
            LinearAttentionOperands {
                q: &q,
                k: &k,
                v: &v,
                past: Some(&given.past),
                decay: given.decay.as_deref(),
                rate: given.rate.as_deref(),
            },
            &mut y,
            &mut present,
            &mut scratch,
            geometry,
        );
        let scale = scale.map_or(1.0 / (depth as f64).sqrt(), f64::from);
        for (b, h) in (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
            let from = (b * heads + h) * depth * width;
            let mut state: Vec<f64> =
                given.past[from..][..depth * width].iter().map(|&x| x.into()).collect();
            for t in 0..steps {
                let row = (b * steps + t) * heads + h;
                let decay = |i: usize| match &given.decay {
                    Some(decay) => f64::from(decay[row * decays + if decays == 1 { 0 } else { i }]),
                    None => 0.0,
                };
                (0..depth * width).for_each(|at| state[at] *= decay(at / width).exp());
                for m in 0..width {
                    let key = |i: usize| f64::from(k[row * depth + i]);
                    let found: f64 = (0..depth).map(|i| state[i * width + m] * key(i)).sum();
                    let mut value = f64::from(v[row * width + m]);
                    if let Some(rate) = &given.rate {
                        let head = if rates == 1 { 0 } else { h };
                        value = f64::from(rate[(b * steps + t) * rates + head]) * (value - found);
                    }
                    (0..depth).for_each(|i| state[i * width + m] += key(i) * value);
                    for row in (0..group).map(|g| row * group + g) {
                        let query = |i: usize| f64::from(q[row * depth + i]);
                        let truth: f64 = (0..depth).map(|i| state[i * width + m] * query(i)).sum();
                        let found = f64::from(y[row * width + m]);
                        assert!((found - scale * truth).abs() < 1e-4, "{geometry:?}: {found}");
                    }
                }
            }
            let found = &present[from..][..depth * width];
            assert!(found.iter().zip(&state).all(|(a, b)| (f64::from(*a) - b).abs() < 1e-4));
        }
    }

    #[test]
    fn every_rule_is_its_formula_at_every_level() {
        let one = LinearAttention {
            batch: 2,
            steps: 5,
            heads: 2,
            group: 1,
            depth: 7,
            width: 19,
            decays: 1,
            rates: 2,
            scale: None,
        };
        crate::simd::each_level(|_| {
            for (decay, rate) in [(false, false), (true, false), (false, true), (true, true)] {
                check(one, decay, rate);
                check(LinearAttention { decays: 7, rates: 1, group: 3, ..one }, decay, rate);
                check(LinearAttention { width: 70, scale: Some(0.5), ..one }, decay, rate);
                check(LinearAttention { steps: 0, ..one }, decay, rate);
            }
        });
    }
}
