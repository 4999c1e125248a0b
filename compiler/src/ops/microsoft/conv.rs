//! Convolutions and pools with an activation, with channels last, or with computed pads.

use super::{
    super::{Entry, microsoft_function},
    Passed, apply_activation, in_angles, pass_attributes, transpose_around,
};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    ir::Reader,
    tensor::Tensor,
};

pub const OPS: &[Entry] = &[
    microsoft_function("ConvTransposeWithDynamicPads", transpose_with_pads),
    microsoft_function("FusedConv", fused),
    microsoft_function("MaxpoolWithMask", max_pool_with_mask),
    microsoft_function("NhwcConv", |node| {
        let attributes = in_angles(&pass_attributes(node, WINDOW)?);
        let nodes = transpose_around(node, &format!("y = Conv {attributes} (x, w, b)"))?;
        Ok(format!("(x_last, w, b) => (y_last) {{ {nodes} }}"))
    }),
    microsoft_function("NhwcMaxPool", |node| {
        let attributes = in_angles(&pass_attributes(node, POOL)?);
        let nodes = transpose_around(node, &format!("y = MaxPool {attributes} (x)"))?;
        Ok(format!("(x_last) => (y_last) {{ {nodes} }}"))
    }),
];

/// The attributes of `Conv`.
pub(super) const WINDOW: &[Passed] = &[
    Passed::Text("auto_pad"),
    Passed::Ints("dilations"),
    Passed::Int("group"),
    Passed::Ints("kernel_shape"),
    Passed::Ints("pads"),
    Passed::Ints("strides"),
];

/// The attributes of `MaxPool`.
const POOL: &[Passed] = &[
    Passed::Text("auto_pad"),
    Passed::Int("ceil_mode"),
    Passed::Ints("dilations"),
    Passed::Ints("kernel_shape"),
    Passed::Ints("pads"),
    Passed::Ints("strides"),
];

/// The attributes of `ConvTranspose`, but for the pads.
const TRANSPOSE: &[Passed] = &[
    Passed::Ints("dilations"),
    Passed::Int("group"),
    Passed::Ints("kernel_shape"),
    Passed::Ints("output_padding"),
    Passed::Ints("strides"),
];

/// `activation(Conv(X, W, B) + Z)`.
fn fused(node: &mut Reader<'_>) -> Result<String> {
    let attributes = in_angles(&pass_attributes(node, WINDOW)?);
    let activation = node.string("activation", "")?;
    let given = node.maybe_floats("activation_params")?.unwrap_or_default();
    let parameters = [0, 1, 2].map(|i| given.get(i).copied());
    let activation = apply_activation(&activation, parameters)?;
    let sum = if node.has(3) { "s = Add (product, z)" } else { "s = Identity (product)" };
    Ok(format!(
        "(x, w, b, z) => (y) {{ product = Conv {attributes} (x, w, b) {sum} {activation} }}"
    ))
}

/// The largest number of places of a window with a mask. Each becomes several nodes.
const MAX_PLACES: i64 = 1024;

/// `MaxPool` of the elements of each row of a window that precede the first one whose mask is 0.
/// The first element of an image is never masked.
fn max_pool_with_mask(node: &mut Reader<'_>) -> Result<String> {
    let axes = node.rank(0)?.saturating_sub(2);
    let kernel = node.maybe_ints("kernel_shape")?.unwrap_or_default();
    let strides = node.maybe_ints("strides")?.unwrap_or_else(|| vec![1; axes]);
    node.ignore("storage_order");
    let positive = kernel.iter().chain(&strides).all(|&size| size > 0);
    let given = node.maybe_ints("pads")?.unwrap_or_else(|| vec![0; 2 * axes]);
    let auto_pad = node.string("auto_pad", "NOTSET")?;
    let pads = match auto_pad.as_str() {
        "SAME_UPPER" | "SAME_LOWER" if positive => {
            same_pads(node, [&kernel, &strides], auto_pad == "SAME_LOWER")?
        }
        "VALID" => vec![0; 2 * axes],
        _ => given,
    };
    let lens = [kernel.len(), strides.len(), pads.len() / 2];
    if axes == 0 || lens != [axes; 3] || !positive {
        let message = format!("the window does not fit an input of {} axes", axes + 2);
        return Err(Diagnostic::new(Code::BadAttribute, message));
    }
    let keep_first = if axes == 1 { "m = Identity (mask)" } else { UNMASK_FIRST };
    let at = |names: &[i64]| format!("{names:?}");
    let spatial: Vec<usize> = (2..axes + 2).collect();
    let mut nodes = Vec::new();
    let mut candidates = Vec::new();
    let count = kernel.iter().try_fold(1_i64, |count, &size| count.checked_mul(size));
    let Some(count) = count.filter(|&count| count <= MAX_PLACES) else {
        let message = format!("a window of {kernel:?} has more than {MAX_PLACES} places");
        return Err(Diagnostic::new(Code::TooLarge, message));
    };
    for place in 0..count {
        let mut rest = place;
        let mut offset = vec![0; axes];
        for (offset, size) in offset.iter_mut().zip(&kernel).rev() {
            (*offset, rest) = (rest % size, rest / size);
        }
        // The end that leaves as many elements as the window has places.
        let left = kernel.iter().zip(&offset).map(|(size, offset)| offset + 1 - size);
        let ends: Vec<i64> = left.map(|end| if end < 0 { end } else { i64::MAX }).collect();
        let kept = match offset[axes - 1] {
            0 => format!("kept{place} = Identity (mask{place})"),
            _ => format!("kept{place} = And (kept{}, mask{place})", place - 1),
        };
        nodes.push(format!(
            "start{place} = Constant <value_ints = {start}> ()
            end{place} = Constant <value_ints = {end}> ()
            x{place} = Slice (x_padded, start{place}, end{place}, spatial, strides)
            mask{place} = Slice (is_kept, start{place}, end{place}, spatial, strides)
            {kept}
            y{place} = Where (kept{place}, x{place}, lowest)",
            start = at(&offset),
            end = at(&ends),
        ));
        candidates.push(format!("y{place}"));
    }
    Ok(format!(
        "(x, mask) => (y) {{
            {keep_first}
            spatial = Constant <value_ints = {spatial:?}> ()
            strides = Constant <value_ints = {strides:?}> ()
            pads = Constant <value_ints = {pads:?}> ()
            lowest = Constant <value_float = {lowest:?}> ()
            one_wide = Constant <value_int = 1> () one = CastLike (one_wide, mask)
            x_padded = Pad (x, pads, lowest, spatial)
            m_padded = Pad (m, pads, one, spatial)
            is_kept = Cast <to = 9> (m_padded)
            {nodes}
            y = Max ({candidates})
        }}",
        lowest = f32::MIN,
        nodes = nodes.join(" "),
        candidates = candidates.join(", "),
    ))
}

/// Returns the pads with which there is a window for each stride of the image, the larger half at
/// the start of each axis if `lower`.
fn same_pads(node: &Reader<'_>, [kernel, strides]: [&[i64]; 2], lower: bool) -> Result<Vec<i64>> {
    let shape = node.ty(0).and_then(|ty| Some(ty.as_tensor()?.shape.get(2..)?.to_vec()));
    let sizes = shape.and_then(|shape| shape.iter().map(Dim::known).collect::<Option<Vec<_>>>());
    let sizes = sizes.ok_or_else(|| {
        let message = "the sizes of the image must be known for `auto_pad`";
        Diagnostic::new(Code::UnknownShape, message).help("fix them with `--dim`, or give `pads`")
    })?;
    let totals = sizes.iter().zip(kernel).zip(strides).map(|((&size, kernel), stride)| {
        ((size - 1).div_euclid(*stride) * stride - size + kernel).max(0)
    });
    let (less, more): (Vec<i64>, Vec<i64>) =
        totals.map(|total| (total / 2, total - total / 2)).unzip();
    Ok(if lower { [more, less].concat() } else { [less, more].concat() })
}

/// The nodes that make the first element of each image of `mask` 1, which gives `m`.
const UNMASK_FIRST: &str = "
    flat_shape = Constant <value_ints = [0, 0, -1]> ()
    flat = Reshape (mask, flat_shape)
    from = Constant <value_ints = [0]> () next = Constant <value_ints = [1]> ()
    to_last = Constant <value_ints = [9223372036854775807]> ()
    axis = Constant <value_ints = [2]> ()
    first = Slice (flat, from, next, axis)
    rest = Slice (flat, next, to_last, axis)
    first_wide = Constant <value_int = 1> () first_one = CastLike (first_wide, mask)
    sizes_of_first = Shape (first)
    ones = Expand (first_one, sizes_of_first)
    unmasked = Concat <axis = 2> (ones, rest)
    sizes = Shape (mask)
    m = Reshape (unmasked, sizes)";

/// `ConvTranspose` whose pads are an input, which must be a constant. `SAME_UPPER` and `SAME_LOWER`
/// replace them; with `VALID`, ONNX Runtime takes them.
fn transpose_with_pads(node: &mut Reader<'_>) -> Result<String> {
    let auto_pad = node.string("auto_pad", "NOTSET")?;
    let mut attributes = pass_attributes(node, TRANSPOSE)?;
    let takes_pads = matches!(auto_pad.as_str(), "NOTSET" | "VALID");
    if !takes_pads {
        attributes.push(format!("auto_pad = {auto_pad:?}"));
    }
    if node.has(2) && takes_pads {
        let pads = node.constant_input(2).and_then(Tensor::ints).ok_or_else(|| {
            let message = "input 2, `Pads`, is computed by the model";
            Diagnostic::new(Code::Unsupported, message).help("make it a constant")
        })?;
        attributes.push(format!("pads = {pads:?}"));
    }
    let attributes = in_angles(&attributes);
    Ok(format!("(x, w, pads, b) => (y) {{ y = ConvTranspose {attributes} (x, w, b) }}"))
}
