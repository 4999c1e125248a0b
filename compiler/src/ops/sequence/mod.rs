//! Sequences of tensors. The known element of a sequence is its length.

pub mod map;
pub mod split;

use super::{
    Entry,
    cast::{Cast, CastMode},
    entry,
};
use crate::{
    diag::{Code, Result},
    dim::{Dim, Symbol},
    dtype::{ANY_IR4, DType},
    ir::{Attributes, Infer, Inferred, Lower, Op, Reader, Stop},
    plan::{Arg, Kernel, NoParams, kernel},
    ty::{TensorType, Type, any_size},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("SequenceConstruct", 11, |_| Ok(Rc::new(SequenceConstruct))),
    entry("SequenceEmpty", 11, |node| {
        Ok(Rc::new(SequenceEmpty { dtype: node.maybe_dtype("dtype")?.unwrap_or(DType::F32) }))
    }),
    entry("SequenceInsert", 11, |node| {
        cast_position(node, 2)?;
        Ok(Rc::new(SequenceInsert))
    }),
    entry("SequenceErase", 11, |node| {
        cast_position(node, 1)?;
        Ok(Rc::new(SequenceErase))
    }),
    entry("SequenceAt", 11, |node| {
        cast_position(node, 1)?;
        Ok(Rc::new(SequenceAt))
    }),
    entry("SequenceLength", 11, |_| Ok(Rc::new(SequenceLength))),
];

/// Casts input `i` to `int64`.
pub fn cast_position(node: &mut Reader<'_>, i: usize) -> Result {
    let dtype = node.ty(i).and_then(Type::dtype);
    if dtype.is_some_and(|dtype| dtype != DType::I64) {
        node.wrap_input(i, Cast { to: DType::I64, mode: CastMode::DEFAULT }, &[])?;
    }
    Ok(())
}

/// Returns the index that a position means in a sequence of `len` tensors, if it is less than
/// `places`. A negative position counts from the end.
pub fn resolve_position(position: i64, places: usize, len: usize) -> Option<usize> {
    let from_end = i64::try_from(len).ok()?;
    let place = if position < 0 { position.checked_add(from_end)? } else { position };
    usize::try_from(place).ok().filter(|&place| place < places)
}

/// Returns the type of a sequence of `element`.
fn sequence_of(element: &Type) -> Type {
    Type::Sequence(element.clone().into())
}

/// Returns the length of the sequence in input `i`, if it is known.
fn length<'a>(cx: &Infer<'a>, i: usize) -> Option<&'a Dim> {
    cx.known(i)?.first()
}

/// Requires input `i`, a position, to have one element, and if it is known, to be a position of the
/// sequence in input 0, whose end has `more` places after the last tensor.
fn require_position(cx: &mut Infer<'_>, i: usize, more: i64) -> Inferred<()> {
    cx.require_one_element(i)?;
    let Some(len) = length(cx, 0).and_then(Dim::known) else { return Ok(()) };
    let place = || format!("input 0, a sequence whose length is {len}");
    cx.require_inside(cx.ints(i).unwrap_or_default(), -len..len.saturating_add(more), place)
}

/// Returns the type of an item of a sequence, with fresh symbols for its unknown sizes. The node
/// binds them.
pub fn item_type(cx: &mut Infer<'_>, element: &Type) -> Inferred<Type> {
    match element {
        Type::Tensor(ty) => {
            let shape = with_fresh_sizes(cx, &ty.shape);
            Ok(TensorType { dtype: ty.dtype, shape }.into())
        }
        Type::Unranked(dtype) => Ok(Type::Unranked(*dtype)),
        _ => Err(Stop::Unknown),
    }
}

/// Returns a shape with fresh symbols for the unknown sizes.
fn with_fresh_sizes(cx: &mut Infer<'_>, shape: &[Dim]) -> Vec<Dim> {
    let open = shape.iter().filter(|size| **size == any_size()).count();
    let mut fresh = cx.fresh_sizes(vec![None; open]).into_iter();
    let size = |size: &Dim| match *size == any_size() {
        true => fresh.next().expect("`fresh` has a size for every unknown one"),
        false => size.clone(),
    };
    shape.iter().map(size).collect()
}

/// Returns the sizes that the node does not bind, which its kernels check.
pub fn unbound_sizes(shape: &[Dim], binds: &[Symbol]) -> Vec<Option<Dim>> {
    let fresh = |size: &Dim| size.as_symbol().is_some_and(|name| binds.contains(name));
    shape.iter().map(|size| (!fresh(size)).then(|| size.clone())).collect()
}

/// The inputs as a sequence.
pub struct SequenceConstruct;

pub static EMPTY: Kernel =
    kernel!(ANY_IR4 T, sequence::sequence_empty::<T>, |f, a, _p| f(a.output_sequence(0)));
pub static PUSH: Kernel<(Vec<Dim>,)> = kernel!(updates ANY_IR4 T, sequence::sequence_push::<T>,
    |f, a, p| f(a.output_sequence(0), a.input(0), p.0));

impl Op for SequenceConstruct {
    fn name(&self) -> &'static str {
        "SequenceConstruct"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let mut element = Type::Never(cx.of(0, ANY_IR4)?.dtype);
        for i in 0..cx.inputs() {
            cx.same_dtype(0, i)?;
            element = element.either(&cx.ty(i)?.clone().into());
        }
        cx.set_known(0, vec![cx.inputs().into()]);
        Ok(vec![sequence_of(&element)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (dtype, y) = (cx.ty(0)?.dtype, cx.output(0)?);
        cx.call_on(&EMPTY, dtype, Vec::new(), vec![y.clone().into()], NoParams)?;
        for i in 0..cx.node().inputs.len() {
            let (x, shape) = (cx.input(i)?.into(), cx.ty(i)?.shape.clone());
            cx.call_on(&PUSH, dtype, vec![x], vec![y.clone().into()], (shape,))?;
        }
        Ok(())
    }
}

/// An empty sequence.
pub struct SequenceEmpty {
    /// The element type.
    pub dtype: DType,
}

impl Op for SequenceEmpty {
    fn name(&self) -> &'static str {
        "SequenceEmpty"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("dtype", self.dtype.code().into());
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.set_known(0, vec![0.into()]);
        Ok(vec![sequence_of(&Type::Never(self.dtype))])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let y = cx.output(0)?.into();
        cx.call_on(&EMPTY, self.dtype, Vec::new(), vec![y], NoParams)
    }
}

/// A sequence with one more tensor, before a position or at the end.
pub struct SequenceInsert;

static INSERT: Kernel<(Vec<Dim>,)> = kernel!(updates checked ANY_IR4 T,
    sequence::sequence_insert::<T>,
    |f, a, p| f(a.output_sequence(0), a.input(0), a.input(1), p.0));

impl Op for SequenceInsert {
    fn name(&self) -> &'static str {
        "SequenceInsert"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (element, added) = (cx.sequence(0)?, cx.of(1, ANY_IR4)?);
        if element.dtype() != Some(added.dtype) {
            let message = "a tensor must have the element type of its sequence";
            return Err(cx.diagnostic(Code::TypeMismatch, message));
        }
        require_position(cx, 2, 1)?;
        if let Some(len) = length(cx, 0) {
            cx.set_known(0, vec![len + 1]);
        }
        Ok(vec![sequence_of(&element.either(&added.clone().into()))])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (sequence, y) = (cx.input(0)?, cx.output(0)?);
        cx.copy(sequence, y.clone());
        let TensorType { dtype, shape } = cx.ty(1)?.clone();
        let x = Arg::from(cx.input(1)?);
        match cx.has(2) {
            false => cx.call_on(&PUSH, dtype, vec![x], vec![y.into()], (shape,)),
            true => {
                let inputs = vec![x, cx.input(2)?.into()];
                cx.call_on(&INSERT, dtype, inputs, vec![y.into()], (shape,))
            }
        }
    }
}

/// A sequence without the tensor at a position, or without the last.
pub struct SequenceErase;

static ERASE: Kernel = kernel!(updates checked ANY_IR4 T, sequence::sequence_erase::<T>,
    |f, a, _p| f(a.output_sequence(0), a.optional(0)));

impl Op for SequenceErase {
    fn name(&self) -> &'static str {
        "SequenceErase"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let element = cx.sequence(0)?;
        if let Some(len) = length(cx, 0) {
            cx.require_at_least(len, &1.into(), "a sequence to erase from must not be empty")?;
            cx.set_known(0, vec![len - 1]);
        }
        require_position(cx, 1, 0)?;
        Ok(vec![sequence_of(element)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (sequence, y) = (cx.input(0)?, cx.output(0)?);
        cx.copy(sequence, y.clone());
        let dtype = dtype(cx, 0)?;
        let position = Arg::from(cx.optional(1)?);
        cx.call_on(&ERASE, dtype, vec![position], vec![y.into()], NoParams)
    }
}

/// Returns the element type of the sequence in input `i`.
pub fn dtype(cx: &Lower<'_>, i: usize) -> Result<DType> {
    let dtype = cx.any(i)?.dtype();
    dtype.ok_or_else(|| cx.unsupported("a sequence whose element type is not known"))
}

/// The tensor at a position of a sequence.
pub struct SequenceAt;

pub static AT: Kernel = kernel!(checked ANY_IR4 T, sequence::sequence_at::<T>,
    |f, a, _p| f(a.sequence(0), a.input(1), a.output(0)));
pub static AT_SIZES: Kernel<(Vec<Option<Dim>>,)> = kernel!(checked ANY_IR4 T,
    sequence::sequence_at_sizes::<T>, |f, a, p| f(a.sizes(), a.sequence(0), a.input(1), p.0));

impl Op for SequenceAt {
    fn name(&self) -> &'static str {
        "SequenceAt"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let element = cx.sequence(0)?;
        require_position(cx, 1, 0)?;
        // In a branch, the other one then decides the type, also where a loop fills the sequence.
        if matches!(element, Type::Never(_)) {
            return Err(cx.diagnostic(Code::TypeMismatch, "the sequence is empty"));
        }
        Ok(vec![item_type(cx, element)?])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let TensorType { dtype, shape } = cx.output_ty(0)?;
        let inputs: Vec<Arg> = vec![cx.input(0)?.into(), cx.input(1)?.into()];
        let shape = unbound_sizes(shape, &cx.node().binds);
        cx.bind(&AT_SIZES, *dtype, inputs.clone(), (shape,))?;
        let y = cx.output(0)?.into();
        cx.call_on(&AT, *dtype, inputs, vec![y], NoParams)
    }
}

/// The number of tensors in a sequence.
pub struct SequenceLength;

pub static LENGTH: Kernel = kernel!(ANY_IR4 T, sequence::sequence_length::<T>,
    |f, a, _p| f(a.sequence(0), a.output(0)));

impl Op for SequenceLength {
    fn name(&self) -> &'static str {
        "SequenceLength"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.sequence(0)?;
        if let Some(len) = length(cx, 0) {
            cx.set_known(0, vec![len.clone()]);
        }
        Ok(vec![Type::tensor::<Dim>(DType::I64, [])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let dtype = dtype(cx, 0)?;
        let (x, y) = (cx.input(0)?.into(), cx.output(0)?.into());
        cx.call_on(&LENGTH, dtype, vec![x], vec![y], NoParams)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        split::{ConcatFromSequence, SplitToSequence},
        *,
    };
    use crate::ops::testing::{Given, check, tensor};
    use DType::{F32, F64, I64};

    fn n() -> Dim {
        Dim::symbol("n")
    }

    fn sequence(element: Type) -> Given {
        Given::Value(sequence_of(&element))
    }

    fn of<const N: usize>(shape: [Dim; N]) -> Given {
        sequence(Type::tensor(F32, shape))
    }

    #[test]
    fn an_item_type_has_the_common_sizes_of_all_tensors() {
        let [x, y] = [[n(), 3.into()], [2.into(), 3.into()]];
        let inputs = [tensor(F32, x.clone()), tensor(F32, y.clone())];
        check(SequenceConstruct, &inputs, 1, "seq(float[?, 3]) = [2]");
        let inputs = [tensor(F32, x.clone()), tensor(F32, x.clone())];
        check(SequenceConstruct, &inputs, 1, "seq(float[n, 3]) = [2]");
        check(SequenceInsert, &[of(x.clone()), tensor(F32, y)], 1, "seq(float[?, 3])");
        check(SequenceInsert, &[of(x.clone()), tensor(F32, [2])], 1, "seq(float[])");
        let never = sequence(Type::Never(F32));
        check(SequenceInsert, &[never, tensor(F32, x.clone())], 1, "seq(float[n, 3])");
        let expected = "a tensor must have the element type of its sequence";
        check(SequenceInsert, &[of(x.clone()), tensor(F64, x.clone())], 1, expected);
        check(SequenceErase, &[of(x)], 1, "seq(float[n, 3])");
    }

    #[test]
    fn an_item_has_fresh_sizes_for_unknown_ones() {
        let at = || tensor::<Dim, 0>(I64, []);
        let open = || [n(), any_size(), any_size()];
        check(SequenceAt, &[of(open()), at()], 1, "float[n, y0_0, y0_1]");
        let never = sequence(Type::Never(F32));
        check(SequenceAt, &[never, at()], 1, "the sequence is empty");
        check(SequenceLength, &[of(open())], 1, "int64");
        let concat = |axis, new_axis| ConcatFromSequence { axis, new_axis };
        check(concat(0, false), &[of(open())], 1, "float[y0_0, y0_1, y0_2]");
        check(concat(-1, true), &[of(open())], 1, "float[n, y0_0, y0_1, y0_2]");
        let expected = "`axis` is 3, but there are 3 axes";
        check(concat(3, false), &[of(open())], 1, expected);
        let expected = "input 0 must be a sequence of tensors, but is float[2]";
        check(SequenceAt, &[tensor(F32, [2]), at()], 1, expected);
    }

    #[test]
    fn equal_parts_have_a_known_size() {
        let split = |axis, keepdims| SplitToSequence { axis, keepdims };
        let x = || tensor(F32, [n(), 6.into()]);
        check(split(0, true), &[x()], 1, "seq(float[1, 6]) = [n]");
        check(split(-1, false), &[x()], 1, "seq(float[n]) = [6]");
        let parts = |parts: &[i64]| Given::Ints(parts.to_vec());
        check(split(1, true), &[x(), parts(&[3, 3])], 1, "seq(float[n, 3]) = [2]");
        check(split(1, true), &[x(), parts(&[2, 4])], 1, "seq(float[n, ?]) = [2]");
        check(split(1, true), &[x(), tensor::<Dim, 0>(I64, [])], 1, "seq(float[n, ?])");
        let expected = "the axis and the sum of its parts must be equal, but are 6 and 7";
        check(split(1, true), &[x(), parts(&[3, 4])], 1, expected);
    }

    #[test]
    fn positions_count_from_both_ends() {
        let indices = [-3, -2, 0, 2, 3].map(|position| resolve_position(position, 3, 2));
        assert_eq!(indices, [None, Some(0), Some(0), Some(2), None]);
    }
}
