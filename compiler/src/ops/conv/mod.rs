//! The `Conv` operator, and the related operators in the submodules.

pub(crate) mod blocked;
mod blocked_bf16;
mod blocked_kernels;
pub(crate) mod blocked_transpose;
pub(crate) mod blocked_weight_grad;
pub(crate) mod causal;
pub(crate) mod deform;
mod gradient;
pub(crate) mod integer;
pub(crate) mod transpose;
pub(crate) mod weight_grad;

use super::{
    Entry, entry, internal, pack, weight_precision,
    window::{self, AutoPad, Rounding, Slide, Window},
};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, FLOATS},
    ir::{Attributes, Domain, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{Field, Formula, Kernel, Operand, Optimize, SizeFunction, geometry, size_function},
    ty::Type,
};
pub(super) use gradient::SlidingWindow;
use onnxc_runtime::kernels::{conv::WeightLayout, epilogue::Activation};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("Conv", 1, |node| Ok(Rc::new(Conv::read(node)?))),
    internal("Conv", |node| {
        let activation = node.activation()?;
        let fused = node.inputs.len() > 3 || activation != Activation::Identity;
        Ok(Rc::new(Conv { activation, fused, ..Conv::read(node)? }))
    }),
];

/// A convolution of images `[n, group · c, …]` with filters `[m, c, …]` and an optional bias `[m]`.
///
/// The internal operator that passes create (`fused`) has an epilogue: it adds an optional input 3
/// of the shape of the result, and applies `activation`.
#[derive(Clone)]
pub struct Conv {
    /// The attributes of the window.
    pub window: Window,
    /// The number of groups of channels.
    pub group: i64,
    /// The activation function of the epilogue.
    pub activation: Activation,
    /// Whether a pass created it.
    pub fused: bool,
}

impl Conv {
    fn read(node: &mut Reader<'_>) -> Result<Conv> {
        Ok(Conv {
            window: Window::read(node)?,
            group: node.int("group", 1)?,
            activation: Activation::Identity,
            fused: false,
        })
    }
}

impl Conv {
    /// Returns whether the convolution multiplies single pixels by weights of this shape: in one
    /// group, and without strides and padding.
    pub fn is_pointwise(&self, weights: &[Dim]) -> bool {
        let Window { auto_pad, strides, pads, .. } = &self.window;
        let is_one = |size: &Dim| size.known() == Some(1);
        self.group == 1
            && weights.len() > 2
            && weights[2..].iter().all(is_one)
            && strides.iter().all(|&stride| stride == 1)
            // Other rules give a window of one pixel no padding.
            && (*auto_pad != AutoPad::NotSet || pads.iter().all(|&pad| pad == 0))
    }

    /// A convolution in one group, without an epilogue.
    pub fn one(window: Window) -> Conv {
        Conv { window, group: 1, activation: Activation::Identity, fused: false }
    }

    /// A depthwise convolution of `channels` channels, with strides of 1 and without padding.
    fn depthwise(channels: i64) -> Conv {
        let window = Window {
            auto_pad: AutoPad::NotSet,
            kernel_shape: Vec::new(),
            strides: Vec::new(),
            pads: Vec::new(),
            dilations: Vec::new(),
        };
        Conv { window, group: channels, activation: Activation::Identity, fused: false }
    }
}

/// The kernels of a convolution.
struct Kernels<F: Formula + Field> {
    /// For any floating-point type, without scratch memory.
    float: Kernel<(F, Activation)>,
    /// The fast kernel for `f32`.
    f32: Kernel<(F, Activation)>,
    /// The fast kernel for `f64`.
    f64: Kernel<(F, Activation)>,
}

/// A kernel that takes `ConvOperands`, as a variable of this name.
macro_rules! convolution {
    ($set:ident $T:ident, $home:ident :: $name:ident $(:: <$G:ident>)?, $operands:ident,
        |$f:ident, $a:ident, $p:ident| $body:expr) => {
        $crate::plan::kernel!($set $T, $home::$name $(::<$G>)? { $operands: conv::ConvOperands {
            x: input(0), w: input(1), bias: optional(2), add: optional(3),
        } }, |$f, $a, $p| $body)
    };
}
use convolution;

macro_rules! kernels {
    ($float:ident $f32:ident $f64:ident) => {
        Kernels {
            float: $crate::ops::conv::convolution!(FLOATS T, conv::$float::<T>, operands,
                |f, a, p| f(operands, a.output(0), p.0, p.1)),
            f32: $crate::ops::conv::convolution!(F32_ONLY T, conv::$f32, operands,
                |f, a, p| f(operands, a.output(0), a.output(1), p.0, p.1)),
            f64: $crate::ops::conv::convolution!(F64_ONLY T, conv::$f64, operands,
                |f, a, p| f(operands, a.output(0), a.output(1), p.0, p.1)),
        }
    };
}
use kernels;

static KERNELS: Kernels<geometry::Conv> = kernels!(conv conv_f32 conv_f64);

/// The `f32` kernel of the smallest code, for `Optimize::Size`.
static SMALL: Kernel<(geometry::Conv, Activation)> = convolution!(F32_ONLY T, conv::small_conv,
    operands, |f, a, p| f(operands, a.output(0), a.output(1), a.output(2), p.0, p.1));

/// Calls [`SMALL`] for the node.
fn call_small(cx: &mut Lower<'_>, geometry: geometry::Conv, f: Activation) -> Result {
    let inputs = vec![
        cx.input(0)?.into(),
        cx.input(1)?.into(),
        cx.optional(2)?.into(),
        cx.optional(3)?.into(),
    ];
    let taps: Dim = geometry.kernel.iter().product();
    let starts = cx.scratch(DType::U32, taps.clone());
    let window = cx.scratch(DType::F32, taps * &geometry.channels * geometry.groups);
    let outputs = vec![cx.output(0)?.into(), starts.into(), window.into()];
    cx.call_on(&SMALL, DType::F32, inputs, outputs, (geometry, f))
}

/// Calls the kernel for the element type. `weights` replaces input 1, for example by packed
/// weights. Without `scratch`, calls the kernel that needs no scratch memory; see [`scratch`].
fn call<F: Formula + Field>(
    cx: &mut Lower<'_>,
    kernels: &'static Kernels<F>,
    formula: (F, Activation),
    weights: Option<Operand>,
    scratch: Option<Dim>,
) -> Result {
    let dtype = cx.output_ty(0)?.dtype;
    let weights = match weights {
        Some(weights) => weights,
        None => cx.input(1)?,
    };
    let inputs =
        vec![cx.input(0)?.into(), weights.into(), cx.optional(2)?.into(), cx.optional(3)?.into()];
    let mut outputs = vec![cx.output(0)?.into()];
    let (kernel, scratch) = match (dtype, scratch) {
        (DType::F32, Some(scratch)) => (&kernels.f32, scratch),
        (DType::F64, Some(scratch)) => (&kernels.f64, scratch),
        _ => return cx.call_on(&kernels.float, dtype, inputs, outputs, formula),
    };
    outputs.push(cx.scratch(dtype, scratch).into());
    cx.call_on(kernel, dtype, inputs, outputs, formula)
}

/// Infers the shape of a convolution of input `x` with the filters of input `w`.
pub(super) fn infer_shape(
    cx: &mut Infer<'_>,
    window: &Window,
    group: i64,
    [x, w]: [usize; 2],
) -> Inferred<Vec<Dim>> {
    let (x, w) = (cx.shape(x)?, cx.shape(w)?);
    let ([batch, channels, image @ ..], [filters, depth, sizes @ ..]) = (x, w) else {
        return Err(cx.diagnostic(Code::ShapeMismatch, "the images have no channels"));
    };
    window.check_conv(cx, image, sizes, group)?;
    cx.require_equal(channels, &(depth * group), "the channels of the images and of the filters")?;
    let multiple = filters.floor_div(&group.into()) * group;
    cx.require_equal(filters, &multiple, "the number of filters and a multiple of `group`")?;
    let slides = window.slides(image, sizes, Rounding::Down);
    for slide in &slides {
        slide.require(cx)?;
    }
    let mut shape = vec![batch.clone(), filters.clone()];
    shape.extend(window::shape(&slides));
    Ok(shape)
}

impl Op for Conv {
    fn name(&self) -> &'static str {
        "Conv"
    }

    fn domain(&self) -> Domain {
        if self.fused { Domain::Internal } else { Domain::Onnx }
    }

    fn attributes(&self, a: &mut Attributes) {
        self.window.attributes(a);
        a.int("group", self.group);
        a.activation(self.activation);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = cx.of(0, FLOATS)?.dtype;
        cx.same_dtype(0, 1)?;
        let shape = infer_shape(cx, &self.window, self.group, [0, 1])?;
        check_bias(cx, 2, &shape[1])?;
        check_residual(cx, self.fused, &shape)?;
        Ok(vec![Type::tensor(dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let mut geometry = geometry(cx, &self.window, self.group, [0, 1])?;
        cx.macs(&macs(&geometry));
        let fast = cx.ty(1)?.known_shape().is_some();
        if (cx.optimize(), cx.ty(0)?.dtype, fast) == (Optimize::Size, DType::F32, true) {
            return call_small(cx, geometry, self.activation);
        }
        let weights = match is_shallow(&geometry.filters) {
            true => weight_precision::widen_row_major(cx, 1),
            false => pack::pack_constant(cx, 1, geometry.clone())
                .inspect(|_| geometry.weights = WeightLayout::Packed),
        };
        let scratch = scratch(cx, fast, &geometry, size_function!(conv::conv_scratch));
        call(cx, &KERNELS, (geometry, self.activation), weights, scratch)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, w, Some(dy)) = (g.x(0), g.x(1), g.dy(0)) else { return Ok(()) };
        let slides = self.window.slides(&x.dims()[2..], &w.dims()[2..], Rounding::Down);
        let sliding = SlidingWindow::new(slides, self.group);
        if g.wants(0) {
            let dx = sliding.input_grad(g, dy, w, x)?;
            g.set(0, dx);
        }
        if g.wants(1) {
            let dw = sliding.conv_weight_grad(g, x, dy, w)?;
            g.set(1, dw);
        }
        if g.wants(2) {
            g.set(2, dy.sum_per_channel(g.x(2)));
        }
        Ok(())
    }
}

/// The parameters of the kernels of a convolution of input `x` with the filters of input `w`.
pub(super) fn geometry(
    cx: &Lower<'_>,
    window: &Window,
    group: i64,
    [x, w]: [usize; 2],
) -> Result<geometry::Conv> {
    let (x, w) = (&cx.ty(x)?.shape, &cx.ty(w)?.shape);
    let slides = window.slides(&x[2..], &w[2..], Rounding::Down);
    Ok(geometry_of(&x[0], w, &slides, group))
}

/// The parameters of a convolution of `batch` images with filters of shape `w`.
pub(super) fn geometry_of(batch: &Dim, w: &[Dim], slides: &[Slide], group: i64) -> geometry::Conv {
    let each = |of: fn(&Slide) -> &Dim| slides.iter().map(|slide| of(slide).clone()).collect();
    geometry::Conv {
        batch: batch.clone(),
        groups: usize::try_from(group).expect("`infer` checks that `group` is positive"),
        channels: w[1].clone(),
        filters: w[0].floor_div(&group.into()),
        size: each(|slide| &slide.image),
        out: each(|slide| &slide.windows),
        kernel: each(|slide| &slide.kernel),
        strides: slides.iter().map(|slide| slide.stride).collect(),
        dilations: slides.iter().map(|slide| slide.dilation).collect(),
        pads: each(|slide| &slide.before),
        weights: WeightLayout::Plain,
    }
}

/// Returns whether a group has too few filters for packing, which pads them to 12, to pay off.
fn is_shallow(filters: &Dim) -> bool {
    filters.known().is_none_or(|filters| filters < 4)
}

/// The scratch memory of the fast kernels, in elements; `None` if they are not used: for
/// `Optimize::Size`, and if the sizes of the weights are unknown (not `fast`), since they determine
/// the scratch memory.
fn scratch(
    cx: &mut Lower<'_>,
    fast: bool,
    geometry: &geometry::Conv,
    function: SizeFunction<geometry::Conv>,
) -> Option<Dim> {
    let fast = fast && cx.optimize() == Optimize::Speed;
    fast.then(|| cx.scratch_len(geometry, function, |most| geometry.scratch_of(most, function)))
}

/// The number of multiply-adds.
pub(super) fn macs(conv: &geometry::Conv) -> Dim {
    let sizes = conv.out.iter().chain(&conv.kernel).product::<Dim>();
    sizes * &conv.batch * conv.groups * &conv.filters * &conv.channels
}

/// Checks the bias, the optional input `i`.
fn check_bias(cx: &mut Infer<'_>, i: usize, channels: &Dim) -> Inferred<()> {
    if !cx.has(i) {
        return Ok(());
    }
    cx.same_dtype(0, i)?;
    let size = &cx.ranked(i, 1)?.shape[0];
    cx.require_equal(size, channels, "the sizes of the bias and of the channels")
}

/// Checks the optional input 3 of a fused convolution, which is added to a result of `shape`.
fn check_residual(cx: &mut Infer<'_>, fused: bool, shape: &[Dim]) -> Inferred<()> {
    if !fused || !cx.has(3) {
        return Ok(());
    }
    cx.same_dtype(0, 3)?;
    for (a, b) in cx.ranked(3, shape.len())?.shape.iter().zip(shape) {
        cx.require_equal(a, b, "a size of the added tensor and of the result")?;
    }
    Ok(())
}
