//! Reports the error of reduced weight precision.

use super::bench::inputs;
use onnxc::{Options, Precision, diag::Diagnostics, interpreter, plan::Plan};
use std::path::Path;

/// Runs a model with full and with reduced precision, on the data set beside it or on random
/// inputs, and prints the error of each output.
pub fn print(model: &Path, options: &Options, narrow: &Plan) -> Result<(), Diagnostics> {
    let mut full = options.clone();
    full.precision = Precision::Full;
    let exact = onnxc::Compiler::new(&full).compile(model)?;
    let exact = exact.plans.infer();
    eprintln!("{} bytes of weights instead of {}", narrow.weight_bytes, exact.weight_bytes);
    let inputs = match inputs::of(model, &[], exact) {
        Ok(inputs) => inputs,
        Err(_) => {
            eprintln!("the error of the outputs is not known: inputs have free sizes");
            return Ok(());
        }
    };
    // The model may refuse random inputs.
    match interpreter::measure_errors(exact, narrow, &inputs) {
        Err(error) => eprintln!("the error of the outputs is not known: {error}"),
        Ok(effects) => effects.iter().for_each(|effect| {
            eprintln!("{}: off by {:.1e} of its largest element", effect.output, effect.error);
        }),
    }
    Ok(())
}
