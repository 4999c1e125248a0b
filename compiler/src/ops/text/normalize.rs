//! `StringNormalizer`: removes stop words, and changes the case of the others.

use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, STRING_ONLY},
    ir::{Attributes, Infer, Inferred, Lower, Op, Reader},
    plan::{Kernel, kernel},
    tensor::Tensor,
    ty::Type,
};
use onnxc_runtime::kernels::text;

/// The words of a row that are not stop words, in one case.
pub struct StringNormalizer {
    /// The stop words.
    pub stops: Vec<String>,
    /// Whether the comparison with stop words ignores case.
    pub any_case: bool,
    /// The locale.
    pub locale: String,
    case: &'static Case,
}

/// A change of case.
struct Case {
    name: &'static str,
    kernel: Kernel<(bool, bool)>,
}

macro_rules! case {
    ($name:literal $kernel:ident) => {
        Case {
            name: $name,
            kernel: kernel!(STRING_ONLY T, text::$kernel, |f, a, p| f(a.input::<T>(0), a.input(1),
                a.input(2), a.output(0), p.0, p.1)),
        }
    };
}

static NONE: Case = case!("NONE" string_normalizer);
static LOWER: Case = case!("LOWER" string_normalizer_lower);
static UPPER: Case = case!("UPPER" string_normalizer_upper);

static SIZES: Kernel<(bool, bool)> = kernel!(STRING_ONLY T, text::string_normalizer_sizes,
    |f, a, p| f(a.sizes(), a.input::<T>(0), a.input(1), a.input(2), p.0, p.1));

impl StringNormalizer {
    /// Reads the attributes of a node.
    pub fn read(node: &mut Reader<'_>) -> Result<StringNormalizer> {
        let cases = [("NONE", &NONE), ("LOWER", &LOWER), ("UPPER", &UPPER)];
        let case = node.choice("case_change_action", &cases)?;
        Ok(StringNormalizer {
            stops: node.maybe_strings("stopwords")?.unwrap_or_default(),
            any_case: !node.flag("is_case_sensitive", false)?,
            locale: node.string("locale", "en_US")?,
            case,
        })
    }

    /// Whether the locale is Turkic: `I` is the capital of `ı`. No other one has a rule of its own.
    fn is_turkic(&self) -> bool {
        ["tr", "az"].contains(&self.locale.split(['_', '-', '.']).next().unwrap_or(""))
    }

    /// Returns the stop words as the kernels read them: the sorted words joined, and the end of
    /// each, in bytes.
    fn table(&self) -> [Tensor; 2] {
        let fold = |word: &String| match self.any_case {
            true => text::lower(word, self.is_turkic()),
            false => word.clone(),
        };
        let mut words: Vec<String> = self.stops.iter().map(fold).collect();
        words.sort();
        words.dedup();
        let ends = words.iter().scan(0, |end, word| {
            *end += word.len();
            u32::try_from(*end).ok()
        });
        [Tensor::from_text(&words.concat()), Tensor::from_places(&ends.collect::<Vec<_>>())]
    }
}

impl Op for StringNormalizer {
    fn name(&self) -> &'static str {
        "StringNormalizer"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.string("case_change_action", self.case.name);
        a.flag("is_case_sensitive", !self.any_case);
        a.string("locale", &self.locale);
        a.strings("stopwords", &self.stops);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (rows, words) = match &*cx.of(0, STRING_ONLY)?.shape {
            [words] => (None, words),
            [rows, words] => {
                cx.require_equal(rows, &1.into(), "the number of rows and 1")?;
                (Some(Dim::from(1)), words)
            }
            shape => {
                let message = format!(
                    "input 0 must be a row of words with one or two axes, but has {}",
                    shape.len()
                );
                return Err(cx.diagnostic(Code::ShapeMismatch, message));
            }
        };
        let left = if self.stops.is_empty() {
            words.at_least(&1.into())
        } else {
            let most = cx.upper(words).map(|most| most.max(1));
            cx.fresh_sizes([most]).remove(0)
        };
        let shape: Vec<Dim> = rows.into_iter().chain([left]).collect();
        Ok(vec![Type::tensor(DType::String, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let [text, ends] = self.table().map(|tensor| cx.weight(&tensor));
        let (x, y) = (cx.input(0)?, cx.output(0)?.into());
        let (inputs, flags) =
            (vec![x.into(), text.into(), ends.into()], (self.any_case, self.is_turkic()));
        cx.bind(&SIZES, DType::String, inputs.clone(), flags)?;
        cx.call_on(&self.case.kernel, DType::String, inputs, vec![y], flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{check, tensor};

    #[test]
    fn the_number_of_kept_words_is_known_at_run_time() {
        let op = |stops: &[&str]| StringNormalizer {
            stops: stops.iter().map(ToString::to_string).collect(),
            any_case: true,
            locale: "en_US".to_owned(),
            case: &LOWER,
        };
        let words = || tensor(DType::String, [Dim::symbol("n")]);
        check(op(&["the"]), &[words()], 1, "string[y0_0]");
        check(op(&[]), &[words()], 1, "string[n.max(1)]");
        check(op(&["the"]), &[tensor(DType::String, [1, 3])], 1, "string[1, y0_0]");
        let expected = "the number of rows and 1 must be equal, but are 2 and 1";
        check(op(&[]), &[tensor(DType::String, [2, 3])], 1, expected);
    }
}
