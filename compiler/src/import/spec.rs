//! Builds nodes by the name of their operator, for code that builds graphs and for passes.

use super::{
    Settings, attribute,
    context::{Given, GraphBuilder, Scope},
};
use crate::{
    check::Checked,
    diag::{Code, Diagnostic, Result, counted, quoted},
    ir::{
        Attribute, Domain, Graph, NewNode, Op, OperatorSet, Outputs, Reader, RegionId, Site,
        ValueId,
    },
    ops::{self, Entry, Reading, composite::Composite},
};
use onnxc_proto::{AttributeProto, FunctionProto, GraphProto, NodeProto};
use std::{collections::BTreeMap, rc::Rc};

/// A node to be added to a graph: an operator of a set and version, inputs, attributes and
/// subgraphs. It is imported in the same way as a node in a file.
///
/// ```
/// use onnxc::{Spec, dim::Dim, dtype::DType, ir::Graph, tensor::Tensor, ty::Type};
///
/// let mut graph = Graph::named("logits");
/// let rows = Type::tensor(DType::F32, [Dim::symbol("batch"), 4.into()]);
/// let x = graph.input(graph.body, "x", rows);
/// let bias = graph.constant("bias", Tensor::from_floats(&[0.1, 0.2, 0.3, 0.4]));
/// let sum = Spec::new("Add").called("sum").inputs([x, bias]).one(&mut graph)?;
/// let y = Spec::new("Softmax").called("y").attribute("axis", 1).inputs([sum]).one(&mut graph)?;
/// graph.set_outputs(graph.body, vec![y]);
/// assert_eq!(graph[y].ty.to_string(), "float[batch, 4]");
/// let model = onnxc::export::model(&graph)?;
/// # assert_eq!(model.graph.map(|graph| graph.node.len()), Some(2));
/// # Ok::<(), onnxc::diag::Diagnostics>(())
/// ```
#[derive(Clone)]
#[must_use = "a node is there when it is added"]
pub struct Spec {
    set: OperatorSet,
    op_type: String,
    name: String,
    inputs: Vec<Option<ValueId>>,
    attributes: BTreeMap<String, Attribute>,
    regions: Vec<RegionId>,
    outputs: Vec<Option<String>>,
}

impl Spec {
    /// Creates a node of the newest version of an operator of ONNX's main set.
    pub fn new(op_type: &str) -> Spec {
        Spec {
            set: OperatorSet::newest(Domain::Onnx),
            op_type: op_type.to_owned(),
            name: String::new(),
            inputs: Vec::new(),
            attributes: BTreeMap::new(),
            regions: Vec::new(),
            outputs: Vec::new(),
        }
    }

    /// Takes the operator from this set and version.
    pub fn of(mut self, set: OperatorSet) -> Spec {
        self.set = set;
        self
    }

    /// Names the node. Its first output gets the same name, unless [`Spec::outputs`] sets another.
    pub fn called(mut self, name: &str) -> Spec {
        self.name = name.to_owned();
        self
    }

    /// Adds inputs. `None` omits an optional one.
    pub fn inputs<I: Into<Option<ValueId>>>(mut self, ids: impl IntoIterator<Item = I>) -> Spec {
        self.inputs.extend(ids.into_iter().map(Into::into));
        self
    }

    /// Sets an attribute.
    pub fn attribute(mut self, name: &str, value: impl Into<Attribute>) -> Spec {
        self.attributes.insert(name.to_owned(), value.into());
        self
    }

    /// Sets an attribute that is a subgraph to a region of the graph.
    pub fn region(mut self, name: &str, region: RegionId) -> Spec {
        self.attributes.insert(name.to_owned(), Attribute::Graph(self.regions.len()));
        self.regions.push(region);
        self
    }

    /// Names the outputs. An empty name omits an optional one. Without a call there is one output.
    pub fn outputs(mut self, names: &[&str]) -> Spec {
        let name = |name: &&str| (!name.is_empty()).then(|| (*name).to_owned());
        self.outputs = names.iter().map(name).collect();
        self
    }

    /// Adds the node at the end of a region, and returns its outputs.
    ///
    /// # Errors
    ///
    /// Returns an error if the operator is unknown, or if its attributes or the number or types of
    /// its inputs do not fit it.
    pub fn add(mut self, graph: &mut Graph, region: RegionId) -> Result<Outputs> {
        if self.outputs.is_empty() {
            self.outputs.push(Some(self.name.clone()));
        }
        let place = format!("node {} ({})", quoted(&self.name), self.op_type);
        self.add_unlocated(graph, region).map_err(|diagnostic| {
            if diagnostic.at.is_empty() { diagnostic.within(place) } else { diagnostic }
        })
    }

    /// Adds the node at the end of the model, and returns its first output.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Spec::add`], and one if the first output is omitted.
    pub fn one(self, graph: &mut Graph) -> Result<ValueId> {
        let body = graph.body;
        self.one_in(graph, body)
    }

    /// Adds the node at the end of the model, and returns all its outputs.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Spec::add`].
    pub fn all(self, graph: &mut Graph) -> Result<Outputs> {
        let body = graph.body;
        self.add(graph, body)
    }

    /// Adds the node at the end of a region, and returns its first output.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Spec::add`], and one if the first output is omitted.
    pub fn one_in(self, graph: &mut Graph, region: RegionId) -> Result<ValueId> {
        let outputs = self.add(graph, region)?;
        outputs.first().copied().flatten().ok_or_else(|| {
            Diagnostic::new(Code::BadArity, "the first output of the node was left out")
        })
    }

    /// Adds the node that a rule writes. Unless [`Spec::outputs`] names them, its outputs have the
    /// names of those of the node that it replaces.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Spec::add`].
    pub fn add_at(mut self, site: &mut Site<'_>) -> Result<Outputs> {
        if self.outputs.is_empty() {
            self.outputs = site.names().to_vec();
        }
        self.add(site.graph, site.region)
    }

    /// Adds a node that a rule writes, and returns its first output.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Spec::add`], and one if the first output is omitted.
    pub fn one_at(self, site: &mut Site<'_>) -> Result<ValueId> {
        self.one_in(site.graph, site.region)
    }

    fn entry(&self) -> Result<&'static Entry> {
        let domain = Domain::from_name(&self.set.domain);
        let entry = domain.and_then(|d| ops::find(d, &self.op_type, self.set.version));
        entry.ok_or_else(|| {
            let message = format!("there is no operator {} in {}", quoted(&self.op_type), self.set);
            Diagnostic::new(Code::UnknownOperator, message)
        })
    }

    fn add_unlocated(mut self, graph: &mut Graph, region: RegionId) -> Result<Outputs> {
        let entry = self.entry()?;
        match entry.reading {
            Reading::Read(read) => {
                let (version, wanted) = (self.set.version, self.outputs.len());
                let attributes = self.attributes.clone();
                let mut reader =
                    Reader::new(graph, region, version, self.inputs.clone(), wanted, attributes);
                let op = read(&mut reader)?;
                let (inputs, graphs) = reader.finish()?;
                let region_of = |graph: usize| self.regions.get(graph).copied();
                let regions = graphs.into_iter().filter_map(region_of).collect();
                self.node(op, inputs, regions, graph, region)
            }
            Reading::Nodes(nodes) => {
                let (version, attributes) = (self.set.version, self.attributes.clone());
                let op = Rc::new(Composite { entry, version, attributes, nodes });
                let inputs = self.inputs.clone();
                self.node(op, inputs, Vec::new(), graph, region)
            }
            Reading::Naming(..) => {
                let message = format!(
                    "{} names values in its attributes, but values of a graph built in code have \
                     no names",
                    quoted(&self.op_type)
                );
                Err(Diagnostic::new(Code::Unsupported, message)
                    .help("write it to a model file, or in ONNX's textual syntax"))
            }
            Reading::Body(body) => self.inline_function(entry, body, graph, region),
            Reading::Function(write) => {
                let (version, wanted) = (self.set.version, self.outputs.len());
                let attributes = std::mem::take(&mut self.attributes);
                let inputs = self.inputs.clone();
                let mut reader = Reader::new(graph, region, version, inputs, wanted, attributes);
                let body = write(&mut reader)?;
                self.inputs = reader.finish()?.0;
                self.inline_function(entry, &body, graph, region)
            }
        }
    }

    fn node(
        &self,
        op: Rc<dyn Op>,
        inputs: Vec<Option<ValueId>>,
        regions: Vec<RegionId>,
        graph: &mut Graph,
        region: RegionId,
    ) -> Result<Outputs> {
        let outputs = &self.outputs;
        let new = NewNode { name: &self.name, op, inputs, outputs, regions };
        let (id, result) = graph.node(region, new);
        result.map(|()| graph[id].outputs.clone())
    }

    /// Inlines the function that defines the operator.
    fn inline_function(
        self,
        entry: &Entry,
        body: &str,
        graph: &mut Graph,
        region: RegionId,
    ) -> Result<Outputs> {
        let label = |name: &Option<String>| name.clone().unwrap_or_default();
        let node = NodeProto {
            name: Some(self.name.clone()),
            op_type: Some(self.op_type.clone()),
            input: vec![String::new(); self.inputs.len()],
            output: self.outputs.iter().map(label).collect(),
            ..NodeProto::default()
        };
        let proto = |(name, value): (&String, &Attribute)| {
            attribute::proto(name, value, &mut |_| GraphProto::default())
        };
        let attributes: Vec<AttributeProto> = self.attributes.iter().map(proto).collect();
        let (settings, checked) = (Settings::default(), Checked::default());
        let opsets = BTreeMap::new();
        let taken = std::mem::replace(graph, Graph::named(""));
        let mut builder = GraphBuilder::for_graph(taken, &settings, &checked);
        let mut scope = Scope::empty(region, &opsets);
        let function = builder.operator_body(entry, body);
        let result = function.and_then(|function| {
            check_arguments(&function, &node, &attributes)?;
            let given: Vec<Given<'_>> = attributes.iter().map(Given::from).collect();
            builder.call(&function, &node, self.inputs, &given, &mut scope)
        });
        *graph = builder.graph;
        result?;
        builder.found.finish().map_err(|all| {
            let mut errors = all.0.into_iter().filter(Diagnostic::is_error);
            errors.next().expect("`finish` fails only if there is an error")
        })?;
        Ok(node.output.iter().map(|name| scope.values.get(name)).collect())
    }
}

/// Checks the arguments of a function. In a file, the checker does so.
fn check_arguments(function: &FunctionProto, node: &NodeProto, given: &[AttributeProto]) -> Result {
    for (what, given, known) in [
        ("input", node.input.len(), function.input.len()),
        ("output", node.output.len(), function.output.len()),
    ] {
        if given > known {
            let given = counted(given, what);
            let message = format!("the node has {given}, but the function knows {known}");
            return Err(Diagnostic::new(Code::BadArity, message));
        }
    }
    let with_default = function.attribute_proto.iter().map(|attribute| attribute.name());
    let known: Vec<&str> =
        function.attribute.iter().map(String::as_str).chain(with_default).collect();
    match given.iter().find(|attribute| !known.contains(&attribute.name())) {
        None => Ok(()),
        Some(attribute) => {
            let name = quoted(attribute.name());
            let message = format!("{name} is not an attribute of this operator");
            Err(Diagnostic::new(Code::UnknownAttribute, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dtype::DType, tensor::Tensor, ty::Type};

    fn graph() -> (Graph, ValueId) {
        let mut graph = Graph::named("g");
        let x = graph.input(graph.body, "x", Type::tensor(DType::F32, [2, 3]));
        (graph, x)
    }

    #[test]
    fn old_versions_are_read_as_in_files() {
        let (mut graph, x) = graph();
        let set: OperatorSet = "ai.onnx:11".parse().expect("the text names an operator set");
        let axes = vec![1_i64];
        let y = Spec::new("ReduceSum").of(set).called("y").inputs([x]).attribute("axes", axes);
        let y = y.one(&mut graph).expect("version 11 has the axes in an attribute");
        assert_eq!(graph[y].ty.to_string(), "float[2, 1]");
        assert_eq!(graph.producer(y).map(|node| node.inputs.len()), Some(2));
    }

    #[test]
    fn operators_that_are_functions_become_their_bodies() {
        let (mut graph, x) = graph();
        let body = |entry: &&Entry| matches!(entry.reading, Reading::Body(_));
        let names: Vec<_> = ops::entries().filter(body).map(|entry| entry.name).collect();
        for name in names.into_iter().filter(|name| *name == "HannWindow" || *name == "Celu") {
            let added = Spec::new(name).called(name).inputs([x]).one(&mut graph);
            assert!(added.is_ok(), "{name}");
        }
    }

    #[test]
    fn subgraphs_are_regions() {
        let (mut graph, x) = graph();
        let cond = graph.input(graph.body, "c", Type::tensor::<i64>(DType::Bool, []));
        let mut branch = |op: &str| {
            let region = graph.region(op);
            let y = Spec::new(op).called(op).inputs([x]).one_in(&mut graph, region);
            graph.set_outputs(region, vec![y.expect("the input fits the operator")]);
            region
        };
        let (yes, no) = (branch("Abs"), branch("Neg"));
        let y = Spec::new("If").called("y").inputs([cond]);
        let y = y.region("else_branch", no).region("then_branch", yes).one(&mut graph);
        let node =
            graph.producer(y.expect("the input fits the operator")).expect("a node computes `y`");
        assert_eq!(graph[node.regions[0]].name, "Abs");
    }

    #[test]
    fn errors_are_located_at_the_node() {
        let (mut graph, x) = graph();
        let w = graph.constant("w", Tensor::from_ints(&[1]));
        for (spec, message) in [
            (Spec::new("Reul").inputs([x]), "there is no operator `Reul` in ai.onnx:28"),
            (Spec::new("Relu").inputs([x]).attribute("alpha", 1.0), "`alpha` is not an attribute"),
            (Spec::new("Add").inputs([x, w]), "inputs 0 and 1 must have one element type"),
        ] {
            let diagnostic = spec.called("y").one(&mut graph).expect_err(message);
            assert!(diagnostic.message.contains(message), "{}", diagnostic.message);
            assert!(diagnostic.at[0].starts_with("node `y`"), "{:?}", diagnostic.at);
        }
    }
}
