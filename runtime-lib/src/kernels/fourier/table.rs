//! The tables of a transform: roots of unity, and for lengths with large prime factors what turns
//! the transform into a convolution. They depend on the length alone, so they stand among the
//! weights where it is known before the model runs.

use super::stages::{Pair, fft};
use crate::Float;
use core::f64::consts::{FRAC_1_SQRT_2, FRAC_PI_4};

/// A length whose prime factors are all at most this one is split into them.
const LARGEST_FACTOR: usize = 31;

/// How many numbers the table of a transform of length `n` has; `halved` where the lines are real
/// and the two halves of one are transformed together.
pub fn table_len(n: usize, halved: bool) -> usize {
    let core = core_len(n, halved);
    let roots = match convolution_len(core) {
        None => 2 * core,
        Some(size) => 2 * core + 4 * size,
    };
    roots + if core < n { 2 * (core + 1) } else { 0 }
}

/// How many numbers of work memory a transform of length `n` needs for each of the lines that are
/// transformed at a time.
pub fn work_len(n: usize, halved: bool) -> usize {
    let core = core_len(n, halved);
    4 * (convolution_len(core).unwrap_or(core) + 1)
}

/// The most that [`table_len`] is for a length known only when the model runs, as a multiple of it.
pub const MOST_TABLE: usize = 18;

/// The most that [`work_len`] is, as a multiple of the length.
pub const MOST_WORK: usize = 16;

/// The length that is transformed as complex numbers.
pub(super) fn core_len(n: usize, halved: bool) -> usize {
    if halved && n.is_multiple_of(2) { n / 2 } else { n }
}

/// The length of the convolution that a transform of length `n` is made of, where `n` has large
/// prime factors.
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

/// `e^(-2πi k/n)` for `k` below `n`; exact at every eighth of a turn, and with all the symmetries
/// of a circle.
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

/// The numbers of a table by their use.
pub(super) struct Table<'a, W> {
    /// The length that is transformed.
    pub n: usize,
    /// What turns the transform into a convolution, where it is made of one.
    pub chirp: Option<Chirp<'a, W>>,
    /// The roots for the stages, of which there are as many as their transform is long.
    pub roots: Roots<'a, W>,
    /// The roots that join the transforms of two halves.
    pub joints: Roots<'a, W>,
}

/// Roots of unity, by their real and imaginary parts.
#[derive(Clone, Copy)]
pub(super) struct Roots<'a, W> {
    pub re: &'a [W],
    pub im: &'a [W],
}

/// `e^(-πi k²/n)`, and the transform of its conjugate, divided by the length.
pub(super) struct Chirp<'a, W> {
    pub chirp: Roots<'a, W>,
    pub filter: Roots<'a, W>,
}

impl<W> Table<'_, W> {
    /// The length of the transforms that the stages do.
    pub fn size(&self) -> usize {
        self.roots.re.len()
    }
}

/// The table of a transform of length `n`.
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

/// Writes the table of a transform of length `n`. `work` is as for a line.
pub fn dft_table<W: Float<Wide = W>>(table: &mut [W], work: &mut [W], n: usize) {
    fill(table, work, n, false);
}

/// [`dft_table`] for real lines, of which the two halves are transformed together.
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
        // k² grows by 2k + 1, and counts in half turns of n.
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

/// Writes the first `len` of the `n` roots.
fn roots<W: Float>(table: &mut [W], len: usize, n: usize) {
    for k in 0..len {
        put(table, len, k, root(k, n));
    }
}

fn put<W: Float>(table: &mut [W], len: usize, k: usize, (re, im): (f64, f64)) {
    (table[k], table[len + k]) = (W::from_f64(re), W::from_f64(im));
}

/// The transform of the conjugate of the chirp, put around 0, divided by its length.
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
    fn roots_lie_on_the_circle_as_exactly_as_can_be() {
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
