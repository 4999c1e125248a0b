//! Files that are replaced as a whole, or not at all.

use super::errors::refused;
use crate::diag::Result;
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

/// Returns whether writing to `path` creates or replaces a regular file. A device or a pipe is
/// written to directly, and has no files beside it.
pub fn is_replaced(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |found| found.is_file())
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

/// Returns the most bytes that the system lets this process write to a file. A write beyond it
/// would end the process by a signal.
#[cfg(unix)]
pub(super) fn max_file_bytes() -> u64 {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

#[cfg(not(unix))]
pub(super) fn max_file_bytes() -> u64 {
    u64::MAX
}

#[cfg(test)]
mod tests {
    use super::{super::write_if_changed, *};

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
}
