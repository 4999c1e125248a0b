//! Training information: bindings, and the graphs that are merged.
//!
//! This checks names; import checks types.

pub(super) mod gradient;

use super::{
    context::{Context, Place},
    graph,
    scope::{Kind, Scope},
    unit::Unit,
};
use crate::diag::{Code, Diagnostic, quoted};
use onnxc_proto::{GraphProto, StringStringEntryProto, TensorProto, TrainingInfoProto};
use std::collections::{HashMap, HashSet};

/// The first version of the file format with training information.
const FIRST_VERSION: i64 = 7;

/// Facts about all training information while one of them is checked.
struct State<'p> {
    /// The initializers of the model's graph.
    initializers: HashSet<&'p str>,
    /// The initializers of the algorithm that is checked.
    own: HashSet<&'p str>,
    /// The number of algorithms with an initializer of each name.
    algorithms: HashMap<&'p str, usize>,
    /// The outputs of the model's graph.
    outputs: HashSet<&'p str>,
    /// The variables that are assigned, and by which training information.
    updated: HashMap<&'p str, usize>,
    /// The variables that are ambiguous.
    ambiguous: HashSet<&'p str>,
}

impl<'p> State<'p> {
    /// Returns whether a variable is an initializer of several algorithms, and therefore ambiguous;
    /// reported once.
    fn is_ambiguous(&mut self, cx: &mut Context<'p>, key: &'p str) -> bool {
        let is_ambiguous = self.algorithms.get(key).is_some_and(|count| *count > 1);
        if is_ambiguous && self.ambiguous.insert(key) {
            let message = format!("{} is an initializer of more than one algorithm", quoted(key));
            cx.fault_with(Code::AmbiguousState, message, "rename it in one of them");
        }
        is_ambiguous
    }
}

/// Checks the training information of a model. `main` is its graph, `scope` the names of that
/// graph.
pub(super) fn training<'p>(
    cx: &mut Context<'p>,
    unit: Unit<'_, 'p>,
    main: &'p GraphProto,
    scope: &Scope<'_, 'p>,
) {
    let infos = unit.model.training;
    let version = unit.model.ir_version;
    if !infos.is_empty() && (1..FIRST_VERSION).contains(&version) {
        let message = format!("`training_info` is not of IR version {version}");
        let help = format!("set `ir_version` to {FIRST_VERSION} or newer");
        cx.fault_with(Code::TrainingVersion, message, &help);
    }
    let mut state = State {
        initializers: main.initializer.iter().map(TensorProto::name).collect(),
        own: HashSet::new(),
        algorithms: HashMap::new(),
        outputs: main.output.iter().map(|output| output.name()).collect(),
        updated: HashMap::new(),
        ambiguous: HashSet::new(),
    };
    for graph in infos.iter().filter_map(|info| info.algorithm.as_ref()) {
        for tensor in &graph.initializer {
            *state.algorithms.entry(tensor.name()).or_default() += 1;
        }
    }
    for (i, info) in infos.iter().enumerate() {
        let own = info.algorithm.iter().flat_map(|graph| &graph.initializer);
        state.own = own.map(TensorProto::name).collect();
        cx.within(Place::Item("training_info", i), |cx| {
            initialization(cx, unit, info, &mut state);
            algorithm(cx, unit, info, scope);
            updates(cx, i, info, &mut state);
        });
    }
}

fn initialization<'p>(
    cx: &mut Context<'p>,
    unit: Unit<'_, 'p>,
    info: &'p TrainingInfoProto,
    state: &mut State<'p>,
) {
    let Some(graph) = &info.initialization else {
        if !info.initialization_binding.is_empty() {
            let help = "add the graph, or remove the bindings: variables then keep their values";
            let message = "there are initialization bindings, but no initialization graph";
            cx.fault_with(Code::InitMissing, message, help);
        }
        return;
    };
    cx.within(Place::Field("initialization"), |cx| {
        cx.within(Place::Graph(graph), |cx| {
            if let Some(input) = graph.input.first() {
                let message =
                    format!("the initialization graph has the input {}", quoted(input.name()));
                cx.fault(Code::InitInputs, message);
            }
            let mut scope = Scope::new(Kind::Initialization, &graph.node, None);
            graph::content(cx, unit, graph, &mut scope);
        });
    });
    let outputs: HashSet<&str> = graph.output.iter().map(|output| output.name()).collect();
    let mut seen = HashSet::new();
    for (i, binding) in info.initialization_binding.iter().enumerate() {
        cx.within(Place::Item("initialization_binding", i), |cx| {
            let (key, value) = (binding.key(), binding.value());
            if !seen.insert(key) {
                let message = format!("a second binding assigns to {}", quoted(key));
                cx.fault(Code::InitDuplicate, message);
            }
            if !state.is_ambiguous(cx, key) {
                variable(cx, Code::InitKey, key, state);
            }
            if !outputs.contains(value) {
                let message =
                    format!("{} is not an output of the initialization graph", quoted(value));
                cx.report(known(
                    Diagnostic::new(Code::InitValue, message),
                    "its outputs",
                    &outputs,
                ));
            }
        });
    }
}

fn algorithm<'p>(
    cx: &mut Context<'p>,
    unit: Unit<'_, 'p>,
    info: &'p TrainingInfoProto,
    main: &Scope<'_, 'p>,
) {
    let Some(graph) = &info.algorithm else { return };
    let mut scope = Scope::new(Kind::Algorithm, &graph.node, Some(main));
    cx.within(Place::Field("algorithm"), |cx| {
        cx.within(Place::Graph(graph), |cx| graph::content(cx, unit, graph, &mut scope));
    });
}

fn updates<'p>(
    cx: &mut Context<'p>,
    number: usize,
    info: &'p TrainingInfoProto,
    state: &mut State<'p>,
) {
    let own = info.algorithm.iter().flat_map(|graph| &graph.output);
    let outputs: HashSet<&str> = own.map(|output| output.name()).collect();
    for (i, binding) in info.update_binding.iter().enumerate() {
        cx.within(Place::Item("update_binding", i), |cx| {
            update(cx, number, binding, state);
            let value = binding.value();
            if !outputs.contains(value) && !state.outputs.contains(value) {
                let message = format!(
                    "{} is neither an output of the algorithm nor one of the model's graph",
                    quoted(value)
                );
                let diagnostic = Diagnostic::new(Code::UpdateValue, message);
                cx.report(known(diagnostic, "the algorithm's outputs", &outputs));
            }
        });
    }
}

fn update<'p>(
    cx: &mut Context<'p>,
    number: usize,
    binding: &'p StringStringEntryProto,
    state: &mut State<'p>,
) {
    let key = binding.key();
    if state.is_ambiguous(cx, key) {
        return;
    }
    match state.updated.insert(key, number) {
        Some(before) => {
            let message = format!("{} is assigned by training_info {before} already", quoted(key));
            cx.fault(Code::UpdateDuplicate, message);
        }
        None => variable(cx, Code::UpdateKey, key, state),
    }
}

/// Checks that a key is an initializer of the model's graph or of the algorithm.
fn variable(cx: &mut Context<'_>, code: Code, key: &str, state: &State<'_>) {
    if state.initializers.contains(key) || state.own.contains(key) {
        return;
    }
    let message =
        format!("{} is not an initializer of the model's graph or of this algorithm", quoted(key));
    let diagnostic = Diagnostic::new(code, message);
    cx.report(if state.algorithms.contains_key(key) {
        diagnostic.note("it is one of another algorithm, which is a scope of its own")
    } else {
        diagnostic.help("state is an initializer, with the value that it has at first")
    });
}

/// Adds the existing names to the diagnostic, if there are few.
fn known(diagnostic: Diagnostic, what: &str, names: &HashSet<&str>) -> Diagnostic {
    const MOST: usize = 20;
    if names.is_empty() || names.len() > MOST {
        return diagnostic;
    }
    let mut names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    names.sort();
    diagnostic.note(format!("{what}: {}", names.join(", ")))
}
