//! The driver of all local passes. It reads a graph and writes the next one, so no pass edits in
//! place: dead nodes are not copied, and no analysis becomes stale.

use super::{
    Builds, Fitting, Graph, NewNode, Node, NodeId, Outputs, RegionId, Site, UseCounts, ValueId,
    changes::{Changes, Unchanged},
    cse, fit,
    rewrite_context::{self, SiteUses},
    symbol_renaming::Renames,
};
use crate::{
    arena::UndoMap,
    diag::{DiagnosticSink, Diagnostics},
    dim::Symbol,
    ty::Type,
};
use std::collections::{BTreeSet, HashSet};

/// A local rewrite: returns what replaces the outputs of a node, whose inputs are values of the new
/// graph.
pub type Rule<'r> = &'r dyn Fn(&mut Site<'_>, &Node) -> Option<Outputs>;

/// Inspects a node before it is copied. The arguments after the node are the remaining work, the
/// region that the node is copied to, and the outputs of the region in the old graph.
pub type Hook<'h> = &'h dyn Fn(&mut Rewrite<'_>, NodeId, &[Todo], RegionId, &[ValueId]) -> Next;

/// Remaining work in a region.
#[derive(Clone, Copy)]
pub enum Todo {
    /// Copies a node.
    Node(NodeId),
    /// Replaces the outputs of a node by those of its region, whose nodes were copied in its place.
    Results(NodeId, RegionId),
}

/// The decision of a [`Hook`].
pub enum Next {
    /// The node is copied.
    Copy,
    /// The hook has written a replacement of the node.
    Done,
    /// The hook has written the rest of the region, with these outputs.
    Finished(Vec<ValueId>),
}

/// The copy of a graph under construction.
pub struct Rewrite<'a> {
    /// The graph that is read.
    pub old: &'a Graph,
    /// The graph that is written.
    pub new: Graph,
    /// Maps each value of the old graph to the new one.
    pub to: UndoMap<ValueId, ValueId>,
    renames: Renames,
    uses: UseCounts,
    rules: &'a [Rule<'a>],
    hook: Hook<'a>,
    changes: &'a dyn Changes,
    /// The errors.
    pub diagnostics: DiagnosticSink,
    /// The nodes so far of each open region.
    seen: cse::Seen,
    fitting: Fitting<RegionId>,
    /// Whether a rule or the hook has added anything.
    is_changed: bool,
}

/// The result of a rewrite.
pub struct Rewritten {
    /// The graph that was written.
    pub graph: Graph,
    /// Whether a rule or the hook has written any of it. If not, it is a copy of the live nodes,
    /// and another copy would be the same.
    pub is_changed: bool,
}

/// Copies the nodes that the outputs need, applying the hook and then each rule in turn.
///
/// # Errors
///
/// Returns an error for invalid nodes of the new graph.
pub fn rewrite(old: &Graph, hook: Hook<'_>, rules: &[Rule<'_>]) -> Result<Graph, Diagnostics> {
    Ok(rewritten(old, hook, rules)?.graph)
}

/// Returns the result of [`rewrite`], and whether it has changed the graph.
///
/// # Errors
///
/// Returns an error for invalid nodes of the new graph.
pub fn rewritten(
    old: &Graph,
    hook: Hook<'_>,
    rules: &[Rule<'_>],
) -> Result<Rewritten, Diagnostics> {
    let mut cx = Rewrite::new(old, hook, rules);
    cx.new.reserve(old.extent());
    cx.body();
    let is_changed = cx.is_changed;
    Ok(Rewritten { graph: cx.finish()?, is_changed })
}

/// Copies what the outputs need, with something else in place of each node for which `rule` has it:
///
/// ```
/// use onnxc::{Spec, diag::Diagnostics, ir::{Graph, replace}};
///
/// /// A pass that takes every `HardSwish` for a `Relu`.
/// fn simpler(graph: &Graph) -> Result<Graph, Diagnostics> {
///     replace(graph, &|site, node| {
///         let relu = || Spec::new("Relu").called(&node.name).inputs(node.inputs.clone());
///         (node.op.name() == "HardSwish").then(|| relu().add_at(site).ok()).flatten()
///     })
/// }
/// # let model = br#"<ir_version: 10, opset_import: ["" : 21]>
/// #     g (float[2] x) => (float[2] y) { y = HardSwish (x) }"#;
/// # let model = onnxc::Compiler::new(&Default::default()).import(model.as_slice().into())?;
/// # let first = simpler(&model.graph)?.nodes().next().map(|(_, node)| node.op.name());
/// # assert_eq!(first, Some("Relu"));
/// # Ok::<(), Diagnostics>(())
/// ```
///
/// # Errors
///
/// Returns an error for invalid nodes of the new graph.
pub fn replace(
    old: &Graph,
    rule: &dyn Fn(&mut Site<'_>, &Node) -> Option<Outputs>,
) -> Result<Graph, Diagnostics> {
    copy_with(old, &Replacement(rule))
}

/// A rule as the only change of a copy.
struct Replacement<'r>(&'r dyn Fn(&mut Site<'_>, &Node) -> Option<Outputs>);

impl Changes for Replacement<'_> {
    fn replace(&self, site: &mut Site<'_>, _: NodeId, node: &Node) -> Option<Outputs> {
        self.0(site, node)
    }
}

/// The hook that copies every node.
pub fn copy_node(_: &mut Rewrite<'_>, _: NodeId, _: &[Todo], _: RegionId, _: &[ValueId]) -> Next {
    Next::Copy
}

/// Copies a graph with changes.
pub(super) fn copy_with(old: &Graph, changes: &dyn Changes) -> Result<Graph, Diagnostics> {
    let mut cx = Rewrite { changes, ..Rewrite::new(old, &copy_node, &[]) };
    cx.body();
    cx.finish()
}

impl Builds for Rewrite<'_> {
    type Key = RegionId;

    fn graph(&mut self) -> &mut Graph {
        &mut self.new
    }

    fn fitting(&mut self) -> &mut Fitting<RegionId> {
        &mut self.fitting
    }
}

impl<'a> Rewrite<'a> {
    /// Copies the nodes that the outputs of `function` need to the end of `into`, with `arguments`
    /// as its inputs, and returns those outputs.
    pub fn call(
        &mut self,
        function: &Graph,
        arguments: &[ValueId],
        into: RegionId,
    ) -> Vec<ValueId> {
        let new = std::mem::replace(&mut self.new, Graph::new(self.old.info.clone()));
        let mut cx = Rewrite::new(function, self.hook, &[]);
        (cx.new, cx.diagnostics) = (new, self.diagnostics.clone());
        cx.renames = self.renames.clone();
        for (&input, &argument) in function[function.body].inputs.iter().zip(arguments) {
            cx.to.insert(input, argument);
            let mut given = BTreeSet::new();
            function[input].ty.symbols(&mut given);
            cx.renames.types(&given, &function[input].ty, &cx.new[argument].ty);
        }
        let outputs = cx.inline(function.body, into);
        self.new = cx.new;
        outputs
    }

    /// Creates an empty copy of `old`.
    pub(super) fn new(old: &'a Graph, hook: Hook<'a>, rules: &'a [Rule<'a>]) -> Rewrite<'a> {
        Rewrite::with(old, UseCounts::of(old), hook, rules)
    }

    pub(super) fn with(
        old: &'a Graph,
        uses: UseCounts,
        hook: Hook<'a>,
        rules: &'a [Rule<'a>],
    ) -> Rewrite<'a> {
        let mut new = Graph::new(old.info.clone());
        (new.interface, new.budget) = (old.interface.clone(), old.budget.clone());
        Rewrite {
            old,
            new,
            to: UndoMap::default(),
            renames: Renames::default(),
            uses,
            rules,
            hook,
            changes: &Unchanged,
            diagnostics: DiagnosticSink::default(),
            seen: cse::Seen::default(),
            fitting: Fitting::default(),
            is_changed: false,
        }
    }

    pub(super) fn finish(self) -> Result<Graph, Diagnostics> {
        let place = self.old.place(self.old.body);
        self.diagnostics.finish().map_err(|diagnostics| diagnostics.within(&place))?;
        Ok(self.new)
    }

    /// Copies the body of the model.
    fn body(&mut self) {
        for &id in &self.old[self.old.body].inputs {
            self.symbols_of(id);
            let new = self.new.input(self.new.body, &self.name(id), self.old[id].ty.clone());
            self.to.insert(id, new);
            self.wrap(id, self.new.body);
        }
        self.region(self.old.body, self.new.body);
    }

    /// Copies the nodes that `from` needs to `into`, whose inputs are mapped already.
    pub fn region(&mut self, from: RegionId, into: RegionId) {
        let outputs = self.inline(from, into);
        self.new.set_outputs(into, outputs);
    }

    /// Copies the nodes that the outputs of `from` need to the end of `into`, and returns those
    /// outputs.
    pub fn inline(&mut self, from: RegionId, into: RegionId) -> Vec<ValueId> {
        self.rest(&self.todo(from), into, self.outputs(from))
    }

    /// Returns the outputs of a region.
    fn outputs(&self, region: RegionId) -> &'a [ValueId] {
        self.changes.outputs(region).unwrap_or(&self.old[region].outputs)
    }

    /// Returns the nodes of a region, in the order of the copy.
    fn nodes(&self, region: RegionId) -> &'a [NodeId] {
        self.changes.nodes(region).unwrap_or(&self.old[region].nodes)
    }

    /// Returns the value of the old graph that replaces `id`.
    fn source(&self, id: ValueId) -> ValueId {
        self.changes.source(id)
    }

    /// Returns the name of a value in the new graph.
    fn name(&self, id: ValueId) -> String {
        self.changes.name(id).unwrap_or(&self.old[id].name).to_owned()
    }

    /// Adds the nodes that the changes have after a value.
    fn wrap(&mut self, id: ValueId, into: RegionId) {
        let Some(&value) = self.to.get(id) else { return };
        let mut site =
            Site { graph: &mut self.new, region: into, uses: SiteUses::default(), names: &[] };
        match self.changes.wrap(&mut site, id, value) {
            None => {}
            Some(Ok(new)) => self.to.insert(id, new),
            Some(Err(diagnostic)) => self.diagnostics.push(diagnostic),
        }
    }

    /// Returns the work for the outputs of a region.
    pub fn todo(&self, region: RegionId) -> Vec<Todo> {
        self.todo_for(region, self.outputs(region))
    }

    /// Returns the work in a region for some values.
    pub fn todo_for(&self, region: RegionId, wanted: &[ValueId]) -> Vec<Todo> {
        self.live(region, wanted).into_iter().map(Todo::Node).collect()
    }

    /// Does the work at the end of `into`, and returns `outputs` in the new graph.
    pub fn rest(&mut self, todo: &[Todo], into: RegionId, outputs: &[ValueId]) -> Vec<ValueId> {
        self.seen.open();
        let mut finished = None;
        for (i, &next) in todo.iter().enumerate() {
            let node = match next {
                Todo::Node(node) => node,
                Todo::Results(node, region) => {
                    self.results(node, region);
                    continue;
                }
            };
            if self.must_stop(node) {
                break;
            }
            match (self.hook)(self, node, &todo[i + 1..], into, outputs) {
                Next::Copy => self.node(node, into),
                Next::Done => self.is_changed = true,
                Next::Finished(outputs) => {
                    self.is_changed = true;
                    finished = Some(outputs);
                    break;
                }
            }
        }
        self.seen.close();
        finished.unwrap_or_else(|| outputs.iter().map(|&id| self.value(id)).collect())
    }

    /// Returns whether the pass takes too much, which is an error at the first node that finds it.
    fn must_stop(&self, node: NodeId) -> bool {
        let Err(diagnostic) = self.new.budget.go_on() else { return false };
        if self.diagnostics.is_empty() {
            self.diagnostics.push(diagnostic.within(self.old[node].location()));
        }
        true
    }

    /// Maps the outputs of a node to those of its region.
    fn results(&mut self, node: NodeId, region: RegionId) {
        let results: Outputs =
            self.old[region].outputs.iter().map(|&id| Some(self.value(id))).collect();
        self.stand_for(node, &results);
    }

    /// Maps the inputs of a region to values of the new graph.
    pub fn give(&mut self, region: RegionId, given: &[ValueId]) {
        let old = self.old;
        for (&input, &to) in old[region].inputs.iter().zip(given) {
            let mut symbols = BTreeSet::new();
            old[input].ty.symbols(&mut symbols);
            self.renames.types(&symbols, &old[input].ty, &self.new[to].ty);
            self.to.insert(input, to);
        }
    }

    /// Maps the outputs of a node to values of the new graph.
    pub fn stand_for(&mut self, node: NodeId, outputs: &[Option<ValueId>]) {
        let (old, settled) = (self.old, self.old.settled_by(node));
        for (&from, &to) in old[node].outputs.iter().zip(outputs) {
            if let (Some(from), Some(to)) = (from, to) {
                self.to.insert(from, to);
                self.renames.types(&settled, &old[from].ty, &self.new[to].ty);
            }
        }
    }

    /// Adds a node, and collects its errors if it always runs.
    pub fn add(&mut self, into: RegionId, new: NewNode<'_>) -> NodeId {
        let (id, result) = self.new.node(into, new);
        if into == self.new.body {
            self.diagnostics.keep(result);
        }
        id
    }

    /// Returns the nodes of a region that these values need, for elements or for sizes. A constant
    /// needs none.
    fn live(&self, region: RegionId, wanted: &[ValueId]) -> Vec<NodeId> {
        let old = self.old;
        let mut needed: HashSet<ValueId> = HashSet::new();
        let mut sizes: BTreeSet<Symbol> = BTreeSet::new();
        for output in wanted.iter().map(|&id| self.source(id)) {
            needed.insert(output);
            old[output].symbols(&mut sizes);
        }
        // A value that other uses refer to is needed wherever it is defined.
        needed.extend(self.changes.sources());
        let mut nodes = Vec::new();
        for &id in self.nodes(region).iter().rev() {
            let node = &old[id];
            let runs = |output: &&ValueId| old[**output].constant.is_none();
            let mut made = node.outputs.iter().flatten().filter(runs);
            let settles = || !old.settled_by(id).is_disjoint(&sizes);
            let is_read = made.any(|output| needed.contains(output));
            if is_read || settles() || node.op.is_kept() {
                let inputs = node.inputs.iter().flatten();
                needed.extend(inputs.map(|&id| self.source(id)));
                for &inner in &node.regions {
                    needed.extend(old.captures(inner).into_iter().map(|id| self.source(id)));
                }
                old.symbols_of(id, &mut sizes);
                nodes.push(id);
            }
        }
        nodes.reverse();
        nodes
    }

    /// Returns a value of the old graph in the new one.
    pub fn value(&mut self, id: ValueId) -> ValueId {
        let id = self.source(id);
        if let Some(&new) = self.to.get(id) {
            return new;
        }
        let value = &self.old[id];
        let new = match &value.constant {
            Some(tensor) => self.new.constant(&self.name(id), tensor.clone()),
            // An undefined value has been reported before.
            None => self.new.value(&value.name, value.ty.clone()),
        };
        self.to.insert(id, new);
        new
    }

    /// Copies one node, or the replacement of a rule, to the end of `into`.
    pub fn node(&mut self, id: NodeId, into: RegionId) {
        let old = &self.old[id];
        let inputs: Vec<_> = old.inputs.iter().map(|id| id.map(|id| self.value(id))).collect();
        let regions = match old.regions.is_empty() {
            true => Vec::new(),
            false => self.inner_regions(old, &self.old.settled_by(id), &inputs),
        };
        let node = Node {
            name: old.name.clone(),
            op: self.renames.op(&old.op),
            inputs,
            outputs: old.outputs.clone(),
            regions,
            binds: old.binds.clone(),
            checks: old.checks.clone(),
            fault: old.fault.clone(),
            notes: old.notes.clone(),
        };
        let names = self.names(old);
        let before = self.new.extent();
        let better = self.better(id, &node, &names, into);
        // A rule that finds nothing may have added nodes, too.
        self.is_changed |= better.is_some() || self.new.extent() != before;
        let outputs = better.unwrap_or_else(|| self.copy(node, &names, into));
        self.stand_for(id, &outputs);
        old.outputs.iter().flatten().for_each(|&from| self.wrap(from, into));
    }

    fn better(
        &mut self,
        id: NodeId,
        node: &Node,
        names: &[Option<String>],
        into: RegionId,
    ) -> Option<Outputs> {
        let old = &self.old[id];
        let uses = SiteUses { of: Some(&self.uses), inputs: &old.inputs };
        let mut site = Site { graph: &mut self.new, region: into, uses, names };
        let changed = self.changes.replace(&mut site, id, node);
        let types = || old.outputs.iter().map(|id| id.map(|id| &self.old[id].ty));
        changed.or_else(|| {
            let tried = |rule: &Rule<'_>| {
                let outputs = rule(&mut site, node)?;
                rewrite_context::have_shapes(site.graph, &outputs, types()).then_some(outputs)
            };
            self.rules.iter().find_map(tried)
        })
    }

    /// Returns the names of a node's outputs.
    fn names(&self, old: &Node) -> Vec<Option<String>> {
        old.outputs.iter().map(|id| id.map(|id| self.name(id))).collect()
    }

    fn copy(&mut self, node: Node, names: &[Option<String>], into: RegionId) -> Outputs {
        let key = cse::key(&self.new, &node);
        if let Some(again) = key.as_ref().and_then(|key| self.seen.find(&self.new, key)) {
            return self.new[again].outputs.clone();
        }
        let Node { name, op, inputs, regions, binds, notes, .. } = node;
        let id = self.add(into, NewNode { name: &name, op, inputs, outputs: names, regions });
        self.renames.symbols(&binds, &self.new[id].binds);
        self.new.note(id, notes);
        if let Some(key) = key {
            self.seen.insert(&key, id);
        }
        self.new[id].outputs.clone()
    }

    pub(super) fn inner_regions(
        &mut self,
        old: &Node,
        settled: &BTreeSet<Symbol>,
        inputs: &[Option<ValueId>],
    ) -> Vec<RegionId> {
        let mut new = NewNode {
            name: &old.name,
            op: old.op.clone(),
            inputs: inputs.to_vec(),
            outputs: &[],
            regions: Vec::new(),
        };
        for &from in &old.regions {
            let build = |cx: &mut Self, types: &[Type]| Ok(cx.inner_region(from, types, settled));
            // The errors are reported when the node is added.
            drop(fit(self, &mut new, from, build));
        }
        new.regions
    }

    fn inner_region(
        &mut self,
        from: RegionId,
        types: &[Type],
        settled: &BTreeSet<Symbol>,
    ) -> RegionId {
        let into = self.new.region(&self.old[from].name);
        for (i, &id) in self.old[from].inputs.iter().enumerate() {
            let ty = types.get(i).cloned().unwrap_or(Type::Unknown);
            self.renames.types(settled, &self.old[id].ty, &ty);
            let new = self.new.input(into, &self.old[id].name, ty);
            self.to.insert(id, new);
        }
        self.region(from, into);
        into
    }

    /// Adds the symbols of an input's type.
    fn symbols_of(&mut self, input: ValueId) {
        let mut symbols = BTreeSet::new();
        self.old[input].symbols(&mut symbols);
        self.add_symbols(symbols);
    }

    pub(super) fn add_symbols(&mut self, symbols: BTreeSet<Symbol>) {
        for symbol in symbols {
            let size = self.old.symbols.get(&symbol).cloned().unwrap_or_default();
            self.new.symbols.insert(symbol, size);
        }
    }
}
