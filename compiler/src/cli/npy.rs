//! Reads and writes NumPy's file format, `.npy`: a header in the form of a Python dictionary,
//! followed by the elements.
//! <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>

use onnxc::{
    diag::{Code, Diagnostic, Result, quoted},
    dtype::DType,
    tensor::{Data, Tensor},
};

const MAGIC: &[u8] = b"\x93NUMPY";

/// The element types of both formats: NumPy's kind and size in bytes, and ours.
const TYPES: &[(&str, DType)] = &[
    ("b1", DType::Bool),
    ("i1", DType::I8),
    ("i2", DType::I16),
    ("i4", DType::I32),
    ("i8", DType::I64),
    ("u1", DType::U8),
    ("u2", DType::U16),
    ("u4", DType::U32),
    ("u8", DType::U64),
    ("f2", DType::F16),
    ("f4", DType::F32),
    ("f8", DType::F64),
    ("c8", DType::C64),
    ("c16", DType::C128),
];

/// The header of a file.
struct Header<'f> {
    /// NumPy's name of the element type, preceded by the byte order.
    descr: &'f str,
    /// Whether the first axis is the contiguous one.
    fortran_order: bool,
    shape: Vec<usize>,
}

/// The help for a file of another format.
pub const SAVE: &str = "save the array in Python: `numpy.save(\"x.npy\", array)`";

/// Decodes a file.
pub fn read(bytes: &[u8]) -> Result<Tensor> {
    let (text, data) = split(bytes).ok_or_else(|| bad("this is not a `.npy` file").help(SAVE))?;
    let header = header(text).ok_or_else(|| bad("the header cannot be read").note(text))?;
    let (order, name) = header.descr.split_at_checked(1).unwrap_or_default();
    let tensor = if let Some(width) = name.strip_prefix('U') {
        strings(order, width, &header.shape, data)
    } else {
        numbers(order, name, &header.shape, data)
    }?;
    Ok(if header.fortran_order { transpose(&tensor) } else { tensor })
}

/// Encodes a tensor as a file.
pub fn write(tensor: &Tensor) -> Result<Vec<u8>> {
    let (descr, data) = match &tensor.data {
        Data::Strings(strings) => {
            let width = strings.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
            (format!("<U{width}"), strings.iter().flat_map(|text| utf32(text, width)).collect())
        }
        Data::Bytes(bytes) => {
            let name = TYPES.iter().find(|(_, dtype)| *dtype == tensor.dtype).map(|row| row.0);
            let name = name.ok_or_else(|| {
                bad(&format!("NumPy has no type for `{}`", tensor.dtype)).help("use `--format pb`")
            })?;
            let order = if tensor.dtype.bytes() == 1 { '|' } else { '<' };
            (format!("{order}{name}"), bytes.to_vec())
        }
    };
    let sizes: String = tensor.shape.iter().map(|size| format!("{size}, ")).collect();
    let mut header = format!(
        "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}), }}",
        sizes.trim_end()
    );
    // The elements start at a multiple of 64 bytes, after a line feed.
    let padding = (MAGIC.len() + 4 + header.len() + 1).next_multiple_of(64) - MAGIC.len() - 5;
    header = format!("{header:<padding$}\n");
    let len = u16::try_from(header.len()).map_err(|_| bad("the tensor has too many axes"))?;
    Ok([MAGIC, &[1, 0], &len.to_le_bytes(), header.as_bytes(), &data].concat())
}

/// Splits a file into the text of the header and the elements.
fn split(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let ([major, _], rest) = rest.split_first_chunk()?;
    let (len, rest) = if *major == 1 {
        let (len, rest) = rest.split_first_chunk()?;
        (usize::from(u16::from_le_bytes(*len)), rest)
    } else {
        let (len, rest) = rest.split_first_chunk()?;
        (usize::try_from(u32::from_le_bytes(*len)).ok()?, rest)
    };
    let (header, data) = rest.split_at_checked(len)?;
    Some((std::str::from_utf8(header).ok()?, data))
}

fn header(text: &str) -> Option<Header<'_>> {
    let field = |name: &str| {
        let (_, rest) = text.split_once(&format!("'{name}'"))?;
        rest.trim_start().strip_prefix(':').map(str::trim_start)
    };
    let (descr, _) = field("descr")?.strip_prefix('\'')?.split_once('\'')?;
    let (shape, _) = field("shape")?.strip_prefix('(')?.split_once(')')?;
    let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
    let shape = sizes.map(|size| size.parse().ok()).collect::<Option<Vec<usize>>>()?;
    Some(Header { descr, fortran_order: field("fortran_order")?.starts_with("True"), shape })
}

fn numbers(order: &str, name: &str, shape: &[usize], data: &[u8]) -> Result<Tensor> {
    let row = TYPES.iter().find(|(known, _)| *known == name);
    let (_, dtype) = row.ok_or_else(|| unknown(order, name))?;
    let mut data = check_size(shape, dtype.bytes(), data)?.to_vec();
    if order == ">" {
        // Each part of a complex number is swapped separately.
        let part = if name.starts_with('c') { dtype.bytes() / 2 } else { dtype.bytes() };
        data.chunks_exact_mut(part).for_each(<[u8]>::reverse);
    }
    if *dtype == DType::Bool && data.iter().any(|&byte| byte > 1) {
        return Err(bad("a boolean is neither 0 nor 1"));
    }
    Ok(Tensor { dtype: *dtype, shape: shape.to_vec(), data: Data::Bytes(data.into()) })
}

/// Decodes strings of `width` characters of four bytes each, padded with zeros.
fn strings(order: &str, width: &str, shape: &[usize], data: &[u8]) -> Result<Tensor> {
    let bytes = width.parse().ok().and_then(|width: usize| width.checked_mul(4));
    let bytes = bytes.filter(|&bytes| bytes > 0);
    let bytes = bytes.ok_or_else(|| unknown(order, &format!("U{width}")))?;
    let data = check_size(shape, bytes, data)?;
    let character = |&four: &[u8; 4]| {
        let code = if order == ">" { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) };
        char::from_u32(code).ok_or_else(|| bad("a character is not valid Unicode"))
    };
    let text = |chunk: &[u8]| {
        let text = chunk.as_chunks().0.iter().map(character).collect::<Result<String>>()?;
        Ok(text.trim_end_matches('\0').to_owned())
    };
    let strings = data.chunks_exact(bytes).map(text).collect::<Result<_>>()?;
    Ok(Tensor { dtype: DType::String, shape: shape.to_vec(), data: Data::Strings(strings) })
}

/// Returns `data` if it holds as many elements of `bytes` bytes as the shape demands.
fn check_size<'f>(shape: &[usize], bytes: usize, data: &'f [u8]) -> Result<&'f [u8]> {
    let wanted = shape.iter().try_fold(bytes, |product, &size| product.checked_mul(size));
    if wanted == Some(data.len()) {
        return Ok(data);
    }
    let (found, shape) = (data.len(), shape.to_vec());
    Err(bad(&format!("{found} bytes do not make a tensor of shape {shape:?}")))
}

/// Reverses the order of the axes in memory.
fn transpose(tensor: &Tensor) -> Tensor {
    // The position in memory of each element, in row-major order.
    let strides: Vec<usize> = tensor
        .shape
        .iter()
        .scan(1, |stride, &size| {
            let own = *stride;
            *stride *= size;
            Some(own)
        })
        .collect();
    let place = |mut at: usize| {
        let axes = tensor.shape.iter().zip(&strides).rev();
        axes.fold(0, |place, (&size, &stride)| {
            let index = at % size;
            at /= size;
            place + index * stride
        })
    };
    let places = (0..tensor.len()).map(place);
    let data = match &tensor.data {
        Data::Strings(strings) => Data::Strings(places.map(|i| strings[i].clone()).collect()),
        Data::Bytes(bytes) => {
            let size = tensor.dtype.bytes();
            let elements = places.flat_map(|i| bytes[i * size..(i + 1) * size].iter().copied());
            Data::Bytes(elements.collect())
        }
    };
    Tensor { data, ..tensor.clone() }
}

fn utf32(text: &str, width: usize) -> Vec<u8> {
    let codes = text.chars().map(u32::from).chain(std::iter::repeat(0));
    codes.take(width).flat_map(u32::to_le_bytes).collect()
}

fn bad(what: &str) -> Diagnostic {
    Diagnostic::new(Code::BadTensor, what)
}

fn unknown(order: &str, name: &str) -> Diagnostic {
    if name == "O" {
        return bad("this is an array of Python objects, which no tensor holds")
            .help("save numbers with `.astype(\"float32\")`, and texts with `.astype(str)`");
    }
    let name = quoted(&format!("{order}{name}"));
    bad(&format!("elements of NumPy's type {name} are not those of a tensor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in the form in which NumPy writes it.
    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let len = (header.len() as u16).to_le_bytes();
        [MAGIC, &[1, 0], &len, header.as_bytes(), data].concat()
    }

    #[test]
    fn a_written_array_reads_the_same() {
        let strings = Tensor::from_strings(vec!["a".into(), "größer".into(), String::new()]);
        let matrix = Tensor { shape: vec![1, 3], ..Tensor::from_floats(&[1.0, -2.5, 3.0]) };
        for tensor in [strings, matrix, Tensor::from_int(7), Tensor::from_ints(&[])] {
            let bytes = write(&tensor).expect("NumPy has the type");
            assert!(read(&bytes).expect("a written file can be read") == tensor);
            assert!(bytes.len() - tensor.bytes().len() >= 64);
        }
    }

    #[test]
    fn the_first_axis_may_be_the_contiguous_one() {
        let bytes = file(
            "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }\n",
            &[1, 4, 2, 5, 3, 6],
        );
        let tensor = read(&bytes).expect("the file is well formed");
        assert_eq!(
            (tensor.shape.as_slice(), tensor.bytes()),
            (&[2, 3][..], &[1, 2, 3, 4, 5, 6][..])
        );
    }

    #[test]
    fn bytes_may_come_in_either_order() {
        let header = "{'descr': '>i4', 'fortran_order': False, 'shape': (1,), }\n";
        let tensor = read(&file(header, &[0, 0, 1, 2])).expect("the file is well formed");
        assert_eq!(tensor.ints(), Some(vec![258]));
    }

    #[test]
    fn broken_files_are_errors() {
        let object = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n";
        let short = "{'descr': '<f4', 'fortran_order': False, 'shape': (9,), }\n";
        let huge =
            "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551615, 2), }\n";
        for bytes in [
            b"text".to_vec(),
            file("{}", &[]),
            file(object, &[0; 8]),
            file(short, &[0; 4]),
            file(huge, &[]),
        ] {
            assert_eq!(read(&bytes).err().map(|diagnostic| diagnostic.code), Some(Code::BadTensor));
        }
    }
}
