//! `GridSample`, which samples images at the points of a grid, and `AffineGrid`, which makes such
//! grids.

use crate::loops::index::number;
use crate::{Elem, Float, Integer, Number};

/// The sizes of images and grids, and how points map to pixels.
#[derive(Clone, Copy, Debug)]
pub struct Images<'a> {
    /// The number of images; each has its own grid.
    pub batch: usize,
    /// The number of channels.
    pub channels: usize,
    /// The spatial sizes of an image.
    pub sizes: &'a [usize],
    /// The number of points of a grid.
    pub points: usize,
    /// Whether -1 and 1 are the centers of the outermost pixels, or else their outer edges.
    pub align_corners: bool,
    /// The values outside of the image.
    pub padding: Padding,
}

/// The values outside of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Zeros.
    Zeros,
    /// The outermost pixels.
    Border,
    /// The image, reflected.
    Reflection,
}

/// Points that are processed together; their weights serve all channels.
pub const BLOCK: usize = 32;

/// The index that marks a pixel outside of the image.
const OUTSIDE: i64 = -1;

/// Writes the index of the pixel nearest to each point of the grid.
pub fn grid_places<G: Float>(grid: &[G], places: &mut [i64], images: Images<'_>) {
    let sizes = images.sizes;
    for (point, place) in grid.chunks_exact(sizes.len()).zip(places) {
        let mut at = Some(0);
        for (&size, &p) in sizes.iter().zip(point.iter().rev()) {
            let axis = images.axis::<G::Wide>(size);
            let x = axis.padded(Float::round(axis.place(p.widen())));
            let inside = axis.inside(whole(x));
            at = at.zip(inside).map(|(at, inside)| at * size + inside);
        }
        *place = at.map_or(OUTSIDE, crate::loops::index::signed);
    }
}

/// Copies the pixel that [`grid_places`] found for each point and channel; zero outside of the
/// image.
pub fn grid_nearest<T: Elem>(x: &[T], places: &[i64], y: &mut [T], images: Images<'_>) {
    let (size, points) = (images.sizes.iter().product::<usize>(), images.points);
    if y.is_empty() {
        return;
    }
    for (i, y) in y.chunks_exact_mut(points).enumerate() {
        let places = &places[i / images.channels * points..][..points];
        let x = &x[i * size..][..size];
        for (y, &place) in y.iter_mut().zip(places) {
            match usize::try_from(place) {
                Ok(place) => y.clone_from(&x[place]),
                Err(_) => *y = T::default(),
            }
        }
    }
}

/// Interpolates multilinearly between the two nearest pixels along each axis. The scratch memory
/// holds [`BLOCK`] points with their pixels and weights.
pub fn grid_linear<T: Float, C: Float<Wide = C>>(
    x: &[T],
    grid: &[C],
    y: &mut [T],
    elements: &mut [i64],
    weights: &mut [C],
    images: Images<'_>,
) {
    let taps = Taps::<C> { of: linear, count: 2 };
    let narrow = |sum: C| T::from_f64(sum.to_f64());
    each_block(grid, elements, weights, images, taps, &mut |block, elements, weights| {
        sums(x, y, (block, elements, weights), images, |x| C::from_f64(x.to_f64()), narrow);
    });
}

/// [`grid_linear`] with cubic interpolation of the four nearest pixels along each axis.
pub fn grid_cubic<T: Float, C: Float<Wide = C>>(
    x: &[T],
    grid: &[C],
    y: &mut [T],
    elements: &mut [i64],
    weights: &mut [C],
    images: Images<'_>,
) {
    let taps = Taps::<C> { of: cubic, count: 4 };
    let narrow = |sum: C| T::from_f64(sum.to_f64());
    each_block(grid, elements, weights, images, taps, &mut |block, elements, weights| {
        sums(x, y, (block, elements, weights), images, |x| C::from_f64(x.to_f64()), narrow);
    });
}

/// [`grid_linear`] for integers, which truncates fractions.
pub fn grid_linear_whole<T: Integer>(
    x: &[T],
    grid: &[f64],
    y: &mut [T],
    elements: &mut [i64],
    weights: &mut [f64],
    images: Images<'_>,
) {
    let taps = Taps { of: linear, count: 2 };
    each_block(grid, elements, weights, images, taps, &mut |block, elements, weights| {
        sums(x, y, (block, elements, weights), images, Number::to_f64, T::from_f64);
    });
}

/// [`grid_cubic`] for integers, which truncates fractions.
pub fn grid_cubic_whole<T: Integer>(
    x: &[T],
    grid: &[f64],
    y: &mut [T],
    elements: &mut [i64],
    weights: &mut [f64],
    images: Images<'_>,
) {
    let taps = Taps { of: cubic, count: 4 };
    each_block(grid, elements, weights, images, taps, &mut |block, elements, weights| {
        sums(x, y, (block, elements, weights), images, Number::to_f64, T::from_f64);
    });
}

/// The weights of the pixels along one axis, as functions of the distance from a pixel to the
/// point.
#[derive(Clone, Copy)]
struct Taps<C> {
    of: fn(C) -> [C; 4],
    /// The number of pixels, half of them on each side of the point.
    count: usize,
}

fn linear<C: Float>(part: C) -> [C; 4] {
    [C::ONE.sub(part), part, C::ZERO, C::ZERO]
}

fn cubic<C: Float>(part: C) -> [C; 4] {
    let a = -0.75;
    let near = |x: f64| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
    let x = part.to_f64();
    [far(x + 1.0), near(x), near(1.0 - x), far(2.0 - x)].map(C::from_f64)
}

/// One axis of an image.
struct Axis<C> {
    size: usize,
    /// The borders of the image.
    start: C,
    end: C,
    align_corners: bool,
    padding: Padding,
}

impl Images<'_> {
    fn axis<C: Float<Wide = C>>(&self, size: usize) -> Axis<C> {
        let edge = C::from_f64(if self.align_corners { 0.0 } else { 0.5 });
        let end = number::<C>(size).sub(C::ONE).add(edge);
        let Images { align_corners, padding, .. } = *self;
        Axis { size, start: edge.neg(), end, align_corners, padding }
    }
}

impl<C: Float<Wide = C>> Axis<C> {
    /// Maps a coordinate from -1 to 1 to pixels.
    fn place(&self, x: C) -> C {
        let (size, one, two) = (number::<C>(self.size), C::ONE, C::from_f64(2.0));
        match self.align_corners {
            true => x.add(one).div(two).mul(size.sub(one)),
            false => x.add(one).mul(size).sub(one).div(two),
        }
    }

    /// Applies the padding to a coordinate.
    fn padded(&self, x: C) -> C {
        let inside = x >= self.start && x <= self.end;
        match self.padding {
            _ if inside => x,
            Padding::Zeros => x,
            Padding::Border => {
                let last = number::<C>(self.size).sub(C::ONE);
                if x > last { last } else { C::ZERO }
            }
            Padding::Reflection => self.reflected(x),
        }
    }

    fn reflected(&self, x: C) -> C {
        let (start, end) = (self.start, self.end);
        let range = end.sub(start);
        if range <= C::ZERO {
            return C::ZERO;
        }
        let before = x < start;
        let beyond = if before { start.sub(x) } else { x.sub(end) };
        let times = Float::trunc(beyond.div(range));
        let rest = beyond.sub(times.mul(range));
        let is_even = Float::trunc(times.div(C::from_f64(2.0))).mul(C::from_f64(2.0)) == times;
        if before == is_even { start.add(rest) } else { end.sub(rest) }
    }

    /// Returns the pixel at an index after padding; `None` for a zero.
    fn inside(&self, i: i64) -> Option<usize> {
        let size = crate::loops::index::signed(self.size);
        let inside = match self.padding {
            _ if size == 0 => return None,
            _ if (0..size).contains(&i) => i,
            Padding::Zeros => return None,
            Padding::Border => i.clamp(0, size - 1),
            Padding::Reflection => {
                // With aligned corners, reflection does not repeat the outermost pixels.
                let repeated = i64::from(!self.align_corners);
                let period = Ord::max(2 * (size - 1 + repeated), 1);
                let i = i.rem_euclid(period);
                if i < size { i } else { period - i - repeated }
            }
        };
        usize::try_from(inside).ok()
    }
}

/// Converts to an integer, limited to a range far from overflow.
fn whole<C: Float>(x: C) -> i64 {
    const FAR: f64 = 1e15;
    i64::from_f64(x.to_f64().clamp(-FAR, FAR))
}

/// A block of points of one image's grid.
#[derive(Clone, Copy)]
struct Block {
    image: usize,
    first: usize,
    points: usize,
}

/// A visitor of a block of points, the pixels around them and their weights.
type Visit<'a, C> = dyn FnMut(Block, &[i64], &[C]) + 'a;

/// Calls `visit` with one block of points after another, their pixels and the weights.
fn each_block<C: Float<Wide = C>>(
    grid: &[C],
    elements: &mut [i64],
    weights: &mut [C],
    images: Images<'_>,
    taps: Taps<C>,
    visit: &mut Visit<'_, C>,
) {
    let axes = images.sizes.len();
    let count = elements.len() / BLOCK;
    for image in 0..images.batch {
        for first in (0..images.points).step_by(BLOCK) {
            let points = BLOCK.min(images.points - first);
            let grid = &grid[(image * images.points + first) * axes..][..points * axes];
            let each = elements.chunks_exact_mut(count).zip(weights.chunks_exact_mut(count));
            for (point, (elements, weights)) in grid.chunks_exact(axes).zip(each) {
                surround(point, elements, weights, images, taps);
            }
            let block = Block { image, first, points };
            visit(block, &elements[..points * count], &weights[..points * count]);
        }
    }
}

/// Writes the pixels around a point and their weights.
fn surround<C: Float<Wide = C>>(
    point: &[C],
    elements: &mut [i64],
    weights: &mut [C],
    images: Images<'_>,
    taps: Taps<C>,
) {
    (elements[0], weights[0]) = (0, C::ONE);
    let mut known = 1;
    for (&size, &p) in images.sizes.iter().zip(point.iter().rev()) {
        let axis = images.axis::<C>(size);
        let place = axis.place(p);
        // Cubic interpolation repeats the outermost pixels tap by tap, as PyTorch does. If it moved
        // the point, the result would jump at the border of the image.
        let keeps_place = taps.count == 4 && images.padding == Padding::Border;
        let x = if keeps_place { place } else { axis.padded(place) };
        let before = Float::floor(x);
        let factors = (taps.of)(x.sub(before));
        let first = whole(before) - crate::loops::index::signed(taps.count / 2) + 1;
        // From last to first, so that each entry is read before it is overwritten.
        for i in (0..known).rev() {
            let (outer, weight) = (elements[i], weights[i]);
            for (k, tap) in (first..).take(taps.count).enumerate() {
                let into = i * taps.count + k;
                weights[into] = weight.mul(factors[k]);
                elements[into] = match axis.inside(tap) {
                    Some(inside) if outer >= 0 => {
                        outer * crate::loops::index::signed(size)
                            + crate::loops::index::signed(inside)
                    }
                    _ => OUTSIDE,
                };
            }
        }
        known *= taps.count;
    }
}

/// Writes the weighted sums of a block of points for every channel.
#[inline(always)]
fn sums<T: Elem + Copy, C: Float>(
    x: &[T],
    y: &mut [T],
    (block, elements, weights): (Block, &[i64], &[C]),
    images: Images<'_>,
    widen: impl Fn(T) -> C,
    narrow: impl Fn(C) -> T,
) {
    let size = images.sizes.iter().product::<usize>();
    let count = elements.len() / block.points;
    for channel in block.image * images.channels..(block.image + 1) * images.channels {
        let x = &x[channel * size..][..size];
        let y = &mut y[channel * images.points + block.first..][..block.points];
        let each = elements.chunks_exact(count).zip(weights.chunks_exact(count));
        for (y, (elements, weights)) in y.iter_mut().zip(each) {
            let mut sum = C::ZERO;
            for (&element, &weight) in elements.iter().zip(weights) {
                if let Ok(element) = usize::try_from(element) {
                    sum = sum.add(weight.mul(widen(x[element])));
                }
            }
            *y = narrow(sum);
        }
    }
}

/// Extracts the spatial sizes from `size`, which also has the batch and the channels.
///
/// # Errors
///
/// Returns an error for another batch or number of axes, or a negative size.
pub fn affine_grid_sizes(sizes: &mut [usize], size: &[i64], batch: usize) -> crate::Result {
    if size[0] != crate::loops::index::signed(batch) {
        return Err(crate::Error::Value("there must be one matrix for each image"));
    }
    for (into, &size) in sizes.iter_mut().zip(&size[2..]) {
        *into = crate::loops::index::size(size)?;
    }
    Ok(())
}

/// Applies each affine matrix to the pixel centers of an image of `sizes`.
pub fn affine_grid<T: Float>(theta: &[T], grid: &mut [T], sizes: &[usize]) {
    each_middle(theta, grid, sizes, |j, size| (2.0 * j + 1.0) / size - 1.0);
}

/// [`affine_grid`] with -1 and 1 at the centers of the outermost pixels.
pub fn affine_grid_aligned<T: Float>(theta: &[T], grid: &mut [T], sizes: &[usize]) {
    each_middle(
        theta,
        grid,
        sizes,
        |j, size| {
            if size > 1.0 { 2.0 * j / (size - 1.0) - 1.0 } else { -1.0 }
        },
    );
}

fn each_middle<T: Float>(
    theta: &[T],
    grid: &mut [T],
    sizes: &[usize],
    place: impl Fn(f64, f64) -> f64,
) {
    let axes = sizes.len();
    let points = sizes.iter().product::<usize>();
    if points == 0 {
        return;
    }
    let each = theta.chunks_exact(axes * (axes + 1)).zip(grid.chunks_exact_mut(points * axes));
    for (theta, grid) in each {
        for (i, point) in grid.chunks_exact_mut(axes).enumerate() {
            for (row, p) in theta.chunks_exact(axes + 1).zip(point) {
                let (mut sum, mut rest) = (row[axes].widen(), i);
                // The first coordinate is that of the last axis.
                for (factor, &size) in row.iter().zip(sizes.iter().rev()) {
                    let middle = place(number(rest % size), number(size));
                    sum = sum.add(factor.widen().mul(Number::from_f64(middle)));
                    rest /= size;
                }
                *p = T::narrow(sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images<'a>(sizes: &'a [usize], points: usize, padding: Padding) -> Images<'a> {
        Images { batch: 1, channels: 1, sizes, points, align_corners: false, padding }
    }

    /// Maps coordinates to pixels of an image of three pixels.
    fn line(at: [f64; 6], padding: Padding, align_corners: bool) -> [f64; 6] {
        let images = Images { align_corners, ..images(&[3], 6, padding) };
        let grid = at.map(|x| if align_corners { x - 1.0 } else { (2.0 * x + 1.0) / 3.0 - 1.0 });
        let (mut y, mut elements, mut weights) = ([9.0; 6], [0; 2 * BLOCK], [0.0; 2 * BLOCK]);
        grid_linear(&[1.0, 3.0, 7.0], &grid, &mut y, &mut elements, &mut weights, images);
        y.map(|y| Float::round(y * 1e6) / 1e6)
    }

    #[test]
    fn samples_outside_follow_the_padding_mode() {
        let at = [0.5, 1.25, -0.25, 2.75, -3.0, 4.0];
        assert_eq!(line(at, Padding::Zeros, false), [2.0, 4.0, 0.75, 1.75, 0.0, 0.0]);
        assert_eq!(line(at, Padding::Border, false), [2.0, 4.0, 1.0, 7.0, 1.0, 7.0]);
        assert_eq!(line(at, Padding::Reflection, false), [2.0, 4.0, 1.0, 7.0, 7.0, 3.0]);
        assert_eq!(line(at, Padding::Reflection, true), [2.0, 4.0, 1.5, 4.0, 3.0, 1.0]);
    }

    #[test]
    fn linear_data_is_interpolated_exactly() {
        let x: [f32; 32] = core::array::from_fn(|i| (i % 8 * 3 + i / 8) as f32);
        let images = images(&[4, 8], 1, Padding::Border);
        let mut y = [0.0; 1];
        let grid = [(2.0 * 3.5 + 1.0) / 8.0 - 1.0, (2.0 * 1.5 + 1.0) / 4.0 - 1.0];
        let (mut elements, mut weights) = ([0; 16 * BLOCK], [0.0; 16 * BLOCK]);
        grid_cubic(&x, &grid, &mut y, &mut elements, &mut weights, images);
        assert!((y[0] - (3.5 * 3.0 + 1.5)).abs() < 1e-5, "{}", y[0]);
        let whole = x.map(|x| x as u8);
        let (mut y, mut weights) = ([0; 1], [0.0; 16 * BLOCK]);
        grid_linear_whole(
            &whole,
            &grid.map(f64::from),
            &mut y,
            &mut elements[..4 * BLOCK],
            &mut weights[..4 * BLOCK],
            images,
        );
        assert_eq!(y, [12]);
    }

    #[test]
    fn cubic_samples_beyond_the_border_follow_pytorch() {
        let images = images(&[1, 3], 3, Padding::Border);
        let x = [1.0, 3.0, 7.0];
        // The columns -0.75, 2.75 and 6, which PyTorch's `grid_sample` samples as these values.
        let grid = [-1.166_666_7, 0.0, 1.166_666_7, 0.0, 3.333_333_3, 0.0];
        let (mut y, mut elements, mut weights) = ([9.0; 3], [0; 16 * BLOCK], [0.0; 16 * BLOCK]);
        grid_cubic(&x, &grid, &mut y, &mut elements, &mut weights, images);
        let found = y.map(|y: f64| Float::round(y * 1e4) / 1e4);
        assert_eq!(found, [0.9297, 7.1406, 7.0]);
    }

    #[test]
    fn the_nearest_element_may_be_of_any_type() {
        let images = Images { channels: 2, ..images(&[2, 2], 3, Padding::Zeros) };
        let mut places = [9; 3];
        grid_places(&[-0.4f32, 0.9, 0.5, -0.5, f32::NAN, 7.0], &mut places, images);
        assert_eq!(places, [2, 1, -1]);
        let mut y = [true; 6];
        let x = [false, true, true, false, true, false, false, true];
        grid_nearest(&x, &places, &mut y, images);
        assert_eq!(y, [true, true, false, false, false, false]);
    }

    #[test]
    fn distant_positions_and_images_of_one_element_are_valid() {
        for padding in [Padding::Zeros, Padding::Border, Padding::Reflection] {
            for align_corners in [false, true] {
                let images = Images { align_corners, ..images(&[1], 4, padding) };
                let (mut places, grid) = ([9; 4], [1e30f32, f32::NEG_INFINITY, f32::NAN, 0.0]);
                grid_places(&grid, &mut places, images);
                assert!(places.iter().all(|&place| place <= 0) && places[3] == 0);
            }
        }
    }

    #[test]
    fn a_grid_is_moved_by_its_matrix() {
        let mut grid = [0.0f32; 12];
        affine_grid(&[1.0, 0.0, 0.0, 0.0, 1.0, 0.5], &mut grid, &[2, 3]);
        let x = 2.0 / 3.0;
        assert_eq!(grid, [-x, 0.0, 0.0, 0.0, x, 0.0, -x, 1.0, 0.0, 1.0, x, 1.0]);
        let mut grid = [0.0f64; 4];
        affine_grid_aligned(&[2.0, 1.0, 0.25, 0.0, 1.0, 0.0], &mut grid, &[1, 2]);
        assert_eq!(grid, [-2.75, -1.0, 1.25, -1.0]);
    }
}
