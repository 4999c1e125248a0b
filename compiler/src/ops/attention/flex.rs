//! `FlexAttention`: attention whose scores and probabilities are modified by regions.

use super::{Attention, call_attention, softmax_precision};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::{DType, FLOATS},
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op, Stop},
    ops::{Entry, cast::CastMode, matmul::lower_product, preview},
    plan::{
        Kernel, Operand,
        geometry::{self, Axis, Layout},
        kernel,
    },
    ty::Type,
};
use onnxc_runtime::kernels::attention::Precision;
use std::rc::Rc;

pub const OPS: &[Entry] = &[preview("FlexAttention", 1, |node| {
    Ok(Rc::new(FlexAttention {
        scale: node.maybe_float("scale")?,
        softmax_precision: softmax_precision(node)?,
        score_mod: node.maybe_region("score_mod")?,
        prob_mod: node.maybe_region("prob_mod")?,
    }))
})];

/// `prob_mod(softmax(score_mod(scale · Q · Kᵀ))) · V`, for each head.
#[derive(Clone)]
pub struct FlexAttention {
    /// The scale of the scores `Q · Kᵀ`; by default `1 / √depth`.
    pub scale: Option<f32>,
    /// The type of scores and probabilities.
    pub softmax_precision: Option<DType>,
    /// Whether the first region modifies the scores.
    pub score_mod: bool,
    /// Whether the last region modifies the probabilities.
    pub prob_mod: bool,
}

static SCALED: Kernel<(Option<f32>, Dim)> = kernel!(FLOATS T, attention::scaled::<T>,
    |f, a, p| f(a.input(0), a.output(0), p.0, p.1));
static SOFTMAX: Kernel<Axis> = kernel!(FLOATS T, softmax::softmax::<T>,
    |f, a, p| f(a.input(0), a.output(0), p));

impl FlexAttention {
    /// The type of scores and probabilities for elements of type `dtype`.
    fn precision(&self, dtype: DType) -> DType {
        let default = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        self.softmax_precision.unwrap_or(default)
    }

    /// The type of the scores of queries and keys of these shapes.
    fn scores_type(&self, dtype: DType, q: &[Dim], k: &[Dim]) -> Type {
        Type::tensor(self.precision(dtype), [&q[0], &q[1], &q[2], &k[2]])
    }

    /// The same attention without regions.
    fn without_regions(&self) -> Attention {
        Attention { scale: self.scale, ..Attention::default() }
    }

    /// Runs region `i` and returns its result.
    fn run_region(cx: &mut Lower<'_>, i: usize) -> Result<Operand> {
        let block = cx.body(i)?;
        block.steps.into_iter().for_each(|step| cx.step(step));
        let missing = || Diagnostic::new(Code::BadArity, "the region has no result");
        block.results.into_iter().next().ok_or_else(missing)
    }

    /// Casts `x` to type `to`; returns it unchanged if it has that type.
    fn cast(cx: &mut Lower<'_>, x: Operand, from: DType, to: DType) -> Result<Operand> {
        if from == to {
            return Ok(x);
        }
        let y = cx.scratch(to, x.len.clone());
        CastMode::DEFAULT.call(cx, from, x, to, y.clone())?;
        Ok(y)
    }

    /// Calls kernels that compute `scale · Q · Kᵀ`, in the type of the inputs.
    fn lower_scores(&self, cx: &mut Lower<'_>, sizes: &Sizes) -> Result<Operand> {
        let dtype = cx.ty(0)?.dtype;
        let mut operands = Vec::new();
        for i in 0..2 {
            let (x, y) = (cx.input(i)?, cx.scratch(dtype, cx.ty(i)?.len()));
            let scale = (self.scale, sizes.depth.clone());
            cx.call_on(&SCALED, dtype, vec![x.into()], vec![y.clone().into()], scale)?;
            operands.push(y);
        }
        let Ok([q, k]) = <[Operand; 2]>::try_from(operands) else { unreachable!("two operands") };
        let Sizes { queries, keys, depth, .. } = sizes;
        let scores = cx.scratch(dtype, sizes.rows() * keys);
        let (row, column) =
            (Layout::Strides(depth.clone(), 1.into()), Layout::Strides(1.into(), depth.clone()));
        let batch = sizes.batched_product([queries, keys, depth], [row, column]);
        lower_product(cx, dtype, [q, k], scores.clone(), batch)?;
        Ok(scores)
    }

    /// Calls one kernel for each step of the attention, for regions or another type of scores.
    fn lower_in_steps(&self, cx: &mut Lower<'_>, sizes: &Sizes) -> Result {
        let dtype = cx.ty(0)?.dtype;
        let scores_dtype = self.precision(dtype);
        let scores = self.lower_scores(cx, sizes)?;
        let mut scores = Self::cast(cx, scores, dtype, scores_dtype)?;
        if self.score_mod {
            let input = cx.region_input(0, 0)?;
            cx.copy(scores, input);
            scores = Self::run_region(cx, 0)?;
        }
        let Sizes { queries, keys, width, .. } = sizes;
        let last = usize::from(self.score_mod);
        let mut probabilities = match self.prob_mod {
            true => cx.region_input(last, 0)?,
            false => cx.scratch(scores_dtype, sizes.rows() * keys),
        };
        let lanes = Axis { outer: sizes.rows(), len: keys.clone(), inner: 1.into() };
        cx.call_on(
            &SOFTMAX,
            scores_dtype,
            vec![scores.into()],
            vec![probabilities.clone().into()],
            lanes,
        )?;
        if self.prob_mod {
            probabilities = Self::run_region(cx, last)?;
        }
        let v = cx.input(2)?;
        let v = Self::cast(cx, v, dtype, scores_dtype)?;
        let y = cx.output(0)?;
        let results = match scores_dtype == dtype {
            true => y.clone(),
            false => cx.scratch(scores_dtype, y.len.clone()),
        };
        let rows = |size: &Dim| Layout::Strides(size.clone(), 1.into());
        let batch = sizes.batched_product([queries, width, keys], [rows(keys), rows(width)]);
        lower_product(cx, scores_dtype, [probabilities, v], results.clone(), batch)?;
        if scores_dtype == dtype {
            return Ok(());
        }
        CastMode::DEFAULT.call(cx, scores_dtype, results, dtype, y)
    }
}

/// The sizes of an attention without a cache.
struct Sizes {
    batch: Dim,
    /// The number of key heads, and of query heads that share each.
    heads: [Dim; 2],
    /// The number of queries.
    queries: Dim,
    /// The number of keys.
    keys: Dim,
    /// The number of elements of a query and of a key.
    depth: Dim,
    /// The number of elements of a value.
    width: Dim,
}

impl Sizes {
    /// The number of rows of the scores.
    fn rows(&self) -> Dim {
        &self.batch * &self.heads[0] * &self.heads[1] * &self.queries
    }

    /// The matrix products `[m, k] · [k, n]` of all query heads. Those that share a key head share
    /// the right operand.
    fn batched_product(&self, [m, n, k]: [&Dim; 3], [a, b]: [Layout; 2]) -> geometry::MatMul {
        let [heads, group] = &self.heads;
        let (left, right) = (m * k, k * n);
        let sizes = [self.batch.clone(), heads.clone(), group.clone()];
        let over_a = vec![heads * group * &left, group * &left, left];
        let over_b = vec![heads * &right, right, 0.into()];
        let (sizes, strides) = geometry::merged(&sizes, &[over_a, over_b, vec![0.into(); 3]]);
        let [over_a, over_b, over_c] = strides.try_into().expect("three operands");
        let matrix = geometry::Gemm {
            m: m.clone(),
            n: n.clone(),
            k: k.clone(),
            a,
            b,
            c: [0.into(), 0.into()],
            y_row: n.clone(),
            alpha: 1.0,
            beta: 1.0,
        };
        geometry::MatMul { sizes, a: over_a, b: over_b, c: over_c, matrix }
    }
}

impl Op for FlexAttention {
    fn name(&self) -> &'static str {
        "FlexAttention"
    }

    fn domain(&self) -> Domain {
        Domain::Preview
    }

    fn attributes(&self, a: &mut Attributes) {
        self.scale.into_iter().for_each(|scale| a.float("scale", scale));
        if let Some(dtype) = self.softmax_precision {
            a.int("softmax_precision", dtype.code().into());
        }
        let regions = [("score_mod", self.score_mod), ("prob_mod", self.prob_mod)];
        let regions = regions.into_iter().filter(|(_, is_present)| *is_present);
        regions.enumerate().for_each(|(i, (name, _))| a.region(name, i));
    }

    fn region_inputs(&self, _: usize, cx: &mut Infer<'_>) -> Inferred {
        let (q, k) = (cx.ranked(0, 4)?, cx.ranked(1, 4)?);
        Ok(vec![self.scores_type(q.dtype, &q.shape, &k.shape)])
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = cx.of(0, FLOATS)?.dtype;
        cx.same_dtype(0, 1)?;
        cx.same_dtype(0, 2)?;
        let [q, k, _] = [cx.ranked(0, 4)?, cx.ranked(1, 4)?, cx.ranked(2, 4)?];
        let expected = self.scores_type(dtype, &q.shape, &k.shape);
        let expected = expected.as_tensor().ok_or(Stop::Unknown)?.clone();
        self.without_regions().check_shapes(cx)?;
        for i in 0..usize::from(self.score_mod) + usize::from(self.prob_mod) {
            let results = cx.region_results(i);
            let [result] = &*results else {
                let message = format!("region {i} must have one result, not {}", results.len());
                return Err(cx.diagnostic(Code::BadArity, message));
            };
            let Some(actual) = result.as_tensor() else { continue };
            if (actual.dtype, actual.rank()) != (expected.dtype, expected.rank()) {
                let message = format!("the result of region {i} must be {expected}, not {actual}");
                return Err(cx.diagnostic(Code::TypeMismatch, message));
            }
            for (a, b) in actual.shape.iter().zip(&expected.shape) {
                cx.require_equal(
                    a,
                    b,
                    &format!("a size of the result and the input of region {i}"),
                )?;
            }
        }
        let width = cx.shape(2)?[3].clone();
        let [batch, heads, queries] = [0, 1, 2].map(|axis| q.shape[axis].clone());
        Ok(vec![Type::tensor(dtype, [batch, heads, queries, width])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (q, k, v) = (cx.ty(0)?, cx.ty(1)?, cx.ty(2)?);
        let attention = self.without_regions();
        let sizes = attention.sizes([&q.shape, &k.shape, &v.shape], None);
        let is_default = self.precision(q.dtype) == self.with_default().precision(q.dtype);
        if !self.score_mod && !self.prob_mod && is_default {
            let strides = [
                super::strides(4, &sizes.heads[1], &sizes.new, &sizes.depth),
                super::strides(4, &sizes.heads[1], &sizes.new, &sizes.width),
            ];
            let mut geometry = attention.geometry(cx, &sizes, strides)?;
            geometry.precision = Precision::Through;
            let inputs = [cx.input(0)?, cx.input(1)?, cx.input(2)?];
            let y = cx.output(0)?;
            return call_attention(cx, q.dtype, inputs, [None, None], (y, None), geometry);
        }
        let super::Sizes { batch, heads: [_, heads], group, queries, new, depth, width, .. } =
            sizes;
        let sizes = Sizes { batch, heads: [heads, group], queries, keys: new, depth, width };
        cx.macs(&(sizes.rows() * &sizes.keys * (&sizes.depth + &sizes.width)));
        self.lower_in_steps(cx, &sizes)
    }
}

impl FlexAttention {
    /// The same attention with the default type of scores and probabilities.
    fn with_default(&self) -> FlexAttention {
        FlexAttention { softmax_precision: None, ..self.clone() }
    }
}
