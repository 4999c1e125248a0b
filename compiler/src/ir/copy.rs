//! Copies of what a region does, in the same graph.

use super::{Builds, Fitting, Graph, NewNode, Node, RegionId, ValueId, fit};
use crate::{diag::Result, ty::Type};
use std::collections::HashMap;

impl Graph {
    /// Copies the nodes of `from` to the end of `into`, where `to` says what stands for values;
    /// it is told what stands for those that the copies make.
    pub fn copy_nodes(
        &mut self,
        from: RegionId,
        into: RegionId,
        to: &mut HashMap<ValueId, ValueId>,
    ) -> Result {
        Copies { graph: self, to, fitting: Fitting::default() }.nodes(from, into)
    }
}

struct Copies<'a> {
    graph: &'a mut Graph,
    /// What stands for each value.
    to: &'a mut HashMap<ValueId, ValueId>,
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
                op: node.op.clone(),
                inputs,
                outputs: &names,
                regions: Vec::new(),
            };
            self.regions(&node, &mut new)?;
            let (copy, result) = self.graph.node(into, new);
            result?;
            for (old, new) in node.outputs.iter().zip(self.graph[copy].outputs.clone()) {
                if let (Some(old), Some(new)) = (*old, new) {
                    self.to.insert(old, new);
                }
            }
        }
        Ok(())
    }

    /// What stands for a value: itself, where it was not copied.
    fn there(&self, id: ValueId) -> ValueId {
        self.to.get(&id).copied().unwrap_or(id)
    }

    fn regions(&mut self, node: &Node, new: &mut NewNode<'_>) -> Result {
        let mut regions = node.regions.iter();
        regions.try_for_each(|&from| fit(self, new, from, |cx, types| cx.region(from, types)))
    }

    fn region(&mut self, from: RegionId, types: &[Type]) -> Result<RegionId> {
        let name = self.graph[from].name.clone();
        let region = self.graph.region(&name);
        for (i, old) in self.graph[from].inputs.clone().into_iter().enumerate() {
            let name = self.graph[old].name.clone();
            let ty = types.get(i).cloned().unwrap_or(Type::Unknown);
            let new = self.graph.input(region, &name, ty);
            self.to.insert(old, new);
        }
        self.nodes(from, region)?;
        let outputs = self.graph[from].outputs.iter().map(|&id| self.there(id)).collect();
        self.graph.set_outputs(region, outputs);
        Ok(region)
    }
}
