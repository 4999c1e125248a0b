//! Trained variables in a safetensors file of any bytes.

use onnxc_runtime::{
    arena::InlineArena,
    variable::{Variable, Variables},
};

const VARIABLES: &[Variable] = &[
    Variable::new::<bool>("seen \u{1F600}", "bool", &[2], 0),
    Variable::new::<f32>("w", "float", &[2, 1], 64),
];

/// Returns a valid file.
pub fn example() -> Vec<u8> {
    let mut arena = InlineArena::<2>::new();
    let written = Variables::new(VARIABLES, arena.blocks()).to_safetensors();
    written.expect("the format has the types of the variables")
}

/// Runs the target: a file that is refused changes nothing, and another one is written as it was
/// read.
pub fn run(bytes: &[u8]) {
    let mut arena = InlineArena::<2>::new();
    let mut variables = Variables::new(VARIABLES, arena.blocks());
    let before = variables.to_safetensors();
    if variables.load_safetensors(bytes).is_err() {
        assert!(variables.to_safetensors() == before, "a file that is refused changes variables");
        return;
    }
    let written = variables.to_safetensors().expect("the format has the types of the variables");
    let mut other = InlineArena::<2>::new();
    let mut other = Variables::new(VARIABLES, other.blocks());
    assert_eq!(other.load_safetensors(&written), Ok(()));
    assert!(other.to_safetensors().as_ref() == Ok(&written), "variables change when written");
}
