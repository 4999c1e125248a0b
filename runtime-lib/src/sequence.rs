//! Sequences: tensors of one element type, each with sizes of its own.

use crate::{
    error::{Error, Result},
    view::View,
};
use alloc::vec::Vec;

/// Tensors of one element type, each with sizes of its own, one after another in memory.
#[derive(Debug, PartialEq)]
pub struct Sequence<T> {
    pub(crate) data: Vec<T>,
    sizes: Vec<usize>,
    ends: Vec<End>,
}

/// Where the elements and the sizes of a tensor end.
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
    /// A sequence without tensors.
    pub const fn new() -> Sequence<T> {
        Sequence { data: Vec::new(), sizes: Vec::new(), ends: Vec::new() }
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no tensor.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The sizes and the elements of tensor `i`.
    pub fn get(&self, i: usize) -> Option<(&[usize], &[T])> {
        let end = self.ends.get(i)?;
        let start = self.start(i);
        Some((&self.sizes[start.sizes..end.sizes], &self.data[start.data..end.data]))
    }

    /// Tensor `i`, which must have `R` axes.
    ///
    /// # Errors
    ///
    /// Where there is no such tensor, or it has another number of axes.
    pub fn view<const R: usize>(&self, i: usize) -> Result<View<'_, T, R>> {
        let outside =
            Error::Index { index: i64::try_from(i).unwrap_or(i64::MAX), size: self.len() };
        let (sizes, data) = self.get(i).ok_or(outside)?;
        let shape = sizes.try_into().map_err(|_| OTHER_AXES)?;
        View::new(shape, data)
    }

    /// The sizes and the elements of every tensor, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[usize], &[T])> {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    /// Takes all tensors out.
    pub fn clear(&mut self) {
        self.data.clear();
        self.sizes.clear();
        self.ends.clear();
    }

    /// Where tensor `i` starts.
    fn start(&self, i: usize) -> End {
        i.checked_sub(1).map_or(End::default(), |before| self.ends[before])
    }
}

impl<T: Clone> Sequence<T> {
    /// Adds a tensor of the sizes given at the end.
    ///
    /// # Errors
    ///
    /// Where `data` does not have as many elements as the sizes ask for.
    pub fn push(&mut self, shape: &[usize], data: &[T]) -> Result {
        let len = shape.iter().try_fold(1usize, |len, &size| len.checked_mul(size));
        let expected = len.unwrap_or(usize::MAX);
        if expected != data.len() {
            return Err(Error::Length { expected, found: data.len() });
        }
        self.data.extend_from_slice(data);
        self.close(shape);
        Ok(())
    }

    /// Says that the elements added since the last tensor are one of these sizes.
    pub(crate) fn close(&mut self, shape: &[usize]) {
        self.sizes.extend_from_slice(shape);
        self.ends.push(End { data: self.data.len(), sizes: self.sizes.len() });
    }

    /// Puts a tensor before tensor `i`.
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

    /// Takes tensor `i` out.
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
