//! `Attention`, and the related operators in the submodules.

pub(crate) mod flex;
mod gradient;
pub(crate) mod linear;
pub(crate) mod rotary;
pub(crate) mod strided;
#[cfg(test)]
mod tests;

use super::{
    Entry,
    cast::{Cast, CastMode},
    entry,
};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::{DType, FLOATS},
    ir::{Attributes, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{
        Arg, Kernel, Operand, SizeFunction,
        geometry::{self, Append},
        kernel, size_function,
    },
    ty::Type,
};
use onnxc_runtime::kernels::attention::{Precision, Stage};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("Attention", 23, |node| Ok(Rc::new(Attention::read(node)?))),
    entry("Attention", 25, |node| {
        let (left, right) = (window(node, "left_window_size")?, window(node, "right_window_size")?);
        let attention = Attention { left, right, ..Attention::read(node)? };
        let four_axes = node.ty(0).and_then(Type::as_tensor).is_some_and(|ty| ty.rank() == 4);
        if four_axes && attention.heads.iter().any(Option::is_some) {
            let message = "`q_num_heads` and `kv_num_heads` require inputs of three axes";
            return Err(Diagnostic::new(Code::BadAttribute, message));
        }
        Ok(Rc::new(attention))
    }),
];

/// `softmax(scale · Q · Kᵀ + mask) · V`, for each head.
#[derive(Clone, Default)]
pub struct Attention {
    /// Whether queries attend no later keys.
    pub is_causal: bool,
    /// The attributes `q_num_heads` and `kv_num_heads`, for inputs of three axes.
    pub heads: [Option<i64>; 2],
    /// The attribute `left_window_size`: the number of earlier keys that a query attends; `None`
    /// is unlimited.
    pub left: Option<i64>,
    /// The attribute `right_window_size`: the number of later keys that a query attends; `None` is
    /// unlimited.
    pub right: Option<i64>,
    /// The scale of the scores `Q · Kᵀ`; by default `1 / √depth`.
    pub scale: Option<f32>,
    /// The bound that `softcap · tanh(scores / softcap)` imposes on the scores; 0 for none.
    pub softcap: f32,
    /// The stage of the scores that the last output holds: an index into [`STAGES`].
    pub qk_matmul_output_mode: i64,
    /// The type in which the softmax is computed.
    pub softmax_precision: Option<DType>,
}

/// The stages of the scores, indexed by `qk_matmul_output_mode`.
const STAGES: [Stage; 4] = [Stage::Products, Stage::Capped, Stage::Masked, Stage::Weights];

macro_rules! attention_kernel {
    ($set:ident $T:ident, $name:ident $(:: <$G:ident>)?) => {
        kernel!($set $T, attention::$name $(::<$G>)? { operands: attention::AttentionOperands {
            q: input(0), k: input(1), v: input(2),
            mask: optional(3), allowed: optional(4), lengths: optional(5),
        } }, |f, a, p| f(operands, a.output(0), a.optional_output(1), a.output(2), p))
    };
}

static ATTENTION_F32: Kernel<geometry::Attention> = attention_kernel!(F32_ONLY T, attention_f32);
static ATTENTION_F64: Kernel<geometry::Attention> = attention_kernel!(F64_ONLY T, attention_f64);
static ATTENTION_HALF: Kernel<geometry::Attention> =
    attention_kernel!(FLOAT16S T, attention_half::<T>);
static ATTENTION_CACHED: Kernel<geometry::Attention> = kernel!(F32_ONLY T,
    attention::attention_cached_f32 { operands: attention::CachedAttentionOperands {
        q: input(0), k: input(1), v: input(2), past_k: optional(3), past_v: optional(4),
        mask: optional(5), allowed: optional(6),
    } }, |f, a, p| f(operands, a.output(0), a.output(1), a.output(2), a.output(3), p));
static APPEND: Kernel<Append> = kernel!(FLOATS T, attention::append::<T>,
    |f, a, p| f(a.input(0), a.optional(1), a.output(0), p));

/// Reads the attribute `name`, the size of a window on one side; -1 is unlimited.
fn window(node: &mut Reader<'_>, name: &str) -> Result<Option<i64>> {
    match node.int(name, -1)? {
        -1 => Ok(None),
        size if size >= 0 => Ok(Some(size)),
        size => {
            let message = format!("`{name}` is {size}, but must be -1 or more");
            Err(Diagnostic::new(Code::BadAttribute, message))
        }
    }
}

/// Reads the attribute `softmax_precision`.
fn softmax_precision(node: &mut Reader<'_>) -> Result<Option<DType>> {
    let dtype = node.maybe_dtype("softmax_precision")?;
    if dtype.is_none_or(|dtype| FLOATS.contains(&dtype)) {
        return Ok(dtype);
    }
    let message = "`softmax_precision` must be float, double, float16 or bfloat16";
    Err(Diagnostic::new(Code::BadAttribute, message))
}

/// The precision of a softmax in type `softmax` on elements of type `dtype`.
fn precision(dtype: DType, softmax: DType) -> Precision {
    match (dtype, softmax) {
        (_, DType::F16) => Precision::F16,
        (_, DType::BF16) => Precision::BF16,
        (DType::F64, DType::F32) => Precision::Single,
        (DType::F64, _) | (_, DType::F32) => Precision::Wide,
        _ => Precision::Double,
    }
}

/// The sizes of an attention.
struct Sizes {
    batch: Dim,
    /// The number of heads of the queries, and of the keys and values.
    heads: [Dim; 2],
    /// The number of query heads that share a key head.
    group: Dim,
    /// The number of queries.
    queries: Dim,
    /// The number of cached keys.
    past: Dim,
    /// The number of new keys.
    new: Dim,
    /// The number of elements of a query and of a key.
    depth: Dim,
    /// The number of elements of a value.
    width: Dim,
}

impl Sizes {
    /// The number of all keys, cached and new.
    fn keys(&self) -> Dim {
        &self.past + &self.new
    }
}

/// The strides of sequences, heads and rows, in elements, of `[batch, heads, rows, size]` (rank 4)
/// or `[batch, rows, heads · size]` (rank 3).
fn strides(rank: usize, heads: &Dim, rows: &Dim, size: &Dim) -> [Dim; 3] {
    let all = heads * rows * size;
    if rank == 3 { [all, size.clone(), heads * size] } else { [all, rows * size, size.clone()] }
}

impl Attention {
    fn read(node: &mut Reader<'_>) -> Result<Attention> {
        // A numeric mask of another type is cast to the type of the queries.
        if let (Ok(dtype), Ok(mask)) = (node.dtype(0), node.dtype(3))
            && ![DType::Bool, dtype].contains(&mask)
        {
            node.wrap_input(3, Cast { to: dtype, mode: CastMode::DEFAULT }, &[])?;
        }
        let mode = node.int("qk_matmul_output_mode", 0)?;
        if !(0..4).contains(&mode) {
            let message = format!("`qk_matmul_output_mode` is {mode}, but must be from 0 to 3");
            return Err(Diagnostic::new(Code::BadAttribute, message));
        }
        Ok(Attention {
            is_causal: node.flag("is_causal", false)?,
            heads: [node.maybe_int("q_num_heads")?, node.maybe_int("kv_num_heads")?],
            left: None,
            right: None,
            scale: node.maybe_float("scale")?,
            softcap: node.float("softcap", 0.0)?,
            qk_matmul_output_mode: mode,
            softmax_precision: softmax_precision(node)?,
        })
    }

    /// The sizes for queries, keys and values of these shapes, all of three or of four axes.
    fn sizes(&self, [q, k, v]: [&[Dim]; 3], past: Option<&[Dim]>) -> Sizes {
        let past = past.map_or(Dim::from(0), |past| past[2].clone());
        let batch = q[0].clone();
        let ([queries, new, depth, width], heads) = if let (
            [_, heads, queries, depth],
            [_, kv_heads, new, _],
            [_, _, _, width],
        ) = (q, k, v)
        {
            ([queries, new, depth, width].map(Clone::clone), [heads, kv_heads].map(Clone::clone))
        } else {
            let heads = self.heads.map(|heads| Dim::from(heads.unwrap_or(1).max(1)));
            let (depth, width) = (q[2].floor_div(&heads[0]), v[2].floor_div(&heads[1]));
            ([q[1].clone(), k[1].clone(), depth, width], heads)
        };
        let group = heads[0].floor_div(&heads[1].at_least(&1.into()));
        Sizes { batch, heads, group, queries, past, new, depth, width }
    }

    /// Checks the shapes of queries, keys and values, and returns the sizes.
    fn check_shapes(&self, cx: &mut Infer<'_>) -> Inferred<Sizes> {
        let [q, k, v] = [0, 1, 2].map(|i| cx.shape(i).map(<[Dim]>::to_vec));
        let (q, k, v) = (q?, k?, v?);
        if ![3, 4].contains(&q.len()) || k.len() != q.len() || v.len() != q.len() {
            let message = "queries, keys and values must all have three or four axes";
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        }
        if q.len() == 3 && self.heads.iter().any(|heads| heads.is_none_or(|heads| heads < 1)) {
            let message = "inputs of three axes need `q_num_heads` and `kv_num_heads`";
            return Err(cx.diagnostic(Code::BadAttribute, message));
        }
        let past = cx.optional(4)?.map(|ty| ty.shape.clone());
        if past.as_ref().is_some_and(|past| past.len() != 4) {
            cx.ranked(4, 4)?;
        }
        let sizes = self.sizes([&q, &k, &v], past.as_deref());
        let Sizes { batch, heads: [heads, kv_heads], group, queries, new, depth, width, .. } =
            &sizes;
        let shape = |heads: &Dim, rows: &Dim, size: &Dim| match q.len() {
            3 => vec![batch.clone(), rows.clone(), heads * size],
            _ => vec![batch.clone(), heads.clone(), rows.clone(), size.clone()],
        };
        let expected = [
            (&q, shape(heads, queries, depth)),
            (&k, shape(kv_heads, new, depth)),
            (&v, shape(kv_heads, new, width)),
        ];
        for (i, (actual, expected)) in expected.iter().enumerate() {
            for (a, b) in actual.iter().zip(expected) {
                cx.require_equal(a, b, &format!("a size of input {i} and the expected size"))?;
            }
        }
        let message = "the number of query heads and a multiple of the key heads";
        cx.require_equal(heads, &(group * kv_heads), message)?;
        Ok(sizes)
    }

    /// Checks the types and shapes of the caches, inputs 4 and 5.
    fn check_past(&self, cx: &mut Infer<'_>, sizes: &Sizes) -> Inferred<()> {
        if cx.has(4) != cx.has(5) {
            let message = "`past_key` and `past_value` must be given together";
            return Err(cx.diagnostic(Code::BadArity, message));
        }
        if !cx.has(4) {
            return Ok(());
        }
        for (i, of, size) in [(4, 1, &sizes.depth), (5, 2, &sizes.width)] {
            cx.same_dtype(i, of)?;
            let expected = [&sizes.batch, &sizes.heads[1], &sizes.past, size].map(Clone::clone);
            for (a, b) in cx.ranked(i, 4)?.shape.iter().zip(&expected) {
                cx.require_equal(a, b, &format!("a size of input {i} and the expected size"))?;
            }
        }
        Ok(())
    }

    /// Checks that the mask broadcasts to the shape of the scores; its last axis may be shorter.
    fn check_mask(&self, cx: &mut Infer<'_>, dtype: DType, sizes: &Sizes) -> Inferred<()> {
        let Some(mask) = cx.optional(3)? else { return Ok(()) };
        cx.of(3, &[DType::Bool, dtype])?;
        let Some((len, others)) = mask.shape.split_last().filter(|(_, all)| all.len() < 4) else {
            let message = "the mask must have one to four axes";
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        };
        let scores = [&sizes.batch, &sizes.heads[0], &sizes.queries].map(Clone::clone);
        let broadcast = cx.broadcast(&[&scores, others])?;
        for (a, b) in scores.iter().zip(&broadcast) {
            cx.require_equal(a, b, "an axis of the scores and of the mask")?;
        }
        cx.require_at_least(&sizes.keys(), len, "the mask covers more keys than the inputs have")
    }

    /// Appends the keys (`i` is 1) or values (`i` is 2) to their cache, if there is one. Returns
    /// the operand with all of them, and its strides of sequences, heads and rows.
    fn append_to_cache(
        cx: &mut Lower<'_>,
        i: usize,
        sizes: &Sizes,
        size: &Dim,
    ) -> Result<(Operand, [Dim; 3])> {
        let (ty, heads) = (cx.ty(i)?, &sizes.heads[1]);
        let new = strides(ty.rank(), heads, &sizes.new, size);
        let (x, past) = (cx.input(i)?, cx.optional(i + 3)?);
        if past.is_none() && cx.optional_output(i)?.is_none() {
            return Ok((x, new));
        }
        let keys = sizes.keys();
        let to = Self::present(cx, i, sizes, size)?;
        let geometry = Append {
            batch: sizes.batch.clone(),
            heads: heads.clone(),
            past: sizes.past.clone(),
            new: sizes.new.clone(),
            width: size.clone(),
            x: new,
        };
        let inputs = vec![x.into(), Arg::Optional(past)];
        cx.call_on(&APPEND, ty.dtype, inputs, vec![to.clone().into()], geometry)?;
        Ok((to, strides(4, heads, &keys, size)))
    }

    /// The buffer of all keys (`i` is 1) or values (`i` is 2): the output `present_key` or
    /// `present_value`, or scratch memory.
    fn present(cx: &mut Lower<'_>, i: usize, sizes: &Sizes, size: &Dim) -> Result<Operand> {
        let (dtype, present) = (cx.ty(i)?.dtype, cx.optional_output(i)?);
        let len = || &sizes.batch * &sizes.heads[1] * sizes.keys() * size;
        Ok(present.unwrap_or_else(|| cx.scratch(dtype, len())))
    }

    /// Returns whether the kernel applies that appends each head to the cache right before it
    /// attends it.
    fn can_attend_in_cache(cx: &mut Lower<'_>) -> Result<bool> {
        let single = cx.ty(0)?.dtype == DType::F32 && cx.ty(2)?.dtype == DType::F32;
        Ok(single && cx.has(4) && cx.optional_output(3)?.is_none())
    }

    /// Calls the kernel that appends each head to the cache right before it attends it.
    fn lower_cached(&self, cx: &mut Lower<'_>, sizes: &Sizes) -> Result {
        let new = |cx: &Lower<'_>, i, size| {
            cx.ty(i).map(|ty| strides(ty.rank(), &sizes.heads[1], &sizes.new, size))
        };
        let geometry = [new(cx, 1, &sizes.depth)?, new(cx, 2, &sizes.width)?];
        let geometry = self.geometry(cx, sizes, geometry)?;
        let scratch = scratch(cx, &geometry, DType::F32.bytes());
        let mask = cx.optional(3)?;
        let [mask, allowed] = masks(cx, mask)?;
        let (past_k, past_v) = (cx.optional(4)?.into(), cx.optional(5)?.into());
        let [q, k, v] = [cx.input(0)?, cx.input(1)?, cx.input(2)?].map(Arg::from);
        let y = cx.output(0)?.into();
        let present_k = Self::present(cx, 1, sizes, &sizes.depth)?.into();
        let present_v = Self::present(cx, 2, sizes, &sizes.width)?.into();
        let inputs = vec![q, k, v, past_k, past_v, mask, allowed];
        let outputs = vec![y, present_k, present_v, cx.scratch(DType::F32, scratch).into()];
        cx.call_on(&ATTENTION_CACHED, DType::F32, inputs, outputs, geometry)
    }

    /// The number of rows that are computed at a time, so that their scores stay in the CPU's
    /// cache.
    fn rows(cx: &Lower<'_>, keys: &Dim) -> usize {
        /// The number of scores that stay in the cache.
        const SCORES: i64 = 96 << 10;
        /// More keys than this leave the number of rows at its minimum.
        const MANY_KEYS: i64 = 1 << 12;
        /// The number of rows of a packed panel.
        const PANEL: i64 = 12;
        let keys = cx.upper(keys).unwrap_or(MANY_KEYS).max(1);
        let rows = (SCORES / keys / PANEL * PANEL).clamp(PANEL, 8 * PANEL);
        usize::try_from(rows).unwrap_or(1)
    }

    /// The parameters of the kernels.
    fn geometry(
        &self,
        cx: &Lower<'_>,
        sizes: &Sizes,
        [k, v]: [[Dim; 3]; 2],
    ) -> Result<geometry::Attention> {
        let (dtype, rank) = (cx.ty(0)?.dtype, cx.ty(0)?.rank());
        let Sizes { batch, heads: [heads, kv_heads], group, queries, past, depth, width, .. } =
            sizes;
        let keys = sizes.keys();
        let (mask, mask_len) = match cx.has(3) {
            false => ([(); 3].map(|()| 0.into()), keys.clone()),
            true => {
                let shape = &cx.ty(3)?.shape;
                let len = shape.last().cloned().unwrap_or_else(|| 1.into());
                let scores = [batch, heads, queries, &len].map(Clone::clone);
                let all = geometry::broadcast_strides(shape, &scores);
                ([all[0].clone(), all[1].clone(), all[2].clone()], len)
            }
        };
        let bound = |size: i64| usize::try_from(size).unwrap_or(0);
        Ok(geometry::Attention {
            batch: batch.clone(),
            heads: kv_heads.clone(),
            group: group.clone(),
            queries: queries.clone(),
            rows: Self::rows(cx, &keys),
            keys,
            depth: depth.clone(),
            width: width.clone(),
            q: strides(rank, heads, queries, depth),
            k,
            v,
            y: strides(rank, heads, queries, width),
            mask,
            mask_len,
            past: past.clone(),
            left: self.left.map(bound),
            right: if self.is_causal { Some(0) } else { self.right.map(bound) },
            scale: self.scale,
            softcap: self.softcap,
            precision: precision(dtype, self.softmax_precision.unwrap_or(dtype)),
            stage: STAGES[usize::try_from(self.qk_matmul_output_mode).unwrap_or(0)],
        })
    }
}

/// The number of elements of scratch memory that a kernel needs for elements of `size` bytes (0 for
/// half-precision types). Also records the number of multiply-adds.
fn scratch(cx: &mut Lower<'_>, geometry: &geometry::Attention, size: usize) -> Dim {
    let sizes = &geometry.batch * &geometry.heads * &geometry.group * &geometry.queries;
    cx.macs(&(sizes * &geometry.keys * (&geometry.depth + &geometry.width)));
    let function: SizeFunction<(geometry::Attention, usize)> =
        size_function!(attention::attention_scratch, |f, p| f(&p.0, p.1));
    let bounded = |most: &dyn Fn(&Dim) -> Dim| geometry.scratch(most, size);
    cx.scratch_len(&(geometry.clone(), size), function, bounded)
}

/// The additive and the Boolean mask, at most one of which exists.
fn masks(cx: &Lower<'_>, mask: Option<Operand>) -> Result<[Arg; 2]> {
    let is_bool = mask.is_some() && cx.ty(3)?.dtype == DType::Bool;
    let masks = if is_bool { [None, mask] } else { [mask, None] };
    Ok(masks.map(Arg::from))
}

/// Calls the kernel for the element type, which reads queries, keys, values, mask and lengths, and
/// writes the result and the scores.
fn call_attention(
    cx: &mut Lower<'_>,
    dtype: DType,
    [q, k, v]: [Operand; 3],
    [mask, lengths]: [Option<Operand>; 2],
    (y, scores): (Operand, Option<Operand>),
    geometry: geometry::Attention,
) -> Result {
    let (kernel, wide) = match dtype {
        DType::F32 => (&ATTENTION_F32, DType::F32),
        DType::F64 => (&ATTENTION_F64, DType::F64),
        _ => (&ATTENTION_HALF, DType::F32),
    };
    let scratch = scratch(cx, &geometry, if dtype == wide { dtype.bytes() } else { 0 });
    let [mask, allowed] = masks(cx, mask)?;
    let inputs = vec![q.into(), k.into(), v.into(), mask, allowed, lengths.into()];
    let outputs = vec![y.into(), scores.into(), cx.scratch(wide, scratch).into()];
    cx.call_on(kernel, dtype, inputs, outputs, geometry)
}

impl Op for Attention {
    fn name(&self) -> &'static str {
        "Attention"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.flag("is_causal", self.is_causal);
        let numbers = [
            ("q_num_heads", self.heads[0]),
            ("kv_num_heads", self.heads[1]),
            ("left_window_size", self.left),
            ("right_window_size", self.right),
            ("softmax_precision", self.softmax_precision.map(|dtype| dtype.code().into())),
        ];
        for (name, number) in numbers {
            number.into_iter().for_each(|number| a.int(name, number));
        }
        self.scale.into_iter().for_each(|scale| a.float("scale", scale));
        a.float("softcap", self.softcap);
        a.int("qk_matmul_output_mode", self.qk_matmul_output_mode);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = cx.of(0, FLOATS)?.dtype;
        cx.same_dtype(0, 1)?;
        let value_dtype = cx.of(2, FLOATS)?.dtype;
        let sizes = self.check_shapes(cx)?;
        self.check_past(cx, &sizes)?;
        self.check_mask(cx, dtype, &sizes)?;
        if cx.has(6) {
            cx.of(6, &[DType::I64])?;
            let len = &cx.ranked(6, 1)?.shape[0];
            cx.require_equal(len, &sizes.batch, "the number of lengths and of sequences")?;
            if cx.has(4) {
                let message = "`nonpad_kv_seqlen` excludes `past_key` and `past_value`";
                return Err(cx.diagnostic(Code::BadArity, message));
            }
        }
        let keys = sizes.keys();
        let Sizes { batch, heads: [heads, kv_heads], queries, depth, width, .. } = sizes;
        let y = match cx.ty(0)?.rank() {
            3 => vec![batch.clone(), queries.clone(), &heads * &width],
            _ => vec![batch.clone(), heads.clone(), queries.clone(), width.clone()],
        };
        Ok(vec![
            Type::tensor(dtype, y),
            Type::tensor(dtype, [&batch, &kv_heads, &keys, &depth]),
            Type::tensor(value_dtype, [&batch, &kv_heads, &keys, &width]),
            Type::tensor(dtype, [&batch, &heads, &queries, &keys]),
        ])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let shapes = [&*cx.ty(0)?.shape, &*cx.ty(1)?.shape, &*cx.ty(2)?.shape];
        let past = if cx.has(4) { Some(&*cx.ty(4)?.shape) } else { None };
        let sizes = self.sizes(shapes, past);
        if Self::can_attend_in_cache(cx)? {
            return self.lower_cached(cx, &sizes);
        }
        let (dtype, value_dtype) = (cx.ty(0)?.dtype, cx.ty(2)?.dtype);
        let (k, k_strides) = Self::append_to_cache(cx, 1, &sizes, &sizes.depth)?;
        let (mut v, v_strides) = Self::append_to_cache(cx, 2, &sizes, &sizes.width)?;
        if value_dtype != dtype {
            let cast = cx.scratch(dtype, v.len.clone());
            CastMode::DEFAULT.call(cx, value_dtype, v, dtype, cast.clone())?;
            v = cast;
        }
        let geometry = self.geometry(cx, &sizes, [k_strides, v_strides])?;
        let q = cx.input(0)?;
        let others = [cx.optional(3)?, cx.optional(6)?];
        let results = (cx.output(0)?, cx.optional_output(3)?);
        call_attention(cx, dtype, [q, k, v], others, results, geometry)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        self.set_gradients(g)
    }
}
