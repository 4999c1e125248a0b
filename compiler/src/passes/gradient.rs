//! Gradients as ordinary nodes.
//!
//! A [`Gradient`](Asked) names a value `y` and values `xs` and `zs`, and so the function that makes
//! the one of the others. That function is taken out of the graph, simplified, and walked backwards:
//! each operator says how the derivatives of its inputs follow from those of its outputs. What it
//! comes to is written where the gradient was asked for, with the points for `xs` and `zs`. A later
//! gradient finds nodes like any others there, so gradients of gradients need no word. What was
//! computed before is computed once: nodes that are equal become one when the graph is simplified.

use super::{branch, sequence};
use crate::{
    arena::Map,
    diag::{Code, Diagnostic, Diagnostics, Result, quoted},
    ir::{
        Expr, Gradient, Graph, Hook, Next, Node, NodeId, RegionId, Rewrite, Rule, Site, Tape, Todo,
        ValueId, extract, is_differentiable, rewrite,
    },
    ops::{binary, expand::Expand, gradient::Gradient as Asked, random::Dropout, reshape::Shape},
    tensor::Tensor,
};
use std::collections::{HashMap, HashSet};

/// What is simplified in a function before its derivative is taken: what has none, and goes.
const SIMPLER: &[Rule] = &[
    super::fold::identity,
    super::fold::same_type,
    sequence::optional,
    sequence::sequence,
    super::fold::constants_of_constants,
];

/// Writes what every `Gradient` comes to in its place. What exporters spell as several nodes though it is
/// an operator whose derivative has a kernel is taken for that operator.
pub fn run(graph: &Graph) -> std::result::Result<Graph, Diagnostics> {
    written(graph, |cx, id, _, into, _| {
        expand(cx, id, into, &[SIMPLER, &[super::recognize::gelu]].concat())
    })
}

/// The same with no operator but those that the function is made of, and those of their derivatives.
pub fn standard(graph: &Graph) -> std::result::Result<Graph, Diagnostics> {
    written(graph, |cx, id, _, into, _| expand(cx, id, into, SIMPLER))
}

fn written(graph: &Graph, expand: Hook) -> std::result::Result<Graph, Diagnostics> {
    let asked = graph.nodes().any(|(_, node)| node.op.is::<Asked>());
    if !asked {
        return Ok(graph.clone());
    }
    match super::written_out(graph)? {
        Some(graph) => rewrite(&graph, expand, &[dropped]),
        None => rewrite(graph, expand, &[dropped]),
    }
}

/// The graph with products in place of what drops elements, whose factors are drawn.
///
/// # Errors
///
/// What is wrong with the graph.
pub fn drawn_apart(graph: &Graph) -> std::result::Result<Graph, Diagnostics> {
    rewrite(graph, |_, _, _, _, _| Next::Copy, &[dropped])
}

/// What drops elements of its input is the input, times what is left of ones: that factor is drawn
/// once, and no part of a function. What is not in training drops none.
fn dropped(site: &mut Site<'_>, node: &Node) -> Option<Vec<Option<ValueId>>> {
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
    let factor = outputs.first().copied().flatten()?;
    outputs[0] = Some(site.graph.add(site.region, &name("Mul"), &binary::MUL, &[x, factor]).ok()?);
    Some(outputs)
}

fn expand(cx: &mut Rewrite<'_>, id: NodeId, into: RegionId, simpler: &[Rule]) -> Next {
    let old = cx.old;
    let node = &old[id];
    let Some(asked) = node.op.downcast::<Asked>().filter(|_| node.fault.is_none()) else {
        return Next::Copy;
    };
    match values(cx, node, asked, into, simpler) {
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

/// The values of the outputs of a `Gradient`.
fn values(
    cx: &mut Rewrite<'_>,
    node: &Node,
    asked: &Asked,
    into: RegionId,
    simpler: &[Rule],
) -> std::result::Result<Vec<Option<ValueId>>, Diagnostics> {
    let given: Vec<ValueId> = node.inputs.iter().flatten().map(|&id| cx.value(id)).collect();
    let (points, named, y) = asked.split(&given);
    let wanted: Vec<bool> =
        (0..asked.xs.len()).map(|i| node.outputs.get(i).is_some_and(Option::is_some)).collect();
    let (derivative, dead, captures) = taken(&cx.new, asked, &given, &wanted, simpler)?;
    let path =
        |&Idle { number, .. }: &Idle| Some((number, path(&cx.new, named[number], y, named)?));
    let told: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
    let is_told =
        |idle: &&Idle| idle.is_used && !through_another(cx.old, asked, &told, idle.number);
    if let Some((i, path)) = dead.iter().filter(is_told).find_map(path) {
        return Err(nowhere(&cx.new, named[i], y, &path).into());
    }
    let arguments: Vec<ValueId> = points.iter().copied().chain(captures).collect();
    let mut made = cx.call(&derivative, &arguments, into).into_iter();
    Ok(wanted.iter().map(|&wanted| if wanted { made.next() } else { None }).collect())
}

/// A variable that no derivative came back to, by its number.
struct Idle {
    number: usize,
    /// Whether the function depends on it all the same.
    is_used: bool,
}

/// Whether `y` depends on variable `i` through another `Gradient`: then zeros are a derivative of it, as
/// that of a gradient that is the same everywhere.
fn through_another(graph: &Graph, asked: &Asked, given: &[ValueId], i: usize) -> bool {
    let (_, named, y) = asked.split(given);
    let (nodes, _) = graph.makers(&named.iter().copied().collect(), y);
    let mut reached = HashSet::from([named[i]]);
    for id in nodes {
        if !graph.used_by(id).iter().any(|used| reached.contains(used)) {
            continue;
        }
        if graph[id].op.is::<Asked>() {
            return true;
        }
        reached.extend(graph[id].outputs.iter().flatten());
    }
    false
}

/// Takes the wanted derivatives: the function that they are, the variables by which they are zeros
/// because none came back, and what the function is given beside the points.
fn taken(
    graph: &Graph,
    asked: &Asked,
    given: &[ValueId],
    wanted: &[bool],
    simpler: &[Rule],
) -> std::result::Result<(Graph, Vec<Idle>, Vec<ValueId>), Diagnostics> {
    let (points, named, y) = asked.split(given);
    let typed = named.iter().zip(points).enumerate().map(|(i, (&id, &point))| {
        let point = &graph[point];
        (id, point.ty.clone(), point.constant.clone().filter(|_| i >= asked.xs.len()))
    });
    let typed: Vec<_> = typed.collect();
    let (function, captures) = extract(graph, &typed, y, decide, simpler)?;
    let (derivative, dead) = derivative(function, wanted)?;
    Ok((derivative, dead, captures))
}

/// Decides what can be decided of branches and loops, and writes out what is done for each tensor of
/// a sequence.
fn decide(
    cx: &mut Rewrite<'_>,
    id: NodeId,
    rest: &[Todo],
    into: RegionId,
    outputs: &[ValueId],
) -> Next {
    let written = sequence::map(cx, id, into);
    written.unwrap_or_else(|| branch::decide(cx, id, rest, into, outputs))
}

/// The numbers of those variables of a graph's only `Gradient` by which its value has no derivative
/// but zeros. Where there are several, nothing is said: one may go through another.
///
/// # Errors
///
/// Where an operator on a path has no derivative.
pub fn idle(graph: &Graph) -> std::result::Result<Vec<usize>, Diagnostics> {
    let written = super::written_out(graph)?;
    let graph = written.as_ref().unwrap_or(graph);
    let graph = &drawn_apart(graph)?;
    let mut all = graph.nodes().filter_map(|(_, node)| Some((node, node.op.downcast::<Asked>()?)));
    let (Some((node, asked)), None) = (all.next(), all.next()) else { return Ok(Vec::new()) };
    let given: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
    let wanted = vec![true; asked.xs.len()];
    let (_, dead, _) = taken(graph, asked, &given, &wanted, SIMPLER)?;
    Ok(dead.into_iter().map(|idle| idle.number).collect())
}

/// The function whose outputs are the wanted derivatives of the sum of the only output by the
/// inputs, and those of the inputs that no derivative came back to.
fn derivative(function: Graph, wanted: &[bool]) -> Result<(Graph, Vec<Idle>)> {
    let body = &function[function.body];
    let (inputs, y) = (body.inputs.clone(), body.outputs[0]);
    let (_, used) = function.makers(&HashSet::new(), y);
    let xs: Vec<ValueId> =
        inputs.iter().zip(wanted).filter(|(_, wanted)| **wanted).map(|(&id, _)| id).collect();
    let region = function.body;
    let tape = Tape::new(function);
    let seed = tape.expr(y).ones_like();
    let nodes = tape.look(|graph| graph[region].nodes.clone());
    let found = backwards(&tape, &nodes, &[(tape.expr(y), seed)], &xs)?;
    let (mut outputs, mut dead) = (Vec::new(), Vec::new());
    for (&x, dx) in xs.iter().zip(found) {
        if dx.is_none() {
            let number = inputs.iter().position(|&input| input == x);
            dead.extend(number.map(|number| Idle { number, is_used: used.contains(&x) }));
        }
        outputs.push(dx.unwrap_or_else(|| tape.expr(x).zeros_like()).id);
    }
    let mut graph = tape.finish()?;
    graph.set_outputs(region, outputs);
    Ok((graph, dead))
}

/// The derivatives by `xs` of what `seeds` gives the derivatives by: the sum over all paths through
/// `nodes`. None where there is no path, or none with a derivative.
fn backwards<'t>(
    tape: &'t Tape,
    nodes: &[NodeId],
    seeds: &[(Expr<'t>, Expr<'t>)],
    xs: &[ValueId],
) -> Result<Vec<Option<Expr<'t>>>> {
    let live = tape.look(|graph| live(graph, nodes, xs));
    let mut found: Map<ValueId, Expr<'t>> = Map::default();
    for &(y, seed) in seeds.iter().filter(|(y, _)| live.contains(&y.id)) {
        add(&mut found, y, seed);
    }
    for &id in nodes.iter().rev() {
        let node = tape.look(|graph| graph[id].clone());
        let dy = |output: &Option<ValueId>| output.and_then(|id| found.get(id).copied());
        let d_outputs: Vec<_> = node.outputs.iter().map(dy).collect();
        let used = tape.look(|graph| graph.used_by(id));
        let is_used = used.iter().any(|id| live.contains(id));
        if d_outputs.iter().all(Option::is_none) || !is_used {
            continue;
        }
        tape.set_label(format!("{} gradient", node.name));
        known(tape, &node)?;
        let asked = Gradient::new(tape, id, &live, d_outputs, backwards).ask();
        for (x, dx) in asked.map_err(|diagnostic| along(tape, diagnostic, id, seeds, xs))? {
            if live.contains(&x) {
                add(&mut found, tape.expr(x), dx);
            }
        }
    }
    Ok(xs.iter().map(|&x| found.get(x).copied()).collect())
}

/// Adds to the derivative of a value.
fn add<'t>(found: &mut Map<ValueId, Expr<'t>>, x: Expr<'t>, dx: Expr<'t>) {
    let dx = dx.fit(x);
    let sum = found.get(x.id).map_or(dx, |&before| before + dx);
    found.insert(x.id, sum);
}

/// The values that have a derivative by one of `xs`, as far as their types say.
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

/// A diagnostic where the types around a node are not known.
fn known(tape: &Tape, node: &Node) -> Result {
    let values = node.inputs.iter().chain(&node.outputs).flatten();
    let open = |&&id: &&ValueId| tape.look(|graph| !graph[id].ty.is_tensor());
    let Some(&open) = values.into_iter().find(open) else { return Ok(()) };
    let (name, ty) = tape.look(|graph| (graph[open].name.clone(), graph[open].ty.to_string()));
    let message = format!("a gradient goes through a node beside {}, which is {ty}", quoted(&name));
    Err(Diagnostic::new(Code::NoGradient, message).within(node.location()))
}

/// The nodes on the shortest way from `x` to `y` that leads through none of `others`.
fn path(graph: &Graph, x: ValueId, y: ValueId, others: &[ValueId]) -> Option<Vec<NodeId>> {
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

/// The diagnostic that no path from `x` to `y` has a derivative.
fn nowhere(graph: &Graph, x: ValueId, y: ValueId, path: &[NodeId]) -> Diagnostic {
    let (from, to) = (quoted(&graph[x].name), quoted(&graph[y].name));
    let message = format!("{to} depends on {from} only through operators without a gradient");
    let nodes = path.iter().map(|&id| graph[id].location());
    Diagnostic::new(Code::NoGradient, message).note(shown(from, nodes, to))
}

/// Says in a diagnostic at node `at` which path it is on.
fn along(
    tape: &Tape,
    diagnostic: Diagnostic,
    at: NodeId,
    seeds: &[(Expr<'_>, Expr<'_>)],
    xs: &[ValueId],
) -> Diagnostic {
    tape.look(|graph| {
        let outputs = || graph[at].outputs.iter().flatten().copied();
        let ends = |from: ValueId, to: ValueId| Some((from, path(graph, from, to, &[])?, to));
        let before = xs.iter().find_map(|&x| outputs().find_map(|output| ends(x, output)));
        let after = seeds.iter().find_map(|(y, _)| outputs().find_map(|output| ends(output, y.id)));
        let (Some((x, before, _)), Some((_, after, y))) = (before, after) else {
            return diagnostic;
        };
        let nodes = before.iter().chain(&after).map(|&id| graph[id].location());
        diagnostic.note(shown(quoted(&graph[x].name), nodes, quoted(&graph[y].name)))
    })
}

fn shown(from: String, nodes: impl Iterator<Item = String>, to: String) -> String {
    let all: Vec<String> = std::iter::once(from).chain(nodes).chain([to]).collect();
    format!("the path: {}", all.join(" → "))
}
