//! Tables: where elements stand in one, and what stands at a place. Strings of a table are one text
//! and the place behind each, so that they lie among the weights.

use crate::{
    diag::Result,
    dtype::{DType, KEYS},
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op, Reader, ValueId},
    plan::{Kernel, NoParams, kernel},
    tensor::Tensor,
    ty::TensorType,
};

/// Which of equal keys counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The first.
    First,
    /// The last.
    Last,
}

/// The places of different keys, in the order in which [`find`] wants them.
pub fn order(keys: &Tensor, which: Which) -> Vec<usize> {
    let mut places: Vec<usize> = (0..keys.len()).collect();
    if which == Which::Last {
        places.reverse();
    }
    if let Some(strings) = keys.strings() {
        places.sort_by(|&a, &b| strings[a].cmp(&strings[b]));
        places.dedup_by(|a, b| strings[*a] == strings[*b]);
    } else if let Some(ints) = keys.ints() {
        places.sort_by_key(|&place| ints[place]);
        places.dedup_by_key(|place| ints[*place]);
    } else {
        let floats = keys.floats().unwrap_or_default();
        let compare =
            |a: f64, b: f64| a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
        places.sort_by(|&a, &b| compare(floats[a], floats[b]));
        places.dedup_by(|a, b| compare(floats[*a], floats[*b]).is_eq());
    }
    places
}

/// Where each element of `x` stands among `keys`, which must be in [`order`]; their number where
/// it is none of them.
pub fn find(node: &mut Reader<'_>, x: ValueId, keys: &Tensor) -> Result<ValueId> {
    match keys.strings() {
        Some(strings) => {
            let [text, ends] = texts(node, strings);
            node.add(Find, &[x, text, ends], &[])
        }
        None => node.add(Find, &[x], std::slice::from_ref(keys)),
    }
}

/// The element of `table` at each place.
pub fn pick(node: &mut Reader<'_>, places: ValueId, table: Tensor) -> Result<ValueId> {
    match table.strings() {
        Some(strings) => pick_text(node, places, strings),
        None => node.add(Pick, &[places], &[table]),
    }
}

/// The string at each place.
pub fn pick_text(node: &mut Reader<'_>, places: ValueId, strings: &[String]) -> Result<ValueId> {
    let [text, ends] = texts(node, strings);
    node.add(PickText, &[places, text, ends], &[])
}

/// Strings as constants: one text, and the place behind each.
pub fn texts(node: &mut Reader<'_>, strings: &[String]) -> [ValueId; 2] {
    let ends = strings.iter().scan(0, |end, string| {
        *end += string.len();
        Some(u32::try_from(*end).unwrap_or(u32::MAX))
    });
    let ends: Vec<u32> = ends.collect();
    let text = node.constant("text", Tensor::from_text(&strings.concat()));
    [text, node.constant("ends", Tensor::from_places(&ends))]
}

/// Where each element stands in a table: its number, or the number of the keys.
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

/// The number at each place of a table.
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

/// The string at each place of a table.
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

/// A row for each place with a 1 in its column.
pub struct OneHot {
    /// The number of columns.
    pub width: usize,
    /// Whether a place may have no column.
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
