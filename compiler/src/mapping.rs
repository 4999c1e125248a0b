//! Memory-mapped files: the only `unsafe` code of the compiler.

use bytes::Bytes;
use memmap2::Mmap;
use std::{fs::File, io};

/// Maps a file into memory. The operating system loads pages on access and evicts them when memory
/// is short.
///
/// # Errors
///
/// Returns an error if the system call fails, as it does for anything but a regular file.
pub fn of(file: &File) -> io::Result<Bytes> {
    // SAFETY: the mapping is read-only, and its readers see bytes, for which every value is valid.
    // Text is copied before it is validated (`import::decode`, prost), and no reader relies on an
    // earlier check of these bytes. A program that writes to the file meanwhile changes numbers of
    // the model, and one that truncates it ends the compiler by a signal. The documentation of
    // `file::read` asks the caller, who owns the model, to do neither.
    let mapping = unsafe { Mmap::map(file)? };
    Ok(Bytes::from_owner(mapping))
}
