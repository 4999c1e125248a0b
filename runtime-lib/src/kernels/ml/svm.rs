//! Support vector machines, except for their matrix products.

use crate::Float;
use crate::loops::index::{number, signed};

/// Computes the RBF kernel `e^(-gamma · |x - s|²)` of each row `x` of features and each support
/// vector `s`.
pub fn svm_rbf<T: Float>(x: &[T], support: &[T], y: &mut [T], features: usize, gamma: f32) {
    let gamma = T::from_f64(f64::from(-gamma));
    let vectors = support.len().checked_div(features).unwrap_or(0);
    if vectors == 0 {
        return;
    }
    for (x, y) in x.chunks_exact(features).zip(y.chunks_exact_mut(vectors)) {
        for (s, y) in support.chunks_exact(features).zip(y) {
            let square = |(&x, &s): (&T, &T)| {
                let difference = x.sub(s);
                difference.mul(difference)
            };
            let distance = x.iter().zip(s).map(square).fold(T::ZERO, T::add);
            *y = gamma.mul(distance).exp();
        }
    }
}

/// Writes the class with the most votes; the first in a tie. A row has a score for each pair of
/// classes, positive if the first class wins.
pub fn svm_votes<T: Float>(x: &[T], y: &mut [i64], classes: usize) {
    let pairs = classes * classes.saturating_sub(1) / 2;
    for (x, y) in x.chunks_exact(pairs.max(1)).zip(y) {
        let wins = |class: usize| {
            let pairs = class_pairs(classes).zip(x);
            pairs.filter(|&((a, b), &x)| class == if x > T::ZERO { a } else { b }).count()
        };
        let mut best = (0, wins(0));
        for class in 1..classes {
            let found = wins(class);
            if found > best.1 {
                best = (class, found);
            }
        }
        *y = signed(best.0);
    }
}

/// Returns every pair of classes, in the order of the scores.
fn class_pairs(classes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..classes).flat_map(move |a| (a + 1..classes).map(move |b| (a, b)))
}

/// Writes the probability of each class from pairwise scores, by the second method of Wu, Lin and
/// Weng (2004). Platt scaling with `a` and `b` converts the scores to pairwise probabilities.
/// `scratch` has `classes · (2 · classes + 1)` elements.
pub fn svm_probabilities<T: Float>(
    x: &[T],
    a: &[T],
    b: &[T],
    y: &mut [T],
    scratch: &mut [T],
    classes: usize,
) {
    let (r, scratch) = scratch.split_at_mut(classes * classes);
    let (q, qp) = scratch.split_at_mut(classes * classes);
    let least = T::from_f64(1e-7);
    for (x, p) in x.chunks_exact(a.len().max(1)).zip(y.chunks_exact_mut(classes.max(1))) {
        for ((((i, j), &x), &a), &b) in class_pairs(classes).zip(x).zip(a).zip(b) {
            let first = T::ONE.div(T::ONE.add(x.mul(a).add(b).exp()));
            let first = first.maximum(least).minimum(T::ONE.sub(least));
            (r[i * classes + j], r[j * classes + i]) = (first, T::ONE.sub(first));
        }
        for i in 0..classes {
            let lost = |j: usize| if j == i { T::ZERO } else { r[j * classes + i] };
            let square = (0..classes).map(|j| lost(j).mul(lost(j))).fold(T::ZERO, T::add);
            for j in 0..classes {
                let other = lost(j).mul(r[i * classes + j]).neg();
                q[i * classes + j] = if i == j { square } else { other };
            }
        }
        couple(q, qp, p);
    }
}

/// Minimizes `pᵀ q p` over `p` with sum 1, to a tolerance of 0.005 / `classes`. `qp` is scratch
/// memory.
fn couple<T: Float>(q: &[T], qp: &mut [T], p: &mut [T]) {
    const ROUNDS: usize = 100;
    let classes = p.len();
    let share = T::ONE.div(number(classes));
    p.fill(share);
    for _ in 0..ROUNDS {
        for (row, qp) in q.chunks_exact(classes).zip(&mut *qp) {
            *qp = row.iter().zip(&*p).fold(T::ZERO, |sum, (&q, &p)| sum.add(q.mul(p)));
        }
        let mut pqp = p.iter().zip(&*qp).fold(T::ZERO, |sum, (&p, &qp)| sum.add(p.mul(qp)));
        let error = qp.iter().fold(T::ZERO, |most, qp| most.maximum(qp.sub(pqp).abs()));
        if error < share.mul(T::from_f64(0.005)) {
            return;
        }
        for i in 0..classes {
            let diagonal = q[i * classes + i];
            let step = pqp.sub(qp[i]).div(diagonal);
            p[i] = p[i].add(step);
            let sum = T::ONE.add(step);
            let change = step.mul(step.mul(diagonal).add(qp[i].add(qp[i])));
            pqp = pqp.add(change).div(sum).div(sum);
            for j in 0..classes {
                qp[j] = qp[j].add(step.mul(q[i * classes + j])).div(sum);
                p[j] = p[j].div(sum);
            }
        }
    }
}

/// Writes the second of two classes if a score exceeds the threshold, else the class of the larger
/// score.
pub fn svm_choose<T: Float>(x: &[T], y: &mut [i64], threshold: f32) {
    let threshold = T::from_f64(f64::from(threshold));
    for (&[a, b], y) in x.as_chunks().0.iter().zip(y) {
        *y = i64::from(b > a || a.maximum(b) > threshold);
    }
}

/// Writes 1 if a score is positive, else -1.
pub fn svm_one_class<T: Float>(x: &[T], y: &mut [T]) {
    y.copy_from_slice(x);
    svm_one_class_in_place(y);
}

/// [`svm_one_class`] in place.
pub fn svm_one_class_in_place<T: Float>(y: &mut [T]) {
    for y in y {
        *y = if *y > T::ZERO { T::ONE } else { T::ONE.neg() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rbf_kernel_falls_with_the_distance() {
        let mut y = [0.0f64; 4];
        svm_rbf(&[0.0, 0.0, 1.0, 1.0], &[0.0, 0.0, 3.0, 1.0], &mut y, 2, 0.5);
        let expected = [0.0, -5.0, -1.0, -2.0].map(f64::exp);
        assert!(y.iter().zip(expected).all(|(y, e)| (y - e).abs() < 1e-12), "{y:?}");
    }

    #[test]
    fn the_class_with_the_most_votes_is_chosen() {
        let mut y = [9; 4];
        // The pairs are 0-1, 0-2 and 1-2.
        let x = [1.0, 1.0, 1.0, -1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 1.0, -1.0, 1.0f32];
        svm_votes(&x, &mut y, 3);
        assert_eq!(y, [0, 1, 2, 0]);
        svm_votes(&[-0.5, 0.5], &mut y[..2], 2);
        assert_eq!(y[..2], [1, 0]);
        svm_choose(&[0.2, 0.1, -0.2, -0.1, -0.1, -0.2, f32::NAN, 0.0], &mut y, 0.0);
        assert_eq!(y, [1, 1, 0, 0]);
    }

    #[test]
    fn pairwise_probabilities_are_coupled() {
        // The pairwise probabilities of classes with probabilities 0.5, 0.3 and 0.2.
        let pairwise = [0.5 / 0.8, 0.5 / 0.7, 0.3 / 0.5f64];
        let x = pairwise.map(|p| (p / (1.0 - p)).ln());
        let (mut y, mut scratch) = ([0.0; 3], [0.0; 21]);
        svm_probabilities(&x, &[-1.0; 3], &[0.0; 3], &mut y, &mut scratch, 3);
        assert!(y.iter().zip([0.5, 0.3, 0.2]).all(|(y, e)| (y - e).abs() < 2e-3), "{y:?}");
        assert!((y.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn one_class_scores_become_1_or_minus_1() {
        let mut y = [0.5, 0.0, -1.0, f32::NAN];
        svm_one_class_in_place(&mut y);
        assert_eq!(y, [1.0, -1.0, -1.0, -1.0]);
    }
}
