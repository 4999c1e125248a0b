//! Runs a model and keeps the values between its nodes.

use crate::cli::{
    analysis::{Fate, fates},
    inputs::callable,
};
use onnxc::{
    Compiler, Options,
    diag::Diagnostics,
    interpreter,
    ir::{self, Graph, NodeId, ValueId},
    plan::{self, Plan},
    tensor::Tensor,
    ty::Type,
    value::Value,
};
use onnxc_proto::Bytes;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The pass after which a graph has not been fused yet.
pub const BEFORE_FUSION: &str = "simplify";

/// Tensors by the names of their values.
pub type Values = BTreeMap<String, Tensor>;

/// A plan whose outputs are all tensors of the body of the graph.
pub struct Traced {
    plan: Plan,
    names: Vec<Name>,
}

/// A value, and the node that computes it.
#[derive(Default)]
pub struct Name {
    /// The name of the value.
    pub value: String,
    /// The name of the node.
    pub node: String,
    /// The operator of the node.
    pub operator: String,
    /// The values that the node uses.
    pub operands: Vec<String>,
    /// The nodes of the model that the node computes together.
    pub computes: Vec<Member>,
    /// Whether the value is an output of the model.
    pub is_output: bool,
}

/// A node of the model.
#[derive(Clone)]
pub struct Member {
    /// The name.
    pub node: String,
    /// The operator.
    pub operator: String,
}

impl Traced {
    /// Plans a model. The graph is that after the pass called `after`, or after the last one.
    ///
    /// # Errors
    ///
    /// Returns the diagnostics of the options or of the model.
    pub fn of(model: Bytes, options: &Options, after: Option<&str>) -> Result<Traced, Diagnostics> {
        let (mut imported, mut last) = (None, None);
        let mut is_done = false;
        let mut compiler = Compiler::new(options).observe(|pass, graph| {
            imported.get_or_insert_with(|| graph.clone());
            if !is_done {
                last = Some(graph.clone());
                is_done = after == Some(pass);
            }
        });
        let planned = compiler.plan(model);
        drop(compiler);
        let (Some(imported), Some(mut graph)) = (imported, last) else {
            return Err(planned.err().unwrap_or(Diagnostics(Vec::new())));
        };
        let members = members(&imported, &graph);
        let computed = expose(&mut graph, &members);
        let names = with_all_outputs(computed, &imported, &graph);
        let mut plan = ir::plan(&graph, options.optimize, options.precision, options.free_sizes())?;
        plan::finish(&mut [&mut plan], None)?;
        callable(&plan)?;
        Ok(Traced { plan, names })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The values, in the order of their nodes.
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    /// The outputs that are no tensors, with their types.
    pub fn others(&self) -> impl Iterator<Item = (&str, &Type)> {
        let outputs = self.plan.outputs.iter().filter(|port| !matches!(port.ty, Type::Tensor(_)));
        outputs.map(|port| (port.name.as_str(), &port.ty))
    }

    /// Runs the plan, and returns its tensors.
    ///
    /// # Errors
    ///
    /// Returns the error of the run.
    pub fn run(&self, inputs: &[Value]) -> Result<Values, Diagnostics> {
        let mut session = interpreter::Session::new(&self.plan);
        let outputs = session.run(inputs).map_err(|error| session.diagnose(&error))?;
        let named = self.plan.outputs.iter().map(|port| port.name.clone()).zip(outputs);
        Ok(named.filter_map(|(name, value)| Some((name, value.into_tensor()?))).collect())
    }
}

/// Returns the nodes of the imported graph that each node of a later graph computes, if it computes
/// several.
fn members(imported: &Graph, graph: &Graph) -> HashMap<NodeId, Vec<Member>> {
    let fates = fates(imported, graph);
    let mut members: HashMap<NodeId, Vec<Member>> = HashMap::new();
    for (id, node) in imported.walk(imported.body) {
        if let Some(Fate::Computed(place)) = fates.get(&id) {
            let member = Member { node: node.name.clone(), operator: node.op.label() };
            members.entry(*place).or_default().push(member);
        }
    }
    members.retain(|_, members| members.len() > 1);
    members
}

/// Makes every tensor that a node of the body computes an output, and returns their names.
fn expose(graph: &mut Graph, members: &HashMap<NodeId, Vec<Member>>) -> Vec<Name> {
    let mut outputs = graph[graph.body].outputs.clone();
    let before: HashSet<ValueId> = outputs.iter().copied().collect();
    let mut names = Vec::new();
    let used = |inputs: &[Option<ValueId>]| {
        inputs.iter().flatten().map(|&id| graph[id].name.clone()).collect()
    };
    for &id in &graph[graph.body].nodes {
        let node = &graph[id];
        for &value in node.outputs.iter().flatten() {
            let is_plain = matches!(graph[value].ty, Type::Tensor(_));
            if !is_plain || graph[value].constant.is_some() {
                continue;
            }
            if !before.contains(&value) {
                outputs.push(value);
            }
            let at = outputs.iter().position(|&output| output == value);
            let own = at.and_then(|at| graph.info.outputs.get(at));
            names.push(Name {
                is_output: own.is_some(),
                value: own.unwrap_or(&graph[value].name).clone(),
                node: node.name.clone(),
                operator: node.op.label(),
                operands: used(&node.inputs),
                computes: members.get(&id).cloned().unwrap_or_default(),
            });
        }
    }
    graph.set_outputs(graph.body, outputs);
    names
}

/// Adds the outputs of the model that no node computes, or that are those of a node under another
/// name. Constants and inputs are the first values.
fn with_all_outputs(mut names: Vec<Name>, imported: &Graph, graph: &Graph) -> Vec<Name> {
    let body = &graph[graph.body];
    let made: HashSet<ValueId> =
        body.nodes.iter().flat_map(|&id| graph[id].outputs.iter().flatten().copied()).collect();
    let known: HashSet<String> = names.iter().map(|name| name.value.clone()).collect();
    let mut first = Vec::new();
    for (name, &value) in graph.info.outputs.iter().zip(&body.outputs) {
        if known.contains(name) || !matches!(graph[value].ty, Type::Tensor(_)) {
            continue;
        }
        let is_made = made.contains(&value) && graph[value].constant.is_none();
        let list = if is_made { &mut names } else { &mut first };
        list.push(output(name, imported));
    }
    first.into_iter().chain(names).collect()
}

/// Describes an output by the node that computes it in the imported graph.
fn output(name: &str, imported: &Graph) -> Name {
    let body = &imported[imported.body];
    let mut outputs = imported.info.outputs.iter().zip(&body.outputs);
    let value = outputs.find_map(|(own, &value)| (own == name).then_some(value));
    let mut nodes = body.nodes.iter().map(|&id| &imported[id]);
    let node = nodes.find(|node| node.outputs.iter().flatten().any(|&made| Some(made) == value));
    let (node, operator) = match node {
        Some(node) => (node.name.clone(), node.op.label()),
        None => (name.to_owned(), "no node".to_owned()),
    };
    Name { value: name.to_owned(), node, operator, is_output: true, ..Name::default() }
}
