//! Running sums and products along one axis.

use super::{Entry, control::scan::Scan, entry};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{INDICES, SUMMABLE},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{Kernel, geometry::Axis, kernel},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("CumProd", 26, |node| cumulative(node, &PROD)),
    entry("CumSum", 11, |node| cumulative(node, &SUM)),
];

/// What is done with the elements.
pub struct Join {
    name: &'static str,
    /// For the elements up to this one, before it, from it on, and after it.
    kernels: [Kernel<Axis>; 4],
}

macro_rules! row {
    ($name:literal $upto:ident $before:ident $from:ident $after:ident) => {
        Join {
            name: $name,
            kernels: [row!(@ $upto), row!(@ $before), row!(@ $from), row!(@ $after)],
        }
    };
    (@ $kernel:ident) => {
        kernel!(SUMMABLE T, cumulative::$kernel::<T>, |f, a, p| f(a.input(0), a.output(0), p))
    };
}

static SUM: Join =
    row!("CumSum" cum_sum cum_sum_exclusive cum_sum_reverse cum_sum_reverse_exclusive);
static PROD: Join =
    row!("CumProd" cum_prod cum_prod_exclusive cum_prod_reverse cum_prod_reverse_exclusive);

/// Each element joined with all before it, along the axis that the second input says.
pub struct Cumulative {
    /// How elements are joined.
    pub join: &'static Join,
    /// Whether the element itself is left out.
    pub exclusive: bool,
    /// Whether the elements after it are joined instead.
    pub reverse: bool,
}

fn cumulative(node: &mut Reader<'_>, join: &'static Join) -> Result<Rc<dyn Op>> {
    let (exclusive, reverse) = (node.flag("exclusive", false)?, node.flag("reverse", false)?);
    Ok(Rc::new(Cumulative { join, exclusive, reverse }))
}

static AXIS_SIZES: Kernel<(Vec<Dim>,)> = kernel!(checked INDICES T, cumulative::axis_sizes::<T>,
    |f, a, p| f(a.sizes(), a.input(0), p.0));

impl Op for Cumulative {
    fn name(&self) -> &'static str {
        self.join.name
    }

    fn attributes(&self, a: &mut Attributes) {
        a.flag("exclusive", self.exclusive);
        a.flag("reverse", self.reverse);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, SUMMABLE)?;
        cx.of(1, INDICES)?;
        match cx.ints(1).as_deref() {
            Some(&[axis]) => {
                cx.axis("axis", axis, ty.rank())?;
            }
            Some(_) => return Err(cx.diagnostic(Code::ShapeMismatch, "`axis` must be one number")),
            // What lies before the axis, along it, and after it.
            None => drop(cx.fresh_sizes([None; 3])),
        }
        Ok(vec![ty.clone().into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (ty, axis) = (cx.ty(0)?, cx.input(1)?.into());
        let geometry = match (cx.ints(1).as_deref(), cx.node().binds.as_slice()) {
            (None, [outer, len, inner]) => {
                let [outer, len, inner] = [outer, len, inner].map(|name| Dim::symbol(name));
                cx.bind(&AXIS_SIZES, cx.ty(1)?.dtype, vec![axis], (ty.shape.clone(),))?;
                Axis { outer, len, inner }
            }
            (axis, _) => {
                let axis = axis.and_then(|axis| axis.first()).copied().unwrap_or(0);
                Axis::of(&ty.shape, cx.axis(axis, ty.rank()))
            }
        };
        let kernel =
            &self.join.kernels[2 * usize::from(self.reverse) + usize::from(self.exclusive)];
        let (x, y) = (cx.input(0)?.into(), cx.output(0)?.into());
        cx.call_on(kernel, ty.dtype, vec![x], vec![y], geometry)
    }

    /// The sum of the derivatives of all results that an element is in.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, axis, Some(dy)) = (g.x(0), g.x(1), g.dy(0)) else { return Ok(()) };
        let back = || Cumulative { join: &SUM, reverse: !self.reverse, ..*self };
        if self.join.name == "CumSum" {
            g.set(0, dy.apply(back(), &[axis]));
            return Ok(());
        }
        match g.ints(1).as_deref() {
            Some(&[axis]) => {
                let y = self.iterated_product(x, g.axis(axis, x.rank()))?;
                g.through(&[y])
            }
            // Along an axis that is known only when running, an element that is zero has no derivative
            // that is a number.
            _ => {
                g.set(0, (dy * g.y(0)).apply(back(), &[axis]) / x);
                Ok(())
            }
        }
    }
}

impl Cumulative {
    /// The running product, as iterations: whose derivatives divide by no element.
    fn iterated_product<'t>(&self, x: Expr<'t>, axis: usize) -> Result<Expr<'t>> {
        let mut slice = x.ty();
        slice.shape.remove(axis);
        let sizes = x.tape.concat(&[x.sizes(0, axis as i64), x.sizes(axis as i64 + 1, i64::MAX)]);
        let ones = x.number(1.0).expand_to(sizes);
        let types: [Type; 2] = [slice.clone().into(), slice.into()];
        let region = x.tape.region("step", &types, |_, given| {
            let (before, upto) = (given[0], given[0] * given[1]);
            Ok(vec![upto, if self.exclusive { before } else { upto }])
        })?;
        let scan = Scan {
            scanned: 1,
            axes: vec![axis as i64],
            reversed: vec![self.reverse],
            output_axes: vec![axis as i64],
            reversed_outputs: vec![self.reverse],
        };
        Ok(x.tape.node_around(Rc::new(scan), &[Some(ones), Some(x)], 2, vec![region])[1])
    }
}

impl<'t> Expr<'t> {
    /// The sum of the elements before each, along an axis.
    pub fn exclusive_sum(self, axis: i64) -> Expr<'t> {
        let op = Cumulative { join: &SUM, exclusive: true, reverse: false };
        self.apply(op, &[self.tape.ints(&[axis]).reshape_to(&[])])
    }
}
