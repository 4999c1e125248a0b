//! The folds of reductions.

use super::element::Reduce;
use super::vectors::{max_at, min_at, sum_exp};
use super::{Fold, take_all_at};
use crate::loops::elementwise::map_float_in_place;
use crate::loops::index::number;
use crate::simd::{Simd, math};
use crate::{Float, Number};

/// Declares a fold whose state is one accumulator.
macro_rules! folds {
    ($(
        $Name:ident $start:ident $join:ident |$x:ident| $summand:expr, |$sum:ident| $y:expr;
    )*) => {$(
        #[derive(Clone, Copy)]
        pub(crate) struct $Name;

        impl<T: Reduce> Fold<T> for $Name {
            type State = T::Sum;

            #[inline(always)]
            fn start(self) -> T::Sum {
                T::Sum::$start
            }
            #[inline(always)]
            fn take(self, state: T::Sum, x: T) -> T::Sum {
                let $x = x.summand();
                state.$join($summand)
            }
            #[inline(always)]
            fn join(self, a: T::Sum, b: T::Sum) -> T::Sum {
                a.$join(b)
            }
            #[inline(always)]
            fn finish(self, $sum: T::Sum) -> T {
                $y
            }
        }
    )*};
}

folds! {
    L1 ZERO add |x| x.abs(), |sum| T::of_sum(sum);
    L2 ZERO add |x| x.mul(x), |sum| T::of_real(sum.real().sqrt());
    LogSum ZERO add |x| x, |sum| T::of_real(sum.real().ln());
    Prod ONE mul |x| x, |product| T::of_sum(product);
    Sum ZERO add |x| x, |sum| T::of_sum(sum);
    SumSquare ZERO add |x| x.mul(x), |sum| T::of_sum(sum);
}

/// Declares a fold to the largest or smallest element, which has vectors of its own for `f32`.
macro_rules! bounds {
    ($($Name:ident $start:ident $join:ident $vectors:ident;)*) => {$(
        #[derive(Clone, Copy)]
        pub(crate) struct $Name;

        impl<T: Reduce> Fold<T> for $Name {
            type State = T::Sum;

            #[inline(always)]
            fn start(self) -> T::Sum {
                T::Sum::$start
            }
            #[inline(always)]
            fn take(self, state: T::Sum, x: T) -> T::Sum {
                state.$join(x.summand())
            }
            #[inline(always)]
            fn join(self, a: T::Sum, b: T::Sum) -> T::Sum {
                a.$join(b)
            }
            #[inline(always)]
            fn finish(self, bound: T::Sum) -> T {
                T::of_sum(bound)
            }
            #[inline(always)]
            fn take_slice<S: Simd>(self, s: S, x: &[T]) -> T::Sum {
                match T::as_f32(x) {
                    Some(x) => T::Sum::from_f64(f64::from($vectors(s, x))),
                    None => take_all_at(s, self, x),
                }
            }
        }
    )*};
}

bounds! {
    Max LOWEST maximum max_at;
    Min HIGHEST minimum min_at;
}

#[derive(Clone, Copy)]
pub(crate) struct Mean {
    pub count: usize,
}

impl<T: Reduce> Fold<T> for Mean {
    type State = T::Sum;

    #[inline(always)]
    fn start(self) -> T::Sum {
        Fold::<T>::start(Sum)
    }
    #[inline(always)]
    fn take(self, state: T::Sum, x: T) -> T::Sum {
        Sum.take(state, x)
    }
    #[inline(always)]
    fn join(self, a: T::Sum, b: T::Sum) -> T::Sum {
        Fold::<T>::join(Sum, a, b)
    }
    #[inline(always)]
    fn finish(self, sum: T::Sum) -> T {
        T::of_sum(sum.div(number(self.count)))
    }
}

/// `Σ e^(x - max)`, and its logarithm.
#[derive(Clone, Copy)]
pub(crate) struct LogSumExp<W> {
    pub max: W,
}

impl<T: Reduce> Fold<T> for LogSumExp<T::Real> {
    type State = T::Real;
    const TAKES_ONE_BY_ONE: bool = false;

    #[inline(always)]
    fn start(self) -> T::Real {
        T::Real::ZERO
    }
    #[inline(always)]
    fn take(self, state: T::Real, x: T) -> T::Real {
        state.add(x.real().sub(self.max).exp())
    }
    #[inline(always)]
    fn join(self, a: T::Real, b: T::Real) -> T::Real {
        a.add(b)
    }
    #[inline(always)]
    fn finish(self, sum: T::Real) -> T {
        // An infinite maximum is the result: differences from it mean nothing.
        let is_infinite = self.max.abs() == T::Real::HIGHEST;
        T::of_real(if is_infinite { self.max } else { sum.ln().add(self.max) })
    }

    #[inline(always)]
    fn take_all(self, x: &[T]) -> T::Real {
        if let Some(x) = T::as_f32(x) {
            return T::Real::from_f64(f64::from(sum_exp(x, self.max.to_f64() as f32)));
        }
        let mut sum = T::Real::ZERO;
        let mut block = [T::Real::ZERO; 256];
        for x in x.chunks(block.len()) {
            let block = &mut block[..x.len()];
            for (e, x) in block.iter_mut().zip(x) {
                *e = x.real().sub(self.max);
            }
            map_float_in_place(block, math::exp_f32, T::Real::exp);
            sum = sum.add(Sum.take_all(block));
        }
        sum
    }
}

macro_rules! truths {
    ($($Name:ident $none:literal $join:tt;)*) => {$(
        #[derive(Clone, Copy)]
        pub(crate) struct $Name;

        impl Fold<bool> for $Name {
            type State = bool;

            #[inline(always)]
            fn start(self) -> bool {
                $none
            }
            #[inline(always)]
            fn take(self, state: bool, x: bool) -> bool {
                state $join x
            }
            #[inline(always)]
            fn join(self, a: bool, b: bool) -> bool {
                a $join b
            }
            #[inline(always)]
            fn finish(self, state: bool) -> bool {
                state
            }
        }
    )*};
}

truths! {
    Any false |;
    All true &;
}
