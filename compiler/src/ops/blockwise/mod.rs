//! Block-quantized weights: `DequantizeBlocks`, which decodes weights in ONNX Runtime's layout, and
//! `MatMulBlocks`, the product with constant weights that stay codes.

mod blocks;
mod pack;

use blocks::as_int;
pub(super) use blocks::read_size;
pub use blocks::{Arithmetic, Blocks, Codes};

use super::{Entry, internal};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, FLOATS},
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op},
    plan::{Arg, Kernel, Operand, Weight, geometry, kernel, size_function},
    tensor::Tensor,
    ty::Type,
};
use onnxc_runtime::kernels::epilogue::Activation;
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    internal("DequantizeBlocks", |node| Ok(Rc::new(DequantizeBlocks(Blocks::read(node)?)))),
    internal("MatMulBlocks", |node| {
        Ok(Rc::new(MatMulBlocks { activation: node.activation()?, blocks: Blocks::read(node)? }))
    }),
];

/// Requires input `i` to have `len` elements.
fn check_len(cx: &mut Infer<'_>, i: usize, len: usize, what: &str) -> Inferred<()> {
    let found: Dim = cx.shape(i)?.iter().product();
    let what = format!("the elements of input {i} and {what}");
    cx.require_equal(&found, &as_int(len).into(), &what)
}

/// Decodes weights: `(number(code) - zero_point) · scale`, as a matrix `[n, k]`.
///
/// The inputs are the codes (`uint8`), the scales, the zero points (codes or numbers, optional),
/// and the block of each row, if rows are not in the order of blocks (`int32`, optional).
pub struct DequantizeBlocks(pub Blocks);

static DEQUANTIZE: Kernel<geometry::BlockCodes> = kernel!(checked FLOATS T,
    blockwise::dequantize_blocks::<T> { operands: blockwise::BlockOperands {
        codes: input(0), scales: input(1), zero_codes: optional(2), zero_points: optional(3),
        groups: optional(4),
    } }, |f, a, p| f(operands, a.output(0), p));
static DEQUANTIZE_FP4: Kernel<(Dim,)> = kernel!(FLOATS T, blockwise::dequantize_fp4::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p.0));
static DEQUANTIZE_NF4: Kernel<(Dim,)> = kernel!(FLOATS T, blockwise::dequantize_nf4::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p.0));

impl Op for DequantizeBlocks {
    fn name(&self) -> &'static str {
        "DequantizeBlocks"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        self.0.attributes(a);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let blocks = &self.0;
        cx.of(0, &[DType::U8])?;
        let dtype = cx.of(1, FLOATS)?.dtype;
        check_len(cx, 0, blocks.bytes(), "the bytes of the codes")?;
        check_len(cx, 1, blocks.scales(), "the blocks")?;
        if cx.has(2) {
            let is_code = cx.of(2, &[DType::U8, dtype])?.dtype == DType::U8;
            let len = if is_code { blocks.zero_bytes() } else { blocks.scales() };
            check_len(cx, 2, len, "the zero points of the blocks")?;
        }
        if cx.has(3) {
            cx.of(3, &[DType::I32])?;
            check_len(cx, 3, blocks.k, "the rows")?;
        }
        Ok(vec![Type::tensor(dtype, [as_int(blocks.n), as_int(blocks.k)])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let Blocks { codes, k, block, .. } = self.0;
        let dtype = cx.output_ty(0)?.dtype;
        let (mut inputs, outputs): (Vec<Arg>, _) =
            (vec![cx.input(0)?.into(), cx.input(1)?.into()], vec![cx.output(0)?.into()]);
        let kernel = match codes {
            Codes::Integers(bits) => {
                inputs.extend(zero_points(cx)?);
                inputs.push(cx.optional(3)?.into());
                let geometry = geometry::BlockCodes { k, block, bits };
                return cx.call_on(&DEQUANTIZE, dtype, inputs, outputs, geometry);
            }
            Codes::Fp4 => &DEQUANTIZE_FP4,
            Codes::Nf4 => &DEQUANTIZE_NF4,
        };
        cx.call_on(kernel, dtype, inputs, outputs, (Dim::from(as_int(block)),))
    }
}

/// Returns input 2 as zero points that are codes and zero points that are numbers.
fn zero_points(cx: &mut Lower<'_>) -> Result<[Arg; 2]> {
    let zero = cx.optional(2)?;
    let is_code = zero.is_some() && cx.ty(2)?.dtype == DType::U8;
    let none = Arg::Optional(None);
    Ok(if is_code { [zero.into(), none] } else { [none, zero.into()] })
}

/// `y = f(a · b + bias)`, where `b` has constant block-quantized weights.
///
/// The inputs are `a`, the codes in ONNX Runtime's layout, the scales, the zero points (a code in
/// each byte, or numbers, optional), and the bias (optional).
#[derive(Clone)]
pub struct MatMulBlocks {
    /// The weights.
    pub blocks: Blocks,
    /// The activation applied to the result.
    pub activation: Activation,
}

/// A kernel for a product with block-quantized weights.
type Product = Kernel<(geometry::Blockwise, Activation)>;

macro_rules! product {
    ($name:ident) => {
        kernel!(F32_ONLY T, blockwise::$name { operands: blockwise::BlockwiseOperands {
            a: input(0), codes: input(1), scales: input(2), zero_codes: optional(3),
            zero_points: optional(4), bias: optional(5),
        } }, |f, a, p| f(operands, a.output(0), a.output(1), p.0, p.1))
    };
}

static TWO_BITS: Product = product!(matmul_2_bits);
static FOUR_BITS: Product = product!(matmul_4_bits);
static EIGHT_BITS: Product = product!(matmul_8_bits);
static FP4: Product = product!(matmul_fp4);
static NF4: Product = product!(matmul_nf4);
static TWO_BITS_INT8: Product = product!(matmul_2_bits_int8);
static FOUR_BITS_INT8: Product = product!(matmul_4_bits_int8);
static EIGHT_BITS_INT8: Product = product!(matmul_8_bits_int8);

impl MatMulBlocks {
    fn kernel(&self, cx: &Lower<'_>) -> Result<&'static Product> {
        Ok(match (self.blocks.codes, self.blocks.arithmetic) {
            (Codes::Integers(2), Arithmetic::Float) => &TWO_BITS,
            (Codes::Integers(2), Arithmetic::Int8) => &TWO_BITS_INT8,
            (Codes::Integers(4), Arithmetic::Float) => &FOUR_BITS,
            (Codes::Integers(4), Arithmetic::Int8) => &FOUR_BITS_INT8,
            (Codes::Integers(8), Arithmetic::Float) => &EIGHT_BITS,
            (Codes::Integers(8), Arithmetic::Int8) => &EIGHT_BITS_INT8,
            (Codes::Integers(bits), _) => {
                return Err(cx.unsupported(&format!("codes of {bits} bits")));
            }
            (Codes::Fp4, _) => &FP4,
            (Codes::Nf4, _) => &NF4,
        })
    }

    /// Packs input `i`, with an element for each block.
    fn pack_per_block(&self, cx: &mut Lower<'_>, i: usize) -> Result<Operand> {
        let constant = constant(cx, i)?;
        let order = pack::PerBlock(self.blocks, constant.dtype);
        Ok(cx.weight_for(i, Weight::ordered(constant, Rc::new(order))))
    }
}

/// Returns input `i`, which must be a constant.
fn constant(cx: &Lower<'_>, i: usize) -> Result<Tensor> {
    let missing = || cx.unsupported(&format!("input {i} that is not a constant"));
    cx.constant(i).cloned().ok_or_else(missing)
}

impl Op for MatMulBlocks {
    fn name(&self) -> &'static str {
        "MatMulBlocks"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        self.blocks.attributes(a);
        a.activation(self.activation);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let Blocks { n, k, .. } = self.blocks;
        let dtype = cx.of(0, &[DType::F32])?.dtype;
        cx.of(1, &[DType::U8])?;
        cx.of(2, &[DType::F32])?;
        check_len(cx, 1, self.blocks.bytes(), "the bytes of the codes")?;
        check_len(cx, 2, self.blocks.scales(), "the blocks")?;
        if cx.has(3) {
            cx.of(3, &[DType::U8, DType::F32])?;
            check_len(cx, 3, self.blocks.scales(), "the blocks")?;
        }
        if cx.has(4) {
            cx.same_dtype(0, 4)?;
            check_len(cx, 4, n, "the columns of the weights")?;
        }
        let Some((last, rows)) = cx.shape(0)?.split_last() else {
            return Err(cx.diagnostic(Code::ShapeMismatch, "the left operand has no axes"));
        };
        let what = "the columns of the left operand and the rows of the weights";
        cx.require_equal(last, &as_int(k).into(), what)?;
        Ok(vec![Type::tensor(dtype, [rows, &[as_int(n).into()]].concat())])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let kernel = self.kernel(cx)?;
        let Blocks { n, k, block, .. } = self.blocks;
        let shape = &cx.output_ty(0)?.shape;
        let m: Dim = shape[..shape.len() - 1].iter().product();
        cx.macs(&(&m * &as_int(n).into() * &as_int(k).into()));
        let codes = constant(cx, 1)?;
        let order = pack::PackedCodes(self.blocks);
        let codes = cx.weight_for(1, Weight::ordered(codes, Rc::new(order)));
        let scales = self.pack_per_block(cx, 2)?;
        let (mut zero_codes, mut zero_points) = (None, None);
        if cx.has(3) {
            let is_code = cx.ty(3)?.dtype == DType::U8;
            let zeros = if is_code { &mut zero_codes } else { &mut zero_points };
            *zeros = Some(self.pack_per_block(cx, 3)?);
        }
        let geometry = geometry::Blockwise { m, n, k, block };
        let scratch = match self.blocks.arithmetic {
            Arithmetic::Float => {
                let function = size_function!(blockwise::blockwise_scratch);
                cx.scratch_len(&geometry, function, |most| geometry.scratch(most))
            }
            Arithmetic::Int8 => {
                let function = size_function!(blockwise::blockwise_int8_scratch);
                cx.scratch_len(&geometry, function, |most| geometry.int8_scratch(most))
            }
        };
        let inputs = vec![
            cx.input(0)?.into(),
            codes.into(),
            scales.into(),
            zero_codes.into(),
            zero_points.into(),
            cx.optional(4)?.into(),
        ];
        let outputs = vec![cx.output(0)?.into(), cx.scratch(DType::F32, scratch).into()];
        cx.call_on(kernel, DType::F32, inputs, outputs, (geometry, self.activation))
    }
}
