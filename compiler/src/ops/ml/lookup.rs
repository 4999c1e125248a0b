//! Lookup tables: the index of a key, and the value at an index. The strings of a table are stored
//! as one concatenated text and the end offset of each, so that they are part of the weights.

use crate::{
    diag::Result,
    dtype::{DType, KEYS},
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op, Reader, ValueId},
    plan::{Kernel, NoParams, kernel},
    tensor::Tensor,
    ty::TensorType,
};

/// The occurrence of a duplicate key to keep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The first.
    First,
    /// The last.
    Last,
}

/// The indices of the distinct keys in ascending order of the keys, as [`find`] needs them.
pub fn sort_unique(keys: &Tensor, keep: Keep) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..keys.len()).collect();
    if keep == Keep::Last {
        indices.reverse();
    }
    if let Some(strings) = keys.strings() {
        indices.sort_by(|&a, &b| strings[a].cmp(&strings[b]));
        indices.dedup_by(|a, b| strings[*a] == strings[*b]);
    } else if let Some(ints) = keys.ints() {
        indices.sort_by_key(|&index| ints[index]);
        indices.dedup_by_key(|index| ints[*index]);
    } else {
        let floats = keys.floats().unwrap_or_default();
        let compare =
            |a: f64, b: f64| a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
        indices.sort_by(|&a, &b| compare(floats[a], floats[b]));
        indices.dedup_by(|a, b| compare(floats[*a], floats[*b]).is_eq());
    }
    indices
}

/// Adds the node that finds the index of each element of `x` in `keys`, which must be sorted and
/// distinct; the number of keys if it is none of them.
pub fn find(node: &mut Reader<'_>, x: ValueId, keys: &Tensor) -> Result<ValueId> {
    match keys.strings() {
        Some(strings) => {
            let [text, ends] = add_strings(node, strings);
            node.add(Find, &[x, text, ends], &[])
        }
        None => node.add(Find, &[x], std::slice::from_ref(keys)),
    }
}

/// Adds the node that gathers the element of `table` at each index.
pub fn pick(node: &mut Reader<'_>, indices: ValueId, table: Tensor) -> Result<ValueId> {
    match table.strings() {
        Some(strings) => pick_text(node, indices, strings),
        None => node.add(Pick, &[indices], &[table]),
    }
}

/// Adds the node that gathers the string at each index.
pub fn pick_text(node: &mut Reader<'_>, indices: ValueId, strings: &[String]) -> Result<ValueId> {
    let [text, ends] = add_strings(node, strings);
    node.add(PickText, &[indices, text, ends], &[])
}

/// Adds strings as two constants: the concatenated text, and the end offset of each string.
pub fn add_strings(node: &mut Reader<'_>, strings: &[String]) -> [ValueId; 2] {
    let ends = strings.iter().scan(0, |end, string| {
        *end += string.len();
        Some(u32::try_from(*end).unwrap_or(u32::MAX))
    });
    let ends: Vec<u32> = ends.collect();
    let text = node.constant("text", Tensor::from_text(&strings.concat()));
    [text, node.constant("ends", Tensor::from_places(&ends))]
}

/// The index of each element in a sorted table of keys, or the number of keys.
struct Find;

static FIND: Kernel =
    kernel!(KEYS T, ml::index_of::<T>, |f, a, _p| f(a.input(0), a.input(1), a.output(0)));
static FIND_TEXT: Kernel = kernel!(STRING_ONLY T, ml::index_of_text,
    |f, a, _p| f(a.input::<T>(0), a.input(1), a.input(2), a.output(0)));

impl Op for Find {
    fn name(&self) -> &'static str {
        "Find"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.ty(0)?;
        if ty.dtype != DType::String {
            cx.of(0, KEYS)?;
            cx.same_dtype(0, 1)?;
        }
        Ok(vec![TensorType { dtype: DType::I64, shape: ty.shape.clone() }.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let is_text = cx.ty(0)?.dtype == DType::String;
        cx.call_for_input(if is_text { &FIND_TEXT } else { &FIND }, NoParams)
    }
}

/// The number at each index of a table.
struct Pick;

static PICK: Kernel =
    kernel!(KEYS T, ml::element_at::<T>, |f, a, _p| f(a.input(0), a.input(1), a.output(0)));

impl Op for Pick {
    fn name(&self) -> &'static str {
        "Pick"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (shape, dtype) = (cx.shape(0)?.to_vec(), cx.of(1, KEYS)?.dtype);
        Ok(vec![TensorType { dtype, shape }.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call(&PICK, NoParams)
    }
}

/// The string at each index of a table.
struct PickText;

static PICK_TEXT: Kernel = kernel!(STRING_ONLY T, ml::text_at,
    |f, a, _p| f(a.input(0), a.input(1), a.input(2), a.output::<T>(0)));

impl Op for PickText {
    fn name(&self) -> &'static str {
        "PickText"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let shape = cx.shape(0)?.to_vec();
        Ok(vec![TensorType { dtype: DType::String, shape }.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call(&PICK_TEXT, NoParams)
    }
}

/// A row of `width` elements per index, with a 1 in the column of that index.
pub struct OneHot {
    /// The number of columns.
    pub width: usize,
    /// Whether an unknown category yields a row of zeros; it is an error otherwise.
    pub zeros: bool,
}

static ONE_HOT: Kernel<(usize,)> = kernel!(I64_ONLY T, ml::one_hot,
    |f, a, p| f(a.input::<T>(0), a.input(1), a.output(0), p.0));
static ONE_HOT_CHECKED: Kernel<(usize,)> = kernel!(checked I64_ONLY T, ml::one_hot_checked,
    |f, a, p| f(a.input::<T>(0), a.input(1), a.output(0), p.0));

impl Op for OneHot {
    fn name(&self) -> &'static str {
        "OneHotEncoder"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("width", i64::try_from(self.width).unwrap_or(i64::MAX));
        a.flag("zeros", self.zeros);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let mut shape = cx.shape(0)?.to_vec();
        shape.push(self.width.into());
        Ok(vec![TensorType { dtype: DType::F32, shape }.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let kernel = if self.zeros { &ONE_HOT } else { &ONE_HOT_CHECKED };
        cx.call_for_input(kernel, (self.width,))
    }
}
