//! An operator that stands for other nodes, in its own words until a pass writes them.

use super::{Entry, Nodes};
use crate::{
    diag::{Code, Diagnostic, Result},
    ir::{
        Attribute, Attributes, Domain, Graph, Infer, Inferred, Lower, Op, Outputs, Reader,
        RegionId, ValueId,
    },
};
use std::collections::BTreeMap;

/// A node as a file says it, of an operator that is read as several. It is as it was read, so it
/// can be written again; to be run, it is written out.
pub struct Composite {
    /// The operator.
    pub entry: &'static Entry,
    /// The version of the operator set.
    pub version: i64,
    /// The attributes, by name.
    pub attributes: BTreeMap<String, Attribute>,
    /// How it is written out.
    pub nodes: Nodes,
}

impl Composite {
    /// Adds the nodes that it stands for at the end of a region, and gives what its outputs are.
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
        let message = "the nodes that this operator stands for were not written out";
        Err(Diagnostic::new(Code::Internal, message).help("run the pass `simplify`"))
    }
}
