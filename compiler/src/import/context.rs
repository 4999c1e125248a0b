//! The graph in the making, and what names mean where the import is.

use super::{
    custom_bindings::{Bindings, operator},
    diagnostics::Found,
    external,
    settings::Settings,
    types::{self, Dimensions},
};
use crate::{
    check::Checked,
    diag::{Code, Diagnostic, Result, quoted},
    domain::{canonical, shown},
    ir::{Domain, Fitting, Graph, Info, RegionId, ValueId},
    ops::{self, Entry},
    tensor::Tensor,
};
use onnxc_proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, StringStringEntryProto,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    rc::Rc,
};

/// How deep functions may call each other, and graphs may lie inside each other.
const DEEPEST: usize = 100;

/// The nodes that a model may have once its functions are inlined: more than any real one has.
const MOST_NODES: usize = 200_000;

pub(super) struct GraphBuilder<'p> {
    pub(super) settings: &'p Settings,
    /// What was found at fault in the messages, and is passed over.
    pub(super) checked: &'p Checked,
    pub(super) found: Found,
    pub(super) files: external::Files,
    pub(super) dims: Dimensions<'p>,
    pub(super) graph: Graph,
    pub(super) functions: HashMap<(&'p str, &'p str, &'p str), &'p FunctionProto>,
    /// The bodies of operators that were read so far, by their text.
    pub(super) bodies: HashMap<&'static str, Rc<FunctionProto>>,
    pub(super) bindings: Bindings<'p>,
    /// The variables of a model that learns, until they are inputs of its graph.
    pub(super) variables: Vec<Variable>,
    pub(super) fitting: Fitting<*const GraphProto>,
    depth: usize,
    /// The nodes that may still be added; none, once it was said that there are too many.
    pub(super) room: Option<usize>,
    /// How many nodes each function comes to.
    pub(super) extents: HashMap<*const FunctionProto, usize>,
}

/// What names mean in one graph, function or branch.
#[derive(Clone)]
pub(super) struct Scope<'s> {
    pub region: RegionId,
    pub values: HashMap<String, ValueId>,
    pub opsets: &'s Opsets,
    /// The function that is called, in its body.
    pub call: Option<&'s Call<'s>>,
}

pub(super) type Opsets = BTreeMap<String, i64>;

/// What training changes: an initializer that something is bound to.
#[derive(Clone)]
pub(super) struct Variable {
    pub name: String,
    pub tensor: Tensor,
}

/// What a call of a function settles for its body.
pub(super) struct Call<'c> {
    /// What stands in front of every name in the body.
    pub prefix: String,
    /// The attributes, with the defaults of those that the caller leaves out.
    pub attributes: HashMap<&'c str, &'c AttributeProto>,
    /// The inputs that the caller leaves out.
    pub absent: HashSet<String>,
    /// Whether the body is that of an operator, which knows nothing of the model's functions.
    pub is_operator: bool,
}

/// An attribute that a node is given: its name there, and the message that has its value.
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
    /// One that has built nothing yet.
    pub(super) fn new(
        proto: &'p ModelProto,
        graph: &GraphProto,
        settings: &'p Settings,
        checked: &'p Checked,
    ) -> GraphBuilder<'p> {
        let functions = proto
            .functions
            .iter()
            .map(|function| ((function.domain(), function.name(), function.overload()), function));
        let graph = Graph::new(Rc::new(info(proto, graph)));
        GraphBuilder {
            functions: functions.collect(),
            bindings: Bindings::of(proto, &settings.customs),
            ..GraphBuilder::on(graph, settings, checked)
        }
    }

    /// One that goes on with a graph, and knows no functions.
    pub(super) fn on(
        graph: Graph,
        settings: &'p Settings,
        checked: &'p Checked,
    ) -> GraphBuilder<'p> {
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
            variables: Vec::new(),
            fitting: Fitting::default(),
            depth: 0,
            room: Some(MOST_NODES),
            extents: HashMap::new(),
        }
    }

    pub(super) fn define(&self, name: &str, id: ValueId, scope: &mut Scope<'_>) {
        scope.values.insert(name.to_owned(), id);
    }

    /// Whether so many nodes may be added. Where they may not, that is said once.
    pub(super) fn has_room(&mut self, nodes: usize) -> bool {
        let has_room = self.room.is_some_and(|room| nodes <= room);
        if !has_room && self.room.take().is_some() {
            let message = format!("the model has more than {MOST_NODES} nodes, functions inlined");
            self.found.push(Diagnostic::new(Code::TooLarge, message));
        }
        has_room
    }

    pub(super) fn deeper<T>(&mut self, what: &str, then: impl FnOnce(&mut Self) -> T) -> Result<T> {
        if self.depth == DEEPEST {
            let message = format!("{what} more than {DEEPEST} deep");
            return Err(Diagnostic::new(Code::TooLarge, message));
        }
        self.depth += 1;
        let result = then(self);
        self.depth -= 1;
        Ok(result)
    }
}

impl<'s> Scope<'s> {
    /// One in which nothing is defined.
    pub(super) fn empty(region: RegionId, opsets: &'s Opsets) -> Scope<'s> {
        Scope { region, values: HashMap::new(), opsets, call: None }
    }

    /// What a value or node of the body is called in the graph.
    pub fn label(&self, name: &str) -> String {
        let prefix = self.call.map_or("", |call| call.prefix.as_str());
        format!("{prefix}{name}")
    }

    /// The attributes of a node, with those of the function around it in place of references. One
    /// that the caller leaves out is left out in the body, too.
    pub fn resolved<'a>(&self, node: &'a NodeProto) -> Vec<Given<'a>>
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
        output_sizes: graph.output.iter().map(types::declared_sizes).collect(),
        declared: Vec::new(),
        doc: doc.join("\n\n"),
        metadata: entries(&model.metadata_props),
        value_docs: docs.map(|v| (v.name().to_owned(), v.doc_string().to_owned())).collect(),
    }
}

/// What the file says of a node's operator, and the version of its operator set.
pub(super) fn entry(node: &NodeProto, scope: &Scope<'_>) -> Result<(&'static Entry, i64)> {
    let name = canonical(node.domain());
    // That nodes of domains without a version are at fault was found before.
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

/// How an operator that is not known can be one of the user's own.
fn binding(node: &NodeProto) -> String {
    let (domain, name) = operator(node);
    let operator = if domain.is_empty() { name } else { format!("{domain}::{name}") };
    format!(
        "have a function of yours called for it: `--custom {operator}=crate::path::of::function`"
    )
}

/// Where a graph is, for people.
pub(super) fn place(graph: &GraphProto) -> String {
    format!("graph {}", quoted(graph.name()))
}

/// What a node is called: by its own name, or by that of its first output.
pub(super) fn name(node: &NodeProto) -> &str {
    let named = [node.name(), node.output.first().map_or("", String::as_str)];
    named.into_iter().find(|name| !name.is_empty()).unwrap_or_default()
}

pub(super) fn entries(entries: &[StringStringEntryProto]) -> Vec<(String, String)> {
    entries.iter().map(|entry| (entry.key().to_owned(), entry.value().to_owned())).collect()
}
