//! Stores the images of transposed convolutions in NCHWc.

use super::blocked::{MIN_CHANNELS, MIN_FILTERS, is_constant, nchwc, replace, to_nchwc};
use crate::{
    dtype::DType,
    ir::{Graph, Node, Site, ValueId},
    ops::{
        binary::ADD,
        blocked::{Affine, BLOCK},
        conv::{blocked_transpose::BlockedConvTranspose, transpose::ConvTranspose},
        window::{AutoPad, Window},
    },
    passes::fuse::{Replaced, tensor},
    tensor::Tensor,
};
use onnxc_runtime::kernels::{
    conv::{has_flat_blocks, has_nchwc_conv_transpose},
    epilogue::Activation,
};
use std::rc::Rc;

/// Converts a transposed convolution. Its bias and activation become a node behind it.
pub fn convert(site: &mut Site<'_>, node: &Node) -> Replaced {
    let transpose = node.op.downcast::<ConvTranspose>()?;
    let shape = tensor(site.graph, node.input(1)?)?.known_shape()?;
    let [channels, filters, kernel @ ..] = &shape[..] else { return None };
    let results = i64::try_from(*filters).ok()?.checked_mul(transpose.group)?;
    let upsamples = is_constant(site.graph, node, 1)
        && results >= MIN_FILTERS as i64
        && kernel.iter().enumerate().all(|(axis, &n)| n <= 2 * transpose.window.stride(axis));
    // Weights that are not constant are those of a gradient, and sizes do not matter for them.
    let gains = upsamples || !is_constant(site.graph, node, 1);
    if !gains || !has_kernel(site.graph, node, transpose, &shape) {
        return None;
    }
    let converts = upsamples && i64::try_from(*channels).is_ok_and(|n| n >= MIN_CHANNELS);
    let x = match nchwc(site, node.input(0)?) {
        Some(x) => x,
        None if converts => to_nchwc(site, node, node.input(0)?)?,
        None => return None,
    };
    let bias = bias_of(site.graph, node, results)?;
    let plain =
        ConvTranspose { activation: Activation::Identity, fused: false, ..transpose.clone() };
    let op = Rc::new(BlockedConvTranspose { transpose: plain });
    let inputs = vec![Some(x), node.input(1)];
    let activation = transpose.activation;
    match (bias, node.input(3)) {
        (None, None) if activation == Activation::Identity => {
            replace(site, node, op, inputs, results)
        }
        (bias, None) => {
            let sums = site.before(node, op, inputs)?;
            let inputs = affine_inputs(site, node, sums, bias, results)?;
            replace(site, node, Rc::new(Affine { activation }), inputs, results)
        }
        (bias, Some(add)) if activation == Activation::Identity => {
            let mut sums = site.before(node, op, inputs)?;
            if bias.is_some() {
                let inputs = affine_inputs(site, node, sums, bias, results)?;
                sums = site.before(node, Rc::new(Affine { activation }), inputs)?;
            }
            let add = to_nchwc(site, node, add)?;
            replace(site, node, Rc::new(&ADD), vec![Some(sums), Some(add)], results)
        }
        _ => None,
    }
}

/// Returns whether a kernel exists for a transposed convolution with weights of this shape.
fn has_kernel(graph: &Graph, node: &Node, transpose: &ConvTranspose, weights: &[usize]) -> bool {
    let [channels, filters, kernel @ ..] = weights else { return false };
    let depthwise = i64::try_from(*channels) == Ok(transpose.group) && *filters == 1;
    let is_f32 =
        node.input(1).and_then(|id| tensor(graph, id)).is_some_and(|w| w.dtype == DType::F32);
    is_f32
        && (transpose.group == 1 || depthwise)
        && has_flat_blocks(kernel)
        && weights.iter().product::<usize>() > 0
        && transpose.window.auto_pad == AutoPad::NotSet
        && transpose.output_shape.is_empty()
        && has_phases(&transpose.window, kernel)
}

/// Returns whether a kernel exists for these windows. It computes the output positions of one
/// residue modulo the stride together.
fn has_phases(window: &Window, kernel: &[usize]) -> bool {
    kernel.iter().enumerate().all(|(axis, &kernel)| {
        let pad = window.pads.get(axis).map_or(Ok(0), |&pad| usize::try_from(pad));
        window.dilation(axis) == 1
            && pad.is_ok_and(|pad| has_nchwc_conv_transpose(kernel, window.stride(axis), pad))
    })
}

/// Returns the bias, if there is one; `None` if it is not a constant.
fn bias_of(graph: &Graph, node: &Node, results: i64) -> Option<Option<Vec<f64>>> {
    let Some(bias) = node.input(2) else { return Some(None) };
    let numbers = graph[bias].constant.as_ref()?.floats()?;
    (i64::try_from(numbers.len()) == Ok(results)).then_some(Some(numbers))
}

/// Returns the inputs of the node that adds the bias.
fn affine_inputs(
    site: &mut Site<'_>,
    node: &Node,
    sums: ValueId,
    bias: Option<Vec<f64>>,
    results: i64,
) -> Option<Vec<Option<ValueId>>> {
    let count = usize::try_from(results).ok()?;
    let shift = bias.unwrap_or_else(|| vec![0.0; count]);
    let mut inputs = vec![Some(sums)];
    for (name, mut numbers) in [("scale", vec![1.0; count]), ("shift", shift)] {
        numbers.resize(count.next_multiple_of(BLOCK), 0.0);
        let tensor = Tensor::from_numbers(DType::F32, vec![numbers.len()], &numbers).ok()?;
        inputs.push(Some(site.graph.constant(&format!("{} {name}", node.name), tensor)));
    }
    Some(inputs)
}

#[cfg(test)]
mod tests {
    use crate::{Compiler, Options};

    /// Returns the kernels of a transposed convolution of `channels` channels to 20.
    fn kernels(channels: usize, kernel: usize, attributes: &str, inputs: &str) -> String {
        let weights = vec!["0.5"; channels * 20 * kernel * kernel].join(", ");
        let bias = vec!["1.5"; 20].join(", ");
        let text = format!(
            "<ir_version: 10, opset_import: [\"\" : 21]>
             g (float[1, {channels}, 5, 5] x) => (float[1, 20, H, W] y)
             <float[{channels}, 20, {kernel}, {kernel}] w = {{{weights}}}, float[20] b = {{{bias}}}>
             {{ s = ConvTranspose <{attributes}> ({inputs}) y = Relu(s) }}"
        );
        let plan = Compiler::new(&Options::default()).plan(text.into());
        let plan = plan.unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let mut names = Vec::new();
        plan.calls(&mut |call| names.push(call.kernel.to_string()));
        names.join(" ")
    }

    #[test]
    fn upsampling_is_blocked_with_its_bias_and_activation() {
        let blocked = "blocked::block conv::conv_transpose_nchwc blocked::affine \
                       blocked::unblock";
        for (kernel, attributes) in
            [(2, "strides = [2, 2]"), (4, "strides = [2, 2], pads = [1, 1, 1, 1]")]
        {
            assert_eq!(kernels(32, kernel, attributes, "x, w, b"), blocked);
        }
        let plain = "conv::conv_transpose_f32";
        assert_eq!(kernels(31, 2, "strides = [2, 2]", "x, w, b"), plain);
        // Most taps of a small image would be padding.
        assert_eq!(kernels(32, 3, "strides = [1, 1]", "x, w, b"), plain);
    }
}
