//! Reads NumPy's archives, `.npz`: ZIP files of `.npy` files, which `savez` and `savez_compressed`
//! write. <https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT>

use super::npy;
use onnxc::{
    diag::{Code, Diagnostic, Result, quoted},
    file,
    tensor::Tensor,
};
use std::{collections::BTreeMap, path::Path};

/// The signatures of a member, of an entry of the directory, and of the end record.
const MEMBER: &[u8] = b"PK\x03\x04";
const ENTRY: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";

/// The sizes of their parts of fixed length, in bytes.
const MEMBER_BYTES: usize = 30;
const ENTRY_BYTES: usize = 46;
const END_BYTES: usize = 22;

/// The help for an archive that cannot be read.
const SAVE: &str = "save the arrays in Python: `numpy.savez(\"values.npz\", x=array)`";

/// The help for a damaged archive.
const AGAIN: &str = "copy or download the file again";

/// Reads the archive at `path`, and returns its tensors by name.
///
/// # Errors
///
/// Returns an error that names the file, if it cannot be read.
pub fn open(path: &Path) -> Result<BTreeMap<String, Tensor>> {
    let bytes = file::read(path).map_err(file::unreadable(path))?;
    read(&bytes).map_err(|error| match error.help {
        Some(_) => error.within(path.display().to_string()),
        None => error.help(SAVE).within(path.display().to_string()),
    })
}

/// Decodes an archive, and returns its tensors by name.
pub fn read(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>> {
    if !bytes.starts_with(b"PK") {
        return Err(bad("this is not a `.npz` file, which is a ZIP archive"));
    }
    let end = bytes.windows(END.len()).rposition(|found| found == END);
    let end = end.and_then(|at| bytes.get(at..)).filter(|end| end.len() >= END_BYTES);
    let end = end.ok_or_else(|| {
        let message = format!("the archive is incomplete: it ends after {} bytes", bytes.len());
        bad(&message).help(AGAIN)
    })?;
    let (count, start) = (number(end, 10, 2), number(end, 16, 4));
    let mut at = start;
    let mut entries = Vec::new();
    for _ in 0..count {
        let entry = Entry::at(bytes, at);
        let entry = entry.ok_or_else(|| bad("the directory of the archive cannot be read"))?;
        at += entry.bytes;
        entries.push(entry);
    }
    // Otherwise, a small file could hold any number of large arrays.
    entries.sort_by_key(|entry| entry.offset);
    if entries.iter().zip(entries.iter().skip(1)).any(|(one, next)| one.end() > next.offset) {
        return Err(bad("the members of the archive overlap").help(AGAIN));
    }
    let mut tensors = BTreeMap::new();
    for entry in entries {
        let name = entry.name.strip_suffix(".npy").unwrap_or(&entry.name).to_owned();
        let within = |diagnostic: Diagnostic| diagnostic.within(format!("array {}", quoted(&name)));
        let data = entry.data(bytes).map_err(within)?;
        let tensor = npy::read(&data).map_err(within)?;
        tensors.insert(name, tensor);
    }
    Ok(tensors)
}

/// An entry of the directory.
struct Entry {
    name: String,
    method: usize,
    /// The CRC-32 of the uncompressed data.
    crc: usize,
    /// The sizes of the data, compressed and uncompressed, in bytes.
    packed: usize,
    len: usize,
    offset: usize,
    /// The size of the entry itself, in bytes.
    bytes: usize,
}

impl Entry {
    fn at(file: &[u8], at: usize) -> Option<Entry> {
        let entry = file.get(at..).filter(|entry| entry.starts_with(ENTRY))?;
        let fixed = entry.get(..ENTRY_BYTES)?;
        let name_bytes = number(fixed, 28, 2);
        let bytes = ENTRY_BYTES + name_bytes + number(fixed, 30, 2) + number(fixed, 32, 2);
        let name = entry.get(ENTRY_BYTES..ENTRY_BYTES + name_bytes)?;
        Some(Entry {
            name: String::from_utf8(name.to_vec()).ok()?,
            method: number(fixed, 10, 2),
            crc: number(fixed, 16, 4),
            packed: number(fixed, 20, 4),
            len: number(fixed, 24, 4),
            offset: number(fixed, 42, 4),
            bytes,
        })
    }

    /// The least offset at which another member may start.
    fn end(&self) -> usize {
        self.offset.saturating_add(MEMBER_BYTES).saturating_add(self.packed)
    }

    fn data(&self, file: &[u8]) -> Result<Vec<u8>> {
        const STORED: usize = 0;
        const DEFLATED: usize = 8;
        let data = self.packed_data(file).ok_or_else(|| bad("the archive is cut short"))?;
        let data = match self.method {
            STORED => data.to_vec(),
            DEFLATED => miniz_oxide::inflate::decompress_to_vec_with_limit(data, self.len)
                .map_err(|error| bad("the data cannot be decompressed").note(error.to_string()))?,
            method => return Err(bad(&format!("compression method {method} is not NumPy's"))),
        };
        if data.len() != self.len {
            return Err(bad("the data is cut short"));
        }
        match crc32(&data) as usize == self.crc {
            true => Ok(data),
            false => Err(bad("the data is damaged: it has another checksum").help(AGAIN)),
        }
    }

    fn packed_data<'f>(&self, file: &'f [u8]) -> Option<&'f [u8]> {
        let member = file.get(self.offset..).filter(|member| member.starts_with(MEMBER))?;
        let fixed = member.get(..MEMBER_BYTES)?;
        let start = MEMBER_BYTES + number(fixed, 26, 2) + number(fixed, 28, 2);
        member.get(start..)?.get(..self.packed)
    }
}

/// Returns the CRC-32 of ZIP files, whose reversed polynomial is `0xedb88320`.
fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < table.len() {
            let (mut crc, mut bit) = (byte as u32, 0);
            while bit < 8 {
                crc = (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
                bit += 1;
            }
            table[byte] = crc;
            byte += 1;
        }
        table
    };
    let next = |crc: u32, &byte: &u8| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)];
    !bytes.iter().fold(!0, next)
}

/// The little-endian number in `count` bytes from `at` on, which must exist.
fn number(bytes: &[u8], at: usize, count: usize) -> usize {
    bytes[at..at + count].iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
}

fn bad(what: &str) -> Diagnostic {
    Diagnostic::new(Code::BadTensor, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn little(numbers: &[(usize, usize)]) -> Vec<u8> {
        let bytes = |&(number, count): &(usize, usize)| number.to_le_bytes()[..count].to_vec();
        numbers.iter().flat_map(bytes).collect()
    }

    /// An archive of one array, compressed by `method`.
    fn archive(method: usize, packed: &[u8], file: &[u8]) -> Vec<u8> {
        let (name, len) = (b"w.npy", file.len());
        let sizes =
            [(crc32(file) as usize, 4), (packed.len(), 4), (len, 4), (name.len(), 2), (0, 2)];
        let member = [little(&[(20, 2), (0, 2), (method, 2), (0, 4)]), little(&sizes)].concat();
        let file = [MEMBER, &member, name, packed].concat();
        let entry =
            [ENTRY, &little(&[(20, 2)]), &member, &little(&[(0, 8), (0, 6)]), name].concat();
        let ends = little(&[(0, 4), (1, 2), (1, 2), (entry.len(), 4), (file.len(), 4), (0, 2)]);
        [file, entry, END.to_vec(), ends].concat()
    }

    #[test]
    fn arrays_are_stored_or_compressed() {
        let tensor = Tensor::from_ints(&[1, 2, 3]);
        let file = npy::write(&tensor).expect("NumPy has the type");
        let packed = miniz_oxide::deflate::compress_to_vec(&file, 6);
        for bytes in [archive(0, &file, &file), archive(8, &packed, &file)] {
            let found = read(&bytes).expect("the archive is complete");
            assert!(found.len() == 1 && found["w"] == tensor);
        }
    }

    #[test]
    fn a_file_that_is_not_an_archive_is_an_error() {
        let whole = archive(0, b"no array", b"no array");
        let unknown = archive(99, b"", b"");
        let longer = archive(0, b"no array", b"no array.");
        for bytes in [&whole[..], &unknown, &longer, &whole[..20], &whole[10..], b"text"] {
            assert!(read(bytes).is_err());
        }
    }

    #[test]
    fn members_that_overlap_are_an_error() {
        let file = npy::write(&Tensor::from_ints(&[1, 2, 3])).expect("NumPy has the type");
        let one = archive(0, &file, &file);
        let places = [ENTRY, END].map(|sign| one.windows(4).position(|found| found == sign));
        let [Some(entry), Some(end)] = places else { panic!("the archive is complete") };
        let mut last = one[end..].to_vec();
        last[10] = 2;
        let twice = [&one[..end], &one[entry..end], &last].concat();
        let error = read(&twice).expect_err("both entries name one member");
        assert_eq!(error.message, "the members of the archive overlap");
    }

    #[test]
    fn a_member_with_another_checksum_is_an_error() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let file = npy::write(&Tensor::from_ints(&[1, 2, 3])).expect("NumPy has the type");
        let packed = miniz_oxide::deflate::compress_to_vec(&file, 6);
        let mut other = file.clone();
        *other.last_mut().expect("the file has elements") ^= 0x80;
        for bytes in [archive(0, &other, &file), archive(8, &packed, &other)] {
            let error = read(&bytes).expect_err("a bit differs");
            assert_eq!(error.message, "the data is damaged: it has another checksum");
            assert_eq!(error.at, ["array `w`"]);
        }
    }
}
