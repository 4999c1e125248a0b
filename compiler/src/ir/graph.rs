//! Values, nodes and regions.

use super::{Infer, Interface, Op, Stop, expr_limit, infer::Finds};
use crate::{
    arena::{Arena, Id, ids},
    diag::{Code, Diagnostic, Result, quoted},
    dim::{Dim, Known, Symbol},
    plan::{Check, Condition, Info},
    tensor::Tensor,
    ty::{TensorType, Type, any_size},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    ops::Index,
    rc::Rc,
};

ids! {
    /// Names a value of a graph.
    ValueId
    /// Names a node of a graph.
    NodeId
    /// Names a region of a graph.
    RegionId
}

/// What a model computes.
#[derive(Clone)]
pub struct Graph {
    values: Arena<ValueId, Value>,
    nodes: Arena<NodeId, Node>,
    regions: Arena<RegionId, Region>,
    /// The region that is the model itself.
    pub body: RegionId,
    /// The sizes known only when the model runs.
    pub symbols: BTreeMap<Symbol, Known>,
    /// What the model says about itself.
    pub info: Rc<Info>,
    /// How it is called.
    pub interface: Rc<Interface>,
}

/// What is computed once.
#[derive(Clone, Debug)]
pub struct Value {
    /// What the model calls it.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Its elements, where they are known. Nothing is then left to run for it.
    pub constant: Option<Tensor>,
    /// Its elements as sizes, for a tensor of whole numbers (or `bool`) of at most one axis.
    pub known: Option<Vec<Dim>>,
    /// Likewise, where only some of them are known.
    pub partly: Option<Vec<Option<Dim>>>,
    /// The node that makes it.
    pub producer: Option<NodeId>,
}

/// An operator at work.
#[derive(Clone)]
pub struct Node {
    /// What the model calls it, or its first output's name.
    pub name: String,
    /// The operator.
    pub op: Rc<dyn Op>,
    /// What it is given; `None` for an optional input left out.
    pub inputs: Vec<Option<ValueId>>,
    /// What it makes; `None` for an optional output left out.
    pub outputs: Vec<Option<ValueId>>,
    /// The subgraphs of control flow.
    pub regions: Vec<RegionId>,
    /// The sizes that are settled when it runs.
    pub binds: Vec<Symbol>,
    /// What the sizes must fulfil.
    pub checks: Vec<Check>,
    /// What is wrong with it. In a branch that is never taken this does no harm.
    pub fault: Option<Diagnostic>,
    /// What the model says about it.
    pub notes: Rc<Notes>,
}

/// What a model says about a node that means nothing to a compiler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The documentation.
    pub doc: String,
    /// Anything else, as key and value.
    pub metadata: Vec<(String, String)>,
}

/// A list of nodes with inputs and outputs.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// What the model calls it.
    pub name: String,
    /// What it is given.
    pub inputs: Vec<ValueId>,
    /// What it does, in order.
    pub nodes: Vec<NodeId>,
    /// What it gives.
    pub outputs: Vec<ValueId>,
}

/// A node about to be added.
pub struct NewNode<'a> {
    /// What the model calls it.
    pub name: &'a str,
    /// The operator.
    pub op: Rc<dyn Op>,
    /// What it is given.
    pub inputs: Vec<Option<ValueId>>,
    /// The names of what it makes; `None` for an optional output left out.
    pub outputs: &'a [Option<String>],
    /// The subgraphs of control flow.
    pub regions: Vec<RegionId>,
}

impl Graph {
    /// A graph without nodes.
    pub fn new(info: Rc<Info>) -> Graph {
        let mut regions = Arena::default();
        let body = regions.push(Region { name: info.name.clone(), ..Region::default() });
        Graph {
            values: Arena::default(),
            nodes: Arena::default(),
            regions,
            body,
            symbols: BTreeMap::new(),
            info,
            interface: Rc::default(),
        }
    }

    /// A graph without nodes for a model of that name, over the newest operators.
    pub fn named(name: &str) -> Graph {
        Graph::new(Rc::new(Info { name: name.to_owned(), ..Info::default() }))
    }

    /// Adds a value that no node makes.
    pub fn value(&mut self, name: &str, ty: Type) -> ValueId {
        let name = name.to_owned();
        let (constant, known, partly, producer) = (None, None, None, None);
        self.values.push(Value { name, ty, constant, known, partly, producer })
    }

    /// Adds a value that is given to `region`. Symbols that the model's inputs have in their types
    /// are sizes known only when the model runs.
    pub fn input(&mut self, region: RegionId, name: &str, ty: Type) -> ValueId {
        if region == self.body {
            self.free(&ty);
        }
        let id = self.value(name, ty);
        self.regions[region].inputs.push(id);
        id
    }

    /// Takes the symbols of a type for sizes that are known only when the model runs, and called as
    /// the symbols are, where nothing is known of them yet.
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

    /// Says what a region gives.
    pub fn set_outputs(&mut self, region: RegionId, outputs: Vec<ValueId>) {
        self.regions[region].outputs = outputs;
    }

    /// Calls a value differently.
    pub fn rename(&mut self, value: ValueId, name: &str) {
        self.values[value].name = name.to_owned();
    }

    /// Says something about a node.
    pub fn note(&mut self, node: NodeId, notes: Rc<Notes>) {
        self.nodes[node].notes = notes;
    }

    /// Adds a node at the end of `region`, with its outputs, whose types its operator infers.
    /// Where it finds something wrong, the node is added all the same, with outputs of unknown
    /// type, so that what comes after can be looked at too.
    pub fn node(&mut self, region: RegionId, new: NewNode<'_>) -> (NodeId, Result) {
        let mut cx = Infer::new(self, &new);
        let inferred = new.op.infer(&mut cx);
        let mut finds = cx.finish();
        let inferred = expr_limit::cut(inferred, &mut finds);
        let Finds { constants, known, partly, symbols, binds, mut checks } = finds;
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
                let constant = constants.iter().find(|(output, _)| *output == i);
                let constant = constant.map(|(_, tensor)| tensor.clone());
                let known = known.iter().find(|(output, _)| *output == i);
                let known = known.map(|(_, known)| known.clone());
                let known = known.or_else(|| known_elements(constant.as_ref()?));
                let partly = partly.iter().find(|(output, _)| *output == i);
                let partly = partly.map(|(_, partly)| partly.clone());
                let (name, producer) = (name.clone(), Some(id));
                self.values.push(Value { name, ty, constant, known, partly, producer })
            }));
        }
        let result = result
            .map_err(|diagnostic: Diagnostic| diagnostic.within(location(new.name, &*new.op)));
        let fault = result.as_ref().err().cloned();
        let NewNode { name, op, inputs, regions, .. } = new;
        let name = name.to_owned();
        let notes = Rc::default();
        self.nodes.push(Node { name, op, inputs, outputs, regions, binds, checks, fault, notes });
        self.regions[region].nodes.push(id);
        (id, result)
    }

    /// The types of what region `i` of a node about to be added is given.
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

    /// A graph without nodes, but with what is known of some values of this one: to try a node on.
    pub fn alone(&self, inputs: &[Option<ValueId>]) -> (Graph, Vec<Option<ValueId>>) {
        let mut alone = Graph { symbols: self.symbols.clone(), ..Graph::new(self.info.clone()) };
        let copy = |id: &Option<ValueId>| {
            let value = Value { producer: None, ..self[(*id)?].clone() };
            Some(alone.values.push(value))
        };
        let inputs = inputs.iter().map(copy).collect();
        (alone, inputs)
    }

    /// Adds a node with one output, and gives that; for passes, which only write nodes that fit.
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

    /// The node that makes a value.
    pub fn producer(&self, value: ValueId) -> Option<&Node> {
        self[value].producer.map(|id| &self[id])
    }

    /// All values, in order.
    pub fn values(&self) -> impl Iterator<Item = (ValueId, &Value)> {
        self.values.iter()
    }

    /// All nodes of all regions, in order.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter()
    }

    /// All regions, in order.
    pub fn regions(&self) -> impl Iterator<Item = (RegionId, &Region)> {
        self.regions.iter()
    }

    /// The region, where the id is one of this graph.
    pub fn get_region(&self, id: RegionId) -> Option<&Region> {
        self.regions.get(id)
    }

    /// Whether a node of `region` itself is sure to be refused when it runs.
    pub fn is_faulty(&self, region: RegionId) -> bool {
        self[region].nodes.iter().any(|&id| self[id].fault.is_some())
    }

    /// Whether a node of `region` itself settles a symbol of `dim`.
    pub fn settles(&self, region: RegionId, dim: &Dim) -> bool {
        let mut symbols = BTreeSet::new();
        dim.symbols(&mut symbols);
        let settles = |&id: &NodeId| self[id].binds.iter().any(|symbol| symbols.contains(symbol));
        self[region].nodes.iter().any(settles)
    }

    /// What `region` uses of the regions around it: the nodes' inputs and the outputs that
    /// nothing inside it makes, constants left out.
    pub fn captures(&self, region: RegionId) -> Vec<ValueId> {
        let (mut inside, mut used) = (HashSet::new(), Vec::new());
        self.mentions(region, &mut inside, &mut used);
        // Each stands once, where it is used first.
        used.retain(|&id| self[id].constant.is_none() && inside.insert(id));
        used
    }

    /// The nodes that make `output` of the values in `cuts`, in order, and what else they make it
    /// of: what no node makes, and what is drawn at random.
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

    /// What a node uses: its inputs, and what its regions take from around them.
    pub fn used_by(&self, node: NodeId) -> Vec<ValueId> {
        let node = &self[node];
        let captures = node.regions.iter().flat_map(|&region| self.captures(region));
        node.inputs.iter().flatten().copied().chain(captures).collect()
    }

    /// Adds the symbols of the sizes that a node works with to `found`.
    pub fn symbols_of(&self, node: NodeId, found: &mut BTreeSet<Symbol>) {
        let node = &self[node];
        for &id in node.inputs.iter().chain(&node.outputs).flatten() {
            self[id].symbols(found);
        }
        for check in &node.checks {
            let (Condition::Equal(a, b) | Condition::Broadcast(a, b) | Condition::AtLeast(a, b)) =
                &check.condition;
            [a, b].into_iter().for_each(|dim| dim.symbols(found));
        }
        for &region in &node.regions {
            let region = &self[region];
            region.outputs.iter().for_each(|&id| self[id].symbols(found));
            region.nodes.iter().for_each(|&id| self.symbols_of(id, found));
        }
    }

    /// Adds the symbols that the nodes of a region settle to `found`.
    pub fn settled_in(&self, region: RegionId, found: &mut BTreeSet<Symbol>) {
        for &id in &self[region].nodes {
            found.extend(self.settled_by(id));
            self[id].regions.iter().for_each(|&inner| self.settled_in(inner, found));
        }
    }

    /// The symbols that a node settles itself.
    pub fn settled_by(&self, node: NodeId) -> BTreeSet<Symbol> {
        let node = &self[node];
        let (mut inside, mut outside) = (BTreeSet::new(), BTreeSet::new());
        for &inner in &node.regions {
            self[inner].inputs.iter().for_each(|&id| self[id].symbols(&mut inside));
        }
        if !inside.is_empty() {
            node.inputs.iter().flatten().for_each(|&id| self[id].symbols(&mut outside));
        }
        // What a loop hands from iteration to iteration may change its size.
        inside.retain(|symbol| !outside.contains(symbol));
        inside.extend(node.binds.iter().cloned());
        inside
    }

    fn mentions(&self, region: RegionId, inside: &mut HashSet<ValueId>, used: &mut Vec<ValueId>) {
        let region = &self[region];
        inside.extend(&region.inputs);
        for &node in &region.nodes {
            let node = &self[node];
            used.extend(node.inputs.iter().flatten());
            inside.extend(node.outputs.iter().flatten());
            for &inner in &node.regions {
                self.mentions(inner, inside, used);
            }
        }
        used.extend(&region.outputs);
    }

    /// The type of a value that must be a tensor with a fixed number of axes.
    ///
    /// # Errors
    ///
    /// The value has another type, or its number of axes is not known.
    pub(super) fn tensor_type(&self, id: ValueId) -> Result<&TensorType> {
        let value = &self[id];
        value.ty.as_tensor().ok_or_else(|| {
            let (name, ty) = (quoted(&value.name), &value.ty);
            if let Type::Sparse(_) = ty {
                let message = format!("{name} is {ty}, but only constants may be sparse");
                return Diagnostic::new(Code::Unsupported, message);
            }
            if matches!(ty, Type::Unknown | Type::Unranked(_)) {
                let message = format!("how many axes {name} has is known only when the model runs");
                return Diagnostic::new(Code::UnknownShape, message).help(
                    "where a size decides it, as which axes are squeezed, give that as a number: \
                     `--dim NAME=N`; where a condition does, both branches must give as many",
                );
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

/// Where a node is, for people.
pub(super) fn location(name: &str, op: &dyn Op) -> String {
    format!("node {} ({})", quoted(name), op.label())
}

/// The elements of a small tensor of whole numbers, as sizes.
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
    /// Adds the symbols of the sizes that are known of it to `found`.
    pub fn symbols(&self, found: &mut BTreeSet<Symbol>) {
        self.ty.symbols(found);
        self.known.iter().flatten().for_each(|dim| dim.symbols(found));
    }

    /// The elements, where they are known numbers.
    pub fn ints(&self) -> Option<Vec<i64>> {
        if let Some(ints) = self.constant.as_ref().and_then(Tensor::ints) {
            return Some(ints);
        }
        self.known.as_ref()?.iter().map(Dim::known).collect()
    }
}

impl Node {
    /// The inputs, where there are `N` and none is left out.
    pub fn inputs<const N: usize>(&self) -> Option<[ValueId; N]> {
        let inputs: Option<Vec<ValueId>> = self.inputs.iter().copied().collect();
        inputs?.try_into().ok()
    }

    /// Input `i`, where it is given.
    pub fn input(&self, i: usize) -> Option<ValueId> {
        self.inputs.get(i).copied().flatten()
    }

    /// Output `i`, where it is wanted.
    pub fn output(&self, i: usize) -> Option<ValueId> {
        self.outputs.get(i).copied().flatten()
    }

    /// Where the node is, for people.
    pub fn location(&self) -> String {
        location(&self.name, &*self.op)
    }
}

/// For tests and messages: ids print as numbers.
impl std::fmt::Display for ValueId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.index())
    }
}
