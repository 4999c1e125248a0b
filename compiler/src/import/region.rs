//! The subgraphs of control flow.

use super::build::{Builder, Scope};
use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    ir::{NewNode, RegionId},
    ty::Type,
};
use onnxc_proto::GraphProto;

impl Builder<'_> {
    /// Adds the next region of a node, of types wide enough for what its turns give each other.
    pub(super) fn fitting_region(
        &mut self,
        new: &mut NewNode<'_>,
        proto: &GraphProto,
        scope: &Scope<'_>,
    ) -> Result {
        let i = new.regions.len();
        let mut types = self.graph.region_inputs(new, i)?;
        loop {
            let outer = std::mem::take(&mut self.findings);
            let region = self.region(proto, types.clone(), scope);
            let found = std::mem::replace(&mut self.findings, outer);
            new.regions.truncate(i);
            new.regions.push(region?);
            let wider = self.graph.region_inputs(new, i)?;
            if wider == types {
                let found = found.finish().err().map_or(Vec::new(), |found| found.0);
                found.into_iter().for_each(|finding| self.findings.push(finding));
                return Ok(());
            }
            types = wider;
        }
    }

    fn region(
        &mut self,
        proto: &GraphProto,
        types: Vec<Type>,
        outer: &Scope<'_>,
    ) -> Result<RegionId> {
        let is_constant = |name: &str| proto.initializer.iter().any(|tensor| tensor.name() == name);
        // Up to IR version 3 constants are inputs, too.
        let given = proto.input.iter().filter(|input| !is_constant(input.name())).count();
        if !types.is_empty() && given != types.len() {
            let message = format!(
                "the graph {} has {given} inputs, but the node gives it {}",
                quoted(proto.name()),
                types.len()
            );
            return Err(Diagnostic::new(Code::BadArity, message));
        }
        self.deeper("graphs lie inside each other", |builder| {
            let region = builder.graph.region(proto.name());
            let mut scope = Scope { region, ..outer.clone() };
            builder.initializers(proto, &mut scope);
            let mut types = types.into_iter();
            for input in proto.input.iter().filter(|input| !is_constant(input.name())) {
                let id = builder.graph.input(
                    region,
                    input.name(),
                    types.next().unwrap_or(Type::Unknown),
                );
                scope.values.insert(input.name().to_owned(), id);
            }
            builder.nodes(&proto.node, &mut scope);
            let outputs = builder.outputs(proto, &scope);
            builder.graph.set_outputs(region, outputs);
            region
        })
    }
}
