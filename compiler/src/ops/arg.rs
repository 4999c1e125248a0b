//! `ArgMax`, `ArgMin` and `TopK`.

use super::{Entry, entry};
use crate::{
    diag::Result,
    dim::Dim,
    dtype::{DType, I64_ONLY, NUMERIC},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{Kernel, geometry::Axis, kernel},
    tensor::Tensor,
    ty::{TensorType, Type},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("ArgMax", 1, |node| arg(node, "ArgMax")),
    entry("ArgMin", 1, |node| arg(node, "ArgMin")),
    entry("TopK", 1, |node| {
        let k = node.required_int("k")?;
        node.add_input("k", 1, Tensor::from_ints(&[k]));
        top_k(node)
    }),
    entry("TopK", 10, top_k),
];

/// The index of the largest or the smallest element along an axis.
pub struct Arg {
    /// `ArgMax` or `ArgMin`.
    pub name: &'static str,
    /// The axis.
    pub axis: i64,
    /// Whether to keep the axis, with size 1.
    pub keepdims: bool,
    /// Whether ties select the last of equal elements, not the first.
    pub select_last_index: bool,
}

fn arg(node: &mut Reader<'_>, name: &'static str) -> Result<Rc<dyn Op>> {
    Ok(Rc::new(Arg {
        name,
        axis: node.int("axis", 0)?,
        keepdims: node.flag("keepdims", true)?,
        select_last_index: node.flag("select_last_index", false)?,
    }))
}

macro_rules! arg {
    ($kernel:ident) => {
        kernel!(NUMERIC T, arg::$kernel::<T>, |f, a, p| f(a.input(0), a.output(0), p))
    };
}

static ARG_MAX: Kernel<Axis> = arg!(arg_max);
static ARG_MAX_LAST: Kernel<Axis> = arg!(arg_max_last);
static ARG_MIN: Kernel<Axis> = arg!(arg_min);
static ARG_MIN_LAST: Kernel<Axis> = arg!(arg_min_last);

impl Op for Arg {
    fn name(&self) -> &'static str {
        self.name
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("axis", self.axis);
        a.flag("keepdims", self.keepdims);
        a.flag("select_last_index", self.select_last_index);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let mut shape = cx.of(0, NUMERIC)?.shape.clone();
        let axis = cx.axis("axis", self.axis, shape.len())?;
        cx.require_at_least(&shape[axis], &1.into(), "the size of the axis must be at least 1")?;
        if self.keepdims {
            shape[axis] = 1.into();
        } else {
            shape.remove(axis);
        }
        Ok(vec![Type::tensor(DType::I64, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let kernel = match (self.name, self.select_last_index) {
            ("ArgMax", false) => &ARG_MAX,
            ("ArgMax", true) => &ARG_MAX_LAST,
            (_, false) => &ARG_MIN,
            (_, true) => &ARG_MIN_LAST,
        };
        let shape = &cx.ty(0)?.shape;
        cx.call_for_input(kernel, Axis::of(shape, cx.axis(self.axis, shape.len())))
    }
}

impl<'t> Expr<'t> {
    /// The index of the first of the largest elements along an axis, which stays with size 1.
    pub fn arg_max(self, axis: i64) -> Expr<'t> {
        self.apply(Arg { name: "ArgMax", axis, keepdims: true, select_last_index: false }, &[])
    }
}

/// The `K` largest or smallest elements along an axis, sorted, and their indices.
pub struct TopK {
    /// The axis.
    pub axis: i64,
    /// Whether to select the largest elements, not the smallest.
    pub largest: bool,
    /// Whether the result must be sorted. The kernels sort it either way.
    pub sorted: bool,
}

fn top_k(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    Ok(Rc::new(TopK {
        axis: node.int("axis", -1)?,
        largest: node.flag("largest", true)?,
        sorted: node.flag("sorted", true)?,
    }))
}

static TOP_K: Kernel<Axis> = kernel!(NUMERIC T, arg::top_k::<T>,
    |f, a, p| f(a.input(0), a.output(0), a.output(1), p));
static TOP_K_SMALLEST: Kernel<Axis> = kernel!(NUMERIC T, arg::top_k_smallest::<T>,
    |f, a, p| f(a.input(0), a.output(0), a.output(1), p));
static TOP_K_SIZES: Kernel<(Vec<Dim>, usize)> = kernel!(checked I64_ONLY T, arg::top_k_sizes,
    |f, a, p| f(a.sizes(), a.input(0), p.0, p.1));

impl Op for TopK {
    fn name(&self) -> &'static str {
        "TopK"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("axis", self.axis);
        a.flag("largest", self.largest);
        a.flag("sorted", self.sorted);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let TensorType { dtype, mut shape } = cx.of(0, NUMERIC)?.clone();
        let axis = cx.axis("axis", self.axis, shape.len())?;
        cx.of(1, I64_ONLY)?;
        cx.require_one_element(1)?;
        shape[axis] = match cx.known(1).and_then(<[Dim]>::first) {
            Some(k) => {
                cx.require_at_least(&shape[axis], k, "the size of the axis must be at least `K`")?;
                cx.require_at_least(k, &0.into(), "`K` must not be negative")?;
                k.clone()
            }
            None => {
                let most = cx.upper(&shape[axis]);
                cx.fresh_sizes([most]).remove(0)
            }
        };
        Ok(vec![Type::tensor(dtype, &shape), Type::tensor(DType::I64, &shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let TensorType { dtype, shape } = cx.ty(0)?;
        let geometry = Axis::of(shape, cx.axis(self.axis, shape.len()));
        let k = cx.input(1)?.into();
        cx.bind(&TOP_K_SIZES, DType::I64, vec![k], (vec![geometry.len.clone()], 0))?;
        let kernel = if self.largest { &TOP_K } else { &TOP_K_SMALLEST };
        let x = cx.input(0)?.into();
        let len = cx.output_ty(0).or_else(|_| cx.output_ty(1))?.len();
        let outputs = [(0, *dtype), (1, DType::I64)].map(|(i, dtype)| match cx.output(i) {
            Ok(y) => y.into(),
            // The kernel writes both outputs, even unused ones.
            Err(_) => cx.scratch(dtype, len.clone()).into(),
        });
        cx.call_on(kernel, *dtype, vec![x], outputs.into(), geometry)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, Some(dy)) = (g.x(0), g.dy(0)) else { return Ok(()) };
        g.set(0, x.zeros_like().scatter_add(g.y(1), dy, self.axis));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::Graph;

    #[test]
    fn a_runtime_k_is_bounded_by_the_size_of_the_axis() {
        let mut g = Graph::new(Rc::default());
        let x = g.input(g.body, "x", Type::tensor(DType::F32, [5, 7]));
        let k = g.input(g.body, "k", Type::tensor(DType::I64, [1]));
        let op = TopK { axis: -1, largest: true, sorted: true };
        let y = g.add(g.body, "y", op, &[x, k]).expect("the node is valid");
        let shape = &g[y].ty.as_tensor().expect("the rank is known").shape;
        assert_eq!(shape[0].known(), Some(5));
        assert_eq!(shape[1].upper(&|name| g.symbols.get(name)?.max), Some(7));
    }

    #[test]
    fn a_k_above_the_size_of_the_axis_is_an_error() {
        let mut g = Graph::new(Rc::default());
        let x = g.input(g.body, "x", Type::tensor(DType::F32, [5, 7]));
        let k = g.constant("k", Tensor::from_ints(&[6]));
        let op = |axis| TopK { axis, largest: true, sorted: true };
        assert!(g.add(g.body, "y", op(1), &[x, k]).is_ok());
        assert!(g.add(g.body, "z", op(0), &[x, k]).is_err());
    }
}
