//! Simplification: folds constants, decides branches, and removes nodes without effect.

use super::{algebra, branch::Branches, budget::Budget, conditions, fold, loops, sequence};
use crate::{
    diag::Diagnostics,
    ir::{Graph, Node, Outputs, Site, copy_node, rewrite},
    ops::composite::Composite,
};

/// A rule that folds constants.
type Fold = fn(&mut Site<'_>, &Node, &Budget) -> Option<Outputs>;

/// Expands composite operators, then simplifies. Quantized constants are kept, because `quantize`
/// looks for them.
pub fn run(graph: Graph) -> Result<Graph, Diagnostics> {
    simplify(&conditions::keep(expand_composites(graph)?)?, fold::fold_unquantized)
}

/// Simplifies, and folds quantized constants too.
pub fn run_all(graph: &Graph) -> Result<Graph, Diagnostics> {
    simplify(graph, fold::fold)
}

/// Simplifies to ONNX's own operators. Quantized constants are kept, so that the file that is
/// written compiles to the integer kernels that the model compiles to.
pub fn run_standard(graph: Graph) -> Result<Graph, Diagnostics> {
    let (budget, branches) = (Budget::of(&graph), Branches::default());
    rewrite(
        &graph,
        &|cx, id, _, into, _| branches.take(cx, id, into),
        &[
            &fold::remove_identity,
            &fold::remove_cast,
            &sequence::unwrap_optional,
            &|site, node| sequence::resolve_sequence(site, node, &budget),
            &|site, node| loops::constants(site, node, &budget),
            &|site, node| fold::fold_standard(site, node, &budget),
        ],
    )
}

/// Expands composite operators.
pub fn expand_composites(graph: Graph) -> Result<Graph, Diagnostics> {
    let has_composite = graph.nodes().any(|(_, node)| node.op.is::<Composite>());
    match has_composite {
        true => rewrite(&graph, &copy_node, &[&fold::expand_composite]),
        false => Ok(graph),
    }
}

fn simplify(graph: &Graph, fold: Fold) -> Result<Graph, Diagnostics> {
    let (budget, branches) = (Budget::of(graph), Branches::default());
    rewrite(
        graph,
        &|cx, id, rest, into, outputs| branches.decide(cx, id, rest, into, outputs),
        &[
            &fold::remove_identity,
            &fold::remove_cast,
            &sequence::unwrap_optional,
            &|site, node| sequence::resolve_sequence(site, node, &budget),
            &|site, node| loops::constants(site, node, &budget),
            &|site, node| fold(site, node, &budget),
            &algebra::replace_sum,
            &algebra::replace_power,
            &algebra::remove_one,
            &algebra::remove_bias,
            &algebra::remove_broadcast,
            &algebra::remove_inverse,
        ],
    )
}
