//! From the messages of the file format to a graph, types inferred as it is built.

use super::{
    Axis, Imported, Settings, external,
    function::Call,
    tensor::{sparse, tensor},
    types::{self, Dimensions},
};
use crate::{
    check::{Checked, attribute_kind, node_place},
    diag::{Code, Diagnostic, Diagnostics, Findings, Result, quoted},
    ir::{Attribute, Domain, Graph, Info, NewNode, Reader, RegionId, ValueId},
    ops::{self, Entry, How, Read},
    tensor::Tensor,
    ty::Type,
};
use onnxc_proto::{
    AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto,
    attribute_proto::AttributeType,
};
use std::{
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

/// How deep functions may call each other, and graphs may lie inside each other.
const DEEPEST: usize = 100;

/// The nodes that a model may have once its functions are inlined: more than any real one has.
const MOST_NODES: usize = 500_000;

/// The graph of a model.
pub fn model(
    proto: &ModelProto,
    settings: &Settings,
    checked: &Checked,
) -> std::result::Result<Imported, Diagnostics> {
    let graph_proto = proto.graph.as_ref().expect("the decoder saw a graph");
    let mut builder = Builder::new(proto, graph_proto, settings, checked);
    let findings = builder.findings.clone();
    let opsets = builder.opsets(proto);
    builder.body(graph_proto, &opsets);
    builder.dims.findings().into_iter().for_each(|finding| findings.push(finding));
    findings
        .finish()
        .map_err(|all| all.within(&format!("graph {}", quoted(graph_proto.name()))))?;
    Ok(Imported { graph: builder.graph, files: builder.files.into_read() })
}

pub(super) struct Builder<'p> {
    pub(super) settings: &'p Settings,
    /// What was found at fault in the messages, and is passed over.
    pub(super) checked: &'p Checked,
    pub(super) findings: Findings,
    files: external::Files,
    pub(super) dims: Dimensions<'p>,
    pub(super) graph: Graph,
    pub(super) functions: HashMap<(&'p str, &'p str, &'p str), &'p FunctionProto>,
    /// The bodies of operators that were read so far, by their text.
    pub(super) bodies: HashMap<&'static str, Rc<FunctionProto>>,
    depth: usize,
    /// The nodes that may still be added.
    room: usize,
}

/// What names mean in one graph, function or branch.
#[derive(Clone)]
pub(super) struct Scope<'s> {
    pub region: RegionId,
    pub values: HashMap<String, ValueId>,
    pub opsets: &'s Opsets,
    /// The function that is called, in its body.
    pub call: Option<&'s Call>,
}

pub(super) type Opsets = BTreeMap<String, i64>;

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
        doc: doc.join("\n\n"),
        metadata: model
            .metadata_props
            .iter()
            .map(|entry| (entry.key().to_owned(), entry.value().to_owned()))
            .collect(),
        value_docs: docs.map(|v| (v.name().to_owned(), v.doc_string().to_owned())).collect(),
    }
}

impl<'p> Builder<'p> {
    /// One that has built nothing yet.
    pub(super) fn new(
        proto: &'p ModelProto,
        graph: &GraphProto,
        settings: &'p Settings,
        checked: &'p Checked,
    ) -> Builder<'p> {
        let functions = proto
            .functions
            .iter()
            .map(|function| ((function.domain(), function.name(), function.overload()), function));
        Builder {
            settings,
            checked,
            findings: Findings::default(),
            files: external::Files::within(settings.directory.clone()),
            dims: Dimensions::new(settings),
            graph: Graph::new(Rc::new(info(proto, graph))),
            functions: functions.collect(),
            bodies: HashMap::new(),
            depth: 0,
            room: MOST_NODES,
        }
    }

    /// The operator sets that the model imports, as far as they are known here.
    pub(super) fn opsets(&self, proto: &ModelProto) -> Opsets {
        let mut opsets = Opsets::new();
        // Files of before operator sets had versions.
        if proto.opset_import.is_empty() {
            opsets.insert(String::new(), 1);
        }
        for import in &proto.opset_import {
            let name = if import.domain() == "ai.onnx" { "" } else { import.domain() };
            let newest = Domain::from_name(name).map_or(i64::MAX, Domain::newest);
            let version = import.version();
            if version > newest {
                let message =
                    format!("version {version} of the operator set {} is not known", quoted(name));
                let finding = Diagnostic::new(Code::NewerOperatorSet, message);
                self.findings.push(finding.note(format!("the newest version known is {newest}")));
            }
            opsets.insert(name.to_owned(), version.min(newest));
        }
        opsets
    }

    pub(super) fn body<'o>(&mut self, proto: &GraphProto, opsets: &'o Opsets) -> Scope<'o> {
        let region = self.graph.body;
        let mut scope = Scope { region, values: HashMap::new(), opsets, call: None };
        self.initializers(proto, &mut scope);
        for input in &proto.input {
            if scope.values.contains_key(input.name()) {
                continue;
            }
            let ty = self.declared(input).unwrap_or(Type::Unknown);
            let ty = self.with_axes(input.name(), ty);
            let id = match self.settings.consts.get(input.name()) {
                Some(text) => self.constant(input.name(), text, &ty),
                None => self.graph.input(region, input.name(), ty),
            };
            scope.values.insert(input.name().to_owned(), id);
        }
        self.graph.symbols = self.dims.sizes.clone();
        self.unused_constants(proto);
        self.nodes(&proto.node, &mut scope);
        self.inner_types(proto, &scope);
        let outputs = self.outputs(proto, &scope);
        self.graph.set_outputs(region, outputs);
        scope
    }

    /// The type of an input, with the axes that the user says where the model says none.
    fn with_axes(&mut self, name: &str, ty: Type) -> Type {
        match (self.settings.shapes.get(name), ty) {
            (Some(axes), _) if axes.iter().any(|axis| matches!(axis, Axis::Fixed(n) if *n < 0)) => {
                let message = format!("a size of the input {} is negative", quoted(name));
                self.findings.push(Diagnostic::new(Code::BadOption, message));
                Type::Unknown
            }
            (Some(axes), Type::Unranked(dtype)) => Type::tensor(dtype, self.dims.of_axes(axes)),
            (Some(_), ty) => {
                let message = format!("the input {} is {ty}, so its axes are known", quoted(name));
                let finding = Diagnostic::new(Code::BadOption, message);
                self.findings.push(finding.help("settle its free sizes with `--dim`"));
                ty
            }
            (None, ty) => ty,
        }
    }

    /// An input that the user made a constant.
    fn constant(&mut self, name: &str, text: &str, ty: &Type) -> ValueId {
        let at = |finding: Diagnostic| finding.within(format!("input {}", quoted(name)));
        match self.findings.keep(super::constant::tensor(text, ty).map_err(at)) {
            Some(tensor) => self.graph.constant(name, tensor),
            None => self.graph.value(name, Type::Unknown),
        }
    }

    fn unused_constants(&self, proto: &GraphProto) {
        for name in self.settings.consts.keys().chain(self.settings.shapes.keys()) {
            if !proto.input.iter().any(|input| input.name() == name) {
                let names: Vec<&str> = proto.input.iter().map(|input| input.name()).collect();
                let message = format!("the model has no input {}", quoted(name));
                let finding = Diagnostic::new(Code::BadOption, message);
                self.findings.push(finding.note(format!("its inputs: {}", names.join(", "))));
            }
        }
    }

    pub(super) fn initializers(&mut self, proto: &GraphProto, scope: &mut Scope<'_>) {
        for initializer in &proto.initializer {
            let name = initializer.name();
            if self.checked.is_faulty(initializer) {
                self.unknown(name, scope);
                continue;
            }
            let read = tensor(initializer, &self.files);
            let read = read.map_err(|f| f.within(format!("initializer {}", quoted(name))));
            self.initializer(name, read, scope);
        }
        for initializer in &proto.sparse_initializer {
            let name = initializer.values.as_ref().map(|values| values.name()).unwrap_or_default();
            if self.checked.is_faulty(initializer) {
                self.unknown(name, scope);
                continue;
            }
            let read = sparse(initializer, &self.files);
            let read = read.map_err(|f| f.within(format!("sparse initializer {}", quoted(name))));
            self.initializer(name, read, scope);
        }
    }

    /// Defines a constant. One that cannot be read has no type, so that its uses are no findings.
    fn initializer(&mut self, name: &str, read: Result<Tensor>, scope: &mut Scope<'_>) {
        let id = match self.findings.keep(read) {
            Some(tensor) => self.graph.constant(name, tensor),
            None => self.graph.input(scope.region, name, Type::Unknown),
        };
        self.define(name, id, scope);
    }

    pub(super) fn define(&self, name: &str, id: ValueId, scope: &mut Scope<'_>) {
        scope.values.insert(name.to_owned(), id);
    }

    /// Defines what is at fault, so that its uses are no findings.
    fn unknown(&mut self, name: &str, scope: &mut Scope<'_>) {
        if !scope.values.contains_key(name) {
            let id = self.graph.value(name, Type::Unknown);
            self.define(name, id, scope);
        }
    }

    pub(super) fn outputs(&mut self, proto: &GraphProto, scope: &Scope<'_>) -> Vec<ValueId> {
        let mut outputs = Vec::new();
        for output in &proto.output {
            let name = output.name();
            let found = scope.values.get(name).copied();
            // One that nothing defines was found before.
            let id = found.unwrap_or_else(|| self.graph.value(name, Type::Unknown));
            let declared = (output.r#type.is_some() && scope.region == self.graph.body)
                .then(|| self.declared(output).unwrap_or(Type::Unknown));
            outputs.push(declared.map_or(id, |declared| self.as_declared(name, &declared, id)));
        }
        outputs
    }

    pub(super) fn nodes(&mut self, nodes: &[NodeProto], scope: &mut Scope<'_>) {
        for (i, node) in nodes.iter().enumerate() {
            self.numbered(i, node, scope);
        }
    }

    /// Adds node number `i`, or what can be told of its outputs where it is at fault.
    pub(super) fn numbered(&mut self, i: usize, node: &NodeProto, scope: &mut Scope<'_>) {
        let result = match self.room.checked_sub(1) {
            _ if self.checked.is_faulty(node) => return self.leave_unknown(node, scope),
            Some(room) => {
                self.room = room;
                self.node(node, scope)
            }
            // Functions that call each other twice grow beyond all bounds.
            None => return self.leave_unknown(node, scope),
        };
        if let Err(findings) = result {
            let at = node_place(node, i);
            findings.within(&at).0.into_iter().for_each(|finding| self.findings.push(finding));
            self.leave_unknown(node, scope);
        }
        if self.room == 0 {
            let message = format!("the model has more than {MOST_NODES} nodes, functions inlined");
            let finding = Diagnostic::new(Code::TooLarge, message);
            self.findings.push(finding.within(node_place(node, i)));
        }
    }

    /// Gives the outputs of a node that was found wrong, so that what comes after can be looked
    /// at too.
    fn leave_unknown(&mut self, node: &NodeProto, scope: &mut Scope<'_>) {
        for output in node.output.iter().filter(|name| !name.is_empty()) {
            if !scope.values.contains_key(output) {
                let id = self.graph.value(output, Type::Unknown);
                scope.values.insert(output.clone(), id);
            }
        }
    }

    fn node(
        &mut self,
        node: &NodeProto,
        scope: &mut Scope<'_>,
    ) -> std::result::Result<(), Diagnostics> {
        let inputs = self.inputs(node, scope);
        let attributes = scope.resolved(node);
        let key = (node.domain(), node.op_type(), node.overload());
        let is_in_operator = scope.call.is_some_and(|call| call.is_operator);
        if let Some(&function) = self.functions.get(&key).filter(|_| !is_in_operator) {
            if self.checked.is_faulty(function) {
                self.leave_unknown(node, scope);
                return Ok(());
            }
            return self.call(function, node, inputs, attributes, scope);
        }
        let (entry, version) = entry(node, scope)?;
        match entry.how {
            How::Read(read) => {
                let cx = (read, version, attributes.as_slice());
                Ok(self.operator(cx, node, inputs, scope)?)
            }
            How::Nodes(read) => {
                let cx = (read, version, attributes.as_slice());
                Ok(self.expand(cx, node, inputs, scope)?)
            }
            How::Body(text) => {
                let function = self.body_of(entry, text)?;
                self.call(&function, node, inputs, attributes, scope)
            }
        }
    }

    /// Adds the node that an operator reads.
    fn operator(
        &mut self,
        (read, version, attributes): (Read, i64, &[AttributeProto]),
        node: &NodeProto,
        inputs: Vec<Option<ValueId>>,
        scope: &mut Scope<'_>,
    ) -> Result {
        let (typed, graphs) = self.typed(attributes)?;
        let mut reader =
            Reader::new(&mut self.graph, scope.region, version, inputs, node.output.len(), typed);
        let op = read(&mut reader)?;
        let (inputs, regions) = reader.finish()?;
        let label = |name: &String| (!name.is_empty()).then(|| scope.label(name));
        let mut names: Vec<Option<String>> = node.output.iter().map(label).collect();
        while names.last().is_some_and(Option::is_none) {
            names.pop();
        }
        let name = scope.label(name(node));
        let mut new = NewNode { name: &name, op, inputs, outputs: &names, regions: Vec::new() };
        for graph in regions {
            self.fitting_region(&mut new, graphs[graph], scope)?;
        }
        let (id, result) = self.graph.node(scope.region, new);
        let outputs = self.graph[id].outputs.clone();
        for (name, output) in node.output.iter().zip(outputs) {
            if let Some(output) = output {
                self.define(name, output, scope);
            }
        }
        // A branch may never be taken, so what is wrong in it is said where it turns out to be.
        if scope.region != self.graph.body {
            return Ok(());
        }
        // The graph says the node too, but not its number in the file.
        result.map_err(|mut finding| {
            finding.at.remove(0);
            finding
        })
    }

    /// The values of a node's inputs. One that nothing defines was found before, and is unknown.
    fn inputs(&mut self, node: &NodeProto, scope: &Scope<'_>) -> Vec<Option<ValueId>> {
        let mut find = |name: &String| {
            if name.is_empty() || scope.call.is_some_and(|call| call.absent.contains(name)) {
                return None;
            }
            let found = scope.values.get(name).copied();
            Some(found.unwrap_or_else(|| self.graph.value(name, Type::Unknown)))
        };
        node.input.iter().map(&mut find).collect()
    }

    /// The attributes of a node by name, and its subgraphs.
    pub(super) fn typed<'n>(
        &self,
        attributes: &'n [AttributeProto],
    ) -> Result<(BTreeMap<String, Attribute>, Vec<&'n GraphProto>)> {
        let mut graphs = Vec::new();
        let mut typed = BTreeMap::new();
        for attribute in attributes {
            let at = || format!("attribute {}", quoted(attribute.name()));
            let value = self.attribute(attribute, &mut graphs).map_err(|f| f.within(at()))?;
            typed.insert(attribute.name().to_owned(), value);
        }
        Ok((typed, graphs))
    }

    fn attribute<'n>(
        &self,
        proto: &'n AttributeProto,
        graphs: &mut Vec<&'n GraphProto>,
    ) -> Result<Attribute> {
        let missing = || Diagnostic::new(Code::MissingField, "the attribute has no value");
        let mut graph = |proto: &'n GraphProto| {
            graphs.push(proto);
            graphs.len() - 1
        };
        // The type of a value that belongs to no input has no names of its own for dimensions.
        let ty = |proto| types::ty(proto, "type", &mut Dimensions::new(&Settings::default()));
        Ok(match attribute_kind(proto) {
            AttributeType::Float => Attribute::Float(proto.f()),
            AttributeType::Int => Attribute::Int(proto.i()),
            AttributeType::String => Attribute::String(proto.s().to_vec()),
            AttributeType::Tensor => {
                Attribute::Tensor(tensor(proto.t.as_deref().ok_or_else(missing)?, &self.files)?)
            }
            AttributeType::Graph => {
                Attribute::Graph(graph(proto.g.as_deref().ok_or_else(missing)?))
            }
            AttributeType::SparseTensor => {
                let proto = proto.sparse_tensor.as_deref().ok_or_else(missing)?;
                Attribute::Tensor(sparse(proto, &self.files)?)
            }
            AttributeType::TypeProto => {
                Attribute::Type(ty(proto.tp.as_deref().ok_or_else(missing)?)?)
            }
            AttributeType::Floats => Attribute::Floats(proto.floats.clone()),
            AttributeType::Ints => Attribute::Ints(proto.ints.clone()),
            AttributeType::Strings => {
                Attribute::Strings(proto.strings.iter().map(|s| s.to_vec()).collect())
            }
            AttributeType::Tensors => {
                let tensors = proto.tensors.iter().map(|proto| tensor(proto, &self.files));
                Attribute::Tensors(tensors.collect::<Result<_>>()?)
            }
            AttributeType::Graphs => Attribute::Graphs(proto.graphs.iter().map(graph).collect()),
            AttributeType::SparseTensors => {
                let tensors = proto.sparse_tensors.iter().map(|proto| sparse(proto, &self.files));
                Attribute::Tensors(tensors.collect::<Result<_>>()?)
            }
            AttributeType::TypeProtos => {
                Attribute::Types(proto.type_protos.iter().map(ty).collect::<Result<_>>()?)
            }
            AttributeType::Undefined => return Err(missing()),
        })
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

/// What the file says of a node's operator, and the version of its operator set.
fn entry(node: &NodeProto, scope: &Scope<'_>) -> Result<(&'static Entry, i64)> {
    let name = if node.domain() == "ai.onnx" { "" } else { node.domain() };
    // That nodes of domains without a version are at fault was found before.
    let version = scope.opsets.get(name).copied().unwrap_or_default();
    let entry = Domain::from_name(name).and_then(|d| ops::find(d, node.op_type(), version));
    let entry = entry.ok_or_else(|| {
        let message = format!(
            "onnxc has no code for the operator {} of the operator set {}, version {version}",
            quoted(node.op_type()),
            quoted(if name.is_empty() { "ai.onnx" } else { name })
        );
        Diagnostic::new(Code::UnsupportedOperator, message)
    })?;
    Ok((entry, version))
}

/// What a node is called: by its own name, or by that of its first output.
pub(super) fn name(node: &NodeProto) -> &str {
    let named = [node.name(), node.output.first().map_or("", String::as_str)];
    named.into_iter().find(|name| !name.is_empty()).unwrap_or_default()
}
