//! Imports the subgraphs of control flow.

use super::{
    attribute::Subgraph,
    context::{GraphBuilder, Names, Scope, place},
    diagnostics::Found,
};
use crate::{
    diag::{Code, Diagnostic, Result, counted, quoted},
    ir::{Builds, Fitting, Graph, NewNode, RegionId, fit},
    ops::control::If,
    ty::Type,
};
use onnxc_proto::GraphProto;
use std::mem;

impl Builds for GraphBuilder<'_> {
    type Key = *const GraphProto;

    fn graph(&mut self) -> &mut Graph {
        &mut self.graph
    }

    fn fitting(&mut self) -> &mut Fitting<*const GraphProto> {
        &mut self.fitting
    }
}

impl GraphBuilder<'_> {
    /// Adds the regions of a node. A type error in a branch of an `If` counts only if both branches
    /// have one, since only one of them runs.
    pub(super) fn regions(
        &mut self,
        new: &mut NewNode<'_>,
        graphs: &[Subgraph<'_>],
        scope: &Scope<'_>,
    ) -> Result {
        let (mut fitted, mut all) = (Ok(()), Vec::new());
        for &(attribute, graph) in graphs {
            let around = mem::take(&mut self.found);
            fitted = self.fitting_region(new, graph, scope);
            let found = mem::replace(&mut self.found, around);
            let found = found.within(|| place(graph));
            all.push(found.within(|| format!("attribute {}", quoted(attribute))));
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

    /// Adds the next region of a node. Its types are widened until they fit the loop-carried
    /// values.
    fn fitting_region(
        &mut self,
        new: &mut NewNode<'_>,
        proto: &GraphProto,
        scope: &Scope<'_>,
    ) -> Result {
        fit(self, new, std::ptr::from_ref(proto), |builder, types| {
            // Errors that were found with narrower types may no longer apply.
            if builder.nodes_left.is_some() {
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
        // Up to IR version 3, constants are listed as inputs, too.
        let given = proto.input.iter().filter(|input| !is_constant(input.name())).count();
        if !types.is_empty() && given != types.len() {
            let message = format!(
                "the graph {} has {}, but the node gives it {}",
                quoted(proto.name()),
                counted(given, "input"),
                types.len()
            );
            return Err(Diagnostic::new(Code::BadArity, message));
        }
        self.with_depth("graphs lie inside each other", |builder| {
            let region = builder.graph.region(proto.name());
            let ranks = builder.declared_ranks(proto);
            let values = Names::inside(&outer.values);
            let (opsets, call) = (outer.opsets, outer.call);
            let mut scope = Scope { region, values, opsets, ranks, call };
            builder.initializers(proto, &mut scope);
            let mut types = types.iter().cloned();
            for input in proto.input.iter().filter(|input| !is_constant(input.name())) {
                let id = builder.graph.input(
                    region,
                    input.name(),
                    types.next().unwrap_or(Type::Unknown),
                );
                scope.values.insert(input.name().to_owned(), id);
                builder.inner_types([input], &scope);
            }
            builder.nodes(&proto.node, &mut scope);
            builder.inner_types(proto.value_info.iter().chain(&proto.output), &scope);
            let outputs = builder.outputs(proto, &scope);
            builder.graph.set_outputs(region, outputs);
            region
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Compiler, Options, diag::Code};

    fn found(nodes: &str) -> Vec<(Code, String)> {
        let model = format!(
            "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[2] x, float[3] z, int64 n, bool go) => (r) {{ {nodes} }}"
        );
        let options = Options::default();
        let mut compiler = Compiler::new(&options);
        let imported = compiler.import(model.into());
        let found = imported.err().map_or(compiler.take_warnings(), |found| found.0);
        found.into_iter().map(|diagnostic| (diagnostic.code, diagnostic.at.join(" › "))).collect()
    }

    #[test]
    fn all_errors_in_subgraphs_are_reported_together() {
        let found = found(
            "r = Loop<body = b (int64 i, bool on, v) => (bool to, w) {
                to = Identity(on)
                w = Add(v, z)
                u = Scan<num_scan_inputs = 1, body = c (bool s, k) => (s, p) { p = Size(s) }>(go, x)
            }>(n, go, x)
            q = Concat<axis = 5>(x, z)",
        );
        let inside = "graph `g` › node `r` (Loop), number 0 › attribute `body` › graph `b`";
        let expected = [
            (Code::ShapeMismatch, format!("{inside} › node `w` (Add), number 1")),
            (Code::BadAttribute, "graph `g` › node `q` (Concat), number 1".to_owned()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_error_in_a_branch_is_reported_if_both_branches_have_one() {
        let nodes = |no: &str| {
            format!(
                "r = If<then_branch = t () => (a) {{ a = Add(x, z) }},
                        else_branch = e () => (c) {{ c = {no} }}>(go)"
            )
        };
        assert_eq!(found(&nodes("Neg(x)")), []);
        assert_eq!(found(&nodes("Concat<axis = 1>(x, x)")).len(), 2);
        // An unknown operator is always an error.
        assert_eq!(found(&nodes("Minus(x)")).len(), 1);
    }

    #[test]
    fn the_declared_types_of_subgraph_outputs_are_checked() {
        let found = found(
            "r = Loop<body = b (int64 i, bool on, v) => (bool to, int64[2] w) {
                to = Identity(on)
                w = Abs(v)
            }>(n, go, x)",
        );
        // A warning of each shape that the body is built for.
        assert!(!found.is_empty());
        assert!(found.iter().all(|(code, _)| *code == Code::DeclaredMismatch), "{found:?}");
    }
}
