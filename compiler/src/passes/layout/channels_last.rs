//! Converts between NCHWc and images whose channels are last, as a `LayerNormalization` of channels
//! has them. NCHW is left out between them: both layouts keep 16 channels of a pixel together, so
//! the conversion moves whole vectors.

use crate::{
    dtype::DType,
    ir::{Node, Site, ValueId},
    ops::{
        blocked::{BLOCK, fills_blocks},
        reshape::Reshape,
        transpose::Transpose,
    },
    passes::fuse::{Replaced, tensor},
    tensor::Tensor,
};
use std::rc::Rc;

/// Replaces the `Transpose` that moves the channels of an image to the end, where `blocked` is the
/// image in NCHWc.
pub fn from_blocks(site: &mut Site<'_>, node: &Node, blocked: ValueId) -> Replaced {
    let rank = order(node)?.len();
    let channels = whole_blocks(site, node.input(0)?, 1)?;
    if order(node)? != last(rank) {
        return None;
    }
    let perm = [last(rank), vec![rank as i64]].concat();
    let moved = site.before(node, Rc::new(Transpose { perm: Some(perm) }), vec![Some(blocked)])?;
    let shape = keep(site, node, rank - 1, &[channels]);
    site.replace(node, Rc::new(Reshape { allowzero: false }), vec![Some(moved), Some(shape)])
}

/// Returns the NCHWc form of `value` for `node`, if a `Transpose` moves its channels from the end.
pub fn to_blocks(site: &mut Site<'_>, node: &Node, value: ValueId) -> Option<ValueId> {
    let transpose = site.producer(value)?;
    let (x, found) = (transpose.input(0)?, order(transpose)?.to_vec());
    let rank = found.len();
    if found != first(rank) || tensor(site.graph, x)?.dtype != DType::F32 {
        return None;
    }
    let channels = whole_blocks(site, x, rank - 1)?;
    let shape = keep(site, node, rank - 1, &[channels / BLOCK as i64, BLOCK as i64]);
    let inputs = vec![Some(x), Some(shape)];
    let split = site.before(node, Rc::new(Reshape { allowzero: false }), inputs)?;
    let perm = [first(rank), vec![rank as i64]].concat();
    site.before(node, Rc::new(Transpose { perm: Some(perm) }), vec![Some(split)])
}

/// The permutation of a `Transpose` of images.
fn order(node: &Node) -> Option<&[i64]> {
    node.op.downcast::<Transpose>()?.perm.as_deref().filter(|perm| perm.len() > 2)
}

/// The permutation that moves axis 1 to the end.
fn last(rank: usize) -> Vec<i64> {
    [0].into_iter().chain(2..rank as i64).chain([1]).collect()
}

/// The permutation that moves the last axis to axis 1.
fn first(rank: usize) -> Vec<i64> {
    let end = rank as i64 - 1;
    [0, end].into_iter().chain(1..end).collect()
}

/// The number of channels in `axis`, if they are whole blocks.
fn whole_blocks(site: &Site<'_>, value: ValueId, axis: usize) -> Option<i64> {
    let channels = tensor(site.graph, value)?.shape.get(axis)?;
    channels.known().filter(|&count| count > 0 && fills_blocks(channels))
}

/// The shape for a `Reshape` that keeps the first axes, followed by `sizes`.
fn keep(site: &mut Site<'_>, node: &Node, axes: usize, sizes: &[i64]) -> ValueId {
    let shape = [&vec![0; axes], sizes].concat();
    site.graph.constant(&format!("{} shape", node.name), Tensor::from_ints(&shape))
}

#[cfg(test)]
mod tests {
    use crate::{Options, interpreter, tensor::Tensor, value::Value};

    /// A network with a normalization of channels that are last between two convolutions.
    fn text(channels: usize) -> String {
        let c = channels;
        let (filters, ones) = (c * c, vec!["1.0"; c].join(", "));
        let weights = |seed: usize| {
            let number = |i: usize| format!("{}.0", (i * seed) % 7);
            (0..filters).map(number).collect::<Vec<_>>().join(", ")
        };
        format!(
            "<ir_version: 10, opset_import: [\"\" : 21]>
             g (float[n, {c}, 3, 5] x) => (float[n, {c}, 3, 5] y)
             <float[{c}, {c}, 1, 1] v = {{{}}}, float[{c}, {c}, 1, 1] w = {{{}}},
              float[{c}] scale = {{{ones}}}>
             {{
                 a = Conv(x, v)
                 b = Transpose<perm = [0, 2, 3, 1]>(a)
                 d = LayerNormalization(b, scale)
                 e = Transpose<perm = [0, 3, 1, 2]>(d)
                 f = Conv(e, w)
                 y = Add(f, a)
             }}",
            weights(3),
            weights(5)
        )
    }

    #[test]
    fn images_are_not_converted_to_nchw_between_two_other_layouts() {
        let mut shown = String::new();
        let compile = |options: &Options, shown: &mut String| {
            crate::Compiler::new(options)
                .observe(|_, graph| *shown = graph.to_string())
                .plan(text(128).into())
                .unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
        };
        let fast = compile(&Options::default(), &mut shown);
        assert_eq!(shown.matches("internal.Unblock").count(), 1, "{shown}");
        assert!(shown.contains("perm = [0, 2, 3, 1, 4]"), "{shown}");
        assert!(shown.contains("perm = [0, 3, 1, 2, 4]"), "{shown}");
        let small = Options { optimize: crate::Optimize::Size, ..Options::default() };
        let small = compile(&small, &mut String::new());
        let numbers: Vec<f32> = (0..2 * 128 * 15).map(|i| (i % 11) as f32 - 5.0).collect();
        let x = Tensor { shape: vec![2, 128, 3, 5], ..Tensor::from_floats(&numbers) };
        let run = |plan| {
            let made = interpreter::run(plan, &[Value::Tensor(x.clone())]).expect("the input fits");
            made[0].tensor().and_then(Tensor::floats).expect("floats")
        };
        let (fast, small) = (run(&fast), run(&small));
        for (a, b) in fast.iter().zip(&small) {
            assert!((a - b).abs() <= 1e-3 * (1.0 + b.abs()), "{a} {b}");
        }
    }
}
