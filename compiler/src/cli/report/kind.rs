//! Kinds of operators, which the page colors.

use onnxc::ir::Node;

/// The names of the kinds, by index.
pub const NAMES: &[&str] = &[
    "products and convolutions",
    "activations",
    "normalizations and reductions",
    "arithmetic",
    "data movement",
    "pooling and images",
    "quantization and casts",
    "control flow",
    "other operators",
];

/// The operators of each kind but the last, by the words that their names contain.
const WORDS: &[&[&str]] = &[
    &["Conv", "MatMul", "Gemm", "Attention", "Einsum", "LSTM", "GRU", "RNN", "Embedding"],
    &[
        "Relu", "Sigmoid", "Tanh", "Gelu", "Silu", "Swish", "Elu", "Selu", "Softplus", "Softsign",
        "Clip", "Mish", "Celu", "Gate",
    ],
    &["Norm", "Softmax", "Reduce", "ArgM", "CumSum", "TopK", "Mean", "LRN"],
    &[
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Pow",
        "Sqrt",
        "Exp",
        "Log",
        "Abs",
        "Neg",
        "Erf",
        "Equal",
        "Less",
        "Greater",
        "Not",
        "And",
        "Or",
        "Where",
        "Min",
        "Max",
        "Sum",
        "Mod",
        "Sin",
        "Cos",
        "Floor",
        "Ceil",
        "Round",
        "Sign",
        "Reciprocal",
    ],
    &[
        "Reshape",
        "Transpose",
        "Concat",
        "Slice",
        "Gather",
        "Scatter",
        "Split",
        "Squeeze",
        "Expand",
        "Pad",
        "Tile",
        "Flatten",
        "Identity",
        "Shape",
        "Constant",
        "Range",
        "NonZero",
        "Trilu",
        "Size",
        "Blocked",
        "Layout",
    ],
    &["Pool", "Resize", "Upsample", "GridSample", "RoiAlign", "NonMax", "DepthToSpace", "Image"],
    &["Quantize", "Cast", "DequantizeLinear"],
    &["If", "Loop", "Scan", "Sequence", "Optional"],
];

/// The order in which kinds are tried: names such as `MaxPool` and `MatMul` contain the words of
/// arithmetic, too.
const ORDER: [usize; 8] = [5, 0, 6, 2, 1, 4, 7, 3];

/// Returns the kind of a node's operator, as an index of [`NAMES`].
pub fn of(node: &Node) -> usize {
    let name = node.op.name();
    let has = |kind: &usize| WORDS[*kind].iter().any(|word| is_word(name, word));
    ORDER.into_iter().find(has).unwrap_or(NAMES.len() - 1)
}

/// Returns whether `name` contains `word`. Short words must be the whole name.
fn is_word(name: &str, word: &str) -> bool {
    if word.len() <= 3 && word != "Add" && word != "Elu" && word != "GRU" && word != "RNN" {
        return name == word;
    }
    name.contains(word)
}
