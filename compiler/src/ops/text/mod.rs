//! Operators on strings.

mod automaton;
pub(super) mod grams;
pub(super) mod hash;
mod minimize;
mod normalize;
pub(super) mod pattern;
mod re2;
pub(super) mod repeat;
mod split;
pub(super) mod tokenizer;

use super::{Entry, entry};
use crate::{
    diag::Result,
    dtype::STRING_ONLY,
    ir::{Infer, Inferred, Lower, Op},
    plan::{Kernel, geometry::Broadcast, kernel},
    ty::Type,
};
use normalize::StringNormalizer;
use split::StringSplit;
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("StringConcat", 20, |_| Ok(Rc::new(StringConcat))),
    entry("StringNormalizer", 10, |node| Ok(Rc::new(StringNormalizer::read(node)?))),
    entry("StringSplit", 20, |node| Ok(Rc::new(StringSplit::read(node)?))),
];

/// The concatenation of the strings of both inputs.
pub struct StringConcat;

static STRING_CONCAT: Kernel<Broadcast> = kernel!(STRING_ONLY T, text::string_concat,
    |f, a, p| f(a.input::<T>(0), a.input(1), a.output(0), p));

impl Op for StringConcat {
    fn name(&self) -> &'static str {
        "StringConcat"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (a, b) = (cx.of(0, STRING_ONLY)?, cx.of(1, STRING_ONLY)?);
        let shape = cx.broadcast(&[&a.shape, &b.shape])?;
        Ok(vec![Type::tensor(a.dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = Broadcast::of(&cx.output_ty(0)?.shape, &cx.ty(0)?.shape, &cx.ty(1)?.shape);
        cx.call(&STRING_CONCAT, geometry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dim::Dim,
        dtype::DType,
        ops::testing::{check, tensor},
    };

    #[test]
    fn strings_broadcast_to_one_shape() {
        let x = tensor(DType::String, [Dim::symbol("n"), 1.into()]);
        let y = tensor(DType::String, [3]);
        check(StringConcat, &[x, y], 1, "string[n, 3]");
    }
}
