//! Recognizes `LayerNormalization` and `RMSNormalization` in the nodes that models of operator sets
//! before 17 and 23 have.

use super::{
    factors::{Factor, factors_of, factors_until, without},
    matching::{
        are_private_but, either, number, operands, operands_of, trailing_mean, uniform, unrounded,
    },
};
use crate::{
    dtype::DType,
    ir::{Node, Op, Site, ValueId},
    limits::Limit,
    ops::{
        binary::{ADD, Binary, MUL, Pow, SUB},
        norm::{
            layer::{LayerNormalization, RmsNormalization},
            rows::is_row,
        },
        unary::{SQRT, Unary},
    },
    passes::fuse::{Replaced, is, tensor},
    tensor::Tensor,
    ty::TensorType,
};
use std::{ptr, rc::Rc};

/// A root `√(mean(d²) + ε)`, whose mean is over the axes from `axis` on.
struct Root {
    factor: Factor,
    d: ValueId,
    axis: usize,
    epsilon: f32,
}

/// Recognizes `scale · d / √(mean(d²) + ε)` with the factors in any order, and with or without the
/// scale. If `d` is `x - mean(x)`, it is a `LayerNormalization` of `x`, else an `RMSNormalization`
/// of `d`.
pub fn recognize_normalization(site: &mut Site<'_>, node: &Node) -> Replaced {
    let root = factors_until(site, node, None).into_iter().find_map(|f| match_root(site, f))?;
    let others = without(factors_until(site, node, Some(root.d)), root.factor)?;
    let others = without(others, Factor { value: root.d, is_divisor: false })?;
    if !are_private_but(site, node, root.d) {
        return None;
    }
    let x = match_centered(site, &root).unwrap_or(root.d);
    let ty = unrounded(site.graph, x)?.clone();
    let scale = match_scale(site, &others, &ty, root.axis)?;
    let (axis, epsilon, stash_type) = (root.axis as i64, root.epsilon, DType::F32);
    let op: Rc<dyn Op> = if x == root.d {
        Rc::new(RmsNormalization { axis, epsilon, stash_type })
    } else {
        Rc::new(LayerNormalization { axis, epsilon, stash_type })
    };
    site.replace(node, op, vec![Some(x), Some(scale)])
}

/// Recognizes `x · r + (bias - mean · r)` with `r = scale / √(mean((x - mean)²) + ε)` and the mean
/// of `x`, which is a `LayerNormalization`.
pub fn recognize_shifted(site: &mut Site<'_>, node: &Node) -> Replaced {
    let (x, mean, r, bias) = either(operands_of(node, &ADD)?, |product, difference| {
        let [bias, shift] = operands(site, difference, &SUB)?;
        either(operands(site, product, &MUL)?, |x, r| {
            either(operands(site, shift, &MUL)?, |mean, other| {
                (r == other).then_some((x, mean, r, bias))
            })
        })
    })?;
    let factors = factors_of(site, r);
    let root = factors.iter().find_map(|&f| match_root(site, f))?;
    let others = without(factors, root.factor)?;
    let is_centered = operands(site, root.d, &SUB)? == [x, mean]
        && match_centered(site, &root) == Some(x)
        && are_private_but(site, node, x);
    let ty = unrounded(site.graph, x)?.clone();
    if !is_centered || !fits(site, bias, &ty, root.axis) {
        return None;
    }
    let scale = match_scale(site, &others, &ty, root.axis)?;
    let op = LayerNormalization {
        axis: root.axis as i64,
        epsilon: root.epsilon,
        stash_type: DType::F32,
    };
    site.replace(node, Rc::new(op), vec![Some(x), Some(scale), Some(bias)])
}

/// Returns the only factor as the scale of a normalization of `ty`, or ones if there is no factor.
fn match_scale(
    site: &mut Site<'_>,
    factors: &[Factor],
    ty: &TensorType,
    axis: usize,
) -> Option<ValueId> {
    match factors {
        [] => ones(site, ty, axis),
        &[Factor { value, is_divisor: false }] if fits(site, value, ty, axis) => Some(value),
        _ => None,
    }
}

/// Replaces a product with the result of a normalization whose scale is 1 by a normalization with
/// that scale.
pub fn recognize_scale(site: &mut Site<'_>, node: &Node) -> Replaced {
    let (op, x, scale) = absorb(site, node, &MUL, |site, normalization| {
        let is_plain = normalization.input(2).is_none()
            && uniform(site.graph, normalization.input(1)?) == Some(1.0);
        is_plain.then_some(())
    })?;
    site.replace(node, op, vec![Some(x[0]), Some(scale)])
}

/// Replaces a sum with the result of a normalization without bias by a normalization with bias.
pub fn recognize_bias(site: &mut Site<'_>, node: &Node) -> Replaced {
    let (op, x, bias) = absorb(site, node, &ADD, |_, normalization| {
        let is_plain = normalization.input(2).is_none();
        (is_plain && normalization.op.is::<LayerNormalization>()).then_some(())
    })?;
    site.replace(node, op, vec![Some(x[0]), Some(x[1]), Some(bias)])
}

/// Matches the operator `row` of the result of a normalization, which nothing else uses, and an
/// operand with a number for each element of a row. Returns the normalization, its first two
/// inputs, and the operand.
fn absorb(
    site: &Site<'_>,
    node: &Node,
    row: &'static Binary,
    accepts: impl Fn(&Site<'_>, &Node) -> Option<()>,
) -> Option<(Rc<dyn Op>, [ValueId; 2], ValueId)> {
    if !is(node, row) {
        return None;
    }
    [(0, 1), (1, 0)].into_iter().find_map(|(i, j)| {
        let normalization = site.producer(node.input(i)?)?;
        let layer = normalization.op.downcast::<LayerNormalization>().map(|op| op.axis);
        let rms = normalization.op.downcast::<RmsNormalization>().map(|op| op.axis);
        let axis = layer.or(rms)?;
        let ty = unrounded(site.graph, normalization.input(0)?)?;
        let first = if axis < 0 { axis + ty.rank() as i64 } else { axis } as usize;
        accepts(site, normalization)?;
        let is_alone = site.uses(i) == 1 && normalization.outputs.len() == 1;
        let inputs = [normalization.input(0)?, normalization.input(1)?];
        let fitting = is_alone && fits(site, node.input(j)?, ty, first);
        fitting.then(|| (Rc::clone(&normalization.op), inputs, node.input(j).expect("read above")))
    })
}

/// Returns whether `value` has exactly one number for each element of a row of `ty`.
fn fits(site: &Site<'_>, value: ValueId, ty: &TensorType, axis: usize) -> bool {
    tensor(site.graph, value).is_some_and(|scale| {
        scale.dtype == ty.dtype
            && scale.rank() <= ty.rank()
            && is_row(&scale.shape, &ty.shape, axis)
    })
}

/// Adds a scale of ones, of the shape of a row.
fn ones(site: &mut Site<'_>, ty: &TensorType, axis: usize) -> Option<ValueId> {
    let sizes = ty.shape[axis..].iter().map(|dim| usize::try_from(dim.known()?).ok());
    let shape: Vec<usize> = sizes.collect::<Option<_>>()?;
    let len = shape.iter().try_fold(1_usize, |len, &size| len.checked_mul(size))?;
    if !site.graph.budget.take(Limit::ListElements, len) {
        return None;
    }
    let ones = vec![1.0; len];
    let ones = Tensor::from_numbers(ty.dtype, shape, &ones).ok()?;
    Some(site.graph.constant("ones", ones))
}

/// Returns the `x` of `x - mean(x)`, if that is the `d` of a root, and the mean is over its axes.
fn match_centered(site: &Site<'_>, root: &Root) -> Option<ValueId> {
    let [x, mean] = operands(site, root.d, &SUB)?;
    (trailing_mean(site, mean)? == (x, root.axis)).then_some(x)
}

/// Matches division by `√(mean(d²) + ε)`, or multiplication by a power of `-1/2`.
fn match_root(site: &Site<'_>, factor: Factor) -> Option<Root> {
    let root = site.producer(factor.value)?;
    let exponent = if root.op.is::<Pow>() {
        number(site.graph, root.input(1)?)?
    } else {
        ptr::eq(*root.op.downcast::<&'static Unary>()?, &SQRT).then_some(0.5)?
    };
    if exponent != if factor.is_divisor { 0.5 } else { -0.5 } {
        return None;
    }
    let sum = root.input(0)?;
    let (mean, epsilon) = match operands(site, sum, &ADD) {
        None => (sum, 0.0),
        Some(pair) => either(pair, |mean, e| Some((mean, number(site.graph, e)?)))?,
    };
    let (square, axis) = trailing_mean(site, mean)?;
    let d = match_square(site, square)?;
    let narrow = epsilon as f32;
    let is_exact = f64::from(narrow) == epsilon;
    is_exact.then_some(Root { factor, d, axis, epsilon: narrow })
}

/// Returns the `d` of `d²`.
fn match_square(site: &Site<'_>, value: ValueId) -> Option<ValueId> {
    let node = site.producer(value)?;
    if node.op.is::<Pow>() {
        return (number(site.graph, node.input(1)?)? == 2.0).then(|| node.input(0))?;
    }
    let [a, b] = operands(site, value, &MUL)?;
    (a == b).then_some(a)
}
