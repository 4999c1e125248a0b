//! Files as memory: the one place of the compiler with `unsafe`, for no crate maps files without.

use bytes::Bytes;
use memmap2::Mmap;
use std::{fs::File, io};

/// The contents of a file, which the system reads where they are looked at, and drops where memory
/// is short.
///
/// # Errors
///
/// Where the system refuses, as it does for what is no regular file.
pub fn of(file: &File) -> io::Result<Bytes> {
    // SAFETY: the mapping is read-only, and whoever reads it sees bytes, of which every value is
    // valid: text is copied before it is looked over (`import::decode`, prost), and no check of
    // these bytes is relied upon in a later look at them. So a program that writes to the file
    // meanwhile changes numbers of the model, and one that cuts it short ends the compiler by a
    // signal. The caller of the compiler owns the model, and is told so in the documentation of
    // `file::read`.
    let mapping = unsafe { Mmap::map(file)? };
    Ok(Bytes::from_owner(mapping))
}
