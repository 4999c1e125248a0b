//! Linear algebra.

use super::{Entry, entry};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, FLOATS},
    ir::{Infer, Inferred, Lower, Op},
    plan::{Kernel, kernel},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[entry("Det", 11, |_| Ok(Rc::new(Det)))];

/// The determinants of a pile of square matrices.
pub struct Det;

static DET: Kernel<(Dim,)> = kernel!(FLOATS T, linalg::det::<T>,
    |f, a, p| f(a.input(0), a.output(0), a.output(1), p.0));

impl Op for Det {
    fn name(&self) -> &'static str {
        "Det"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, FLOATS)?;
        let [pile @ .., rows, columns] = &*ty.shape else {
            let message = format!("input 0 must be matrices, but has {} axes", ty.rank());
            return Err(cx.finding(Code::ShapeMismatch, message));
        };
        cx.require_equal(rows, columns, "the rows and the columns of a matrix")?;
        Ok(vec![Type::tensor(ty.dtype, pile)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let ty = cx.ty(0)?;
        let n = &ty.shape[ty.rank() - 1];
        let (x, y) = (cx.input(0)?.into(), cx.output(0)?.into());
        let work = cx.scratch(DType::F64, n * n).into();
        cx.call_on(&DET, ty.dtype, vec![x], vec![y, work], (n.clone(),))
    }
}
