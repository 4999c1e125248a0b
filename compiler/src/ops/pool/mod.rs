//! Pooling: reduces each window of a channel's image to one element.

pub(crate) mod blocked;
pub(crate) mod gradient;

use super::{
    Entry,
    conv::SlidingWindow,
    entry,
    window::{self, Rounding, Slide, Window},
};
use crate::{
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::{DType, FLOATS, MAX_POOL_TYPES},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{Kernel, NoParams, Optimize, geometry, kernel},
    ty::Type,
};
use gradient::MaxPoolGrad;
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("AveragePool", 1, |node| {
        let count_include_pad = node.flag("count_include_pad", false)?;
        Ok(Rc::new(AveragePool { pool: Pool::read(node)?, count_include_pad }))
    }),
    entry("GlobalAveragePool", 1, |_| Ok(Rc::new(GlobalPool::Average))),
    entry("GlobalLpPool", 1, |node| Ok(Rc::new(GlobalPool::Lp(read_real_power(node)?)))),
    entry("GlobalLpPool", 2, |node| Ok(Rc::new(GlobalPool::Lp(node.int("p", 2)?)))),
    entry("GlobalMaxPool", 1, |_| Ok(Rc::new(GlobalPool::Max))),
    entry("LpPool", 1, |node| {
        Ok(Rc::new(LpPool { p: read_real_power(node)?, pool: Pool::read(node)? }))
    }),
    entry("LpPool", 2, |node| {
        Ok(Rc::new(LpPool { p: node.int("p", 2)?, pool: Pool::read(node)? }))
    }),
    entry("MaxPool", 1, |node| {
        let column_major = node.flag("storage_order", false)?;
        Ok(Rc::new(MaxPool { pool: Pool::read(node)?, column_major }))
    }),
    entry("MaxUnpool", 9, |node| Ok(Rc::new(MaxUnpool { window: Window::read(node)? }))),
];

/// Reads the power of a norm, which the first versions wrote as a real number.
fn read_real_power(node: &mut Reader<'_>) -> Result<i64> {
    let p = node.float("p", 2.0)?;
    if p.fract() == 0.0 && (1.0..=1e6).contains(&p) {
        return Ok(p as i64);
    }
    let message = format!("`p` is {p:?}: only whole powers from 1 on are supported");
    Err(Diagnostic::new(Code::Unsupported, message))
}

/// The attributes that all pooling operators share.
#[derive(Clone)]
pub struct Pool {
    /// The window.
    pub window: Window,
    /// Whether the last window may end outside the padded image.
    pub ceil_mode: bool,
}

impl Pool {
    pub(super) fn read(node: &mut Reader<'_>) -> Result<Pool> {
        let ceil_mode = node.flag("ceil_mode", false)?;
        Ok(Pool { window: Window::read(node)?, ceil_mode })
    }

    pub(super) fn attributes(&self, a: &mut Attributes) {
        self.window.attributes(a);
        a.flag("ceil_mode", self.ceil_mode);
    }

    pub(super) fn slides(&self, shape: &[Dim]) -> Vec<Slide> {
        slides(Some(self), &shape[2..])
    }

    /// Backpropagates through a sum over the windows: a transposed depthwise convolution of `dy`
    /// with ones.
    fn sum_gradient<'t>(&self, g: &Gradient<'t>, dy: Expr<'t>) -> Result<Expr<'t>> {
        let x = g.x(0);
        let sliding = SlidingWindow::new(self.slides(&x.dims()), 1);
        let (planes, ones) = (x.planes(), sliding.ones(g, x)?);
        Ok(sliding.input_grad(g, dy.planes(), ones, planes)?.reshape_like(x))
    }

    /// Infers the output's element type, one of `types`, and its shape.
    pub(super) fn infer(&self, cx: &mut Infer<'_>, types: &[DType]) -> Inferred<(DType, Vec<Dim>)> {
        let ty = cx.of(0, types)?;
        let axes = image_axes(cx, 0)?;
        self.window.check(cx, axes)?;
        self.window.kernel(cx, axes)?;
        let slides = self.slides(&ty.shape);
        for slide in &slides {
            slide.require(cx)?;
        }
        let shape = [&ty.shape[..2], &window::shape(&slides)].concat();
        Ok((ty.dtype, shape))
    }
}

/// Returns the slide of the window along each axis of `image`. Without a pool the window is the
/// whole image.
pub(super) fn slides(pool: Option<&Pool>, image: &[Dim]) -> Vec<Slide> {
    let Some(Pool { window, ceil_mode }) = pool else {
        return image.iter().map(Slide::whole).collect();
    };
    let rounding = if *ceil_mode { Rounding::Up } else { Rounding::Down };
    window.slides(image, &window.sizes(), rounding)
}

/// Returns the number of axes of the images of input `i`.
pub(super) fn image_axes(cx: &Infer<'_>, i: usize) -> Inferred<usize> {
    match cx.ty(i)?.rank().checked_sub(2) {
        Some(axes) if axes > 0 => Ok(axes),
        _ => {
            let message = "the input must have at least three axes: batch, channels and image axes";
            Err(cx.diagnostic(Code::ShapeMismatch, message))
        }
    }
}

/// Returns the window's geometry over the images of input 0.
pub(super) fn geometry(cx: &Lower<'_>, slides: &[Slide]) -> Result<geometry::Pool> {
    Ok(geometry_of(cx.ty(0)?.shape[..2].iter().product(), slides))
}

/// Returns the window's geometry over that number of planes.
pub(super) fn geometry_of(planes: Dim, slides: &[Slide]) -> geometry::Pool {
    let each = |of: fn(&Slide) -> &Dim| slides.iter().map(|slide| of(slide).clone()).collect();
    geometry::Pool {
        planes,
        size: each(|slide| &slide.image),
        out: each(|slide| &slide.windows),
        kernel: each(|slide| &slide.kernel),
        strides: slides.iter().map(|slide| slide.stride).collect(),
        dilations: slides.iter().map(|slide| slide.dilation).collect(),
        pads: each(|slide| &slide.before),
        ends: each(|slide| &slide.after),
    }
}

static MAX_POOL: Kernel<geometry::Pool> =
    kernel!(MAX_POOL_TYPES T, pool::max_pool::<T>, |f, a, p| f(a.input(0), a.output(0), p));
static MAX_POOL_INDICES: Kernel<(geometry::Pool, Vec<Dim>)> = kernel!(MAX_POOL_TYPES T,
    pool::max_pool_indices::<T>,
    |f, a, p| f(a.input(0), a.output(0), a.output(1), p.0, p.1));
static AVERAGE_POOL: Kernel<geometry::Pool> =
    kernel!(FLOATS T, pool::average_pool::<T>, |f, a, p| f(a.input(0), a.output(0), p));
static AVERAGE_POOL_PADDED: Kernel<geometry::Pool> =
    kernel!(FLOATS T, pool::average_pool_padded::<T>, |f, a, p| f(a.input(0), a.output(0), p));
static LP_POOL: Kernel<(geometry::Pool, u32)> =
    kernel!(FLOATS T, pool::lp_pool::<T>, |f, a, p| f(a.input(0), a.output(0), p.0, p.1));

/// Kernels for small code. `MaxPool` has one for all types, the means only for `float`.
static SMALL_MAX_POOL: Kernel<geometry::Pool> =
    kernel!(MAX_POOL_TYPES T, pool::small_max_pool::<T>, |f, a, p| f(a.input(0), a.output(0), p));
static SMALL_AVERAGE_POOL: Kernel<geometry::Pool> =
    kernel!(F32_ONLY T, pool::small_average_pool, |f, a, p| f(a.input(0), a.output(0), p));
static SMALL_AVERAGE_POOL_PADDED: Kernel<geometry::Pool> =
    kernel!(F32_ONLY T, pool::small_average_pool_padded, |f, a, p| f(a.input(0), a.output(0), p));
static SMALL_MEANS: Kernel<NoParams> =
    kernel!(F32_ONLY T, pool::small_means, |f, a, _p| f(a.input(0), a.output(0)));

/// Returns whether each window is a whole image.
pub(super) fn is_whole(slides: &[Slide]) -> bool {
    let is = |dim: &Dim, number| dim.known() == Some(number);
    slides.iter().all(|slide| {
        let is_single = is(&slide.windows, 1) && slide.dilation == 1 && is(&slide.before, 0);
        is_single && is(&slide.after, 0) && slide.kernel == slide.image
    })
}

/// Calls the kernel for the means of windows.
fn call_average(cx: &mut Lower<'_>, slides: &[Slide], padded: bool) -> Result {
    let geometry = geometry(cx, slides)?;
    let small = cx.optimize() == Optimize::Size && cx.ty(0)?.dtype == DType::F32;
    match (small, padded) {
        (true, _) if is_whole(slides) => cx.call(&SMALL_MEANS, NoParams),
        (true, true) => cx.call(&SMALL_AVERAGE_POOL_PADDED, geometry),
        (true, false) => cx.call(&SMALL_AVERAGE_POOL, geometry),
        (false, true) => cx.call(&AVERAGE_POOL_PADDED, geometry),
        (false, false) => cx.call(&AVERAGE_POOL, geometry),
    }
}

/// Selects the kernel for the maxima of windows.
fn max_pool(cx: &Lower<'_>) -> &'static Kernel<geometry::Pool> {
    match cx.optimize() {
        Optimize::Speed => &MAX_POOL,
        Optimize::Size => &SMALL_MAX_POOL,
    }
}

/// The maximum of each window, and its index.
pub struct MaxPool {
    /// The window.
    pub pool: Pool,
    /// Whether indices are in column-major order: the first axis of the image has stride 1.
    pub column_major: bool,
}

impl MaxPool {
    /// Returns the strides of an image that the indices are computed with.
    fn index_strides(&self, image: &[Dim]) -> Vec<Dim> {
        if !self.column_major {
            return geometry::strides(image);
        }
        (0..image.len()).map(|axis| image[..axis].iter().product()).collect()
    }
}

impl Op for MaxPool {
    fn name(&self) -> &'static str {
        "MaxPool"
    }

    fn attributes(&self, a: &mut Attributes) {
        self.pool.attributes(a);
        a.flag("storage_order", self.column_major);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (dtype, shape) = self.pool.infer(cx, MAX_POOL_TYPES)?;
        Ok(vec![Type::tensor(dtype, shape.clone()), Type::tensor(DType::I64, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = geometry(cx, &self.pool.slides(&cx.ty(0)?.shape))?;
        let (dtype, inputs) = (cx.ty(0)?.dtype, vec![cx.input(0)?.into()]);
        let Some(indices) = cx.optional_output(1)? else {
            let outputs = vec![cx.output(0)?.into()];
            return cx.call_on(max_pool(cx), dtype, inputs, outputs, geometry);
        };
        // The kernel writes the values even if only the indices are used.
        let values = match cx.optional_output(0)? {
            Some(values) => values,
            None => cx.scratch(dtype, indices.len.clone()),
        };
        let outputs = vec![values.into(), indices.into()];
        let strides = self.index_strides(&geometry.size);
        cx.call_on(&MAX_POOL_INDICES, dtype, inputs, outputs, (geometry, strides))
    }

    /// The first of the largest elements of a window gets the window's gradient.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, Some(dy)) = (g.x(0), g.dy(0)) else { return Ok(()) };
        g.set(0, x.apply(MaxPoolGrad { pool: self.pool.clone() }, &[dy]));
        Ok(())
    }
}

/// The mean of each window.
pub struct AveragePool {
    /// The window.
    pub pool: Pool,
    /// Whether padding counts as elements.
    pub count_include_pad: bool,
}

impl Op for AveragePool {
    fn name(&self) -> &'static str {
        "AveragePool"
    }

    fn attributes(&self, a: &mut Attributes) {
        self.pool.attributes(a);
        a.flag("count_include_pad", self.count_include_pad);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (dtype, shape) = self.pool.infer(cx, FLOATS)?;
        Ok(vec![Type::tensor(dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        call_average(cx, &self.pool.slides(&cx.ty(0)?.shape), self.count_include_pad)
    }

    /// `dx` sums `dy / divisor` over the windows of an element. The divisor is the sum of the
    /// window's ones over their mean.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, Some(dy)) = (g.x(0), g.dy(0)) else { return Ok(()) };
        let sliding = SlidingWindow::new(self.pool.slides(&x.dims()), 1);
        let ones = x.ones_like();
        let mean = g.tape().node(g.node().op.clone(), &[Some(ones)], 1)[0];
        let sum = sliding.sum_windows(g, ones.planes(), sliding.ones(g, x)?)?.reshape_like(mean);
        let dx = self.pool.sum_gradient(g, dy * mean / sum.replace_zeros(1.0))?;
        g.set(0, dx);
        Ok(())
    }
}

/// The norm of each window, `(Σ |x|^p)^(1/p)`.
pub struct LpPool {
    /// The window.
    pub pool: Pool,
    /// The power.
    pub p: i64,
}

impl Op for LpPool {
    fn name(&self) -> &'static str {
        "LpPool"
    }

    fn attributes(&self, a: &mut Attributes) {
        self.pool.attributes(a);
        a.int("p", self.p);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        check_power(cx, self.p)?;
        let (dtype, shape) = self.pool.infer(cx, FLOATS)?;
        Ok(vec![Type::tensor(dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = geometry(cx, &self.pool.slides(&cx.ty(0)?.shape))?;
        cx.call(&LP_POOL, (geometry, power(self.p)))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, y, Some(dy)) = (g.x(0), g.y(0), g.dy(0)) else { return Ok(()) };
        let power =
            |value, p: i64| if p == 1 { value } else { Expr::pow(value, x.number(p as f64)) };
        let dx = match self.p {
            1 => x.sign() * self.pool.sum_gradient(g, dy)?,
            p => {
                let share = dy / power(y.replace_zeros(1.0), p - 1);
                x.sign() * power(x.abs(), p - 1) * self.pool.sum_gradient(g, share)?
            }
        };
        g.set(0, dx);
        Ok(())
    }
}

fn check_power(cx: &Infer<'_>, p: i64) -> Inferred<()> {
    if p >= 1 && u32::try_from(p).is_ok() {
        return Ok(());
    }
    Err(cx.diagnostic(Code::BadAttribute, format!("`p` is {p}, but must be at least 1")))
}

/// Returns the power in the kernels' type.
fn power(p: i64) -> u32 {
    u32::try_from(p).expect("`infer` checked the power")
}

/// Pooling with the whole image as the window.
#[derive(Clone, Copy)]
pub enum GlobalPool {
    /// The mean.
    Average,
    /// The maximum.
    Max,
    /// The norm with this power.
    Lp(i64),
}

impl Op for GlobalPool {
    fn name(&self) -> &'static str {
        match self {
            GlobalPool::Average => "GlobalAveragePool",
            GlobalPool::Max => "GlobalMaxPool",
            GlobalPool::Lp(_) => "GlobalLpPool",
        }
    }

    fn attributes(&self, a: &mut Attributes) {
        if let GlobalPool::Lp(p) = self {
            a.int("p", *p);
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        if let GlobalPool::Lp(p) = *self {
            check_power(cx, p)?;
        }
        let ty = cx.of(0, FLOATS)?;
        let axes = image_axes(cx, 0)?;
        let shape = ty.shape[..2].iter().cloned().chain(vec![1.into(); axes]);
        Ok(vec![Type::tensor(ty.dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let image = &cx.ty(0)?.shape[2..];
        let slides: Vec<Slide> = image.iter().map(Slide::whole).collect();
        let geometry = geometry(cx, &slides)?;
        match *self {
            GlobalPool::Average => call_average(cx, &slides, false),
            GlobalPool::Max => cx.call(max_pool(cx), geometry),
            GlobalPool::Lp(p) => cx.call(&LP_POOL, (geometry, power(p))),
        }
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, y, Some(dy)) = (g.x(0), g.y(0), g.dy(0)) else { return Ok(()) };
        let dx = match *self {
            GlobalPool::Average => dy * y.share_of(x),
            GlobalPool::Max => {
                let rows = x.reshape_to(&[0, 0, -1]);
                let (zeros, dy) = (rows.zeros_like(), dy.reshape_to(&[0, 0, 1]));
                zeros.scatter_add(rows.arg_max(2), dy, 2).reshape_like(x)
            }
            GlobalPool::Lp(1) => dy * x.sign(),
            GlobalPool::Lp(p) => {
                let share = (x.abs() / y.replace_zeros(1.0)).pow(x.number((p - 1) as f64));
                dy * x.sign() * share
            }
        };
        g.set(0, dx);
        Ok(())
    }
}

/// Zeros, with the elements of input 0 at the indices in input 1.
pub struct MaxUnpool {
    /// The window of the pooling that this inverts.
    pub window: Window,
}

static MAX_UNPOOL: Kernel<(Vec<Dim>, Vec<Dim>)> = kernel!(checked FLOATS T, pool::max_unpool::<T>,
        |f, a, p| f(a.input(0), a.input(1), a.output(0), p.0, p.1));
static MAX_UNPOOL_SIZES: Kernel = kernel!(checked INDICES T, pool::max_unpool_sizes::<T>,
    |f, a, _p| f(a.sizes(), a.input(0)));

impl MaxUnpool {
    /// Returns the shape of the pooling's input, if its windows cover all of it.
    fn unpooled_shape(&self, shape: &[Dim]) -> Vec<Dim> {
        let Window { kernel_shape, strides, pads, .. } = &self.window;
        let axes = shape.len() - 2;
        let number = |list: &[i64], i: usize, default| list.get(i).copied().unwrap_or(default);
        let mut sizes = shape[..2].to_vec();
        for (i, size) in shape[2..].iter().enumerate() {
            let stride = number(strides, i, 1);
            let pads = number(pads, i, 0) + number(pads, axes + i, 0);
            sizes.push(size * stride + number(kernel_shape, i, 1) - stride - pads);
        }
        sizes
    }
}

impl Op for MaxUnpool {
    fn name(&self) -> &'static str {
        "MaxUnpool"
    }

    fn attributes(&self, a: &mut Attributes) {
        self.window.attributes(a);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, FLOATS)?;
        let axes = image_axes(cx, 0)?;
        self.window.check(cx, axes)?;
        self.window.kernel(cx, axes)?;
        let indices = cx.of(1, &[DType::I64])?;
        cx.require_equal(&ty.len(), &indices.len(), "the numbers of elements and of indices")?;
        let sizes = self.unpooled_shape(&ty.shape);
        for size in &sizes[2..] {
            cx.require_at_least(size, &0.into(), "the padding must not be larger than the image")?;
        }
        if let Some(count) = sizes.iter().product::<Dim>().known() {
            let place = || format!("the unpooled image, which has {count} elements");
            cx.require_inside(cx.ints(1).unwrap_or_default(), 0..count, place)?;
        }
        if !cx.has(2) {
            return Ok(vec![Type::tensor(ty.dtype, sizes)]);
        }
        cx.of(2, &[DType::I64])?;
        if cx.count(2)? != ty.rank() {
            let message = format!("`output_shape` must have {} elements", ty.rank());
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        }
        let Some(output_shape) = cx.known(2).map(<[Dim]>::to_vec) else {
            // The kernel checks that they are large enough.
            let sizes = cx.fresh_sizes(vec![None; ty.rank()]);
            return Ok(vec![Type::tensor(ty.dtype, sizes)]);
        };
        for (wanted, size) in output_shape.iter().zip(&sizes) {
            cx.require_at_least(
                wanted,
                size,
                "`output_shape` must not be smaller than the pooled image",
            )?;
        }
        Ok(vec![Type::tensor(ty.dtype, output_shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        if cx.has(2) {
            let shape = cx.input(2)?.into();
            cx.bind(&MAX_UNPOOL_SIZES, DType::I64, vec![shape], NoParams)?;
        }
        let inputs = vec![cx.input(0)?.into(), cx.input(1)?.into()];
        let (sizes, shape) =
            (self.unpooled_shape(&cx.ty(0)?.shape), cx.output_ty(0)?.shape.clone());
        let y = cx.output(0)?;
        cx.call_on(&MAX_UNPOOL, cx.ty(0)?.dtype, inputs, vec![y.into()], (sizes, shape))
    }

    /// Unpools the elements' numbers to learn where `dy` of each element is.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, Some(dy)) = (g.x(0), g.dy(0)) else { return Ok(()) };
        let inputs = [Some(x.element_numbers().cast(DType::F64)), g.optional(1), g.optional(2)];
        let numbers = g.tape().node(g.node().op.clone(), &inputs, 1)[0].cast(DType::I64);
        g.set(0, dy.scatter_to(numbers, x));
        Ok(())
    }
}

impl<'t> Expr<'t> {
    /// Reshapes images with channels to a batch of images with one channel.
    fn planes(self) -> Expr<'t> {
        let shape = [self.tape.ints(&[-1, 1]), self.sizes(2, i64::MAX)];
        self.reshape_by(self.tape.concat(&shape))
    }
}
