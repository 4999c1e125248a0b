//! Copies nodes of a region within a graph.

use super::{
    Builds, Fitting, Graph, NewNode, NodeId, RegionId, ValueId, fit, symbol_renaming::Renames,
};
use crate::{diag::Result, dim::Symbol, ty::Type};
use std::collections::{BTreeSet, HashMap};

impl Graph {
    /// Copies the nodes of `from` to the end of `into`. `to` maps values to their replacements; the
    /// values that the copies compute are added.
    ///
    /// # Errors
    ///
    /// Returns an error if the types of a copied node cannot be inferred.
    pub fn copy_nodes(
        &mut self,
        from: RegionId,
        into: RegionId,
        to: &mut HashMap<ValueId, ValueId>,
    ) -> Result {
        let mut renames = Renames::default();
        for &input in &self[from].inputs {
            let mut given = BTreeSet::new();
            self[input].ty.symbols(&mut given);
            let there = to.get(&input).copied().unwrap_or(input);
            renames.types(&given, &self[input].ty, &self[there].ty);
        }
        Copies { graph: self, to, renames, fitting: Fitting::default() }.nodes(from, into)
    }
}

struct Copies<'a> {
    graph: &'a mut Graph,
    /// Maps values to their replacements.
    to: &'a mut HashMap<ValueId, ValueId>,
    renames: Renames,
    fitting: Fitting<RegionId>,
}

impl Builds for Copies<'_> {
    type Key = RegionId;

    fn graph(&mut self) -> &mut Graph {
        self.graph
    }

    fn fitting(&mut self) -> &mut Fitting<RegionId> {
        &mut self.fitting
    }
}

impl Copies<'_> {
    fn nodes(&mut self, from: RegionId, into: RegionId) -> Result {
        for id in self.graph[from].nodes.clone() {
            let node = self.graph[id].clone();
            let inputs = node.inputs.iter().map(|id| id.map(|id| self.there(id))).collect();
            let name = |id: &Option<ValueId>| id.map(|id| self.graph[id].name.clone());
            let names: Vec<Option<String>> = node.outputs.iter().map(name).collect();
            let mut new = NewNode {
                name: &node.name,
                op: self.renames.op(&node.op),
                inputs,
                outputs: &names,
                regions: Vec::new(),
            };
            let settled = self.graph.settled_by(id);
            self.regions(id, &settled, &mut new)?;
            let (copy, result) = self.graph.node(into, new);
            result?;
            self.renames.symbols(&node.binds, &self.graph[copy].binds);
            for (old, new) in node.outputs.iter().zip(self.graph[copy].outputs.clone()) {
                if let (Some(old), Some(new)) = (*old, new) {
                    self.to.insert(old, new);
                    self.renames.types(&settled, &self.graph[old].ty, &self.graph[new].ty);
                }
            }
        }
        Ok(())
    }

    /// Returns the replacement of a value: itself, if it is not copied.
    fn there(&self, id: ValueId) -> ValueId {
        self.to.get(&id).copied().unwrap_or(id)
    }

    fn regions(
        &mut self,
        node: NodeId,
        settled: &BTreeSet<Symbol>,
        new: &mut NewNode<'_>,
    ) -> Result {
        let regions = self.graph[node].regions.clone();
        let mut regions = regions.into_iter();
        regions
            .try_for_each(|from| fit(self, new, from, |cx, types| cx.region(from, types, settled)))
    }

    fn region(
        &mut self,
        from: RegionId,
        types: &[Type],
        settled: &BTreeSet<Symbol>,
    ) -> Result<RegionId> {
        let name = self.graph[from].name.clone();
        let region = self.graph.region(&name);
        for (i, old) in self.graph[from].inputs.clone().into_iter().enumerate() {
            let name = self.graph[old].name.clone();
            let ty = types.get(i).cloned().unwrap_or(Type::Unknown);
            self.renames.types(settled, &self.graph[old].ty, &ty);
            let new = self.graph.input(region, &name, ty);
            self.to.insert(old, new);
        }
        self.nodes(from, region)?;
        let outputs = self.graph[from].outputs.iter().map(|&id| self.there(id)).collect();
        self.graph.set_outputs(region, outputs);
        Ok(region)
    }
}
