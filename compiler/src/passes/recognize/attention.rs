//! Recognizes `Attention` in `Softmax(scale · q · kᵀ + mask) · v`, as models of operator sets
//! before 23 write it.

use super::matching::{either, number, operands, uniform, unrounded};
use crate::{
    dim::Dim,
    dtype::DType,
    ir::{NewNode, Node, Op, Site, ValueId},
    ops::{
        attention::Attention,
        binary::{ADD, DIV, MUL},
        compare::Where,
        matmul::MatMul,
        reshape::Reshape,
        softmax::{SOFTMAX, Softmax},
        transpose::Transpose,
        unary::IsNaN,
    },
    passes::algebra::broadcasts_to,
    tensor::Tensor,
    ty::TensorType,
};
use std::rc::Rc;

type Replaced = Option<Vec<Option<ValueId>>>;

/// The permutation that swaps the heads and the sequence axis of `[batch, heads, sequence, size]`.
pub(super) const SWAP_HEADS: [i64; 4] = [0, 2, 1, 3];

/// The parts of `scale · q · kᵀ + Σ masks`.
struct Scores {
    q: ValueId,
    keys: Keys,
    scale: f64,
    masks: Vec<Mask>,
}

/// The keys: `source`, in this layout.
struct Keys {
    source: ValueId,
    layout: KeyLayout,
}

/// The layout of keys.
#[derive(Clone, Copy)]
enum KeyLayout {
    /// Four axes, of which these are `[batch, heads, sequence, size]`.
    Permuted([i64; 4]),
    /// `[batch · heads, sequence, size]`, to be reshaped to these sizes, of which one may be -1.
    Merged([i64; 4]),
}

/// A mask. If `is_longer`, it has an additional first axis of size one.
#[derive(Clone, Copy)]
struct Mask {
    value: ValueId,
    is_longer: bool,
}

/// Recognizes `softmax(scale · q · kᵀ + mask) · v` over `[batch, heads, sequence, size]`.
pub fn recognize_attention(site: &mut Site<'_>, node: &Node) -> Replaced {
    require_unfused(node)?;
    // If something else, such as a gradient, reads the weights, they would be computed twice.
    if site.uses(0) > 1 {
        return None;
    }
    let (weights, v) = (unguarded(site, node.input(0)?), node.input(1)?);
    let softmax = site.producer(weights)?;
    let form = softmax.op.downcast::<Softmax>()?;
    let is_last_axis = matches!(form.axis, -1 | 3) && std::ptr::eq(form.function, &SOFTMAX);
    if !is_last_axis || unrounded_rank_4(site, v).is_none() {
        return None;
    }
    let Scores { q, keys, scale, masks } = match_scores(site, softmax.input(0)?, MASKS)?;
    let narrow = scale as f32;
    let is_exact = unrounded_rank_4(site, q)?.dtype == DType::F32 || f64::from(narrow) == scale;
    if scale <= 0.0 || !is_exact {
        return None;
    }
    let k = keys.write(site, node)?;
    // Products broadcast batches and heads; the operator does not.
    let [batch_and_heads, of_keys, of_values] =
        [q, k, v].map(|value| unrounded_rank_4(site, value).map(|ty| &ty.shape[..2]));
    if of_keys != batch_and_heads || of_values != batch_and_heads {
        return None;
    }
    let mask = if masks.is_empty() { None } else { Some(write_masks(site, node, &masks)?) };
    let attention = Attention { scale: Some(narrow), ..Attention::default() };
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

/// Returns the weights that `Where(IsNaN(weights), 0, weights)` guards, or `value` itself. The
/// guard gives zeros for a query that may attend to no key, as the operator does.
fn unguarded(site: &Site<'_>, value: ValueId) -> ValueId {
    let guarded = || {
        let guard = site.producer(value).filter(|node| node.op.is::<Where>())?;
        let [condition, zero, weights] = guard.inputs()?;
        let test = site.producer(condition).filter(|node| node.op.is::<IsNaN>())?;
        let guards = test.input(0) == Some(weights) && uniform(site.graph, zero) == Some(0.0);
        guards.then_some(weights)
    };
    guarded().unwrap_or(value)
}

/// The most masks that are added to scores.
const MASKS: usize = 3;

/// Matches `scale · q · kᵀ + Σ masks`, with at most `most` masks.
fn match_scores(site: &Site<'_>, value: ValueId, most: usize) -> Option<Scores> {
    let most = match operands(site, value, &ADD) {
        Some(_) => most.checked_sub(1)?,
        None => return match_longer_sum(site, value, most).or_else(|| match_product(site, value)),
    };
    let keys = &unrounded_rank_4(site, value)?.shape[3];
    either(operands(site, value, &ADD)?, |scores, mask| {
        if uniform(site.graph, mask) == Some(0.0) {
            return match_scores(site, scores, most);
        }
        // To the operator, a mask with a shorter last axis hides the last keys.
        let ty = unrounded(site.graph, mask)?;
        let is_complete = (1..=4).contains(&ty.rank()) && ty.shape.last() == Some(keys);
        let fits = is_complete && broadcasts_to(site.graph, mask, scores);
        let mut scores = fits.then(|| match_scores(site, scores, most))??;
        scores.masks.push(Mask { value: mask, is_longer: false });
        Some(scores)
    })
}

/// Matches scores to which a mask is added while they have an additional first axis of size one, as
/// in attention within windows.
fn match_longer_sum(site: &Site<'_>, value: ValueId, most: usize) -> Option<Scores> {
    let most = most.checked_sub(1)?;
    let sum = reshaped(site, value)?;
    let [batch, heads, queries, keys] = shape(site, value)?;
    either(operands(site, sum, &ADD)?, |longer, mask| {
        let scores = reshaped(site, longer)?;
        let [one, rest @ ..] = shape::<5>(site, longer)?;
        let same = rest == [batch, heads, queries, keys] && shape(site, scores)? == rest;
        let [first, .., last] = shape::<5>(site, mask)?;
        let fits = [one, first].iter().all(|size| size.known() == Some(1))
            && last == keys
            && broadcasts_to(site.graph, mask, longer);
        let mut scores = (same && fits).then(|| match_scores(site, scores, most))??;
        scores.masks.push(Mask { value: mask, is_longer: true });
        Some(scores)
    })
}

/// Returns the value that `value` is a `Reshape` of.
fn reshaped(site: &Site<'_>, value: ValueId) -> Option<ValueId> {
    site.producer(value).filter(|node| node.op.is::<Reshape>())?.input(0)
}

/// Returns the sizes of the `N` axes of a value.
fn shape<'s, const N: usize>(site: &'s Site<'_>, value: ValueId) -> Option<[&'s Dim; N]> {
    let shape = &site.graph[value].ty.as_tensor()?.shape;
    shape.iter().collect::<Vec<_>>().try_into().ok()
}

/// Writes the sum of two or more masks, or the four axes of one.
fn write_masks(site: &mut Site<'_>, node: &Node, masks: &[Mask]) -> Option<ValueId> {
    let (first, rest) = masks.split_first()?;
    let mut sum = first.write(site, &format!("{}_mask", node.name))?;
    for (i, mask) in rest.iter().enumerate() {
        let mask = mask.write(site, &format!("{}_mask_{i}", node.name))?;
        let inputs = vec![Some(sum), Some(mask)];
        sum = add_node(site, &format!("{}_masks_{i}", node.name), Rc::new(&ADD), inputs)?;
    }
    Some(sum)
}

impl Mask {
    /// Writes the node that removes an additional axis.
    fn write(&self, site: &mut Site<'_>, name: &str) -> Option<ValueId> {
        if !self.is_longer {
            return Some(self.value);
        }
        let [_, sizes @ ..] = shape::<5>(site, self.value)?;
        let sizes: Option<Vec<i64>> = sizes.into_iter().map(Dim::known).collect();
        write_reshape(site, name, self.value, &sizes?)
    }
}

/// Writes a `Reshape` to these sizes.
fn write_reshape(
    site: &mut Site<'_>,
    name: &str,
    value: ValueId,
    sizes: &[i64],
) -> Option<ValueId> {
    let sizes = site.graph.constant(&format!("{name}_shape"), Tensor::from_ints(sizes));
    let op = Rc::new(Reshape { allowzero: false });
    add_node(site, name, op, vec![Some(value), Some(sizes)])
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
    Some(Scores { q, keys: Keys { source, ..keys }, scale, masks: Vec::new() })
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
        if let Some(keys) = Keys::from_matrices(site, transposed) {
            return Some(keys);
        }
        let [a, b, c, d] = permutation(site.producer(transposed)?)?;
        let source = site.producer(transposed)?.input(0)?;
        Some(Keys { source, layout: KeyLayout::Permuted([a, b, d, c]) })
    }

    /// Returns the keys that are transposed as `[batch · heads, sequence, size]`, then reshaped.
    fn from_matrices(site: &Site<'_>, transposed: ValueId) -> Option<Keys> {
        let swap = site.producer(reshaped(site, transposed)?)?;
        let perm = swap.op.downcast::<Transpose>()?.perm.as_deref()?;
        let matrices = swap.input(0)?;
        let [batch, heads, columns, rows] = shape(site, transposed)?;
        let [_, sequence, size] = shape(site, matrices)?;
        if perm != [0, 2, 1] || [rows, columns] != [sequence, size] {
            return None;
        }
        let split = [batch, heads, sequence, size];
        if let Some(source) = reshaped(site, matrices)
            && shape(site, source) == Some(split)
        {
            return Some(Keys { source, layout: KeyLayout::Permuted([0, 1, 2, 3]) });
        }
        let sizes = split.map(|size| size.known().unwrap_or(-1));
        let has_sizes = sizes.iter().filter(|&&size| size < 0).count() <= 1;
        has_sizes.then_some(Keys { source: matrices, layout: KeyLayout::Merged(sizes) })
    }

    /// Writes the node that gives the keys their layout, unless `source` has it.
    fn write(&self, site: &mut Site<'_>, node: &Node) -> Option<ValueId> {
        let name = format!("{}_keys", node.name);
        match self.layout {
            KeyLayout::Permuted([0, 1, 2, 3]) => Some(self.source),
            KeyLayout::Permuted(perm) => {
                let op = Rc::new(Transpose { perm: Some(perm.to_vec()) });
                add_node(site, &name, op, vec![Some(self.source)])
            }
            KeyLayout::Merged(sizes) => write_reshape(site, &name, self.source, &sizes),
        }
    }
}

/// Returns the permutation of a `Transpose` of rank 4.
pub(super) fn permutation(node: &Node) -> Option<[i64; 4]> {
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
pub(super) fn merged_heads(site: &Site<'_>, value: ValueId) -> Option<(ValueId, i64)> {
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
