//! Classification losses: `NegativeLogLikelihoodLoss` and `SoftmaxCrossEntropyLoss`.
//!
//! Losses are accumulated in `f64`. In `f32` the error is at most `1e-6 √K` for `K` classes.
//!
//! The classes lie along the axis of the geometry; every index along the other axes is a sample.

use crate::error::{Error, Result};
use crate::kernels::softmax::log_softmax_in_place;
use crate::loops::elementwise::map;
use crate::loops::geometry::Axis;
use crate::{Float, Integer, Number};

/// The target class of each sample.
#[derive(Clone, Copy)]
struct Targets<'a, T, I> {
    classes: &'a [I],
    /// The weight of each class.
    weight: Option<&'a [T]>,
    /// The target that marks samples without a class.
    ignored: Option<i64>,
}

impl<'a, T: Float, I: Integer> Targets<'a, T, I> {
    fn new(classes: &'a [I], weight: Option<&'a [T]>, ignored: Option<i64>) -> Self {
        Targets { classes, weight, ignored }
    }

    /// Returns the class of a sample and its weight; `None` for a sample to ignore.
    ///
    /// # Errors
    ///
    /// Returns an error for a class out of range.
    #[inline(always)]
    fn get(self, sample: usize, count: usize) -> Result<Option<(usize, T::Wide)>> {
        let wanted = self.classes[sample].to_i64();
        if Some(wanted) == self.ignored {
            return Ok(None);
        }
        let class = usize::try_from(wanted).ok().filter(|&class| class < count);
        let class = class.ok_or(Error::Index { index: wanted, size: count })?;
        Ok(Some((class, self.weight.map_or(T::Wide::ONE, |weight| weight[class].widen()))))
    }

    /// Calls `visit` with the index of each sample, counted from `first`, its loss and its weight.
    /// `x` has the log-probabilities of these samples.
    fn each<X: Float<Wide = T::Wide>>(
        self,
        first: usize,
        x: &[X],
        geometry: Axis,
        visit: &mut dyn FnMut(usize, T::Wide, T::Wide),
    ) -> Result {
        let Axis { outer, len, inner } = geometry;
        for i in 0..outer * inner {
            match self.get(first + i, len)? {
                Some((class, weight)) => {
                    let at = (i / inner * len + class) * inner + i % inner;
                    visit(first + i, weight.mul(x[at].widen().neg()), weight);
                }
                None => visit(first + i, T::Wide::ZERO, T::Wide::ZERO),
            }
        }
        Ok(())
    }

    /// [`Targets::each`] for scores: [`log_softmax_in_place`] computes log-probabilities in `log`,
    /// which has the elements of one index of the outer axes.
    fn each_of_scores(
        self,
        x: &[T],
        log: &mut [T::Wide],
        geometry: Axis,
        visit: &mut dyn FnMut(usize, T::Wide, T::Wide),
    ) -> Result {
        let one = Axis { outer: 1, ..geometry };
        if log.is_empty() {
            // There are no samples, or no classes.
            return self.each(0, x, geometry, visit);
        }
        for (i, x) in x.chunks_exact(log.len()).enumerate() {
            map(x, log, T::widen);
            log_softmax_in_place(log, one);
            self.each(i * geometry.inner, log, one, visit)?;
        }
        Ok(())
    }
}

/// The sum of the losses and the sum of the weights, in a type that does not lose small terms.
#[derive(Default)]
struct Total {
    loss: f64,
    weight: f64,
}

impl Total {
    fn take<W: Number>(&mut self, loss: W, weight: W) {
        self.loss += loss.to_f64();
        self.weight += weight.to_f64();
    }

    fn sum<T: Number>(&self) -> T {
        T::from_f64(self.loss)
    }

    fn mean<T: Number>(&self) -> T {
        T::from_f64(self.loss / self.weight)
    }
}

/// `y = -x[target] · weight[target]` for each sample; 0 for a sample to ignore.
///
/// # Errors
///
/// Returns an error for a class out of range.
pub fn negative_log_likelihood_loss<T: Float, I: Integer>(
    x: &[T],
    target: &[I],
    weight: Option<&[T]>,
    y: &mut [T],
    ignored: Option<i64>,
    geometry: Axis,
) -> Result {
    let targets = Targets::new(target, weight, ignored);
    targets.each(0, x, geometry, &mut |at, loss, _| y[at] = T::narrow(loss))
}

/// The sum of [`negative_log_likelihood_loss`].
///
/// # Errors
///
/// Returns an error for a class out of range.
pub fn negative_log_likelihood_loss_sum<T: Float, I: Integer>(
    x: &[T],
    target: &[I],
    weight: Option<&[T]>,
    y: &mut [T],
    ignored: Option<i64>,
    geometry: Axis,
) -> Result {
    let (targets, mut total) = (Targets::new(target, weight, ignored), Total::default());
    targets.each(0, x, geometry, &mut |_, loss, weight| total.take(loss, weight))?;
    y[0] = total.sum();
    Ok(())
}

/// The sum of [`negative_log_likelihood_loss`] divided by the sum of the weights of all targets.
///
/// # Errors
///
/// Returns an error for a class out of range.
pub fn negative_log_likelihood_loss_mean<T: Float, I: Integer>(
    x: &[T],
    target: &[I],
    weight: Option<&[T]>,
    y: &mut [T],
    ignored: Option<i64>,
    geometry: Axis,
) -> Result {
    let (targets, mut total) = (Targets::new(target, weight, ignored), Total::default());
    targets.each(0, x, geometry, &mut |_, loss, weight| total.take(loss, weight))?;
    y[0] = total.mean();
    Ok(())
}

/// [`negative_log_likelihood_loss`] of `log(softmax(x))`. `scratch` has the elements of one index
/// of the outer axes.
///
/// # Errors
///
/// Returns an error for a class out of range.
pub fn softmax_cross_entropy_loss<T: Float, I: Integer>(
    x: &[T],
    target: &[I],
    weight: Option<&[T]>,
    y: &mut [T],
    scratch: &mut [T::Wide],
    ignored: Option<i64>,
    geometry: Axis,
) -> Result {
    let targets = Targets::new(target, weight, ignored);
    targets.each_of_scores(x, scratch, geometry, &mut |at, loss, _| y[at] = T::narrow(loss))
}

/// The sum of [`softmax_cross_entropy_loss`].
///
/// # Errors
///
/// Returns an error for a class out of range.
pub fn softmax_cross_entropy_loss_sum<T: Float, I: Integer>(
    x: &[T],
    target: &[I],
    weight: Option<&[T]>,
    y: &mut [T],
    scratch: &mut [T::Wide],
    ignored: Option<i64>,
    geometry: Axis,
) -> Result {
    let (targets, mut total) = (Targets::new(target, weight, ignored), Total::default());
    let mut take = |_, loss, weight| total.take(loss, weight);
    targets.each_of_scores(x, scratch, geometry, &mut take)?;
    y[0] = total.sum();
    Ok(())
}

/// The sum of [`softmax_cross_entropy_loss`] divided by the sum of the weights of all targets.
///
/// # Errors
///
/// Returns an error for a class out of range.
pub fn softmax_cross_entropy_loss_mean<T: Float, I: Integer>(
    x: &[T],
    target: &[I],
    weight: Option<&[T]>,
    y: &mut [T],
    scratch: &mut [T::Wide],
    ignored: Option<i64>,
    geometry: Axis,
) -> Result {
    let (targets, mut total) = (Targets::new(target, weight, ignored), Total::default());
    let mut take = |_, loss, weight| total.take(loss, weight);
    targets.each_of_scores(x, scratch, geometry, &mut take)?;
    y[0] = total.mean();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::softmax::log_softmax;
    use core::array::from_fn;

    const GEOMETRY: Axis = Axis { outer: 2, len: 3, inner: 2 };
    const TARGETS: [i64; 4] = [2, 0, -1, 1];

    fn scores<T: Float>() -> [T; 12] {
        from_fn(|i| T::from_f64((i * 5 % 7) as f64 - 3.0))
    }

    /// Computes losses by their definition, with their weights.
    fn expected<T: Float>(x: &[f64; 12], weight: Option<&[T]>) -> [(f64, f64); 4] {
        from_fn(|i| match usize::try_from(TARGETS[i]) {
            Ok(class) => {
                let weight = weight.map_or(1.0, |weight| weight[class].to_f64());
                (-x[i / 2 * 6 + class * 2 + i % 2] * weight, weight)
            }
            Err(_) => (0.0, 0.0),
        })
    }

    fn close<T: Float>(y: T, expected: f64, error: f64) {
        assert!((y.to_f64() - expected).abs() <= error, "{} is not {expected}", y.to_f64());
    }

    fn check<T: Float>(error: f64) {
        let (x, none, log) = (scores::<T>(), Some(-1), scores::<T>().map(|x| x.to_f64()));
        let mut soft = [T::ZERO; 12];
        log_softmax(&x, &mut soft, GEOMETRY);
        let soft = soft.map(|x| x.to_f64());
        let weights: [T; 3] = from_fn(|i| T::from_f64(0.5 + i as f64 / 4.0));
        for weight in [None, Some(&weights[..])] {
            let (mut y, mut z, mut scratch) = ([T::ZERO; 4], [T::ZERO; 1], [T::Wide::ZERO; 6]);
            let all = expected(&log, weight);
            let sums = all.iter().fold((0.0, 0.0), |sum, x| (sum.0 + x.0, sum.1 + x.1));
            let result = negative_log_likelihood_loss(&x, &TARGETS, weight, &mut y, none, GEOMETRY);
            assert_eq!(result, Ok(()));
            y.iter().zip(all).for_each(|(&y, expected)| close(y, expected.0, error));
            let kernel = negative_log_likelihood_loss_sum::<T, i64>;
            assert_eq!(kernel(&x, &TARGETS, weight, &mut z, none, GEOMETRY), Ok(()));
            close(z[0], sums.0, error);
            let kernel = negative_log_likelihood_loss_mean::<T, i64>;
            assert_eq!(kernel(&x, &TARGETS, weight, &mut z, none, GEOMETRY), Ok(()));
            close(z[0], sums.0 / sums.1, error);

            let all = expected(&soft, weight);
            let sums = all.iter().fold((0.0, 0.0), |sum, x| (sum.0 + x.0, sum.1 + x.1));
            let kernel = softmax_cross_entropy_loss::<T, i64>;
            assert_eq!(kernel(&x, &TARGETS, weight, &mut y, &mut scratch, none, GEOMETRY), Ok(()));
            y.iter().zip(all).for_each(|(&y, expected)| close(y, expected.0, error));
            let kernel = softmax_cross_entropy_loss_sum::<T, i64>;
            assert_eq!(kernel(&x, &TARGETS, weight, &mut z, &mut scratch, none, GEOMETRY), Ok(()));
            close(z[0], sums.0, error);
            let kernel = softmax_cross_entropy_loss_mean::<T, i64>;
            assert_eq!(kernel(&x, &TARGETS, weight, &mut z, &mut scratch, none, GEOMETRY), Ok(()));
            close(z[0], sums.0 / sums.1, error);
        }
    }

    #[test]
    fn losses_are_picked_weighted_and_summed() {
        check::<f32>(1e-5);
        check::<f64>(1e-12);
        #[cfg(feature = "half")]
        check::<half::f16>(1e-2);
    }

    #[test]
    fn a_class_out_of_range_is_an_error() {
        let geometry = Axis { outer: 1, len: 3, inner: 1 };
        for (class, ignored) in [(3, None), (-1, None), (-1, Some(3)), (i64::MIN, Some(-1))] {
            let mut y = [0.0];
            let found = negative_log_likelihood_loss(
                &[1.0f32, 2.0, 3.0],
                &[class],
                None,
                &mut y,
                ignored,
                geometry,
            );
            assert_eq!(found, Err(Error::Index { index: class, size: 3 }));
        }
    }

    #[test]
    fn large_scores_do_not_overflow() {
        let (x, mut y, geometry) = ([3e38f32, -3e38], [0.0], Axis { outer: 1, len: 2, inner: 1 });
        let kernel = softmax_cross_entropy_loss_mean::<f32, i32>;
        assert_eq!(kernel(&x, &[0], None, &mut y, &mut [0.0; 2], None, geometry), Ok(()));
        assert_eq!(y, [0.0]);
    }

    #[test]
    fn no_samples_have_no_mean() {
        let (mut y, geometry) = ([0.0f32], Axis { outer: 0, len: 3, inner: 1 });
        let kernel = softmax_cross_entropy_loss_mean::<f32, i32>;
        assert_eq!(kernel(&[], &[], None, &mut y, &mut [0.0; 3], None, geometry), Ok(()));
        assert!(y[0].is_nan());
        let kernel = negative_log_likelihood_loss_sum::<f32, i32>;
        assert_eq!(kernel(&[], &[], None, &mut y, None, geometry), Ok(()));
        assert_eq!(y, [0.0]);
    }
}
