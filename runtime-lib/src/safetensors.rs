//! Trained variables as a safetensors file, the format in which weights are exchanged: the length
//! of the header, the header (JSON, with the type, shape and offsets of each tensor), and the
//! elements.

use crate::{
    Error, Result,
    variable::{Variable, Variables},
};
use alloc::{string::String, vec::Vec};
use core::{fmt::Write, str::Chars};

/// Element types as ONNX and as safetensors name them; the largest first.
const TYPES: &[(&str, &str)] = &[
    ("complex64", "C64"),
    ("double", "F64"),
    ("int64", "I64"),
    ("uint64", "U64"),
    ("float", "F32"),
    ("int32", "I32"),
    ("uint32", "U32"),
    ("bfloat16", "BF16"),
    ("float16", "F16"),
    ("int16", "I16"),
    ("uint16", "U16"),
    ("bool", "BOOL"),
    ("float8e4m3fn", "F8_E4M3"),
    ("float8e4m3fnuz", "F8_E4M3FNUZ"),
    ("float8e5m2", "F8_E5M2"),
    ("float8e5m2fnuz", "F8_E5M2FNUZ"),
    ("float8e8m0", "F8_E8M0"),
    ("int8", "I8"),
    ("uint8", "U8"),
];

/// Returns the index of a variable's element type in [`TYPES`].
fn type_of(variable: &Variable) -> Result<usize> {
    let found = TYPES.iter().position(|(name, _)| *name == variable.ty);
    found.ok_or(Error::Value("safetensors does not have the element type of a variable"))
}

impl Variables<'_> {
    /// Writes all variables to the bytes of a file.
    ///
    /// # Errors
    ///
    /// Returns an error if the format does not have the element type of a variable.
    pub fn to_safetensors(&mut self) -> Result<Vec<u8>> {
        let typed = self.all().iter().map(|variable| Ok((type_of(variable)?, variable)));
        let mut typed = typed.collect::<Result<Vec<_>>>()?;
        // The largest elements come first, so all are aligned.
        typed.sort_by_key(|(ty, _)| *ty);
        let (mut head, mut elements) = (String::from("{"), Vec::new());
        for (i, (ty, variable)) in typed.into_iter().enumerate() {
            let start = elements.len();
            elements.extend_from_slice(self.get(variable.name).unwrap_or_default());
            let (comma, dtype, shape) = (if i > 0 { "," } else { "" }, TYPES[ty].1, variable.shape);
            head.push_str(comma);
            quote(variable.name, &mut head);
            let end = elements.len();
            let written = write!(
                head,
                r#":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#
            );
            written.map_err(|_| Error::Value("not enough memory for the file"))?;
        }
        head.push('}');
        while !head.len().is_multiple_of(8) {
            head.push(' ');
        }
        let len = u64::try_from(head.len()).unwrap_or(u64::MAX).to_le_bytes();
        Ok([&len[..], head.as_bytes(), &elements].concat())
    }

    /// Sets the variables that a file contains; others keep their values.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a safetensors file, or if a tensor of it is not a
    /// variable, has another type or shape, or has elements that are not valid for its type. No
    /// variable changes then.
    pub fn load_safetensors(&mut self, file: &[u8]) -> Result {
        let tensors = tensors(file).ok_or(Error::Value("the bytes are not a safetensors file"))?;
        for tensor in &tensors {
            let variable = self.find(&tensor.name)?;
            let dtype = TYPES[type_of(variable)?].1;
            if (&*tensor.dtype, &*tensor.shape) != (dtype, variable.shape) {
                return Err(Error::Value("a tensor has another type or shape than its variable"));
            }
            variable.check(tensor.elements)?;
        }
        tensors.iter().try_for_each(|tensor| self.set(&tensor.name, tensor.elements))
    }
}

/// Appends `name` as a JSON string.
fn quote(name: &str, to: &mut String) {
    to.push('"');
    for c in name.chars() {
        match c {
            '"' | '\\' => to.extend(['\\', c]),
            c if c < ' ' => {
                to.push_str(if c < '\u{10}' { "\\u000" } else { "\\u001" });
                to.extend(char::from_digit(u32::from(c) % 16, 16));
            }
            c => to.push(c),
        }
    }
    to.push('"');
}

/// A tensor of a file.
#[derive(Default)]
struct Tensor<'f> {
    name: String,
    dtype: String,
    shape: Vec<usize>,
    elements: &'f [u8],
}

/// Reads the tensors of a file; `None` if the bytes are not a valid file.
fn tensors(file: &[u8]) -> Option<Vec<Tensor<'_>>> {
    let (len, rest) = file.split_first_chunk()?;
    let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
    let (head, elements) = rest.split_at_checked(len)?;
    let mut head = Json(core::str::from_utf8(head).ok()?);
    let mut tensors = Vec::new();
    head.object(&mut |head, name| {
        if name == "__metadata__" {
            return head.object(&mut |head, _| head.text().map(drop));
        }
        let mut tensor = Tensor { name, ..Tensor::default() };
        head.object(&mut |head, key| {
            match key.as_str() {
                "dtype" => tensor.dtype = head.text()?,
                "shape" => tensor.shape = head.numbers()?,
                "data_offsets" => {
                    let &[start, end] = head.numbers()?.as_slice() else { return None };
                    tensor.elements = elements.get(start..end)?;
                }
                _ => return None,
            }
            Some(())
        })?;
        tensors.push(tensor);
        Some(())
    })?;
    head.0.trim_ascii().is_empty().then_some(tensors)
}

/// The rest of a JSON text. Its methods parse from the front and return `None` on invalid text.
struct Json<'t>(&'t str);

/// The function that parses one item.
type Item<'a> = dyn FnMut(&mut Json<'_>) -> Option<()> + 'a;

impl Json<'_> {
    fn take(&mut self, mark: char) -> Option<()> {
        self.0 = self.0.trim_ascii_start().strip_prefix(mark)?;
        Some(())
    }

    /// Parses items between two brackets, separated by commas.
    fn items(&mut self, [open, close]: [char; 2], item: &mut Item<'_>) -> Option<()> {
        self.take(open)?;
        if self.take(close).is_some() {
            return Some(());
        }
        loop {
            item(self)?;
            if self.take(close).is_some() {
                return Some(());
            }
            self.take(',')?;
        }
    }

    /// Parses an object, calling `value` for the value of each key.
    fn object(&mut self, value: &mut dyn FnMut(&mut Json<'_>, String) -> Option<()>) -> Option<()> {
        self.items(['{', '}'], &mut |json| {
            let key = json.text()?;
            json.take(':')?;
            value(json, key)
        })
    }

    fn numbers(&mut self) -> Option<Vec<usize>> {
        let mut numbers = Vec::new();
        self.items(['[', ']'], &mut |json| {
            let text = json.0.trim_ascii_start();
            let end = text.find(|c: char| !c.is_ascii_digit())?;
            let (digits, rest) = text.split_at(end);
            numbers.push(digits.parse().ok()?);
            json.0 = rest;
            Some(())
        })?;
        Some(numbers)
    }

    fn text(&mut self) -> Option<String> {
        self.take('"')?;
        let (mut text, mut chars) = (String::new(), self.0.chars());
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => text.push(escaped(&mut chars)?),
                c => text.push(c),
            }
        }
        self.0 = chars.as_str();
        Some(text)
    }
}

/// Parses the rest of an escape sequence, after the backslash.
fn escaped(chars: &mut Chars<'_>) -> Option<char> {
    Some(match chars.next()? {
        c @ ('"' | '\\' | '/') => c,
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => {
            let first = unit(chars)?;
            let is_half = (0xD800..0xDC00).contains(&first);
            let second = match is_half {
                true if (chars.next()?, chars.next()?) == ('\\', 'u') => Some(unit(chars)?),
                true => return None,
                false => None,
            };
            char::decode_utf16([first].into_iter().chain(second)).next()?.ok()?
        }
        _ => return None,
    })
}

/// Parses the four hexadecimal digits of a UTF-16 code unit.
fn unit(chars: &mut Chars<'_>) -> Option<u16> {
    let mut unit = 0;
    for _ in 0..4 {
        unit = 16 * unit + chars.next()?.to_digit(16)?;
    }
    u16::try_from(unit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::InlineArena;
    use alloc::format;

    /// Characters that JSON escapes.
    const NAME: &str = "\"seen\"\n\\ \u{1F600}";

    const VARIABLES: &[Variable] = &[
        Variable::new::<bool>(NAME, "bool", &[2], 0),
        Variable::new::<f32>("w", "float", &[2, 1], 64),
    ];

    /// The header of both variables. The name of the second is [`NAME`], escaped.
    const HEADER: &str = concat!(
        r#"{"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"#,
        r#""\"seen\"\u000a\\ \uD83D\uDE00":{"dtype":"BOOL","shape":[2],"data_offsets":[8,10]}}"#,
    );

    /// Returns a file with this header, padded as Python's package pads it, and these elements.
    fn file(head: &str, elements: &[u8]) -> Vec<u8> {
        let len = head.len().next_multiple_of(8);
        let head = format!("{head:<len$}");
        let len = u64::try_from(head.len()).unwrap_or_default().to_le_bytes();
        [&len[..], head.as_bytes(), elements].concat()
    }

    fn head(ty: &str, shape: &str, end: usize) -> String {
        format!(r#"{{"w":{{"dtype":"{ty}","shape":{shape},"data_offsets":[0,{end}]}}}}"#)
    }

    #[test]
    fn variables_are_written_and_read() {
        let mut arena = InlineArena::<2>::new();
        let mut variables = Variables::new(VARIABLES, arena.blocks());
        let two = [1.5f32.to_le_bytes(), (-2.0f32).to_le_bytes()].concat();
        let header = HEADER.replacen('{', r#"{"__metadata__" : {"format": "pt"}, "#, 1);
        let both = file(&header, &[&two[..], &[0, 1]].concat());
        assert_eq!(variables.load_safetensors(&both), Ok(()));
        assert_eq!(variables.get("w"), Some(&two[..]));
        assert_eq!(variables.get(NAME), Some(&[0, 1][..]));
        let written = variables.to_safetensors();
        let mut other = InlineArena::<2>::new();
        let mut other = Variables::new(VARIABLES, other.blocks());
        assert_eq!(written.and_then(|written| other.load_safetensors(&written)), Ok(()));
        assert_eq!(other.get("w"), Some(&two[..]));
        assert_eq!(other.get(NAME), Some(&[0, 1][..]));
    }

    #[test]
    fn invalid_files_are_rejected_and_change_nothing() {
        let mut arena = InlineArena::<2>::new();
        let mut variables = Variables::new(VARIABLES, arena.blocks());
        assert_eq!(variables.load_safetensors(&file(&head("F32", "[2,1]", 8), &[1; 8])), Ok(()));
        for file in [
            file(&head("F32", "[2]", 8), &[0; 8]),
            file(&head("I32", "[2,1]", 8), &[0; 8]),
            file(&head("F32", "[2,1]", 8), &[0; 7]),
            file(&head("F32", "[2,1]", 8).replace("\"w\"", "\"v\""), &[0; 8]),
            file(HEADER, &[[0; 8].as_slice(), &[0, 2]].concat()),
            file(&head("F32", "[2,1]", 8).replace("0,8", "4,12"), &[0; 8]),
            file("{", &[]),
            file("{} {}", &[]),
            [u64::MAX.to_le_bytes().as_slice(), b"{}"].concat(),
            Vec::new(),
        ] {
            assert!(variables.load_safetensors(&file).is_err());
            assert_eq!(variables.get("w"), Some(&[1; 8][..]));
        }
    }
}
