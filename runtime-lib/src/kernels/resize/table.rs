//! Tables that map a resized axis to the original one.

use super::OUTSIDE;
use crate::Float;
use crate::Number;
use crate::loops::index::number;

/// The `coordinate_transformation_mode`: maps an output index `j` to a coordinate of the original
/// axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinates {
    /// `(j + ½) / scale - ½`.
    HalfPixel,
    /// [`HalfPixel`](Coordinates::HalfPixel), with the centers of both axes aligned.
    HalfPixelSymmetric,
    /// [`HalfPixel`](Coordinates::HalfPixel), but 0 for an output of size 1.
    PytorchHalfPixel,
    /// The first and the last elements of both axes coincide.
    AlignCorners,
    /// `j / scale`.
    Asymmetric,
    /// `(j + ½) / scale`.
    TfHalfPixelForNn,
    /// The first and the last elements are at the ends of the region of interest.
    TfCropAndResize,
}

/// The `nearest_mode`: rounds a coordinate to an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Rounds down.
    Floor,
    /// Rounds up.
    Ceil,
    /// Rounds to nearest, halves down.
    PreferFloor,
    /// Rounds to nearest, halves up.
    PreferCeil,
}

/// A resized axis and the original one.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The size of the original axis.
    pub from: usize,
    /// The size of the resized axis.
    pub to: usize,
    /// The index of the axis's scale among the scales.
    pub at: usize,
    /// The number of axes that have a scale.
    pub axes: usize,
    /// The coordinate transformation.
    pub coordinates: Coordinates,
}

/// An interpolation filter.
#[derive(Clone, Copy, Debug)]
pub struct Filter {
    /// The kernel function.
    pub curve: Curve,
    /// The parameter `a` of the cubic kernel.
    pub a: f32,
    /// Whether the filter widens when the axis shrinks.
    pub antialias: bool,
    /// Whether elements outside of the axis have weight zero, or else repeat the ends.
    pub exclude_outside: bool,
}

/// The kernel function of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// Linear; zero from distance 1 on.
    Linear,
    /// Cubic; zero from distance 2 on.
    Cubic,
}

impl Curve {
    /// Returns the distance from which on weights are zero.
    pub const fn support(self) -> u8 {
        match self {
            Curve::Linear => 1,
            Curve::Cubic => 2,
        }
    }
}

impl Filter {
    /// Returns the greatest number of elements of an output.
    pub fn taps(self, scale: f64) -> usize {
        let reach = Float::ceil(f64::from(self.curve.support()) / self.shrinking(scale));
        usize::try_from(u64::from_f64(2.0 * reach)).unwrap_or(usize::MAX)
    }

    /// Returns the scale if it widens the filter, and 1 otherwise.
    fn shrinking(self, scale: f64) -> f64 {
        if self.antialias { scale.min(1.0) } else { 1.0 }
    }

    /// Returns the weight of an element at a distance.
    fn weight(self, distance: f64) -> f64 {
        let (x, a) = (distance.abs(), f64::from(self.a));
        match self.curve {
            Curve::Linear => (1.0 - x).max(0.0),
            Curve::Cubic if x <= 1.0 => ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
            Curve::Cubic if x < 2.0 => ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
            Curve::Cubic => 0.0,
        }
    }
}

/// The mapping between two axes, in `f64`.
struct Mapping {
    coordinates: Coordinates,
    scale: f64,
    /// The sizes of the axes.
    from: f64,
    to: f64,
    /// The size of the resized axis before rounding.
    width: f64,
    /// The region of interest.
    start: f64,
    end: f64,
}

impl Line {
    fn mapping(self, scales: Option<&[f64]>, roi: Option<&[f64]>) -> Mapping {
        let (from, to) = (number::<f64>(self.from), number::<f64>(self.to));
        let (scale, width) = match scales {
            Some(scales) => (scales[self.at], scales[self.at] * from),
            None => (to / from, to),
        };
        let [start, end] = roi.map_or([0.0, 1.0], |roi| [roi[self.at], roi[self.axes + self.at]]);
        Mapping { coordinates: self.coordinates, scale, from, to, width, start, end }
    }
}

impl Mapping {
    /// Maps an output index to a coordinate of the original axis.
    fn place(&self, j: f64) -> f64 {
        let Mapping { scale, from, to, width, start, end, .. } = *self;
        let half_pixel = (j + 0.5) / scale - 0.5;
        match self.coordinates {
            Coordinates::HalfPixel => half_pixel,
            Coordinates::HalfPixelSymmetric => from / 2.0 * (1.0 - to / width) + half_pixel,
            Coordinates::PytorchHalfPixel if to <= 1.0 => 0.0,
            Coordinates::PytorchHalfPixel => half_pixel,
            Coordinates::AlignCorners if width <= 1.0 => 0.0,
            Coordinates::AlignCorners => j * (from - 1.0) / (width - 1.0),
            Coordinates::Asymmetric => j / scale,
            Coordinates::TfHalfPixelForNn => (j + 0.5) / scale,
            Coordinates::TfCropAndResize if to <= 1.0 => 0.5 * (start + end) * (from - 1.0),
            Coordinates::TfCropAndResize => {
                j * (end - start) * (from - 1.0) / (width - 1.0) + start * (from - 1.0)
            }
        }
    }

    /// Returns whether a coordinate is outside of the original axis.
    fn is_outside(&self, x: f64) -> bool {
        let cropped = self.coordinates == Coordinates::TfCropAndResize;
        self.from < 1.0 || cropped && (x < 0.0 || x > self.from - 1.0)
    }
}

/// Rounds a coordinate to an index of an axis of `len` elements.
fn clamped(x: f64, len: usize) -> usize {
    let last = len.saturating_sub(1);
    usize::try_from(u64::from_f64(x)).map_or(last, |place| place.min(last))
}

/// Writes the index of the element for each output. Without `scales`, the scale is the ratio of the
/// sizes.
pub fn nearest_table(
    scales: Option<&[f64]>,
    roi: Option<&[f64]>,
    table: &mut [i64],
    line: Line,
    rounding: Rounding,
) {
    let mapping = line.mapping(scales, roi);
    for (j, place) in table.iter_mut().enumerate() {
        let x = mapping.place(number(j));
        if mapping.is_outside(x) {
            *place = OUTSIDE;
            continue;
        }
        let before = Float::floor(x);
        let nearest = match rounding {
            Rounding::Floor => before,
            Rounding::Ceil => Float::ceil(x),
            Rounding::PreferFloor => before + f64::from(u8::from(x - before > 0.5)),
            Rounding::PreferCeil => before + f64::from(u8::from(x - before >= 0.5)),
        };
        *place = crate::loops::index::signed(clamped(nearest, line.from));
    }
}

/// Writes, for each output, the index of its first element, and as many weights as the table holds.
pub fn filter_table<W: Float>(
    scales: Option<&[f64]>,
    roi: Option<&[f64]>,
    places: &mut [i64],
    weights: &mut [W],
    line: Line,
    filter: Filter,
) {
    weights.fill(W::ZERO);
    let mapping = line.mapping(scales, roi);
    let Some(taps) = weights.len().checked_div(places.len()).filter(|&taps| taps > 0) else {
        return places.fill(OUTSIDE);
    };
    for ((j, place), row) in places.iter_mut().enumerate().zip(weights.chunks_exact_mut(taps)) {
        let x = mapping.place(number(j));
        if mapping.is_outside(x) {
            *place = OUTSIDE;
            continue;
        }
        let shrinking = filter.shrinking(mapping.scale);
        let reach = Float::ceil(f64::from(filter.curve.support()) / shrinking);
        let first = Float::floor(x) - reach + 1.0;
        let start = clamped(first, (line.from + 1).saturating_sub(taps));
        *place = crate::loops::index::signed(start);
        let mut sum = 0.0;
        for tap in 0..filter.taps(mapping.scale) {
            let tap = first + number::<f64>(tap);
            if filter.exclude_outside && (tap < 0.0 || tap >= mapping.from) {
                continue;
            }
            let weight = filter.weight((tap - x) * shrinking);
            let into = &mut row[clamped(tap, line.from) - start];
            *into = into.add(W::from_f64(weight));
            sum += weight;
        }
        if filter.antialias || filter.exclude_outside {
            // If all weights are zero, so is the sum.
            let sum = W::from_f64(if sum == 0.0 { 1.0 } else { sum });
            row.iter_mut().for_each(|weight| *weight = weight.div(sum));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: Line = Line { from: 4, to: 8, at: 0, axes: 1, coordinates: Coordinates::HalfPixel };
    const LINEAR: Filter =
        Filter { curve: Curve::Linear, a: 0.0, antialias: false, exclude_outside: false };

    fn nearest(line: Line, rounding: Rounding) -> [i64; 8] {
        let mut table = [9; 8];
        nearest_table(None, Some(&[0.25, 1.5]), &mut table[..line.to], line, rounding);
        table
    }

    #[test]
    fn the_nearest_element_depends_on_where_elements_are() {
        assert_eq!(nearest(LINE, Rounding::PreferFloor), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(nearest(LINE, Rounding::Ceil), [0, 1, 1, 2, 2, 3, 3, 3]);
        let asymmetric = Line { coordinates: Coordinates::Asymmetric, ..LINE };
        assert_eq!(nearest(asymmetric, Rounding::PreferFloor), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(nearest(asymmetric, Rounding::PreferCeil), [0, 1, 1, 2, 2, 3, 3, 3]);
        let corners = Line { to: 3, coordinates: Coordinates::AlignCorners, ..LINE };
        assert_eq!(nearest(corners, Rounding::PreferFloor)[..3], [0, 1, 3]);
        let cropped = Line { to: 6, coordinates: Coordinates::TfCropAndResize, ..LINE };
        assert_eq!(nearest(cropped, Rounding::Floor)[..6], [0, 1, 2, 3, -1, -1]);
        let shrunk = Line { to: 2, coordinates: Coordinates::Asymmetric, from: 3, ..LINE };
        assert_eq!(nearest(shrunk, Rounding::Ceil)[..2], [0, 2]);
        assert_eq!(nearest(Line { from: 0, to: 2, ..LINE }, Rounding::Floor)[..2], [-1, -1]);
    }

    #[test]
    fn weights_outside_are_added_to_the_edges() {
        let (mut places, mut weights) = ([9; 8], [9.0f64; 16]);
        filter_table(None, None, &mut places, &mut weights, LINE, LINEAR);
        assert_eq!(places, [0, 0, 0, 1, 1, 2, 2, 2]);
        assert_eq!(weights[..6], [1.0, 0.0, 0.75, 0.25, 0.25, 0.75]);
        assert_eq!(weights[14..], [0.0, 1.0]);
        // A cubic filter on an axis of two elements.
        let line = Line { from: 2, to: 2, ..LINE };
        let cubic = Filter { curve: Curve::Cubic, a: -0.75, ..LINEAR };
        let (mut places, mut weights) = ([9; 2], [9.0f32; 4]);
        filter_table(Some(&[1.0]), None, &mut places, &mut weights, line, cubic);
        assert_eq!((places, weights), ([0, 0], [1.0, 0.0, 0.0, 1.0]));
    }

    #[test]
    fn a_filter_grows_as_an_axis_shrinks() {
        let line = Line { from: 8, to: 2, ..LINE };
        let wide = Filter { antialias: true, ..LINEAR };
        assert_eq!(wide.taps(0.25), 8);
        let (mut places, mut weights) = ([9; 2], [9.0f64; 16]);
        filter_table(None, None, &mut places, &mut weights, line, wide);
        assert_eq!(places, [0, 0]);
        // Distances of ½, 1½, 2½ and 3½ from the center; the last one is outside.
        let times =
            |weights: [f64; 16], factor| weights.map(|weight| Float::round(weight * factor));
        assert_eq!(times(weights, 32.0)[..8], [9.0, 7.0, 7.0, 5.0, 3.0, 1.0, 0.0, 0.0]);
        let alone = Filter { exclude_outside: true, ..wide };
        filter_table(None, None, &mut places, &mut weights, line, alone);
        assert_eq!(times(weights, 28.0)[..8], [5.0, 7.0, 7.0, 5.0, 3.0, 1.0, 0.0, 0.0]);
    }
}
