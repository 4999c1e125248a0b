//! The operators that ONNX Runtime adds: its operator set `com.microsoft`, and operators of
//! `ai.onnx` that ONNX does not have.
//!
//! Most are functions over ONNX's own operators, so that passes, kernels and gradients need no case
//! for them. The schemas are in `compiler/src/check/microsoft.txt`.

pub(crate) mod activation;
pub(crate) mod attention;
pub(crate) mod blocks;
mod cache;
pub(crate) mod conv;
pub(crate) mod decoder;
pub(crate) mod experts;
pub(crate) mod grouped;
pub(crate) mod legacy;
pub(crate) mod matmul;
pub(crate) mod multi_head;
pub(crate) mod norm;
pub(crate) mod position;
pub(crate) mod quantized;
pub(crate) mod recurrent;
pub(crate) mod shape;
pub(crate) mod state;
pub(crate) mod text;

use crate::{
    diag::{Code, Diagnostic, Result},
    ir::Reader,
};

/// An attribute that a function passes on to the node that does the work.
enum Passed {
    Int(&'static str),
    Ints(&'static str),
    Text(&'static str),
}

/// Reads the attributes that the node has, each as `group = 2`.
fn pass_attributes(node: &mut Reader<'_>, attributes: &[Passed]) -> Result<Vec<String>> {
    let mut passed = Vec::new();
    for attribute in attributes {
        let text = match attribute {
            Passed::Int(name) => node.maybe_int(name)?.map(|value| format!("{name} = {value}")),
            Passed::Ints(name) => node.maybe_ints(name)?.map(|value| format!("{name} = {value:?}")),
            Passed::Text(name) => {
                node.maybe_string(name)?.map(|value| format!("{name} = {value:?}"))
            }
        };
        passed.extend(text);
    }
    Ok(passed)
}

/// Writes attributes as a node has them: `<group = 2, pads = [1, 1]>`.
fn in_angles(attributes: &[String]) -> String {
    if attributes.is_empty() { String::new() } else { format!("<{}>", attributes.join(", ")) }
}

/// The permutations that move the channels of `rank` axes from the last axis to the second one, and
/// back.
fn channels_first(rank: usize) -> Result<[Vec<usize>; 2]> {
    if rank < 3 {
        let message = format!("an image has at least 3 axes, but input 0 has {rank}");
        return Err(Diagnostic::new(Code::ShapeMismatch, message));
    }
    let first = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    let last = std::iter::once(0).chain(2..rank).chain([1]).collect();
    Ok([first, last])
}

/// Wraps the nodes that compute `y` from `x` in transposes for an input and an output with channels
/// last, called `x_last` and `y_last`.
fn transpose_around(node: &Reader<'_>, nodes: &str) -> Result<String> {
    let [first, last] = channels_first(node.rank(0)?)?;
    Ok(format!(
        "x = Transpose <perm = {first:?}> (x_last)
        {nodes}
        y_last = Transpose <perm = {last:?}> (y)"
    ))
}

/// Writes the nodes that apply the activation `name` to `s`, which give `y`. The parameters are
/// alpha, beta and gamma.
fn apply_activation(name: &str, parameters: [Option<f32>; 3]) -> Result<String> {
    let parameter = |i: usize, default: f32| parameters[i].unwrap_or(default);
    let number = |name: &str, value: f32| {
        format!(
            "{name}_float = Constant <value_float = {value:?}> ()
            {name} = CastLike ({name}_float, s)"
        )
    };
    Ok(match name {
        "" => "y = Identity (s)".to_owned(),
        "Relu" | "Sigmoid" | "Softplus" | "Softsign" | "Tanh" => format!("y = {name} (s)"),
        "Celu" | "Elu" | "ThresholdedRelu" => {
            format!("y = {name} <alpha = {:?}> (s)", parameter(0, 1.0))
        }
        "ParametricSoftplus" | "ScaledTanh" => format!(
            "{} {} scaled = Mul (s, beta) of_scaled = {} (scaled) y = Mul (of_scaled, alpha)",
            number("alpha", parameter(0, 1.0)),
            number("beta", parameter(1, 1.0)),
            if name == "ScaledTanh" { "Tanh" } else { "Softplus" },
        ),
        "Selu" => format!(
            "y = Selu <alpha = {:?}, gamma = {:?}> (s)",
            parameter(0, 1.673_263_2),
            parameter(2, 1.050_701)
        ),
        "LeakyRelu" => format!("y = LeakyRelu <alpha = {:?}> (s)", parameter(0, 0.01)),
        "HardSigmoid" => {
            let (alpha, beta) = (parameter(0, 0.2), parameter(1, 0.5));
            format!("y = HardSigmoid <alpha = {alpha:?}, beta = {beta:?}> (s)")
        }
        "Clip" => {
            let least = number("least", parameter(0, f32::MIN));
            let most = number("most", parameter(1, f32::MAX));
            format!("{least} {most} y = Clip (s, least, most)")
        }
        "HardSwish" => "y = HardSwish (s)".to_owned(),
        _ => {
            let message = format!("`activation` is `{name}`");
            let known = "Celu, Clip, Elu, HardSigmoid, HardSwish, LeakyRelu, ParametricSoftplus, \
                Relu, ScaledTanh, Selu, Sigmoid, Softplus, Softsign, Tanh, ThresholdedRelu";
            return Err(
                Diagnostic::new(Code::BadAttribute, message).note(format!("allowed: {known}"))
            );
        }
    })
}
