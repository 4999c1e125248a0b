//! The conditions that an operator requires of the sizes of its inputs. One that depends on a free
//! size becomes a check, which runs before the node.

use super::{Infer, Inferred};
use crate::{
    diag::Code,
    dim::Dim,
    plan::{Check, Condition, Rule},
    ty::Type,
};
use std::slice;

impl Infer<'_> {
    /// Requires two sizes to be equal; `what` names them in the error.
    ///
    /// # Errors
    ///
    /// Returns an error if the sizes are known to differ.
    pub fn require_equal(&mut self, a: &Dim, b: &Dim, what: &str) -> Inferred<()> {
        if a == b && !a.is_too_long() {
            return Ok(());
        }
        if a.equal(b).known() == Some(0) {
            let message = format!("{what} must be equal, but are {a:?} and {b:?}");
            return Err(self.diagnostic(Code::ShapeMismatch, message));
        }
        self.require(what, Condition::Equal(a.clone(), b.clone()));
        Ok(())
    }

    /// Requires input `i`, if it is a tensor of known rank, to have one element.
    ///
    /// # Errors
    ///
    /// Returns an error if it is known to have another number of elements.
    pub fn require_one_element(&mut self, i: usize) -> Inferred<()> {
        let Ok(Type::Tensor(ty)) = self.any(i) else { return Ok(()) };
        let len = ty.len();
        if len.known().is_some_and(|len| len != 1) {
            let message = format!("input {i} must have one element, but has {len:?}");
            return Err(self.diagnostic(Code::ShapeMismatch, message));
        }
        self.require_equal(&len, &1.into(), &format!("the number of elements of input {i} and 1"))
    }

    /// Requires `a` to be at least `b`.
    ///
    /// # Errors
    ///
    /// Returns an error if `a` is known to be less than `b`.
    pub fn require_at_least(&mut self, a: &Dim, b: &Dim, what: &str) -> Inferred<()> {
        let difference = a - b;
        match difference.known() {
            Some(n) if n >= 0 => Ok(()),
            Some(_) => {
                let message = format!("{what}: {a:?} is less than {b:?}");
                Err(self.diagnostic(Code::ShapeMismatch, message))
            }
            None if difference.is_size() => Ok(()),
            None => {
                self.require(what, Condition::AtLeast(a.clone(), b.clone()));
                Ok(())
            }
        }
    }

    /// Requires a number to be a valid size, and its expression to be computable.
    ///
    /// # Errors
    ///
    /// Returns an error if the number, or a part of its expression, is known to be negative.
    pub fn require_size(&mut self, size: &Dim) -> Inferred<()> {
        let mut premises = Vec::new();
        size.premises(&mut premises);
        // Inner expressions first, because outer ones are computed from them.
        for (part, least) in premises.iter().rev().chain([&(size.clone(), 0)]) {
            self.require_at_least(
                part,
                &Dim::from(*least),
                "a part of the formula of a size is too small",
            )?;
        }
        Ok(())
    }

    /// Requires a condition of another node.
    ///
    /// # Errors
    ///
    /// Returns an error if the condition is known not to hold.
    pub fn require_check(&mut self, check: &Check) -> Inferred<()> {
        let (Rule::Node(what) | Rule::Value(what)) = &check.rule;
        match &check.condition {
            Condition::Equal(a, b) => self.require_equal(a, b, what),
            Condition::AtLeast(a, b) => self.require_at_least(a, b, what),
            Condition::Broadcast(a, b) => {
                self.broadcast(&[slice::from_ref(a), slice::from_ref(b)]).map(drop)
            }
        }
    }

    /// Returns the broadcast shape of several shapes, by ONNX's multidirectional broadcasting.
    ///
    /// # Errors
    ///
    /// Returns an error if two sizes are known to differ and neither is 1.
    pub fn broadcast(&mut self, shapes: &[&[Dim]]) -> Inferred<Vec<Dim>> {
        let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
        let mut common = vec![Dim::from(1); rank];
        for shape in shapes {
            let first = rank - shape.len();
            for (i, (size, dim)) in common[first..].iter_mut().zip(*shape).enumerate() {
                let Some(joined) = size.broadcast(dim) else {
                    let message = size.describe_mismatch(dim, (rank > 1).then_some(first + i));
                    return Err(self.diagnostic(Code::ShapeMismatch, message));
                };
                if *size != *dim && size.known() != Some(1) && dim.known() != Some(1) {
                    self.require("the inputs", Condition::Broadcast(size.clone(), dim.clone()));
                }
                *size = joined;
            }
        }
        Ok(common)
    }

    fn require(&mut self, what: &str, condition: Condition) {
        if self.finds.checks.iter().all(|check| check.condition != condition) {
            let check = Check { node: String::new(), rule: Rule::Node(what.to_owned()), condition };
            self.finds.checks.push(check);
        }
    }
}
