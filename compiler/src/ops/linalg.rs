//! Determinants and inverses of matrices.

use super::{Entry, entry, microsoft};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, FLOATS},
    ir::{Domain, Gradient, Infer, Inferred, Lower, Op},
    plan::{Kernel, kernel},
    tensor::Tensor,
    ty::{TensorType, Type},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("Det", 11, |_| Ok(Rc::new(Det))),
    microsoft("Inverse", |_| Ok(Rc::new(Inverse) as Rc<dyn Op>)),
];

/// The determinants of a batch of square matrices.
pub struct Det;

static DET: Kernel<(Dim,)> = kernel!(FLOATS T, linalg::det::<T>,
    |f, a, p| f(a.input(0), a.output(0), a.output(1), p.0));

/// Checks that input 0 is a batch of square matrices.
fn square_matrices<'a>(cx: &mut Infer<'a>) -> Inferred<&'a TensorType> {
    let ty = cx.of(0, FLOATS)?;
    let [.., rows, columns] = &*ty.shape else {
        let message = format!("input 0 must have two axes or more, but has {}", ty.rank());
        return Err(cx.diagnostic(Code::ShapeMismatch, message));
    };
    cx.require_equal(rows, columns, "the number of rows and of columns of a matrix")?;
    Ok(ty)
}

/// The inverses of a batch of square matrices.
pub struct Inverse;

static INVERSE: Kernel<(Dim,)> = kernel!(FLOATS T, linalg::inverse::<T>,
    |f, a, p| f(a.input(0), a.output(0), a.output(1), p.0));

impl Op for Inverse {
    fn name(&self) -> &'static str {
        "Inverse"
    }

    fn domain(&self) -> Domain {
        Domain::Microsoft
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = square_matrices(cx)?;
        Ok(vec![Type::tensor(ty.dtype, &ty.shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let ty = cx.ty(0)?;
        let n = &ty.shape[ty.rank() - 1];
        let (x, y) = (cx.input(0)?.into(), cx.output(0)?.into());
        let work = cx.scratch(DType::F64, n * n * 2).into();
        cx.call_on(&INVERSE, ty.dtype, vec![x], vec![y, work], (n.clone(),))
    }

    /// `dx = -yᵀ · dy · yᵀ`.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let Some(dy) = g.dy(0) else { return Ok(()) };
        let transposed = g.y(0).transpose_matrices();
        g.set(0, -transposed.matmul(dy).matmul(transposed));
        Ok(())
    }
}

impl Op for Det {
    fn name(&self) -> &'static str {
        "Det"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = square_matrices(cx)?;
        Ok(vec![Type::tensor(ty.dtype, &ty.shape[..ty.rank() - 2])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let ty = cx.ty(0)?;
        let n = &ty.shape[ty.rank() - 1];
        let (x, y) = (cx.input(0)?.into(), cx.output(0)?.into());
        let work = cx.scratch(DType::F64, n * n).into();
        cx.call_on(&DET, ty.dtype, vec![x], vec![y, work], (n.clone(),))
    }

    /// `dx = dy · C`, with the matrix `C` of cofactors: signed determinants of the matrix without a
    /// row and a column.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        /// The largest number of rows.
        const MOST: i64 = 16;
        let (x, Some(dy)) = (g.x(0), g.dy(0)) else { return Ok(()) };
        let Some(n) = x.dims().last().and_then(Dim::known).filter(|&n| n <= MOST) else {
            let message = format!("for matrices of more than {MOST} rows, or of unknown size");
            return Err(g.unsupported(&message));
        };
        let dy = dy.with_axis(-1).with_axis(-1);
        if n < 2 {
            g.set(0, dy.expand_like(x));
            return Ok(());
        }
        let others = |i: i64| (0..n).filter(move |&j| j != i);
        let indices = (0..n * n).flat_map(|at| {
            others(at / n).flat_map(move |row| others(at % n).map(move |column| row * n + column))
        });
        let indices = g.tape().ints(&indices.collect::<Vec<_>>());
        let indices = indices.reshape_to(&[n * n, n - 1, n - 1]);
        let flat = x.reshape(g.tape().concat(&[x.sizes(0, -2), g.tape().ints(&[n * n])]));
        let minors = flat.gather(indices, -1).apply(Det, &[]);
        let signs: Vec<f64> =
            (0..n * n).map(|at| if (at / n + at % n) % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let signs = Tensor::from_numbers(x.dtype(), vec![signs.len()], &signs)?;
        let cofactors = (minors * g.tape().constant(signs)).reshape_like(x);
        g.set(0, dy * cofactors);
        Ok(())
    }
}
