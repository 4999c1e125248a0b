//! Values, nodes and regions.

use super::{Infer, Interface, Op, Stop, expr_limit, infer};
use crate::{
    arena::{Arena, Id, ids},
    diag::{Code, Diagnostic, Result, quoted},
    dim::{Dim, Known, Symbol},
    limits::Budget,
    plan::{Check, Info},
    tensor::Tensor,
    ty::{TensorType, Type, any_size},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    ops::Index,
    rc::Rc,
};

ids! {
    /// The id of a value of a graph.
    ValueId
    /// The id of a node of a graph.
    NodeId
    /// The id of a region of a graph.
    RegionId
}

/// A model as a graph.
///
/// ```
/// use onnxc::{Spec, dtype::DType, ir::Graph, ty::Type};
///
/// let mut graph = Graph::named("double");
/// let x = graph.input(graph.body, "x", Type::tensor(DType::F32, [2, 3]));
/// let y = Spec::new("Add").called("y").inputs([x, x]).one(&mut graph)?;
/// graph.set_outputs(graph.body, vec![y]);
/// assert_eq!(graph[y].ty.to_string(), "float[2, 3]");
/// assert_eq!(graph[graph.body].nodes.len(), 1);
/// # Ok::<(), onnxc::diag::Diagnostic>(())
/// ```
#[derive(Clone)]
pub struct Graph {
    values: Arena<ValueId, Value>,
    nodes: Arena<NodeId, Node>,
    regions: Arena<RegionId, Region>,
    /// The body of the model.
    pub body: RegionId,
    /// The sizes that are known only at run time.
    pub symbols: BTreeMap<Symbol, Known>,
    /// The metadata of the model.
    pub info: Rc<Info>,
    /// The interface of the model.
    pub interface: Rc<Interface>,
    /// The limits of the compilation, and what the import and the passes have taken of them.
    pub budget: Rc<Budget>,
}

/// A value, which is computed once.
#[derive(Clone, Debug)]
pub struct Value {
    /// The name in the model.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// The elements of a constant, which needs no run-time computation.
    pub constant: Option<Tensor>,
    /// The elements as size expressions, for a tensor of integers (or `bool`) of rank 0 or 1.
    pub known: Option<Vec<Dim>>,
    /// The elements as size expressions, where only some of them are known.
    pub partly: Option<Vec<Option<Dim>>>,
    /// The node that computes the value.
    pub producer: Option<NodeId>,
}

/// A node: one use of an operator.
#[derive(Clone)]
pub struct Node {
    /// The name in the model, or the name of the first output.
    pub name: String,
    /// The operator.
    pub op: Rc<dyn Op>,
    /// The inputs; `None` for an omitted optional input.
    pub inputs: Vec<Option<ValueId>>,
    /// The outputs; `None` for an omitted optional output.
    pub outputs: Vec<Option<ValueId>>,
    /// The subgraphs of control flow.
    pub regions: Vec<RegionId>,
    /// The symbols that the node defines.
    pub binds: Vec<Symbol>,
    /// The conditions on sizes that the node requires.
    pub checks: Vec<Check>,
    /// The node's error, which does no harm in a branch that is never taken.
    pub fault: Option<Box<Diagnostic>>,
    /// The documentation and metadata, if there are any.
    pub notes: Option<Rc<Notes>>,
}

/// The documentation and metadata of a node, which do not affect compilation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The documentation.
    pub doc: String,
    /// Metadata, as key and value.
    pub metadata: Vec<(String, String)>,
}

/// A list of nodes with inputs and outputs.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// The name in the model.
    pub name: String,
    /// The inputs.
    pub inputs: Vec<ValueId>,
    /// The nodes, in topological order.
    pub nodes: Vec<NodeId>,
    /// The outputs.
    pub outputs: Vec<ValueId>,
}

/// A node to add.
pub struct NewNode<'a> {
    /// The name.
    pub name: &'a str,
    /// The operator.
    pub op: Rc<dyn Op>,
    /// The inputs; `None` for an omitted optional input.
    pub inputs: Vec<Option<ValueId>>,
    /// The names of the outputs; `None` for an omitted optional output.
    pub outputs: &'a [Option<String>],
    /// The subgraphs of control flow.
    pub regions: Vec<RegionId>,
}

impl Graph {
    /// Creates a graph without nodes.
    pub fn new(info: Rc<Info>) -> Graph {
        let mut regions = Arena::default();
        let body = regions.push(Region { name: info.name.clone(), ..Region::default() });
        Graph {
            values: Arena::default(),
            // Passes try each node in a graph of its own. For the four nodes that an empty vector
            // grows to, glibc merges all freed memory first.
            nodes: Arena::with_capacity(1),
            regions,
            body,
            symbols: BTreeMap::new(),
            info,
            interface: Rc::default(),
            budget: Rc::default(),
        }
    }

    /// Creates a graph without nodes for a model called `name`, over the newest operator sets.
    pub fn named(name: &str) -> Graph {
        Graph::new(Rc::new(Info { name: name.to_owned(), ..Info::default() }))
    }

    /// Adds a value that no node computes.
    pub fn value(&mut self, name: &str, ty: Type) -> ValueId {
        let name = name.to_owned();
        let (constant, known, partly, producer) = (None, None, None, None);
        self.values.push(Value { name, ty, constant, known, partly, producer })
    }

    /// Adds an input of `region`. Symbols in the types of the model's inputs become sizes that are
    /// known only at run time.
    pub fn input(&mut self, region: RegionId, name: &str, ty: Type) -> ValueId {
        if region == self.body {
            self.free(&ty);
        }
        let id = self.value(name, ty);
        self.regions[region].inputs.push(id);
        id
    }

    /// Declares the symbols of a type as sizes that are known only at run time, unless they are
    /// declared already.
    fn free(&mut self, ty: &Type) {
        let mut symbols = BTreeSet::new();
        ty.symbols(&mut symbols);
        for symbol in symbols.into_iter().filter(|symbol| Dim::symbol(symbol) != any_size()) {
            let label = symbol.to_string();
            self.symbols.entry(symbol).or_insert(Known { label, max: None });
        }
    }

    /// Adds a constant.
    pub fn constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        let known = known_elements(&tensor);
        let id = self.value(name, tensor.ty());
        self.values[id].known = known;
        self.values[id].constant = Some(tensor);
        id
    }

    /// Adds a region without nodes.
    pub fn region(&mut self, name: &str) -> RegionId {
        self.regions.push(Region { name: name.to_owned(), ..Region::default() })
    }

    /// Sets the outputs of a region.
    pub fn set_outputs(&mut self, region: RegionId, outputs: Vec<ValueId>) {
        self.regions[region].outputs = outputs;
    }

    /// Removes the nodes of a region from the `count`th on.
    pub(super) fn keep_nodes(&mut self, region: RegionId, count: usize) {
        self.regions[region].nodes.truncate(count);
    }

    /// Renames a value.
    pub fn rename(&mut self, value: ValueId, name: &str) {
        self.values[value].name = name.to_owned();
    }

    /// Sets the documentation and metadata of a node.
    pub fn note(&mut self, node: NodeId, notes: Option<Rc<Notes>>) {
        self.nodes[node].notes = notes;
    }

    /// Adds a node at the end of `region` with its outputs, whose types the operator infers. A node
    /// with an error is added with outputs of unknown type, so that later nodes are checked, too.
    pub fn node(&mut self, region: RegionId, new: NewNode<'_>) -> (NodeId, Result) {
        let mut cx = Infer::new(self, &new);
        let inferred = new.op.infer(&mut cx);
        let mut finds = cx.finish();
        let inferred = expr_limit::cut(inferred, &mut finds);
        let infer::Finds { constants, known, partly, symbols, binds, mut checks } = finds;
        let (types, result) = match inferred {
            Ok(types) => (types, Ok(())),
            Err(Stop::Unknown) => (Vec::new(), Ok(())),
            Err(Stop::Found(diagnostic)) => (Vec::new(), Err(diagnostic)),
        };
        for check in &mut checks {
            check.node = new.name.to_owned();
        }
        self.symbols.extend(symbols);
        let id = NodeId::new(self.nodes.len());
        let mut types = types.into_iter();
        let mut outputs = Vec::new();
        for (i, name) in new.outputs.iter().enumerate() {
            let ty = types.next().unwrap_or(Type::Unknown);
            outputs.push(name.as_ref().map(|name| {
                let (constant, partly) =
                    (infer::of_output(&constants, i), infer::of_output(&partly, i));
                let known =
                    infer::of_output(&known, i).or_else(|| known_elements(constant.as_ref()?));
                let (name, producer) = (name.clone(), Some(id));
                self.values.push(Value { name, ty, constant, known, partly, producer })
            }));
        }
        let result = result
            .map_err(|diagnostic: Diagnostic| diagnostic.within(location(new.name, &*new.op)));
        let fault = result.as_ref().err().cloned().map(Box::new);
        let NewNode { name, op, inputs, regions, .. } = new;
        let name = name.to_owned();
        let notes = None;
        self.nodes.push(Node { name, op, inputs, outputs, regions, binds, checks, fault, notes });
        self.regions[region].nodes.push(id);
        (id, result)
    }

    /// Returns the input types of region `i` of a node to add.
    ///
    /// # Errors
    ///
    /// Returns an error if the inputs of the node do not fit the region.
    pub fn region_inputs(&mut self, new: &NewNode<'_>, i: usize) -> Result<Vec<Type>> {
        let mut cx = Infer::new(self, new);
        let types = match new.op.region_inputs(i, &mut cx) {
            Ok(types) => Ok(types),
            Err(Stop::Unknown) => Ok(Vec::new()),
            Err(Stop::Found(diagnostic)) => Err(diagnostic),
        };
        self.symbols.extend(cx.finish().symbols);
        types
    }

    /// Returns an empty graph with copies of some values, in which a node can be tried.
    pub fn alone(&self, inputs: &[Option<ValueId>]) -> (Graph, Vec<Option<ValueId>>) {
        let (symbols, budget) = (self.symbols.clone(), self.budget.clone());
        let mut alone = Graph { symbols, budget, ..Graph::new(self.info.clone()) };
        let copy = |id: &Option<ValueId>| {
            let value = Value { producer: None, ..self[(*id)?].clone() };
            Some(alone.values.push(value))
        };
        let inputs = inputs.iter().map(copy).collect();
        (alone, inputs)
    }

    /// Adds a node with one output and returns the output; for passes, whose nodes are valid.
    ///
    /// # Errors
    ///
    /// Returns an error if the inputs do not fit the operator, or if the node has no output.
    pub fn add(
        &mut self,
        region: RegionId,
        name: &str,
        op: impl Op,
        inputs: &[ValueId],
    ) -> Result<ValueId> {
        let new = NewNode {
            name,
            op: Rc::new(op),
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: &[Some(name.to_owned())],
            regions: Vec::new(),
        };
        let (id, result) = self.node(region, new);
        result?;
        Ok(self[id].outputs[0].expect("the output was named"))
    }

    /// Returns the node that computes a value.
    pub fn producer(&self, value: ValueId) -> Option<&Node> {
        self[value].producer.map(|id| &self[id])
    }

    /// Returns the numbers of values and of nodes.
    pub(super) fn extent(&self) -> [usize; 2] {
        [self.values.len(), self.nodes.len()]
    }

    /// Reserves memory for more values and nodes.
    pub(super) fn reserve(&mut self, [values, nodes]: [usize; 2]) {
        self.values.reserve(values);
        self.nodes.reserve(nodes);
    }

    /// Returns all values, in order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = (ValueId, &Value)> {
        self.values.iter()
    }

    /// Returns all nodes of all regions, in order.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter()
    }

    /// Returns all regions, in order.
    pub fn regions(&self) -> impl Iterator<Item = (RegionId, &Region)> {
        self.regions.iter()
    }

    /// Returns a region, if the id belongs to this graph.
    pub fn get_region(&self, id: RegionId) -> Option<&Region> {
        self.regions.get(id)
    }

    /// Returns whether a node of `region` itself always ends with an error.
    pub fn is_faulty(&self, region: RegionId) -> bool {
        self[region].nodes.iter().any(|&id| self[id].fault.is_some())
    }

    /// Returns whether a node of `region` itself defines a symbol of `dim`.
    pub fn settles(&self, region: RegionId, dim: &Dim) -> bool {
        let mut symbols = BTreeSet::new();
        dim.symbols(&mut symbols);
        let settles = |&id: &NodeId| self[id].binds.iter().any(|symbol| symbols.contains(symbol));
        self[region].nodes.iter().any(settles)
    }

    /// Returns the nodes that compute `output` from the values in `cuts`, in order, and the other
    /// values that they need: those that no node computes, and random ones.
    pub fn makers(
        &self,
        cuts: &HashSet<ValueId>,
        output: ValueId,
    ) -> (BTreeSet<NodeId>, Vec<ValueId>) {
        let (mut nodes, mut others, mut seen) = (BTreeSet::new(), Vec::new(), cuts.clone());
        let mut open = vec![output];
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            match self[id].producer {
                Some(made) if !self[made].op.is_random() => {
                    if nodes.insert(made) {
                        open.extend(self.used_by(made));
                    }
                }
                _ if self[id].constant.is_some() => {}
                _ => others.push(id),
            }
        }
        (nodes, others)
    }

    /// Returns the inputs of a node and the captures of its regions.
    pub fn used_by(&self, node: NodeId) -> Vec<ValueId> {
        let node = &self[node];
        let captures = node.regions.iter().flat_map(|&region| self.captures(region));
        node.inputs.iter().flatten().copied().chain(captures).collect()
    }

    /// Adds the symbols in the sizes that a node uses to `found`.
    pub fn symbols_of(&self, node: NodeId, found: &mut BTreeSet<Symbol>) {
        let node = &self[node];
        for &id in node.inputs.iter().chain(&node.outputs).flatten() {
            self[id].symbols(found);
        }
        for check in &node.checks {
            check.condition.sizes().into_iter().for_each(|dim| dim.symbols(found));
        }
        for &region in &node.regions {
            let region = &self[region];
            region.outputs.iter().for_each(|&id| self[id].symbols(found));
            region.nodes.iter().for_each(|&id| self.symbols_of(id, found));
        }
    }

    /// Adds the symbols that the nodes of a region define to `found`.
    pub fn settled_in(&self, region: RegionId, found: &mut BTreeSet<Symbol>) {
        for &id in &self[region].nodes {
            found.extend(self.settled_by(id));
            self[id].regions.iter().for_each(|&inner| self.settled_in(inner, found));
        }
    }

    /// Returns the symbols that a node itself defines.
    pub fn settled_by(&self, node: NodeId) -> BTreeSet<Symbol> {
        let node = &self[node];
        let (mut inside, mut outside) = (BTreeSet::new(), BTreeSet::new());
        for &inner in &node.regions {
            self[inner].inputs.iter().for_each(|&id| self[id].symbols(&mut inside));
        }
        if !inside.is_empty() {
            node.inputs.iter().flatten().for_each(|&id| self[id].symbols(&mut outside));
        }
        // The size of a loop-carried value may change.
        inside.retain(|symbol| !outside.contains(symbol));
        inside.extend(node.binds.iter().cloned());
        inside
    }

    /// The type of a value that must be a tensor with a fixed number of axes.
    ///
    /// # Errors
    ///
    /// Returns an error if the value has another type, or if its rank is unknown.
    pub(super) fn tensor_type(&self, id: ValueId) -> Result<&TensorType> {
        let value = &self[id];
        value.ty.as_tensor().ok_or_else(|| {
            let (name, ty) = (quoted(&value.name), &value.ty);
            if let Type::Sparse(_) = ty {
                let message = format!("{name} is {ty}, but only constants may be sparse");
                return Diagnostic::new(Code::Unsupported, message);
            }
            if matches!(ty, Type::Unknown | Type::Unranked(_)) {
                return self.unknown_rank(id);
            }
            let message = format!("the value {name} is {ty}, which needs a fixed number of axes");
            Diagnostic::new(Code::UnknownShape, message)
        })
    }

    /// The location of a region's nodes in a diagnostic.
    pub(super) fn place(&self, region: RegionId) -> String {
        format!("graph {}", quoted(&self[region].name))
    }
}

/// Returns the location of a node, for messages.
pub(super) fn location(name: &str, op: &dyn Op) -> String {
    format!("node {} ({})", quoted(name), op.label())
}

/// Returns the elements of a small integer tensor as size expressions.
fn known_elements(tensor: &Tensor) -> Option<Vec<Dim>> {
    const MOST: usize = 1024;
    let fits = tensor.shape.len() <= 1 && tensor.len() <= MOST;
    let ints = fits.then(|| tensor.ints()).flatten()?;
    Some(ints.into_iter().map(Dim::from).collect())
}

macro_rules! indexed {
    ($Id:ident $field:ident $T:ident) => {
        impl Index<$Id> for Graph {
            type Output = $T;

            fn index(&self, id: $Id) -> &$T {
                &self.$field[id]
            }
        }
    };
}

indexed!(ValueId values Value);
indexed!(NodeId nodes Node);
indexed!(RegionId regions Region);

impl Value {
    /// Adds the symbols of the value's sizes and elements to `found`.
    pub fn symbols(&self, found: &mut BTreeSet<Symbol>) {
        self.ty.symbols(found);
        self.known.iter().flatten().for_each(|dim| dim.symbols(found));
    }

    /// Returns the elements, if they are known integers.
    pub fn ints(&self) -> Option<Vec<i64>> {
        if let Some(ints) = self.constant.as_ref().and_then(Tensor::ints) {
            return Some(ints);
        }
        self.known.as_ref()?.iter().map(Dim::known).collect()
    }
}

impl Node {
    /// Returns the inputs, if there are `N` and all are present.
    pub fn inputs<const N: usize>(&self) -> Option<[ValueId; N]> {
        let inputs: Option<Vec<ValueId>> = self.inputs.iter().copied().collect();
        inputs?.try_into().ok()
    }

    /// Returns input `i`, if it is present.
    pub fn input(&self, i: usize) -> Option<ValueId> {
        self.inputs.get(i).copied().flatten()
    }

    /// Returns output `i`, if it is used.
    pub fn output(&self, i: usize) -> Option<ValueId> {
        self.outputs.get(i).copied().flatten()
    }

    /// Returns the location of the node, for messages.
    pub fn location(&self) -> String {
        location(&self.name, &*self.op)
    }
}

/// Formats the id as a number, for tests and messages.
impl std::fmt::Display for ValueId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.index())
    }
}
