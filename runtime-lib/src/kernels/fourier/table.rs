//! The tables of a transform: roots of unity, and the chirp of Bluestein's algorithm for lengths
//! with large prime factors. They depend on the length only, so they are weights if it is known at
//! compile time.

use super::stages::{Pair, Roots, fft};
use crate::Float;
use core::f64::consts::{FRAC_1_SQRT_2, FRAC_PI_4};

/// Lengths without a prime factor above this one are factored; others use Bluestein's algorithm.
const LARGEST_FACTOR: usize = 31;

/// Returns the length of the table of a transform of length `n`; `halved` for real lines that are
/// transformed at half the length.
pub fn table_len(n: usize, halved: bool) -> usize {
    let core = core_len(n, halved);
    let roots = match convolution_len(core) {
        None => 2 * core,
        Some(size) => 2 * core + 4 * size,
    };
    roots + if core < n { 2 * (core + 1) } else { 0 }
}

/// Returns the elements of work memory per lane of a transform of length `n`.
pub fn work_len(n: usize, halved: bool) -> usize {
    let core = core_len(n, halved);
    4 * (convolution_len(core).unwrap_or(core) + 1)
}

/// The upper bound of [`table_len`], as a multiple of the length, if the length is known only at
/// run time.
pub const MOST_TABLE: usize = 18;

/// The upper bound of [`work_len`], as a multiple of the length.
pub const MOST_WORK: usize = 16;

/// Returns the length of the complex transform.
pub(super) fn core_len(n: usize, halved: bool) -> usize {
    if halved && n.is_multiple_of(2) { n / 2 } else { n }
}

/// Returns the length of the convolution of Bluestein's algorithm, if length `n` needs it.
fn convolution_len(n: usize) -> Option<usize> {
    let mut rest = n.max(1);
    for factor in 2..=LARGEST_FACTOR {
        while rest.is_multiple_of(factor) {
            rest /= factor;
        }
    }
    if rest == 1 {
        return None;
    }
    // The next power of two, or three quarters of it.
    let (least, power) = (2 * n - 1, (2 * n - 1).next_power_of_two());
    Some(if power / 4 * 3 >= least { power / 4 * 3 } else { power })
}

/// Returns `e^(-2πi k/n)` for `k < n`; exact at multiples of π/4, and symmetric.
fn root(k: usize, n: usize) -> (f64, f64) {
    let (eighth, rest) = (8 * k / n, 8 * k % n);
    let rest = if eighth.is_multiple_of(2) { rest } else { n - rest };
    let angle = FRAC_PI_4 * (number(rest) / number(n));
    let (c, s) = match rest == n {
        true => (FRAC_1_SQRT_2, FRAC_1_SQRT_2),
        false => (libm::cos(angle), libm::sin(angle)),
    };
    let (c, s) = match eighth {
        0 => (c, s),
        1 => (s, c),
        2 => (-s, c),
        3 => (-c, s),
        4 => (-c, -s),
        5 => (-s, -c),
        6 => (s, -c),
        _ => (c, -s),
    };
    (c, -s)
}

fn number(n: usize) -> f64 {
    crate::loops::index::number(n)
}

/// The parts of a table.
pub(super) struct Table<'a, W> {
    /// The length of the transform.
    pub n: usize,
    /// The chirp, if the transform uses Bluestein's algorithm.
    pub chirp: Option<Chirp<'a, W>>,
    /// The roots of the stages, as many as the transform is long.
    pub roots: Roots<'a, W>,
    /// The roots that combine the transforms of two halves.
    pub joints: Roots<'a, W>,
}

/// `e^(-πi k²/n)`, and the transform of its conjugate divided by the length.
pub(super) struct Chirp<'a, W> {
    pub chirp: Roots<'a, W>,
    pub filter: Roots<'a, W>,
}

impl<W> Table<'_, W> {
    /// Returns the length of the transforms of the stages.
    pub fn size(&self) -> usize {
        self.roots.re.len()
    }
}

/// Splits the table of a transform of length `n` into its parts.
pub(super) fn read<W>(table: &[W], n: usize, halved: bool) -> Table<'_, W> {
    let core = core_len(n, halved);
    let mut rest = table;
    let mut take = |len: usize| {
        let (re, after) = rest.split_at(len);
        let (im, after) = after.split_at(len);
        rest = after;
        Roots { re, im }
    };
    let chirp = convolution_len(core).map(|size| Chirp { chirp: take(core), filter: take(size) });
    let roots = take(chirp.as_ref().map_or(core, |chirp| chirp.filter.re.len()));
    let joints = take(if core < n { core + 1 } else { 0 });
    Table { n: core, chirp, roots, joints }
}

/// Writes the table of a transform of length `n`. `work` has the work memory of one lane.
pub fn dft_table<W: Float<Wide = W>>(table: &mut [W], work: &mut [W], n: usize) {
    fill(table, work, n, false);
}

/// [`dft_table`] for real lines that are transformed at half the length.
pub fn real_dft_table<W: Float<Wide = W>>(table: &mut [W], work: &mut [W], n: usize) {
    fill(table, work, n, true);
}

fn fill<W: Float<Wide = W>>(table: &mut [W], work: &mut [W], n: usize, halved: bool) {
    let core = core_len(n, halved);
    let mut rest = table;
    if let Some(size) = convolution_len(core) {
        let (chirp, after) = rest.split_at_mut(2 * core);
        let (filter, after) = after.split_at_mut(2 * size);
        rest = after;
        // k² grows by 2k + 1; it counts in units of π/n.
        let mut square = 0;
        for k in 0..core {
            put(chirp, core, k, root(square, 2 * core));
            square = (square + 2 * k + 1) % (2 * core);
        }
        roots(&mut rest[..2 * size], size, size);
        let all = Roots { re: &rest[..size], im: &rest[size..2 * size] };
        filter_of(chirp, filter, all, work);
        rest = &mut rest[2 * size..];
    } else {
        roots(&mut rest[..2 * core], core, core);
        rest = &mut rest[2 * core..];
    }
    if core < n {
        roots(&mut rest[..2 * (core + 1)], core + 1, n);
    }
}

/// Writes the first `len` of the `n`-th roots of unity.
fn roots<W: Float>(table: &mut [W], len: usize, n: usize) {
    for k in 0..len {
        put(table, len, k, root(k, n));
    }
}

fn put<W: Float>(table: &mut [W], len: usize, k: usize, (re, im): (f64, f64)) {
    (table[k], table[len + k]) = (W::from_f64(re), W::from_f64(im));
}

/// Writes the transform of the conjugate of the chirp, centered at 0 and divided by its length.
fn filter_of<W: Float<Wide = W>>(
    chirp: &[W],
    filter: &mut [W],
    roots: Roots<'_, W>,
    work: &mut [W],
) {
    let (n, size) = (chirp.len() / 2, filter.len() / 2);
    let scale = W::ONE.div(crate::loops::index::number(size));
    let (re, im) = filter.split_at_mut(size);
    re.fill(W::ZERO);
    im.fill(W::ZERO);
    for k in 0..n {
        for at in [k, (size - k) % size] {
            re[at] = chirp[k].mul(scale);
            im[at] = chirp[n + k].mul(scale).neg();
        }
    }
    let (other_re, other_im) = work[..2 * size].split_at_mut(size);
    let other = Pair { re: other_re, im: other_im };
    let done = fft(roots, 1, Pair { re, im }, other);
    if done.swapped {
        filter.copy_from_slice(&work[..2 * size]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_of_unity_are_accurate() {
        assert_eq!(
            [0, 1, 2, 3].map(|k| root(k, 4)),
            [(1.0, -0.0), (0.0, -1.0), (-1.0, -0.0), (-0.0, 1.0)]
        );
        for n in [1, 3, 5, 8, 12, 30, 97] {
            for k in 0..n {
                let angle = core::f64::consts::TAU * number(k) / number(n);
                let (c, s) = root(k, n);
                assert!((c - libm::cos(angle)).abs() < 1e-14, "{k} of {n}");
                assert!((s + libm::sin(angle)).abs() < 1e-14, "{k} of {n}");
                if k > 0 {
                    assert_eq!(root(n - k, n), (c, -s), "{k} of {n}");
                }
            }
        }
    }

    #[test]
    fn the_bounds_hold_for_every_length() {
        for n in 1..4096 {
            for halved in [false, true] {
                assert!(table_len(n, halved) <= MOST_TABLE * n, "{n}");
                assert!(work_len(n, halved) <= MOST_WORK * n, "{n}");
            }
        }
    }
}
