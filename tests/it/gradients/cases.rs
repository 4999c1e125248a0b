//! The functions whose gradients are compared with finite differences.

use super::{Case, case, with};

/// Element-wise functions of one input.
pub(super) const UNARY: &[(&str, &[&str])] = &[
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
            "AveragePool<kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1, \
                count_include_pad = 1>",
            "AveragePool<kernel_shape = [3, 3], auto_pad = \"SAME_UPPER\">",
            "LpPool<kernel_shape = [2, 2], p = 3>",
            "LpPool<kernel_shape = [2, 2], p = 1>",
        ],
    ),
];

/// Functions of several inputs, or with constants.
pub(super) const CASES: &[Case<'_>] = &[
    case("double[n, 3] a, double[3] b", "y = Add(a, b)"),
    case("double[n, 3] a, double[n, 1] b", "y = Sub(a, b)"),
    case("double[1, 3] a, double[n, 1] b", "y = Mul(a, b)"),
    case("double[n, m] a, double[k, 1, 1] b", "y = Div(a, b)"),
    case("double[n, m] p, double[m] b", "y = Pow(p, b)"),
    case("double[n, m] a, double[m] b", "y = Mod<fmod = 1>(a, b)"),
    case("double[n, m] a, double[m] b", "y = Mod(a, b)"),
    case("double[n, m] a, double[m] b, double[1, m] c", "y = Max(a, b, c)"),
    case("double[n, m] a, double[m] b, double[1, m] c", "y = Mean(a, b, c)"),
    case("double[n, m] a, double[m] b, double[1, m] c", "y = Min(a, b, c)"),
    case("double[n, m] a, double[n, m] b", "h = Hardmax(a)  c = Mul(h, b)  y = Add(a, c)"),
    case("double[n, m] a", "c = CastLike(a, a)  y = Dropout(c)"),
    case("double[n, m] a", "y, mask = Dropout(a)"),
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
    // Free sizes that a run broadcasts.
    case("double[2, o] a, double[m, 4] b", "y = Einsum<equation = \"ij,jk->ik\">(a, b)"),
    case("double[2, m] a, double[o, 4] b", "y = Einsum<equation = \"ij,jk->ik\">(a, b)"),
    case("double[o, m] a, double[m, o] b", "y = Einsum<equation = \"ij,ij->ij\">(a, b)"),
    case("double[o, m] a, double[n, o] b", "y = Mul(a, b)"),
    case("double[o, 2, m] a, double[n, m, 2] b", "y = MatMul(a, b)"),
    case("double[n, 2] a, double[2, m] b, double[o, m] c", "y = Gemm(a, b, c)"),
    case("double[n, m] a, double[o, o] b", "c = Less(b, a)  y = Where(c, a, b)"),
    case("double[n, m] a, double[o, m] b", "y = PRelu(a, b)"),
    case("double[o, m] a, double[n, o] b, double[n, m] c", "y = Max(a, b, c)"),
    case("double[2, 3, 3] x", "y = Det(x)"),
    case("double[2, 2, 2] x", "y = com.microsoft.Inverse(x)"),
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
        "y = ConvTranspose<group = 2, strides = [2, 3], pads = [1, 0, 0, 1], \
            output_padding = [1, 0]>(x, w, b)",
    ),
    case("double[1, 2, 3] x, double[2, 2, 2] w", "y = ConvTranspose<dilations = [2]>(x, w)"),
    case(
        "double[1, 4, 4, 4] x, double[4, 2, 2, 2] w, double[1, 16, 3, 3] o, double[4] b, \
            double[1, 8, 3, 3] m",
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
    case(
        "double[2, 3] x, double[3] s, double[3] b, double[3] m, double[3] p",
        "i, y, j = BatchNormalization<training_mode = 1>(x, s, b, m, p)",
    ),
    case("double[n, 3, 4] x, double[3, 4] s", "y = RMSNormalization<axis = -2>(x, s)"),
    case("double[2, 3, 4] x, double[3, 1] s", "y = LayerNormalization<axis = 1>(x, s)"),
    case("double[2, 3] x, double[1, 3] s, double[3] b", "y = LayerNormalization(x, s, b)"),
    // Second derivatives.
    case(
        "double[2, 3] x, double[3] s, double[3] b",
        "l = LayerNormalization<epsilon = 1.0>(x, s, b)  q = Mul(l, l)
        dx, ds, db = ai.onnx.preview.training.Gradient<xs = [\"x\", \"s\", \"b\"],
        y = \"q\">(x, s, b)
        t = Mul(dx, ds)  y = Add(t, db)",
    ),
    case(
        "double[2, 3] x, double[3] s",
        "l = RMSNormalization<epsilon = 1.0>(x, s)  q = Mul(l, l)
        dx, ds = ai.onnx.preview.training.Gradient<xs = [\"x\", \"s\"], y = \"q\">(x, s)
        y = Mul(dx, ds)",
    ),
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
    with(
        "double[4, 3] x, double[3] pw",
        "int64[4] t = {0, 1, 2, 1}",
        "z, y = SoftmaxCrossEntropyLoss(x, t, pw)",
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
    with(
        "double[n, 4] x, double v",
        "int64[4] s = {1, 2, 0, 3}",
        "y = Pad<mode = \"edge\">(x, s, v)",
    ),
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
    with("double[n, 4, 2] x", "int64 a = {-2}", "y = CumProd<exclusive = 1, reverse = 1>(x, a)"),
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
    // The shape stays, the order of the elements does not.
    with(
        "double[n, 2, 3, 4] x",
        "float[4] s = {1.0, 1.0, 1.2, 1.0}",
        "y = Resize<mode = \"linear\">(x, \"\", s)",
    ),
    with(
        "double[1, 2, 4, 5] x",
        "int64[2] s = {7, 7}",
        "y = Resize<mode = \"cubic\", axes = [3, 2], \
            keep_aspect_ratio_policy = \"not_larger\">(x, \"\", \"\", s)",
    ),
    with(
        "double[2, 3, 3] x",
        "int64[2] s = {2, 5}",
        "y = Resize<mode = \"linear\", antialias = 1, axes = [1, 2], \
            keep_aspect_ratio_policy = \"not_smaller\">(x, \"\", \"\", s)",
    ),
    case("double[1, 2, 4, 5] x, double[1, 3, 2, 2] q", "y = GridSample(x, q)"),
    case(
        "double[1, 2, 4, 5] x, double[1, 3, 2, 2] q",
        "y = GridSample<mode = \"cubic\", padding_mode = \"reflection\", align_corners = 1>(x, q)",
    ),
    case(
        "double[1, 2, 4, 5] x, double[1, 3, 2, 2] g",
        "y = GridSample<padding_mode = \"border\">(x, g)",
    ),
    case(
        "double[1, 2, 4, 5] x, double[1, 3, 2, 2] p",
        "y = GridSample<mode = \"cubic\", padding_mode = \"border\">(x, p)",
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
        "s = SequenceConstruct(w)  t = SequenceInsert(s, x, i)  u = SequenceErase(t, i)  \
            v = SequenceInsert(u, x)  a = SequenceAt(v, i)  b = SequenceAt(t, i)  y = Mul(a, b)",
    ),
    with(
        "double[2, 3] x",
        "int64 i = {1}",
        "s = SplitToSequence<axis = 1>(x)  a = SequenceAt(s, i)  y = Mul(a, a)",
    ),
    with(
        "double[4, 3] x, double[3] w, double v",
        "int64[2] rows = {1, 3}",
        "s = SplitToSequence(x, rows)  t, u = SequenceMap(s, w) \
            <body = each (double[r, 3] a, double[3] b) => (double[r, 3] c, double[r, 3] d) { \
            e = Mul(a, b)  c = Exp(e)  d = Mul(a, v) }>  f = ConcatFromSequence<axis = 0>(t)  \
            h = ConcatFromSequence<axis = 0>(u)  y = Mul(f, h)",
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
        "double[3, 5] r = {0.0, 0.4, 0.7, 4.6, 5.2, 1.0, 2.0, 2.0, 3.0, 2.0, 1.0, 7.0, 7.0, 9.0, \
            9.0}",
        "y = MaxRoiPool<pooled_shape = [2, 3], spatial_scale = 0.8>(x, r)",
    ),
    with(
        "double[1, 2, 6, 6] x",
        "double[2, 4] r = {0.4, 0.7, 4.6, 5.2, 4.0, 5.0, 9.0, 9.0}, int64[2] b = {0, 0}",
        "y = RoiAlign<mode = \"max\", output_height = 2, output_width = 3, \
            sampling_ratio = 2>(x, r, b)",
    ),
    with(
        "double[2, 2, 6, 5] x",
        "double[1, 4] r = {0.4, 0.7, 4.6, 5.2}, int64[1] b = {1}",
        "y = RoiAlign<mode = \"max\", output_height = 2, output_width = 1>(x, r, b)",
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
        "double[4, 2, 3] x, double[1, 8, 3] w, double[1, 8, 2] r, double[1, 16] b, \
            double[1, 2, 2] h, double[1, 2, 2] c, double[1, 6] p",
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
        "double[1, 2, 3, 2] q, double[1, 2, 2, 2] k, double[1, 2, 2, 3] v, double[1, 2, 3, 2] a, \
            double[1, 2, 3, 3] b",
        "y, s, t = Attention<is_causal = 1, softcap = 2.0>(q, k, v, \"\", a, b)",
    ),
    case(
        "double[1, 2, 3, 2] q, double[1, 2, 3, 2] k, double[1, 2, 3, 2] v",
        "a = Attention<is_causal = 1, softcap = 2.0>(q, k, v)  b = Mul(a, a)
        dq, dk, dv = ai.onnx.preview.training.Gradient<xs = [\"q\", \"k\", \"v\"],
        y = \"b\">(q, k, v)
        c = Mul(dq, dk)  y = Mul(c, dv)",
    ),
    case(
        "double[1, 2, 3, 2] q, double[1, 1, 4, 2] k, double[1, 1, 4, 2] v, double[3, 4] m",
        "a, s, t, p = Attention<softcap = 2.0, qk_matmul_output_mode = 2>(q, k, v, m)  \
            z = ReduceSum(a)  y = Mul(z, p)",
    ),
    case(
        "double[1, 3, 4] q, double[1, 2, 4] k, double[1, 2, 4] v",
        "a, s, t, p = Attention<q_num_heads = 2, kv_num_heads = 2, \
            qk_matmul_output_mode = 3>(q, k, v)  z = ReduceSum(p)  y = Mul(z, a)",
    ),
    case(
        "double[1, 3, 4] x, double[1, 3, 1] c, double[1, 3, 1] s",
        "y = RotaryEmbedding<num_heads = 2, interleaved = 1>(x, c, s)",
    ),
    case(
        "double[n, 3, 4] x, double b",
        "c = Greater(b, b)  y = If(c) <then_branch = t () => (u) { u = Mul(x, x) }, \
            else_branch = e () => (v) { v = Mul(x, b) }>",
    ),
    case(
        "double[2] h, double[n, 2] x, double[2] w",
        "l, y = Scan<num_scan_inputs = 1, body = s (i, j) => (o, r) { a = Mul(i, w)  \
            b = Add(a, j)  o = Tanh(b)  r = Identity(o) }>(h, x)",
    ),
    case(
        "double[2] h, double[z, 2] x",
        "l, r = Scan<num_scan_inputs = 1, body = s (i, j) => (o, p) { o = Mul(i, j)  \
            p = Exp(o) }>(h, x)  f = ReduceSum(r)  y = Add(l, f)",
    ),
    with(
        "double[2] h, double[2] w",
        "int64 t = {3}, bool c = {1}",
        "y, s = Loop(t, c, h) <body = b (i, k, u) => (g, o, r) { a = Mul(u, w)  o = Sin(a)  \
            g = Identity(k)  r = Identity(u) }>",
    ),
    with(
        "double[2] x",
        "int64 t = {3}",
        "y = Loop(t, \"\") <body = b (i, k) => (g, r) { g = Identity(k)  r = Mul(x, x) }>",
    ),
];

/// Operators without a case, by the reason.
pub(crate) const NO_CASE: &[(&str, &str)] = &[
    (
        "gives integers, booleans or strings",
        "And ArgMax ArgMin BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor ConvInteger \
         DynamicQuantizeLinear Equal GreaterOrEqual IsInf IsNaN LessOrEqual MatMulInteger \
         NonMaxSuppression NonZero Not OptionalHasElement Or QLinearConv QLinearMatMul \
         QuantizeLinear RegexFullMatch SequenceLength Shape Size StringConcat \
         StringNormalizer StringSplit Xor",
    ),
    ("its derivative is zero, or there is none", "BitCast Ceil Floor Round Sign"),
    (
        "no input has a gradient",
        "Bernoulli BlackmanWindow Constant ConstantOfShape EyeLike HammingWindow HannWindow \
         ImageDecoder MelWeightMatrix Multinomial RandomNormal RandomNormalLike RandomUniform \
         RandomUniformLike SequenceEmpty TfIdfVectorizer Unique",
    ),
    (
        "classical machine learning",
        "ArrayFeatureExtractor Binarizer CastMap CategoryMapper DictVectorizer \
         FeatureVectorizer Imputer LabelEncoder LinearClassifier LinearRegressor Normalizer \
         OneHotEncoder SVMClassifier SVMRegressor Scaler TreeEnsemble TreeEnsembleClassifier \
         TreeEnsembleRegressor ZipMap",
    ),
    ("trains a model", "Adagrad Adam Momentum"),
    ("another version's name for `Resize` or `ScatterElements`", "Scatter Upsample"),
    ("does not compute in `double`", "Cast DequantizeLinear LinearAttention"),
    ("its gradient is not implemented", "FlexAttention"),
];
