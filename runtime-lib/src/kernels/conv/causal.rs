//! `CausalConvWithState`: depthwise convolutions along time that continue from a state.

use crate::loops::epilogue::Activation;
use crate::{Float, Number};

/// The sizes of the signals and of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct CausalConv {
    /// The number of signals.
    pub batch: usize,
    /// The number of channels of a signal.
    pub channels: usize,
    /// The length of a signal.
    pub len: usize,
    /// The number of weights for each channel.
    pub kernel: usize,
}

/// The number of elements that are accumulated at once.
const COLUMNS: usize = 64;

/// The operands of a causal convolution.
#[derive(Clone, Copy, Debug)]
pub struct CausalConvOperands<'a, T> {
    /// The input.
    pub x: &'a [T],
    /// The weights.
    pub w: &'a [T],
    /// The bias, one element for each channel; zero if absent.
    pub bias: Option<&'a [T]>,
    /// The `kernel - 1` elements before `x`; zeros if absent.
    pub past: Option<&'a [T]>,
}

/// Computes `y[t] = f(Σ w[i] · x[t + i - (kernel - 1)] + bias)`. The elements before `x` are those
/// of `past`, or zeros. Writes the last `kernel - 1` elements of `past` and `x` together to
/// `present`.
pub fn causal_conv_with_state<T: Float>(
    operands: CausalConvOperands<'_, T>,
    y: &mut [T],
    present: Option<&mut [T]>,
    geometry: CausalConv,
    f: Activation,
) {
    let CausalConvOperands { x, w, bias, past } = operands;
    let CausalConv { batch, channels, len, kernel } = geometry;
    let state = kernel - 1;
    let before = |row: usize| past.map_or(&[][..], |past| &past[row * state..][..state]);
    for row in 0..batch * channels {
        let channel = row % channels;
        let signal = Signal { x: &x[row * len..][..len], past: before(row), state };
        let w = &w[channel * kernel..][..kernel];
        let bias = bias.map_or(T::Wide::ZERO, |bias| bias[channel].widen());
        for (first, y) in (0..).step_by(COLUMNS).zip(y[row * len..][..len].chunks_mut(COLUMNS)) {
            let mut sums = [bias; COLUMNS];
            for (i, w) in w.iter().enumerate() {
                signal.add(w.widen(), first + i, &mut sums[..y.len()]);
            }
            y.iter_mut().zip(sums).for_each(|(y, sum)| *y = f.of(T::narrow(sum)));
        }
    }
    let Some(present) = present else { return };
    for (row, present) in present.chunks_exact_mut(state.max(1)).enumerate() {
        let signal = Signal { x: &x[row * len..][..len], past: before(row), state };
        present.iter_mut().zip(len..).for_each(|(to, at)| *to = signal.at(at));
    }
}

/// A signal and its state.
struct Signal<'a, T> {
    x: &'a [T],
    /// The elements before the signal; empty for zeros.
    past: &'a [T],
    /// The number of elements before the signal.
    state: usize,
}

impl<T: Float> Signal<'_, T> {
    /// Returns the element at `at`, counted from the first element of the state.
    fn at(&self, at: usize) -> T {
        match at.checked_sub(self.state) {
            Some(at) => self.x[at],
            None => self.past.get(at).copied().unwrap_or(T::ZERO),
        }
    }

    /// Adds the elements from `first` on, times `w`, to `sums`.
    #[inline(always)]
    fn add(&self, w: T::Wide, first: usize, sums: &mut [T::Wide]) {
        let before = self.state.saturating_sub(first).min(sums.len());
        let (early, late) = sums.split_at_mut(before);
        let past = self.past.get(first..).unwrap_or_default();
        let x = &self.x[(first + before).saturating_sub(self.state)..];
        for (sums, from) in [(early, past), (late, x)] {
            for (sum, x) in sums.iter_mut().zip(from) {
                *sum = sum.add(w.mul(x.widen()));
            }
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use std::{vec, vec::Vec};

    #[test]
    fn parts_of_a_signal_match_the_whole_signal() {
        let (len, channels) = (150, 2);
        let x: Vec<f64> = (0..channels * len).map(|i| (i * i % 17) as f64).collect();
        for kernel in [1, 2, 4] {
            let w: Vec<f64> = (0..channels * kernel).map(|i| i as f64 - 2.0).collect();
            let geometry = CausalConv { batch: 1, channels, len, kernel };
            let mut whole = vec![0.0; x.len()];
            let bias = [0.5, -1.0];
            let f = Activation::Swish { alpha: 1.0 };
            causal_conv_with_state(
                CausalConvOperands { x: &x, w: &w, bias: Some(&bias), past: None },
                &mut whole,
                None,
                geometry,
                f,
            );
            let truth = |channel: usize, t: usize| {
                let terms = (0..kernel).filter(|i| t + i + 1 >= kernel);
                let term =
                    |i: usize| w[channel * kernel + i] * x[channel * len + t + i + 1 - kernel];
                f.of(bias[channel] + terms.map(term).sum::<f64>())
            };
            assert!((0..len * 2).all(|i| (whole[i] - truth(i / len, i % len)).abs() < 1e-9));
            let mut past: Option<Vec<f64>> = None;
            let mut at = 0;
            for part in [1, 2, 70, 77] {
                let cut = |c: usize| x[c * len + at..][..part].to_vec();
                let (x, mut y) = ([cut(0), cut(1)].concat(), vec![0.0; part * channels]);
                let mut present = vec![9.0; channels * (kernel - 1)];
                let geometry = CausalConv { batch: 1, channels, len: part, kernel };
                let before = past.as_deref();
                causal_conv_with_state(
                    CausalConvOperands { x: &x, w: &w, bias: Some(&bias), past: before },
                    &mut y,
                    Some(&mut present),
                    geometry,
                    f,
                );
                for c in 0..channels {
                    assert_eq!(y[c * part..][..part], whole[c * len + at..][..part], "{kernel}");
                }
                (past, at) = (Some(present), at + part);
            }
        }
    }
}
