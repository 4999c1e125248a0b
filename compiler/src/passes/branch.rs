//! Branches decided before the model runs, and branches that give values of different kinds.
//!
//! Where the branches of an `If` give tensors of different numbers of axes, no type fits what
//! comes after. What comes after is then copied into both branches, each of which knows its own
//! types, and what the condition says of sizes.

use crate::{
    dim::{Atom, Dim},
    ir::{Graph, NewNode, Next, NodeId, RegionId, Rewrite, ValueId},
    ops::{
        control::{If, Joined, join},
        reshape::Assume,
    },
    ty::Type,
};
use std::rc::Rc;

/// Decides the `If` that is the first of the nodes left, as far as that can be done.
pub fn decide(cx: &mut Rewrite<'_>, rest: &[NodeId], into: RegionId, outputs: &[ValueId]) -> Next {
    let old = cx.old;
    let node = &old[rest[0]];
    if !node.op.is::<If>() || node.fault.is_some() {
        return Next::Copy;
    }
    let Some(cond) = node.input(0).map(|id| cx.value(id)) else { return Next::Copy };
    if let Some(taken) = decided(&cx.new, cond) {
        let results = cx.inline(node.regions[taken], into);
        for (output, result) in node.outputs.iter().zip(results) {
            if let Some(output) = output {
                cx.to.insert(*output, result);
            }
        }
        return Next::Done;
    }
    both(cx, rest, into, outputs, cond)
}

/// The branch that a known condition takes.
fn decided(g: &Graph, cond: ValueId) -> Option<usize> {
    let value = &g[cond];
    let constant = value.constant.as_ref().and_then(|tensor| tensor.ints()?.first().copied());
    let known = value.known.as_ref().and_then(|known| known.first()?.known());
    Some(usize::from(constant.or(known)? == 0))
}

/// Copies both branches; where they give different kinds of values, with all that comes after.
fn both(
    cx: &mut Rewrite<'_>,
    rest: &[NodeId],
    into: RegionId,
    outputs: &[ValueId],
    cond: ValueId,
) -> Next {
    let old = cx.old;
    let node = &old[rest[0]];
    let before = cx.to.clone();
    let mut branches = Vec::new();
    for (i, &from) in node.regions.iter().enumerate() {
        cx.to = before.clone();
        let region = cx.new.region(&old[from].name);
        assume(cx, cond, i == 0, region, from, &rest[1..], outputs);
        let results = cx.inline(from, region);
        branches.push((region, results, cx.to.clone()));
    }
    let ty = |cx: &Rewrite<'_>, id: ValueId| cx.new[id].ty.clone();
    let differ = branches[0].1.iter().zip(&branches[1].1).any(|(&a, &b)| {
        let faulty = cx.new.is_faulty(branches[0].0) || cx.new.is_faulty(branches[1].0);
        !faulty && matches!(join(&ty(cx, a), &ty(cx, b)), Joined::Differ)
    });
    let mut regions = Vec::new();
    for (region, results, to) in branches {
        let results = if differ {
            cx.to = to;
            for (output, &result) in node.outputs.iter().zip(&results) {
                if let Some(output) = output {
                    cx.to.insert(*output, result);
                }
            }
            cx.rest(&rest[1..], region, outputs)
        } else {
            results
        };
        cx.new.set_outputs(region, results);
        regions.push(region);
    }
    cx.to = before;
    let outer = node.outputs.iter().map(|id| id.map(|id| old[id].name.clone()));
    let names: Vec<Option<String>> = if differ {
        outputs.iter().map(|&id| Some(old[id].name.clone())).collect()
    } else {
        outer.collect()
    };
    let new = NewNode {
        name: &node.name,
        op: Rc::new(If),
        inputs: vec![Some(cond)],
        outputs: &names,
        regions,
    };
    let id = cx.add(into, new);
    let made = cx.new[id].outputs.clone();
    if differ {
        return Next::Finished(made.into_iter().flatten().collect());
    }
    for (output, made) in node.outputs.iter().zip(made) {
        if let (Some(output), Some(made)) = (output, made) {
            cx.to.insert(*output, made);
        }
    }
    Next::Done
}

/// Puts what the condition says of sizes into the types of all that a branch uses.
fn assume(
    cx: &mut Rewrite<'_>,
    cond: ValueId,
    holds: bool,
    region: RegionId,
    from: RegionId,
    rest: &[NodeId],
    outputs: &[ValueId],
) {
    let Some((atom, value)) = fact(&cx.new, cond, holds) else { return };
    let mut used = cx.old.captures(from);
    for &id in rest {
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
        if let Ok(refined) = cx.new.add(region, &name, Assume { ty, known }, &[id]) {
            cx.to.insert(old, refined);
        }
    }
}

/// What follows for one size where the condition holds: two sizes are equal.
fn fact(g: &Graph, cond: ValueId, holds: bool) -> Option<(Atom, Dim)> {
    let [dim] = g[cond].known.as_deref()? else { return None };
    let negated = Dim::from(1) - dim;
    let equal = if holds { dim.clone() } else { negated };
    match equal.as_atom()? {
        Atom::Equal(a, b) => (a - b).solve_zero(),
        _ => None,
    }
}
