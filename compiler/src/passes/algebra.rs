//! Algebraic simplification: `x · 1`, `x / 1`, powers, sums of two, needless broadcasts, a bias
//! times 0, a permutation of axes and its inverse.
//!
//! Gradients are full of such arithmetic: they start with ones, which are broadcast to the shapes
//! of the reduced tensors.

use crate::{
    dim::Dim,
    dtype::{DType, FLOATS},
    ir::{Graph, Node, Site, ValueId},
    ops::{
        binary::{ADD, Binary, DIV, MUL, Pow, SUB},
        expand::Expand,
        matmul::Gemm,
        transpose::Transpose,
        unary::RECIPROCAL,
        variadic::{SUM, Variadic},
    },
    tensor::Tensor,
};
use std::{ptr, rc::Rc};

type Outputs = Vec<Option<ValueId>>;

/// Returns the operator and the operands of `Add`, `Div`, `Mul` or `Sub`.
fn operands(node: &Node) -> Option<(&'static Binary, [ValueId; 2])> {
    let op: &'static Binary = node.op.downcast::<&'static Binary>()?;
    let known = [&ADD, &DIV, &MUL, &SUB].into_iter().any(|row| ptr::eq(row, op));
    known.then_some((op, node.inputs()?))
}

/// Returns whether broadcasting `other` with `x` gives the shape of `x`.
pub fn broadcasts_to(g: &Graph, other: ValueId, x: ValueId) -> bool {
    let shape = |id: ValueId| g[id].ty.as_tensor().map(|ty| ty.shape.as_slice());
    let (Some(other), Some(x)) = (shape(other), shape(x)) else { return false };
    let one = |dim: &Dim| dim.known() == Some(1);
    let pairs = other.iter().rev().zip(x.iter().rev());
    other.len() <= x.len() && pairs.into_iter().all(|(other, x)| other == x || one(other))
}

/// Replaces `x · 1` and `x / 1` by `x`.
pub fn remove_one(site: &mut Site<'_>, node: &Node) -> Option<Outputs> {
    let (op, [a, b]) = operands(node)?;
    let g = &*site.graph;
    let is_one = |id: ValueId| uniform_value(g, id) == Some(1.0);
    if (ptr::eq(op, &MUL) || ptr::eq(op, &DIV)) && is_one(b) && broadcasts_to(g, b, a) {
        return Some(vec![Some(a)]);
    }
    (ptr::eq(op, &MUL) && is_one(a) && broadcasts_to(g, a, b)).then(|| vec![Some(b)])
}

/// Removes the bias of a `Gemm` that scales it by 0, as ONNX Runtime does: it may be infinite.
pub fn remove_bias(site: &mut Site<'_>, node: &Node) -> Option<Outputs> {
    let gemm = node.op.downcast::<Gemm>().filter(|gemm| gemm.beta == 0.0)?;
    node.input(2)?;
    site.replace(node, Rc::new(gemm.clone()), node.inputs[..2].to_vec())
}

/// Replaces `Pow` with a constant exponent by products, a reciprocal or a constant, which other
/// rules match. Every other constant exponent gets the type of the base, if that represents it.
pub fn replace_power(site: &mut Site<'_>, node: &Node) -> Option<Outputs> {
    node.op.downcast::<Pow>()?;
    let [x, exponent]: [ValueId; 2] = node.inputs()?;
    let number = uniform_value(site.graph, exponent)?;
    if !broadcasts_to(site.graph, exponent, x) {
        return None;
    }
    let dtype = site.graph[x].ty.as_tensor()?.dtype;
    let is_float = FLOATS.contains(&dtype);
    // 16-bit types would round each product.
    let rounds_alike = !matches!(dtype, DType::F16 | DType::BF16);
    if number == 0.0 && is_float {
        let one = Tensor::from_number(dtype, 1.0).ok()?;
        return expand_constant(site, node, one, x);
    }
    if number == 1.0 {
        return Some(vec![Some(x)]);
    }
    if number == 2.0 {
        return site.replace(node, Rc::new(&MUL), vec![Some(x); 2]);
    }
    if number == 3.0 && rounds_alike {
        let square = site.before(node, Rc::new(&MUL), vec![Some(x); 2]);
        return site.replace(node, Rc::new(&MUL), vec![square, Some(x)]);
    }
    if number == -1.0 && is_float {
        return site.replace(node, Rc::new(&RECIPROCAL), vec![Some(x)]);
    }
    let constant = Tensor::from_number(dtype, number).ok()?;
    let is_exact = constant.floats()? == [number];
    if !is_exact || site.graph[exponent].ty.as_tensor()?.dtype == dtype {
        return None;
    }
    let exponent = site.graph.constant("exponent", constant);
    site.replace(node, Rc::new(Pow), vec![Some(x), Some(exponent)])
}

/// Replaces `node` by a scalar that is expanded to the shape of `like`, if that is known.
fn expand_constant(
    site: &mut Site<'_>,
    node: &Node,
    scalar: Tensor,
    like: ValueId,
) -> Option<Outputs> {
    let shape = &site.graph[like].ty.as_tensor()?.shape;
    let sizes: Vec<i64> = shape.iter().map(Dim::known).collect::<Option<_>>()?;
    let scalar = site.graph.constant("constant", scalar);
    let sizes = site.graph.constant("shape", Tensor::from_ints(&sizes));
    site.replace(node, Rc::new(Expand), vec![Some(scalar), Some(sizes)])
}

/// Replaces a `Sum` of two operands by an `Add`, which more rules match.
pub fn replace_sum(site: &mut Site<'_>, node: &Node) -> Option<Outputs> {
    let op: &'static Variadic = node.op.downcast::<&'static Variadic>()?;
    let pair: [ValueId; 2] = node.inputs()?;
    ptr::eq(op, &SUM).then(|| site.replace(node, Rc::new(&ADD), pair.map(Some).to_vec()))?
}

/// Returns the value that all elements of a constant have.
fn uniform_value(g: &Graph, id: ValueId) -> Option<f64> {
    let elements = g[id].constant.as_ref()?.floats()?;
    let (&first, rest) = elements.split_first()?;
    rest.iter().all(|element| element.to_bits() == first.to_bits()).then_some(first)
}

/// Removes a `Transpose` that undoes the one before it.
pub fn remove_inverse(site: &mut Site<'_>, node: &Node) -> Option<Outputs> {
    let outer = node.op.downcast::<Transpose>()?;
    let before = site.producer(node.input(0)?)?;
    let inner = before.op.downcast::<Transpose>()?;
    let (outer, inner) = (outer.perm.as_ref()?, inner.perm.as_ref()?);
    let is_inverse = outer.len() == inner.len()
        && (0..).zip(outer).all(|(axis, &from)| {
            usize::try_from(from).ok().and_then(|from| inner.get(from)) == Some(&axis)
        });
    is_inverse.then(|| Some(vec![Some(before.input(0)?)]))?
}

/// Removes a broadcast before arithmetic that broadcasts anyway: an `Expand`, or a constant whose
/// elements are all equal.
pub fn remove_broadcast(site: &mut Site<'_>, node: &Node) -> Option<Outputs> {
    let (_, pair) = operands(node)?;
    let replacement = [(0, 1), (1, 0)].into_iter().find_map(|(i, other)| {
        let g = &*site.graph;
        if !broadcasts_to(g, pair[i], pair[other]) {
            return None;
        }
        let expand = site.producer(pair[i]).filter(|producer| producer.op.is::<Expand>());
        if let Some(expand) = expand {
            return expand.input(0).map(|source| (i, source));
        }
        let constant = g[pair[i]].constant.as_ref().filter(|tensor| tensor.len() > 1)?;
        let (dtype, number) = (constant.dtype, uniform_value(g, pair[i])?);
        let number = Tensor::from_number(dtype, number).ok()?;
        Some((i, site.graph.constant("constant", number)))
    });
    let (i, source) = replacement?;
    let mut inputs = pair.map(Some);
    inputs[i] = Some(source);
    site.replace(node, Rc::clone(&node.op), inputs.to_vec())
}

#[cfg(test)]
mod tests {
    use crate::Options;

    #[test]
    fn a_permutation_and_its_inverse_are_removed() {
        let transposes = |second: &str| {
            let text = format!(
                "<ir_version: 10, opset_import: [\"\" : 21]>
                 g (float[2, 3, 4] x) => (float[4, 2, 3] a, float[i, j, k] y)
                 {{
                     a = Transpose<perm = [2, 0, 1]>(x)
                     b = Transpose<perm = [{second}]>(a)
                     y = Relu(b)
                 }}"
            );
            let mut after = String::new();
            crate::Compiler::new(&Options::default())
                .observe(|_, graph| after = graph.to_string())
                .plan(text.into())
                .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
            after.matches("Transpose").count()
        };
        assert_eq!(transposes("1, 2, 0"), 1);
        assert_eq!(transposes("2, 0, 1"), 2);
    }
}
