//! Decides branches at compile time, and specializes what follows an `If` whose branches differ in
//! type.
//!
//! Where the branches of an `If` return tensors of different ranks, no type fits the nodes that
//! follow. Those nodes are then copied into both branches. Each copy knows its own types, and what
//! the condition implies about sizes. A `Squeeze` whose axes depend on sizes is split in the same
//! way.

use super::{known::KnownConditions, loops};
use crate::{
    dim::{Atom, Dim},
    ir::{Graph, NewNode, Next, Node, NodeId, Outputs, RegionId, Rewrite, Todo, ValueId},
    ops::{
        control::{If, Joined, join},
        reshape::Squeeze,
        sizes::{Assume, Holds, Ranked},
    },
    tensor::Tensor,
    ty::Type,
};
use std::{cell::Cell, rc::Rc};

/// The greatest depth of nested splits. Each level doubles the code that follows the node.
const MAX_DEPTH: usize = 8;

/// The most splits in all. It is enough for one full tree of splits, or for a long chain of nodes.
const MAX_SPLITS: usize = (1 << MAX_DEPTH) - 1;

/// The state of one rewrite.
#[derive(Default)]
pub struct Branches {
    known: KnownConditions,
    /// The number of splits around the nodes that are being copied.
    depth: Cell<usize>,
    /// The number of splits so far.
    total: Cell<usize>,
}

impl Branches {
    /// Simplifies the node as far as possible: inlines the branch of a decided `If`, splits an `If`
    /// or a `Squeeze` that needs it, and inlines a loop of at most one iteration.
    pub fn decide(
        &self,
        cx: &mut Rewrite<'_>,
        id: NodeId,
        rest: &[Todo],
        into: RegionId,
        outputs: &[ValueId],
    ) -> Next {
        if let Some(next) = loops::inline_short_loop(cx, &self.known, id, into) {
            return next;
        }
        let old = cx.old;
        let node = &old[id];
        if is_open_squeeze(node) {
            return self.squeeze(cx, id, rest, into, outputs);
        }
        if !node.op.is::<If>() || node.fault.is_some() {
            return Next::Copy;
        }
        let Some(cond) = node.input(0).map(|id| cx.value(id)) else { return Next::Copy };
        let Some(taken) = self.known.decide(&cx.new, cond) else {
            return self.both(cx, id, rest, into, outputs, cond);
        };
        let region = node.regions[taken];
        if old[region]
            .nodes
            .iter()
            .any(|&inner| old[inner].op.is::<If>() || is_open_squeeze(&old[inner]))
        {
            // The nodes that follow may have to be copied into a branch inside this one.
            let todo = [cx.todo(region), vec![Todo::Results(id, region)], rest.to_vec()].concat();
            return Next::Finished(cx.rest(&todo, into, outputs));
        }
        inline(cx, id, region, into)
    }

    /// Inlines the branch of a decided `If`, or a loop of at most one iteration. It splits nothing,
    /// so only operators of ONNX are left.
    pub fn take(&self, cx: &mut Rewrite<'_>, id: NodeId, into: RegionId) -> Next {
        if let Some(next) = loops::inline_short_loop(cx, &self.known, id, into) {
            return next;
        }
        let node = &cx.old[id];
        if !node.op.is::<If>() || node.fault.is_some() {
            return Next::Copy;
        }
        let cond = node.input(0).map(|id| cx.value(id));
        match cond.and_then(|cond| self.known.decide(&cx.new, cond)) {
            Some(taken) => inline(cx, id, node.regions[taken], into),
            None => Next::Copy,
        }
    }

    /// Copies both branches. If they return different types, copies the nodes that follow into
    /// each.
    fn both(
        &self,
        cx: &mut Rewrite<'_>,
        id: NodeId,
        rest: &[Todo],
        into: RegionId,
        outputs: &[ValueId],
        cond: ValueId,
    ) -> Next {
        let old = cx.old;
        let node = &old[id];
        let mut regions = Vec::new();
        for (i, &from) in node.regions.iter().enumerate() {
            let todo = cx.todo(from);
            regions.push(self.branch(cx, cond, i == 0, &todo, &old[from].name, &old[from].outputs));
        }
        let faulty = regions.iter().any(|&region| cx.new.is_faulty(region));
        let results = |i: usize| cx.new[regions[i]].outputs.iter().map(|&id| &cx.new[id].ty);
        let differ = results(0).zip(results(1)).any(|(a, b)| matches!(join(a, b), Joined::Differ));
        if differ && !faulty && self.may_split() {
            let todo = |&from: &RegionId| {
                [cx.todo(from), vec![Todo::Results(id, from)], rest.to_vec()].concat()
            };
            let todo: Vec<Vec<Todo>> = node.regions.iter().map(todo).collect();
            return self.split(cx, node, cond, &todo, into, outputs);
        }
        let names: Vec<Option<String>> =
            node.outputs.iter().map(|id| id.map(|id| old[id].name.clone())).collect();
        let made = add(cx, node, cond, regions, &names, into);
        cx.stand_for(id, &made);
        Next::Done
    }

    fn may_split(&self) -> bool {
        self.depth.get() < MAX_DEPTH && self.total.get() < MAX_SPLITS
    }

    /// Adds an `If` whose two branches each compute the rest of the region.
    fn split(
        &self,
        cx: &mut Rewrite<'_>,
        node: &Node,
        cond: ValueId,
        todo: &[Vec<Todo>],
        into: RegionId,
        outputs: &[ValueId],
    ) -> Next {
        let mut regions = Vec::new();
        self.depth.update(|depth| depth + 1);
        self.total.update(|total| total + 1);
        for (i, todo) in todo.iter().enumerate() {
            regions.push(self.branch(cx, cond, i == 0, todo, &node.name, outputs));
        }
        self.depth.update(|depth| depth - 1);
        let names: Vec<Option<String>> =
            outputs.iter().map(|&id| Some(cx.old[id].name.clone())).collect();
        let made = add(cx, node, cond, regions, &names, into);
        Next::Finished(made.into_iter().flatten().collect())
    }

    /// Adds a region that does `todo` under the assumption that the condition holds, or that it
    /// does not.
    fn branch(
        &self,
        cx: &mut Rewrite<'_>,
        cond: ValueId,
        holds: bool,
        todo: &[Todo],
        name: &str,
        outputs: &[ValueId],
    ) -> RegionId {
        let before = cx.to.mark();
        let region = cx.new.region(name);
        let condition = match cx.new[cond].known.as_deref() {
            Some([known]) if !holds => Some(known.clone()),
            _ => None,
        };
        let denied = self.known.enter(condition);
        assume(cx, cond, holds, region, todo, outputs);
        let results = cx.rest(todo, region, outputs);
        let results = with_declared_ranks(cx, region, results, outputs);
        cx.new.set_outputs(region, results);
        cx.to.undo(before);
        self.known.leave(denied);
        region
    }

    /// Decides which axes are squeezed, with an `If` for each size that may be 1.
    fn squeeze(
        &self,
        cx: &mut Rewrite<'_>,
        id: NodeId,
        rest: &[Todo],
        into: RegionId,
        outputs: &[ValueId],
    ) -> Next {
        /// The most open sizes. The code that follows is copied for each combination.
        const LEFT: usize = 2;
        let node = &cx.old[id];
        let Some(x) = node.input(0).map(|id| cx.value(id)) else { return Next::Copy };
        let Type::Tensor(ty) = &cx.new[x].ty else { return Next::Copy };
        let denied = |dim: &Dim| self.known.is_denied(&dim.equal(&1.into()));
        let mut open: Vec<Dim> =
            ty.shape.iter().filter(|dim| Squeeze::is_open(dim)).cloned().collect();
        if open.is_empty() {
            return Next::Copy;
        }
        open.retain(|dim| !denied(dim));
        open.sort();
        open.dedup();
        let Some(first) = open.first() else {
            let ones = (0..ty.shape.len()).filter(|&axis| ty.shape[axis].known() == Some(1));
            let axes: Vec<i64> = ones.map(|axis| i64::try_from(axis).unwrap_or(i64::MAX)).collect();
            let axes = cx.new.constant("axes", Tensor::from_ints(&axes));
            let names: Vec<Option<String>> =
                node.outputs.iter().map(|id| id.map(|id| cx.old[id].name.clone())).collect();
            let (op, inputs) = (node.op.clone(), vec![Some(x), Some(axes)]);
            let new =
                NewNode { name: &node.name, op, inputs, outputs: &names, regions: Vec::new() };
            let (made, &[Some(output)]) = (cx.add(into, new), node.outputs.as_slice()) else {
                return Next::Copy;
            };
            if let &[Some(made)] = cx.new[made].outputs.as_slice() {
                cx.to.insert(output, made);
            }
            return Next::Done;
        };
        // If it is unknown when the size is 1, the branches would learn nothing, and would be split
        // again.
        let is_decided = (first - 1).solve_zero().is_some();
        if open.len() > LEFT || !is_decided || !self.may_split() {
            return Next::Copy;
        }
        let holds = Holds { condition: first.equal(&1.into()) };
        let name = format!("{} is 1", node.name);
        let Ok(cond) = cx.new.add(into, &name, holds, &[]) else { return Next::Copy };
        let todo = [&[Todo::Node(id)], rest].concat();
        self.split(cx, node, cond, &[todo.clone(), todo], into, outputs)
    }
}

/// Makes a result of another rank than the one that the model declares for its output an error of
/// the branch.
fn with_declared_ranks(
    cx: &mut Rewrite<'_>,
    region: RegionId,
    mut results: Vec<ValueId>,
    outputs: &[ValueId],
) -> Vec<ValueId> {
    let old = cx.old;
    if outputs != old[old.body].outputs {
        return results;
    }
    for (result, declared) in results.iter_mut().zip(&old.info.declared) {
        let (Type::Tensor(declared), Type::Tensor(found)) = (declared, &cx.new[*result].ty) else {
            continue;
        };
        let rank = declared.rank();
        if found.rank() == rank {
            continue;
        }
        let name = cx.new[*result].name.clone();
        let (op, inputs) = (Rc::new(Ranked { rank }), vec![Some(*result)]);
        let outputs = &[Some(name.clone())];
        let new = NewNode { name: &name, op, inputs, outputs, regions: Vec::new() };
        let made = cx.add(region, new);
        *result = cx.new[made].output(0).unwrap_or(*result);
    }
    results
}

/// Copies a region in place of the node that it belongs to.
fn inline(cx: &mut Rewrite<'_>, id: NodeId, region: RegionId, into: RegionId) -> Next {
    let results: Outputs = cx.inline(region, into).into_iter().map(Some).collect();
    cx.stand_for(id, &results);
    Next::Done
}

/// Adds the `If` with these branches in place of `node`, and returns its outputs.
fn add(
    cx: &mut Rewrite<'_>,
    node: &Node,
    cond: ValueId,
    regions: Vec<RegionId>,
    names: &[Option<String>],
    into: RegionId,
) -> Vec<Option<ValueId>> {
    let op = Rc::new(If { stands_for: stands_for(node) });
    let new = NewNode { name: &node.name, op, inputs: vec![Some(cond)], outputs: names, regions };
    let id = cx.add(into, new);
    cx.new[id].outputs.clone()
}

/// Returns the operator of the model that `node` is, or that it stands for.
fn stands_for(node: &Node) -> &'static str {
    node.op.downcast::<If>().map_or_else(|| node.op.name(), |op| op.stands_for)
}

/// Returns whether the node squeezes every axis of size 1.
fn is_open_squeeze(node: &Node) -> bool {
    node.op.is::<Squeeze>() && node.input(1).is_none()
}

/// Refines the types of all values that a branch uses by what the condition implies about sizes.
fn assume(
    cx: &mut Rewrite<'_>,
    cond: ValueId,
    holds: bool,
    region: RegionId,
    todo: &[Todo],
    outputs: &[ValueId],
) {
    let Some((atom, value)) = fact(&cx.new, cond, holds) else { return };
    let mut used = Vec::new();
    for &next in todo {
        let id = match next {
            Todo::Node(id) => id,
            Todo::Results(_, region) => {
                used.extend(&cx.old[region].outputs);
                continue;
            }
        };
        let node = &cx.old[id];
        used.extend(node.inputs.iter().flatten());
        node.regions.iter().for_each(|&inner| used.extend(cx.old.captures(inner)));
    }
    used.extend(outputs);
    used.sort_unstable();
    used.dedup();
    let refine = |dim: &Dim| dim.replace(&atom, &value);
    for old in used {
        let Some(&id) = cx.to.get(old) else { continue };
        let given = &cx.new[id];
        let ty = given.ty.map_dims(&refine);
        let known: Option<Vec<Dim>> =
            given.known.as_ref().map(|known| known.iter().map(refine).collect());
        if given.ty == Type::Unknown || ty == given.ty && known == given.known {
            continue;
        }
        let name = given.name.clone();
        if let Ok(refined) =
            cx.new.add(region, &name, Assume { ty, known, equal: Vec::new() }, &[id])
        {
            cx.to.insert(old, refined);
        }
    }
}

/// The substitution for one symbol that the condition implies: two sizes are equal.
fn fact(g: &Graph, cond: ValueId, holds: bool) -> Option<(Atom, Dim)> {
    let [dim] = g[cond].known.as_deref()? else { return None };
    let negated = Dim::from(1) - dim;
    let equal = if holds { dim.clone() } else { negated };
    match equal.as_atom()? {
        Atom::Equal(a, b) => (a - b).solve_zero(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dtype::DType, ir::rewrite, ops::reshape::Shape};

    fn ops(g: &Graph, region: RegionId) -> Vec<&str> {
        g[region].nodes.iter().map(|&id| g[id].op.name()).collect()
    }

    #[test]
    fn a_size_decides_which_axes_are_squeezed() {
        let mut g = Graph::new(Rc::default());
        let n = Dim::symbol("n");
        let x = g.input(g.body, "x", Type::tensor(DType::F32, [n.clone(), 3.into(), n]));
        let y = g.add(g.body, "y", Squeeze, &[x]).expect("axes of unknown size may be squeezed");
        let z = g
            .add(g.body, "z", Shape { start: 0, end: None }, &[y])
            .expect("any tensor has a shape");
        g.set_outputs(g.body, vec![z]);
        let branches = Branches::default();
        let hook = |cx: &mut Rewrite<'_>, id, rest: &[Todo], into, outputs: &[ValueId]| {
            branches.decide(cx, id, rest, into, outputs)
        };
        let g = rewrite(&g, &hook, &[]).expect("both branches infer");
        assert_eq!(ops(&g, g.body), ["Holds", "If"]);
        let branches = &g[*g[g.body].nodes.last().expect("the body has two nodes")].regions;
        assert_eq!(ops(&g, branches[0]), ["Assume", "Squeeze", "Shape"]);
        assert_eq!(ops(&g, branches[1]), ["Squeeze", "Shape"]);
        let ty = |region: RegionId| g[g[region].outputs[0]].ty.to_string();
        assert_eq!((ty(branches[0]), ty(branches[1])), ("int64[1]".into(), "int64[3]".into()));
    }
}
