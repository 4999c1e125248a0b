//! A compilation has the same bytes on every processor: constants are folded and packed at one SIMD
//! level.

use crate::{
    emitted,
    programs::{onnxc, scratch},
};
use std::{fs, path::Path};

/// Folds a matmul, a convolution, reductions and functions of constants, and packs weights.
const MODEL: &str = r#"<ir_version: 10, opset_import: ["" : 21]>
    folded (float[2, 64] v, float[1, 16, 10, 10] x) => (product, image, sums)
    <int64 zero = {0}, int64 one = {1}, int64 count = {4096}, int64[2] square = {64, 64},
     int64[4] filters = {16, 16, 4, 4}, int64[1] last = {-1}, float scale = {0.37}>
    {
        indices = Range (zero, count, one)
        numbers = Cast <to = 1> (indices)
        scaled = Mul (numbers, scale)
        waves = Sin (scaled)
        w = Reshape (waves, square)
        squared = MatMul (w, w)
        probabilities = Softmax (squared)
        curved = Tanh (squared)
        bent = Erf (w)
        grown = Exp (bent)
        mixed = Add (curved, grown)
        norm = ReduceL2 (mixed, last)
        shares = Div (mixed, norm)
        kernel = Reshape (waves, filters)
        steep = Sigmoid (kernel)
        own = Conv <pads = [1, 1, 1, 1]> (kernel, steep)
        mean = GlobalAveragePool (own)
        image_weights = Mul (steep, mean)
        spread = MatMul (probabilities, shares)
        product = MatMul (v, spread)
        image = Conv (x, image_weights)
        sums = ReduceLogSumExp (spread, last)
    }"#;

/// The levels other than the portable one.
const LEVELS: [&str; 4] = ["avx2", "avx512", "amx", "neon"];

/// Compiles a model at a level. Returns the module and, if they are in a file, the weights.
fn compile(
    model: &Path,
    directory: &Path,
    level: &str,
    options: &[&str],
) -> (Vec<u8>, Option<Vec<u8>>) {
    let module = directory.join("folded.rs");
    let mut command = onnxc();
    command.arg(model).arg("-o").arg(&module).args(options).env("ONNXC_SIMD", level);
    let output = command.output().expect("the program was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let code = fs::read(&module).expect("the program wrote the file");
    (code, fs::read(module.with_extension("weights")).ok())
}

/// Compares what a model is compiled to at the levels.
fn check(model: &Path, directory: &Path, levels: &[&str], options: &[&str]) {
    let portable = compile(model, directory, "portable", options);
    for level in levels {
        let (module, weights) = compile(model, directory, level, options);
        let what = format!("{} {options:?} at {level}", model.display());
        assert!(module == portable.0, "{what}: the module differs");
        assert!(weights == portable.1, "{what}: the weights differ");
    }
}

#[test]
fn constants_have_the_same_bits_at_every_simd_level() {
    let directory = scratch("levels");
    let model = directory.join("folded.onnxtxt");
    fs::write(&model, MODEL).expect("the scratch directory is writable");
    let options: [&[&str]; 4] =
        [&[], &["--optimize", "size"], &["--precision", "int8-weights"], &["--precision", "bf16"]];
    for options in options {
        check(&model, &directory, &LEVELS, options);
    }
}

/// `tests/same_bytes` compares more models, and programs.
#[test]
fn checked_in_models_have_the_same_bytes_at_the_best_simd_level() {
    for (i, (model, options)) in emitted::models().into_iter().enumerate() {
        let directory = scratch(&format!("levels_of_models/{i}"));
        check(&model, &directory, &["amx"], options);
    }
}
