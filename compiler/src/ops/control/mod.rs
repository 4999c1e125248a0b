//! Control flow: `If`, `Loop` and `Scan`.

mod gradient;
mod loop_carried;
pub mod loop_op;
pub mod scan;

use super::{Entry, entry};
use crate::{
    diag::{Code, Diagnostic, Result, counted},
    dim::Dim,
    dtype::DType,
    ir::{Attributes, Gradient, Infer, Inferred, Lower, Op, Stop, Views},
    plan::{self, Block, Cond, Operand, Step},
    ty::{TensorType, Type, any_size},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("If", 1, |node| {
        node.region("then_branch")?;
        node.region("else_branch")?;
        Ok(Rc::new(If::default()))
    }),
    entry("Loop", 1, |node| {
        node.region("body")?;
        Ok(Rc::new(loop_op::Loop))
    }),
    entry("Scan", 8, scan::read_batched),
    entry("Scan", 9, scan::read),
];

/// Runs the first of two regions if input 0 is true, and the second one otherwise.
pub struct If {
    /// The operator of the model that the node stands for, in messages.
    pub stands_for: &'static str,
}

impl Default for If {
    fn default() -> If {
        If { stands_for: "If" }
    }
}

/// The join of the types of two branches.
pub enum Joined {
    /// Both results have this type.
    Same(Type),
    /// Both results are tensors of this element type and rank; the sizes of these axes differ.
    Sizes(TensorType, Vec<usize>),
    /// They differ in more than sizes, or a type is unknown.
    Differ,
}

/// Joins the types of a result of two branches. An optional counts as its content.
pub fn join(a: &Type, b: &Type) -> Joined {
    match (a.content(), b.content()) {
        (Type::Tensor(a), Type::Tensor(b)) => join_tensors(a, b),
        (Type::Never(_), Type::Tensor(ty)) | (Type::Tensor(ty), Type::Never(_)) => {
            let open = |&axis: &usize| ty.shape[axis].known().is_none();
            Joined::Sizes(ty.clone(), (0..ty.rank()).filter(open).collect())
        }
        (a, b) => match (a.element(), b.element()) {
            (Some(x), Some(y)) if x.dtype() == y.dtype() => {
                Joined::Same(Type::Sequence(common_element_type(x, y).into()))
            }
            _ if a == b && *a != Type::Unknown => Joined::Same(a.clone()),
            _ => Joined::Differ,
        },
    }
}

fn join_tensors(a: &TensorType, b: &TensorType) -> Joined {
    if (a.dtype, a.rank()) != (b.dtype, b.rank()) {
        return Joined::Differ;
    }
    let differs = |&axis: &usize| a.shape[axis] != b.shape[axis];
    match (0..a.rank()).filter(differs).collect::<Vec<_>>() {
        same if same.is_empty() => Joined::Same(a.clone().into()),
        differing => Joined::Sizes(a.clone(), differing),
    }
}

/// The type of the tensors of a sequence that comes from one of two regions: it
/// keeps only the properties that both types share.
pub fn common_element_type(a: &Type, b: &Type) -> Type {
    let open = |size: &Dim| if size.known().is_some() { size.clone() } else { any_size() };
    match (a, b) {
        (Type::Never(_), ty) | (ty, Type::Never(_)) => ty.map_dims(&open),
        (a, b) => a.either(b),
    }
}

/// The type of an output, and the axes whose sizes depend on the branch that runs.
///
/// A branch that always returns an error (`fails`) has no effect on the type. The sizes that the
/// other branch `defines` itself are data-dependent outside of it.
fn output_type(
    types: [&Type; 2],
    fails: [bool; 2],
    defines: &dyn Fn(usize, &Dim) -> bool,
) -> (Type, Vec<usize>) {
    let only = |i: usize| {
        let shape = types[i].content().as_tensor().map_or(&[][..], |ty| &ty.shape);
        let axes = (0..shape.len()).filter(|&axis| defines(i, &shape[axis])).collect();
        (types[i].clone(), axes)
    };
    let (ty, axes) = match (fails, join(types[0], types[1])) {
        ([true, false], _) => return only(1),
        ([false, true], _) => return only(0),
        (_, Joined::Same(ty)) => (ty, Vec::new()),
        (_, Joined::Sizes(ty, axes)) => (ty.into(), axes),
        (_, Joined::Differ) => return (Type::Unknown, Vec::new()),
    };
    let may_be_absent = types.iter().any(|ty| matches!(ty, Type::Optional(_)));
    (if may_be_absent { Type::Optional(ty.into()) } else { ty }, axes)
}

/// Checks that the tensors that two branches return have one element type.
fn require_one_dtype(cx: &Infer<'_>, branches: [&Type; 2]) -> Inferred<()> {
    let [Type::Tensor(a), Type::Tensor(b)] = branches.map(Type::content) else { return Ok(()) };
    if a.dtype == b.dtype {
        return Ok(());
    }
    let message = format!("the branches return {} and {}", branches[0], branches[1]);
    Err(cx.diagnostic(Code::TypeMismatch, message))
}

/// Checks that input `i`, if it is present and its type is known, is a tensor of
/// one element of `dtype`.
fn require_one_element(cx: &mut Infer<'_>, i: usize, dtype: DType) -> Inferred<()> {
    if !cx.has(i) || matches!(cx.any(i), Err(Stop::Unknown) | Ok(Type::Unknown)) {
        return Ok(());
    }
    if *cx.any(i)? == Type::Unranked(dtype) {
        return Ok(());
    }
    cx.of(i, &[dtype])?;
    cx.require_one_element(i)
}

/// Replaces the size of an axis of a tensor type, or of the tensor in an optional.
fn with_size(ty: Type, axis: usize, size: Dim) -> Type {
    match ty {
        Type::Tensor(mut ty) => {
            ty.shape[axis] = size;
            ty.into()
        }
        Type::Optional(ty) => Type::Optional(with_size(*ty, axis, size).into()),
        other => other,
    }
}

impl Op for If {
    fn name(&self) -> &'static str {
        "If"
    }

    fn label(&self) -> String {
        self.stands_for.to_owned()
    }

    fn attributes(&self, a: &mut Attributes) {
        a.region("then_branch", 0);
        a.region("else_branch", 1);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        require_one_element(cx, 0, DType::Bool)?;
        let outputs = cx.outputs();
        let (then, otherwise): (Vec<Type>, Vec<Type>) =
            (cx.region_outputs(0).cloned().collect(), cx.region_outputs(1).cloned().collect());
        if then.len() != outputs || otherwise.len() != outputs {
            let message = format!(
                "the branches have {} and {}, but the node has {}",
                then.len(),
                counted(otherwise.len(), "result"),
                counted(outputs, "output")
            );
            return Err(Diagnostic::new(Code::BadArity, message).into());
        }
        let fails = [cx.region_is_faulty(0), cx.region_is_faulty(1)];
        let mut types = Vec::new();
        for branches in then.iter().zip(&otherwise) {
            let branches = [branches.0, branches.1];
            if fails == [false, false] {
                require_one_dtype(cx, branches)?;
            }
            let (mut ty, axes) = output_type(branches, fails, &|i, dim| cx.region_settles(i, dim));
            for axis in axes {
                let size = |ty: &Type| ty.content().as_tensor()?.shape.get(axis).cloned();
                let sizes = branches.into_iter().filter_map(size).map(|dim| cx.upper(&dim));
                let max = sizes.reduce(|a, b| Some(a?.max(b?))).flatten();
                ty = with_size(ty, axis, cx.fresh("branch", max));
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
        let count = cx.node().outputs.len();
        let mut outputs = (0..count).map(|i| cx.output(i)).collect::<Result<Vec<_>>>()?;
        let mut branches = [cx.block(0)?, cx.block(1)?];
        let fails = [cx.region_is_faulty(0), cx.region_is_faulty(1)];
        for i in 0..count {
            let ty = |branch| cx.result_ty(branch, i).unwrap_or(&Type::Unknown);
            let types = [ty(0), ty(1)];
            let (_, axes) = output_type(types, fails, &|i, dim| cx.region_settles(i, dim));
            for axis in axes {
                for (block, ty) in branches.iter_mut().zip(types) {
                    let ty = ty.content().as_tensor();
                    let size = ty.and_then(|ty| ty.shape.get(axis));
                    block.sizes.push(size.cloned().unwrap_or_else(|| 0.into()));
                }
            }
        }
        let companions: Vec<Option<Operand>> = (0..count).map(|i| cx.output_companion(i)).collect();
        for (branch, block) in branches.iter_mut().enumerate() {
            complete_results(cx, branch, block, &outputs, &companions);
        }
        outputs.extend(companions.into_iter().flatten());
        let (node, binds) = (cx.comment(), cx.node().binds.clone());
        cx.step(Step::If(plan::If { node, cond, binds, outputs, branches }));
        Ok(())
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        gradient::differentiate_if(g)
    }
}

/// Completes the results of a branch: a value that never exists becomes other memory of the size of
/// the output, and companion buffers are appended.
fn complete_results(
    cx: &mut Lower<'_>,
    branch: usize,
    block: &mut Block,
    outputs: &[Operand],
    companions: &[Option<Operand>],
) {
    for (i, (result, output)) in block.results.iter_mut().zip(outputs).enumerate() {
        let never = cx.result_ty(branch, i).map(Type::content);
        if matches!(never, Some(Type::Never(_))) {
            *result = cx.like(output);
        }
    }
    if block.refusal.is_some() {
        return;
    }
    for (i, companion) in companions.iter().enumerate() {
        if companion.is_some() {
            block.results.push(cx.given(branch, i));
        }
    }
}
