//! Int8 products with constant weights, which passes create from products between quantized
//! tensors.

use super::{
    conv::call_small,
    int8_kernel,
    requantize::{Requantization, check_channels, has_zero_points, operands},
    zero_point_kernel,
};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, INT8S},
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op},
    ops::{Entry, internal, pack},
    plan::{
        Kernel, Operand, Optimize,
        geometry::{Conv, Product, Requantize},
        kernel,
    },
    ty::Type,
};
use onnxc_runtime::{
    kernels::{conv::WeightLayout, matmul, quantized},
    simd::int8::MAX_BYTES,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    internal("DynamicMatMul", |_| Ok(Rc::new(DynamicMatMul))),
    internal("QuantizedMatMul", |node| {
        let trans_b = node.flag("transB", false)?;
        Ok(Rc::new(QuantizedMatMul { trans_b, to: Requantization::read(node)? }))
    }),
];

/// The product of a quantized matrix and constant weights. The inputs after these hold, for each
/// column, the initial accumulator, the scale, optionally an offset that is added after scaling,
/// and the zero point of the weights, unless all are 0.
pub struct QuantizedMatMul {
    /// Whether the weights are transposed.
    pub trans_b: bool,
    /// The requantization of the accumulators.
    pub to: Requantization,
}

macro_rules! quantized_matmul {
    ($Y:ty) => {
        int8_kernel!(INT8S T, quantized::matmul::<T, $Y>, operands,
            |f, a, p| f(operands, a.output(0), a.output(1), p.0, p.1))
    };
}

/// The kernels by output type.
static KERNELS: &[(DType, Kernel<(Product, Requantize)>)] =
    &[(DType::I8, quantized_matmul!(i8)), (DType::U8, quantized_matmul!(u8))];

macro_rules! matmul_with_zeros {
    ($Y:ty) => {
        zero_point_kernel!(quantized::matmul_with_zeros::<T, $Y>, operands, |f, a, p| f(
            operands,
            a.output(0),
            a.output(1),
            p.0,
            p.1
        ))
    };
}

/// The kernels for weights with zero points.
static WITH_ZEROS: &[(DType, Kernel<(Product, Requantize)>)] =
    &[(DType::I8, matmul_with_zeros!(i8)), (DType::U8, matmul_with_zeros!(u8))];

static DYNAMIC: Kernel<Product> = kernel!(F32_ONLY T,
    quantized::dynamic_matmul { operands: quantized::DynamicMatMulOperands {
        x: input(0), x_scale: input(1), x_zero: input(2), w: input(3), w_zero: optional(7),
        w_scale: input(4), sums: input(5), bias: optional(6),
    } }, |f, a, p| f(operands, a.output(0), a.output(1), p));

/// Infers the shape of the product of input 0 and the weights, input `w`.
fn shape(cx: &mut Infer<'_>, w: usize, trans_b: bool) -> Inferred<Vec<Dim>> {
    cx.of(w, &[DType::I8])?;
    let (x, weights) = (cx.shape(0)?, cx.shape(w)?);
    let (Some((depth, rows)), [first, second]) = (x.split_last(), weights) else {
        return Err(cx.diagnostic(Code::ShapeMismatch, "the weights must be a matrix"));
    };
    if cx.constant(w).is_none() {
        return Err(cx.diagnostic(Code::Unsupported, "the weights must be constant"));
    }
    let (k, n) = if trans_b { (second, first) } else { (first, second) };
    cx.require_equal(depth, k, "the columns of the input and the rows of the weights")?;
    Ok([rows, std::slice::from_ref(n)].concat())
}

/// Returns the sizes of the product with the weights, input `w`. `n` and `k` come from the weights,
/// whose sizes are fixed; the other operand may have a symbol for `k`.
fn sizes(cx: &mut Lower<'_>, w: usize, trans_b: bool) -> Result<Product> {
    let (_, rows) = cx.output_ty(0)?.shape.split_last().expect("`infer` gave the output columns");
    let [first, second] = &cx.ty(w)?.shape[..] else {
        unreachable!("`infer` checked that the weights are a matrix")
    };
    let (k, n) = if trans_b { (second, first) } else { (first, second) };
    let product = Product { m: rows.iter().product(), n: n.clone(), k: k.clone() };
    cx.macs(&(&product.m * &product.n * &product.k));
    Ok(product)
}

/// Packs the weights, input `w`. `order` returns the packing for the numbers of columns and rows,
/// and the strides of rows and columns.
fn pack_weights<P: pack::Pack>(
    cx: &mut Lower<'_>,
    w: usize,
    trans_b: bool,
    product: &Product,
    order: impl Fn(usize, usize, [usize; 2]) -> P,
) -> Result<Operand> {
    let size = |dim: &Dim| dim.known().and_then(|size| usize::try_from(size).ok());
    let sizes = size(&product.n).zip(size(&product.k));
    let order = sizes.map(|(n, k)| order(n, k, if trans_b { [1, k] } else { [n, 1] }));
    let packed = order.and_then(|order| pack::pack_bytes(cx, w, order));
    packed.ok_or_else(|| cx.unsupported("weights that are not constant"))
}

/// Returns the packing that this module's kernels read.
fn columns(n: usize, k: usize, strides: [usize; 2]) -> pack::ByteColumns {
    pack::ByteColumns { product: quantized::Product { m: 0, n, k }, strides }
}

/// Returns the packing that the small kernel of convolutions reads.
fn filters(n: usize, k: usize, strides: [usize; 2]) -> pack::Transposed {
    pack::Transposed(matmul::Packing { rows: k, cols: n, strides })
}

/// Returns the product as a convolution of one image without axes for each row.
fn as_conv(product: Product) -> Conv {
    Conv {
        batch: product.m,
        groups: 1,
        channels: product.k,
        filters: product.n,
        size: Vec::new(),
        out: Vec::new(),
        kernel: Vec::new(),
        strides: Vec::new(),
        dilations: Vec::new(),
        pads: Vec::new(),
        weights: WeightLayout::Plain,
    }
}

/// Allocates the scratch memory of the kernels.
fn scratch(cx: &mut Lower<'_>, product: &Product) -> Operand {
    let rows = product.m.at_most(&quantized::MOST_ROWS.into());
    let depth = product.k.ceil_div(&4.into()) * 4;
    cx.scratch(DType::U8, rows * depth + MAX_BYTES as i64)
}

impl Op for QuantizedMatMul {
    fn name(&self) -> &'static str {
        "QuantizedMatMul"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.flag("transB", self.trans_b);
        self.to.attributes(a);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.of(0, INT8S)?;
        let shape = shape(cx, 1, self.trans_b)?;
        check_channels(cx, 2, &shape[shape.len() - 1], true)?;
        Ok(vec![Type::tensor(self.to.dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let product = sizes(cx, 1, self.trans_b)?;
        let has_zeros = has_zero_points(cx);
        if cx.optimize() == Optimize::Size && !has_zeros {
            let weights = pack_weights(cx, 1, self.trans_b, &product, filters)?;
            return call_small(cx, weights, as_conv(product), self.to);
        }
        let weights = pack_weights(cx, 1, self.trans_b, &product, columns)?;
        let scratch = scratch(cx, &product);
        let inputs = operands(cx, weights)?;
        let outputs = vec![cx.output(0)?.into(), scratch.into()];
        let kernels = if has_zeros { WITH_ZEROS } else { KERNELS };
        let kernel = kernels.iter().find(|(dtype, _)| *dtype == self.to.dtype);
        let (_, kernel) = kernel.expect("a requantization is to `int8` or `uint8`");
        let dtype = cx.ty(0)?.dtype;
        cx.call_on(kernel, dtype, inputs, outputs, (product, self.to.formula()))
    }
}

/// The product of a matrix that is quantized at run time, by the scale and the zero point in inputs
/// 1 and 2, and constant weights, input 3. For each column, inputs 4 and 5 hold the scale and the
/// sum of the weights without their zero point, input 6 the bias, and input 7 the zero point of the
/// weights, unless all are 0.
pub struct DynamicMatMul;

impl Op for DynamicMatMul {
    fn name(&self) -> &'static str {
        "DynamicMatMul"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let shape = shape(cx, 3, false)?;
        super::check_dynamic(cx, &shape[shape.len() - 1])?;
        Ok(vec![Type::tensor(DType::F32, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let product = sizes(cx, 3, false)?;
        let weights = pack_weights(cx, 3, false, &product, columns)?;
        let scratch = scratch(cx, &product);
        let inputs = super::dynamic_inputs(cx, weights)?;
        let outputs = vec![cx.output(0)?.into(), scratch.into()];
        cx.call_on(&DYNAMIC, DType::F32, inputs, outputs, product)
    }
}
