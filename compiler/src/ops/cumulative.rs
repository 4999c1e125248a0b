//! `CumSum` and `CumProd`.

use super::{Entry, control::scan::Scan, entry};
use crate::{
    diag::Result,
    dim::Dim,
    dtype::{ARITHMETIC, INDICES},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{Kernel, geometry::Axis, kernel},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("CumProd", 26, |node| cumulative(node, &PROD)),
    entry("CumSum", 11, |node| cumulative(node, &SUM)),
];

/// The operation that accumulates elements.
pub struct Accumulation {
    name: &'static str,
    /// The kernels for plain, exclusive, reverse, and reverse exclusive accumulation.
    kernels: [Kernel<Axis>; 4],
}

macro_rules! row {
    ($name:literal $plain:ident $exclusive:ident $reverse:ident $reverse_exclusive:ident) => {
        Accumulation {
            name: $name,
            kernels: [row!(@ $plain), row!(@ $exclusive), row!(@ $reverse),
                row!(@ $reverse_exclusive)],
        }
    };
    (@ $kernel:ident) => {
        kernel!(ARITHMETIC T, cumulative::$kernel::<T>, |f, a, p| f(a.input(0), a.output(0), p))
    };
}

static SUM: Accumulation =
    row!("CumSum" cum_sum cum_sum_exclusive cum_sum_reverse cum_sum_reverse_exclusive);
static PROD: Accumulation =
    row!("CumProd" cum_prod cum_prod_exclusive cum_prod_reverse cum_prod_reverse_exclusive);

/// Accumulates each element with all before it, along the axis that input 1 holds.
pub struct Cumulative {
    /// Sum or product.
    pub accumulation: &'static Accumulation,
    /// Whether to leave out the element itself.
    pub exclusive: bool,
    /// Whether to accumulate the elements after it, not before it.
    pub reverse: bool,
}

fn cumulative(node: &mut Reader<'_>, accumulation: &'static Accumulation) -> Result<Rc<dyn Op>> {
    let (exclusive, reverse) = (node.flag("exclusive", false)?, node.flag("reverse", false)?);
    Ok(Rc::new(Cumulative { accumulation, exclusive, reverse }))
}

static AXIS_SIZES: Kernel<(Vec<Dim>,)> = kernel!(checked INDICES T, cumulative::axis_sizes::<T>,
    |f, a, p| f(a.sizes(), a.input(0), p.0));

impl Op for Cumulative {
    fn name(&self) -> &'static str {
        self.accumulation.name
    }

    fn attributes(&self, a: &mut Attributes) {
        a.flag("exclusive", self.exclusive);
        a.flag("reverse", self.reverse);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, ARITHMETIC)?;
        cx.of(1, INDICES)?;
        cx.require_one_element(1)?;
        match cx.ints(1).as_deref().and_then(<[i64]>::first) {
            Some(&axis) => drop(cx.axis("axis", axis, ty.rank())?),
            // The products of the sizes before the axis, along it, and after it.
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
            &self.accumulation.kernels[2 * usize::from(self.reverse) + usize::from(self.exclusive)];
        let (x, y) = (cx.input(0)?.into(), cx.output(0)?.into());
        cx.call_on(kernel, ty.dtype, vec![x], vec![y], geometry)
    }

    /// For `CumSum`, the cumulative sum of `dy` in the opposite direction. For `CumProd` along a
    /// constant axis, the gradient of a `Scan`.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, axis, Some(dy)) = (g.x(0), g.x(1), g.dy(0)) else { return Ok(()) };
        let opposite = || Cumulative { accumulation: &SUM, reverse: !self.reverse, ..*self };
        if self.accumulation.name == "CumSum" {
            g.set(0, dy.apply(opposite(), &[axis]));
            return Ok(());
        }
        match g.ints(1).as_deref() {
            Some(&[axis]) => {
                let y = self.scan_product(x, g.axis(axis, x.rank()))?;
                g.through(&[y])
            }
            // The axis is data-dependent: divide by the element. The gradient of a zero is NaN.
            _ => {
                g.set(0, (dy * g.y(0)).apply(opposite(), &[axis]) / x);
                Ok(())
            }
        }
    }
}

impl Cumulative {
    /// The cumulative product as a `Scan`, whose gradient divides by no element.
    fn scan_product<'t>(&self, x: Expr<'t>, axis: usize) -> Result<Expr<'t>> {
        let mut slice = x.ty();
        slice.shape.remove(axis);
        let sizes = x.tape.concat(&[x.sizes(0, axis as i64), x.sizes(axis as i64 + 1, i64::MAX)]);
        let ones = x.number(1.0).expand_to(sizes);
        let types: [Type; 2] = [slice.clone().into(), slice.into()];
        let region = x.tape.region("step", &types, |_, inputs| {
            let (exclusive, inclusive) = (inputs[0], inputs[0] * inputs[1]);
            Ok(vec![inclusive, if self.exclusive { exclusive } else { inclusive }])
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
    /// The exclusive cumulative sum along an axis.
    pub fn exclusive_sum(self, axis: i64) -> Expr<'t> {
        let op = Cumulative { accumulation: &SUM, exclusive: true, reverse: false };
        self.apply(op, &[self.tape.ints(&[axis]).reshape_to(&[])])
    }
}
