//! Selection of the oldest operator sets that have everything that is written.

use crate::{
    domain,
    ir::{Attribute, Attributes, Domain, Info, Node, Outputs},
    ops::{self, composite::Composite},
};
use std::collections::BTreeMap;

/// The oldest version of the main operator set that is written; from it on, operators have no
/// attributes that were removed later.
const OLDEST: i64 = 7;

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

/// The versions that the nodes written so far need.
#[derive(Default)]
pub struct Needs(BTreeMap<Domain, i64>);

impl Needs {
    /// Adds the needs of a node, and removes attributes whose value equals their absence.
    pub fn node(&mut self, node: &Node, inputs: &Outputs, attributes: &mut Attributes) {
        let (name, domain) = (node.op.name(), node.op.domain());
        let newest = ops::find(domain, name, domain.newest());
        let mut version = newest.map_or(1, |entry| entry.since);
        if let Some(composite) = node.op.downcast::<Composite>() {
            version = composite.version;
        }
        if domain == Domain::Onnx {
            attributes.0.retain(|(attribute, value)| {
                let later = LATER.iter().find(|row| row.0 == name && row.1 == attribute);
                let Some((_, _, since, default)) = later else { return true };
                let said = !default.as_ref().is_some_and(|default| default.is(value));
                version = if said { version.max(*since) } else { version };
                said
            });
            let grown = LATER_INPUTS.iter().filter(|row| row.0 == name && inputs.len() > row.1);
            version = grown.map(|row| row.2).fold(version.max(OLDEST), i64::max);
        }
        self.at_least(domain, version);
    }

    /// Requires a version of an operator set.
    pub fn at_least(&mut self, domain: Domain, version: i64) {
        let needed = self.0.entry(domain).or_insert(version);
        *needed = (*needed).max(version);
    }

    /// Returns the operator sets to import. A graph that was not read from a file imports the
    /// newest.
    pub fn sets(&self, info: &Info) -> Vec<(String, i64)> {
        let mut sets: BTreeMap<Domain, i64> = self.0.clone();
        for (name, version) in &info.opsets {
            if let Some(needed) = Domain::from_name(name).and_then(|domain| sets.get_mut(&domain)) {
                *needed = (*needed).max(*version);
            }
        }
        if info.opsets.is_empty() {
            sets.iter_mut().for_each(|(domain, version)| *version = domain.newest());
        }
        // A model must import an operator set, even without nodes.
        if sets.is_empty() {
            let main = info.opsets.iter().find(|(name, _)| domain::canonical(name).is_empty());
            let version = main.map_or(Domain::Onnx.newest(), |(_, version)| *version);
            sets.insert(Domain::Onnx, version.max(OLDEST));
        }
        let name = |domain: Domain| match domain {
            Domain::Onnx => String::new(),
            other => other.to_string(),
        };
        sets.into_iter().map(|(domain, version)| (name(domain), version)).collect()
    }
}

/// Returns the oldest version of the file format that supports these operator sets, and
/// initializers that are not inputs.
pub fn file_format(sets: &[(String, i64)]) -> i64 {
    // The format version of each version of the main operator set, as in ONNX's releases.
    const FORMATS: &[(i64, i64)] = &[
        (28, 14),
        (25, 13),
        (24, 12),
        (23, 11),
        (21, 10),
        (19, 9),
        (15, 8),
        (12, 7),
        (11, 6),
        (10, 5),
    ];
    let main = sets.iter().find(|(name, _)| name.is_empty()).map_or(1, |(_, version)| *version);
    FORMATS.iter().find(|(set, _)| main >= *set).map_or(4, |(_, format)| *format)
}
