//! Parses types, and values with their types.

use super::{cursor::Cursor, lexer::Token};
use crate::{
    diag::{Result, quoted},
    dtype::DType,
};
use onnxc_proto::{
    TensorShapeProto, TypeProto, ValueInfoProto,
    tensor_shape_proto::{Dimension, dimension::Value as Size},
    type_proto::{self, Value},
};

/// The first words of types that are not tensors.
pub const CONTAINERS: &[&str] = &["seq", "map", "optional", "sparse_tensor", "opaque"];

impl Cursor<'_> {
    /// Returns whether a type is next.
    pub fn at_type(&self) -> bool {
        match self.token() {
            Token::Name(name) => DType::from_name(name).is_some() || CONTAINERS.contains(name),
            _ => false,
        }
    }

    /// Parses a type.
    pub fn ty(&mut self) -> Result<TypeProto> {
        let value = self.with_depth(Cursor::type_value)?;
        Ok(TypeProto { value: Some(value), denotation: None })
    }

    fn type_value(&mut self) -> Result<Value> {
        let Token::Name(name) = *self.token() else { return Err(self.expected("a type")) };
        if DType::from_name(name).is_some() {
            return self.tensor_type().map(Value::TensorType);
        }
        if !CONTAINERS.contains(&name) {
            return Err(self.expected("a type"));
        }
        self.take()?;
        self.expect('(')?;
        let value = match name {
            "seq" => Value::SequenceType(type_proto::Sequence { elem_type: self.boxed_type()? }),
            "optional" => {
                Value::OptionalType(type_proto::Optional { elem_type: self.boxed_type()? })
            }
            "map" => {
                let key_type = Some(self.dtype()?.code());
                self.expect(',')?;
                Value::MapType(type_proto::Map { key_type, value_type: self.boxed_type()? })
            }
            "sparse_tensor" => {
                let type_proto::Tensor { elem_type, shape } = self.tensor_type()?;
                Value::SparseTensorType(type_proto::SparseTensor { elem_type, shape })
            }
            _ => Value::OpaqueType(self.opaque_type()?),
        };
        self.expect(')')?;
        Ok(value)
    }

    fn boxed_type(&mut self) -> Result<Option<Box<TypeProto>>> {
        Ok(Some(Box::new(self.ty()?)))
    }

    /// Parses the type of a tensor. `float` is a scalar, `float[]` has an unknown rank.
    fn tensor_type(&mut self) -> Result<type_proto::Tensor> {
        let elem_type = Some(self.dtype()?.code());
        let shape = if !self.accept('[')? {
            Some(TensorShapeProto::default())
        } else if self.accept(']')? {
            None
        } else {
            Some(TensorShapeProto { dim: self.list(']', Cursor::dimension)? })
        };
        Ok(type_proto::Tensor { elem_type, shape })
    }

    fn dtype(&mut self) -> Result<DType> {
        let found = match self.token() {
            Token::Name(name) => DType::from_name(name),
            _ => None,
        };
        let dtype = found.ok_or_else(|| self.expected("an element type"))?;
        self.take()?;
        Ok(dtype)
    }

    fn dimension(&mut self) -> Result<Dimension> {
        let value = if self.accept('?')? {
            None
        } else if let Some(name) = self.maybe_name()? {
            Some(Size::DimParam(name))
        } else {
            Some(Size::DimValue(self.int()?))
        };
        Ok(Dimension { value, denotation: None })
    }

    fn opaque_type(&mut self) -> Result<type_proto::Opaque> {
        if self.at(')') {
            return Ok(type_proto::Opaque::default());
        }
        let first = self.qualified("the name of the type")?;
        if !self.accept(',')? {
            return Ok(type_proto::Opaque { domain: None, name: Some(first) });
        }
        let name = self.name("the name of the type")?;
        Ok(type_proto::Opaque { domain: Some(first), name: Some(name) })
    }

    /// Parses names separated by dots.
    pub fn qualified(&mut self, what: &str) -> Result<String> {
        let mut name = self.name(what)?;
        while self.accept('.')? {
            name.push('.');
            name += &self.name(what)?;
        }
        Ok(name)
    }

    /// Parses a value with its type, which may be omitted.
    pub fn value_info(&mut self) -> Result<ValueInfoProto> {
        let r#type = if self.at_type() { Some(self.ty()?) } else { None };
        let name = Some(self.name("the name of a value")?);
        Ok(ValueInfoProto { name, r#type, ..Default::default() })
    }

    /// The element type and the shape of a constant of a tensor type.
    pub fn constant_type(
        &self,
        elem_type: Option<i32>,
        shape: Option<&TensorShapeProto>,
    ) -> Result<(DType, Vec<i64>)> {
        let dtype = elem_type.and_then(DType::from_code).expect("the type was read by its name");
        let Some(shape) = shape else {
            return Err(self.error("the shape of a constant must be known"));
        };
        let size = |dim: &Dimension| match &dim.value {
            Some(Size::DimValue(size)) => Ok(*size),
            Some(Size::DimParam(name)) => {
                Err(self.error(format!("a constant cannot have the size {}", quoted(name))))
            }
            None => Err(self.error("a constant cannot have the size `?`")),
        };
        Ok((dtype, shape.dim.iter().map(size).collect::<Result<_>>()?))
    }
}
