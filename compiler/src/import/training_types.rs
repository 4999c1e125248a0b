//! Checks the types of bindings between training graphs.
//!
//! A step runs the graph of the model and of the algorithm as one, so the two are built as one.

use super::{
    context::{GraphBuilder, Scope},
    settings::Settings,
    topological_sort,
};
use crate::{
    check::{self, Checked, GradientNames},
    diag::{Code, Diagnostic, quoted},
    dtype::F32_AND_F64,
    ty::Type,
};
use onnxc_proto::{GraphProto, ModelProto, NodeProto, StringStringEntryProto, TrainingInfoProto};
use std::collections::HashMap;

/// The type errors of the training graphs. If the checker found errors, nothing more is reported.
pub fn find_faults(proto: &ModelProto, settings: &Settings, checked: &Checked) -> Vec<Diagnostic> {
    let Some(main) = proto.graph.as_ref().filter(|_| !checked.has_errors()) else {
        return Vec::new();
    };
    let infos = proto.training_info.iter().enumerate();
    let each = infos.flat_map(|(i, info)| {
        let found = Training { proto, main, settings, checked }.info(info);
        found.into_iter().map(move |diagnostic| diagnostic.within(format!("training_info {i}")))
    });
    each.collect()
}

struct Training<'p> {
    proto: &'p ModelProto,
    main: &'p GraphProto,
    settings: &'p Settings,
    checked: &'p Checked,
}

/// The types of a graph's values, by name.
type Types = HashMap<String, Type>;

impl Training<'_> {
    fn info(&self, info: &TrainingInfoProto) -> Vec<Diagnostic> {
        let (step, mut found) = self.step(info.algorithm.as_ref());
        if let Some(graph) = &info.initialization {
            let (first, more) = self.infer_types(graph);
            found.extend(more);
            found.extend(check_bindings(
                &info.initialization_binding,
                Code::InitType,
                &step,
                &first,
            ));
        }
        found.extend(check_bindings(&info.update_binding, Code::UpdateType, &step, &step));
        found
    }

    /// Infers the types of a separate graph.
    fn infer_types(&self, graph: &GraphProto) -> (Types, Vec<Diagnostic>) {
        let mut builder = GraphBuilder::new(self.proto, graph, self.settings, self.checked);
        let opsets = builder.opsets(self.proto);
        let scope = builder.closed_graph(graph, &opsets);
        let types = all(&builder, &scope);
        (types, take_diagnostics(&mut builder, "initialization"))
    }

    /// Infers the types of the model's graph joined with an algorithm's.
    fn step(&self, algorithm: Option<&GraphProto>) -> (Types, Vec<Diagnostic>) {
        let mut builder = GraphBuilder::new(self.proto, self.main, self.settings, self.checked);
        let opsets = builder.opsets(self.proto);
        let mut scope = builder.body(self.main, &opsets);
        // The diagnostics of the model's graph are reported when that graph is imported.
        drop(builder.found.finish());
        let Some(graph) = algorithm else { return (all(&builder, &scope), Vec::new()) };
        builder.initializers(graph, &mut scope);
        for input in graph.input.iter().filter(|input| !input.name().is_empty()) {
            if scope.values.get(input.name()).is_none() {
                let ty = builder.declared(input).unwrap_or(Type::Unknown);
                let id = builder.graph.value(input.name(), ty);
                builder.define(input.name(), id, &mut scope);
            }
        }
        let are_sorted = self.checked.is_sorted();
        for i in topological_sort::sort(&graph.node, are_sorted, &scope) {
            let node = &graph.node[i];
            match GradientNames::of(node) {
                Some(names) => gradient(&mut builder, node, &names, &mut scope),
                None => builder.add_numbered_node(i, node, &mut scope),
            }
        }
        let types = all(&builder, &scope);
        let mut found = take_diagnostics(&mut builder, "algorithm");
        for (i, node) in graph.node.iter().enumerate() {
            if let Some(diagnostic) =
                GradientNames::of(node).and_then(|n| check_gradient_types(node, &n, &types))
            {
                found.push(check::at_node(diagnostic, node, i).within("`algorithm`"));
            }
        }
        (types, found)
    }
}

/// Defines the outputs of a `Gradient`. Each has the type of the value by which it derives.
fn gradient(
    builder: &mut GraphBuilder<'_>,
    node: &NodeProto,
    names: &GradientNames<'_>,
    scope: &mut Scope<'_>,
) {
    for (output, x) in node.output.iter().zip(&names.xs).filter(|(output, _)| !output.is_empty()) {
        let ty = scope.values.get(x).map_or(Type::Unknown, |id| builder.graph[id].ty.clone());
        let id = builder.graph.value(output, ty);
        builder.define(output, id, scope);
    }
}

/// Checks the types of the values that a `Gradient` names or reads.
fn check_gradient_types(
    node: &NodeProto,
    names: &GradientNames<'_>,
    types: &Types,
) -> Option<Diagnostic> {
    for name in names.xs.iter().chain([&names.y]) {
        if let Some(Type::Tensor(ty)) = types.get(*name)
            && !F32_AND_F64.contains(&ty.dtype)
            && ty.dtype != crate::dtype::DType::F16
        {
            let message = format!("{} is {}, which has no derivative", quoted(name), ty.dtype);
            let diagnostic = Diagnostic::new(Code::GradientType, message);
            return Some(diagnostic.note("allowed: float16, float, double"));
        }
    }
    let named = names.xs.iter().chain(&names.zs);
    node.input.iter().zip(named).find_map(|(input, name)| {
        let (given, wanted) = (types.get(input)?, types.get(*name)?);
        differ(given, wanted).then(|| {
            let message = format!(
                "the value {} given for {} is {given}, not {wanted}",
                quoted(input),
                quoted(name)
            );
            Diagnostic::new(Code::GradientType, message)
        })
    })
}

/// Checks the types of bound values.
fn check_bindings(
    bindings: &[StringStringEntryProto],
    code: Code,
    variables: &Types,
    values: &Types,
) -> Vec<Diagnostic> {
    let each = bindings.iter().filter_map(|binding| {
        let (variable, value) = (variables.get(binding.key())?, values.get(binding.value())?);
        differ(variable, value).then(|| {
            let message = format!(
                "{} is {value}, but the variable {} that it is assigned to is {variable}",
                quoted(binding.value()),
                quoted(binding.key())
            );
            Diagnostic::new(code, message)
        })
    });
    each.collect()
}

/// Returns whether two types certainly differ.
fn differ(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Tensor(a), Type::Tensor(b)) => {
            let sizes = a.shape.iter().zip(&b.shape);
            let mut sizes = sizes.map(|(a, b)| a.known().zip(b.known()));
            a.dtype != b.dtype
                || a.rank() != b.rank()
                || sizes.any(|sizes| sizes.is_some_and(|(a, b)| a != b))
        }
        _ => false,
    }
}

fn all(builder: &GraphBuilder<'_>, scope: &Scope<'_>) -> Types {
    let values = scope.values.own();
    values.map(|(name, id)| (name.clone(), builder.graph[id].ty.clone())).collect()
}

/// Takes the diagnostics of a graph.
fn take_diagnostics(builder: &mut GraphBuilder<'_>, graph: &str) -> Vec<Diagnostic> {
    let found = builder.found.finish().unwrap_or_else(|found| found.0);
    found.into_iter().map(|diagnostic| diagnostic.within(format!("`{graph}`"))).collect()
}
