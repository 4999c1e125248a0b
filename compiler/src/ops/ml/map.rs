//! Conversions between tensors and maps: `ZipMap`, `CastMap` and `DictVectorizer`.

use super::{cast_to, lookup::add_strings};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::DType,
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op, Reader, Stop, ValueId, Views},
    limits::Limit,
    ops::{
        Entry,
        compare::{EQUAL, Where},
        ml, ml_nodes,
    },
    plan::{Arg, Kernel, NoParams, kernel},
    tensor::Tensor,
    ty::{TensorType, Type},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    ml("ZipMap", 1, |node| {
        let strings = node.maybe_strings("classlabels_strings")?.map(Tensor::from_strings);
        let ints = node.maybe_ints("classlabels_int64s")?.map(|ints| Tensor::from_ints(&ints));
        Ok(Rc::new(ZipMap { keys: one_of([strings, ints], "the keys")? }))
    }),
    ml_nodes("CastMap", 1, cast_map),
    ml_nodes("DictVectorizer", 1, |node| {
        let strings = node.maybe_strings("string_vocabulary")?.map(Tensor::from_strings);
        let ints = node.maybe_ints("int64_vocabulary")?.map(|ints| Tensor::from_ints(&ints));
        let keys = one_of([strings, ints], "the vocabulary")?;
        let map = node.input(0)?;
        Ok(vec![values_of(node, map, Some(keys))?])
    }),
];

/// The one of two attributes that is present and not empty.
fn one_of(attributes: [Option<Tensor>; 2], what: &str) -> Result<Tensor> {
    let mut present = attributes.into_iter().flatten().filter(|tensor| !tensor.is_empty());
    match (present.next(), present.next()) {
        (Some(tensor), None) => Ok(tensor),
        _ => {
            let message = format!("exactly one attribute must list {what}: strings or integers");
            Err(Diagnostic::new(Code::BadAttribute, message))
        }
    }
}

/// A sequence of maps, one per row, with the same keys. It needs no kernel: the values are a view
/// of the input, and the keys a constant companion buffer.
struct ZipMap {
    keys: Tensor,
}

impl Op for ZipMap {
    fn name(&self) -> &'static str {
        "ZipMap"
    }

    fn domain(&self) -> Domain {
        Domain::Ml
    }

    fn attributes(&self, a: &mut Attributes) {
        match (self.keys.strings(), self.keys.ints()) {
            (Some(strings), _) => a.strings("classlabels_strings", strings),
            (None, ints) => a.ints("classlabels_int64s", &ints.unwrap_or_default()),
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let [rows, count] = super::rows(cx)?;
        let dtype = cx.of(0, &[DType::F32])?.dtype;
        cx.require_equal(&count, &self.keys.len().into(), "the numbers of values and of keys")?;
        let values = Type::tensor(dtype, [rows, self.keys.len().into()]);
        let map = Type::Map(self.keys.dtype, values.into());
        Ok(vec![Type::Sequence(map.into())])
    }

    fn views(&self, cx: &mut Views<'_>) {
        cx.view(0, 0, 0.into());
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let keys = cx.weight(&self.keys);
        cx.set_output_companion(0, keys);
        Ok(())
    }
}

/// Reads `CastMap`: the values in the order of the keys (dense), or each at the index that is its
/// key (sparse).
fn cast_map(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let to = node.choice(
        "cast_to",
        &[("TO_FLOAT", DType::F32), ("TO_STRING", DType::String), ("TO_INT64", DType::I64)],
    )?;
    let is_sparse = node.choice("map_form", &[("DENSE", false), ("SPARSE", true)])?;
    let indices = node.int("max_map", 1)?;
    let count = usize::try_from(indices).map_err(|_| {
        let message = format!("`max_map` is {indices}, but must not be negative");
        Diagnostic::new(Code::BadAttribute, message)
    })?;
    if is_sparse {
        node.budget().spend(Limit::ListElements, count, "keys of a map")?;
    }
    let keys = is_sparse.then(|| Tensor::from_ints(&(0..indices).collect::<Vec<_>>()));
    let map = node.input(0)?;
    let mut values = values_of(node, map, keys)?;
    if is_sparse && to != DType::String {
        values = fill_empty_with_zero(node, values)?;
    }
    Ok(vec![cast_to(node, values, to)?])
}

/// Replaces empty strings, which stand for missing keys, by `"0"`, so that a cast to a number
/// succeeds. Leaves other types unchanged.
fn fill_empty_with_zero(node: &mut Reader<'_>, values: ValueId) -> Result<ValueId> {
    let is_text = node.type_of(values).as_tensor().is_some_and(|ty| ty.dtype == DType::String);
    if !is_text {
        return Ok(values);
    }
    let missing = node.add(&EQUAL, &[values], &[Tensor::from_strings(vec![String::new()])])?;
    let zero = node.constant("zero", Tensor::from_strings(vec!["0".into()]));
    node.add(Where, &[missing, zero, values], &[])
}

/// Adds the values of a map for `keys`, or all of them in the order of their keys.
fn values_of(node: &mut Reader<'_>, map: ValueId, keys: Option<Tensor>) -> Result<ValueId> {
    let Some(keys) = keys else { return node.add(MapValues { count: None }, &[map], &[]) };
    let op = MapValues { count: Some(keys.len()) };
    match keys.strings() {
        Some(strings) => {
            let [text, ends] = add_strings(node, strings);
            node.add(op, &[map, text, ends], &[])
        }
        None => node.add(op, &[map], &[keys]),
    }
}

/// The values of a map as one row: those for the keys in input 1, or all in the order of their
/// keys.
struct MapValues {
    /// The number of keys in input 1.
    count: Option<usize>,
}

static FIND: Kernel = kernel!(I64_ONLY T, ml::find_keys::<T>,
    |f, a, _p| f(a.input(0), a.input(1), a.output(0)));
static FIND_TEXT: Kernel = kernel!(I64_ONLY T, ml::find_text_keys,
    |f, a, _p| f(a.input(0), a.input(1), a.input(2), a.output::<T>(0)));
static ORDER: Kernel =
    kernel!(I64_ONLY T, ml::sort_keys, |f, a, _p| f(a.input::<T>(0), a.output(0)));
static PICK: Kernel = kernel!(ANY_IR4 T, ml::pick_values::<T>,
    |f, a, _p| f(a.input(0), a.input(1), a.output(0)));

impl Op for MapValues {
    fn name(&self) -> &'static str {
        "MapValues"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        if let Some(count) = self.count {
            a.int("count", i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (key, values) = match cx.any(0)? {
            Type::Map(key, values) => (*key, values.kept().ok_or(Stop::Unknown)?),
            Type::Unknown => return Err(Stop::Unknown),
            ty => {
                let message = format!("input 0 must be a map, but is {ty}");
                return Err(cx.diagnostic(Code::TypeMismatch, message));
            }
        };
        let expected = if cx.inputs() > 2 { DType::String } else { DType::I64 };
        if key != expected {
            let message = format!("the keys of the map must be {expected}, but are {key}");
            return Err(cx.diagnostic(Code::TypeMismatch, message));
        }
        let count = self.count.map_or_else(|| values.len(), Dim::from);
        Ok(vec![Type::tensor(values.dtype, [1.into(), count])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let TensorType { dtype, shape } = cx.output_ty(0)?;
        let indices = cx.scratch(DType::I64, shape[1].clone());
        let keys = cx.companion(0).ok_or_else(|| cx.unsupported("a map without keys"))?;
        let mut inputs = vec![Arg::from(keys)];
        for i in 1..cx.node().inputs.len() {
            inputs.push(cx.input(i)?.into());
        }
        let kernel = match inputs.len() {
            1 => &ORDER,
            2 => &FIND,
            _ => &FIND_TEXT,
        };
        cx.call_on(kernel, DType::I64, inputs, vec![indices.clone().into()], NoParams)?;
        let (values, y) = (cx.input(0)?.into(), cx.output(0)?.into());
        cx.call_on(&PICK, *dtype, vec![values, indices.into()], vec![y], NoParams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Given, check, tensor};
    use DType::{F32, F64, I64};

    #[test]
    fn zip_map_yields_one_map_per_row() {
        let zip = || ZipMap { keys: Tensor::from_ints(&[7, 8, 9]) };
        let n = Dim::symbol("n");
        let inferred = "seq(map(int64, float[n, 3]))";
        check(zip(), &[tensor(F32, [n, 3.into()])], 1, inferred);
        check(zip(), &[tensor(F32, [3])], 1, "seq(map(int64, float[1, 3]))");
        let error = "the numbers of values and of keys must be equal, but are 2 and 3";
        check(zip(), &[tensor(F32, [5, 2])], 1, error);
    }

    #[test]
    fn map_values_yields_one_row() {
        let map = |key| {
            let values = Type::tensor(F64, [Dim::symbol("n")]);
            Given::Value(Type::Map(key, values.into()))
        };
        check(MapValues { count: None }, &[map(I64)], 1, "double[1, n]");
        let keys = Given::Ints(vec![1, 2]);
        check(MapValues { count: Some(2) }, &[map(I64), keys], 1, "double[1, 2]");
        let error = "the keys of the map must be int64, but are string";
        check(MapValues { count: None }, &[map(DType::String)], 1, error);
    }
}
