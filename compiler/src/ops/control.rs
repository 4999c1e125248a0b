//! Control flow.

use super::{Entry, entry};
use crate::{
    array::Array,
    diag::{Code, Diagnostic, Result},
    dim::{Dim, Symbol},
    dtype::DType,
    ir::{Attributes, Infer, Inferred, Lower, Op, Reader, Stop, Views},
    plan::{self, Block, Call, Carried, Cond, Kernel, Operand, Stacked, Step, Turns, kernel},
    ty::{TensorType, Type},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("If", 1, |node| {
        node.region("then_branch")?;
        node.region("else_branch")?;
        Ok(Rc::new(If))
    }),
    entry("Loop", 1, |node| {
        node.region("body")?;
        Ok(Rc::new(Loop))
    }),
    entry("Scan", 9, read_scan),
];

/// One of two regions, as the input says.
pub struct If;

/// What two branches agree on.
pub enum Joined {
    /// The type that both give.
    Same(Type),
    /// Both give tensors of so many axes, of which some differ in size.
    Sizes(TensorType, Vec<usize>),
    /// They differ in more than sizes, or a type is not known.
    Differ,
}

/// What the types of two branches have in common.
pub fn join(a: &Type, b: &Type) -> Joined {
    let (Type::Tensor(a), Type::Tensor(b)) = (a, b) else {
        return if a == b && *a != Type::Unknown {
            Joined::Same(a.clone())
        } else {
            Joined::Differ
        };
    };
    if (a.dtype, a.rank()) != (b.dtype, b.rank()) {
        return Joined::Differ;
    }
    let differs = |&axis: &usize| a.shape[axis] != b.shape[axis];
    match (0..a.rank()).filter(differs).collect::<Vec<_>>() {
        same if same.is_empty() => Joined::Same(a.clone().into()),
        differing => Joined::Sizes(a.clone(), differing),
    }
}

/// The type of what the branches give, and the axes whose sizes the one that runs says. A branch
/// that is sure to be refused gives nothing; what the other settles itself is not known outside.
fn given(
    types: [&Type; 2],
    refused: [bool; 2],
    settles: &dyn Fn(usize, &Dim) -> bool,
) -> (Type, Vec<usize>) {
    let alone = |i: usize| {
        let shape = types[i].as_tensor().map_or(&[][..], |ty| &ty.shape);
        let axes = (0..shape.len()).filter(|&axis| settles(i, &shape[axis])).collect();
        (types[i].clone(), axes)
    };
    match (refused, join(types[0], types[1])) {
        ([true, false], _) => alone(1),
        ([false, true], _) => alone(0),
        (_, Joined::Same(ty)) => (ty, Vec::new()),
        (_, Joined::Sizes(ty, axes)) => (ty.into(), axes),
        (_, Joined::Differ) => (Type::Unknown, Vec::new()),
    }
}

impl Op for If {
    fn name(&self) -> &'static str {
        "If"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let outputs = cx.outputs();
        let (then, otherwise): (Vec<Type>, Vec<Type>) =
            (cx.region_outputs(0).cloned().collect(), cx.region_outputs(1).cloned().collect());
        if then.len() != outputs || otherwise.len() != outputs {
            let message = format!(
                "the branches give {} and {} values, but the node has {outputs} outputs",
                then.len(),
                otherwise.len()
            );
            return Err(Diagnostic::new(Code::BadArity, message).into());
        }
        let refused = [cx.region_is_faulty(0), cx.region_is_faulty(1)];
        let mut types = Vec::new();
        for branches in then.iter().zip(&otherwise) {
            let branches = [branches.0, branches.1];
            let (mut ty, axes) = given(branches, refused, &|i, dim| cx.region_settles(i, dim));
            if let Type::Tensor(ty) = &mut ty {
                for axis in axes {
                    let size = |ty: &'_ Type| Some(ty.as_tensor()?.shape.get(axis)?.clone());
                    let bounds = branches.into_iter().filter_map(size).map(|dim| cx.upper(&dim));
                    let max = bounds.reduce(|a, b| Some(a?.max(b?))).flatten();
                    ty.shape[axis] = cx.fresh("branch", max);
                }
            }
            types.push(ty);
        }
        Ok(types)
    }

    fn views(&self, cx: &mut Views<'_>) {
        for i in 0..cx.outputs() {
            for branch in 0..2 {
                cx.result_within(branch, i, i);
            }
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let cond = match cx.known(0) {
            Some([dim]) => Cond::Size(dim.clone()),
            _ => Cond::Tensor(cx.input(0)?),
        };
        let outputs = (0..cx.node().outputs.len()).map(|i| cx.output(i)).collect::<Result<_>>()?;
        let mut branches = [cx.block(0)?, cx.block(1)?];
        let refused = [cx.region_is_faulty(0), cx.region_is_faulty(1)];
        for i in 0..cx.node().outputs.len() {
            let ty = |branch| cx.result_ty(branch, i).map_or(Type::Unknown, |ty| ty.clone().into());
            let types = [ty(0), ty(1)];
            let (_, axes) = given(types.each_ref(), refused, &|i, dim| cx.region_settles(i, dim));
            for axis in axes {
                for (branch, block) in branches.iter_mut().enumerate() {
                    let size = cx.result_ty(branch, i).and_then(|ty| ty.shape.get(axis));
                    block.sizes.push(size.cloned().unwrap_or_else(|| 0.into()));
                }
            }
        }
        let (node, binds) = (cx.comment(), cx.node().binds.clone());
        cx.step(Step::If(plan::If { node, cond, binds, outputs, branches }));
        Ok(())
    }
}

/// A region that is run again and again, as long as its condition holds and at most as often as
/// the first input says.
pub struct Loop;

/// The inputs of the body before the values that turns give each other: the turn's number and
/// the condition.
const HEAD: usize = 2;

static NUMBER: Kernel<(Vec<Dim>,)> =
    kernel!(I64_ONLY T, reshape::shape, |f, a, p| f(a.output(0), p.0));

/// The type of a value that turns give each other, given what the first turn is given, and what
/// the body was given and gave when it was tried before.
fn widened(cx: &mut Infer<'_>, initial: &Type, given: &Type, gave: &Type) -> Type {
    let (Type::Tensor(initial), Type::Tensor(given), Type::Tensor(gave)) = (initial, given, gave)
    else {
        return given.clone();
    };
    let mut wide = given.clone();
    for (axis, size) in wide.shape.iter_mut().enumerate() {
        let fixed = initial.shape.get(axis) == Some(size);
        if fixed && gave.shape.get(axis).is_some_and(|gave| gave != size) {
            *size = cx.fresh("turn_size", None);
        }
    }
    wide.into()
}

/// The types of what turns give each other, from input `first` of the node and input `head` of
/// the body on, `count` of them.
fn carried_types(
    cx: &mut Infer<'_>,
    first: usize,
    head: usize,
    count: usize,
    results: usize,
) -> Inferred {
    let before = cx.region_inputs(0);
    let gave: Vec<Type> = cx.region_results(0);
    let mut types = Vec::new();
    for j in 0..count {
        let initial = cx.any(first + j)?.clone();
        let tried =
            before.as_ref().and_then(|before| before.get(head + j)).zip(gave.get(results + j));
        types.push(match tried {
            Some((given, gave)) => widened(cx, &initial, given, gave),
            None => initial,
        });
    }
    Ok(types)
}

/// What the operator itself carries from turn to turn, for the plan.
fn carried(
    cx: &mut Lower<'_>,
    first: usize,
    head: usize,
    results: &[Operand],
    result: usize,
) -> Result<Vec<Carried>> {
    let mut all = Vec::new();
    for (j, next) in results.iter().enumerate() {
        let (initial, value) = (cx.input(first + j)?, cx.region_input(0, head + j)?);
        let (given, at_first) = (cx.region_input_ty(0, head + j)?, cx.ty(first + j)?);
        let gave = cx.result_ty(0, result + j);
        let changing = (0..given.rank()).filter(|&axis| given.shape[axis] != at_first.shape[axis]);
        let sizes = changing.filter_map(|axis| {
            let symbol = given.shape[axis].as_symbol()?.clone();
            let after = gave?.shape.get(axis)?.clone();
            Some((symbol, at_first.shape[axis].clone(), after))
        });
        all.push(Carried { initial, value, next: next.clone(), sizes: sizes.collect() });
    }
    Ok(all)
}

/// Copies aside what a turn gives from where the next turn finds another value, so that the order
/// in which values are handed on does not matter.
fn keep_apart(cx: &mut Lower<'_>, carried: &mut [Carried], body: &mut Block, types: &[TensorType]) {
    let values: Vec<Operand> = carried.iter().map(|carried| carried.value.clone()).collect();
    for (carried, ty) in carried.iter_mut().zip(types) {
        let taken = values.iter().any(|value| value.buffer == carried.next.buffer);
        if taken && carried.next != carried.value {
            let aside = cx.scratch(ty.dtype, carried.next.len.clone());
            body.steps.push(cx.copy_step(ty.dtype, carried.next.clone(), aside.clone()));
            carried.next = aside;
        }
    }
}

impl Loop {
    /// The number of values that turns give each other.
    fn carried(inputs: usize) -> usize {
        inputs.saturating_sub(HEAD)
    }

    /// The greatest number of turns, and whether it is the number.
    fn turns(cx: &Infer<'_>) -> (Option<Dim>, bool) {
        let most = cx.has(0).then(|| cx.known(0).and_then(|known| known.first())).flatten();
        let starts = !cx.has(1) || cx.ints(1) == Some(vec![1]);
        (most.cloned(), starts && cx.result_stays_true(0, 0, 1))
    }
}

impl Op for Loop {
    fn name(&self) -> &'static str {
        "Loop"
    }

    fn region_inputs(&self, _: usize, cx: &mut Infer<'_>) -> Inferred {
        let scalar = |dtype| Type::tensor::<Dim>(dtype, []);
        let mut types = vec![scalar(DType::I64), scalar(DType::Bool)];
        let count = Self::carried(cx.given());
        types.extend(carried_types(cx, HEAD, HEAD, count, 1)?);
        Ok(types)
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let count = Self::carried(cx.given());
        let (most, exact) = Self::turns(cx);
        let bound = most.as_ref().and_then(|most| cx.upper(most));
        let turn = cx.fresh("turn", bound);
        let given = cx.region_inputs(0).unwrap_or_default();
        let gave = cx.region_results(0);
        if gave.len() < 1 + count || cx.outputs() > gave.len() - 1 {
            let message = format!(
                "the body gives {} values, but the node carries {count} and has {} outputs",
                gave.len(),
                cx.outputs()
            );
            return Err(Diagnostic::new(Code::BadArity, message).into());
        }
        let mut types: Vec<Type> = given.into_iter().skip(HEAD).collect();
        for item in &gave[1 + count..] {
            let Type::Tensor(item) = item else { return Err(Stop::Unknown) };
            let turns = most.clone().filter(|_| exact).unwrap_or_else(|| turn.clone());
            let shape = std::iter::once(&turns).chain(&item.shape).cloned();
            types.push(TensorType { dtype: item.dtype, shape: shape.collect() }.into());
        }
        Ok(types)
    }

    fn views(&self, cx: &mut Views<'_>) {
        for j in 0..Self::carried(cx.inputs()) {
            cx.region_input_is_output(0, HEAD + j, j);
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let count = Self::carried(cx.node().inputs.len());
        let turn = cx.node().binds[0].clone();
        let most = match (cx.has(0), cx.known(0)) {
            (false, _) => None,
            (true, Some([dim])) => Some(Turns::Size(dim.clone())),
            (true, _) => Some(Turns::Tensor(cx.input(0)?)),
        };
        let starts = !cx.has(1) || cx.ints(1) == Some(vec![1]);
        let cond = if starts { None } else { Some(cx.input(1)?) };
        let mut body = cx.block(0)?;
        let goes_on = cx.result_stays_true(0, 0, 1);
        if most.is_none() && cond.is_none() && goes_on {
            return Err(cx.unsupported("a loop that never ends"));
        }
        let results = std::mem::take(&mut body.results);
        let again = (!goes_on).then(|| results[0].clone());
        self.say_turn(cx, &mut body, &turn)?;
        let mut carried = carried(cx, HEAD, HEAD, &results[1..=count], 1)?;
        let types = (0..count).filter_map(|j| cx.result_ty(0, 1 + j).cloned()).collect::<Vec<_>>();
        keep_apart(cx, &mut carried, &mut body, &types);
        let mut stacked = Vec::new();
        for (i, item) in results.into_iter().enumerate().skip(1 + count) {
            let Some(all) = cx.optional_output(i - 1)? else { continue };
            let counted = cx.output_ty(i - 1)?.shape[0] != Dim::symbol(&turn);
            let at = counted.then(|| Dim::symbol(&turn) * &item.len);
            stacked.push(Stacked { item, all, at });
        }
        let node = cx.comment();
        cx.step(Step::Loop(plan::Loop { node, turn, most, cond, again, carried, stacked, body }));
        Ok(())
    }
}

impl Loop {
    /// Gives the body the number of the turn, and that the condition holds.
    fn say_turn(&self, cx: &mut Lower<'_>, body: &mut Block, turn: &Symbol) -> Result {
        let (number, holds) = (cx.region_input(0, 0)?, cx.region_input(0, 1)?);
        let mut call = Call::new(cx.comment(), &NUMBER, DType::I64, (vec![Dim::symbol(turn)],));
        call.outputs.push(number.into());
        let yes = Array::Bool(vec![true]).into_tensor(Vec::new());
        let yes = cx.weight(&yes);
        let copy = cx.copy_step(DType::Bool, yes, holds);
        body.steps.splice(0..0, [Step::Call(call), copy]);
        Ok(())
    }
}

/// A region that is run once for each part of its inputs along their first axes.
pub struct Scan {
    /// The number of inputs that are taken apart; those before are handed from turn to turn.
    pub scanned: usize,
    /// Whether each of them is taken from the end on.
    pub reversed: Vec<bool>,
    /// Whether each output made of parts is put together from the end on.
    pub reversed_outputs: Vec<bool>,
}

fn read_scan(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    let scanned = usize::try_from(node.required_int("num_scan_inputs")?).unwrap_or(0);
    let flags = |directions: Option<Vec<i64>>| -> Vec<bool> {
        directions.unwrap_or_default().into_iter().map(|direction| direction != 0).collect()
    };
    let reversed = flags(node.maybe_ints("scan_input_directions")?);
    let reversed_outputs = flags(node.maybe_ints("scan_output_directions")?);
    let axes = [node.maybe_ints("scan_input_axes")?, node.maybe_ints("scan_output_axes")?];
    if axes.into_iter().flatten().flatten().any(|axis| axis != 0) {
        let message = "`Scan` does not support axes other than the first yet";
        return Err(Diagnostic::new(Code::Unsupported, message));
    }
    node.region("body")?;
    Ok(Rc::new(Scan { scanned, reversed, reversed_outputs }))
}

impl Scan {
    /// The number of values that turns give each other.
    fn carried(&self, inputs: usize) -> usize {
        inputs.saturating_sub(self.scanned)
    }

    /// Where the part of a turn starts, of `turns` parts of `len` elements.
    fn start(reversed: &[bool], i: usize, turn: &Symbol, turns: &Dim, len: &Dim) -> Dim {
        let turn = Dim::symbol(turn);
        let part = if reversed.get(i) == Some(&true) { turns - 1 - turn } else { turn };
        part * len
    }
}

impl Op for Scan {
    fn name(&self) -> &'static str {
        "Scan"
    }

    fn attributes(&self, a: &mut Attributes) {
        let ints = |flags: &[bool]| flags.iter().map(|&flag| i64::from(flag)).collect::<Vec<_>>();
        a.int("num_scan_inputs", self.scanned as i64);
        a.ints("scan_input_directions", &ints(&self.reversed));
        a.ints("scan_output_directions", &ints(&self.reversed_outputs));
    }

    fn region_inputs(&self, _: usize, cx: &mut Infer<'_>) -> Inferred {
        let count = self.carried(cx.given());
        let mut types = carried_types(cx, 0, 0, count, 0)?;
        for i in 0..self.scanned {
            let ty = cx.ty(count + i)?;
            let part = ty.shape.get(1..).ok_or(Stop::Unknown)?;
            types.push(Type::tensor(ty.dtype, part));
        }
        Ok(types)
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let count = self.carried(cx.given());
        let mut turns: Option<Dim> = None;
        for i in 0..self.scanned {
            let Some(size) = cx.shape(count + i)?.first().cloned() else {
                return Err(cx.finding(Code::ShapeMismatch, "a scanned input has no axes"));
            };
            match &turns {
                Some(turns) => cx.require_equal(turns, &size, "the numbers of parts")?,
                None => turns = Some(size),
            }
        }
        let turns = turns.ok_or(Stop::Unknown)?;
        let bound = cx.upper(&turns);
        cx.fresh("turn", bound);
        let mut types: Vec<Type> = cx.region_inputs(0).unwrap_or_default();
        types.truncate(count);
        for item in cx.region_results(0).iter().skip(count) {
            let Type::Tensor(item) = item else { return Err(Stop::Unknown) };
            let shape = std::iter::once(&turns).chain(&item.shape).cloned();
            types.push(TensorType { dtype: item.dtype, shape: shape.collect() }.into());
        }
        Ok(types)
    }

    fn views(&self, cx: &mut Views<'_>) {
        let count = self.carried(cx.inputs());
        for j in 0..count {
            cx.region_input_is_output(0, j, j);
        }
        for i in 0..self.scanned {
            let (Some(ty), Some(turn)) = (cx.ty(count + i), cx.binds().first()) else { continue };
            let (turns, len) = (&ty.shape[0], ty.shape[1..].iter().product());
            let start = Self::start(&self.reversed, i, turn, turns, &len);
            cx.region_input_is_part(0, count + i, count + i, start);
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let count = self.carried(cx.node().inputs.len());
        let turn = cx.node().binds[0].clone();
        let turns = cx.ty(count)?.shape[0].clone();
        let mut body = cx.block(0)?;
        let results = std::mem::take(&mut body.results);
        let mut carried = carried(cx, 0, 0, &results[..count], 0)?;
        let types = (0..count).filter_map(|j| cx.result_ty(0, j).cloned()).collect::<Vec<_>>();
        keep_apart(cx, &mut carried, &mut body, &types);
        let mut stacked = Vec::new();
        for (i, item) in results.into_iter().enumerate().skip(count) {
            let Some(all) = cx.optional_output(i)? else { continue };
            let at = Self::start(&self.reversed_outputs, i - count, &turn, &turns, &item.len);
            stacked.push(Stacked { item, all, at: Some(at) });
        }
        let (node, most) = (cx.comment(), Some(Turns::Size(turns)));
        cx.step(Step::Loop(plan::Loop {
            node,
            turn,
            most,
            cond: None,
            again: None,
            carried,
            stacked,
            body,
        }));
        Ok(())
    }
}
