//! Weight gradients of convolutions.

use super::{SlidingWindow, geometry_of, macs, scratch};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, FLOATS},
    ir::{Attributes, Domain, Gradient, Infer, Inferred, Lower, Op},
    ops::{
        Entry, internal,
        window::{Rounding, Slide, Window},
    },
    plan::{Kernel, geometry, kernel, size_function},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[internal("ConvWeightGrad", |node| {
    Ok(Rc::new(ConvWeightGrad { window: Window::read(node)?, group: node.int("group", 1)? }))
})];

/// The gradient of the weights of a convolution, with the images `x` and `dy` as inputs 0 and 1:
/// for each weight, the sum over all windows of the element that it is multiplied by, times the
/// window's `dy`.
#[derive(Clone)]
pub struct ConvWeightGrad {
    /// The attributes of the window, whose sizes are known.
    pub window: Window,
    /// The number of groups of channels.
    pub group: i64,
}

static PLAIN: Kernel<geometry::Conv> = kernel!(FLOATS T, conv::conv_weight_grad::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p));
static F32: Kernel<geometry::Conv> = kernel!(F32_ONLY T, conv::conv_weight_grad_f32,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), a.output(1), p));
static F64: Kernel<geometry::Conv> = kernel!(F64_ONLY T, conv::conv_weight_grad_f64,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), a.output(1), p));

impl ConvWeightGrad {
    fn slides(&self, x: &[Dim]) -> Vec<Slide> {
        self.window.slides(&x[2..], &self.window.sizes(), Rounding::Down)
    }
}

impl Op for ConvWeightGrad {
    fn name(&self) -> &'static str {
        "ConvWeightGrad"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        self.window.attributes(a);
        a.int("group", self.group);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let dtype = cx.of(0, FLOATS)?.dtype;
        cx.same_dtype(0, 1)?;
        let (x, dy) = (cx.shape(0)?.to_vec(), cx.shape(1)?.to_vec());
        if x.len() < 2 || dy.len() != x.len() || self.group < 1 {
            return Err(cx.diagnostic(Code::ShapeMismatch, "the images have no channels"));
        }
        self.window.check(cx, x.len() - 2)?;
        self.window.kernel(cx, x.len() - 2)?;
        cx.require_equal(&x[0], &dy[0], "the batch sizes of the images and of their gradients")?;
        for (slide, out) in self.slides(&x).iter().zip(&dy[2..]) {
            cx.require_equal(&slide.windows, out, "the number of windows and of their gradients")?;
        }
        let channels = x[1].floor_div(&self.group.into());
        let shape = [vec![dy[1].clone(), channels], self.window.sizes()].concat();
        Ok(vec![Type::tensor(dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (x, dw) = (&cx.ty(0)?.shape, &cx.output_ty(0)?.shape);
        let geometry = geometry_of(&x[0], dw, &self.slides(x), self.group);
        cx.macs(&macs(&geometry));
        let dtype = cx.output_ty(0)?.dtype;
        let fast = cx.output_ty(0)?.known_shape().is_some();
        let scratch = scratch(cx, fast, &geometry, size_function!(conv::conv_weight_grad_scratch));
        let inputs = vec![cx.input(0)?.into(), cx.input(1)?.into()];
        let mut outputs = vec![cx.output(0)?.into()];
        let (kernel, scratch) = match (dtype, scratch) {
            (DType::F32, Some(scratch)) => (&F32, scratch),
            (DType::F64, Some(scratch)) => (&F64, scratch),
            _ => return cx.call_on(&PLAIN, dtype, inputs, outputs, geometry),
        };
        outputs.push(cx.scratch(dtype, scratch).into());
        cx.call_on(kernel, dtype, inputs, outputs, geometry)
    }

    /// The operator is linear in `x` and in `dy`: the gradient of `x` is a transposed convolution
    /// of `dy` with `dw`, and the gradient of `dy` a convolution of `x` with `dw`.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, dy, Some(dw)) = (g.x(0), g.x(1), g.dy(0)) else { return Ok(()) };
        let sliding = SlidingWindow::new(self.slides(&x.dims()), self.group);
        if g.wants(0) {
            let dx = sliding.input_grad(g, dy, dw, x)?;
            g.set(0, dx);
        }
        if g.wants(1) {
            let dy = sliding.sum_windows(g, x, dw)?;
            g.set(1, dy);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::{
        testing::{check, tensor},
        window::AutoPad,
    };

    #[test]
    fn the_result_has_the_shape_of_the_weights() {
        let window = Window {
            auto_pad: AutoPad::NotSet,
            kernel_shape: vec![3, 2],
            strides: vec![2, 1],
            pads: vec![1, 0, 1, 0],
            dilations: vec![1, 1],
        };
        let op = ConvWeightGrad { window, group: 2 };
        let x = || tensor(DType::F32, [5, 4, 8, 9]);
        check(op.clone(), &[x(), tensor(DType::F32, [5, 6, 4, 8])], 1, "float[6, 2, 3, 2]");
        check(
            op,
            &[x(), tensor(DType::F32, [5, 6, 4, 9])],
            1,
            "the number of windows and of their gradients must be equal, but are 8 and 9",
        );
    }
}
