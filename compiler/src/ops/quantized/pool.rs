//! Average pooling of quantized images.

use super::requantize::Requantization;
use crate::{
    diag::Result,
    dtype::{DType, INT8S},
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op},
    ops::{
        Entry, internal,
        pool::{self, Pool},
        window::Slide,
    },
    plan::{
        Kernel, Optimize,
        geometry::{self, Requantize},
        kernel,
    },
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[internal("QuantizedAveragePool", |node| {
    let padded = node.flag("count_include_pad", false)?;
    let pool = if node.flag("global", false)? { None } else { Some(Pool::read(node)?) };
    let factor = node.float("factor", 1.0)?;
    Ok(Rc::new(QuantizedAveragePool { pool, padded, factor, to: Requantization::read(node)? }))
})];

/// The means of the windows of a quantized tensor.
pub struct QuantizedAveragePool {
    /// The window; `None` is the whole image.
    pub pool: Option<Pool>,
    /// Whether padding counts as elements.
    pub padded: bool,
    /// The factor of the means.
    pub factor: f32,
    /// The requantization of the means.
    pub to: Requantization,
}

macro_rules! average_pool {
    ($Y:ty) => {
        kernel!(INT8S T, quantized::average_pool::<T, $Y>,
            |f, a, p| f(a.input(0), a.output(0), p.0, p.1, p.2, p.3))
    };
}

/// The parameters of a kernel: windows, requantization, factor, and whether padding counts.
type Means = (geometry::Pool, Requantize, f32, bool);

/// Kernels by output type.
static AVERAGE_POOL: &[(DType, Kernel<Means>)] =
    &[(DType::I8, average_pool!(i8)), (DType::U8, average_pool!(u8))];

macro_rules! small_means {
    ($Y:ty) => {
        kernel!(INT8S T, quantized::small_means::<T, $Y>,
            |f, a, p| f(a.input(0), a.output(0), p.0, p.1))
    };
}

/// Kernels for small code whose windows are whole images, by output type.
static SMALL_MEANS: &[(DType, Kernel<(Requantize, f32)>)] =
    &[(DType::I8, small_means!(i8)), (DType::U8, small_means!(u8))];

impl Op for QuantizedAveragePool {
    fn name(&self) -> &'static str {
        "QuantizedAveragePool"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        match &self.pool {
            Some(pool) => pool.attributes(a),
            None => a.flag("global", true),
        }
        a.flag("count_include_pad", self.padded);
        a.float("factor", self.factor);
        self.to.attributes(a);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let shape = match &self.pool {
            Some(pool) => pool.infer(cx, INT8S)?.1,
            None => {
                let ty = cx.of(0, INT8S)?;
                let axes = pool::image_axes(cx, 0)?;
                ty.shape[..2].iter().cloned().chain(vec![1.into(); axes]).collect()
            }
        };
        Ok(vec![Type::tensor(self.to.dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let shape = &cx.ty(0)?.shape;
        let slides = match &self.pool {
            Some(pool) => pool.slides(shape),
            None => shape[2..].iter().map(Slide::whole).collect(),
        };
        if cx.optimize() == Optimize::Size && pool::is_whole(&slides) {
            let kernel = SMALL_MEANS.iter().find(|(dtype, _)| *dtype == self.to.dtype);
            let (_, kernel) = kernel.expect("a requantization is to `int8` or `uint8`");
            return cx.call_for_input(kernel, (self.to.formula(), self.factor));
        }
        let geometry = pool::geometry(cx, &slides)?;
        let kernel = AVERAGE_POOL.iter().find(|(dtype, _)| *dtype == self.to.dtype);
        let (_, kernel) = kernel.expect("a requantization is to `int8` or `uint8`");
        cx.call_for_input(kernel, (geometry, self.to.formula(), self.factor, self.padded))
    }
}
