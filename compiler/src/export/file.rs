//! Writes model files.

use super::{LARGEST_FILE, move_out};
use crate::{
    diag::Result,
    file::{self, Replacement, write_if_changed},
    import::{self, print},
};
use onnxc_proto::{Message, ModelProto};
use std::path::Path;

/// Writes a model to a file: in ONNX's textual syntax if its name ends in `.onnxtxt`, else in the
/// binary format. Weights that do not fit into one file go to a second file beside it, with the
/// same name and the extension `.data`.
///
/// ```no_run
/// # fn main() -> Result<(), onnxc::diag::Diagnostics> {
/// # let graph = onnxc::ir::Graph::named("g");
/// onnxc::export::write(onnxc::export::model(&graph)?, "model.onnx".as_ref())?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Returns an error if a file cannot be written, if `to` cannot have a file of weights beside it,
/// or if the model has no form in the textual syntax.
pub fn write(mut model: ModelProto, to: &Path) -> Result {
    if to.extension().is_some_and(|end| end == "onnxtxt") {
        let text = print::model(&model, usize::MAX);
        // What cannot be read again is not written.
        import::decode(text.clone().into())?;
        return write_if_changed(to, text.as_bytes());
    }
    let name = to.with_extension("data");
    let name = name.file_name().unwrap_or_default().to_string_lossy();
    let weights = move_out(&mut model, &name, LARGEST_FILE).map(|weights| {
        let beside = file::beside(to, &name)?;
        Replacement::of(&beside, |out| weights.write(out))
    });
    let weights = weights.transpose()?;
    let model = Replacement::of(to, |out| out.write_all(&model.encode_to_vec()))?;
    // Both files are complete by now, so only a crash between two renames can separate them.
    weights.into_iter().chain([model]).try_for_each(Replacement::put)
}
