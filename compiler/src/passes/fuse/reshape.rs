//! Moves a `Reshape` away from between a product and the nodes behind it, so that the product can
//! absorb them. Exporters write the operands and results of `Gemm` and `BatchNormalization` as
//! matrices.

use super::{
    function,
    product::{Replaced, rounds_alike, tensor, with_activation},
};
use crate::{
    dim::Dim,
    ir::{Graph, Node, Op, Site, ValueId},
    ops::{
        matmul::{Gemm, MatMul},
        reshape::Reshape,
        sizes::Sizes,
    },
    tensor::Tensor,
};
use std::rc::Rc;

/// Replaces `reshape(a · w)` by `reshape(a) · w`, where `w` is a constant matrix and the rows stay
/// rows: in front of the product, the `Reshape` is a view, or the inverse of another one.
pub fn move_reshape(site: &mut Site<'_>, node: &Node) -> Replaced {
    let reshape = node.op.downcast::<Reshape>()?;
    let product = site.producer(node.input(0)?).filter(|_| site.uses(0) == 1)?.clone();
    let op = product_of_rows(site.graph, &product)?;
    let (a, y) = (product.input(0)?, node.input(0)?);
    let sizes = sizes_of_rows(site.graph, reshape, node.input(1)?, [a, y])?;
    let before = site.producer(a).filter(|node| node.op.is::<Reshape>());
    let source = before.and_then(|before| before.input(0));
    let same = |&source: &ValueId| tensor(site.graph, source).is_some_and(|ty| ty.shape == sizes);
    let rows = match source.filter(same) {
        Some(source) => source,
        None => reshaped(site, node, reshape, a, sizes)?,
    };
    let mut inputs = product.inputs.clone();
    inputs[0] = Some(rows);
    site.replace(node, op, inputs)
}

/// Returns the operator that computes the rows of a product with a constant matrix, for any number
/// of axes before the last one.
fn product_of_rows(graph: &Graph, product: &Node) -> Option<Rc<dyn Op>> {
    let rank = |i: usize| Some(tensor(graph, product.input(i)?)?.rank());
    let is_matrix = graph[product.input(1)?].constant.is_some() && rank(1)? == 2;
    let has_row = product.input(2).is_none() || rank(2)? <= 1;
    if !is_matrix || !has_row || rank(0)? < 2 {
        return None;
    }
    if product.op.is::<MatMul>() {
        return Some(product.op.clone());
    }
    let &Gemm { alpha, beta, trans_a, trans_b, activation } = product.op.downcast()?;
    let is_plain = alpha == 1.0 && beta == 1.0 && !trans_a && !trans_b;
    is_plain.then(|| Rc::new(MatMul { activation, fused: true }) as _)
}

/// Returns the shape of `a` that gives the product `y` the shape that a `Reshape` gives it, if that
/// keeps the last axis.
fn sizes_of_rows(
    graph: &Graph,
    Reshape { allowzero }: &Reshape,
    shape: ValueId,
    [a, y]: [ValueId; 2],
) -> Option<Vec<Dim>> {
    let [a, y] = [tensor(graph, a)?, tensor(graph, y)?];
    let mut sizes = graph[shape].known.clone()?;
    // A size of 0 copies that of the same axis, which must be one of both. A free size of 0 that
    // would copy another is an error of the run.
    let copies = |(axis, size): (usize, &Dim)| axis + 1 >= y.rank() && size.known() == Some(0);
    let is_kept = sizes.len() >= 2 && sizes.last() == y.shape.last();
    if !is_kept || !allowzero && sizes.iter().enumerate().any(copies) {
        return None;
    }
    *sizes.last_mut()? = a.shape.last()?.clone();
    Some(sizes)
}

/// Adds a `Reshape` of `value`.
fn reshaped(
    site: &mut Site<'_>,
    node: &Node,
    reshape: &Reshape,
    value: ValueId,
    sizes: Vec<Dim>,
) -> Option<ValueId> {
    let numbers: Option<Vec<i64>> = sizes.iter().map(Dim::known).collect();
    let shape = match numbers {
        Some(numbers) => {
            site.graph.constant(&format!("{} shape", node.name), Tensor::from_ints(&numbers))
        }
        None => site.before(node, Rc::new(Sizes { sizes, rank: 1 }), Vec::new())?,
    };
    let op = Reshape { allowzero: reshape.allowzero };
    site.before(node, Rc::new(op), vec![Some(value), Some(shape)])
}

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

    /// Returns the graph after all passes.
    fn compiled(text: &str) -> String {
        let mut after = String::new();
        crate::Compiler::new(&Options::default())
            .observe(|_, graph| after = graph.to_string())
            .plan(text.to_owned().into())
            .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        after
    }

    #[test]
    fn an_activation_behind_a_reshape_joins_the_product() {
        let after = compiled(
            "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[2, 3, 4] x, float[4, 5] w, float[5] b) => (float[2, 3, 5] y)
            <int64[2] rows = {6, 4}, int64[3] shape = {2, 3, 5}>
            {
                r = Reshape(x, rows)
                p = Gemm(r, w, b)
                s = Reshape(p, shape)
                y = Gelu(s)
            }",
        );
        assert!(after.contains("activation = \"Gelu\""), "{after}");
    }

    /// A product, a normalization of its rows as a matrix, and a residual with `n` sequences.
    fn normalized(n: &str) -> String {
        format!(
            "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[{n}, 3, 2] x) => (float[{n}, 3, 2] y)
            <float[2, 2] w = {{1.0, 2.0, 3.0, 4.0}}, float[2] s = {{1.0, 2.0}},
             float[2] b = {{1.0, 0.0}}, float[2] mean = {{0.5, 1.0}},
             float[2] variance = {{1.0, 4.0}}, int64[2] rows = {{-1, 2}}>
            {{
                p = MatMul(x, w)
                r = Reshape(p, rows)
                m = BatchNormalization(r, s, b, mean, variance)
                sizes = Shape(x)
                z = Reshape(m, sizes)
                y = Add(x, z)
            }}"
        )
    }

    #[test]
    fn nodes_behind_reshapes_of_rows_join_the_product() {
        for n in ["2", "n"] {
            let after = compiled(&normalized(n));
            assert!(after.contains("internal.MatMul"), "{after}");
            for gone in ["BatchNormalization", "Reshape"] {
                assert!(!after.contains(gone), "{after}");
            }
        }
    }

    #[test]
    fn a_residual_behind_a_reshape_joins_a_gemm() {
        let after = compiled(
            "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[2, 3, 2] x) => (float[2, 3, 2] y)
            <float[2, 2] w = {1.0, 2.0, 3.0, 4.0}, int64[2] rows = {-1, 2},
             int64[3] shape = {2, 3, 2}>
            {
                r = Reshape(x, rows)
                p = Gemm(r, w)
                s = Reshape(p, shape)
                y = Add(s, x)
            }",
        );
        assert!(!after.contains("Add") && !after.contains("Reshape"), "{after}");
    }

    #[test]
    fn a_product_with_other_uses_stays_where_it_is() {
        let after = compiled(
            "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[2, 3, 2] x) => (float[6, 2] y, float[2, 3, 2] p)
            <float[2, 2] w = {1.0, 2.0, 3.0, 4.0}, int64[2] rows = {-1, 2}>
            {
                p = MatMul(x, w)
                y = Reshape(p, rows)
            }",
        );
        assert_eq!(after.matches("MatMul").count(), 1, "{after}");
    }
}
