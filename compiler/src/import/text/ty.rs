//! Parses types, and values with their types.

use super::{
    cursor::Cursor,
    lexer::{Place, Token},
};
use crate::{
    diag::{Diagnostic, Result, quoted},
    dtype::{ANY, DType},
    ident,
};
use onnxc_proto::{
    TensorShapeProto, TypeProto, ValueInfoProto,
    tensor_shape_proto::{Dimension, dimension::Value as Size},
    type_proto::{self, Value},
};

/// The first words of types that are not tensors.
pub const CONTAINERS: &[&str] = &["seq", "map", "optional", "sparse_tensor", "opaque"];

/// The names of element types in other programs, and in ONNX's textual syntax.
const OTHER_NAMES: &[(&str, DType)] = &[
    ("float32", DType::F32),
    ("f32", DType::F32),
    ("float64", DType::F64),
    ("f64", DType::F64),
    ("half", DType::F16),
    ("f16", DType::F16),
    ("int", DType::I64),
    ("long", DType::I64),
    ("i64", DType::I64),
    ("i32", DType::I32),
    ("str", DType::String),
];

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
            return Err(self.unknown_type(self.place(), name));
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
        let Token::Name(name) = *self.token() else {
            return Err(self.expected("an element type"));
        };
        let dtype = DType::from_name(name);
        let dtype = dtype.ok_or_else(|| self.unknown_type(self.place(), name))?;
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
        let place = self.place();
        let name = self.name("the name of a value")?;
        // After the name of a value is neither a shape nor another name, but after a type.
        if r#type.is_none() && (self.at('[') || matches!(self.token(), Token::Name(_))) {
            return Err(self.unknown_type(place, &name));
        }
        Ok(ValueInfoProto { name: Some(name), r#type, ..Default::default() })
    }

    /// The error for a type that does not exist.
    fn unknown_type(&self, place: Place, name: &str) -> Diagnostic {
        let error = self.error_at(place, format!("there is no type {}", quoted(name)));
        let other = OTHER_NAMES.iter().find(|(other, _)| *other == name);
        let names: Vec<String> = ANY.iter().map(ToString::to_string).collect();
        let names = names.iter().map(String::as_str).chain(CONTAINERS.iter().copied());
        let near = match other {
            Some((_, dtype)) => Some(dtype.to_string()),
            None => ident::nearest(name, names).map(str::to_owned),
        };
        match near {
            Some(near) => error.help(format!("did you mean {}?", quoted(&near))),
            None => error,
        }
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
