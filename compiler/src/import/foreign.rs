//! Recognizes files of other formats, so that the message for a file that is no model names what it
//! is, and how to get a model.

/// The format of a file that is no model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Foreign {
    /// The name of the format, with its article.
    pub format: &'static str,
    /// How to get a model.
    pub help: &'static str,
}

const EXPORT_TORCH: &str = "export the model from its program: `torch.onnx.export(model, …)`";
const DECOMPRESS: &str = "decompress it, and compile the file inside";
const CONVERT_TENSORFLOW: &str = "convert it with tf2onnx: `python -m tf2onnx.convert`";
const NO_GRAPH: &str = "it has weights only: export the model that uses them to ONNX";

/// Formats by the bytes at an offset.
const SIGNATURES: &[(usize, &[u8], Foreign)] = &[
    (0, b"\x1f\x8b", Foreign { format: "compressed by gzip", help: DECOMPRESS }),
    (0, b"\xfd7zXZ\0", Foreign { format: "compressed by xz", help: DECOMPRESS }),
    (0, b"\x28\xb5\x2f\xfd", Foreign { format: "compressed by zstd", help: DECOMPRESS }),
    (0, b"BZh", Foreign { format: "compressed by bzip2", help: DECOMPRESS }),
    (0, b"7z\xbc\xaf\x27\x1c", Foreign { format: "a 7z archive", help: DECOMPRESS }),
    (
        257,
        b"ustar",
        Foreign { format: "a tar archive", help: "extract it, and compile the file inside" },
    ),
    (
        4,
        b"TFL3",
        Foreign {
            format: "a TFLite model",
            help: "convert it with tf2onnx: `python -m tf2onnx.convert --tflite model.tflite`",
        },
    ),
    (
        4,
        b"ORTM",
        Foreign {
            format: "a model in ONNX Runtime's own format",
            help: "compile the `.onnx` file from which it was converted",
        },
    ),
    (
        0,
        b"\x89HDF\r\n\x1a\n",
        Foreign {
            format: "an HDF5 file, such as Keras writes",
            help: "load it in Keras, and convert the model with tf2onnx",
        },
    ),
    (0, b"GGUF", Foreign { format: "a GGUF file of llama.cpp", help: NO_GRAPH }),
    (
        0,
        b"\x93NUMPY",
        Foreign {
            format: "a NumPy array",
            help: "arrays are inputs: `onnxc run model.onnx --input NAME=array.npy`",
        },
    ),
    (0, b"\x89PNG", Foreign { format: "a PNG image", help: "name the model" }),
    (0, b"\xff\xd8\xff", Foreign { format: "a JPEG image", help: "name the model" }),
    (0, b"%PDF", Foreign { format: "a PDF document", help: "name the model" }),
];

/// Returns the format of a file if it is a known one other than ONNX.
pub(super) fn recognize(bytes: &[u8]) -> Option<Foreign> {
    let has =
        |at: usize, signature: &[u8]| bytes.get(at..).is_some_and(|b| b.starts_with(signature));
    let signed = SIGNATURES.iter().find(|(at, signature, _)| has(*at, signature));
    let signed = signed.map(|(_, _, foreign)| *foreign);
    signed
        .or_else(|| archive(bytes))
        .or_else(|| pickle(bytes))
        .or_else(|| text(bytes))
        .or_else(|| safetensors(bytes).or_else(|| saved_model(bytes)))
}

/// Returns the format of a ZIP archive, by the names of its members.
fn archive(bytes: &[u8]) -> Option<Foreign> {
    if !bytes.starts_with(b"PK\x03\x04") {
        return None;
    }
    let has = |name: &[u8]| bytes.windows(name.len()).any(|part| part == name);
    Some(if has(b"constants.pkl") {
        Foreign { format: "a TorchScript archive", help: EXPORT_TORCH }
    } else if has(b"data.pkl") {
        Foreign { format: "a PyTorch archive", help: EXPORT_TORCH }
    } else if has(b"model.weights.h5") {
        Foreign { format: "a Keras archive", help: CONVERT_TENSORFLOW }
    } else if has(b".npy") {
        Foreign { format: "an archive of NumPy arrays", help: NO_GRAPH }
    } else {
        Foreign { format: "a ZIP archive", help: "extract it, and compile the file inside" }
    })
}

/// Returns whether a file is a pickle: its first instruction is the version of the protocol.
fn pickle(bytes: &[u8]) -> Option<Foreign> {
    let is_pickle = matches!(bytes, [0x80, 2..=5, ..]);
    is_pickle.then_some(Foreign {
        format: "a Python pickle, such as PyTorch writes",
        help: EXPORT_TORCH,
    })
}

/// Returns the format of a text.
fn text(bytes: &[u8]) -> Option<Foreign> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Some(Foreign { format: "text in UTF-16", help: "save it in UTF-8" });
    }
    let start = bytes.trim_ascii_start();
    let is = |head: &str| {
        let found = start.get(..head.len());
        found.is_some_and(|found| found.eq_ignore_ascii_case(head.as_bytes()))
    };
    if is("<!doctype html") || is("<html") {
        let help = "download the file itself: the address may be that of a page about it";
        return Some(Foreign { format: "a web page", help });
    }
    if is("<?xml") || is("<net ") {
        let help = "compile the `.onnx` file from which it was converted";
        return Some(Foreign { format: "an XML document, such as OpenVINO writes", help });
    }
    let is_json = start.starts_with(b"{") && start[1..].trim_ascii_start().starts_with(b"\"");
    is_json.then_some(Foreign { format: "a JSON document", help: "name the `.onnx` file" })
}

/// Returns whether a file has the header of safetensors: its length, then JSON.
fn safetensors(bytes: &[u8]) -> Option<Foreign> {
    let (len, rest) = bytes.split_first_chunk::<8>()?;
    let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
    let is_header = len >= 2 && len <= rest.len() && rest.starts_with(b"{\"");
    is_header.then_some(Foreign { format: "a safetensors file", help: NO_GRAPH })
}

/// Returns whether a file is a `saved_model.pb` of TensorFlow: version 1 of its schema, and a graph
/// with the tag `serve`.
fn saved_model(bytes: &[u8]) -> Option<Foreign> {
    /// The part of the file in which the tag is.
    const HEAD: usize = 1 << 20;
    let head = &bytes[..bytes.len().min(HEAD)];
    let is_saved =
        head.starts_with(&[8, 1, 0x12]) && head.windows(7).any(|part| part == b"\x22\x05serve");
    is_saved.then_some(Foreign {
        format: "a SavedModel of TensorFlow",
        help: "convert its folder with tf2onnx: `python -m tf2onnx.convert --saved-model FOLDER`",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_formats_are_recognized() {
        let safetensors = [&20u64.to_le_bytes()[..], b"{\"w\":{\"dtype\":\"F32\"}}"].concat();
        let cases: &[(&[u8], &str)] = &[
            (b"\x1f\x8b\x08", "compressed by gzip"),
            (b"\x20\0\0\0TFL3", "a TFLite model"),
            (b"\x89HDF\r\n\x1a\n\0", "an HDF5 file, such as Keras writes"),
            (b"GGUF\x03\0\0\0", "a GGUF file of llama.cpp"),
            (b"PK\x03\x04..model/data.pkl", "a PyTorch archive"),
            (b"PK\x03\x04..model/data.pkl..model/constants.pkl", "a TorchScript archive"),
            (b"PK\x03\x04..x.npy", "an archive of NumPy arrays"),
            (b"PK\x03\x04..model.onnx", "a ZIP archive"),
            (b"\x80\x02}q\0.", "a Python pickle, such as PyTorch writes"),
            (b"\n<!DOCTYPE html>\n", "a web page"),
            (b"\xff\xfe<\0", "text in UTF-16"),
            (b"{\n \"architectures\": []}", "a JSON document"),
            (&safetensors, "a safetensors file"),
            (b"\x08\x01\x12\x09\x0a\x07\x22\x05serve", "a SavedModel of TensorFlow"),
        ];
        for (bytes, format) in cases {
            assert_eq!(recognize(bytes).map(|found| found.format), Some(*format));
        }
    }

    #[test]
    fn models_are_not_taken_for_other_files() {
        let text = b"<ir_version: 10, opset_import: [\"\" : 21]> g () => () {}";
        let binary = b"\x08\x0a\x12\x07pytorch\x3a\x02\x0a\x00";
        assert_eq!((recognize(text), recognize(binary), recognize(b"")), (None, None, None));
    }
}
