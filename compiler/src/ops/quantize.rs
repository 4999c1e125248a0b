//! Quantization: `QuantizeLinear`, `DequantizeLinear` and `DynamicQuantizeLinear`.

use super::{Entry, cast::CastMode, entry};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::{DEQUANTIZE_TYPES, DType, FLOAT8S, FLOATS, INT8S, QUANTIZE_TYPES},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op},
    plan::{Kernel, NoParams, Operand, Optimize, geometry::Scales, kernel},
    tensor::Tensor,
    ty::Type,
};
use half::{bf16, f16};
use onnxc_runtime::{
    F4E2M1, F6E2M3, F6E3M2, F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, I2, I4, U2, U4,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("DequantizeLinear", 10, |node| {
        let granularity =
            Granularity { axis: node.int("axis", 1)?, block_size: node.int("block_size", 0)? };
        let dtype = node.maybe_dtype("output_dtype")?;
        Ok(Rc::new(DequantizeLinear { granularity, dtype }))
    }),
    entry("DynamicQuantizeLinear", 11, |_| Ok(Rc::new(DynamicQuantizeLinear))),
    entry("QuantizeLinear", 10, |node| {
        let granularity =
            Granularity { axis: node.int("axis", 1)?, block_size: node.int("block_size", 0)? };
        let dtype = node.maybe_dtype("output_dtype")?;
        let precision = node.maybe_dtype("precision")?;
        if let Some(precision) = precision.filter(|precision| !FLOATS.contains(precision)) {
            let message = format!("`precision` is {precision}, but must be a floating-point type");
            return Err(Diagnostic::new(Code::BadAttribute, message));
        }
        let saturate = node.flag("saturate", true)?;
        Ok(Rc::new(QuantizeLinear { granularity, dtype, precision, saturate }))
    }),
];

/// The types that are quantized.
const INPUT_TYPES: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::I32];
/// The types of scales for quantization.
const SCALE_TYPES: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::F8E8M0, DType::I32];
/// The types of scales for dequantization.
const DEQUANTIZATION_SCALE_TYPES: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::F8E8M0];

/// The elements that share a scale: all of them if there is one scale, else those with one index
/// along an axis, or those of a block along it.
#[derive(Clone, Copy)]
pub struct Granularity {
    /// The axis.
    pub axis: i64,
    /// The size of a block along the axis; 0 without blocks.
    pub block_size: i64,
}

impl Granularity {
    fn attributes(self, a: &mut Attributes) {
        a.int("axis", self.axis);
        if self.block_size != 0 {
            a.int("block_size", self.block_size);
        }
    }

    /// Checks the shapes of the scales, input 1, and of the zero points, input 2.
    fn check(self, cx: &mut Infer<'_>) -> Inferred<()> {
        let (x, scale) = (cx.shape(0)?, cx.shape(1)?);
        if self.block_size < 0 {
            let message = format!("`block_size` is {}", self.block_size);
            return Err(cx.diagnostic(Code::BadAttribute, message));
        }
        if let Some(zero) = cx.optional(2)? {
            self.check_zero(cx, scale, &zero.shape)?;
        }
        if is_one(scale) {
            return Ok(());
        }
        let axis = cx.axis("axis", self.axis, x.len())?;
        if self.block_size == 0 {
            let len = &cx.ranked(1, 1)?.shape[0];
            return cx.require_equal(
                len,
                &x[axis],
                "the number of scales and the size of the axis",
            );
        }
        cx.ranked(1, x.len())?;
        for (i, (size, scales)) in x.iter().zip(scale).enumerate() {
            let wanted =
                if i == axis { size.ceil_div(&self.block_size.into()) } else { size.clone() };
            cx.require_equal(scales, &wanted, "the numbers of scales and of blocks")?;
        }
        Ok(())
    }

    fn check_zero(self, cx: &mut Infer<'_>, scale: &[Dim], zero: &[Dim]) -> Inferred<()> {
        if is_one(scale) && is_one(zero) {
            return Ok(());
        }
        if scale.len() != zero.len() {
            let message = "scales and zero points must have the same axes";
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        }
        for (scale, zero) in scale.iter().zip(zero) {
            cx.require_equal(scale, zero, "the numbers of scales and of zero points")?;
        }
        Ok(())
    }

    /// Returns the geometry of the scales of a tensor.
    fn geometry(self, cx: &Lower<'_>, x: &[Dim], scale: &[Dim]) -> Scales {
        let (zero, one) = (Dim::from(0), Dim::from(1));
        if is_one(scale) {
            let len: Dim = x.iter().product();
            return Scales {
                outer: one.clone(),
                len: len.clone(),
                inner: one,
                block: len,
                outer_step: zero.clone(),
                block_step: zero,
                inner_step: 0,
            };
        }
        let axis = cx.axis(self.axis, x.len());
        let (outer, len) = (x[..axis].iter().product(), x[axis].clone());
        let inner: Dim = x[axis + 1..].iter().product();
        let last = inner.known() == Some(1);
        match self.block_size {
            // Adjacent elements have adjacent scales.
            0 if last => Scales {
                outer,
                len: one.clone(),
                inner: len,
                block: one,
                outer_step: zero.clone(),
                block_step: zero,
                inner_step: 1,
            },
            0 => Scales {
                outer,
                len,
                inner,
                block: one.clone(),
                outer_step: zero,
                block_step: one,
                inner_step: 0,
            },
            size => Scales {
                outer,
                // A block may exceed a known axis, and then even what a `usize` of the target
                // holds.
                block: len.known().map_or(size, |len| size.min(len.max(1))).into(),
                outer_step: len.ceil_div(&size.into()) * &inner,
                len,
                block_step: inner.clone(),
                inner,
                inner_step: usize::from(!last),
            },
        }
    }
}

/// Returns whether a shape has one element.
fn is_one(shape: &[Dim]) -> bool {
    shape.iter().all(|size| size.known() == Some(1))
}

/// `y = round(x / scale) + zero_point`, in the range of the quantized type.
pub struct QuantizeLinear {
    /// The elements that share a scale.
    pub granularity: Granularity,
    /// The output's type; by default that of the zero points, or `uint8`.
    pub dtype: Option<DType>,
    /// The type of the division; by default that of the scales.
    pub precision: Option<DType>,
    /// Whether numbers out of range saturate in float8 types.
    pub saturate: bool,
}

/// Kernels by output type, each for all types of the division.
type Quantize = [(DType, Kernel<Scales>)];

macro_rules! quantize {
    ($kernel:ident: $($Variant:ident: $Type:ty,)*) => {
        &[$((DType::$Variant, kernel!(FLOATS T, quantize::$kernel::<T, $Type>,
            |f, a, p| f(a.input(0), a.input(1), a.optional(2), a.output(0), p))),)*]
    };
}

static QUANTIZE: &Quantize = quantize!(quantize_linear:
    I8: i8, U8: u8, I16: i16, U16: u16, I4: I4, U4: U4, I2: I2, U2: U2,);
static QUANTIZE_REAL: &Quantize = quantize!(quantize_linear_real:
    F8E4M3FN: F8E4M3FN, F8E4M3FNUZ: F8E4M3FNUZ, F8E5M2: F8E5M2, F8E5M2FNUZ: F8E5M2FNUZ,
    F4E2M1: F4E2M1, F6E2M3: F6E2M3, F6E3M2: F6E3M2,);
static QUANTIZE_UNSATURATED: &Quantize = quantize!(quantize_linear_unsaturated:
    F8E4M3FN: F8E4M3FN, F8E4M3FNUZ: F8E4M3FNUZ, F8E5M2: F8E5M2, F8E5M2FNUZ: F8E5M2FNUZ,);

macro_rules! small_quantize {
    ($Type:ty) => {
        kernel!(F32_ONLY T, quantize::small_quantize::<$Type>,
            |f, a, _p| f(a.input(0), a.input(1), a.optional(2), a.output(0)))
    };
}
/// Small kernels for a single scale, by output type.
static SMALL_QUANTIZE: &[(DType, Kernel<NoParams>)] = &[
    (DType::I8, small_quantize!(i8)),
    (DType::U8, small_quantize!(u8)),
    (DType::I16, small_quantize!(i16)),
    (DType::U16, small_quantize!(u16)),
];

/// Returns whether to call the small kernels, which take one scale of type `float`.
fn wants_small_kernel(cx: &Lower<'_>, real: DType) -> Result<bool> {
    let scale = cx.ty(1)?;
    let fits = is_one(&scale.shape) && [real, scale.dtype] == [DType::F32; 2];
    Ok(cx.optimize() == Optimize::Size && fits)
}

/// Calls a small kernel on the node's operands as they are.
fn call_small(cx: &mut Lower<'_>, kernel: &'static Kernel<NoParams>) -> Result {
    let dtype = cx.ty(0)?.dtype;
    let inputs = vec![cx.input(0)?.into(), cx.input(1)?.into(), cx.optional(2)?.into()];
    let outputs = vec![cx.output(0)?.into()];
    cx.call_on(kernel, dtype, inputs, outputs, NoParams)
}

impl QuantizeLinear {
    /// Returns the type in which numbers are divided by scales of type `scale`.
    fn division_type(&self, scale: DType) -> DType {
        self.precision.unwrap_or(match scale {
            // `double` represents every `int32`, so only the quotient is rounded.
            DType::I32 => DType::F64,
            // Division by a power of two changes only the exponent.
            DType::F8E8M0 => DType::F32,
            other => other,
        })
    }
}

/// Returns input `i`, converted to `dtype` if it has another type.
fn convert_input(cx: &mut Lower<'_>, i: usize, dtype: DType) -> Result<Operand> {
    let (ty, input) = (cx.ty(i)?, cx.input(i)?);
    if ty.dtype == dtype {
        return Ok(input);
    }
    let to = cx.scratch(dtype, ty.len());
    CastMode::DEFAULT.call(cx, ty.dtype, input, dtype, to.clone())?;
    Ok(to)
}

impl Op for QuantizeLinear {
    fn name(&self) -> &'static str {
        "QuantizeLinear"
    }

    fn attributes(&self, a: &mut Attributes) {
        self.granularity.attributes(a);
        if let Some(dtype) = self.dtype {
            a.int("output_dtype", dtype.code().into());
        }
        if let Some(precision) = self.precision {
            a.int("precision", precision.code().into());
        }
        if !self.saturate {
            a.flag("saturate", false);
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let x = cx.of(0, INPUT_TYPES)?;
        cx.of(1, SCALE_TYPES)?;
        let zero = if cx.has(2) { Some(cx.of(2, QUANTIZE_TYPES)?.dtype) } else { None };
        let dtype = self.dtype.or(zero).unwrap_or(DType::U8);
        if zero.is_some_and(|zero| zero != dtype) {
            let message = format!("`output_dtype` is {dtype}, but the zero points are not");
            return Err(cx.diagnostic(Code::TypeMismatch, message));
        }
        if !QUANTIZE_TYPES.contains(&dtype) {
            let message = format!("cannot quantize to {dtype}");
            return Err(cx.diagnostic(Code::TypeMismatch, message));
        }
        self.granularity.check(cx)?;
        Ok(vec![Type::tensor(dtype, &x.shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (scale, to) = (cx.ty(1)?, cx.output_ty(0)?.dtype);
        let geometry = self.granularity.geometry(cx, &cx.ty(0)?.shape, &scale.shape);
        let dtype = self.division_type(scale.dtype);
        let small = SMALL_QUANTIZE.iter().find(|(output, _)| *output == to);
        if let (true, Some((_, kernel))) =
            (dtype == cx.ty(0)?.dtype && wants_small_kernel(cx, dtype)?, small)
        {
            return call_small(cx, kernel);
        }
        let kernels = match to {
            to if FLOAT8S.contains(&to) && !self.saturate => QUANTIZE_UNSATURATED,
            to if to.is_float() => QUANTIZE_REAL,
            _ => QUANTIZE,
        };
        let kernel = kernels.iter().find(|(dtype, _)| *dtype == to);
        let (_, kernel) = kernel.ok_or_else(|| cx.unsupported(&format!("the type {to}")))?;
        let (x, scale) = (convert_input(cx, 0, dtype)?, convert_input(cx, 1, dtype)?);
        let inputs = vec![x.into(), scale.into(), cx.optional(2)?.into()];
        let outputs = vec![cx.output(0)?.into()];
        cx.call_on(kernel, dtype, inputs, outputs, geometry)
    }

    /// Rounding has the gradient zero almost everywhere.
    fn gradient(&self, _: &mut Gradient<'_>) -> Result {
        Ok(())
    }
}

/// `y = (x - zero_point) · scale`.
pub struct DequantizeLinear {
    /// The elements that share a scale.
    pub granularity: Granularity,
    /// The output's type; by default that of the scales.
    pub dtype: Option<DType>,
}

macro_rules! dequantize {
    ($($Variant:ident: $Type:ty,)*) => {
        &[$((DType::$Variant, kernel!(DEQUANTIZE_TYPES T, quantize::dequantize_linear::<T, $Type>,
            |f, a, p| f(a.input(0), a.input(1), a.optional(2), a.output(0), p))),)*]
    };
}

/// The small kernel for a single scale.
static SMALL_DEQUANTIZE: Kernel<NoParams> = kernel!(INT8S T, quantize::small_dequantize::<T>,
    |f, a, _p| f(a.input(0), a.input(1), a.optional(2), a.output(0)));

/// Kernels by output type.
static DEQUANTIZE: &Quantize = dequantize!(F32: f32, F16: f16, BF16: bf16,);

impl Op for DequantizeLinear {
    fn name(&self) -> &'static str {
        "DequantizeLinear"
    }

    fn attributes(&self, a: &mut Attributes) {
        self.granularity.attributes(a);
        if let Some(dtype) = self.dtype {
            a.int("output_dtype", dtype.code().into());
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let x = cx.of(0, DEQUANTIZE_TYPES)?;
        let dtype = self.dtype.unwrap_or(cx.of(1, DEQUANTIZATION_SCALE_TYPES)?.dtype);
        if !DEQUANTIZE.iter().any(|(output, _)| *output == dtype) {
            let message =
                format!("cannot dequantize to {dtype}; set `output_dtype` to another type");
            return Err(cx.diagnostic(Code::TypeMismatch, message));
        }
        if cx.has(2) {
            cx.same_dtype(0, 2)?;
        }
        self.granularity.check(cx)?;
        Ok(vec![Type::tensor(dtype, &x.shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (x, to) = (cx.ty(0)?, cx.output_ty(0)?.dtype);
        if INT8S.contains(&x.dtype) && wants_small_kernel(cx, to)? {
            return call_small(cx, &SMALL_DEQUANTIZE);
        }
        let geometry = self.granularity.geometry(cx, &x.shape, &cx.ty(1)?.shape);
        let kernel = DEQUANTIZE.iter().find(|(dtype, _)| *dtype == to);
        let (_, kernel) = kernel.ok_or_else(|| cx.unsupported(&format!("the type {to}")))?;
        let scale = convert_input(cx, 1, DType::F32)?;
        let inputs = vec![cx.input(0)?.into(), scale.into(), cx.optional(2)?.into()];
        let outputs = vec![cx.output(0)?.into()];
        cx.call_on(kernel, x.dtype, inputs, outputs, geometry)
    }

    /// The gradient of a scale sums `dy · (x - zero_point)` over its elements.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, scale, Some(dy)) = (g.x(0), g.x(1), g.dy(0)) else { return Ok(()) };
        let inputs = [Some(x), Some(scale.ones_like()), g.optional(2)];
        let steps = g.tape().node(g.node().op.clone(), &inputs, 1)[0];
        let each = (dy * steps).cast_like(scale);
        let ds = match scale.ty().len().known() {
            Some(1) => each.sum_all(),
            _ if self.granularity.block_size > 0 => self.sum_blocks(g, each, scale),
            _ => {
                let axis = g.axis(self.granularity.axis, x.rank());
                each.sum(&(0..x.rank()).filter(|&other| other != axis).collect::<Vec<_>>())
            }
        };
        g.set(1, ds.reshape_like(scale));
        Ok(())
    }
}

impl DequantizeLinear {
    /// Sums the elements of each block. The last one may be shorter.
    fn sum_blocks<'t>(&self, g: &Gradient<'t>, each: Expr<'t>, scale: Expr<'t>) -> Expr<'t> {
        let (rank, size) = (each.rank(), self.granularity.block_size);
        let axis = g.axis(self.granularity.axis, rank);
        let blocks = each.indices(axis) / g.tape().constant(Tensor::from_int(size));
        let shape: Vec<i64> = (0..rank).map(|i| if i == axis { -1 } else { 1 }).collect();
        let blocks = blocks.reshape_to(&shape).expand_like(each);
        scale.zeros_like().scatter_add(blocks, each, axis as i64)
    }
}

/// Quantization to `uint8` with a scale and a zero point computed from the elements.
pub struct DynamicQuantizeLinear;

static DYNAMIC_QUANTIZE: Kernel = kernel!(F32_ONLY T, quantize::dynamic_quantize_linear,
    |f, a, _p| f(a.input(0), a.output(0), a.output(1), a.output(2)));

impl Op for DynamicQuantizeLinear {
    fn name(&self) -> &'static str {
        "DynamicQuantizeLinear"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let y = Type::tensor(DType::U8, &cx.of(0, &[DType::F32])?.shape);
        let one = |dtype| Type::tensor(dtype, [0; 0]);
        Ok(vec![y, one(DType::F32), one(DType::U8)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (x, len) = (cx.input(0)?.into(), cx.ty(0)?.len());
        let outputs = [(DType::U8, len), (DType::F32, 1.into()), (DType::U8, 1.into())];
        let mut operands = Vec::new();
        for (i, (dtype, len)) in outputs.into_iter().enumerate() {
            // The kernel writes every output, also unused ones.
            let wanted = cx.optional_output(i)?;
            operands.push(wanted.unwrap_or_else(|| cx.scratch(dtype, len)).into());
        }
        cx.call_on(&DYNAMIC_QUANTIZE, DType::F32, vec![x], operands, NoParams)
    }

    /// Rounding has the gradient zero almost everywhere.
    fn gradient(&self, _: &mut Gradient<'_>) -> Result {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Compiler, Options, interpreter,
        ops::testing::{Given, check, tensor},
        value::Value,
    };

    fn quantize(axis: i64, block_size: i64) -> QuantizeLinear {
        let granularity = Granularity { axis, block_size };
        QuantizeLinear { granularity, dtype: None, precision: None, saturate: true }
    }

    fn dequantize(dtype: Option<DType>) -> DequantizeLinear {
        DequantizeLinear { granularity: Granularity { axis: 1, block_size: 0 }, dtype }
    }

    #[test]
    fn the_zero_points_or_an_attribute_determine_the_type() {
        let (x, scale) = (|| tensor(DType::F16, [2, 3]), || tensor(DType::F16, [0; 0]));
        check(quantize(1, 0), &[x(), scale()], 1, "uint8[2, 3]");
        check(quantize(1, 0), &[x(), scale(), tensor(DType::I4, [1])], 1, "int4[2, 3]");
        let op = || QuantizeLinear { dtype: Some(DType::F4E2M1), ..quantize(1, 0) };
        check(op(), &[x(), tensor(DType::F8E8M0, [3])], 1, "float4e2m1[2, 3]");
        let expected = "`output_dtype` is float4e2m1, but the zero points are not";
        check(op(), &[x(), scale(), tensor(DType::I4, [0; 0])], 1, expected);
        let op = QuantizeLinear { dtype: Some(DType::I64), ..quantize(1, 0) };
        check(op, &[x(), scale()], 1, "cannot quantize to int64");
        let (x, scale) = (|| tensor(DType::I32, [2, 3]), || tensor(DType::F8E8M0, [3]));
        check(dequantize(Some(DType::BF16)), &[x(), scale()], 1, "bfloat16[2, 3]");
        let expected = "cannot dequantize to float8e8m0; set `output_dtype` to another type";
        check(dequantize(None), &[x(), scale()], 1, expected);
        check(DynamicQuantizeLinear, &[tensor(DType::F32, [4])], 3, "uint8[4]; float; uint8");
    }

    #[test]
    fn the_gradient_of_a_scale_of_a_block_sums_its_elements() {
        let model = r#"<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]>
            g (float[2, 2] s) => (float[2, 2] ds)
            <int8[2, 3] q = {1, 2, 3, 4, 5, 6}, float[2, 3] w = {1, 2, 3, 4, 5, 6}> {
                x = DequantizeLinear <axis = 1, block_size = 2> (q, s)
                y = Mul (x, w)
                ds = ai.onnx.preview.training.Gradient <xs = ["s"], y = "y"> (s)
            }"#;
        let plan = Compiler::new(&Options::default()).plan(model.into());
        let plan = plan.unwrap_or_else(|all| panic!("{all}"));
        let scales = Tensor { shape: vec![2, 2], ..Tensor::from_floats(&[1.0; 4]) };
        let outputs = interpreter::run(&plan, &[Value::Tensor(scales)]).expect("the input fits");
        let ds = outputs[0].tensor().and_then(Tensor::floats);
        assert_eq!(ds, Some(vec![5.0, 9.0, 41.0, 36.0]));
    }

    #[test]
    fn a_block_ends_with_the_axis() {
        let model = r#"<ir_version: 10, opset_import: ["" : 21]>
            g (int8[2, 3] q) => (float[2, 3] y) <float[2, 1] s = {2, 3}>
            { y = DequantizeLinear <axis = 1, block_size = 9223372036854775807> (q, s) }"#;
        let compiled = Compiler::new(&Options::default()).compile_bytes(model.into(), "model");
        let source = compiled.unwrap_or_else(|all| panic!("{all}")).module.code;
        assert!(source.contains("block: 3,"), "{source}");
    }

    #[test]
    fn scales_are_per_tensor_per_axis_or_per_block() {
        let x = || Given::Runtime(DType::F32, vec![Dim::symbol("n"), 7.into(), 4.into()]);
        let scale = |shape: &[Dim]| Given::Runtime(DType::F32, shape.to_vec());
        let n = Dim::symbol("n");
        check(quantize(1, 0), &[x(), scale(&[7.into()])], 1, "uint8[n, 7, 4]");
        check(quantize(-1, 0), &[x(), scale(&[4.into()])], 1, "uint8[n, 7, 4]");
        let blocks = [n.clone(), 3.into(), 4.into()];
        check(quantize(1, 3), &[x(), scale(&blocks)], 1, "uint8[n, 7, 4]");
        let blocks = [n.ceil_div(&2.into()), 7.into(), 4.into()];
        check(quantize(0, 2), &[x(), scale(&blocks)], 1, "uint8[n, 7, 4]");
        let expected =
            "the number of scales and the size of the axis must be equal, but are 4 and 7";
        check(quantize(1, 0), &[x(), scale(&[4.into()])], 1, expected);
        let expected = "the numbers of scales and of blocks must be equal, but are 2 and 3";
        check(quantize(1, 3), &[x(), scale(&[n, 2.into(), 4.into()])], 1, expected);
        let expected = "`axis` is 3, but there are 3 axes";
        check(quantize(3, 0), &[x(), scale(&[7.into()])], 1, expected);
        let zero = || Given::Runtime(DType::U8, vec![4.into()]);
        let expected = "the numbers of scales and of zero points must be equal, but are 7 and 4";
        check(quantize(1, 0), &[x(), scale(&[7.into()]), zero()], 1, expected);
    }
}
