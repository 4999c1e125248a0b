//! Rules for graphs in which they may match nothing. Most rules match nothing in most graphs, and a
//! search costs less than a copy.

use super::{
    Graph, RegionId, Rewritten, Rule, Site, UseCounts, ValueId, copy_node, rewrite,
    rewrite_context::SiteUses, rewritten,
};
use crate::diag::Diagnostics;

/// Applies the rules, one after another, to each node that the outputs need. If no rule applies and
/// the outputs need every node, returns the graph as it is.
///
/// # Errors
///
/// Returns an error for invalid nodes of the new graph.
pub fn apply(mut graph: Graph, rules: &[Rule<'_>]) -> Result<Rewritten, Diagnostics> {
    match is_final(&mut graph, rules) {
        true => Ok(Rewritten { graph, is_changed: false }),
        false => rewritten(&graph, &copy_node, rules),
    }
}

impl Rewritten {
    /// Returns the graph without the nodes that rules have replaced, which count as uses.
    ///
    /// # Errors
    ///
    /// Returns an error for invalid nodes of the new graph.
    pub fn without_dead_nodes(self) -> Result<Graph, Diagnostics> {
        if self.is_changed { rewrite(&self.graph, &copy_node, &[]) } else { Ok(self.graph) }
    }

    /// Applies more rules to the nodes that the outputs need.
    ///
    /// # Errors
    ///
    /// Returns an error for invalid nodes of the new graph.
    pub fn then(self, rules: &[Rule<'_>]) -> Result<Rewritten, Diagnostics> {
        match self.is_changed {
            true => rewritten(&self.graph, &copy_node, rules),
            false => apply(self.graph, rules),
        }
    }
}

/// Returns whether a copy of `graph` under `rules` would be the same. Does not change the nodes
/// that the outputs need.
fn is_final(graph: &mut Graph, rules: &[Rule<'_>]) -> bool {
    let counts = UseCounts::of(graph);
    is_needed(graph, &counts) && !applies(graph, graph.body, rules, &counts)
}

/// Returns whether a copy keeps each node: another node, or an output of a region, uses a result.
fn is_needed(graph: &Graph, counts: &UseCounts) -> bool {
    graph.walk(graph.body).all(|(_, node)| {
        let mut results = node.outputs.iter().flatten();
        let is_used = |&id: &ValueId| graph[id].constant.is_none() && counts.get(id) > 0;
        node.op.is_kept() || results.any(is_used)
    })
}

/// Returns whether a rule applies to a node of `region`, or has tried something there.
fn applies(graph: &mut Graph, region: RegionId, rules: &[Rule<'_>], counts: &UseCounts) -> bool {
    let count = graph[region].nodes.len();
    (0..count).any(|i| {
        let node = graph[graph[region].nodes[i]].clone();
        if node.regions.iter().any(|&inner| applies(graph, inner, rules, counts)) {
            return true;
        }
        let names: Vec<_> =
            node.outputs.iter().map(|id| id.map(|id| graph[id].name.clone())).collect();
        let before = graph.extent();
        let uses = SiteUses { of: Some(counts), inputs: &node.inputs };
        let mut site = Site { graph, region, uses, names: &names };
        let is_replaced = rules.iter().any(|rule| rule(&mut site, &node).is_some());
        let is_changed = is_replaced || graph.extent() != before;
        graph.keep_nodes(region, count);
        is_changed
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Compiler, Options, Spec,
        ir::{Node, Outputs},
    };

    fn graph(unused: &str) -> Graph {
        let model = format!(
            r#"<ir_version: 10, opset_import: ["" : 21]>
            g (float[2] x, bool c) => (float[2] z) {{
                a = Relu (x)
                {unused}
                y = If (c) <
                    then_branch = t () => (float[2] u) {{ u = Neg (a) }},
                    else_branch = e () => (float[2] v) {{ v = Abs (a) }}
                >
                z = Exp (y)
            }}"#
        );
        let bytes = model.into_bytes().into();
        Compiler::new(&Options::default()).import(bytes).expect("the model is valid").graph
    }

    fn exp_for(name: &str, site: &mut Site<'_>, node: &Node) -> Option<Outputs> {
        let exp = || Spec::new("Exp").called(&node.name).inputs(node.inputs.clone());
        (node.op.name() == name).then(|| exp().add_at(site).ok()).flatten()
    }

    #[test]
    fn a_graph_without_a_match_is_final() {
        assert!(is_final(&mut graph(""), &[]));
        assert!(is_final(&mut graph(""), &[&|site, node| exp_for("Sin", site, node)]));
    }

    #[test]
    fn a_match_changes_a_graph_at_the_top_and_in_a_branch() {
        for name in ["Relu", "Abs", "Exp"] {
            let (mut graph, before) = (graph(""), graph(""));
            assert!(!is_final(&mut graph, &[&|site, node| exp_for(name, site, node)]), "{name}");
            let names = |graph: &Graph| {
                let nodes = graph.walk(graph.body).map(|(_, node)| node.op.name());
                nodes.collect::<Vec<_>>()
            };
            assert_eq!(names(&graph), names(&before), "a search leaves no node behind");
        }
    }

    #[test]
    fn a_rule_that_adds_a_node_in_vain_changes_a_graph() {
        let in_vain = |site: &mut Site<'_>, node: &Node| {
            exp_for("Relu", site, node)?;
            None
        };
        assert!(!is_final(&mut graph(""), &[&in_vain]));
    }

    #[test]
    fn a_graph_with_a_dead_node_changes() {
        assert!(!is_final(&mut graph("b = Sin (a)"), &[]));
    }
}
