//! Recognizes `Attention` in `Softmax(scale · q · kᵀ + mask) · v`, as models of operator sets
//! before 23 write it.

use super::matching::{either, number, operands, unrounded};
use crate::{
    ir::{NewNode, Node, Op, Site, ValueId},
    ops::{
        attention::Attention,
        binary::{ADD, DIV, MUL},
        matmul::MatMul,
        reshape::Reshape,
        softmax::{SOFTMAX, Softmax},
        transpose::Transpose,
    },
    ty::TensorType,
};
use std::rc::Rc;

type Replaced = Option<Vec<Option<ValueId>>>;

/// The permutation that swaps the heads and the sequence axis of `[batch, heads, sequence, size]`.
const SWAP_HEADS: [i64; 4] = [0, 2, 1, 3];

/// The parts of `scale · q · kᵀ + mask`.
struct Scores {
    q: ValueId,
    keys: Keys,
    scale: f64,
    mask: Option<ValueId>,
}

/// The keys: `source` with its axes permuted.
struct Keys {
    source: ValueId,
    perm: [i64; 4],
}

/// Recognizes `softmax(scale · q · kᵀ + mask) · v` over `[batch, heads, sequence, size]`.
pub fn recognize_attention(site: &mut Site<'_>, node: &Node) -> Replaced {
    require_unfused(node)?;
    // If something else, such as a gradient, reads the weights, they would be computed twice.
    if site.uses(0) > 1 {
        return None;
    }
    let (weights, v) = (node.input(0)?, node.input(1)?);
    let softmax = site.producer(weights)?;
    let form = softmax.op.downcast::<Softmax>()?;
    let is_last_axis = matches!(form.axis, -1 | 3) && std::ptr::eq(form.function, &SOFTMAX);
    if !is_last_axis || unrounded_rank_4(site, v).is_none() {
        return None;
    }
    let Scores { q, keys, scale, mask } = match_scores(site, softmax.input(0)?)?;
    if scale <= 0.0 || unrounded_rank_4(site, q).is_none() {
        return None;
    }
    let k = keys.write(site, node)?;
    let attention = Attention { scale: Some(scale as f32), ..Attention::default() };
    site.replace(node, Rc::new(attention), vec![Some(q), Some(k), Some(v), mask])
}

/// Requires a `MatMul` that no pass has fused anything into.
fn require_unfused(node: &Node) -> Option<()> {
    node.op.downcast::<MatMul>().is_some_and(|product| !product.fused).then_some(())
}

/// Returns the type of a value of rank 4 that [`unrounded`] accepts.
fn unrounded_rank_4<'s>(site: &'s Site<'_>, value: ValueId) -> Option<&'s TensorType> {
    unrounded(site.graph, value).filter(|ty| ty.rank() == 4)
}

/// Matches `scale · q · kᵀ + mask`, where the mask is optional.
fn match_scores(site: &Site<'_>, value: ValueId) -> Option<Scores> {
    let Some(sum) = operands(site, value, &ADD) else { return match_product(site, value) };
    let keys = unrounded_rank_4(site, value)?.shape[3].clone();
    either(sum, |scores, mask| {
        // To the operator, a mask with a shorter last axis hides the last keys.
        let ty = unrounded(site.graph, mask)?;
        let is_complete = (1..=4).contains(&ty.rank()) && ty.shape.last() == Some(&keys);
        let scores = match_product(site, scores)?;
        is_complete.then_some(Scores { mask: Some(mask), ..scores })
    })
}

/// Matches `scale · q · kᵀ`, where the scale may be applied to the product or to either operand.
fn match_product(site: &Site<'_>, value: ValueId) -> Option<Scores> {
    let (value, scale) = split_scale(site, value);
    let product = site.producer(value)?;
    require_unfused(product)?;
    let (q, q_scale) = split_scale(site, product.input(0)?);
    let (transposed, transposed_scale) = split_scale(site, product.input(1)?);
    let keys = Keys::from_transposed(site, transposed)?;
    let (source, source_scale) = split_scale(site, keys.source);
    let scale = scale * q_scale * transposed_scale * source_scale;
    Some(Scores { q, keys: Keys { source, ..keys }, scale, mask: None })
}

/// Returns the `x` and the `scale` of `scale · x` or `x / (1 / scale)`; the value itself and 1 if
/// it is neither.
fn split_scale(site: &Site<'_>, value: ValueId) -> (ValueId, f64) {
    let multiple = || {
        let other = |x: ValueId, c: ValueId| {
            let same = site.graph[x].ty == site.graph[value].ty;
            Some((x, number(site.graph, c).filter(|_| same)?))
        };
        if let Some([a, b]) = operands(site, value, &DIV) {
            return other(a, b).map(|(x, c)| (x, 1.0 / c));
        }
        either(operands(site, value, &MUL)?, other)
    };
    multiple().unwrap_or((value, 1.0))
}

impl Keys {
    /// Returns the keys whose transposition `transposed` computes.
    fn from_transposed(site: &Site<'_>, transposed: ValueId) -> Option<Keys> {
        let [a, b, c, d] = permutation(site.producer(transposed)?)?;
        let source = site.producer(transposed)?.input(0)?;
        Some(Keys { source, perm: [a, b, d, c] })
    }

    /// Writes a `Transpose` that computes the keys, unless `source` has their layout already.
    fn write(&self, site: &mut Site<'_>, node: &Node) -> Option<ValueId> {
        if self.perm == [0, 1, 2, 3] {
            return Some(self.source);
        }
        let op = Rc::new(Transpose { perm: Some(self.perm.to_vec()) });
        add_node(site, &format!("{}_keys", node.name), op, vec![Some(self.source)])
    }
}

/// Returns the permutation of a `Transpose` of rank 4.
fn permutation(node: &Node) -> Option<[i64; 4]> {
    node.op.downcast::<Transpose>()?.perm.as_ref()?.as_slice().try_into().ok()
}

/// Replaces an `Attention` over `[batch, heads, sequence, size]`, whose operands and result are
/// transposed from and to `[batch, sequence, heads · size]`, by one over three axes.
pub fn remove_head_transposes(site: &mut Site<'_>, node: &Node) -> Replaced {
    require_reshape_of_known_axes(site, node)?;
    let transpose = site.producer(node.input(0)?)?;
    let attention = site.producer(transpose.input(0)?)?;
    let op = attention.op.downcast::<Attention>()?;
    let fits = permutation(transpose)? == SWAP_HEADS && attention.inputs.len() <= 4;
    if !fits || attention.outputs.iter().skip(1).any(Option::is_some) {
        return None;
    }
    let [q, k, v] = [0, 1, 2].map(|i| merged_heads(site, attention.input(i)?));
    let ((q, heads), (k, kv_heads), (v, _)) = (q?, k?, v?);
    let inputs = vec![Some(q), Some(k), Some(v), attention.input(3)];
    let op = Attention { heads: [Some(heads), Some(kv_heads)], ..op.clone() };
    let merged = add_node(site, &format!("{}_attention", node.name), Rc::new(op), inputs)?;
    site.replace(node, node.op.clone(), vec![Some(merged), node.input(1)])
}

/// Requires a `Reshape` whose shape has no 0, which copies an axis, beyond the first two axes.
fn require_reshape_of_known_axes(site: &Site<'_>, node: &Node) -> Option<()> {
    let reshape = node.op.downcast::<Reshape>()?;
    let shape = site.graph[node.input(1)?].known.as_ref()?;
    let copies = shape.iter().skip(2).any(|dim| dim.known() == Some(0));
    (!copies || reshape.allowzero).then_some(())
}

/// Adds a node with one output of the node's name.
fn add_node(
    site: &mut Site<'_>,
    name: &str,
    op: Rc<dyn Op>,
    inputs: Vec<Option<ValueId>>,
) -> Option<ValueId> {
    let outputs = &[Some(name.to_owned())];
    let new = NewNode { name, op, inputs, outputs, regions: Vec::new() };
    let (id, result) = site.graph.node(site.region, new);
    result.ok()?;
    site.graph[id].outputs[0]
}

/// Returns the `x` of shape `[batch, sequence, heads · size]` that is reshaped and transposed to
/// `[batch, heads, sequence, size]`, and the number of heads.
fn merged_heads(site: &Site<'_>, value: ValueId) -> Option<(ValueId, i64)> {
    let transpose = site.producer(value)?;
    if permutation(transpose)? != SWAP_HEADS {
        return None;
    }
    let reshape = site.producer(transpose.input(0)?)?;
    reshape.op.downcast::<Reshape>()?;
    let (split, x) = (unrounded_rank_4(site, transpose.input(0)?)?, reshape.input(0)?);
    let ty = unrounded(site.graph, x)?;
    let merged = [&split.shape[0], &split.shape[1], &(&split.shape[2] * &split.shape[3])];
    let same = ty.shape.iter().eq(merged);
    Some((x, split.shape[2].known().filter(|_| same)?))
}
