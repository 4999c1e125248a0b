//! Keys and values that are put behind those of the steps before become an `Attention`'s own cache.

use crate::{
    dtype::DType,
    ir::{Graph, NewNode, Next, Node, NodeId, RegionId, Rewrite, Todo, ValueId},
    ops::{attention::Attention, concat::Concat},
    ty::TensorType,
};

/// The rows of keys or values of a step, and where they are put.
struct Appended {
    past: ValueId,
    new: ValueId,
    /// The node that puts them together.
    by: NodeId,
}

/// Lets an `Attention` of what two `Concat` give put it together. Who else uses their results has them
/// from it.
pub fn append(cx: &mut Rewrite<'_>, id: NodeId, _: &[Todo], into: RegionId, _: &[ValueId]) -> Next {
    let old = cx.old;
    let Some([keys, values]) = caches(old, &old[id]) else { return Next::Copy };
    let node = &old[id];
    let given = [node.inputs[0], Some(keys.new), Some(values.new), node.input(3)];
    let inputs = given.into_iter().chain([Some(keys.past), Some(values.past)]);
    let inputs = inputs.map(|id| id.map(|id| cx.value(id))).collect();
    let results = [id, keys.by, values.by].map(|id| old[id].outputs[0]);
    let names = results.map(|id| id.map(|id| old[id].name.clone()));
    let new =
        NewNode { name: &node.name, op: node.op.clone(), inputs, outputs: &names, regions: vec![] };
    let made = cx.add(into, new);
    let made = cx.new[made].outputs.clone();
    for (node, output) in [id, keys.by, values.by].into_iter().zip(made) {
        cx.stand_for(node, &[output]);
    }
    Next::Done
}

/// The keys and the values of an `Attention` that has no cache yet, where both are put together for
/// it. Where queries stand among keys must not matter: with a cache, they are those behind it.
fn caches(graph: &Graph, node: &Node) -> Option<[Appended; 2]> {
    let op = node.op.downcast::<Attention>()?;
    let everywhere = !op.is_causal && op.left.is_none() && op.right.is_none();
    let alone = node.inputs.iter().skip(4).chain(node.outputs.iter().skip(1)).all(Option::is_none);
    if !everywhere || !alone {
        return None;
    }
    let (keys, values) = (appended(graph, node.input(1)?)?, appended(graph, node.input(2)?)?);
    let rows = |id| Some(&single(graph, id)?.shape[2]);
    let same = rows(keys.past)? == rows(values.past)? && rows(keys.new)? == rows(values.new)?;
    (same && keys.by != values.by).then_some([keys, values])
}

/// What is put together along the rows of heads.
fn appended(graph: &Graph, value: ValueId) -> Option<Appended> {
    let by = graph[value].producer?;
    let node = &graph[by];
    let rows = matches!(node.op.downcast::<Concat>()?.axis, 2 | -2);
    let &[Some(past), Some(new)] = node.inputs.as_slice() else { return None };
    (rows && single(graph, past).is_some()).then_some(Appended { past, new, by })
}

/// The type of a value of four axes in single precision, which has a kernel for this.
fn single(graph: &Graph, value: ValueId) -> Option<&TensorType> {
    let ty = graph[value].ty.as_tensor()?;
    (ty.dtype == DType::F32 && ty.rank() == 4).then_some(ty)
}
