//! Recurrent networks with quantized weights.

use super::{
    super::{Entry, microsoft_function},
    Passed, in_angles, pass_attributes,
};
use crate::{diag::Result, ir::Reader};

pub const OPS: &[Entry] = &[microsoft_function("DynamicQuantizeLSTM", lstm)];

/// The input with the lengths of the sequences.
const LENGTHS: usize = 4;

/// `LSTM` whose inputs and states are quantized at run time. The weights are transposed, and have
/// one scale for each direction, or one for each direction and row of a gate.
fn lstm(node: &mut Reader<'_>) -> Result<String> {
    let direction = node.string("direction", "forward")?;
    let is_both = direction == "bidirectional";
    let mut shared =
        pass_attributes(node, &[Passed::Int("hidden_size"), Passed::Int("input_forget")])?;
    shared.extend(node.maybe_float("clip")?.map(|clip| format!("clip = {clip:?}")));
    let activations = Activations::read(node)?;
    let [w, r] = [("w", 8), ("r", 10)].map(|(name, scale)| dequantize(node, name, scale));
    let used = if node.has(LENGTHS) { USED_STEPS } else { "x_used = Identity (x_given)" };
    let network = if node.has(LENGTHS) && (is_both || direction == "reverse") {
        aligned(node, is_both, &shared, &activations)
    } else {
        shared.push(format!("direction = {direction:?}"));
        shared.extend(activations.attributes());
        let attributes = in_angles(&shared);
        format!(
            "y, y_h, y_c = internal.LSTMOfQuantizedStates {attributes}
                (x, w_real, r_real, b, sequence_lens, initial_h, initial_c, p)"
        )
    };
    Ok(format!(
        "(x_given, w, r, b, sequence_lens, initial_h, initial_c, p, w_scale, w_zero, r_scale,
            r_zero) => (y, y_h, y_c)
        {{
            {used}
            q, x_scale, x_zero = DynamicQuantizeLinear (x_used)
            x = DequantizeLinear (q, x_scale, x_zero)
            {w} {r} {network}
        }}",
        w = w?,
        r = r?,
    ))
}

/// The nodes that set the steps after the end of the longest sequence to zero, which the scale of
/// the inputs does not depend on.
const USED_STEPS: &str = "
    longest_narrow = ReduceMax <keepdims = 0> (sequence_lens)
    longest = Cast <to = 7> (longest_narrow)
    start = Constant <value_int = 0> () next = Constant <value_int = 1> ()
    sizes = Shape (x_given) step_count = Gather (sizes, start)
    steps = Range (start, step_count, next)
    is_used = Less (steps, longest)
    other_axes = Constant <value_ints = [1, 2]> ()
    is_used_column = Unsqueeze (is_used, other_axes)
    none_float = Constant <value_float = 0.0> () none = CastLike (none_float, x_given)
    x_used = Where (is_used_column, x_given, none)";

/// The nodes of a network that runs backwards over sequences of several lengths. All start at the
/// same time, from their own ends: the states of a step have one scale.
fn aligned(
    node: &Reader<'_>,
    is_both: bool,
    shared: &[String],
    activations: &Activations,
) -> String {
    let count = if is_both { 2 } else { 1 };
    let backward = count - 1;
    let operands = [("w_real", 1), ("r_real", 2), ("b", 3), ("initial_h", 5), ("initial_c", 6)];
    let operands = operands.into_iter().chain([("p", 7)]);
    let given: Vec<_> = operands.filter(|(_, i)| node.has(*i)).map(|(name, _)| name).collect();
    let mut nodes: Vec<String> = given
        .iter()
        .map(|name| match is_both {
            true => format!("{name}_0, {name}_1 = Split <axis = 0, num_outputs = 2> ({name})"),
            false => format!("{name}_0 = Identity ({name})"),
        })
        .collect();
    nodes.push(format!(
        "lengths = Cast <to = 7> (sequence_lens)
        x_{backward} = ReverseSequence <time_axis = 0, batch_axis = 1> (x, lengths)
        way_axis = Constant <value_ints = [1]> ()"
    ));
    if is_both {
        nodes.push("x_0 = Identity (x)".to_owned());
    }
    for (way, activations) in activations.of_ways(count).iter().enumerate() {
        let attributes = in_angles(&[shared, &activations.attributes()].concat());
        let operand = |name: &str| match given.contains(&name) {
            true => format!("{name}_{way}"),
            false => "\"\"".to_owned(),
        };
        let [b, h, c, p] = ["b", "initial_h", "initial_c", "p"].map(operand);
        nodes.push(format!(
            "y_{way}, y_h_{way}, y_c_{way} = internal.LSTMOfQuantizedStates {attributes}
                (x_{way}, w_real_{way}, r_real_{way}, {b}, sequence_lens, {h}, {c}, {p})"
        ));
    }
    nodes.push(format!(
        "back_steps = Squeeze (y_{backward}, way_axis)
        back = ReverseSequence <time_axis = 0, batch_axis = 1> (back_steps, lengths)
        y_back = Unsqueeze (back, way_axis)"
    ));
    nodes.push(match is_both {
        true => "y = Concat <axis = 1> (y_0, y_back)
            y_h = Concat <axis = 0> (y_h_0, y_h_1) y_c = Concat <axis = 0> (y_c_0, y_c_1)"
            .to_owned(),
        false => "y = Identity (y_back) y_h = Identity (y_h_0) y_c = Identity (y_c_0)".to_owned(),
    });
    nodes.join("\n")
}

/// The activations of all directions, with their parameters.
#[derive(Default)]
struct Activations {
    names: Vec<String>,
    alphas: Vec<f32>,
    betas: Vec<f32>,
}

/// The number of activations of a direction.
const OF_WAY: usize = 3;

/// The activations that have the parameter `alpha`.
const WITH_ALPHA: &[&str] =
    &["Affine", "Elu", "HardSigmoid", "LeakyRelu", "ScaledTanh", "ThresholdedRelu"];

/// The activations that have the parameter `beta`.
const WITH_BETA: &[&str] = &["Affine", "HardSigmoid", "ScaledTanh"];

impl Activations {
    fn read(node: &mut Reader<'_>) -> Result<Activations> {
        Ok(Activations {
            names: node.maybe_strings("activations")?.unwrap_or_default(),
            alphas: node.maybe_floats("activation_alpha")?.unwrap_or_default(),
            betas: node.maybe_floats("activation_beta")?.unwrap_or_default(),
        })
    }

    fn attributes(&self) -> Vec<String> {
        let mut attributes = Vec::new();
        if !self.names.is_empty() {
            attributes.push(format!("activations = {:?}", self.names));
        }
        for (name, values) in [("alpha", &self.alphas), ("beta", &self.betas)] {
            if !values.is_empty() {
                attributes.push(format!("activation_{name} = {values:?}"));
            }
        }
        attributes
    }

    /// Returns those of each direction. The activations take the parameters in order.
    fn of_ways(&self, count: usize) -> Vec<Activations> {
        let (mut alphas, mut betas) = (self.alphas.iter(), self.betas.iter());
        let of_way = |way: usize| {
            let names = self.names.iter().skip(way * OF_WAY).take(OF_WAY);
            let mut activations = Activations::default();
            for name in names {
                let is_in = |list: &[&str]| list.iter().any(|one| one.eq_ignore_ascii_case(name));
                activations.names.push(name.clone());
                if is_in(WITH_ALPHA) {
                    activations.alphas.extend(alphas.next());
                }
                if is_in(WITH_BETA) {
                    activations.betas.extend(betas.next());
                }
            }
            activations
        };
        (0..count).map(of_way).collect()
    }
}

/// The nodes that dequantize and transpose the weights `name`, whose scale is input `scale`.
fn dequantize(node: &Reader<'_>, name: &str, scale: usize) -> Result<String> {
    let axes = if node.rank(scale)? == 1 { "[1, 2]" } else { "[1]" };
    Ok(format!(
        "{name}_axes = Constant <value_ints = {axes}> ()
        {name}_scales = Unsqueeze ({name}_scale, {name}_axes)
        {name}_zeros = Unsqueeze ({name}_zero, {name}_axes)
        {name}_wide = CastLike ({name}, {name}_scale)
        {name}_zeros_wide = CastLike ({name}_zeros, {name}_scale)
        {name}_centered = Sub ({name}_wide, {name}_zeros_wide)
        {name}_product = Mul ({name}_centered, {name}_scales)
        {name}_real = Transpose <perm = [0, 2, 1]> ({name}_product)"
    ))
}
