//! `LpNormalization`, `LRN` and `MeanVarianceNormalization`.

use crate::{
    diag::{Code, Result},
    dtype::FLOATS,
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    limits::Limit,
    ops::{binary, reduce, unary},
    plan::{
        Kernel,
        geometry::{self, Axis},
        kernel,
    },
    tensor::Tensor,
};
use std::rc::Rc;

/// Divides the elements along an axis by their norm.
pub struct LpNormalization {
    /// The axis.
    pub axis: i64,
    /// The order of the norm: 1 or 2.
    pub p: i64,
}

pub fn read_lp(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    Ok(Rc::new(LpNormalization { axis: node.int("axis", -1)?, p: node.int("p", 2)? }))
}

static L1: Kernel<Axis> = kernel!(FLOATS T, norm::lp_normalization_l1::<T>,
    |f, a, p| f(a.input(0), a.output(0), p),
    in_place lp_normalization_l1_in_place::<T> |f, a, p| f(a.output(0), p));
static L2: Kernel<Axis> = kernel!(FLOATS T, norm::lp_normalization_l2::<T>,
    |f, a, p| f(a.input(0), a.output(0), p),
    in_place lp_normalization_l2_in_place::<T> |f, a, p| f(a.output(0), p));

impl Op for LpNormalization {
    fn name(&self) -> &'static str {
        "LpNormalization"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("axis", self.axis);
        a.int("p", self.p);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, FLOATS)?;
        cx.axis("axis", self.axis, ty.rank())?;
        if !(1..=2).contains(&self.p) {
            let message = format!("`p` is {}, but must be 1 or 2", self.p);
            return Err(cx.diagnostic(Code::BadAttribute, message));
        }
        Ok(vec![ty.clone().into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let shape = &cx.ty(0)?.shape;
        let kernel = if self.p == 1 { &L1 } else { &L2 };
        cx.call(kernel, Axis::of(shape, cx.axis(self.axis, shape.len())))
    }

    /// `dx = (dy - d Σ dy y) / norm`, where `d` is the derivative of the norm: `sign(x)` for `p =
    /// 1`, and `y` for `p = 2`.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, y, Some(dy)) = (g.x(0), g.y(0), g.dy(0)) else { return Ok(()) };
        let axis = [g.axis(self.axis, x.rank())];
        let (norm, direction) = match self.p {
            1 => (x.abs().sum(&axis), x.sign()),
            _ => ((x * x).sum(&axis).sqrt(), y),
        };
        g.set(0, (dy - direction * (dy * y).sum(&axis)) / norm.replace_zeros(1.0));
        Ok(())
    }
}

/// Local response normalization: `y = x / (bias + alpha/size Σ x²)^beta`, where the sum is over a
/// window of `size` channels around that of `x`.
pub struct Lrn {
    /// The scale of the sum of squares.
    pub alpha: f32,
    /// The exponent.
    pub beta: f32,
    /// Added to the scaled sum.
    pub bias: f32,
    /// The number of channels in the window.
    pub size: i64,
}

pub fn read_lrn(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    Ok(Rc::new(Lrn {
        alpha: node.float("alpha", 1e-4)?,
        beta: node.float("beta", 0.75)?,
        bias: node.float("bias", 1.0)?,
        size: node.required_int("size")?,
    }))
}

static LRN: Kernel<(Axis, geometry::Lrn)> =
    kernel!(FLOATS T, norm::lrn::<T>, |f, a, p| f(a.input(0), a.output(0), p.0, p.1));

impl Lrn {
    fn size(&self) -> Option<usize> {
        usize::try_from(i32::try_from(self.size).ok()?).ok().filter(|&size| size > 0)
    }
}

impl Op for Lrn {
    fn name(&self) -> &'static str {
        "LRN"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.float("alpha", self.alpha);
        a.float("beta", self.beta);
        a.float("bias", self.bias);
        a.int("size", self.size);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, FLOATS)?;
        if ty.rank() < 2 {
            let message = format!("input 0 must have channels, but has {} axes", ty.rank());
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        }
        if self.size().is_none() {
            let message = format!("`size` is {}, but must be from 1 to {}", self.size, i32::MAX);
            return Err(cx.diagnostic(Code::BadAttribute, message));
        }
        Ok(vec![ty.clone().into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let size = self.size().expect("`infer` checked the size");
        let parameters =
            geometry::Lrn { size, alpha: self.alpha, beta: self.beta, bias: self.bias };
        cx.call(&LRN, (Axis::of(&cx.ty(0)?.shape, 1), parameters))
    }

    /// With `d = bias + α/size Σ x²` and `y = x d^-β`: `dx = dy d^-β - 2 α β / size · x Σ dy y /
    /// d`. The second sum is over the channels whose windows contain that of `x`: the transposed
    /// window.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, y, Some(dy)) = (g.x(0), g.y(0), g.dy(0)) else { return Ok(()) };
        let Some(channels) = x.dims()[1].known() else {
            return Err(g.unsupported("for a free number of channels"));
        };
        let (below, above) = ((self.size - 1) / 2, self.size / 2);
        let side = usize::try_from(channels).unwrap_or(0);
        g.spend(Limit::ListElements, side.saturating_mul(side), "masks of windows of channels")?;
        let in_window = |at: i64| (-below..=above).contains(&(at % channels - at / channels));
        let mask: Vec<f64> =
            (0..channels * channels).map(|at| f64::from(u8::from(in_window(at)))).collect();
        let window = g.tape().constant(Tensor::from_numbers(x.dtype(), vec![side, side], &mask)?);
        let flatten = |value| Expr::reshape_to(value, &[0, 0, -1]);
        let [alpha, beta, bias] = [self.alpha, self.beta, self.bias].map(f64::from);
        let share = alpha / self.size as f64;
        let divisor = window.matmul(flatten(x * x)).reshape_like(x) * share + bias;
        let back = window.transpose_matrices().matmul(flatten(dy * y / divisor)).reshape_like(x);
        g.set(0, dy * divisor.pow(x.number(-beta)) - x * back * (2.0 * share * beta));
        Ok(())
    }
}

/// Reads `MeanVarianceNormalization`: `(x - mean) / (√variance + 1e-9)` over the attribute `axes`.
pub fn read_mean_variance(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    let axes = node.maybe_ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]);
    let axes = [Tensor::from_ints(&axes)];
    let Some(x) = node.inputs.first().copied().flatten() else { return Ok(Rc::new(&binary::DIV)) };
    let epsilon = Tensor::from_number(node.dtype(0)?, 1e-9)?;
    let mean = node.add(reduce::mean(), &[x], &axes)?;
    let distance = node.add(&binary::SUB, &[x, mean], &[])?;
    let square = node.add(&binary::MUL, &[distance, distance], &[])?;
    let variance = node.add(reduce::mean(), &[square], &axes)?;
    let deviation = node.add(&unary::SQRT, &[variance], &[])?;
    let divisor = node.add(&binary::ADD, &[deviation], &[epsilon])?;
    node.inputs = vec![Some(distance), Some(divisor)];
    Ok(Rc::new(&binary::DIV))
}
