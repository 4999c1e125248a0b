//! Changes of shape: each output is a view of the input.

use super::{Entry, entry};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::DType,
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Reader, ValueId, Views},
    plan::{Arg, Kernel, Name, Operand, kernel},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("Flatten", 1, |node| Ok(Rc::new(Flatten { axis: node.int("axis", 1)? }))),
    entry("Identity", 1, |_| Ok(Rc::new(Identity))),
    entry("Reshape", 1, |node| {
        node.ints_as_input("shape", 1)?;
        Ok(Rc::new(Reshape { allowzero: false }))
    }),
    entry("Reshape", 5, |node| Ok(Rc::new(Reshape { allowzero: node.flag("allowzero", false)? }))),
    entry("Shape", 1, |node| {
        let (start, end) = (node.int("start", 0)?, node.maybe_int("end")?);
        Ok(Rc::new(Shape { start, end }))
    }),
    entry("Size", 1, |_| Ok(Rc::new(Size))),
    entry("Squeeze", 1, |node| {
        node.ints_as_input("axes", 1)?;
        Ok(Rc::new(Squeeze))
    }),
    entry("Squeeze", 13, |_| Ok(Rc::new(Squeeze))),
    entry("Unsqueeze", 1, |node| {
        node.ints_as_input("axes", 1)?;
        Ok(Rc::new(Unsqueeze))
    }),
    entry("Unsqueeze", 13, |_| Ok(Rc::new(Unsqueeze))),
];

/// The input as a matrix: the axes before `axis` are joined, and so are the others.
pub struct Flatten {
    /// The first axis of the second group.
    pub axis: i64,
}

impl Op for Flatten {
    fn name(&self) -> &'static str {
        "Flatten"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("axis", self.axis);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.ty(0)?;
        let rank = ty.rank();
        let axis = if self.axis == rank as i64 { rank } else { cx.axis("axis", self.axis, rank)? };
        let (before, after) = ty.shape.split_at(axis);
        Ok(vec![Type::tensor(ty.dtype, [before.iter().product::<Dim>(), after.iter().product()])])
    }

    fn views(&self, cx: &mut Views<'_>) {
        cx.view(0, 0, 0.into());
    }

    fn lower(&self, _: &mut Lower<'_>) -> Result {
        Ok(())
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        set_reshaped_gradient(g)
    }
}

/// The input.
pub struct Identity;

impl Op for Identity {
    fn name(&self) -> &'static str {
        "Identity"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        propagate_known(cx);
        if let Some(constant) = cx.constant(0) {
            cx.set_constant(0, constant.clone());
        }
        Ok(vec![cx.any(0)?.clone()])
    }

    fn views(&self, cx: &mut Views<'_>) {
        cx.view(0, 0, 0.into());
    }

    fn lower(&self, _: &mut Lower<'_>) -> Result {
        Ok(())
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        set_reshaped_gradient(g)
    }
}

/// The input in the shape in input 1, where 0 copies the input's size, unless `allowzero`, and -1
/// stands for the remaining size.
pub struct Reshape {
    /// Whether 0 means a size of 0.
    pub allowzero: bool,
}

static SIZES: Kernel<(Vec<Dim>, Name)> = kernel!(checked I64_ONLY T, reshape::reshape_sizes,
    |f, a, p| f(a.sizes(), a.input(0), p.0, p.1));
static ZERO_SIZES: Kernel<(Vec<Dim>, Name)> = kernel!(checked I64_ONLY T,
    reshape::reshape_sizes_allowing_zero, |f, a, p| f(a.sizes(), a.input(0), p.0, p.1));

/// The reason why no size beside one of -1 may be 0.
const NONZERO: &str = "the sizes beside one of -1 must not be zero";

impl Reshape {
    /// Returns the output's shape, if the elements of input 1 are known.
    fn shape(&self, cx: &mut Infer<'_>, input: &[Dim], wanted: &[Dim]) -> Inferred<Vec<Dim>> {
        let open = wanted.iter().position(|dim| dim.known() == Some(-1));
        let mut shape = Vec::new();
        for (axis, dim) in wanted.iter().enumerate() {
            shape.push(match dim.known() {
                Some(0) if !self.allowzero => match input.get(axis) {
                    Some(size) => size.clone(),
                    None => {
                        return Err(cx.diagnostic(
                            Code::ShapeMismatch,
                            format!("`shape` copies axis {axis}, which the input does not have"),
                        ));
                    }
                },
                Some(-1) if open == Some(axis) => 1.into(),
                Some(n) if n < 0 => {
                    let message = format!("`shape` is {wanted:?}, but only one size may be -1");
                    return Err(cx.diagnostic(Code::ShapeMismatch, message));
                }
                _ => {
                    self.require_literal(cx, dim, input.get(axis), open)?;
                    dim.clone()
                }
            });
        }
        let total = |shape: &[Dim]| -> Dim { shape.iter().product() };
        let what = "the numbers of elements before and after";
        let Some(open) = open else {
            cx.require_equal(&total(input), &total(&shape), what)?;
            return Ok(shape);
        };
        // Copied axes are on both sides, and may be empty.
        let rest = |shape: &[Dim]| -> Dim {
            let axes = shape.iter().enumerate();
            axes.filter(|(axis, _)| !self.copies(input, wanted, *axis))
                .map(|(_, dim)| dim)
                .product()
        };
        let (before, others) = (rest(input), rest(&shape));
        shape[open] = if before == others { 1.into() } else { before.floor_div(&others) };
        cx.require_equal(&before, &(others * &shape[open]), what)?;
        Ok(shape)
    }

    /// Returns whether the output has the size that the input has at this axis.
    fn copies(&self, input: &[Dim], wanted: &[Dim], axis: usize) -> bool {
        let (Some(size), Some(wanted)) = (input.get(axis), wanted.get(axis)) else { return false };
        !self.allowzero && (wanted.known() == Some(0) || wanted == size)
    }

    /// Requires that a computed size is the one of the output: not negative, and not a 0 that
    /// copies another size or makes the one of -1 ambiguous.
    fn require_literal(
        &self,
        cx: &mut Infer<'_>,
        wanted: &Dim,
        copied: Option<&Dim>,
        open: Option<usize>,
    ) -> Inferred<()> {
        let is_copy = !self.allowzero && copied == Some(wanted);
        let may_be_zero = match open {
            Some(_) => is_copy,
            None => self.allowzero || copied.is_some_and(|size| is_zero_with(size, wanted)),
        };
        if may_be_zero {
            return cx.require_at_least(wanted, &0.into(), "a size must not be negative");
        }
        let reason = match open {
            Some(_) => NONZERO,
            None => "a size of 0 would copy another size of the input",
        };
        // The copy of a size of 0 is 0 as well.
        let least = match (open, copied) {
            (None, Some(size)) => Dim::from(1) - size.equal(&0.into()),
            _ => 1.into(),
        };
        cx.require_at_least(wanted, &least, reason)
    }
}

/// Returns whether a size is provably 0 if `other` is: both are products, and each factor of
/// `other` is one of the size.
fn is_zero_with(size: &Dim, other: &Dim) -> bool {
    let product = |dim: &Dim| {
        let mut terms = dim.terms();
        let (factors, _) = terms.next()?;
        terms.next().is_none().then(|| factors.to_vec())
    };
    let (Some(factors), Some(others)) = (product(size), product(other)) else {
        return size.known() == Some(0);
    };
    others.iter().all(|factor| factors.contains(factor))
}

impl Op for Reshape {
    fn name(&self) -> &'static str {
        "Reshape"
    }

    fn count_for_rank(&self, rank: usize, _: usize) -> Option<(usize, usize)> {
        Some((1, rank))
    }

    fn attributes(&self, a: &mut Attributes) {
        a.flag("allowzero", self.allowzero);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.ty(0)?;
        propagate_known(cx);
        let shape = match cx.known(1) {
            Some(wanted) => self.shape(cx, &ty.shape, wanted)?,
            None => match cx.count(1)? {
                // No kernel runs, which would compare the numbers of elements.
                0 => self.shape(cx, &ty.shape, &[])?,
                rank => cx.fresh_sizes(vec![None; rank]),
            },
        };
        Ok(vec![Type::tensor(ty.dtype, shape)])
    }

    fn views(&self, cx: &mut Views<'_>) {
        cx.view(0, 0, 0.into());
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        if cx.known(1).is_some() {
            return Ok(());
        }
        let shape = cx.input(1)?.into();
        let (from, dtype) = (cx.ty(0)?.shape.clone(), cx.ty(1)?.dtype);
        let kernel = if self.allowzero { &ZERO_SIZES } else { &SIZES };
        let name = Name(cx.node().name.clone());
        cx.bind(kernel, dtype, vec![shape], (from, name))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        set_reshaped_gradient(g)
    }
}

/// Reads a node as the reshape of `y` to the shape of `x`.
pub fn read_as_reshape(node: &mut Reader<'_>, y: ValueId, x: ValueId) -> Result<Rc<dyn Op>> {
    let shape = node.add(Shape { start: 0, end: None }, &[x], &[])?;
    node.inputs = vec![Some(y), Some(shape)];
    Ok(Rc::new(Reshape { allowzero: true }))
}

/// The sizes of the input, from axis `start` to before axis `end`.
pub struct Shape {
    /// The first axis.
    pub start: i64,
    /// The axis after the last; by default the rank.
    pub end: Option<i64>,
}

static SHAPE: Kernel<(Vec<Dim>,)> =
    kernel!(I64_ONLY T, reshape::shape, |f, a, p| f(a.output(0), p.0));

impl Op for Shape {
    fn name(&self) -> &'static str {
        "Shape"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("start", self.start);
        if let Some(end) = self.end {
            a.int("end", end);
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let shape = cx.shape(0)?;
        let rank = shape.len() as i64;
        let place = |axis: i64| (if axis < 0 { axis + rank } else { axis }).clamp(0, rank) as usize;
        let (start, end) = (place(self.start), place(self.end.unwrap_or(rank)));
        let sizes = shape[start..end.max(start)].to_vec();
        let count = sizes.len();
        cx.set_known(0, sizes);
        Ok(vec![Type::tensor(DType::I64, [count])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        // The model may declare the output's type while the rank of the input is unknown.
        cx.ty(0)?;
        write_sizes(cx)
    }
}

/// The number of elements of the input.
pub struct Size;

impl Op for Size {
    fn name(&self) -> &'static str {
        "Size"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let len = cx.ty(0)?.len();
        cx.set_known(0, vec![len]);
        Ok(vec![Type::tensor::<Dim>(DType::I64, [])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.ty(0)?;
        write_sizes(cx)
    }
}

/// Writes the known elements of the node's output, which are sizes.
pub(super) fn write_sizes(cx: &mut Lower<'_>) -> Result {
    let sizes = cx.known_output(0).expect("`infer` set the known elements").to_vec();
    let y = cx.output(0)?;
    write(cx, sizes, y)
}

/// Writes sizes as elements.
pub(super) fn write(cx: &mut Lower<'_>, sizes: Vec<Dim>, to: Operand) -> Result {
    cx.call_on(&SHAPE, DType::I64, Vec::new(), vec![to.into()], (sizes,))
}

/// The input without the axes in input 1, or without all axes of size 1.
pub struct Squeeze;

static SQUEEZE_SIZES: Kernel<(Vec<Dim>,)> = kernel!(checked I64_ONLY T, reshape::squeeze_sizes,
    |f, a, p| f(a.sizes(), a.optional(0), p.0));

impl Squeeze {
    /// Returns whether only the run determines if an axis of that size is squeezed.
    pub fn is_open(size: &Dim) -> bool {
        size.equal(&1.into()).known().is_none()
    }
}

impl Op for Squeeze {
    fn name(&self) -> &'static str {
        "Squeeze"
    }

    fn count_for_rank(&self, rank: usize, data: usize) -> Option<(usize, usize)> {
        Some((1, data.checked_sub(rank)?))
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.ty(0)?;
        propagate_known(cx);
        let rank = ty.rank();
        let axes = match (cx.has(1), cx.ints(1)) {
            (true, Some(axes)) => cx.axes("axes", &axes, rank)?,
            (true, None) => match rank.checked_sub(cx.count(1)?) {
                None => {
                    let message = format!("`axes` lists more axes than the {rank} of the input");
                    return Err(cx.diagnostic(Code::ShapeMismatch, message));
                }
                // No kernel runs, which would compare the sizes with 1.
                Some(0) => (0..rank).collect(),
                Some(left) => {
                    let sizes = cx.fresh_sizes(vec![None; left]);
                    return Ok(vec![Type::tensor(ty.dtype, sizes)]);
                }
            },
            (false, _) if ty.shape.iter().any(Squeeze::is_open) => {
                return Ok(vec![Type::Unranked(ty.dtype)]);
            }
            (false, _) => (0..rank).filter(|&axis| ty.shape[axis].known() == Some(1)).collect(),
        };
        for &axis in &axes {
            cx.require_equal(&ty.shape[axis], &1.into(), "a squeezed axis and 1")?;
        }
        let kept = ty.shape.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
        Ok(vec![Type::tensor(ty.dtype, kept.map(|(_, dim)| dim))])
    }

    fn views(&self, cx: &mut Views<'_>) {
        cx.view(0, 0, 0.into());
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        if !cx.has(1) && cx.ty(0)?.shape.iter().any(Squeeze::is_open) {
            let message = "without `axes`, only the run determines which axes are squeezed";
            let name = cx.output_name(0)?;
            let help = format!(
                "declare the axes of the output, as in `--shape {name}=SIZE,…`, or fix the sizes \
                 that may be 1: `--dim NAME=N`"
            );
            return Err(Diagnostic::new(Code::UnknownShape, message).help(help));
        }
        if cx.node().binds.is_empty() {
            return Ok(());
        }
        let axes = Arg::Optional(cx.optional(1)?);
        let (shape, dtype) = (cx.ty(0)?.shape.clone(), cx.ty(1)?.dtype);
        cx.bind(&SQUEEZE_SIZES, dtype, vec![axes], (shape,))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        set_reshaped_gradient(g)
    }
}

/// The input with axes of size 1 inserted, at the indices in input 1.
pub struct Unsqueeze;

static UNSQUEEZE_SIZES: Kernel<(Vec<Dim>,)> = kernel!(checked I64_ONLY T, reshape::unsqueeze_sizes,
    |f, a, p| f(a.sizes(), a.input(0), p.0));

impl Op for Unsqueeze {
    fn name(&self) -> &'static str {
        "Unsqueeze"
    }

    fn count_for_rank(&self, rank: usize, data: usize) -> Option<(usize, usize)> {
        Some((1, rank.checked_sub(data)?))
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.ty(0)?;
        propagate_known(cx);
        let Some(axes) = cx.ints(1) else {
            let rank = ty.rank() + cx.count(1)?;
            let sizes = cx.fresh_sizes(vec![None; rank]);
            return Ok(vec![Type::tensor(ty.dtype, sizes)]);
        };
        let rank = ty.rank() + axes.len();
        let axes = cx.axes("axes", &axes, rank)?;
        let mut sizes = ty.shape.iter().cloned();
        let size = |axis| {
            if axes.contains(&axis) {
                1.into()
            } else {
                sizes.next().expect("every axis that is not inserted has a size")
            }
        };
        Ok(vec![Type::tensor(ty.dtype, (0..rank).map(size).collect::<Vec<Dim>>())])
    }

    fn views(&self, cx: &mut Views<'_>) {
        cx.view(0, 0, 0.into());
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        if cx.node().binds.is_empty() {
            return Ok(());
        }
        let axes = cx.input(1)?.into();
        let (shape, dtype) = (cx.ty(0)?.shape.clone(), cx.ty(1)?.dtype);
        cx.bind(&UNSQUEEZE_SIZES, dtype, vec![axes], (shape,))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        set_reshaped_gradient(g)
    }
}

/// Passes the known elements of the input to the output.
fn propagate_known(cx: &mut Infer<'_>) {
    if let Some(known) = cx.known(0) {
        cx.set_known(0, known.to_vec());
    }
}

/// Sets the gradient to `dy` in the shape of input 0.
fn set_reshaped_gradient(g: &mut Gradient<'_>) -> Result {
    if let Some(dy) = g.dy(0) {
        g.set(0, dy.reshape_like(g.x(0)));
    }
    Ok(())
}

impl<'t> Expr<'t> {
    /// Returns the shape.
    pub fn shape(self) -> Expr<'t> {
        self.apply(Shape { start: 0, end: None }, &[])
    }

    /// Returns the size of one axis, as a tensor of rank 1.
    pub fn size_of(self, axis: usize) -> Expr<'t> {
        let (start, end) = (axis as i64, Some(axis as i64 + 1));
        self.apply(Shape { start, end }, &[])
    }

    /// Returns the sizes of the axes from `start` to before `end`; `i64::MAX` is the rank.
    pub fn sizes(self, start: i64, end: i64) -> Expr<'t> {
        let end = Some(end).filter(|&end| end != i64::MAX);
        self.apply(Shape { start, end }, &[])
    }

    /// Returns the number of elements.
    pub fn size(self) -> Expr<'t> {
        self.apply(Size, &[])
    }

    /// Reshapes to the shape in a tensor.
    pub fn reshape(self, shape: Expr<'t>) -> Expr<'t> {
        self.apply(Reshape { allowzero: true }, &[shape])
    }

    /// Reshapes to the shape of `other`.
    pub fn reshape_like(self, other: Expr<'t>) -> Expr<'t> {
        if self.dims() == other.dims() { self } else { self.reshape(other.shape()) }
    }

    /// Reshapes to a shape in which 0 copies the size of the axis and -1 stands for the remaining
    /// size.
    pub fn reshape_to(self, shape: &[i64]) -> Expr<'t> {
        self.apply(Reshape { allowzero: false }, &[self.tape.ints(shape)])
    }

    /// Reshapes to the shape in a tensor, with 0 and -1 as for [`Expr::reshape_to`].
    pub fn reshape_by(self, shape: Expr<'t>) -> Expr<'t> {
        self.apply(Reshape { allowzero: false }, &[shape])
    }

    /// Inserts axes of size 1, at the indices in a tensor.
    pub fn unsqueeze(self, axes: Expr<'t>) -> Expr<'t> {
        self.apply(Unsqueeze, &[axes])
    }

    /// Inserts an axis of size 1.
    pub fn with_axis(self, axis: i64) -> Expr<'t> {
        self.unsqueeze(self.tape.ints(&[axis]))
    }

    /// Removes axes of size 1.
    pub fn squeeze(self, axes: &[usize]) -> Expr<'t> {
        let axes: Vec<i64> = axes.iter().map(|&axis| axis as i64).collect();
        self.apply(Squeeze, &[self.tape.ints(&axes)])
    }
}
