//! Preprocessing of features: selection, scaling, imputation, normalization.

use super::{cast_to, compute_type, input_as, rows};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, F32_ONLY, FEATURES},
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op, Reader, ValueId},
    ops::{
        Entry,
        binary::{MUL, SUB},
        gather::Gather,
        ml, ml_nodes,
        reshape::{Reshape, Unsqueeze},
    },
    plan::{
        Kernel,
        geometry::{Axis, Columns},
        kernel,
    },
    tensor::Tensor,
    ty::{TensorType, Type},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    ml_nodes("ArrayFeatureExtractor", 1, array_feature_extractor),
    ml("Binarizer", 1, |node| Ok(Rc::new(Binarizer { threshold: node.float("threshold", 0.0)? }))),
    ml("FeatureVectorizer", 1, |node| {
        let widths = node.maybe_ints("inputdimensions")?.unwrap_or_default();
        Ok(Rc::new(FeatureVectorizer { widths }))
    }),
    ml_nodes("Imputer", 1, imputer),
    ml_nodes("Normalizer", 1, normalizer),
    ml_nodes("Scaler", 1, scaler),
];

/// Reads `ArrayFeatureExtractor`: gathers some features of each row. A vector is a single row.
fn array_feature_extractor(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let (mut x, indices) = (node.input(0)?, node.input(1)?);
    if node.rank(0)? == 1 {
        x = node.add(Unsqueeze, &[x], &[Tensor::from_ints(&[0])])?;
    }
    let flat = Reshape { allowzero: false };
    let indices = node.add(flat, &[indices], &[Tensor::from_ints(&[-1])])?;
    Ok(vec![node.add(Gather { axis: -1 }, &[x, indices], &[])?])
}

/// Reads `Scaler`: `(x - offset) · scale`, with one offset and scale for all features or one per
/// feature.
fn scaler(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let offset = node.maybe_floats("offset")?.filter(|all| !all.is_empty());
    let scale = node.maybe_floats("scale")?.filter(|all| !all.is_empty());
    let dtype = compute_type(node)?;
    let mut y = input_as(node, dtype)?;
    let constant = |all: &[f32]| {
        let numbers: Vec<f64> = all.iter().copied().map(f64::from).collect();
        Tensor::from_wide(dtype, &numbers)
    };
    if let Some(offset) = offset {
        y = node.add(&SUB, &[y], &[constant(&offset)])?;
    }
    if let Some(scale) = scale {
        y = node.add(&MUL, &[y], &[constant(&scale)])?;
    }
    Ok(vec![cast_to(node, y, DType::F32)?])
}

fn normalizer(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let choices = [("MAX", &NORMALIZER_MAX), ("L1", &NORMALIZER_L1), ("L2", &NORMALIZER_L2)];
    let norm = node.choice("norm", &choices)?;
    let x = input_as(node, DType::F32)?;
    Ok(vec![node.add(norm, &[x], &[])?])
}

/// 1 if an element is above the threshold, else 0.
struct Binarizer {
    threshold: f32,
}

static BINARIZER: Kernel<(f32,)> =
    kernel!(FEATURES T, ml::binarizer::<T>, |f, a, p| f(a.input(0), a.output(0), p.0));

impl Op for Binarizer {
    fn name(&self) -> &'static str {
        "Binarizer"
    }

    fn domain(&self) -> Domain {
        Domain::Ml
    }

    fn attributes(&self, a: &mut Attributes) {
        a.float("threshold", self.threshold);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        Ok(vec![cx.of(0, FEATURES)?.clone().into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call(&BINARIZER, (self.threshold,))
    }
}

/// Replaces the elements of input 0 that equal input 2, the missing value, by input 1: one value
/// for all features or one per feature.
struct Imputer;

static IMPUTER: Kernel = kernel!(FEATURES T, ml::imputer::<T>,
    |f, a, _p| f(a.input(0), a.input(1), a.input(2), a.output(0)));

fn imputer(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let floats = node.maybe_floats("imputed_value_floats")?.unwrap_or_default();
    let ints = node.maybe_ints("imputed_value_int64s")?.unwrap_or_default();
    let missing_float = f64::from(node.float("replaced_value_float", 0.0)?);
    let missing_int = node.int("replaced_value_int64", 0)?;
    let dtype = node.dtype(0)?;
    let [values, missing] = match dtype {
        DType::F32 | DType::F64 => {
            let floats: Vec<f64> = floats.into_iter().map(f64::from).collect();
            [floats, vec![missing_float]].map(|all| Tensor::from_wide(dtype, &all))
        }
        DType::I32 => [&ints[..], &[missing_int]].map(Tensor::from_i32s),
        _ => [&ints[..], &[missing_int]].map(Tensor::from_ints),
    };
    let x = node.input(0)?;
    Ok(vec![node.add(Imputer, &[x], &[values, missing])?])
}

impl Op for Imputer {
    fn name(&self) -> &'static str {
        "Imputer"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, FEATURES)?.clone();
        let values = cx.ty(1)?.len();
        let features = ty.shape.last().cloned().unwrap_or(1.into());
        if values.known() != Some(1) {
            cx.require_equal(&features, &values, "the numbers of features and of imputed values")?;
        }
        Ok(vec![ty.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call(&IMPUTER, crate::plan::NoParams)
    }
}

/// `Normalizer`: divides each row by a norm.
struct Norm {
    name: &'static str,
    kernel: Kernel<Axis>,
}

macro_rules! norm {
    ($name:literal, $kernel:ident) => {
        Norm {
            name: $name,
            kernel: kernel!(F32_ONLY T, ml::$kernel::<T>,
                |f, a, p| f(a.input(0), a.output(0), p)),
        }
    };
}

static NORMALIZER_MAX: Norm = norm!("MAX", normalizer_max);
static NORMALIZER_L1: Norm = norm!("L1", normalizer_l1);
static NORMALIZER_L2: Norm = norm!("L2", normalizer_l2);

impl Op for &'static Norm {
    fn name(&self) -> &'static str {
        "Normalizer"
    }

    fn domain(&self) -> Domain {
        Domain::Ml
    }

    fn attributes(&self, a: &mut Attributes) {
        a.string("norm", self.name);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        rows(cx)?;
        Ok(vec![cx.of(0, F32_ONLY)?.clone().into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let shape = &cx.ty(0)?.shape;
        cx.call(&self.kernel, Axis::of(shape, shape.len() - 1))
    }
}

/// Concatenates the features of all inputs. Input `i` is cut or padded with zeros to `widths[i]`.
struct FeatureVectorizer {
    /// The attribute `inputdimensions`.
    widths: Vec<i64>,
}

static FEATURE_VECTORIZER: Kernel<(Dim, Columns)> = kernel!(FEATURES T,
    ml::feature_vectorizer::<T>, |f, a, p| f(a.input(0), a.output(0), p.0, p.1));

impl FeatureVectorizer {
    fn widths(&self, inputs: usize) -> Option<Vec<usize>> {
        let widths: Option<Vec<usize>> =
            self.widths.iter().map(|&width| usize::try_from(width).ok()).collect();
        widths.filter(|widths| widths.len() == inputs)
    }
}

impl Op for FeatureVectorizer {
    fn name(&self) -> &'static str {
        "FeatureVectorizer"
    }

    fn domain(&self) -> Domain {
        Domain::Ml
    }

    fn attributes(&self, a: &mut Attributes) {
        a.ints("inputdimensions", &self.widths);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let Some(widths) = self.widths(cx.inputs()) else {
            let message = "`inputdimensions` must have a width for each input";
            return Err(cx.diagnostic(Code::BadAttribute, message));
        };
        let [first, _] = rows(cx)?;
        for i in 0..cx.inputs() {
            cx.of(i, FEATURES)?;
            let [count, _] = super::rows_of(cx, i)?;
            cx.require_equal(&first, &count, "the rows of the inputs")?;
        }
        let mut widths = widths.iter().map(|&width| i64::try_from(width).ok());
        let Some(all) = widths.try_fold(0_i64, |all, width| all.checked_add(width?)) else {
            let message = "the sum of `inputdimensions` exceeds 64 bits";
            return Err(cx.diagnostic(Code::TooLarge, message));
        };
        Ok(vec![Type::tensor(DType::F32, [first, all.into()])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let inputs = cx.node().inputs.len();
        let widths = self.widths(inputs).unwrap_or_default();
        let of = widths.iter().sum();
        let mut from = 0;
        for (i, &count) in widths.iter().enumerate() {
            let TensorType { dtype, shape } = cx.ty(i)?;
            let features = shape.last().cloned().unwrap_or(1.into());
            let (inputs, outputs) = (vec![cx.input(i)?.into()], vec![cx.output(0)?.into()]);
            let formula = (features, Columns { of, from, count });
            cx.call_on(&FEATURE_VECTORIZER, *dtype, inputs, outputs, formula)?;
            from += count;
        }
        Ok(())
    }
}
