//! Reads tensors stored in files of their own, and nothing outside the model's directory.

use crate::diag::{Code, Diagnostic, Result, quoted};
use bytes::Bytes;
use onnxc_proto::TensorProto;
use std::{
    cell::RefCell,
    collections::BTreeSet,
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::{Component, Path, PathBuf},
};

/// The directory of a model, and which of its files were read.
#[derive(Default)]
pub struct Files {
    directory: Option<PathBuf>,
    read: RefCell<BTreeSet<PathBuf>>,
}

impl Files {
    /// The files beside a model in `directory`.
    pub fn within(directory: Option<PathBuf>) -> Files {
        Files { directory, read: RefCell::default() }
    }

    /// No files: every external tensor is a finding.
    pub fn none() -> Files {
        Files::default()
    }

    /// The files that were read, relative to the model's directory.
    pub fn into_read(self) -> Vec<PathBuf> {
        self.read.into_inner().into_iter().collect()
    }

    /// The raw data of a tensor, which must be `len` bytes.
    pub fn read(&self, proto: &TensorProto, len: usize) -> Result<Bytes> {
        let field = |key: &str| {
            let mut entries = proto.external_data.iter();
            entries.find(|entry| entry.key() == key).map(|entry| entry.value())
        };
        let location = field("location").unwrap_or_default();
        self.part(location, field("offset"), field("length"), len)
            .map_err(|finding| finding.within(format!("external data {}", quoted(location))))
    }

    fn part(
        &self,
        location: &str,
        offset: Option<&str>,
        length: Option<&str>,
        len: usize,
    ) -> Result<Bytes> {
        let number = |text: Option<&str>| text.map(|text| text.parse::<u64>()).transpose();
        let bad_number = |_| bad("`offset` and `length` must be whole numbers");
        let offset = number(offset).map_err(bad_number)?.unwrap_or(0);
        let length = number(length).map_err(bad_number)?;
        if length.is_some_and(|length| length != len as u64) {
            return Err(bad(&format!("`length` differs from the tensor's {len} bytes")));
        }
        let mut file = self.open(location)?;
        let size = file.metadata().map_err(io)?.len();
        if offset.checked_add(len as u64).is_none_or(|end| end > size) {
            return Err(bad(&format!("the file has {size} bytes, too few for {len} at {offset}")));
        }
        let mut data = vec![0; len];
        file.seek(SeekFrom::Start(offset)).map_err(io)?;
        file.read_exact(&mut data).map_err(io)?;
        Ok(data.into())
    }

    /// Opens a regular file inside the directory, reached through no link.
    fn open(&self, location: &str) -> Result<File> {
        let Some(directory) = &self.directory else {
            return Err(bad("the model was given without a directory"));
        };
        let path = Path::new(location);
        let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        if location.is_empty() || !inside || location.contains(['\\', ':', '\0']) {
            return Err(bad("`location` must be a path inside the model's directory"));
        }
        let mut step = directory.clone();
        for part in path.components() {
            step.push(part);
            let found = std::fs::symlink_metadata(&step).map_err(io)?;
            if found.is_symlink() {
                return Err(bad("`location` leads through a symbolic link"));
            }
        }
        let file = File::open(&step).map_err(io)?;
        let found = file.metadata().map_err(io)?;
        if !found.is_file() || !is_only_name(&found, &step) {
            return Err(bad("`location` must be a regular file with one name"));
        }
        self.read.borrow_mut().insert(path.to_owned());
        Ok(file)
    }
}

/// Whether the opened file is the one at `path` still, and has no second name elsewhere.
#[cfg(unix)]
fn is_only_name(opened: &std::fs::Metadata, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let same = |found: std::fs::Metadata| {
        (found.dev(), found.ino()) == (opened.dev(), opened.ino()) && !found.is_symlink()
    };
    opened.nlink() == 1 && std::fs::symlink_metadata(path).is_ok_and(same)
}

#[cfg(not(unix))]
fn is_only_name(_: &std::fs::Metadata, path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| !found.is_symlink())
}

fn bad(what: &str) -> Diagnostic {
    Diagnostic::new(Code::BadExternalData, what)
}

fn io(error: std::io::Error) -> Diagnostic {
    bad(&error.to_string())
}
