//! Values in files of their own.

use super::npy;
use onnxc::{
    diag::{Code, Diagnostic, Result},
    export::{self, LARGEST_FILE},
    file,
    import::{self, print},
    value::Value,
    write_if_changed,
};
use onnxc_proto::{Bytes, Message, ModelProto, TypeProto};
use std::{fs, io::BufWriter, path::Path};

/// The formats of such files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// NumPy's
    Npy,
    /// ONNX's TensorProto, or what it has for other values
    Pb,
}

impl Format {
    /// How the names of such files end.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Npy => "npy",
            Format::Pb => "pb",
        }
    }
}

/// The bytes of a file.
pub fn bytes(path: &Path) -> Result<Bytes> {
    file::read(path)
        .map_err(|error| Diagnostic::new(Code::Io, error.to_string()).within(place(path)))
}

/// The value in a file, whose name says the format: in `.pb` it is of the type given, or a tensor.
pub fn read(path: &Path, ty: Option<&TypeProto>) -> Result<Value> {
    let bytes = bytes(path)?;
    let value = match path.extension().and_then(|end| end.to_str()) {
        Some("npy") => npy::read(&bytes).map(Value::Tensor),
        Some("pb") => import::value::read(bytes, ty),
        _ => Err(Diagnostic::new(Code::BadOption, "the name must end in `.npy` or `.pb`")),
    };
    value.map_err(|finding| finding.within(place(path)))
}

/// Writes a value to a file.
pub fn write(path: &Path, name: &str, value: &Value, format: Format) -> Result {
    let bytes = match format {
        Format::Npy => npy(value).map_err(|finding| finding.within(place(path)))?,
        Format::Pb => import::value::write(value, name),
    };
    write_if_changed(path, &bytes)
}

/// Writes a model, as text where the name says so; what does not fit into one file goes beside it.
pub fn write_model(to: &Path, model: &mut ModelProto) -> Result {
    let io = |error: std::io::Error| Diagnostic::new(Code::Io, error.to_string()).within(place(to));
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(io)?;
    }
    if to.extension().is_some_and(|end| end == "onnxtxt") {
        return write_if_changed(to, print::model(model, usize::MAX).as_bytes());
    }
    let beside = to.with_extension("data");
    let location = beside.file_name().unwrap_or_default().to_string_lossy();
    if let Some(weights) = export::move_out(model, &location, LARGEST_FILE) {
        let file = fs::File::create(&beside).map_err(io)?;
        weights.write(&mut BufWriter::new(file)).map_err(io)?;
    }
    write_if_changed(to, &model.encode_to_vec())
}

fn npy(value: &Value) -> Result<Vec<u8>> {
    let tensor = value.tensor().ok_or_else(|| {
        let message = format!("NumPy's format does not hold {}", value.kind());
        Diagnostic::new(Code::BadOption, message).help("say `--format pb`")
    })?;
    npy::write(tensor)
}

fn place(path: &Path) -> String {
    path.display().to_string()
}
