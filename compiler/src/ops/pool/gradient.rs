//! The gradients of `MaxPool`.

use super::{MaxPool, Pool, geometry};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, FLOATS},
    ir::{Attributes, Domain, Gradient, Infer, Inferred, Lower, Op},
    ops::{
        Entry, blocked, internal,
        window::{Rounding, Slide},
    },
    plan::{self, Kernel, kernel},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    internal("BlockedMaxPoolGrad", |node| {
        Ok(Rc::new(BlockedMaxPoolGrad { pool: Pool::read(node)? }))
    }),
    internal("MaxPoolGrad", |node| Ok(Rc::new(MaxPoolGrad { pool: Pool::read(node)? }))),
];

/// The gradient of `MaxPool`, computed from its input and `dy`. Each element of `dy` is added to
/// the first of the largest elements of its window.
#[derive(Clone)]
pub struct MaxPoolGrad {
    /// The window.
    pub pool: Pool,
}

static MAX_POOL_GRADIENT: Kernel<plan::geometry::Pool> = kernel!(FLOATS T, pool::max_pool_grad::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p));

impl Op for MaxPoolGrad {
    fn name(&self) -> &'static str {
        "MaxPoolGrad"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        self.pool.attributes(a);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (dtype, shape) = self.pool.infer(cx, FLOATS)?;
        cx.same_dtype(0, 1)?;
        let dy = cx.ranked(1, shape.len())?.shape.clone();
        for (a, b) in dy.iter().zip(&shape) {
            cx.require_equal(a, b, "the sizes of the pooled images and of the derivatives")?;
        }
        Ok(vec![Type::tensor(dtype, cx.shape(0)?.to_vec())])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = geometry(cx, &self.pool.slides(&cx.ty(0)?.shape))?;
        cx.call(&MAX_POOL_GRADIENT, geometry)
    }

    /// Gathers the elements of `dx` at the indices of the maxima, which are taken as constants.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, dy, Some(dx)) = (g.x(0), g.x(1), g.dy(0)) else { return Ok(()) };
        let op = Rc::new(MaxPool { pool: self.pool.clone(), column_major: false });
        let indices = g.tape().node(op, &[Some(x)], 2)[1];
        g.set(1, dx.reshape_to(&[-1]).gather(indices.reshape_to(&[-1]), 0).reshape_like(dy));
        Ok(())
    }
}

/// [`MaxPoolGrad`] of NCHWc images and gradients.
pub struct BlockedMaxPoolGrad {
    /// The window.
    pub pool: Pool,
}

static BLOCKED_MAX_POOL_GRADIENT: Kernel<plan::geometry::Pool> = kernel!(F32_ONLY T,
    pool::max_pool_grad_nchwc, |f, a, p| f(a.input(0), a.input(1), a.output(0), p));

impl BlockedMaxPoolGrad {
    fn slides(&self, shape: &[Dim]) -> Option<Vec<Slide>> {
        let (_, image) = blocked::batch_and_image(shape)?;
        let rounding = if self.pool.ceil_mode { Rounding::Up } else { Rounding::Down };
        Some(self.pool.window.slides(image, &self.pool.window.sizes(), rounding))
    }
}

impl Op for BlockedMaxPoolGrad {
    fn name(&self) -> &'static str {
        "BlockedMaxPoolGrad"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        self.pool.attributes(a);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, &[DType::F32])?.clone();
        cx.same_dtype(0, 1)?;
        let Some(slides) = self.slides(&ty.shape) else {
            return Err(cx.diagnostic(Code::ShapeMismatch, "the input must be in NCHWc layout"));
        };
        let dy = cx.ranked(1, ty.rank())?.shape[2..].to_vec();
        for (slide, out) in slides.iter().zip(&dy) {
            cx.require_equal(&slide.windows, out, "the number of windows and of their gradients")?;
        }
        Ok(vec![ty.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let slides = self.slides(&cx.ty(0)?.shape).expect("`infer` checked the layout");
        let geometry = geometry(cx, &slides)?;
        cx.call(&BLOCKED_MAX_POOL_GRADIENT, geometry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dtype::DType::F32,
        ops::{
            testing::{check, tensor},
            window::{AutoPad, Window},
        },
    };

    #[test]
    fn the_gradient_has_the_shape_of_the_images() {
        let window = Window {
            auto_pad: AutoPad::NotSet,
            kernel_shape: vec![2],
            strides: vec![2],
            pads: vec![0, 0],
            dilations: vec![1],
        };
        let op = MaxPoolGrad { pool: Pool { window, ceil_mode: false } };
        check(op, &[tensor(F32, [5, 4, 8]), tensor(F32, [5, 4, 4])], 1, "float[5, 4, 8]");
    }
}
