//! `GridSample`, which samples images at the points of a grid, and `AffineGrid`, which makes such
//! grids.

#[cfg(all(test, feature = "std"))]
mod tests;

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
            let inside = match images.padding {
                // NaN is outside of the image.
                Padding::Zeros if x.is_nan() => None,
                _ => axis.inside(whole(x)),
            };
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
    let narrow = |sum: C| T::from_f64(sum.to_f64());
    each_block(grid, elements, weights, images, linear, |block, elements, weights| {
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
    let narrow = |sum: C| T::from_f64(sum.to_f64());
    each_block(grid, elements, weights, images, cubic, |block, elements, weights| {
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
    each_block(grid, elements, weights, images, linear, |block, elements, weights| {
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
    each_block(grid, elements, weights, images, cubic, |block, elements, weights| {
        sums(x, y, (block, elements, weights), images, Number::to_f64, T::from_f64);
    });
}

/// The weights of the two nearest pixels along one axis, from the distance of the point to the
/// first.
#[inline(always)]
fn linear<C: Float>(part: C) -> [C; 2] {
    [C::ONE.sub(part), part]
}

/// [`linear`] for the four nearest pixels, with the distance to the second.
#[inline(always)]
fn cubic<C: Float>(part: C) -> [C; 4] {
    let a = -0.75;
    let near = |x: f64| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
    let x = part.to_f64();
    [far(x + 1.0), near(x), near(1.0 - x), far(2.0 - x)].map(C::from_f64)
}

/// One axis of an image.
struct Axis<C> {
    /// The number of pixels.
    size: usize,
    /// `size` as a coordinate.
    len: C,
    /// The borders of the image.
    start: C,
    end: C,
    align_corners: bool,
    padding: Padding,
}

impl Images<'_> {
    fn axis<C: Float<Wide = C>>(&self, size: usize) -> Axis<C> {
        let edge = C::from_f64(if self.align_corners { 0.0 } else { 0.5 });
        let len = number::<C>(size);
        let end = len.sub(C::ONE).add(edge);
        let Images { align_corners, padding, .. } = *self;
        Axis { size, len, start: edge.neg(), end, align_corners, padding }
    }
}

impl<C: Float<Wide = C>> Axis<C> {
    /// Maps a coordinate from -1 to 1 to pixels.
    fn place(&self, x: C) -> C {
        let (size, one, two) = (self.len, C::ONE, C::from_f64(2.0));
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
                let last = self.len.sub(C::ONE);
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

/// Rounds down, to a number and to an integer as [`whole`] does.
#[inline(always)]
fn floor<C: Float>(x: C) -> (C, i64) {
    /// From here on, integers are not exact in `f32`.
    const LARGE: f64 = 16_777_216.0;
    // A conversion is an instruction on every processor; rounding is a call on some.
    if x.to_f64().abs() < LARGE {
        let toward_zero = i64::from_f64(x.to_f64());
        let below = toward_zero - i64::from(C::from_f64(toward_zero.to_f64()) > x);
        return (C::from_f64(below.to_f64()), below);
    }
    let below = Float::floor(x);
    (below, whole(below))
}

/// A block of points of one image's grid.
#[derive(Clone, Copy)]
struct Block {
    image: usize,
    first: usize,
    points: usize,
}

/// Calls `visit` with one block of points after another, their pixels and the weights. Along each
/// axis there are `N` pixels, half of them on each side of the point, and `of` returns their
/// weights.
#[inline(always)]
fn each_block<C: Float<Wide = C>, const N: usize>(
    grid: &[C],
    elements: &mut [i64],
    weights: &mut [C],
    images: Images<'_>,
    of: impl Fn(C) -> [C; N],
    mut visit: impl FnMut(Block, &[i64], &[C]),
) {
    let axes = images.sizes.len();
    let count = elements.len() / BLOCK;
    for image in 0..images.batch {
        for first in (0..images.points).step_by(BLOCK) {
            let points = BLOCK.min(images.points - first);
            let grid = &grid[(image * images.points + first) * axes..][..points * axes];
            let (elements, weights) =
                (&mut elements[..points * count], &mut weights[..points * count]);
            let mut known = 1;
            for (i, &size) in images.sizes.iter().enumerate() {
                let (axis, places) = (images.axis::<C>(size), &grid[axes - 1 - i..]);
                let each = elements.chunks_exact_mut(count).zip(weights.chunks_exact_mut(count));
                for (&p, (elements, weights)) in places.iter().step_by(axes).zip(each) {
                    if i == 0 {
                        (elements[0], weights[0]) = (0, C::ONE);
                    }
                    axis.surround(p, &mut elements[..known * N], &mut weights[..known * N], &of);
                }
                known *= N;
            }
            visit(Block { image, first, points }, elements, weights);
        }
    }
}

impl<C: Float<Wide = C>> Axis<C> {
    /// Replaces each of the first pixels around a point, and its weight, by the `N` pixels along
    /// this axis.
    #[inline(always)]
    fn surround<const N: usize>(
        &self,
        p: C,
        elements: &mut [i64],
        weights: &mut [C],
        of: &impl Fn(C) -> [C; N],
    ) {
        let place = self.place(p);
        // Cubic interpolation repeats the outermost pixels tap by tap, as PyTorch does. If it moved
        // the point, the result would jump at the border of the image.
        let keeps_place = N == 4 && self.padding == Padding::Border;
        let x = if keeps_place { place } else { self.padded(place) };
        let (before, at) = floor(x);
        let factors = of(x.sub(before));
        let size = crate::loops::index::signed(self.size);
        let taps = self.taps::<N>(at + 1 - crate::loops::index::signed(N / 2), size);
        // From last to first, so that each entry is read before it is overwritten.
        for i in (0..elements.len() / N).rev() {
            let (outer, weight) = (elements[i], weights[i]);
            let (elements, weights) = (&mut elements[i * N..][..N], &mut weights[i * N..][..N]);
            for k in 0..N {
                weights[k] = weight.mul(factors[k]);
                let outside = outer < 0 || taps[k] < 0;
                elements[k] = if outside { OUTSIDE } else { outer * size + taps[k] };
            }
        }
    }

    /// Returns the pixels at `N` indices from `first` on, after padding.
    #[inline(always)]
    fn taps<const N: usize>(&self, first: i64, size: i64) -> [i64; N] {
        let mut taps = [OUTSIDE; N];
        for (tap, i) in taps.iter_mut().zip(first..) {
            *tap = if (0..size).contains(&i) {
                i
            } else {
                self.inside(i).map_or(OUTSIDE, crate::loops::index::signed)
            };
        }
        taps
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
        // The four pixels of an image of two axes are added without a loop.
        if count == 4 {
            let each = elements.as_chunks::<4>().0.iter().zip(weights.as_chunks::<4>().0);
            for (y, (elements, weights)) in y.iter_mut().zip(each) {
                *y = narrow(weighted(x, elements, weights, &widen));
            }
        } else {
            let each = elements.chunks_exact(count).zip(weights.chunks_exact(count));
            for (y, (elements, weights)) in y.iter_mut().zip(each) {
                *y = narrow(weighted(x, elements, weights, &widen));
            }
        }
    }
}

/// Returns the weighted sum of these elements of an image, without those outside.
#[inline(always)]
fn weighted<T: Copy, C: Float>(
    x: &[T],
    elements: &[i64],
    weights: &[C],
    widen: &impl Fn(T) -> C,
) -> C {
    let mut sum = C::ZERO;
    for (&element, &weight) in elements.iter().zip(weights) {
        // An element outside is a large unsigned number.
        let at = usize::try_from(element.cast_unsigned()).unwrap_or(usize::MAX);
        if let Some(&x) = x.get(at) {
            sum = sum.add(weight.mul(widen(x)));
        }
    }
    sum
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
