//! Products of matrices of bytes.

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
        quantize::{Parts, QuantizeLinear},
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

/// Reads `QLinearMatMul`, whose elements may be numbers of 8 bits with a fraction: those are
/// multiplied in single precision.
fn read_qlinear(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let inputs = (0..8).map(|i| node.input(i)).collect::<Result<Vec<_>>>()?;
    let has_fraction = |i: usize| node.dtype(i).is_ok_and(|dtype| FLOAT8S.contains(&dtype));
    if ![0, 3, 7].into_iter().any(has_fraction) {
        return Ok(vec![node.add(QLinearMatMul, &inputs, &[])?]);
    }
    let (a, b) = (dequantized(node, 0, true)?, dequantized(node, 3, false)?);
    let product = MatMul { activation: Activation::Identity, fused: false };
    let product = node.add(product, &[a, b], &[])?;
    let scale = single(node, inputs[6])?;
    let parts = Parts { axis: 1, block_size: 0 };
    let quantize = QuantizeLinear { parts, dtype: None, precision: None, saturate: true };
    Ok(vec![node.add(quantize, &[product, scale, inputs[7]], &[])?])
}

/// Input `i` less its zero points and times its scales, which follow it.
fn dequantized(node: &mut Reader<'_>, i: usize, left: bool) -> Result<ValueId> {
    let column = left && node.rank(i)? > 1 && node.rank(i + 1)? == 1;
    let [x, mut scale, mut zero] = [node.input(i)?, node.input(i + 1)?, node.input(i + 2)?];
    if column {
        for per_row in [&mut scale, &mut zero] {
            *per_row = node.add(Unsqueeze, &[*per_row], &[Tensor::from_ints(&[-1])])?;
        }
    }
    let [x, scale, zero] = [single(node, x)?, single(node, scale)?, single(node, zero)?];
    let difference = node.add(&SUB, &[x, zero], &[])?;
    node.add(&MUL, &[difference, scale], &[])
}

/// The value in single precision.
fn single(node: &mut Reader<'_>, x: ValueId) -> Result<ValueId> {
    node.add(Cast { to: DType::F32, mode: CastMode::DEFAULT }, &[x], &[])
}

/// What scales are made of.
const SCALES: &[DType] = &[DType::F32, DType::F16, DType::BF16];
/// How many rows and columns the kernels widen at once.
const BLOCK: [i64; 2] = [64, 16];

/// The axes of the zero points (or scales) of a factor: those of the factor, of which the one that
/// is summed over has size 1. `along` is that of the rows or of the columns.
fn zero_shape(shape: &[Dim], factor: &[Dim], along: usize) -> Vec<Dim> {
    let axes = factor.len();
    match shape {
        // As many as the rows, or as the columns.
        [size] if axes > 1 => {
            let mut whole = vec![Dim::from(1); axes];
            whole[along] = size.clone();
            whole
        }
        _ => shape.to_vec(),
    }
}

/// Looks over the zero points or scales of a factor: one for all of it, or one for each row or
/// column.
fn check_zero(cx: &mut Infer<'_>, zero: usize, factor: usize, left: bool) -> Inferred<()> {
    let (shape, factor) = (cx.shape(zero)?, cx.shape(factor)?);
    let summed = if left || factor.len() < 2 { factor.len() - 1 } else { factor.len() - 2 };
    let whole = zero_shape(shape, factor, rows_or_columns(factor.len(), left));
    if whole.is_empty() {
        return Ok(());
    }
    if whole.len() != factor.len() {
        let message = format!("input {zero} must have no, one or as many axes as the factor");
        return Err(cx.diagnostic(Code::ShapeMismatch, message));
    }
    for (axis, (size, of_factor)) in whole.iter().zip(factor).enumerate() {
        let fits = if axis == summed { Dim::from(1) } else { of_factor.clone() };
        if size.known() != Some(1) {
            cx.require_equal(size, &fits, "the numbers of zero points and of rows or columns")?;
        }
    }
    Ok(())
}

/// The axis along which zero points lie: the rows of the left factor, the columns of the right.
fn rows_or_columns(axes: usize, left: bool) -> usize {
    if left { axes.saturating_sub(2) } else { axes - 1 }
}

/// The product of the node's inputs `a` and `b`, with zero points of the shapes of inputs
/// `a_zero` and `b_zero`; and its scratch memory.
fn geometry(cx: &Lower<'_>, factors: [usize; 2], zeros: [usize; 2]) -> Result<IntegerMatMul> {
    let (a, b) = (&cx.ty(factors[0])?.shape, &cx.ty(factors[1])?.shape);
    let ((pile_a, m, k), (pile_b, _, n)) = (matrices(a, true), matrices(b, false));
    let shape = &cx.output_ty(0)?.shape;
    let pile = &shape[..pile_a.len().max(pile_b.len())];
    let over = |factor: &[Dim], rows: &Dim, columns: &Dim| {
        geometry::stretched(factor, &[pile, &[rows.clone(), columns.clone()]].concat())
    };
    let one = Dim::from(1);
    let zero = |i: usize, factor: &[Dim], left: bool| -> Result<Vec<Dim>> {
        let shape: &[Dim] = if cx.has(i) { &cx.ty(i)?.shape } else { &[] };
        let shape = zero_shape(shape, factor, rows_or_columns(factor.len(), left));
        let whole = if factor.len() > 1 { shape } else { Vec::new() };
        Ok(if left { over(&whole, &m, &one) } else { over(&whole, &one, &n) })
    };
    let (a_zero, b_zero) = (zero(zeros[0], a, true)?, zero(zeros[1], b, false)?);
    let (a_step, b_step) = (a_zero[pile.len()].clone(), b_zero[pile.len() + 1].clone());
    let a = over(&[pile_a, &[m.clone(), k.clone()]].concat(), &m, &k);
    let b = over(&[pile_b, &[k.clone(), n.clone()]].concat(), &k, &n);
    let (sizes, strides) = geometry::merged(pile, &[a, a_zero, b, b_zero]);
    let [a, a_scale, b, b_scale] = strides.try_into().expect("four operands");
    Ok(IntegerMatMul { sizes, a, a_scale, b, b_scale, m, n, k, a_step, b_step })
}

impl IntegerMatMul {
    /// How many elements of scratch memory the products want.
    fn scratch(&self) -> Dim {
        (self.m.at_most(&BLOCK[0].into()) + self.n.at_most(&BLOCK[1].into())) * &self.k
    }

    /// The number of multiply-adds.
    fn macs(&self) -> Dim {
        self.sizes.iter().product::<Dim>() * &self.m * &self.n * &self.k
    }
}

/// The product of matrices of bytes, less their zero points.
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
                check_zero(cx, 2 + i, i, i == 0)?;
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
        let (_, kernel) = MATMUL_INTEGER.iter().find(|(dtype, _)| *dtype == b).expect("a byte");
        cx.call_on(kernel, a, inputs, outputs, geometry)
    }
}

/// The product of quantized matrices, quantized.
pub struct QLinearMatMul;

macro_rules! qlinear_matmul {
    ($(($B:ident $BT:ty, $Y:ident $YT:ty, $S:ident $ST:ty))*) => {
        &[$(
            ([DType::$B, DType::$Y, DType::$S], kernel!(INT8S T,
                matmul::qlinear_matmul::<T, $BT, $YT, $ST>, |f, a, p| f(
                    a.input(0), a.input(1), a.input(2), a.input(3), a.input(4), a.input(5),
                    a.input(6), a.input(7), a.output(0), a.output(1), p))),
        )*]
    };
}

/// The kernels by the types of the right factor, of the result and of the scales.
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
        for (factor, scale, zero) in [(0, 1, 2), (3, 4, 5)] {
            cx.of(factor, INT8S)?;
            cx.of(scale, SCALES)?;
            cx.same_dtype(1, scale)?;
            cx.same_dtype(factor, zero)?;
            check_zero(cx, scale, factor, factor == 0)?;
            same_sizes(cx, scale, zero)?;
        }
        cx.of(6, SCALES)?;
        cx.same_dtype(1, 6)?;
        let dtype = cx.of(7, INT8S)?.dtype;
        same_sizes(cx, 6, 7)?;
        for i in [6, 7] {
            let len = cx.ty(i)?.len();
            cx.require_equal(&len, &1.into(), "the number of scales of the result and 1")?;
        }
        Ok(vec![Type::tensor(dtype, product_shape(cx, 0, 3)?)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = geometry(cx, [0, 3], [1, 4])?;
        cx.macs(&geometry.macs());
        let scratch = cx.scratch(DType::I16, geometry.scratch());
        let inputs = (0..8).map(|i| Ok(cx.input(i)?.into())).collect::<Result<_>>()?;
        let outputs = vec![cx.output(0)?.into(), scratch.into()];
        let types = [cx.ty(3)?.dtype, cx.ty(7)?.dtype, cx.ty(1)?.dtype];
        let found = QLINEAR_MATMUL.iter().find(|(of, _)| *of == types);
        let (_, kernel) = found.expect("the types were looked over");
        let dtype = cx.ty(0)?.dtype;
        cx.call_on(kernel, dtype, inputs, outputs, geometry)
    }
}

/// Says that scales and zero points are as many.
fn same_sizes(cx: &mut Infer<'_>, scale: usize, zero: usize) -> Inferred<()> {
    let (scales, zeros) = (cx.ty(scale)?.len(), cx.ty(zero)?.len());
    cx.require_equal(&scales, &zeros, "the numbers of scales and of zero points")
}
