//! Reading files, where large ones are mapped, and replacing files atomically.

use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    ident, mapping,
};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
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
    if bytes.len() < LARGE || max_file_bytes() < bytes.len() as u64 {
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

/// Returns the most bytes that the system lets this process write to a file. A write beyond it
/// would end the process by a signal.
#[cfg(unix)]
fn max_file_bytes() -> u64 {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

#[cfg(not(unix))]
fn max_file_bytes() -> u64 {
    u64::MAX
}

/// Returns a function that makes a diagnostic of an error in reading the file at `path`.
pub fn unreadable(path: &Path) -> impl Fn(io::Error) -> Diagnostic {
    move |error| {
        let diagnostic = unusable("read", path, &error);
        if path.is_dir() {
            return diagnostic.help("name a file in it");
        }
        match similar_file(path).filter(|_| error.kind() == ErrorKind::NotFound) {
            Some(near) => diagnostic.help(format!("did you mean {}?", quoted(&near))),
            None => diagnostic,
        }
    }
}

/// Returns a function that makes a diagnostic of an error in writing the file at `path`.
pub fn refused(path: &Path) -> impl Fn(io::Error) -> Diagnostic {
    move |error| unusable("written", path, &error)
}

/// The error for a file that cannot be read or written.
fn unusable(verb: &str, path: &Path, error: &io::Error) -> Diagnostic {
    let shown = |path: &Path| quoted(&path.display().to_string());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let missing = folder.filter(|folder| !folder.exists());
    let reason = match (error.kind(), missing) {
        (ErrorKind::NotFound, Some(folder)) => format!("there is no folder {}", shown(folder)),
        (ErrorKind::NotFound, None) => "there is no file of this name".to_owned(),
        (ErrorKind::PermissionDenied, _) => "permission is denied".to_owned(),
        _ if path.is_dir() => "it is a folder".to_owned(),
        _ => error.to_string(),
    };
    let message = format!("{} cannot be {verb}: {reason}", shown(path));
    Diagnostic::new(Code::Io, message).within(path.display().to_string())
}

/// Returns the path of the file beside `path` with the most similar name.
fn similar_file(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let mut names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    let near = ident::nearest(name, names.iter().map(String::as_str))?;
    Some(path.with_file_name(near).display().to_string())
}

/// Replaces a file atomically, if its bytes change.
///
/// # Errors
///
/// Returns an error if the file cannot be compared, written or renamed.
pub fn write_if_changed(path: &Path, bytes: &[u8]) -> Result {
    Replacement::of(path, |out| out.write_all(bytes))?.put()
}

/// Returns whether writing to `path` creates or replaces a regular file. A device or a pipe is
/// written to directly, and has no files beside it.
pub fn is_replaced(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |found| found.is_file())
}

/// Returns whether two paths lead to the same regular file.
pub fn is_one(first: &Path, second: &Path) -> bool {
    let [first, second] = [first, second].map(|path| fs::canonicalize(path).ok());
    first.is_some_and(|path| Some(&path) == second.as_ref() && is_replaced(&path))
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

/// A complete new version of a file that has not replaced the old one yet. Dropping it keeps the
/// old one.
#[must_use = "the file stays as it is until `put`"]
pub struct Replacement {
    /// The path that the caller gave.
    called: PathBuf,
    /// The path with all links resolved.
    path: PathBuf,
    /// The path of the new version, after the first difference.
    partial: Option<PathBuf>,
    /// The old version, positioned after the bytes that are equal.
    before: Option<BufReader<File>>,
    /// The number of equal bytes.
    equal: u64,
    /// The number of bytes that may still be written.
    space_left: u64,
    /// The new version, after the first difference.
    new: Option<BufWriter<File>>,
}

impl Replacement {
    /// Writes the pieces that `write` writes. Each piece is compared with the old version first, so
    /// that no more than one piece is in memory, and nothing is written if all are equal. A file
    /// that is not regular is written to directly.
    ///
    /// # Errors
    ///
    /// Returns the error of `write`, or one if the file cannot be compared or written.
    pub fn of(
        path: &Path,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Replacement> {
        let written = Replacement::empty(path).and_then(|mut replacement| {
            write(&mut replacement)?;
            replacement.finish()?;
            Ok(replacement)
        });
        written.map_err(refused(path))
    }

    /// Returns whether the new version differs from the old one.
    pub fn is_other(&self) -> bool {
        self.partial.is_some()
    }

    /// Replaces the old version.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be renamed.
    pub fn put(mut self) -> Result {
        let Some(partial) = &self.partial else { return Ok(()) };
        fs::rename(partial, &self.path).map_err(refused(&self.called))?;
        self.partial = None;
        Ok(())
    }

    fn empty(called: &Path) -> io::Result<Replacement> {
        let mut space_left = u64::MAX;
        let (path, before, new) = if is_replaced(called) {
            let path = behind_links(called)?;
            let before = File::open(&path).ok().map(BufReader::new);
            space_left = max_file_bytes();
            (path, before, None)
        } else {
            // Reading from a pipe may block forever.
            let device = File::options().write(true).open(called)?;
            (called.to_owned(), None, Some(BufWriter::new(device)))
        };
        Ok(Replacement {
            called: called.to_owned(),
            path,
            partial: None,
            before,
            equal: 0,
            space_left,
            new,
        })
    }

    /// Returns whether the old version continues with these bytes.
    fn goes_on_with(&mut self, mut bytes: &[u8]) -> io::Result<bool> {
        let Some(before) = &mut self.before else { return Ok(false) };
        while !bytes.is_empty() {
            let there = before.fill_buf()?;
            let len = there.len().min(bytes.len());
            if len == 0 || there[..len] != bytes[..len] {
                return Ok(false);
            }
            before.consume(len);
            bytes = &bytes[len..];
        }
        Ok(true)
    }

    /// Returns the new version, which starts with the equal bytes.
    fn new_file(&mut self) -> io::Result<&mut BufWriter<File>> {
        if self.new.is_none() {
            let mut new = self.partial_file()?;
            if self.equal > 0 {
                let copied = io::copy(&mut File::open(&self.path)?.take(self.equal), &mut new)?;
                if copied < self.equal {
                    return Err(io::Error::other("the file was changed while it was compared"));
                }
            }
            self.new = Some(BufWriter::new(new));
        }
        Ok(self.new.as_mut().expect("the branch above set it"))
    }

    /// Creates an empty file with the permissions of the old version.
    fn partial_file(&mut self) -> io::Result<File> {
        remove_stale_partials(&self.path);
        let (partial, file) = create_partial(&self.path)?;
        self.partial = Some(partial);
        if let Ok(before) = fs::metadata(&self.path)
            && before.permissions() != file.metadata()?.permissions()
        {
            file.set_permissions(before.permissions())?;
        }
        Ok(file)
    }

    fn finish(&mut self) -> io::Result<()> {
        let ends = match &mut self.before {
            Some(before) => before.fill_buf()?.is_empty(),
            None => false,
        };
        if self.new.is_some() || !ends {
            self.new_file()?.flush()?;
        }
        (self.before, self.new) = (None, None);
        Ok(())
    }
}

/// Creates a partial version of the file at `path`, under a name that no other process and no
/// earlier version has.
fn create_partial(path: &Path) -> io::Result<(PathBuf, File)> {
    /// More partial files than are ever written at once.
    const MOST: usize = 1000;
    for number in 0..MOST {
        let mut partial = path.as_os_str().to_owned();
        partial.push(format!(".{}-{number}{PARTIAL}", std::process::id()));
        match File::options().write(true).create_new(true).open(&partial) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return Ok((partial.into(), created?)),
        }
    }
    Err(io::Error::other("there are too many partial versions beside it: remove them"))
}

/// The end of the name of a partial version.
const PARTIAL: &str = ".partial";

/// The time after which a partial version that nobody writes to is stale.
const STALE: Duration = Duration::from_secs(60 * 60);

/// Removes partial versions of the file at `path` that processes left when they were killed.
fn remove_stale_partials(path: &Path) {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let is_partial = |found: &fs::DirEntry| {
        let (found, name) = (found.file_name(), name.as_encoded_bytes());
        let middle = found.as_encoded_bytes().strip_prefix(name);
        let middle = middle.and_then(|rest| rest.strip_suffix(PARTIAL.as_bytes()));
        let middle = middle.and_then(|rest| rest.strip_prefix(b"."));
        middle.is_some_and(|middle| middle.iter().all(|&c| c.is_ascii_digit() || c == b'-'))
    };
    let is_stale = |found: &fs::DirEntry| {
        let modified = found.metadata().and_then(|found| found.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok());
        age.is_some_and(|age| age > STALE)
    };
    let found = fs::read_dir(directory).into_iter().flatten().flatten();
    for stale in found.filter(is_partial).filter(is_stale) {
        // Nothing depends on its removal.
        drop(fs::remove_file(stale.path()));
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(space_left) = self.space_left.checked_sub(bytes.len() as u64) else {
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        self.space_left = space_left;
        if self.new.is_none() && self.goes_on_with(bytes)? {
            self.equal += bytes.len() as u64;
            return Ok(bytes.len());
        }
        self.new_file()?.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.new.as_mut().map_or(Ok(()), BufWriter::flush)
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if let Some(partial) = &self.partial {
            // The partial file is useless. Nothing depends on its removal.
            drop(fs::remove_file(partial));
        }
    }
}

/// The path behind all links, whether a file exists there or not. Renaming a file to the path of a
/// link would replace the link.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    /// The limit of Linux.
    const MOST: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..=MOST {
        let Ok(to) = fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("")).join(to);
    }
    Err(io::Error::other("there are too many links on the way"))
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

    #[test]
    fn a_file_is_written_only_where_its_bytes_change() {
        let directory = scratch("change");
        let path = directory.join("x");
        let pieces = |pieces: &[&[u8]]| {
            Replacement::of(&path, |out| pieces.iter().try_for_each(|piece| out.write_all(piece)))
                .and_then(Replacement::put)
                .expect("the test made the directory");
            fs::read(&path).expect("the test wrote the file")
        };
        assert_eq!(pieces(&[]), b"");
        assert_eq!(pieces(&[b"one", b"two"]), b"onetwo");
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        let file = File::options().append(true).open(&path).expect("the test made the directory");
        file.set_modified(long_ago).expect("the test made the directory");
        let written = || {
            let found = fs::metadata(&path).and_then(|found| found.modified());
            found.expect("the test wrote the file") != long_ago
        };
        assert_eq!(pieces(&[b"on", b"etwo"]), b"onetwo");
        assert!(!written());
        assert_eq!(pieces(&[b"onet", b"en"]), b"oneten");
        assert!(written());
        assert_eq!(pieces(&[b"one"]), b"one");
        assert_eq!(pieces(&[b"one", b" more"]), b"one more");
        let left = fs::read_dir(&directory).expect("the test made the directory").count();
        assert_eq!(left, 1, "nothing partial is left");
        fs::remove_dir_all(directory).expect("the test made the directory");
    }

    #[test]
    fn a_failed_write_leaves_the_file_unchanged() {
        let directory = scratch("fail");
        let path = directory.join("x");
        write_if_changed(&path, b"before").expect("the test made the directory");
        let failed = Replacement::of(&path, |out| {
            out.write_all(b"behind")?;
            Err(io::Error::other("no more"))
        });
        assert!(failed.err().expect("`write` returned an error").message.contains("no more"));
        let dropped = Replacement::of(&path, |out| out.write_all(b"behind"));
        drop(dropped.expect("the test made the directory"));
        assert_eq!(fs::read(&path).expect("the test wrote the file"), b"before");
        assert_eq!(fs::read_dir(&directory).expect("the test made the directory").count(), 1);
        fs::remove_dir_all(directory).expect("the test made the directory");
    }

    #[test]
    fn a_partial_version_that_a_killed_process_left_is_removed_when_it_is_old() {
        let directory = scratch("stale");
        let path = directory.join("x.rs");
        let names = ["x.rs.7.partial", "x.rs.8-0.partial", "y.rs.7.partial", "x.rs.a.partial"];
        for name in names {
            let file = File::create(directory.join(name)).expect("the test made the directory");
            let long_ago = std::time::SystemTime::UNIX_EPOCH;
            file.set_modified(long_ago).expect("the test made the file");
        }
        let mine = format!("x.rs.{}-0.partial", std::process::id());
        for name in ["x.rs.9-0.partial", &mine] {
            fs::write(directory.join(name), "new").expect("the test made the directory");
        }
        write_if_changed(&path, b"new").expect("the test made the directory");
        let mut left: Vec<_> = fs::read_dir(&directory)
            .expect("the test made the directory")
            .map(|entry| entry.expect("the directory is readable").file_name())
            .collect();
        left.sort();
        let mut expected = ["x.rs", &mine, "x.rs.9-0.partial", "x.rs.a.partial", "y.rs.7.partial"];
        expected.sort_unstable();
        assert_eq!(left, expected);
        fs::remove_dir_all(directory).expect("the test made the directory");
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
