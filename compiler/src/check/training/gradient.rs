//! Checks `Gradient` nodes, whose attributes name tensors of the enclosing graph.

use super::super::{
    context::{Context, Place},
    node_location::node_name,
    scope::Scope,
};
use crate::{
    diag::{Code, Diagnostic, counted, quoted},
    domain::canonical,
};
use onnxc_proto::{AttributeProto, NodeProto};
use std::collections::{HashMap, HashSet, VecDeque};

/// The most steps of the search for paths in one graph; a hostile model could need more.
const MOST_STEPS: usize = 10_000_000;

/// Operators without a gradient, or whose gradient is zero everywhere.
const DEAD: &[&str] = &[
    "And",
    "ArgMax",
    "ArgMin",
    "Bernoulli",
    "BitCast",
    "BitShift",
    "BitwiseAnd",
    "BitwiseNot",
    "BitwiseOr",
    "BitwiseXor",
    "Ceil",
    "ConstantOfShape",
    "ConvInteger",
    "DynamicQuantizeLinear",
    "Equal",
    "EyeLike",
    "Floor",
    "Greater",
    "GreaterOrEqual",
    "IsInf",
    "IsNaN",
    "Less",
    "LessOrEqual",
    "MatMulInteger",
    "MelWeightMatrix",
    "Multinomial",
    "NonMaxSuppression",
    "NonZero",
    "Not",
    "OptionalHasElement",
    "Or",
    "QLinearConv",
    "QLinearMatMul",
    "RandomNormalLike",
    "RandomUniformLike",
    "Round",
    "SequenceLength",
    "Shape",
    "Sign",
    "Size",
    "Unique",
    "Xor",
];

/// Returns whether an operator has no gradient other than zero.
pub fn is_flat(op: &str) -> bool {
    DEAD.contains(&op)
}

/// The names in the attributes of a `Gradient`.
pub struct Names<'p> {
    /// The variables.
    pub xs: Vec<&'p str>,
    /// The fixed values.
    pub zs: Vec<&'p str>,
    /// The differentiated value.
    pub y: &'p str,
}

impl<'p> Names<'p> {
    /// Returns the names of a node, if it is a `Gradient` and they are UTF-8.
    pub fn of(node: &'p NodeProto) -> Option<Names<'p>> {
        if node.op_type() != "Gradient" || node.domain() != "ai.onnx.preview.training" {
            return None;
        }
        let find = |name: &str| node.attribute.iter().find(|attribute| attribute.name() == name);
        let list = |name: &str| find(name).map_or(Some(Vec::new()), strings);
        let y = find("y").and_then(|y| std::str::from_utf8(y.s.as_deref()?).ok());
        Some(Names { xs: list("xs")?, zs: list("zs")?, y: y.unwrap_or_default() })
    }
}

impl Names<'_> {
    /// Returns whether a name is a variable or a fixed value.
    fn are_by(&self, name: &str) -> bool {
        self.xs.iter().chain(&self.zs).any(|other| *other == name)
    }
}

fn strings(attribute: &AttributeProto) -> Option<Vec<&str>> {
    attribute.strings.iter().map(|text| std::str::from_utf8(text).ok()).collect()
}

/// Checks the `Gradient`s among the nodes of a graph, whose names are all in `scope`.
pub(in super::super) fn gradients<'p>(
    cx: &mut Context<'p>,
    nodes: &'p [NodeProto],
    scope: &mut Scope<'_, 'p>,
) {
    let found: Vec<(usize, Names<'p>)> =
        nodes.iter().enumerate().filter_map(|(i, node)| Some((i, Names::of(node)?))).collect();
    if found.is_empty() {
        return;
    }
    let mut paths = Paths::new(nodes, scope);
    let cyclic = paths.cyclic(nodes);
    for (i, names) in &found {
        let node = &nodes[*i];
        cx.within(Place::Node(node, *i), |cx| {
            let before = cx.count();
            self::names(cx, node, names, scope);
            if cyclic.contains(i) {
                let message = format!("{} depends on what this node gives", quoted(names.y));
                cx.fault(Code::GradientCycle, message);
            }
            if cx.count() == before {
                paths.dead(cx, names);
            }
        });
    }
}

fn names<'p>(cx: &mut Context<'p>, node: &NodeProto, names: &Names<'p>, scope: &mut Scope<'_, 'p>) {
    if !names.y.is_empty() && !scope.sees(names.y) {
        let message = format!("`y` is {}, which is not a tensor of the graph", quoted(names.y));
        let help = "the node that computes it is missing, or the name is misspelled";
        cx.fault_with(Code::GradientOf, message, help);
        scope.miss(names.y);
    }
    let mut seen = HashSet::new();
    for name in names.xs.iter().chain(&names.zs) {
        if !scope.sees(name) {
            let message =
                format!("`xs` and `zs` name {}, which is not a tensor of the graph", quoted(name));
            cx.fault(Code::GradientBy, message);
        } else if !seen.insert(*name) {
            cx.fault(Code::GradientBy, format!("`xs` and `zs` name {} twice", quoted(name)));
        }
    }
    let (xs, zs) = (names.xs.len(), names.zs.len());
    if xs > 0 && node.input.len() != xs + zs {
        let message = format!(
            "the node has {}, but `xs` and `zs` name {xs} and {}",
            counted(node.input.len(), "input"),
            counted(zs, "tensor")
        );
        cx.fault(Code::GradientArity, message);
    }
    if xs > 0 && node.output.len() > xs {
        let (outputs, tensors) = (counted(node.output.len(), "output"), counted(xs, "tensor"));
        let message = format!("the node has {outputs}, but `xs` names {tensors}");
        cx.fault(Code::GradientArity, message);
    }
}

/// The producers of names in a graph and in the graph around an algorithm.
struct Paths<'p> {
    makers: HashMap<&'p str, &'p NodeProto>,
    steps: usize,
}

impl<'p> Paths<'p> {
    fn new(nodes: &'p [NodeProto], scope: &Scope<'_, 'p>) -> Paths<'p> {
        let mut makers = HashMap::new();
        for node in scope.visible_nodes().chain(nodes) {
            for output in node.output.iter().filter(|output| !output.is_empty()) {
                makers.entry(output.as_str()).or_insert(node);
            }
        }
        Paths { makers, steps: 0 }
    }

    /// Returns the indices of the `Gradient`s that depend on themselves. All other nodes are in
    /// order, so every cycle contains one; the search keeps its own stack.
    fn cyclic(&self, nodes: &'p [NodeProto]) -> HashSet<usize> {
        let numbers: HashMap<_, usize> =
            nodes.iter().enumerate().map(|(i, node)| (std::ptr::from_ref(node), i)).collect();
        let mut cyclic = HashSet::new();
        // The position of a node on the path; `None` if the search has left it.
        let mut places: HashMap<*const NodeProto, Option<usize>> = HashMap::new();
        let mut path: Vec<(&NodeProto, Vec<&NodeProto>)> = Vec::new();
        let mut roots = nodes.iter();
        loop {
            let need = match path.last_mut() {
                Some((_, needs)) => needs.pop(),
                None => match roots.next() {
                    Some(root) => Some(root),
                    None => return cyclic,
                },
            };
            let Some(need) = need else {
                let (done, _) = path.pop().expect("the path has a last node");
                places.insert(std::ptr::from_ref(done), None);
                continue;
            };
            match places.get(&std::ptr::from_ref(need)) {
                None => {
                    places.insert(std::ptr::from_ref(need), Some(path.len()));
                    path.push((need, self.needs(need)));
                }
                Some(Some(start)) => {
                    let on_cycle = path[*start..].iter().map(|(node, _)| *node);
                    let mut gradients = on_cycle.filter(|node| Names::of(node).is_some());
                    let first = gradients.next().map(std::ptr::from_ref);
                    cyclic.extend(first.and_then(|node| numbers.get(&node)));
                }
                Some(None) => {}
            }
        }
    }

    /// Returns the nodes whose outputs a node needs.
    fn needs(&self, node: &'p NodeProto) -> Vec<&'p NodeProto> {
        let y = Names::of(node).map(|names| names.y);
        let mut used = Vec::new();
        uses(node, &mut used);
        let makers = used.into_iter().chain(y).filter_map(|name| self.makers.get(name));
        makers.copied().collect()
    }

    /// Reports the variables that the result depends on, but along no differentiable path.
    fn dead(&mut self, cx: &mut Context<'p>, names: &Names<'p>) {
        let (all, live) = (self.reached(names, false), self.reached(names, true));
        for x in names.xs.iter().filter(|x| all.contains(**x) && !live.contains(**x)) {
            let message = format!(
                "{} depends on {} only through operators that have no derivative",
                quoted(names.y),
                quoted(x)
            );
            let help = "use a differentiable loss, or leave the variable out of `xs`";
            let diagnostic = Diagnostic::new(Code::GradientDeadPath, message);
            cx.report(diagnostic.note(self.path(x, names.y)).help(help));
        }
    }

    /// Returns the nodes on a shortest path from `x` to `y`.
    fn path(&self, x: &str, y: &str) -> String {
        // Each name on the way back, with the node and the name that it was reached from.
        let mut from = HashMap::new();
        let mut open = VecDeque::from([y]);
        while let Some(name) = open.pop_front().filter(|name| *name != x) {
            let Some(&node) = self.makers.get(name) else { continue };
            let mut used = Vec::new();
            uses(node, &mut used);
            for name_used in used.into_iter().filter(|used| *used != y) {
                from.entry(name_used).or_insert_with(|| {
                    open.push_back(name_used);
                    (node, name)
                });
            }
        }
        let mut text = format!("the path: {}", quoted(x));
        let mut at = x;
        while let Some(&(node, name)) = from.get(at) {
            text += &format!(" → {}", node_name(node));
            at = name;
        }
        text + " → " + &quoted(y)
    }

    /// Returns the names that the result depends on, along differentiable paths or along all. The
    /// search stops at variables.
    fn reached(&mut self, names: &Names<'p>, live_only: bool) -> HashSet<&'p str> {
        let mut reached = HashSet::from([names.y]);
        let mut open = vec![names.y];
        while let Some(name) = open.pop() {
            let Some(&node) = self.makers.get(name).filter(|_| !names.are_by(name)) else {
                continue;
            };
            if live_only && is_dead(node) {
                continue;
            }
            let mut used = Vec::new();
            uses(node, &mut used);
            self.steps += 1 + used.len();
            if self.steps > MOST_STEPS {
                // A search that would take too long reports nothing.
                return names.xs.iter().copied().collect();
            }
            open.extend(used.into_iter().filter(|name| reached.insert(name)));
        }
        reached
    }
}

/// Adds the names that a node uses, those in nested graphs included.
fn uses<'p>(node: &'p NodeProto, used: &mut Vec<&'p str>) {
    used.extend(node.input.iter().map(String::as_str).filter(|name| !name.is_empty()));
    for attribute in &node.attribute {
        for graph in attribute.g.as_deref().into_iter().chain(&attribute.graphs) {
            graph.node.iter().for_each(|node| uses(node, used));
            used.extend(graph.output.iter().map(|output| output.name()));
        }
    }
}

fn is_dead(node: &NodeProto) -> bool {
    let is_onnx = canonical(node.domain()).is_empty();
    is_onnx && (DEAD.contains(&node.op_type()) || is_cast_to_integers(node))
}

fn is_cast_to_integers(node: &NodeProto) -> bool {
    let to = node.attribute.iter().find(|attribute| attribute.name() == "to");
    let to = to.and_then(|to| crate::dtype::DType::from_code(i32::try_from(to.i()).ok()?));
    node.op_type() == "Cast" && to.is_some_and(|to| crate::dtype::INTEGERS.contains(&to))
}
