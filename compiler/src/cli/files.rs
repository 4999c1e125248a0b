//! Tensors in files of their own.

use super::npy;
use onnxc::{
    diag::{Code, Diagnostic, Result},
    import,
    tensor::Tensor,
    write_if_changed,
};
use onnxc_proto::{Bytes, Message, TensorProto};
use std::{fs, path::Path};

/// The formats of such files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// NumPy's
    Npy,
    /// ONNX's TensorProto
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
    let read = fs::read(path).map(Bytes::from);
    read.map_err(|error| Diagnostic::new(Code::Io, error.to_string()).within(place(path)))
}

/// The tensor in a file, whose name says the format.
pub fn read(path: &Path) -> Result<Tensor> {
    let bytes = bytes(path)?;
    let tensor = match path.extension().and_then(|end| end.to_str()) {
        Some("npy") => npy::read(&bytes),
        Some("pb") => pb(bytes),
        _ => Err(Diagnostic::new(Code::BadOption, "the name must end in `.npy` or `.pb`")),
    };
    tensor.map_err(|finding| finding.within(place(path)))
}

/// Writes a tensor to a file.
pub fn write(path: &Path, name: &str, tensor: &Tensor, format: Format) -> Result {
    let bytes = match format {
        Format::Npy => npy::write(tensor).map_err(|finding| finding.within(place(path)))?,
        Format::Pb => import::proto(tensor, name).encode_to_vec(),
    };
    write_if_changed(path, &bytes)
}

fn pb(bytes: Bytes) -> Result<Tensor> {
    let proto = TensorProto::decode(bytes)
        .map_err(|error| Diagnostic::new(Code::BadTensor, error.to_string()))?;
    import::alone(&proto)
}

fn place(path: &Path) -> String {
    path.display().to_string()
}
