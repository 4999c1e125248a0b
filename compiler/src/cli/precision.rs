//! Reports the error of reduced weight precision.

use super::bench::inputs;
use onnxc::{
    Options, Precision,
    diag::{Code, Diagnostic, Diagnostics},
    interpreter,
    plan::Plan,
};
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
    let effects = interpreter::measure_errors(exact, narrow, &inputs)
        .map_err(|error| Diagnostic::new(Code::Internal, error.to_string()))?;
    for effect in effects {
        eprintln!("{}: off by {:.1e} of its largest element", effect.output, effect.error);
    }
    Ok(())
}
