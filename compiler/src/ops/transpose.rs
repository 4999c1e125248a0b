//! Permutations of axes and of blocks: `Transpose`, `DepthToSpace`, `SpaceToDepth` and `Col2Im`.

use super::{
    Entry,
    conv::Conv,
    entry,
    window::{AutoPad, Window},
};
use crate::{
    diag::{Code, Diagnostic, Result, counted},
    dim::Dim,
    dtype::{ANY, DType, NUMERIC_AND_COMPLEX},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Reader, Views},
    plan::{
        Kernel,
        geometry::{Blocks, Strided},
        kernel,
    },
    ty::{TensorType, Type},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("Col2Im", 18, |node| {
        Ok(Rc::new(Col2Im {
            dilations: node.maybe_ints("dilations")?,
            pads: node.maybe_ints("pads")?,
            strides: node.maybe_ints("strides")?,
        }))
    }),
    entry("DepthToSpace", 1, |node| {
        Ok(Rc::new(DepthToSpace { blocksize: block_size(node)?, order: order(node)? }))
    }),
    entry("SpaceToDepth", 1, |node| {
        Ok(Rc::new(SpaceToDepth { blocksize: block_size(node)?, order: order(node)? }))
    }),
    entry("Transpose", 1, |node| Ok(Rc::new(Transpose { perm: node.maybe_ints("perm")? }))),
];

/// The input with its axes permuted.
pub struct Transpose {
    /// The input's axis for each axis of the output; by default all axes in reverse.
    pub perm: Option<Vec<i64>>,
}

static TRANSPOSE: Kernel<Strided> =
    kernel!(ANY T, transpose::transpose::<T>, |f, a, p| f(a.input(0), a.output(0), p));

impl Transpose {
    /// Returns the permutation. `axis` is [`Lower::axis`] or [`Views::axis`].
    fn order(&self, rank: usize, axis: impl Fn(i64, usize) -> usize) -> Vec<usize> {
        match &self.perm {
            Some(perm) => perm.iter().map(|&named| axis(named, rank)).collect(),
            None => (0..rank).rev().collect(),
        }
    }
}

impl Op for Transpose {
    fn name(&self) -> &'static str {
        "Transpose"
    }

    fn attributes(&self, a: &mut Attributes) {
        if let Some(perm) = &self.perm {
            a.ints("perm", perm);
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, ANY)?;
        let rank = ty.rank();
        let order = match &self.perm {
            Some(perm) => cx.axes("perm", perm, rank)?,
            None => (0..rank).rev().collect(),
        };
        if order.len() != rank {
            let (named, axes) = (counted(order.len(), "axis"), counted(rank, "axis"));
            let message = format!("`perm` names {named}, but the input has {axes}");
            return Err(cx.diagnostic(Code::BadAttribute, message));
        }
        if let Some(known) = cx.known(0) {
            cx.set_known(0, known.to_vec());
        }
        Ok(vec![Type::tensor(ty.dtype, order.iter().map(|&axis| &ty.shape[axis]))])
    }

    fn views(&self, cx: &mut Views<'_>) {
        let Some(ty) = cx.ty(0) else { return };
        if keeps_order(ty, &self.order(ty.rank(), |named, rank| cx.axis(named, rank))) {
            cx.view(0, 0, 0.into());
        }
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let ty = cx.ty(0)?;
        let order = self.order(ty.rank(), |named, rank| cx.axis(named, rank));
        if keeps_order(ty, &order) {
            return Ok(());
        }
        cx.call(&TRANSPOSE, Strided::permuted(&ty.shape, &order))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let Some(dy) = g.dy(0) else { return Ok(()) };
        let order = self.order(dy.rank(), |named, rank| g.axis(named, rank));
        let mut back = vec![0; order.len()];
        order.iter().enumerate().for_each(|(i, &axis)| back[axis] = i);
        g.set(0, dy.transpose(&back));
        Ok(())
    }
}

/// Returns whether the axes that may have more than one element keep their order.
fn keeps_order(ty: &TensorType, order: &[usize]) -> bool {
    order.iter().filter(|&&axis| ty.shape[axis].known() != Some(1)).is_sorted()
}

impl<'t> Expr<'t> {
    /// Permutes the axes.
    pub fn transpose(self, order: &[usize]) -> Expr<'t> {
        let perm = order.iter().map(|&axis| axis as i64).collect();
        self.apply(Transpose { perm: Some(perm) }, &[])
    }

    /// Exchanges the last two axes.
    pub fn transpose_matrices(self) -> Expr<'t> {
        let mut order: Vec<usize> = (0..self.rank()).collect();
        let last = order.len().saturating_sub(2);
        order[last..].reverse();
        self.transpose(&order)
    }

    /// Moves one axis.
    pub fn move_axis(self, from: usize, to: usize) -> Expr<'t> {
        let mut order: Vec<usize> = (0..self.rank()).collect();
        // After an error, the tensor is a scalar.
        if from.max(to) < order.len() {
            let axis = order.remove(from);
            order.insert(to, axis);
        }
        self.transpose(&order)
    }
}

/// The order of the factors of the depth: the depth of the image, and the row and column in a
/// block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Row and column in a block before the image's channel.
    Dcr,
    /// The image's channel before row and column in a block.
    Crd,
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Order::Dcr => "DCR",
            Order::Crd => "CRD",
        }
    }
}

fn order(node: &mut Reader<'_>) -> Result<Order> {
    node.choice("mode", &[("DCR", Order::Dcr), ("CRD", Order::Crd)])
}

fn block_size(node: &mut Reader<'_>) -> Result<i64> {
    match node.required_int("blocksize")? {
        size if size > 0 => Ok(size),
        size => {
            let message = format!("`blocksize` is {size}, but must be positive");
            Err(Diagnostic::new(Code::BadAttribute, message))
        }
    }
}

/// Returns the element type and shape of a batch of images.
fn images(cx: &Infer<'_>) -> Inferred<(DType, [Dim; 4])> {
    let ty = cx.of(0, ANY)?;
    cx.ranked(0, 4)?;
    let shape = <[Dim; 4]>::try_from(ty.shape.clone()).expect("`ranked` checked the rank");
    Ok((ty.dtype, shape))
}

/// Moves blocks of the depth to the image.
pub struct DepthToSpace {
    /// The side of a block.
    pub blocksize: i64,
    /// The order of the factors of the depth.
    pub order: Order,
}

impl Op for DepthToSpace {
    fn name(&self) -> &'static str {
        "DepthToSpace"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("blocksize", self.blocksize);
        a.string("mode", self.order.name());
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (dtype, [n, c, h, w]) = images(cx)?;
        let side = Dim::from(self.blocksize);
        let block = &side * &side;
        cx.require_equal(&c.modulo(&block), &0.into(), "the channels modulo the block size and 0")?;
        Ok(vec![Type::tensor(dtype, [n, c.floor_div(&block), h * &side, w * &side])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (x, y) = (&cx.ty(0)?.shape, &cx.output_ty(0)?.shape);
        let [n, c, h, w] = [&x[0], &y[1], &x[2], &x[3]].map(Dim::clone);
        let [b, d] = [Dim::from(self.blocksize), Dim::from(self.blocksize)];
        let geometry = match self.order {
            Order::Dcr => Strided::permuted(&[n, b, d, c, h, w], &[0, 3, 4, 1, 5, 2]),
            Order::Crd => Strided::permuted(&[n, c, b, d, h, w], &[0, 1, 4, 2, 5, 3]),
        };
        cx.call(&TRANSPOSE, geometry)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let DepthToSpace { blocksize, order } = *self;
        if let Some(dy) = g.dy(0) {
            g.set(0, dy.apply(SpaceToDepth { blocksize, order }, &[]));
        }
        Ok(())
    }
}

/// Moves blocks of the image to the depth.
pub struct SpaceToDepth {
    /// The side of a block.
    pub blocksize: i64,
    /// The order of the factors of the depth.
    pub order: Order,
}

impl Op for SpaceToDepth {
    fn name(&self) -> &'static str {
        "SpaceToDepth"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("blocksize", self.blocksize);
        a.string("mode", self.order.name());
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (dtype, [n, c, h, w]) = images(cx)?;
        let side = Dim::from(self.blocksize);
        for size in [&h, &w] {
            let rest = size.modulo(&side);
            cx.require_equal(&rest, &0.into(), "the image size modulo the block size and 0")?;
        }
        let (h, w) = (h.floor_div(&side), w.floor_div(&side));
        Ok(vec![Type::tensor(dtype, [n, c * &side * &side, h, w])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (x, y) = (&cx.ty(0)?.shape, &cx.output_ty(0)?.shape);
        let [n, c, h, w] = [&x[0], &x[1], &y[2], &y[3]].map(Dim::clone);
        let [b, d] = [Dim::from(self.blocksize), Dim::from(self.blocksize)];
        let order = match self.order {
            Order::Dcr => [0, 3, 5, 1, 2, 4],
            Order::Crd => [0, 1, 3, 5, 2, 4],
        };
        cx.call(&TRANSPOSE, Strided::permuted(&[n, c, h, b, w, d], &order))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let SpaceToDepth { blocksize, order } = *self;
        if let Some(dy) = g.dy(0) {
            g.set(0, dy.apply(DepthToSpace { blocksize, order }, &[]));
        }
        Ok(())
    }
}

/// Images as sums of overlapping blocks: the gradient of im2col.
pub struct Col2Im {
    /// The distance of adjacent elements of a block, along each axis.
    pub dilations: Option<Vec<i64>>,
    /// The padding before each axis, then after each axis.
    pub pads: Option<Vec<i64>>,
    /// The distance of adjacent blocks, along each axis.
    pub strides: Option<Vec<i64>>,
}

static COL2IM: Kernel<Blocks> =
    kernel!(NUMERIC_AND_COMPLEX T, transpose::col2im::<T>, |f, a, p| f(a.input(0), a.output(0), p));
static COL2IM_SIZES: Kernel<Columns> = kernel!(checked I64_ONLY T, transpose::col2im_sizes,
    |f, a, p| f(a.sizes(), a.input::<T>(0), a.input::<T>(1), p.0, p.1, p.2, p.3));

/// The sizes of the columns, and the strides, dilations and pads of the blocks.
type Columns = ([Dim; 2], Vec<Dim>, Vec<Dim>, Vec<Dim>);

/// The attributes of [`Col2Im`] for each axis of the image.
struct Steps {
    strides: Vec<Dim>,
    dilations: Vec<Dim>,
    pads_before: Vec<Dim>,
    pads: Vec<Dim>,
}

impl Col2Im {
    fn steps(&self, rank: usize) -> Option<Steps> {
        let all = |list: &Option<Vec<i64>>, default: i64, len: usize| {
            let values = list.clone().unwrap_or_else(|| vec![default; len]);
            let fits = values.len() == len && values.iter().all(|&value| value >= default);
            fits.then(|| values.into_iter().map(Dim::from).collect::<Vec<_>>())
        };
        let pads = all(&self.pads, 0, 2 * rank)?;
        let (before, after) = pads.split_at(rank);
        Some(Steps {
            strides: all(&self.strides, 1, rank)?,
            dilations: all(&self.dilations, 1, rank)?,
            pads: before.iter().zip(after).map(|(before, after)| before + after).collect(),
            pads_before: before.to_vec(),
        })
    }
}

impl Steps {
    /// Returns the number of blocks along each axis.
    fn block_counts(&self, image: &[Dim], block: &[Dim]) -> Vec<Dim> {
        let count = |axis: usize| {
            let extent = (&block[axis] - 1) * &self.dilations[axis];
            (&image[axis] + &self.pads[axis] - extent).ceil_div(&self.strides[axis])
        };
        (0..image.len()).map(count).collect()
    }
}

impl Op for Col2Im {
    fn name(&self) -> &'static str {
        "Col2Im"
    }

    fn attributes(&self, a: &mut Attributes) {
        let lists =
            [("dilations", &self.dilations), ("pads", &self.pads), ("strides", &self.strides)];
        for (name, list) in lists {
            if let Some(list) = list {
                a.ints(name, list);
            }
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, NUMERIC_AND_COMPLEX)?;
        let [n, columns, blocks] = cx.ranked(0, 3)?.shape.as_slice() else {
            unreachable!("`ranked` checked the rank")
        };
        let rank = cx.count(1)?;
        if cx.count(2)? != rank {
            let message = "`image_shape` and `block_shape` differ in length";
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        }
        let Some(steps) = self.steps(rank) else {
            let message = format!("the attributes do not fit an image of {rank} axes");
            return Err(cx.diagnostic(Code::BadAttribute, message));
        };
        let (Some(image), Some(block)) = (cx.known(1), cx.known(2)) else {
            let mut sizes = cx.fresh_sizes(vec![None; 1 + 2 * rank]);
            sizes.truncate(1 + rank);
            return Ok(vec![Type::tensor(ty.dtype, std::iter::once(n.clone()).chain(sizes))]);
        };
        for size in image {
            cx.require_at_least(size, &0.into(), "a size must not be negative")?;
        }
        for size in block {
            cx.require_at_least(size, &1.into(), "a size of a block must be positive")?;
        }
        let element: Dim = block.iter().product();
        let channels = columns.floor_div(&element);
        cx.require_equal(
            columns,
            &(&channels * element),
            "the rows and a multiple of the block size",
        )?;
        let counts = steps.block_counts(image, block);
        for count in &counts {
            cx.require_at_least(count, &0.into(), "the number of blocks must not be negative")?;
        }
        cx.require_equal(blocks, &counts.iter().product(), "the number of columns and of blocks")?;
        let sizes = [n.clone(), channels];
        Ok(vec![Type::tensor(ty.dtype, sizes.iter().chain(image))])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (x, y) = (&cx.ty(0)?.shape, cx.output_ty(0)?);
        let image = y.shape[2..].to_vec();
        let rank = image.len();
        let steps = self.steps(rank).expect("`infer` checked the attributes");
        let block = match (cx.node().binds.get(1 + rank..), cx.known(2)) {
            (Some(bound), _) => bound.iter().map(|name| Dim::symbol(name)).collect(),
            (None, known) => known.unwrap_or_default().to_vec(),
        };
        let (shapes, sizes) =
            (vec![cx.input(1)?.into(), cx.input(2)?.into()], [x[1].clone(), x[2].clone()]);
        let Steps { strides, dilations, pads, .. } = &steps;
        let formula = (sizes, strides.clone(), dilations.clone(), pads.clone());
        cx.bind(&COL2IM_SIZES, DType::I64, shapes, formula)?;
        let blocks = Blocks {
            planes: &y.shape[0] * &y.shape[1],
            places: steps.block_counts(&image, &block),
            image,
            block,
            strides: steps.strides,
            dilations: steps.dilations,
            pads: steps.pads_before,
        };
        let (x, output) = (cx.input(0)?.into(), cx.output(0)?.into());
        cx.call_on(&COL2IM, y.dtype, vec![x], vec![output], blocks)
    }

    /// Im2col of the gradient, as a convolution with one kernel for each element of a block.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, Some(dy)) = (g.x(0), g.dy(0)) else { return Ok(()) };
        let Some(block) = g.ints(2) else {
            return Err(g.unsupported("for blocks whose size is known only at run time"));
        };
        let places: i64 = block.iter().product();
        let window = Window {
            auto_pad: AutoPad::NotSet,
            kernel_shape: block.clone(),
            strides: self.strides.clone().unwrap_or_default(),
            pads: self.pads.clone().unwrap_or_default(),
            dilations: self.dilations.clone().unwrap_or_default(),
        };
        let shape: Vec<i64> = [places, 1].into_iter().chain(block).collect();
        let numbers = g.tape().ints(&(0..places).collect::<Vec<_>>());
        let kernels = numbers.with_axis(1).equal(numbers).cast_like(dy).reshape_to(&shape);
        let planes = [g.tape().ints(&[-1, 1]), dy.sizes(2, i64::MAX)];
        let planes = dy.reshape_by(g.tape().concat(&planes));
        g.set(0, planes.apply(Conv::one(window), &[kernels]).reshape_like(x));
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
    fn moving_axes_of_size_1_is_a_view() {
        let ty = TensorType::new(F32, [n(), 1.into(), 3.into()]);
        assert!(keeps_order(&ty, &[1, 0, 2]) && !keeps_order(&ty, &[2, 1, 0]));
        let perm = Some(vec![1, 0, 2]);
        check(Transpose { perm }, &[Given::Runtime(F32, ty.shape)], 1, "float[1, n, 3]");
        let perm = Some(vec![0, 1]);
        let expected = "`perm` names 2 axes, but the input has 3 axes";
        check(Transpose { perm }, &[tensor(F32, [1, 2, 3])], 1, expected);
        check(Transpose { perm: None }, &[Given::Sizes(vec![n()])], 1, "int64[1] = [n]");
    }

    #[test]
    fn blocks_divide_symbolic_sizes() {
        let x = || tensor(F32, [n(), 8.into(), n() * 2, 6.into()]);
        let (blocksize, order) = (2, Order::Dcr);
        check(DepthToSpace { blocksize, order }, &[x()], 1, "float[n, 2, 4 * n, 12]");
        check(SpaceToDepth { blocksize, order }, &[x()], 1, "float[n, 32, n, 3]");
        let expected = "the image size modulo the block size and 0 must be equal, but are 2 and 0";
        check(SpaceToDepth { blocksize: 4, order }, &[tensor(F32, [1, 1, 4, 6])], 1, expected);
    }

    #[test]
    fn the_image_size_may_be_known_only_at_run_time() {
        let op = || Col2Im { dilations: None, pads: None, strides: None };
        let x = || tensor(F32, [n(), 12.into(), 6.into()]);
        let known = [x(), Given::Ints(vec![3, 4]), Given::Ints(vec![2, 2])];
        check(op(), &known, 1, "float[n, 3, 3, 4]");
        let open = [x(), tensor(I64, [2]), Given::Ints(vec![2, 2])];
        check(op(), &open, 1, "float[n, y0_0, y0_1, y0_2]");
        let wrong = [x(), Given::Ints(vec![3, 5]), Given::Ints(vec![2, 2])];
        let expected = "the number of columns and of blocks must be equal, but are 6 and 8";
        check(op(), &wrong, 1, expected);
    }
}
