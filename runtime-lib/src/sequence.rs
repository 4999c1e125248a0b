//! The ONNX type sequence: tensors of one element type, with individual shapes.

use crate::{
    error::{Error, Result},
    view::{View, check_len},
};
use alloc::vec::Vec;

/// A sequence of tensors of one element type, with individual shapes, stored one after another.
#[derive(Debug, PartialEq)]
pub struct Sequence<T> {
    pub(crate) data: Vec<T>,
    sizes: Vec<usize>,
    ends: Vec<End>,
}

/// The ends of a tensor's elements and sizes in the sequence's buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct End {
    data: usize,
    sizes: usize,
}

impl<T> Default for Sequence<T> {
    fn default() -> Self {
        Sequence::new()
    }
}

impl<T: Clone> Clone for Sequence<T> {
    fn clone(&self) -> Self {
        let Sequence { data, sizes, ends } = self;
        Sequence { data: data.clone(), sizes: sizes.clone(), ends: ends.clone() }
    }

    fn clone_from(&mut self, source: &Self) {
        self.data.clone_from(&source.data);
        self.sizes.clone_from(&source.sizes);
        self.ends.clone_from(&source.ends);
    }
}

impl<T> Sequence<T> {
    /// Creates an empty sequence.
    pub const fn new() -> Sequence<T> {
        Sequence { data: Vec::new(), sizes: Vec::new(), ends: Vec::new() }
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the sequence is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the shape and the elements of tensor `i`.
    pub fn get(&self, i: usize) -> Option<(&[usize], &[T])> {
        let end = self.ends.get(i)?;
        let start = self.start(i);
        Some((&self.sizes[start.sizes..end.sizes], &self.data[start.data..end.data]))
    }

    /// Returns tensor `i`, which must have `R` axes.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no tensor `i`, or its rank is not `R`.
    pub fn view<const R: usize>(&self, i: usize) -> Result<View<'_, T, R>> {
        let outside =
            Error::Index { index: i64::try_from(i).unwrap_or(i64::MAX), size: self.len() };
        let (sizes, data) = self.get(i).ok_or(outside)?;
        let shape = sizes.try_into().map_err(|_| OTHER_AXES)?;
        View::new(shape, data)
    }

    /// Returns the shape and the elements of every tensor, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[usize], &[T])> {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    /// Removes all tensors.
    pub fn clear(&mut self) {
        self.data.clear();
        self.sizes.clear();
        self.ends.clear();
    }

    /// Returns the start of tensor `i`.
    fn start(&self, i: usize) -> End {
        i.checked_sub(1).map_or(End::default(), |before| self.ends[before])
    }
}

impl<T: Clone> Sequence<T> {
    /// Appends a tensor.
    ///
    /// # Errors
    ///
    /// Returns an error under the conditions of [`View::new`].
    pub fn push(&mut self, shape: &[usize], data: &[T]) -> Result {
        check_len(shape, data.len())?;
        self.data.extend_from_slice(data);
        self.close(shape);
        Ok(())
    }

    /// Makes the elements appended since the last tensor a tensor of shape `shape`.
    pub(crate) fn close(&mut self, shape: &[usize]) {
        self.sizes.extend_from_slice(shape);
        self.ends.push(End { data: self.data.len(), sizes: self.sizes.len() });
    }

    /// Inserts a tensor before tensor `i`.
    pub(crate) fn insert(&mut self, i: usize, shape: &[usize], data: &[T]) {
        let start = self.start(i);
        self.data.splice(start.data..start.data, data.iter().cloned());
        self.sizes.splice(start.sizes..start.sizes, shape.iter().copied());
        self.ends.insert(i, start);
        for end in &mut self.ends[i..] {
            end.data += data.len();
            end.sizes += shape.len();
        }
    }

    /// Removes tensor `i`.
    pub(crate) fn remove(&mut self, i: usize) {
        let (start, end) = (self.start(i), self.ends.remove(i));
        self.data.drain(start.data..end.data);
        self.sizes.drain(start.sizes..end.sizes);
        for other in &mut self.ends[i..] {
            other.data -= end.data - start.data;
            other.sizes -= end.sizes - start.sizes;
        }
    }
}

/// A tensor of a sequence does not have the rank that the model declares.
pub(crate) const OTHER_AXES: Error =
    Error::Value("a tensor of a sequence has another number of axes");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_of_a_tensor_have_the_limits_of_a_view() {
        let mut x = Sequence::<u8>::new();
        for shape in [[0, usize::MAX], [usize::MAX, 0], [2, 3], [usize::MAX, usize::MAX]] {
            assert_eq!(x.push(&shape, &[]), View::new(shape, &[0u8; 0]).map(|_| ()));
            assert!(x.is_empty());
        }
        assert_eq!(x.push(&[0, 1 << 14], &[]), Ok(()));
        assert_eq!(x.view(0).map(|view| view.shape()), Ok([0, 1 << 14]));
    }
}
