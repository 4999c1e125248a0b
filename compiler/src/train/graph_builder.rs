//! A builder of `GraphProto`.

use crate::{
    dtype::DType,
    ident::Names,
    import::{attribute, proto, types},
    ir::{Attribute, Domain},
    tensor::Tensor,
    ty::{Type, count},
};
use onnxc_proto::{
    AttributeProto, Bytes, GraphProto, NodeProto, TensorProto, TypeProto, ValueInfoProto,
};

/// A `GraphProto` under construction.
pub struct Draft {
    graph: GraphProto,
    names: Names,
    /// Zeros, as many as the largest zero tensor so far; all share them.
    zeros: Bytes,
}

impl Draft {
    /// Creates an empty graph whose names avoid `names`.
    pub fn new(name: &str, names: Names) -> Draft {
        let graph = GraphProto { name: Some(name.to_owned()), ..GraphProto::default() };
        Draft { graph, names, zeros: Bytes::new() }
    }

    /// Returns the graph.
    pub fn finish(self) -> GraphProto {
        self.graph
    }

    /// Returns the graph so far.
    pub fn so_far(&self) -> &GraphProto {
        &self.graph
    }

    /// Returns an unused name like `name`.
    pub fn name(&mut self, name: &str) -> String {
        self.names.unique(name.to_owned())
    }

    /// Adds an input.
    pub fn input(&mut self, name: &str, ty: Option<TypeProto>) -> String {
        let name = self.name(name);
        self.graph.input.push(info(&name, ty));
        name
    }

    /// Adds an initializer.
    pub fn constant(&mut self, name: &str, tensor: Tensor) -> String {
        let name = self.name(name);
        self.graph.initializer.push(proto(&tensor, &name));
        name
    }

    /// Adds an initializer of zeros.
    pub fn zeros(&mut self, name: &str, dtype: DType, shape: &[usize]) -> String {
        let len = count(shape) * dtype.bytes();
        if self.zeros.len() < len {
            self.zeros = vec![0; len].into();
        }
        let name = self.name(name);
        self.graph.initializer.push(TensorProto {
            name: Some(name.clone()),
            data_type: Some(dtype.code()),
            dims: shape.iter().map(|&size| size as i64).collect(),
            raw_data: Some(self.zeros.slice(..len)),
            ..TensorProto::default()
        });
        name
    }

    /// Adds a node with one output.
    pub fn node(&mut self, op: &str, inputs: &[&str], output: &str) -> String {
        self.node_with(op, inputs, output, Vec::new())
    }

    /// Adds a node with one output and attributes.
    pub fn node_with(
        &mut self,
        op: &str,
        inputs: &[&str],
        output: &str,
        attributes: Vec<(&str, Attribute)>,
    ) -> String {
        let output = self.name(output);
        self.push(NodeProto {
            name: Some(output.clone()),
            op_type: Some(op.to_owned()),
            input: owned(inputs),
            output: vec![output.clone()],
            attribute: protos(attributes),
            ..NodeProto::default()
        });
        output
    }

    /// Adds a node of the training operators.
    pub fn training(
        &mut self,
        op: &str,
        name: &str,
        inputs: &[&str],
        outputs: &[String],
        attributes: Vec<(&str, Attribute)>,
    ) {
        self.push(NodeProto {
            name: Some(name.to_owned()),
            op_type: Some(op.to_owned()),
            domain: Some(Domain::Training.to_string()),
            input: owned(inputs),
            output: outputs.to_vec(),
            attribute: protos(attributes),
            ..NodeProto::default()
        });
    }

    /// Adds a node unchanged.
    pub fn push(&mut self, node: NodeProto) {
        self.graph.node.push(node);
    }

    /// Converts an attribute other than a graph.
    pub fn attribute(name: &str, value: &Attribute) -> AttributeProto {
        attribute::proto(name, value, &mut |_| GraphProto::default())
    }

    /// Declares the type of a value.
    pub fn declare(&mut self, name: &str, dtype: DType, shape: &[usize]) {
        self.graph.value_info.push(info(name, ty(dtype, shape)));
    }

    /// Makes a value an output.
    pub fn give(&mut self, name: &str, dtype: DType, shape: &[usize]) {
        self.graph.output.push(info(name, ty(dtype, shape)));
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn protos(attributes: Vec<(&str, Attribute)>) -> Vec<AttributeProto> {
    attributes.iter().map(|(name, value)| Draft::attribute(name, value)).collect()
}

fn info(name: &str, ty: Option<TypeProto>) -> ValueInfoProto {
    ValueInfoProto { name: Some(name.to_owned()), r#type: ty, ..ValueInfoProto::default() }
}

fn ty(dtype: DType, shape: &[usize]) -> Option<TypeProto> {
    types::proto(&Type::tensor(dtype, shape.iter().map(|&size| size as i64)), &|_| None)
}
