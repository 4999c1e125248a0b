//! The geometry structs of the runtime library, as formulas.

mod attention;
mod dense;
mod fourier;
mod image;
mod quantized;

pub use attention::{Append, Attention, LinearAttention, Rotary};
pub use dense::{
    BlockCodes, Blockwise, CausalConv, Channels, Conv, ConvBySize, ConvTranspose, Gemm, Gru,
    IntegerMatMul, Layout, Lstm, MatMul, Panels, Pool, Rnn, Sequence,
};
pub use fourier::{Ends, Lines, Transform};
pub use image::{Boxes, Filter, Images, Line, Picked, Regions, Resample, Sampling};
pub use quantized::{Blend, Product, Repeated, Requantize};

use super::formula::{Signed, formulas};
use crate::dim::Dim;
use onnxc_runtime::kernels::{
    einsum, geometry as rt, ml, norm, optimizer, quantize, scatter, text,
};

formulas! {
    /// A tensor as seen from one axis.
    "kernels::geometry::Axis" Axis: rt::Axis {
        outer: Dim,
        len: Dim,
        inner: Dim,
    }

    /// Two operands that broadcast to one shape.
    "kernels::geometry::Broadcast" Broadcast: rt::Broadcast<'a> {
        sizes: Vec<Dim>,
        a: Vec<Dim>,
        b: Vec<Dim>,
    }

    /// Three operands that broadcast to one shape.
    "kernels::geometry::Broadcast3" Broadcast3: rt::Broadcast3<'a> {
        sizes: Vec<Dim>,
        a: Vec<Dim>,
        b: Vec<Dim>,
        c: Vec<Dim>,
    }

    /// A strided view of a tensor.
    "kernels::geometry::Strided" Strided: rt::Strided<'a> {
        sizes: Vec<Dim>,
        strides: Vec<Signed>,
        start: Dim,
    }

    /// The shapes of an operand and of the result that repeats it.
    "kernels::geometry::Shapes" Shapes: rt::Shapes<'a> {
        from: Vec<Dim>,
        to: Vec<Dim>,
    }

    /// The numbers of elements added before and after a tensor along each axis.
    "kernels::geometry::Pads" Pads: rt::Pads<'a> {
        sizes: Vec<Dim>,
        before: Vec<Signed>,
        after: Vec<Signed>,
    }

    /// A batch of matrices.
    "kernels::geometry::BatchedMatrices" BatchedMatrices: rt::BatchedMatrices {
        count: Dim,
        rows: Dim,
        columns: Dim,
    }

    /// Sliding blocks of an image of any rank.
    "kernels::geometry::Blocks" Blocks: rt::Blocks<'a> {
        planes: Dim,
        image: Vec<Dim>,
        block: Vec<Dim>,
        places: Vec<Dim>,
        strides: Vec<Dim>,
        dilations: Vec<Dim>,
        pads: Vec<Dim>,
    }

    /// Gathering of single elements by an index along one axis.
    "kernels::geometry::Elements" Elements: rt::Elements<'a> {
        sizes: Vec<Dim>,
        strides: Vec<Dim>,
        len: Dim,
        step: Dim,
    }

    /// Gathering of slices by an index along each of the first axes.
    "kernels::geometry::Points" Points: rt::Points<'a> {
        batch: Dim,
        count: Dim,
        sizes: Vec<Dim>,
        inner: Dim,
    }

    /// Sequences that are written into caches.
    "kernels::scatter::Caches" Caches: scatter::Caches {
        batch: Dim,
        outer: Dim,
        len: Dim,
        update: Dim,
        inner: Dim,
    }

    /// Groups of channels.
    "kernels::norm::Groups" Groups: norm::Groups {
        batch: Dim,
        groups: Dim,
        channels: Dim,
        inner: Dim,
    }

    /// The attributes of `LRN`.
    "kernels::norm::Lrn" Lrn: norm::Lrn {
        size: usize,
        alpha: f32,
        beta: f32,
        bias: f32,
    }

    /// The kept and the reduced axes of a reduction.
    "kernels::geometry::Reduction" Reduction: rt::Reduction<'a> {
        kept: Vec<Dim>,
        kept_strides: Vec<Dim>,
        reduced: Vec<Dim>,
        reduced_strides: Vec<Dim>,
    }
}

formulas! {
    /// A contraction of two operands.
    "kernels::einsum::Contraction" Contraction: einsum::Contraction<'a> {
        sizes: Vec<Dim>,
        a: Vec<Dim>,
        b: Vec<Dim>,
        summed: Vec<Dim>,
        a_summed: Vec<Dim>,
        b_summed: Vec<Dim>,
    }

    /// A range of columns of a table.
    "kernels::ml::Columns" Columns: ml::Columns {
        of: usize,
        from: usize,
        count: usize,
    }

    /// Rows of elements, and the n-grams to count.
    "kernels::text::Grams" Grams: text::Grams {
        row: Dim,
        width: usize,
        shortest: usize,
        longest: usize,
        skips: usize,
    }

    /// The columns of a table of DFAs, and the tokens to keep.
    "kernels::text::Tokens" Tokens: text::Tokens {
        columns: usize,
        least: usize,
        mark: bool,
    }

    /// An ensemble of decision trees.
    "kernels::ml::Trees" Trees: ml::Trees {
        features: Dim,
        targets: usize,
        width: usize,
        divisor: usize,
    }

    /// The elements of a quantized tensor that share a scale.
    "kernels::quantize::Scales" Scales: quantize::Scales {
        outer: Dim,
        len: Dim,
        inner: Dim,
        block: Dim,
        outer_step: Dim,
        block_step: Dim,
        inner_step: usize,
    }

    /// The attributes of `Adagrad`.
    "kernels::optimizer::Adagrad" Adagrad: optimizer::Adagrad {
        decay_factor: f32,
        epsilon: f32,
        norm_coefficient: f32,
    }

    /// The attributes of `Adam`.
    "kernels::optimizer::Adam" Adam: optimizer::Adam {
        alpha: f32,
        beta: f32,
        epsilon: f32,
        norm_coefficient: f32,
        norm_coefficient_post: f32,
    }

    /// The attributes of `Momentum`.
    "kernels::optimizer::Momentum" Momentum: optimizer::Momentum {
        alpha: f32,
        beta: f32,
        norm_coefficient: f32,
    }
}

/// Returns the row-major strides of a shape.
pub fn strides(shape: &[Dim]) -> Vec<Dim> {
    let mut strides = vec![Dim::from(1); shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = &strides[i] * &shape[i];
    }
    strides
}

/// Returns the strides of a tensor of `shape` broadcast to the shape `to`: 0 along broadcast axes.
pub fn broadcast_strides(shape: &[Dim], to: &[Dim]) -> Vec<Dim> {
    let missing = to.len() - shape.len();
    let mut all = vec![Dim::from(0); missing];
    for ((stride, size), to) in strides(shape).into_iter().zip(shape).zip(&to[missing..]) {
        all.push(match size.known() {
            _ if size == to => stride,
            Some(1) => 0.into(),
            Some(_) => stride,
            // Whether the axis is broadcast is known only at run time.
            None => stride * (Dim::from(1) - size.equal(&1.into())),
        });
    }
    all
}

/// Joins adjacent axes that every operand traverses as one, and drops axes of size 1.
pub fn merged(sizes: &[Dim], operands: &[Vec<Dim>]) -> (Vec<Dim>, Vec<Vec<Dim>>) {
    let mut merged: Vec<Dim> = Vec::new();
    let mut strides: Vec<Vec<Dim>> = vec![Vec::new(); operands.len()];
    for (axis, size) in sizes.iter().enumerate() {
        if size.known() == Some(1) {
            continue;
        }
        let walks_on = |(i, operand): (usize, &Vec<Dim>)| {
            strides[i].last().is_some_and(|before| *before == &operand[axis] * size)
        };
        let joins = !merged.is_empty() && operands.iter().enumerate().all(walks_on);
        if joins {
            let last = merged.pop().expect("`merged` is not empty");
            merged.push(last * size);
        } else {
            merged.push(size.clone());
        }
        for (strides, operand) in strides.iter_mut().zip(operands) {
            if joins {
                strides.pop();
            }
            strides.push(operand[axis].clone());
        }
    }
    (merged, strides)
}

impl Axis {
    /// Returns the geometry of a tensor of `shape` as seen from `axis`.
    pub fn of(shape: &[Dim], axis: usize) -> Axis {
        Axis {
            outer: shape[..axis].iter().product(),
            len: shape[axis].clone(),
            inner: shape[axis + 1..].iter().product(),
        }
    }
}

impl Broadcast {
    /// Returns the geometry of operands of shapes `a` and `b`, broadcast to `shape`.
    pub fn of(shape: &[Dim], a: &[Dim], b: &[Dim]) -> Broadcast {
        let (sizes, strides) =
            merged(shape, &[broadcast_strides(a, shape), broadcast_strides(b, shape)]);
        let [a, b] = <[_; 2]>::try_from(strides).expect("two operands");
        Broadcast { sizes, a, b }
    }
}

impl Broadcast3 {
    /// Returns the geometry of operands of shapes `a`, `b` and `c`, broadcast to `shape`.
    pub fn of(shape: &[Dim], a: &[Dim], b: &[Dim], c: &[Dim]) -> Broadcast3 {
        let operands = [a, b, c].map(|operand| broadcast_strides(operand, shape));
        let (sizes, strides) = merged(shape, &operands);
        let [a, b, c] = <[_; 3]>::try_from(strides).expect("three operands");
        Broadcast3 { sizes, a, b, c }
    }
}

impl Strided {
    /// Returns the view with these sizes and strides from the offset `start`.
    pub fn of(sizes: &[Dim], strides: Vec<Dim>, start: Dim) -> Strided {
        let (sizes, strides) = merged(sizes, &[strides]);
        let strides = strides.into_iter().flatten().map(Signed).collect();
        Strided { sizes, strides, start }
    }

    /// Returns the view of a tensor of `shape` with its axes permuted.
    pub fn permuted(shape: &[Dim], perm: &[usize]) -> Strided {
        let all = strides(shape);
        let sizes: Vec<Dim> = perm.iter().map(|&axis| shape[axis].clone()).collect();
        Strided::of(&sizes, perm.iter().map(|&axis| all[axis].clone()).collect(), 0.into())
    }

    /// Returns the view of `len` elements along `axis` of a tensor of `shape`, from index `start`.
    pub fn part(shape: &[Dim], axis: usize, start: &Dim, len: &Dim) -> Strided {
        let Axis { outer, len: all, inner } = Axis::of(shape, axis);
        let strides = vec![&all * &inner, 1.into()];
        Strided::of(&[outer, len * &inner], strides, start * inner)
    }
}

impl Shapes {
    /// Returns the geometry of a tensor of shape `from` repeated to the shape `to`, with adjacent
    /// axes joined where both keep their size or both repeat one element.
    pub fn of(from: &[Dim], to: &[Dim]) -> Shapes {
        let missing = vec![Dim::from(1); to.len() - from.len()];
        let mut shapes = Shapes { from: Vec::new(), to: Vec::new() };
        for (from, to) in missing.iter().chain(from).zip(to) {
            let one = |dim: &Dim| dim.known() == Some(1);
            let joins = match (shapes.from.last(), shapes.to.last()) {
                (Some(before), Some(before_to)) => {
                    before == before_to && from == to || one(before) && one(from)
                }
                _ => false,
            };
            if one(from) && one(to) {
                continue;
            }
            let (before, before_to) = match joins {
                true => (shapes.from.pop(), shapes.to.pop()),
                false => (None, None),
            };
            shapes.from.push(before.map_or_else(|| from.clone(), |before| before * from));
            shapes.to.push(before_to.map_or_else(|| to.clone(), |before| before * to));
        }
        shapes
    }
}

impl Elements {
    /// Returns the geometry of gathering along `axis` of a tensor of `shape`, with indices of the
    /// given shape.
    pub fn of(shape: &[Dim], axis: usize, indices: &[Dim]) -> Elements {
        let mut all = strides(shape);
        let step = std::mem::replace(&mut all[axis], 0.into());
        let (sizes, strides) = walk(indices, &all);
        Elements { sizes, strides, len: shape[axis].clone(), step }
    }
}

impl Points {
    /// Returns the geometry of gathering slices of a tensor of `shape`, whose `batch` leading axes
    /// come before the indexed axes.
    pub fn of(shape: &[Dim], indices: &[Dim], batch: usize, axes: usize) -> Points {
        let points = &indices[..indices.len() - 1];
        Points {
            batch: points[..batch].iter().product(),
            count: points[batch..].iter().product(),
            sizes: shape[batch..batch + axes].to_vec(),
            inner: shape[batch + axes..].iter().product(),
        }
    }
}

impl Reduction {
    /// Returns the geometry of reducing a tensor of `shape` to the shape `kept`, which has a 1 for
    /// every reduced axis.
    pub fn to(shape: &[Dim], kept: &[Dim]) -> Reduction {
        let gathered = |(from, to): (&Dim, &Dim)| match to.known() {
            _ if from == to => 1.into(),
            Some(1) => from.clone(),
            // Whether the axis is reduced is known only at run time; an axis of size 0 may be kept.
            _ => from.floor_div(&to.at_least(&1.into())),
        };
        let reduced: Vec<Dim> = shape.iter().zip(kept).map(gathered).collect();
        let strides = strides(shape);
        Reduction::of((kept, &strides), (&reduced, &strides))
    }
}

impl Reduction {
    /// Returns the geometry of kept and reduced axes, each with sizes and strides.
    pub fn of(kept: (&[Dim], &[Dim]), reduced: (&[Dim], &[Dim])) -> Reduction {
        let (kept, kept_strides) = walk(kept.0, kept.1);
        let (reduced, reduced_strides) = walk(reduced.0, reduced.1);
        Reduction { kept, kept_strides, reduced, reduced_strides }
    }
}

/// Joins adjacent axes of one operand where possible.
fn walk(sizes: &[Dim], strides: &[Dim]) -> (Vec<Dim>, Vec<Dim>) {
    let (sizes, strides) = merged(sizes, &[strides.to_vec()]);
    (sizes, strides.into_iter().flatten().collect())
}
