//! Models in files.

use super::{LARGEST_FILE, move_out};
use crate::{
    diag::{Code, Diagnostic, Result},
    file::write_if_changed,
    import::print,
};
use onnxc_proto::{Message, ModelProto};
use std::{
    fs::{self, File},
    io::{self, BufWriter},
    path::Path,
};

/// Writes a model to a file: in ONNX's textual syntax where its name ends in `.onnxtxt`, else in the
/// binary format. Weights that do not fit into one file go into another one beside it, of the same
/// name but for the end, `.data`.
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
/// Where the system refuses.
pub fn write(mut model: ModelProto, to: &Path) -> Result {
    let refused = |error: io::Error| {
        Diagnostic::new(Code::Io, error.to_string()).within(to.display().to_string())
    };
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(refused)?;
    }
    if to.extension().is_some_and(|end| end == "onnxtxt") {
        return write_if_changed(to, print::model(&model, usize::MAX).as_bytes());
    }
    let beside = to.with_extension("data");
    let location = beside.file_name().unwrap_or_default().to_string_lossy();
    if let Some(weights) = move_out(&mut model, &location, LARGEST_FILE) {
        let file = File::create(&beside).map_err(refused)?;
        weights.write(&mut BufWriter::new(file)).map_err(refused)?;
    }
    write_if_changed(to, &model.encode_to_vec())
}
