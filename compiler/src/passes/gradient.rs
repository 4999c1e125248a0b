//! Reverse-mode differentiation: expands `Gradient` to ordinary nodes.
//!
//! A [`Gradient`](Request) names a value `y` and values `xs` and `zs`, and thereby the function
//! that computes `y` from them. The pass extracts that function, simplifies it, and walks it
//! backwards: each operator derives the gradients of its inputs from those of its outputs. The
//! result replaces the `Gradient` node, evaluated at the points given for `xs` and `zs`. A later
//! `Gradient` sees only ordinary nodes, so gradients of gradients need no special case. Values that
//! the forward pass has computed are not computed twice: CSE merges equal nodes when the graph is
//! simplified.

use super::{
    branch::Branches, budget::Budget, fold, recognize, sequence, simplify::expand_composites,
};
use crate::{
    arena::Map,
    diag::{Code, Diagnostic, Diagnostics, Result, quoted},
    ir::{
        Expr, Gradient, Graph, Hook, Next, Node, NodeId, RegionId, Rewrite, Rule, Site, Tape, Todo,
        ValueId, copy_node, extract, is_differentiable, rewrite,
    },
    ops::{binary, expand::Expand, gradient::Gradient as Request, random::Dropout, reshape::Shape},
    tensor::Tensor,
};
use std::collections::{HashMap, HashSet};

/// The rules that replace nodes by an operator whose gradient has a kernel.
const RECOGNIZE: &[Rule<'_>] = &[
    &recognize::recognize_gelu,
    &recognize::recognize_normalization,
    &recognize::recognize_shifted,
    &recognize::recognize_scale,
    &recognize::recognize_bias,
];

/// Expands every `Gradient`. Nodes that exporters write for an operator whose gradient has a kernel
/// are first replaced by that operator.
pub fn run(graph: Graph) -> std::result::Result<Graph, Diagnostics> {
    expand_all(graph, &|cx, id, _, into, _| expand(cx, id, into, RECOGNIZE))
}

/// Expands every `Gradient` to ONNX's own operators.
pub fn run_standard(graph: Graph) -> std::result::Result<Graph, Diagnostics> {
    expand_all(graph, &|cx, id, _, into, _| expand(cx, id, into, &[]))
}

fn expand_all(graph: Graph, expand: Hook<'_>) -> std::result::Result<Graph, Diagnostics> {
    let has_request = graph.nodes().any(|(_, node)| node.op.is::<Request>());
    if !has_request {
        return Ok(graph);
    }
    let graph = expand_composites(graph)?;
    rewrite(&graph, expand, &[&separate_mask])
}

/// Replaces each `Dropout` by a product with a mask, so that the random mask is drawn outside of
/// the function that is differentiated.
///
/// # Errors
///
/// Returns the diagnostics of the rewrite.
pub fn separate_dropout_masks(graph: &Graph) -> std::result::Result<Graph, Diagnostics> {
    rewrite(graph, &copy_node, &[&separate_mask])
}

/// Replaces `Dropout(x)` by `x · Dropout(1)`: the mask `Dropout(1)` is drawn once and does not
/// depend on `x`. Outside of training mode, `Dropout(x)` becomes `x`.
fn separate_mask(site: &mut Site<'_>, node: &Node) -> Option<Vec<Option<ValueId>>> {
    let x = node.input(0).filter(|_| node.op.is::<Dropout>())?;
    if node.inputs.len() == 1 {
        let mut outputs = site.replace(node, node.op.clone(), node.inputs.clone())?;
        *outputs.first_mut()? = Some(x);
        return Some(outputs);
    }
    let ty = site.graph[x].ty.as_tensor()?;
    let one = Tensor::from_number(ty.dtype, 1.0).ok()?;
    let one = site.graph.constant("one", one);
    let name = |what: &str| format!("{}/{what}", node.name);
    let shape = Shape { start: 0, end: None };
    let shape = site.graph.add(site.region, &name("Shape"), shape, &[x]).ok()?;
    let ones = site.graph.add(site.region, &name("Expand"), Expand, &[one, shape]).ok()?;
    let inputs = std::iter::once(Some(ones)).chain(node.inputs[1..].iter().copied()).collect();
    let mut outputs = site.replace(node, node.op.clone(), inputs)?;
    let mask = outputs.first().copied().flatten()?;
    outputs[0] = Some(site.graph.add(site.region, &name("Mul"), &binary::MUL, &[x, mask]).ok()?);
    Some(outputs)
}

fn expand(cx: &mut Rewrite<'_>, id: NodeId, into: RegionId, recognize: &[Rule<'_>]) -> Next {
    let old = cx.old;
    let node = &old[id];
    let Some(request) = node.op.downcast::<Request>().filter(|_| node.fault.is_none()) else {
        return Next::Copy;
    };
    match expand_outputs(cx, node, request, into, recognize) {
        Ok(values) => {
            for (&output, value) in node.outputs.iter().zip(values) {
                if let (Some(output), Some(value)) = (output, value) {
                    if cx.new[value].producer.is_some() {
                        cx.new.rename(value, &old[output].name);
                    }
                    cx.to.insert(output, value);
                }
            }
        }
        Err(diagnostics) => diagnostics
            .within(&node.location())
            .0
            .into_iter()
            .for_each(|diagnostic| cx.diagnostics.push(diagnostic)),
    }
    Next::Done
}

/// Writes the nodes that compute the outputs of a `Gradient` and returns their values.
fn expand_outputs(
    cx: &mut Rewrite<'_>,
    node: &Node,
    request: &Request,
    into: RegionId,
    recognize: &[Rule<'_>],
) -> std::result::Result<Vec<Option<ValueId>>, Diagnostics> {
    let inputs: Vec<ValueId> = node.inputs.iter().flatten().map(|&id| cx.value(id)).collect();
    let (points, named, y) = request.split(&inputs);
    let wanted: Vec<bool> =
        (0..request.xs.len()).map(|i| node.outputs.get(i).is_some_and(Option::is_some)).collect();
    let (derivative, zero_gradients, captures) =
        differentiate(&cx.new, request, &inputs, &wanted, recognize)?;
    let path = |&ZeroGradient { variable, .. }: &ZeroGradient| {
        Some((variable, find_path(&cx.new, named[variable], y, named)?))
    };
    let old_inputs: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
    let is_error = |zero: &&ZeroGradient| {
        zero.is_used && !depends_through_gradient(cx.old, request, &old_inputs, zero.variable)
    };
    if let Some((i, path)) = zero_gradients.iter().filter(is_error).find_map(path) {
        return Err(no_gradient_on_path(&cx.new, named[i], y, &path).into());
    }
    let arguments: Vec<ValueId> = points.iter().copied().chain(captures).collect();
    let mut results = cx.call(&derivative, &arguments, into).into_iter();
    Ok(wanted.iter().map(|&wanted| if wanted { results.next() } else { None }).collect())
}

/// A variable whose gradient is zero because the backward pass did not reach it.
struct ZeroGradient {
    /// The index of the variable.
    variable: usize,
    /// Whether the function depends on the variable nevertheless.
    is_used: bool,
}

/// Returns whether `y` depends on variable `i` through another `Gradient`. A gradient of zero is
/// then correct: that other gradient is constant.
fn depends_through_gradient(
    graph: &Graph,
    request: &Request,
    inputs: &[ValueId],
    i: usize,
) -> bool {
    let (_, named, y) = request.split(inputs);
    let (nodes, _) = graph.makers(&named.iter().copied().collect(), y);
    let mut reached = HashSet::from([named[i]]);
    for id in nodes {
        if !graph.used_by(id).iter().any(|used| reached.contains(used)) {
            continue;
        }
        if graph[id].op.is::<Request>() {
            return true;
        }
        reached.extend(graph[id].outputs.iter().flatten());
    }
    false
}

/// Differentiates the function that a `Gradient` names by the wanted variables. Returns the
/// function that computes the gradients, the variables whose gradient is zero, and the values that
/// the function captures besides the points. The rules `recognize` are applied to the function
/// after those that simplify it.
fn differentiate(
    graph: &Graph,
    request: &Request,
    inputs: &[ValueId],
    wanted: &[bool],
    recognize: &[Rule<'_>],
) -> std::result::Result<(Graph, Vec<ZeroGradient>, Vec<ValueId>), Diagnostics> {
    let (points, named, y) = request.split(inputs);
    let typed = named.iter().zip(points).enumerate().map(|(i, (&id, &point))| {
        let point = &graph[point];
        (id, point.ty.clone(), point.constant.clone().filter(|_| i >= request.xs.len()))
    });
    let typed: Vec<_> = typed.collect();
    // Folding removes operators that have no gradient.
    let (budget, branches) = (Budget::of(graph), Branches::default());
    let fold = |site: &mut Site<'_>, node: &Node| fold::fold_tensors(site, node, &budget);
    let resolve_sequence =
        |site: &mut Site<'_>, node: &Node| sequence::resolve_sequence(site, node, &budget);
    let mut rules: Vec<Rule<'_>> = vec![
        &fold::remove_identity,
        &fold::remove_cast,
        &sequence::unwrap_optional,
        &resolve_sequence,
        &fold,
    ];
    rules.extend(recognize);
    let decide = |cx: &mut Rewrite<'_>, id, rest: &[Todo], into, outputs: &[ValueId]| {
        let unrolled = sequence::unroll_map(cx, id, into);
        unrolled.unwrap_or_else(|| branches.decide(cx, id, rest, into, outputs))
    };
    let (function, captures) = extract(graph, &typed, y, &decide, &rules)?;
    let (derivative, zero_gradients) = differentiate_function(function, wanted)?;
    Ok((derivative, zero_gradients, captures))
}

/// Returns the indices of the variables of a graph's only `Gradient` whose gradient is zero. With
/// several `Gradient`s it returns none, because one may depend on another.
///
/// # Errors
///
/// Returns an error if an operator on a path has no gradient.
pub fn find_zero_gradients(graph: &Graph) -> std::result::Result<Vec<usize>, Diagnostics> {
    let graph = &separate_dropout_masks(&expand_composites(graph.clone())?)?;
    let mut all =
        graph.nodes().filter_map(|(_, node)| Some((node, node.op.downcast::<Request>()?)));
    let (Some((node, request)), None) = (all.next(), all.next()) else { return Ok(Vec::new()) };
    let inputs: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
    let wanted = vec![true; request.xs.len()];
    let (_, zero_gradients, _) = differentiate(graph, request, &inputs, &wanted, &[])?;
    Ok(zero_gradients.into_iter().map(|zero| zero.variable).collect())
}

/// Returns the function whose outputs are the wanted gradients of the sum of `function`'s only
/// output, and the inputs whose gradient is zero.
fn differentiate_function(function: Graph, wanted: &[bool]) -> Result<(Graph, Vec<ZeroGradient>)> {
    let body = &function[function.body];
    let (inputs, y) = (body.inputs.clone(), body.outputs[0]);
    let (_, used) = function.makers(&HashSet::new(), y);
    let xs: Vec<ValueId> =
        inputs.iter().zip(wanted).filter(|(_, wanted)| **wanted).map(|(&id, _)| id).collect();
    let region = function.body;
    let tape = Tape::new(function);
    let seed = tape.expr(y).ones_like();
    let nodes = tape.look(|graph| graph[region].nodes.clone());
    let gradients = propagate_backward(&tape, &nodes, &[(tape.expr(y), seed)], &xs)?;
    let (mut outputs, mut zero_gradients) = (Vec::new(), Vec::new());
    for (&x, dx) in xs.iter().zip(gradients) {
        if dx.is_none() {
            let variable = inputs.iter().position(|&input| input == x);
            let is_used = used.contains(&x);
            zero_gradients.extend(variable.map(|variable| ZeroGradient { variable, is_used }));
        }
        outputs.push(dx.unwrap_or_else(|| tape.expr(x).zeros_like()).id);
    }
    let mut graph = tape.finish()?;
    graph.set_outputs(region, outputs);
    Ok((graph, zero_gradients))
}

/// Propagates the gradients `seeds`, pairs of a value and its gradient, backwards through `nodes`
/// and returns those of `xs`: sums over all paths. `None` if no path has a gradient.
fn propagate_backward<'t>(
    tape: &'t Tape,
    nodes: &[NodeId],
    seeds: &[(Expr<'t>, Expr<'t>)],
    xs: &[ValueId],
) -> Result<Vec<Option<Expr<'t>>>> {
    let live = tape.look(|graph| live(graph, nodes, xs));
    let mut gradients: Map<ValueId, Expr<'t>> = Map::default();
    for &(y, seed) in seeds.iter().filter(|(y, _)| live.contains(&y.id)) {
        accumulate(&mut gradients, y, seed);
    }
    for &id in nodes.iter().rev() {
        let node = tape.look(|graph| graph[id].clone());
        let dy = |output: &Option<ValueId>| output.and_then(|id| gradients.get(id).copied());
        let d_outputs: Vec<_> = node.outputs.iter().map(dy).collect();
        let used = tape.look(|graph| graph.used_by(id));
        let is_used = used.iter().any(|id| live.contains(id));
        if d_outputs.iter().all(Option::is_none) || !is_used {
            continue;
        }
        tape.set_label(format!("{} gradient", node.name));
        require_known_types(tape, &node)?;
        let d_inputs = Gradient::new(tape, id, &live, d_outputs, propagate_backward).ask();
        for (x, dx) in d_inputs.map_err(|diagnostic| note_path(tape, diagnostic, id, seeds, xs))? {
            if live.contains(&x) {
                accumulate(&mut gradients, tape.expr(x), dx);
            }
        }
    }
    Ok(xs.iter().map(|&x| gradients.get(x).copied()).collect())
}

/// Adds `dx`, un-broadcast to the shape of `x`, to the gradient of `x`.
fn accumulate<'t>(gradients: &mut Map<ValueId, Expr<'t>>, x: Expr<'t>, dx: Expr<'t>) {
    let dx = dx.fit(x);
    let sum = gradients.get(x.id).map_or(dx, |&before| before + dx);
    gradients.insert(x.id, sum);
}

/// Returns the differentiable values that depend on one of `xs`.
fn live(graph: &Graph, nodes: &[NodeId], xs: &[ValueId]) -> HashSet<ValueId> {
    let mut live: HashSet<ValueId> = xs.iter().copied().collect();
    for &id in nodes {
        if graph.used_by(id).iter().any(|used| live.contains(used)) {
            let outputs = graph[id].outputs.iter().flatten();
            live.extend(outputs.filter(|&&output| is_differentiable(&graph[output].ty)));
        }
    }
    live
}

/// Rejects a node with inputs or outputs whose types are not known as tensors.
fn require_known_types(tape: &Tape, node: &Node) -> Result {
    let values = node.inputs.iter().chain(&node.outputs).flatten();
    let is_unknown = |&&id: &&ValueId| tape.look(|graph| !graph[id].ty.is_tensor());
    let Some(&value) = values.into_iter().find(is_unknown) else { return Ok(()) };
    let (name, ty) = tape.look(|graph| (graph[value].name.clone(), graph[value].ty.to_string()));
    let message = format!("a gradient passes a node that uses {}, which is {ty}", quoted(&name));
    Err(Diagnostic::new(Code::NoGradient, message).within(node.location()))
}

/// Returns the nodes on a shortest path from `x` to `y` that avoids `others`.
fn find_path(graph: &Graph, x: ValueId, y: ValueId, others: &[ValueId]) -> Option<Vec<NodeId>> {
    let cuts = others.iter().copied().chain([x]).collect();
    let (nodes, _) = graph.makers(&cuts, y);
    let mut from: HashMap<ValueId, (ValueId, NodeId)> = HashMap::new();
    for id in nodes {
        let used = graph.used_by(id);
        if let Some(&used) = used.iter().find(|&&used| used == x || from.contains_key(&used)) {
            for &output in graph[id].outputs.iter().flatten() {
                from.entry(output).or_insert((used, id));
            }
        }
    }
    let (mut path, mut at) = (Vec::new(), y);
    while at != x {
        let (before, node) = *from.get(&at)?;
        path.push(node);
        at = before;
    }
    path.reverse();
    Some(path)
}

/// The error for an `x` that `y` depends on only through operators without a gradient.
fn no_gradient_on_path(graph: &Graph, x: ValueId, y: ValueId, path: &[NodeId]) -> Diagnostic {
    let (from, to) = (quoted(&graph[x].name), quoted(&graph[y].name));
    let message = format!("{to} depends on {from} only through operators without a gradient");
    let nodes = path.iter().map(|&id| graph[id].location());
    Diagnostic::new(Code::NoGradient, message).note(format_path(from, nodes, to))
}

/// Adds a note to a diagnostic at node `at`: the path that the node lies on.
fn note_path(
    tape: &Tape,
    diagnostic: Diagnostic,
    at: NodeId,
    seeds: &[(Expr<'_>, Expr<'_>)],
    xs: &[ValueId],
) -> Diagnostic {
    tape.look(|graph| {
        let outputs = || graph[at].outputs.iter().flatten().copied();
        let ends = |from: ValueId, to: ValueId| Some((from, find_path(graph, from, to, &[])?, to));
        let before = xs.iter().find_map(|&x| outputs().find_map(|output| ends(x, output)));
        let after = seeds.iter().find_map(|(y, _)| outputs().find_map(|output| ends(output, y.id)));
        let (Some((x, before, _)), Some((_, after, y))) = (before, after) else {
            return diagnostic;
        };
        let nodes = before.iter().chain(&after).map(|&id| graph[id].location());
        diagnostic.note(format_path(quoted(&graph[x].name), nodes, quoted(&graph[y].name)))
    })
}

fn format_path(from: String, nodes: impl Iterator<Item = String>, to: String) -> String {
    let all: Vec<String> = std::iter::once(from).chain(nodes).chain([to]).collect();
    format!("the path: {}", all.join(" → "))
}
