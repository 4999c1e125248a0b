//! Moves convolutions of single pixels in front of upsampling. Both are linear, one along the
//! channels and one along the image, so their order does not matter, but a smaller image has fewer
//! pixels to multiply. Decoders concatenate images of several scales before such a convolution.

use super::{Replaced, product::rounds_alike, tensor};
use crate::{
    dim::Dim,
    ir::{Graph, Node, Site, ValueId},
    ops::{
        binary::ADD,
        concat::Concat,
        conv::Conv,
        resize::{Mode, Resize},
    },
    tensor::Tensor,
    ty::TensorType,
};
use onnxc_runtime::kernels::{
    epilogue::Activation,
    resize::{Coordinates, Curve},
};
use std::{ops::Range, rc::Rc};

/// The indices of the inputs of a `Resize`.
const SCALES: usize = 2;
const SIZES: usize = 3;

/// The time of a pass over an image, in products for each of its elements.
const PASS: f64 = 64.0;

/// Some of the channels that a convolution reads.
struct Part {
    /// The image.
    value: ValueId,
    /// Its channels among all.
    channels: Range<usize>,
    /// The smaller image, and the `Resize` that enlarges it, if it pays to convolve that.
    small: Option<(ValueId, Node)>,
}

/// Replaces `conv(concat(resize(x), …))` by `resize(conv(x)) + conv(concat(…))`.
pub fn move_convolution(site: &mut Site<'_>, node: &Node) -> Replaced {
    let conv = node.op.downcast::<Conv>()?;
    let [x, w] = [node.input(0)?, node.input(1)?];
    let has_epilogue = node.input(3).is_some() || conv.activation != Activation::Identity;
    let is_free = !has_epilogue && site.uses(0) == 1 && rounds_alike(site.graph, x);
    if !is_free || !conv.is_pointwise(&tensor(site.graph, w)?.shape) {
        return None;
    }
    let weights = site.graph[w].constant.clone()?;
    let parts = parts(site, x, weights.shape[0])?;
    let (small, large): (Vec<&Part>, _) = parts.iter().partition(|part| part.small.is_some());
    if small.is_empty() {
        return None;
    }
    let mut bias = node.input(2);
    let rest = match large.as_slice() {
        [] => None,
        large => Some(convolve_together(site, node, large, &weights, bias.take())?),
    };
    let mut sum = None;
    for part in small {
        let enlarged = convolve_small(site, node, part, &weights, bias.take())?;
        sum = Some(add(site, node, sum, enlarged)?);
    }
    Some(vec![Some(add(site, node, rest, sum?)?)])
}

/// Returns the parts of the image that a convolution with this number of filters reads.
fn parts(site: &Site<'_>, x: ValueId, filters: usize) -> Option<Vec<Part>> {
    let (producer, rank) = (site.producer(x)?, tensor(site.graph, x)?.rank() as i64);
    let concat = producer.op.downcast::<Concat>();
    let values: Vec<ValueId> = match concat {
        Some(concat) if [1, 1 - rank].contains(&concat.axis) => {
            producer.inputs.iter().copied().collect::<Option<_>>()?
        }
        Some(_) => return None,
        None => vec![x],
    };
    let mut first = 0;
    let part = |value| {
        let own = usize::try_from(tensor(site.graph, value)?.shape.get(1)?.known()?).ok()?;
        let channels = first..first + own;
        first += own;
        Some(Part { value, channels, small: enlarged(site, value, filters, concat.is_none()) })
    };
    values.into_iter().map(part).collect()
}

/// Returns the image that a `Resize` enlarges to `value`, and the `Resize`, if it pays to convolve
/// that image. `is_alone` if the convolution reads no other image.
fn enlarged(
    site: &Site<'_>,
    value: ValueId,
    filters: usize,
    is_alone: bool,
) -> Option<(ValueId, Node)> {
    let node = site.producer(value)?;
    let (resize, x) = (node.op.downcast::<Resize>()?, node.input(0)?);
    let [channels, after] = [x, value].map(|id| tensor(site.graph, id)?.shape.get(1)?.known());
    let growth = growth(site.graph, node, [x, value], is_alone)?;
    let is_linear = interpolates(resize) && leaves_channels(site.graph, resize, node);
    let pays = growth > 1.0 && pays(channels? as f64, filters as f64, growth);
    (pays && is_linear && channels == after).then(|| (x, node.clone()))
}

/// Returns whether a convolution with these channels and filters saves more on an image with fewer
/// pixels, by the factor `growth`, than the sum of images costs.
fn pays(channels: f64, filters: f64, growth: f64) -> bool {
    // The sum is one more pass, and one `Resize` takes the place of another.
    let passes = (2.0 * filters - channels).max(0.0);
    channels * filters * (1.0 - 1.0 / growth) >= PASS * passes
}

/// Returns the factor by which a `Resize` enlarges the number of pixels, if no axis shrinks.
/// Constant scales tell it for free sizes as for fixed ones, so that both choose alike. But they do
/// not tell whether an image has the size of those that it is concatenated with.
fn growth(graph: &Graph, node: &Node, [x, value]: [ValueId; 2], is_alone: bool) -> Option<f64> {
    let ratios = match node.input(SCALES) {
        Some(scales) if is_alone => graph[scales].constant.as_ref()?.floats()?,
        Some(_) => return None,
        None => {
            let [small, large] = [x, value].map(|id| tensor(graph, id));
            let ratio = |(small, large): (&Dim, &Dim)| {
                Some(large.known()? as f64 / small.known().filter(|&small| small > 0)? as f64)
            };
            let axes = small?.shape[2..].iter().zip(&large?.shape[2..]);
            axes.map(ratio).collect::<Option<Vec<f64>>>()?
        }
    };
    ratios.iter().all(|&ratio| ratio >= 1.0).then(|| ratios.iter().product())
}

/// Returns whether each pixel of the result is a mean of pixels.
fn interpolates(Resize { mode, coordinates, fit, .. }: &Resize) -> bool {
    let means = match mode {
        Mode::Nearest(_) => true,
        Mode::Filter(filter) => {
            filter.curve == Curve::Linear && !filter.antialias && !filter.exclude_outside
        }
    };
    means && fit.is_none() && !matches!(coordinates, Coordinates::TfCropAndResize)
}

/// Returns whether a `Resize` changes only axes of the image.
fn leaves_channels(graph: &Graph, resize: &Resize, node: &Node) -> bool {
    if let Some(axes) = &resize.axes {
        let rank = node.input(0).and_then(|x| tensor(graph, x)).map_or(0, TensorType::rank) as i64;
        return axes.iter().all(|&axis| (if axis < 0 { axis + rank } else { axis }) >= 2);
    }
    let Some(scales) = node.input(SCALES) else { return true };
    let scales = graph[scales].constant.as_ref().and_then(Tensor::floats);
    scales.is_some_and(|scales| scales.iter().take(2).all(|&scale| scale == 1.0))
}

/// Adds the convolution of large images.
fn convolve_together(
    site: &mut Site<'_>,
    node: &Node,
    parts: &[&Part],
    weights: &Tensor,
    bias: Option<ValueId>,
) -> Option<ValueId> {
    let x = match parts {
        [part] => part.value,
        _ => {
            let values = parts.iter().map(|part| Some(part.value)).collect();
            site.before(node, Rc::new(Concat { axis: 1 }), values)?
        }
    };
    convolve(site, node, x, parts, weights, bias)
}

/// Adds the convolution of a small image, and its `Resize`.
fn convolve_small(
    site: &mut Site<'_>,
    node: &Node,
    part: &Part,
    weights: &Tensor,
    bias: Option<ValueId>,
) -> Option<ValueId> {
    let (x, resize) = part.small.as_ref()?;
    let y = convolve(site, node, *x, &[part], weights, bias)?;
    let mut inputs = resize.inputs.clone();
    inputs[0] = Some(y);
    let has_all_axes = resize.op.downcast::<Resize>()?.axes.is_none();
    if let Some(sizes) = resize.input(SIZES).filter(|_| has_all_axes) {
        let mut sizes = site.graph[sizes].constant.as_ref()?.ints()?;
        *sizes.get_mut(1)? = weights.shape[0] as i64;
        let name = format!("{} sizes", node.name);
        inputs[SIZES] = Some(site.graph.constant(&name, Tensor::from_ints(&sizes)));
    }
    site.before(node, resize.op.clone(), inputs)
}

/// Adds the convolution of an image with the weights of these channels.
fn convolve(
    site: &mut Site<'_>,
    node: &Node,
    x: ValueId,
    parts: &[&Part],
    weights: &Tensor,
    bias: Option<ValueId>,
) -> Option<ValueId> {
    let (numbers, all) = (weights.floats()?, weights.shape[1]);
    let own = |row: &[f64]| {
        let of_part = |part: &&Part| row[part.channels.clone()].to_vec();
        parts.iter().flat_map(of_part).collect::<Vec<f64>>()
    };
    let numbers: Vec<f64> = numbers.chunks(all.max(1)).flat_map(own).collect();
    let mut shape = weights.shape.clone();
    shape[1] = parts.iter().map(|part| part.channels.len()).sum();
    let weights = Tensor::from_numbers(weights.dtype, shape, &numbers).ok()?.laid_aside();
    let w = site.graph.constant(&format!("{} weights", node.name), weights);
    site.before(node, node.op.clone(), vec![Some(x), Some(w), bias])
}

/// Adds a sum of two images, or returns the only one.
fn add(site: &mut Site<'_>, node: &Node, a: Option<ValueId>, b: ValueId) -> Option<ValueId> {
    match a {
        Some(a) => site.before(node, Rc::new(&ADD), vec![Some(a), Some(b)]),
        None => Some(b),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Options, interpreter, tensor::Tensor, value::Value};

    /// A convolution of the single pixels of an image, and of another one with `concat`. Its input
    /// is an output if it is `kept`.
    fn text(resize: &str, concat: bool, filters: usize, kept: bool) -> String {
        let numbers = |count: usize, step: usize| {
            let number = |i: usize| format!("{}.0", (i * step) % 5);
            (0..count).map(number).collect::<Vec<_>>().join(", ")
        };
        let channels = if concat { 128 } else { 96 };
        let images = if concat { "Concat<axis = -3>(r, large)" } else { "Identity(r)" };
        let output = if kept { ", float[a, b, c, d] i" } else { "" };
        format!(
            "<ir_version: 10, opset_import: [\"\" : 21]>
             g (float[2, 96, 3, 5] small, float[2, 32, 6, 10] large)
               => (float[2, {filters}, 6, 10] y{output})
             <float[{filters}, {channels}, 1, 1] w = {{{}}}, float[{filters}] b = {{{}}},
              float[4] scales = {{1.0, 1.0, 2.0, 2.0}}, int64[4] sizes = {{2, 96, 6, 10}}>
             {{
                 r = {resize}
                 i = {images}
                 s = Conv(i, w, b)
                 y = Relu(s)
             }}",
            numbers(filters * channels, 3),
            numbers(filters, 2),
        )
    }

    /// Returns the graph after all passes, and its result.
    fn compute(text: &str) -> (String, Vec<f64>) {
        let mut after = String::new();
        let plan = crate::Compiler::new(&Options::default())
            .observe(|_, graph| after = graph.to_string())
            .plan(text.to_owned().into())
            .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let image = |shape: Vec<usize>| {
            let count = shape.iter().product::<usize>();
            let numbers: Vec<f32> = (0..count).map(|i| (i * 7 % 11) as f32 - 5.0).collect();
            Value::Tensor(Tensor { shape, ..Tensor::from_floats(&numbers) })
        };
        let inputs = [image(vec![2, 96, 3, 5]), image(vec![2, 32, 6, 10])];
        let made = interpreter::run(&plan, &inputs).expect("the input fits");
        (after, made[0].tensor().and_then(Tensor::floats).expect("floats"))
    }

    #[test]
    fn small_images_are_convolved_before_they_are_enlarged() {
        for (resize, concat) in [
            ("Resize<mode = \"linear\">(small, , , sizes)", true),
            (
                "Resize<mode = \"linear\", coordinate_transformation_mode = \"align_corners\">
                   (small, , , sizes)",
                true,
            ),
            ("Resize(small, , , sizes)", true),
            ("Resize<mode = \"linear\">(small, , scales)", false),
        ] {
            let text = |kept: bool| text(resize, concat, 48, kept);
            let (moved, found) = compute(&text(false));
            assert!(!moved.contains("Concat"), "{moved}");
            assert_eq!(moved.matches("Conv").count(), 1 + usize::from(concat), "{moved}");
            // A graph output is another use of the images.
            let (kept, expected) = compute(&text(true));
            assert!(kept.find("Conv") > kept.find("Resize"), "{kept}");
            let largest = expected.iter().fold(0.0, |most: f64, number| most.max(number.abs()));
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() <= 1e-6 * largest, "{found} {expected}");
            }
        }
    }

    #[test]
    fn other_images_stay() {
        let stays = |resize: &str, filters: usize| {
            assert!(compute(&text(resize, true, filters, false)).0.contains("Concat"), "{resize}");
        };
        stays("Resize<mode = \"cubic\">(small, , , sizes)", 48);
        // Adding results of this many channels costs more.
        stays("Resize<mode = \"linear\">(small, , , sizes)", 2048);
        // For free sizes, scales do not tell whether the sizes agree.
        stays("Resize<mode = \"linear\">(small, , scales)", 48);
    }

    #[test]
    fn free_sizes_choose_alike() {
        let fixed = text("Resize<mode = \"linear\">(small, , scales)", false, 48, false);
        let free =
            fixed.replace("96, 3, 5]", "96, h, w]").replace("[2, 48, 6, 10]", "[a, b, c, d]");
        let mut after = [fixed, free].map(|text| {
            let mut after = String::new();
            crate::Compiler::new(&Options::default())
                .observe(|_, graph| after = graph.to_string())
                .plan(text.into())
                .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
            after
        });
        for after in &mut after {
            let [conv, resize] = ["Conv", "Resize"].map(|name| after.find(name));
            assert!(conv < resize, "{after}");
        }
    }
}
