//! 8-bit pooling in the NHWC layout.

use crate::{
    diag::{Code, Result},
    dtype::DType,
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op},
    ops::{
        Entry, internal,
        pool::{MaxPool, Pool, geometry_of, slides},
        quantized::{pool::QuantizedAveragePool, requantize::Requantization},
        window,
    },
    plan::{
        Kernel,
        geometry::{self, Requantize},
        kernel,
    },
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    internal("NhwcAveragePool", |node| {
        let padded = node.flag("count_include_pad", false)?;
        let pool = if node.flag("global", false)? { None } else { Some(Pool::read(node)?) };
        let mean =
            Mean { padded, factor: node.float("factor", 1.0)?, to: Requantization::read(node)? };
        Ok(Rc::new(NhwcPool { pool, mean: Some(mean) }))
    }),
    internal("NhwcMaxPool", |node| {
        Ok(Rc::new(NhwcPool { pool: Some(Pool::read(node)?), mean: None }))
    }),
];

/// Average or max pooling of an NHWC image.
pub struct NhwcPool {
    /// The window; `None` pools the whole image.
    pool: Option<Pool>,
    /// The parameters of average pooling; `None` is max pooling.
    mean: Option<Mean>,
}

/// The parameters of average pooling.
#[derive(Clone, Copy)]
struct Mean {
    /// Whether elements of the padding count: the attribute `count_include_pad`.
    padded: bool,
    /// The scale applied to means before requantization.
    factor: f32,
    /// The requantization of the means.
    to: Requantization,
}

static MAX_POOL: Kernel<geometry::Pool> =
    kernel!(U8_ONLY T, nhwc::max_pool, |f, a, p| f(a.input(0), a.output(0), p));
static AVERAGE_POOL: Kernel<(geometry::Pool, Requantize, f32, bool)> = kernel!(U8_ONLY T,
    nhwc::average_pool, |f, a, p| f(a.input(0), a.output(0), p.0, p.1, p.2, p.3));

impl NhwcPool {
    /// The NHWC form of an operator on NCHW images of `dtype`, if it is a pooling operator.
    pub fn from_op(op: &dyn Op, dtype: DType) -> Option<NhwcPool> {
        if let Some(MaxPool { pool, .. }) = op.downcast() {
            return Some(NhwcPool { pool: Some(pool.clone()), mean: None });
        }
        let QuantizedAveragePool { pool, padded, factor, to } = op.downcast()?;
        let mean = Mean { padded: *padded, factor: *factor, to: super::to_unsigned(*to, dtype) };
        Some(NhwcPool { pool: pool.clone(), mean: Some(mean) })
    }
}

impl Op for NhwcPool {
    fn name(&self) -> &'static str {
        if self.mean.is_some() { "NhwcAveragePool" } else { "NhwcMaxPool" }
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        match &self.pool {
            Some(pool) => pool.attributes(a),
            None => a.flag("global", true),
        }
        if let Some(mean) = &self.mean {
            a.flag("count_include_pad", mean.padded);
            a.float("factor", mean.factor);
            mean.to.attributes(a);
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let mut shape = cx.of(0, &[DType::U8])?.shape.clone();
        let Some((_, image)) = super::image(&shape) else {
            return Err(cx.diagnostic(Code::ShapeMismatch, "the input has no channels"));
        };
        let slides = slides(self.pool.as_ref(), image);
        for slide in &slides {
            slide.require(cx)?;
        }
        shape.splice(1..1 + slides.len(), window::shape(&slides));
        Ok(vec![Type::tensor(DType::U8, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let shape = &cx.ty(0)?.shape;
        let (batch, image) = super::image(shape).expect("`infer` checked the rank");
        let geometry = geometry_of(batch.clone(), &slides(self.pool.as_ref(), image));
        match self.mean {
            None => cx.call(&MAX_POOL, geometry),
            Some(Mean { padded, factor, to }) => {
                cx.call(&AVERAGE_POOL, (geometry, to.formula(), factor, padded))
            }
        }
    }
}
