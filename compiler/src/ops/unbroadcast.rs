//! Un-broadcasting of gradients: sums along broadcast axes.

use super::{expand::Expand, reduce::SUM};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, FLOATS},
    ir::{Domain, Expr, Gradient, Infer, Inferred, Lower, Op, Views},
    plan::geometry::Reduction,
    ty::TensorType,
};

/// Input 0 summed to the shape of input 1, along the axes that were broadcast. These may depend on
/// sizes known only at run time.
pub struct SumTo;

/// Prepends axes of size 1, up to `rank` axes.
fn pad_rank(shape: &[Dim], rank: usize) -> Vec<Dim> {
    let front = rank.saturating_sub(shape.len());
    std::iter::repeat_n(Dim::from(1), front).chain(shape.iter().cloned()).collect()
}

/// Returns whether a run decides which of two sizes that broadcast is larger.
fn is_open(from: &Dim, to: &Dim) -> bool {
    from != to && from.known() != Some(1) && to.known() != Some(1)
}

impl Op for SumTo {
    fn name(&self) -> &'static str {
        "SumTo"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (from, to) = (cx.of(0, FLOATS)?, cx.ty(1)?);
        if to.rank() > from.rank() {
            return Err(cx.diagnostic(Code::ShapeMismatch, "a sum has more axes than its summands"));
        }
        cx.broadcast(&[&from.shape, &to.shape])?;
        let behind = &from.shape[from.rank() - to.rank()..];
        // An axis of size 1 needs no sum, even if it is broadcast afterwards.
        let size =
            |(from, to): (&Dim, &Dim)| if from.known() == Some(1) { from } else { to }.clone();
        let shape = behind.iter().zip(&to.shape).map(size).collect();
        Ok(vec![TensorType { dtype: from.dtype, shape }.into()])
    }

    fn views(&self, cx: &mut Views<'_>) {
        if cx.same_len(0, 0) {
            cx.view(0, 0, 0.into());
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (from, to) = (cx.ty(0)?, cx.output_ty(0)?);
        if from.len() == to.len() {
            return Ok(());
        }
        let reduction = Reduction::to(&from.shape, &pad_rank(&to.shape, from.rank()));
        let (x, y) = (cx.input(0)?.into(), cx.output(0)?.into());
        cx.call_on(&SUM.kernel, from.dtype, vec![x], vec![y], reduction)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        if let Some(dy) = g.dy(0) {
            g.set(0, dy);
        }
        Ok(())
    }
}

impl<'t> Expr<'t> {
    /// Returns `self` in the shape of `like`: summed along axes that are larger, and broadcast
    /// along axes that are smaller.
    pub fn fit(self, like: Expr<'t>) -> Expr<'t> {
        if self.dims() == like.dims() {
            return self;
        }
        let grown = if self.may_be_shorter(like) { self.expand_like(like) } else { self };
        if grown.dims() == like.dims() {
            return grown;
        }
        let rank = grown.rank().max(like.rank());
        let (from, to) = (pad_rank(&grown.dims(), rank), pad_rank(&like.dims(), rank));
        let is_longer = |(from, to): (&Dim, &Dim)| from != to && from.known() != Some(1);
        let value = match from.iter().zip(&to).any(is_longer) || grown.rank() > like.rank() {
            true => grown.sum_to(&from, &to, like),
            false => grown,
        };
        if value.dims() == like.dims() { value } else { value.expand_like(like) }
    }

    /// Returns whether an axis may have size 1 at run time where that of `like` is larger.
    fn may_be_shorter(self, like: Expr<'t>) -> bool {
        let (from, to) = (self.dims(), like.dims());
        let has_open = from.iter().rev().zip(to.iter().rev()).any(|(from, to)| is_open(from, to));
        let takes_in = |(from, to): (&Dim, &Dim)| from.broadcast(to).as_ref() == Some(from);
        has_open && !from.iter().rev().zip(to.iter().rev()).all(takes_in)
    }

    /// Sums along the axes that are larger in `from` than in `to`.
    fn sum_to(self, from: &[Dim], to: &[Dim], like: Expr<'t>) -> Expr<'t> {
        let one = |dim: &Dim| dim.known() == Some(1);
        if self.rank() >= like.rank() && from.iter().zip(to).any(|(from, to)| is_open(from, to)) {
            return self.apply(SumTo, &[like]);
        }
        let front = from.len() - self.rank();
        let gone: Vec<usize> = (front..from.len())
            .filter(|&axis| from[axis] != to[axis] && one(&to[axis]))
            .map(|axis| axis - front)
            .collect();
        let sum = self.sum(&gone);
        let extra = self.rank().saturating_sub(like.rank());
        if extra == 0 { sum } else { sum.squeeze(&(0..extra).collect::<Vec<_>>()) }
    }

    /// Broadcasts to the shape of `like`.
    pub fn expand_like(self, like: Expr<'t>) -> Expr<'t> {
        self.apply(Expand, &[like.shape()])
    }

    /// Returns zeros in the shape and type of `self`.
    pub fn zeros_like(self) -> Expr<'t> {
        self.number(0.0).expand_like(self)
    }

    /// Returns ones in the shape and type of `self`.
    pub fn ones_like(self) -> Expr<'t> {
        self.number(1.0).expand_like(self)
    }

    /// Returns the weight of each element of `other` in its mean, if `self` holds the means.
    pub fn share_of(self, other: Expr<'t>) -> Expr<'t> {
        // Divides before casting, because a narrow type may not represent the numbers of elements.
        match (self.ty().len().known(), other.ty().len().known()) {
            (Some(means), Some(all)) => other.number(means as f64 / all as f64),
            _ => (self.size().cast(DType::F64) / other.size().cast(DType::F64)).cast_like(other),
        }
    }

    /// Returns the number of elements, in the type of `other`.
    pub fn count_like(self, other: Expr<'t>) -> Expr<'t> {
        match self.ty().len().known() {
            Some(count) => other.number(count as f64),
            None => self.size().cast_like(other),
        }
    }
}
