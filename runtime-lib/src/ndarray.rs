//! Conversions between tensors and the arrays of the crate `ndarray`, without a copy.

use crate::view::{Tensor, View, ViewMut};
use crate::{Error, Result};
use ::ndarray::{Array, ArrayView, ArrayViewMut, Dim, Dimension, IntoDimension};

const LAYOUT: &str =
    "the array is not contiguous in row-major order: convert it with `as_standard_layout`";
/// A view has as many elements as its shape says, and the product of its nonzero sizes fits
/// `isize`, which is all that `ndarray` asks for.
const FITS: &str = "the elements of a view fit its shape";

impl<'a, T, D: Dimension, const R: usize> TryFrom<ArrayView<'a, T, D>> for View<'a, T, R> {
    type Error = Error;

    /// Borrows the elements of an array.
    ///
    /// # Errors
    ///
    /// Returns an error if the array does not have `R` axes, or is not contiguous in row-major
    /// order.
    fn try_from(array: ArrayView<'a, T, D>) -> Result<Self> {
        let shape = shape(array.shape())?;
        View::new(shape, array.to_slice().ok_or(Error::Value(LAYOUT))?)
    }
}

impl<'a, T, D: Dimension, const R: usize> TryFrom<ArrayViewMut<'a, T, D>> for ViewMut<'a, T, R> {
    type Error = Error;

    /// Borrows the elements of an array mutably.
    ///
    /// # Errors
    ///
    /// Returns an error if the array does not have `R` axes, or is not contiguous in row-major
    /// order.
    fn try_from(array: ArrayViewMut<'a, T, D>) -> Result<Self> {
        let shape = shape(array.shape())?;
        ViewMut::new(shape, array.into_slice().ok_or(Error::Value(LAYOUT))?)
    }
}

impl<'a, T, const R: usize> From<View<'a, T, R>> for ArrayView<'a, T, Dim<[usize; R]>>
where
    [usize; R]: IntoDimension<Dim = Dim<[usize; R]>>,
    Dim<[usize; R]>: Dimension,
{
    fn from(view: View<'a, T, R>) -> Self {
        ArrayView::from_shape(view.shape().into_dimension(), view.data()).expect(FITS)
    }
}

impl<'a, T, const R: usize> From<ViewMut<'a, T, R>> for ArrayViewMut<'a, T, Dim<[usize; R]>>
where
    [usize; R]: IntoDimension<Dim = Dim<[usize; R]>>,
    Dim<[usize; R]>: Dimension,
{
    fn from(view: ViewMut<'a, T, R>) -> Self {
        ArrayViewMut::from_shape(view.shape().into_dimension(), view.into_data()).expect(FITS)
    }
}

impl<T, const R: usize> From<Tensor<T, R>> for Array<T, Dim<[usize; R]>>
where
    [usize; R]: IntoDimension<Dim = Dim<[usize; R]>>,
    Dim<[usize; R]>: Dimension,
{
    fn from(tensor: Tensor<T, R>) -> Self {
        Array::from_shape_vec(tensor.shape().into_dimension(), tensor.into_data()).expect(FITS)
    }
}

/// Returns the shape of an array with `R` axes.
fn shape<const R: usize>(shape: &[usize]) -> Result<[usize; R]> {
    shape.try_into().map_err(|_| Error::Rank { expected: R, found: shape.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::ndarray::{Array1, Array2, Array3, ArrayView2, ArrayView3, s};

    fn numbers() -> Array3<f32> {
        Array::from_shape_fn((2, 3, 4), |(i, j, k)| (i * 12 + j * 4 + k) as f32)
    }

    #[test]
    fn views_share_the_elements_of_arrays() {
        let array = numbers();
        let view = View::<_, 3>::try_from(array.view()).expect("the array is contiguous");
        assert_eq!((view.shape(), view.data().as_ptr()), ([2, 3, 4], array.as_ptr()));
        assert_eq!(ArrayView3::from(view), array);
        assert_eq!(ArrayView3::from(view).as_ptr(), array.as_ptr());
        let rows = View::<_, 2>::try_from(array.slice(s![1, 1.., ..]));
        assert_eq!(
            rows.expect("the part is contiguous").data(),
            [16., 17., 18., 19., 20., 21., 22., 23.]
        );
    }

    #[test]
    fn an_array_is_written_through_a_view() {
        let mut array = numbers();
        let mut view = ViewMut::<_, 3>::try_from(array.view_mut()).expect("it is contiguous");
        view.data_mut()[5] = -1.0;
        ArrayViewMut::from(view)[[1, 2, 3]] = -2.0;
        assert_eq!((array[[0, 1, 1]], array[[1, 2, 3]]), (-1.0, -2.0));
    }

    #[test]
    fn the_rank_of_a_dynamic_array_is_checked() {
        let array = numbers().into_dyn();
        assert!(View::<_, 3>::try_from(array.view()).is_ok());
        let error = View::<_, 2>::try_from(array.view()).err();
        assert_eq!(error, Some(Error::Rank { expected: 2, found: 3 }));
    }

    #[test]
    fn an_array_in_another_order_is_an_error() {
        let mut array = numbers();
        assert_eq!(View::<_, 3>::try_from(array.t()).err(), Some(Error::Value(LAYOUT)));
        let columns = array.slice_mut(s![0, .., ..2]);
        assert_eq!(ViewMut::<_, 2>::try_from(columns).err(), Some(Error::Value(LAYOUT)));
        let ordered = array.t();
        let ordered = ordered.as_standard_layout();
        assert!(View::<_, 3>::try_from(ordered.view()).is_ok());
    }

    #[test]
    fn arrays_without_elements_and_without_axes_are_converted() {
        let empty = Array2::<f32>::zeros((0, 3));
        let view = View::<_, 2>::try_from(empty.view()).expect("there is nothing to order");
        assert_eq!(ArrayView2::from(view).dim(), (0, 3));
        let scalar = ::ndarray::arr0(2.5);
        let view = View::<_, 0>::try_from(scalar.view()).expect("an element is contiguous");
        assert_eq!(ArrayView::from(view), scalar);
    }

    #[test]
    fn a_tensor_becomes_an_array() {
        let tensor = Tensor::new([3], alloc::vec![1, 2, 3]).expect("the sizes fit");
        let at = tensor.data().as_ptr();
        let array = Array1::from(tensor);
        assert_eq!((array.as_ptr(), array.sum()), (at, 6));
    }
}
