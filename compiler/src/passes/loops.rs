//! Removes loops whose number of iterations is known at compile time.
//!
//! A loop without iterations returns its inputs. A loop of one iteration becomes its body. A loop
//! of constants alone is evaluated. Any other loop stays: unrolled, it would be longer code that is
//! no faster.

use super::{budget::Budget, known::KnownConditions, sequence};
use crate::{
    array::Array,
    dtype::DType,
    ir::{self, Graph, Next, Node, NodeId, Outputs, RegionId, Rewrite, Site, Todo, ValueId},
    limits::Limit,
    ops::{
        control::{
            loop_op::{HEAD, Loop},
            scan::Scan,
        },
        custom::Custom,
        reshape::{Squeeze, Unsqueeze},
        sequence::{SequenceConstruct, SequenceEmpty},
    },
    plan::{FreeSizes, Optimize, Precision},
    tensor::Tensor,
    ty::TensorType,
    value::Value,
};

/// The most nodes that are evaluated to find out whether a loop continues after its first
/// iteration.
const MAX_TRIED_NODES: usize = 16;

/// Inlines a loop of at most one iteration.
pub fn inline_short_loop(
    cx: &mut Rewrite<'_>,
    known: &KnownConditions,
    id: NodeId,
    into: RegionId,
) -> Option<Next> {
    let node = &cx.old[id];
    let iterations = match node.op.downcast::<Scan>() {
        Some(scan) => Iterations::of_scan(node, scan)?,
        None => Iterations::of_loop(node)?,
    };
    let is_whole = node.fault.is_none() && !cx.old.is_faulty(iterations.body);
    let outputs = match iterations.count(cx, known, node).filter(|_| is_whole)? {
        0 => iterations.empty_outputs(cx, node)?,
        _ => iterations.inline_body(cx, node, into)?,
    };
    cx.stand_for(id, &outputs);
    Some(Next::Done)
}

/// The common form of `Loop` and `Scan`.
struct Iterations {
    body: RegionId,
    /// The number of loop-carried values, the index of the first of them among the node's inputs,
    /// and among the body's outputs.
    carried: usize,
    input: usize,
    result: usize,
    /// The scanned inputs, each with the axis along which it is scanned.
    parts: Vec<(usize, i64)>,
    /// The axes along which scan outputs are concatenated. A missing one is 0.
    axes: Vec<i64>,
}

impl Iterations {
    fn of_loop(node: &Node) -> Option<Iterations> {
        let (&[body], true) = (node.regions.as_slice(), node.op.is::<Loop>()) else { return None };
        let carried = node.inputs.len().checked_sub(HEAD)?;
        let (parts, axes) = (Vec::new(), Vec::new());
        Some(Iterations { body, carried, input: HEAD, result: 1, parts, axes })
    }

    fn of_scan(node: &Node, scan: &Scan) -> Option<Iterations> {
        let &[body] = node.regions.as_slice() else { return None };
        let carried = node.inputs.len().checked_sub(scan.scanned)?;
        let axis = |i: usize| (carried + i, scan.axes.get(i).copied().unwrap_or(0));
        let parts = (0..scan.scanned).map(axis).collect();
        let axes = scan.output_axes.clone();
        Some(Iterations { body, carried, input: 0, result: 0, parts, axes })
    }

    /// The number of iterations, if it is known to be 0 or 1.
    fn count(&self, cx: &mut Rewrite<'_>, known: &KnownConditions, node: &Node) -> Option<usize> {
        if let Some(&(input, axis)) = self.parts.first() {
            let whole = cx.value(node.input(input)?);
            let shape = &cx.new[whole].ty.as_tensor()?.shape;
            let axis = axis.checked_rem_euclid(i64::try_from(shape.len()).ok()?)?;
            let size = shape[usize::try_from(axis).ok()?].known();
            return usize::try_from(size?).ok().filter(|&size| size <= 1);
        }
        let most = node.input(0).map(|id| cx.value(id));
        let most = most.map(|most| cx.new[most].ints().and_then(|most| most.first().copied()));
        let starts = node.input(1).map(|id| cx.value(id));
        let starts = starts
            .map_or(Some(true), |starts| known.decide(&cx.new, starts).map(|branch| branch == 0));
        match (most, starts) {
            (Some(Some(..=0)), _) | (_, Some(false)) => Some(0),
            (_, None) => None,
            (Some(Some(1)), Some(true)) => Some(1),
            (Some(None), Some(true)) => None,
            (None | Some(Some(_)), Some(true)) => self.stops(cx, known, node)?.then_some(1),
        }
    }

    /// Returns whether the condition is false after the first iteration, if that is cheap to
    /// decide.
    fn stops(&self, cx: &mut Rewrite<'_>, known: &KnownConditions, node: &Node) -> Option<bool> {
        let (old, result) = (cx.old, *cx.old[self.body].outputs.first()?);
        let todo = cx.todo_for(self.body, &[result]);
        let is_simple = |next: &Todo| match next {
            Todo::Node(id) => old[*id].regions.is_empty() && !old[*id].op.is_random(),
            Todo::Results(..) => false,
        };
        if todo.len() > MAX_TRIED_NODES || !todo.iter().all(is_simple) {
            return None;
        }
        self.bind_inputs(cx, node, &[])?;
        let aside = cx.new.region("the first iteration");
        let result = *cx.rest(&todo, aside, &[result]).first()?;
        known.decide(&cx.new, result).map(|branch| branch == 1)
    }

    /// Binds the inputs of the body to those of the first iteration. `parts` are the scanned ones.
    fn bind_inputs(&self, cx: &mut Rewrite<'_>, node: &Node, parts: &[ValueId]) -> Option<()> {
        let carried = &node.inputs[self.input..][..self.carried];
        let mut given = match self.input {
            0 => Vec::new(),
            _ => vec![
                cx.new.constant("iteration", Tensor::from_int(0)),
                cx.new.constant("goes on", Tensor::from_bool(true)),
            ],
        };
        for id in carried {
            given.push(cx.value((*id)?));
        }
        given.extend(parts);
        cx.give(self.body, &given);
        Some(())
    }

    /// The outputs of a loop without iterations.
    fn empty_outputs(&self, cx: &mut Rewrite<'_>, node: &Node) -> Option<Outputs> {
        let mut outputs = Outputs::new();
        for (i, output) in node.outputs.iter().enumerate() {
            let mut value = |output: ValueId| match i < self.carried {
                true => Some(cx.value(node.input(self.input + i)?)),
                false => {
                    let empty = self.empty(cx.old[output].ty.as_tensor()?, i - self.carried)?;
                    Some(cx.new.constant(&cx.old[output].name, empty))
                }
            };
            outputs.push(match *output {
                Some(output) => Some(value(output)?),
                None => None,
            });
        }
        Some(outputs)
    }

    /// Scan output `i` of a loop without iterations: an empty tensor.
    fn empty(&self, ty: &TensorType, i: usize) -> Option<Tensor> {
        let rank = i64::try_from(ty.rank()).ok()?;
        let axis = self.axes.get(i).copied().unwrap_or(0).checked_rem_euclid(rank)?;
        let mut ty = ty.clone();
        ty.shape[usize::try_from(axis).ok()?] = 0.into();
        Some(Array::zeroed(ty.dtype, 0).into_tensor(ty.known_shape()?))
    }

    /// Inlines the body of a loop of one iteration, and returns the node's outputs.
    fn inline_body(&self, cx: &mut Rewrite<'_>, node: &Node, into: RegionId) -> Option<Outputs> {
        let old = cx.old;
        let results = &old[self.body].outputs[self.result..];
        let mut parts = Vec::new();
        for &(input, axis) in &self.parts {
            let whole = cx.value(node.input(input)?);
            let axes = cx.new.constant("axes", Tensor::from_ints(&[axis]));
            let name = format!("{}/part", cx.new[whole].name);
            parts.push(cx.new.add(into, &name, Squeeze, &[whole, axes]).ok()?);
        }
        self.bind_inputs(cx, node, &parts)?;
        let pairs = node.outputs.iter().zip(results);
        let wanted: Vec<ValueId> =
            pairs.filter(|(output, _)| output.is_some()).map(|(_, &result)| result).collect();
        let todo = cx.todo_for(self.body, &wanted);
        let mut found = cx.rest(&todo, into, &wanted).into_iter();
        let mut outputs = Outputs::new();
        for (i, output) in node.outputs.iter().enumerate() {
            let Some(output) = *output else {
                outputs.push(None);
                continue;
            };
            let result = found.next()?;
            outputs.push(Some(match i.checked_sub(self.carried) {
                None => result,
                Some(i) => {
                    let axis = self.axes.get(i).copied().unwrap_or(0);
                    let axes = cx.new.constant("axes", Tensor::from_ints(&[axis]));
                    let name = old[output].name.as_str();
                    cx.new.add(into, name, Unsqueeze, &[result, axes]).ok()?
                }
            }));
        }
        Some(outputs)
    }
}

/// Evaluates a loop whose inputs are all constants, unless that exceeds the budget.
pub fn constants(site: &mut Site<'_>, node: &Node, budget: &Budget) -> Option<Outputs> {
    let graph = &*site.graph;
    let given = node.inputs.iter().flatten().map(|&id| bytes(graph, id)).sum::<Option<usize>>();
    let given = given.filter(|_| !node.regions.is_empty() && node.fault.is_none())?;
    if !node.regions.iter().all(|&region| is_closed(graph, region)) {
        return None;
    }
    let alone = ir::alone(graph, node).ok()?;
    let plan = ir::plan(&alone, Optimize::Size, Precision::Full, FreeSizes::Heap).ok()?;
    let found = budget.run(&plan)?;
    let made: usize = found.iter().map(bytes_of).sum::<Option<usize>>()?;
    let most = given.saturating_add(graph.budget.limit(Limit::FoldedGrowth));
    if made > most || !budget.take(made) {
        return None;
    }
    let mut found = alone[alone.body].outputs.iter().zip(found);
    let mut outputs = Outputs::new();
    for name in site.names().to_vec() {
        outputs.push(match name {
            None => None,
            Some(name) => {
                let (&output, value) = found.next()?;
                Some(add_result(site, &name, alone[output].ty.dtype()?, value)?)
            }
        });
    }
    Some(outputs)
}

/// The number of bytes of a value, if it is a constant or a sequence of constants.
fn bytes(graph: &Graph, id: ValueId) -> Option<usize> {
    let bytes = |id: ValueId| graph[id].constant.as_ref().map(|tensor| tensor.bytes().len());
    bytes(id).or_else(|| sequence::tensors(graph, id)?.into_iter().map(bytes).sum())
}

fn bytes_of(value: &Value) -> Option<usize> {
    match value {
        Value::Tensor(tensor) => Some(tensor.bytes().len()),
        Value::Sequence(tensors) if tensors.len() <= sequence::MAX_LENGTH => {
            tensors.iter().map(|value| Some(value.tensor()?.bytes().len())).sum()
        }
        _ => None,
    }
}

/// Returns whether a region captures nothing, and returns the same results each time it runs. Text
/// is excluded: few elements may hold text of any length.
fn is_closed(graph: &Graph, region: RegionId) -> bool {
    let text = |id: &ValueId| graph[*id].ty.dtype() == Some(DType::String);
    graph.captures(region).is_empty()
        && graph.walk(region).all(|(_, node)| {
            let is_pure = !node.op.is_random() && !node.op.is::<Custom>() && node.fault.is_none();
            is_pure && !node.outputs.iter().flatten().any(text)
        })
}

/// Adds an evaluated result to the graph as a constant, or as a sequence of constants.
fn add_result(site: &mut Site<'_>, name: &str, dtype: DType, found: Value) -> Option<ValueId> {
    let tensors = match found {
        Value::Tensor(tensor) => return Some(site.graph.constant(name, tensor.laid_aside())),
        Value::Sequence(tensors) => tensors,
        Value::Optional(_) | Value::Map(..) => return None,
    };
    let (graph, region) = (&mut *site.graph, site.region);
    if tensors.is_empty() {
        return graph.add(region, name, SequenceEmpty { dtype }, &[]).ok();
    }
    let tensors = tensors.into_iter().map(|value| Some(graph.constant(name, value.into_tensor()?)));
    let tensors = tensors.collect::<Option<Vec<_>>>()?;
    graph.add(region, name, SequenceConstruct, &tensors).ok()
}

#[cfg(test)]
mod tests {
    use crate::{Options, interpreter, tensor::Tensor, value::Value};

    const CONSTANTS: &str = "<int64 zero = {0}, int64 one = {1}, int64 three = {3}, int64 many =
        {9223372036854775807}, bool no = {0}, bool yes = {1}, float[2] ones = {1, 1}>";

    /// Names of operators, and the shape and elements of each output.
    type Run = (Vec<String>, Vec<(Vec<usize>, Vec<f64>)>);

    /// The operators left of a model with the inputs `x = [1, 2]`, `n = 3` and `c = true`, and its
    /// outputs.
    fn run(outputs: &str, nodes: &str) -> Run {
        let model = format!(
            "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[2] x, int64 n, bool c) => ({outputs}) {CONSTANTS} {{ {nodes} }}"
        );
        let mut ops = Vec::new();
        let planned = crate::Compiler::new(&Options::default())
            .observe(|pass, graph| {
                if pass == "recognize" {
                    ops =
                        graph.walk(graph.body).map(|(_, node)| node.op.name().to_owned()).collect();
                }
            })
            .plan(model.into());
        let given =
            [Tensor::from_floats(&[1.0, 2.0]), Tensor::from_int(3), Tensor::from_bool(true)];
        let plan = planned.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let found = interpreter::run(&plan, &given.map(Value::Tensor))
            .expect("the inputs have the types of the model");
        let found = found.into_iter().map(|value| {
            let tensor = value.tensor().expect("every output is a tensor").clone();
            (tensor.shape.clone(), tensor.floats().expect("every output has numbers"))
        });
        (ops, found.collect())
    }

    /// Runs a model of one loop with this trip count, condition and body.
    fn run_loop(iterations: &str, body: &str) -> Run {
        let body = format!("(int64 i, bool on, v) => (bool to, w, s) {{ {body} }}");
        run("last, all", &format!("last, all = Loop<body = b {body}>({iterations}, x)"))
    }

    const SAME: &str = "to = Identity(on) w = Add(v, x) s = Mul(v, v)";

    #[test]
    fn a_loop_without_iterations_returns_its_inputs() {
        for iterations in ["zero, c", "n, no", "\"\", no"] {
            let (ops, found) = run_loop(iterations, SAME);
            assert_eq!(ops, [""; 0]);
            assert_eq!(found, [(vec![2], vec![1.0, 2.0]), (vec![0, 2], vec![])]);
        }
    }

    #[test]
    fn a_loop_of_one_iteration_is_its_body() {
        let stops = "to = Identity(no) w = Add(v, x) s = Mul(v, v)";
        let counts = "to = Less(i, zero) w = Add(v, x) s = Mul(v, v)";
        let empty = "\"\", \"\"";
        for (iterations, body) in
            [("one, yes", SAME), ("three, yes", stops), (empty, stops), (empty, counts)]
        {
            let (ops, found) = run_loop(iterations, body);
            assert_eq!(ops, ["Add", "Mul", "Unsqueeze"]);
            assert_eq!(found, [(vec![2], vec![2.0, 4.0]), (vec![1, 2], vec![1.0, 4.0])]);
        }
    }

    #[test]
    fn any_other_stays() {
        let stops = "to = Identity(no) w = Add(v, x) s = Mul(v, v)";
        for (iterations, body) in [("one, c", SAME), ("n, yes", stops), ("three, yes", SAME)] {
            assert_eq!(run_loop(iterations, body).0[0], "Loop", "{iterations} {body}");
        }
    }

    #[test]
    fn unused_outputs_of_an_iteration_are_not_computed() {
        let body =
            "(int64 i, bool on, v) => (bool to, w, s) { to = Identity(on) w = Neg(v) s = Exp(v) }";
        let (ops, found) = run("last", &format!("last = Loop<body = b {body}>(one, yes, x)"));
        assert_eq!((ops, found), (vec!["Neg".into()], vec![(vec![2], vec![-1.0, -2.0])]));
    }

    #[test]
    fn a_scan_along_an_axis_of_one_is_its_body() {
        let scan = |x: &str| {
            run(
                "last, all",
                &format!(
                    "axes = Constant<value_ints = [1]>() cut = Constant<value_ints = [0]>()
                    {x}
                    last, all = Scan<
                        num_scan_inputs = 1, scan_input_axes = [-1], scan_output_axes = [1],
                        body = b (v, p) => (w, s) {{ w = Add(v, p) s = Mul(v, p) }}
                    >(ones, parts)"
                ),
            )
        };
        let (ops, found) = scan("parts = Unsqueeze(x, axes)");
        assert!(!ops.contains(&"Scan".to_owned()), "{ops:?}");
        assert_eq!(found, [(vec![2], vec![2.0, 3.0]), (vec![2, 1], vec![1.0, 2.0])]);
        let (ops, found) = scan("whole = Unsqueeze(x, axes) parts = Slice(whole, cut, cut, axes)");
        assert_eq!(ops, [""; 0]);
        assert_eq!(found, [(vec![2], vec![1.0, 1.0]), (vec![2, 0], vec![])]);
    }

    #[test]
    fn nested_loops_and_loops_of_sequences_are_unrolled() {
        let (ops, found) = run(
            "y",
            "none = SequenceEmpty()
            all = Loop<body = b (int64 i, bool on, list) => (bool to, more) {
                to = Identity(on)
                in = Loop<body = d (int64 j, bool still, w) => (bool goes, z) {
                    goes = Identity(no)
                    z = Add(w, x)
                }>(n, yes, x)
                more = SequenceInsert(list, in)
            }>(one, \"\", none)
            y = ConcatFromSequence<axis = 0>(all)",
        );
        assert_eq!(ops[0], "Loop", "nothing says that `n` is not 0");
        assert_eq!(found, [(vec![2], vec![2.0, 4.0])]);
    }

    #[test]
    fn a_loop_of_constants_is_constants() {
        let (ops, found) = run(
            "last, all, y",
            "none = SequenceEmpty()
            last, list, all = Loop<body = b (int64 i, bool on, v, l) => (bool to, w, m, s) {
                w = Add(v, v)
                s = ReduceSum<keepdims = 0>(w)
                m = SequenceInsert(l, w)
                to = Less(i, one)
            }>(many, \"\", ones, none)
            y = ConcatFromSequence<axis = 0>(list)",
        );
        assert_eq!(ops, [""; 0]);
        let y = vec![2.0, 2.0, 4.0, 4.0];
        let expected = [(vec![2], vec![4.0, 4.0]), (vec![2], vec![4.0, 8.0]), (vec![4], y)];
        assert_eq!(found, expected);
    }

    #[test]
    fn long_loops_are_not_folded() {
        for body in [
            // The first never ends. The second needs more memory than any machine has.
            "to = Less(i, many) w = Add(v, v)",
            "to = Identity(on) w = Concat<axis = 0>(v, v)",
        ] {
            let model = format!(
                "<ir_version: 10, opset_import: [\"\" : 21]> g () => (last) {CONSTANTS} {{
                    last = Loop<
                        body = b (int64 i, bool on, v) => (bool to, w) {{ {body} }}
                    >(many, yes, ones)
                }}"
            );
            let planned = crate::Compiler::new(&Options::default()).plan(model.into());
            assert!(planned.is_ok_and(|plan| plan.steps.len() == 1), "{body}");
        }
    }

    #[test]
    fn outputs_of_an_iteration_have_the_size_of_that_iteration() {
        // One iteration: a second one would have a larger input.
        let (_, found) = run_loop("n, c", "to = Not(c) w = Concat<axis = 0>(v, x) s = Identity(v)");
        assert_eq!(found, [(vec![4], vec![1.0, 2.0, 1.0, 2.0]), (vec![1, 2], vec![1.0, 2.0])]);
    }

    #[test]
    fn scan_outputs_of_free_sizes_are_concatenated_along_any_axis() {
        let (_, found) = run(
            "last, columns, rows",
            "from = Constant<value_ints = [0]>() end = Unsqueeze(n, from)
             axis = Constant<value_ints = [1]>() part = Slice(x, from, end)
             column = Unsqueeze(part, axis) columns_of_x = Concat<axis = 1>(column, column, column)
             last, columns, rows = Scan<
                body = b (float[k] a, float[m] p) => (float[m] next, float[k] o, float[k] r) {
                    next = Identity(p) o = Identity(a) r = Neg(a)
                },
                num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1, 0],
                scan_output_directions = [0, 1]
             >(ones, columns_of_x)",
        );
        let rows = vec![-1.0, -2.0, -1.0, -2.0, -1.0, -1.0];
        let columns = vec![1.0, 1.0, 1.0, 1.0, 2.0, 2.0];
        let wanted = [(vec![2], vec![1.0, 2.0]), (vec![2, 3], columns), (vec![3, 2], rows)];
        assert_eq!(found, wanted);
    }

    #[test]
    fn loops_of_version_8_that_determine_sizes_are_errors() {
        let model = "<ir_version: 10, opset_import: [\"\" : 8]>
            g (float[2, 3, 4] x, bool c) => (y) {
                y = Scan<num_scan_inputs = 1, body = b (float[4] p) => (o) {
                    o = If(c) <
                        then_branch = t () => (q) { q = Slice<starts = [1], ends = [3]>(p) },
                        else_branch = e () => (q) { q = Neg(p) }
                    >
                }>(\"\", x)
            }";
        let found = crate::Compiler::new(&Options::default()).plan(model.into());
        let found = found.err().expect("version 8 requires known sizes of parts").to_string();
        assert!(found.contains("E0301") && found.contains("operator set 9"), "{found}");
    }

    #[test]
    fn scans_along_an_axis_of_unknown_rank_are_errors() {
        let model = "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[3] x, int64[k] end) => (float[m] y, int64[1] s)
            <float zero = {0}> {
                part = Reshape(x, end) s = Shape(part)
                y, z = Scan<num_scan_inputs = 1, body = b (float a, float p) => (float n, float o) {
                    n = Add(a, p) o = Identity(a)
                }>(zero, part)
            }";
        let found = crate::Compiler::new(&Options::default()).plan(model.into());
        let found = found.err().expect("the rank of the part is unknown").to_string();
        assert!(found.contains("E0204"), "{found}");
    }
}
