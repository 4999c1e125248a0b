//! Reads and writes values in files of their own.

use super::npy;
use onnxc::{
    diag::{Code, Diagnostic, Result},
    export, file,
    import::{self, print},
    value::Value,
    write_if_changed,
};
use onnxc_proto::{Bytes, ModelProto, TypeProto};
use std::path::Path;

/// Returns the error for two models that would be written to one file.
pub fn same_output(to: &Path, first: &Path, second: &Path) -> Diagnostic {
    Diagnostic::new(Code::BadOption, "two models would be written to one file")
        .note(format!("{} and {}", first.display(), second.display()))
        .help("write them to different folders")
        .within(to.display().to_string())
}

/// The formats of value files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// NumPy's
    Npy,
    /// ONNX's TensorProto, or its message for another value
    Pb,
}

impl Format {
    /// The extension of the file names.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Npy => "npy",
            Format::Pb => "pb",
        }
    }
}

/// Returns whether the path of an output stands for standard output.
pub fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes a text to a file or to standard output.
pub fn write_text(path: &Path, text: &str) -> Result {
    if !is_standard_output(path) {
        return write_if_changed(path, text.as_bytes());
    }
    out!("{text}");
    Ok(())
}

/// Writes a model to a file, or as text to standard output.
pub fn write_model(path: &Path, model: ModelProto) -> Result {
    if !is_standard_output(path) {
        return export::write(model, path);
    }
    let text = print::model(&model, usize::MAX);
    // What cannot be read again is not written.
    import::decode(text.clone().into())?;
    out!("{text}");
    Ok(())
}

/// Checks that a file at `to` would not replace the model at `model`, or a file with its external
/// data.
pub fn keep_model(to: &Path, model: &Path, bytes: &Bytes) -> Result {
    file::keep_sources(to, [model.to_owned()])?;
    keep_external_data(to, model, bytes)
}

/// Checks that a file at `to` would not replace one with the external data of the model at `model`.
pub fn keep_external_data(to: &Path, model: &Path, bytes: &Bytes) -> Result {
    let message = import::decode(bytes.clone())?;
    let files = import::external_files(&message);
    file::keep_sources(to, files.into_iter().map(|file| model.with_file_name(file)))
}

/// Reads a file.
pub fn bytes(path: &Path) -> Result<Bytes> {
    file::read(path).map_err(file::unreadable(path))
}

/// Reads a value in the format of the file's extension. In `.pb` it has type `ty`, or is a tensor
/// without one.
pub fn read(path: &Path, ty: Option<&TypeProto>) -> Result<Value> {
    let value = match path.extension().and_then(|end| end.to_str()) {
        Some("npy") => npy::read(&bytes(path)?).map(Value::Tensor),
        Some("pb") => import::value::read(bytes(path)?, ty),
        _ => {
            let message = "values are read from files whose names end in `.npy` or `.pb`";
            Err(Diagnostic::new(Code::BadOption, message).help(npy::SAVE))
        }
    };
    value.map_err(|diagnostic| diagnostic.within(place(path)))
}

/// Writes a value to a file.
pub fn write(path: &Path, name: &str, value: &Value, format: Format) -> Result {
    let bytes = match format {
        Format::Npy => npy(value).map_err(|diagnostic| diagnostic.within(place(path)))?,
        Format::Pb => import::value::write(value, name),
    };
    write_if_changed(path, &bytes)
}

fn npy(value: &Value) -> Result<Vec<u8>> {
    let tensor = value.tensor().ok_or_else(|| {
        let message = format!("NumPy's format does not hold {}", value.kind());
        Diagnostic::new(Code::BadOption, message).help("use `--format pb`")
    })?;
    npy::write(tensor)
}

fn place(path: &Path) -> String {
    path.display().to_string()
}
