//! Builds the graphs of a model with training information.
//!
//! Every graph has all variables as states, in the same order, whether it reads them or not.

use super::{
    build,
    context::{GraphBuilder, Scope, Variable},
    settings::Settings,
    tensor::tensor,
    training_types,
};
use crate::{
    check::Checked,
    diag::{Code, Diagnostic, Diagnostics, quoted},
    ir::{Graph, Held, Interface, ValueId},
};
use onnxc_proto::{
    GraphProto, ModelProto, StringStringEntryProto, TensorProto, TrainingInfoProto, ValueInfoProto,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    mem::take,
    path::PathBuf,
    rc::Rc,
};

/// The graphs of a trainable model.
pub struct Training {
    /// Computes the outputs.
    pub infer: Graph,
    /// Sets the variables to their initial values.
    pub reset: Graph,
    /// Sets the variables to the results of the initialization graphs.
    pub init: Graph,
    /// The training algorithms, in order, with their names. Each runs as much of the model as it
    /// needs, and updates variables.
    pub steps: Vec<(String, Graph)>,
    /// The external data files, relative to the model's directory.
    pub files: Vec<PathBuf>,
    /// The warnings of the checker and of the import.
    pub warnings: Vec<Diagnostic>,
}

/// Builds the graphs of a checked model, or returns `None` if it has no training information.
///
/// # Errors
///
/// Returns the diagnostics of the checker and of the import, each with its location.
pub fn training(
    proto: &ModelProto,
    checked: &Checked,
    settings: &Settings,
) -> Result<Option<Training>, Diagnostics> {
    let Some(main) = proto.graph.as_ref().filter(|_| !proto.training_info.is_empty()) else {
        return Ok(None);
    };
    reject_states(settings)?;
    let faults = Diagnostics(training_types::find_faults(proto, settings, checked));
    let warnings = match faults.into_warnings() {
        Ok(warnings) if !checked.has_errors() => warnings,
        // The import of the main graph reports all diagnostics.
        _ => return build::graph(proto, checked, settings).map(|_| None),
    };
    let warnings = checked.diagnostics.iter().cloned().chain(warnings).collect();
    let mut model = Model { proto, main, settings, checked, files: Vec::new(), warnings };
    model.build_graphs().map(Some)
}

/// Returns an error if the user names a state: all states of a trainable model are variables.
fn reject_states(settings: &Settings) -> Result<(), Diagnostic> {
    let Some(name) = settings.states.keys().next() else { return Ok(()) };
    let message = format!(
        "{} cannot be a state: the variables are the states of a trainable model",
        quoted(name)
    );
    Err(Diagnostic::new(Code::BadOption, message).help(
        "make it an initializer of the model, and bind its next value to it in `update_binding`",
    ))
}

struct Model<'p> {
    proto: &'p ModelProto,
    main: &'p GraphProto,
    settings: &'p Settings,
    checked: &'p Checked,
    files: Vec<PathBuf>,
    warnings: Vec<Diagnostic>,
}

impl<'p> Model<'p> {
    fn build_graphs(&mut self) -> Result<Training, Diagnostics> {
        let variables = self.read_variables()?;
        let infos = &self.proto.training_info;
        let mut unused = Unused::default();
        let mut steps = Vec::new();
        for (i, info) in infos.iter().enumerate() {
            let graph = self.step_graph(info, &variables, &mut unused);
            let graph = graph.map_err(|all| all.within(&format!("training_info {i}")))?;
            let name = info.algorithm.as_ref().map_or("", |graph| graph.name());
            steps.push((name.to_owned(), graph));
        }
        let infer = self.update_graph(self.main, &variables, Vec::new(), &mut unused)?;
        self.warnings.extend(unused.finish()?);
        let reset = self.assignment_graph(&variables, &[])?;
        let init = self.assignment_graph(&variables, infos)?;
        let (files, warnings) = (take(&mut self.files), take(&mut self.warnings));
        Ok(Training { infer, reset, init, steps, files, warnings })
    }

    /// Reads the variables in the order of the initializers: the model's, then each algorithm's.
    fn read_variables(&mut self) -> Result<Vec<Variable>, Diagnostics> {
        let builder = self.builder(self.main);
        let infos = &self.proto.training_info;
        let bound = infos
            .iter()
            .flat_map(|info| info.initialization_binding.iter().chain(&info.update_binding));
        let mut bound: HashSet<&str> = bound.map(StringStringEntryProto::key).collect();
        let own = infos.iter().filter_map(|info| info.algorithm.as_ref());
        let all = std::iter::once(self.main).chain(own).flat_map(|graph| &graph.initializer);
        let mut variables = Vec::new();
        for proto in all {
            let name = proto.name();
            if bound.remove(name) {
                let read = tensor(proto, &builder.files);
                let tensor = read.map_err(|f| f.within(format!("initializer {}", quoted(name))))?;
                variables.push(Variable { name: name.to_owned(), tensor });
            }
        }
        Ok(variables)
    }

    fn builder(&self, graph: &GraphProto) -> GraphBuilder<'p> {
        GraphBuilder::new(self.proto, graph, self.settings, self.checked)
    }

    /// Builds the graph of a training algorithm, joined with the model's as the specification
    /// requires.
    fn step_graph(
        &mut self,
        info: &TrainingInfoProto,
        variables: &[Variable],
        unused: &mut Unused,
    ) -> Result<Graph, Diagnostics> {
        let empty = GraphProto::default();
        let own = info.algorithm.as_ref().unwrap_or(&empty);
        let mut graph = join_graphs(self.main, own);
        let bound: BTreeMap<&str, &str> =
            info.update_binding.iter().map(|b| (b.key(), b.value())).collect();
        let values: BTreeSet<&str> = bound.values().copied().collect();
        // Outputs that are only assigned to variables are not returned.
        graph.output.extend(own.output.iter().filter(|o| !values.contains(o.name())).cloned());
        let assigned = variables.iter().map(|variable| bound.get(variable.name.as_str()).copied());
        self.update_graph(&graph, variables, assigned.collect(), unused)
    }

    /// Builds a graph that assigns to each variable the value with the name in `assigned`. A
    /// variable without a name keeps its value.
    fn update_graph(
        &mut self,
        graph: &GraphProto,
        variables: &[Variable],
        assigned: Vec<Option<&str>>,
        unused: &mut Unused,
    ) -> Result<Graph, Diagnostics> {
        let mut graph = graph.clone();
        let given = graph.output.len();
        let named =
            |name: &&str| ValueInfoProto { name: Some((*name).into()), ..Default::default() };
        graph.output.extend(assigned.iter().flatten().map(named));
        let mut builder = self.builder(&graph);
        builder.variables = variables.to_vec();
        let opsets = builder.opsets(self.proto);
        builder.body(&graph, &opsets);
        unused.merge(builder.unused(&graph));
        self.warnings.extend(builder.found.finish()?);
        let mut outputs = given..;
        let mut interface = (*builder.graph.interface).clone();
        for (held, assigned) in interface.states.iter_mut().zip(assigned) {
            held.output = assigned.and_then(|_| outputs.next());
        }
        builder.graph.interface = Rc::new(interface);
        self.files.extend(builder.files.into_read());
        Ok(builder.graph)
    }

    /// Builds the graph that sets every variable: to the result of the last initialization that
    /// binds it, or to its initial value.
    fn assignment_graph(
        &mut self,
        variables: &[Variable],
        infos: &[TrainingInfoProto],
    ) -> Result<Graph, Diagnostics> {
        let empty = GraphProto::default();
        let mut builder = self.builder(&empty);
        builder.variables = variables.to_vec();
        let opsets = builder.opsets(self.proto);
        let region = builder.graph.body;
        let mut scope = Scope::empty(region, &opsets);
        let interface = builder.variables(&empty, &mut scope);
        let constant =
            |v: &Variable| builder.graph.constant(&format!("initial {}", v.name), v.tensor.clone());
        let mut values: Vec<ValueId> = variables.iter().map(constant).collect();
        for info in infos {
            let Some(graph) = &info.initialization else { continue };
            let mut scope = Scope::empty(region, &opsets);
            builder.initializers(graph, &mut scope);
            builder.nodes(&graph.node, &mut scope);
            for binding in &info.initialization_binding {
                let at = variables.iter().position(|v| v.name == binding.key());
                if let (Some(at), Some(id)) = (at, scope.values.get(binding.value())) {
                    values[at] = id;
                }
            }
        }
        self.warnings.extend(builder.found.finish()?);
        builder.graph.set_outputs(region, values.clone());
        let set = |(i, held): (usize, Held)| Held { output: Some(i), ..held };
        let states = interface.states.iter().copied().enumerate().map(set).collect();
        builder.graph.interface = Rc::new(Interface { states, ..interface });
        let names = values.iter().map(|&id| builder.graph[id].name.clone()).collect();
        Rc::make_mut(&mut builder.graph.info).outputs = names;
        self.files.extend(builder.files.into_read());
        Ok(builder.graph)
    }
}

impl GraphBuilder<'_> {
    /// Adds an input for each variable, which replaces the initializer of that name. It is a state
    /// without an update.
    pub(super) fn variables(&mut self, proto: &GraphProto, scope: &mut Scope<'_>) -> Interface {
        let own: HashSet<&str> = proto.initializer.iter().map(TensorProto::name).collect();
        let mut interface =
            Interface { learns: !self.variables.is_empty(), ..Interface::default() };
        for Variable { name, tensor } in take(&mut self.variables) {
            let id = self.graph.input(scope.region, &name, tensor.ty());
            // A variable of another algorithm is not visible here.
            if own.contains(name.as_str()) {
                scope.values.insert(name, id);
            }
            interface.states.push(Held { input: interface.states.len(), output: None });
        }
        interface
    }
}

/// Joins two graphs field by field. The result has no outputs.
fn join_graphs(main: &GraphProto, own: &GraphProto) -> GraphProto {
    let mut graph = GraphProto { output: Vec::new(), ..main.clone() };
    graph.initializer.extend(own.initializer.iter().cloned());
    graph.sparse_initializer.extend(own.sparse_initializer.iter().cloned());
    graph.input.extend(own.input.iter().cloned());
    graph.node.extend(own.node.iter().cloned());
    graph.value_info.extend(own.value_info.iter().cloned());
    graph.name.clone_from(&own.name);
    graph.doc_string.clone_from(&own.doc_string);
    graph
}

/// The diagnostics of settings that no graph uses.
#[derive(Default)]
struct Unused(Option<Vec<Diagnostic>>);

impl Unused {
    /// Keeps only the diagnostics that this graph reports too.
    fn merge(&mut self, mut found: Vec<Diagnostic>) {
        let before = self.0.take();
        let stays = |f: &Diagnostic| {
            before.as_ref().is_none_or(|all| all.iter().any(|b| b.message == f.message))
        };
        found.retain(stays);
        self.0 = Some(found);
    }

    /// Returns the warnings, or everything as `Err` if one is an error.
    fn finish(self) -> Result<Vec<Diagnostic>, Diagnostics> {
        Diagnostics(self.0.unwrap_or_default()).into_warnings()
    }
}
