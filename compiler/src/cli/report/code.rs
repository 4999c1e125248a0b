//! The lines of the generated module for each node.

use super::graph;
use crate::cli::analysis::Analysis;
use onnxc::diag::line;
use std::collections::HashMap;

/// The most lines that are shown for a node.
const MOST: usize = 60;

/// Returns the generated lines of each optimized node that has some: the number of the node, the
/// number of the first line in the module, and the lines.
pub fn by_node(analysis: &Analysis, module: &str) -> Vec<(usize, usize, String)> {
    let places = graph::numbers(&analysis.optimized);
    let comments = analysis.nodes_by_comment();
    let comments: HashMap<String, usize> =
        comments.into_iter().map(|(text, id)| (line(&text), places[&id])).collect();
    let lines: Vec<&str> = module.lines().collect();
    let mut found = Vec::new();
    for (start, text) in lines.iter().enumerate() {
        let comment = text.trim_start().strip_prefix("// ");
        let Some(&place) = comment.and_then(|comment| comments.get(comment)) else { continue };
        let indent = text.len() - text.trim_start().len();
        let part = lines[start + 1..].iter().take_while(|line| !line.is_empty()).take(MOST);
        let part: Vec<&str> = part.map(|line| line.get(indent..).unwrap_or(line.trim())).collect();
        found.push((place, start + 2, part.join("\n")));
    }
    found.sort();
    found.dedup_by_key(|(place, ..)| *place);
    found
}
