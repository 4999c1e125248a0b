//! Parses constant tensors.

use super::{cursor::Cursor, lexer::Token};
use crate::{
    diag::{Result, quoted},
    dtype::DType,
};
use onnxc_proto::{
    Bytes, SparseTensorProto, StringStringEntryProto, TensorProto,
    tensor_proto::DataLocation,
    type_proto::{self, Value},
};

impl Cursor<'_> {
    /// Returns whether the data of a constant is next, possibly after a name or `=`.
    pub fn at_constant(&self) -> bool {
        match self.token() {
            Token::Name(_) | Token::Quoted(_) => true,
            Token::Mark(mark) => matches!(mark, '=' | '{'),
            _ => false,
        }
    }

    /// Parses the data of a constant of type `ty`: its elements, or the location of external data.
    pub fn constant(&mut self, name: Option<String>, ty: Option<&Value>) -> Result<TensorProto> {
        let Some(Value::TensorType(ty)) = ty else {
            return Err(self.error("only tensors can be written as constants"));
        };
        let (dtype, dims) = self.constant_type(ty.elem_type, ty.shape.as_ref())?;
        let mut tensor = TensorProto { dims, name, ..Default::default() };
        if self.accept('[')? {
            tensor.data_type = Some(dtype.code());
            tensor.data_location = Some(DataLocation::External.into());
            tensor.external_data = self.list(']', Cursor::entry)?;
        } else {
            self.elements(dtype, &mut tensor)?;
        }
        Ok(tensor)
    }

    /// Parses the data of a sparse constant: `{values} at {indices}`.
    pub fn sparse_constant(
        &mut self,
        name: Option<String>,
        ty: &type_proto::SparseTensor,
    ) -> Result<SparseTensorProto> {
        let (dtype, dims) = self.constant_type(ty.elem_type, ty.shape.as_ref())?;
        let mut values = TensorProto { name, ..Default::default() };
        let values_count = self.elements(dtype, &mut values)?;
        values.dims = vec![values_count];
        if *self.token() != Token::Name("at") {
            return Err(self.expected("`at`"));
        }
        self.take()?;
        let mut indices = TensorProto::default();
        let count = self.elements(DType::I64, &mut indices)?;
        // As many indices as values are positions in the flattened tensor. Otherwise there is an
        // index per axis.
        indices.dims = vec![values_count];
        if count != values_count {
            indices.dims.push(count.checked_div(values_count).unwrap_or(0));
        }
        Ok(SparseTensorProto { values: Some(values), indices: Some(indices), dims })
    }

    /// Parses the elements of a constant, and returns their number.
    fn elements(&mut self, dtype: DType, tensor: &mut TensorProto) -> Result<i64> {
        tensor.data_type = Some(dtype.code());
        self.expect('{')?;
        if self.at('.') {
            return Err(self.error("the elements of this constant were left out of the text"));
        }
        let count = match dtype {
            DType::F32 | DType::C64 => {
                tensor.float_data = self.list('}', Cursor::float)?;
                tensor.float_data.len()
            }
            DType::F64 | DType::C128 => {
                tensor.double_data = self.list('}', Cursor::float)?;
                tensor.double_data.len()
            }
            DType::I64 => {
                tensor.int64_data = self.list('}', Cursor::int)?;
                tensor.int64_data.len()
            }
            DType::U32 | DType::U64 => {
                tensor.uint64_data = self.list('}', |cursor| cursor.narrow(dtype))?;
                tensor.uint64_data.len()
            }
            DType::String => {
                tensor.string_data = self.list('}', |cursor| cursor.quoted().map(Bytes::from))?;
                tensor.string_data.len()
            }
            _ => {
                let elements = self.list('}', |cursor| cursor.narrow(dtype))?;
                tensor.int32_data = pack(dtype, &elements);
                elements.len()
            }
        };
        Ok(count as i64)
    }

    /// Parses an integer that is an element of `dtype`, or its bits if `dtype` is not an integer
    /// type.
    fn narrow<T: TryFrom<i128>>(&mut self, dtype: DType) -> Result<T> {
        let place = self.place();
        let found: i128 = self.int()?;
        let is_signed =
            matches!(dtype, DType::I2 | DType::I4 | DType::I8 | DType::I16 | DType::I32);
        let bits = if dtype == DType::Bool { 1 } else { dtype.bits() };
        let (low, high) =
            if is_signed { (-(1 << (bits - 1)), 1 << (bits - 1)) } else { (0, 1 << bits) };
        let fits = (low..high).contains(&found);
        T::try_from(found).ok().filter(|_| fits).ok_or_else(|| {
            let found = quoted(&found.to_string());
            self.error_at(place, format!("{found} is no element of type {dtype}"))
        })
    }

    /// Parses a key and its value.
    pub fn entry(&mut self) -> Result<StringStringEntryProto> {
        let key = Some(self.quoted()?);
        self.expect(':')?;
        Ok(StringStringEntryProto { key, value: Some(self.quoted()?) })
    }
}

/// The entries of `int32_data`, each of which holds several elements of less than a byte.
fn pack(dtype: DType, elements: &[i32]) -> Vec<i32> {
    let bits = dtype.bits();
    if bits >= 8 {
        return elements.to_vec();
    }
    let low = (1 << bits) - 1;
    let entry = |elements: &[i32]| {
        let shifted = elements.iter().enumerate().map(|(i, x)| (x & low) << (i * bits));
        shifted.sum()
    };
    elements.chunks(8 / bits).map(entry).collect()
}
