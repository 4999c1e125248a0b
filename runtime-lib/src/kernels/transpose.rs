//! `Transpose`, `DepthToSpace`, `SpaceToDepth` and `Col2Im`.

use crate::error::{Error, Result};
use crate::loops::geometry::{Blocks, Strided};
use crate::loops::index::size;
use crate::loops::strided::copy_from;
use crate::{Elem, Summand};

/// Permutes axes: the strides are those of `x` in the order of the axes of `y`. `DepthToSpace` and
/// `SpaceToDepth` are transpositions of split axes.
pub fn transpose<T: Elem>(x: &[T], y: &mut [T], geometry: Strided<'_>) {
    copy_from(x, y, geometry);
}

/// `Col2Im`: sums overlapping blocks of an image. `x` holds, for each image and each element of the
/// block, the value at each position of the block.
pub fn col2im<T: Summand>(x: &[T], y: &mut [T], geometry: Blocks<'_>) {
    y.fill(T::default());
    if x.is_empty() || y.is_empty() {
        return;
    }
    let (image, columns) = (y.len() / geometry.planes, x.len() / geometry.planes);
    // The loops below visit this many elements, and most of these may be outside the image.
    let sizes = geometry.block.iter().chain(geometry.places);
    let visited = sizes.fold(1, |count: usize, &size| count.saturating_mul(size));
    assert_eq!(visited, columns, "the operand has an element per element of a block and place");
    for (x, y) in x.chunks_exact(columns).zip(y.chunks_exact_mut(image)) {
        add_blocks(x, y, geometry, (0, 0, 0), 0);
    }
}

/// Adds the elements of one index along the axes before `axis`.
fn add_blocks<T: Summand>(
    x: &[T],
    y: &mut [T],
    geometry: Blocks<'_>,
    (element, place, pixel): (usize, usize, usize),
    axis: usize,
) {
    let Blocks { image, block, places, strides, dilations, pads, .. } = geometry;
    if axis == image.len() {
        let at = element * places.iter().product::<usize>() + place;
        y[pixel] = y[pixel].plus(x[at]);
        return;
    }
    for k in 0..block[axis] {
        for l in 0..places[axis] {
            let padded = l * strides[axis] + k * dilations[axis];
            let Some(i) = padded.checked_sub(pads[axis]).filter(|&i| i < image[axis]) else {
                continue;
            };
            let (element, place) = (element * block[axis] + k, place * places[axis] + l);
            add_blocks(x, y, geometry, (element, place, pixel * image[axis] + i), axis + 1);
        }
    }
}

/// Computes the sizes that `Col2Im` uses: the number of channels, the sizes of the image, and those
/// of a block. The operand has `columns` elements at each of `places` positions; `pads` sums both
/// sides of an axis.
///
/// # Errors
///
/// Returns an error for sizes that do not fit together.
pub fn col2im_sizes(
    sizes: &mut [usize],
    image: &[i64],
    block: &[i64],
    [columns, places]: [usize; 2],
    strides: &[usize],
    dilations: &[usize],
    pads: &[usize],
) -> Result {
    let Some((channels, shapes)) = sizes.split_first_mut() else { return Ok(()) };
    let (mut left, mut found) = (columns, 1usize);
    for (axis, (&image, &block)) in image.iter().zip(block).enumerate() {
        let (image, block) = (size(image)?, size(block)?);
        let whole = left.checked_div(block).filter(|whole| whole * block == left);
        left = whole.ok_or(Error::Value("the channels of Col2Im are not whole blocks"))?;
        let slack = image.checked_add(pads[axis]);
        let extent = block.checked_sub(1).and_then(|last| last.checked_mul(dilations[axis]));
        let slack = slack.zip(extent).and_then(|(slack, extent)| slack.checked_sub(extent));
        let here = slack.map_or(0, |slack| slack.div_ceil(strides[axis]));
        found = found.saturating_mul(here);
        (shapes[axis], shapes[pads.len() + axis]) = (image, block);
    }
    *channels = left;
    let fits = found == places;
    if fits { Ok(()) } else { Err(Error::Length { expected: found, found: places }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Complex;

    #[test]
    fn overlapping_blocks_add_up() {
        // Each pixel counts the blocks that cover it.
        let mut y = [0; 5];
        let geometry = Blocks {
            planes: 1,
            image: &[5],
            block: &[3],
            places: &[5],
            strides: &[1],
            dilations: &[1],
            pads: &[1],
        };
        col2im(&[1; 15], &mut y, geometry);
        assert_eq!(y, [2, 3, 3, 3, 2]);
        let (one, mut y) = (Complex { re: 1.0, im: -2.0 }, [Complex::default(); 5]);
        col2im(&[one; 15], &mut y, geometry);
        assert_eq!(y.map(|y| (y.re, y.im)), [2.0, 3.0, 3.0, 3.0, 2.0].map(|n| (n, -2.0 * n)));
    }

    #[test]
    fn blocks_are_placed_by_dilation_and_stride() {
        // Blocks of 2 by 1, at rows 0 and 2 of the padded image, and of every second column.
        let geometry = Blocks {
            planes: 2,
            image: &[3, 3],
            block: &[2, 1],
            places: &[1, 2],
            strides: &[1, 2],
            dilations: &[2, 1],
            pads: &[0, 0],
        };
        let mut y = [9; 18];
        col2im(&[1, 2, 3, 4, 5, 6, 7, 8], &mut y, geometry);
        assert_eq!(y, [1, 0, 2, 0, 0, 0, 3, 0, 4, 5, 0, 6, 0, 0, 0, 7, 0, 8]);
    }

    #[test]
    fn blocks_must_fit_into_their_image() {
        let mut sizes = [0; 5];
        let mut check = |image: [i64; 2], block: [i64; 2], places| {
            let operand = [12, places];
            let result =
                col2im_sizes(&mut sizes, &image, &block, operand, &[1, 2], &[1, 1], &[0, 2]);
            result.ok().map(|()| sizes)
        };
        assert_eq!(check([3, 4], [2, 3], 4), Some([2, 3, 4, 2, 3]));
        assert_eq!(check([3, 4], [2, 3], 5), None);
        assert_eq!(check([3, 4], [5, 1], 0), None);
        assert_eq!(check([3, 4], [0, 1], 0), None);
        assert_eq!(check([i64::MAX, -1], [2, 3], 4), None);
        assert_eq!(check([1, 4], [2, 3], 0), Some([2, 1, 4, 2, 3]));
    }

    #[test]
    fn depth_to_space_is_a_transpose() {
        // One image of 4 channels, 1 by 2, with blocks of 2 by 2: [1, 2, 2, 1, 1, 2].
        let (x, mut y) = ([0, 1, 2, 3, 4, 5, 6, 7], [9; 8]);
        let geometry = Strided { sizes: &[1, 1, 2, 2, 2], strides: &[8, 2, 4, 1, 2], start: 0 };
        transpose(&x, &mut y, geometry);
        assert_eq!(y, [0, 2, 1, 3, 4, 6, 5, 7]);
    }
}
