//! Comparisons of both kinds of kernels with the formula, in `f64`.

use super::*;
use crate::Number;
use crate::simd::each_level;
use std::{vec, vec::Vec};

fn numbers<T: Number>(n: usize, seed: usize) -> Vec<T> {
    let number = |i: usize| ((i * 37 + seed * 11) % 101) as f64 / 50.0 - 1.0;
    (0..n).map(|i| T::from_f64(number(i))).collect()
}

/// The strides of heads, which are interleaved by rows or contiguous.
fn strides(rows_first: bool, heads: usize, rows: usize, size: usize) -> [usize; 3] {
    let all = heads * rows * size;
    if rows_first { [all, size, heads * size] } else { [all, rows * size, size] }
}

pub(crate) fn sizes(
    batch: usize,
    heads: [usize; 2],
    rows: [usize; 2],
    sizes: [usize; 2],
) -> Attention {
    let ([heads, group], [queries, keys], [depth, width]) = (heads, rows, sizes);
    Attention {
        batch,
        heads,
        group,
        queries,
        keys,
        depth,
        width,
        q: strides(false, heads * group, queries, depth),
        k: strides(false, heads, keys, depth),
        v: strides(false, heads, keys, width),
        y: strides(false, heads * group, queries, width),
        mask: [0, 0, keys],
        mask_len: keys,
        past: 0,
        left: None,
        right: None,
        scale: None,
        softcap: 0.0,
        precision: Precision::Wide,
        stage: Stage::Products,
        rows: 12,
    }
}

/// The same geometry with the heads of a row next to each other.
pub(crate) fn rows_first(g: Attention) -> Attention {
    Attention {
        q: strides(true, g.heads * g.group, g.queries, g.depth),
        k: strides(true, g.heads, g.keys, g.depth),
        v: strides(true, g.heads, g.keys, g.width),
        y: strides(true, g.heads * g.group, g.queries, g.width),
        ..g
    }
}

struct Given<T> {
    mask: Option<Vec<T>>,
    allowed: Option<Vec<bool>>,
    lengths: Option<Vec<i64>>,
}

fn nothing<T>() -> Given<T> {
    Given { mask: None, allowed: None, lengths: None }
}

/// Computes the results and the scores of all stages by the formula.
fn truth<T: Number>(
    g: &Attention,
    [q, k, v]: [&[T]; 3],
    given: &Given<T>,
) -> (Vec<f64>, [Vec<f64>; 4]) {
    let mut y = vec![0.0; g.batch * g.heads * g.group * g.queries * g.width];
    let mut stages = [const { Vec::new() }; 4];
    let scale = g.scale.map_or(1.0 / (g.depth as f64).sqrt(), f64::from);
    let cap = f64::from(g.softcap);
    let rows = (0..g.batch)
        .flat_map(|b| (0..g.heads * g.group).map(move |h| (b, h)))
        .flat_map(|(b, h)| (0..g.queries).map(move |i| (b, h, i)));
    for (b, h, i) in rows {
        let at = |strides: [usize; 3], head: usize, row: usize| {
            b * strides[0] + head * strides[1] + row * strides[2]
        };
        let (from_q, kv) = (at(g.q, h, i), h / g.group);
        let len = given.lengths.as_ref().map_or(g.keys as i64, |lengths| lengths[b]);
        let offset = match given.lengths {
            Some(_) => len - g.queries as i64,
            None => g.past as i64,
        };
        let (mut scores, mut bias) = (Vec::new(), Vec::new());
        for j in 0..g.keys {
            let from_k = at(g.k, kv, j);
            let terms = (0..g.depth).map(|d| q[from_q + d].to_f64() * k[from_k + d].to_f64());
            scores.push(scale * terms.sum::<f64>());
            let ahead = j as i64 - (offset + i as i64);
            let kept = g.left.is_none_or(|left| -ahead <= left as i64)
                && g.right.is_none_or(|right| ahead <= right as i64)
                && (j as i64) < len
                && (given.mask.is_none() && given.allowed.is_none() || j < g.mask_len);
            let mask = at(g.mask, h, i) + j;
            let allowed = given.allowed.as_ref().is_none_or(|all| kept && all[mask]);
            bias.push(match &given.mask {
                _ if !kept || !allowed => f64::NEG_INFINITY,
                Some(all) => all[mask].to_f64(),
                None => 0.0,
            });
        }
        stages[0].extend(&scores);
        if cap != 0.0 {
            scores.iter_mut().for_each(|x| *x = cap * (*x / cap).tanh());
        }
        stages[1].extend(&scores);
        scores.iter_mut().zip(&bias).for_each(|(x, bias)| *x += bias);
        stages[2].extend(&scores);
        let max = scores.iter().fold(f64::NEG_INFINITY, |max, &x| max.max(x));
        let e: Vec<f64> = scores.iter().map(|x| (x - max).exp()).collect();
        let sum: f64 = e.iter().sum();
        let empty = bias.iter().all(|&x| x == f64::NEG_INFINITY);
        let weights: Vec<f64> = e.iter().map(|e| if empty { 0.0 } else { e / sum }).collect();
        for (d, to) in y[at(g.y, h, i)..][..g.width].iter_mut().enumerate() {
            *to = (0..g.keys).map(|j| weights[j] * v[at(g.v, kv, j) + d].to_f64()).sum();
        }
        stages[3].extend(weights);
    }
    (y, stages)
}

type Kernel<T> =
    fn(AttentionOperands<'_, T>, &mut [T], Option<&mut [T]>, &mut [<T as Float>::Wide], Attention);

fn near<T: Number>(found: &[T], truth: &[f64], error: f64) -> bool {
    found.len() == truth.len()
        && found.iter().zip(truth).all(|(found, &truth)| {
            found.to_f64() == truth
                || (found.to_f64() - truth).abs() <= error * truth.abs().max(1.0)
        })
}

/// Compares a kernel with the formula, with and without each stage of the scores.
fn check_with<T: Float>(kernel: Kernel<T>, wide: bool, error: f64, g: Attention, given: &Given<T>) {
    let heads = g.batch * g.heads;
    let q: Vec<T> = numbers(heads * g.group * g.queries * g.depth, 1);
    let (k, v): (Vec<T>, Vec<T>) =
        (numbers(heads * g.keys * g.depth, 2), numbers(heads * g.keys * g.width, 3));
    for stage in [Stage::Products, Stage::Capped, Stage::Masked, Stage::Weights] {
        let g = Attention { stage, ..g };
        let (truth, stages) = truth(&g, [&q, &k, &v], given);
        for with_scores in [false, true] {
            let mut y = vec![T::HIGHEST; truth.len()];
            let mut scores = vec![T::HIGHEST; heads * g.group * g.queries * g.keys];
            let mut scratch = vec![
                T::Wide::from_f64(f64::NAN);
                attention_scratch(&g, if wide { size_of::<T>() } else { 0 })
            ];
            kernel(
                AttentionOperands {
                    q: &q,
                    k: &k,
                    v: &v,
                    mask: given.mask.as_deref(),
                    allowed: given.allowed.as_deref(),
                    lengths: given.lengths.as_deref(),
                },
                &mut y,
                with_scores.then_some(&mut scores),
                &mut scratch,
                g,
            );
            assert!(
                near(&y, &truth, error),
                "{g:?}: {:?}",
                y.iter().map(|y| y.to_f64()).collect::<Vec<_>>()
            );
            let expected = &stages[stage as usize];
            assert!(!with_scores || near(&scores, expected, error), "{g:?}");
        }
    }
}

fn check(g: Attention, given: &Given<f32>) {
    let cast = |x: &Vec<f32>| x.iter().map(|&x| f64::from(x)).collect();
    let double = Given {
        mask: given.mask.as_ref().map(cast),
        allowed: given.allowed.clone(),
        lengths: given.lengths.clone(),
    };
    for g in [g, rows_first(g)] {
        check_with(attention_f32, true, 1e-5, g, given);
        check_with(attention_f64, true, 1e-12, g, &double);
    }
}

#[test]
fn heads_share_keys() {
    each_level(|_| {
        for rows in [[1, 1], [1, 70], [3, 40], [40, 33], [13, 130]] {
            for heads in [[1, 1], [2, 1], [2, 3], [1, 9]] {
                for batch in [1, 2] {
                    check(sizes(batch, heads, rows, [20, 12]), &nothing());
                }
            }
        }
    });
}

#[test]
fn rows_of_values_may_have_a_padded_stride() {
    check(sizes(1, [4, 1], [20, 30], [3, 128]), &nothing());
}

#[test]
fn queries_attend_to_the_keys_of_windows_and_lengths() {
    let one = sizes(2, [1, 2], [14, 40], [8, 5]);
    for (left, right) in
        [(None, Some(0)), (Some(2), None), (Some(0), Some(0)), (Some(17), Some(1)), (None, None)]
    {
        for past in [0, 5, 26, 50] {
            check(Attention { left, right, past, ..one }, &nothing());
        }
        for lengths in [[40, 3], [0, 14], [17, -2], [60, 20]] {
            let given = Given { lengths: Some(lengths.to_vec()), ..nothing() };
            check(Attention { left, right, ..one }, &given);
        }
    }
}

#[test]
fn weights_may_be_calculated_in_double_precision() {
    let g = sizes(1, [1, 1], [5, 70], [8, 4]);
    let q: Vec<f32> = numbers(40, 1);
    let (k, v): (Vec<f32>, Vec<f32>) = (numbers(560, 2), numbers(280, 3));
    let all = |precision| {
        let mut y = vec![0.0; 20];
        let mut scratch = vec![f32::NAN; attention_scratch(&g, 4)];
        let g = Attention { precision, ..g };
        attention_f32(
            AttentionOperands { q: &q, k: &k, v: &v, mask: None, allowed: None, lengths: None },
            &mut y,
            None,
            &mut scratch,
            g,
        );
        y
    };
    let (wide, double) = (all(Precision::Wide), all(Precision::Double));
    assert!(wide.iter().zip(&double).all(|(a, b)| (a - b).abs() < 1e-6));
}

#[test]
fn masks_are_additive_or_boolean() {
    let one = sizes(2, [2, 2], [5, 19], [6, 7]);
    for mask_len in [19, 11] {
        for mask in [[0, 0, mask_len], [0, 0, 0], [4 * 5 * mask_len, 5 * mask_len, mask_len]] {
            let g = Attention { mask, mask_len, right: Some(9), ..one };
            let n = 2 * 4 * 5 * mask_len;
            let mut bias: Vec<f32> = numbers(n, 9);
            bias.iter_mut().step_by(3).for_each(|x| *x = f32::NEG_INFINITY);
            // One row is masked entirely.
            bias[..mask_len].fill(f32::NEG_INFINITY);
            check(g, &Given { mask: Some(bias.clone()), ..nothing() });
            let allowed = bias.iter().map(|&x| x > f32::NEG_INFINITY).collect();
            check(Attention { softcap: 0.7, ..g }, &Given { allowed: Some(allowed), ..nothing() });
        }
    }
}

#[test]
fn keys_that_are_not_attended_may_be_nan() {
    let g = Attention { right: Some(0), ..sizes(1, [1, 1], [2, 9], [3, 2]) };
    let q: Vec<f32> = numbers(6, 1);
    let (mut k, mut v): (Vec<f32>, Vec<f32>) = (numbers(27, 2), numbers(18, 3));
    k[9..].fill(f32::NAN);
    v[6..].fill(f32::NAN);
    for rows in [1, 12] {
        let mut y = [0.0; 4];
        let g = Attention { rows, ..g };
        let mut scratch = vec![0.0; attention_scratch(&g, 4)];
        attention_f32(
            AttentionOperands {
                q: &q,
                k: &k,
                v: &v,
                mask: None,
                allowed: None,
                lengths: Some(&[3]),
            },
            &mut y,
            None,
            &mut scratch,
            g,
        );
        assert!(y.iter().all(|y| y.is_finite()));
    }
}

#[test]
fn a_fully_masked_row_is_zero() {
    let g = sizes(1, [1, 1], [1, 9], [3, 2]);
    let (q, k, v) = ([1e30; 3], [1e30; 27], [1e30; 18]);
    let mask = [f32::NEG_INFINITY; 9];
    each_level(|level| {
        let mut y = [1.0; 2];
        let mut scratch = vec![0.0; attention_scratch(&g, 4)];
        attention_f32(
            AttentionOperands {
                q: &q,
                k: &k,
                v: &v,
                mask: Some(&mask),
                allowed: None,
                lengths: None,
            },
            &mut y,
            None,
            &mut scratch,
            g,
        );
        assert_eq!(y, [0.0; 2], "{level:?}");
    });
}

#[test]
fn attention_without_keys_is_zero() {
    check(sizes(2, [2, 2], [3, 0], [4, 5]), &nothing());
    check(sizes(2, [2, 2], [0, 3], [4, 5]), &nothing());
    check(Attention { scale: Some(1.0), ..sizes(2, [2, 2], [3, 3], [0, 5]) }, &nothing());
    check(sizes(0, [2, 2], [3, 3], [4, 5]), &nothing());
}

#[cfg(feature = "half")]
#[test]
fn half_precision_attention_is_close() {
    use half::{bf16, f16};
    let one = Attention { rows: 4, ..sizes(2, [2, 2], [9, 40], [16, 20]) };
    for g in [one, rows_first(one), Attention { softcap: 2.0, right: Some(3), ..one }] {
        for precision in [Precision::Wide, Precision::Double, Precision::F16, Precision::Through] {
            let g = Attention { precision, ..g };
            check_with(attention_half::<f16>, false, 4e-3, g, &nothing());
        }
        for precision in [Precision::Wide, Precision::BF16] {
            let g = Attention { precision, ..g };
            check_with(attention_half::<bf16>, false, 4e-2, g, &nothing());
        }
    }
    for precision in [Precision::Single, Precision::F16, Precision::BF16] {
        let g = Attention { precision, ..one };
        check_with(attention_f64, true, 2e-2, g, &nothing());
        check_with(attention_f32, true, 2e-2, g, &nothing());
    }
}

#[test]
fn new_rows_follow_the_cached_rows() {
    let past: Vec<i32> = (0..2 * 2 * 3 * 2).collect();
    let x: Vec<i32> = (100..100 + 2 * 2 * 2).collect();
    let mut y = vec![0; 2 * 2 * 4 * 2];
    let geometry = Append { batch: 2, heads: 2, past: 3, new: 1, width: 2, x: [4, 2, 4] };
    append(&x, Some(&past), &mut y, geometry);
    for (i, y) in y.chunks(8).enumerate() {
        assert_eq!((&y[..6], &y[6..]), (&past[i * 6..][..6], &x[i * 2..][..2]));
    }
    append(&x, None, &mut y[..8], Append { past: 0, ..geometry });
    assert_eq!(y[..8], x);
}

/// Splits the rows of each head into `past` rows of the cache and new rows of `k` or `v`.
fn behind(g: &Attention, past: usize, all: &[f32], size: usize) -> [Vec<f32>; 2] {
    let heads = all.chunks(g.keys * size).enumerate();
    let mut both = [Vec::new(), vec![0.0; g.batch * g.heads * (g.keys - past) * size]];
    let to = strides(g.q[1] < g.q[2], g.heads, g.keys - past, size);
    for (i, head) in heads {
        let (kept, new) = head.split_at(past * size);
        both[0].extend(kept);
        for (row, x) in new.chunks(size).enumerate() {
            let at = i / g.heads * to[0] + i % g.heads * to[1] + row * to[2];
            both[1][at..][..size].copy_from_slice(x);
        }
    }
    both
}

#[test]
fn a_cache_is_attended_while_it_is_filled() {
    for (batch, group, queries, past) in
        [(1, 1, 1, 30), (2, 1, 1, 30), (2, 3, 4, 20), (1, 1, 20, 0), (3, 2, 2, 29), (1, 1, 0, 3)]
    {
        let one = Attention { past, ..sizes(batch, [2, group], [queries, 31], [8, 5]) };
        let rows = rows_first(one);
        for g in [one, rows, Attention { right: Some(0), ..one }] {
            let numbers = |n, seed| -> Vec<f32> { numbers(n, seed) };
            let q = numbers(batch * 2 * group * queries * 8, 1);
            let (k, v) = (numbers(batch * 2 * 31 * 8, 2), numbers(batch * 2 * 31 * 5, 3));
            let mask = numbers(31 * queries, 4);
            let [mut expected, mut found] = [(); 2].map(|()| vec![-1.0; q.len() / 8 * 5]);
            let whole = Attention { k: one.k, v: one.v, ..g };
            let mut scratch = vec![f32::NAN; attention_scratch(&whole, 4)];
            let (y, mask) = (&mut expected, Some(&*mask));
            attention_f32(
                AttentionOperands { q: &q, k: &k, v: &v, mask, allowed: None, lengths: None },
                y,
                None,
                &mut scratch,
                whole,
            );
            let ([past_k, new_k], [past_v, new_v]) =
                (behind(&g, past, &k, 8), behind(&g, past, &v, 5));
            let new = |size| strides(g.q[1] < g.q[2], 2, 31 - past, size);
            let g = Attention { k: new(8), v: new(5), ..g };
            let mut scratch = vec![f32::NAN; attention_scratch(&g, 4)];
            let [mut keys, mut values] = [&k, &v].map(|all| vec![-1.0; all.len()]);
            let [past_k, past_v] = [&past_k, &past_v].map(|x| (past > 0).then_some(&**x));
            let (y, to_k, to_v) = (&mut found, &mut keys, &mut values);
            attention_cached_f32(
                CachedAttentionOperands {
                    q: &q,
                    k: &new_k,
                    v: &new_v,
                    past_k,
                    past_v,
                    mask,
                    allowed: None,
                },
                y,
                to_k,
                to_v,
                &mut scratch,
                g,
            );
            assert!(keys == k && values == v, "{g:?}");
            assert_eq!(found, expected, "{g:?}");
        }
    }
}
