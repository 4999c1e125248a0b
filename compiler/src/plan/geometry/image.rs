//! The geometries of images that are resized and sampled, and of boxes on them.

use crate::{
    dim::Dim,
    plan::{Field, Symbols, formula::formulas},
};
use onnxc_runtime::{nms, resize, roi, sample};

formulas! {
    /// A resized axis and the original one.
    "resize::Line" Line: resize::Line {
        from: Dim,
        to: Dim,
        at: usize,
        axes: usize,
        coordinates: resize::Coordinates,
    }

    /// What an interpolated element is made of.
    "resize::Filter" Filter: resize::Filter {
        curve: resize::Curve,
        a: f32,
        antialias: bool,
        exclude_outside: bool,
    }

    /// Axes whose elements are picked by tables.
    "resize::Picked" Picked: resize::Picked<'a> {
        planes: Dim,
        from: Vec<Dim>,
        to: Vec<Dim>,
        inner: Dim,
    }

    /// Axes that are resized with tables of weights.
    "resize::Resample" Resample: resize::Resample<'a> {
        planes: Dim,
        from: Vec<Dim>,
        to: Vec<Dim>,
        axes: Vec<usize>,
        taps: Vec<Dim>,
        inner: Dim,
    }

    /// Images and grids of places on them.
    "sample::Images" Images: sample::Images<'a> {
        batch: Dim,
        channels: Dim,
        sizes: Vec<Dim>,
        points: Dim,
        align_corners: bool,
        padding: sample::Padding,
    }

    /// Images and regions of them.
    "roi::Regions" Regions: roi::Regions {
        batch: Dim,
        channels: Dim,
        image: [Dim; 2],
        out: [usize; 2],
        scale: f32,
    }

    /// How samples of a region are taken.
    "roi::Sampling" Sampling: roi::Sampling {
        ratio: usize,
        half_pixel: bool,
    }

    /// Boxes in several images.
    "nms::Boxes" Boxes: nms::Boxes {
        images: Dim,
        classes: Dim,
        boxes: Dim,
    }
}

/// Enums without fields: the source is the variant's name.
macro_rules! choices {
    ($($path:literal $name:literal $T:ty;)*) => {$(
        impl Field for $T {
            type Number = $T;
            type Given<'a> = $T;

            fn source(&self) -> String {
                format!("{}::{self:?}", $name)
            }

            fn uses(&self, paths: &mut Vec<&'static str>) {
                paths.push($path);
            }

            fn number(&self, _: &Symbols<'_>) -> $T {
                *self
            }

            fn give(number: &$T) -> $T {
                *number
            }
        }
    )*};
}

choices! {
    "resize::Coordinates" "Coordinates" resize::Coordinates;
    "resize::Fit" "Fit" resize::Fit;
    "resize::Curve" "Curve" resize::Curve;
    "resize::Rounding" "Rounding" resize::Rounding;
    "sample::Padding" "Padding" sample::Padding;
}
