//! Fuses a KV cache into `Attention`: the `Concat`s of past and new keys and values become the
//! operator's `past_key` and `past_value`.

use crate::{
    dtype::DType,
    ir::{Graph, NewNode, Next, Node, NodeId, RegionId, Rewrite, Todo, ValueId},
    ops::{attention::Attention, concat::Concat},
    ty::TensorType,
};

/// A `Concat` of past and new keys, or of past and new values.
struct Appended {
    past: ValueId,
    new: ValueId,
    /// The `Concat`.
    concat: NodeId,
}

/// Returns whether [`fuse_cache`] may find a cache.
pub fn has_cache(graph: &Graph) -> bool {
    graph.nodes().any(|(_, node)| caches(graph, node).is_some())
}

/// Replaces an `Attention` over two `Concat`s by one that appends to its cache. Other uses of the
/// `Concat`s read `present_key` and `present_value` instead.
pub fn fuse_cache(
    cx: &mut Rewrite<'_>,
    id: NodeId,
    _: &[Todo],
    into: RegionId,
    _: &[ValueId],
) -> Next {
    let old = cx.old;
    let Some([keys, values]) = caches(old, &old[id]) else { return Next::Copy };
    if ![&keys, &values].iter().all(|rows| is_concat_in(cx, rows, into)) {
        return Next::Copy;
    }
    let node = &old[id];
    let inputs = [node.inputs[0], Some(keys.new), Some(values.new), node.input(3)];
    let inputs = inputs.into_iter().chain([Some(keys.past), Some(values.past)]);
    let inputs = inputs.map(|id| id.map(|id| cx.value(id))).collect();
    let results = [id, keys.concat, values.concat].map(|id| old[id].outputs[0]);
    let names = results.map(|id| id.map(|id| old[id].name.clone()));
    let new =
        NewNode { name: &node.name, op: node.op.clone(), inputs, outputs: &names, regions: vec![] };
    let attention = cx.add(into, new);
    let outputs = cx.new[attention].outputs.clone();
    for (node, output) in [id, keys.concat, values.concat].into_iter().zip(outputs) {
        cx.stand_for(node, &[output]);
    }
    Next::Done
}

/// Returns whether the `Concat` is copied to this region and not fused yet. Values that a branch or
/// a loop body computes are not visible outside of it.
fn is_concat_in(cx: &Rewrite<'_>, rows: &Appended, into: RegionId) -> bool {
    let copy = cx.old[rows.concat].outputs[0].and_then(|id| cx.to.get(id));
    let producer = copy.and_then(|&id| cx.new[id].producer);
    let is_concat = |id: NodeId| cx.new[id].op.is::<Concat>() && cx.new[into].nodes.contains(&id);
    producer.is_some_and(is_concat)
}

/// Returns the keys and values of an `Attention` without a cache if both are `Concat`s. The
/// operator must not mask by position: with a cache, queries are positioned after the past keys.
fn caches(graph: &Graph, node: &Node) -> Option<[Appended; 2]> {
    let op = node.op.downcast::<Attention>()?;
    let is_unmasked = !op.is_causal && op.left.is_none() && op.right.is_none();
    let is_simple =
        node.inputs.iter().skip(4).chain(node.outputs.iter().skip(1)).all(Option::is_none);
    if !is_unmasked || !is_simple {
        return None;
    }
    let (keys, values) = (appended(graph, node.input(1)?)?, appended(graph, node.input(2)?)?);
    let rows = |id| Some(&f32_of_rank_4(graph, id)?.shape[2]);
    let same = rows(keys.past)? == rows(values.past)? && rows(keys.new)? == rows(values.new)?;
    (same && keys.concat != values.concat).then_some([keys, values])
}

/// Returns the operands of a `Concat` along the sequence axis of `[batch, heads, sequence, size]`.
fn appended(graph: &Graph, value: ValueId) -> Option<Appended> {
    let concat = graph[value].producer?;
    let node = &graph[concat];
    let is_sequence_axis = matches!(node.op.downcast::<Concat>()?.axis, 2 | -2);
    let &[Some(past), Some(new)] = node.inputs.as_slice() else { return None };
    (is_sequence_axis && f32_of_rank_4(graph, past).is_some()).then_some(Appended {
        past,
        new,
        concat,
    })
}

/// Returns the type of an `f32` value of rank 4, the only kind that the kernel with a cache takes.
fn f32_of_rank_4(graph: &Graph, value: ValueId) -> Option<&TensorType> {
    let ty = graph[value].ty.as_tensor()?;
    (ty.dtype == DType::F32 && ty.rank() == 4).then_some(ty)
}

#[cfg(test)]
mod tests {
    use crate::{Options, interpreter, tensor::Tensor, value::Value};

    /// Returns the final graph, and its outputs for `x` of ones and a cache of twos.
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
        let plan = crate::Compiler::new(&Options::default())
            .observe(|_, made| {
                graph = made.to_string();
            })
            .plan(text.into())
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
    fn a_concat_outside_of_a_branch_stays_there() {
        let (graph, made) = run(
            "float[1, 1, 1, 2] y, float[1, 1, 3, 2] keys",
            "y = If<
                then_branch = yes () => (float[1, 1, 1, 2] a) { a = Attention(x, keys, values) },
                else_branch = no () => (float[1, 1, 1, 2] b) { b = Neg(x) }
            >(c)",
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
