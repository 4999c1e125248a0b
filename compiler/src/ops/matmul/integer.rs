//! Integer matrix multiplication: `MatMulInteger` and `QLinearMatMul`.

use super::{MatMul, matrices, product_shape};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, FLOAT8S, INT8S},
    ir::{Infer, Inferred, Lower, Op, Reader, ValueId},
    ops::{
        Entry,
        binary::{MUL, SUB},
        cast::{Cast, CastMode},
        entry, nodes,
        quantize::{Granularity, QuantizeLinear},
        reshape::Unsqueeze,
    },
    plan::{
        Kernel,
        geometry::{self, IntegerMatMul},
        kernel,
    },
    tensor::Tensor,
    ty::Type,
};
use half::{bf16, f16};
use onnxc_runtime::kernels::epilogue::Activation;
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("MatMulInteger", 10, |_| Ok(Rc::new(MatMulInteger))),
    entry("QLinearMatMul", 10, |_| Ok(Rc::new(QLinearMatMul))),
    nodes("QLinearMatMul", 21, read_qlinear),
];

/// Reads `QLinearMatMul`. Operands of an 8-bit float type are dequantized and multiplied in `f32`.
fn read_qlinear(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let inputs = (0..8).map(|i| node.input(i)).collect::<Result<Vec<_>>>()?;
    let is_float8 = |i: usize| node.dtype(i).is_ok_and(|dtype| FLOAT8S.contains(&dtype));
    if ![0, 3, 7].into_iter().any(is_float8) {
        return Ok(vec![node.add(QLinearMatMul, &inputs, &[])?]);
    }
    let (a, b) = (dequantize(node, 0, true)?, dequantize(node, 3, false)?);
    let product = MatMul { activation: Activation::Identity, fused: false };
    let product = node.add(product, &[a, b], &[])?;
    let scale = to_f32(node, inputs[6])?;
    let granularity = Granularity { axis: 1, block_size: 0 };
    let quantize = QuantizeLinear { granularity, dtype: None, precision: None, saturate: true };
    Ok(vec![node.add(quantize, &[product, scale, inputs[7]], &[])?])
}

/// Adds the nodes of `(x - zero_point) · scale` in `f32`, where `x`, `scale` and `zero_point` are
/// inputs `i`, `i + 1` and `i + 2`.
fn dequantize(node: &mut Reader<'_>, i: usize, left: bool) -> Result<ValueId> {
    let is_per_row = left && node.rank(i)? > 1 && node.rank(i + 1)? == 1;
    let [x, mut scale, mut zero] = [node.input(i)?, node.input(i + 1)?, node.input(i + 2)?];
    if is_per_row {
        for per_row in [&mut scale, &mut zero] {
            *per_row = node.add(Unsqueeze, &[*per_row], &[Tensor::from_ints(&[-1])])?;
        }
    }
    let [x, scale, zero] = [to_f32(node, x)?, to_f32(node, scale)?, to_f32(node, zero)?];
    let difference = node.add(&SUB, &[x, zero], &[])?;
    node.add(&MUL, &[difference, scale], &[])
}

/// Casts a value to `f32`.
fn to_f32(node: &mut Reader<'_>, x: ValueId) -> Result<ValueId> {
    node.add(Cast { to: DType::F32, mode: CastMode::DEFAULT }, &[x], &[])
}

/// The element types of scales.
const SCALES: &[DType] = &[DType::F32, DType::F16, DType::BF16];
/// The numbers of rows and of columns that the kernels widen at once.
const BLOCK: [i64; 2] = [64, 16];

/// The shape of the zero points (or scales) of an operand, extended to the operand's rank: the
/// axis that is summed over has size 1. `along` is the axis of rows or of columns.
fn zero_point_shape(shape: &[Dim], operand: &[Dim], along: usize) -> Vec<Dim> {
    let axes = operand.len();
    match shape {
        // One for each row, or for each column.
        [size] if axes > 1 => {
            let mut whole = vec![Dim::from(1); axes];
            whole[along] = size.clone();
            whole
        }
        _ => shape.to_vec(),
    }
}

/// Requires the zero points or scales of an operand to be a single one, or one for each row (left)
/// or column (right).
fn check_zero_points(cx: &mut Infer<'_>, zero: usize, operand: usize, left: bool) -> Inferred<()> {
    let (shape, operand) = (cx.shape(zero)?, cx.shape(operand)?);
    let summed = if left || operand.len() < 2 { operand.len() - 1 } else { operand.len() - 2 };
    let whole = zero_point_shape(shape, operand, channel_axis(operand.len(), left));
    if whole.is_empty() {
        return Ok(());
    }
    if whole.len() != operand.len() {
        let rank = operand.len();
        let message = format!("input {zero} must have 0, 1 or {rank} axes");
        return Err(cx.diagnostic(Code::ShapeMismatch, message));
    }
    for (axis, (size, operand_size)) in whole.iter().zip(operand).enumerate() {
        let fits = if axis == summed { Dim::from(1) } else { operand_size.clone() };
        if size.known() != Some(1) {
            let what = "the numbers of zero points and of rows or columns";
            cx.require_equal(size, &fits, what)?;
        }
    }
    Ok(())
}

/// The axis along which zero points vary: rows of the left operand, columns of the right one.
fn channel_axis(axes: usize, left: bool) -> usize {
    if left { axes.saturating_sub(2) } else { axes - 1 }
}

/// The geometry of the product of two inputs (`operands`) whose zero points or scales have the
/// shapes of the inputs `zeros`.
fn geometry(cx: &Lower<'_>, operands: [usize; 2], zeros: [usize; 2]) -> Result<IntegerMatMul> {
    let (a, b) = (&cx.ty(operands[0])?.shape, &cx.ty(operands[1])?.shape);
    let ((batch_a, m, k), (batch_b, _, n)) = (matrices(a, true), matrices(b, false));
    let shape = &cx.output_ty(0)?.shape;
    let batch = &shape[..batch_a.len().max(batch_b.len())];
    let strides_over = |operand: &[Dim], rows: &Dim, columns: &Dim| {
        geometry::broadcast_strides(operand, &[batch, &[rows.clone(), columns.clone()]].concat())
    };
    let one = Dim::from(1);
    let zero = |i: usize, operand: &[Dim], left: bool| -> Result<Vec<Dim>> {
        let shape: &[Dim] = if cx.has(i) { &cx.ty(i)?.shape } else { &[] };
        let shape = zero_point_shape(shape, operand, channel_axis(operand.len(), left));
        let whole = if operand.len() > 1 { shape } else { Vec::new() };
        Ok(if left { strides_over(&whole, &m, &one) } else { strides_over(&whole, &one, &n) })
    };
    let (a_zero, b_zero) = (zero(zeros[0], a, true)?, zero(zeros[1], b, false)?);
    let (a_step, b_step) = (a_zero[batch.len()].clone(), b_zero[batch.len() + 1].clone());
    let a = strides_over(&[batch_a, &[m.clone(), k.clone()]].concat(), &m, &k);
    let b = strides_over(&[batch_b, &[k.clone(), n.clone()]].concat(), &k, &n);
    let (sizes, strides) = geometry::merged(batch, &[a, a_zero, b, b_zero]);
    let [a, a_scale, b, b_scale] = strides.try_into().expect("four operands");
    Ok(IntegerMatMul { sizes, a, a_scale, b, b_scale, m, n, k, a_step, b_step })
}

impl IntegerMatMul {
    /// The scratch memory of the product, in elements.
    fn scratch(&self) -> Dim {
        (self.m.at_most(&BLOCK[0].into()) + self.n.at_most(&BLOCK[1].into())) * &self.k
    }

    /// The number of multiply-adds.
    fn macs(&self) -> Dim {
        self.sizes.iter().product::<Dim>() * &self.m * &self.n * &self.k
    }
}

/// `(A - a_zero_point) · (B - b_zero_point)` in `int32`.
pub struct MatMulInteger;

macro_rules! matmul_integer {
    ($B:ty) => {
        kernel!(INT8S T, matmul::matmul_integer::<T, $B>, |f, a, p| f(a.input(0),
            a.input(1), a.optional(2), a.optional(3), a.output(0), a.output(1), p))
    };
}

static MATMUL_INTEGER: &[(DType, Kernel<IntegerMatMul>)] =
    &[(DType::I8, matmul_integer!(i8)), (DType::U8, matmul_integer!(u8))];

impl Op for MatMulInteger {
    fn name(&self) -> &'static str {
        "MatMulInteger"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.of(0, INT8S)?;
        cx.of(1, INT8S)?;
        let shape = product_shape(cx, 0, 1)?;
        for i in 0..2 {
            if cx.has(2 + i) {
                cx.same_dtype(i, 2 + i)?;
                check_zero_points(cx, 2 + i, i, i == 0)?;
            }
        }
        Ok(vec![Type::tensor(DType::I32, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = geometry(cx, [0, 1], [2, 3])?;
        cx.macs(&geometry.macs());
        let scratch = cx.scratch(DType::I16, geometry.scratch());
        let inputs = vec![
            cx.input(0)?.into(),
            cx.input(1)?.into(),
            cx.optional(2)?.into(),
            cx.optional(3)?.into(),
        ];
        let (a, b) = (cx.ty(0)?.dtype, cx.ty(1)?.dtype);
        let outputs = vec![cx.output(0)?.into(), scratch.into()];
        let (_, kernel) = MATMUL_INTEGER
            .iter()
            .find(|(dtype, _)| *dtype == b)
            .expect("`infer` allows only bytes");
        cx.call_on(kernel, a, inputs, outputs, geometry)
    }
}

/// The product of quantized matrices, requantized to the output's scale and zero point.
pub struct QLinearMatMul;

macro_rules! qlinear_matmul {
    ($(($B:ident $BT:ty, $Y:ident $YT:ty, $S:ident $ST:ty))*) => {
        &[$(
            ([DType::$B, DType::$Y, DType::$S], kernel!(INT8S T,
                matmul::qlinear_matmul::<T, $BT, $YT, $ST> {
                    operands: matmul::QLinearMatMulOperands {
                        a: input(0), a_scale: input(1), a_zero: input(2),
                        b: input(3), b_scale: input(4), b_zero: input(5),
                        y_scale: input(6), y_zero: input(7),
                    }
                }, |f, a, p| f(operands, a.output(0), a.output(1), p))),
        )*]
    };
}

/// The kernels by the types of the right operand, the result and the scales.
static QLINEAR_MATMUL: &[([DType; 3], Kernel<IntegerMatMul>)] = qlinear_matmul! {
    (I8 i8, I8 i8, F32 f32) (I8 i8, U8 u8, F32 f32) (U8 u8, I8 i8, F32 f32) (U8 u8, U8 u8, F32 f32)
    (I8 i8, I8 i8, F16 f16) (I8 i8, U8 u8, F16 f16) (U8 u8, I8 i8, F16 f16) (U8 u8, U8 u8, F16 f16)
    (I8 i8, I8 i8, BF16 bf16) (I8 i8, U8 u8, BF16 bf16)
    (U8 u8, I8 i8, BF16 bf16) (U8 u8, U8 u8, BF16 bf16)
};

impl Op for QLinearMatMul {
    fn name(&self) -> &'static str {
        "QLinearMatMul"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let shape = product_shape(cx, 0, 3)?;
        for (operand, scale, zero) in [(0, 1, 2), (3, 4, 5)] {
            cx.of(operand, INT8S)?;
            cx.of(scale, SCALES)?;
            cx.same_dtype(1, scale)?;
            cx.same_dtype(operand, zero)?;
            check_zero_points(cx, scale, operand, operand == 0)?;
            require_same_len(cx, scale, zero)?;
        }
        cx.of(6, SCALES)?;
        cx.same_dtype(1, 6)?;
        let dtype = cx.of(7, INT8S)?.dtype;
        require_same_len(cx, 6, 7)?;
        for i in [6, 7] {
            let len = cx.ty(i)?.len();
            cx.require_equal(&len, &1.into(), "the number of the result's scales and 1")?;
        }
        Ok(vec![Type::tensor(dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = geometry(cx, [0, 3], [1, 4])?;
        cx.macs(&geometry.macs());
        let scratch = cx.scratch(DType::I16, geometry.scratch());
        let inputs = (0..8).map(|i| Ok(cx.input(i)?.into())).collect::<Result<_>>()?;
        let outputs = vec![cx.output(0)?.into(), scratch.into()];
        let types = [cx.ty(3)?.dtype, cx.ty(7)?.dtype, cx.ty(1)?.dtype];
        let row = QLINEAR_MATMUL.iter().find(|(row_types, _)| *row_types == types);
        let (_, kernel) = row.expect("`infer` allows only types that have a kernel");
        let dtype = cx.ty(0)?.dtype;
        cx.call_on(kernel, dtype, inputs, outputs, geometry)
    }
}

/// Requires an equal number of scales and zero points.
fn require_same_len(cx: &mut Infer<'_>, scale: usize, zero: usize) -> Inferred<()> {
    let (scales, zeros) = (cx.ty(scale)?.len(), cx.ty(zero)?.len());
    cx.require_equal(&scales, &zeros, "the numbers of scales and of zero points")
}
