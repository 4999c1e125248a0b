//! Parses attributes.

use super::{
    cursor::{Cursor, is_special},
    lexer::Token,
};
use crate::diag::Result;
use onnxc_proto::{
    AttributeProto, Bytes, GraphProto, SparseTensorProto, TensorProto, TypeProto,
    attribute_proto::AttributeType, type_proto::Value,
};

/// The types of attributes: name, type, and the type of a list's elements.
const KINDS: &[(&str, AttributeType, Option<AttributeType>)] = &[
    ("float", AttributeType::Float, None),
    ("int", AttributeType::Int, None),
    ("string", AttributeType::String, None),
    ("tensor", AttributeType::Tensor, None),
    ("graph", AttributeType::Graph, None),
    ("sparse_tensor", AttributeType::SparseTensor, None),
    ("type_proto", AttributeType::TypeProto, None),
    ("floats", AttributeType::Floats, Some(AttributeType::Float)),
    ("ints", AttributeType::Ints, Some(AttributeType::Int)),
    ("strings", AttributeType::Strings, Some(AttributeType::String)),
    ("tensors", AttributeType::Tensors, Some(AttributeType::Tensor)),
    ("graphs", AttributeType::Graphs, Some(AttributeType::Graph)),
    ("sparse_tensors", AttributeType::SparseTensors, Some(AttributeType::SparseTensor)),
    ("type_protos", AttributeType::TypeProtos, Some(AttributeType::TypeProto)),
];

/// The name of an attribute type in the syntax.
pub fn kind_name(kind: AttributeType) -> Option<&'static str> {
    KINDS.iter().find(|(_, found, _)| *found == kind).map(|(name, ..)| *name)
}

/// A single value, alone or in a list.
enum Single {
    Float(f32),
    Int(i64),
    String(String),
    Tensor(TensorProto),
    Sparse(Box<SparseTensorProto>),
    Graph(GraphProto),
    Type(TypeProto),
}

impl Single {
    fn kind(&self) -> AttributeType {
        match self {
            Single::Float(_) => AttributeType::Float,
            Single::Int(_) => AttributeType::Int,
            Single::String(_) => AttributeType::String,
            Single::Tensor(_) => AttributeType::Tensor,
            Single::Sparse(_) => AttributeType::SparseTensor,
            Single::Graph(_) => AttributeType::Graph,
            Single::Type(_) => AttributeType::TypeProto,
        }
    }
}

impl Cursor<'_> {
    /// Parses `: kind = value` of the attribute called `name`. The kind may be omitted.
    pub fn attribute(&mut self, name: String) -> Result<AttributeProto> {
        let kind = if self.accept(':')? { Some(self.kind()?) } else { None };
        let mut attribute = AttributeProto {
            name: Some(name),
            r#type: kind.map(|(kind, _)| kind.into()),
            ..Default::default()
        };
        self.expect('=')?;
        if self.accept('@')? {
            attribute.ref_attr_name = Some(self.name("the name of an attribute")?);
        } else if self.accept('[')? {
            self.attribute_list(&mut attribute, kind)?;
        } else {
            let value = self.single(kind.map(|(kind, _)| kind))?;
            attribute.r#type = Some(value.kind().into());
            set(&mut attribute, value);
        }
        Ok(attribute)
    }

    fn kind(&mut self) -> Result<(AttributeType, Option<AttributeType>)> {
        let row = match self.token() {
            Token::Name(found) => KINDS.iter().find(|(name, ..)| name == found),
            _ => None,
        };
        let &(_, kind, element) = row.ok_or_else(|| self.expected("a type of attributes"))?;
        self.take()?;
        Ok((kind, element))
    }

    /// Parses the values of a list after its `[`.
    fn attribute_list(
        &mut self,
        attribute: &mut AttributeProto,
        said: Option<(AttributeType, Option<AttributeType>)>,
    ) -> Result {
        let said = match said {
            Some((kind, Some(element))) => Some((kind, element)),
            Some((kind, None)) => {
                let name = kind_name(kind).unwrap_or_default();
                return Err(self.error(format!("a list cannot be of type `{name}`")));
            }
            None if self.at(']') => {
                let message = "the type of an empty list must be given";
                return Err(self.error(message).help("write it as `name: ints = []`"));
            }
            None => None,
        };
        let mut element = said.map(|(_, element)| element);
        let values = self.list(']', |cursor| {
            let value = cursor.single(element)?;
            element = Some(value.kind());
            Ok(value)
        })?;
        let of_element = KINDS.iter().find(|(_, _, of)| of.is_some() && *of == element);
        attribute.r#type = of_element.map(|&(_, kind, _)| kind.into());
        values.into_iter().for_each(|value| push(attribute, value));
        Ok(())
    }

    /// Parses one value, of the declared kind if there is one.
    fn single(&mut self, said: Option<AttributeType>) -> Result<Single> {
        let place = self.place();
        let value = match self.token() {
            _ if self.at_type() => self.tensor_or_type()?,
            Token::Name(name) if is_special(name) => Single::Float(self.float()?),
            Token::Name(_) => Single::Graph(self.with_depth(Cursor::graph)?),
            Token::Quoted(_) => {
                let text = self.quoted()?;
                // Only the name of a graph is followed by inputs.
                if self.at('(') {
                    Single::Graph(self.with_depth(|cursor| cursor.graph_called(text))?)
                } else {
                    Single::String(text)
                }
            }
            Token::Float(_) => Single::Float(self.float()?),
            Token::Int(_) if said == Some(AttributeType::Float) => Single::Float(self.float()?),
            Token::Int(_) => Single::Int(self.int()?),
            Token::Mark(_) | Token::Arrow | Token::End => return Err(self.expected("a value")),
        };
        match said {
            Some(said) if said != value.kind() => {
                let names = [said, value.kind()].map(|kind| kind_name(kind).unwrap_or_default());
                let message =
                    format!("the value should be of type `{}`, not `{}`", names[0], names[1]);
                Err(self.error_at(place, message))
            }
            _ => Ok(value),
        }
    }

    fn tensor_or_type(&mut self) -> Result<Single> {
        let ty = self.ty()?;
        if !self.at_constant() {
            return Ok(Single::Type(ty));
        }
        let name = self.maybe_name()?;
        self.accept('=')?;
        Ok(match ty.value.as_ref() {
            Some(Value::SparseTensorType(ty)) => {
                Single::Sparse(Box::new(self.sparse_constant(name, ty)?))
            }
            ty => Single::Tensor(self.constant(name, ty)?),
        })
    }
}

fn set(attribute: &mut AttributeProto, value: Single) {
    match value {
        Single::Float(x) => attribute.f = Some(x),
        Single::Int(x) => attribute.i = Some(x),
        Single::String(x) => attribute.s = Some(Bytes::from(x)),
        Single::Tensor(x) => attribute.t = Some(Box::new(x)),
        Single::Sparse(x) => attribute.sparse_tensor = Some(x),
        Single::Graph(x) => attribute.g = Some(Box::new(x)),
        Single::Type(x) => attribute.tp = Some(Box::new(x)),
    }
}

fn push(attribute: &mut AttributeProto, value: Single) {
    match value {
        Single::Float(x) => attribute.floats.push(x),
        Single::Int(x) => attribute.ints.push(x),
        Single::String(x) => attribute.strings.push(Bytes::from(x)),
        Single::Tensor(x) => attribute.tensors.push(x),
        Single::Sparse(x) => attribute.sparse_tensors.push(*x),
        Single::Graph(x) => attribute.graphs.push(x),
        Single::Type(x) => attribute.type_protos.push(x),
    }
}
