//! Fuzz targets. Each takes bytes and panics on a fault: cargo-fuzz guides the bytes by coverage,
//! and the program `drive` makes them up on any toolchain.
//!
//! | target | bytes | what must hold |
//! |---|---|---|
//! | [`model`] | a model, binary or text | no panic; the module parses as Rust |
//! | [`mutant`] | choices of seeds and changes | the above; all ways to compile it agree |
//! | [`gradient`] | choices of seeds and changes | gradients are those of finite differences |
//! | [`tensor`] | a tensor, sequence, optional or map | no panic; it is written as it was read |
//! | [`numpy`] | a `.npy` or `.npz` file | no panic; an array is written as it was read |
//! | [`safetensors`] | variables in a file | no panic; a file that is refused changes nothing |
//! | [`external`] | entries of external data, and a file | no panic; nothing outside is read |
//! | [`api`] | calls of the runtime library | they do what a simple copy of the state says |

// The readers of the `onnxc` program, which are not part of its library.
#[path = "../../compiler/src/cli/npy.rs"]
pub mod npy;
#[path = "../../compiler/src/cli/npz.rs"]
pub mod npz;
// The samples of `onnxc ops`.
#[path = "../../compiler/src/cli/ops/facts.rs"]
pub mod facts;
#[path = "../../compiler/src/cli/ops/sample.rs"]
pub mod sample;

pub mod api;
pub mod choices;
pub mod external;
pub mod gradient;
pub mod model;
pub mod mutant;
pub mod numpy;
pub mod oracle;
pub mod random;
pub mod safetensors;
pub mod seeds;
pub mod tensor;

/// A target: its name, and the function that takes the bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 8] = [
    ("model", model::run),
    ("mutant", mutant::run),
    ("gradient", gradient::run),
    ("tensor", tensor::run),
    ("external", external::run),
    ("numpy", numpy::run),
    ("safetensors", safetensors::run),
    ("api", api::run),
];
