//! The geometry of resizing, sampling, and regions of images.

use crate::{
    dim::Dim,
    plan::formula::{choices, formulas},
};
use onnxc_runtime::kernels::{nms, resize, roi, sample};

formulas! {
    /// A resized axis and the original one.
    "kernels::resize::Line" Line: resize::Line {
        from: Dim,
        to: Dim,
        at: usize,
        axes: usize,
        coordinates: resize::Coordinates,
    }

    /// An interpolation filter.
    "kernels::resize::Filter" Filter: resize::Filter {
        curve: resize::Curve,
        a: f32,
        antialias: bool,
        exclude_outside: bool,
    }

    /// Axes that are resized with tables of indices.
    "kernels::resize::Picked" Picked: resize::Picked<'a> {
        planes: Dim,
        from: Vec<Dim>,
        to: Vec<Dim>,
        inner: Dim,
    }

    /// Axes that are resized with tables of weights.
    "kernels::resize::Resample" Resample: resize::Resample<'a> {
        planes: Dim,
        from: Vec<Dim>,
        to: Vec<Dim>,
        axes: Vec<usize>,
        taps: Vec<Dim>,
        inner: Dim,
    }

    /// Images and sampling grids.
    "kernels::sample::Images" Images: sample::Images<'a> {
        batch: Dim,
        channels: Dim,
        sizes: Vec<Dim>,
        points: Dim,
        align_corners: bool,
        padding: sample::Padding,
    }

    /// Images and regions.
    "kernels::roi::Regions" Regions: roi::Regions {
        batch: Dim,
        channels: Dim,
        image: [Dim; 2],
        out: [usize; 2],
        scale: f32,
    }

    /// The sampling of a region.
    "kernels::roi::Sampling" Sampling: roi::Sampling {
        ratio: usize,
        half_pixel: bool,
    }

    /// The numbers of images, classes and boxes.
    "kernels::nms::Boxes" Boxes: nms::Boxes {
        images: Dim,
        classes: Dim,
        boxes: Dim,
    }
}

choices! {
    resize::Coordinates: "kernels::resize::Coordinates" as "Coordinates";
    resize::Fit: "kernels::resize::Fit" as "Fit";
    resize::Curve: "kernels::resize::Curve" as "Curve";
    resize::Rounding: "kernels::resize::Rounding" as "Rounding";
    sample::Padding: "kernels::sample::Padding" as "Padding";
}
