//! Loop-carried values.

use super::common_element_type;
use crate::{
    diag::{Code, Result},
    dim::Dim,
    ir::{Infer, Inferred, Lower, Stop},
    plan::{Block, Carried, Common, Operand, Resized},
    ty::{TensorType, Type},
};
use std::collections::BTreeSet;

/// The positions of the loop-carried values among the inputs of the node, and the inputs and
/// results of the body.
pub struct CarriedValues {
    /// The index of the first one's initial value among the inputs of the node.
    pub input: usize,
    /// The index of the first one among the inputs of the body.
    pub body_input: usize,
    /// The index of the first one among the results of the body.
    pub result: usize,
    /// The number of loop-carried values.
    pub count: usize,
}

/// The types of the values in the body, wide enough for all iterations tried so far.
pub fn types(cx: &mut Infer<'_>, values: &CarriedValues) -> Inferred {
    let inputs = cx.region_inputs(0);
    let results: Vec<Type> = cx.region_results(0);
    let mut types = Vec::new();
    for j in 0..values.count {
        let initial = cx.any(values.input + j)?.clone();
        let input = inputs.as_ref().and_then(|inputs| inputs.get(values.body_input + j));
        types.push(match input.zip(results.get(values.result + j)) {
            Some((input, result)) => widen(cx, &initial, input, result),
            None => initial,
        });
    }
    Ok(types)
}

/// Returns an error for a value whose element type or rank changes from one iteration to the next.
pub fn require_one_type(cx: &Infer<'_>, values: &CarriedValues) -> Inferred<()> {
    let (inputs, results) = (cx.region_inputs(0).unwrap_or_default(), cx.region_results(0));
    let inputs = inputs.iter().skip(values.body_input).take(values.count);
    for (input, result) in inputs.zip(results.iter().skip(values.result)) {
        let (code, part) = match (input.content(), result.content()) {
            (Type::Tensor(a), Type::Tensor(b)) if a.dtype != b.dtype => {
                (Code::TypeMismatch, "element type")
            }
            (Type::Tensor(a), Type::Tensor(b)) if a.rank() != b.rank() => {
                (Code::UnknownShape, "rank")
            }
            (Type::Tensor(_), Type::Sequence(_)) | (Type::Sequence(_), Type::Tensor(_)) => {
                (Code::TypeMismatch, "type")
            }
            (a, b) => match (a.element(), b.element()) {
                (Some(a), Some(b)) if a.dtype() != b.dtype() => {
                    (Code::TypeMismatch, "element type")
                }
                _ => continue,
            },
        };
        let message =
            format!("the {part} of a loop-carried value changes: {input} becomes {result}");
        return Err(cx.diagnostic(code, message));
    }
    Ok(())
}

/// Widens the type of a loop-carried value, from its initial type and the types of the body's input
/// and result when the body was last inferred.
fn widen(cx: &mut Infer<'_>, initial: &Type, input: &Type, result: &Type) -> Type {
    let wide = match (input.content(), result.content()) {
        (Type::Never(_), Type::Tensor(result)) => {
            let mut wide = result.clone();
            for size in wide.shape.iter_mut().filter(|size| size.known().is_none()) {
                *size = cx.fresh("iteration_size", None);
            }
            wide.into()
        }
        (Type::Tensor(wide), Type::Tensor(result)) => {
            widen_tensor(cx, initial.content(), wide.clone(), result).into()
        }
        (one, other) => match (one.element(), other.element()) {
            (Some(a), Some(b)) if a.dtype() == b.dtype() => {
                Type::Sequence(common_element_type(a, b).into())
            }
            _ => one.clone(),
        },
    };
    let may_be_absent = [input, result].iter().any(|ty| matches!(ty, Type::Optional(_)));
    if may_be_absent { Type::Optional(wide.into()) } else { wide }
}

fn widen_tensor(
    cx: &mut Infer<'_>,
    initial: &Type,
    mut wide: TensorType,
    result: &TensorType,
) -> TensorType {
    for (axis, size) in wide.shape.iter_mut().enumerate() {
        let fixed = match initial.as_tensor() {
            Some(initial) => initial.shape.get(axis) == Some(size),
            None => size.known().is_some(),
        };
        if fixed && result.shape.get(axis).is_some_and(|result| result != size) {
            *size = cx.fresh("iteration_size", None);
        }
    }
    wide
}

/// The loop-carried values as the plan has them, and the sizes that change between iterations.
pub fn lower(
    cx: &mut Lower<'_>,
    values: &CarriedValues,
    results: &[Operand],
) -> Result<(Vec<Carried>, Vec<Resized>)> {
    let (mut all, mut resized) = (Vec::new(), Vec::new());
    for (j, next) in results.iter().enumerate() {
        let mut initial = cx.input(values.input + j)?;
        let (value, mut next) = (cx.region_input(0, values.body_input + j)?, next.clone());
        let initial_ty = cx.any(values.input + j)?.content();
        let input_ty = cx.region_input_ty(0, values.body_input + j).content();
        let result_ty = cx.result_ty(0, values.result + j).map(Type::content);
        resized.extend(changing_sizes(initial_ty, input_ty, result_ty));
        // A value that never exists becomes other memory of the size that it would have.
        if matches!((initial_ty, input_ty), (Type::Never(_), Type::Tensor(_))) {
            initial = cx.like(&value);
        }
        if matches!((result_ty, input_ty), (Some(Type::Never(_)), Type::Tensor(_))) {
            next = cx.like(&value);
        }
        all.push(Carried { initial, value, next });
    }
    for j in 0..values.count {
        if let Some(value) = cx.region_input_companion(0, values.body_input + j) {
            let initial = cx.input_given(values.input + j);
            let next = cx.given(0, values.result + j);
            all.push(Carried { initial, value, next });
        }
    }
    Ok((all, resized))
}

/// The sizes of a value that change between iterations, each with its size before the first
/// iteration and after an iteration.
fn changing_sizes(initial: &Type, input: &Type, result: Option<&Type>) -> Vec<Resized> {
    let Some(input) = input.as_tensor() else { return Vec::new() };
    let size = |ty: Option<&Type>, axis: usize| match ty.map(Type::content) {
        Some(Type::Tensor(ty)) => ty.shape.get(axis).cloned(),
        Some(Type::Never(_)) => Some(0.into()),
        _ => None,
    };
    let each = input.shape.iter().enumerate().filter_map(|(axis, dim)| {
        let (at_first, after) = (size(Some(initial), axis)?, size(result, axis)?);
        let symbol = dim.as_symbol()?.clone();
        (*dim != at_first).then_some(Resized { symbol, at_first, after })
    });
    each.collect()
}

/// Copies each result that lies in the buffer of another loop-carried value to scratch memory, so
/// that the order in which the values are passed to the next iteration does not matter.
pub fn copy_overwritten(cx: &mut Lower<'_>, carried: &mut [Carried], body: &mut Block) {
    let values: Vec<Operand> = carried.iter().map(|carried| carried.value.clone()).collect();
    for carried in carried {
        let is_overwritten = values.iter().any(|value| value.buffer == carried.next.buffer);
        if is_overwritten && carried.next != carried.value {
            let copy = cx.like(&carried.next);
            body.steps.push(cx.copy_step(carried.next.clone(), copy.clone()));
            carried.next = copy;
        }
    }
}

/// The type, outside of the loop, of the item of a scan output that each iteration appends.
///
/// A size that depends on a symbol of the body gets a new symbol: one that the body defines, and
/// one that changes between iterations, since outside of the loop its symbol is the size after the
/// last iteration.
pub fn item_type(cx: &mut Infer<'_>, values: &CarriedValues, item: &Type) -> Inferred<TensorType> {
    let Type::Tensor(TensorType { dtype, shape }) = item else { return Err(Stop::Unknown) };
    let mut inside = cx.settled_inside(0);
    let inputs = cx.region_inputs(0).unwrap_or_default();
    for (j, input) in inputs.iter().skip(values.body_input).take(values.count).enumerate() {
        let initial = cx.any(values.input + j)?.content();
        let resized = changing_sizes(initial, input.content(), Some(input));
        inside.extend(resized.into_iter().map(|size| size.symbol));
    }
    let mut outside = Vec::new();
    for size in shape {
        let mut symbols = BTreeSet::new();
        size.symbols(&mut symbols);
        outside.push(match symbols.is_disjoint(&inside) {
            true => size.clone(),
            false => {
                let max = cx.upper(size);
                cx.fresh("item_size", max)
            }
        });
    }
    Ok(TensorType { dtype: *dtype, shape: outside })
}

/// The data-dependent sizes of the items of scan output `output`, which are result `result` of the
/// body and have the sizes `outside` after the loop. Only a check at run time tells whether all
/// iterations define the same sizes.
pub fn item_sizes(
    cx: &Lower<'_>,
    result: usize,
    output: usize,
    outside: &[Dim],
) -> Result<Vec<Common>> {
    let name = cx.output_name(output)?;
    let item = cx.result_ty(0, result).and_then(Type::as_tensor);
    let item = item.map_or(&[][..], |ty| &ty.shape);
    let each = item.iter().zip(outside).enumerate().filter_map(|(axis, (size, outside))| {
        let symbol = outside.as_symbol().filter(|_| size != outside)?.clone();
        let (node, output) = (cx.node().name.clone(), name.to_owned());
        Some(Common { node, output, axis, symbol, size: size.clone() })
    });
    Ok(each.collect())
}
