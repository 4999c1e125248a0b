//! Transforms of real lines by complex transforms of half the length: the even-indexed elements are
//! the real parts, the odd-indexed ones the imaginary parts.

use super::{
    stages::{Pair, Roots},
    times,
};
use crate::Float;

/// Computes the first half of the transforms `y` of real lines from the transforms of their
/// half-length lines.
pub(super) fn join<W: Float>(
    x: &Pair<'_, W>,
    y: &mut Pair<'_, W>,
    joints: Roots<'_, W>,
    lanes: usize,
) {
    let (n, half) = (joints.re.len() - 1, W::from_f64(0.5));
    for k in 0..=n {
        let root = (joints.re[k], joints.im[k]);
        let (z, c) = (row(x, k % n, lanes), row(x, (n - k) % n, lanes));
        let (re, im) = row_mut(y, k, lanes);
        for (lane, (re, im)) in re.iter_mut().zip(im).enumerate() {
            let even = (z.0[lane].add(c.0[lane]).mul(half), z.1[lane].sub(c.1[lane]).mul(half));
            let odd = (z.1[lane].add(c.1[lane]).mul(half), c.0[lane].sub(z.0[lane]).mul(half));
            let odd = times(odd, root);
            (*re, *im) = (even.0.add(odd.0), even.1.add(odd.1));
        }
    }
}

/// Computes the transforms of the half-length lines from the first half of those of real lines.
pub(super) fn part<W: Float>(
    x: &Pair<'_, W>,
    y: &mut Pair<'_, W>,
    joints: Roots<'_, W>,
    lanes: usize,
) {
    let (n, half) = (joints.re.len() - 1, W::from_f64(0.5));
    for k in 0..n {
        let root = (joints.re[k], joints.im[k].neg());
        let (a, b) = (row(x, k, lanes), row(x, n - k, lanes));
        let (re, im) = row_mut(y, k, lanes);
        for (lane, (re, im)) in re.iter_mut().zip(im).enumerate() {
            let even = (a.0[lane].add(b.0[lane]).mul(half), a.1[lane].sub(b.1[lane]).mul(half));
            let odd = (a.0[lane].sub(b.0[lane]).mul(half), a.1[lane].add(b.1[lane]).mul(half));
            let odd = times(odd, root);
            (*re, *im) = (even.0.sub(odd.1), even.1.add(odd.0));
        }
    }
}

/// Completes the transforms of real lines of an odd length `n` from their first half.
pub(super) fn mirror<W: Float>(x: &Pair<'_, W>, y: &mut Pair<'_, W>, n: usize, lanes: usize) {
    for k in 0..n {
        let (from, (re, im)) = (row(x, k.min(n - k), lanes), row_mut(y, k, lanes));
        re.copy_from_slice(from.0);
        im.copy_from_slice(from.1);
        if k > n / 2 {
            im.iter_mut().for_each(|im| *im = im.neg());
        }
    }
}

/// Returns element `k` of all lines.
#[inline(always)]
fn row<'a, W>(x: &'a Pair<'_, W>, k: usize, lanes: usize) -> (&'a [W], &'a [W]) {
    (&x.re[k * lanes..][..lanes], &x.im[k * lanes..][..lanes])
}

#[inline(always)]
fn row_mut<'a, W>(x: &'a mut Pair<'_, W>, k: usize, lanes: usize) -> (&'a mut [W], &'a mut [W]) {
    (&mut x.re[k * lanes..][..lanes], &mut x.im[k * lanes..][..lanes])
}
