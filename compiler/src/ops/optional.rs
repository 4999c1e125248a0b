//! Optional values. The known element of an optional is 1 if it certainly has a value, and 0 if it
//! certainly has none.

use super::{Entry, entry};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::DType,
    ir::{Attributes, Infer, Inferred, Lower, Op, Stop, Views},
    plan::{Kernel, NoParams, kernel},
    tensor::Tensor,
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("Optional", 15, |node| {
        let ty = node.maybe_type("type")?;
        if ty.is_none() && node.ty(0).is_none() {
            let message = "an `Optional` without an input needs the attribute `type`";
            return Err(Diagnostic::new(Code::BadAttribute, message));
        }
        Ok(Rc::new(Optional { ty }))
    }),
    entry("OptionalGetElement", 15, |_| Ok(Rc::new(OptionalGetElement))),
    entry("OptionalHasElement", 15, |_| Ok(Rc::new(OptionalHasElement))),
];

/// An optional with the input as its value, or without a value if there is no input.
pub struct Optional {
    /// The type of the missing value.
    pub ty: Option<Type>,
}

/// Returns the content type of an optional of `ty` that never has a value.
fn absent_content(ty: &Type) -> Option<Type> {
    let never = Type::Never(ty.dtype()?);
    Some(if ty.element().is_some() { Type::Sequence(never.into()) } else { never })
}

impl Op for Optional {
    fn name(&self) -> &'static str {
        "Optional"
    }

    fn attributes(&self, a: &mut Attributes) {
        if let Some(ty) = &self.ty {
            a.ty("type", ty);
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.set_known(0, vec![Dim::from(usize::from(cx.has(0)))]);
        if cx.has(0) {
            let content = cx.any(0)?;
            let plain = content.is_tensor() || content.element().is_some();
            if !plain && *content != Type::Unknown {
                let message = format!("an optional value cannot be {content}");
                return Err(cx.diagnostic(Code::TypeMismatch, message));
            }
            return Ok(vec![Type::Optional(content.clone().into())]);
        }
        let content = self.ty.as_ref().and_then(absent_content).ok_or(Stop::Unknown)?;
        Ok(vec![Type::Optional(content.into())])
    }

    fn views(&self, cx: &mut Views<'_>) {
        cx.view(0, 0, 0.into());
    }

    fn lower(&self, _: &mut Lower<'_>) -> Result {
        Ok(())
    }
}

/// The value of an optional, which must have one.
pub struct OptionalGetElement;

static GET: Kernel = kernel!(checked BOOL_ONLY T, sequence::optional_get_element,
    |f, a, _p| f(a.input::<T>(0)));

impl Op for OptionalGetElement {
    fn name(&self) -> &'static str {
        "OptionalGetElement"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        if matches!(cx.any(0)?, Type::Optional(_)) && cx.ints(0) == Some(vec![0]) {
            return Err(cx.diagnostic(Code::TypeMismatch, "the optional has no value"));
        }
        if let (false, Some(known)) = (matches!(cx.any(0)?, Type::Optional(_)), cx.known(0)) {
            cx.set_known(0, known.to_vec());
        }
        Ok(vec![cx.any(0)?.content().clone()])
    }

    fn views(&self, cx: &mut Views<'_>) {
        cx.view(0, 0, 0.into());
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let Some(flag) = cx.companion(0) else { return Ok(()) };
        if cx.ints(0) == Some(vec![1]) {
            return Ok(());
        }
        cx.call_on(&GET, DType::Bool, vec![flag.into()], Vec::new(), NoParams)
    }
}

/// Whether an optional has a value.
pub struct OptionalHasElement;

impl Op for OptionalHasElement {
    fn name(&self) -> &'static str {
        "OptionalHasElement"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let known = match cx.has(0).then(|| cx.any(0)).transpose()? {
            None => Some(false),
            Some(Type::Optional(_)) => cx.ints(0).map(|flag| flag == [1]),
            Some(Type::Unknown) => return Err(Stop::Unknown),
            Some(_) => Some(true),
        };
        if let Some(known) = known {
            cx.set_constant(0, Tensor::from_bool(known));
        }
        Ok(vec![Type::tensor::<Dim>(DType::Bool, [])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        if let Some(flag) = cx.companion(0) {
            let y = cx.output(0)?;
            cx.copy(flag, y);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Given, check, tensor};
    use DType::F32;

    #[test]
    fn an_optional_has_a_flag_for_its_value() {
        let optional = |content| Given::Value(Type::Optional(Box::new(content)));
        let some = || optional(Type::tensor(F32, [2, 3]));
        check(Optional { ty: None }, &[tensor(F32, [2, 3])], 1, "optional(float[2, 3]) = [1]");
        let none = Optional { ty: Some(Type::tensor(F32, [2, 3])) };
        check(none, &[], 1, "optional(float[]) = [0]");
        let none = Optional { ty: Some(Type::Sequence(Type::tensor(F32, [2]).into())) };
        check(none, &[], 1, "optional(seq(float[])) = [0]");
        check(OptionalGetElement, &[some()], 1, "float[2, 3]");
        check(OptionalGetElement, &[tensor(F32, [2])], 1, "float[2]");
        check(OptionalHasElement, &[some()], 1, "bool");
        check(OptionalHasElement, &[tensor(F32, [2])], 1, "bool = [1]");
        check(OptionalHasElement, &[], 1, "bool = [0]");
        let expected = "an optional value cannot be optional(float[2, 3])";
        check(Optional { ty: None }, &[some()], 1, expected);
    }
}
