//! Files in NumPy's formats.

/// Returns a `.npy` file, with the name of the element type and the shape as NumPy writes them.
pub fn array(element: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': ({shape})}}\n");
    let length = u16::try_from(header.len()).expect("the header is short").to_le_bytes();
    [b"\x93NUMPY\x01\0", &length[..], header.as_bytes(), data].concat()
}

/// Returns a `.npy` file of `float`.
pub fn floats(shape: &str, numbers: &[f32]) -> Vec<u8> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    array("<f4", shape, &bytes)
}

/// Returns the checksum of a member of an archive.
fn crc32(bytes: &[u8]) -> u32 {
    let shift = |crc: u32, _| (crc >> 1) ^ ((crc & 1) * 0xedb8_8320);
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), shift))
}

/// Returns an archive of `.npy` files, stored as NumPy stores them, by the names of the arrays.
pub fn archive(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut members, mut entries) = (Vec::new(), Vec::new());
    for (name, file) in files {
        let name = format!("{name}.npy");
        let (bytes, length) = (file.len() as u32, name.len() as u16);
        let mut common = vec![0; 10];
        common.extend(crc32(file).to_le_bytes());
        [bytes, bytes].iter().for_each(|size| common.extend(size.to_le_bytes()));
        common.extend(length.to_le_bytes());
        common.extend([0; 2]);
        let offset = (members.len() as u32).to_le_bytes();
        members.extend([b"PK\x03\x04", &common[..], name.as_bytes(), file].concat());
        let entry = [b"PK\x01\x02\0\0", &common[..], &[0; 10], &offset, name.as_bytes()].concat();
        entries.extend(entry);
    }
    let count = (files.len() as u16).to_le_bytes();
    let mut end = [b"PK\x05\x06\0\0\0\0", &count[..], &count].concat();
    [entries.len(), members.len()].iter().for_each(|&n| end.extend((n as u32).to_le_bytes()));
    [members, entries, end, vec![0; 2]].concat()
}
