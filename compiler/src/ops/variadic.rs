//! Functions of any number of broadcast operands: a table, and one [`Op`] for its rows.

use super::{Entry, entry};
use crate::{
    diag::Result,
    dim::Dim,
    dtype::{DType, FLOATS, NUMERIC},
    ir::{Expr, Gradient, Infer, Inferred, Lower, Op, Views},
    plan::{Kernel, geometry::Broadcast, kernel},
    ty::TensorType,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("Max", 1, |_| Ok(Rc::new(&MAX))),
    entry("Mean", 1, |_| Ok(Rc::new(&MEAN))),
    entry("Min", 1, |_| Ok(Rc::new(&MIN))),
    entry("Sum", 1, |_| Ok(Rc::new(&SUM))),
];

/// A row of the table.
pub struct Variadic {
    name: &'static str,
    types: &'static [DType],
    /// The function of two sizes, if the result is a size.
    sizes: fn(&Dim, &Dim) -> Option<Dim>,
    /// Combines the first two operands.
    first: Kernel<Broadcast>,
    /// Combines the result so far and the next operand.
    next: Kernel<Broadcast>,
    /// Completes the result, given the number of operands.
    last: Option<&'static Kernel<(usize,)>>,
    /// The share of each operand in the gradient.
    share: Share,
}

/// The share of an operand in the gradient.
#[derive(Clone, Copy)]
enum Share {
    All,
    /// An equal part.
    Part,
    /// An equal part among the operands that equal the result.
    Chosen,
}

macro_rules! row {
    ($name:literal $set:ident, $first:ident, $next:ident, $share:ident, $sizes:expr) => {
        Variadic {
            name: $name,
            types: $set,
            sizes: $sizes,
            first: kernel!($set T, variadic::$first::<T>,
                |f, a, p| f(a.input(0), a.input(1), a.output(0), p),
                in_place $next::<T> |f, a, p| f(a.output(0), a.input(0), p)),
            next: kernel!(updates $set T, variadic::$next::<T>,
                |f, a, p| f(a.output(0), a.input(0), p)),
            last: None,
            share: Share::$share,
        }
    };
}

static MAX: Variadic =
    row!("Max" NUMERIC, max, max_in_place, Chosen, |a, b| a.at_least(b).if_sure());
static MIN: Variadic =
    row!("Min" NUMERIC, min, min_in_place, Chosen, |a, b| a.at_most(b).if_sure());
/// The sum.
pub static SUM: Variadic = row!("Sum" FLOATS, sum, sum_in_place, All, |_, _| None);
static MEAN: Variadic =
    Variadic { last: Some(&DIVIDE), ..row!("Mean" FLOATS, sum, sum_in_place, Part, |_, _| None) };
static DIVIDE: Kernel<(usize,)> =
    kernel!(updates FLOATS T, variadic::mean_in_place::<T>, |f, a, p| f(a.output(0), p.0));

impl Op for &'static Variadic {
    fn name(&self) -> &'static str {
        self.name
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = cx.of(0, self.types)?.dtype;
        let mut shapes = Vec::new();
        for i in 0..cx.inputs() {
            cx.same_dtype(0, i)?;
            shapes.push(cx.shape(i)?);
        }
        let shape = cx.broadcast(&shapes)?;
        if let Some((first, others)) =
            cx.all_known(0..cx.inputs()).as_deref().and_then(<[_]>::split_first)
        {
            let join = |a: Vec<Dim>, b: &Vec<Dim>| {
                a.iter().zip(b).map(|(a, b)| (self.sizes)(a, b)).collect::<Option<Vec<Dim>>>()
            };
            cx.set_computed(0, dtype, others.iter().try_fold(first.clone(), join));
        }
        Ok(vec![TensorType { dtype, shape }.into()])
    }

    fn views(&self, cx: &mut Views<'_>) {
        if cx.inputs() == 1 {
            cx.view(0, 0, 0.into());
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let operands = cx.node().inputs.len();
        if operands == 1 {
            return Ok(());
        }
        let (dtype, shape) = (cx.output_ty(0)?.dtype, &cx.output_ty(0)?.shape);
        let y = cx.output(0)?;
        let first = vec![cx.input(0)?.into(), cx.input(1)?.into()];
        let geometry = Broadcast::of(shape, &cx.ty(0)?.shape, &cx.ty(1)?.shape);
        cx.call_on(&self.first, dtype, first, vec![y.clone().into()], geometry)?;
        for i in 2..operands {
            let geometry = Broadcast::of(shape, shape, &cx.ty(i)?.shape);
            let next = vec![cx.input(i)?.into()];
            cx.call_on(&self.next, dtype, next, vec![y.clone().into()], geometry)?;
        }
        match self.last {
            Some(last) => cx.call_on(last, dtype, Vec::new(), vec![y.into()], (operands,)),
            None => Ok(()),
        }
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let Some(dy) = g.dy(0) else { return Ok(()) };
        let chosen = |i: usize| g.x(i).equal(g.y(0)).cast_like(dy);
        let dx: Vec<Expr<'_>> = match self.share {
            Share::All => (0..g.inputs()).map(|_| dy).collect(),
            Share::Part => (0..g.inputs()).map(|_| dy / g.inputs() as f64).collect(),
            Share::Chosen => {
                let chosen: Vec<Expr<'_>> = (0..g.inputs()).map(chosen).collect();
                let count = chosen.iter().copied().reduce(|a, b| a + b);
                let each = count.map_or(dy, |count| dy / count);
                chosen.into_iter().map(|chosen| each * chosen).collect()
            }
        };
        dx.into_iter().enumerate().for_each(|(i, dx)| g.set(i, dx));
        Ok(())
    }
}

impl<'t> Expr<'t> {
    /// Returns the maximum of each element and `number`.
    pub fn max_with(self, number: f64) -> Expr<'t> {
        self.apply(&MAX, &[self.number(number)])
    }

    /// Returns the minimum of each element and `number`.
    pub fn min_with(self, number: f64) -> Expr<'t> {
        self.apply(&MIN, &[self.number(number)])
    }
}
