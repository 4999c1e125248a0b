//! Files: large ones are mapped instead of read, and what is written is there whole or not at all.

use crate::{
    diag::{Code, Diagnostic, Result},
    mapping,
};
use bytes::Bytes;
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

/// Files of so many bytes and more are mapped; for smaller ones, reading costs less.
const MAPPED: u64 = 1 << 20;

/// The contents of the file at `path`. A large one is mapped: it takes no memory of its own, and
/// must not be changed while the bytes are in use.
///
/// # Errors
///
/// Where the system refuses.
pub fn read(path: &Path) -> io::Result<Bytes> {
    contents(&File::open(path)?)
}

/// The contents of an open file, likewise.
///
/// # Errors
///
/// Where the system refuses.
pub fn contents(mut file: &File) -> io::Result<Bytes> {
    let found = file.metadata()?;
    if found.is_file() && found.len() >= MAPPED {
        return mapping::of(file);
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

/// So many bytes and more are laid aside.
const LARGE: usize = 16 << 20;

/// The same bytes, mapped from a temporary file without a name where they are many. Where there
/// can be none, they stay in memory.
pub fn lay_aside(bytes: Bytes) -> Bytes {
    if bytes.len() < LARGE {
        return bytes;
    }
    let aside = nameless().and_then(|mut file| {
        file.write_all(&bytes)?;
        mapping::of(&file)
    });
    aside.unwrap_or(bytes)
}

/// A new file that has no name, so that it is gone when nobody uses it any more.
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

/// Writes a file where its bytes change: whole or not at all.
///
/// # Errors
///
/// Where the system refuses.
pub fn write_if_changed(path: &Path, bytes: &[u8]) -> Result {
    replace(path, |out| out.write_all(bytes))
}

/// Writes what `write` gives piece by piece into a file, likewise. The pieces are compared with the
/// file that is there as they come, so that no more than one of them is in memory.
///
/// # Errors
///
/// Where the system refuses.
pub fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result {
    let mut replacement = Replacement::of(path);
    let written = write(&mut replacement).and_then(|()| replacement.finish());
    if written.is_err() {
        // What could not be renamed is of no use; that it cannot be removed changes nothing.
        drop(fs::remove_file(&replacement.partial));
    }
    written.map_err(|error| {
        Diagnostic::new(Code::Io, error.to_string()).within(path.display().to_string())
    })
}

/// What may become the contents of a file.
struct Replacement<'p> {
    path: &'p Path,
    /// Where it is written until it is whole.
    partial: PathBuf,
    /// What is there now, from behind what was found equal on.
    before: Option<BufReader<File>>,
    /// How many bytes were found equal.
    equal: u64,
    /// Where the new bytes go, once there was a difference.
    new: Option<BufWriter<File>>,
}

impl Replacement<'_> {
    fn of(path: &Path) -> Replacement<'_> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(format!(".{}.partial", std::process::id()));
        let before = File::open(path).ok().map(BufReader::new);
        Replacement { path, partial: partial.into(), before, equal: 0, new: None }
    }

    /// Whether the file that is there goes on with these bytes.
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

    /// The new file, which starts with what was found equal.
    fn new_file(&mut self) -> io::Result<&mut BufWriter<File>> {
        if self.new.is_none() {
            let mut new = File::create(&self.partial)?;
            if self.equal > 0 {
                let copied = io::copy(&mut File::open(self.path)?.take(self.equal), &mut new)?;
                if copied < self.equal {
                    return Err(io::Error::other("the file was changed while it was compared"));
                }
            }
            self.new = Some(BufWriter::new(new));
        }
        Ok(self.new.as_mut().expect("it was just made"))
    }

    fn finish(&mut self) -> io::Result<()> {
        let ends = match &mut self.before {
            Some(before) => before.fill_buf()?.is_empty(),
            None => false,
        };
        if self.new.is_none() && ends {
            return Ok(());
        }
        self.new_file()?.flush()?;
        self.new = None;
        fs::rename(&self.partial, self.path)
    }
}

impl Write for Replacement<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.new.is_none() && self.goes_on_with(bytes)? {
            self.equal += bytes.len() as u64;
            return Ok(bytes.len());
        }
        self.new_file()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.new.as_mut().map_or(Ok(()), BufWriter::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of its own for a test.
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
            replace(&path, |out| pieces.iter().try_for_each(|piece| out.write_all(piece)))
                .expect("the directory is ours");
            fs::read(&path).expect("it was written")
        };
        assert_eq!(pieces(&[]), b"");
        assert_eq!(pieces(&[b"one", b"two"]), b"onetwo");
        let long_ago = std::time::SystemTime::UNIX_EPOCH;
        let file = File::options().append(true).open(&path).expect("it is ours");
        file.set_modified(long_ago).expect("it is ours");
        let written = || {
            let found = fs::metadata(&path).and_then(|found| found.modified());
            found.expect("it is there") != long_ago
        };
        assert_eq!(pieces(&[b"on", b"etwo"]), b"onetwo");
        assert!(!written());
        assert_eq!(pieces(&[b"onet", b"en"]), b"oneten");
        assert!(written());
        assert_eq!(pieces(&[b"one"]), b"one");
        assert_eq!(pieces(&[b"one", b" more"]), b"one more");
        let left = fs::read_dir(&directory).expect("it is ours").count();
        assert_eq!(left, 1, "nothing partial is left");
        fs::remove_dir_all(directory).expect("it is ours");
    }

    #[test]
    fn what_fails_leaves_the_file_as_it_was() {
        let directory = scratch("fail");
        let path = directory.join("x");
        write_if_changed(&path, b"before").expect("the directory is ours");
        let failed = replace(&path, |out| {
            out.write_all(b"behind")?;
            Err(io::Error::other("no more"))
        });
        assert!(failed.expect_err("it failed").message.contains("no more"));
        assert_eq!(fs::read(&path).expect("it is there"), b"before");
        assert_eq!(fs::read_dir(&directory).expect("it is ours").count(), 1);
        fs::remove_dir_all(directory).expect("it is ours");
    }

    #[test]
    fn what_is_laid_aside_stays_the_same() {
        let bytes: Vec<u8> = (0..LARGE).map(|i| (i % 251) as u8).collect();
        assert!(lay_aside(bytes.clone().into()) == bytes);
    }

    #[test]
    fn a_large_file_reads_as_a_small_one() {
        let directory = scratch("large");
        for len in [0, 10, MAPPED as usize - 1, MAPPED as usize, MAPPED as usize + 4097] {
            let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
            let path = directory.join(len.to_string());
            fs::write(&path, &bytes).expect("the directory is ours");
            assert!(read(&path).expect("it was written") == bytes, "{len}");
        }
        fs::remove_dir_all(directory).expect("it is ours");
    }
}
