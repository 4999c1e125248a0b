//! Builds a graph from messages, and infers types while it does so.

use super::{
    attribute::Subgraph,
    context::{Given, GraphBuilder, Imported, Opsets, Scope, entries, entry, name, place},
    custom_bindings::operator,
    decode::not_a_model,
    operand_types::{check_operand_types, warn_of_unlisted_types},
    settings::{Settings, Zeros},
    tensor::{sparse, tensor},
    topological_sort::{self, named_values},
    training_types,
    version::Need,
    zeros,
};
use crate::{
    check::{Checked, signature},
    diag::{Code, Diagnostic, Diagnostics, Result, quoted},
    domain::{assumed_version, canonical, shown},
    ir::{Attribute, Attributes, Domain, NewNode, Notes, Op, Reader, ValueId},
    ops::{
        Entry, Read, Reading,
        composite::{Composite, Kept},
    },
    tensor::Tensor,
    ty::Type,
};
use onnxc_proto::{FunctionProto, GraphProto, ModelProto, NodeProto};
use std::{collections::BTreeMap, mem, rc::Rc};

/// Builds the graph of a checked model. Skips the nodes and tensors that the checker found faulty,
/// so that no consequence of an error is reported as well.
///
/// # Errors
///
/// Returns the diagnostics of the checker, followed by those of the import, if one is an error.
pub fn graph(
    proto: &ModelProto,
    checked: &Checked,
    settings: &Settings,
) -> std::result::Result<Imported, Diagnostics> {
    let Some(main) = &proto.graph else { return Err(not_a_model("it has no graph").into()) };
    let built = zeros::import(main, settings, |zeros| model(proto, main, settings, checked, zeros));
    let mut found = checked.diagnostics.clone();
    match built {
        Ok(mut imported) => {
            found.append(&mut imported.warnings);
            found.extend(training_types::find_faults(proto, settings, checked));
            Ok(Imported { warnings: Diagnostics(found).into_warnings()?, ..imported })
        }
        // An error in the model's graph is an error in the training graphs, too.
        Err(more) => {
            found.extend(more.0);
            Err(Diagnostics(found))
        }
    }
}

/// Builds the graph of a model.
fn model(
    proto: &ModelProto,
    main: &GraphProto,
    settings: &Settings,
    checked: &Checked,
    zeros: Zeros,
) -> std::result::Result<Imported, Diagnostics> {
    let mut builder = GraphBuilder::new(proto, main, settings, checked);
    builder.dims.zeros = zeros;
    let opsets = builder.opsets(proto);
    builder.body(main, &opsets);
    builder.unused_bindings();
    builder.unused(main).into_iter().for_each(|diagnostic| builder.found.push(diagnostic));
    let warnings = builder.found.within(|| place(main)).finish();
    let warnings = warnings.map_err(|found| builder.files.merge_errors(found))?;
    Ok(Imported { graph: builder.graph, files: builder.files.into_read(), warnings })
}

impl GraphBuilder<'_> {
    /// The operator sets that the model imports. A version newer than the newest known one is an
    /// error.
    pub(super) fn opsets(&mut self, proto: &ModelProto) -> Opsets {
        let mut opsets = Opsets::new();
        // Models were written without operator sets before operator sets had versions.
        if proto.opset_import.is_empty() {
            opsets.insert(String::new(), 1);
        }
        for import in &proto.opset_import {
            let name = canonical(import.domain());
            let newest = Domain::from_name(name).map_or(i64::MAX, Domain::newest);
            let version = import.version();
            if version > newest {
                let set = quoted(shown(name));
                let message = format!("version {version} of the operator set {set} is not known");
                let diagnostic = Diagnostic::new(Code::NewerOperatorSet, message);
                let diagnostic = diagnostic
                    .note(format!("the newest version known is {newest}"))
                    .help("convert it with `onnx.version_converter`, or export an older version");
                self.found.push(diagnostic);
            }
            opsets.insert(name.to_owned(), version.min(newest));
        }
        // The checker has warned about a node of one of these.
        for domain in [Domain::Ml, Domain::Microsoft].map(|domain| domain.to_string()) {
            let assumed = assumed_version(&domain);
            assumed.map(|version| opsets.entry(domain).or_insert(version));
        }
        opsets
    }

    pub(super) fn body<'o>(&mut self, proto: &GraphProto, opsets: &'o Opsets) -> Scope<'o> {
        let region = self.graph.body;
        let ranks = self.declared_ranks(proto);
        let mut scope = Scope { ranks, ..Scope::empty(region, opsets) };
        self.initializers(proto, &mut scope);
        let interface = self.model_inputs(proto, &mut scope);
        self.graph.symbols = self.dims.sizes.clone();
        self.fill_region(proto, &mut scope);
        self.graph.interface = Rc::new(interface);
        scope
    }

    /// Builds a graph without inputs, to which no settings of the user apply.
    pub(super) fn closed_graph<'o>(&mut self, proto: &GraphProto, opsets: &'o Opsets) -> Scope<'o> {
        let mut scope = Scope::empty(self.graph.body, opsets);
        self.initializers(proto, &mut scope);
        self.fill_region(proto, &mut scope);
        scope
    }

    /// Adds the nodes and the outputs of a graph.
    fn fill_region(&mut self, proto: &GraphProto, scope: &mut Scope<'_>) {
        self.nodes(&proto.node, scope);
        self.inner_types(&proto.value_info, scope);
        let outputs = self.outputs(proto, scope);
        self.graph.set_outputs(scope.region, outputs);
    }

    pub(super) fn initializers(&mut self, proto: &GraphProto, scope: &mut Scope<'_>) {
        // The checker warns about initializers without a name.
        let named = proto.initializer.iter().filter(|tensor| !tensor.name().is_empty());
        for initializer in named {
            let name = initializer.name();
            if self.checked.is_faulty(initializer) {
                self.define_unknown(name, scope);
                continue;
            }
            let read = tensor(initializer, &self.files);
            let read = read.map_err(|f| f.within(format!("initializer {}", quoted(name))));
            self.initializer(name, read, scope);
        }
        for initializer in &proto.sparse_initializer {
            let name = initializer.values.as_ref().map(|values| values.name()).unwrap_or_default();
            if name.is_empty() {
                continue;
            }
            if self.checked.is_faulty(initializer) {
                self.define_unknown(name, scope);
                continue;
            }
            let read = sparse(initializer, &self.files, &self.graph.budget);
            let read = read.map_err(|f| f.within(format!("sparse initializer {}", quoted(name))));
            self.initializer(name, read, scope);
        }
    }

    /// Defines a constant. One that cannot be read gets the unknown type, so that its uses are no
    /// errors.
    fn initializer(&mut self, name: &str, read: Result<Tensor>, scope: &mut Scope<'_>) {
        let id = match self.found.keep(read) {
            Some(tensor) => self.graph.constant(name, tensor),
            None => self.graph.input(scope.region, name, Type::Unknown),
        };
        self.define(name, id, scope);
    }

    /// Defines a faulty value, so that its uses are no errors.
    fn define_unknown(&mut self, name: &str, scope: &mut Scope<'_>) {
        if scope.values.get(name).is_none() {
            let id = self.graph.value(name, Type::Unknown);
            self.define(name, id, scope);
        }
    }

    pub(super) fn outputs(&mut self, proto: &GraphProto, scope: &Scope<'_>) -> Vec<ValueId> {
        let (mut outputs, mut types) = (Vec::new(), Vec::new());
        for output in &proto.output {
            let name = output.name();
            let found = scope.values.get(name);
            // The checker has reported an output that nothing defines.
            let id = found.unwrap_or_else(|| self.graph.value(name, Type::Unknown));
            let is_declared = output.r#type.is_some() && scope.region == self.graph.body;
            let declared = if is_declared { self.declared_of_output(output) } else { None };
            let declared = declared.map(|ty| self.with_declared_axes(name, ty));
            let declared = declared.unwrap_or(Type::Unknown);
            let (id, declared) = self.as_declared(name, declared, id);
            outputs.push(id);
            types.push(declared);
        }
        if scope.region == self.graph.body {
            Rc::make_mut(&mut self.graph.info).declared = types;
        }
        outputs
    }

    pub(super) fn nodes(&mut self, nodes: &[NodeProto], scope: &mut Scope<'_>) {
        for i in topological_sort::sort(nodes, self.checked.is_sorted(), scope) {
            self.add_numbered_node(i, &nodes[i], scope);
        }
    }

    /// Adds node number `i`. If it is faulty, defines its outputs with unknown types. Diagnostics
    /// are located at the node.
    pub(super) fn add_numbered_node(&mut self, i: usize, node: &NodeProto, scope: &mut Scope<'_>) {
        if self.checked.is_faulty(node) {
            return self.define_missing_outputs(node, scope);
        }
        let around = mem::take(&mut self.found);
        let added = if self.may_add_nodes(1) { self.node(node, scope) } else { Ok(()) };
        self.nodes_left = self.nodes_left.map(|left| left.saturating_sub(1));
        self.found.keep(added);
        self.define_missing_outputs(node, scope);
        let found = mem::replace(&mut self.found, around);
        self.found.extend(found.at_node(node, i));
    }

    /// Defines the missing outputs of a faulty node with unknown types, so that the nodes that
    /// follow can be checked too.
    fn define_missing_outputs(&mut self, node: &NodeProto, scope: &mut Scope<'_>) {
        for output in node.output.iter().filter(|name| !name.is_empty()) {
            if scope.values.get(output).is_none() {
                let id = self.graph.value(output, Type::Unknown);
                scope.values.insert(output.clone(), id);
            }
        }
    }

    fn node(&mut self, node: &NodeProto, scope: &mut Scope<'_>) -> Result {
        let inputs = self.inputs(node, scope);
        let attributes = scope.resolve_attributes(node);
        if let Some(function) = self.settings.customs.get(&operator(node)) {
            return self.custom(function, node, inputs, &attributes, scope);
        }
        let is_in_operator = scope.call.is_some_and(|call| call.is_operator);
        if let Some(function) = self.called_function(node).filter(|_| !is_in_operator) {
            let extent = self.extent(function);
            if self.checked.is_faulty(function) || !self.may_add_nodes(extent) {
                return Ok(());
            }
            return self.call(function, node, inputs, &attributes, scope);
        }
        let found = entry(node, scope).map_err(|diagnostic| self.undefined(node, diagnostic));
        let (entry, version) = found?;
        let given = inputs.clone();
        self.read_node(node, (entry, version), inputs, &attributes, scope)?;
        if !self.found.has_errors() && !is_in_operator {
            self.check_types(node, version, &given);
        }
        Ok(())
    }

    /// Compares the types of a node's inputs with those of its operator's signature.
    fn check_types(&mut self, node: &NodeProto, version: i64, inputs: &[Option<ValueId>]) {
        let (domain, name) = (canonical(node.domain()), node.op_type());
        let signature = signature::find(domain, name, version);
        let form = signature.and_then(|(_, signature)| signature.form.as_ref());
        let checked = form.map_or(Ok(()), |form| check_operand_types(&self.graph, form, inputs));
        match checked {
            Err(diagnostic) => self.found.push_if_run(diagnostic),
            Ok(()) => {
                let warning = warn_of_unlisted_types(&self.graph, (domain, name, version), inputs);
                warning.into_iter().for_each(|warning| self.found.push(warning));
            }
        }
    }

    /// Adds the nodes that compute a node of an operator set.
    fn read_node(
        &mut self,
        node: &NodeProto,
        (entry, version): (&'static Entry, i64),
        inputs: Vec<Option<ValueId>>,
        attributes: &[Given<'_>],
        scope: &mut Scope<'_>,
    ) -> Result {
        match entry.reading {
            Reading::Read(read) => {
                let cx = (read, version, attributes);
                self.operator(cx, node, inputs, scope)
            }
            Reading::Naming(names, read) => {
                let named = named_values(names, attributes).into_iter();
                let named = named.map(|name| self.input_value(name, scope));
                let inputs = inputs.into_iter().chain(named).collect();
                let cx = (read, version, attributes);
                self.operator(cx, node, inputs, scope)
            }
            Reading::Nodes(nodes) => {
                let attributes = self.read_attributes(attributes)?.0;
                let op = Rc::new(Composite { entry, version, attributes, nodes });
                let operands = Operands { inputs, outputs: &node.output, regions: Vec::new() };
                self.add(op, node, operands, scope)
            }
            Reading::Body(text) => {
                let function = self.operator_body(entry, text)?;
                self.call(&function, node, inputs, attributes, scope)
            }
            Reading::Function(write) => {
                let attributes = self.read_attributes(attributes)?.0;
                let (region, outputs) = (scope.region, node.output.len());
                let before = self.graph.nodes().count();
                let (given, named) = (inputs.clone(), attributes.clone());
                let mut reader =
                    Reader::new(&mut self.graph, region, version, inputs, outputs, attributes);
                let text = write(&mut reader)?;
                let (inputs, _) = reader.finish()?;
                let function = self.operator_body(entry, &text)?;
                self.call(&function, node, inputs, &[], scope)?;
                let is_kept = self.settings.keeps_operators
                    && (!self.is_expressible(&function, &given)
                        || entry.domain == Domain::Microsoft && self.needs_newer(before, scope));
                if is_kept {
                    return self.keep(entry, named, node, given, scope);
                }
                Ok(())
            }
        }
    }

    /// Returns whether the operators of ONNX can express a function: it uses no others, and they
    /// take elements of less than a byte in few places.
    fn is_expressible(&self, function: &FunctionProto, inputs: &[Option<ValueId>]) -> bool {
        let is_internal = |node: &NodeProto| node.domain() == Domain::Internal.to_string();
        let is_narrow = |id: &ValueId| {
            let ty = self.graph[*id].ty.as_tensor();
            ty.is_some_and(|ty| (1..8).contains(&ty.dtype.bits()))
        };
        !function.node.iter().any(is_internal) && !inputs.iter().flatten().any(is_narrow)
    }

    /// Returns whether the imported operator sets lack the form or the types of a node after the
    /// first `before` nodes of the graph. Sets that are not imported may have any version.
    fn needs_newer(&self, before: usize, scope: &Scope<'_>) -> bool {
        self.graph.nodes().skip(before).any(|(_, node)| {
            let mut attributes = Attributes::default();
            node.op.attributes(&mut attributes);
            let need = Need::of(&self.graph, node, &node.inputs, &mut attributes);
            let imported = scope.opsets.get(canonical(&need.domain.to_string()));
            !need.is_met_by(imported.map_or_else(|| need.oldest_from(1), |&version| version))
        })
    }

    /// Adds a node that stays as it is, with the types of the outputs that its expansion defined.
    fn keep(
        &mut self,
        entry: &'static Entry,
        attributes: BTreeMap<String, Attribute>,
        node: &NodeProto,
        inputs: Vec<Option<ValueId>>,
        scope: &mut Scope<'_>,
    ) -> Result {
        let ty = |name: &String| {
            scope.values.get(name).map_or(Type::Unknown, |id| self.graph[id].ty.clone())
        };
        let types = node.output.iter().map(ty).collect();
        let op = Rc::new(Kept { entry, attributes, types });
        self.add(op, node, Operands { inputs, outputs: &node.output, regions: Vec::new() }, scope)
    }

    /// Returns the error for a node of a domain that the model defines by functions, if none of
    /// them is the node's operator. In another domain, that is no error of the model.
    fn undefined(&self, node: &NodeProto, unsupported: Diagnostic) -> Diagnostic {
        let domain = canonical(node.domain());
        let own = self.functions.keys().filter(|(of, ..)| canonical(of) == domain);
        let mut names: Vec<&str> = own.map(|(_, name, _)| *name).collect();
        if names.is_empty() {
            return unsupported;
        }
        names.sort_unstable();
        let (name, domain) = (quoted(node.op_type()), quoted(shown(domain)));
        let message = format!("no function of the model defines the operator {name} of {domain}");
        let error = Diagnostic::new(Code::UnknownOperator, message);
        let error = error.note(format!("the functions of the domain: {}", names.join(", ")));
        Diagnostic { help: unsupported.help, ..error }
    }

    /// Reads an operator, and adds its node.
    fn operator(
        &mut self,
        (read, version, attributes): (Read, i64, &[Given<'_>]),
        node: &NodeProto,
        inputs: Vec<Option<ValueId>>,
        scope: &mut Scope<'_>,
    ) -> Result {
        let (typed, graphs) = self.read_attributes(attributes)?;
        let is_in_operator = scope.call.is_some_and(|call| call.is_operator);
        let unread = if is_in_operator { 0 } else { self.read_names.count_unread(node) };
        let mut reader =
            Reader::new(&mut self.graph, scope.region, version, inputs, node.output.len(), typed);
        reader.unread = unread;
        let op = read(&mut reader)?;
        let outputs = reader.outputs;
        reader.warnings.drain(..).for_each(|warning| self.found.push(warning));
        let (inputs, regions) = reader.finish()?;
        let regions = regions.into_iter().map(|graph| graphs[graph]).collect();
        self.add(op, node, Operands { inputs, outputs: &node.output[..outputs], regions }, scope)
    }

    /// Adds a node with its subgraphs, and defines its outputs.
    fn add(
        &mut self,
        op: Rc<dyn Op>,
        node: &NodeProto,
        Operands { mut inputs, outputs, regions }: Operands<'_>,
        scope: &mut Scope<'_>,
    ) -> Result {
        self.settle_rank(&*op, node, &mut inputs, scope);
        let label = |name: &String| (!name.is_empty()).then(|| scope.label(name));
        let mut names: Vec<Option<String>> = outputs.iter().map(label).collect();
        while names.last().is_some_and(Option::is_none) {
            names.pop();
        }
        let name = scope.label(name(node));
        let mut new = NewNode { name: &name, op, inputs, outputs: &names, regions: Vec::new() };
        self.regions(&mut new, &regions, scope)?;
        let (id, result) = self.graph.node(scope.region, new);
        self.graph.note(id, notes(node));
        let values = self.graph[id].outputs.clone();
        for (name, output) in outputs.iter().zip(values) {
            if let Some(output) = output {
                self.define(name, output, scope);
            }
        }
        if let Err(mut diagnostic) = result {
            // The graph names the node too, but without its number in the file.
            diagnostic.at.remove(0);
            self.found.push_if_run(diagnostic);
        }
        Ok(())
    }

    /// The values of a node's inputs.
    fn inputs(&mut self, node: &NodeProto, scope: &Scope<'_>) -> Vec<Option<ValueId>> {
        node.input.iter().map(|name| self.input_value(name, scope)).collect()
    }

    /// The value called `name`, or `None` if the name is empty or that of an omitted input. The
    /// checker has reported a name that nothing defines. Its value is unknown.
    fn input_value(&mut self, name: &str, scope: &Scope<'_>) -> Option<ValueId> {
        if name.is_empty() || scope.call.is_some_and(|call| call.absent.contains(name)) {
            return None;
        }
        let found = scope.values.get(name);
        Some(found.unwrap_or_else(|| self.graph.value(name, Type::Unknown)))
    }
}

/// The inputs, the names of the outputs, and the subgraphs of a node.
struct Operands<'n> {
    inputs: Vec<Option<ValueId>>,
    outputs: &'n [String],
    regions: Vec<Subgraph<'n>>,
}

/// The documentation and metadata of a node, which do not change what it computes.
fn notes(node: &NodeProto) -> Option<Rc<Notes>> {
    let metadata = entries(&node.metadata_props);
    let notes = Notes { doc: node.doc_string().to_owned(), metadata };
    (notes != Notes::default()).then(|| Rc::new(notes))
}
