//! `DeformConv`: convolutions with an offset for each tap of each window.

use super::{check_bias, geometry, infer_shape, macs};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, FLOATS},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op},
    ops::{
        Entry, entry,
        sample::{Mode, Sampler},
        window::{Rounding, Window},
    },
    plan::{Kernel, geometry::Conv, kernel},
    ty::Type,
};
use onnxc_runtime::{
    Float,
    kernels::{conv::MAX_DEFORM_AXES, sample::Padding},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[entry("DeformConv", 19, |node| {
    Ok(Rc::new(DeformConv {
        window: Window::read(node)?,
        group: node.int("group", 1)?,
        offset_group: node.int("offset_group", 1)?,
    }))
})];

/// A convolution whose input 2 holds an offset for each tap of each window and axis, and whose
/// optional input 4 a factor for each tap of each window.
pub struct DeformConv {
    /// The attributes of the window.
    pub window: Window,
    /// The number of groups of channels.
    pub group: i64,
    /// The number of groups of channels that share offsets.
    pub offset_group: i64,
}

static DEFORM_CONV: Kernel<(Conv, usize)> = kernel!(FLOATS T,
    conv::deform_conv::<T> { operands: conv::DeformConvOperands {
        x: input(0), w: input(1), offset: input(2), bias: optional(3), mask: optional(4),
    } }, |f, a, p| f(operands, a.output(0), a.output::<<T as Float>::Wide>(1), p.0, p.1));

impl DeformConv {
    /// Checks input `i`, which has `each` numbers for each offset group, tap and window. `shape` is
    /// the shape of the result.
    fn check(&self, cx: &mut Infer<'_>, i: usize, each: usize, shape: &[Dim]) -> Inferred<()> {
        cx.same_dtype(0, i)?;
        let actual = &cx.ranked(i, shape.len())?.shape;
        let taps: Dim = cx.shape(1)?[2..].iter().product();
        let mut expected = shape.to_vec();
        expected[1] = taps * self.offset_group * each;
        for (a, b) in actual.iter().zip(&expected) {
            cx.require_equal(a, b, &format!("a size of input {i} and the expected size"))?;
        }
        Ok(())
    }
}

impl Op for DeformConv {
    fn name(&self) -> &'static str {
        "DeformConv"
    }

    fn attributes(&self, a: &mut Attributes) {
        self.window.attributes(a);
        a.int("group", self.group);
        a.int("offset_group", self.offset_group);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = cx.of(0, FLOATS)?.dtype;
        cx.same_dtype(0, 1)?;
        let shape = infer_shape(cx, &self.window, self.group, [0, 1])?;
        let axes = shape.len() - 2;
        if axes > MAX_DEFORM_AXES {
            let message = format!("images of {axes} axes: at most {MAX_DEFORM_AXES} are supported");
            return Err(cx.diagnostic(Code::Unsupported, message));
        }
        if self.offset_group < 1 || self.offset_group > i64::from(i32::MAX) {
            let message = format!("`offset_group` is {}, but must be positive", self.offset_group);
            return Err(cx.diagnostic(Code::BadAttribute, message));
        }
        let channels = &cx.shape(0)?[1];
        let multiple = channels.floor_div(&self.offset_group.into()) * self.offset_group;
        cx.require_equal(
            channels,
            &multiple,
            "the number of channels and a multiple of `offset_group`",
        )?;
        self.check(cx, 2, axes, &shape)?;
        check_bias(cx, 3, &shape[1])?;
        if cx.has(4) {
            self.check(cx, 4, 1, &shape)?;
        }
        Ok(vec![Type::tensor(dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = geometry(cx, &self.window, self.group, [0, 1])?;
        cx.macs(&macs(&geometry));
        let groups = usize::try_from(self.offset_group)
            .expect("`infer` checks that `offset_group` is positive");
        let taps = geometry.kernel.iter().product::<Dim>();
        let dtype = cx.ty(0)?.dtype;
        let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let scratch = cx.scratch(wide, taps * &cx.ty(0)?.shape[1]);
        let inputs = vec![
            cx.input(0)?.into(),
            cx.input(1)?.into(),
            cx.input(2)?.into(),
            cx.optional(3)?.into(),
            cx.optional(4)?.into(),
        ];
        let outputs = vec![cx.output(0)?.into(), scratch.into()];
        cx.call_on(&DEFORM_CONV, dtype, inputs, outputs, (geometry, groups))
    }

    /// Expresses the operator as samples of the images, multiplied by the weights, and
    /// differentiates that.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, w, y, tape) = (g.x(0), g.x(1), g.y(0), g.tape());
        let known = |value: Expr<'_>| value.dims()[2..].iter().map(Dim::known).collect();
        let (Some(kernel), Some(out)): (Option<Vec<i64>>, Option<Vec<i64>>) = (known(w), known(y))
        else {
            return Err(g.unsupported("for images of sizes known only at run time"));
        };
        let slides = self.window.slides(&x.dims()[2..], &w.dims()[2..], Rounding::Down);
        let (axes, groups) = (kernel.len(), self.offset_group);
        let (taps, points): (i64, i64) = (kernel.iter().product(), out.iter().product());
        // [n · groups, taps, axes, points]
        let offsets = g.x(2).reshape_to(&[-1, taps, axes as i64, points]);
        let mut coordinates = Vec::new();
        for (axis, slide) in slides.iter().enumerate() {
            let Some(before) = slide.before.known() else {
                return Err(
                    g.unsupported("for padding that depends on sizes known only at run time")
                );
            };
            let index_along = |at: i64, sizes: &[i64]| {
                at / sizes[axis + 1..].iter().product::<i64>() % sizes[axis]
            };
            let coordinate = |at: i64| {
                let (tap, point) =
                    (index_along(at / points, &kernel), index_along(at % points, &out));
                point * slide.stride as i64 + tap * slide.dilation as i64 - before
            };
            let base: Vec<i64> = (0..taps * points).map(coordinate).collect();
            let base = tape.ints(&base).reshape_to(&[taps, points]).cast_like(x);
            let offset = offsets.gather(tape.ints(&[axis as i64]), 2).squeeze(&[2]);
            coordinates.push((offset + base).reshape_to(&[0, -1]));
        }
        let image = x.sizes(2, i64::MAX);
        let images = [tape.ints(&[-1]), x.size_of(1) / tape.ints(&[groups]), image];
        let reading = Sampler { mode: Mode::Linear, padding: Padding::Zeros, align_corners: false };
        let mut samples = reading.sample(x.reshape_by(tape.concat(&images)), &coordinates);
        if let Some(mask) = g.optional(4) {
            samples = samples * mask.reshape_to(&[-1, 1, taps * points]);
        }
        let batch = x.size_of(0);
        let columns = tape.concat(&[batch, tape.ints(&[self.group, -1, points])]);
        let rows =
            [tape.ints(&[self.group]), w.size_of(0) / tape.ints(&[self.group]), tape.ints(&[-1])];
        let product = w.reshape_by(tape.concat(&rows)).matmul(samples.reshape_by(columns));
        let product = product.reshape_like(y);
        let result = match g.optional(3) {
            Some(bias) => product + bias.unsqueeze_channels(y.rank()),
            None => product,
        };
        g.through(&[result])
    }
}
