//! The versions of operator sets that a node needs to be written in its newest form.

use super::operand_types::{Operands, lists};
use crate::{
    check::signature::{self, Form, arity},
    domain::canonical,
    ir::{Attribute, Attributes, Domain, Graph, Node, Outputs},
    ops::{self, composite::Composite},
};

/// The oldest version of the main operator set that is written; from it on, operators have no
/// attributes that were removed later.
pub const OLDEST: i64 = 7;

/// Attributes that operators gained after the version in whose form they are written: the
/// attribute, its version, and the value that equals its absence, if there is one.
#[rustfmt::skip]
const LATER: &[(&str, &str, i64, Option<Value>)] = &[
    ("ArgMax", "select_last_index", 12, Some(Value::Int(0))),
    ("ArgMin", "select_last_index", 12, Some(Value::Int(0))),
    ("AveragePool", "ceil_mode", 10, Some(Value::Int(0))),
    ("AveragePool", "count_include_pad", 7, Some(Value::Int(0))),
    ("AveragePool", "dilations", 19, None),
    ("Cast", "round_mode", 24, Some(Value::Text("up"))),
    ("Cast", "saturate", 19, Some(Value::Int(1))),
    ("CastLike", "round_mode", 24, Some(Value::Text("up"))),
    ("CastLike", "saturate", 19, Some(Value::Int(1))),
    ("DepthToSpace", "mode", 11, Some(Value::Text("DCR"))),
    ("DequantizeLinear", "axis", 13, Some(Value::Int(1))),
    ("DequantizeLinear", "block_size", 21, Some(Value::Int(0))),
    ("DequantizeLinear", "output_dtype", 23, Some(Value::Int(0))),
    ("GRU", "layout", 14, Some(Value::Int(0))),
    ("GatherND", "batch_dims", 12, Some(Value::Int(0))),
    ("LSTM", "layout", 14, Some(Value::Int(0))),
    ("LpPool", "ceil_mode", 18, Some(Value::Int(0))),
    ("LpPool", "dilations", 18, None),
    ("MaxPool", "ceil_mode", 10, Some(Value::Int(0))),
    ("MaxPool", "dilations", 10, None),
    ("MaxPool", "storage_order", 8, Some(Value::Int(0))),
    ("QuantizeLinear", "axis", 13, Some(Value::Int(1))),
    ("QuantizeLinear", "block_size", 21, Some(Value::Int(0))),
    ("QuantizeLinear", "output_dtype", 21, Some(Value::Int(0))),
    ("QuantizeLinear", "precision", 23, Some(Value::Int(0))),
    ("QuantizeLinear", "saturate", 19, Some(Value::Int(1))),
    ("RNN", "layout", 14, Some(Value::Int(0))),
    ("Range", "stash_type", 27, Some(Value::Int(1))),
    ("Reshape", "allowzero", 14, Some(Value::Int(0))),
    ("Resize", "antialias", 18, Some(Value::Int(0))),
    ("Resize", "axes", 18, None),
    ("Resize", "keep_aspect_ratio_policy", 18, Some(Value::Text("stretch"))),
    ("ScatterElements", "reduction", 16, Some(Value::Text("none"))),
    ("ScatterND", "reduction", 16, Some(Value::Text("none"))),
    ("Shape", "end", 15, None),
    ("Shape", "start", 15, Some(Value::Int(0))),
    ("SpaceToDepth", "mode", 28, Some(Value::Text("DCR"))),
    ("Split", "num_outputs", 18, None),
    ("TopK", "largest", 11, Some(Value::Int(1))),
    ("TopK", "sorted", 11, Some(Value::Int(1))),
];

/// Operators whose inputs became more, or optional, later, with the number of inputs before.
const LATER_INPUTS: &[(&str, usize, i64)] = &[("Pad", 3, 18), ("Resize", 0, 13)];

/// The value of an attribute.
enum Value {
    Int(i64),
    Text(&'static str),
}

impl Value {
    fn is(&self, attribute: &Attribute) -> bool {
        match (self, attribute) {
            (Value::Int(a), Attribute::Int(b)) => a == b,
            (Value::Text(a), Attribute::String(b)) => a.as_bytes() == b,
            _ => false,
        }
    }
}

/// Requirements of a node on its operator set.
#[derive(PartialEq, Eq, Hash)]
pub struct Need {
    /// The operator set.
    pub domain: Domain,
    name: &'static str,
    /// The version that introduced the form of the node.
    since: i64,
    inputs: usize,
    attributes: Vec<String>,
    operands: Operands,
}

impl Need {
    /// Returns what a node with these inputs needs. Removes attributes whose value equals their
    /// absence.
    pub fn of(graph: &Graph, node: &Node, inputs: &Outputs, attributes: &mut Attributes) -> Need {
        let (name, domain) = (node.op.name(), node.op.domain());
        let newest = ops::find(domain, name, domain.newest());
        let mut since = newest.map_or(1, |entry| entry.since);
        if let Some(composite) = node.op.downcast::<Composite>() {
            since = composite.version;
        }
        if domain == Domain::Onnx {
            attributes.0.retain(|(attribute, value)| {
                let later = LATER.iter().find(|row| row.0 == name && row.1 == attribute);
                let Some((_, _, version, default)) = later else { return true };
                let said = !default.as_ref().is_some_and(|default| default.is(value));
                since = if said { since.max(*version) } else { since };
                said
            });
            let grown = LATER_INPUTS.iter().filter(|row| row.0 == name && inputs.len() > row.1);
            since = grown.map(|row| row.2).fold(since.max(OLDEST), i64::max);
        }
        let names = attributes.0.iter().map(|(name, _)| name.to_string());
        Need {
            domain,
            name,
            since,
            inputs: inputs.len(),
            attributes: names.collect(),
            operands: Operands::of(graph, inputs, &node.outputs),
        }
    }

    /// Returns the oldest version from `version` on that has the form of the node, and allows its
    /// types. If no version allows them, only the form counts.
    pub fn oldest_from(&self, version: i64) -> i64 {
        let first = version.max(self.since);
        let later = (first..=self.domain.newest()).find(|&version| self.is_met_by(version));
        later.unwrap_or(first)
    }

    /// Returns whether a version of the operator set has the form of the node, and allows its types
    /// as far as the signature of the operator is known.
    pub fn is_met_by(&self, version: i64) -> bool {
        if version < self.since {
            return false;
        }
        let domain = self.domain.to_string();
        let signature = signature::find(canonical(&domain), self.name, version);
        let Some((_, signature)) = signature else { return true };
        signature.form.as_ref().is_some_and(|form| self.fits(form))
    }

    fn fits(&self, form: &'static Form) -> bool {
        let (least, most) = arity(&form.inputs);
        let is_known = |name: &String| form.attributes.iter().any(|known| known.name == name);
        self.inputs >= least
            && most.is_none_or(|most| self.inputs <= most)
            && self.attributes.iter().all(is_known)
            && lists(form, &self.operands)
    }
}
