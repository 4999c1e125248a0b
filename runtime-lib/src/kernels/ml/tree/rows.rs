//! Many rows at a time: each lane of a vector follows the path of one row, and several vectors are
//! followed together to hide memory latency. Only for processors with gather instructions.

use super::{Ensemble, Trees};
use crate::simd::{MAX_LANES, Simd, WithSimd};

/// Vectors that are followed together.
const VECTORS: usize = 4;
/// The most nodes, elements and features that an `i32` can index with a bit to spare.
const MANY: usize = 1 << 30;

/// Adds the weights of the leaves that rows reach to `y`. Returns the number of processed rows,
/// which excludes those that do not fill all vectors.
pub(super) struct Rows<'a> {
    pub ensemble: &'a Ensemble<'a, f32>,
    pub nodes: &'a [u32],
    pub x: &'a [f32],
    pub y: &'a mut [f32],
}

impl WithSimd for Rows<'_> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> usize {
        let Trees { features, targets, width, .. } = self.ensemble.geometry;
        let rows = S::LANES * VECTORS;
        let counted = self.nodes.len() < MANY
            && self.ensemble.values.len() < MANY
            && self.ensemble.weights.len() < MANY
            && rows * features < MANY;
        if !S::GATHERS || width != 1 || features == 0 || targets == 0 || !counted {
            return 0;
        }
        let mut done = 0;
        let blocks = self.x.chunks_exact(rows * features);
        for (x, y) in blocks.zip(self.y.chunks_exact_mut(rows * targets)) {
            block(s, self.ensemble, self.nodes, x, y);
            done += rows;
        }
        done
    }
}

/// Processes a block of rows.
#[inline(always)]
fn block<S: Simd>(s: S, of: &Ensemble<'_, f32>, nodes: &[u32], x: &[f32], y: &mut [f32]) {
    let Trees { features, targets, .. } = of.geometry;
    let mut starts = [s.splat_i32(0); VECTORS];
    for (v, starts) in starts.iter_mut().enumerate() {
        let mut numbers = [0.0; MAX_LANES];
        for (lane, number) in numbers[..S::LANES].iter_mut().enumerate() {
            *number = f32::from_bits(((v * S::LANES + lane) * features) as u32);
        }
        *starts = s.bits(s.load(&numbers));
    }
    for &[root, target] in of.trees {
        let leaves = leaves(s, of.values, nodes, x, root, &starts);
        for (v, leaf) in leaves.iter().enumerate() {
            let row = s.gather_u32(nodes, s.add_i32(s.shl_i32::<1>(*leaf), s.splat_i32(1)));
            let mut weights = [0.0; MAX_LANES];
            s.store(s.gather(of.weights, row), &mut weights);
            let y = &mut y[v * S::LANES * targets..][..S::LANES * targets];
            for (y, weight) in y.chunks_exact_mut(targets).zip(weights) {
                y[target as usize] += weight;
            }
        }
    }
}

/// Returns the leaves of a tree that rows reach, whose features start at these offsets of `x`.
#[inline(always)]
fn leaves<S: Simd>(
    s: S,
    values: &[f32],
    nodes: &[u32],
    x: &[f32],
    root: u32,
    starts: &[S::I32; VECTORS],
) -> [S::I32; VECTORS] {
    let (zero, one) = (s.splat_i32(0), s.splat_i32(1));
    let [yes, no] = [s.with_bits(zero), s.with_bits(one)];
    let mut at = [s.splat_i32(root as i32); VECTORS];
    loop {
        let mut open = zero;
        for (at, start) in at.iter_mut().zip(starts) {
            let pair = s.shl_i32::<1>(*at);
            let what = s.gather_u32(nodes, pair);
            let next = s.gather_u32(nodes, s.add_i32(pair, one));
            let x = s.gather(x, s.add_i32(*start, s.shr_i32::<2>(what)));
            let is_no = s.bits(s.select(s.le(x, s.gather(values, *at)), yes, no));
            let is_nan = s.bits(s.select(s.eq(x, x), yes, no));
            let nan_is_yes = s.and_i32(is_nan, s.shr_i32::<1>(what));
            let next = s.sub_i32(s.add_i32(next, is_no), nan_is_yes);
            let split = s.and_i32(what, one);
            // All bits are set in lanes that are not at a leaf yet.
            let way = s.and_i32(s.sub_i32(next, *at), s.sub_i32(zero, split));
            *at = s.add_i32(*at, way);
            open = s.or_i32(open, split);
        }
        if s.sum(s.to_f32(open)) == 0.0 {
            return at;
        }
    }
}
