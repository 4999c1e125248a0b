//! Selection by value: `Compress`, `NonZero`, `OneHot` and `Unique`.

use super::{Entry, entry};
use crate::{
    diag::Result,
    dim::Dim,
    dtype::{ANY, ANY_IR4, BOOL_ONLY, DType, NUMERIC},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op},
    plan::{Arg, Kernel, NoParams, geometry::Axis, kernel},
    tensor::Tensor,
    ty::{TensorType, Type},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("Compress", 9, |node| Ok(Rc::new(Compress { axis: node.maybe_int("axis")? }))),
    entry("NonZero", 9, |_| Ok(Rc::new(NonZero))),
    entry("OneHot", 9, |node| Ok(Rc::new(OneHot { axis: node.int("axis", -1)? }))),
    entry("Unique", 11, |node| {
        Ok(Rc::new(Unique { axis: node.maybe_int("axis")?, sorted: node.flag("sorted", true)? }))
    }),
];

/// Returns the geometry of `axis`, or of all elements as one axis.
fn axis_geometry(cx: &Lower<'_>, ty: &TensorType, axis: Option<i64>) -> Axis {
    match axis {
        Some(axis) => Axis::of(&ty.shape, cx.axis(axis, ty.rank())),
        None => Axis { outer: 1.into(), len: ty.len(), inner: 1.into() },
    }
}

/// Returns the shape of input 0 with another size along the axis, or of that many of its elements.
fn shape_with_size(cx: &Infer<'_>, axis: Option<i64>, size: Dim) -> Inferred<Vec<Dim>> {
    let mut shape = cx.shape(0)?.to_vec();
    match axis {
        Some(axis) => {
            let axis = cx.axis("axis", axis, shape.len())?;
            shape[axis] = size;
            Ok(shape)
        }
        None => Ok(vec![size]),
    }
}

/// Returns the size of input 0 along the axis, or its number of elements.
fn size_along(cx: &Infer<'_>, axis: Option<i64>) -> Inferred<Dim> {
    let ty = cx.ty(0)?;
    match axis {
        Some(axis) => Ok(ty.shape[cx.axis("axis", axis, ty.rank())?].clone()),
        None => Ok(ty.len()),
    }
}

/// The slices along an axis, or the elements, whose condition is true.
pub struct Compress {
    /// The axis.
    pub axis: Option<i64>,
}

static COMPRESS: Kernel<Axis> = kernel!(moves T, select::compress::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p));
static COMPRESS_SIZES: Kernel<(Dim,)> = kernel!(BOOL_ONLY T, select::compress_sizes,
    |f, a, p| f(a.sizes(), a.input::<T>(0), p.0));

impl Op for Compress {
    fn name(&self) -> &'static str {
        "Compress"
    }

    fn attributes(&self, a: &mut Attributes) {
        if let Some(axis) = self.axis {
            a.int("axis", axis);
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = cx.of(0, ANY)?.dtype;
        cx.of(1, BOOL_ONLY)?;
        let conditions = cx.ranked(1, 1)?.shape[0].clone();
        let len = size_along(cx, self.axis)?;
        // Conditions beyond the last slice choose nothing, as in ONNX Runtime.
        let count = match len.known() {
            None if (&len - &conditions).is_size() => conditions.known(),
            count => count,
        };
        let count = count.and_then(|count| usize::try_from(count).ok());
        let chosen = match (cx.known(1), count) {
            (Some(conditions), Some(count)) => conditions.iter().take(count).cloned().sum(),
            _ => cx.fresh_sizes([cx.upper(&conditions.at_most(&len))]).remove(0),
        };
        Ok(vec![Type::tensor(dtype, shape_with_size(cx, self.axis, chosen)?)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let axis = axis_geometry(cx, cx.ty(0)?, self.axis);
        let conditions = cx.input(1)?.into();
        cx.bind(&COMPRESS_SIZES, DType::Bool, vec![conditions], (axis.len.clone(),))?;
        cx.call(&COMPRESS, axis)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        g.move_back(0)
    }
}

/// The indices of the nonzero elements, with a row for each axis.
pub struct NonZero;

static NON_ZERO: Kernel<(Vec<Dim>,)> =
    kernel!(ANY T, select::non_zero::<T>, |f, a, p| f(a.input(0), a.output(0), p.0));
static NON_ZERO_SIZES: Kernel =
    kernel!(ANY T, select::non_zero_sizes::<T>, |f, a, _p| f(a.sizes(), a.input(0)));

impl Op for NonZero {
    fn name(&self) -> &'static str {
        "NonZero"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, ANY)?;
        let constant = cx.constant(0).and_then(Tensor::floats);
        let count = match constant {
            Some(elements) => elements.iter().filter(|&&x| x != 0.0).count().into(),
            None => cx.fresh_sizes([cx.upper(&ty.len())]).remove(0),
        };
        Ok(vec![Type::tensor(DType::I64, [ty.rank().into(), count])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (ty, x) = (cx.ty(0)?, cx.input(0)?);
        cx.bind(&NON_ZERO_SIZES, ty.dtype, vec![x.into()], NoParams)?;
        cx.call_for_input(&NON_ZERO, (ty.shape.clone(),))
    }
}

/// One-hot encoding along a new axis: the second value at the index, and the first elsewhere.
/// Inputs: indices, size of the axis, values.
pub struct OneHot {
    /// The axis of the output.
    pub axis: i64,
}

static ONE_HOT: Kernel<Axis> = kernel!(checked moves T, select::one_hot::<T, f64>,
    |f, a, p| f(&a.numbers(0), a.input(1), a.output(0), p));
static ONE_HOT_SIZES: Kernel = kernel!(checked NUMERIC D, select::one_hot_sizes::<D>,
    |f, a, _p| f(a.sizes(), a.input(0)));

impl OneHot {
    fn axis(&self, cx: &Infer<'_>, rank: usize) -> Inferred<usize> {
        cx.axis("axis", self.axis, rank)
    }

    /// Returns the size of the new axis, if it is known.
    fn depth(cx: &Infer<'_>) -> Option<Dim> {
        if let Some([depth]) = cx.known(1) {
            return Some(depth.clone());
        }
        let depth = cx.constant(1)?.floats()?;
        depth.first().map(|&depth| Dim::from(depth as i64))
    }
}

impl Op for OneHot {
    fn name(&self) -> &'static str {
        "OneHot"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("axis", self.axis);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let indices = cx.of(0, NUMERIC)?;
        cx.of(1, NUMERIC)?;
        let dtype = cx.of(2, ANY)?.dtype;
        for (i, count, message) in
            [(1, 1, "the number of depths and 1"), (2, 2, "the number of values and 2")]
        {
            let len: Dim = cx.shape(i)?.iter().product();
            cx.require_equal(&len, &count.into(), message)?;
        }
        let axis = self.axis(cx, indices.rank() + 1)?;
        let depth = match OneHot::depth(cx) {
            Some(depth) => depth,
            None => cx.fresh_sizes([None]).remove(0),
        };
        cx.require_at_least(&depth, &0.into(), "the depth must not be negative")?;
        let mut shape = indices.shape.clone();
        shape.insert(axis, depth);
        Ok(vec![Type::tensor(dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let y = cx.output_ty(0)?;
        let (depth, dtype) = (cx.input(1)?.into(), cx.ty(1)?.dtype);
        cx.bind(&ONE_HOT_SIZES, dtype, vec![depth], NoParams)?;
        let (inputs, output) = (vec![cx.input(0)?.into(), cx.input(2)?.into()], cx.output(0)?);
        let axis = Axis::of(&y.shape, cx.axis(self.axis, y.rank()));
        cx.call_on(&ONE_HOT, y.dtype, inputs, vec![output.into()], axis)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let Some(dy) = g.dy(0).filter(|_| g.wants(2)) else { return Ok(()) };
        let hot = g.x(0).one_hot(g.x(1), dy, self.axis);
        let is_off = hot.equal(hot.number(0.0));
        let [off, on] = [is_off, is_off.logical_not()]
            .map(|these| dy.only_where(these).sum_all().reshape_to(&[1]));
        g.set(2, g.tape().concat(&[off, on]));
        Ok(())
    }
}

impl<'t> Expr<'t> {
    /// Returns a one-hot encoding along a new axis of size `depth`, with 0 and 1 in the type of
    /// `like`.
    pub fn one_hot(self, depth: Expr<'t>, like: Expr<'t>, axis: i64) -> Expr<'t> {
        let values = [0.0, 1.0].map(|value| like.number(value).reshape_to(&[1]));
        self.apply(OneHot { axis }, &[depth, self.tape.concat(&values)])
    }
}

/// The distinct slices along an axis, or distinct elements. The other outputs are the index of the
/// first occurrence of each, the index of each input slice among them, and their counts.
pub struct Unique {
    /// The axis.
    pub axis: Option<i64>,
    /// Whether they are sorted, instead of in the order of their first occurrence.
    pub sorted: bool,
}

static UNIQUE: Kernel<Axis> = kernel!(checked ANY_IR4 T, select::unique::<T>,
    |f, a, p| f(a.input(0), a.output(0), a.output(1), a.output(2), a.output(3), p));
static UNSORTED: Kernel<Axis> = kernel!(checked ANY_IR4 T, select::unique_unsorted::<T>,
    |f, a, p| f(a.input(0), a.output(0), a.output(1), a.output(2), a.output(3), p));
static UNIQUE_SIZES: Kernel<Axis> = kernel!(ANY_IR4 T, select::unique_sizes::<T>,
    |f, a, p| f(a.sizes(), a.input(0), a.output(0), p));

impl Op for Unique {
    fn name(&self) -> &'static str {
        "Unique"
    }

    fn attributes(&self, a: &mut Attributes) {
        if let Some(axis) = self.axis {
            a.int("axis", axis);
        }
        a.flag("sorted", self.sorted);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = cx.of(0, ANY_IR4)?.dtype;
        let len = size_along(cx, self.axis)?;
        let count = cx.fresh_sizes([cx.upper(&len)]).remove(0);
        let list = |len: &Dim| Type::tensor(DType::I64, [len]);
        let y = Type::tensor(dtype, shape_with_size(cx, self.axis, count.clone())?);
        Ok(vec![y, list(&count), list(&len), list(&count)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let ty = cx.ty(0)?;
        let axis = axis_geometry(cx, ty, self.axis);
        let count = Dim::symbol(&cx.node().binds[0]);
        let lens = [count.clone(), axis.len.clone(), count];
        // The kernel writes every output, also unused ones.
        let mut lists: Vec<Arg> = Vec::new();
        for (i, len) in lens.into_iter().enumerate() {
            let wanted = cx.optional_output(i + 1)?;
            lists.push(wanted.unwrap_or_else(|| cx.scratch(DType::I64, len)).into());
        }
        let x = vec![Arg::from(cx.input(0)?)];
        let order = vec![lists[1].clone()];
        cx.bind_with(&UNIQUE_SIZES, ty.dtype, x.clone(), order, axis.clone())?;
        let y = vec![cx.output(0)?.into()];
        let kernel = if self.sorted { &UNIQUE } else { &UNSORTED };
        cx.call_on(kernel, ty.dtype, x, [y, lists].concat(), axis)
    }

    /// The selection has no gradient.
    fn gradient(&self, _: &mut Gradient<'_>) -> Result {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Given, check, tensor};
    use DType::{Bool, F32, I64};

    fn n() -> Dim {
        Dim::symbol("n")
    }

    #[test]
    fn compress_keeps_slices_whose_condition_holds() {
        let x = || tensor(F32, [n(), 4.into()]);
        let op = |axis| Compress { axis };
        check(op(Some(-1)), &[x(), tensor(Bool, [3])], 1, "float[n, y0_0]");
        check(op(None), &[x(), tensor(Bool, [n()])], 1, "float[y0_0]");
        check(op(Some(1)), &[x(), tensor(Bool, [5])], 1, "float[n, y0_0]");
    }

    #[test]
    fn constants_determine_sizes() {
        let ints = Given::Ints(vec![0, 3, 0, -1]);
        check(NonZero, &[ints], 1, "int64[1, 2]");
        check(NonZero, &[tensor(F32, [n(), 4.into()])], 1, "int64[2, y0_0]");
        let inputs = |depth| [tensor(I64, [n(), 4.into()]), depth, tensor(F32, [2])];
        let depth = Given::Sizes(vec![n() + 1]);
        check(OneHot { axis: 1 }, &inputs(depth), 1, "float[n, n + 1, 4]");
        let depth = tensor(F32, [1]);
        check(OneHot { axis: -1 }, &inputs(depth), 1, "float[n, 4, y0_0]");
        let expected = "the depth must not be negative: 0 - 2 is less than 0";
        check(OneHot { axis: -1 }, &inputs(Given::Ints(vec![-2])), 1, expected);
    }

    #[test]
    fn the_number_of_distinct_elements_is_known_at_run_time() {
        let op = |axis| Unique { axis, sorted: false };
        let x = || tensor(F32, [n(), 4.into()]);
        let expected = "float[y0_0]; int64[y0_0]; int64[4 * n]; int64[y0_0]";
        check(op(None), &[x()], 4, expected);
        let expected = "float[n, y0_0]; int64[y0_0]; int64[4]";
        check(op(Some(-1)), &[x()], 3, expected);
    }
}
