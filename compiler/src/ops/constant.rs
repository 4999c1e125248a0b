//! `Constant`, `ConstantOfShape`, `EyeLike` and `Range`.

use super::{Entry, cast::Cast, entry};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::{DType, I64_ONLY, NUMERIC_AND_BOOL, RANGE_TYPES},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{Kernel, Literal, NoParams, kernel},
    tensor::Tensor,
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("Constant", 1, |node| Ok(Rc::new(Constant { value: constant(node)? }))),
    entry("ConstantOfShape", 9, |node| {
        let value = node.maybe_tensor("value")?.unwrap_or_else(|| Tensor::from_floats(&[0.0]));
        if value.len() != 1 {
            let message = format!("`value` has {} elements, but must have one", value.len());
            return Err(Diagnostic::new(Code::BadAttribute, message));
        }
        Ok(Rc::new(ConstantOfShape { value }))
    }),
    entry("EyeLike", 9, |node| {
        Ok(Rc::new(EyeLike { dtype: node.maybe_dtype("dtype")?, k: node.int("k", 0)? }))
    }),
    entry("Range", 11, |node| {
        let stash = node.maybe_dtype("stash_type")?.unwrap_or(DType::F32);
        if ![DType::F32, DType::F64].contains(&stash) {
            let message = format!("`stash_type` is {stash}, but must be float or double");
            return Err(Diagnostic::new(Code::BadAttribute, message));
        }
        Ok(Rc::new(Range { stash }))
    }),
];

/// A tensor that is stored in the model.
pub struct Constant {
    /// The tensor.
    pub value: Tensor,
}

/// Reads the tensor from the one attribute that holds it.
fn constant(node: &mut Reader<'_>) -> Result<Tensor> {
    let scalar = |tensor: Tensor| Tensor { shape: Vec::new(), ..tensor };
    let values = [
        node.maybe_tensor("value")?,
        node.maybe_tensor("sparse_value")?,
        node.maybe_float("value_float")?.map(|x| scalar(Tensor::from_floats(&[x]))),
        node.maybe_floats("value_floats")?.map(|x| Tensor::from_floats(&x)),
        node.maybe_int("value_int")?.map(Tensor::from_int),
        node.maybe_ints("value_ints")?.map(|x| Tensor::from_ints(&x)),
        node.maybe_string("value_string")?.map(|x| scalar(Tensor::from_strings(vec![x]))),
        node.maybe_strings("value_strings")?.map(Tensor::from_strings),
    ];
    let mut values = values.into_iter().flatten();
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value),
        (first, _) => {
            let found = if first.is_some() { "several do" } else { "none does" };
            let message = format!("one attribute must hold the value, but {found}");
            Err(Diagnostic::new(Code::BadAttribute, message))
        }
    }
}

impl Op for Constant {
    fn name(&self) -> &'static str {
        "Constant"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.tensor("value", &self.value);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.set_constant(0, self.value.clone());
        Ok(vec![self.value.ty()])
    }

    fn lower(&self, _: &mut Lower<'_>) -> Result {
        Ok(())
    }
}

/// A tensor filled with one value; the input holds its shape.
pub struct ConstantOfShape {
    /// The value: a tensor of one element.
    pub value: Tensor,
}

pub static CONSTANT_OF_SHAPE: Kernel<(Literal,)> =
    kernel!(ANY T, constant::constant_of_shape::<T>, |f, a, p| f(a.output(0), p.0.get()));
static CONSTANT_OF_SHAPE_SIZES: Kernel = kernel!(checked I64_ONLY T,
    constant::constant_of_shape_sizes, |f, a, _p| f(a.sizes(), a.input(0)));

impl Op for ConstantOfShape {
    fn name(&self) -> &'static str {
        "ConstantOfShape"
    }

    fn count_for_rank(&self, rank: usize, _: usize) -> Option<(usize, usize)> {
        Some((0, rank))
    }

    fn attributes(&self, a: &mut Attributes) {
        a.tensor("value", &self.value);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        /// The largest number of elements that are tracked one by one.
        const MOST: i64 = 1024;
        cx.of(0, I64_ONLY)?;
        let shape = match cx.known(0) {
            Some(shape) => shape.to_vec(),
            None => {
                let rank = cx.count(0)?;
                cx.fresh_sizes(vec![None; rank])
            }
        };
        for size in &shape {
            cx.require_at_least(size, &0.into(), "a size must not be negative")?;
        }
        let len = shape.iter().product::<Dim>().known().filter(|n| shape.len() < 2 && *n <= MOST);
        if let (Some(len), Some(value)) = (len, self.value.ints()) {
            cx.set_known(0, (0..len).map(|_| value[0].into()).collect());
        }
        Ok(vec![Type::tensor(self.value.dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (shape, y) = (cx.input(0)?.into(), cx.output(0)?.into());
        cx.bind(&CONSTANT_OF_SHAPE_SIZES, DType::I64, vec![shape], NoParams)?;
        let value = Literal::first(&self.value);
        cx.call_on(&CONSTANT_OF_SHAPE, self.value.dtype, Vec::new(), vec![y], (value,))
    }
}

/// A matrix of the shape of the input, with ones on a diagonal and zeros elsewhere.
pub struct EyeLike {
    /// The element type; by default that of the input.
    pub dtype: Option<DType>,
    /// The offset of the diagonal: element `[i, i + k]` is 1.
    pub k: i64,
}

static EYE_LIKE: Kernel<(Dim, i64)> =
    kernel!(NUMERIC_AND_BOOL T, constant::eye_like::<T>, |f, a, p| f(a.output(0), p.0, p.1));

impl Op for EyeLike {
    fn name(&self) -> &'static str {
        "EyeLike"
    }

    fn attributes(&self, a: &mut Attributes) {
        if let Some(dtype) = self.dtype {
            a.int("dtype", dtype.code().into());
        }
        a.int("k", self.k);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.ranked(0, 2)?;
        let dtype = self.dtype.unwrap_or(ty.dtype);
        if !NUMERIC_AND_BOOL.contains(&dtype) {
            let message = format!("{dtype} cannot represent 0 and 1");
            return Err(cx.diagnostic(Code::TypeMismatch, message));
        }
        Ok(vec![Type::tensor(dtype, &ty.shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (ty, y) = (cx.output_ty(0)?, cx.output(0)?.into());
        let formula = (ty.shape[1].clone(), self.k);
        cx.call_on(&EYE_LIKE, ty.dtype, Vec::new(), vec![y], formula)
    }

    /// The result does not depend on the elements of the input.
    fn gradient(&self, _: &mut Gradient<'_>) -> Result {
        Ok(())
    }
}

/// `start, start + delta, …` up to but not including `limit`, with `start`, `limit` and `delta` as
/// inputs 0, 1 and 2.
pub struct Range {
    /// The attribute `stash_type`: the minimal precision of the computation.
    pub stash: DType,
}

// Floating-point types are computed in `f64`, which satisfies both values of `stash_type`.
static RANGE: Kernel =
    kernel!(RANGE_TYPES T, constant::range::<T>, |f, a, _p| f(a.input(0), a.input(1), a.output(0)));
static RANGE_SIZES: Kernel = kernel!(checked RANGE_TYPES T, constant::range_sizes::<T>,
    |f, a, _p| f(a.sizes(), a.input(0), a.input(1), a.input(2)));

impl Range {
    /// The number of elements, if it is known at compile time.
    fn len(&self, cx: &mut Infer<'_>, dtype: DType) -> Inferred<Option<Dim>> {
        let [start, limit, delta] = [0, 1, 2].map(|i| whole_number(cx, i, dtype));
        let (Some(start), Some(limit), Some(delta)) = (start, limit, delta) else {
            return Ok(self.constant_len(cx));
        };
        let Some(delta) = delta.known().filter(|&delta| delta != 0) else { return Ok(None) };
        let (low, high) = if delta > 0 { (&start, &limit) } else { (&limit, &start) };
        let Some(distance) = high.checked_sub(low) else { return Ok(None) };
        if let Some(most) = largest_exact(dtype) {
            for bound in [start, limit] {
                cx.require_at_least(
                    &most.into(),
                    &bound,
                    "a bound must not exceed the largest whole `float`",
                )?;
            }
        }
        Ok(Some(distance.at_least(&0.into()).ceil_div(&delta.saturating_abs().into())))
    }

    /// The number of elements between constants.
    fn constant_len(&self, cx: &Infer<'_>) -> Option<Dim> {
        let number = |i| cx.constant(i)?.floats()?.first().copied();
        let len = ((number(1)? - number(0)?) / number(2)?).ceil().max(0.0);
        (len < 1e15).then_some(Dim::from(len as i64))
    }
}

/// Returns the number in input `i`, a bound of type `dtype`, if it is whole and known. Exporters
/// cast sizes to `float` for the coordinates of a grid.
fn whole_number(cx: &Infer<'_>, i: usize, dtype: DType) -> Option<Dim> {
    if let Some([known]) = cx.known(i) {
        return Some(known.clone());
    }
    if !matches!(dtype, DType::F32 | DType::F64) {
        return None;
    }
    if let Some(constant) = cx.constant(i) {
        let number = *constant.floats()?.first()?;
        let is_exact = number.fract() == 0.0 && number.abs() <= f64::from(LARGEST_EXACT_F32);
        return is_exact.then(|| (number as i64).into());
    }
    let cast = cx.producer(i).filter(|node| node.op.is::<Cast>())?;
    match cx.known_elements(cast.input(0)?)? {
        [known] => Some(known.clone()),
        _ => None,
    }
}

/// The number up to which `float` has every whole number: 2 to the power of 24.
const LARGEST_EXACT_F32: i32 = 1 << 24;

/// Returns the number up to which a type has every whole number, if a size may exceed it.
fn largest_exact(dtype: DType) -> Option<i64> {
    (dtype == DType::F32).then_some(LARGEST_EXACT_F32.into())
}

impl Op for Range {
    fn name(&self) -> &'static str {
        "Range"
    }

    fn attributes(&self, a: &mut Attributes) {
        if self.stash != DType::F32 {
            a.int("stash_type", self.stash.code().into());
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        /// The largest number of elements that are tracked one by one.
        const MOST: i64 = 1024;
        let dtype = cx.of(0, RANGE_TYPES)?.dtype;
        for i in 0..3 {
            cx.same_dtype(0, i)?;
            cx.require_one_element(i)?;
        }
        let len = match self.len(cx, dtype)? {
            Some(len) => len,
            None => cx.fresh_sizes([None]).remove(0),
        };
        if let (Some([start]), Some([delta]), Some(n @ 0..=MOST)) =
            (cx.known(0), cx.known(2), len.known())
        {
            let element = |i: i64| start.checked_add(&delta.checked_mul(&i.into())?);
            cx.set_computed(0, dtype, (0..n).map(element).collect());
        }
        Ok(vec![Type::tensor(dtype, [len])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let dtype = cx.ty(0)?.dtype;
        let (start, limit) = (cx.input(0)?, cx.input(1)?.into());
        let (delta, y) = (cx.input(2)?, cx.output(0)?.into());
        let bounds = vec![start.clone().into(), limit, delta.clone().into()];
        cx.bind(&RANGE_SIZES, dtype, bounds, NoParams)?;
        cx.call_on(&RANGE, dtype, vec![start.into(), delta.into()], vec![y], NoParams)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        if let Some(dy) = g.dy(0) {
            g.set(0, dy.sum_all());
            g.set(2, (dy * dy.ones_like().exclusive_sum(0)).sum_all());
        }
        Ok(())
    }
}

impl<'t> Expr<'t> {
    /// `0, 1, …` up to the size of an axis, exclusive.
    pub fn indices(self, axis: usize) -> Expr<'t> {
        let [zero, one] = [0, 1].map(|n| self.tape.constant(Tensor::from_int(n)));
        zero.apply(Range { stash: DType::F32 }, &[self.size_of(axis).reshape_to(&[]), one])
    }

    /// The identity matrix with as many rows as an axis has elements.
    pub fn identity_matrix(self, axis: usize) -> Expr<'t> {
        let indices = self.indices(axis);
        indices.with_axis(1).equal(indices).cast_like(self)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Compiler, Options};

    /// Returns the type of a range of `float` up to `limit`, made of the size `w`.
    fn range(limit: &str) -> String {
        let text = format!(
            "<ir_version: 10, opset_import: [\"\" : 21]>
            g (float[w] x, float f) => (y)
            <int64 first = {{0}}, float zero = {{0}}, float half = {{0.5}}, float two = {{2}},
             double zero64 = {{0}}, double two64 = {{2}}> {{
                sizes = Shape (x)
                w = Gather (sizes, first)
                c = Cast <to = 1> (w)
                {limit}
            }}"
        );
        let graph = Compiler::new(&Options::default()).import(text.into());
        let graph = graph.expect("the model is valid").graph;
        graph[graph[graph.body].outputs[0]].ty.to_string()
    }

    #[test]
    fn a_range_up_to_a_cast_size_has_as_many_elements() {
        for (limit, ty) in [
            ("one = Cast <to = 1> (first) y = Range (zero, c, two)", "float[(w + 1) / 2]"),
            ("y = Range (c, zero, two)", "float[0]"),
            ("d = Cast <to = 11> (w) y = Range (zero64, d, two64)", "double[(w + 1) / 2]"),
            ("y = Range (zero, c, half)", "float[y_0]"),
            ("y = Range (zero, f, two)", "float[y_0]"),
        ] {
            assert_eq!(range(limit), ty, "{limit}");
        }
    }
}
