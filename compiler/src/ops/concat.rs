//! `Concat` and `Split`.

use super::{Entry, entry};
use crate::{
    diag::{Code, Diagnostic, Result, counted, there_are},
    dim::{Dim, Symbol},
    dtype::{ANY, DType},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Reader, Stop, Tape, Views},
    plan::{
        Kernel, Operand,
        geometry::{Axis, Strided},
        kernel,
    },
    ty::TensorType,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("Concat", 1, |node| Ok(Rc::new(Concat { axis: node.int("axis", 1)? }))),
    entry("Concat", 4, |node| Ok(Rc::new(Concat { axis: node.required_int("axis")? }))),
    entry("Split", 1, |node| {
        if node.ty(1).is_some() {
            let message = "`Split` of version 1 does not support sizes as an input";
            return Err(Diagnostic::new(Code::Unsupported, message));
        }
        node.ints_as_input("split", 1)?;
        split(node)
    }),
    entry("Split", 2, |node| {
        node.ints_as_input("split", 1)?;
        split(node)
    }),
    entry("Split", 13, split),
    entry("Split", 18, |node| {
        if node.ty(1).is_none() && node.maybe_int("num_outputs")?.is_none() {
            let message = "neither the input `split` nor the attribute `num_outputs` is given";
            let warning = Diagnostic::warning(Code::MissingAttribute, message);
            let warning = warning.note("the parts are as many as the node has outputs");
            node.warnings.push(warning.help(format!("set `num_outputs` to {}", node.outputs)));
        }
        split(node)
    }),
];

/// Reads `Split`. Before version 18 the number of equal parts is the number of outputs.
fn split(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    let axis = node.int("axis", 0)?;
    let parts = node.maybe_int("num_outputs")?;
    if node.ty(1).is_none() {
        let outputs = i64::try_from(node.outputs).unwrap_or(i64::MAX);
        return Ok(Rc::new(Split { axis, num_outputs: Some(parts.unwrap_or(outputs)) }));
    }
    if parts.is_some() {
        let message = "`num_outputs` and the input `split` exclude each other";
        return Err(Diagnostic::new(Code::BadAttribute, message));
    }
    Ok(Rc::new(Split { axis, num_outputs: None }))
}

/// Records the known elements of the result, if the number of elements of each input is known.
fn record_partly_known(cx: &mut Infer<'_>) {
    /// The largest number of unknown elements of an input.
    const MOST: usize = 1024;
    let mut elements = Vec::new();
    for i in 0..cx.inputs() {
        let count = || usize::try_from(cx.ty(i).ok()?.len().known()?).ok();
        match (cx.partly(i), count()) {
            (Some(partly), _) => elements.extend(partly),
            (None, Some(count)) if count <= MOST => elements.extend(vec![None; count]),
            _ => return,
        }
    }
    if elements.iter().any(Option::is_some) {
        cx.set_partly(0, elements);
    }
}

/// Concatenates its inputs along an axis.
pub struct Concat {
    /// The axis.
    pub axis: i64,
}

pub static CONCAT: Kernel<Strided> =
    kernel!(moves T, concat::concat::<T>, |f, a, p| f(a.input(0), a.output(0), p));

impl Op for Concat {
    fn name(&self) -> &'static str {
        "Concat"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("axis", self.axis);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let TensorType { dtype, mut shape } = cx.of(0, ANY)?.clone();
        let rank = shape.len();
        let concatenated = cx.axis("axis", self.axis, rank)?;
        for i in 1..cx.inputs() {
            cx.same_dtype(0, i)?;
            for (axis, size) in cx.ranked(i, rank)?.shape.iter().enumerate() {
                if axis == concatenated {
                    shape[axis] = &shape[axis] + size;
                } else {
                    cx.require_equal(&shape[axis], size, &format!("the sizes of axis {axis}"))?;
                    if size.known().is_some() {
                        shape[axis] = size.clone();
                    }
                }
            }
        }
        let elements: Option<Vec<&[Dim]>> = (0..cx.inputs()).map(|i| cx.known(i)).collect();
        match elements {
            Some(elements) => cx.set_known(0, elements.concat()),
            None if rank == 1 && dtype == DType::I64 => record_partly_known(cx),
            None => {}
        }
        Ok(vec![TensorType { dtype, shape }.into()])
    }

    fn views(&self, cx: &mut Views<'_>) {
        let Some(ty) = cx.output_ty(0) else { return };
        let axis = cx.axis(self.axis, ty.rank());
        if !is_outermost(ty, axis) {
            return;
        }
        let mut start = Dim::from(0);
        for j in 0..cx.inputs() {
            let Some(part) = cx.ty(j) else { return };
            cx.within(j, 0, start.clone());
            start = start + part.len();
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let ty = cx.output_ty(0)?;
        let axis = cx.axis(self.axis, ty.rank());
        let output = cx.output(0)?;
        let mut start = Dim::from(0);
        for i in 0..cx.node().inputs.len() {
            let len = &cx.ty(i)?.shape[axis];
            let (x, y) = (cx.input(i)?, output.clone());
            if is_outermost(ty, axis) {
                let start = &y.start + &start * Axis::of(&ty.shape, axis).inner;
                cx.copy(x.clone(), Operand { start, len: x.len, ..y });
            } else if len.known() != Some(0) {
                let geometry = Strided::part(&ty.shape, axis, &start, len);
                cx.call_on(&CONCAT, ty.dtype, vec![x.into()], vec![y.into()], geometry)?;
            }
            start = start + len;
        }
        Ok(())
    }

    /// Splits `dy` into the gradients of the inputs.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let Some(dy) = g.dy(0) else { return Ok(()) };
        let axis = g.axis(self.axis, dy.rank());
        let sizes: Vec<_> = (0..g.inputs()).map(|i| g.x(i).size_of(axis)).collect();
        let parts = dy.split(self.axis, g.tape().concat(&sizes), g.inputs());
        parts.into_iter().enumerate().for_each(|(i, part)| g.set(i, part));
        Ok(())
    }
}

/// Splits its input into parts along an axis. Input 1 holds their sizes; without it all parts have
/// the same size, and the last one may be smaller.
pub struct Split {
    /// The axis.
    pub axis: i64,
    /// The number of parts, if there is no input with their sizes.
    pub num_outputs: Option<i64>,
}

/// The largest number of parts of a node whose number of outputs is smaller.
const MOST_PARTS: i64 = 1 << 16;

pub static SPLIT: Kernel<Strided> =
    kernel!(moves T, concat::split::<T>, |f, a, p| f(a.input(0), a.output(0), p));
static SPLIT_SIZES: Kernel<(Dim,)> =
    kernel!(checked I64_ONLY T, concat::split_sizes, |f, a, p| f(a.sizes(), a.input::<T>(0), p.0));

impl Split {
    /// The sizes of the parts of an axis of `len` elements: the elements of input 1 if they are
    /// `known`, else the symbols that the node defines.
    fn part_sizes(&self, len: &Dim, known: Option<&[Dim]>, symbols: &[Symbol]) -> Vec<Dim> {
        let Some(count) = self.num_outputs else {
            let symbols = || symbols.iter().map(|name| Dim::symbol(name)).collect();
            return known.map_or_else(symbols, <[Dim]>::to_vec);
        };
        let others = Dim::from(count - 1);
        let part = len.ceil_div(&count.into());
        let last = len - &part * &others;
        (1..count).map(|_| part.clone()).chain([last]).collect()
    }

    /// Infers and checks the sizes of the parts of an axis of `len` elements.
    fn infer_part_sizes(&self, cx: &mut Infer<'_>, len: &Dim) -> Inferred<Vec<Dim>> {
        if let Some(count) = self.num_outputs
            && usize::try_from(count).map_or(true, |count| count < cx.outputs().max(1))
        {
            let outputs = counted(cx.outputs(), "output");
            let message = format!("`num_outputs` is {count}, but the node has {outputs}");
            return Err(cx.diagnostic(Code::BadAttribute, message));
        }
        // There may be more parts than outputs, so the model's size does not bound their number.
        if let Some(count) = self.num_outputs.filter(|&count| count > MOST_PARTS)
            && usize::try_from(count) != Ok(cx.outputs())
        {
            let message =
                format!("`num_outputs` is {count}; more than {MOST_PARTS} are not supported");
            return Err(cx.diagnostic(Code::TooLarge, message));
        }
        if self.num_outputs.is_none() && cx.known(1).is_none() {
            let count = cx.ranked(1, 1)?.len().known().ok_or(Stop::Unknown)?;
            if count > MOST_PARTS {
                let message =
                    format!("`split` has {count} sizes; more than {MOST_PARTS} are not supported");
                return Err(cx.diagnostic(Code::TooLarge, message));
            }
            let bounds = (0..count).map(|_| cx.upper(len)).collect::<Vec<_>>();
            return Ok(cx.fresh_sizes(bounds));
        }
        let parts = self.part_sizes(len, cx.known(1), &[]);
        for part in &parts {
            cx.require_at_least(part, &0.into(), "the size of a part must not be negative")?;
        }
        let sum = parts.iter().cloned().sum();
        cx.require_equal(len, &sum, "the axis and the sum of its parts")?;
        Ok(parts)
    }
}

impl Op for Split {
    fn name(&self) -> &'static str {
        "Split"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("axis", self.axis);
        if let Some(parts) = self.num_outputs {
            a.int("num_outputs", parts);
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, ANY)?;
        let axis = cx.axis("axis", self.axis, ty.rank())?;
        let parts = self.infer_part_sizes(cx, &ty.shape[axis])?;
        if parts.len() < cx.outputs() {
            let (parts, outputs) = (parts.len(), counted(cx.outputs(), "output"));
            let message = format!("{} for {outputs}", there_are(parts, "part"));
            return Err(cx.diagnostic(Code::BadArity, message));
        }
        let lens: Option<Vec<i64>> = parts.iter().map(Dim::known).collect();
        if let (Some(mut rest), Some(lens)) = (cx.known(0), lens) {
            for (i, len) in lens.into_iter().enumerate() {
                let (part, after) = rest.split_at(usize::try_from(len).unwrap_or(0));
                cx.set_known(i, part.to_vec());
                rest = after;
            }
        }
        let part = |len: Dim| {
            let mut part = ty.clone();
            part.shape[axis] = len;
            part.into()
        };
        Ok(parts.into_iter().map(part).collect())
    }

    fn views(&self, cx: &mut Views<'_>) {
        let Some(ty) = cx.ty(0) else { return };
        let axis = cx.axis(self.axis, ty.rank());
        if !is_outermost(ty, axis) {
            return;
        }
        let Axis { len, inner, .. } = Axis::of(&ty.shape, axis);
        let mut start = Dim::from(0);
        for (i, part) in self.part_sizes(&len, cx.known(1), &cx.node().binds).iter().enumerate() {
            cx.view(i, 0, start.clone());
            start = start + part * &inner;
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let ty = cx.ty(0)?;
        let axis = cx.axis(self.axis, ty.rank());
        let len = &ty.shape[axis];
        if !cx.node().binds.is_empty() {
            let parts = cx.input(1)?.into();
            cx.bind(&SPLIT_SIZES, DType::I64, vec![parts], (len.clone(),))?;
        }
        if is_outermost(ty, axis) {
            return Ok(());
        }
        let x = cx.input(0)?;
        let mut start = Dim::from(0);
        for (i, part) in self.part_sizes(len, cx.known(1), &cx.node().binds).iter().enumerate() {
            // Even an empty buffer of strings has to be allocated on the heap.
            let is_written = part.known() != Some(0) || ty.dtype == DType::String;
            if cx.node().output(i).is_some() && is_written {
                let (x, y) = (x.clone().into(), cx.output(i)?.into());
                let geometry = Strided::part(&ty.shape, axis, &start, part);
                cx.call_on(&SPLIT, ty.dtype, vec![x], vec![y], geometry)?;
            }
            start = start + part;
        }
        Ok(())
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let count = g.node().outputs.len();
        let parts: Vec<_> = match (0..count).all(|i| g.dy(i).is_some()) {
            true => (0..count).filter_map(|i| g.dy(i)).collect(),
            false => (0..count).map(|i| g.dy(i).unwrap_or_else(|| g.y(i).zeros_like())).collect(),
        };
        g.set(0, parts[0].concat(&parts[1..], self.axis));
        Ok(())
    }
}

/// Returns whether all axes before `axis` have size 1, so that a part along it is contiguous.
fn is_outermost(ty: &TensorType, axis: usize) -> bool {
    ty.shape[..axis].iter().all(|size| size.known() == Some(1))
}

impl<'t> Expr<'t> {
    /// Concatenates `self` and `others` along an axis.
    pub fn concat(self, others: &[Expr<'t>], axis: i64) -> Expr<'t> {
        if others.is_empty() { self } else { self.apply(Concat { axis }, others) }
    }

    /// Splits `self` along an axis into `parts` parts, whose sizes are the elements of `sizes`.
    pub fn split(self, axis: i64, sizes: Expr<'t>, parts: usize) -> Vec<Expr<'t>> {
        let op = Rc::new(Split { axis, num_outputs: None });
        self.tape.node(op, &[Some(self), Some(sizes)], parts)
    }
}

impl Tape {
    /// Concatenates tensors of one axis; an empty `int64` tensor if there are none.
    pub fn concat<'t>(&'t self, parts: &[Expr<'t>]) -> Expr<'t> {
        match parts.split_first() {
            Some((first, others)) => first.concat(others, 0),
            None => self.ints(&[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Options, interpreter,
        ops::testing::{Given, check, tensor},
        tensor::Tensor,
        value::Value,
    };
    use DType::F32;

    fn n() -> Dim {
        Dim::symbol("n")
    }

    #[test]
    fn concatenated_sizes_are_added_and_fixed_sizes_replace_symbols() {
        let inputs = [tensor(F32, [n(), n()]), tensor(F32, [n(), 3.into()])];
        check(Concat { axis: -1 }, &inputs, 1, "float[n, n + 3]");
        check(Concat { axis: 0 }, &inputs, 1, "float[2 * n, 3]");
        let sizes = [Given::Sizes(vec![n(), 5.into()]), Given::Ints(vec![-1])];
        check(Concat { axis: 0 }, &sizes, 1, "int64[3] = [n, 5, 0 - 1]");
    }

    #[test]
    fn an_operand_whose_offset_is_data_dependent_is_copied() {
        let text = r#"<ir_version: 10, opset_import: ["" : 21]>
            g (float[1, 4] x, bool[6] chosen, float[6] row) => (y) <int64[1] first = {0}>
            {
                a = Relu(x)
                some = Compress<axis = 0>(row, chosen)
                b = Unsqueeze(some, first)
                y = Concat<axis = 0>(b, a, b)
            }"#;
        let plan = crate::Compiler::new(&Options::default())
            .plan(text.to_owned().into())
            .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let chosen = Tensor::from_raw(DType::Bool, vec![6], vec![1, 0, 1, 1, 0, 1].into());
        let x = Tensor { shape: vec![1, 4], ..Tensor::from_floats(&[1.0, 2.0, 3.0, 4.0]) };
        let row = Tensor::from_floats(&[5.0, 6.0, 7.0, 8.0, 9.0, 10.0]);
        let inputs = [x, chosen, row].map(Value::Tensor);
        let outputs = interpreter::run(&plan, &inputs).expect("the inputs are valid");
        let y = outputs[0].tensor().and_then(Tensor::floats).expect("the output is `float`");
        assert_eq!(y, [5.0, 7.0, 8.0, 10.0, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 8.0, 10.0]);
    }

    #[test]
    fn sizes_of_parts_may_be_symbols() {
        let x = || tensor(F32, [n() + 3, 4.into()]);
        let split = |num_outputs, axis| Split { axis, num_outputs };
        let parts = Given::Sizes(vec![n(), 3.into()]);
        check(split(None, 0), &[x(), parts], 2, "float[n, 4]; float[3, 4]");
        let expected = "float[n + 3, 2]; float[n + 3, 2]";
        check(split(Some(2), -1), &[x()], 2, expected);
        let expected = "float[n + 3, 2]; float[n + 3, 2]; float[n + 3, 0]";
        check(split(Some(3), 1), &[x()], 3, expected);
        let expected = "the size of a part must not be negative: 0 - 1 is less than 0";
        check(split(Some(4), 0), &[tensor(F32, [5])], 4, expected);
    }

    #[test]
    fn sizes_of_parts_may_be_data_dependent() {
        let inputs = [tensor(F32, [n(), 4.into()]), tensor(DType::I64, [2])];
        let split = Split { axis: 1, num_outputs: None };
        check(split, &inputs, 2, "float[n, y0_0]; float[n, y0_1]");
        let sizes = [Given::Sizes(vec![n(), 5.into(), 1.into()]), Given::Ints(vec![1, 2])];
        let split = Split { axis: 0, num_outputs: None };
        check(split, &sizes, 2, "int64[1] = [n]; int64[2] = [5, 1]");
    }

    #[test]
    fn an_empty_part_of_strings_is_written() {
        let text = r#"<ir_version: 10, opset_import: ["" : 21]>
            g (string[2, 3] x) => (string[2, 3] a, string[2, 0] b)
            <int64[2] parts = {3, 0}>
            { a, b = Split<axis = 1>(x, parts) }"#;
        let options = crate::Options::default();
        let plan = crate::Compiler::new(&options)
            .plan(text.to_owned().into())
            .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        assert_eq!(plan.to_string().matches("concat::split").count(), 2, "{plan}");
    }
}
