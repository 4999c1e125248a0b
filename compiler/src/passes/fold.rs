//! Constant folding: the kernels compute nodes of constant inputs when the model is compiled.

use super::budget::Budget;
use crate::{
    arena::Id,
    dim::Dim,
    dtype::DType,
    interpreter,
    ir::{self, Graph, NewNode, Node, Outputs, RegionId, Site, ValueId},
    limits::Limit,
    ops::{
        blockwise::DequantizeBlocks, cast::Cast, composite::Composite, quantize::DequantizeLinear,
        reshape::Identity, sizes::Sizes,
    },
    plan::{FreeSizes, Optimize, Precision},
    tensor::{Data, Tensor},
    ty::count,
};
use std::{collections::BTreeSet, rc::Rc};

/// Replaces `Identity(x)` by `x`.
pub fn remove_identity(_: &mut Site<'_>, node: &Node) -> Option<Vec<Option<ValueId>>> {
    node.op.is::<Identity>().then(|| vec![node.input(0)])
}

/// Removes a `Cast` to the element type that its input has.
pub fn remove_cast(site: &mut Site<'_>, node: &Node) -> Option<Vec<Option<ValueId>>> {
    let (cast, input) = (node.op.downcast::<Cast>()?, node.input(0)?);
    (site.graph[input].ty.as_tensor()?.dtype == cast.to).then(|| vec![Some(input)])
}

/// Expands a composite operator to the nodes that define it.
pub fn expand_composite(site: &mut Site<'_>, node: &Node) -> Option<Vec<Option<ValueId>>> {
    let composite = node.op.downcast::<Composite>()?;
    let (region, inputs) = (site.region, node.inputs.clone());
    let values = composite.expand(site.graph, region, inputs, node.outputs.len()).ok()?;
    for (&value, name) in values.iter().zip(site.names().to_vec()) {
        if let Some(name) = name.filter(|_| !node.inputs.contains(&Some(value))) {
            site.graph.rename(value, &name);
        }
    }
    Some(values.into_iter().map(Some).collect())
}

/// Folds a node to constants if its inputs are constants, or if its elements are known otherwise.
/// Elements that are known as symbolic sizes become a [`Sizes`] node, which needs no input.
pub fn fold(site: &mut Site<'_>, node: &Node, budget: &Budget) -> Option<Outputs> {
    fold_or(site, node, budget, write_sizes)
}

/// Folds as [`fold`] does, except dequantization, whose integer input a kernel may read.
pub fn fold_unquantized(site: &mut Site<'_>, node: &Node, budget: &Budget) -> Option<Outputs> {
    if dequantizes(node) { None } else { fold(site, node, budget) }
}

/// Folds as [`fold_tensors`] does, except dequantization.
pub fn fold_standard(site: &mut Site<'_>, node: &Node, budget: &Budget) -> Option<Outputs> {
    if dequantizes(node) { None } else { fold_tensors(site, node, budget) }
}

fn dequantizes(node: &Node) -> bool {
    node.op.is::<DequantizeLinear>() || node.op.is::<DequantizeBlocks>()
}

/// Folds as [`fold`] does, but keeps nodes whose elements are symbolic sizes: the graph that the
/// nodes are moved to may have other symbols.
pub fn fold_tensors(site: &mut Site<'_>, node: &Node, budget: &Budget) -> Option<Outputs> {
    fold_or(site, node, budget, |_, _, _, _, _| None)
}

/// Replaces a node whose outputs are not known as numbers, or declines.
type Otherwise =
    fn(&mut Graph, RegionId, &Node, &Graph, &[ValueId]) -> Option<Vec<Option<ValueId>>>;

fn fold_or(
    site: &mut Site<'_>,
    node: &Node,
    budget: &Budget,
    otherwise: Otherwise,
) -> Option<Outputs> {
    let g = &*site.graph;
    if node.op.is_random() || node.op.is_kept() || !node.regions.is_empty() {
        return None;
    }
    let inputs: Vec<Option<Tensor>> = node
        .inputs
        .iter()
        .map(|id| id.map(|id| g[id].constant.clone()))
        .map(|t| t.flatten())
        .collect();
    let all = node.inputs.iter().zip(&inputs).all(|(id, tensor)| id.is_some() == tensor.is_some());
    let mut alone = Graph::new(Rc::default());
    alone.budget = g.budget.clone();
    let ids = node.inputs.iter().zip(inputs.clone()).map(|(&id, tensor)| {
        let value = &g[id?];
        Some(match tensor {
            Some(tensor) => alone.constant(&value.name, tensor),
            None => alone.value(&value.name, value.ty.clone()),
        })
    });
    let ids: Vec<Option<ValueId>> = ids.collect();
    let names: Vec<Option<String>> =
        node.outputs.iter().map(|id| id.map(|id| format!("{}", id.index()))).collect();
    let new = NewNode {
        name: &node.name,
        op: node.op.clone(),
        inputs: ids,
        outputs: &names,
        regions: Vec::new(),
    };
    let (id, result) = alone.node(alone.body, new);
    result.ok()?;
    let outputs: Vec<ValueId> = alone[id].outputs.iter().flatten().copied().collect();
    // An output of symbolic sizes is known only at run time, even without inputs.
    let is_symbolic =
        |id: &ValueId| alone[*id].known.iter().flatten().any(|element| element.known().is_none());
    let all = all && !outputs.iter().any(is_symbolic);
    let known = |&id: &ValueId| known_elements(&alone, id).or_else(|| view_constant(&alone, id));
    let known: Option<Vec<Tensor>> = outputs.iter().map(known).collect();
    let tensors = match known {
        Some(tensors) => tensors,
        None if all => evaluate_within_budget(site, alone, outputs, node, budget)?,
        None => return otherwise(site.graph, site.region, node, &alone, &outputs),
    };
    let mut tensors = tensors.into_iter();
    let constant = |name: &Option<String>| {
        name.as_ref()?;
        Some(site.graph.constant(&node.name, tensors.next()?))
    };
    Some(names.iter().map(constant).collect())
}

/// Replaces a node whose elements are known as symbolic sizes by a [`Sizes`] node.
fn write_sizes(
    g: &mut Graph,
    into: RegionId,
    node: &Node,
    alone: &Graph,
    outputs: &[ValueId],
) -> Option<Vec<Option<ValueId>>> {
    let &[output] = outputs else { return None };
    let ty = alone[output].ty.as_tensor()?;
    let binds = alone.nodes().any(|(_, node)| !node.binds.is_empty() || !node.checks.is_empty());
    if node.op.is::<Sizes>() || binds || ty.dtype != DType::I64 || ty.rank() > 1 {
        return None;
    }
    let sizes = Sizes { sizes: alone[output].known.clone()?, rank: ty.rank() };
    Some(vec![g.add(into, &node.name, sizes, &[]).ok()])
}

/// Computes the outputs, unless they are much larger than the inputs of the node or the budget of
/// the rewrite is spent.
fn evaluate_within_budget(
    site: &mut Site<'_>,
    alone: Graph,
    outputs: Vec<ValueId>,
    node: &Node,
    budget: &Budget,
) -> Option<Vec<Tensor>> {
    let inputs: BTreeSet<ValueId> = node.inputs.iter().flatten().copied().collect();
    let constant = |id: &ValueId| site.graph[*id].constant.as_ref();
    let before: usize = inputs.iter().filter_map(constant).map(Tensor::held_bytes).sum();
    // No operator makes a text that is longer than one of each input together.
    let text: usize =
        node.inputs.iter().flatten().filter_map(constant).map(Tensor::longest_text).sum();
    let size = |&id: &ValueId| {
        let ty = alone[id].ty.as_tensor()?;
        let text = if ty.dtype == DType::String { text } else { 0 };
        usize::try_from(ty.len().known()?).ok()?.checked_mul(ty.dtype.bytes().saturating_add(text))
    };
    let after: usize = outputs.iter().map(size).sum::<Option<usize>>()?;
    let most = before.saturating_add(site.graph.budget.limit(Limit::FoldedGrowth));
    let fits = after <= most && budget.take(after);
    let work = site.graph.budget.limit(Limit::FoldedWork);
    fits.then(|| evaluate_within(alone, outputs, work)).flatten()
}

/// Computes `outputs` of a graph without inputs in the interpreter.
pub fn evaluate(graph: Graph, outputs: Vec<ValueId>) -> Option<Vec<Tensor>> {
    evaluate_within(graph, outputs, usize::MAX)
}

/// [`evaluate`], unless that takes more than `work` multiply-adds.
fn evaluate_within(mut graph: Graph, outputs: Vec<ValueId>, work: usize) -> Option<Vec<Tensor>> {
    graph.set_outputs(graph.body, outputs);
    let plan = ir::plan(&graph, Optimize::Size, Precision::Full, FreeSizes::Heap).ok()?;
    if usize::try_from(plan.macs).is_ok_and(|macs| macs > work) {
        return None;
    }
    let values = interpreter::evaluate(&plan).ok()?.into_iter();
    values.map(|value| value.into_tensor().map(Tensor::laid_aside)).collect()
}

/// Returns the constant that is a view of another one and shares its bytes.
fn view_constant(g: &Graph, id: ValueId) -> Option<Tensor> {
    let (home, start) = ir::home(g, id);
    let (whole, ty) = (g[home].constant.as_ref()?, g[id].ty.as_tensor()?);
    let (shape, start) = (ty.known_shape()?, usize::try_from(start.known()?).ok()?);
    let Data::Bytes(bytes) = &whole.data else { return None };
    let size = ty.dtype.bytes();
    let end = start.checked_add(count(&shape))?;
    let fits = ty.dtype == whole.dtype && end <= bytes.len() / size;
    fits.then(|| Tensor::from_raw(ty.dtype, shape, bytes.slice(start * size..end * size)))
}

/// Returns a value as a constant if the compiler knows its elements as numbers.
fn known_elements(g: &Graph, id: ValueId) -> Option<Tensor> {
    let (value, ty) = (&g[id], g[id].ty.as_tensor()?);
    let ints: Vec<i64> = value.known.as_ref()?.iter().map(Dim::known).collect::<Option<_>>()?;
    let shape = ty.known_shape()?;
    if count(&shape) != ints.len() {
        return None;
    }
    let bytes: bytes::Bytes = match ty.dtype {
        DType::I64 => ints.iter().flat_map(|n| n.to_le_bytes()).collect(),
        DType::I32 => ints.iter().flat_map(|n| (*n as i32).to_le_bytes()).collect(),
        DType::Bool => ints.iter().map(|&n| u8::from(n != 0)).collect(),
        _ => return None,
    };
    Some(Tensor { dtype: ty.dtype, shape, data: Data::Bytes(bytes) })
}

#[cfg(test)]
mod tests {
    use crate::{Options, dtype::DType, interpreter, tensor::Tensor, value::Value};

    #[test]
    fn omitted_outputs_have_no_constants() {
        let text = r#"<ir_version: 12, opset_import: ["" : 24]>
            g () => (float[1, 1, 1, 2] y, float[1, 1, 1, 2] scores)
            <float[1, 1, 1, 2] q = {1.0, 2.0}, float[1, 1, 2, 2] k = {1.0, 0.0, 0.0, 1.0}>
            { y, "", "", scores = Attention<scale = 1.0>(q, k, k) }"#;
        let options = Options::default();
        let plan = crate::Compiler::new(&options)
            .plan(text.to_owned().into())
            .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let made = interpreter::run(&plan, &[]).expect("there are no inputs");
        let numbers = |value: &Value| value.tensor().and_then(Tensor::floats).expect("floats");
        assert_eq!(numbers(&made[1]), [1.0, 2.0]);
        assert!((numbers(&made[0])[1] - 0.731_058_6).abs() < 1e-6);
    }

    #[test]
    fn strings_are_folded_within_the_limit() {
        let double = |i: usize| format!("s{} = StringConcat(s{i}, s{i})\n", i + 1);
        let nodes: String = (0..40).map(double).collect();
        let text = format!(
            "<ir_version: 10, opset_import: [\"\" : 21]>
            g () => (string s40) <string s0 = {{\"ab\"}}> {{ {nodes} }}"
        );
        let plan = crate::Compiler::new(&Options::default()).plan(text.into());
        let plan = plan.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let constants = plan.buffers.iter().filter_map(|(id, _)| plan.constant(id));
        let held = constants.map(Tensor::held_bytes).max();
        assert!(held.is_some_and(|bytes| bytes < 1 << 28), "{held:?}");
    }

    #[test]
    fn symbolic_sizes_are_not_folded() {
        // A quantized graph is simplified twice; the first time makes nodes of the sizes.
        let text = r#"<ir_version: 10, opset_import: ["" : 21]>
            g (float[1, n] x, uint8[2] bytes) => (int64[2] sizes, bool few, float[2] y)
            <float scale = {0.5}, int64 one = {1}, int64 five = {5}>
            {
                sizes = Shape(x)
                n = Gather(sizes, one)
                few = Less(n, five)
                y = DequantizeLinear(bytes, scale)
            }"#;
        let plan = crate::Compiler::new(&Options::default())
            .plan(text.to_owned().into())
            .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let x = Tensor::from_numbers(DType::F32, vec![1, 7], &[0.0; 7]).expect("enough numbers");
        let bytes = Tensor::from_raw(DType::U8, vec![2], vec![1, 2].into());
        let made = interpreter::run(&plan, &[Value::Tensor(x), Value::Tensor(bytes)])
            .expect("the inputs fit the plan");
        let numbers = |i: usize| made[i].tensor().and_then(Tensor::ints).expect("whole numbers");
        assert_eq!(numbers(0), [1, 7]);
        assert_eq!(numbers(1), [0]);
    }

    #[test]
    fn folded_integers_wrap_around_as_in_kernels() {
        let text = r#"<ir_version: 10, opset_import: ["" : 21]>
            g (int64[2] n) => (int64[2] sum, int64[2] product, int64 all, int64[2] up)
            <int64[2] ends = {9223372036854775807, -9223372036854775808}, int64[2] ones = {1, -1},
             int64[2] twos = {2, 2}>
            {
                sum = Add(ends, ones)
                product = Mul(ends, twos)
                twice = Concat<axis = 0>(ends, ends)
                all = ReduceSum<keepdims = 0>(twice)
                up = Add(sum, n)
            }"#;
        let plan = crate::Compiler::new(&Options::default())
            .plan(text.to_owned().into())
            .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let n = Value::Tensor(Tensor::from_ints(&[1, 1]));
        let made = interpreter::run(&plan, &[n]).expect("the input fits");
        let numbers = |i: usize| made[i].tensor().and_then(Tensor::ints).expect("whole numbers");
        assert_eq!(numbers(0), [i64::MIN, i64::MAX]);
        assert_eq!(numbers(1), [-2, 0]);
        assert_eq!(numbers(2), [-2]);
        assert_eq!(numbers(3), [i64::MIN + 1, i64::MIN]);
    }

    #[test]
    fn intermediate_overflow_is_computed_by_kernels() {
        let found = |nodes: &str| {
            let text = format!(
                "<ir_version: 10, opset_import: [\"\" : 21]> g () => (z)
                 <int64[3] sum = {{9223372036854775807, 1, -5}},
                  int64[3] product = {{4611686018427387904, 4, -1}}, int64 two = {{-2}},
                  int64 far = {{9223372036854775807}}, int64 step = {{4611686018427387904}},
                  uint8 many = {{200}}, uint8 more = {{100}}, int32 most = {{2147483647}},
                  int32 one = {{1}}, bool yes = {{1}}>
                 {{ {nodes} }}"
            );
            let planned = crate::Compiler::new(&Options::default()).plan(text.into());
            let plan = planned.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
            let made = interpreter::run(&plan, &[]).expect("there are no inputs");
            made[0].tensor().and_then(Tensor::ints).expect("whole numbers")
        };
        assert_eq!(found("z = ReduceSum(sum)"), [i64::MAX - 4]);
        assert_eq!(found("z = ReduceProd(product)"), [0]);
        assert_eq!(found("z = Range(two, far, step)"), [-2, (1 << 62) - 2, i64::MAX - 1]);
        assert_eq!(found("a = Add(many, more) z = Cast<to = 7>(a)"), [44]);
        assert_eq!(found("a = Sub(more, many) z = Cast<to = 7>(a)"), [156]);
        assert_eq!(found("a = Add(most, one) z = Cast<to = 7>(a)"), [i64::from(i32::MIN)]);
        assert_eq!(found("a = Not(yes) z = Cast<to = 7>(a)"), [0]);
    }
}
