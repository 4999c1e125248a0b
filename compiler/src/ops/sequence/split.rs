//! Splitting tensors into sequences, and concatenating sequences.

use super::{cast_position, unbound_sizes};
use crate::{
    diag::Result,
    dim::Dim,
    dtype::ANY_IR4,
    ir::{Attributes, Infer, Inferred, Lower, Op, Stop},
    ops::{Entry, entry},
    plan::{Arg, Kernel, kernel},
    tensor::Tensor,
    ty::{TensorType, Type, any_size},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("ConcatFromSequence", 11, |node| {
        let axis = node.required_int("axis")?;
        Ok(Rc::new(ConcatFromSequence { axis, new_axis: node.flag("new_axis", false)? }))
    }),
    entry("SplitToSequence", 11, |node| {
        cast_position(node, 1)?;
        // With the input `split`, the parts keep the axis.
        let keepdims = node.flag("keepdims", true)? || node.ty(1).is_some();
        Ok(Rc::new(SplitToSequence { axis: node.int("axis", 0)?, keepdims }))
    }),
];

/// The concatenation of a sequence's tensors, along one of their axes or a new one.
pub struct ConcatFromSequence {
    /// The axis of the result.
    pub axis: i64,
    /// Whether the axis is a new one.
    pub new_axis: bool,
}

static CONCAT: Kernel<(Dim,)> = kernel!(checked ANY_IR4 T, sequence::concat_from_sequence::<T>,
    |f, a, p| f(a.sequence(0), a.output(0), p.0));
static CONCAT_SIZES: Kernel<(usize, Vec<Option<Dim>>)> = kernel!(checked ANY_IR4 T,
    sequence::concat_from_sequence_sizes::<T>, |f, a, p| f(a.sizes(), a.sequence(0), p.0, p.1));
static STACK_SIZES: Kernel<(usize, Vec<Option<Dim>>)> = kernel!(checked ANY_IR4 T,
    sequence::stack_sequence_sizes::<T>, |f, a, p| f(a.sizes(), a.sequence(0), p.0, p.1));

impl Op for ConcatFromSequence {
    fn name(&self) -> &'static str {
        "ConcatFromSequence"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("axis", self.axis);
        a.flag("new_axis", self.new_axis);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let TensorType { dtype, mut shape } = match cx.sequence(0)? {
            Type::Tensor(ty) => ty.clone(),
            Type::Unranked(dtype) => return Ok(vec![Type::Unranked(*dtype)]),
            _ => return Err(Stop::Unknown),
        };
        let axis = cx.axis("axis", self.axis, shape.len() + usize::from(self.new_axis))?;
        let len = cx.known(0).and_then(<[Dim]>::first).cloned();
        if self.new_axis {
            shape.insert(axis, len.unwrap_or_else(any_size));
        } else {
            // The size of the axis may differ between the tensors, and still be concatenated.
            shape[axis] = match len {
                Some(len) if shape[axis] != any_size() => &shape[axis] * &len,
                _ => any_size(),
            };
        }
        let shape = super::with_fresh_sizes(cx, &shape);
        Ok(vec![TensorType { dtype, shape }.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let TensorType { dtype, shape } = cx.output_ty(0)?;
        let axis = cx.axis(self.axis, shape.len());
        let x = Arg::from(cx.input(0)?);
        let kernel = if self.new_axis { &STACK_SIZES } else { &CONCAT_SIZES };
        let open = unbound_sizes(shape, &cx.node().binds);
        cx.bind(kernel, *dtype, vec![x.clone()], (axis, open))?;
        let y = cx.output(0)?.into();
        let outer = shape[..axis].iter().product();
        cx.call_on(&CONCAT, *dtype, vec![x], vec![y], (outer,))
    }
}

/// The parts of a tensor along an axis. Input 1 holds their sizes, or one size for all but the
/// last; without it the parts have size 1.
pub struct SplitToSequence {
    /// The axis.
    pub axis: i64,
    /// Whether the parts keep the axis.
    pub keepdims: bool,
}

static SPLIT: Kernel<(Vec<Dim>, usize)> = kernel!(checked ANY_IR4 T,
    sequence::split_to_sequence::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output_sequence(0), p.0, p.1));
static SPLIT_EVENLY: Kernel<(Vec<Dim>, usize)> = kernel!(checked ANY_IR4 T,
    sequence::split_to_sequence_evenly::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output_sequence(0), p.0, p.1));
static UNSTACK: Kernel<(Vec<Dim>, usize)> = kernel!(ANY_IR4 T, sequence::unstack_to_sequence::<T>,
    |f, a, p| f(a.input(0), a.output_sequence(0), p.0, p.1));

impl SplitToSequence {
    /// Returns the size that all parts of an axis of `len` elements have, and their number, if they
    /// are known.
    fn parts(&self, cx: &mut Infer<'_>, len: &Dim) -> Inferred<[Option<Dim>; 2]> {
        if !cx.has(1) {
            let one = len.known().filter(|&len| len > 0).map(|_| 1.into());
            return Ok([one, Some(len.clone())]);
        }
        let known = cx.known(1);
        if cx.ty(1)?.rank() > 0 {
            let count = cx.shape(1)?[0].clone();
            for part in known.into_iter().flatten() {
                cx.require_at_least(part, &0.into(), "the size of a part must not be negative")?;
            }
            let Some(parts) = known else { return Ok([None, Some(count)]) };
            let sum = parts.iter().cloned().sum();
            cx.require_equal(len, &sum, "the axis and the sum of its parts")?;
            let same = parts.first().filter(|first| parts.iter().all(|part| part == *first));
            return Ok([same.cloned(), Some(count)]);
        }
        let Some([part]) = known else { return Ok([None, None]) };
        cx.require_at_least(part, &1.into(), "the size of a part must be positive")?;
        let count = len.ceil_div(part);
        let same = match (len.known(), part.known()) {
            (Some(len), Some(part)) if len > 0 && (len % part == 0 || len < part) => {
                Some(part.min(len).into())
            }
            _ => None,
        };
        Ok([same, Some(count)])
    }
}

impl Op for SplitToSequence {
    fn name(&self) -> &'static str {
        "SplitToSequence"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("axis", self.axis);
        a.flag("keepdims", self.keepdims);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let TensorType { dtype, mut shape } = cx.of(0, ANY_IR4)?.clone();
        let axis = cx.axis("axis", self.axis, shape.len())?;
        let len = shape[axis].clone();
        let [same, count] = self.parts(cx, &len)?;
        if let Some(count) = count {
            cx.set_known(0, vec![count]);
        }
        shape[axis] = same.unwrap_or_else(any_size);
        if !self.keepdims {
            shape.remove(axis);
        } else if !cx.has(1) {
            shape[axis] = 1.into();
        }
        Ok(vec![super::sequence_of(&TensorType { dtype, shape }.into())])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let TensorType { dtype, shape } = cx.ty(0)?.clone();
        let axis = cx.axis(self.axis, shape.len());
        let (x, y) = (Arg::from(cx.input(0)?), cx.output(0)?.into());
        let geometry = (shape, axis);
        if !self.keepdims {
            return cx.call_on(&UNSTACK, dtype, vec![x], vec![y], geometry);
        }
        if !cx.has(1) {
            let one = cx.weight(&Tensor::from_int(1)).into();
            return cx.call_on(&SPLIT_EVENLY, dtype, vec![x, one], vec![y], geometry);
        }
        let kernel = if cx.ty(1)?.rank() > 0 { &SPLIT } else { &SPLIT_EVENLY };
        let inputs = vec![x, cx.input(1)?.into()];
        cx.call_on(kernel, dtype, inputs, vec![y], geometry)
    }
}
