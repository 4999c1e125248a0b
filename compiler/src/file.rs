//! Reading files, where large ones are mapped, and replacing files atomically.

mod errors;
mod replacement;

pub use errors::{check_folder, refused, unreadable};
pub use replacement::{Replacement, is_replaced};

use crate::{
    diag::{Code, Diagnostic, Result},
    mapping,
};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// The size from which files are mapped, in bytes; reading smaller ones costs less.
const MAPPED: u64 = 1 << 20;

/// The most bytes that are read from a pipe or a device, which may never end.
const MAX_STREAM_BYTES: u64 = 256 << 20;

/// Reads the file at `path`. A large file is mapped: it takes no memory of its own, and must not be
/// changed while the bytes are in use. A pipe or a device is read up to 256 MiB.
///
/// # Errors
///
/// Returns an error if the file cannot be opened or read.
pub fn read(path: &Path) -> io::Result<Bytes> {
    contents(&File::open(path)?)
}

/// Reads an open file, as [`read`] does.
///
/// # Errors
///
/// Returns an error if the file cannot be read or mapped.
pub fn contents(mut file: &File) -> io::Result<Bytes> {
    let found = file.metadata()?;
    if found.is_file() && found.len() >= MAPPED {
        return mapping::of(file);
    }
    let limit = if found.is_file() { u64::MAX } else { MAX_STREAM_BYTES };
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == limit && file.read(&mut [0])? > 0 {
        let message = "this is no regular file, and has more than 256 MiB: save it as a file first";
        return Err(io::Error::other(message));
    }
    Ok(bytes.into())
}

/// Returns the SHA-256 of `bytes` in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns whether the bytes are a pointer that Git LFS checked out in place of a file.
pub fn is_pointer(bytes: &[u8]) -> bool {
    bytes.starts_with(b"version https://git-lfs.github.com/spec/")
}

/// The help for a Git LFS pointer.
pub const FETCH: &str = "get the file itself: `git lfs pull`";

/// The size from which bytes are moved to a temporary file.
const LARGE: usize = 16 << 20;

/// Moves at least `LARGE` bytes to a temporary file without a name, and maps it. If that fails,
/// they stay in memory.
pub fn lay_aside(bytes: Bytes) -> Bytes {
    if bytes.len() < LARGE || replacement::max_file_bytes() < bytes.len() as u64 {
        return bytes;
    }
    let aside = nameless().and_then(|mut file| {
        file.write_all(&bytes)?;
        mapping::of(&file)
    });
    aside.unwrap_or(bytes)
}

/// Creates a file without a name, which the system deletes when it is closed.
#[cfg(unix)]
fn nameless() -> io::Result<File> {
    use std::{
        os::unix::fs::OpenOptionsExt,
        sync::atomic::{AtomicUsize, Ordering},
    };
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("onnxc-{}-{number}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(path)?;
    Ok(file)
}

#[cfg(not(unix))]
fn nameless() -> io::Result<File> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Replaces a file atomically, if its bytes change.
///
/// # Errors
///
/// Returns an error if the file cannot be compared, written or renamed.
pub fn write_if_changed(path: &Path, bytes: &[u8]) -> Result {
    Replacement::of(path, |out| out.write_all(bytes))?.put()
}

/// Returns whether two paths lead to the same regular file.
pub fn is_one(first: &Path, second: &Path) -> bool {
    let [first, second] = [first, second].map(|path| fs::canonicalize(path).ok());
    first.is_some_and(|path| Some(&path) == second.as_ref() && is_replaced(&path))
}

/// Checks that a file at `to` would replace none of the files that were read.
///
/// # Errors
///
/// Returns an error if it would.
pub fn keep_sources(to: &Path, read: impl IntoIterator<Item = PathBuf>) -> Result {
    if !read.into_iter().any(|from| is_one(&from, to)) {
        return Ok(());
    }
    let message = "the model was read from this file, which would be overwritten";
    Err(Diagnostic::new(Code::BadOption, message)
        .help("write to another path")
        .within(to.display().to_string()))
}

/// Returns the path of the weights called `name` beside the file at `path`.
///
/// # Errors
///
/// Returns an error if the file is not regular, or has the name of the weights.
pub fn beside(path: &Path, name: &str) -> Result<PathBuf> {
    let weights = path.with_file_name(name);
    let message = if !is_replaced(path) {
        "this is no regular file, so the weights cannot be written beside it"
    } else if weights == path {
        "the module and its weights would have the same name"
    } else {
        return Ok(weights);
    };
    Err(Diagnostic::new(Code::BadOption, message)
        .help("write to another path")
        .within(path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a directory for a test.
    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("onnxc-file-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary directory can be written");
        path
    }

    #[cfg(unix)]
    #[test]
    fn a_device_without_an_end_is_an_error() {
        let error = read(Path::new("/dev/zero")).expect_err("it never ends");
        assert!(error.to_string().contains("more than 256 MiB"), "{error}");
    }

    #[test]
    fn laying_bytes_aside_preserves_them() {
        let bytes: Vec<u8> = (0..LARGE).map(|i| (i % 251) as u8).collect();
        assert!(lay_aside(bytes.clone().into()) == bytes);
    }

    #[test]
    fn a_large_file_reads_as_a_small_one() {
        let directory = scratch("large");
        for len in [0, 10, MAPPED as usize - 1, MAPPED as usize, MAPPED as usize + 4097] {
            let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let path = directory.join(len.to_string());
            fs::write(&path, &bytes).expect("the test made the directory");
            assert!(read(&path).expect("the test wrote the file") == bytes, "{len}");
        }
        fs::remove_dir_all(directory).expect("the test made the directory");
    }
}
