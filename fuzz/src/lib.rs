//! Fuzz targets. Each takes bytes and panics on a fault: cargo-fuzz guides the bytes by coverage,
//! and the program `drive` makes them up on any toolchain.
//!
//! | target | bytes | what must hold |
//! |---|---|---|
//! | [`model`] | a model, binary or text | no panic; the module parses as Rust |
//! | [`mutant`] | choices of seeds and changes | the above; all ways to compile it agree |
//! | [`tensor`] | a tensor, sequence, optional or map | no panic; it is written as it was read |
//! | [`external`] | entries of external data, and a file | no panic; nothing outside is read |

pub mod choices;
pub mod external;
pub mod model;
pub mod mutant;
pub mod oracle;
pub mod seeds;
pub mod tensor;

/// A target: its name, and the function that takes the bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 4] = [
    ("model", model::run),
    ("mutant", mutant::run),
    ("tensor", tensor::run),
    ("external", external::run),
];
