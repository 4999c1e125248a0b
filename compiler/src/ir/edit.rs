//! Edits of a graph by the ids of its values and nodes, applied together in one copy.

use super::{
    Graph, Node, NodeId, Outputs, RegionId, Site, ValueId,
    changes::{Changes, Unchanged},
    rewrite::copy_with,
    verify,
};
use crate::diag::{Diagnostics, Result};
use std::{
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

type Wrap<'g> = Box<dyn Fn(&mut Site<'_>, ValueId) -> Result<ValueId> + 'g>;
type Replace<'g> = Box<dyn Fn(&mut Site<'_>, &Node) -> Option<Outputs> + 'g>;

/// Edits of a graph. All ids refer to the graph before the edits; [`Edit::finish`] returns the new
/// graph. To remove a node, replace the uses of its outputs: dead nodes are dropped.
///
/// ```
/// use onnxc::{dtype::DType, Spec, ir::{Edit, Graph}, ty::Type};
///
/// let mut graph = Graph::named("two");
/// let x = graph.input(graph.body, "x", Type::tensor(DType::F32, [2]));
/// let y = Spec::new("Relu").called("y").inputs([x]).one(&mut graph)?;
/// let z = Spec::new("Abs").called("z").inputs([y]).one(&mut graph)?;
/// graph.set_outputs(graph.body, vec![z]);
///
/// let mut edit = Edit::of(&graph);
/// edit.replace_uses(y, x);
/// edit.wrap(z, |site, z| Spec::new("Neg").called("negative").inputs([z]).one_at(site));
/// let graph = edit.finish()?;
/// let names: Vec<_> = graph.walk(graph.body).map(|(_, node)| node.op.name()).collect();
/// assert_eq!(names, ["Abs", "Neg"]);
/// # Ok::<(), onnxc::diag::Diagnostics>(())
/// ```
pub struct Edit<'g> {
    graph: &'g Graph,
    uses: BTreeMap<ValueId, ValueId>,
    replaced: HashMap<NodeId, Replace<'g>>,
    wraps: HashMap<ValueId, Wrap<'g>>,
    order: HashMap<RegionId, Vec<NodeId>>,
    outputs: HashMap<RegionId, Vec<ValueId>>,
    names: HashMap<ValueId, String>,
}

impl<'g> Edit<'g> {
    /// Creates an edit without changes.
    pub fn of(graph: &'g Graph) -> Edit<'g> {
        Edit {
            graph,
            uses: BTreeMap::new(),
            replaced: HashMap::new(),
            wraps: HashMap::new(),
            order: HashMap::new(),
            outputs: HashMap::new(),
            names: HashMap::new(),
        }
    }

    /// Uses `by`, which must be defined before, wherever `value` is used. Replacements chain; one
    /// that would form a cycle has no effect.
    pub fn replace_uses(&mut self, value: ValueId, by: ValueId) {
        if self.source(by) != value {
            self.uses.insert(value, by);
        }
    }

    /// Uses input `i` of a node wherever its first output is used.
    pub fn bypass(&mut self, node: NodeId, i: usize) {
        let graph = self.graph;
        if let (Some(output), Some(input)) = (graph[node].output(0), graph[node].input(i)) {
            self.replace_uses(output, input);
        }
    }

    /// Replaces a node by the nodes that `with` adds. `with` receives the node with the inputs of
    /// the new graph, and returns the values that replace its outputs, or `None` to keep the node.
    pub fn replace(
        &mut self,
        node: NodeId,
        with: impl Fn(&mut Site<'_>, &Node) -> Option<Outputs> + 'g,
    ) {
        self.replaced.insert(node, Box::new(with));
    }

    /// Adds nodes after an input of the model or the output of a node: all uses of the value refer
    /// to the result of `with`.
    pub fn wrap(
        &mut self,
        value: ValueId,
        with: impl Fn(&mut Site<'_>, ValueId) -> Result<ValueId> + 'g,
    ) {
        self.wraps.insert(value, Box::new(with));
    }

    /// Moves a node before another one of the same region; otherwise it has no effect.
    pub fn move_before(&mut self, node: NodeId, other: NodeId) {
        let region = self.graph.regions().find(|(_, region)| region.nodes.contains(&other));
        let Some((id, region)) = region.filter(|(_, region)| region.nodes.contains(&node)) else {
            return;
        };
        let order = self.order.entry(id).or_insert_with(|| region.nodes.clone());
        order.retain(|&found| found != node);
        let place = order.iter().position(|&found| found == other).unwrap_or(order.len());
        order.insert(place, node);
    }

    /// Renames a value.
    pub fn rename(&mut self, value: ValueId, name: &str) {
        self.names.insert(value, name.to_owned());
    }

    /// Sets the outputs of a region.
    pub fn set_outputs(&mut self, region: RegionId, outputs: Vec<ValueId>) {
        self.outputs.insert(region, outputs);
    }

    /// Returns the graph with all changes.
    ///
    /// # Errors
    ///
    /// Returns an error for invalid nodes of the new graph, and for values that are used before
    /// they are defined.
    pub fn finish(self) -> std::result::Result<Graph, Diagnostics> {
        let made = copy_with(self.graph, &self)?;
        // The second copy drops values that only dropped nodes inside of regions used.
        let mut new = copy_with(&made, &Unchanged)?;
        let body = self.graph.body;
        let said = |id: &ValueId| self.names.get(id).unwrap_or(&self.graph[*id].name).clone();
        let mut info = (*new.info).clone();
        if let Some(outputs) = self.outputs.get(&body) {
            info.outputs = outputs.iter().map(said).collect();
            info.declared.clear();
            info.output_sizes.clear();
        }
        for (name, id) in info.outputs.iter_mut().zip(&self.graph[body].outputs) {
            if let Some(said) = self.names.get(id).filter(|_| !self.outputs.contains_key(&body)) {
                name.clone_from(said);
            }
        }
        new.info = Rc::new(info);
        verify(&new)?;
        Ok(new)
    }
}

impl Changes for Edit<'_> {
    fn replace(&self, site: &mut Site<'_>, id: NodeId, node: &Node) -> Option<Outputs> {
        self.replaced.get(&id).and_then(|with| with(site, node))
    }

    fn source(&self, mut value: ValueId) -> ValueId {
        while let Some(&by) = self.uses.get(&value) {
            value = by;
        }
        value
    }

    fn sources(&self) -> Vec<ValueId> {
        self.uses.values().map(|&id| self.source(id)).collect()
    }

    fn wrap(&self, site: &mut Site<'_>, value: ValueId, new: ValueId) -> Option<Result<ValueId>> {
        self.wraps.get(&value).map(|wrap| wrap(site, new))
    }

    fn nodes(&self, region: RegionId) -> Option<&[NodeId]> {
        self.order.get(&region).map(Vec::as_slice)
    }

    fn outputs(&self, region: RegionId) -> Option<&[ValueId]> {
        self.outputs.get(&region).map(Vec::as_slice)
    }

    fn name(&self, value: ValueId) -> Option<&str> {
        self.names.get(&value).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Compiler, Options};

    const MODEL: &str = r#"<ir_version: 10, opset_import: ["" : 21]>
        g (float[2] x, bool c) => (float[2] z) {
            a = Relu (x)
            b = Abs (x)
            y = If (c) <
                then_branch = t () => (float[2] u) { u = Neg (a) },
                else_branch = e () => (float[2] v) { v = Identity (b) }
            >
            z = Exp (y)
        }"#;

    fn graph() -> Graph {
        let bytes = MODEL.as_bytes().into();
        Compiler::new(&Options::default()).import(bytes).expect("the model is valid").graph
    }

    fn value(graph: &Graph, name: &str) -> ValueId {
        graph.value_named(name).expect("the graph has a value of this name")
    }

    fn ops(graph: &Graph) -> String {
        let names: Vec<_> = graph.walk(graph.body).map(|(_, node)| node.op.name()).collect();
        names.join(" ")
    }

    #[test]
    fn uses_are_replaced_inside_regions_too() {
        let graph = graph();
        let mut edit = Edit::of(&graph);
        edit.replace_uses(value(&graph, "a"), value(&graph, "b"));
        let found = edit.finish().expect("`b` is defined before the uses of `a`");
        assert_eq!(ops(&found), "Abs If Neg Identity Exp");
        let mut edit = Edit::of(&graph);
        edit.replace_uses(value(&graph, "u"), value(&graph, "b"));
        assert_eq!(
            ops(&edit.finish().expect("`b` is defined outside the region")),
            "Abs If Identity Exp"
        );
    }

    #[test]
    fn a_cycle_of_replacements_ends() {
        let graph = graph();
        let mut edit = Edit::of(&graph);
        edit.replace_uses(value(&graph, "a"), value(&graph, "b"));
        edit.replace_uses(value(&graph, "b"), value(&graph, "a"));
        assert_eq!(ops(&edit.finish().expect("the edit is valid")), "Abs If Neg Identity Exp");
    }

    #[test]
    fn nodes_do_not_move_before_their_inputs() {
        let graph = graph();
        let node =
            |name: &str| graph.node_named(name).expect("the graph has a node of this name").0;
        let mut edit = Edit::of(&graph);
        edit.move_before(node("b"), node("a"));
        assert_eq!(
            ops(&edit.finish().expect("neither uses the other")),
            "Abs Relu If Neg Identity Exp"
        );
        let mut edit = Edit::of(&graph);
        edit.move_before(node("z"), node("a"));
        assert!(edit.finish().is_err());
    }

    #[test]
    fn an_edit_replaces_outputs_and_names() {
        let graph = graph();
        let mut edit = Edit::of(&graph);
        let (a, z) = (value(&graph, "a"), value(&graph, "z"));
        edit.rename(a, "positive");
        edit.set_outputs(graph.body, vec![a, z]);
        let found = edit.finish().expect("nodes of the body define both outputs");
        assert_eq!(found.info.outputs, ["positive", "z"]);
        assert_eq!(found[found[found.body].outputs[0]].name, "positive");
    }
}
