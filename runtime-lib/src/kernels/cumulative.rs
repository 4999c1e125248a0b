//! Cumulative sums and products: `CumSum` and `CumProd`. In `f32` the relative error of `K` terms
//! of one sign is at most `1e-6 √K`.

use crate::error::{Error, Result};
use crate::kernels::reduce::Reduce;
use crate::loops::geometry::Axis;
use crate::loops::index::index;
use crate::{Integer, Number};

/// `y[i] = Σ x[j]` over `j ≤ i`.
pub fn cum_sum<T: Reduce>(x: &[T], y: &mut [T], geometry: Axis) {
    cumulate::<T, Add, Forward, false>(x, y, geometry);
}

/// `y[i] = Σ x[j]` over `j < i`.
pub fn cum_sum_exclusive<T: Reduce>(x: &[T], y: &mut [T], geometry: Axis) {
    cumulate::<T, Add, Forward, true>(x, y, geometry);
}

/// `y[i] = Σ x[j]` over `j ≥ i`.
pub fn cum_sum_reverse<T: Reduce>(x: &[T], y: &mut [T], geometry: Axis) {
    cumulate::<T, Add, Backward, false>(x, y, geometry);
}

/// `y[i] = Σ x[j]` over `j > i`.
pub fn cum_sum_reverse_exclusive<T: Reduce>(x: &[T], y: &mut [T], geometry: Axis) {
    cumulate::<T, Add, Backward, true>(x, y, geometry);
}

/// `y[i] = Π x[j]` over `j ≤ i`.
pub fn cum_prod<T: Reduce>(x: &[T], y: &mut [T], geometry: Axis) {
    cumulate::<T, Mul, Forward, false>(x, y, geometry);
}

/// `y[i] = Π x[j]` over `j < i`.
pub fn cum_prod_exclusive<T: Reduce>(x: &[T], y: &mut [T], geometry: Axis) {
    cumulate::<T, Mul, Forward, true>(x, y, geometry);
}

/// `y[i] = Π x[j]` over `j ≥ i`.
pub fn cum_prod_reverse<T: Reduce>(x: &[T], y: &mut [T], geometry: Axis) {
    cumulate::<T, Mul, Backward, false>(x, y, geometry);
}

/// `y[i] = Π x[j]` over `j > i`.
pub fn cum_prod_reverse_exclusive<T: Reduce>(x: &[T], y: &mut [T], geometry: Axis) {
    cumulate::<T, Mul, Backward, true>(x, y, geometry);
}

/// The operation that combines elements.
trait Join {
    fn start<N: Number>() -> N;
    fn join<N: Number>(a: N, b: N) -> N;
}

struct Add;

impl Join for Add {
    #[inline(always)]
    fn start<N: Number>() -> N {
        N::ZERO
    }
    #[inline(always)]
    fn join<N: Number>(a: N, b: N) -> N {
        a.add(b)
    }
}

struct Mul;

impl Join for Mul {
    #[inline(always)]
    fn start<N: Number>() -> N {
        N::ONE
    }
    #[inline(always)]
    fn join<N: Number>(a: N, b: N) -> N {
        a.mul(b)
    }
}

/// The end of the axis at which the scan starts.
trait Direction {
    fn place(step: usize, len: usize) -> usize;
}

struct Forward;

impl Direction for Forward {
    #[inline(always)]
    fn place(step: usize, _: usize) -> usize {
        step
    }
}

struct Backward;

impl Direction for Backward {
    #[inline(always)]
    fn place(step: usize, len: usize) -> usize {
        len - 1 - step
    }
}

/// Columns that are scanned together.
const COLUMNS: usize = 64;

#[inline(always)]
fn cumulate<T: Reduce, J: Join, D: Direction, const EXCLUSIVE: bool>(
    x: &[T],
    y: &mut [T],
    geometry: Axis,
) {
    let Axis { outer, len, inner } = geometry;
    debug_assert_eq!(y.len(), outer * len * inner, "the result has the sizes of the operand");
    if y.is_empty() {
        return;
    }
    for o in 0..outer {
        for first in (0..inner).step_by(COLUMNS) {
            let mut sums = [J::start::<T::Sum>(); COLUMNS];
            let sums = &mut sums[..COLUMNS.min(inner - first)];
            for step in 0..len {
                let at = (o * len + D::place(step, len)) * inner + first;
                let (x, y) = (&x[at..][..sums.len()], &mut y[at..][..sums.len()]);
                for ((sum, &x), y) in sums.iter_mut().zip(x).zip(y) {
                    let before = *sum;
                    *sum = J::join(*sum, x.summand());
                    *y = T::of_sum(if EXCLUSIVE { before } else { *sum });
                }
            }
        }
    }
}

/// Splits the sizes `from` at an axis: the product of the sizes before it, its own size, and the
/// product of the sizes after it.
///
/// # Errors
///
/// Returns an error if `axis` is not one number, or out of range.
pub fn axis_sizes<I: Integer>(sizes: &mut [usize], axis: &[I], from: &[usize]) -> Result {
    let &[axis] = axis else { return Err(Error::Value("an axis must be one number")) };
    let axis = index(axis, from.len())?;
    let product = |sizes: &[usize]| sizes.iter().product();
    sizes.copy_from_slice(&[product(&from[..axis]), from[axis], product(&from[axis + 1..])]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::array::from_fn;

    type Kernel = fn(&[i32], &mut [i32], Axis);

    #[test]
    fn every_element_accumulates_those_before_or_after_it() {
        let kernels: [(Kernel, Kernel); 4] = [
            (cum_sum, cum_prod),
            (cum_sum_exclusive, cum_prod_exclusive),
            (cum_sum_reverse, cum_prod_reverse),
            (cum_sum_reverse_exclusive, cum_prod_reverse_exclusive),
        ];
        let x: [i32; 280] = from_fn(|i| (i % 5) as i32 - 3);
        for (outer, len, inner) in
            [(2, 2, 70), (40, 7, 1), (8, 5, 7), (0, 7, 1), (usize::MAX, 0, 3)]
        {
            let n = outer * len * inner;
            for (code, (sum, product)) in kernels.into_iter().enumerate() {
                let (mut s, mut p) = ([0; 280], [0; 280]);
                sum(&x[..n], &mut s[..n], Axis { outer, len, inner });
                product(&x[..n], &mut p[..n], Axis { outer, len, inner });
                for i in 0..n {
                    let j = i / inner % len;
                    let places = match code {
                        0 => 0..j + 1,
                        1 => 0..j,
                        2 => j..len,
                        _ => j + 1..len,
                    };
                    let elements = places.map(|k| x[i - j * inner + k * inner]);
                    assert_eq!(s[i], elements.clone().sum());
                    assert_eq!(p[i], elements.product());
                }
            }
        }
    }

    #[cfg(feature = "half")]
    #[test]
    fn half_precision_sums_do_not_stagnate() {
        use half::bf16;
        let mut y = [bf16::ZERO; 1000];
        cum_sum(&[bf16::ONE; 1000], &mut y, Axis { outer: 1, len: 1000, inner: 1 });
        assert_eq!(y[999], bf16::from_f32(1000.0));
    }

    #[test]
    fn a_tensor_is_seen_from_an_axis() {
        let mut sizes = [9; 3];
        for (axis, expected) in [(0, [1, 2, 60]), (-2, [6, 4, 5]), (3, [24, 5, 1])] {
            assert_eq!(axis_sizes(&mut sizes, &[axis], &[2, 3, 4, 5]), Ok(()));
            assert_eq!(sizes, expected);
        }
        for axes in [&[2][..], &[0, 1]] {
            assert!(axis_sizes(&mut sizes, axes, &[4, 5]).is_err());
        }
    }
}
