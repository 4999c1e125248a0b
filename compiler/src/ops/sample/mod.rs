//! Sampling of images at the points of a grid: `GridSample`, and `AffineGrid`, which computes
//! grids.

mod gradient;

use super::{Entry, entry};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{ANY_IR4, DType, FLOATS, NUMERIC},
    ir::{Attributes, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{Kernel, NoParams, Operand, geometry::Images, kernel},
    ty::Type,
};
use onnxc_runtime::kernels::sample::{BLOCK, Padding};
use std::rc::Rc;

pub use gradient::Sampler;

pub const OPS: &[Entry] = &[
    entry("AffineGrid", 20, |node| {
        Ok(Rc::new(AffineGrid { align_corners: node.flag("align_corners", false)? }))
    }),
    entry("GridSample", 16, |node| {
        let modes =
            [("bilinear", Mode::Linear), ("nearest", Mode::Nearest), ("bicubic", Mode::Cubic)];
        GridSample::read(node, &modes)
    }),
    entry("GridSample", 20, |node| GridSample::read(node, &MODES)),
];

const MODES: [(&str, Mode); 3] =
    [("linear", Mode::Linear), ("nearest", Mode::Nearest), ("cubic", Mode::Cubic)];
const PADDINGS: [(&str, Padding); 3] =
    [("zeros", Padding::Zeros), ("border", Padding::Border), ("reflection", Padding::Reflection)];

/// Samples of images at the points of a grid.
pub struct GridSample {
    /// The interpolation between elements.
    pub mode: Mode,
    /// The padding outside the image.
    pub padding: Padding,
    /// Whether -1 and 1 are the centers of the outermost elements, instead of their edges.
    pub align_corners: bool,
}

/// An interpolation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Takes the nearest element.
    Nearest,
    /// Linear interpolation.
    Linear,
    /// Cubic interpolation.
    Cubic,
}

static PLACES: Kernel<Images> =
    kernel!(FLOATS G, sample::grid_places::<G>, |f, a, p| f(a.input(0), a.output(0), p));
static NEAREST: Kernel<Images> = kernel!(moves T, sample::grid_nearest::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p));

/// A kernel for floating-point elements, with weights of type `$C`.
macro_rules! interpolate {
    ($kernel:ident $C:ty) => {
        kernel!(FLOATS T, sample::$kernel::<T, $C>,
            |f, a, p| f(a.input(0), a.input(1), a.output(0), a.output(1), a.output(2), p))
    };
}

static LINEAR: [Kernel<Images>; 2] = [interpolate!(grid_linear f32), interpolate!(grid_linear f64)];
static CUBIC: [Kernel<Images>; 2] = [interpolate!(grid_cubic f32), interpolate!(grid_cubic f64)];
static LINEAR_WHOLE: Kernel<Images> = kernel!(INTEGERS T, sample::grid_linear_whole::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), a.output(1), a.output(2), p));
static CUBIC_WHOLE: Kernel<Images> = kernel!(INTEGERS T, sample::grid_cubic_whole::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), a.output(1), a.output(2), p));

impl GridSample {
    fn read(node: &mut Reader<'_>, modes: &[(&str, Mode)]) -> Result<Rc<dyn Op>> {
        Ok(Rc::new(GridSample {
            mode: node.choice("mode", modes)?,
            padding: node.choice("padding_mode", &PADDINGS)?,
            align_corners: node.flag("align_corners", false)?,
        }))
    }

    /// Selects the kernel for these types of elements and weights.
    fn kernel(&self, dtype: DType, wide: DType) -> &'static Kernel<Images> {
        let i = usize::from(wide == DType::F64);
        match (FLOATS.contains(&dtype), self.mode == Mode::Cubic) {
            (true, false) => &LINEAR[i],
            (true, true) => &CUBIC[i],
            (false, false) => &LINEAR_WHOLE,
            (false, true) => &CUBIC_WHOLE,
        }
    }
}

impl Op for GridSample {
    fn name(&self) -> &'static str {
        "GridSample"
    }

    fn attributes(&self, a: &mut Attributes) {
        let name = |(name, _): &(&'static str, Mode)| *name;
        a.string("mode", MODES.iter().find(|(_, mode)| *mode == self.mode).map_or("", name));
        let padding = PADDINGS.iter().find(|(_, padding)| *padding == self.padding);
        a.string("padding_mode", padding.map_or("", |(name, _)| name));
        a.flag("align_corners", self.align_corners);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let x = cx.of(0, ANY_IR4)?;
        if self.mode != Mode::Nearest && !NUMERIC.contains(&x.dtype) {
            let message = format!("elements of type {} cannot be interpolated", x.dtype);
            return Err(cx.diagnostic(Code::Unsupported, message));
        }
        let grid = cx.of(1, FLOATS)?;
        if x.rank() < 3 || grid.rank() != x.rank() {
            let message =
                "images must have at least one axis, and the grid as many axes as the input";
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        }
        let axes = x.rank() - 2;
        cx.require_equal(&x.shape[0], &grid.shape[0], "the numbers of images and of grids")?;
        let coordinates = &grid.shape[axes + 1];
        cx.require_equal(coordinates, &axes.into(), "the coordinates and the axes of an image")?;
        let shape = [&x.shape[..2], &grid.shape[1..=axes]].concat();
        Ok(vec![Type::tensor(x.dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (x, grid_ty) = (cx.ty(0)?, cx.ty(1)?);
        let axes = x.rank() - 2;
        let geometry = Images {
            batch: x.shape[0].clone(),
            channels: x.shape[1].clone(),
            sizes: x.shape[2..].to_vec(),
            points: grid_ty.shape[1..=axes].iter().product(),
            align_corners: self.align_corners,
            padding: self.padding,
        };
        let (input, grid, y) = (cx.input(0)?, cx.input(1)?, cx.output(0)?);
        if self.mode == Mode::Nearest {
            let places = cx.scratch(DType::I64, &geometry.batch * &geometry.points);
            let outputs = vec![places.clone().into()];
            cx.call_on(&PLACES, grid_ty.dtype, vec![grid.into()], outputs, geometry.clone())?;
            let inputs = vec![input.into(), places.into()];
            return cx.call_on(&NEAREST, x.dtype, inputs, vec![y.into()], geometry);
        }
        let single = |dtype| matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
        let is_single = single(x.dtype) && single(grid_ty.dtype);
        let wide = if is_single { DType::F32 } else { DType::F64 };
        let grid = widen_grid(cx, grid, wide)?;
        let each = if self.mode == Mode::Cubic { 4 } else { 2 };
        let count = (0..axes).fold(Dim::from(BLOCK), |count, _| count * each);
        let (elements, weights) =
            (cx.scratch(DType::I64, count.clone()), cx.scratch(wide, count.clone()));
        cx.macs(&(y.len.clone() * count.floor_div(&BLOCK.into())));
        let outputs = vec![y.into(), elements.into(), weights.into()];
        let kernel = self.kernel(x.dtype, wide);
        cx.call_on(kernel, x.dtype, vec![input.into(), grid.into()], outputs, geometry)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        self.gradient_of_samples(g)
    }
}

static WIDEN: [Kernel; 2] = [widen!(f32), widen!(f64)];

/// The kernel that casts a grid to `$C`.
macro_rules! widen {
    ($C:ty) => {
        kernel!(FLOATS G, cast::cast::<G, $C>, |f, a, _p| f(a.input(0), a.output(0)))
    };
}
use widen;

/// Returns the grid in the type `wide`.
fn widen_grid(cx: &mut Lower<'_>, grid: Operand, wide: DType) -> Result<Operand> {
    let dtype = cx.ty(1)?.dtype;
    if dtype == wide {
        return Ok(grid);
    }
    let to = cx.scratch(wide, grid.len.clone());
    let kernel = &WIDEN[usize::from(wide == DType::F64)];
    cx.call_on(kernel, dtype, vec![grid.into()], vec![to.clone().into()], NoParams)?;
    Ok(to)
}

/// The grid of the points to which an affine map moves the elements of an image.
pub struct AffineGrid {
    /// Whether -1 and 1 are the centers of the outermost elements, instead of their edges.
    pub align_corners: bool,
}

static AFFINE_GRID: Kernel<(Vec<Dim>,)> = kernel!(FLOATS T, sample::affine_grid::<T>,
    |f, a, p| f(a.input(0), a.output(0), p.0));
static AFFINE_GRID_ALIGNED: Kernel<(Vec<Dim>,)> = kernel!(FLOATS T,
    sample::affine_grid_aligned::<T>, |f, a, p| f(a.input(0), a.output(0), p.0));
static AFFINE_GRID_SIZES: Kernel<(Dim,)> = kernel!(checked I64_ONLY T, sample::affine_grid_sizes,
        |f, a, p| f(a.sizes(), a.input::<T>(0), p.0));

impl Op for AffineGrid {
    fn name(&self) -> &'static str {
        "AffineGrid"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.flag("align_corners", self.align_corners);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.of(0, FLOATS)?;
        let theta = cx.ranked(0, 3)?;
        cx.of(1, &[DType::I64])?;
        let Some(axes) = cx.count(1)?.checked_sub(2).filter(|axes| (2..=3).contains(axes)) else {
            let message = format!("there must be 4 or 5 sizes, but there are {}", cx.count(1)?);
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        };
        cx.require_equal(&theta.shape[1], &axes.into(), "the rows of a matrix and the axes")?;
        let columns = Dim::from(axes + 1);
        cx.require_equal(&theta.shape[2], &columns, "the columns of a matrix and the axes and 1")?;
        let sizes = match cx.known(1).map(<[Dim]>::to_vec) {
            Some(sizes) => {
                for size in &sizes[2..] {
                    cx.require_at_least(size, &0.into(), "a size must not be negative")?;
                }
                cx.require_equal(&sizes[0], &theta.shape[0], "the images and the matrices")?;
                sizes[2..].to_vec()
            }
            None => cx.fresh_sizes(vec![None; axes]),
        };
        let shape = [&theta.shape[..1], &sizes, &[axes.into()]].concat();
        Ok(vec![Type::tensor(theta.dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (theta, grid) = (cx.ty(0)?, cx.output_ty(0)?);
        let size = cx.input(1)?.into();
        cx.bind(&AFFINE_GRID_SIZES, DType::I64, vec![size], (theta.shape[0].clone(),))?;
        let sizes = grid.shape[1..grid.rank() - 1].to_vec();
        let kernel = if self.align_corners { &AFFINE_GRID_ALIGNED } else { &AFFINE_GRID };
        let (input, output) = (cx.input(0)?.into(), cx.output(0)?.into());
        cx.call_on(kernel, grid.dtype, vec![input], vec![output], (sizes,))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        self.gradient_of_matrices(g)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Given, check, tensor};
    use DType::{F16, F32, I64, U8};

    fn n() -> Dim {
        Dim::symbol("n")
    }

    #[test]
    fn the_grid_determines_the_output_size() {
        let op = |mode| GridSample { mode, padding: Padding::Zeros, align_corners: true };
        let x = |dtype| tensor(dtype, [n(), 3.into(), 8.into(), 9.into()]);
        let grid = |axes: i64| tensor(F16, [n(), 4.into(), n(), axes.into()]);
        for mode in [Mode::Nearest, Mode::Linear, Mode::Cubic] {
            check(op(mode), &[x(F32), grid(2)], 1, "float[n, 3, 4, n]");
            check(op(mode), &[x(U8), grid(2)], 1, "uint8[n, 3, 4, n]");
        }
        let expected = "the coordinates and the axes of an image must be equal, but are 3 and 2";
        check(op(Mode::Linear), &[x(F32), grid(3)], 1, expected);
        check(op(Mode::Nearest), &[x(DType::Bool), grid(2)], 1, "bool[n, 3, 4, n]");
        let expected = "elements of type bool cannot be interpolated";
        check(op(Mode::Cubic), &[x(DType::Bool), grid(2)], 1, expected);
    }

    #[test]
    fn affine_grid_supports_images_of_two_or_three_axes() {
        let op = || AffineGrid { align_corners: false };
        let theta = |axes: i64| tensor(F32, [n(), axes.into(), (axes + 1).into()]);
        let size = Given::Sizes(vec![n(), 3.into(), 4.into(), n() * 2]);
        check(op(), &[theta(2), size], 1, "float[n, 4, 2 * n, 2]");
        check(op(), &[theta(3), tensor(I64, [5])], 1, "float[n, y0_0, y0_1, y0_2, 3]");
        let expected = "the rows of a matrix and the axes must be equal, but are 2 and 3";
        check(op(), &[theta(2), tensor(I64, [5])], 1, expected);
        let expected = "there must be 4 or 5 sizes, but there are 3";
        check(op(), &[theta(2), tensor(I64, [3])], 1, expected);
    }
}
