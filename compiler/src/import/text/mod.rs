//! Parses ONNX's textual syntax (`Syntax.md` of the specification) to messages.
//!
//! The result is that of ONNX's own parser, with these exceptions: every name may be quoted, so
//! that all domains and attributes can be written; lists of tensors, graphs and types keep their
//! elements; elements of less than a byte are packed as the file format demands; and a sparse
//! constant is `sparse_tensor(float[2, 3]) name = {1.5, 2.5} at {0, 5}`. Other text is an error
//! with its line and column.

mod attribute;
mod cursor;
mod lexer;
mod tensor;
#[cfg(test)]
mod tests;
mod ty;

pub(super) use attribute::kind_name;
pub(super) use cursor::is_special;
pub(super) use ty::CONTAINERS;

use crate::diag::Result;
use cursor::Cursor;
use lexer::Token;
use onnxc_proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TypeProto, ValueInfoProto, type_proto::Value,
};

/// Parses a model.
///
/// # Errors
///
/// Returns the first syntax error, with its line and column.
pub fn model(text: &str) -> Result<ModelProto> {
    parse_all(text, Cursor::model)
}

/// Parses a graph.
///
/// # Errors
///
/// Returns the first syntax error, with its line and column.
pub fn graph(text: &str) -> Result<GraphProto> {
    parse_all(text, Cursor::graph)
}

/// Parses a function.
///
/// # Errors
///
/// Returns the first syntax error, with its line and column.
pub fn function(text: &str) -> Result<FunctionProto> {
    parse_all(text, Cursor::function)
}

/// Parses a type.
///
/// # Errors
///
/// Returns the first syntax error, with its line and column.
pub fn ty(text: &str) -> Result<TypeProto> {
    parse_all(text, Cursor::ty)
}

/// Parses all of `text` with `read`.
fn parse_all<'t, T>(text: &'t str, read: impl FnOnce(&mut Cursor<'t>) -> Result<T>) -> Result<T> {
    let mut cursor = Cursor::new(text)?;
    let found = read(&mut cursor)?;
    if *cursor.token() == Token::End {
        Ok(found)
    } else {
        Err(cursor.expected("the end of the text"))
    }
}

impl Cursor<'_> {
    fn model(&mut self) -> Result<ModelProto> {
        let mut model = ModelProto::default();
        self.header(|cursor, key| {
            match key {
                "ir_version" => model.ir_version = Some(cursor.int()?),
                "opset_import" => model.opset_import = cursor.opsets()?,
                "producer_name" => model.producer_name = Some(cursor.quoted()?),
                "producer_version" => model.producer_version = Some(cursor.quoted()?),
                "domain" => model.domain = Some(cursor.quoted()?),
                "model_version" => model.model_version = Some(cursor.int()?),
                "doc_string" => model.doc_string = Some(cursor.quoted()?),
                "metadata_props" => {
                    cursor.expect('[')?;
                    model.metadata_props = cursor.list(']', Cursor::entry)?;
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        model.graph = Some(self.graph()?);
        while *self.token() != Token::End {
            model.functions.push(self.function()?);
        }
        Ok(model)
    }

    fn function(&mut self) -> Result<FunctionProto> {
        let mut function = FunctionProto::default();
        self.header(|cursor, key| {
            match key {
                "opset_import" => function.opset_import = cursor.opsets()?,
                "domain" => function.domain = Some(cursor.quoted()?),
                "overload" => function.overload = Some(cursor.quoted()?),
                "doc_string" => function.doc_string = Some(cursor.quoted()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        function.name = Some(self.name("the name of a function")?);
        if self.accept('<')? {
            self.list('>', |cursor| cursor.parameter(&mut function))?;
        }
        let types = &mut function.value_info;
        function.input = self.parameters(types)?;
        self.expect_arrow()?;
        function.output = self.parameters(types)?;
        if self.accept('<')? {
            types.extend(self.list('>', Cursor::value_info)?);
        }
        function.node = self.nodes()?;
        Ok(function)
    }

    /// Parses the header of a model or a function. `field` parses the value of a key, or returns
    /// `false` if it does not know the key.
    fn header(&mut self, mut field: impl FnMut(&mut Self, &str) -> Result<bool>) -> Result {
        if !self.accept('<')? {
            return Ok(());
        }
        self.list('>', |cursor| {
            let place = cursor.place();
            let key = cursor.name("a field")?;
            cursor.expect(':')?;
            if field(cursor, &key)? {
                return Ok(());
            }
            let message = format!("there is no field {}", crate::diag::quoted(&key));
            Err(cursor.error_at(place, message))
        })
        .map(drop)
    }

    fn opsets(&mut self) -> Result<Vec<OperatorSetIdProto>> {
        self.expect('[')?;
        self.list(']', |cursor| {
            let domain = Some(cursor.quoted()?);
            cursor.expect(':')?;
            Ok(OperatorSetIdProto { domain, version: Some(cursor.int()?) })
        })
    }

    /// Parses an attribute of a function, with or without a default.
    fn parameter(&mut self, function: &mut FunctionProto) -> Result {
        let name = self.name("the name of an attribute")?;
        if self.at(':') || self.at('=') {
            function.attribute_proto.push(self.attribute(name)?);
        } else {
            function.attribute.push(name);
        }
        Ok(())
    }

    /// Parses the names of a function's inputs or outputs. Declared types are added to `types`.
    fn parameters(&mut self, types: &mut Vec<ValueInfoProto>) -> Result<Vec<String>> {
        self.expect('(')?;
        self.list(')', |cursor| {
            let value = cursor.value_info()?;
            let name = value.name().to_owned();
            if value.r#type.is_some() {
                types.push(value);
            }
            Ok(name)
        })
    }

    fn graph(&mut self) -> Result<GraphProto> {
        let name = self.name("the name of a graph")?;
        self.graph_called(name)
    }

    /// Parses a graph after its name.
    fn graph_called(&mut self, name: String) -> Result<GraphProto> {
        let mut graph = GraphProto { name: Some(name), ..Default::default() };
        self.expect('(')?;
        self.list(')', |cursor| {
            let value = cursor.value_info()?;
            cursor.initializer(&value, &mut graph)?;
            graph.input.push(value);
            Ok(())
        })?;
        self.expect_arrow()?;
        self.expect('(')?;
        graph.output = self.list(')', Cursor::value_info)?;
        if self.accept('<')? {
            self.list('>', |cursor| {
                let value = cursor.value_info()?;
                if !cursor.initializer(&value, &mut graph)? {
                    graph.value_info.push(value);
                }
                Ok(())
            })?;
        }
        graph.node = self.nodes()?;
        Ok(graph)
    }

    /// Parses the elements of `value`, if it has any, and adds them to `graph`.
    fn initializer(&mut self, value: &ValueInfoProto, graph: &mut GraphProto) -> Result<bool> {
        if !self.accept('=')? {
            return Ok(false);
        }
        match value.r#type.as_ref().and_then(|ty| ty.value.as_ref()) {
            Some(Value::SparseTensorType(ty)) => {
                let constant = self.sparse_constant(value.name.clone(), ty)?;
                graph.sparse_initializer.push(constant);
            }
            ty => graph.initializer.push(self.constant(value.name.clone(), ty)?),
        }
        Ok(true)
    }

    fn nodes(&mut self) -> Result<Vec<NodeProto>> {
        let mut nodes = Vec::new();
        self.expect('{')?;
        while !self.accept('}')? {
            nodes.push(self.node()?);
        }
        Ok(nodes)
    }

    fn node(&mut self) -> Result<NodeProto> {
        let mut node = NodeProto::default();
        if self.accept('[')? {
            node.name = Some(self.name("the name of a node")?);
            self.expect(']')?;
        }
        node.output = self.operands()?;
        self.expect('=')?;
        let mut domain = Vec::new();
        let mut op_type = self.name("an operator")?;
        while self.accept('.')? {
            domain.push(std::mem::replace(&mut op_type, self.name("an operator")?));
        }
        (node.domain, node.op_type) = (Some(domain.join(".")), Some(op_type));
        if self.accept(':')? {
            node.overload = Some(self.name("an overload")?);
        }
        node.attribute = self.attributes()?;
        self.expect('(')?;
        node.input = self.operands()?;
        self.expect(')')?;
        if node.attribute.is_empty() {
            node.attribute = self.attributes()?;
        }
        Ok(node)
    }

    /// Parses the names of a node's inputs or outputs. An omitted one is `""`, or nothing before a
    /// comma.
    fn operands(&mut self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        loop {
            let name = self.maybe_name()?;
            if name.is_none() && !self.at(',') {
                return Ok(names);
            }
            names.push(name.unwrap_or_default());
            if !self.accept(',')? {
                return Ok(names);
            }
        }
    }

    fn attributes(&mut self) -> Result<Vec<AttributeProto>> {
        if !self.accept('<')? {
            return Ok(Vec::new());
        }
        self.list('>', |cursor| {
            let name = cursor.name("the name of an attribute")?;
            cursor.attribute(name)
        })
    }
}
