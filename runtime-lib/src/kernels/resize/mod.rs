//! `Resize` and `Upsample`: axes made longer or shorter.
//!
//! Axes are resized one after another. Where the places of each lie on the original axis stands in
//! tables, which are written once and serve for all lines along it.

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

/// What stands in a table for a place that lies outside of the original axis.
const OUTSIDE: i64 = -1;
