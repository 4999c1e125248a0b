//! What iterations give each other.

use super::common_element_type;
use crate::{
    diag::Result,
    dim::Dim,
    ir::{Infer, Inferred, Lower, Stop},
    plan::{Block, Carried, Common, Operand, Resized},
    ty::{TensorType, Type},
};
use std::collections::BTreeSet;

/// The values that iterations give each other: where they stand among the inputs of the node, the
/// inputs of the body and its results, and how many they are.
pub struct Places {
    /// The first input of the node.
    pub input: usize,
    /// The first input of the body.
    pub given: usize,
    /// The first result of the body.
    pub result: usize,
    /// How many there are.
    pub count: usize,
}

/// Their types.
pub fn types(cx: &mut Infer<'_>, places: &Places) -> Inferred {
    let before = cx.region_inputs(0);
    let gave: Vec<Type> = cx.region_results(0);
    let mut types = Vec::new();
    for j in 0..places.count {
        let initial = cx.any(places.input + j)?.clone();
        let given = before.as_ref().and_then(|before| before.get(places.given + j));
        types.push(match given.zip(gave.get(places.result + j)) {
            Some((given, gave)) => widened(cx, &initial, given, gave),
            None => initial,
        });
    }
    Ok(types)
}

/// The type of such a value, given what the first iteration is given, and what the body was given and
/// gave when it was tried before.
fn widened(cx: &mut Infer<'_>, initial: &Type, given: &Type, gave: &Type) -> Type {
    let wide = match (given.content(), gave.content()) {
        (Type::Never(_), Type::Tensor(gave)) => {
            let mut wide = gave.clone();
            for size in wide.shape.iter_mut().filter(|size| size.known().is_none()) {
                *size = cx.fresh("iteration_size", None);
            }
            wide.into()
        }
        (Type::Tensor(wide), Type::Tensor(gave)) => {
            widened_tensor(cx, initial.content(), wide.clone(), gave).into()
        }
        (one, other) => match (one.element(), other.element()) {
            (Some(a), Some(b)) if a.dtype() == b.dtype() => {
                Type::Sequence(common_element_type(a, b).into())
            }
            _ => one.clone(),
        },
    };
    let may_be_absent = [given, gave].iter().any(|ty| matches!(ty, Type::Optional(_)));
    if may_be_absent { Type::Optional(wide.into()) } else { wide }
}

fn widened_tensor(
    cx: &mut Infer<'_>,
    initial: &Type,
    mut wide: TensorType,
    gave: &TensorType,
) -> TensorType {
    for (axis, size) in wide.shape.iter_mut().enumerate() {
        let fixed = match initial.as_tensor() {
            Some(initial) => initial.shape.get(axis) == Some(size),
            None => size.known().is_some(),
        };
        if fixed && gave.shape.get(axis).is_some_and(|gave| gave != size) {
            *size = cx.fresh("iteration_size", None);
        }
    }
    wide
}

/// What is carried from iteration to iteration, for the plan, and the sizes that change with it.
pub fn lower(
    cx: &mut Lower<'_>,
    places: &Places,
    results: &[Operand],
) -> Result<(Vec<Carried>, Vec<Resized>)> {
    let (mut all, mut resized) = (Vec::new(), Vec::new());
    for (j, next) in results.iter().enumerate() {
        let mut initial = cx.input(places.input + j)?;
        let (value, mut next) = (cx.region_input(0, places.given + j)?, next.clone());
        let at_first = cx.any(places.input + j)?.content();
        let given = cx.region_input_ty(0, places.given + j);
        let gave = cx.result_ty(0, places.result + j).map(Type::content);
        resized.extend(sizes(at_first, given.content(), gave));
        // A value that is never there is some other memory of the size that it would have.
        if matches!((at_first, given.content()), (Type::Never(_), Type::Tensor(_))) {
            initial = cx.like(&value);
        }
        if matches!((gave, given.content()), (Some(Type::Never(_)), Type::Tensor(_))) {
            next = cx.like(&value);
        }
        all.push(Carried { initial, value, next });
    }
    for j in 0..places.count {
        if let Some(value) = cx.region_input_beside(0, places.given + j) {
            let initial = cx.input_given(places.input + j);
            let next = cx.given(0, places.result + j);
            all.push(Carried { initial, value, next });
        }
    }
    Ok((all, resized))
}

/// The sizes of a value that change from iteration to iteration: at first, and after a iteration.
fn sizes(at_first: &Type, given: &Type, gave: Option<&Type>) -> Vec<Resized> {
    let Some(given) = given.as_tensor() else { return Vec::new() };
    let size = |ty: Option<&Type>, axis: usize| match ty.map(Type::content) {
        Some(Type::Tensor(ty)) => ty.shape.get(axis).cloned(),
        Some(Type::Never(_)) => Some(0.into()),
        _ => None,
    };
    let each = given.shape.iter().enumerate().filter_map(|(axis, dim)| {
        let (at_first, after) = (size(Some(at_first), axis)?, size(gave, axis)?);
        let symbol = dim.as_symbol()?.clone();
        (*dim != at_first).then_some(Resized { symbol, at_first, after })
    });
    each.collect()
}

/// Copies aside what a iteration gives from where the next iteration finds another value, so that the order
/// in which values are handed on does not matter.
pub fn keep_apart(cx: &mut Lower<'_>, carried: &mut [Carried], body: &mut Block) {
    let values: Vec<Operand> = carried.iter().map(|carried| carried.value.clone()).collect();
    for carried in carried {
        let taken = values.iter().any(|value| value.buffer == carried.next.buffer);
        if taken && carried.next != carried.value {
            let aside = cx.like(&carried.next);
            body.steps.push(cx.copy_step(carried.next.clone(), aside.clone()));
            carried.next = aside;
        }
    }
}

/// The type of what a iteration gives to be put behind what the iterations before gave, as it is known behind
/// the loop: a size that a iteration settles has another name there, and so has one that changes from iteration
/// to iteration, which behind the loop is what the iteration after the last one would be given.
pub fn stacked(cx: &mut Infer<'_>, places: &Places, item: &Type) -> Inferred<TensorType> {
    let Type::Tensor(TensorType { dtype, shape }) = item else { return Err(Stop::Unknown) };
    let mut inside = cx.settled_inside(0);
    let given = cx.region_inputs(0).unwrap_or_default();
    for (j, given) in given.iter().skip(places.given).take(places.count).enumerate() {
        let resized = sizes(cx.any(places.input + j)?.content(), given.content(), Some(given));
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

/// The sizes of such a value, result `result` of the body, that have another name behind the loop,
/// where its output `output` is made of parts of the sizes `outside`: a iteration settles them, so only
/// running tells whether all iterations settle the same.
pub fn sizes_of_parts(
    cx: &Lower<'_>,
    result: usize,
    output: usize,
    outside: &[Dim],
) -> Result<Vec<Common>> {
    let name = cx.output_name(output)?;
    let part = cx.result_ty(0, result).and_then(Type::as_tensor);
    let part = part.map_or(&[][..], |ty| &ty.shape);
    let each = part.iter().zip(outside).enumerate().filter_map(|(axis, (size, outside))| {
        let symbol = outside.as_symbol().filter(|_| size != outside)?.clone();
        let (node, output) = (cx.node().name.clone(), name.to_owned());
        Some(Common { node, output, axis, symbol, size: size.clone() })
    });
    Ok(each.collect())
}
