//! Scattering updates by indices: `ScatterElements`, `ScatterND` and `TensorScatter`.

use super::{
    Entry,
    constant::Range,
    entry,
    expand::Expand,
    gather::{gather_elements_shape, slice_shape},
};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{ANY, DType, NUMERIC},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{
        Kernel,
        geometry::{Caches, Elements, Points},
        kernel,
    },
    tensor::Tensor,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("Scatter", 9, scatter_elements),
    entry("ScatterElements", 11, scatter_elements),
    entry("ScatterND", 11, |node| Ok(Rc::new(ScatterNd { reduction: reduction(node)? }))),
    entry("TensorScatter", 24, |node| {
        let axis = node.int("axis", -2)?;
        let circular = node.choice("mode", &[("linear", false), ("circular", true)])?;
        Ok(Rc::new(TensorScatter { axis, circular }))
    }),
];

fn scatter_elements(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    let (axis, reduction) = (node.int("axis", 0)?, reduction(node)?);
    Ok(Rc::new(ScatterElements { axis, reduction }))
}

fn reduction(node: &mut Reader<'_>) -> Result<&'static Reduction> {
    let all = [&NONE, &ADD, &MUL, &MAX, &MIN].map(|reduction| (reduction.name, reduction));
    node.choice("reduction", &all)
}

/// A function that combines an element and its update.
pub struct Reduction {
    name: &'static str,
    types: &'static [DType],
    elements: Kernel<Elements>,
    slices: Kernel<Points>,
}

macro_rules! row {
    (moves $name:literal ANY, $($kernels:ident)+) => {
        row!(@ $name ANY [moves T] $($kernels)+)
    };
    ($name:literal $set:ident, $($kernels:ident)+) => {
        row!(@ $name $set [$set T] $($kernels)+)
    };
    (@ $name:literal $types:ident $set:tt $elements:ident $elements_in_place:ident
        $slices:ident $slices_in_place:ident) => {
        Reduction {
            name: $name,
            types: $types,
            elements: row!(@kernel $set $elements $elements_in_place),
            slices: row!(@kernel $set $slices $slices_in_place),
        }
    };
    (@kernel [$($set:ident)+] $kernel:ident $in_place:ident) => {
        kernel!(checked $($set)+, scatter::$kernel::<T, i64>,
            |f, a, p| f(a.input(0), &a.indices(1), a.input(2), a.output(0), p),
            in_place $in_place::<T, i64> |f, a, p| f(a.output(0), &a.indices(0), a.input(1), p))
    };
}

static NONE: Reduction = row!(moves "none" ANY, scatter_elements scatter_elements_in_place
    scatter_nd scatter_nd_in_place);
static ADD: Reduction = row!("add" NUMERIC, scatter_elements_add scatter_elements_add_in_place
    scatter_nd_add scatter_nd_add_in_place);
static MUL: Reduction = row!("mul" NUMERIC, scatter_elements_mul scatter_elements_mul_in_place
    scatter_nd_mul scatter_nd_mul_in_place);
static MAX: Reduction = row!("max" NUMERIC, scatter_elements_max scatter_elements_max_in_place
    scatter_nd_max scatter_nd_max_in_place);
static MIN: Reduction = row!("min" NUMERIC, scatter_elements_min scatter_elements_min_in_place
    scatter_nd_min scatter_nd_min_in_place);

/// The input with updates written at indices along an axis, in their position along the others.
pub struct ScatterElements {
    /// The axis.
    pub axis: i64,
    /// The function that combines an element and its update.
    pub reduction: &'static Reduction,
}

impl Op for ScatterElements {
    fn name(&self) -> &'static str {
        "ScatterElements"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("axis", self.axis);
        a.string("reduction", self.reduction.name);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, self.reduction.types)?.clone();
        let indices = gather_elements_shape(cx, self.axis)?;
        check_updates(cx, &indices)?;
        scatter_sizes(cx, self.reduction);
        Ok(vec![ty.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (x, indices) = (cx.ty(0)?, cx.ty(1)?);
        let axis = cx.axis(self.axis, x.rank());
        let geometry = Elements::of(&x.shape, axis, &indices.shape);
        cx.call(&self.reduction.elements, geometry)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let axis = self.axis;
        set_gradients(
            g,
            self.reduction,
            |reduction, inputs| inputs[0].apply(ScatterElements { axis, reduction }, &inputs[1..]),
            |y, indices| y.gather_elements(indices, axis),
        )
    }
}

/// The input with updates written to the slices at points, which are the rows of the indices.
pub struct ScatterNd {
    /// The function that combines an element and its update.
    pub reduction: &'static Reduction,
}

impl Op for ScatterNd {
    fn name(&self) -> &'static str {
        "ScatterND"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.string("reduction", self.reduction.name);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, self.reduction.types)?.clone();
        let of_slice = (cx.ty(2)?.rank() + 1).checked_sub(cx.ty(1)?.rank());
        let slice = slice_shape(cx, 0, of_slice)?;
        let points = cx.shape(1)?.split_last().map_or(&[][..], |(_, points)| points);
        let updates: Vec<Dim> = points.iter().chain(slice).cloned().collect();
        check_updates(cx, &updates)?;
        scatter_sizes(cx, self.reduction);
        Ok(vec![ty.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (x, indices, updates) = (cx.ty(0)?, cx.ty(1)?, cx.ty(2)?);
        let inner = updates.rank() + 1 - indices.rank();
        let geometry = Points::of(&x.shape, &indices.shape, 0, x.rank() - inner);
        cx.call(&self.reduction.slices, geometry)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        set_gradients(
            g,
            self.reduction,
            |reduction, inputs| inputs[0].apply(ScatterNd { reduction }, &inputs[1..]),
            |y, indices| y.gather_nd(indices),
        )
    }
}

/// Sets the gradients of a scatter. If several updates replace one element, each gets its whole
/// gradient.
fn set_gradients<'t>(
    g: &mut Gradient<'t>,
    reduction: &'static Reduction,
    scatter: impl Fn(&'static Reduction, [Expr<'t>; 3]) -> Expr<'t>,
    gather: impl Fn(Expr<'t>, Expr<'t>) -> Expr<'t>,
) -> Result {
    let (x, indices, updates, y) = (g.x(0), g.x(1), g.x(2), g.y(0));
    let Some(dy) = g.dy(0) else { return Ok(()) };
    let scatter = |reduction, x, updates| scatter(reduction, [x, indices, updates]);
    let gather = |y| gather(y, indices);
    let (dx, du) = match reduction.name {
        "none" => (scatter(&NONE, dy, updates.zeros_like()), gather(dy)),
        "add" => (dy, gather(dy)),
        "mul" => {
            // The product of the other factors is `y / update` for a nonzero update. A single zero
            // gets the product of the others; with two zeros, every product is zero.
            let zero = updates.equal(updates.number(0.0));
            let nonzero = zero.select(updates.number(1.0), updates);
            let zeros = gather(scatter(&ADD, x.zeros_like(), zero.cast_like(x)));
            let lone = zero.and(zeros.equal(zeros.number(1.0)));
            let others = lone.select(gather(scatter(&MUL, x, nonzero)), gather(y) / nonzero);
            (dy * scatter(&MUL, x.ones_like(), updates), gather(dy) * others)
        }
        // The elements and updates that equal the result share its gradient.
        _ => {
            let kept = x.equal(y).cast_like(dy);
            let chosen = updates.equal(gather(y)).cast_like(dy);
            let share = dy / scatter(&ADD, kept, chosen);
            (share * kept, gather(share) * chosen)
        }
    };
    g.set(0, dx);
    g.set(2, du);
    Ok(())
}

impl<'t> Expr<'t> {
    /// Adds updates at indices along an axis, in their position along the others.
    pub fn scatter_add(self, indices: Expr<'t>, updates: Expr<'t>, axis: i64) -> Expr<'t> {
        self.apply(ScatterElements { axis, reduction: &ADD }, &[indices, updates])
    }

    /// Adds updates at points.
    pub fn scatter_nd_add(self, indices: Expr<'t>, updates: Expr<'t>) -> Expr<'t> {
        self.apply(ScatterNd { reduction: &ADD }, &[indices, updates])
    }

    /// Returns the numbers from 1 on, in the shape of `self`.
    pub fn element_numbers(self) -> Expr<'t> {
        let one = self.tape.constant(Tensor::from_int(1));
        let range = one.apply(Range { stash: DType::F32 }, &[self.size() + 1.0, one]);
        range.reshape_like(self)
    }

    /// Adds each element to the element of a zero tensor, shaped like `x`, whose number is in
    /// `numbers`, counted from 1. Elements with number 0 are dropped.
    pub fn scatter_to(self, numbers: Expr<'t>, x: Expr<'t>) -> Expr<'t> {
        let count = (x.size() + 1.0).reshape_to(&[1]);
        let zeros = self.number(0.0).apply(Expand, &[count]);
        let sums = zeros.scatter_add(numbers.reshape_to(&[-1]), self.reshape_to(&[-1]), 0);
        sums.from(1, 0).reshape_like(x)
    }
}

impl<'t> Gradient<'t> {
    /// Sets the gradient of input `i` of a node that only moves elements. The node also moves the
    /// elements' numbers, which tell where each gradient belongs.
    ///
    /// # Errors
    ///
    /// Never returns an error. The result is that of [`Op::gradient`](crate::ir::Op::gradient),
    /// whose implementations call this function.
    pub fn move_back(&mut self, i: usize) -> Result {
        let (x, Some(dy)) = (self.x(i), self.dy(0)) else { return Ok(()) };
        let mut inputs: Vec<_> = (0..self.inputs()).map(|i| self.optional(i)).collect();
        inputs[i] = Some(x.element_numbers());
        let numbers = self.tape().node(self.node().op.clone(), &inputs, 1)[0];
        self.set(i, dy.scatter_to(numbers, x));
        Ok(())
    }
}

/// Requires the updates, input 2, to have the shape `shape`.
fn check_updates(cx: &mut Infer<'_>, shape: &[Dim]) -> Inferred<()> {
    cx.same_dtype(0, 2)?;
    for (size, wanted) in cx.ranked(2, shape.len())?.shape.iter().zip(shape) {
        cx.require_equal(size, wanted, "the sizes of the updates and of their targets")?;
    }
    Ok(())
}

/// Computes the output's elements as sizes, if those of the inputs are known. A point in a tensor
/// of rank 1 is an index.
fn scatter_sizes(cx: &mut Infer<'_>, reduction: &Reduction) {
    let (Some(x), Some(indices), Some(updates)) = (cx.known(0), cx.ints(1), cx.known(2)) else {
        return;
    };
    let mut elements = x.to_vec();
    let len = i64::try_from(elements.len()).unwrap_or(i64::MAX);
    for (index, update) in indices.into_iter().zip(updates) {
        let index = usize::try_from(if index < 0 { index + len } else { index });
        match index.ok().and_then(|index| elements.get_mut(index)) {
            Some(element) if reduction.name == "none" => *element = update.clone(),
            _ => return,
        }
    }
    cx.set_known(0, elements);
}

/// Caches with sequences written into them, each at the position in input 2.
pub struct TensorScatter {
    /// The axis of positions.
    pub axis: i64,
    /// Whether a sequence that reaches the end of its cache continues at the start.
    pub circular: bool,
}

static LINEAR: Kernel<Caches> = kernel!(checked moves T, scatter::tensor_scatter::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.optional(2), a.output(0), p),
    in_place tensor_scatter_in_place::<T>
    |f, a, p| f(a.output(0), a.input(0), a.optional(1), p));
static CIRCULAR: Kernel<Caches> = kernel!(checked moves T, scatter::tensor_scatter_circular::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.optional(2), a.output(0), p),
    in_place tensor_scatter_circular_in_place::<T>
    |f, a, p| f(a.output(0), a.input(0), a.optional(1), p));

impl Op for TensorScatter {
    fn name(&self) -> &'static str {
        "TensorScatter"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("axis", self.axis);
        a.string("mode", if self.circular { "circular" } else { "linear" });
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, ANY)?.clone();
        let steps = cx.axis("axis", self.axis, ty.rank())?;
        if steps == 0 {
            return Err(cx.diagnostic(Code::BadAttribute, "`axis` must not be the batch axis"));
        }
        cx.same_dtype(0, 1)?;
        let update = cx.ranked(1, ty.rank())?;
        for (axis, (size, wanted)) in update.shape.iter().zip(&ty.shape).enumerate() {
            if axis == steps {
                cx.require_at_least(wanted, size, "the sequences are longer than the caches")?;
            } else {
                cx.require_equal(size, wanted, "the sizes of the sequences and of the caches")?;
            }
        }
        if cx.has(2) {
            cx.of(2, &[DType::I64])?;
            let starts = &cx.ranked(2, 1)?.shape[0];
            cx.require_equal(starts, &ty.shape[0], "the numbers of starts and of caches")?;
            let last = (&ty.shape[steps] - &update.shape[steps]).known();
            if let (false, Some(last)) = (self.circular, last) {
                let starts = cx.ints(2).unwrap_or_default();
                let place = || format!("the range 0 to {last}, where a sequence fits");
                cx.require_inside(starts, 0..last + 1, place)?;
            }
        }
        Ok(vec![ty.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let ty = cx.ty(0)?;
        let axis = cx.axis(self.axis, ty.rank());
        let caches = Caches {
            batch: ty.shape[0].clone(),
            outer: ty.shape[1..axis].iter().product(),
            len: ty.shape[axis].clone(),
            update: cx.ty(1)?.shape[axis].clone(),
            inner: ty.shape[axis + 1..].iter().product(),
        };
        let kernel = if self.circular { &CIRCULAR } else { &LINEAR };
        let inputs = vec![cx.input(0)?.into(), cx.input(1)?.into(), cx.optional(2)?.into()];
        let output = cx.output(0)?.into();
        cx.call_on(kernel, ty.dtype, inputs, vec![output], caches)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, update, Some(dy)) = (g.x(0), g.x(1), g.dy(0)) else { return Ok(()) };
        let write = |x, update| {
            g.tape().node(g.node().op.clone(), &[Some(x), Some(update), g.optional(2)], 1)[0]
        };
        let dx = write(dy, update.zeros_like());
        let numbers = write(x.zeros_like().cast(DType::I64), update.element_numbers());
        g.set(0, dx);
        g.set(1, dy.scatter_to(numbers, update));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Given, check, tensor};
    use DType::{F32, I64};

    fn n() -> Dim {
        Dim::symbol("n")
    }

    #[test]
    fn updates_have_the_shape_of_their_targets() {
        let x = || tensor(F32, [n(), 3.into(), 4.into()]);
        let indices = || tensor(I64, [n(), 2.into()]);
        let op = || ScatterNd { reduction: &ADD };
        let inputs = [x(), indices(), tensor(F32, [n(), 4.into()])];
        check(op(), &inputs, 1, "float[n, 3, 4]");
        let inputs = [x(), indices(), tensor(F32, [n(), 3.into()])];
        let expected =
            "the sizes of the updates and of their targets must be equal, but are 3 and 4";
        check(op(), &inputs, 1, expected);
        // The rank of the updates determines how many axes a point indexes.
        let open = || tensor(I64, [n(), Dim::symbol("k")]);
        let inputs = [x(), open(), tensor(F32, [n(), 4.into()])];
        check(op(), &inputs, 1, "float[n, 3, 4]");
        let op = ScatterElements { axis: -1, reduction: &NONE };
        let indices = || tensor(I64, [1, 4, 9]);
        let expected = "the indices are larger than the input: 3 is less than 4";
        check(op, &[x(), indices(), tensor(F32, [1, 4, 9])], 1, expected);
    }

    #[test]
    fn known_indices_are_inside_the_input() {
        let (x, updates) = (|| tensor(F32, [4, 3]), || tensor(F32, [1, 2]));
        let at = |indices: &[i64]| Given::Matrix(indices.to_vec(), vec![1, 2]);
        let elements = |indices, expected| {
            let op = ScatterElements { axis: 1, reduction: &ADD };
            check(op, &[x(), at(indices), updates()], 1, expected);
        };
        elements(&[-3, 2], "float[4, 3]");
        elements(&[2, 3], "the index 3 is outside axis 1 of input 0, whose size is 3");
        let points = |indices, expected| {
            let op = ScatterNd { reduction: &NONE };
            check(op, &[x(), at(indices), tensor(F32, [1])], 1, expected);
        };
        points(&[3, -3], "float[4, 3]");
        points(&[4, 0], "the index 4 is outside axis 0 of input 0, whose size is 4");
    }

    #[test]
    fn updates_replace_known_sizes() {
        let sizes = || Given::Sizes(vec![n(), 3.into(), n() * 2]);
        let inputs = [sizes(), Given::Ints(vec![-1, 0]), Given::Sizes(vec![7.into(), n() + 1])];
        let op = |reduction| ScatterElements { axis: 0, reduction };
        check(op(&NONE), &inputs, 1, "int64[3] = [n + 1, 3, 7]");
        check(op(&MAX), &inputs, 1, "int64[3]");
    }

    #[test]
    fn sequences_fit_into_their_caches() {
        let op = || TensorScatter { axis: -2, circular: false };
        let cache = || tensor(F32, [n(), 4.into(), 8.into()]);
        let inputs = [cache(), tensor(F32, [n(), 2.into(), 8.into()]), tensor(I64, [n()])];
        check(op(), &inputs, 1, "float[n, 4, 8]");
        let expected = "the sequences are longer than the caches: 4 is less than 5";
        check(op(), &[cache(), tensor(F32, [n(), 5.into(), 8.into()])], 1, expected);
        let inputs = |start| [tensor(F32, [1, 4]), tensor(F32, [1, 3]), Given::Ints(vec![start])];
        let op = |circular| TensorScatter { axis: -1, circular };
        check(op(false), &inputs(1), 1, "float[1, 4]");
        let expected = "the index 2 is outside the range 0 to 1, where a sequence fits";
        check(op(false), &inputs(2), 1, expected);
        check(op(true), &inputs(2), 1, "float[1, 4]");
    }
}
