//! Mixtures of experts: `MoE` and `QMoE`.
//!
//! The router chooses `k` experts for each token. An expert computes its products only for the
//! tokens that chose it, so their number depends on data, and the experts together do the work of
//! `k` experts. The nodes of each expert have their own weights, which the kernels pack.

use super::{
    super::{Entry, microsoft_function},
    blocks::unpack,
};
use crate::{
    diag::{Code, Diagnostic, Result},
    ir::Reader,
};
use std::fmt::Write;

pub const OPS: &[Entry] =
    &[microsoft_function("MoE", write_experts), microsoft_function("QMoE", write_quantized)];

/// The largest number of experts. Each becomes several nodes.
const MAX_EXPERTS: usize = 4096;
/// The indices of inputs.
const ROUTER_WEIGHTS: usize = 14;

fn write_experts(node: &mut Reader<'_>) -> Result<String> {
    let experts = Experts::read(node, 2, 6)?;
    let routing = if experts.normalizes { Routing::Chosen } else { Routing::All };
    let numbers = if node.has(6) { 1..=3 } else { 1..=2 };
    let projections: Vec<Projection> = numbers
        .map(|number| {
            let has_bias = node.has(2 * number + 1);
            Projection { number, weights: Weights::Float, has_bias }
        })
        .collect();
    let nodes = experts.write(routing, &projections);
    Ok(format!("(x, logits, w1, b1, w2, b2, w3, b3) => (y) {{ {nodes} }}"))
}

fn write_quantized(node: &mut Reader<'_>) -> Result<String> {
    let kind = node.string("quant_type", "int")?;
    if kind != "int" {
        let help = "quantize the weights to integers (`quant_type = \"int\"`)";
        return Err(refuse(&format!("`quant_type` = {kind:?}"), help));
    }
    if node.int("weights_prepacked", -1)? == 1 {
        let help = "save the model with the weights in ONNX Runtime's portable layout";
        return Err(refuse("`weights_prepacked` = 1", help));
    }
    let experts = Experts::read(node, 2, 8)?;
    let bits = node.int("expert_weight_bits", 4)?;
    let block = node.int("block_size", 0)?;
    let level = node.int("accuracy_level", 0)?;
    let mut projections = Vec::new();
    for (number, at, zeros) in [(1, 2, 11), (2, 5, 12), (3, 8, 13)] {
        let bits = node.int(&format!("fc{number}_expert_weight_bits"), bits)?;
        if !node.has(at) {
            continue;
        }
        let bits = match bits {
            2 | 4 | 8 => bits as usize,
            _ => {
                let message =
                    format!("an expert's weights have {bits} bits, but must have 2, 4 or 8");
                return Err(Diagnostic::new(Code::BadAttribute, message));
            }
        };
        let [_, n, bytes] = sizes(node, at)?;
        let zeros = node.has(zeros);
        let weights = match usize::try_from(block) {
            Ok(block) if block > 0 => {
                // ONNX Runtime has no other kernel for blocks of 8 bits.
                let level = if bits == 8 { 4 } else { level };
                let k = bytes.saturating_mul(8 / bits).min(isize::MAX.cast_unsigned());
                Weights::Blocks { bits, n, k, block, level, zeros }
            }
            _ => Weights::Columns { bits, n, zeros },
        };
        projections.push(Projection { number, weights, has_bias: node.has(at + 2) });
    }
    let routing = match (node.has(ROUTER_WEIGHTS), experts.normalizes) {
        (false, _) => Routing::Chosen,
        (true, normalizes) => Routing::Given { normalizes },
    };
    let nodes = experts.write(routing, &projections);
    Ok(format!(
        "(x, logits, w1, s1, b1, w2, s2, b2, w3, s3, b3, z1, z2, z3, router) => (y) {{ {nodes} }}"
    ))
}

fn refuse(what: &str, help: &str) -> Diagnostic {
    Diagnostic::new(Code::Unsupported, format!("{what} is not supported")).help(help)
}

/// Returns the sizes of input `i`, which must be known.
fn sizes(node: &Reader<'_>, i: usize) -> Result<[usize; 3]> {
    let shape = node.ty(i).and_then(|ty| Some(&ty.as_tensor()?.shape));
    let known = shape.and_then(|shape| {
        let sizes: Option<Vec<usize>> =
            shape.iter().map(|size| usize::try_from(size.known()?).ok()).collect();
        sizes?.try_into().ok()
    });
    known.ok_or_else(|| {
        let message = format!("input {i} must have three axes whose sizes are known");
        Diagnostic::new(Code::UnknownShape, message)
            .help("declare the shape of the experts' weights, as in `--shape NAME=E,N,K`")
    })
}

/// The weights of the chosen experts of a token.
#[derive(Clone, Copy)]
enum Routing {
    /// Their parts in the softmax of all experts.
    All,
    /// The softmax of the chosen experts.
    Chosen,
    /// An input has them.
    Given { normalizes: bool },
}

/// The weights of a projection.
#[derive(Clone, Copy)]
enum Weights {
    Float,
    /// Codes with a scale for each block.
    Blocks {
        bits: usize,
        n: usize,
        k: usize,
        block: usize,
        level: i64,
        zeros: bool,
    },
    /// Codes with a scale for each column.
    Columns {
        bits: usize,
        n: usize,
        zeros: bool,
    },
}

/// One of an expert's products: the first, whose results an activation gets, the last, which gives
/// the expert's results, and third the factors of the activation's results, if there are some.
struct Projection {
    number: usize,
    weights: Weights,
    has_bias: bool,
}

impl Projection {
    /// Writes the nodes that compute `to` from the rows `x` with the weights of expert `e`.
    fn write(&self, e: usize, x: &str, to: &str) -> String {
        let i = self.number;
        let mut nodes = format!("w{i}_{e} = Gather <axis = 0> (w{i}, e{e}) ");
        nodes += &match self.weights {
            Weights::Float => format!(
                "t{i}_{e} = Transpose <perm = [1, 0]> (w{i}_{e}) p{i}_{e} = MatMul ({x}, t{i}_{e}) "
            ),
            Weights::Blocks { bits, n, k, block, level, zeros } => {
                let (zeros, argument) = self.zeros(e, zeros);
                // ONNX Runtime wants the blocks as an axis.
                let shape = match k.is_multiple_of(block) {
                    true => vec![n, k / block, block / (8 / bits)],
                    false => vec![n, k / (8 / bits)],
                };
                format!(
                    "{zeros} {scales}
                    shape{i}_{e} = Constant <value_ints = {shape:?}> ()
                    c{i}_{e} = Reshape (w{i}_{e}, shape{i}_{e})
                    p{i}_{e} = com.microsoft.MatMulNBits <K = {k}, N = {n}, bits = {bits},
                        block_size = {block}, accuracy_level = {level}>
                        ({x}, c{i}_{e}, s{i}_{e}{argument}) ",
                    scales = self.scales(e)
                )
            }
            Weights::Columns { bits, n, zeros } => {
                let codes = unpack(bits, &format!("w{i}_{e}"), &format!("c{i}_{e}"));
                let zeros = self.zeros_of_columns(e, bits, n, zeros);
                format!(
                    "{codes} {zeros} {scales}
                    d{i}_{e} = DequantizeLinear <axis = 0> (c{i}_{e}, s{i}_{e}, zeros{i}_{e})
                    t{i}_{e} = Transpose <perm = [1, 0]> (d{i}_{e})
                    p{i}_{e} = MatMul ({x}, t{i}_{e}) ",
                    scales = self.scales(e)
                )
            }
        };
        if self.has_bias {
            nodes
                + &format!(
                    "b{i}_{e} = Gather <axis = 0> (b{i}, e{e}) {to} = Add (p{i}_{e}, b{i}_{e})"
                )
        } else {
            nodes + &format!("{to} = Identity (p{i}_{e})")
        }
    }

    /// Writes the nodes that give the scales of expert `e`, in the type of the tokens.
    fn scales(&self, e: usize) -> String {
        let i = self.number;
        format!(
            "s{i}_{e}_all = Gather <axis = 0> (s{i}, e{e}) s{i}_{e} = CastLike (s{i}_{e}_all, x)"
        )
    }

    /// Writes the node that gives the zero points of the blocks of expert `e`, and the argument
    /// that passes them.
    fn zeros(&self, e: usize, has_zeros: bool) -> (String, String) {
        let i = self.number;
        if !has_zeros {
            return Default::default();
        }
        (format!("z{i}_{e} = Gather <axis = 0> (z{i}, e{e})"), format!(", z{i}_{e}"))
    }

    /// Writes the nodes that give the zero points of the `n` columns of expert `e`.
    fn zeros_of_columns(&self, e: usize, bits: usize, n: usize, has_zeros: bool) -> String {
        let i = self.number;
        if !has_zeros {
            return format!(
                "n{i}_{e} = Constant <value_ints = [{n}]> ()
                zeros{i}_{e} = ConstantOfShape <value = uint8[1] {{{}}}> (n{i}_{e})",
                1 << (bits - 1)
            );
        }
        let codes = unpack(bits, &format!("z{i}_{e}"), &format!("padded{i}_{e}"));
        format!(
            "z{i}_{e} = Gather <axis = 0> (z{i}, e{e}) {codes}
            n{i}_{e} = Constant <value_ints = [{n}]> ()
            zeros{i}_{e} = Slice (padded{i}_{e}, none, n{i}_{e})"
        )
    }
}

/// Where the factors of the activation's results are.
#[derive(Clone, Copy, PartialEq)]
enum Gating {
    /// There are none.
    None,
    /// The rows of the first product alternate.
    Interleaved,
    /// They are the second half of the rows of the first product.
    Halves,
    /// They are the third product.
    Third,
}

impl Gating {
    fn read(node: &mut Reader<'_>, activation: &str, has_third: bool) -> Result<Gating> {
        let fusion = node.int("swiglu_fusion", 0)?;
        match (activation, fusion, has_third) {
            ("swiglu", 1, false) => Ok(Gating::Interleaved),
            ("swiglu", 2, false) => Ok(Gating::Halves),
            ("swiglu", 0, true) => Ok(Gating::Third),
            ("swiglu", ..) => {
                let third = if has_third { "with" } else { "without" };
                let what = format!("`swiglu_fusion` = {fusion} {third} `fc3_experts_weights`");
                let help = "give the linear parts either in the first weights, with \
                    `swiglu_fusion` = 1 or 2, or in the third";
                Err(refuse(&what, help))
            }
            (.., true) => Ok(Gating::Third),
            (.., false) => Ok(Gating::None),
        }
    }
}

/// The attributes that both operators have.
struct Experts {
    count: usize,
    k: i64,
    normalizes: bool,
    activation: String,
    gating: Gating,
    alpha: f32,
    beta: f32,
    limit: Option<f32>,
}

impl Experts {
    /// Reads the attributes; the first weights are input `weights`, the third ones `third`.
    fn read(node: &mut Reader<'_>, weights: usize, third: usize) -> Result<Experts> {
        // A CPU has no other routing.
        node.ignore("use_sparse_mixer");
        let activation = node.string("activation_type", "relu")?;
        let known = ["relu", "gelu", "silu", "swiglu", "identity"];
        if !known.contains(&activation.as_str()) {
            let message = format!("`activation_type` is {activation:?}");
            let note = format!("allowed: {}", known.join(", "));
            return Err(Diagnostic::new(Code::BadAttribute, message).note(note));
        }
        let has_third = node.has(third);
        let gating = Gating::read(node, &activation, has_third)?;
        let [count, ..] = sizes(node, weights)?;
        if count > MAX_EXPERTS {
            let message = format!("there are {count} experts; onnxc takes up to {MAX_EXPERTS}");
            return Err(Diagnostic::new(Code::TooLarge, message));
        }
        let k = node.int("k", 1)?;
        if !usize::try_from(k).is_ok_and(|k| (1..=count).contains(&k)) {
            let message = format!("`k` is {k}, but there are {count} experts");
            return Err(Diagnostic::new(Code::BadAttribute, message));
        }
        Ok(Experts {
            count,
            k,
            normalizes: node.flag("normalize_routing_weights", false)?,
            activation,
            gating,
            alpha: node.float("activation_alpha", 1.0)?,
            beta: node.float("activation_beta", 0.0)?,
            limit: node.maybe_float("swiglu_limit")?,
        })
    }

    /// Writes the nodes that compute `y` from the tokens `x` and the router's `logits`.
    fn write(&self, routing: Routing, projections: &[Projection]) -> String {
        let mut nodes = format!(
            "none = Constant <value_ints = [0]> () one = Constant <value_ints = [1]> ()
            any = Constant <value_ints = [-1]> () width = Shape <start = -1> (x)
            rows_shape = Concat <axis = 0> (any, width) rows = Reshape (x, rows_shape)
            {}
            shares_shape = Shape (scores) shares_zero = ConstantOfShape (shares_shape)
            shares_wide = ScatterElements <axis = 1> (shares_zero, experts, chosen)
            shares = CastLike (shares_wide, x)
            sum_shape = Shape (rows) sum_zero = ConstantOfShape (sum_shape)
            sum0 = CastLike (sum_zero, x)",
            write_routing(self.k, routing)
        );
        for e in 0..self.count {
            let _ = write!(nodes, " {}", self.write_expert(e, projections));
        }
        let _ = write!(nodes, " x_shape = Shape (x) y = Reshape (sum{}, x_shape)", self.count);
        nodes
    }

    /// Writes the nodes that add the results of expert `e` to the rows of `sum{e}`.
    fn write_expert(&self, e: usize, projections: &[Projection]) -> String {
        let activation = self.write_activation(e);
        let products: Vec<String> = projections
            .iter()
            .zip([["rows", "h"], ["a", "o"], ["rows", "u"]])
            .map(|(projection, [from, to])| {
                projection.write(e, &format!("{from}_{e}"), &format!("{to}_{e}"))
            })
            .collect();
        let [first, second] = [&products[0], &products[1]];
        let third = products.get(2).map_or("", String::as_str);
        format!(
            "e{e} = Constant <value_int = {e}> () share_{e} = Gather <axis = 1> (shares, e{e})
            at_row_{e} = NonZero (share_{e}) at_{e} = Transpose <perm = [1, 0]> (at_row_{e})
            tokens_{e} = Squeeze (at_{e}, one) rows_{e} = Gather <axis = 0> (rows, tokens_{e})
            {first} {third}
            {activation}
            {second}
            factors_{e} = Gather <axis = 0> (share_{e}, tokens_{e})
            column_{e} = Unsqueeze (factors_{e}, one) scaled_{e} = Mul (o_{e}, column_{e})
            sum{} = ScatterND <reduction = \"add\"> (sum{e}, at_{e}, scaled_{e})",
            e + 1
        )
    }

    /// Writes the nodes that compute `a_{e}` from `h_{e}`, and from `u_{e}` if there is a third
    /// product.
    fn write_activation(&self, e: usize) -> String {
        let to = if self.gating == Gating::Third { "active" } else { "a" };
        let active = match self.activation.as_str() {
            "swiglu" => return self.write_swiglu(e),
            "relu" => format!("{to}_{e} = Relu (h_{e})"),
            "gelu" => format!("{to}_{e} = Gelu <approximate = \"tanh\"> (h_{e})"),
            "silu" => format!("sigmoid_{e} = Sigmoid (h_{e}) {to}_{e} = Mul (h_{e}, sigmoid_{e})"),
            _ => format!("{to}_{e} = Identity (h_{e})"),
        };
        match self.gating {
            Gating::Third => format!("{active} a_{e} = Mul (active_{e}, u_{e})"),
            _ => active,
        }
    }

    /// Writes the nodes of `g · sigmoid(alpha · g) · (l + beta)`.
    fn write_swiglu(&self, e: usize) -> String {
        let parts = match self.gating {
            Gating::Third => format!("g_{e} = Identity (h_{e}) l_{e} = Identity (u_{e})"),
            Gating::Interleaved => format!(
                "step_{e} = Constant <value_ints = [2]> ()
                all_{e} = Constant <value_ints = [{}]> ()
                g_{e} = Slice (h_{e}, none, all_{e}, one, step_{e})
                l_{e} = Slice (h_{e}, one, all_{e}, one, step_{e})",
                i64::MAX
            ),
            _ => format!("g_{e}, l_{e} = Split <axis = 1, num_outputs = 2> (h_{e})"),
        };
        let number = |name: &str, value: f32| {
            format!(
                "{name}_float_{e} = Constant <value_float = {value:?}> ()
                {name}_{e} = CastLike ({name}_float_{e}, x)"
            )
        };
        let clamped = match self.limit {
            Some(limit) => format!(
                "{} {} G_{e} = Min (g_{e}, most_{e}) L_{e} = Clip (l_{e}, least_{e}, most_{e})",
                number("most", limit),
                number("least", -limit)
            ),
            None => format!("G_{e} = Identity (g_{e}) L_{e} = Identity (l_{e})"),
        };
        format!(
            "{parts} {clamped} {} {}
            scaled_gate_{e} = Mul (G_{e}, alpha_{e}) sigmoid_{e} = Sigmoid (scaled_gate_{e})
            gate_{e} = Mul (G_{e}, sigmoid_{e}) linear_{e} = Add (L_{e}, beta_{e})
            a_{e} = Mul (gate_{e}, linear_{e})",
            number("alpha", self.alpha),
            number("beta", self.beta)
        )
    }
}

/// Writes the nodes that give the indices `experts` and the weights `chosen` of the experts of each
/// token, from the scores of all experts.
fn write_routing(k: i64, routing: Routing) -> String {
    let chosen = match routing {
        Routing::All => {
            "parts = Softmax <axis = 1> (scores)
            chosen = GatherElements <axis = 1> (parts, experts)"
        }
        Routing::Chosen => "chosen = Softmax <axis = 1> (best)",
        Routing::Given { normalizes: false } => {
            "router_wide = Cast <to = 1> (router)
            chosen = GatherElements <axis = 1> (router_wide, experts)"
        }
        Routing::Given { normalizes: true } => {
            "router_wide = Cast <to = 1> (router)
            given = GatherElements <axis = 1> (router_wide, experts)
            given_sum = ReduceSum (given, one) chosen = Div (given, given_sum)"
        }
    };
    format!(
        "scores = Cast <to = 1> (logits) k = Constant <value_ints = [{k}]> ()
        best, experts = TopK <axis = 1> (scores, k) {chosen}"
    )
}

#[cfg(test)]
mod tests {
    use crate::{Compiler, Options};

    #[test]
    fn codes_beyond_every_memory_are_errors() {
        let text = r#"<ir_version: 10, opset_import: ["" : 21, "com.microsoft" : 1]>
            g (float[1, 16] x, float[1, 2] logits, uint8[2, 4, 4611686018427387904] w,
               float[2, 4] s) => (y)
            { y = com.microsoft.QMoE <k = 1, block_size = 16> (x, logits, w, s, "", w, s) }"#;
        let error = Compiler::new(&Options::default()).plan(text.into()).err();
        let error = error.expect("no memory holds the codes").to_string();
        assert!(error.contains("E0302"), "{error}");
    }
}
