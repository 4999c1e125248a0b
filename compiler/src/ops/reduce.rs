//! Reductions along any set of axes: a table of functions, and one [`Op`] for its rows.

use super::cast::{Cast, CastMode};
use super::{Entry, entry};
use crate::{
    diag::{Code, Result, counted},
    dim::Dim,
    dtype::{ARITHMETIC, DType, FLOATS, I64_ONLY, INTEGERS, MIN_MAX_NUMERIC, MIN_MAX_TYPES},
    ir::{Attributes, Expr, Grad, Gradient, Infer, Inferred, Lower, Op, Reader, Views},
    plan::{Kernel, geometry::Reduction, kernel},
    ty::TensorType,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("ReduceL1", 1, |node| by_attribute(node, &L1)),
    entry("ReduceL1", 18, |node| by_input(node, &L1)),
    entry("ReduceL2", 1, |node| by_attribute(node, &L2)),
    entry("ReduceL2", 18, |node| by_input(node, &L2)),
    entry("ReduceLogSum", 1, |node| by_attribute(node, &LOG_SUM)),
    entry("ReduceLogSum", 18, |node| by_input(node, &LOG_SUM)),
    entry("ReduceLogSumExp", 1, |node| by_attribute(node, &LOG_SUM_EXP)),
    entry("ReduceLogSumExp", 18, |node| by_input(node, &LOG_SUM_EXP)),
    entry("ReduceMax", 1, |node| by_attribute(node, &MAX)),
    entry("ReduceMax", 18, |node| by_input(node, &MAX)),
    entry("ReduceMean", 1, |node| by_attribute(node, &MEAN)),
    entry("ReduceMean", 18, |node| by_input(node, &MEAN)),
    entry("ReduceMin", 1, |node| by_attribute(node, &MIN)),
    entry("ReduceMin", 18, |node| by_input(node, &MIN)),
    entry("ReduceProd", 1, |node| by_attribute(node, &PROD)),
    entry("ReduceProd", 18, |node| by_input(node, &PROD)),
    entry("ReduceSum", 1, |node| by_attribute(node, &SUM)),
    entry("ReduceSum", 13, |node| by_input(node, &SUM)),
    entry("ReduceSumSquare", 1, |node| by_attribute(node, &SUM_SQUARE)),
    entry("ReduceSumSquare", 18, |node| by_input(node, &SUM_SQUARE)),
];

/// A row of the table.
pub struct Reducer {
    name: &'static str,
    types: &'static [DType],
    /// Whether the result of a single element is that element.
    keeps_one: bool,
    /// The reduction of sizes, if the result is a size.
    sizes: fn(&[Dim]) -> Option<Dim>,
    pub(super) kernel: Kernel<Reduction>,
    /// The kernel for `bool`.
    truth: Option<Kernel<Reduction>>,
    /// The gradient, where `y` and `dy` keep the reduced axes with size 1.
    gradient: Grad,
}

macro_rules! row {
    ($name:literal $set:ident, $kernel:ident, $keeps_one:literal, $sizes:expr, $gradient:expr) => {
        Reducer {
            name: $name,
            types: $set,
            keeps_one: $keeps_one,
            sizes: $sizes,
            kernel: kernel!($set T, reduce::$kernel::<T>, |f, a, p| f(a.input(0), a.output(0), p)),
            truth: None,
            gradient: $gradient,
        }
    };
}

static L1: Reducer = row!("ReduceL1" ARITHMETIC, reduce_l1, false, |_| None,
    |x, _, dy| dy * x.sign());
static L2: Reducer = row!("ReduceL2" ARITHMETIC, reduce_l2, false, |_| None,
    |x, y, dy| dy * x / y.replace_zeros(1.0));
static LOG_SUM: Reducer = row!("ReduceLogSum" FLOATS, reduce_log_sum, false, |_| None,
    |_, y, dy| dy / y.exp());
static LOG_SUM_EXP: Reducer = row!("ReduceLogSumExp" FLOATS, reduce_log_sum_exp, true, |_| None,
    |x, y, dy| dy * (x - y).exp());
static MAX: Reducer = Reducer {
    types: MIN_MAX_TYPES,
    truth: Some(kernel!(BOOL_ONLY T, reduce::reduce_any, |f, a, p| f(a.input(0), a.output(0), p))),
    ..row!("ReduceMax" MIN_MAX_NUMERIC, reduce_max, true, |all| {
        all.iter().cloned().reduce(|a, b| a.at_least(&b))?.if_sure()
    }, extremum_gradient)
};
pub static MEAN: Reducer = row!("ReduceMean" ARITHMETIC, reduce_mean, true, |_| None,
    |x, y, dy| dy * y.share_of(x));
static MIN: Reducer = Reducer {
    types: MIN_MAX_TYPES,
    truth: Some(kernel!(BOOL_ONLY T, reduce::reduce_all, |f, a, p| f(a.input(0), a.output(0), p))),
    ..row!("ReduceMin" MIN_MAX_NUMERIC, reduce_min, true, |all| {
        all.iter().cloned().reduce(|a, b| a.at_most(&b))?.if_sure()
    }, extremum_gradient)
};
static PROD: Reducer = row!("ReduceProd" ARITHMETIC, reduce_prod, true, |all| {
    all.iter().try_fold(Dim::from(1), |product, dim| product.checked_mul(dim))
},
    |x, y, dy| dy * product_of_others(x, y));
pub static SUM: Reducer = row!("ReduceSum" ARITHMETIC, reduce_sum, true, |all| {
    all.iter().try_fold(Dim::from(0), |sum, dim| sum.checked_add(dim))
},
    |_, _, dy| dy);
static SUM_SQUARE: Reducer = row!("ReduceSumSquare" ARITHMETIC, reduce_sum_square, false, |all| {
    all.iter().try_fold(Dim::from(0), |sum, dim| sum.checked_add(&dim.checked_mul(dim)?))
},
    |x, _, dy| dy * x * 2.0);

/// Divides the gradient among the elements that equal the result.
fn extremum_gradient<'t>(x: Expr<'t>, y: Expr<'t>, dy: Expr<'t>) -> Expr<'t> {
    let chosen = x.equal(y).cast_like(x);
    dy * chosen / chosen.fit(y)
}

/// Returns the product of all other elements. It is `y / x` for a nonzero element. A single zero
/// gets the product of the nonzero elements; with two zeros, every product is zero.
fn product_of_others<'t>(x: Expr<'t>, y: Expr<'t>) -> Expr<'t> {
    let zero = x.equal(x.number(0.0));
    let zeros = zero.cast_like(x).fit(y);
    let nonzero = zero.select(x.number(1.0), x);
    let product = nonzero.abs().log().fit(y).exp();
    let negative = x.below(0.0).cast_like(x).fit(y);
    let sign = (negative - (negative / 2.0).floor() * 2.0) * -2.0 + 1.0;
    let lone = zeros.equal(zeros.number(1.0)).and(zero);
    lone.select(product * sign, y / nonzero)
}

/// A reduction.
pub struct Reduce {
    /// The function.
    pub by: &'static Reducer,
    /// Whether reduced axes stay, with size 1.
    pub keepdims: bool,
    /// Whether an empty list of axes selects none, instead of all.
    pub noop_with_empty_axes: bool,
}

/// Returns the mean along axes, which stay with size 1.
pub fn mean() -> Reduce {
    Reduce { by: &MEAN, keepdims: true, noop_with_empty_axes: false }
}

/// Reads the axes from an attribute, as before version 18 (13 for `ReduceSum`).
fn by_attribute(node: &mut Reader<'_>, by: &'static Reducer) -> Result<Rc<dyn Op>> {
    node.ints_as_input("axes", 1)?;
    let keepdims = node.flag("keepdims", true)?;
    of_type(node, Reduce { by, keepdims, noop_with_empty_axes: false })
}

fn by_input(node: &mut Reader<'_>, by: &'static Reducer) -> Result<Rc<dyn Op>> {
    let keepdims = node.flag("keepdims", true)?;
    let noop_with_empty_axes = node.flag("noop_with_empty_axes", false)?;
    of_type(node, Reduce { by, keepdims, noop_with_empty_axes })
}

/// Returns the reduction. Before version 28 those to logarithms took integers, which are computed
/// in `double`, and truncated.
fn of_type(node: &mut Reader<'_>, reduce: Reduce) -> Result<Rc<dyn Op>> {
    let whole = node.dtype(0).ok().filter(|dtype| INTEGERS.contains(dtype));
    let Some(whole) = whole.filter(|dtype| !reduce.by.types.contains(dtype)) else {
        return Ok(Rc::new(reduce));
    };
    node.wrap_input(0, Cast { to: DType::F64, mode: CastMode::DEFAULT }, &[])?;
    let inputs: Vec<_> = node.inputs.iter().copied().flatten().collect();
    node.inputs = vec![Some(node.add(reduce, &inputs, &[])?)];
    Ok(Rc::new(Cast { to: whole, mode: CastMode::DEFAULT }))
}

static PRUNED_SIZES: Kernel<(Vec<Dim>,)> = kernel!(checked I64_ONLY T, reduce::pruned_sizes,
    |f, a, p| f(a.sizes(), a.input(0), p.0));
static KEPT_SIZES: Kernel<(Vec<Dim>,)> = kernel!(checked I64_ONLY T, reduce::kept_sizes,
    |f, a, p| f(a.sizes(), a.input(0), p.0));
static KEPT_OR_ALL_SIZES: Kernel<(Vec<Dim>,)> = kernel!(checked I64_ONLY T,
    reduce::kept_or_all_sizes, |f, a, p| f(a.sizes(), a.input(0), p.0));

impl Reduce {
    /// Returns the reduced axes, if they are known at compile time.
    fn axes(&self, cx: &Infer<'_>, rank: usize) -> Inferred<Option<Vec<usize>>> {
        let no_axes = || if self.noop_with_empty_axes { Vec::new() } else { (0..rank).collect() };
        if !cx.has(1) {
            return Ok(Some(no_axes()));
        }
        cx.of(1, I64_ONLY)?;
        match cx.ints(1) {
            Some(axes) if axes.is_empty() => Ok(Some(no_axes())),
            Some(axes) => cx.axes("axes", &axes, rank).map(Some),
            None if cx.shape(1)?.iter().any(|dim| dim.known() == Some(0)) => Ok(Some(no_axes())),
            None => Ok(None),
        }
    }

    /// Returns fresh sizes for axes that are known only at run time. The node binds them.
    fn infer_dynamic(&self, cx: &mut Infer<'_>, shape: &[Dim]) -> Inferred<Vec<Dim>> {
        let bounds: Vec<_> =
            shape.iter().map(|dim| cx.upper(dim).map(|most| most.max(1))).collect();
        let kept = cx.fresh_sizes(bounds.clone());
        if self.keepdims {
            return Ok(kept);
        }
        let Some(count) = cx.shape(1)?.iter().product::<Dim>().known() else {
            let message = "without `keepdims`, the number of `axes` must be known";
            return Err(cx.diagnostic(Code::UnknownShape, message));
        };
        let Some(left) = usize::try_from(count).ok().and_then(|n| shape.len().checked_sub(n))
        else {
            let message = format!("cannot reduce {} of {}", counted(count, "axis"), shape.len());
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        };
        let most = bounds.into_iter().reduce(|a, b| Some(a?.max(b?))).flatten();
        Ok(cx.fresh_sizes(vec![most; left]))
    }

    /// Computes the result on sizes, if the node reduces all or none of the elements.
    fn reduce_sizes(&self, cx: &mut Infer<'_>, ty: &TensorType, axes: &[usize]) {
        let Some(known) = cx.known(0) else { return };
        let reduced = if axes.len() == ty.rank() {
            (self.by.sizes)(known).map(|dim| vec![dim])
        } else {
            known.iter().map(|dim| (self.by.sizes)(std::slice::from_ref(dim))).collect()
        };
        cx.set_computed(0, ty.dtype, reduced);
    }
}

impl Op for Reduce {
    fn name(&self) -> &'static str {
        self.by.name
    }

    fn attributes(&self, a: &mut Attributes) {
        a.flag("keepdims", self.keepdims);
        a.flag("noop_with_empty_axes", self.noop_with_empty_axes);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, self.by.types)?;
        let TensorType { dtype, shape } = ty;
        let sizes = match self.axes(cx, shape.len())? {
            None => self.infer_dynamic(cx, shape)?,
            Some(axes) => {
                self.reduce_sizes(cx, ty, &axes);
                let sizes = shape.iter().enumerate().map(|(axis, size)| {
                    if !axes.contains(&axis) {
                        return Some(size.clone());
                    }
                    self.keepdims.then(|| 1.into())
                });
                sizes.flatten().collect()
            }
        };
        Ok(vec![TensorType { dtype: *dtype, shape: sizes }.into()])
    }

    fn views(&self, cx: &mut Views<'_>) {
        if self.by.keeps_one && cx.same_len(0, 0) {
            cx.view(0, 0, 0.into());
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (ty, output) = (cx.ty(0)?, cx.output_ty(0)?);
        if self.by.keeps_one && ty.len() == output.len() {
            return Ok(());
        }
        self.bind_sizes(cx)?;
        let (x, y) = (cx.input(0)?.into(), cx.output(0)?.into());
        let kernel = match &self.by.truth {
            Some(kernel) if ty.dtype == DType::Bool => kernel,
            _ => &self.by.kernel,
        };
        let kept = self.kept_shape(cx, &ty.shape, &output.shape);
        cx.call_on(kernel, ty.dtype, vec![x], vec![y], Reduction::to(&ty.shape, &kept))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, Some(dy)) = (g.x(0), g.dy(0)) else { return Ok(()) };
        let rank = x.rank();
        let all = || g.tape().ints(&(0..rank as i64).collect::<Vec<_>>());
        let none = match g.optional(1) {
            None => true,
            Some(axes) => axes.known_ints().is_some_and(|axes| axes.is_empty()),
        };
        let keep = |value| match g.optional(1) {
            _ if self.keepdims || Expr::rank(value) == rank => value,
            Some(axes) if !none => value.unsqueeze(axes),
            _ => value.unsqueeze(all()),
        };
        let (y, dy) = (keep(g.y(0)), keep(dy));
        let dx = (self.by.gradient)(x, y, dy);
        // A gradient in the reduced shape is broadcast, also where sizes are symbols.
        g.set(0, if dx.dims() == x.dims() { dx } else { dx.expand_like(x) });
        Ok(())
    }
}

impl<'t> Expr<'t> {
    /// Returns the sum along axes, which stay with size 1.
    pub fn sum(self, axes: &[usize]) -> Expr<'t> {
        self.reduce_axes(&SUM, axes)
    }

    /// Returns the sum of all elements, a scalar.
    pub fn sum_all(self) -> Expr<'t> {
        let op = Reduce { by: &SUM, keepdims: false, noop_with_empty_axes: false };
        self.apply(op, &[])
    }

    /// Returns the mean along axes, which stay with size 1.
    pub fn mean(self, axes: &[usize]) -> Expr<'t> {
        self.reduce_axes(&MEAN, axes)
    }

    fn reduce_axes(self, by: &'static Reducer, axes: &[usize]) -> Expr<'t> {
        if axes.is_empty() {
            return self;
        }
        let axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
        let op = Reduce { by, keepdims: true, noop_with_empty_axes: false };
        self.apply(op, &[self.tape.ints(&axes)])
    }
}

impl Reduce {
    /// Binds the sizes that depend on axes known only at run time.
    fn bind_sizes(&self, cx: &mut Lower<'_>) -> Result {
        if cx.node().binds.is_empty() {
            return Ok(());
        }
        let kernel = match (self.keepdims, self.noop_with_empty_axes) {
            (false, _) => &PRUNED_SIZES,
            (true, true) => &KEPT_SIZES,
            (true, false) => &KEPT_OR_ALL_SIZES,
        };
        let (axes, shape) = (cx.input(1)?.into(), cx.ty(0)?.shape.clone());
        cx.bind(kernel, DType::I64, vec![axes], (shape,))
    }

    /// Returns the output's shape with size 1 for every reduced axis.
    fn kept_shape(&self, cx: &Lower<'_>, shape: &[Dim], output: &[Dim]) -> Vec<Dim> {
        if output.len() == shape.len() {
            return output.to_vec();
        }
        // The first sizes that the node binds are those with all axes kept.
        let bound = &cx.node().binds;
        if !bound.is_empty() {
            return bound[..shape.len()].iter().map(|name| Dim::symbol(name)).collect();
        }
        let rank = shape.len() as i64;
        let reduced = |axis: usize| match cx.ints(1) {
            Some(axes) if !axes.is_empty() => {
                axes.iter().any(|other| other.rem_euclid(rank) == axis as i64)
            }
            _ => true,
        };
        let size =
            |(axis, size): (usize, &Dim)| if reduced(axis) { 1.into() } else { size.clone() };
        shape.iter().enumerate().map(size).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ir::{Graph, ValueId},
        tensor::Tensor,
        ty::Type,
    };

    fn graph() -> Graph {
        Graph::new(Rc::default())
    }

    fn input(g: &mut Graph, dtype: DType, shape: &[Dim]) -> ValueId {
        let ty = Type::tensor(dtype, shape);
        g.input(g.body, "x", ty)
    }

    fn reduce(g: &mut Graph, by: &'static Reducer, keepdims: bool, inputs: &[ValueId]) -> ValueId {
        let op = Reduce { by, keepdims, noop_with_empty_axes: false };
        g.add(g.body, "y", op, inputs).expect("the inputs are valid")
    }

    #[test]
    fn a_product_of_sizes_is_a_size() {
        let mut g = graph();
        let n = Dim::symbol("n");
        let x = input(&mut g, DType::F32, &[n.clone(), 3.into()]);
        let op = crate::ops::reshape::Shape { start: 0, end: None };
        let shape = g.add(g.body, "shape", op, &[x]).expect("the inputs are valid");
        let product = reduce(&mut g, &PROD, false, &[shape]);
        assert_eq!(g[product].known, Some(vec![&n * 3]));
        let least = reduce(&mut g, &MIN, true, &[shape]);
        assert_eq!(g[least].known, Some(vec![n.at_most(&3.into())]));
    }

    #[test]
    fn reduced_axes_are_removed_or_have_size_1() {
        let mut g = graph();
        let n = Dim::symbol("n");
        let x = input(&mut g, DType::F32, &[n.clone(), 3.into(), 5.into()]);
        let axes = g.constant("axes", Tensor::from_ints(&[-2]));
        let pruned = reduce(&mut g, &SUM, false, &[x, axes]);
        assert_eq!(g[pruned].ty, Type::tensor(DType::F32, [n.clone(), 5.into()]));
        let kept = reduce(&mut g, &SUM, true, &[x, axes]);
        assert_eq!(g[kept].ty, Type::tensor(DType::F32, [n, 1.into(), 5.into()]));
    }

    #[test]
    fn sizes_are_bounded_if_the_axes_are_known_only_at_run_time() {
        let mut g = graph();
        let x = input(&mut g, DType::F32, &[2.into(), 7.into()]);
        let axes = input(&mut g, DType::I64, &[1.into()]);
        let y = reduce(&mut g, &SUM, false, &[x, axes]);
        let shape = &g[y]
            .ty
            .as_tensor()
            .expect("`keepdims` and the number of axes determine the rank")
            .shape;
        let most = |name: &str| g.symbols.get(name)?.max;
        assert_eq!(shape.iter().map(|dim| dim.upper(&most)).collect::<Vec<_>>(), [Some(7)]);
        assert_eq!(g.producer(y).map(|node| node.binds.len()), Some(3));
    }
}
