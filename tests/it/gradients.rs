//! Derivatives, against differences of the function itself, in `double`.

use onnxc::{Options, dtype::DType, host, plan::Plan, tensor::Tensor, value::Value};
use std::fmt::Write;

/// A function: its inputs, by all of which it is differentiated, and its nodes, the last of which
/// gives `y`. A size may be a letter, which is known only when the model runs. Inputs are of either
/// sign and not near zero; those whose names start with `p` are positive, those that start with `q`
/// lie between 0 and 1.
struct Case<'a> {
    inputs: &'a str,
    constants: &'a str,
    nodes: &'a str,
}

/// A function without constants.
const fn case<'a>(inputs: &'a str, nodes: &'a str) -> Case<'a> {
    Case { inputs, constants: "", nodes }
}

/// A function with constants.
const fn with<'a>(inputs: &'a str, constants: &'a str, nodes: &'a str) -> Case<'a> {
    Case { inputs, constants, nodes }
}

/// What sizes that are letters are.
const SIZES: &[(&str, usize)] = &[("n", 2), ("m", 3), ("k", 4), ("l", 5), ("z", 0)];

/// Functions of each element.
const UNARY: &[(&str, &[&str])] = &[
    (
        "[n, 3] x",
        &[
            "Abs",
            "Asinh",
            "Atan",
            "Celu<alpha = 0.7>",
            "Cos",
            "Cosh",
            "Elu<alpha = 1.3>",
            "Erf",
            "Exp",
            "Gelu",
            "Gelu<approximate = \"tanh\">",
            "HardSigmoid<alpha = 0.3>",
            "HardSwish",
            "Identity",
            "LeakyRelu<alpha = 0.2>",
            "Mish",
            "Neg",
            "Reciprocal",
            "Relu",
            "Selu",
            "Sigmoid",
            "Sin",
            "Sinh",
            "Shrink<lambd = 0.6, bias = 0.2>",
            "Softplus",
            "Softsign",
            "Swish<alpha = 1.5>",
            "Tan",
            "Tanh",
            "ThresholdedRelu<alpha = 0.5>",
            "Softmax<axis = 0>",
            "Softmax",
            "LogSoftmax<axis = 0>",
            "Transpose",
            "Flatten",
            "Clip",
            "Sum",
            "Mean",
            "Max",
            "Trilu",
            "Trilu<upper = 0>",
            "LpNormalization",
            "LpNormalization<p = 1, axis = 0>",
            "ReduceSum",
            "ReduceSum<keepdims = 0>",
            "ReduceMean<keepdims = 0>",
            "ReduceMax",
            "ReduceMin<keepdims = 0>",
            "ReduceProd",
            "ReduceL1",
            "ReduceL2<keepdims = 0>",
            "ReduceSumSquare",
            "ReduceLogSumExp",
        ],
    ),
    ("[n, 3] p", &["Acosh", "Log", "Sqrt", "ReduceLogSum"]),
    ("[3] q", &["Acos", "Asin", "Atanh"]),
    ("[z, 3] x", &["Exp", "Softmax", "ReduceSum", "Transpose", "Relu"]),
    (
        "[n, 2, 4, 5] x",
        &[
            "GlobalAveragePool",
            "GlobalMaxPool",
            "GlobalLpPool<p = 3>",
            "LRN<size = 2>",
            "MeanVarianceNormalization",
            "LRN<size = 3, alpha = 0.5, bias = 2.0>",
            "MaxPool<kernel_shape = [2, 3], strides = [1, 2], pads = [1, 0, 0, 1]>",
            "MaxPool<kernel_shape = [2, 2], dilations = [2, 1], ceil_mode = 1, strides = [2, 2]>",
            "AveragePool<kernel_shape = [3, 2], strides = [2, 1], pads = [1, 1, 0, 0]>",
            "AveragePool<kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1, count_include_pad = 1>",
            "AveragePool<kernel_shape = [3, 3], auto_pad = \"SAME_UPPER\">",
            "LpPool<kernel_shape = [2, 2], p = 3>",
            "LpPool<kernel_shape = [2, 2], p = 1>",
        ],
    ),
];

/// Functions of more, or with constants.
const CASES: &[Case<'_>] = &[
    case("double[n, 3] a, double[3] b", "y = Add(a, b)"),
    case("double[n, 3] a, double[n, 1] b", "y = Sub(a, b)"),
    case("double[1, 3] a, double[n, 1] b", "y = Mul(a, b)"),
    case("double[n, m] a, double[k, 1, 1] b", "y = Div(a, b)"),
    case("double[n, m] p, double[m] b", "y = Pow(p, b)"),
    case("double[n, m] a, double[m] b", "y = Mod<fmod = 1>(a, b)"),
    case("double[n, m] a, double[m] b, double[1, m] c", "y = Max(a, b, c)"),
    case("double[n, m] a, double[m] b, double[1, m] c", "y = Mean(a, b, c)"),
    case("double[n, m] a, double[m] b, double[1, m] c", "y = Min(a, b, c)"),
    case("double[n, m] a, double[n, m] b", "h = Hardmax(a)  c = Mul(h, b)  y = Add(a, c)"),
    case("double[n, m] a", "c = CastLike(a, a)  y = Dropout(c)"),
    case("double[n, m] a, double[m] b", "c = Less(a, b)  y = Where(c, a, b)"),
    case("double[n, m] a, double[m] b", "y = PRelu(a, b)"),
    case("double[n, m] a, double[n, m] b", "y = SwiGLU<alpha = 1.2>(a, b)"),
    case("double[n, m] x, double qlow, double phigh", "y = Clip(x, qlow, phigh)"),
    case("double[n, m] a, double[m, k] b", "y = MatMul(a, b)"),
    case("double[2, n, m] a, double[m, k] b", "y = MatMul(a, b)"),
    case("double[2, n, 3] a, double[3, 4] b", "y = MatMul(a, b)"),
    case("double[z, 3] a, double[3, 4] b", "y = MatMul(a, b)"),
    case("double[m] a, double[2, m, k] b", "y = MatMul(a, b)"),
    case("double[2, 1, n, m] a, double[m] b", "y = MatMul(a, b)"),
    case("double[m] a, double[m] b", "y = MatMul(a, b)"),
    case(
        "double[m, n] a, double[k, m] b, double[k] c",
        "y = Gemm<transA = 1, transB = 1, alpha = 0.5, beta = 2.0>(a, b, c)",
    ),
    case("double[2, 3] a, double[3, 4] b", "y = Gemm(a, b)"),
    case("double[2, 3] a, double[4, 3] b", "y = Gemm<transB = 1>(a, b)"),
    case("double[3, 2] a, double[3, 4] b", "y = Gemm<transA = 1, alpha = 3.0>(a, b)"),
    case("double[n, m, 2] a, double[2, m] b", "y = Einsum<equation = \"ijk,kj->ki\">(a, b)"),
    case("double[n, m, m] a", "y = Einsum<equation = \"ijj->ij\">(a)"),
    case("double[2, n, m] a, double[n, m] b", "y = Einsum<equation = \"...ij,ij->...i\">(a, b)"),
    case("double[2, 3, 3] x", "y = Det(x)"),
    case(
        "double[1, 4, 7, 6] x, double[6, 2, 3, 2] w, double[6] b",
        "y = Conv<group = 2, strides = [2, 1], pads = [1, 0, 2, 1], dilations = [1, 2]>(x, w, b)",
    ),
    case("double[n, 2, l, k] x, double[3, 2, 2, 2] w", "y = Conv<strides = [2, 2]>(x, w)"),
    case(
        "double[n, 4, l, k] x, double[6, 2, 3, 2] w",
        "y = Conv<group = 2, pads = [1, 0, 2, 1], dilations = [1, 2]>(x, w)",
    ),
    case("double[z, 2, 3, 3] x, double[3, 2, 2, 2] w", "y = Conv(x, w)"),
    case("double[2, 2, 3] x, double[3, 2, 1] w", "y = Conv<pads = [1, 2]>(x, w)"),
    case(
        "double[2, 2, 6] x, double[2, 1, 3] w",
        "y = Conv<group = 2, auto_pad = \"SAME_UPPER\">(x, w)",
    ),
    case(
        "double[1, 4, 3, 4] x, double[4, 3, 3, 2] w, double[6] b",
        "y = ConvTranspose<group = 2, strides = [2, 3], pads = [1, 0, 0, 1], output_padding = [1, 0]>(x, w, b)",
    ),
    case("double[1, 2, 3] x, double[2, 2, 2] w", "y = ConvTranspose<dilations = [2]>(x, w)"),
    case(
        "double[1, 4, 4, 4] x, double[4, 2, 2, 2] w, double[1, 16, 3, 3] o, double[4] b, double[1, 8, 3, 3] m",
        "y = DeformConv<group = 2, offset_group = 2>(x, w, o, b, m)",
    ),
    case(
        "double[1, 2, 5] x, double[2, 1, 3] w, double[2] b, double[1, 2, 2] s",
        "y, next = CausalConvWithState<activation = \"silu\">(x, w, b, s)",
    ),
    case(
        "double[2, 3, 4] x, double[3] s, double[3] b, double[3] m, double[3] p",
        "y = BatchNormalization(x, s, b, m, p)",
    ),
    case(
        "double[2, 3, 4] x, double[3] s, double[3] b, double[3] m, double[3] p",
        "y, i, j = BatchNormalization<training_mode = 1>(x, s, b, m, p)",
    ),
    case("double[2, 3, 4] x, double[3] s, double[3] b", "y = InstanceNormalization(x, s, b)"),
    case(
        "double[2, 4, 3] x, double[4] s, double[4] b",
        "y = GroupNormalization<num_groups = 2>(x, s, b)",
    ),
    case("double[n, m, 4] x, double[4] s, double[4] b", "y = LayerNormalization(x, s, b)"),
    case("double[2, 3, 4] x, double[3, 4] s", "y = LayerNormalization<axis = 1>(x, s)"),
    case("double[n, 3, 4] x, double[3, 4] s", "y = RMSNormalization<axis = -2>(x, s)"),
    with(
        "double[2, 3, 4] x",
        "int64[2, 4] t = {0, 1, 2, 1, 2, 0, 0, 1}",
        "y = SoftmaxCrossEntropyLoss(x, t)",
    ),
    with(
        "double[2, 3, 4] x, double[3] pw",
        "int64[2, 4] t = {0, 1, 2, 1, 2, -1, 0, 1}",
        "y, z = SoftmaxCrossEntropyLoss<ignore_index = -1, reduction = \"none\">(x, t, pw)",
    ),
    with(
        "double[4, 3] x, double[3] pw",
        "int64[4] t = {0, 1, 2, 1}",
        "y = NegativeLogLikelihoodLoss(x, t, pw)",
    ),
    with(
        "double[4, 3] x, double[3] pw",
        "int64[4] t = {0, 1, 2, 1}",
        "y = SoftmaxCrossEntropyLoss<reduction = \"sum\">(x, t, pw)",
    ),
    with("double[n, m, k] x", "int64[2] a = {0, -1}", "y = ReduceSum<keepdims = 0>(x, a)"),
    with("double[n, m, k] x", "int64[1] a = {-2}", "y = ReduceMean(x, a)"),
    with("double[n, m, k] x", "int64[1] a = {1}", "y = ReduceProd<keepdims = 0>(x, a)"),
    with("double[n, m, k] x", "int64[1] a = {1}", "y = ReduceLogSumExp<keepdims = 0>(x, a)"),
    with("double[n, m, k] x", "int64[3] s = {0, -1, 2}", "y = Reshape(x, s)"),
    with(
        "double[n, 1, k] x",
        "int64[2] s = {1, 1}, int64[1] a = {0}",
        "u = Unsqueeze(x, a)  y = Squeeze(u, a)",
    ),
    with("double[n, 1, k] x", "int64[4] s = {2, 1, 3, 1}", "y = Expand(x, s)"),
    with("double[n, k] x", "int64[2] r = {2, 3}", "y = Tile(x, r)"),
    case("double[n, 3] a, double[n, 2] b, double[n, 1] c", "y = Concat<axis = 1>(a, b, c)"),
    with(
        "double[n, 6] x",
        "int64[3] s = {2, 1, 3}",
        "a, b, c = Split<axis = -1>(x, s)  y = Mul(c, b)",
    ),
    with(
        "double[n, 6, 4] x",
        "int64[2] s = {1, -3}, int64[2] e = {5, 9}, int64[2] a = {1, 2}",
        "y = Slice(x, s, e, a)",
    ),
    with(
        "double[n, 6, 4] x",
        "int64[2] s = {-1, 0}, int64[2] e = {-9, 4}, int64[2] a = {1, 2}, int64[2] t = {-2, 3}",
        "y = Slice(x, s, e, a, t)",
    ),
    case("double[n, 4, 2, 3] x", "y = DepthToSpace<blocksize = 2>(x)"),
    case("double[n, 1, 2, 4] x", "y = SpaceToDepth<blocksize = 2>(x)"),
    with("double[n, 3] x, double v", "int64[4] s = {1, -1, 0, 2}", "y = Pad(x, s, v)"),
    with("double[n, 4] x", "int64[4] s = {1, 2, 0, 3}", "y = Pad<mode = \"reflect\">(x, s)"),
    with("double[n, 4] x", "int64[4] s = {1, 2, 0, 3}", "y = Pad<mode = \"edge\">(x, s)"),
    with("double[n, 4] x", "int64[4] s = {1, 2, 0, 3}", "y = Pad<mode = \"wrap\">(x, s)"),
    with("double[4, 3] x", "int64[2] s = {2, 6}", "y = CenterCropPad(x, s)"),
    with("double[4, n, 2] x", "int64[2] l = {3, 2}", "y = ReverseSequence(x, l)"),
    with("double[5, n, 3] x", "int64[2, 2] i = {1, -1, 1, 0}", "y = Gather(x, i)"),
    with("double[n, 5, 3] x", "int64[2, 2] i = {1, -1, 1, 0}", "y = Gather<axis = 1>(x, i)"),
    with("double[n, 5, 3] x", "int64 i = {2}", "y = Gather<axis = -1>(x, i)"),
    with("double[3, 4] x", "int64[2, 2] i = {1, -1, 1, 0}", "y = GatherElements<axis = 1>(x, i)"),
    with("double[2, 3, 4] x", "int64[2, 1] i = {1, 0}", "y = GatherND<batch_dims = 1>(x, i)"),
    with("double[2, 3, 4] x", "int64[2, 2] i = {1, 0, 1, 0}", "y = GatherND(x, i)"),
    with(
        "double[3, 4] x, double[2, 2] u",
        "int64[2, 2] i = {1, -1, 2, 0}",
        "y = ScatterElements<axis = 1>(x, i, u)",
    ),
    with(
        "double[3, 4] x, double[2, 2] u",
        "int64[2, 2] i = {1, 1, 2, 0}",
        "y = ScatterElements<axis = 1, reduction = \"mul\">(x, i, u)",
    ),
    with(
        "double[3, 4] x, double[2, 4] u",
        "int64[2, 1] i = {1, 1}",
        "y = ScatterND<reduction = \"add\">(x, i, u)",
    ),
    with(
        "double[3, 4] x, double[2, 4] u",
        "int64[2, 1] i = {2, 0}",
        "y = ScatterND<reduction = \"max\">(x, i, u)",
    ),
    with(
        "double[2, 4, 3] x, double[2, 2, 3] u",
        "int64[2] i = {1, 2}",
        "y = TensorScatter(x, u, i)",
    ),
    with("double[3, 4] x", "bool[3] c = {1, 0, 1}", "y = Compress<axis = 0>(x, c)"),
    with("double[2] v", "int64[3] i = {0, 2, -1}, int64 d = {3}", "y = OneHot(i, d, v)"),
    with("double[n, 5] x", "int64[1] k = {3}", "y, i = TopK(x, k)"),
    with("double[n, 4] x", "int64 a = {1}", "y = CumSum<exclusive = 1>(x, a)"),
    with("double[n, 4] x", "int64 a = {-2}", "y = CumSum<reverse = 1>(x, a)"),
    with("double[n, 4] x", "int64 a = {1}", "y = CumProd(x, a)"),
    with(
        "double[n, 2, 4, 4] x",
        "float[4] s = {1.0, 1.0, 0.6, 1.7}",
        "y = Resize<mode = \"linear\">(x, \"\", s)",
    ),
    with(
        "double[1, 2, 4, 3] x",
        "int64[4] s = {1, 2, 6, 5}",
        "y = Resize<mode = \"cubic\">(x, \"\", \"\", s)",
    ),
    with("double[1, 2, 4, 3] x", "int64[4] s = {1, 2, 6, 5}", "y = Resize(x, \"\", \"\", s)"),
    case("double[1, 2, 4, 5] x, double[1, 3, 2, 2] q", "y = GridSample(x, q)"),
    case(
        "double[1, 2, 4, 5] x, double[1, 3, 2, 2] q",
        "y = GridSample<mode = \"cubic\", padding_mode = \"reflection\", align_corners = 1>(x, q)",
    ),
    case(
        "double[1, 2, 4, 5] x, double[1, 3, 2, 2] g",
        "y = GridSample<padding_mode = \"border\">(x, g)",
    ),
    with("double[2, 2, 3] t", "int64[4] s = {2, 1, 3, 2}", "y = AffineGrid(t, s)"),
    with(
        "double[1, 1, 2, 2] x",
        "int64[1, 1, 2, 2] i = {0, 3, 13, 10}",
        "y = MaxUnpool<kernel_shape = [2, 2], strides = [2, 2]>(x, i)",
    ),
    with("double p", "double a = {0.5}, double e = {5.0}", "y = Range(a, e, p)"),
    case(
        "double[2, 3] a, double[1, 3] b",
        "s = SequenceConstruct(a, b)  y = ConcatFromSequence<axis = 0>(s)",
    ),
    with(
        "double[2, 3] x, double[2, 3] w",
        "int64 i = {0}",
        "s = SequenceConstruct(w)  t = SequenceInsert(s, x, i)  u = SequenceErase(t, i)  v = SequenceInsert(u, x)  a = SequenceAt(v, i)  b = SequenceAt(t, i)  y = Mul(a, b)",
    ),
    with(
        "double[2, 3] x",
        "int64 i = {1}",
        "s = SplitToSequence<axis = 1>(x)  a = SequenceAt(s, i)  y = Mul(a, a)",
    ),
    with(
        "double[4, 3] x, double[3] w, double v",
        "int64[2] rows = {1, 3}",
        "s = SplitToSequence(x, rows)  t, u = SequenceMap(s, w) <body = each (double[r, 3] a, double[3] b) => (double[r, 3] c, double[r, 3] d) { e = Mul(a, b)  c = Exp(e)  d = Mul(a, v) }>  f = ConcatFromSequence<axis = 0>(t)  h = ConcatFromSequence<axis = 0>(u)  y = Mul(f, h)",
    ),
    case("double[2, 3] x", "o = Optional(x)  y = OptionalGetElement(o)"),
    with("double[1, 8, 6] x", "int64[2] s = {3, 4}, int64[2] b = {2, 2}", "y = Col2Im(x, s, b)"),
    with(
        "double[1, 2, 6, 6] x",
        "double[1, 4] r = {0.4, 0.7, 4.6, 5.2}, int64[1] b = {0}",
        "y = RoiAlign<output_height = 2, output_width = 3, sampling_ratio = 2>(x, r, b)",
    ),
    with(
        "double[2, 2, 5, 6] x",
        "double[2, 4] r = {0.4, 0.7, 4.6, 5.2, 1.0, -2.0, 9.0, 3.0}, int64[2] b = {1, 0}",
        "y = RoiAlign<output_height = 2, output_width = 3, spatial_scale = 0.9>(x, r, b)",
    ),
    with(
        "double[2, 2, 6, 6] x",
        "double[3, 5] r = {0.0, 0.4, 0.7, 4.6, 5.2, 1.0, 2.0, 2.0, 3.0, 2.0, 1.0, 7.0, 7.0, 9.0, 9.0}",
        "y = MaxRoiPool<pooled_shape = [2, 3], spatial_scale = 0.8>(x, r)",
    ),
    with(
        "double[1, 1, 0, 3] x, double[2] w",
        "double[1, 5] r = {0.0, 0.0, 0.0, 2.0, 2.0}",
        "p = MaxRoiPool<pooled_shape = [1, 2]>(x, r)  y = Add(p, w)",
    ),
    case("double[n, 5, 2] x", "y = DFT(x)"),
    case("double[n, 5, 1] x", "y = DFT<onesided = 1>(x)"),
    case("double[n, 3, 2] x", "y = DFT<onesided = 1, inverse = 1>(x)"),
    with("double[n, 4, 1] x", "int64 l = {6}", "y = DFT(x, l)"),
    with("double[1, 8, 1] x, double[4] w", "int64 s = {2}", "y = STFT(x, s, w)"),
    case(
        "double[4, 2, 3] x, double[1, 8, 3] w, double[1, 8, 2] r, double[1, 16] b, double[1, 2, 2] h, double[1, 2, 2] c, double[1, 6] p",
        "y, i, j = LSTM<hidden_size = 2>(x, w, r, b, \"\", h, c, p)",
    ),
    with(
        "double[4, 2, 3] x, double[2, 6, 3] w, double[2, 6, 2] r, double[2, 12] b",
        "int32[2] l = {4, 2}",
        "y = GRU<hidden_size = 2, direction = \"bidirectional\">(x, w, r, b, l)",
    ),
    case(
        "double[n, 2, 3] x, double[1, 6, 3] w, double[1, 6, 2] r, double[1, 12] b",
        "y = GRU<hidden_size = 2, linear_before_reset = 1, direction = \"reverse\">(x, w, r, b)",
    ),
    case(
        "double[4, 2, 3] x, double[1, 2, 3] w, double[1, 2, 2] r",
        "i, y = RNN<hidden_size = 2>(x, w, r)",
    ),
    case(
        "double[1, 4, 3, 2] q, double[1, 2, 5, 2] k, double[1, 2, 5, 3] v, double[3, 5] m",
        "y = Attention(q, k, v, m)",
    ),
    case(
        "double[1, 2, 3, 2] q, double[1, 2, 2, 2] k, double[1, 2, 2, 3] v, double[1, 2, 3, 2] a, double[1, 2, 3, 3] b",
        "y, s, t = Attention<is_causal = 1, softcap = 2.0>(q, k, v, \"\", a, b)",
    ),
    case(
        "double[1, 3, 4] x, double[1, 3, 1] c, double[1, 3, 1] s",
        "y = RotaryEmbedding<num_heads = 2, interleaved = 1>(x, c, s)",
    ),
    case(
        "double[n, 3, 4] x, double b",
        "c = Greater(b, b)  y = If(c) <then_branch = t () => (u) { u = Mul(x, x) }, else_branch = e () => (v) { v = Mul(x, b) }>",
    ),
    case(
        "double[2] h, double[n, 2] x, double[2] w",
        "l, y = Scan<num_scan_inputs = 1, body = s (i, j) => (o, r) { a = Mul(i, w)  b = Add(a, j)  o = Tanh(b)  r = Identity(o) }>(h, x)",
    ),
    with(
        "double[2] h, double[2] w",
        "int64 t = {3}, bool c = {1}",
        "y, s = Loop(t, c, h) <body = b (i, k, u) => (g, o, r) { a = Mul(u, w)  o = Sin(a)  g = Identity(k)  r = Identity(u) }>",
    ),
];

/// Numbers that are always the same: of either sign, or as a name says.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, name: &str) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (self.0 >> 40) as f64 / (1u64 << 24) as f64;
        match name.as_bytes().first() {
            Some(b'p') => 1.1 + unit,
            Some(b'q') => 0.05 + 0.9 * unit,
            _ => (0.15 + unit) * if self.0 >> 20 & 1 == 0 { 1.0 } else { -1.0 },
        }
    }
}

/// An input: its name and its sizes.
fn inputs(text: &str) -> Vec<(String, Vec<usize>)> {
    let each = text.split("double").skip(1).map(|input| input.trim().trim_end_matches(','));
    let size = |size: &str| {
        let letter = SIZES.iter().find(|(letter, _)| *letter == size.trim());
        letter.map_or_else(|| size.trim().parse().expect("a size"), |(_, size)| *size)
    };
    let one = |input: &str| match input.split_once(']') {
        Some((sizes, name)) => {
            let sizes = sizes.trim_start_matches('[').split(',').map(size).collect();
            (name.trim().to_owned(), sizes)
        }
        None => (input.to_owned(), Vec::new()),
    };
    each.map(one).collect()
}

fn plan(text: &str) -> Plan {
    match onnxc::plan(text.to_owned().into(), &Options::default(), &mut |_, _| {}) {
        Ok((plan, _)) => plan,
        Err(findings) => panic!("{findings}\n{text}"),
    }
}

fn floats(values: Vec<Value>) -> Vec<Vec<f64>> {
    let tensors = values.into_iter().map(|value| value.into_tensor().expect("a tensor"));
    tensors.map(|tensor| tensor.floats().expect("numbers")).collect()
}

/// Holds every derivative of a case against differences.
fn check(case: &Case<'_>) {
    const STEP: f64 = 1e-5;
    let inputs = inputs(case.inputs);
    let names: Vec<&str> = inputs.iter().map(|(name, _)| name.as_str()).collect();
    let mut text = String::from(
        "<ir_version: 10, opset_import: [\"\": 28, \"ai.onnx.preview.training\": 1]>\n",
    );
    let outputs = names.iter().fold(String::from("loss_"), |all, name| format!("{all}, d_{name}"));
    let constants =
        if case.constants.is_empty() { String::new() } else { format!("<{}>", case.constants) };
    let _ = writeln!(text, "g ({}) => ({outputs}) {constants} {{ {}", case.inputs, case.nodes);
    // Each element counts differently.
    let xs = names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let _ = writeln!(
        text,
        "s_ = Sin(y)  d_ = Mul(y, s_)  t_ = Add(d_, y)  loss_ = ReduceSum<keepdims = 0>(t_)"
    );
    let _ = write!(
        text,
        "{} = ai.onnx.preview.training.Gradient<xs = [{xs}], y = \"loss_\">({}) }}",
        outputs.replacen("loss_, ", "", 1),
        names.join(", ")
    );
    let plan = plan(&text);
    let mut numbers = Numbers(7);
    let values: Vec<Vec<f64>> = inputs
        .iter()
        .map(|(name, sizes)| {
            (0..sizes.iter().product::<usize>()).map(|_| numbers.next(name)).collect()
        })
        .collect();
    let run = |values: &[Vec<f64>]| -> Vec<Vec<f64>> {
        let tensors = values.iter().zip(&inputs).map(|(values, (_, sizes))| {
            Value::from(Tensor { shape: sizes.clone(), ..Tensor::from_wide(DType::F64, values) })
        });
        let tensors: Vec<Value> = tensors.collect();
        floats(host::run(&plan, &tensors).unwrap_or_else(|error| panic!("{error}\n{text}")))
    };
    let found = run(&values);
    for (i, name) in names.iter().enumerate() {
        for at in 0..values[i].len() {
            let loss = |step: f64| {
                let mut moved = values.clone();
                moved[i][at] += step;
                run(&moved)[0][0]
            };
            let expected = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
            let given = found[i + 1][at];
            let near = (given - expected).abs() <= 2e-6 * (1.0 + expected.abs());
            assert!(near, "d{name}[{at}] is {given}, but {expected} is expected\n{text}");
        }
    }
}

/// A model of these nodes that gives the derivative of `y` by `x`.
fn derivative(nodes: &str) -> String {
    format!(
        "<ir_version: 10, opset_import: [\"\": 24, \"ai.onnx.preview.training\": 1]>
        g (float[2, 3] x, float[3] w) => (dx) {{
            {nodes}
            dx = ai.onnx.preview.training.Gradient<xs = [\"x\"], y = \"y\">(x)
        }}"
    )
}

/// Holds what is found wrong with the derivative against what must be said.
fn refused(nodes: &str, parts: &[&str]) {
    let text = derivative(nodes);
    let found = onnxc::plan(text.into(), &Options::default(), &mut |_, _| {});
    let found = found.err().expect("there is no derivative").to_string();
    for part in parts {
        assert!(found.contains(part), "`{part}` is not said in\n{found}");
    }
}

#[test]
fn a_path_without_a_derivative_is_shown() {
    refused(
        "[double] a = Mul(x, w)  [steps] b = Round(a)  [last] y = Exp(b)",
        &[
            "E0435",
            "`y` depends on `x`",
            "node `double` (Mul) → node `steps` (Round) → node `last` (Exp)",
        ],
    );
    refused(
        "[few] k = ArgMax(x)  [real] c = Cast<to = 1>(k)  y = Exp(c)",
        &["E0435", "node `few` (ArgMax) → node `real` (Cast)"],
    );
    refused("[region] y = SequenceConstruct(x)", &["input 2 must be a tensor"]);
}

#[test]
fn what_is_not_asked_for_costs_nothing() {
    let text = derivative("a = MatMul(x, v)  y = Mul(a, a)").replace("float[3] w", "float[3, 4] v");
    let (mut nodes, options) = (String::new(), Options::default());
    let mut keep = |pass: &str, graph: &onnxc::ir::Graph| {
        if pass == "simplify" {
            nodes = graph.to_string();
        }
    };
    onnxc::plan(text.into(), &options, &mut keep).map(drop).expect("it has a derivative");
    // x v, twice that, and its product with v turned: no ones, and nothing for v.
    let count = |op: &str| nodes.matches(op).count();
    assert_eq!([count("= MatMul"), count("= Gemm")], [1, 1], "{nodes}");
    assert!(!nodes.contains("Expand"), "{nodes}");
}

#[test]
fn derivatives_of_functions_of_each_element_are_those_of_differences() {
    for (shape, functions) in UNARY {
        for function in *functions {
            let nodes = format!("y = {function}({})", &shape[shape.len() - 1..]);
            check(&case(&format!("double{shape}"), &nodes));
        }
    }
}

#[test]
fn derivatives_are_those_of_differences() {
    CASES.iter().for_each(check);
}
