//! Selection by value: `Compress`, `NonZero`, `OneHot` and `Unique`.

use crate::error::{Error, Result};
use crate::loops::geometry::Axis;
use crate::loops::index::{index, signed, size};
use crate::{Elem, Number};
use core::cmp::Ordering;

/// `Compress`: copies the slices along the axis whose condition is true.
pub fn compress<T: Elem>(x: &[T], condition: &[bool], y: &mut [T], geometry: Axis) {
    let Axis { outer, len, inner } = geometry;
    if y.is_empty() {
        return;
    }
    let mut results = y.chunks_exact_mut(inner);
    for o in 0..outer {
        for (i, _) in chosen(condition, len) {
            if let Some(y) = results.next() {
                y.clone_from_slice(&x[(o * len + i) * inner..][..inner]);
            }
        }
    }
}

/// Computes the size of the axis that `Compress` makes of one of `len` elements.
pub fn compress_sizes(sizes: &mut [usize], condition: &[bool], len: usize) {
    sizes.fill(chosen(condition, len).count());
}

/// Returns the indices of the true conditions; the condition may be shorter or longer than the
/// axis.
fn chosen(condition: &[bool], len: usize) -> impl Iterator<Item = (usize, &bool)> {
    condition.iter().take(len).enumerate().filter(|&(_, &chosen)| chosen)
}

/// `NonZero`: writes the indices of all nonzero elements, one row per axis of `x`.
pub fn non_zero<T: Elem>(x: &[T], y: &mut [i64], sizes: &[usize]) {
    if y.is_empty() {
        return;
    }
    let count = y.len() / sizes.len();
    let elements = x.iter().enumerate().filter(|&(_, x)| *x != T::default());
    for (i, (mut at, _)) in elements.take(count).enumerate() {
        for (axis, &size) in sizes.iter().enumerate().rev() {
            y[axis * count + i] = signed(at % size);
            at /= size;
        }
    }
}

/// Counts the nonzero elements.
pub fn non_zero_sizes<T: Elem>(sizes: &mut [usize], x: &[T]) {
    sizes.fill(x.iter().filter(|&x| *x != T::default()).count());
}

/// `OneHot`: writes the second value at the index along the axis, and the first value elsewhere. An
/// index out of range gives the first value everywhere.
///
/// # Errors
///
/// Returns an error if `values` is not two values.
pub fn one_hot<T: Elem, I: Number>(
    indices: &[I],
    values: &[T],
    y: &mut [T],
    geometry: Axis,
) -> Result {
    let Axis { outer: _, len, inner } = geometry;
    let [off, on] = values else { return Err(Error::Value("OneHot wants two values")) };
    y.fill(off.clone());
    for (i, at) in indices.iter().enumerate() {
        if let Ok(place) = index(i64::from_f64(at.to_f64()), len) {
            y[(i / inner * len + place) * inner + i % inner] = on.clone();
        }
    }
    Ok(())
}

/// Computes the size of the axis that `OneHot` adds.
///
/// # Errors
///
/// Returns an error for a negative depth.
pub fn one_hot_sizes<D: Number>(sizes: &mut [usize], depth: &[D]) -> Result {
    let &[depth] = depth else { return Err(Error::Value("OneHot wants one depth")) };
    sizes.fill(size(i64::from_f64(depth.to_f64()))?);
    Ok(())
}

/// `Unique`: writes the distinct slices along the axis, sorted; the index of the first occurrence
/// of each; the index of the distinct slice for each slice of `x`; and the number of occurrences.
/// All results are required, including those that the model does not use.
///
/// # Errors
///
/// Returns an error if the length of the results is not the number of distinct slices.
pub fn unique<T: Elem + PartialOrd>(
    x: &[T],
    y: &mut [T],
    places: &mut [i64],
    inverse: &mut [i64],
    counts: &mut [i64],
    geometry: Axis,
) -> Result {
    let slices = Slices { x, geometry };
    slices.find(places, inverse)?;
    for (i, which) in inverse.iter_mut().enumerate() {
        let found = places.binary_search_by(|&place| slices.compare(to_place(place), i));
        *which = signed(found.unwrap_or_else(|place| place));
    }
    slices.write(y, places, inverse, counts);
    Ok(())
}

/// [`unique`] in the order of first occurrence.
///
/// # Errors
///
/// Returns an error under the conditions of [`unique`].
pub fn unique_unsorted<T: Elem + PartialOrd>(
    x: &[T],
    y: &mut [T],
    places: &mut [i64],
    inverse: &mut [i64],
    counts: &mut [i64],
    geometry: Axis,
) -> Result {
    let slices = Slices { x, geometry };
    slices.find(places, inverse)?;
    for (i, which) in inverse.iter_mut().enumerate() {
        let found = places.binary_search_by(|&place| slices.compare(to_place(place), i));
        *which = places[found.unwrap_or_else(|place| place)];
    }
    places.sort_unstable();
    for which in &mut *inverse {
        *which = signed(places.binary_search(which).unwrap_or_else(|place| place));
    }
    slices.write(y, places, inverse, counts);
    Ok(())
}

/// Counts the distinct slices along the axis. `order` is scratch memory with an element per slice;
/// the result `inverse` of [`unique`] can serve.
pub fn unique_sizes<T: Elem + PartialOrd>(
    sizes: &mut [usize],
    x: &[T],
    order: &mut [i64],
    geometry: Axis,
) {
    sizes.fill(Slices { x, geometry }.count(order));
}

/// The slices of a tensor along an axis.
struct Slices<'a, T> {
    x: &'a [T],
    geometry: Axis,
}

impl<T: Elem + PartialOrd> Slices<'_, T> {
    /// Compares two slices.
    fn compare(&self, a: usize, b: usize) -> Ordering {
        let Axis { outer, len, inner } = self.geometry;
        let slice = |o: usize, i: usize| &self.x[(o * len + i) * inner..][..inner];
        (0..outer)
            .flat_map(|o| slice(o, a).iter().zip(slice(o, b)))
            .map(|(a, b)| order(a, b))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// Sorts the indices of the slices and counts the distinct ones.
    fn count(&self, order: &mut [i64]) -> usize {
        for (place, i) in order.iter_mut().zip(0..) {
            *place = i;
        }
        order.sort_unstable_by(|&a, &b| self.compare(to_place(a), to_place(b)).then(a.cmp(&b)));
        self.firsts(order).count()
    }

    /// Returns the first index of each run of equal slices.
    fn firsts(&self, order: &[i64]) -> impl Iterator<Item = i64> {
        order.iter().enumerate().filter_map(|(i, &place)| {
            let before = i.checked_sub(1).map(|i| to_place(order[i]));
            let differs = |before| self.compare(before, to_place(place)).is_ne();
            before.is_none_or(differs).then_some(place)
        })
    }

    /// Writes the indices of the distinct slices.
    fn find(&self, places: &mut [i64], order: &mut [i64]) -> Result {
        let found = self.count(order);
        if found != places.len() {
            return Err(Error::Length { expected: found, found: places.len() });
        }
        for (place, first) in places.iter_mut().zip(self.firsts(order)) {
            *place = first;
        }
        Ok(())
    }

    fn write(&self, y: &mut [T], places: &[i64], inverse: &[i64], counts: &mut [i64]) {
        let Axis { outer, len, inner } = self.geometry;
        for (i, &place) in places.iter().enumerate() {
            for o in 0..outer {
                let from = (o * len + to_place(place)) * inner;
                y[(o * places.len() + i) * inner..][..inner]
                    .clone_from_slice(&self.x[from..][..inner]);
            }
        }
        counts.fill(0);
        for &which in inverse {
            counts[to_place(which)] += 1;
        }
    }
}

/// Orders NaN last and equal to itself.
fn order<T: PartialOrd>(a: &T, b: &T) -> Ordering {
    let is_nan = |x: &T| x.partial_cmp(x).is_none();
    a.partial_cmp(b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

fn to_place(i: i64) -> usize {
    usize::try_from(i).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_kept_where_the_condition_holds() {
        let x = [1, 2, 3, 4, 5, 6];
        let mut sizes = [0];
        compress_sizes(&mut sizes, &[false, true, true, true, true], 3);
        assert_eq!(sizes, [2]);
        let mut y = [0; 4];
        compress(&x, &[false, true, true], &mut y, Axis { outer: 2, len: 3, inner: 1 });
        assert_eq!(y, [2, 3, 5, 6]);
        let mut y = [0; 3];
        compress(&x, &[false, true], &mut y, Axis { outer: 1, len: 2, inner: 3 });
        assert_eq!(y, [4, 5, 6]);
        compress::<u8>(&[], &[true], &mut [], Axis { outer: 1, len: 2, inner: 0 });
    }

    #[test]
    fn every_nonzero_element_has_an_index_along_each_axis() {
        let x = [0.0, f32::NAN, 1.0, -0.0, 2.0, 3.0];
        let (mut sizes, mut y) = ([0], [9; 8]);
        non_zero_sizes(&mut sizes, &x);
        assert_eq!(sizes, [4]);
        non_zero(&x, &mut y, &[2, 3]);
        assert_eq!(y, [0, 0, 1, 1, 1, 2, 1, 2]);
        non_zero(&[true], &mut [], &[]);
    }

    #[test]
    fn one_is_hot_or_none() {
        let mut y = [9; 12];
        let geometry = Axis { outer: 4, len: 3, inner: 1 };
        assert_eq!(one_hot(&[0i64, -1, 3, -4], &[0, 5], &mut y, geometry), Ok(()));
        assert_eq!(y, [5, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0]);
        let mut y = [9; 6];
        let geometry = Axis { outer: 1, len: 3, inner: 2 };
        assert_eq!(one_hot(&[1.0f32, 2.0], &[0, 5], &mut y, geometry), Ok(()));
        assert_eq!(y, [0, 0, 5, 0, 0, 5]);
        let mut sizes = [0];
        assert_eq!(one_hot_sizes(&mut sizes, &[7u8]), Ok(()));
        assert_eq!(sizes, [7]);
        assert!(one_hot_sizes(&mut sizes, &[-1.0f32]).is_err());
    }

    struct Found<T> {
        y: [T; 4],
        places: [i64; 4],
        inverse: [i64; 6],
        counts: [i64; 4],
    }

    type Kernel<T> = fn(&[T], &mut [T], &mut [i64], &mut [i64], &mut [i64], Axis) -> Result;

    fn find<T: Elem + Copy + PartialOrd>(kernel: Kernel<T>, x: [T; 6]) -> (usize, Found<T>) {
        let (mut size, mut order) = ([0], [0; 6]);
        let geometry = Axis { outer: 1, len: 6, inner: 1 };
        unique_sizes(&mut size, &x, &mut order, geometry);
        let [n] = size;
        let y = [T::default(); 4];
        let mut found = Found { y, places: [9; 4], inverse: [9; 6], counts: [9; 4] };
        let Found { y, places, inverse, counts } = &mut found;
        let (y, places, counts) = (&mut y[..n], &mut places[..n], &mut counts[..n]);
        assert_eq!(kernel(&x, y, places, inverse, counts, geometry), Ok(()));
        (n, found)
    }

    #[test]
    fn every_element_occurs_once_in_both_orders() {
        let (n, Found { y, places, inverse, counts }) = find(unique, [3, 1, 3, 2, 1, 3]);
        assert_eq!((n, &y[..3], &places[..3]), (3, &[1, 2, 3][..], &[1, 3, 0][..]));
        assert_eq!((inverse, &counts[..3]), ([2, 0, 2, 1, 0, 2], &[2, 1, 3][..]));
        let (n, Found { y, places, inverse, counts }) = find(unique_unsorted, [3, 1, 3, 2, 1, 3]);
        assert_eq!((n, &y[..3], &places[..3]), (3, &[3, 1, 2][..], &[0, 1, 3][..]));
        assert_eq!((inverse, &counts[..3]), ([0, 1, 0, 2, 1, 0], &[3, 2, 1][..]));
    }

    #[test]
    fn complex_numbers_are_sorted_by_their_real_parts_first() {
        let x = [(2.0, 0.0), (1.0, 5.0), (1.0, -5.0), (2.0, 0.0), (1.0, 5.0), (0.0, 9.0)];
        let (n, found) = find(unique, x.map(|(re, im)| crate::Complex { re, im }));
        let y = found.y.map(|y| (y.re, y.im));
        assert_eq!((n, y), (4, [(0.0, 9.0), (1.0, -5.0), (1.0, 5.0), (2.0, 0.0)]));
        assert_eq!((found.inverse, found.counts), ([3, 2, 1, 3, 2, 0], [1, 1, 2, 2]));
    }

    #[test]
    fn nan_is_equal_to_itself_and_last() {
        let nan = f64::NAN;
        let (n, found) = find(unique, [nan, 1.0, nan, -1.0, nan, 1.0]);
        assert_eq!((n, &found.y[..2]), (3, &[-1.0, 1.0][..]));
        assert!(found.y[2].is_nan());
        assert_eq!((found.inverse, &found.counts[..3]), ([2, 1, 2, 0, 2, 1], &[1, 2, 3][..]));
    }

    #[test]
    fn slices_with_a_different_element_are_distinct() {
        // The columns are (1, 3), (0, 2), (1, 2), (1, 3).
        let x = [1, 0, 1, 1, 3, 2, 2, 3];
        let (mut sizes, mut order) = ([0], [0; 4]);
        let geometry = Axis { outer: 2, len: 4, inner: 1 };
        unique_sizes(&mut sizes, &x, &mut order, geometry);
        assert_eq!(sizes, [3]);
        let (mut y, mut places, mut counts) = ([0; 6], [0; 3], [0; 3]);
        let result = unique(&x, &mut y, &mut places, &mut order, &mut counts, geometry);
        assert_eq!(result, Ok(()));
        assert_eq!((y, places), ([0, 1, 1, 2, 2, 3], [1, 2, 0]));
        assert_eq!((order, counts), ([2, 0, 1, 2], [1, 1, 2]));
        let result = unique(&x, &mut y, &mut places[..2], &mut order, &mut counts, geometry);
        assert_eq!(result, Err(Error::Length { expected: 3, found: 2 }));
    }
}
