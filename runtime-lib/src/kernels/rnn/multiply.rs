//! Products with weights in ONNX's layout, one row per result.

use super::GateLayout;
use crate::microkernel::{Addend, FusedActivation, Matrix, Operand, Product, Stripes, Target};
use crate::{Elem, Float, Number};

/// The sizes of `y = a · wᵀ + bias`.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    /// Rows of `a`.
    pub m: usize,
    /// Rows of `w`.
    pub n: usize,
    /// Columns of both.
    pub k: usize,
    /// The row stride of `y`, in elements.
    pub y_row: usize,
    /// The row stride of the bias, in elements.
    pub addend_row: usize,
}

/// `y = a · wᵀ + bias`; an empty bias is zero. Only `f32` takes packed weights.
pub(super) fn multiply<A: Float, T: Float<Wide = A::Wide>>(
    a: &[A],
    (w, weights): (&[T], GateLayout),
    addend: &[A::Wide],
    y: &mut [A::Wide],
    scratch: &mut [A::Wide],
    shape: Shape,
) {
    let operands = (A::as_f32(a), T::as_f32(w), A::Wide::as_f32(addend));
    if let (Some(a), Some(w), Some(addend)) = operands
        && let Some(scratch) = A::Wide::as_f32_mut(scratch)
        && let Some(y) = A::Wide::as_f32_mut(y)
    {
        return multiply_f32(a, (w, weights), addend, y, scratch, shape);
    }
    let Shape { m, n, k, y_row, addend_row } = shape;
    for i in 0..m {
        let a = &a[i * k..][..k];
        for (j, y) in y[i * y_row..][..n].iter_mut().enumerate() {
            let terms = a.iter().zip(&w[j * k..][..k]).map(|(a, w)| a.widen().mul(w.widen()));
            let start = addend.get(i * addend_row + j).copied().unwrap_or(Number::ZERO);
            *y = terms.fold(start, Number::add);
        }
    }
}

fn multiply_f32(
    a: &[f32],
    (w, weights): (&[f32], GateLayout),
    addend: &[f32],
    y: &mut [f32],
    scratch: &mut [f32],
    shape: Shape,
) {
    let Shape { m, n, k, y_row, addend_row } = shape;
    let addend = Addend { data: addend, row: addend_row, col: 1, scale: 1.0 };
    let product = Product {
        m,
        n,
        k,
        a: Operand::Matrix(Matrix { data: a, row: k, col: 1 }),
        b: match weights {
            GateLayout::Plain => Operand::Matrix(Matrix { data: w, row: 1, col: k }),
            GateLayout::Packed | GateLayout::Striped => Operand::Blocks(w),
        },
        alpha: 1.0,
        addends: [addend, Addend::NONE],
        f: FusedActivation::NONE,
    };
    product.run(y, Target::whole(y_row), scratch);
}

/// [`multiply`] for striped weights in `f32`. The stripes are read from either end.
pub(super) fn multiply_stripes<A: Float, T: Float<Wide = A::Wide>>(
    a: &[A],
    w: &[T],
    addend: &[A::Wide],
    y: &mut [A::Wide],
    (shape, backwards): (Shape, bool),
) {
    let operands = (A::as_f32(a), T::as_f32(w), A::Wide::as_f32(addend));
    let (Some(a), Some(b), Some(addend)) = operands else { return };
    let Some(y) = A::Wide::as_f32_mut(y) else { return };
    let Shape { m, n, k, y_row, addend_row } = shape;
    for i in 0..m {
        let (x, addend) = (&a[i * k..][..k], &addend[i * addend_row..][..n]);
        Stripes { x, b, addend, y: &mut y[i * y_row..][..n], backwards }.multiply();
    }
}
