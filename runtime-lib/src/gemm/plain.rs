//! Products of elements that have no vectors of their own.

use super::{Gemm, Layout};
use crate::activation_fn::Activation;
use crate::{Float, Number};

/// Sums of as many columns are gathered at once.
const COLUMNS: usize = 16;

/// `y = alpha · a · b + beta · c`, for any numbers; whole ones wrap around. Neither factor is
/// packed.
pub fn gemm<T: Number>(a: &[T], b: &[T], c: Option<&[T]>, y: &mut [T], geometry: Gemm) {
    let scaled = |x: T, factor: f32| match factor {
        1.0 => x,
        _ => T::from_f64(f64::from(factor) * x.to_f64()),
    };
    plain(
        a,
        b,
        y,
        geometry,
        |x| x,
        |sum, at| match c {
            Some(c) => scaled(sum, geometry.alpha).add(scaled(c[at], geometry.beta)),
            None => scaled(sum, geometry.alpha),
        },
    );
}

/// `y = f(alpha · a · b + beta · c)`, for real numbers; sums are gathered in the wide type.
/// Neither factor is packed.
pub fn gemm_float<T: Float>(
    a: &[T],
    b: &[T],
    c: Option<&[T]>,
    y: &mut [T],
    geometry: Gemm,
    f: Activation,
) {
    let alpha = T::Wide::from_f64(f64::from(geometry.alpha));
    let beta = T::Wide::from_f64(f64::from(geometry.beta));
    plain(a, b, y, geometry, T::widen, |sum, at| {
        let product = alpha.mul(sum);
        let sum = c.map_or(product, |c| product.add(beta.mul(c[at].widen())));
        T::narrow(f.of(sum))
    });
}

/// How far one row and one column start from the next.
fn strides(layout: Layout) -> (usize, usize) {
    match layout {
        Layout::Strides(row, col) => (row, col),
        Layout::Packed => unreachable!("only the kernels of f32 and f64 take packed factors"),
    }
}

/// `y = end(Σ widen(a) · widen(b), index in c)`.
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
    for i in 0..m {
        for j in (0..n).step_by(COLUMNS) {
            let mut sums = [W::ZERO; COLUMNS];
            let sums = &mut sums[..COLUMNS.min(n - j)];
            for k in 0..k {
                let x = widen(a[i * a_row + k * a_col]);
                let row = b[k * b_row + j * b_col..].iter().step_by(b_col);
                sums.iter_mut().zip(row).for_each(|(sum, &b)| *sum = sum.add(x.mul(widen(b))));
            }
            let y = &mut y[i * y_row + j..];
            for ((y, &sum), j) in y.iter_mut().zip(&*sums).zip(j..) {
                *y = end(sum, i * c_row + j * c_col);
            }
        }
    }
}
