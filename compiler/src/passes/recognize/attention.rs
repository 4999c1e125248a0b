//! `Attention`, which models before version 23 spell as two products around a `Softmax`.

use super::{either, number, operands, wide};
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

/// Heads and rows of `[batch, heads, rows, size]` or `[batch, rows, heads, size]` swapped.
const SWAPPED: [i64; 4] = [0, 2, 1, 3];

/// What scores are made of: `scale · q · kᵀ + mask`, where `k` is the transposed one of a value.
struct Scores {
    q: ValueId,
    keys: Keys,
    scale: f64,
    mask: Option<ValueId>,
}

/// Keys, which stand in `from` in another order of its axes.
struct Keys {
    from: ValueId,
    order: [i64; 4],
}

/// `softmax(scale · q · kᵀ + mask) · v` of four axes, where batch and heads come first.
pub fn of_heads(site: &mut Site<'_>, node: &Node) -> Replaced {
    plain(node)?;
    // Who wants the weights, too, such as a derivative, would have all computed twice.
    if site.uses(0) > 1 {
        return None;
    }
    let (weights, v) = (node.input(0)?, node.input(1)?);
    let softmax = site.producer(weights)?;
    let form = softmax.op.downcast::<Softmax>()?;
    let last = matches!(form.axis, -1 | 3) && std::ptr::eq(form.form, &SOFTMAX);
    if !last || four(site, v).is_none() {
        return None;
    }
    let Scores { q, keys, scale, mask } = scores(site, softmax.input(0)?)?;
    if scale <= 0.0 || four(site, q).is_none() {
        return None;
    }
    let k = keys.place(site, node)?;
    let attention = Attention { scale: Some(scale as f32), ..Attention::default() };
    site.replace(node, Rc::new(attention), vec![Some(q), Some(k), Some(v), mask])
}

/// A product as ONNX has it, with nothing that a pass put behind it.
fn plain(node: &Node) -> Option<()> {
    node.op.downcast::<MatMul>().is_some_and(|product| !product.fused).then_some(())
}

/// The type of a value of four axes with wide elements.
fn four<'s>(site: &'s Site<'_>, value: ValueId) -> Option<&'s TensorType> {
    wide(site.graph, value).filter(|ty| ty.rank() == 4)
}

/// The scores, with a mask that is added to them or without.
fn scores(site: &Site<'_>, value: ValueId) -> Option<Scores> {
    let Some(sum) = operands(site, value, &ADD) else { return products(site, value) };
    let keys = four(site, value)?.shape[3].clone();
    either(sum, |scores, mask| {
        // The operator takes a mask that is shorter for one that hides the last keys.
        let ty = wide(site.graph, mask)?;
        let whole = (1..=4).contains(&ty.rank()) && ty.shape.last() == Some(&keys);
        let scores = products(site, scores)?;
        whole.then_some(Scores { mask: Some(mask), ..scores })
    })
}

/// `scale · q · kᵀ`; either factor may be scaled, too.
fn products(site: &Site<'_>, value: ValueId) -> Option<Scores> {
    let (value, outer) = scaled(site, value);
    let product = site.producer(value)?;
    plain(product)?;
    let (q, of_queries) = scaled(site, product.input(0)?);
    let (turned, of_keys) = scaled(site, product.input(1)?);
    let keys = Keys::of(site, turned)?;
    let (from, inner) = scaled(site, keys.from);
    let scale = outer * of_queries * of_keys * inner;
    Some(Scores { q, keys: Keys { from, ..keys }, scale, mask: None })
}

/// The value of which `value` is a multiple, and the factor.
fn scaled(site: &Site<'_>, value: ValueId) -> (ValueId, f64) {
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
    /// The keys of which `turned` has the rows as columns.
    fn of(site: &Site<'_>, turned: ValueId) -> Option<Keys> {
        let [a, b, c, d] = order(site.producer(turned)?)?;
        let from = site.producer(turned)?.input(0)?;
        Some(Keys { from, order: [a, b, d, c] })
    }

    /// The keys as a value of their own.
    fn place(&self, site: &mut Site<'_>, node: &Node) -> Option<ValueId> {
        if self.order == [0, 1, 2, 3] {
            return Some(self.from);
        }
        let op = Rc::new(Transpose { perm: Some(self.order.to_vec()) });
        add(site, &format!("{}_keys", node.name), op, vec![Some(self.from)])
    }
}

/// How a node orders four axes anew.
fn order(node: &Node) -> Option<[i64; 4]> {
    node.op.downcast::<Transpose>()?.perm.as_ref()?.as_slice().try_into().ok()
}

/// Attention whose operands and result have their heads within the rows, `[batch, rows, heads ·
/// size]`, and are only brought into the order of four axes for it.
pub fn of_rows(site: &mut Site<'_>, node: &Node) -> Replaced {
    is_plain_reshape(site, node)?;
    let turned = site.producer(node.input(0)?)?;
    let attention = site.producer(turned.input(0)?)?;
    let op = attention.op.downcast::<Attention>()?;
    let fits = order(turned)? == SWAPPED && attention.inputs.len() <= 4;
    if !fits || attention.outputs.iter().skip(1).any(Option::is_some) {
        return None;
    }
    let [q, k, v] = [0, 1, 2].map(|i| rows(site, attention.input(i)?));
    let ((q, heads), (k, shared), (v, _)) = (q?, k?, v?);
    let inputs = vec![Some(q), Some(k), Some(v), attention.input(3)];
    let op = Attention { heads: [Some(heads), Some(shared)], ..op.clone() };
    let merged = add(site, &format!("{}_attention", node.name), Rc::new(op), inputs)?;
    site.replace(node, node.op.clone(), vec![Some(merged), node.input(1)])
}

/// A `Reshape` that copies no axis but the first two, which stay what they are.
fn is_plain_reshape(site: &Site<'_>, node: &Node) -> Option<()> {
    let reshape = node.op.downcast::<Reshape>()?;
    let wanted = site.graph[node.input(1)?].known.as_ref()?;
    let copies = wanted.iter().skip(2).any(|dim| dim.known() == Some(0));
    (!copies || reshape.allowzero).then_some(())
}

/// Adds a node with one output, which is called as the node.
fn add(
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

/// The value of three axes that is brought into `[batch, heads, rows, size]`, and its heads.
fn rows(site: &Site<'_>, value: ValueId) -> Option<(ValueId, i64)> {
    let turned = site.producer(value)?;
    if order(turned)? != SWAPPED {
        return None;
    }
    let split = site.producer(turned.input(0)?)?;
    split.op.downcast::<Reshape>()?;
    let (parts, x) = (four(site, turned.input(0)?)?, split.input(0)?);
    let whole = wide(site.graph, x)?;
    let merged = [&parts.shape[0], &parts.shape[1], &(&parts.shape[2] * &parts.shape[3])];
    let same = whole.shape.iter().eq(merged);
    Some((x, parts.shape[2].known().filter(|_| same)?))
}
