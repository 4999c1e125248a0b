//! The state of the import: the graph that is being built, and the names in scope.

use super::{
    custom_bindings::{Bindings, operator},
    diagnostics::Found,
    dimension_names::GivenNames,
    external, parameters,
    settings::Settings,
    types::{self, Dimensions},
    unread::ReadNames,
};
use crate::{
    check::Checked,
    diag::{Code, Diagnostic, Result, quoted},
    domain::{canonical, shown},
    ir::{Domain, Fitting, Graph, Info, RegionId, ValueId},
    limits::{Budget, Limit},
    ops::{self, Entry},
    tensor::Tensor,
};
use onnxc_proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, StringStringEntryProto,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::PathBuf,
    rc::Rc,
};

/// The number of axes of values, by name.
pub(super) type Ranks = HashMap<String, usize>;

/// A graph, and the external data files that were read for it.
pub struct Imported {
    /// The graph.
    pub graph: Graph,
    /// External data files, relative to the model's directory.
    pub files: Vec<PathBuf>,
    /// The warnings of the checker and of the import.
    pub warnings: Vec<Diagnostic>,
}

/// The greatest depth of nested function calls and subgraphs.
const MAX_DEPTH: usize = 100;

pub(super) struct GraphBuilder<'p> {
    pub(super) settings: &'p Settings,
    /// The messages that the checker found faulty. They are skipped.
    pub(super) checked: &'p Checked,
    pub(super) found: Found,
    pub(super) files: external::Files,
    pub(super) dims: Dimensions<'p>,
    pub(super) graph: Graph,
    pub(super) functions: HashMap<(&'p str, &'p str, &'p str), &'p FunctionProto>,
    /// The parsed bodies of operators, by their text.
    pub(super) bodies: HashMap<String, Rc<FunctionProto>>,
    pub(super) bindings: Bindings<'p>,
    /// The names that the model reads.
    pub(super) read_names: ReadNames<'p>,
    /// The variables of a trainable model, until they become inputs of its graph.
    pub(super) variables: Vec<Variable>,
    pub(super) fitting: Fitting<*const GraphProto>,
    /// The values of whose shapes, as the user sets them, the import made use.
    pub(super) used_shapes: HashSet<&'p str>,
    depth: usize,
    /// The number of nodes that may still be added, or `None` once the limit was exceeded.
    pub(super) nodes_left: Option<usize>,
    /// The number of nodes of each function after its calls are inlined.
    pub(super) extents: HashMap<*const FunctionProto, usize>,
}

/// The names in scope in one graph, function or branch.
pub(super) struct Scope<'s> {
    pub region: RegionId,
    pub values: Names<'s>,
    pub opsets: &'s Opsets,
    /// The declared ranks of values.
    pub ranks: Rc<Ranks>,
    /// The call, if the nodes are those of a function's body.
    pub call: Option<&'s Call<'s>>,
}

/// The values in scope, by name. A name of a graph shadows that of an enclosing one.
#[derive(Default)]
pub(super) struct Names<'s> {
    own: HashMap<String, ValueId>,
    /// The names of the enclosing graph.
    outer: Option<&'s Names<'s>>,
}

impl<'s> Names<'s> {
    /// Creates the names of a graph in an enclosing graph with the names `outer`.
    pub fn inside(outer: &'s Names<'s>) -> Names<'s> {
        Names { own: HashMap::new(), outer: Some(outer) }
    }

    pub fn insert(&mut self, name: String, id: ValueId) {
        self.own.insert(name, id);
    }

    pub fn get(&self, name: &str) -> Option<ValueId> {
        let outer = || self.outer.and_then(|outer| outer.get(name));
        self.own.get(name).copied().or_else(outer)
    }

    /// Returns the names of the graph itself, without those of enclosing graphs.
    pub fn own(&self) -> impl Iterator<Item = (&String, ValueId)> {
        self.own.iter().map(|(name, &id)| (name, id))
    }
}

impl From<HashMap<String, ValueId>> for Names<'_> {
    fn from(own: HashMap<String, ValueId>) -> Self {
        Names { own, outer: None }
    }
}

pub(super) type Opsets = BTreeMap<String, i64>;

/// A value that training updates: an initializer to which a training graph binds an output.
#[derive(Clone)]
pub(super) struct Variable {
    pub name: String,
    pub tensor: Tensor,
}

/// A call of a function, as its body sees it.
pub(super) struct Call<'c> {
    /// The prefix of every name in the body.
    pub prefix: String,
    /// The attributes, with defaults for those that the caller omits.
    pub attributes: HashMap<&'c str, &'c AttributeProto>,
    /// The inputs that the caller omits.
    pub absent: HashSet<String>,
    /// Whether the body is that of an operator. It does not see the model's functions.
    pub is_operator: bool,
}

/// An attribute of a node: its name, and the message that holds its value.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub name: &'a str,
    pub value: &'a AttributeProto,
}

impl<'a> From<&'a AttributeProto> for Given<'a> {
    fn from(value: &'a AttributeProto) -> Given<'a> {
        Given { name: value.name(), value }
    }
}

impl<'p> GraphBuilder<'p> {
    /// Creates a builder for a model.
    pub(super) fn new(
        proto: &'p ModelProto,
        graph_proto: &GraphProto,
        settings: &'p Settings,
        checked: &'p Checked,
    ) -> GraphBuilder<'p> {
        let functions = proto
            .functions
            .iter()
            .map(|function| ((function.domain(), function.name(), function.overload()), function));
        let graph = Graph::new(Rc::new(info(proto, graph_proto)));
        GraphBuilder {
            functions: functions.collect(),
            bindings: Bindings::of(proto, &settings.customs),
            read_names: ReadNames::of(proto),
            dims: Dimensions::of(settings, GivenNames::of(graph_proto)),
            ..GraphBuilder::for_graph(graph, settings, checked)
        }
    }

    /// Creates a builder that adds to `graph`, and knows no functions.
    pub(super) fn for_graph(
        mut graph: Graph,
        settings: &'p Settings,
        checked: &'p Checked,
    ) -> GraphBuilder<'p> {
        graph.budget = Rc::new(Budget::new(settings.limits.clone()));
        GraphBuilder {
            settings,
            checked,
            found: Found::default(),
            files: external::Files::within(settings.directory.clone()),
            dims: Dimensions::new(settings),
            graph,
            functions: HashMap::new(),
            bodies: HashMap::new(),
            bindings: Bindings::default(),
            read_names: ReadNames::default(),
            variables: Vec::new(),
            fitting: Fitting::default(),
            used_shapes: HashSet::new(),
            depth: 0,
            nodes_left: Some(settings.limits.get(Limit::Nodes)),
            extents: HashMap::new(),
        }
    }

    pub(super) fn define(&self, name: &str, id: ValueId, scope: &mut Scope<'_>) {
        scope.values.insert(name.to_owned(), id);
    }

    /// Returns whether this many nodes may be added. Reports the first time that they may not.
    pub(super) fn may_add_nodes(&mut self, nodes: usize) -> bool {
        if let (Some(_), Err(diagnostic)) = (self.nodes_left, self.graph.budget.go_on()) {
            self.nodes_left = None;
            self.found.push(diagnostic);
        }
        let fits = self.nodes_left.is_some_and(|left| nodes <= left);
        if !fits && self.nodes_left.take().is_some() {
            let limits = &self.settings.limits;
            let most = limits.get(Limit::Nodes);
            let message = format!("the model has more than {most} nodes, functions inlined");
            self.found.push(limits.exceeded(Limit::Nodes, message));
        }
        fits
    }

    pub(super) fn with_depth<T>(
        &mut self,
        what: &str,
        then: impl FnOnce(&mut Self) -> T,
    ) -> Result<T> {
        if self.depth == MAX_DEPTH {
            let message = format!("{what} more than {MAX_DEPTH} deep");
            return Err(Diagnostic::new(Code::TooLarge, message));
        }
        self.depth += 1;
        let result = then(self);
        self.depth -= 1;
        Ok(result)
    }
}

impl<'s> Scope<'s> {
    /// Creates a scope without values.
    pub(super) fn empty(region: RegionId, opsets: &'s Opsets) -> Scope<'s> {
        Scope { region, values: Names::default(), opsets, ranks: Rc::default(), call: None }
    }

    /// The name in the graph of a value or node of the body.
    pub fn label(&self, name: &str) -> String {
        let prefix = self.call.map_or("", |call| call.prefix.as_str());
        format!("{prefix}{name}")
    }

    /// The attributes of a node. A reference to an attribute of the enclosing function is replaced
    /// by its value, or omitted if the caller omits it.
    pub fn resolve_attributes<'a>(&self, node: &'a NodeProto) -> Vec<Given<'a>>
    where
        's: 'a,
    {
        let call = self.call;
        let each = node.attribute.iter().filter_map(|attribute| match attribute.ref_attr_name() {
            "" => Some(attribute.into()),
            reference => {
                let value = *call?.attributes.get(reference)?;
                Some(Given { name: attribute.name(), value })
            }
        });
        each.collect()
    }
}

fn info(model: &ModelProto, graph: &GraphProto) -> Info {
    let doc = [model.doc_string(), graph.doc_string()];
    let doc: Vec<&str> = doc.into_iter().filter(|text| !text.is_empty()).collect();
    let values = graph.input.iter().chain(&graph.output);
    let docs = values.filter(|value| !value.doc_string().is_empty());
    Info {
        name: graph.name().to_owned(),
        ir_version: model.ir_version(),
        opsets: model
            .opset_import
            .iter()
            .map(|set| (set.domain().to_owned(), set.version()))
            .collect(),
        producer: format!("{} {}", model.producer_name(), model.producer_version())
            .trim()
            .to_owned(),
        domain: model.domain().to_owned(),
        version: model.model_version(),
        outputs: graph.output.iter().map(|output| output.name().to_owned()).collect(),
        parameters: parameters::count(model),
        output_sizes: graph.output.iter().map(types::declared_sizes).collect(),
        declared: Vec::new(),
        doc: doc.join("\n\n"),
        metadata: entries(&model.metadata_props),
        value_docs: docs.map(|v| (v.name().to_owned(), v.doc_string().to_owned())).collect(),
    }
}

/// Returns the table entry of a node's operator, and the version of its operator set.
pub(super) fn entry(node: &NodeProto, scope: &Scope<'_>) -> Result<(&'static Entry, i64)> {
    let name = canonical(node.domain());
    // The checker has reported nodes of domains without a version.
    let version = scope.opsets.get(name).copied().unwrap_or_default();
    let entry = Domain::from_name(name).and_then(|d| ops::find(d, node.op_type(), version));
    let entry = entry.ok_or_else(|| {
        let message = format!(
            "onnxc has no code for the operator {} of the operator set {}, version {version}",
            quoted(node.op_type()),
            quoted(shown(name))
        );
        Diagnostic::new(Code::UnsupportedOperator, message).help(binding(node))
    })?;
    Ok((entry, version))
}

/// The operators that ONNX Runtime's optimizer writes for the machine that it runs on.
const OF_ONE_MACHINE: &str = "com.microsoft.nchwc";

/// Help for an unknown operator: how to bind it to a function.
fn binding(node: &NodeProto) -> String {
    let (domain, name) = operator(node);
    if domain == OF_ONE_MACHINE {
        return "ONNX Runtime optimized the file for one machine: save it at the optimization level \
            `extended` or lower"
            .to_owned();
    }
    let operator = if domain.is_empty() { name } else { format!("{domain}::{name}") };
    format!(
        "bind it to a function of your program: `--custom {operator}=crate::path::of::function`"
    )
}

/// The location of a graph, for diagnostics.
pub(super) fn place(graph: &GraphProto) -> String {
    format!("graph {}", quoted(graph.name()))
}

/// The name of a node, or of its first output if it has none.
pub(super) fn name(node: &NodeProto) -> &str {
    let named = [node.name(), node.output.first().map_or("", String::as_str)];
    named.into_iter().find(|name| !name.is_empty()).unwrap_or_default()
}

pub(super) fn entries(entries: &[StringStringEntryProto]) -> Vec<(String, String)> {
    entries.iter().map(|entry| (entry.key().to_owned(), entry.value().to_owned())).collect()
}
