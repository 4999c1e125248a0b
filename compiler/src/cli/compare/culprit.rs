//! The node that causes the first departure from a reference.

use super::{
    metrics::Row,
    values::{Name, Traced},
};
use onnxc::diag::quoted;
use std::collections::{HashMap, HashSet};

/// The operators that change no element.
const MOVES: &[&str] =
    &["Block", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unblock", "Unsqueeze"];

/// The most names that a text lists.
const SHOWN: usize = 8;

/// The node that causes the first departure, as far as the compared values tell.
pub struct Culprit<'c> {
    /// The first value that departs.
    pub row: &'c Row,
    /// The node.
    pub node: &'c Name,
    /// Other nodes before the value which may cause it as well, because the reference has no values
    /// of them.
    pub others: Vec<&'c Name>,
}

impl<'c> Culprit<'c> {
    /// Returns the node that causes the first departure, if there is one. A node that changes no
    /// element does not cause it, if one before it may.
    pub fn of(rows: &'c [Row], compiled: &'c Traced) -> Option<Culprit<'c>> {
        let made: HashMap<&str, &Name> =
            compiled.names().iter().map(|name| (name.value.as_str(), name)).collect();
        let row = rows.iter().find(|row| row.departs())?;
        let own = *made.get(row.value.as_str())?;
        let others = before(own, &made, rows);
        let changes = |name: &&Name| !MOVES.contains(&name.operator.as_str());
        match others.iter().copied().filter(changes).collect::<Vec<_>>()[..] {
            [node] if !changes(&own) => Some(Culprit { row, node, others: Vec::new() }),
            _ => Some(Culprit { row, node: own, others }),
        }
    }

    /// Describes the node and the departure, in lines.
    pub fn text(&self) -> String {
        let Culprit { row, node, others } = self;
        let mut text = format!("the first node that departs is {}: ", named(node));
        if row.node != node.node {
            text += &format!("after it, in `{}` ({}), ", row.node, row.operator);
        }
        text += &row.summary();
        if !node.computes.is_empty() {
            let computes = node.computes.iter().map(|member| (&member.node, &member.operator));
            text += &format!("\nit computes these nodes of the model: {}", list(computes));
        }
        if !others.is_empty() {
            let others = list(others.iter().map(|other| (&other.node, &other.operator)));
            text += "\nthe reference has no value of the nodes before it, which may be the cause: ";
            text += &others;
        }
        text
    }
}

/// Returns the nodes before `node` up to those whose values are compared.
fn before<'c>(node: &'c Name, made: &HashMap<&str, &'c Name>, rows: &[Row]) -> Vec<&'c Name> {
    let known: HashSet<&str> = rows.iter().map(|row| row.value.as_str()).collect();
    let (mut open, mut seen, mut found) = (vec![node], HashSet::new(), Vec::new());
    while let Some(node) = open.pop() {
        for operand in &node.operands {
            let producer = made.get(operand.as_str()).filter(|_| !known.contains(&**operand));
            if let Some(&producer) = producer.filter(|_| seen.insert(operand)) {
                found.push(producer);
                open.push(producer);
            }
        }
    }
    found
}

fn named(name: &Name) -> String {
    format!("{} ({})", quoted(&name.node), name.operator)
}

/// Lists nodes by name and operator.
fn list<'n>(nodes: impl ExactSizeIterator<Item = (&'n String, &'n String)>) -> String {
    let rest = nodes.len().saturating_sub(SHOWN);
    let names = nodes.take(SHOWN).map(|(name, operator)| format!("{} ({operator})", quoted(name)));
    let names = names.collect::<Vec<_>>().join(", ");
    if rest == 0 { names } else { format!("{names} and {rest} others") }
}
