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
    if ![&keys, &values].iter().all(|rows| is_joined_here(cx, rows, into)) {
        return Next::Copy;
    }
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

/// Whether the rows are put together in this region, and are not an `Attention`'s yet: what is made in
/// a branch or in a iteration is not there for others outside.
fn is_joined_here(cx: &Rewrite<'_>, rows: &Appended, into: RegionId) -> bool {
    let made = cx.old[rows.by].outputs[0].and_then(|id| cx.to.get(id));
    let by = made.and_then(|&id| cx.new[id].producer);
    by.is_some_and(|by| cx.new[by].op.is::<Concat>() && cx.new[into].nodes.contains(&by))
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

#[cfg(test)]
mod tests {
    use crate::{Options, interpreter, tensor::Tensor, value::Value};

    /// The graph in the end, and what it gives for queries, keys and values of ones, and a cache of twos.
    fn run(outputs: &str, body: &str) -> (String, Vec<Vec<f64>>) {
        let text = format!(
            "<ir_version: 10, opset_import: [\"\" : 23]>
             g (float[1, 1, 1, 2] x, float[1, 1, 2, 2] past, bool c) => ({outputs}) {{
                 keys = Concat<axis = 2>(past, x)
                 minus = Neg(x)
                 values = Concat<axis = 2>(past, minus)
                 {body}
             }}"
        );
        let mut graph = String::new();
        let (plan, _) = crate::plan(text.into(), &Options::default(), &mut |_, made| {
            graph = made.to_string();
        })
        .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let floats = |shape: &[usize], x: f32| {
            let numbers = vec![x; shape.iter().product()];
            Value::Tensor(Tensor { shape: shape.to_vec(), ..Tensor::from_floats(&numbers) })
        };
        let no = Value::Tensor(Tensor::from_raw(crate::dtype::DType::Bool, vec![], vec![0].into()));
        let inputs = [floats(&[1, 1, 1, 2], 1.0), floats(&[1, 1, 2, 2], 2.0), no];
        let made = interpreter::run(&plan, &inputs).expect("the inputs fit");
        let floats = |value: &Value| value.tensor().and_then(Tensor::floats).expect("floats");
        (graph, made.iter().map(floats).collect())
    }

    #[test]
    fn what_is_joined_outside_of_a_branch_stays_there() {
        let (graph, made) = run(
            "float[1, 1, 1, 2] y, float[1, 1, 3, 2] keys",
            "y = If<then_branch = yes () => (float[1, 1, 1, 2] a) { a = Attention(x, keys, values) },
                    else_branch = no () => (float[1, 1, 1, 2] b) { b = Neg(x) }>(c)",
        );
        assert!(graph.contains("Attention") && graph.contains("Concat"), "{graph}");
        assert_eq!(made, [vec![-1.0, -1.0], vec![2.0, 2.0, 2.0, 2.0, 1.0, 1.0]]);
    }

    #[test]
    fn a_cache_of_two_is_filled_once() {
        let (graph, made) = run(
            "float[1, 1, 1, 2] a, float[1, 1, 1, 2] b, float[1, 1, 3, 2] values",
            "a = Attention(x, keys, values)
             twice = Add(x, x)
             b = Attention(twice, keys, values)",
        );
        assert!(!graph.contains("Concat"), "{graph}");
        assert_eq!(graph.matches("past, past").count(), 1, "{graph}");
        assert!(made[..2].iter().flatten().all(|y| (-1.0..2.0).contains(y)), "{made:?}");
        assert_eq!(made[2], [2.0, 2.0, 2.0, 2.0, -1.0, -1.0]);
    }
}
