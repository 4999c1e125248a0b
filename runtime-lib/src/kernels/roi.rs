//! Pooling of image regions to a fixed size: `RoiAlign` and `MaxRoiPool`.

use crate::error::Result;
use crate::loops::index::{index, number, signed};
use crate::simd::HAS_VECTORS;
use crate::{Float, Number};
use core::ops::Range;

/// The sizes of images and of the output of each region.
#[derive(Clone, Copy, Debug)]
pub struct Regions {
    /// The number of images.
    pub batch: usize,
    /// The number of channels.
    pub channels: usize,
    /// The height and width of an image.
    pub image: [usize; 2],
    /// The height and width of the output of each region.
    pub out: [usize; 2],
    /// The factor that maps coordinates of regions to the image.
    pub scale: f32,
}

/// The sampling of `RoiAlign`.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// Samples per output element along each axis; 0 adapts to the size of the region.
    pub ratio: usize,
    /// Whether pixel centers are at half-integer coordinates, or else at integers.
    pub half_pixel: bool,
}

/// Averages bilinearly interpolated samples of each output element.
///
/// # Errors
///
/// Returns an error for a region of an image that does not exist.
pub fn roi_align_average<T: Float>(
    x: &[T],
    rois: &[T],
    images: &[i64],
    y: &mut [T],
    regions: Regions,
    sampling: Sampling,
) -> Result {
    roi_align(x, rois, images, regions, sampling, |at, part| {
        let mut sum = T::Wide::ZERO;
        part.corners(|corner| sum = sum.add(corner.value));
        y[at] = T::narrow(sum.div(number(part.samples().max(1))));
    })
}

/// Takes the maximum of the weighted corners of all samples of each output element.
///
/// # Errors
///
/// Returns an error for a region of an image that does not exist.
pub fn roi_align_max<T: Float>(
    x: &[T],
    rois: &[T],
    images: &[i64],
    y: &mut [T],
    regions: Regions,
    sampling: Sampling,
) -> Result {
    roi_align(x, rois, images, regions, sampling, |at, part| {
        let mut largest: Option<T::Wide> = None;
        part.corners(|Corner { value, .. }| {
            largest = Some(largest.map_or(value, |largest| largest.maximum(value)));
        });
        y[at] = T::narrow(largest.unwrap_or(T::Wide::ZERO));
    })
}

/// Writes, for each output of [`roi_align_max`], the index of the maximum in `x` and its weight;
/// the first of equal ones. Samples outside of the image have weight zero.
///
/// # Errors
///
/// Returns an error for a region of an image that does not exist.
pub fn roi_align_places<T: Float>(
    x: &[T],
    rois: &[T],
    images: &[i64],
    places: &mut [i64],
    weights: &mut [T],
    regions: Regions,
    sampling: Sampling,
) -> Result {
    roi_align(x, rois, images, regions, sampling, |at, part| {
        let mut largest: Option<Corner<T::Wide>> = None;
        part.corners(|corner| {
            if largest.is_none_or(|largest| corner.value > largest.value) {
                largest = Some(corner);
            }
        });
        let (place, weight) = largest.map_or((0, T::Wide::ZERO), |it| (it.place, it.weight));
        places[at] = signed(part.plane + place);
        weights[at] = T::narrow(weight);
    })
}

/// Calls `visit` with each output element and its index.
fn roi_align<T: Float>(
    x: &[T],
    rois: &[T],
    images: &[i64],
    regions: Regions,
    sampling: Sampling,
    mut visit: impl FnMut(usize, Sampled<'_, T>),
) -> Result {
    let Regions { batch, channels, image: [height, width], out: [rows, columns], .. } = regions;
    let (size, out) = (height * width, rows * columns);
    for (i, (roi, &image)) in rois.chunks_exact(4).zip(images).enumerate() {
        let image = index(image, batch)?;
        let along = |start: usize, size: usize, out: usize| {
            let ends = [roi[start].widen(), roi[start + 2].widen()];
            Samples::of(ends, size, out, regions.scale, sampling)
        };
        let (down, across) = (along(1, height, rows), along(0, width, columns));
        for channel in 0..channels {
            let plane = (image * channels + channel) * size;
            let x = &x[plane..][..size];
            for j in 0..out {
                let at = [j / columns, j % columns];
                let part = Sampled { x, plane, down: &down, across: &across, at };
                visit((i * channels + channel) * out + j, part);
            }
        }
    }
    Ok(())
}

/// An output element: a part of a region of a plane, which is sampled.
struct Sampled<'a, T: Float> {
    x: &'a [T],
    /// The offset of the plane.
    plane: usize,
    down: &'a Samples<T::Wide>,
    across: &'a Samples<T::Wide>,
    /// The row and the column of the output element.
    at: [usize; 2],
}

/// One of the four pixels around a sample.
#[derive(Clone, Copy)]
struct Corner<W> {
    /// The offset of the pixel in its plane.
    place: usize,
    weight: W,
    /// The pixel times its weight.
    value: W,
}

impl<T: Float> Sampled<'_, T> {
    fn samples(&self) -> usize {
        self.down.count * self.across.count
    }

    /// Calls `visit` with the four weighted pixels around each sample; zeros outside of the image.
    #[inline(always)]
    fn corners(&self, mut visit: impl FnMut(Corner<T::Wide>)) {
        let nothing = Corner { place: 0, weight: T::Wide::ZERO, value: T::Wide::ZERO };
        for v in 0..self.down.count {
            let vertical = self.down.sample(self.at[0], v);
            for h in 0..self.across.count {
                match (vertical, self.across.sample(self.at[1], h)) {
                    (Some(rows), Some(columns)) => self.around(rows, columns).map(&mut visit),
                    _ => [nothing; 4].map(&mut visit),
                };
            }
        }
    }

    #[inline(always)]
    fn around(
        &self,
        [top, bottom]: [(usize, T::Wide); 2],
        [left, right]: [(usize, T::Wide); 2],
    ) -> [Corner<T::Wide>; 4] {
        [(top, left), (top, right), (bottom, left), (bottom, right)].map(
            |((row, v), (column, h))| {
                let (place, weight) = (row * self.across.size + column, v.mul(h));
                Corner { place, weight, value: weight.mul(self.x[place].widen()) }
            },
        )
    }
}

/// Two neighbors along an axis and their weights.
type Pair<W> = Option<[(usize, W); 2]>;

/// The samples of a region along one axis.
struct Samples<W> {
    /// The size of the image.
    size: usize,
    /// The start of the region.
    start: W,
    /// The size of an output element in the image.
    part: W,
    /// Samples per output element.
    count: usize,
    /// The first samples, which are the same for all channels.
    first: [Pair<W>; FIRST],
}

/// The number of samples of an axis that are computed once for all channels; none on a processor
/// without vectors, whose stack may be small.
const FIRST: usize = if HAS_VECTORS { 64 } else { 0 };

impl<W: Float<Wide = W>> Samples<W> {
    fn of(ends: [W; 2], size: usize, out: usize, scale: f32, sampling: Sampling) -> Samples<W> {
        let offset = W::from_f64(if sampling.half_pixel { 0.5 } else { 0.0 });
        let [start, end] = ends.map(|end| end.mul(W::from_f64(scale.into())).sub(offset));
        let len = end.sub(start);
        // Without `half_pixel`, a region is at least one pixel long.
        let len = if sampling.half_pixel || len >= W::ONE { len } else { W::ONE };
        let part = len.div(number(out));
        let wanted = usize::try_from(u64::from_f64(Float::ceil(part).to_f64())).unwrap_or(0);
        // Limits the number of samples, so that an infinite region terminates.
        let most = 4 * (size + 1);
        let count = if sampling.ratio > 0 { sampling.ratio } else { wanted.min(most) };
        let mut samples = Samples { size, start, part, count, first: [None; FIRST] };
        for i in 0..FIRST.min(out.saturating_mul(count)) {
            samples.first[i] = samples.locate(i / count, i % count);
        }
        samples
    }

    /// Returns the two pixels around a sample; `None` outside of the image.
    #[inline(always)]
    fn sample(&self, part: usize, sample: usize) -> Pair<W> {
        let known = self.first.get(part * self.count + sample);
        known.copied().unwrap_or_else(|| self.locate(part, sample))
    }

    /// Computes [`Samples::sample`].
    fn locate(&self, part: usize, sample: usize) -> Pair<W> {
        let half = W::from_f64(0.5);
        let inside = number::<W>(sample).add(half).mul(self.part).div(number(self.count));
        let at = self.start.add(number::<W>(part).mul(self.part)).add(inside);
        if !(at >= W::ONE.neg() && at <= number(self.size)) || self.size == 0 {
            return None;
        }
        let at = if at > W::ZERO { at } else { W::ZERO };
        let low = usize::try_from(u64::from_f64(at.to_f64())).unwrap_or(0);
        if low + 1 >= self.size {
            let last = self.size - 1;
            return Some([(last, W::ONE), (last, W::ZERO)]);
        }
        let behind = at.sub(number(low));
        Some([(low, W::ONE.sub(behind)), (low + 1, behind)])
    }
}

/// Writes the weight of each pixel along an axis, 0 for rows and 1 for columns, in each output
/// element of [`roi_align_average`]: `[regions, parts, pixels]`.
pub fn roi_align_weights<T: Float>(
    rois: &[T],
    y: &mut [T],
    regions: Regions,
    sampling: Sampling,
    axis: usize,
) {
    let (size, parts) = (regions.image[axis], regions.out[axis]);
    y.fill(T::ZERO);
    if size == 0 {
        return;
    }
    for (roi, y) in rois.chunks_exact(4).zip(y.chunks_exact_mut(parts * size)) {
        let ends = [roi[1 - axis].widen(), roi[3 - axis].widen()];
        let samples = Samples::of(ends, size, parts, regions.scale, sampling);
        let share = T::Wide::ONE.div(number(samples.count.max(1)));
        for (part, y) in y.chunks_exact_mut(size).enumerate() {
            for sample in 0..samples.count {
                for (at, weight) in samples.sample(part, sample).into_iter().flatten() {
                    y[at] = T::narrow(y[at].widen().add(weight.mul(share)));
                }
            }
        }
    }
}

/// Takes the maximum of each output element; the borders of regions are rounded.
///
/// # Errors
///
/// Returns an error if the batch index of a region is out of range.
pub fn max_roi_pool<T: Float>(x: &[T], rois: &[T], y: &mut [T], regions: Regions) -> Result {
    each_part(rois, regions, &mut |at, part| {
        let elements = part.rows().flat_map(|row| &x[row]);
        // An empty part becomes zero.
        y[at] = elements.copied().reduce(T::maximum).unwrap_or(T::ZERO);
    })
}

/// Writes the index in `x` of each output of [`max_roi_pool`]; the length of `x` for an empty part.
///
/// # Errors
///
/// Returns an error under the conditions of [`max_roi_pool`].
pub fn max_roi_places<T: Float>(x: &[T], rois: &[T], y: &mut [i64], regions: Regions) -> Result {
    let larger = |a: f64, b: f64| b > a || b.is_nan() && !a.is_nan();
    let first = |a: usize, b: usize| if larger(x[a].to_f64(), x[b].to_f64()) { b } else { a };
    each_part(rois, regions, &mut |at, part| {
        y[at] = signed(part.rows().flatten().reduce(first).unwrap_or(x.len()));
    })
}

/// Calls `visit` with each part of each region and its index.
fn each_part<T: Float>(rois: &[T], regions: Regions, visit: &mut dyn FnMut(usize, Part)) -> Result {
    let Regions { batch, channels, image: [height, width], out: [rows, columns], .. } = regions;
    for (i, roi) in rois.chunks_exact(5).enumerate() {
        let image = index(i64::from_f64(roi[0].to_f64()), batch)?;
        let along = |start: usize, size: usize, out: usize| {
            let ends = [roi[start].to_f64(), roi[start + 2].to_f64()];
            Parts::of(ends, size, out, regions.scale)
        };
        let (down, across) = (along(2, height, rows), along(1, width, columns));
        for channel in 0..channels {
            let plane = (image * channels + channel) * height * width;
            let first = (i * channels + channel) * rows * columns;
            for j in 0..rows * columns {
                let (rows, columns) = (down.part(j / columns), across.part(j % columns));
                visit(first + j, Part { plane, width, rows, columns });
            }
        }
    }
    Ok(())
}

/// A part of a region of a plane.
struct Part {
    /// The offset of the plane.
    plane: usize,
    width: usize,
    rows: [usize; 2],
    columns: [usize; 2],
}

impl Part {
    /// Returns the ranges of the rows.
    fn rows(self) -> impl Iterator<Item = Range<usize>> {
        let ([top, bottom], [left, right]) = (self.rows, self.columns);
        (top..bottom).map(move |row| {
            let first = self.plane + row * self.width;
            first + left..first + right
        })
    }
}

/// The parts of a region along one axis.
struct Parts {
    size: f64,
    start: f64,
    part: f32,
}

impl Parts {
    fn of(ends: [f64; 2], size: usize, out: usize, scale: f32) -> Parts {
        // Rounds half away from zero.
        let round = |x: f64| {
            let x = f32::from_f64(x) * scale;
            f64::from(Float::trunc(x + 0.5f32.copysign(x)))
        };
        let [start, end] = ends.map(round);
        let len = f64::max(end - start + 1.0, 1.0);
        Parts { size: number(size), start, part: f32::from_f64(len) / number::<f32>(out) }
    }

    /// Returns the first pixel of a part and the one after its last.
    fn part(&self, i: usize) -> [usize; 2] {
        let first = Float::floor(number::<f32>(i) * self.part);
        let last = Float::ceil(number::<f32>(i + 1) * self.part);
        let ends = [first, last].map(|x| (f64::from(x) + self.start).clamp(0.0, self.size));
        let [first, last] = ends.map(|x| usize::try_from(u64::from_f64(x)).unwrap_or(0));
        [first, last.max(first)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    const X: [f32; 9] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
    const REGIONS: Regions =
        Regions { batch: 1, channels: 1, image: [3, 3], out: [1, 2], scale: 1.0 };

    #[test]
    fn a_region_is_the_mean_of_its_samples() {
        let mut y = [0.0; 2];
        let sampling = Sampling { ratio: 1, half_pixel: true };
        let done = roi_align_average(&X, &[0.0, 0.0, 3.0, 3.0], &[0], &mut y, REGIONS, sampling);
        assert_eq!((done, y), (Ok(()), [4.25, 5.75]));
        let sampling = Sampling { ratio: 0, half_pixel: false };
        let done = roi_align_average(&X, &[0.0, 0.0, 2.0, 2.0], &[0], &mut y, REGIONS, sampling);
        assert_eq!((done, y), (Ok(()), [4.5, 5.5]));
        let done = roi_align_average(&X, &[0.0; 4], &[1], &mut y, REGIONS, sampling);
        assert_eq!(done, Err(Error::Index { index: 1, size: 1 }));
    }

    #[test]
    fn a_region_may_be_the_largest_corner() {
        let mut y = [0.0; 2];
        let sampling = Sampling { ratio: 1, half_pixel: true };
        let done = roi_align_max(&X, &[0.0, 0.0, 3.0, 3.0], &[0], &mut y, REGIONS, sampling);
        assert_eq!((done, y), (Ok(()), [3.0, 4.5]));
        // A region outside of the image is empty; an infinite one terminates.
        let far = [7.0, 7.0, 9.0, 9.0, 0.0, 0.0, f32::INFINITY, f32::INFINITY];
        let mut y = [9.0; 4];
        let sampling = Sampling { ratio: 0, half_pixel: true };
        assert_eq!(roi_align_max(&X, &far, &[0, 0], &mut y, REGIONS, sampling), Ok(()));
        assert_eq!(y[..2], [0.0, 0.0]);
    }

    #[test]
    fn the_largest_corner_has_a_place_and_a_weight() {
        let (mut places, mut weights) = ([9; 4], [9.0; 4]);
        let rois = [0.0, 0.0, 3.0, 3.0, 7.0, 7.0, 9.0, 9.0];
        let sampling = Sampling { ratio: 1, half_pixel: true };
        let (p, w) = (&mut places, &mut weights);
        assert_eq!(roi_align_places(&X, &rois, &[0, 0], p, w, REGIONS, sampling), Ok(()));
        // 3 is 4 · 0.75, and 4.5 is 6 · 0.75; the second region lies outside.
        assert_eq!((places, weights), ([3, 5, 0, 0], [0.75, 0.75, 0.0, 0.0]));
        // The first part lies midway between two equal columns, the second beyond the last one.
        let (mut places, wide) = ([9; 2], [0.0, 0.0, 4.0, 3.0]);
        let (p, w) = (&mut places, &mut [0.0; 2]);
        assert_eq!(roi_align_places(&[1.0; 9], &wide, &[0], p, w, REGIONS, sampling), Ok(()));
        assert_eq!(places, [3, 5], "the first of equals");
    }

    #[test]
    fn weights_of_samples_are_those_of_their_mean() {
        let (rois, sampling) = ([0.5, 0.0, 3.0, 3.5], Sampling { ratio: 0, half_pixel: true });
        let (mut mean, mut rows, mut columns) = ([0.0; 2], [0.0; 3], [0.0; 6]);
        assert_eq!(roi_align_average(&X, &rois, &[0], &mut mean, REGIONS, sampling), Ok(()));
        roi_align_weights(&rois, &mut rows, REGIONS, sampling, 0);
        roi_align_weights(&rois, &mut columns, REGIONS, sampling, 1);
        for (mean, columns) in mean.iter().zip(columns.chunks(3)) {
            let row = |x: &[f32]| x.iter().zip(columns).map(|(x, w)| x * w).sum::<f32>();
            let sum: f32 = X.chunks(3).zip(&rows).map(|(x, w)| row(x) * w).sum();
            assert!((mean - sum).abs() < 1e-5, "{mean} {sum}");
        }
    }

    #[test]
    fn parts_of_a_region_may_share_elements() {
        let mut y = [0.0; 4];
        let rois = [0.0, 0.0, 0.0, 2.0, 1.0, 0.0, 5.0, 5.0, 9.0, 9.0];
        assert_eq!(max_roi_pool(&X, &rois, &mut y, REGIONS), Ok(()));
        assert_eq!(y, [5.0, 6.0, 0.0, 0.0]);
        assert!(max_roi_pool(&X, &[3.0; 5], &mut y[..2], REGIONS).is_err());
        let mut places = [0; 4];
        assert_eq!(max_roi_places(&X, &rois, &mut places, REGIONS), Ok(()));
        assert_eq!(places, [4, 5, 9, 9]);
        let mut places = [0; 2];
        assert_eq!(max_roi_places(&[1.0; 9], &rois[..5], &mut places, REGIONS), Ok(()));
        assert_eq!(places, [0, 1], "the first of equals");
    }
}
