//! Moves an activation in front of the `Reshape` that separates it from a product, so that the
//! product can absorb it. Exporters of `Gemm` write its operands and its result as matrices.

use super::{
    function,
    product::{Replaced, rounds_alike, with_activation},
};
use crate::{
    ir::{Node, Site},
    ops::reshape::Reshape,
};
use std::rc::Rc;

/// Replaces `f(reshape(product))` by `reshape(f(product))`.
pub fn move_activation(site: &mut Site<'_>, node: &Node) -> Replaced {
    let f = function::activation_of(site.graph, node)?;
    let reshape = site.producer(node.input(0)?).filter(|_| site.uses(0) == 1)?;
    let allowzero = reshape.op.downcast::<Reshape>()?.allowzero;
    let (before, shape) = (reshape.input(0)?, reshape.input(1)?);
    let product = site.producer(before).filter(|_| rounds_alike(site.graph, before))?;
    with_activation(&*product.op, f)?;
    let mut inputs = node.inputs.clone();
    inputs[0] = Some(before);
    let y = site.before(node, node.op.clone(), inputs)?;
    site.replace(node, Rc::new(Reshape { allowzero }), vec![Some(y), Some(shape)])
}

#[cfg(test)]
mod tests {
    use crate::Options;

    #[test]
    fn an_activation_behind_a_reshape_joins_the_product() {
        let text = "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[2, 3, 4] x, float[4, 5] w, float[5] b) => (float[2, 3, 5] y)
            <int64[2] rows = {6, 4}, int64[3] shape = {2, 3, 5}>
            {
                r = Reshape(x, rows)
                p = Gemm(r, w, b)
                s = Reshape(p, shape)
                y = Gelu(s)
            }";
        let mut after = String::new();
        crate::Compiler::new(&Options::default())
            .observe(|_, graph| after = graph.to_string())
            .plan(text.to_owned().into())
            .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        assert!(after.contains("activation = \"Gelu\""), "{after}");
    }
}
