//! Products of element types without vectors.

use super::{Gemm, Layout};
use crate::loops::epilogue::Activation;
use crate::{Float, Number};

/// The number of columns that are accumulated together.
const COLUMNS: usize = 16;

/// `y = alpha · a · b + beta · c`, for any numbers; integers wrap around. If a factor is no number
/// of the type, the sum is a real number, which is rounded once. Neither operand is packed.
pub fn gemm<T: Number>(a: &[T], b: &[T], c: Option<&[T]>, y: &mut [T], geometry: Gemm) {
    let [alpha, beta] = [geometry.alpha, geometry.beta].map(f64::from);
    let factors = [alpha, beta].map(T::from_f64);
    let is_exact = |i: usize| factors[i].to_f64() == [alpha, beta][i];
    let are_exact = is_exact(0) && (c.is_none() || is_exact(1));
    plain(
        a,
        b,
        y,
        geometry,
        |x| x,
        |sum, at| {
            let addend = c.map(|c| c[at]);
            if are_exact {
                let product = factors[0].mul(sum);
                return addend.map_or(product, |c| product.add(factors[1].mul(c)));
            }
            let product = alpha * sum.to_f64();
            T::from_f64(addend.map_or(product, |c| product + beta * c.to_f64()))
        },
    );
}

/// `y = f(alpha · a · b + beta · c)`, for real numbers, accumulated in the wide type. Neither
/// operand is packed.
// Inlined, so that a program contains only the activation functions that its models use.
#[inline(always)]
pub fn gemm_float<T: Float>(
    a: &[T],
    b: &[T],
    c: Option<&[T]>,
    y: &mut [T],
    geometry: Gemm,
    f: Activation,
) {
    sums(a, b, c, y, geometry);
    let Gemm { m, n, y_row, .. } = geometry;
    for row in y.chunks_mut(y_row.max(1)).take(m) {
        f.apply_each(row.iter_mut().take(n));
    }
}

/// `y = alpha · a · b + beta · c`.
#[inline(never)]
fn sums<T: Float>(a: &[T], b: &[T], c: Option<&[T]>, y: &mut [T], geometry: Gemm) {
    let alpha = T::Wide::from_f64(f64::from(geometry.alpha));
    let beta = T::Wide::from_f64(f64::from(geometry.beta));
    plain(a, b, y, geometry, T::widen, |sum, at| {
        let product = alpha.mul(sum);
        let addend = c.and_then(|c| c.get(at));
        let sum = addend.map_or(product, |c| product.add(beta.mul(c.widen())));
        T::narrow(sum)
    });
}

/// The row stride and the column stride.
fn strides(layout: Layout) -> (usize, usize) {
    match layout {
        Layout::Strides(row, col) => (row, col),
        Layout::Packed => {
            debug_assert!(false, "only the kernels of f32 and f64 take packed factors");
            (0, 0)
        }
    }
}

/// `y = end(Σ widen(a) · widen(b), index in c)`. Only iterators check bounds, so that a program
/// contains no panic messages.
#[inline(always)]
fn plain<T: Copy, W: Number>(
    a: &[T],
    b: &[T],
    y: &mut [T],
    geometry: Gemm,
    widen: impl Fn(T) -> W,
    end: impl Fn(W, usize) -> T,
) {
    let Gemm { m, n, k, y_row, c: [c_row, c_col], .. } = geometry;
    let ((a_row, a_col), (b_row, b_col)) = (strides(geometry.a), strides(geometry.b));
    for (i, y) in y.chunks_mut(y_row.max(1)).take(m).enumerate() {
        let width = n.min(y.len());
        for (y, block) in y[..width].chunks_mut(COLUMNS).zip(0..) {
            let first = block * COLUMNS;
            let mut sums = [W::ZERO; COLUMNS];
            for k in 0..k {
                let Some(&x) = a.get(i * a_row + k * a_col) else { break };
                let x = widen(x);
                let row = b.get(k * b_row + first * b_col..).unwrap_or_default();
                let row = row.iter().step_by(b_col.max(1)).take(y.len());
                sums.iter_mut().zip(row).for_each(|(sum, &b)| *sum = sum.add(x.mul(widen(b))));
            }
            for ((y, &sum), j) in y.iter_mut().zip(&sums).zip(first..) {
                *y = end(sum, i * c_row + j * c_col);
            }
        }
    }
}
