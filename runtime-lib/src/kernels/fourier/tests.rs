use super::*;
use core::array::from_fn;

/// The longest line of the tests.
const MOST: usize = 128;

/// Computes `Σ x[t] e^(∓2πi kt/n)` by its definition.
fn naive(x: &[(f64, f64)], n: usize, k: usize, sign: f64) -> (f64, f64) {
    let mut sum = (0.0, 0.0);
    for (t, &x) in x.iter().take(n).enumerate() {
        let turn: f64 = number(k * t % n);
        let angle = sign * core::f64::consts::TAU * turn / number::<f64>(n);
        let term = times(x, (libm::cos(angle), libm::sin(angle)));
        sum = (sum.0 + term.0, sum.1 + term.1);
    }
    sum
}

fn noise(seed: usize) -> f64 {
    let x = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    x as f64 / (1u64 << 23) as f64 - 1.0
}

/// Returns the geometry of a transform of `lines` contiguous lines of `given` elements.
fn geometry(
    n: usize,
    given: usize,
    taken: usize,
    parts: usize,
    lines: usize,
    to: usize,
) -> Transform {
    let side = |len: usize, parts: usize| Lines {
        batch: 1,
        batch_stride: 0,
        lines,
        line: len * parts,
        step: parts,
    };
    let lanes = if lines == 1 { 1 } else { 8 };
    Transform { n, given, taken, parts, lanes, from: side(given, parts), to: side(taken, to) }
}

fn tables<T: Float<Wide = T>>(
    n: usize,
    halved: bool,
) -> ([T; MOST * MOST_TABLE], [T; 8 * MOST * MOST_WORK]) {
    let mut table = [T::ZERO; MOST * MOST_TABLE];
    let mut work = [T::ZERO; 8 * MOST * MOST_WORK];
    let fill = if halved { real_dft_table } else { dft_table };
    fill(&mut table[..table_len(n, halved)], &mut work, n);
    (table, work)
}

fn close(found: (f64, f64), expected: (f64, f64), tolerance: f64, what: &str) {
    let far = (found.0 - expected.0).abs().max((found.1 - expected.1).abs());
    assert!(far < tolerance, "{what}: {found:?} is not {expected:?}");
}

/// Compares both directions, for complex and real lines, with the definition.
fn check<T: Float<Wide = T>>(n: usize, given: usize, lines: usize, tolerance: f64) {
    let x: [T; 2 * MOST * 9] = from_fn(|i| T::from_f64(noise(i)));
    let at = |line: usize, t: usize| {
        let at = 2 * (line * given + t);
        (x[at].to_f64(), x[at + 1].to_f64())
    };
    let mut y = [T::ZERO; 2 * MOST * 9];
    let (table, mut work) = tables::<T>(n, false);
    let table = &table[..table_len(n, false)];
    let both = geometry(n, given, n, 2, lines, 2);
    for (sign, scale) in [(-1.0, 1.0), (1.0, 1.0 / n as f64)] {
        if sign < 0.0 {
            dft(&x, None, table, &mut y, &mut work, both);
        } else {
            inverse_dft(&x, table, &mut y, &mut work, both);
        }
        for line in 0..lines {
            let values: [(f64, f64); MOST] =
                from_fn(|t| if t < given { at(line, t) } else { (0.0, 0.0) });
            for k in 0..n {
                let expected = naive(&values[..given.min(n)], n, k, sign);
                let found = 2 * (line * n + k);
                let found = (y[found].to_f64(), y[found + 1].to_f64());
                close(found, (expected.0 * scale, expected.1 * scale), tolerance, "complex");
            }
        }
    }
}

/// Transforms real lines forward and back.
fn check_real<T: Float<Wide = T>>(n: usize, given: usize, lines: usize, tolerance: f64) {
    let x: [T; MOST * 9] = from_fn(|i| T::from_f64(noise(i)));
    let window: [T; MOST] = from_fn(|i| T::from_f64(1.0 + noise(i + 77)));
    let (table, mut work) = tables::<T>(n, true);
    let table = &table[..table_len(n, true)];
    let (mut y, mut back) = ([T::ZERO; 2 * MOST * 9], [T::ZERO; MOST * 9]);
    for taken in [n, n / 2 + 1] {
        real_dft(
            &x,
            Some(&window),
            table,
            &mut y,
            &mut work,
            geometry(n, given, taken, 1, lines, 2),
        );
        for line in 0..lines {
            let value = |t: usize| x[line * given + t].mul(window[t]).to_f64();
            let values: [(f64, f64); MOST] =
                from_fn(|t| (if t < given.min(n) { value(t) } else { 0.0 }, 0.0));
            for k in 0..taken {
                let found = 2 * (line * taken + k);
                let found = (y[found].to_f64(), y[found + 1].to_f64());
                close(found, naive(&values[..given.min(n)], n, k, -1.0), tolerance, "real");
            }
        }
    }
    let halves = geometry(n, n / 2 + 1, n, 2, lines, 1);
    inverse_real_dft(&y, table, &mut back, &mut work, halves);
    for line in 0..lines {
        for t in 0..n {
            let expected =
                if t < given { x[line * given + t].mul(window[t]).to_f64() } else { 0.0 };
            close((back[line * n + t].to_f64(), 0.0), (expected, 0.0), tolerance, "back");
        }
    }
}

#[test]
fn every_length_matches_the_definition() {
    for n in (1..=66).chain([74, 97, 100, 127, 128]) {
        check::<f64>(n, n, 1, 1e-11);
        check_real::<f64>(n, n, 1, 1e-11);
    }
}

#[test]
fn lines_are_transformed_together() {
    for (n, given) in [(12, 12), (37, 37), (35, 40), (16, 9), (64, 1), (7, 7), (31, 33)] {
        for lines in [2, 9] {
            check::<f32>(n, given, lines, 2e-4);
            check_real::<f32>(n, given, lines, 2e-4);
            check::<f64>(n, given, lines, 1e-11);
        }
    }
}

#[cfg(feature = "half")]
#[test]
fn small_types_calculate_in_single_precision() {
    use half::f16;
    let (table, mut work) = tables::<f32>(4, false);
    let x = [1.0, 2.0, 3.0, 4.0].map(f16::from_f32);
    let mut y = [f16::ZERO; 8];
    dft(&x, None, &table[..table_len(4, false)], &mut y, &mut work, geometry(4, 4, 4, 1, 1, 2));
    assert_eq!(y.map(f16::to_f32), [10.0, 0.0, -2.0, 2.0, -2.0, 0.0, -2.0, -2.0]);
}

#[test]
fn sizes_come_from_the_inputs() {
    let forward = Ends { axis: 1, halved_input: false, halved_output: true };
    let mut sizes = [0; 7];
    assert!(dft_sizes(&mut sizes, Some(&[-3]), None, &[2, 3, 5, 1], forward).is_ok());
    assert_eq!(sizes, [3, 2, 3, 5, 2, 2, 5]);
    assert!(dft_sizes(&mut sizes, None, Some(&[8]), &[2, 3, 5, 1], forward).is_ok());
    assert_eq!(sizes, [8, 2, 3, 5, 2, 5, 5]);
    let back = Ends { axis: 0, halved_input: true, halved_output: false };
    assert!(dft_sizes(&mut sizes, None, None, &[5, 3, 5, 2], back).is_ok());
    assert_eq!(sizes, [8, 1, 5, 15, 8, 3, 5]);
    for (axis, length) in [(3, 4), (-1, 4), (4, 4), (0, 0), (0, -1)] {
        let found = dft_sizes(&mut sizes, Some(&[axis]), Some(&[length]), &[2, 3, 5, 2], back);
        assert!(found.is_err(), "{axis} {length}");
    }
    let mut sizes = [0; 3];
    assert!(frame_sizes(&mut sizes, &[3], Some(&[4]), 12, Some(4)).is_ok());
    assert_eq!(sizes, [3, 4, 3]);
    assert!(frame_sizes(&mut sizes, &[3], None, 9, None).is_ok());
    assert_eq!(sizes, [3, 9, 1]);
    assert!(frame_sizes(&mut sizes, &[3], None, 8, Some(9)).is_err());
    assert!(frame_sizes(&mut sizes, &[0], None, 8, None).is_err());
    assert!(frame_sizes(&mut sizes, &[3], Some(&[4]), 12, Some(5)).is_err());
}
