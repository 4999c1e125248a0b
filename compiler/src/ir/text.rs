//! The graph in ONNX's textual syntax (the specification's `Syntax.md`), with the inferred types of
//! each node's outputs as a comment.

use super::{Attribute, Attributes, Graph, Node, RegionId, ValueId};
use crate::tensor::Tensor;
use std::fmt;

/// The most elements of a constant that is printed completely.
const SMALL: usize = 16;

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let opsets = self.info.opsets.iter();
        let opsets: Vec<String> = opsets.map(|(name, n)| format!("{name:?} : {n}")).collect();
        let (version, opsets) = (self.info.ir_version, opsets.join(", "));
        writeln!(f, "<ir_version: {version}, opset_import: [{opsets}]>")?;
        self.write_region(f, self.body, 0)
    }
}

impl Graph {
    /// Returns a node as the comments of generated code name it: its name, operator and types.
    pub fn comment(&self, node: &Node) -> String {
        let outputs = node.outputs.iter().flatten();
        let types: Vec<String> = outputs.map(|&id| self[id].ty.to_string()).collect();
        format!("{}: {} -> {}", node.name, node.op.label(), types.join(", "))
    }

    fn write_region(&self, f: &mut fmt::Formatter<'_>, id: RegionId, depth: usize) -> fmt::Result {
        let region = &self[id];
        let typed = |ids: &[ValueId]| {
            let each = ids.iter().map(|&id| format!("{} {}", self[id].ty, self.name(id)));
            each.collect::<Vec<_>>().join(", ")
        };
        let name = name(&region.name);
        writeln!(f, "{name} ({}) => ({})", typed(&region.inputs), typed(&region.outputs))?;
        let indent = "    ".repeat(depth);
        writeln!(f, "{indent}{{")?;
        for &node in &region.nodes {
            self.write_node(f, &self[node], depth + 1)?;
        }
        writeln!(f, "{indent}}}")
    }

    fn write_node(&self, f: &mut fmt::Formatter<'_>, node: &Node, depth: usize) -> fmt::Result {
        let optional = |ids: &[Option<ValueId>]| {
            let each = ids.iter().map(|id| id.map_or("\"\"".into(), |id| self.operand(id)));
            each.collect::<Vec<_>>().join(", ")
        };
        let mut attributes = Attributes::default();
        node.op.attributes(&mut attributes);
        let is_graph = |(_, value): &(_, Attribute)| matches!(value, Attribute::Graph(_));
        let (graphs, others) = attributes.0.into_iter().partition(is_graph);
        let (graphs, attributes) = (Attributes(graphs), Attributes(others));
        let op = match node.op.domain() {
            super::Domain::Onnx => node.op.name().to_owned(),
            other => format!("{other}.{}", node.op.name()),
        };
        let indent = "    ".repeat(depth);
        let (outputs, inputs) = (optional(&node.outputs), optional(&node.inputs));
        let equals = if node.outputs.is_empty() { "" } else { " = " };
        let line = format!("{indent}{outputs}{equals}{op}{attributes} ({inputs})");
        let types = node.outputs.iter().flatten().map(|&id| self[id].ty.to_string());
        writeln!(f, "{line:<80} # {}", types.collect::<Vec<_>>().join(", "))?;
        for (i, &region) in node.regions.iter().enumerate() {
            let of = |(_, value): &&(_, Attribute)| *value == Attribute::Graph(i);
            let name =
                graphs.0.iter().find(of).map_or(String::new(), |(name, _)| format!("{name} = "));
            write!(f, "{indent}    {name}")?;
            self.write_region(f, region, depth + 1)?;
        }
        Ok(())
    }

    fn operand(&self, id: ValueId) -> String {
        match &self[id].constant {
            Some(tensor) => constant(tensor, &self.name(id)),
            None => self.name(id),
        }
    }

    fn name(&self, id: ValueId) -> String {
        name(&self[id].name)
    }
}

/// Formats a name as an identifier of the syntax, quoted if necessary.
fn name(text: &str) -> String {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let first = text.chars().next().is_some_and(|c| !c.is_ascii_digit());
    if plain && first { text.to_owned() } else { format!("{text:?}") }
}

fn constant(tensor: &Tensor, name: &str) -> String {
    if tensor.len() > SMALL {
        return format!("{name} {{{}}}", tensor.ty());
    }
    let elements = match (tensor.strings(), tensor.ints(), tensor.floats()) {
        (Some(strings), ..) => {
            Attribute::Strings(strings.iter().map(|string| string.as_bytes().to_vec()).collect())
                .to_string()
        }
        (_, Some(ints), _) => format!("{ints:?}"),
        (.., Some(floats)) => format!("{floats:?}"),
        _ => String::from("[…]"),
    };
    format!("{}{{{}}}", tensor.ty(), elements.trim_matches(['[', ']']))
}
