//! Convolutions and pools with an activation, with channels last, or with computed pads.

use super::{
    super::{Entry, microsoft_function},
    Passed, apply_activation, in_angles, pass_attributes, transpose_around,
};
use crate::{
    diag::{Code, Diagnostic, Result},
    ir::Reader,
    tensor::Tensor,
};

pub const OPS: &[Entry] = &[
    microsoft_function("ConvTransposeWithDynamicPads", transpose_with_pads),
    microsoft_function("FusedConv", fused),
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
    Passed::Text("auto_pad"),
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
    let parameters = node.maybe_floats("activation_params")?.unwrap_or_default();
    let activation = apply_activation(&activation, &parameters)?;
    let sum = if node.has(3) { "s = Add (product, z)" } else { "s = Identity (product)" };
    Ok(format!(
        "(x, w, b, z) => (y) {{ product = Conv {attributes} (x, w, b) {sum} {activation} }}"
    ))
}

/// `ConvTranspose` whose pads are an input, which must be a constant.
fn transpose_with_pads(node: &mut Reader<'_>) -> Result<String> {
    let mut attributes = pass_attributes(node, TRANSPOSE)?;
    if node.has(2) {
        let pads = node.constant_input(2).and_then(Tensor::ints).ok_or_else(|| {
            let message = "input 2, `Pads`, is computed by the model";
            Diagnostic::new(Code::Unsupported, message).help("make it a constant")
        })?;
        attributes.push(format!("pads = {pads:?}"));
    }
    let attributes = in_angles(&attributes);
    Ok(format!("(x, w, pads, b) => (y) {{ y = ConvTranspose {attributes} (x, w, b) }}"))
}
