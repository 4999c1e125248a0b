//! The graphs before and after the passes, as tables of numbers into tables of text.

use super::{kind, scope};
use crate::cli::analysis::{self, Analysis, Fate};
use onnxc::ir::{Attribute, Attributes, Graph, Node, NodeId, RegionId, ValueId};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// The longest text of attributes, in characters.
const LONGEST: usize = 400;

/// Returns the imported and the optimized graph.
pub fn both(analysis: &Analysis) -> (Value, Value) {
    let scopes = Scopes::of(&analysis.imported);
    (Table::of(&analysis.imported, &scopes), Table::of(&analysis.optimized, &scopes))
}

/// Returns what became of each imported node: the number of the optimized node that computes it,
/// -1 if it is folded, -2 if it is removed.
pub fn fates(analysis: &Analysis) -> Vec<i64> {
    let fates = analysis::fates(&analysis.imported, &analysis.optimized);
    let places = numbers(&analysis.optimized);
    let nodes = analysis.imported.walk(analysis.imported.body);
    let number = |fate: Fate| match fate {
        Fate::Computed(id) => places.get(&id).map_or(-2, |&place| place as i64),
        Fate::Folded => -1,
        Fate::Removed => -2,
    };
    nodes.map(|(id, _)| number(fates[&id])).collect()
}

/// Returns the cost of each optimized node that calls a kernel: its number, the multiply-adds, the
/// operations, the bytes, and the kernels.
pub fn costs(analysis: &Analysis) -> Vec<Value> {
    let places = numbers(&analysis.optimized);
    let costs = analysis::by_node(analysis).into_iter();
    costs
        .filter_map(|cost| {
            let place = places.get(&cost.id?)?;
            let kernels = cost.kernels.join(", ");
            Some(json!([place, cost.macs, cost.operations, cost.bytes, kernels]))
        })
        .collect()
}

/// Returns the numbers of nodes, in the order in which the page has them.
pub fn numbers(graph: &Graph) -> HashMap<NodeId, usize> {
    graph.walk(graph.body).enumerate().map(|(place, (id, _))| (id, place)).collect()
}

/// The scopes of the imported nodes, by the names of nodes and of values: passes keep both.
struct Scopes {
    of_nodes: HashMap<String, Vec<String>>,
    of_values: HashMap<String, Vec<String>>,
}

impl Scopes {
    fn of(graph: &Graph) -> Scopes {
        let mut scopes = Scopes { of_nodes: HashMap::new(), of_values: HashMap::new() };
        for (_, node) in graph.walk(graph.body) {
            let found = scope::of(node);
            for &value in node.outputs.iter().flatten() {
                scopes.of_values.insert(graph[value].name.clone(), found.clone());
            }
            scopes.of_nodes.insert(node.name.clone(), found);
        }
        scopes
    }

    fn find(&self, graph: &Graph, node: &Node) -> Vec<String> {
        let mut values = node.outputs.iter().flatten();
        let found = self.of_nodes.get(&node.name);
        let found = found.or_else(|| values.find_map(|&v| self.of_values.get(&graph[v].name)));
        found.cloned().unwrap_or_else(|| scope::of(node))
    }
}

/// A graph as tables.
#[derive(Default)]
struct Table {
    texts: Vec<String>,
    of_texts: HashMap<String, usize>,
    values: Vec<Value>,
    of_values: BTreeMap<ValueId, usize>,
    nodes: Vec<Value>,
}

impl Table {
    fn of(graph: &Graph, scopes: &Scopes) -> Value {
        let mut table = Table::default();
        table.region(graph, scopes, graph.body, &[]);
        let body = &graph[graph.body];
        let [inputs, outputs] = [&body.inputs, &body.outputs]
            .map(|ids| ids.iter().map(|&id| table.value(graph, id)).collect::<Vec<usize>>());
        json!({
            "texts": table.texts,
            "values": table.values,
            "nodes": table.nodes,
            "inputs": inputs,
            "outputs": outputs,
        })
    }

    /// Adds the nodes of a region in the order of [`Graph::walk`]. `outer` are the scopes of the
    /// node to which the region belongs.
    fn region(&mut self, graph: &Graph, scopes: &Scopes, region: RegionId, outer: &[String]) {
        for &id in &graph[region].nodes {
            let node = &graph[id];
            let path = if outer.is_empty() { scopes.find(graph, node) } else { outer.to_owned() };
            self.node(graph, node, &path);
            for &inner in &node.regions {
                let name = format!("{} › {}", node.name, graph[inner].name);
                let path: Vec<String> = path.iter().cloned().chain([name]).collect();
                self.region(graph, scopes, inner, &path);
            }
        }
    }

    /// Adds a node: name, operator, kind, scope, inputs, outputs, attributes.
    fn node(&mut self, graph: &Graph, node: &Node, path: &[String]) {
        let [inputs, outputs] = [&node.inputs, &node.outputs]
            .map(|ids| ids.iter().flatten().map(|&id| self.value(graph, id)).collect::<Vec<_>>());
        let (label, path) = (self.text(node.op.label()), self.text(path.join("\n")));
        let attributes = self.text(attributes(node));
        let kind = kind::of(node);
        self.nodes.push(json!([node.name, label, kind, path, inputs, outputs, attributes]));
    }

    /// Returns the number of a value, and adds it if it is new: name, type, whether it is constant.
    fn value(&mut self, graph: &Graph, id: ValueId) -> usize {
        if let Some(&place) = self.of_values.get(&id) {
            return place;
        }
        let value = &graph[id];
        let ty = self.text(value.ty.to_string());
        self.values.push(json!([value.name, ty, u8::from(value.constant.is_some())]));
        self.of_values.insert(id, self.values.len() - 1);
        self.values.len() - 1
    }

    fn text(&mut self, text: String) -> usize {
        let texts = &mut self.texts;
        *self.of_texts.entry(text.clone()).or_insert_with(|| {
            texts.push(text);
            texts.len() - 1
        })
    }
}

/// Returns the attributes of a node as text, without its regions.
fn attributes(node: &Node) -> String {
    let mut attributes = Attributes::default();
    node.op.attributes(&mut attributes);
    attributes.0.retain(|(_, value)| !matches!(value, Attribute::Graph(_) | Attribute::Graphs(_)));
    let text = attributes.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
