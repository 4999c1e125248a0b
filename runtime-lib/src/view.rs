//! Tensors whose sizes are known at run time: the inputs and outputs of models.

use crate::{Error, Result};

/// The maximum size of an axis of a tensor without elements: 2³¹ - 1, or 2¹⁵ - 1 on machines of at
/// most 32 bits.
const LONGEST_OF_NONE: usize = {
    let bits = if usize::BITS > 32 { 31 } else { 15 };
    usize::MAX >> (usize::BITS - bits)
};

/// A borrowed tensor with `R` axes.
#[derive(Debug)]
pub struct View<'a, T, const R: usize> {
    shape: [usize; R],
    data: &'a [T],
}

impl<T, const R: usize> Clone for View<'_, T, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const R: usize> Copy for View<'_, T, R> {}

impl<'a, T, const R: usize> View<'a, T, R> {
    /// Creates a tensor of shape `shape` from its elements in row-major order.
    ///
    /// # Errors
    ///
    /// Returns an error if the length of `data` is not the product of `shape`. The sizes of a
    /// tensor without elements are limited too, so that size computations do not overflow: the
    /// product of its nonzero sizes must fit half the address space, and each size must be below
    /// 2³¹ (2¹⁵ on machines of at most 32 bits).
    pub fn new(shape: [usize; R], data: &'a [T]) -> Result<View<'a, T, R>> {
        check_len(&shape, data.len())?;
        Ok(View { shape, data })
    }

    /// The size of each axis.
    pub fn shape(&self) -> [usize; R] {
        self.shape
    }

    /// The elements, in row-major order.
    pub fn data(&self) -> &'a [T] {
        self.data
    }
}

#[cfg(feature = "alloc")]
impl<const R: usize> View<'_, &str, R> {
    /// Copies the strings to the heap.
    pub fn to_strings(&self) -> Tensor<alloc::string::String, R> {
        Tensor { shape: self.shape, data: crate::strings::to_strings(self.data) }
    }
}

/// A mutably borrowed tensor with `R` axes.
#[derive(Debug)]
pub struct ViewMut<'a, T, const R: usize> {
    shape: [usize; R],
    data: &'a mut [T],
}

impl<'a, T, const R: usize> ViewMut<'a, T, R> {
    /// Creates a tensor of shape `shape` from its elements in row-major order.
    ///
    /// # Errors
    ///
    /// Returns an error under the conditions of [`View::new`].
    pub fn new(shape: [usize; R], data: &'a mut [T]) -> Result<ViewMut<'a, T, R>> {
        View::new(shape, data)?;
        Ok(ViewMut { shape, data })
    }

    /// The size of each axis.
    pub fn shape(&self) -> [usize; R] {
        self.shape
    }

    /// The elements, in row-major order.
    pub fn data(&self) -> &[T] {
        self.data
    }

    /// The elements, mutably.
    pub fn data_mut(&mut self) -> &mut [T] {
        self.data
    }

    /// Returns the elements for the whole borrow.
    pub fn into_data(self) -> &'a mut [T] {
        self.data
    }
}

impl<'a, T> From<&'a [T]> for View<'a, T, 1> {
    fn from(data: &'a [T]) -> Self {
        View { shape: [data.len()], data }
    }
}

impl<'a, T, const N: usize> From<&'a [T; N]> for View<'a, T, 1> {
    fn from(data: &'a [T; N]) -> Self {
        View { shape: [N], data }
    }
}

impl<'a, T, const N: usize, const M: usize> From<&'a [[T; M]; N]> for View<'a, T, 2> {
    fn from(data: &'a [[T; M]; N]) -> Self {
        View { shape: [N, M], data: data.as_flattened() }
    }
}

impl<'a, T, const M: usize> From<&'a [[T; M]]> for View<'a, T, 2> {
    fn from(data: &'a [[T; M]]) -> Self {
        View { shape: [data.len(), M], data: data.as_flattened() }
    }
}

#[cfg(feature = "alloc")]
impl<'a, T> From<&'a alloc::vec::Vec<T>> for View<'a, T, 1> {
    fn from(data: &'a alloc::vec::Vec<T>) -> Self {
        data.as_slice().into()
    }
}

/// An owned tensor on the heap, with `R` axes.
#[cfg(feature = "alloc")]
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<T, const R: usize> {
    shape: [usize; R],
    data: alloc::vec::Vec<T>,
}

#[cfg(feature = "alloc")]
impl<T, const R: usize> Tensor<T, R> {
    /// Creates a tensor of shape `shape` from its elements in row-major order.
    ///
    /// # Errors
    ///
    /// Returns an error under the conditions of [`View::new`].
    pub fn new(shape: [usize; R], data: alloc::vec::Vec<T>) -> Result<Tensor<T, R>> {
        View::new(shape, &data)?;
        Ok(Tensor { shape, data })
    }

    /// The size of each axis.
    pub fn shape(&self) -> [usize; R] {
        self.shape
    }

    /// The elements, in row-major order.
    pub fn data(&self) -> &[T] {
        &self.data
    }

    /// Returns the elements, owned.
    pub fn into_data(self) -> alloc::vec::Vec<T> {
        self.data
    }

    /// Borrows the tensor.
    pub fn view(&self) -> View<'_, T, R> {
        View { shape: self.shape, data: &self.data }
    }
}

/// Returns the elements of an input as an array.
///
/// # Errors
///
/// Returns [`Error::Input`] if `data` does not have `N` elements.
pub fn as_array<'a, T, const N: usize>(input: &'static str, data: &'a [T]) -> Result<&'a [T; N]> {
    data.try_into().map_err(|_| Error::Input { input, expected: N, found: data.len() })
}

/// Checks the size of an input along one axis.
///
/// # Errors
///
/// Returns [`Error::Size`] if `found` is not `expected`.
pub fn check_size(
    input: &'static str,
    axis: usize,
    wanted: &'static str,
    expected: usize,
    found: usize,
) -> Result {
    if expected == found {
        return Ok(());
    }
    Err(Error::Size { input, axis, wanted, expected, found })
}

/// Checks that a size is at most the bound for which memory is planned.
///
/// # Errors
///
/// Returns [`Error::Bound`] if `found` exceeds `bound`.
pub fn check_bound(name: &'static str, bound: usize, found: usize) -> Result {
    if found <= bound { Ok(()) } else { Err(Error::Bound { name, bound, found }) }
}

/// Checks that two sizes inside the model are equal; `rule` names them.
///
/// # Errors
///
/// Returns [`Error::Mismatch`] if they differ.
pub fn check_equal(node: &'static str, rule: &'static str, left: usize, right: usize) -> Result {
    if left == right { Ok(()) } else { Err(Error::Mismatch { node, rule, left, right }) }
}

/// Checks that a tensor of shape `shape` has `found` elements, and that its sizes are within the
/// limits of [`View::new`].
pub(crate) fn check_len(shape: &[usize], found: usize) -> Result {
    let len = shape.iter().try_fold(1usize, |len, &size| len.checked_mul(size.max(1)));
    let fits = len.is_some_and(|len| len <= usize::MAX / 2);
    let is_long = shape.contains(&0) && shape.iter().any(|&size| size > LONGEST_OF_NONE);
    let expected = if fits && !is_long { shape.iter().product() } else { usize::MAX };
    if expected == found { Ok(()) } else { Err(Error::Length { expected, found }) }
}

/// Checks that an iteration's part of an output has the size of the parts before.
///
/// # Errors
///
/// Returns [`Error::Part`] if it differs.
pub fn check_part(
    node: &'static str,
    output: &'static str,
    axis: usize,
    expected: usize,
    found: usize,
) -> Result {
    if expected == found {
        return Ok(());
    }
    Err(Error::Part { node, output, axis, expected, found })
}

/// Checks that a size inside the model is at least another; `rule` says why it must be.
///
/// # Errors
///
/// Returns [`Error::TooSmall`] if `left` is smaller than `right`.
pub fn check_at_least(node: &'static str, rule: &'static str, left: usize, right: usize) -> Result {
    if left >= right { Ok(()) } else { Err(Error::TooSmall { node, rule, left, right }) }
}

/// Checks that two sizes inside the model broadcast: they are equal, or one is 1.
///
/// # Errors
///
/// Returns [`Error::Broadcast`] if they do not broadcast.
pub fn check_broadcast(node: &'static str, left: usize, right: usize) -> Result {
    if left == right || left == 1 || right == 1 {
        return Ok(());
    }
    Err(Error::Broadcast { node, left, right })
}

/// Returns the size to which two sizes broadcast.
pub fn broadcast(a: usize, b: usize) -> usize {
    if a == 1 { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_has_the_elements_of_its_sizes() {
        assert!(View::new([2, 3], &[0u8; 6]).is_ok());
        assert!(View::new([usize::MAX, 3], &[0u8; 6]).is_err());
        assert!(View::new([0, 1 << 20], &[0u8; 0]).is_ok());
        assert!(View::new([0, usize::MAX, 2], &[0u8; 0]).is_err());
        assert!(View::new([0, LONGEST_OF_NONE], &[0u8; 0]).is_ok());
        assert!(View::new([0, LONGEST_OF_NONE + 1], &[0u8; 0]).is_err());
        assert!(View::new([LONGEST_OF_NONE + 1, 0], &[0u8; 0]).is_err());
        assert!(LONGEST_OF_NONE.checked_mul(LONGEST_OF_NONE).is_some());
        assert_eq!(View::<u8, 2>::from(&[[1, 2], [3, 4]]).data(), [1, 2, 3, 4]);
        assert_eq!(View::<u8, 2>::from(&[[1, 2], [3, 4]][..]).shape(), [2, 2]);
    }

    #[test]
    fn a_slice_of_another_length_is_no_array() {
        assert_eq!(as_array("x", &[1, 2][..]), Ok(&[1, 2]));
        let error = Error::Input { input: "x", expected: 2, found: 3 };
        assert_eq!(as_array::<_, 2>("x", &[1, 2, 3]), Err(error));
    }
}
