//! `StringSplit`: splits strings.

use crate::{
    diag::Result,
    dim::Dim,
    dtype::{DType, STRING_ONLY},
    ir::{Attributes, Infer, Inferred, Lower, Op, Reader},
    plan::{Kernel, kernel},
    tensor::Tensor,
    ty::Type,
};

/// The parts of each string along a new axis, padded with empty strings, and their numbers.
pub struct StringSplit {
    /// The delimiter; if it is empty, any sequence of white space.
    pub delimiter: String,
    /// The maximum number of splits.
    pub most: Option<usize>,
}

static SPLIT: Kernel<(usize, Dim)> = kernel!(STRING_ONLY T, text::string_split, |f, a, p|
    f(a.input::<T>(0), a.input(1), a.output(0), a.optional_output(1), p.0, p.1));
static SPLIT_SIZES: Kernel<(usize,)> = kernel!(STRING_ONLY T, text::string_split_sizes,
    |f, a, p| f(a.sizes(), a.input::<T>(0), a.input(1), p.0));
static WORDS: Kernel<(usize, Dim)> = kernel!(STRING_ONLY T, text::string_split_whitespace,
    |f, a, p| f(a.input::<T>(0), a.output(0), a.optional_output(1), p.0, p.1));
static WORDS_SIZES: Kernel<(usize,)> = kernel!(STRING_ONLY T, text::string_split_whitespace_sizes,
    |f, a, p| f(a.sizes(), a.input::<T>(0), p.0));

impl StringSplit {
    /// Reads the attributes of a node.
    pub fn read(node: &mut Reader<'_>) -> Result<StringSplit> {
        let delimiter = node.string("delimiter", "")?;
        // A negative number means no limit, as in Python.
        let most = node.maybe_int("maxsplit")?.and_then(|most| usize::try_from(most).ok());
        Ok(StringSplit { delimiter, most })
    }
}

impl Op for StringSplit {
    fn name(&self) -> &'static str {
        "StringSplit"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.string("delimiter", &self.delimiter);
        if let Some(most) = self.most {
            a.int("maxsplit", i64::try_from(most).unwrap_or(i64::MAX));
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let shape = cx.of(0, STRING_ONLY)?.shape.to_vec();
        let most = self.most.and_then(|most| i64::try_from(most).ok()?.checked_add(1));
        let width = cx.fresh_sizes([most]);
        let parts = [&shape[..], &width[..]].concat();
        Ok(vec![Type::tensor(DType::String, parts), Type::tensor(DType::I64, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        // The kernel writes the parts even if only their numbers are used.
        let (most, binds) = (self.most.unwrap_or(usize::MAX), &cx.node().binds);
        let width = Dim::symbol(&binds[0]);
        let len = cx.ty(0)?.len() * &width;
        let mut inputs = vec![cx.input(0)?.into()];
        let is_words = self.delimiter.is_empty();
        if !is_words {
            inputs.push(cx.weight(&Tensor::from_text(&self.delimiter)).into());
        }
        let (kernel, sizes) =
            if is_words { (&WORDS, &WORDS_SIZES) } else { (&SPLIT, &SPLIT_SIZES) };
        cx.bind(sizes, DType::String, inputs.clone(), (most,))?;
        let parts = match cx.optional_output(0)? {
            Some(parts) => parts,
            None => cx.scratch(DType::String, len),
        };
        let outputs = vec![parts.into(), cx.optional_output(1)?.into()];
        cx.call_on(kernel, DType::String, inputs, outputs, (most, width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{check, tensor};

    #[test]
    fn parts_lie_along_a_new_axis() {
        let split = |most| StringSplit { delimiter: ",".into(), most };
        let x = || tensor(DType::String, [Dim::symbol("n"), 2.into()]);
        check(split(None), &[x()], 2, "string[n, 2, y0_0]; int64[n, 2]");
        check(split(Some(3)), &[x()], 1, "string[n, 2, y0_0]");
        let one = tensor::<Dim, 0>(DType::String, []);
        check(
            StringSplit { delimiter: String::new(), most: None },
            &[one],
            2,
            "string[y0_0]; int64",
        );
    }
}
