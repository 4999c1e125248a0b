//! Ensembles of decision trees.
//!
//! Every comparison is reduced to one kind of split, `x[feature] ≤ value`. Each node has a number
//! in `values` and a pair in `nodes`: for a split `[feature · 4 + 2 if NaN is true + 1, index of
//! the true node]`, where the false node follows the true node; for a leaf `[0, row of its
//! weights]`. Each tree has a pair in `trees`: the index of its root, and the first target of its
//! leaf weights.

mod rows;

use crate::Float;
use crate::loops::index::{number, place};
use crate::simd::dispatch;
use crate::threads;
use rows::Rows;

/// The sizes of an ensemble.
#[derive(Clone, Copy, Debug)]
pub struct Trees {
    /// The number of features per row.
    pub features: usize,
    /// The number of targets per row.
    pub targets: usize,
    /// The number of targets that a leaf has weights for.
    pub width: usize,
    /// The divisor of sums.
    pub divisor: usize,
}

/// The tables of an ensemble.
struct Ensemble<'a, T> {
    values: &'a [T],
    nodes: &'a [[u32; 2]],
    trees: &'a [[u32; 2]],
    weights: &'a [T],
    geometry: Trees,
}

/// Paths that are followed together, to hide memory latency.
const LANES: usize = 8;

/// The cost of a path, in elements.
const STEPS: usize = 24;

/// The tables of an ensemble of trees.
#[derive(Clone, Copy, Debug)]
pub struct TreeOperands<'a, T> {
    /// The thresholds of the nodes.
    pub values: &'a [T],
    /// The nodes.
    pub nodes: &'a [u32],
    /// The root of each tree.
    pub trees: &'a [u32],
    /// The weights of the leaves.
    pub weights: &'a [T],
    /// The initial value of each target.
    pub base: &'a [T],
}

/// `y = base + Σ weights / divisor`, summed over the leaves that the trees reach.
pub fn tree_sum<T: Float>(x: &[T], operands: TreeOperands<'_, T>, y: &mut [T], geometry: Trees) {
    let TreeOperands { values, nodes, trees, weights, base } = operands;
    let ensemble = Ensemble::new(values, nodes, trees, weights, geometry);
    y.fill(T::ZERO);
    ensemble.combine(x, y, T::add);
    let divisor = number::<T>(geometry.divisor);
    for (y, &base) in y.iter_mut().zip(base.iter().cycle()) {
        *y = y.div(divisor).add(base);
    }
}

/// [`tree_sum`] for `f32`, many rows at a time.
#[inline(never)]
pub fn tree_sum_f32(x: &[f32], operands: TreeOperands<'_, f32>, y: &mut [f32], geometry: Trees) {
    let TreeOperands { values, nodes, trees, weights, base } = operands;
    let ensemble = Ensemble::new(values, nodes, trees, weights, geometry);
    let Trees { features, targets, .. } = geometry;
    y.fill(0.0);
    let cost = y.len() / targets.max(1) * ensemble.trees.len() * STEPS;
    threads::share(y, targets, cost, |first, y| {
        let x = x.get(first * features..).unwrap_or(&[]);
        let done = dispatch(Rows { ensemble: &ensemble, nodes, x, y: &mut *y });
        let rest = x.get(done * features..).unwrap_or(&[]);
        ensemble.combine(rest, &mut y[done * targets..], |sum, weight| sum + weight);
    });
    let divisor = geometry.divisor as f32;
    for (y, &base) in y.iter_mut().zip(base.iter().cycle()) {
        *y = *y / divisor + base;
    }
}

/// [`tree_sum`] with the minimum in place of the sum.
pub fn tree_min<T: Float>(x: &[T], operands: TreeOperands<'_, T>, y: &mut [T], geometry: Trees) {
    let TreeOperands { values, nodes, trees, weights, base } = operands;
    let ensemble = Ensemble::new(values, nodes, trees, weights, geometry);
    ensemble.extreme(x, base, y, T::HIGHEST, T::minimum);
}

/// [`tree_sum`] with the maximum in place of the sum.
pub fn tree_max<T: Float>(x: &[T], operands: TreeOperands<'_, T>, y: &mut [T], geometry: Trees) {
    let TreeOperands { values, nodes, trees, weights, base } = operands;
    let ensemble = Ensemble::new(values, nodes, trees, weights, geometry);
    ensemble.extreme(x, base, y, T::LOWEST, T::maximum);
}

impl<'a, T: Float> Ensemble<'a, T> {
    fn new(
        values: &'a [T],
        nodes: &'a [u32],
        trees: &'a [u32],
        weights: &'a [T],
        geometry: Trees,
    ) -> Self {
        let (nodes, trees) = (nodes.as_chunks().0, trees.as_chunks().0);
        debug_assert_eq!(values.len(), nodes.len(), "every node has a number");
        Ensemble { values, nodes, trees, weights, geometry }
    }

    /// Computes the maximum or minimum weights; a target without a weight is its base.
    fn extreme(&self, x: &[T], base: &[T], y: &mut [T], start: T, choose: impl Fn(T, T) -> T) {
        y.fill(start);
        self.combine(x, y, choose);
        for (y, &base) in y.iter_mut().zip(base.iter().cycle()) {
            *y = if *y == start { base } else { y.add(base) };
        }
    }

    /// Combines the weights of every row's leaves, tree by tree.
    fn combine(&self, x: &[T], y: &mut [T], with: impl Fn(T, T) -> T) {
        let Trees { features, targets, width, .. } = self.geometry;
        let gather = |y: &mut [T], target: u32, leaf: usize| {
            let weights = &self.weights[place(self.nodes[leaf][1]) * width..];
            for (y, &weight) in y[place(target)..].iter_mut().zip(&weights[..width]) {
                *y = with(*y, weight);
            }
        };
        let row = |i: usize| &x[i * features..][..features];
        let mut blocks = y.chunks_exact_mut(LANES * targets);
        let mut done = 0;
        for y in &mut blocks {
            let rows: [&[T]; LANES] = core::array::from_fn(|lane| row(done + lane));
            for &[root, target] in self.trees {
                let leaves = self.leaves([place(root); LANES], rows);
                for (y, leaf) in y.chunks_exact_mut(targets).zip(leaves) {
                    gather(y, target, leaf);
                }
            }
            done += LANES;
        }
        for (i, y) in blocks.into_remainder().chunks_exact_mut(targets).enumerate() {
            let row = row(done + i);
            let (trees, rest) = self.trees.as_chunks::<LANES>();
            for trees in trees {
                let leaves = self.leaves(trees.map(|[root, _]| place(root)), [row; LANES]);
                for (&[_, target], leaf) in trees.iter().zip(leaves) {
                    gather(y, target, leaf);
                }
            }
            for &[root, target] in rest {
                let [leaf] = self.leaves([place(root)], [row]);
                gather(y, target, leaf);
            }
        }
    }

    /// Returns the leaves that paths reach, each from its node and for its row.
    #[inline(always)]
    fn leaves<const N: usize>(&self, mut at: [usize; N], rows: [&[T]; N]) -> [usize; N] {
        loop {
            let mut open = 0;
            for (at, row) in at.iter_mut().zip(rows) {
                let [what, yes] = self.nodes[*at];
                let x = row.get(place(what >> 2)).copied().unwrap_or(T::ZERO);
                let is_yes = x <= self.values[*at] || (what & 2 != 0) & x.is_nan();
                let next = place(yes) + usize::from(!is_yes);
                *at = if what & 1 == 0 { *at } else { next };
                open |= what & 1;
            }
            if open == 0 {
                return at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two trees over two features: `x0 ≤ 0 ? (x1 ≤ 1 ? 10 : 20) : 30`, where NaN is true in the
    /// first split, and `x1 ≤ 2 ? 1 : 2`.
    const VALUES: [f32; 8] = [0.0, 1.0, 30.0, 10.0, 20.0, 2.0, 1.0, 2.0];
    const NODES: [u32; 16] = [3, 1, 5, 3, 0, 2, 0, 3, 0, 4, 5, 6, 0, 6, 0, 7];
    const ONE: Trees = Trees { features: 2, targets: 1, width: 1, divisor: 1 };

    fn expected([a, b]: [f32; 2]) -> [f32; 2] {
        let first = if a <= 0.0 || a.is_nan() { if b <= 1.0 { 10.0 } else { 20.0 } } else { 30.0 };
        [first, if b <= 2.0 { 1.0 } else { 2.0 }]
    }

    /// Rows of every kind, enough for full blocks and a remainder.
    fn rows() -> [[f32; 2]; 27] {
        let numbers = [-1.0, 0.0, 1.5, 2.0, 3.0, f32::NAN];
        core::array::from_fn(|i| [numbers[i % 6], numbers[(i / 6 + i) % 6]])
    }

    #[test]
    fn every_row_finds_its_leaves() {
        let x = rows();
        for count in 0..x.len() {
            let mut y = [9.0; 27];
            let x = &x[..count];
            let y = &mut y[..count];
            tree_sum(
                x.as_flattened(),
                TreeOperands {
                    values: &VALUES,
                    nodes: &NODES,
                    trees: &[0, 0, 5, 0],
                    weights: &VALUES,
                    base: &[0.5],
                },
                y,
                ONE,
            );
            for (&x, &y) in x.iter().zip(&*y) {
                assert_eq!(y, expected(x).iter().sum::<f32>() + 0.5, "{x:?}");
            }
        }
    }

    /// More rows than all vectors have, with several targets, at each level.
    #[cfg(feature = "std")]
    #[test]
    fn many_rows_are_evaluated_together() {
        let all = rows();
        let x: std::vec::Vec<f32> = all.iter().cycle().take(150).flatten().copied().collect();
        let trees = [0, 1, 5, 0, 0, 0];
        let geometry = Trees { targets: 2, divisor: 2, ..ONE };
        let mut truth = [9.0; 300];
        tree_sum(
            &x,
            TreeOperands {
                values: &VALUES,
                nodes: &NODES,
                trees: &trees,
                weights: &VALUES,
                base: &[0.5, 1.0],
            },
            &mut truth,
            geometry,
        );
        crate::simd::each_level(|level| {
            let mut y = [9.0; 300];
            tree_sum_f32(
                &x,
                TreeOperands {
                    values: &VALUES,
                    nodes: &NODES,
                    trees: &trees,
                    weights: &VALUES,
                    base: &[0.5, 1.0],
                },
                &mut y,
                geometry,
            );
            assert_eq!(y, truth, "{level:?}");
        });
    }

    #[test]
    fn many_trees_are_evaluated_together() {
        let trees: [u32; 38] = core::array::from_fn(|i| if i % 4 == 2 { 5 } else { 0 });
        let mut y = [0.0];
        let geometry = Trees { divisor: 19, ..ONE };
        tree_sum(
            &[-1.0, 3.0],
            TreeOperands {
                values: &VALUES,
                nodes: &NODES,
                trees: &trees,
                weights: &VALUES,
                base: &[0.0],
            },
            &mut y,
            geometry,
        );
        assert_eq!(y, [(10.0 * 20.0 + 9.0 * 2.0) / 19.0]);
    }

    #[test]
    fn trees_have_different_targets_and_leaves_several() {
        let geometry = Trees { targets: 2, ..ONE };
        let (x, trees) = ([1.0, 1.0], [0, 0, 5, 1]);
        let mut y = [0.0; 2];
        tree_sum(
            &x,
            TreeOperands {
                values: &VALUES,
                nodes: &NODES,
                trees: &trees,
                weights: &VALUES,
                base: &[0.0, 0.25],
            },
            &mut y,
            geometry,
        );
        assert_eq!(y, [30.0, 1.25]);
        let weights: [f32; 16] = core::array::from_fn(|i| i as f32);
        let (geometry, trees) = (Trees { width: 2, ..geometry }, [0, 0, 5, 0]);
        tree_sum(
            &x,
            TreeOperands {
                values: &VALUES,
                nodes: &NODES,
                trees: &trees,
                weights: &weights,
                base: &[0.0, 0.0],
            },
            &mut y,
            geometry,
        );
        assert_eq!(y, [4.0 + 12.0, 5.0 + 13.0]);
        tree_min(
            &x,
            TreeOperands {
                values: &VALUES,
                nodes: &NODES,
                trees: &trees,
                weights: &weights,
                base: &[1.0, 0.0],
            },
            &mut y,
            geometry,
        );
        assert_eq!(y, [5.0, 5.0]);
        tree_max(
            &x,
            TreeOperands {
                values: &VALUES,
                nodes: &NODES,
                trees: &trees,
                weights: &weights,
                base: &[1.0, 0.0],
            },
            &mut y,
            geometry,
        );
        assert_eq!(y, [13.0, 13.0]);
    }

    #[test]
    fn a_target_without_a_leaf_is_the_base() {
        let geometry = Trees { targets: 2, ..ONE };
        let mut y = [0.0; 2];
        tree_max(
            &[1.0, 1.0],
            TreeOperands {
                values: &VALUES,
                nodes: &NODES,
                trees: &[5, 0],
                weights: &VALUES,
                base: &[0.0, 7.0],
            },
            &mut y,
            geometry,
        );
        assert_eq!(y, [1.0, 7.0]);
    }
}
