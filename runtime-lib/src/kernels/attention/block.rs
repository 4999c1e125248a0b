//! The loops over sequences, heads and blocks of rows, and their products.

use super::AttentionOperands;
use super::rows::{Finish, Place, Rows, Span, rounded};
use super::scaled::{root, scale_or_default};
use super::weights::ScaleRows;
use super::{Attention, FEW_ROWS, PANEL, largest_pitch, pitch};
use crate::microkernel::{
    Addend, FusedActivation, GemmElem, Matrix, Operand, PANEL_ROWS, Product, Target, pack_right,
    panel_cols,
};
use crate::simd::dispatch;
use crate::{Float, Number};
use core::ops::Range;

/// The arithmetic of an element type.
#[derive(Clone, Copy)]
pub(super) struct Kind<T: Float> {
    /// Returns the elements themselves if their type is the wide type.
    pub as_wide: fn(&[T]) -> Option<&[T::Wide]>,
    pub as_wide_mut: fn(&mut [T]) -> Option<&mut [T::Wide]>,
}

/// Rows that are computed together: queries of heads that share their keys.
#[derive(Clone)]
struct Block {
    heads: Range<usize>,
    queries: Range<usize>,
}

/// The keys of a head.
#[derive(Clone, Copy)]
enum Keys<'a, W> {
    /// As stored, with this row stride.
    Rows(&'a [W], usize),
    /// Scaled and packed in panels.
    Packed(&'a [W]),
}

/// The parts of the scratch memory of a block.
struct HeadScratch<'a, W> {
    queries: &'a mut [W],
    scores: &'a mut [W],
    /// The factor by which each row of `results` is multiplied at the end.
    factors: &'a mut [W],
    results: &'a mut [W],
    product: &'a mut [W],
}

/// The keys and values of a head, for all rows that share them.
struct Head<'a, W> {
    keys: Keys<'a, W>,
    values: Matrix<'a, W>,
    scale: Scales<W>,
    /// The sequence.
    batch: usize,
    first: usize,
    span: Span,
    /// Whether a single row reads these keys. If several rows do, every block uses the matrix
    /// product, whatever its number of rows, so that results do not depend on the blocks.
    is_row: bool,
}

/// A part of the output.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// The first sequence, head of keys and query.
    first: [usize; 3],
    count: [usize; 3],
}

impl Part {
    /// The whole output.
    pub fn all(g: &Attention) -> Part {
        Part { first: [0; 3], count: [g.batch, g.heads, g.queries] }
    }

    /// Returns the axis along which the output can be cut: of the axes with several elements, the
    /// one with the largest stride. Returns its stride and its number of elements too.
    pub fn cut(&self, g: &Attention) -> (usize, usize, usize) {
        let apart = [g.y[0], g.y[1] * g.group, g.y[2]];
        let several = (0..3).filter(|&axis| self.count[axis] > 1);
        let axis = several.max_by_key(|&axis| apart[axis]).unwrap_or(0);
        (axis, apart[axis], self.count[axis])
    }

    /// Restricts an axis to `count` elements from `first` on.
    pub fn of(mut self, axis: usize, first: usize, count: usize) -> Part {
        (self.first[axis], self.count[axis]) = (first, count);
        self
    }

    /// Each head of each sequence, and the offset of its results from those of the part.
    pub fn heads(self, g: &Attention) -> impl Iterator<Item = (usize, Part)> {
        let ([batch, head, query], start) = (self.first, self.start(g));
        let one = move |b, h| Part { first: [b, h, query], count: [1, 1, self.count[2]] };
        let all = (batch..batch + self.count[0])
            .flat_map(move |b| (head..head + self.count[1]).map(move |h| one(b, h)));
        all.map(move |part| (part.start(g) - start, part))
    }

    /// The first sequence and the first head.
    pub fn place(&self) -> [usize; 2] {
        [self.first[0], self.first[1]]
    }

    /// The offset of the first result.
    fn start(&self, g: &Attention) -> usize {
        let [batch, head, query] = self.first;
        batch * g.y[0] + head * g.group * g.y[1] + query * g.y[2]
    }

    fn range(&self, axis: usize) -> Range<usize> {
        self.first[axis]..self.first[axis] + self.count[axis]
    }
}

/// Computes a part of the output. `y` starts with the first result of the part.
pub(super) fn run<T: Float>(
    kind: Kind<T>,
    x: AttentionOperands<'_, T>,
    y: &mut [T],
    scores: Option<&mut [T]>,
    scratch: &mut [T::Wide],
    (g, part): (&Attention, Part),
) where
    T::Wide: GemmElem,
{
    let wide = (kind.as_wide)(&[]).is_some();
    let packs = !wide || g.shared_rows() > FEW_ROWS;
    let packed = if packs { g.keys.next_multiple_of(PANEL) * g.depth } else { 0 };
    let (packed, rest) = scratch.split_at_mut(packed);
    let copies = g.copies(if wide { size_of::<T>() } else { 0 });
    let (copied, rest) = rest.split_at_mut(if copies { g.keys * g.width } else { 0 });
    let mut scratch = HeadScratch::of(rest, g);
    let mut finish = Finish::new(g, x.mask, x.allowed, scores, wide);
    let scale = Scales::of::<T>(g, wide);
    let start = part.start(g);
    for (b, h) in part.range(0).flat_map(|b| part.range(1).map(move |h| (b, h))) {
        let span = Span::of(g, b, x.lengths, x.mask.is_some() || x.allowed.is_some());
        // The scores of the whole row are requested, even of keys that no query attends.
        let len = if finish.needs_all_keys() { g.keys } else { span.keys };
        let k = from(x.k, b * g.k[0] + h * g.k[1]);
        let v = from(x.v, b * g.v[0] + h * g.v[1]);
        let keys = match (kind.as_wide)(k) {
            Some(k) if !packs => Keys::Rows(k, g.k[2]),
            Some(data) => {
                let columns = Matrix { data, row: 1, col: g.k[2] };
                pack_right(columns, (0, g.depth), (0, len), packed, T::Wide::pack_columns);
                Keys::Packed(&*packed)
            }
            None => {
                pack_keys(k, g.k[2], len, g.depth, packed, scale.keys);
                Keys::Packed(&*packed)
            }
        };
        let values = match (kind.as_wide)(v) {
            Some(data) if !copies => Matrix { data, row: g.v[2], col: 1 },
            _ => {
                widen_rows(v, g.v[2], g.width, &mut copied[..len * g.width]);
                Matrix { data: &*copied, row: g.width, col: 1 }
            }
        };
        let head = Head {
            keys,
            values,
            scale,
            batch: b,
            first: h * g.group,
            span,
            is_row: g.shared_rows() == 1,
        };
        each_block(g, part.range(2), &mut |block| {
            head.block(g, (kind, x.q), (&mut *y, start), block, &mut scratch, &mut finish);
        });
    }
}

/// The factors of queries, keys and their products.
#[derive(Clone, Copy)]
struct Scales<W> {
    queries: W,
    keys: W,
    products: W,
}

impl<W: Float> Scales<W> {
    /// If results are rounded, queries and keys are scaled by the root of the scale, as in ONNX's
    /// function for the operator.
    fn of<T: Float<Wide = W>>(g: &Attention, wide: bool) -> Scales<W> {
        let scale = scale_or_default(g.scale, g.depth);
        if wide {
            return Scales { queries: W::ONE, keys: W::ONE, products: W::from_f64(scale) };
        }
        let root = root::<T>(scale).widen();
        let queries = if scale < 0.0 { root.neg() } else { root };
        Scales { queries, keys: root, products: W::ONE }
    }
}

/// Returns `x[at..]`, or an empty slice if `at` is out of bounds, as it may be without elements.
fn from<T>(x: &[T], at: usize) -> &[T] {
    x.get(at..).unwrap_or(&[])
}

/// Packs scaled keys in panels of columns. Zeros fill the last panel.
fn pack_keys<T: Float>(
    k: &[T],
    row: usize,
    keys: usize,
    depth: usize,
    panels: &mut [T::Wide],
    scale: T::Wide,
) {
    let width = panel_cols::<T::Wide>();
    for (first, panel) in
        (0..keys).step_by(width).zip(panels.chunks_exact_mut((width * depth).max(1)))
    {
        for j in 0..width {
            let to = panel[j..].iter_mut().step_by(width);
            if first + j < keys {
                let k = &from(k, (first + j) * row)[..depth];
                to.zip(k).for_each(|(to, &k)| *to = rounded::<T>(k.widen().mul(scale)));
            } else {
                to.for_each(|to| *to = T::Wide::ZERO);
            }
        }
    }
}

/// Widens rows with stride `row` into contiguous rows.
fn widen_rows<T: Float>(x: &[T], row: usize, width: usize, y: &mut [T::Wide]) {
    for (i, y) in y.chunks_exact_mut(width.max(1)).enumerate() {
        y.iter_mut().zip(&x[i * row..]).for_each(|(y, x)| *y = x.widen());
    }
}

/// Calls `visit` with each block of the rows that share keys.
fn each_block(g: &Attention, all: Range<usize>, visit: &mut dyn FnMut(Block)) {
    let most = g.rows.max(1);
    let heads = (most / all.len().max(1)).max(1);
    let parts = all.len().div_ceil(most).max(1);
    // Whole tiles, of which the products read the rows in place.
    let queries = all.len().div_ceil(parts).next_multiple_of(PANEL_ROWS);
    let queries = queries.clamp(1, most);
    for head in (0..g.group).step_by(heads) {
        for query in all.clone().step_by(queries) {
            visit(Block {
                heads: head..(head + heads).min(g.group),
                queries: query..(query + queries).min(all.end),
            });
        }
    }
}

impl<'a, W> HeadScratch<'a, W> {
    fn of(scratch: &'a mut [W], g: &Attention) -> HeadScratch<'a, W> {
        let rows = g.block_rows();
        let (queries, rest) = scratch.split_at_mut(rows * g.depth);
        let (scores, rest) = rest.split_at_mut(rows * largest_pitch(g.keys));
        let (factors, rest) = rest.split_at_mut(rows);
        let (results, product) = rest.split_at_mut(rows * g.width);
        HeadScratch { queries, scores, factors, results, product }
    }
}

impl<W: GemmElem + Float> Head<'_, W> {
    fn block<T: Float<Wide = W>>(
        &self,
        g: &Attention,
        (kind, q): (Kind<T>, &[T]),
        (y, start): (&mut [T], usize),
        block: Block,
        scratch: &mut HeadScratch<'_, W>,
        finish: &mut Finish<'_, T>,
    ) {
        let reach = self.reach(g, &block);
        let keys = if finish.needs_all_keys() { 0..g.keys } else { reach.clone() };
        let heads = self.first + block.heads.start..self.first + block.heads.end;
        let is_head = heads.len() == 1;
        let rows =
            Rows { g, span: self.span, batch: self.batch, heads, queries: block.queries, keys };
        let count = rows.len();
        let scores = &mut scratch.scores[..count * rows.pitch()];
        let q_at = |p: Place| p.batch * g.q[0] + p.head * g.q[1] + p.query * g.q[2];
        let y_at = |p: Place| p.batch * g.y[0] + p.head * g.y[1] + p.query * g.y[2] - start;
        let first = rows.first();
        let queries = match (kind.as_wide)(from(q, q_at(first))) {
            Some(data) if is_head => Matrix { data, row: g.q[2], col: 1 },
            _ => {
                let to = scratch.queries.chunks_exact_mut(g.depth.max(1));
                for (place, to) in rows.each().zip(to) {
                    for (to, q) in to.iter_mut().zip(from(q, q_at(place))) {
                        *to = rounded::<T>(q.widen().mul(self.scale.queries));
                    }
                }
                Matrix { data: &*scratch.queries, row: g.depth, col: 1 }
            }
        };
        self.scores(queries, g.depth, rows.keys.clone(), scores, scratch.product);
        let factors = &mut scratch.factors[..count];
        finish.block(scores, &rows, factors);
        let weights =
            Matrix { data: from(scores, reach.start - rows.keys.start), row: rows.pitch(), col: 1 };
        if is_head && let Some(y) = (kind.as_wide_mut)(&mut y[y_at(first)..]) {
            self.results(weights, reach, y, (count, g.width, g.y[2]), scratch.product);
            return scale_rows(y, g.y[2], g.width, factors);
        }
        let results = &mut scratch.results[..count * g.width];
        self.results(weights, reach, results, (count, g.width, g.width), scratch.product);
        let results = results.chunks_exact(g.width.max(1)).zip(&*factors);
        for (place, (from, &factor)) in rows.each().zip(results) {
            y[y_at(place)..].iter_mut().zip(from).for_each(|(y, &x)| *y = T::narrow(x.mul(factor)));
        }
    }

    /// The keys that any row of the block attends, rounded down to the start of a panel.
    fn reach(&self, g: &Attention, block: &Block) -> Range<usize> {
        // A later query attends from a later key on and up to a later key.
        let first = self.span.attended(g, block.queries.start);
        let last = self.span.attended(g, block.queries.end - 1);
        let start = first.start / panel_cols::<W>() * panel_cols::<W>();
        start..last.end.max(start)
    }

    /// `scores = scale · q · kᵀ`, for these keys: rows with the distance [`pitch`].
    fn scores(
        &self,
        q: Matrix<'_, W>,
        depth: usize,
        keys: Range<usize>,
        scores: &mut [W],
        scratch: &mut [W],
    ) {
        /// The number of keys that stay in the cache while rows are multiplied by them.
        const FEW_KEYS: usize = 128;
        let len = keys.len();
        if scores.is_empty() {
            return;
        }
        let pitch = pitch(len);
        let rows = scores.len() / pitch;
        match self.keys {
            Keys::Packed(panels) => {
                let b = Operand::Panels(&panels[keys.start * depth..]);
                let product = product([rows, len, depth], self.scale.products, q, b);
                product.run_matrix(scores, Target::whole(pitch), scratch);
            }
            Keys::Rows(k, row) => {
                for first in (0..len).step_by(FEW_KEYS) {
                    let count = FEW_KEYS.min(len - first);
                    let data = from(k, (keys.start + first) * row);
                    for i in 0..rows {
                        let a = Matrix { data: &q.data[i * q.row..], ..q };
                        let b = Operand::Matrix(Matrix { data, row: 1, col: row });
                        let y = &mut scores[i * pitch + first..][..count];
                        product([1, count, depth], self.scale.products, a, b).run(
                            y,
                            Target::whole(count),
                            scratch,
                        );
                    }
                }
            }
        }
    }

    /// `results = weights · v`, for these keys: rows of a width and a stride.
    fn results(
        &self,
        weights: Matrix<'_, W>,
        keys: Range<usize>,
        results: &mut [W],
        (rows, width, apart): (usize, usize, usize),
        scratch: &mut [W],
    ) {
        if keys.is_empty() {
            let rows = results.chunks_mut(apart.max(1)).take(rows);
            return rows.for_each(|row| row[..width].fill(W::ZERO));
        }
        let Matrix { data, row, col } = self.values;
        let b = Operand::Matrix(Matrix { data: from(data, keys.start * row), row, col });
        let product = product([rows, width, keys.len()], W::ONE, weights, b);
        if self.is_row {
            product.run(results, Target::whole(apart), scratch);
        } else {
            product.run_matrix(results, Target::whole(apart), scratch);
        }
    }
}

/// Multiplies rows with a stride by a factor each.
fn scale_rows<W: Float>(y: &mut [W], apart: usize, width: usize, factors: &[W]) {
    match (W::as_f32_mut(y), W::as_f32(factors)) {
        (Some(y), Some(factors)) => dispatch(ScaleRows { y, apart, width, factors }),
        _ => {
            for (y, &factor) in y.chunks_mut(apart.max(1)).zip(factors) {
                y[..width].iter_mut().for_each(|y| *y = y.mul(factor));
            }
        }
    }
}

/// The product of two operands.
fn product<'a, W: GemmElem>(
    [m, n, k]: [usize; 3],
    alpha: W,
    a: Matrix<'a, W>,
    b: Operand<'a, W>,
) -> Product<'a, W> {
    let addends = [Addend::NONE; 2];
    Product { m, n, k, a: Operand::Matrix(a), b, alpha, addends, f: FusedActivation::NONE }
}
