//! Converts between NCHWc and images whose channels are last, as a `LayerNormalization` of channels
//! has them. NCHW is left out between them: both layouts keep 16 channels of a pixel together, so
//! the conversion moves whole vectors.

use crate::{
    dim::Dim,
    dtype::DType,
    ir::{Node, Site, ValueId},
    ops::{
        blocked::{BLOCK, fills_blocks},
        conv::{Conv, blocked::BlockedConv},
        reshape::Reshape,
        transpose::Transpose,
    },
    passes::fuse::{Replaced, function, tensor},
    tensor::Tensor,
};
use onnxc_runtime::kernels::epilogue::Activation;
use std::rc::Rc;

/// Replaces the `Transpose` that moves the channels of `image` to the end, where `blocked` is the
/// image in NCHWc. A `Reshape` may have put its pixels on one axis before.
pub fn from_blocks(site: &mut Site<'_>, node: &Node, image: ValueId, blocked: ValueId) -> Replaced {
    let found = order(node)?.len();
    if order(node)? != last(found) {
        return None;
    }
    let (rank, channels) = (tensor(site.graph, image)?.rank(), whole_blocks(site, image, 1)?);
    let shape = if found == rank {
        keep(site, node, rank - 1, &[channels])
    } else {
        let pixels = tensor(site.graph, node.input(0)?)?.shape[2].known()?;
        keep(site, node, 1, &[pixels, channels])
    };
    let perm = [last(rank), vec![rank as i64]].concat();
    let moved = site.before(node, Rc::new(Transpose { perm: Some(perm) }), vec![Some(blocked)])?;
    site.replace(node, Rc::new(Reshape { allowzero: false }), vec![Some(moved), Some(shape)])
}

/// Returns the NCHWc form of `value` for `node`, if a `Transpose` moves its channels from the end.
/// A `Reshape` may have taken the pixels from one axis.
pub fn to_blocks(site: &mut Site<'_>, node: &Node, value: ValueId) -> Option<ValueId> {
    let turned = image_of_row(site, value).unwrap_or(value);
    let transpose = site.producer(turned)?;
    let (x, found) = (transpose.input(0)?, order(transpose)?.len());
    if order(transpose)? != first(found) || tensor(site.graph, x)?.dtype != DType::F32 {
        return None;
    }
    let channels = whole_blocks(site, x, found - 1)?;
    let blocks = [channels / BLOCK as i64, BLOCK as i64];
    let image = tensor(site.graph, value)?.shape.clone();
    let shape = if turned == value {
        keep(site, node, found - 1, &blocks)
    } else {
        let sizes: Option<Vec<i64>> = image[2..].iter().map(Dim::known).collect();
        keep(site, node, 1, &[sizes?.as_slice(), &blocks].concat())
    };
    let inputs = vec![Some(x), Some(shape)];
    let split = site.before(node, Rc::new(Reshape { allowzero: false }), inputs)?;
    let perm = [first(image.len()), vec![image.len() as i64]].concat();
    site.before(node, Rc::new(Transpose { perm: Some(perm) }), vec![Some(split)])
}

/// Returns the input of the `Reshape` that makes `value`, if one of the two is an image, and the
/// other its pixels in a row: they have the same first two axes.
pub fn image_of_row(site: &Site<'_>, value: ValueId) -> Option<ValueId> {
    let reshape = site.producer(value).filter(|node| node.op.is::<Reshape>())?;
    let given = reshape.input(0)?;
    let (from, to) = (tensor(site.graph, given)?, tensor(site.graph, value)?);
    let is_row = from.rank().min(to.rank()) == 3 && from.rank() != to.rank();
    (is_row && from.shape[..2] == to.shape[..2]).then_some(given)
}

/// Moves an element-wise function of the channels-last form of a convolution's output before the
/// conversion, so that [`fuse_function`] finds it.
pub fn unary(site: &mut Site<'_>, node: &Node) -> Replaced {
    function::activation_of(site.graph, node)?;
    let reshape = site.producer(node.input(0)?).filter(|node| node.op.is::<Reshape>())?.clone();
    let transpose = site.producer(reshape.input(0)?)?.clone();
    let (blocked, rank) = (transpose.input(0)?, order(&transpose)?.len() - 1);
    let is_whole = order(&transpose)? == [last(rank), vec![rank as i64]].concat();
    let is_conv = site.producer(blocked).is_some_and(|node| node.op.is::<BlockedConv>());
    if !(is_whole && is_conv && site.uses(0) == 1) {
        return None;
    }
    let mut inputs = node.inputs.clone();
    inputs[0] = Some(blocked);
    let result = site.before(node, node.op.clone(), inputs)?;
    let moved = site.before(node, transpose.op.clone(), vec![Some(result)])?;
    site.replace(node, reshape.op.clone(), vec![Some(moved), reshape.input(1)])
}

/// Fuses an element-wise function into the blocked convolution before it.
pub fn fuse_function(site: &mut Site<'_>, node: &Node) -> Replaced {
    let activation = function::activation_of(site.graph, node)?;
    let product = site.producer(node.input(0)?).filter(|_| site.uses(0) == 1)?;
    let blocked = product.op.downcast::<BlockedConv>()?;
    if blocked.conv.activation != Activation::Identity {
        return None;
    }
    let conv = Conv { activation, fused: true, ..blocked.conv.clone() };
    let op = BlockedConv { conv, ..*blocked };
    site.replace(node, Rc::new(op), product.inputs.clone())
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

    /// Nodes between two convolutions that normalize the channels of images.
    const IMAGES: &str = "b = Transpose<perm = [0, 2, 3, 1]>(a)
        d = LayerNormalization(b, scale)
        e = Transpose<perm = [0, 3, 1, 2]>(d)";
    /// The same, with the pixels in a row.
    const ROWS: &str = "all = Reshape(a, row)
        b = Transpose<perm = [0, 2, 1]>(all)
        g = Gelu(b)
        d = LayerNormalization(g, scale)
        t = Transpose<perm = [0, 2, 1]>(d)
        e = Reshape(t, image)";

    /// The end of a network that uses the first convolution again.
    const RESIDUAL: &str = "y = Add(f, a)";

    /// A network with nodes between two convolutions.
    fn text(channels: usize, nodes: &str, end: &str) -> String {
        let c = channels;
        let (filters, ones) = (c * c, vec!["1.0"; c].join(", "));
        let weights = |seed: usize| {
            let number = |i: usize| format!("{}.0", (i * seed) % 7);
            (0..filters).map(number).collect::<Vec<_>>().join(", ")
        };
        format!(
            "<ir_version: 10, opset_import: [\"\" : 21]>
             g (float[2, {c}, 3, 5] x) => (float[2, {c}, 3, 5] y)
             <int64[3] row = {{2, {c}, 15}}, int64[4] image = {{2, {c}, 3, 5}},
              float[{c}, {c}, 1, 1] v = {{{}}}, float[{c}, {c}, 1, 1] w = {{{}}},
              float[{c}] scale = {{{ones}}}>
             {{
                 a = Conv(x, v)
                 {nodes}
                 f = Conv(e, w)
                 {end}
             }}",
            weights(3),
            weights(5)
        )
    }

    /// Compiles a network for speed and for size, compares the results, and returns the graph of
    /// the first.
    fn compare(nodes: &str, end: &str) -> String {
        let mut shown = String::new();
        let compile = |options: &Options, shown: &mut String| {
            crate::Compiler::new(options)
                .observe(|_, graph| *shown = graph.to_string())
                .plan(text(128, nodes, end).into())
                .unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
        };
        let fast = compile(&Options::default(), &mut shown);
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
        shown
    }

    #[test]
    fn images_are_not_converted_to_nchw_between_two_other_layouts() {
        for nodes in [IMAGES, ROWS] {
            let shown = compare(nodes, RESIDUAL);
            assert_eq!(shown.matches("internal.Unblock").count(), 1, "{shown}");
            assert!(shown.contains("perm = [0, 2, 3, 1, 4]"), "{shown}");
            assert!(shown.contains("perm = [0, 3, 1, 2, 4]"), "{shown}");
        }
    }

    #[test]
    fn a_function_of_pixels_in_a_row_is_computed_in_blocks() {
        let shown = compare(ROWS, RESIDUAL);
        let at = |part: &str| shown.find(part).unwrap_or_else(|| panic!("no {part} in {shown}"));
        assert!(
            !shown.contains("= Gelu") || at("= Gelu") < at("perm = [0, 2, 3, 1, 4]"),
            "{shown}"
        );
    }

    #[test]
    fn a_convolution_computes_the_function_of_its_pixels_in_a_row() {
        let alone = compare(ROWS, "y = Relu(f)");
        assert!(!alone.contains("= Gelu"), "{alone}");
        assert!(alone.contains("activation = \"Gelu\""), "{alone}");
        // The convolution has another use, for which it must not compute the function.
        assert!(compare(ROWS, RESIDUAL).contains("= Gelu"));
    }
}
