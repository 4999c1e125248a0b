//! Parses constants from the command line: `8000`, `[1, 2, 3]`, `true`, `text`.

use crate::{
    array::Array,
    diag::{Code, Diagnostic, Result, quoted},
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
    let list = text.trim().strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let items: Vec<&str> = match list {
        Some("") => Vec::new(),
        Some(list) => list.split(',').map(str::trim).collect(),
        None => vec![text.trim()],
    };
    let array = array(&items, dtype).ok_or_else(|| {
        let message = format!("{} is not a constant of type {dtype}", quoted(text));
        Diagnostic::new(Code::BadOption, message)
    })?;
    let found = if list.is_some() { vec![items.len()] } else { Vec::new() };
    let wanted = shape.and_then(|shape| {
        let sizes: Option<Vec<usize>> =
            shape.iter().map(|dim| usize::try_from(dim.known()?).ok()).collect();
        sizes.filter(|sizes| count(sizes) == items.len())
    });
    let rank = shape.map(Vec::len);
    match wanted {
        Some(shape) => Ok(array.into_tensor(shape)),
        None if rank.is_none_or(|rank| rank == found.len()) => Ok(array.into_tensor(found)),
        None => {
            let message =
                format!("{} does not have the shape of an input of type {ty}", quoted(text));
            Err(Diagnostic::new(Code::BadOption, message))
        }
    }
}

fn array(items: &[&str], dtype: DType) -> Option<Array> {
    fn all<T: std::str::FromStr>(items: &[&str]) -> Option<Vec<T>> {
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
        DType::String => Array::String(items.iter().map(|item| (*item).to_owned()).collect()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dim::Dim;

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
}
