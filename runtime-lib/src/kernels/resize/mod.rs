//! `Resize` and `Upsample`.
//!
//! Axes are resized one after another. A table maps the outputs of an axis to its inputs; it is
//! computed once and serves all lines along the axis.

mod interpolate;
mod nearest;
mod sizes;
mod table;

pub use interpolate::{Resample, interpolate, interpolate_whole};
pub use nearest::{Picked, nearest, repeat};
pub use sizes::{
    Fit, fitted_scale, fitted_scales, fitted_sizes, given_sizes, scaled_size, scaled_sizes, widen,
};
pub use table::{Coordinates, Curve, Filter, Line, Rounding, filter_table, nearest_table};

/// The index in a table for an output outside of the original axis.
const OUTSIDE: i64 = -1;
