//! Pooling of regions of images: `RoiAlign` and `MaxRoiPool`.

use super::{Entry, entry, internal};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::{DType, FLOATS},
    ir::{Attributes, Domain, Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    limits::Limit,
    plan::{
        Kernel,
        geometry::{Regions, Sampling},
        kernel,
    },
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    internal("MaxRoiPlaces", |node| Ok(Rc::new(MaxRoiPlaces { pool: MaxRoiPool::read(node)? }))),
    entry("MaxRoiPool", 1, |node| Ok(Rc::new(MaxRoiPool::read(node)?))),
    // The first version measures coordinates from the centers of elements.
    entry("RoiAlign", 10, |node| Ok(Rc::new(RoiAlign::read(node, false)?))),
    entry("RoiAlign", 16, |node| Ok(Rc::new(RoiAlign::read_mode(node)?))),
    internal("RoiAlignPlaces", |node| {
        Ok(Rc::new(RoiAlignPlaces { align: RoiAlign::read_mode(node)? }))
    }),
    internal("RoiAlignWeights", |node| {
        let axis = usize::from(node.int("axis", 0)? != 0);
        Ok(Rc::new(RoiAlignWeights { align: RoiAlign::read_mode(node)?, axis }))
    }),
];

/// Checks a size that an attribute holds.
fn checked_size(name: &str, size: i64) -> Result<usize> {
    let message = || format!("`{name}` is {size}, but must be positive");
    let checked = u32::try_from(size).ok().filter(|&size| size > 0);
    let checked = checked.and_then(|size| usize::try_from(size).ok());
    checked.ok_or_else(|| Diagnostic::new(Code::BadAttribute, message()))
}

/// Pools bilinear samples of regions. Inputs: images, regions, the index of each region's image.
#[derive(Clone)]
pub struct RoiAlign {
    /// Whether the result is the largest weighted corner of the samples, instead of their mean.
    pub largest: bool,
    /// The height and width of the output.
    pub out: [usize; 2],
    /// The factor from the regions' coordinates to the images'.
    pub scale: f32,
    /// The samples of an output element along each axis; 0 to derive them from the region's size.
    pub ratio: usize,
    /// Whether coordinates are measured from the edges of elements, instead of their centers.
    pub half_pixel: bool,
}

static AVERAGE: Kernel<(Regions, Sampling)> = kernel!(checked FLOATS T, roi::roi_align_average::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.output(0), p.0, p.1));
static LARGEST: Kernel<(Regions, Sampling)> = kernel!(checked FLOATS T, roi::roi_align_max::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.output(0), p.0, p.1));

impl RoiAlign {
    fn read(node: &mut Reader<'_>, half_pixel: bool) -> Result<RoiAlign> {
        let height = checked_size("output_height", node.int("output_height", 1)?)?;
        let width = checked_size("output_width", node.int("output_width", 1)?)?;
        let ratio = match node.int("sampling_ratio", 0)? {
            ratio if ratio <= 0 => 0,
            ratio => checked_size("sampling_ratio", ratio)?,
        };
        Ok(RoiAlign {
            largest: node.choice("mode", &[("avg", false), ("max", true)])?,
            out: [height, width],
            scale: node.float("spatial_scale", 1.0)?,
            ratio,
            half_pixel,
        })
    }

    /// Reads the attributes of a version that has `coordinate_transformation_mode`.
    fn read_mode(node: &mut Reader<'_>) -> Result<RoiAlign> {
        let modes = [("half_pixel", true), ("output_half_pixel", false)];
        let half_pixel = node.choice("coordinate_transformation_mode", &modes)?;
        RoiAlign::read(node, half_pixel)
    }
}

/// Infers the output of `RoiAlign` or `MaxRoiPool`. A region has `numbers` elements.
fn infer_pooled(cx: &mut Infer<'_>, numbers: i64, out: [usize; 2]) -> Inferred {
    let dtype = cx.of(0, FLOATS)?.dtype;
    let (x, rois) = (cx.ranked(0, 4)?, cx.ranked(1, 2)?);
    cx.same_dtype(0, 1)?;
    cx.require_equal(
        &rois.shape[1],
        &numbers.into(),
        "the size of a region's row and the expected size",
    )?;
    let [height, width] = out.map(Dim::from);
    Ok(vec![Type::tensor(dtype, [&rois.shape[0], &x.shape[1], &height, &width])])
}

fn regions(cx: &Lower<'_>, out: [usize; 2], scale: f32) -> Result<Regions> {
    let [batch, channels, height, width] = cx.ty(0)?.shape.as_slice() else {
        unreachable!("`infer` checked the rank")
    };
    let image = [height.clone(), width.clone()];
    Ok(Regions { batch: batch.clone(), channels: channels.clone(), image, out, scale })
}

impl Op for RoiAlign {
    fn name(&self) -> &'static str {
        "RoiAlign"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.string("mode", if self.largest { "max" } else { "avg" });
        let [height, width] = self.out.map(|size| i64::try_from(size).unwrap_or(i64::MAX));
        a.int("output_height", height);
        a.int("output_width", width);
        a.float("spatial_scale", self.scale);
        a.int("sampling_ratio", i64::try_from(self.ratio).unwrap_or(i64::MAX));
        let mode = if self.half_pixel { "half_pixel" } else { "output_half_pixel" };
        a.string("coordinate_transformation_mode", mode);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.of(2, &[DType::I64])?;
        let (rois, images) = (&cx.ranked(1, 2)?.shape[0], &cx.ranked(2, 1)?.shape[0]);
        cx.require_equal(rois, images, "the number of regions and of image indices")?;
        cx.ranked(0, 4)?;
        cx.require_inside_axis(cx.ints(2).unwrap_or_default(), 0, 0)?;
        infer_pooled(cx, 4, self.out)
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let kernel = if self.largest { &LARGEST } else { &AVERAGE };
        let sampling = Sampling { ratio: self.ratio, half_pixel: self.half_pixel };
        let samples = Dim::from(self.ratio.max(1)) * Dim::from(self.ratio.max(1));
        let samples = cx.output_ty(0)?.len() * samples;
        cx.macs(&samples);
        cx.call(kernel, (regions(cx, self.out, self.scale)?, sampling))
    }

    /// Differentiates a formula of the output: matrix products with the mean weights of an output
    /// element's samples along each axis, or a gather of the largest corners.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, rois) = (g.x(0), g.x(1));
        if self.largest {
            let op = Rc::new(RoiAlignPlaces { align: self.clone() });
            let corners = g.tape().node(op, &[Some(x), Some(rois), g.optional(2)], 2);
            return g.through(&[gather_or_zero(x, corners[0]) * corners[1]]);
        }
        let weights = |axis| match self.ratio {
            0 => {
                let op = Rc::new(RoiAlignWeights { align: self.clone(), axis });
                Ok(g.tape().node(op, &[Some(x), Some(rois)], 1)[0])
            }
            ratio => {
                let samples = self.out[axis].saturating_mul(ratio);
                g.spend(Limit::ListElements, samples, "samples along an axis")?;
                Ok(self.weights(x, rois, axis))
            }
        };
        let [rows, columns] = [weights(0)?, weights(1)?];
        let images = x.gather(g.x(2), 0);
        let y = rows.with_axis(1).matmul(images).matmul(columns.with_axis(1).transpose_matrices());
        g.through(&[y])
    }
}

impl RoiAlign {
    /// Returns the weight of each element of the images along an axis, height or width, for each
    /// output element: `[regions, elements, size]`.
    fn weights<'t>(&self, x: Expr<'t>, rois: Expr<'t>, axis: usize) -> Expr<'t> {
        let shift = if self.half_pixel { 0.5 } else { 0.0 };
        // A region stores x before y.
        let corner = |last: i64| {
            let column = rois.tape.ints(&[2 * last + 1 - axis as i64]);
            rois.gather(column, 1) * f64::from(self.scale) - shift
        };
        let (start, end) = (corner(0), corner(1));
        let span = if self.half_pixel { end - start } else { (end - start).max_with(1.0) };
        let (out, ratio) = (self.out[axis] as i64, self.ratio as i64);
        let samples: Vec<i64> = (0..out * ratio).collect();
        let samples = (rois.tape.ints(&samples).cast_like(rois) + 0.5) / (out * ratio) as f64;
        let places = start + span * samples;
        let size = x.size_of(axis + 2).cast_like(rois);
        let near = places.at_least(places.number(-1.0)).and(places.at_most(size));
        let last = size - 1.0;
        let places = places.max_with(0.0);
        let places = places.greater(last).select(last, places).with_axis(2);
        let distance = (places - x.indices(axis + 2).cast_like(rois)).abs();
        let weight = (-distance + 1.0).max_with(0.0).only_where(near.with_axis(2));
        weight.reshape_to(&[0, out, ratio, -1]).mean(&[2]).squeeze(&[2]).cast_like(x)
    }
}

/// The weight of each element along an axis of the images, input 0, for each output element of each
/// region, input 1, if the region's size determines the number of samples.
pub struct RoiAlignWeights {
    /// The operator.
    pub align: RoiAlign,
    /// 0 for the height and 1 for the width.
    pub axis: usize,
}

static WEIGHTS: Kernel<(Regions, Sampling, usize)> = kernel!(FLOATS T, roi::roi_align_weights::<T>,
    |f, a, p| f(a.input(0), a.output(0), p.0, p.1, p.2));

impl Op for RoiAlignWeights {
    fn name(&self) -> &'static str {
        "RoiAlignWeights"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        self.align.attributes(a);
        a.int("axis", i64::from(self.axis != 0));
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        cx.of(1, FLOATS)?;
        let size = cx.ranked(0, 4)?.shape[2 + self.axis].clone();
        let rois = cx.ranked(1, 2)?;
        let shape = [rois.shape[0].clone(), self.align.out[self.axis].into(), size];
        Ok(vec![Type::tensor(rois.dtype, &shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let align = &self.align;
        let sampling = Sampling { ratio: align.ratio, half_pixel: align.half_pixel };
        let formula = (regions(cx, align.out, align.scale)?, sampling, self.axis);
        let (rois, y) = (cx.input(1)?.into(), cx.output(0)?.into());
        cx.call_on(&WEIGHTS, cx.ty(1)?.dtype, vec![rois], vec![y], formula)
    }

    /// Rejects a gradient by the regions, which determine the number of samples. The images have
    /// none, because only their sizes matter.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        if g.wants(1) {
            return Err(g.unsupported("by the regions of a `RoiAlign` without `sampling_ratio`"));
        }
        Ok(())
    }
}

/// Computes the maximum of each part of a region. A region begins with the index of its image.
#[derive(Clone)]
pub struct MaxRoiPool {
    /// The height and width of the output.
    pub out: [usize; 2],
    /// The factor from the regions' coordinates to the images'.
    pub scale: f32,
}

static MAX_ROI_POOL: Kernel<Regions> = kernel!(checked FLOATS T, roi::max_roi_pool::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p));

impl MaxRoiPool {
    fn read(node: &mut Reader<'_>) -> Result<MaxRoiPool> {
        let shape = node.maybe_ints("pooled_shape")?.unwrap_or_default();
        let &[height, width] = shape.as_slice() else {
            let message = "`pooled_shape` must be a height and a width";
            return Err(Diagnostic::new(Code::BadAttribute, message));
        };
        let out = [checked_size("pooled_shape", height)?, checked_size("pooled_shape", width)?];
        Ok(MaxRoiPool { out, scale: node.float("spatial_scale", 1.0)? })
    }
}

impl Op for MaxRoiPool {
    fn name(&self) -> &'static str {
        "MaxRoiPool"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.ints("pooled_shape", &self.out.map(|size| i64::try_from(size).unwrap_or(i64::MAX)));
        a.float("spatial_scale", self.scale);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        infer_pooled(cx, 5, self.out)
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call(&MAX_ROI_POOL, regions(cx, self.out, self.scale)?)
    }

    /// Differentiates a gather of the maxima, with constant indices.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, rois) = (g.x(0), g.x(1));
        let op = Rc::new(MaxRoiPlaces { pool: self.clone() });
        let places = g.tape().node(op, &[Some(x), Some(rois)], 1)[0];
        g.through(&[gather_or_zero(x, places)])
    }
}

/// Gathers elements of `x` by their index in the flattened tensor. The index after the last gives
/// zero.
fn gather_or_zero<'t>(x: Expr<'t>, places: Expr<'t>) -> Expr<'t> {
    let nothing = x.number(0.0).reshape_to(&[1]);
    x.reshape_to(&[-1]).concat(&[nothing], 0).gather(places, 0)
}

/// The index in the flattened images of each output element of [`MaxRoiPool`]: the first largest
/// element of its part. An empty part has the index after the last.
pub struct MaxRoiPlaces {
    /// The operator.
    pub pool: MaxRoiPool,
}

static MAX_ROI_PLACES: Kernel<Regions> = kernel!(checked FLOATS T, roi::max_roi_places::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p));

impl Op for MaxRoiPlaces {
    fn name(&self) -> &'static str {
        "MaxRoiPlaces"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        self.pool.attributes(a);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let mut types = self.pool.infer(cx)?;
        if let Some(Type::Tensor(places)) = types.first_mut() {
            places.dtype = DType::I64;
        }
        Ok(types)
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let regions = regions(cx, self.pool.out, self.pool.scale)?;
        cx.call_for_input(&MAX_ROI_PLACES, regions)
    }
}

/// For each output element of a [`RoiAlign`] in mode `max`: the index in the flattened images, and
/// the weight, of the first largest corner.
pub struct RoiAlignPlaces {
    /// The operator.
    pub align: RoiAlign,
}

static ALIGN_PLACES: Kernel<(Regions, Sampling)> = kernel!(checked FLOATS T,
    roi::roi_align_places::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.output(0), a.output(1), p.0, p.1));

impl Op for RoiAlignPlaces {
    fn name(&self) -> &'static str {
        "RoiAlignPlaces"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        self.align.attributes(a);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let weights = self.align.infer(cx)?;
        let places = weights.iter().filter_map(Type::as_tensor);
        let places = places.map(|ty| Type::tensor(DType::I64, &ty.shape)).collect::<Vec<_>>();
        Ok([places, weights].concat())
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let align = &self.align;
        let sampling = Sampling { ratio: align.ratio, half_pixel: align.half_pixel };
        let formula = (regions(cx, align.out, align.scale)?, sampling);
        cx.call_for_input(&ALIGN_PLACES, formula)
    }

    /// Treats the indices as constants.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        if g.wants(1) {
            return Err(g.unsupported("by the regions of a `RoiAlign` in mode `max`"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{check, tensor};
    use DType::{F16, F32, I64};

    fn n() -> Dim {
        Dim::symbol("n")
    }

    #[test]
    fn every_region_has_the_same_output_size() {
        let align =
            |largest| RoiAlign { largest, out: [2, 3], scale: 0.5, ratio: 0, half_pixel: true };
        let x = |dtype| tensor(dtype, [2.into(), 5.into(), n(), 8.into()]);
        let inputs = || [x(F32), tensor(F32, [n(), 4.into()]), tensor(I64, [n()])];
        check(align(true), &inputs(), 1, "float[n, 5, 2, 3]");
        check(align(false), &inputs(), 1, "float[n, 5, 2, 3]");
        let places = RoiAlignPlaces { align: align(true) };
        check(places, &inputs(), 2, "int64[n, 5, 2, 3]; float[n, 5, 2, 3]");
        let pool = || MaxRoiPool { out: [2, 3], scale: 1.0 };
        check(pool(), &[x(F16), tensor(F16, [7, 5])], 1, "float16[7, 5, 2, 3]");
        let places = MaxRoiPlaces { pool: pool() };
        check(places, &[x(F16), tensor(F16, [7, 5])], 1, "int64[7, 5, 2, 3]");
        let expected =
            "the size of a region's row and the expected size must be equal, but are 4 and 5";
        check(pool(), &[x(F16), tensor(F16, [7, 4])], 1, expected);
    }
}
