//! Reductions along any axes. Sums of 16-bit types accumulate in `f32`; those of integers wrap
//! around.
//!
//! In `f32` the relative error of a sum of `K` terms of one sign, or of a product of `K` factors,
//! is at most `1e-6 √K`. The same bound holds for all sums in this crate: matrix products,
//! convolutions, pooling, norms, softmax, attention. (`accuracy/sums.rs` tests each.)

mod sizes;

pub use crate::loops::fold::Reduce;
pub use sizes::{kept_or_all_sizes, kept_sizes, pruned_sizes};

use crate::loops::fold::{
    All, Any, Fold, L1, L2, LogSum, LogSumExp, Max, Mean, Min, Prod, Sum, SumSquare, reduce,
};
use crate::loops::geometry::Reduction;

/// `y = Σ |x|`.
pub fn reduce_l1<T: Reduce>(x: &[T], y: &mut [T], geometry: Reduction<'_>) {
    reduce_fast(x, y, geometry, fast::l1, L1);
}

/// `y = √(Σ x²)`.
pub fn reduce_l2<T: Reduce>(x: &[T], y: &mut [T], geometry: Reduction<'_>) {
    reduce_fast(x, y, geometry, fast::l2, L2);
}

/// `y = ln(Σ x)`.
pub fn reduce_log_sum<T: Reduce>(x: &[T], y: &mut [T], geometry: Reduction<'_>) {
    reduce_fast(x, y, geometry, fast::log_sum, LogSum);
}

/// `y = ln(Σ e^x)`, computed relative to the largest `x`, so that no `e^x` overflows.
pub fn reduce_log_sum_exp<T: Reduce>(x: &[T], y: &mut [T], geometry: Reduction<'_>) {
    reduce_max(x, y, geometry);
    reduce(x, y, geometry, |max: T| LogSumExp { max: max.real() });
}

/// The largest `x`; the lowest number of the type for an empty reduction.
pub fn reduce_max<T: Reduce>(x: &[T], y: &mut [T], geometry: Reduction<'_>) {
    reduce_fast(x, y, geometry, fast::max, Max);
}

/// `y = Σ x / n`.
pub fn reduce_mean<T: Reduce>(x: &[T], y: &mut [T], geometry: Reduction<'_>) {
    let count = geometry.reduced.iter().product();
    match (T::as_f32(x), T::as_f32_mut(y)) {
        (Some(x), Some(y)) => fast::mean(x, y, geometry),
        _ => reduce(x, y, geometry, |_| Mean { count }),
    }
}

/// The smallest `x`; the highest number of the type for an empty reduction.
pub fn reduce_min<T: Reduce>(x: &[T], y: &mut [T], geometry: Reduction<'_>) {
    reduce_fast(x, y, geometry, fast::min, Min);
}

/// `y = Π x`.
pub fn reduce_prod<T: Reduce>(x: &[T], y: &mut [T], geometry: Reduction<'_>) {
    reduce_fast(x, y, geometry, fast::prod, Prod);
}

/// `y = Σ x`.
pub fn reduce_sum<T: Reduce>(x: &[T], y: &mut [T], geometry: Reduction<'_>) {
    reduce_fast(x, y, geometry, fast::sum, Sum);
}

/// `y = Σ x²`.
pub fn reduce_sum_square<T: Reduce>(x: &[T], y: &mut [T], geometry: Reduction<'_>) {
    reduce_fast(x, y, geometry, fast::sum_square, SumSquare);
}

/// `ReduceMax` of `bool`: whether any element is true.
pub fn reduce_any(x: &[bool], y: &mut [bool], geometry: Reduction<'_>) {
    reduce(x, y, geometry, |_| Any);
}

/// `ReduceMin` of `bool`: whether all elements are true.
pub fn reduce_all(x: &[bool], y: &mut [bool], geometry: Reduction<'_>) {
    reduce(x, y, geometry, |_| All);
}

#[inline(always)]
fn reduce_fast<T: Reduce>(
    x: &[T],
    y: &mut [T],
    geometry: Reduction<'_>,
    fast: fn(&[f32], &mut [f32], Reduction<'_>),
    fold: impl Fold<T>,
) {
    match (T::as_f32(x), T::as_f32_mut(y)) {
        (Some(x), Some(y)) => fast(x, y, geometry),
        _ => reduce(x, y, geometry, |_| fold),
    }
}

/// Reductions of `f32`, instantiated once, here.
mod fast {
    use super::*;

    macro_rules! of_f32 {
        ($($name:ident $fold:expr;)*) => {$(
            #[inline(never)]
            pub fn $name(x: &[f32], y: &mut [f32], geometry: Reduction<'_>) {
                reduce(x, y, geometry, |_| $fold);
            }
        )*};
    }

    of_f32! {
        l1 L1;
        l2 L2;
        log_sum LogSum;
        max Max;
        min Min;
        prod Prod;
        sum Sum;
        sum_square SumSquare;
    }

    #[inline(never)]
    pub fn mean(x: &[f32], y: &mut [f32], geometry: Reduction<'_>) {
        let count = geometry.reduced.iter().product();
        reduce(x, y, geometry, |_| Mean { count });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Number;
    use core::array::from_fn;

    /// A tensor of three axes, some of them reduced.
    struct Case {
        sizes: [usize; 3],
        strides: [usize; 3],
        reduced: [bool; 3],
    }

    impl Case {
        /// Runs a kernel and compares it with a function of the elements of each result.
        fn check<T: Number + core::fmt::Debug>(
            &self,
            kernel: fn(&[T], &mut [T], Reduction<'_>),
            x: &[T],
            expected: impl Fn(&[T]) -> T,
        ) {
            let pick = |what: [usize; 3], reduced: bool| {
                let (mut picked, mut n) = ([0; 3], 0);
                for axis in (0..3).filter(|&axis| self.reduced[axis] == reduced) {
                    picked[n] = what[axis];
                    n += 1;
                }
                (picked, n)
            };
            let ((kept, k), (reduced, r)) = (pick(self.sizes, false), pick(self.sizes, true));
            let (kept_strides, reduced_strides) =
                (pick(self.strides, false).0, pick(self.strides, true).0);
            let geometry = Reduction {
                kept: &kept[..k],
                kept_strides: &kept_strides[..k],
                reduced: &reduced[..r],
                reduced_strides: &reduced_strides[..r],
            };
            let mut y = [T::ONE; 125];
            let y = &mut y[..kept[..k].iter().product()];
            kernel(x, y, geometry);
            for (i, y) in y.iter().enumerate() {
                let (mut elements, mut n) = ([T::ZERO; 125], 0);
                self.each(|index| {
                    let place = (0..3).filter(|&axis| !self.reduced[axis]);
                    let place = place.fold(0, |at, axis| at * self.sizes[axis] + index[axis]);
                    if place == i {
                        let at = (0..3).map(|axis| index[axis] * self.strides[axis]).sum::<usize>();
                        elements[n] = x[at];
                        n += 1;
                    }
                });
                assert_eq!(*y, expected(&elements[..n]), "{:?} {:?}", self.sizes, self.reduced);
            }
        }

        fn each(&self, mut visit: impl FnMut([usize; 3])) {
            let [l, m, n] = self.sizes;
            for at in 0..l * m * n {
                visit([at / (m * n), at / n % m, at % n]);
            }
        }
    }

    fn cases(check: impl Fn(Case, usize)) {
        for code in 0..125 * 8 * 2 {
            let sizes: [usize; 3] = from_fn(|axis| code / 5usize.pow(axis as u32) % 5);
            let [_, m, n] = sizes;
            // Axes in memory order, or with the first and the last exchanged.
            let strides = if code < 1000 { [m * n, n, 1] } else { [1, sizes[0], sizes[0] * m] };
            let reduced = from_fn(|axis| ((code / 125) >> axis) & 1 == 1);
            check(Case { sizes, strides, reduced }, sizes.iter().product());
        }
    }

    #[test]
    fn every_set_of_axes_is_reduced() {
        let x: [i64; 125] = from_fn(|i| (i as i64 * 37) % 101 - 50);
        cases(|case, n| {
            case.check(reduce_sum, &x[..n], |x| x.iter().sum());
            case.check(reduce_max, &x[..n], |x| x.iter().copied().max().unwrap_or(i64::MIN));
            case.check(reduce_min, &x[..n], |x| x.iter().copied().min().unwrap_or(i64::MAX));
            case.check(reduce_l1, &x[..n], |x| x.iter().map(|x| x.abs()).sum());
            case.check(reduce_sum_square, &x[..n], |x| x.iter().map(|x| x * x).sum());
            case.check(reduce_prod, &x[..n], |x| x.iter().fold(1, |y, &x| y.wrapping_mul(x)));
        });
    }

    #[test]
    fn every_set_of_axes_takes_the_fast_path() {
        let x: [f32; 125] = from_fn(|i| ((i * 37) % 101) as f32 - 50.0);
        let root = |x: &[f32]| libm::sqrt(x.iter().map(|&x| f64::from(x * x)).sum()) as f32;
        cases(|case, n| {
            case.check(reduce_sum, &x[..n], |x| x.iter().sum());
            case.check(reduce_max, &x[..n], |x| x.iter().fold(f32::NEG_INFINITY, |y, &x| y.max(x)));
            case.check(reduce_l2, &x[..n], root);
        });
    }

    fn one_axis<T: Reduce, const N: usize>(
        kernel: fn(&[T], &mut [T], Reduction<'_>),
        x: [T; N],
    ) -> T {
        let mut y = [T::ONE];
        let geometry =
            Reduction { kept: &[], kept_strides: &[], reduced: &[N], reduced_strides: &[1] };
        kernel(&x, &mut y, geometry);
        y[0]
    }

    #[test]
    fn an_empty_reduction_has_a_sum_a_product_and_bounds() {
        const NONE: [f32; 0] = [];
        assert_eq!(one_axis(reduce_sum, NONE), 0.0);
        assert_eq!(one_axis(reduce_l2, NONE), 0.0);
        assert_eq!(one_axis(reduce_prod, NONE), 1.0);
        assert_eq!(one_axis(reduce_max, NONE), f32::NEG_INFINITY);
        assert_eq!(one_axis(reduce_min, NONE), f32::INFINITY);
        assert_eq!(one_axis(reduce_log_sum, NONE), f32::NEG_INFINITY);
        assert_eq!(one_axis(reduce_log_sum_exp, NONE), f32::NEG_INFINITY);
        assert!(one_axis(reduce_mean, NONE).is_nan());
        assert_eq!(one_axis::<i32, 0>(reduce_mean, []), 0);
        assert_eq!(one_axis::<u8, 0>(reduce_min, []), 255);
    }

    #[test]
    fn infinities_and_nan_pass_through() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        assert_eq!(one_axis(reduce_log_sum_exp, [inf, 1.0]), inf);
        assert_eq!(one_axis(reduce_log_sum_exp, [-inf, -inf]), -inf);
        assert_eq!(one_axis(reduce_log_sum_exp, [-inf, 2.0]), 2.0);
        assert!(one_axis(reduce_log_sum_exp, [nan, 2.0]).is_nan());
        assert!(one_axis(reduce_max, [nan, 2.0]).is_nan());
        assert!(one_axis(reduce_min, [2.0, nan]).is_nan());
        let y = one_axis(reduce_log_sum_exp, [1000.0, 1000.0]);
        assert!((y - 1000.0 - core::f64::consts::LN_2).abs() < 1e-12);
        assert_eq!(one_axis(reduce_max, [-inf, -inf]), -inf);
    }

    #[test]
    fn infinities_and_nan_give_the_same_at_every_level() {
        type Kernel<T> = fn(&[T], &mut [T], Reduction<'_>);
        const KERNELS: [(Kernel<f32>, Kernel<f64>); 10] = [
            (reduce_l1, reduce_l1),
            (reduce_l2, reduce_l2),
            (reduce_log_sum, reduce_log_sum),
            (reduce_log_sum_exp, reduce_log_sum_exp),
            (reduce_max, reduce_max),
            (reduce_mean, reduce_mean),
            (reduce_min, reduce_min),
            (reduce_prod, reduce_prod),
            (reduce_sum, reduce_sum),
            (reduce_sum_square, reduce_sum_square),
        ];
        const VALUES: [f32; 4] = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0];
        let check = |x: &[f32]| {
            let x: [f32; 19] = from_fn(|i| x.get(i).copied().unwrap_or(0.5));
            for (i, (narrow, wide)) in KERNELS.into_iter().enumerate() {
                let (y, expected) = (one_axis(narrow, x), one_axis(wide, x.map(f64::from)));
                let is_equal = f64::from(y) == expected || y.is_nan() && expected.is_nan();
                let is_near = (f64::from(y) - expected).abs() < 1e-5;
                assert!(is_equal || is_near, "kernel {i} of {x:?}: {y}, not {expected}");
            }
        };
        crate::simd::each_level(|_| {
            for code in 0..16 {
                let [a, b] = [VALUES[code % 4], VALUES[code / 4]];
                check(&[a, b]);
                check(&from_fn::<f32, 19, _>(|i| if i == 17 { a } else { b }));
                check(&from_fn::<f32, 19, _>(|i| if i % 16 == 3 { a } else { 1.5 }));
            }
        });
    }

    #[test]
    fn integer_sums_wrap_and_integer_functions_truncate() {
        assert_eq!(one_axis(reduce_sum, [200u8, 100]), 44);
        assert_eq!(one_axis(reduce_mean, [-3i32, -4]), -3);
        assert_eq!(one_axis(reduce_l2, [3i64, 5]), 5);
        assert_eq!(one_axis(reduce_log_sum, [1i32, 7]), 2);
        assert_eq!(one_axis(reduce_log_sum_exp, [1i32, 1]), 1);
    }

    #[test]
    fn booleans_reduce_to_any_and_all() {
        let geometry =
            Reduction { kept: &[3], kept_strides: &[2], reduced: &[2], reduced_strides: &[1] };
        let (x, mut y) = ([false, false, true, false, true, true], [false; 3]);
        reduce_any(&x, &mut y, geometry);
        assert_eq!(y, [false, true, true]);
        reduce_all(&x, &mut y, geometry);
        assert_eq!(y, [false, false, true]);
    }

    #[cfg(feature = "half")]
    #[test]
    fn half_precision_sums_do_not_stagnate() {
        use half::bf16;
        // A sum accumulated in bf16 would stay at 256.
        assert_eq!(one_axis(reduce_sum, [bf16::ONE; 1000]), bf16::from_f32(1000.0));
        assert_eq!(one_axis(reduce_mean, [bf16::ONE; 1000]), bf16::ONE);
        assert_eq!(one_axis(reduce_max, [bf16::ONE; 3]), bf16::ONE);
    }

    #[cfg(feature = "std")]
    #[test]
    fn long_sums_are_accurate_along_every_axis() {
        use std::vec::Vec;
        const N: usize = 1 << 20;
        let x: Vec<f32> = (0..N).map(|i| (i * 7919 % 1009) as f32 / 1009.0).collect();
        let exact: f64 = x.iter().map(|&x| f64::from(x)).sum();
        let error = |y: f32| (f64::from(y) / exact - 1.0).abs();
        let mut y = [0.0];
        let geometry =
            Reduction { kept: &[1], kept_strides: &[1], reduced: &[N], reduced_strides: &[1] };
        reduce_sum(&x, &mut y, geometry);
        assert!(error(y[0]) < 2e-7, "{}", error(y[0]));
        let mut y = [0.0; 2];
        let geometry =
            Reduction { kept: &[2], kept_strides: &[1], reduced: &[N / 2], reduced_strides: &[2] };
        reduce_sum(&x, &mut y, geometry);
        assert!(error(y[0] + y[1]) < 1e-6, "{}", error(y[0] + y[1]));
    }
}
