//! `NGramRepeatBlock` of ONNX Runtime.

use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::{DType, F32_ONLY, I64_ONLY},
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op, Reader},
    ops::{Entry, microsoft},
    plan::{Kernel, kernel},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[microsoft("NGramRepeatBlock", read)];

/// The scores of the next word after each row of words, without those that would repeat an n-gram
/// of the row.
struct NGramRepeatBlock {
    /// The number of words of an n-gram.
    size: usize,
}

static REPEAT_BLOCK: Kernel<(Dim, Dim, usize)> = kernel!(checked F32_ONLY T,
    text::ngram_repeat_block,
    |f, a, p| f(a.input(0), a.input::<T>(1), a.output(0), p.0, p.1, p.2));

fn read(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    let size = node.required_int("ngram_size")?;
    match usize::try_from(size) {
        Ok(size @ 1..) => Ok(Rc::new(NGramRepeatBlock { size })),
        _ => {
            let message = format!("`ngram_size` is {size}, but must be at least 1");
            Err(Diagnostic::new(Code::BadAttribute, message))
        }
    }
}

impl Op for NGramRepeatBlock {
    fn name(&self) -> &'static str {
        "NGramRepeatBlock"
    }

    fn domain(&self) -> Domain {
        Domain::Microsoft
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("ngram_size", i64::try_from(self.size).unwrap_or(i64::MAX));
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.of(0, I64_ONLY)?;
        cx.of(1, F32_ONLY)?;
        let (rows, scores) = (cx.ranked(0, 2)?, cx.ranked(1, 2)?);
        let what = "the number of rows of words and of scores";
        cx.require_equal(&rows.shape[0], &scores.shape[0], what)?;
        Ok(vec![Type::tensor(DType::F32, &scores.shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let [length, words] = [&cx.ty(0)?.shape[1], &cx.ty(1)?.shape[1]];
        cx.call(&REPEAT_BLOCK, (length.clone(), words.clone(), self.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{check, tensor};

    #[test]
    fn scores_have_a_row_for_each_row_of_words() {
        let n = || Dim::symbol("n");
        let words = |rows: Dim| tensor(DType::I64, [rows, 5.into()]);
        let scores = || tensor(DType::F32, [n(), 9.into()]);
        check(NGramRepeatBlock { size: 2 }, &[words(n()), scores()], 1, "float[n, 9]");
    }
}
