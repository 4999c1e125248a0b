//! Reads external data from files in the model's directory, and from nowhere else.

mod open;
#[cfg(all(test, unix))]
mod tests;

use crate::{
    diag::{Code, Diagnostic, Diagnostics, Result, quoted},
    file,
};
use bytes::Bytes;
use onnxc_proto::TensorProto;
use sha1_smol::Sha1;
use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeMap, HashSet},
    io,
    path::{Component, Path, PathBuf},
    rc::Rc,
};

/// The directory of a model, and the files in it that were opened.
#[derive(Default)]
pub struct Files {
    directory: Option<PathBuf>,
    opened: RefCell<BTreeMap<PathBuf, Rc<Opened>>>,
    /// The data that tensors have in each file, by the location of diagnostics about it.
    used: RefCell<BTreeMap<String, Used>>,
}

/// The data in one file.
#[derive(Clone, Copy, Default)]
struct Used {
    tensors: usize,
    bytes: u128,
}

/// An opened file, with the contents that it had when it was opened.
struct Opened {
    bytes: Bytes,
    sha1: OnceCell<String>,
}

/// The location of a tensor's data, as the model gives it.
struct Place<'m> {
    location: &'m str,
    offset: u64,
    length: Option<u64>,
    checksum: Option<&'m str>,
}

impl Files {
    /// The files in the model's `directory`.
    pub fn within(directory: Option<PathBuf>) -> Files {
        Files { directory, ..Files::default() }
    }

    /// No files: reading an external tensor is an error.
    pub fn none() -> Files {
        Files::default()
    }

    /// The files that were read, relative to the model's directory.
    pub fn into_read(self) -> Vec<PathBuf> {
        self.opened.into_inner().into_keys().collect()
    }

    /// The raw data of a tensor, which must be `len` bytes. It shares the memory of the file.
    pub fn read(&self, proto: &TensorProto, len: usize) -> Result<Bytes> {
        let place = Place::of(proto)?;
        let shown = format!("external data {}", quoted(place.location));
        let found = self.part(&place, len).map_err(|diagnostic| diagnostic.within(&shown));
        let mut used = self.used.borrow_mut();
        let used = used.entry(shown).or_default();
        used.tensors += 1;
        used.bytes += len as u128;
        found
    }

    /// Merges the diagnostics about the same file: one is kept, with the number of tensors that
    /// have their data there, and its bytes.
    pub fn merge_errors(&self, mut found: Diagnostics) -> Diagnostics {
        let (used, mut seen) = (self.used.borrow(), HashSet::new());
        found.0.retain_mut(|diagnostic| {
            let place = diagnostic.at.last().filter(|_| diagnostic.code == Code::BadExternalData);
            let Some(used) = place.and_then(|place| used.get(place)) else { return true };
            let is_first = seen.insert((diagnostic.at.last().cloned(), diagnostic.message.clone()));
            let bytes = used.bytes;
            diagnostic.notes.push(match used.tensors {
                1 => format!("the data of one tensor ({bytes} bytes) lies in it"),
                count => format!("the data of {count} tensors ({bytes} bytes) lies in it"),
            });
            is_first
        });
        found
    }

    fn part(&self, place: &Place<'_>, len: usize) -> Result<Bytes> {
        if place.length.is_some_and(|length| length != len as u64) {
            return Err(bad(&format!("`length` differs from the tensor's {len} bytes")));
        }
        let file = self.open(place.location)?;
        if let Some(checksum) = place.checksum {
            file.check(checksum)?;
        }
        let size = file.bytes.len();
        let start = usize::try_from(place.offset).ok().filter(|&start| start <= size);
        let end = start.and_then(|start| start.checked_add(len)).filter(|&end| end <= size);
        let (Some(start), Some(end)) = (start, end) else {
            let offset = place.offset;
            return Err(bad(&format!("the file has {size} bytes, too few for {len} at {offset}")));
        };
        Ok(file.bytes.slice(start..end))
    }

    /// Opens the file at `location`. A file is opened once for all tensors in it.
    fn open(&self, location: &str) -> Result<Rc<Opened>> {
        let Some(directory) = &self.directory else {
            return Err(bad("the model was given without a directory"));
        };
        let path = inside(location)
            .ok_or_else(|| bad("`location` must be a plain path inside the model's directory"))?;
        if let Some(opened) = self.opened.borrow().get(&path) {
            return Ok(opened.clone());
        }
        let opened = open::open(directory, &path).map_err(|error| match open::is_link(&error) {
            true => bad("`location` leads through a symbolic link").help(COPY),
            false => unreadable(&error),
        })?;
        if let Some(fault) = open::fault(&opened).map_err(|error| unreadable(&error))? {
            return Err(bad(fault).help(COPY));
        }
        let bytes = file::contents(&opened).map_err(|error| unreadable(&error))?;
        if file::is_pointer(&bytes) {
            return Err(bad("the file is a pointer of Git LFS").help(file::FETCH));
        }
        let opened = Rc::new(Opened { bytes, sha1: OnceCell::new() });
        self.opened.borrow_mut().insert(path, opened.clone());
        Ok(opened)
    }
}

const COPY: &str = "put a copy of the file itself beside the model";
const GET: &str = "copy the file from the folder of the exported model to the folder of this one";

impl Opened {
    /// Compares the file with the SHA-1 digest in the model.
    fn check(&self, checksum: &str) -> Result {
        let found = self.sha1.get_or_init(|| Sha1::from(&self.bytes[..]).digest().to_string());
        if found.eq_ignore_ascii_case(checksum) {
            return Ok(());
        }
        let message = "`checksum` differs from the SHA-1 digest of the file";
        let note = format!("the model has {}, the file {found}", quoted(checksum));
        Err(bad(message).note(note).help("get the file that belongs to the model"))
    }
}

impl<'m> Place<'m> {
    fn of(proto: &'m TensorProto) -> Result<Place<'m>> {
        let field = |key: &str| {
            let mut entries = proto.external_data.iter().filter(|entry| entry.key() == key);
            let first = entries.next().map(|entry| entry.value());
            match entries.next() {
                Some(_) => Err(bad(&format!("`{key}` is given twice"))),
                None => Ok(first),
            }
        };
        let number = |key: &str| {
            let number = field(key)?.map(str::parse::<u64>).transpose();
            number.map_err(|_| bad(&format!("`{key}` must be a whole number")))
        };
        Ok(Place {
            location: field("location")?.unwrap_or_default(),
            offset: number("offset")?.unwrap_or(0),
            length: number("length")?,
            checksum: field("checksum")?,
        })
    }
}

/// Converts `location` to a relative path, or returns `None` if it may lead outside the model's
/// directory on any operating system: a model may be built on one and read on another. A line feed
/// would let a build script, which names the file to cargo on a line, say something else to cargo.
fn inside(location: &str) -> Option<PathBuf> {
    let drive =
        location.as_bytes().get(1) == Some(&b':') || cfg!(windows) && location.contains(':');
    if drive || location.contains('\\') || location.contains(char::is_control) {
        return None;
    }
    let mut path = PathBuf::new();
    for part in Path::new(location).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path).filter(|path| !path.as_os_str().is_empty())
}

fn bad(reason: &str) -> Diagnostic {
    Diagnostic::new(Code::BadExternalData, reason)
}

/// The error for a file that the system cannot read.
fn unreadable(error: &io::Error) -> Diagnostic {
    match error.kind() {
        io::ErrorKind::NotFound => bad("the file is missing").help(GET),
        io::ErrorKind::PermissionDenied => bad("the file cannot be read: permission is denied"),
        _ => bad(&format!("the file cannot be read: {error}")),
    }
}
