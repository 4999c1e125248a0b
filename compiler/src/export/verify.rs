//! Checks models before they are written.

use crate::{
    check,
    diag::{Code, Diagnostic, Result},
    import::{self, Settings},
};
use onnxc_proto::ModelProto;

/// Checks a model that is about to be written, as `onnxc check` does. Parts that onnxc cannot
/// compile are no errors.
///
/// # Errors
///
/// Returns an error that lists the violations of the ONNX specification.
pub fn verify(model: &ModelProto) -> Result {
    let imported = import::graph(model, &check::model(model), &Settings::default());
    let found = imported.map_or_else(|all| all.0, |imported| imported.warnings);
    // Types that no version of an operator has are those of the model that was read.
    let is_own = |one: &Diagnostic| !one.is_error() && one.code == Code::TypeMismatch;
    let mut violations = found.iter().filter(|one| one.code.is_invalidity() && !is_own(one));
    let Some(first) = violations.next() else { return Ok(()) };
    let error = Diagnostic::new(Code::Internal, "the file that would be written is not valid");
    let error = violations
        .fold(error.note(first.to_string()), |error, violation| error.note(violation.to_string()));
    Err(error.help("nothing was written: please report this with the model"))
}
