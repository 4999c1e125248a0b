//! Composite operators, kept unexpanded until the first pass, and operators that are never
//! expanded.

use super::{Entry, Nodes};
use crate::{
    diag::{Code, Diagnostic, Result},
    ir::{
        Attribute, Attributes, Domain, Graph, Infer, Inferred, Lower, Op, Outputs, Reader,
        RegionId, ValueId,
    },
    ty::Type,
};
use std::collections::BTreeMap;

/// A node that is expanded to other nodes. It keeps the attributes of the file, so that it can be
/// exported unchanged; the first pass replaces it by its expansion.
pub struct Composite {
    /// The operator.
    pub entry: &'static Entry,
    /// The version of the operator set.
    pub version: i64,
    /// The attributes, by name.
    pub attributes: BTreeMap<String, Attribute>,
    /// Builds the expansion.
    pub nodes: Nodes,
}

impl Composite {
    /// Appends the expansion to a region and returns the values of its outputs.
    pub fn expand(
        &self,
        graph: &mut Graph,
        region: RegionId,
        inputs: Outputs,
        outputs: usize,
    ) -> Result<Vec<ValueId>> {
        let attributes = self.attributes.clone();
        let mut reader = Reader::new(graph, region, self.version, inputs, outputs, attributes);
        let values = (self.nodes)(&mut reader)?;
        reader.finish()?;
        Ok(values)
    }
}

impl Op for Composite {
    fn name(&self) -> &'static str {
        self.entry.name
    }

    fn domain(&self) -> Domain {
        self.entry.domain
    }

    fn attributes(&self, a: &mut Attributes) {
        for (name, value) in &self.attributes {
            a.push(name.clone(), value.clone());
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let outputs = cx.outputs();
        cx.as_written(|graph, inputs| self.expand(graph, graph.body, inputs, outputs))
    }

    fn lower(&self, _: &mut Lower<'_>) -> Result {
        let message = "a composite operator was not expanded";
        Err(Diagnostic::new(Code::Internal, message).help("run the pass `simplify`"))
    }
}

/// A node that only serves to be written again: ONNX's own operators cannot express it.
pub struct Kept {
    /// The operator.
    pub entry: &'static Entry,
    /// The attributes, by name.
    pub attributes: BTreeMap<String, Attribute>,
    /// The types of the outputs.
    pub types: Vec<Type>,
}

impl Op for Kept {
    fn name(&self) -> &'static str {
        self.entry.name
    }

    fn domain(&self) -> Domain {
        self.entry.domain
    }

    fn attributes(&self, a: &mut Attributes) {
        for (name, value) in &self.attributes {
            a.push(name.clone(), value.clone());
        }
    }

    fn infer(&self, _: &mut Infer<'_>) -> Inferred {
        Ok(self.types.clone())
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        Err(cx.unsupported("a node that is kept for writing"))
    }
}
