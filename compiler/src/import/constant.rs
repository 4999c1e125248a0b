//! Parses constants from the command line: `8000`, `[1, 2, 3]`, `true`, `text`, `["a, b", c]`.
//! Quotes belong to the items of lists; a single string is taken as it is.

use crate::{
    array::Array,
    diag::{Code, Diagnostic, Result, quoted},
    dim::Dim,
    dtype::DType,
    tensor::Tensor,
    ty::{Type, count},
};
use half::{bf16, f16};

/// Parses `text` as a tensor for an input of type `ty`.
pub fn tensor(text: &str, ty: &Type) -> Result<Tensor> {
    let (dtype, shape) = match ty {
        Type::Tensor(ty) => (ty.dtype, Some(&ty.shape)),
        Type::Unranked(dtype) => (*dtype, None),
        other => {
            let message = format!("an input of type {other} cannot be made a constant");
            return Err(Diagnostic::new(Code::BadOption, message));
        }
    };
    // One string may have brackets itself, as `[MASK]`.
    let is_text = dtype == DType::String && shape.is_some_and(|shape| shape.is_empty());
    let list = text.trim().strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let list = list.filter(|_| !is_text);
    let items = match list {
        Some(list) => items(list),
        None => Some(vec![text.trim().to_owned()]),
    };
    let found = items.and_then(|items| Some((array(&items, dtype)?, items)));
    let (array, items) = found.ok_or_else(|| {
        let message = format!("{} is not a constant of type {dtype}", quoted(text));
        Diagnostic::new(Code::BadOption, message)
    })?;
    let found = if list.is_some() { vec![items.len()] } else { Vec::new() };
    let wanted = shape.and_then(|shape| {
        let sizes: Option<Vec<usize>> =
            shape.iter().map(|dim| usize::try_from(dim.known()?).ok()).collect();
        sizes.filter(|sizes| count(sizes) == items.len())
    });
    let fits = |shape: &Vec<Dim>| {
        let axis = |(dim, &size): (&Dim, &usize)| {
            dim.known().is_none_or(|known| usize::try_from(known) == Ok(size))
        };
        shape.len() == found.len() && shape.iter().zip(&found).all(axis)
    };
    match wanted {
        Some(shape) => Ok(array.into_tensor(shape)),
        None if shape.is_none_or(fits) => Ok(array.into_tensor(found)),
        None => {
            let message =
                format!("{} does not have the shape of an input of type {ty}", quoted(text));
            Err(Diagnostic::new(Code::BadOption, message))
        }
    }
}

/// Splits a list at its commas. An item in double quotes may contain commas, and `\` before any
/// character of it. Returns `None` if a quoted item has no end.
fn items(list: &str) -> Option<Vec<String>> {
    let (mut items, mut rest) = (Vec::new(), list.trim());
    if rest.is_empty() {
        return Some(items);
    }
    loop {
        let (item, after) = match rest.strip_prefix('"') {
            Some(rest) => unquoted(rest)?,
            None => {
                let (item, after) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                (item.trim().to_owned(), after)
            }
        };
        items.push(item);
        rest = match after.trim_start() {
            "" => return Some(items),
            after => after.strip_prefix(',')?.trim_start(),
        };
    }
}

/// Returns the text up to the closing quote, and what follows it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let (mut item, mut chars) = (String::new(), text.chars());
    loop {
        match chars.next()? {
            '"' => return Some((item, chars.as_str())),
            '\\' => item.push(chars.next()?),
            other => item.push(other),
        }
    }
}

fn array(items: &[String], dtype: DType) -> Option<Array> {
    fn all<T: std::str::FromStr>(items: &[String]) -> Option<Vec<T>> {
        items.iter().map(|item| item.parse().ok()).collect()
    }
    Some(match dtype {
        DType::F32 => Array::F32(all(items)?),
        DType::F64 => Array::F64(all(items)?),
        DType::F16 => Array::F16(all(items)?.into_iter().map(f16::from_f64).collect()),
        DType::BF16 => Array::BF16(all(items)?.into_iter().map(bf16::from_f64).collect()),
        DType::I8 => Array::I8(all(items)?),
        DType::I16 => Array::I16(all(items)?),
        DType::I32 => Array::I32(all(items)?),
        DType::I64 => Array::I64(all(items)?),
        DType::U8 => Array::U8(all(items)?),
        DType::U16 => Array::U16(all(items)?),
        DType::U32 => Array::U32(all(items)?),
        DType::U64 => Array::U64(all(items)?),
        DType::Bool => Array::Bool(all(items)?),
        DType::String => Array::String(items.to_vec()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_takes_the_type_of_the_input() {
        let scalar = Type::tensor::<Dim>(DType::I64, []);
        assert_eq!(tensor("8000", &scalar).map(|t| t.ints()), Ok(Some(vec![8000])));
        let row = Type::tensor(DType::F32, [1, 2]);
        let found =
            tensor("[1, 2.5]", &row).expect("the list has the number of elements of the type");
        assert_eq!((found.shape.as_slice(), found.floats()), (&[1, 2][..], Some(vec![1.0, 2.5])));
        assert!(tensor("[1, 2]", &scalar).is_err() && tensor("x", &scalar).is_err());
    }

    #[test]
    fn a_list_has_the_sizes_of_the_input() {
        let row = Type::tensor(DType::F32, [3]);
        assert!(tensor("[1, 2]", &row).is_err() && tensor("[1, 2, 3]", &row).is_ok());
        let free = Type::tensor(DType::F32, [Dim::symbol("n")]);
        assert_eq!(tensor("[1, 2]", &free).map(|t| t.shape), Ok(vec![2]));
        assert_eq!(tensor("[ ]", &free).map(|t| t.shape), Ok(vec![0]));
    }

    #[test]
    fn strings_contain_commas_and_brackets() {
        let strings = |text, ty: &Type| tensor(text, ty).map(|t| t.strings().map(<[_]>::to_vec));
        let all = |words: &[&str]| Ok(Some(words.iter().map(ToString::to_string).collect()));
        let row = Type::tensor(DType::String, [Dim::symbol("n")]);
        assert_eq!(strings(r#"["a, b" , c, "\"\\"]"#, &row), all(&["a, b", "c", "\"\\"]));
        assert_eq!(strings("[a,]", &row), all(&["a", ""]));
        assert!(tensor(r#"["a]"#, &row).is_err() && tensor(r#"["a"b]"#, &row).is_err());
        let one = Type::tensor::<Dim>(DType::String, []);
        assert_eq!(strings("[MASK]", &one), all(&["[MASK]"]));
    }
}
