//! Recognizes a convolution of patches whose result is read with its channels last, as at the start
//! of a vision transformer: a matrix product of the patches.

use super::matching::unrounded;
use crate::{
    dim::Dim,
    ir::{Node, Site, ValueId},
    ops::{
        binary::ADD,
        conv::Conv,
        matmul::MatMul,
        reshape::Reshape,
        transpose::Transpose,
        window::{AutoPad, Window},
    },
    tensor::Tensor,
};
use onnxc_runtime::kernels::epilogue::Activation;
use std::rc::Rc;

/// The most channels of an image. From more, convolutions gain by NCHWc.
const FEW_CHANNELS: usize = 8;

/// The sizes of a convolution of patches.
struct Patches {
    /// The number of filters and of channels, and the sizes of a patch.
    weights: [usize; 4],
    /// The numbers of patches along the axes of the image.
    count: [i64; 2],
}

/// Replaces a `Transpose` of a convolution whose windows do not overlap, or of the convolution with
/// the axes of its images merged.
pub fn recognize_patches(site: &mut Site<'_>, node: &Node) -> Option<Vec<Option<ValueId>>> {
    let perm = node.op.downcast::<Transpose>()?.perm.as_deref()?;
    let is_merged = match perm {
        [0, 2, 3, 1] => false,
        [0, 2, 1] => true,
        _ => return None,
    };
    if site.uses(0) > 1 {
        return None;
    }
    let images = if is_merged { merged_axes(site, node.input(0)?)? } else { node.input(0)? };
    let conv = site.producer(images)?;
    let patches = Patches::of(site, conv)?;
    let (x, bias) = (conv.input(0)?, conv.input(2));
    let weights = patches.weights_by_element(site, conv.input(1)?)?;
    let [filters, channels, rows, columns] = patches.weights.map(|n| n as i64);
    let [down, across] = patches.count;
    let split = [-1, channels, down, rows, across, columns];
    let split = write_reshape(site, node, x, &split)?;
    let order = Transpose { perm: Some(vec![0, 2, 4, 1, 3, 5]) };
    let order = site.before(node, Rc::new(order), vec![Some(split)])?;
    let elements = [-1, down * across, channels * rows * columns];
    let elements = write_reshape(site, node, order, &elements)?;
    let weights = site.graph.constant(&format!("{}_weights", node.name), weights);
    let product = MatMul { activation: Activation::Identity, fused: false };
    let mut y = site.before(node, Rc::new(product), vec![Some(elements), Some(weights)])?;
    if bias.is_some() {
        y = site.before(node, Rc::new(&ADD), vec![Some(y), bias])?;
    }
    if !is_merged {
        y = write_reshape(site, node, y, &[-1, down, across, filters])?;
    }
    Some(vec![Some(y)])
}

/// Returns the images that a `Reshape` merges the two last axes of.
fn merged_axes(site: &Site<'_>, value: ValueId) -> Option<ValueId> {
    let images = site.producer(value).filter(|node| node.op.is::<Reshape>())?.input(0)?;
    let shape = |value: ValueId| Some(unrounded(site.graph, value)?.shape.as_slice());
    let ([n, c, pixels], [batch, channels, h, w]) = (shape(value)?, shape(images)?) else {
        return None;
    };
    ([n, c] == [batch, channels] && *pixels == h * w).then_some(images)
}

impl Patches {
    /// Returns the sizes of a convolution of images with few channels, if its windows are all
    /// patches of the images, and its weights are constant.
    fn of(site: &Site<'_>, node: &Node) -> Option<Patches> {
        let Conv { window, group: 1, fused: false, .. } = node.op.downcast::<Conv>()? else {
            return None;
        };
        let Window { auto_pad, strides, pads, dilations, .. } = window;
        let shape = &unrounded(site.graph, node.input(0)?)?.shape;
        let [_, _, image @ ..] = shape.as_slice() else { return None };
        let constant = site.graph[node.input(1)?].constant.as_ref()?;
        let weights: [usize; 4] = constant.shape.as_slice().try_into().ok()?;
        let [_, channels, kernel @ ..] = weights;
        let steps: Vec<i64> = kernel.iter().map(|&n| n as i64).collect();
        let is_plain = matches!(auto_pad, AutoPad::NotSet | AutoPad::Valid)
            && pads.iter().all(|&pad| pad == 0)
            && dilations.iter().all(|&dilation| dilation == 1);
        if !is_plain || *strides != steps || channels > FEW_CHANNELS || kernel == [1, 1] {
            return None;
        }
        let count = |axis: usize| {
            let size: i64 = image.get(axis).and_then(Dim::known)?;
            (steps[axis] > 0 && size % steps[axis] == 0).then(|| size / steps[axis])
        };
        Some(Patches { weights, count: [count(0)?, count(1)?] })
    }

    /// Returns the weights as `[channels · rows · columns, filters]`.
    fn weights_by_element(&self, site: &Site<'_>, weights: ValueId) -> Option<Tensor> {
        let [filters, sizes @ ..] = self.weights;
        let depth = sizes.iter().product();
        let weights = site.graph[weights].constant.as_ref()?;
        let numbers = weights.floats()?;
        let turned = (0..depth).flat_map(|at| numbers.iter().skip(at).step_by(depth));
        let turned: Vec<f64> = turned.copied().collect();
        Tensor::from_numbers(weights.dtype, vec![depth, filters], &turned).ok()
    }
}

/// Writes a `Reshape` to these sizes.
fn write_reshape(
    site: &mut Site<'_>,
    node: &Node,
    value: ValueId,
    sizes: &[i64],
) -> Option<ValueId> {
    let sizes = site.graph.constant(&format!("{}_shape", node.name), Tensor::from_ints(sizes));
    let op = Rc::new(Reshape { allowzero: false });
    site.before(node, op, vec![Some(value), Some(sizes)])
}
