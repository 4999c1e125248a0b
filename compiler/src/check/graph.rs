//! Checks graphs: names, single assignment, order, and nested scopes.

use super::{
    context::{Context, Place},
    metadata::metadata,
    node,
    node_location::node_place,
    order,
    scope::{Definition, Kind, Scope},
    sparse, tensor,
    training::gradient,
    types,
    unit::Unit,
};
use crate::diag::{Code, Diagnostic, quoted};
use onnxc_proto::{
    GraphProto, NodeProto, SparseTensorProto, TensorProto, TrainingInfoProto, ValueInfoProto,
};
use std::collections::{HashMap, HashSet};

/// Checks the main graph of a model. Returns its scope, which the checks of the training
/// information read.
pub(super) fn main<'s, 'p>(
    cx: &mut Context<'p>,
    unit: Unit<'_, 'p>,
    graph: &'p GraphProto,
) -> Scope<'s, 'p> {
    let mut scope = Scope::new(Kind::Main, &graph.node, None);
    cx.within(Place::Graph(graph), |cx| content(cx, unit, graph, &mut scope));
    scope
}

/// Checks a graph in an attribute, which may read names of the graph `outer`.
pub(super) fn nested<'p>(
    cx: &mut Context<'p>,
    unit: Unit<'_, 'p>,
    graph: &'p GraphProto,
    outer: &Scope<'_, 'p>,
) {
    let mut scope = Scope::new(Kind::Nested, &graph.node, Some(outer));
    cx.within(Place::Graph(graph), |cx| content(cx, unit, graph, &mut scope));
}

/// Checks the contents of a graph.
pub(super) fn content<'p>(
    cx: &mut Context<'p>,
    unit: Unit<'_, 'p>,
    graph: &'p GraphProto,
    scope: &mut Scope<'_, 'p>,
) {
    if graph.name().is_empty() {
        let warning = Diagnostic::warning(Code::MissingField, "the graph has no name");
        cx.report(warning.help("any name will do"));
    }
    metadata(cx, &graph.metadata_props);
    for input in &graph.input {
        cx.within(Place::Value("input", input), |cx| self::input(cx, input, scope));
    }
    initializers(cx, unit.model.ir_version, graph, scope);
    for value in &graph.value_info {
        cx.within(Place::Value("value", value), |cx| types::declared(cx, value));
    }
    nodes(cx, unit, &graph.node, scope);
    gradient::gradients(cx, &graph.node, scope);
    for value in &graph.output {
        cx.within(Place::Value("output", value), |cx| output(cx, value, scope));
    }
}

fn input<'p>(cx: &mut Context<'p>, input: &'p ValueInfoProto, scope: &mut Scope<'_, 'p>) {
    let name = input.name();
    if name.is_empty() {
        cx.fault(Code::MissingField, "the input has no name");
    } else if !scope.give(name) {
        cx.fault(Code::DuplicateInput, format!("two inputs are called {}", quoted(name)));
    } else if hides_inference(scope, name) {
        cx.fault(Code::TrainingNames, format!("{} is declared by the model's graph", quoted(name)));
    }
    match scope.kind {
        Kind::Main | Kind::Algorithm => types::input(cx, input),
        Kind::Nested | Kind::Function | Kind::Initialization => types::declared(cx, input),
    }
}

/// Returns whether the graph that a training algorithm is joined with declares a name too.
fn hides_inference(scope: &Scope<'_, '_>, name: &str) -> bool {
    let outer = scope.outer.filter(|_| scope.kind == Kind::Algorithm);
    outer.is_some_and(|outer| outer.taken(name).is_some())
}

fn initializers<'p>(
    cx: &mut Context<'p>,
    ir_version: i64,
    graph: &'p GraphProto,
    scope: &mut Scope<'_, 'p>,
) {
    let inputs: HashSet<&str> = graph.input.iter().map(|input| input.name()).collect();
    let mut seen = HashMap::new();
    let mut name = |cx: &mut Context<'p>, name: &'p str, tensor: Initializer<'p>| {
        if name.is_empty() {
            return unnamed(cx);
        }
        if let Some(other) = seen.insert(name, tensor) {
            duplicate(cx, other, tensor);
        } else if ir_version > 0 && ir_version <= 3 && !inputs.contains(name) {
            let message =
                format!("in IR version {ir_version} an initializer must be an input, too");
            let warning = Diagnostic::warning(Code::InitializerNotInput, message);
            let warning = warning.note("onnxc reads it as a constant, as in newer versions");
            cx.report(warning.help("set `ir_version` to 4 or newer"));
        } else if hides_inference(scope, name) {
            let message = format!("{} is declared by the model's graph", quoted(name));
            cx.fault(Code::TrainingNames, message);
        }
        scope.give(name);
    };
    for tensor in &graph.initializer {
        cx.within(Place::Initializer(tensor), |cx| {
            name(cx, tensor.name(), Initializer::Dense(tensor));
            tensor::tensor(cx, tensor);
        });
    }
    for tensor in &graph.sparse_initializer {
        cx.within(Place::SparseInitializer(tensor), |cx| {
            let values = tensor.values.as_ref();
            name(cx, values.map_or("", TensorProto::name), Initializer::Sparse(tensor));
            sparse::sparse(cx, tensor);
        });
    }
}

/// Warns about an initializer without a name: no node can read it, and an empty input is one that
/// is left out.
fn unnamed(cx: &mut Context<'_>) {
    let warning = Diagnostic::warning(Code::MissingField, "the initializer has no name");
    let warning = warning.note("no node can read it, so onnxc leaves it out");
    cx.report(warning.help("remove it, or give it the name by which nodes read it"));
}

/// An initializer, compared as the file stores it.
#[derive(Clone, Copy, PartialEq)]
enum Initializer<'p> {
    Dense(&'p TensorProto),
    Sparse(&'p SparseTensorProto),
}

/// Reports the second of two initializers with the same name. If they are equal, either will do.
fn duplicate(cx: &mut Context<'_>, first: Initializer<'_>, second: Initializer<'_>) {
    if first == second {
        let message = "an equal initializer has the same name";
        let warning = Diagnostic::warning(Code::DuplicateInitializer, message);
        return cx.report(warning.note("onnxc uses one of them").help("remove one"));
    }
    cx.fault(Code::DuplicateInitializer, "another initializer has the same name");
}

/// Checks nodes in order. Each should read only the names that are defined before it.
pub(super) fn nodes<'p>(
    cx: &mut Context<'p>,
    unit: Unit<'_, 'p>,
    nodes: &'p [NodeProto],
    scope: &mut Scope<'_, 'p>,
) {
    let (before, reported) = (cx.unsorted(), cx.reported());
    for (i, node) in nodes.iter().enumerate() {
        cx.within(Place::Node(node, i), |cx| {
            for name in node.input.iter().filter(|name| !name.is_empty()) {
                if !scope.sees(name) {
                    missing(cx, unit, name, scope);
                    scope.miss(name);
                }
            }
            node::node(cx, unit, node, scope);
            for name in node.output.iter().filter(|name| !name.is_empty()) {
                define(cx, name, i, scope);
            }
        });
    }
    // A subgraph may read a value that a later node of this graph computes.
    if cx.unsorted() > before {
        cycle(cx, nodes, reported);
    }
}

/// Reports a cycle of nodes that are not sorted, if there is one, instead of their order, which was
/// reported after the first `reported` diagnostics.
fn cycle<'p>(cx: &mut Context<'p>, nodes: &'p [NodeProto], reported: usize) {
    const LONGEST: usize = 20;
    let Some(cycle) = order::sort(nodes, |_| Vec::new()).cycle else { return };
    cx.retract(reported, Code::NotSorted);
    let first = cycle[0];
    let message = match cycle.len() {
        1 => "the node uses its own output",
        _ => "the nodes form a cycle",
    };
    let mut diagnostic = Diagnostic::new(Code::Cycle, message);
    for (at, &i) in cycle.iter().enumerate().take(LONGEST) {
        let next = cycle.get(at + 1).copied().unwrap_or(first);
        let (user, producer) = (node_place(&nodes[i], i), node_place(&nodes[next], next));
        diagnostic = diagnostic.note(format!("{user} uses an output of {producer}"));
    }
    if let more @ 1.. = cycle.len().saturating_sub(LONGEST) {
        diagnostic = diagnostic.note(format!("the cycle has {more} more nodes"));
    }
    let help = "a loop is the operator `Loop`; if none is meant, correct the name of an input";
    cx.within(Place::Node(&nodes[first], first), |cx| cx.report(diagnostic.help(help)));
}

/// Reports a name that nothing before a node defines.
fn missing(cx: &mut Context<'_>, unit: Unit<'_, '_>, name: &str, scope: &Scope<'_, '_>) {
    let shown = quoted(name);
    if let Some((number, is_here)) = scope.maker(name) {
        let graph = if is_here { "" } else { " of the enclosing graph" };
        let message = format!("nothing before this node defines {shown}, but a later one does");
        let warning = Diagnostic::warning(Code::NotSorted, message)
            .note(format!("it is an output of node number {number}{graph}"))
            .note("onnxc sorts the nodes");
        cx.mark_unsorted();
        let help = "write the sorted model: `onnxc optimize MODEL -o FILE`";
        return cx.report(warning.help(help));
    }
    let message = format!("nothing before this node defines {shown}");
    // The search is slow, and a malicious model could repeat it for many names.
    let reads_training = || unit.model.training.iter().any(|info| algorithm_defines(info, name));
    if scope.kind == Kind::Main && cx.keeps_more() && reads_training() {
        let message = format!("{message}; a training algorithm does, but inference cannot use it");
        return cx.fault(Code::InferenceReadsTraining, message);
    }
    let help = match scope.kind {
        Kind::Function => "a function sees its inputs only: add it as an input of the function",
        Kind::Main | Kind::Nested | Kind::Algorithm | Kind::Initialization => {
            "add it as an input or an initializer, or correct the name"
        }
    };
    let near = near_name(cx, name, scope);
    cx.fault_with(Code::UndefinedValue, message, near.as_deref().unwrap_or(help));
}

/// Returns the help for a misspelled name.
fn near_name(cx: &Context<'_>, name: &str, scope: &Scope<'_, '_>) -> Option<String> {
    /// The search is slow in a large graph, and many missing names are rarely misspelled ones.
    const MOST_ERRORS: usize = 20;
    let near = (cx.count() < MOST_ERRORS).then(|| scope.nearest(name)).flatten()?;
    Some(format!("did you mean {}?", quoted(near)))
}

fn algorithm_defines(info: &TrainingInfoProto, name: &str) -> bool {
    let Some(graph) = &info.algorithm else { return false };
    let inputs = graph.input.iter().map(|input| input.name());
    let initializers = graph.initializer.iter().map(|tensor| tensor.name());
    let outputs = graph.node.iter().flat_map(|node| node.output.iter().map(String::as_str));
    inputs.chain(initializers).chain(outputs).any(|found| found == name)
}

fn define<'p>(cx: &mut Context<'p>, name: &'p str, node: usize, scope: &mut Scope<'_, 'p>) {
    let Some((before, is_here)) = scope.taken(name) else {
        scope.names.insert(name, Definition::Node(node));
        return;
    };
    let message = format!("the value {} is defined twice", quoted(name));
    if !is_here && scope.kind == Kind::Algorithm {
        let message = format!("{message}: the model's graph defines it, too");
        return cx.fault(Code::TrainingNames, message);
    }
    let graph = if is_here { "" } else { " of an enclosing graph" };
    let note = match before {
        Definition::Node(number) => {
            format!("it is an output of node number {number}{graph} before")
        }
        Definition::Given | Definition::Missing => {
            format!("it is an input or an initializer{graph}")
        }
    };
    let diagnostic = Diagnostic::new(Code::DuplicateName, message).note(note);
    cx.report(diagnostic.help("rename one of the two, and its uses"));
}

fn output(cx: &mut Context<'_>, output: &ValueInfoProto, scope: &Scope<'_, '_>) {
    let name = output.name();
    let is_defined = match scope.kind {
        Kind::Algorithm => scope.sees(name),
        Kind::Main | Kind::Nested | Kind::Function | Kind::Initialization => scope.defines(name),
    };
    if name.is_empty() {
        cx.fault(Code::MissingField, "the output has no name");
    } else if !is_defined {
        let help = match near_name(cx, name, scope) {
            _ if scope.sees(name) => {
                "the enclosing graph defines it: put an `Identity` node in between".to_owned()
            }
            Some(near) => near,
            None => "correct the name, or add the node that makes it".to_owned(),
        };
        let message = format!("nothing in the graph defines its output {}", quoted(name));
        cx.fault_with(Code::UndefinedOutput, message, &help);
    }
    if output.r#type.is_some() {
        types::declared(cx, output);
    }
}
