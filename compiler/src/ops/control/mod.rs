//! Control flow.

mod carried;
pub mod repeat;
pub mod scan;

use super::{Entry, entry};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    ir::{Infer, Inferred, Lower, Op, Views},
    plan::{self, Block, Cond, Operand, Step},
    ty::{TensorType, Type, any_size},
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
        Ok(Rc::new(repeat::Loop))
    }),
    entry("Scan", 8, scan::read_batches),
    entry("Scan", 9, scan::read),
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

/// What the types of two branches have in common, whether a value may be absent left aside.
pub fn join(a: &Type, b: &Type) -> Joined {
    match (a.content(), b.content()) {
        (Type::Tensor(a), Type::Tensor(b)) => join_tensors(a, b),
        (Type::Never(_), Type::Tensor(ty)) | (Type::Tensor(ty), Type::Never(_)) => {
            let open = |&axis: &usize| ty.shape[axis].known().is_none();
            Joined::Sizes(ty.clone(), (0..ty.rank()).filter(open).collect())
        }
        (a, b) => match (a.element(), b.element()) {
            (Some(x), Some(y)) if x.dtype() == y.dtype() => {
                Joined::Same(Type::Sequence(common(x, y).into()))
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

/// The type of the tensors of a sequence that comes from one of two regions: what only one of them
/// knows is not known behind them.
pub fn common(a: &Type, b: &Type) -> Type {
    let open = |size: &Dim| if size.known().is_some() { size.clone() } else { any_size() };
    match (a, b) {
        (Type::Never(_), ty) | (ty, Type::Never(_)) => ty.map_dims(&open),
        (a, b) => a.either(b),
    }
}

impl If {
    /// Which sizes of output `i` differ between the branches.
    fn differing(cx: &Lower<'_>, i: usize) -> Vec<usize> {
        match (cx.result_ty(0, i), cx.result_ty(1, i)) {
            (Some(a), Some(b)) => match join(a, b) {
                Joined::Sizes(_, axes) => axes,
                Joined::Same(_) | Joined::Differ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }

    /// The type of an output, of what each branch gives for it.
    fn output(cx: &mut Infer<'_>, a: &Type, b: &Type) -> Type {
        let ty = match join(a, b) {
            Joined::Same(ty) => ty,
            Joined::Differ => return Type::Unknown,
            Joined::Sizes(mut ty, axes) => {
                for axis in axes {
                    let most = |ty: &Type| match ty.content().as_tensor() {
                        Some(ty) => cx.upper(&ty.shape[axis]),
                        None => Some(0),
                    };
                    let max = most(a).zip(most(b)).map(|(a, b)| a.max(b));
                    ty.shape[axis] = cx.fresh("branch", max);
                }
                ty.into()
            }
        };
        let may_be_absent = [a, b].iter().any(|ty| matches!(ty, Type::Optional(_)));
        if may_be_absent { Type::Optional(ty.into()) } else { ty }
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
        // A branch that is sure to be refused gives nothing.
        let refused = [cx.region_is_faulty(0), cx.region_is_faulty(1)];
        let types = then.iter().zip(&otherwise).map(|(a, b)| match refused {
            [true, false] => b.clone(),
            [false, true] => a.clone(),
            _ => If::output(cx, a, b),
        });
        Ok(types.collect())
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
        for i in 0..count {
            for axis in Self::differing(cx, i) {
                for (branch, block) in branches.iter_mut().enumerate() {
                    let ty = cx.result_ty(branch, i).and_then(|ty| ty.content().as_tensor());
                    block.sizes.push(ty.map_or(Dim::from(0), |ty| ty.shape[axis].clone()));
                }
            }
        }
        let besides: Vec<Option<Operand>> = (0..count).map(|i| cx.output_beside(i)).collect();
        for (branch, block) in branches.iter_mut().enumerate() {
            give(cx, branch, block, &outputs, &besides);
        }
        outputs.extend(besides.into_iter().flatten());
        let (node, binds) = (cx.comment(), cx.node().binds.clone());
        cx.step(Step::If(plan::If { node, cond, binds, outputs, branches }));
        Ok(())
    }
}

/// Completes the results of a branch: a value that is never there is some other memory of the size
/// that the output has, and what stands beside the elements comes behind all of them.
fn give(
    cx: &mut Lower<'_>,
    branch: usize,
    block: &mut Block,
    outputs: &[Operand],
    besides: &[Option<Operand>],
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
    for (i, output) in besides.iter().enumerate() {
        if output.is_some() {
            block.results.push(cx.given(branch, i));
        }
    }
}
