//! Searches for an element of a slice.

use crate::simd::{Simd, WithSimd, dispatch};

/// Elements that are compared before the result is looked at: a few vectors.
const GROUP: usize = 64;

/// Returns the position of the first element that is equal to `wanted`.
#[inline(always)]
pub(crate) fn first_equal<T: Copy + PartialEq>(x: &[T], wanted: T) -> Option<usize> {
    let group = dispatch(FirstGroup { x, wanted });
    let rest = x[group..].iter();
    rest.enumerate().find(|&(_, x)| *x == wanted).map(|(at, _)| group + at)
}

/// Returns the position of the last element that is equal to `wanted`.
#[inline(always)]
pub(crate) fn last_equal<T: Copy + PartialEq>(x: &[T], wanted: T) -> Option<usize> {
    let end = dispatch(LastGroup { x, wanted });
    x[..end].iter().rposition(|x| *x == wanted)
}

#[inline(always)]
fn has<T: Copy + PartialEq>(x: &[T; GROUP], wanted: T) -> bool {
    // All are compared, so that the loop is one of vectors.
    x.iter().fold(false, |found, x| found | (*x == wanted))
}

/// The start of the first group that has an element, or of what follows the groups.
struct FirstGroup<'a, T> {
    x: &'a [T],
    wanted: T,
}

impl<T: Copy + PartialEq> WithSimd for FirstGroup<'_, T> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> usize {
        let groups = self.x.as_chunks::<GROUP>().0;
        let found = groups.iter().position(|x| has(x, self.wanted));
        found.unwrap_or(groups.len()) * GROUP
    }
}

/// The end of the last group that has an element, or of what precedes the groups.
struct LastGroup<'a, T> {
    x: &'a [T],
    wanted: T,
}

impl<T: Copy + PartialEq> WithSimd for LastGroup<'_, T> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> usize {
        let (first, groups) = self.x.as_rchunks::<GROUP>();
        let found = groups.iter().rposition(|x| has(x, self.wanted));
        first.len() + found.map_or(0, |at| (at + 1) * GROUP)
    }
}
