//! The `ConvTranspose` operator.

use super::{
    Conv, Kernels, SlidingWindow, call, check_bias, check_residual, is_shallow, kernels, pack,
    weight_precision,
};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::FLOATS,
    ir::{Attributes, Domain, Gradient, Infer, Inferred, Lower, Op, Reader},
    ops::{
        Entry, entry, internal,
        window::{AutoPad, Slide, Window, halves, span},
    },
    plan::{Optimize, geometry, size_function},
    ty::Type,
};
use onnxc_runtime::kernels::{conv::WeightLayout, epilogue::Activation};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("ConvTranspose", 1, |node| Ok(Rc::new(ConvTranspose::read(node)?))),
    internal("ConvTranspose", |node| {
        let activation = node.activation()?;
        Ok(Rc::new(ConvTranspose { activation, fused: true, ..ConvTranspose::read(node)? }))
    }),
];

/// A transposed convolution of images `[n, group · c, …]` with filters `[group · c, m, …]` and an
/// optional bias `[group · m]`: the sum of the filters, each placed at each element of an image and
/// multiplied by it.
///
/// The internal operator that passes create (`fused`) has an epilogue: it adds an optional input 3
/// of the shape of the result, and applies `activation`.
#[derive(Clone)]
pub struct ConvTranspose {
    /// The attributes of the window; the padding is removed from the result.
    pub window: Window,
    /// The number of groups of channels.
    pub group: i64,
    /// The number of elements added to the result at the end of each axis; 0 by default.
    pub output_padding: Vec<i64>,
    /// The sizes of the resulting images; empty if they follow from the padding.
    pub output_shape: Vec<i64>,
    /// The activation function of the epilogue.
    pub activation: Activation,
    /// Whether a pass created it.
    pub fused: bool,
}

static KERNELS: Kernels<geometry::ConvTranspose> =
    kernels!(conv_transpose conv_transpose_f32 conv_transpose_f64);

/// The result along one axis: its size, and the number of elements removed at its start.
struct Along {
    out: Dim,
    before: Dim,
}

impl ConvTranspose {
    /// Reads the attributes.
    pub(super) fn read(node: &mut Reader<'_>) -> Result<ConvTranspose> {
        Ok(ConvTranspose {
            window: Window::read(node)?,
            group: node.int("group", 1)?,
            output_padding: node.maybe_ints("output_padding")?.unwrap_or_default(),
            output_shape: node.maybe_ints("output_shape")?.unwrap_or_default(),
            activation: Activation::Identity,
            fused: false,
        })
    }

    /// The result along all axes.
    fn along(&self, image: &[Dim], kernel: &[Dim]) -> Vec<Along> {
        let axes = image.len();
        let each = |axis| self.along_axis(axis, axes, &image[axis], &kernel[axis]);
        (0..axes).map(each).collect()
    }

    fn along_axis(&self, axis: usize, axes: usize, image: &Dim, kernel: &Dim) -> Along {
        let Window { auto_pad, pads, .. } = &self.window;
        let number = |list: &[i64], i: usize| Dim::from(list.get(i).copied().unwrap_or(0));
        let stride = self.window.stride(axis);
        let extra = number(&self.output_padding, axis);
        let full = image * stride + span(kernel, self.window.dilation(axis)) - stride + extra;
        let same = matches!(auto_pad, AutoPad::SameUpper | AutoPad::SameLower);
        let out = match self.output_shape.get(axis) {
            Some(&out) => out.into(),
            None if same => image * stride,
            None if *auto_pad == AutoPad::Valid => return Along { out: full, before: 0.into() },
            None => {
                let before = number(pads, axis);
                return Along { out: full - &before - number(pads, axes + axis), before };
            }
        };
        // The odd element is removed at the start, or at the end for `SAME_UPPER`.
        let total = (full - &out).at_least(&0.into());
        let upper = *auto_pad == AutoPad::SameUpper;
        let [before, _] =
            halves(&total, if upper { AutoPad::SameUpper } else { AutoPad::SameLower });
        Along { out, before }
    }

    /// The shape of the result for images and weights of these shapes.
    pub(super) fn shape(&self, x: &[Dim], w: &[Dim]) -> Vec<Dim> {
        let along = self.along(&x[2..], &w[2..]);
        let batch_and_channels = [x[0].clone(), &w[1] * self.group];
        batch_and_channels.into_iter().chain(along.into_iter().map(|along| along.out)).collect()
    }

    /// The parameters of the kernels for images and weights of these shapes.
    pub(super) fn geometry(&self, x: &[Dim], w: &[Dim]) -> geometry::ConvTranspose {
        let (size, kernel) = (x[2..].to_vec(), w[2..].to_vec());
        let (out, pads) =
            self.along(&size, &kernel).into_iter().map(|along| (along.out, along.before)).unzip();
        let axes = 0..size.len();
        geometry::ConvTranspose {
            batch: x[0].clone(),
            groups: usize::try_from(self.group).expect("`infer` checks that `group` is positive"),
            channels: w[0].floor_div(&self.group.into()),
            filters: w[1].clone(),
            strides: axes.clone().map(|axis| self.window.stride(axis)).collect(),
            dilations: axes.map(|axis| self.window.dilation(axis)).collect(),
            weights: WeightLayout::Plain,
            size,
            out,
            kernel,
            pads,
        }
    }

    /// The slides of the window of the corresponding convolution, which maps the result to the
    /// images.
    fn slides(&self, image: &[Dim], kernel: &[Dim], out: &[Dim]) -> Vec<Slide> {
        let along = self.along(image, kernel).into_iter().enumerate();
        let slide = |(axis, Along { before, .. }): (usize, Along)| {
            let (stride, dilation) = (self.window.stride(axis), self.window.dilation(axis));
            let extent = (&image[axis] - 1) * stride + span(&kernel[axis], dilation);
            Slide {
                image: out[axis].clone(),
                kernel: kernel[axis].clone(),
                windows: image[axis].clone(),
                stride,
                dilation,
                after: (&extent - &out[axis] - &before).at_least(&0.into()),
                before,
                max_extent: extent,
            }
        };
        along.map(slide).collect()
    }

    /// Checks the attributes `output_padding` and `output_shape`.
    fn check(&self, cx: &Infer<'_>, axes: usize) -> Inferred<()> {
        let lists =
            [("output_padding", &self.output_padding), ("output_shape", &self.output_shape)];
        for (name, list) in lists {
            let fits = list.is_empty() || list.len() == axes;
            if !fits || list.iter().any(|&n| !(0..=i64::from(i32::MAX)).contains(&n)) {
                let message = format!("`{name}` is {list:?}, but there are {axes} axes");
                return Err(cx.diagnostic(Code::BadAttribute, message));
            }
        }
        Ok(())
    }
}

impl Op for ConvTranspose {
    fn name(&self) -> &'static str {
        "ConvTranspose"
    }

    fn domain(&self) -> Domain {
        if self.fused { Domain::Internal } else { Domain::Onnx }
    }

    fn attributes(&self, a: &mut Attributes) {
        self.window.attributes(a);
        a.int("group", self.group);
        let lists =
            [("output_padding", &self.output_padding), ("output_shape", &self.output_shape)];
        for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            a.ints(name, list);
        }
        a.activation(self.activation);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = cx.of(0, FLOATS)?.dtype;
        cx.same_dtype(0, 1)?;
        let (x, w) = (cx.shape(0)?, cx.shape(1)?);
        let ([_, channels, image @ ..], [depth, filters, kernel @ ..]) = (x, w) else {
            return Err(cx.diagnostic(Code::ShapeMismatch, "the images have no channels"));
        };
        cx.require_equal(channels, depth, "the channels of the images and of the filters")?;
        self.window.check_conv(cx, image, kernel, self.group)?;
        self.check(cx, image.len())?;
        let multiple = depth.floor_div(&self.group.into()) * self.group;
        cx.require_equal(depth, &multiple, "the number of channels and a multiple of `group`")?;
        check_bias(cx, 2, &(filters * self.group))?;
        let shape = self.shape(x, w);
        for out in &shape[2..] {
            cx.require_at_least(out, &0.into(), "a size of the result must not be negative")?;
        }
        check_residual(cx, self.fused, &shape)?;
        Ok(vec![Type::tensor(dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (x, w) = (&cx.ty(0)?.shape, &cx.ty(1)?.shape);
        let mut geometry = self.geometry(x, w);
        cx.macs(&(cx.ty(0)?.len() * &w[1..].iter().product()));
        let weights = match is_shallow(&geometry.filters) {
            true => weight_precision::widen_row_major(cx, 1),
            false => pack::pack_constant(cx, 1, geometry.clone())
                .inspect(|_| geometry.weights = WeightLayout::Packed),
        };
        let fast = cx.ty(1)?.known_shape().is_some();
        let function = size_function!(conv::conv_transpose_scratch);
        let scratch = (fast && cx.optimize() == Optimize::Speed).then(|| {
            cx.scratch_len(&geometry, function, |most| geometry.scratch_of(most, function))
        });
        call(cx, &KERNELS, (geometry, self.activation), weights, scratch)
    }

    /// The gradient of the images is a convolution of `dy`. The weight gradient is that of this
    /// convolution, with the images and `dy` exchanged.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, w, y, Some(dy)) = (g.x(0), g.x(1), g.y(0), g.dy(0)) else { return Ok(()) };
        let slides: Vec<Slide> = self.slides(&x.dims()[2..], &w.dims()[2..], &y.dims()[2..]);
        let pads = |of: fn(&Slide) -> &Dim| slides.iter().map(move |slide| of(slide).known());
        let pads: Option<Vec<i64>> =
            pads(|slide| &slide.before).chain(pads(|slide| &slide.after)).collect();
        let Some(pads) = pads else {
            return Err(g.unsupported("for padding that depends on sizes known only at run time"));
        };
        if g.wants(0) {
            let window = Window { auto_pad: AutoPad::NotSet, pads, ..self.window.clone() };
            let (group, activation) = (self.group, Activation::Identity);
            let dx = dy.apply(Conv { window, group, activation, fused: false }, &[w]);
            g.set(0, dx.first_of(x));
        }
        if g.wants(1) {
            let dw = SlidingWindow::new(slides, self.group).conv_weight_grad(g, dy, x, w)?;
            g.set(1, dw);
        }
        if g.wants(2) {
            g.set(2, dy.sum_per_channel(g.x(2)));
        }
        Ok(())
    }
}
