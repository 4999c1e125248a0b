//! Functions of a model: signatures, imported operator sets, and calls.

use super::{
    attribute,
    context::{Context, Place},
    graph,
    metadata::metadata,
    opsets::{Opsets, imports},
    scope::{Kind, Scope},
    signature,
    training::gradient,
    unit::{Functions, Model, Unit},
};
use crate::{
    diag::{Code, Diagnostic, quoted},
    domain::{canonical, shown},
};
use onnxc_proto::{AttributeProto, FunctionProto, NodeProto};
use std::collections::{HashMap, HashSet, hash_map::Entry};

/// The maximum number of functions of a model, and the maximum depth of calls: onnx's limits.
const MOST: usize = 10_000;
const DEEPEST: usize = 100;

/// Checks the functions of a model, which must be distinct and must not be recursive.
pub(super) fn functions<'p>(cx: &mut Context<'p>, list: &'p [FunctionProto]) -> Functions<'p> {
    if list.len() > MOST {
        let message = format!("the model has {} functions, but {MOST} is the limit", list.len());
        cx.fault(Code::FunctionLimit, message);
    }
    let mut functions = Functions::default();
    for function in list {
        let key = (canonical(function.domain()), function.name(), function.overload());
        if let Entry::Vacant(entry) = functions.0.entry(key) {
            entry.insert(function);
        } else {
            let message = "another function has the same domain, name and overload";
            cx.within(Place::Function(function), |cx| cx.fault(Code::DuplicateFunction, message));
        }
    }
    calls(cx, list, &functions);
    functions
}

/// Checks the calls between functions for cycles and depth. It keeps an explicit stack, because
/// chains of calls may be long.
fn calls<'p>(cx: &mut Context<'p>, list: &'p [FunctionProto], functions: &Functions<'p>) {
    let address = |function: &FunctionProto| std::ptr::from_ref(function);
    // The call depth of each function; `None` while it is on the path.
    let mut depths: HashMap<*const FunctionProto, Option<usize>> = HashMap::new();
    let mut path: Vec<Caller<'p>> = Vec::new();
    let mut roots = list.iter();
    loop {
        let callee = match path.last_mut() {
            Some(caller) => caller.open.pop(),
            None => match roots.next() {
                Some(root) => Some(root),
                None => return,
            },
        };
        let below = match callee {
            Some(callee) => match depths.get(&address(callee)) {
                None => {
                    depths.insert(address(callee), None);
                    path.push(Caller::new(callee, functions));
                    continue;
                }
                Some(Some(depth)) => *depth,
                Some(None) => {
                    let caller = path.last().expect("the path holds a callee that is still open");
                    cycle(cx, caller.function, callee);
                    0
                }
            },
            None => {
                let done = path.pop().expect("the path has a last function");
                let depth = depth(cx, &done);
                depths.insert(address(done.function), Some(depth));
                depth
            }
        };
        if let Some(caller) = path.last_mut() {
            caller.below = caller.below.max(below);
        }
    }
}

/// A function on the path of calls: its callees that are still to visit, and the largest depth of
/// the others.
struct Caller<'p> {
    function: &'p FunctionProto,
    open: Vec<&'p FunctionProto>,
    below: usize,
}

impl<'p> Caller<'p> {
    fn new(function: &'p FunctionProto, functions: &Functions<'p>) -> Caller<'p> {
        let mut open = Vec::new();
        callees_of(&function.node, functions, &mut open);
        Caller { function, open, below: 0 }
    }
}

/// Returns the call depth of a function, itself included.
fn depth<'p>(cx: &mut Context<'p>, caller: &Caller<'p>) -> usize {
    if caller.below < DEEPEST {
        return caller.below + 1;
    }
    let message = format!("functions call each other more than {DEEPEST} deep");
    cx.within(Place::Function(caller.function), |cx| cx.fault(Code::FunctionLimit, message));
    // The callers do not report the error again.
    0
}

fn cycle<'p>(cx: &mut Context<'p>, caller: &'p FunctionProto, callee: &'p FunctionProto) {
    let message = if std::ptr::eq(caller, callee) {
        "the function calls itself".to_owned()
    } else {
        format!("the function calls {}, which leads back to it", quoted(callee.name()))
    };
    let help = "loops are written with `Loop` or `Scan`";
    cx.within(Place::Function(caller), |cx| cx.fault_with(Code::RecursiveFunction, message, help));
}

/// Adds the functions that nodes call, including nodes of nested graphs.
fn callees_of<'p>(
    nodes: &'p [NodeProto],
    functions: &Functions<'p>,
    found: &mut Vec<&'p FunctionProto>,
) {
    for node in nodes {
        found.extend(functions.find(node));
        for attribute in &node.attribute {
            let graphs = attribute.g.as_deref().into_iter().chain(&attribute.graphs);
            graphs.for_each(|graph| callees_of(&graph.node, functions, found));
        }
    }
}

/// Checks a function of a model.
pub(super) fn function<'p>(cx: &mut Context<'p>, model: &Model<'p>, function: &'p FunctionProto) {
    cx.within(Place::Function(function), |cx| {
        if model.ir_version >= 8 && function.domain.is_none() {
            cx.fault(Code::MissingField, "the function has no domain");
        }
        let opsets = imports(cx, &function.opset_import);
        contradictions(cx, model, &opsets, function);
        content(cx, Unit { model, opsets: &opsets }, function);
    });
}

/// Checks a function without a model.
pub(super) fn alone<'p>(cx: &mut Context<'p>, function: &'p FunctionProto) {
    let model = Model::none();
    cx.within(Place::Function(function), |cx| {
        let opsets = imports(cx, &function.opset_import);
        content(cx, Unit { model: &model, opsets: &opsets }, function);
    });
}

fn content<'p>(cx: &mut Context<'p>, unit: Unit<'_, 'p>, function: &'p FunctionProto) {
    if function.name().is_empty() {
        cx.fault(Code::MissingField, "the function has no name");
    }
    metadata(cx, &function.metadata_props);
    let mut scope = Scope::new(Kind::Function, &function.node, None);
    let with_default = function.attribute_proto.iter().map(AttributeProto::name);
    let attributes = function.attribute.iter().map(String::as_str).chain(with_default);
    unique(cx, "input", function.input.iter().map(String::as_str));
    unique(cx, "output", function.output.iter().map(String::as_str));
    unique(cx, "attribute", attributes);
    for attribute in &function.attribute_proto {
        cx.within(Place::Attribute(attribute), |cx| {
            attribute::attribute(cx, unit, attribute, &scope);
        });
    }
    for input in &function.input {
        scope.give(input);
    }
    graph::nodes(cx, unit, &function.node, &mut scope);
    gradient::gradients(cx, &function.node, &mut scope);
    for output in function.output.iter().filter(|output| !scope.defines(output)) {
        let message = format!("nothing in the function defines its output {}", quoted(output));
        cx.fault(Code::UndefinedOutput, message);
    }
}

fn unique<'p>(cx: &mut Context<'_>, what: &str, names: impl Iterator<Item = &'p str>) {
    let mut seen = HashSet::new();
    for name in names {
        if name.is_empty() {
            cx.fault(Code::FunctionSignature, format!("the function has an {what} without a name"));
        } else if !seen.insert(name) {
            let message = format!("the function has two {what}s called {}", quoted(name));
            cx.fault(Code::FunctionSignature, message);
        }
    }
}

/// Checks that every operator has the same version in the function and in the model.
fn contradictions(
    cx: &mut Context<'_>,
    model: &Model<'_>,
    opsets: &Opsets,
    function: &FunctionProto,
) {
    let mut seen = HashSet::new();
    for node in &function.node {
        let domain = canonical(node.domain());
        let versions = [opsets.get(domain), model.opsets.get(domain)];
        let [Some(here), Some(there)] = versions else { continue };
        let since = versions.map(|version| {
            signature::find(domain, node.op_type(), version?).map(|(since, _)| since)
        });
        if since[0] == since[1] || !seen.insert((domain, node.op_type())) {
            continue;
        }
        let message = format!(
            "the function imports version {here} of the operator set {}, but the model {there}",
            quoted(shown(domain))
        );
        let note = format!("the operator {} differs between the two", quoted(node.op_type()));
        let diagnostic = Diagnostic::new(Code::FunctionImports, message).note(note);
        cx.report(diagnostic.help("import the same version in both"));
    }
}
