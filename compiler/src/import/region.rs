//! The subgraphs of control flow.

use super::{
    build::{Builder, Scope, place},
    found::Found,
};
use crate::{
    diag::{Code, Diagnostic, Result, quoted},
    ir::{Builds, Fitting, Graph, NewNode, RegionId, fit},
    ops::control::If,
    ty::Type,
};
use onnxc_proto::GraphProto;
use std::mem;

impl Builds for Builder<'_> {
    type Key = *const GraphProto;

    fn graph(&mut self) -> &mut Graph {
        &mut self.graph
    }

    fn fitting(&mut self) -> &mut Fitting<*const GraphProto> {
        &mut self.fitting
    }
}

impl Builder<'_> {
    /// Adds the regions of a node. What is wrong in one branch of several only counts where
    /// something is in each of them, for one of them is taken.
    pub(super) fn regions(
        &mut self,
        new: &mut NewNode<'_>,
        graphs: &[&GraphProto],
        scope: &Scope<'_>,
    ) -> Result {
        let (mut fitted, mut all) = (Ok(()), Vec::new());
        for graph in graphs {
            let around = mem::take(&mut self.found);
            fitted = self.fitting_region(new, graph, scope);
            let found = mem::replace(&mut self.found, around);
            all.push(found.within(|| place(graph)));
            if fitted.is_err() {
                break;
            }
        }
        let may_be_fine = new.op.is::<If>() && !all.iter().all(Found::fails_if_run);
        for mut found in all {
            if may_be_fine {
                found.may_never_run();
            }
            self.found.extend(found);
        }
        fitted
    }

    /// Adds the next region of a node, of types wide enough for what its turns give each other.
    fn fitting_region(
        &mut self,
        new: &mut NewNode<'_>,
        proto: &GraphProto,
        scope: &Scope<'_>,
    ) -> Result {
        fit(self, new, std::ptr::from_ref(proto), |builder, types| {
            // What was found with narrower types may be true no more.
            if builder.room.is_some() {
                builder.found = Found::default();
            }
            builder.region(proto, types, scope)
        })
    }

    fn region(
        &mut self,
        proto: &GraphProto,
        types: &[Type],
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
            let mut types = types.iter().cloned();
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
