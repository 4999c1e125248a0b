//! `Gather`, `GatherElements` and `GatherND`.

use super::{Entry, entry, weight_precision};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{ANY, DType, INDICES},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Views},
    plan::{
        Kernel, Operand,
        geometry::{Axis, Elements, Panels, Points, Strided},
        kernel,
    },
    ty::{TensorType, Type},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("Gather", 1, |node| Ok(Rc::new(Gather { axis: node.int("axis", 0)? }))),
    entry("GatherElements", 11, |node| Ok(Rc::new(GatherElements { axis: node.int("axis", 0)? }))),
    entry("GatherND", 11, |node| Ok(Rc::new(GatherNd { batch_dims: node.int("batch_dims", 0)? }))),
];

/// A kernel for each type of indices.
macro_rules! gather {
    ($name:ident) => {
        kernel!(checked moves T, gather::$name::<T, i64>,
            |f, a, p| f(a.input(0), &a.indices(1), a.output(0), p))
    };
}

/// The slices of input 0 at the indices, input 1, along an axis.
pub struct Gather {
    /// The axis.
    pub axis: i64,
}

static GATHER: Kernel<Axis> = gather!(gather);
/// For constant indices at equal distances.
static SLICE: Kernel<Strided> =
    kernel!(moves T, slice::slice::<T>, |f, a, p| f(a.input(0), a.output(0), p));

/// Indices at equal distances.
struct Range {
    first: Dim,
    step: i64,
}

impl Range {
    /// The indices as a range along an axis of `len` elements, if they are one.
    fn of(indices: &[i64], len: &Dim) -> Option<Range> {
        let (&first, rest) = indices.split_first()?;
        let step = rest.first().map_or(Some(1), |next| next.checked_sub(first))?;
        let mut pairs = indices.windows(2);
        let same_sign = indices.iter().all(|&index| (index < 0) == (first < 0));
        let is_range = same_sign && pairs.all(|pair| pair[1].checked_sub(pair[0]) == Some(step));
        let first = if first < 0 { len + first } else { first.into() };
        is_range.then_some(Range { first, step })
    }
}

impl Gather {
    /// The indices as a range along the axis, if they are one. `infer` checks that they are in
    /// bounds.
    fn range(&self, ty: &TensorType, axis: usize, indices: Option<Vec<i64>>) -> Option<Range> {
        Range::of(&indices?, &ty.shape[axis])
    }
}

/// Requires indices to be inside `axis` of input 0, also if only a run tells its size: what the
/// kernel [`SLICE`] and views read is not checked.
fn require_inside(cx: &mut Infer<'_>, axis: usize, indices: &[i64]) -> Inferred<()> {
    cx.require_inside_axis(indices.iter().copied(), 0, axis)?;
    let needed = |&i: &i64| if i < 0 { i.saturating_neg() } else { i.saturating_add(1) };
    let needed = indices.iter().map(needed).max().unwrap_or(0);
    cx.require_at_least(&cx.shape(0)?[axis], &needed.into(), "an index is out of bounds")
}

impl Op for Gather {
    fn name(&self) -> &'static str {
        "Gather"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("axis", self.axis);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (x, indices) = (cx.of(0, ANY)?, cx.of(1, INDICES)?);
        let axis = cx.axis("axis", self.axis, x.rank())?;
        if let Some(known) = cx.ints(1) {
            require_inside(cx, axis, &known)?;
            if let Some(elements) = cx.known(0) {
                let len = i64::try_from(elements.len()).unwrap_or(i64::MAX);
                let position = |&i: &i64| usize::try_from(if i < 0 { i + len } else { i }).ok();
                let gathered = known.iter().map(|i| elements.get(position(i)?).cloned());
                if let Some(gathered) = gathered.collect() {
                    cx.set_known(0, gathered);
                }
            }
        }
        let (before, after) = (&x.shape[..axis], &x.shape[axis + 1..]);
        Ok(vec![Type::tensor(x.dtype, before.iter().chain(&indices.shape).chain(after))])
    }

    fn views(&self, cx: &mut Views<'_>) {
        let Some(ty) = cx.ty(0) else { return };
        let axis = cx.axis(self.axis, ty.rank());
        let Some(range) = self.range(ty, axis, cx.ints(1)) else { return };
        let Axis { outer, inner, .. } = Axis::of(&ty.shape, axis);
        if outer.known() == Some(1) && range.step == 1 {
            cx.view(0, 0, range.first * inner);
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let ty = cx.ty(0)?;
        let axis = cx.axis(self.axis, ty.rank());
        let geometry = Axis::of(&ty.shape, axis);
        let Some(range) = self.range(ty, axis, cx.ints(1)) else {
            return match axis {
                0 if cx.ints(1).is_none() => lower_rows(cx, geometry),
                _ => cx.call(&GATHER, geometry),
            };
        };
        let Axis { outer, len, inner } = geometry;
        if outer.known() == Some(1) && range.step == 1 {
            return Ok(());
        }
        let sizes = [outer, cx.ty(1)?.len(), inner.clone()];
        let strides = vec![len * &inner, &inner * range.step, 1.into()];
        let (x, y) = (cx.input(0)?.into(), cx.output(0)?.into());
        let geometry = Strided::of(&sizes, strides, range.first * inner);
        cx.call_on(&SLICE, ty.dtype, vec![x], vec![y], geometry)
    }

    /// Adds the gradient of each slice at its index.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, indices, Some(dy)) = (g.x(0), g.x(1), g.dy(0)) else { return Ok(()) };
        let (axis, points) = (g.axis(self.axis, x.rank()), indices.with_axis(-1));
        if axis == 0 {
            g.set(0, x.zeros_like().scatter_nd_add(points, dy));
            return Ok(());
        }
        // `ScatterND` needs the indexed axis first.
        let end = axis + indices.rank();
        let order: Vec<usize> = (axis..end).chain(0..axis).chain(end..dy.rank()).collect();
        let front = x.move_axis(axis, 0).zeros_like();
        g.set(0, front.scatter_nd_add(points, dy.transpose(&order)).move_axis(0, axis));
        Ok(())
    }
}

/// Gathers rows of a table. If the table is stored with reduced precision, gathers the stored rows
/// and widens them.
fn lower_rows(cx: &mut Lower<'_>, geometry: Axis) -> Result {
    let Some(stored) = weight_precision::store_row_major(cx, 0) else {
        return cx.call(&GATHER, geometry);
    };
    let (count, indices) = (cx.ty(1)?.len(), cx.input(1)?);
    let mut gather = |from: Operand, dtype: DType, inner: Dim| -> Result<Operand> {
        let gathered = cx.scratch(dtype, &count * &inner);
        let (inputs, outputs) =
            (vec![from.into(), indices.clone().into()], gathered.clone().into());
        cx.call_on(&GATHER, dtype, inputs, vec![outputs], Axis { inner, ..geometry.clone() })?;
        Ok(gathered)
    };
    let inner = geometry.inner.clone();
    let weights = gather(stored.weights.clone(), stored.dtype(), inner.clone())?;
    let scales = stored.scales().map(|scales| gather(scales, DType::F32, 1.into())).transpose()?;
    let panels = Panels { lanes: 1, rows: inner.clone(), depth: inner };
    let y = cx.output(0)?;
    stored.widen(cx, (weights, scales), y, panels)
}

/// The element at each index along an axis, at the index's own position along the other axes.
pub struct GatherElements {
    /// The axis.
    pub axis: i64,
}

static ELEMENTS: Kernel<Elements> = gather!(gather_elements);

impl Op for GatherElements {
    fn name(&self) -> &'static str {
        "GatherElements"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("axis", self.axis);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = cx.of(0, ANY)?.dtype;
        let indices = gather_elements_shape(cx, self.axis)?;
        Ok(vec![Type::tensor(dtype, indices)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (x, indices) = (cx.ty(0)?, cx.ty(1)?);
        let axis = cx.axis(self.axis, x.rank());
        cx.call(&ELEMENTS, Elements::of(&x.shape, axis, &indices.shape))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, indices, Some(dy)) = (g.x(0), g.x(1), g.dy(0)) else { return Ok(()) };
        g.set(0, x.zeros_like().scatter_add(indices, dy, self.axis));
        Ok(())
    }
}

impl<'t> Expr<'t> {
    /// The slices at `indices` along an axis.
    pub fn gather(self, indices: Expr<'t>, axis: i64) -> Expr<'t> {
        self.apply(Gather { axis }, &[indices])
    }

    /// The element at each index along an axis, at the index's own position along the other axes.
    pub fn gather_elements(self, indices: Expr<'t>, axis: i64) -> Expr<'t> {
        self.apply(GatherElements { axis }, &[indices])
    }

    /// The slices at the points that the last axis of `indices` holds.
    pub fn gather_nd(self, indices: Expr<'t>) -> Expr<'t> {
        self.apply(GatherNd { batch_dims: 0 }, &[indices])
    }

    /// Element `i` of a tensor of one axis, as a tensor `[1]`.
    pub fn element(self, i: usize) -> Expr<'t> {
        self.gather(self.tape.ints(&[i as i64]), 0)
    }
}

/// Checks the indices, input 1, of `GatherElements` or `ScatterElements` along an axis of input 0,
/// and returns their shape.
pub(super) fn gather_elements_shape(cx: &mut Infer<'_>, axis: i64) -> Inferred<Vec<Dim>> {
    let x = cx.ty(0)?;
    cx.of(1, INDICES)?;
    let indices = cx.ranked(1, x.rank())?.shape.clone();
    let axis = cx.axis("axis", axis, x.rank())?;
    for (i, (size, count)) in x.shape.iter().zip(&indices).enumerate() {
        if i != axis {
            cx.require_at_least(size, count, "the indices are larger than the input")?;
        }
    }
    cx.require_indices_inside(axis)?;
    Ok(indices)
}

/// The slices of input 0 at the points that the last axis of the indices, input 1, holds.
pub struct GatherNd {
    /// The number of leading axes that both inputs share.
    pub batch_dims: i64,
}

static POINTS: Kernel<Points> = gather!(gather_nd);

impl Op for GatherNd {
    fn name(&self) -> &'static str {
        "GatherND"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("batch_dims", self.batch_dims);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (x, indices) = (cx.of(0, ANY)?, cx.of(1, INDICES)?);
        let batch = usize::try_from(self.batch_dims).unwrap_or(usize::MAX);
        if batch >= x.rank().min(indices.rank()) {
            let message = format!("`batch_dims` is {}, which is out of range", self.batch_dims);
            return Err(cx.diagnostic(Code::BadAttribute, message));
        }
        for (a, b) in x.shape[..batch].iter().zip(&indices.shape) {
            cx.require_equal(a, b, "the sizes of a shared axis of the inputs")?;
        }
        let slice = slice_shape(cx, batch, None)?;
        let points = &indices.shape[..indices.rank() - 1];
        Ok(vec![Type::tensor(x.dtype, points.iter().chain(slice))])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (x, indices, y) = (cx.ty(0)?, cx.ty(1)?, cx.output_ty(0)?);
        let batch = usize::try_from(self.batch_dims).unwrap_or(0);
        let inner = y.rank() + 1 - indices.rank();
        let axes = x.rank() - batch - inner;
        cx.call(&POINTS, Points::of(&x.shape, &indices.shape, batch, axes))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, indices, Some(dy)) = (g.x(0), g.x(1), g.dy(0)) else { return Ok(()) };
        if self.batch_dims > 0 {
            return g.move_back(0);
        }
        g.set(0, x.zeros_like().scatter_nd_add(indices, dy));
        Ok(())
    }
}

/// The shape of the slices of input 0 at the points of input 1, after `batch` shared axes.
///
/// The number of axes that a point indexes is the last size of input 1. If it is unknown, it
/// follows from the rank of a slice, `of_slice`, or from the rank of input 0 if there is one axis
/// to index.
pub(super) fn slice_shape<'a>(
    cx: &mut Infer<'a>,
    batch: usize,
    of_slice: Option<usize>,
) -> Inferred<&'a [Dim]> {
    let (x, indices) = (cx.ty(0)?, cx.of(1, INDICES)?);
    let Some(axes) = indices.shape.last() else {
        return Err(cx.diagnostic(Code::ShapeMismatch, "the indices must have at least one axis"));
    };
    let rest = x.rank().saturating_sub(batch);
    let implied = of_slice.and_then(|slice| rest.checked_sub(slice)).or((rest == 1).then_some(1));
    if let (None, Some(implied)) = (axes.known(), implied) {
        let message = "the number of axes that a point indexes and that the shapes imply";
        cx.require_equal(axes, &implied.into(), message)?;
        return Ok(&x.shape[batch + implied..]);
    }
    let Some(axes) = axes.known() else {
        let message = "the number of axes that a point indexes is known only at run time";
        return Err(cx.diagnostic(Code::UnknownShape, message));
    };
    let count = usize::try_from(axes).ok().filter(|&count| count <= rest);
    let message = || format!("a point indexes {axes} axes, which the input does not have");
    let count = count.ok_or_else(|| cx.diagnostic(Code::ShapeMismatch, message()))?;
    cx.require_points_inside(batch, count)?;
    Ok(&x.shape[batch + count..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Given, check, tensor};
    use DType::{F32, I64};

    fn n() -> Dim {
        Dim::symbol("n")
    }

    #[test]
    fn indices_at_equal_distances_are_a_range() {
        let range = |indices: &[i64], len: Dim| {
            Range::of(indices, &len).map(|range| format!("{:?} by {}", range.first, range.step))
        };
        assert_eq!(range(&[1, 2, 3], 9.into()).as_deref(), Some("1 by 1"));
        assert_eq!(range(&[-1], n()).as_deref(), Some("n - 1 by 1"));
        assert_eq!(range(&[-1, -3], 9.into()).as_deref(), Some("8 by -2"));
        assert_eq!(range(&[2, 2], n()).as_deref(), Some("2 by 0"));
        assert_eq!(range(&[-1, 0], 9.into()), None);
        assert_eq!(range(&[0, 1, 3], 9.into()), None);
        assert_eq!(range(&[], 9.into()), None);
        assert!(range(&[i64::MIN, i64::MAX], n()).is_none());
    }

    #[test]
    fn the_axes_of_the_indices_replace_the_axis() {
        let gather = |axis| Gather { axis };
        let x = || tensor(F32, [n(), 3.into(), 4.into()]);
        let indices = tensor(I64, [n(), 7.into()]);
        check(gather(-2), &[x(), indices], 1, "float[n, n, 7, 4]");
        check(gather(1), &[x(), Given::Ints(vec![2, 0])], 1, "float[n, 2, 4]");
        check(gather(0), &[x(), Given::Ints(vec![i64::MIN, i64::MAX])], 1, "float[2, 3, 4]");
        let expected = "the index -4 is outside axis 1 of input 0, whose size is 3";
        check(gather(1), &[x(), Given::Ints(vec![0, -4])], 1, expected);
        let sizes = Given::Sizes(vec![n(), 3.into(), n() * 2]);
        check(gather(0), &[sizes, Given::Ints(vec![-1, 0])], 1, "int64[2] = [2 * n, n]");
    }

    #[test]
    fn gather_elements_and_gather_nd_infer_shapes() {
        let x = || tensor(F32, [n(), 3.into(), 4.into()]);
        let indices = tensor(I64, [n(), 9.into(), 2.into()]);
        check(GatherElements { axis: 1 }, &[x(), indices], 1, "float[n, 9, 2]");
        let indices = || tensor(I64, [n(), 5.into(), 1.into()]);
        check(GatherNd { batch_dims: 1 }, &[x(), indices()], 1, "float[n, 5, 4]");
        check(GatherNd { batch_dims: 0 }, &[x(), indices()], 1, "float[n, 5, 3, 4]");
        let open = || tensor(I64, [n(), Dim::symbol("k")]);
        check(GatherNd { batch_dims: 0 }, &[tensor(F32, [n()]), open()], 1, "float[n]");
        let expected = "the number of axes that a point indexes is known only at run time";
        check(GatherNd { batch_dims: 0 }, &[x(), open()], 1, expected);
        let expected = "a point indexes 4 axes, which the input does not have";
        check(GatherNd { batch_dims: 0 }, &[x(), tensor(I64, [4])], 1, expected);
    }

    #[test]
    fn known_indices_are_inside_their_axes() {
        let x = || tensor(F32, [4, 3]);
        let at = |indices: &[i64], shape: &[usize]| Given::Matrix(indices.to_vec(), shape.to_vec());
        let elements = |indices| [x(), at(indices, &[2, 2])];
        let expected = "the index -5 is outside axis 0 of input 0, whose size is 4";
        check(GatherElements { axis: 0 }, &elements(&[3, -4, -5, 4]), 1, expected);
        check(GatherElements { axis: 0 }, &elements(&[3, -4, 0, 3]), 1, "float[2, 2]");
        let expected = "the index 3 is outside axis 1 of input 0, whose size is 3";
        check(GatherElements { axis: -1 }, &elements(&[0, 1, 2, 3]), 1, expected);
        let points = |batch_dims, indices, expected| {
            check(GatherNd { batch_dims }, &[x(), at(indices, &[4, 1])], 1, expected);
        };
        points(0, &[0, 1, 2, 3], "float[4, 3]");
        points(1, &[0, 1, 2, -3], "float[4]");
        points(1, &[0, 1, 2, 3], expected);
        check(GatherNd { batch_dims: 0 }, &[x(), at(&[3, 2, 2, 3], &[2, 2])], 1, expected);
        let open = || tensor(F32, [n(), n()]);
        check(GatherNd { batch_dims: 0 }, &[open(), at(&[7, 7], &[1, 2])], 1, "float[1]");
    }
}
