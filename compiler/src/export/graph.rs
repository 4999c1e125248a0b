//! Conversion of regions to graphs and of nodes to node messages.

use super::{
    names::{Labels, Sizes},
    version::Needs,
};
use crate::{
    check::signature,
    diag::{Code, Diagnostic, DiagnosticSink},
    domain,
    ident::Names,
    import::{attribute, proto, types, version::Need},
    ir::{Attributes, Domain, Graph, Node, NodeId, Region, RegionId, ValueId, of_constant},
    ops::{
        composite::Kept, control::loop_op::Loop, custom::Custom, optional::OptionalGetElement,
        sizes::Assume,
    },
    ty::Type,
};
use onnxc_proto::{GraphProto, NodeProto, StringStringEntryProto, TensorProto, ValueInfoProto};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Writes the regions of a graph.
pub struct Writer<'g> {
    graph: &'g Graph,
    diagnostics: DiagnosticSink,
    labels: Labels,
    sizes: Sizes,
    /// The versions of operator sets that the nodes need.
    pub needs: Needs,
    /// The values that ONNX represents by others: see [`Writer::taken_for`].
    same: HashMap<ValueId, ValueId>,
    /// The values that represent others.
    sources: HashSet<ValueId>,
    /// The constants that equal an earlier one, which represents both.
    equal: HashMap<ValueId, ValueId>,
    /// The constants used so far, in order.
    constants: Vec<TensorProto>,
    written: HashSet<ValueId>,
    /// The names of the nodes so far.
    nodes: Names,
    /// The values that nodes make and whose types a reader cannot infer.
    pub needed: BTreeSet<String>,
}

impl<'g> Writer<'g> {
    /// Creates a writer.
    pub fn new(graph: &'g Graph, diagnostics: DiagnosticSink) -> Writer<'g> {
        let same = graph.walk(graph.body).filter_map(|(_, node)| taken_for(graph, node));
        let same: HashMap<ValueId, ValueId> = same.collect();
        let mut writer = Writer {
            graph,
            diagnostics,
            sources: same.values().copied().collect(),
            same,
            equal: HashMap::new(),
            labels: Labels::of(graph),
            sizes: Sizes::of(graph),
            needs: Needs::default(),
            constants: Vec::new(),
            written: HashSet::new(),
            nodes: Names::default(),
            needed: BTreeSet::new(),
        };
        writer.equal = writer.equal_constants();
        writer
    }

    /// Maps each constant that equals an earlier one to it.
    fn equal_constants(&self) -> HashMap<ValueId, ValueId> {
        let mut first = HashMap::new();
        let constants = self.graph.values().filter(|(id, _)| self.is_constant(*id));
        let keys =
            constants.filter_map(|(id, value)| Some((id, of_constant(value.constant.as_ref()?)?)));
        keys.filter_map(|(id, key)| {
            let one = *first.entry(key).or_insert(id);
            (one != id).then_some((id, one))
        })
        .collect()
    }

    /// Returns the model's graph, with all constants.
    pub fn body(&mut self) -> GraphProto {
        let graph = self.graph;
        let body = &graph[graph.body];
        let mut names = Vec::new();
        for i in 0..body.outputs.len() {
            names.push(self.output_name(i, &names));
        }
        let mut own = HashMap::new();
        for (&id, name) in body.outputs.iter().zip(&names) {
            let id = self.source(id);
            // A value that is two outputs is written as the first.
            if self.is_made(id, body) && !own.contains_key(&id) {
                own.insert(id, name.clone());
                self.labels.call(id, name.clone());
            }
        }
        let mut proto = self.region(graph.body, Some(&names));
        for value in proto.input.iter_mut().chain(&mut proto.output) {
            let doc = graph.info.value_docs.get(value.name());
            value.doc_string = doc.cloned();
        }
        for (&i, tensor) in &graph.interface.defaults {
            let name = self.name(body.inputs[i]);
            self.constants.push(self::proto(tensor, &name));
        }
        proto.initializer = std::mem::take(&mut self.constants);
        proto
    }

    /// Returns the name of output `i`. `before` has the names of the outputs before it.
    fn output_name(&mut self, i: usize, before: &[String]) -> String {
        let (graph, body) = (self.graph, &self.graph[self.graph.body]);
        let id = body.outputs[i];
        let name = graph.info.outputs.get(i).unwrap_or(&graph[id].name);
        // A model may list an output twice.
        let again = (0..i).find(|&first| {
            body.outputs[first] == id && graph.info.outputs.get(first) == Some(name)
        });
        if let Some(first) = again {
            return before[first].clone();
        }
        let is_input = body.inputs.contains(&id) && *name == self.name(id);
        if is_input { name.clone() } else { self.labels.unique(name) }
    }

    /// Returns whether a node of the region computes the value at run time.
    fn is_made(&self, id: ValueId, region: &Region) -> bool {
        let producer = self.graph[id].producer;
        !self.is_constant(id) && producer.is_some_and(|node| region.nodes.contains(&node))
    }

    /// Returns whether the value is written as a constant, and the node that computes it is not
    /// written.
    fn is_constant(&self, id: ValueId) -> bool {
        let value = &self.graph[id];
        let node = value.producer.map(|node| &self.graph[node]);
        value.constant.is_some() && node.is_none_or(|node| self.is_known(node))
    }

    /// Returns whether all outputs of a node are constants.
    fn is_known(&self, node: &Node) -> bool {
        node.outputs.iter().flatten().all(|&id| self.graph[id].constant.is_some())
    }

    /// Writes a region, with the given output names or those of the values.
    fn region(&mut self, id: RegionId, outputs: Option<&[String]>) -> GraphProto {
        let graph = self.graph;
        let region = &graph[id];
        let mut proto = GraphProto { name: Some(named(&region.name)), ..GraphProto::default() };
        proto.input = region.inputs.iter().map(|&id| self.value(id)).collect();
        for &node in &region.nodes {
            let written = graph[node].output(0).is_none_or(|id| !self.same.contains_key(&id));
            if written && !self.is_known(&graph[node]) {
                proto.node.push(self.node(node));
                let made = graph[node].outputs.iter().flatten();
                let values: Vec<_> = made.filter_map(|&id| self.known_value(id)).collect();
                if self.is_declared(&graph[node]) {
                    self.needed.extend(values.iter().map(|value| value.name().to_owned()));
                }
                proto.value_info.extend(values);
            }
        }
        let mut given = HashSet::new();
        for (i, &id) in region.outputs.iter().enumerate() {
            let (id, ty) = (self.source(id), &graph[id].ty);
            let said = outputs.map(|names| names[i].clone());
            let is_input = region.inputs.contains(&id) && said == Some(self.name(id));
            let is_again = outputs.is_some_and(|names| names[..i].contains(&names[i]));
            let is_own = is_input || self.is_made(id, region);
            let name = match said {
                Some(said) if is_again => said,
                _ if is_own && given.insert(id) => self.name(id),
                said => self.copied(id, said, &mut proto),
            };
            let declared = outputs.and_then(|_| graph.info.declared.get(i));
            let r#type = self.ty(&self.sizes.known(&name, ty, declared));
            proto.output.push(ValueInfoProto { name: Some(name), r#type, ..Default::default() });
        }
        let given: HashSet<&str> = proto.output.iter().map(|value| value.name()).collect();
        proto.value_info.retain(|value| !given.contains(value.name()));
        proto
    }

    /// Adds a node that copies a value from elsewhere to an output, which ONNX requires.
    fn copied(&mut self, id: ValueId, said: Option<String>, proto: &mut GraphProto) -> String {
        let input = self.operand(id);
        let output = said.unwrap_or_else(|| self.labels.unique(&self.graph[id].name));
        let since = match self.graph[id].ty {
            Type::Tensor(_) | Type::Unranked(_) | Type::Unknown => 1,
            Type::Optional(_) => 16,
            _ => 14,
        };
        self.needs.at_least(Domain::Onnx, since);
        proto.node.push(NodeProto {
            op_type: Some("Identity".into()),
            input: vec![input],
            output: vec![output.clone()],
            ..NodeProto::default()
        });
        output
    }

    /// Returns whether a declaration of the model decided how many axes the results of a node have.
    fn is_declared(&self, node: &Node) -> bool {
        let mut producers = node.inputs.iter().flatten().map(|&id| self.graph.producer(id));
        producers.any(|producer| producer.is_some_and(|producer| producer.op.is::<Assume>()))
    }

    fn node(&mut self, id: NodeId) -> NodeProto {
        let node = &self.graph[id];
        let mut attributes = Attributes::default();
        node.op.attributes(&mut attributes);
        if node.op.domain() == Domain::Internal {
            self.without_form(node);
        }
        let [least_inputs, most_outputs] = arity(node);
        if node.outputs.len() > most_outputs {
            self.without_form(node);
        }
        let given = node.inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        let mut inputs = node.inputs[..given].to_vec();
        // An omitted input has an empty name, unless the operator takes fewer inputs.
        inputs.resize(given.max(least_inputs), None);
        self.needs.add(Need::of(self.graph, node, &inputs, &mut attributes));
        let mut operand = |id: &Option<ValueId>| id.map_or(String::new(), |id| self.operand(id));
        let input: Vec<String> = inputs.iter().map(&mut operand).collect();
        let mut name = |id: &Option<ValueId>| id.map_or(String::new(), |id| self.name(id));
        let mut output: Vec<String> = node.outputs.iter().map(&mut name).collect();
        // Runtimes count the outputs of a node that stays as it is.
        let kept = node.op.downcast::<Kept>().map_or(0, |kept| kept.types.len());
        output.resize(kept.max(output.len()), String::new());
        let mut graph = |i: usize| self.region(node.regions[i], None);
        let each = attributes.0.iter();
        let attribute =
            each.map(|(name, value)| attribute::proto(name, value, &mut graph)).collect();
        let said = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let notes = node.notes.clone().unwrap_or_default();
        NodeProto {
            // Readers name a node without a name after its first output.
            name: said(&node.name)
                .filter(|name| Some(name) != output.first())
                .map(|name| self.nodes.unique(name)),
            domain: match node.op.domain() {
                Domain::Onnx => None,
                other => Some(other.to_string()),
            },
            op_type: Some(node.op.name().to_owned()),
            input,
            output,
            attribute,
            doc_string: said(&notes.doc),
            metadata_props: entries(&notes.metadata),
            ..NodeProto::default()
        }
    }

    fn without_form(&self, node: &Node) {
        if node.op.is::<Custom>() {
            let message = "a node of a custom operator cannot be written to a model";
            let diagnostic = Diagnostic::new(Code::Unsupported, message).within(node.location());
            let help = "compile the model as it is: a module is simplified in the same way";
            return self.diagnostics.push(diagnostic.help(help));
        }
        let message = format!("no operator of ONNX is what onnxc made of `{}`", node.op.name());
        let diagnostic = Diagnostic::new(Code::Unsupported, message).within(node.location());
        let note = "either a pass fused nodes, or the version that was read has no newer form";
        self.diagnostics.push(diagnostic.note(note));
    }

    /// Returns the name by which a node refers to a value.
    fn operand(&mut self, id: ValueId) -> String {
        let (id, name) = (self.source(id), self.name(id));
        let constant = self.graph[id].constant.as_ref().filter(|_| self.is_constant(id));
        if let Some(tensor) = constant.filter(|_| self.written.insert(id)) {
            self.constants.push(proto(tensor, &name));
        }
        name
    }

    fn name(&mut self, id: ValueId) -> String {
        self.labels.value(self.graph, self.source(id))
    }

    fn source(&self, id: ValueId) -> ValueId {
        self.same.get(&id).or_else(|| self.equal.get(&id)).copied().unwrap_or(id)
    }

    fn ty(&self, ty: &Type) -> Option<onnxc_proto::TypeProto> {
        types::proto(ty, &|dim| self.sizes.name(dim))
    }

    fn value(&mut self, id: ValueId) -> ValueInfoProto {
        let (name, r#type) = (Some(self.name(id)), self.ty(&self.graph[id].ty));
        ValueInfoProto { name, r#type, ..ValueInfoProto::default() }
    }

    /// Returns a value with its type, if that is known.
    fn known_value(&mut self, id: ValueId) -> Option<ValueInfoProto> {
        if self.sources.contains(&id) {
            return None;
        }
        Some(self.value(id)).filter(|value| value.r#type.is_some())
    }
}

/// Returns the least number of inputs and the greatest number of outputs of an operator in its
/// newest form.
fn arity(node: &Node) -> [usize; 2] {
    let (domain, name) = (node.op.domain(), node.op.name());
    let signature = signature::find(domain::canonical(&domain.to_string()), name, domain.newest());
    let form = signature.and_then(|(_, signature)| signature.form.as_ref());
    form.map_or([0, usize::MAX], |form| {
        let most = signature::arity(&form.outputs).1;
        [signature::arity(&form.inputs).0, most.unwrap_or(usize::MAX)]
    })
}

/// Returns a graph name, which must not be empty.
fn named(name: &str) -> String {
    if name.is_empty() { "graph".into() } else { name.to_owned() }
}

/// Returns the values that ONNX represents as one. In ONNX, a loop that receives an optional and
/// returns its content outputs the content; here it outputs an optional, because it may end before
/// its first iteration, and a node after it takes the content. A value with an assumed type is the
/// same value.
fn taken_for(graph: &Graph, node: &Node) -> Option<(ValueId, ValueId)> {
    if node.op.is::<Assume>() {
        return Some((node.output(0)?, node.input(0)?));
    }
    let input = node.input(0).filter(|_| node.op.is::<OptionalGetElement>())?;
    let made = graph.producer(input).filter(|made| made.op.is::<Loop>())?;
    let place = made.outputs.iter().position(|output| *output == Some(input))?;
    // The first result is the loop condition.
    let result = *graph[made.regions[0]].outputs.get(place + 1)?;
    let is_value = !matches!(graph[result].ty, Type::Optional(_));
    is_value.then_some((node.output(0)?, input))
}

/// Converts metadata to messages.
pub fn entries(entries: &[(String, String)]) -> Vec<StringStringEntryProto> {
    let entry = |(key, value): &(String, String)| StringStringEntryProto {
        key: Some(key.clone()),
        value: Some(value.clone()),
    };
    entries.iter().map(entry).collect()
}
