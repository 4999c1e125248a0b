//! Removes sequences and optionals whose structure is known at compile time.

use super::{budget::Budget, fold};
use crate::{
    diag::Result,
    ir::{Graph, NewNode, Next, Node, NodeId, RegionId, Rewrite, Site, ValueId},
    limits::Limit,
    ops::{
        concat::{Concat, Split},
        optional::{Optional, OptionalGetElement},
        reshape::{Squeeze, Unsqueeze},
        sequence::{
            SequenceAt, SequenceConstruct, SequenceEmpty, SequenceErase, SequenceInsert,
            map::SequenceMap,
            resolve_position,
            split::{ConcatFromSequence, SplitToSequence},
        },
    },
    tensor::Tensor,
    ty::Type,
};
use std::{collections::HashMap, rc::Rc};

/// The length of the longest sequence that is replaced by its tensors.
pub const MAX_LENGTH: usize = 64;

type Outputs = Vec<Option<ValueId>>;

/// Replaces `OptionalGetElement(Optional(x))` by `x`.
pub fn unwrap_optional(site: &mut Site<'_>, node: &Node) -> Option<Outputs> {
    let optional = node.input(0).filter(|_| node.op.is::<OptionalGetElement>())?;
    if !matches!(site.graph[optional].ty, Type::Optional(_) | Type::Unknown) {
        return Some(vec![Some(optional)]);
    }
    let made = site.graph.producer(optional).filter(|made| made.op.is::<Optional>())?;
    made.input(0).map(|value| vec![Some(value)])
}

/// Evaluates an operation on a sequence whose tensors are known individually.
pub fn resolve_sequence(site: &mut Site<'_>, node: &Node, budget: &Budget) -> Option<Outputs> {
    if let Some(split) = node.op.downcast::<SplitToSequence>() {
        return construct_parts(site, node, split);
    }
    let mut tensors = tensors(site.graph, node.input(0)?)?;
    let position = |i: usize| match node.input(i) {
        None => Some(None),
        Some(id) => site.graph[id].ints().and_then(|at| at.first().copied()).map(Some),
    };
    let len = tensors.len();
    if node.op.is::<SequenceAt>() {
        let at = resolve_position(position(1)??, len, len)?;
        return Some(vec![Some(tensors[at])]);
    }
    if node.op.is::<SequenceInsert>() {
        let at = position(2)?.map_or(Some(len), |at| resolve_position(at, len + 1, len))?;
        tensors.insert(at, node.input(1)?);
    } else if node.op.is::<SequenceErase>() {
        let at = resolve_position(position(1)?.unwrap_or(-1), len, len)?;
        tensors.remove(at);
    } else {
        let concat = node.op.downcast::<ConcatFromSequence>()?;
        return concat_tensors(site, node, concat, tensors, budget);
    }
    let kept = !tensors.is_empty() && tensors.len() <= MAX_LENGTH;
    let inputs = tensors.into_iter().map(Some).collect();
    if kept { site.replace(node, Rc::new(SequenceConstruct), inputs) } else { None }
}

/// Returns the tensors of a sequence that one `SequenceConstruct` or `SequenceEmpty` makes.
pub fn tensors(g: &Graph, sequence: ValueId) -> Option<Vec<ValueId>> {
    let node = g.producer(sequence)?;
    match () {
        () if node.op.is::<SequenceEmpty>() => Some(Vec::new()),
        () if node.op.is::<SequenceConstruct>() => node.inputs.iter().copied().collect(),
        () => None,
    }
}

/// Unrolls a `SequenceMap` over sequences whose tensors are known individually.
pub fn unroll_map(cx: &mut Rewrite<'_>, id: NodeId, into: RegionId) -> Option<Next> {
    let old = cx.old;
    let node = &old[id];
    let &[body] = node.regions.as_slice() else { return None };
    if !node.op.is::<SequenceMap>() || node.fault.is_some() || old.is_faulty(body) {
        return None;
    }
    let inputs = node.inputs.iter().map(|id| id.map(|id| cx.value(id)));
    let inputs: Vec<ValueId> = inputs.collect::<Option<_>>()?;
    let is_sequence = |id: &&ValueId| matches!(cx.new[**id].ty, Type::Sequence(_));
    let lists = inputs.iter().filter(is_sequence).map(|&id| Some((id, tensors(&cx.new, id)?)));
    let lists: HashMap<ValueId, Vec<ValueId>> = lists.collect::<Option<_>>()?;
    let iterations = lists.get(inputs.first()?)?.len();
    let is_same_length = |list: &Vec<ValueId>| list.len() == iterations;
    if !(1..=MAX_LENGTH).contains(&iterations) || !lists.values().all(is_same_length) {
        return None;
    }
    // Nested maps multiply their iterations, and a copy of a node has copies of its regions.
    let count = old.walk(body).count().max(1).saturating_mul(iterations);
    if let Err(diagnostic) = cx.new.budget.spend(Limit::Nodes, count, "unrolled iterations") {
        if cx.diagnostics.is_empty() {
            cx.diagnostics.push(diagnostic.within(node.location()));
        }
        return None;
    }
    let mut results = vec![Vec::new(); node.outputs.len()];
    for iteration in 0..iterations {
        let argument = |id: &ValueId| lists.get(id).map_or(*id, |list| list[iteration]);
        let arguments: Vec<ValueId> = inputs.iter().map(argument).collect();
        cx.give(body, &arguments);
        results.iter_mut().zip(cx.inline(body, into)).for_each(|(all, result)| all.push(result));
    }
    let mut outputs = Outputs::new();
    for (output, tensors) in node.outputs.iter().zip(results) {
        let name = output.map_or("", |output| old[output].name.as_str());
        outputs.push(Some(cx.new.add(into, name, SequenceConstruct, &tensors).ok()?));
    }
    cx.stand_for(id, &outputs);
    Some(Next::Done)
}

/// Replaces `ConcatFromSequence` by a `Concat` of the tensors.
fn concat_tensors(
    site: &mut Site<'_>,
    node: &Node,
    concat: &ConcatFromSequence,
    mut tensors: Vec<ValueId>,
    budget: &Budget,
) -> Option<Outputs> {
    let rank = site.graph[*tensors.first()?].ty.as_tensor()?.rank();
    let same =
        tensors.iter().all(|&id| site.graph[id].ty.as_tensor().is_some_and(|ty| ty.rank() == rank));
    if !same {
        return None;
    }
    if concat.new_axis {
        let axes = site.graph.constant("axis", Tensor::from_ints(&[concat.axis]));
        for tensor in &mut tensors {
            let name = format!("{}/Unsqueeze", node.name);
            *tensor = site.graph.add(site.region, &name, Unsqueeze, &[*tensor, axes]).ok()?;
        }
    }
    let inputs = tensors.into_iter().map(Some).collect();
    let concat = Node { op: Rc::new(Concat { axis: concat.axis }), inputs, ..node.clone() };
    fold::fold_tensors(site, &concat, budget)
        .or_else(|| site.replace(node, concat.op.clone(), concat.inputs.clone()))
}

/// Replaces `SplitToSequence` with known sizes by a `Split` and a `SequenceConstruct`.
fn construct_parts(site: &mut Site<'_>, node: &Node, split: &SplitToSequence) -> Option<Outputs> {
    let (x, ty) = (node.input(0)?, site.graph[node.input(0)?].ty.as_tensor()?);
    let rank = i64::try_from(ty.rank()).ok().filter(|&rank| rank > 0)?;
    let axis = usize::try_from(split.axis.checked_rem_euclid(rank)?).ok()?;
    let sizes = split_sizes(site.graph, node, ty.shape[axis].known()?)?;
    if sizes.is_empty() {
        return None;
    }
    let (g, region) = (&mut *site.graph, site.region);
    let mut parts = split_into(g, region, node, split.axis, x, &sizes).ok()?;
    if !split.keepdims {
        let axes = g.constant("axis", Tensor::from_ints(&[split.axis]));
        for part in parts.iter_mut().flatten() {
            let name = format!("{}/Squeeze", node.name);
            *part = g.add(region, &name, Squeeze, &[*part, axes]).ok()?;
        }
    }
    site.replace(node, Rc::new(SequenceConstruct), parts)
}

/// Returns the sizes of the parts of an axis of `len` elements, if they are known and at most
/// [`MAX_LENGTH`].
fn split_sizes(g: &Graph, node: &Node, len: i64) -> Option<Vec<i64>> {
    let part = match node.input(1) {
        None => 1,
        Some(id) => {
            let sizes = g[id].ints()?;
            if g[id].ty.as_tensor()?.rank() > 0 {
                return Some(sizes).filter(|sizes| sizes.len() <= MAX_LENGTH);
            }
            sizes.first().copied().filter(|&part| part > 0)?
        }
    };
    let starts = (0..len).step_by(usize::try_from(part).ok()?).take(MAX_LENGTH + 1);
    let sizes: Vec<i64> = starts.map(|start| part.min(len - start)).collect();
    Some(sizes).filter(|sizes| sizes.len() <= MAX_LENGTH)
}

fn split_into(
    g: &mut Graph,
    region: RegionId,
    node: &Node,
    axis: i64,
    x: ValueId,
    sizes: &[i64],
) -> Result<Outputs> {
    let parts = g.constant("parts", Tensor::from_ints(sizes));
    let names: Vec<_> = (0..sizes.len()).map(|i| Some(format!("{}/{i}", node.name))).collect();
    let new = NewNode {
        name: &node.name,
        op: Rc::new(Split { axis, num_outputs: None }),
        inputs: vec![Some(x), Some(parts)],
        outputs: &names,
        regions: Vec::new(),
    };
    let (id, result) = g.node(region, new);
    result.map(|()| g[id].outputs.clone())
}

#[cfg(test)]
mod tests {
    use crate::{Compiler, Options};

    #[test]
    fn the_iterations_of_nested_maps_have_a_limit() {
        let copies = ["x"; 8].join(", ");
        let map = |into: &str, from: &str, sum: &str| {
            format!(
                "s{into} = SequenceConstruct({copies})
                m{into} = SequenceMap <body = b (float[1] {from}) => (float[n] r{into}) {{
                    {sum}
                }}> (s{into})"
            )
        };
        let inner = map("1", "b", "r1 = Mul(b, x)");
        let sum = format!("{inner} c = ConcatFromSequence<axis = 0>(m1) r0 = Mul(c, a)");
        let text = format!(
            "<ir_version: 10, opset_import: [\"\" : 21, \"ai.onnx.preview.training\" : 1]>
            g (float[1] x) => (dx) {{
                {} y = ConcatFromSequence<axis = 0>(m0)
                dx = ai.onnx.preview.training.Gradient<xs = [\"x\"], y = \"y\">(x)
            }}",
            map("0", "a", &sum)
        );
        let mut options = Options::default();
        assert!(Compiler::new(&options).plan(text.clone().into()).is_ok());
        options.limit("nodes=60").expect("the limit exists");
        let Err(found) = Compiler::new(&options).plan(text.into()) else {
            panic!("64 products are unrolled")
        };
        assert!(found.to_string().contains("60 nodes of unrolled iterations"), "{found}");
    }
}
