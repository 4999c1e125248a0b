//! Copies of what a region does, in the same graph.

use super::{Graph, NewNode, Node, RegionId, ValueId};
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
        for id in self[from].nodes.clone() {
            let node = self[id].clone();
            let there = |id: &Option<ValueId>| id.map(|id| to.get(&id).copied().unwrap_or(id));
            let inputs: Vec<Option<ValueId>> = node.inputs.iter().map(there).collect();
            let name = |id: &Option<ValueId>| id.map(|id| self[id].name.clone());
            let names: Vec<Option<String>> = node.outputs.iter().map(name).collect();
            let mut new = NewNode {
                name: &node.name,
                op: node.op.clone(),
                inputs,
                outputs: &names,
                regions: Vec::new(),
            };
            self.copy_regions(&node, &mut new, to)?;
            let (copy, result) = self.node(into, new);
            result?;
            for (old, new) in node.outputs.iter().zip(self[copy].outputs.clone()) {
                if let (Some(old), Some(new)) = (*old, new) {
                    to.insert(old, new);
                }
            }
        }
        Ok(())
    }

    fn copy_regions(
        &mut self,
        node: &Node,
        new: &mut NewNode<'_>,
        to: &mut HashMap<ValueId, ValueId>,
    ) -> Result {
        for (i, &from) in node.regions.iter().enumerate() {
            let mut types = self.region_inputs(new, i)?;
            loop {
                let region = self.copy_region(from, &types, to)?;
                new.regions.truncate(i);
                new.regions.push(region);
                let wider = self.region_inputs(new, i)?;
                if wider == types {
                    break;
                }
                types = wider;
            }
        }
        Ok(())
    }

    fn copy_region(
        &mut self,
        from: RegionId,
        types: &[Type],
        to: &mut HashMap<ValueId, ValueId>,
    ) -> Result<RegionId> {
        let name = self[from].name.clone();
        let region = self.region(&name);
        for (i, old) in self[from].inputs.clone().into_iter().enumerate() {
            let name = self[old].name.clone();
            let ty = types.get(i).cloned().unwrap_or(Type::Unknown);
            let new = self.input(region, &name, ty);
            to.insert(old, new);
        }
        self.copy_nodes(from, region, to)?;
        let outputs = self[from].outputs.iter().map(|id| to.get(id).copied().unwrap_or(*id));
        let outputs = outputs.collect();
        self.set_outputs(region, outputs);
        Ok(region)
    }
}
