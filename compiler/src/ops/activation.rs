//! Activation functions: a table of the unary ones, and `Clip`, `PRelu` and `SwiGLU`.

use super::{Entry, entry};
use crate::{
    diag::{Code, Result},
    dim::Dim,
    dtype::{DType, FLOATS, NUMERIC},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{
        Kernel, NoParams,
        activation::{from_parts, parts},
        geometry::Broadcast,
        kernel,
    },
    tensor::Tensor,
};
use onnxc_runtime::kernels::epilogue;
use std::{
    f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI},
    rc::Rc,
};

pub const OPS: &[Entry] = &[
    entry("Celu", 12, |node| read(node, &CELU)),
    entry("Clip", 1, |node| clip(node, [None; 2])),
    entry("Clip", 6, |node| clip(node, [Some(f32::MIN), Some(f32::MAX)])),
    entry("Clip", 11, |_| Ok(Rc::new(Clip))),
    entry("Elu", 1, |node| read(node, &ELU)),
    entry("Gelu", 20, |node| {
        let choices = [("none", &GELU), ("tanh", &GELU_TANH)];
        let row = node.choice("approximate", &choices)?;
        read(node, row)
    }),
    entry("HardSigmoid", 1, |node| read(node, &HARD_SIGMOID)),
    entry("HardSwish", 14, |node| read(node, &HARD_SWISH)),
    entry("LeakyRelu", 1, |node| read(node, &LEAKY_RELU)),
    entry("Mish", 18, |node| read(node, &MISH)),
    entry("PRelu", 1, |node| {
        // Before version 7 the slope had one element, or one for each channel (axis 1).
        let (x, slope) = (node.rank(0)? as i64, node.rank(1)?);
        if slope == 1 && x > 2 {
            let axes: Vec<i64> = (1..x - 1).collect();
            node.wrap_input(1, super::reshape::Unsqueeze, &[Tensor::from_ints(&axes)])?;
        }
        Ok(Rc::new(PRelu))
    }),
    entry("PRelu", 7, |_| Ok(Rc::new(PRelu))),
    entry("Relu", 1, |node| read(node, &RELU)),
    entry("Selu", 1, |node| read(node, &OLD_SELU)),
    entry("Selu", 6, |node| read(node, &SELU)),
    entry("Shrink", 9, |node| read(node, &SHRINK)),
    entry("Sigmoid", 1, |node| read(node, &SIGMOID)),
    entry("Softplus", 1, |node| read(node, &SOFTPLUS)),
    entry("Softsign", 1, |node| read(node, &SOFTSIGN)),
    entry("SwiGLU", 28, |node| Ok(Rc::new(SwiGlu { alpha: node.float("alpha", 1.0)? }))),
    entry("Swish", 24, |node| read(node, &SWISH)),
    entry("ThresholdedRelu", 10, |node| read(node, &THRESHOLDED_RELU)),
];

/// An activation function of one input, with up to two parameters.
pub struct Activation {
    row: &'static Row,
    /// The parameters, in the order of the row; unused ones are 0.
    parameters: [f32; 2],
}

impl Activation {
    /// The logistic function.
    pub fn sigmoid() -> Activation {
        Activation { row: &SIGMOID, parameters: [0.0; 2] }
    }
}

/// A row of the table.
struct Row {
    name: &'static str,
    /// The attribute, with its value, that selects this row among those of the same name.
    variant: Option<(&'static str, &'static str)>,
    types: &'static [DType],
    /// The names and the defaults of the parameters.
    parameters: &'static [(&'static str, f32)],
    kernel: Function,
    gradient: Grad,
}

/// Builds `dx` from the parameters, `x`, `y` and `dy`.
type Grad = for<'t> fn(parameters: [f64; 2], x: Expr<'t>, y: Expr<'t>, dy: Expr<'t>) -> Expr<'t>;

/// The kernel of a row, by its number of parameters.
enum Function {
    Of(Kernel),
    Of1(Kernel<(f32,)>),
    Of2(Kernel<(f32, f32)>),
}

macro_rules! row {
    ($name:literal $set:ident, $kernel:ident, $in_place:ident,
        $Function:ident [$($i:tt),*] [$($parameter:expr),*], $gradient:expr) => {
        Row {
            name: $name,
            variant: None,
            types: $set,
            parameters: &[$($parameter),*],
            kernel: Function::$Function(kernel!($set T, activation::$kernel::<T>,
                |f, a, _p| f(a.input(0), a.output(0) $(, _p.$i)*),
                in_place $in_place::<T> |f, a, _p| f(a.output(0) $(, _p.$i)*))),
            gradient: $gradient,
        }
    };
}

static CELU: Row = row!("Celu" FLOATS, celu, celu_in_place, Of1[0] [("alpha", 1.0)],
    |[alpha, _], x, _, dy| dy * (x.min_with(0.0) / alpha).exp());
static ELU: Row = row!("Elu" FLOATS, elu, elu_in_place, Of1[0] [("alpha", 1.0)],
    |[alpha, _], x, _, dy| x.above(0.0).select(dy, dy * alpha * x.min_with(0.0).exp()));
static GELU: Row = row!("Gelu" FLOATS, gelu, gelu_in_place, Of[] [],
|_, x, _, dy| {
    // dy (Φ(x) + x φ(x)), with the distribution and the density of the standard normal.
    let (cdf, exp) = (((x * FRAC_1_SQRT_2).erf() + 1.0) * 0.5, (-x * x * 0.5).exp());
    dy * (cdf + x * exp * (FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * 0.5))
});
static GELU_TANH: Row = Row {
    variant: Some(("approximate", "tanh")),
    ..row!("Gelu" FLOATS, gelu_tanh, gelu_tanh_in_place, Of[] [], |_, x, _, dy| {
        // y = x (1 + tanh(s)) / 2 with s = √(2/π) (x + 0.044715 x³).
        const SCALE: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
        let tanh = ((x * x * 0.044715 + 1.0) * x * SCALE).tanh();
        let ds = (x * x * (3.0 * 0.044715) + 1.0) * SCALE;
        dy * ((tanh + 1.0) + x * (-tanh * tanh + 1.0) * ds) * 0.5
    })
};
static HARD_SIGMOID: Row = row!("HardSigmoid" FLOATS, hard_sigmoid, hard_sigmoid_in_place,
    Of2[0, 1] [("alpha", 0.2), ("beta", 0.5)],
    |[alpha, _], _, y, dy| (dy * alpha).only_where(y.above(0.0).and(y.below(1.0))));
static HARD_SWISH: Row = row!("HardSwish" FLOATS, hard_swish, hard_swish_in_place, Of[] [],
|_, x, _, dy| {
    let below = (dy * (x / 3.0 + 0.5)).only_where(x.above(-3.0));
    x.below(3.0).select(below, dy)
});
static LEAKY_RELU: Row = row!("LeakyRelu" FLOATS, leaky_relu, leaky_relu_in_place,
    Of1[0] [("alpha", 0.01)],
    |[alpha, _], x, _, dy| x.above(0.0).select(dy, dy * alpha));
static MISH: Row = row!("Mish" FLOATS, mish, mish_in_place, Of[] [],
|_, x, _, dy| {
    let tanh = x.softplus().tanh();
    dy * (tanh + x * x.sigmoid() * (-tanh * tanh + 1.0))
});
static RELU: Row = row!("Relu" NUMERIC, relu, relu_in_place, Of[] [],
    |_, _, y, dy| dy.only_where(y.above(0.0)));
static SELU: Row = row!("Selu" FLOATS, selu, selu_in_place,
Of2[0, 1] [("alpha", 1.673_263_2), ("gamma", 1.050_701)],
|[alpha, gamma], x, _, dy| {
    x.above(0.0).select(dy * gamma, dy * (alpha * gamma) * x.min_with(0.0).exp())
});
/// Before version 6 the defaults had fewer digits.
static OLD_SELU: Row = row!("Selu" FLOATS, selu, selu_in_place,
    Of2[0, 1] [("alpha", 1.6732), ("gamma", 1.0507)], SELU.gradient);
static SHRINK: Row = row!("Shrink" NUMERIC, shrink, shrink_in_place,
    Of2[0, 1] [("bias", 0.0), ("lambd", 0.5)],
    |[_, lambd], x, _, dy| dy.only_where(x.abs().above(lambd)));
static SIGMOID: Row = row!("Sigmoid" FLOATS, sigmoid, sigmoid_in_place, Of[] [],
    |_, _, y, dy| dy * y * (-y + 1.0));
static SOFTPLUS: Row = row!("Softplus" FLOATS, softplus, softplus_in_place, Of[] [],
    |_, x, _, dy| dy * x.sigmoid());
static SOFTSIGN: Row = row!("Softsign" FLOATS, softsign, softsign_in_place, Of[] [],
|_, x, _, dy| {
    let denominator = x.abs() + 1.0;
    dy / (denominator * denominator)
});
static SWISH: Row = row!("Swish" FLOATS, swish, swish_in_place, Of1[0] [("alpha", 1.0)],
    |[alpha, _], x, _, dy| dy * x.swish_grad(alpha));
static THRESHOLDED_RELU: Row = row!("ThresholdedRelu" FLOATS,
    thresholded_relu, thresholded_relu_in_place, Of1[0] [("alpha", 1.0)],
    |[alpha, _], x, _, dy| dy.only_where(x.above(alpha)));

fn read(node: &mut Reader<'_>, row: &'static Row) -> Result<Rc<dyn Op>> {
    let mut parameters = [0.0; 2];
    for (parameter, (name, default)) in parameters.iter_mut().zip(row.parameters) {
        *parameter = node.float(name, *default)?;
    }
    Ok(Rc::new(Activation { row, parameters }))
}

impl Activation {
    /// The function as a kernel's epilogue applies it; `None` if no epilogue has the function.
    pub fn function(&self) -> Option<epilogue::Activation> {
        let name = if std::ptr::eq(self.row, &GELU_TANH) { "GeluTanh" } else { self.row.name };
        from_parts(name, &self.parameters[..self.row.parameters.len()])
    }

    /// Returns the operator that applies the epilogue function `f`, if that is `Gelu`,
    /// `HardSigmoid`, `HardSwish`, `Mish` or `Swish`.
    pub fn of(f: epilogue::Activation) -> Option<Activation> {
        let rows = [&GELU, &GELU_TANH, &HARD_SIGMOID, &HARD_SWISH, &LEAKY_RELU, &MISH, &SWISH];
        let mut activations = rows.into_iter().map(|row| {
            let mut parameters = [0.0; 2];
            let named = parts(f).1;
            parameters.iter_mut().zip(named).for_each(|(to, (_, value))| *to = value);
            Activation { row, parameters }
        });
        activations.find(|activation| activation.function() == Some(f))
    }
}

impl Op for Activation {
    fn name(&self) -> &'static str {
        self.row.name
    }

    fn attributes(&self, a: &mut Attributes) {
        if let Some((name, value)) = self.row.variant {
            a.string(name, value);
        }
        for ((name, _), &value) in self.row.parameters.iter().zip(&self.parameters) {
            a.float(name, value);
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        Ok(vec![cx.of(0, self.row.types)?.clone().into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let [first, second] = self.parameters;
        match &self.row.kernel {
            Function::Of(kernel) => cx.call(kernel, NoParams),
            Function::Of1(kernel) => cx.call(kernel, (first,)),
            Function::Of2(kernel) => cx.call(kernel, (first, second)),
        }
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        if let Some(dy) = g.dy(0) {
            let dx = (self.row.gradient)(self.parameters.map(f64::from), g.x(0), g.y(0), dy);
            g.set(0, dx);
        }
        Ok(())
    }
}

impl<'t> Expr<'t> {
    /// The logistic function of each element.
    pub fn sigmoid(self) -> Expr<'t> {
        self.apply(Activation::sigmoid(), &[])
    }

    /// The softplus of each element.
    pub fn softplus(self) -> Expr<'t> {
        self.apply(Activation { row: &SOFTPLUS, parameters: [0.0; 2] }, &[])
    }

    /// Applies an epilogue function to each element.
    pub fn activate(self, f: epilogue::Activation) -> Expr<'t> {
        use epilogue::Activation as Of;
        let rows = [&ELU, &HARD_SIGMOID, &LEAKY_RELU, &RELU, &SIGMOID, &SOFTPLUS, &SOFTSIGN];
        let (name, named) = parts(f);
        match f {
            Of::Affine { alpha, beta } => self * f64::from(alpha) + f64::from(beta),
            Of::ScaledTanh { alpha, beta } => (self * f64::from(beta)).tanh() * f64::from(alpha),
            Of::Tanh => self.tanh(),
            _ => {
                let row = rows.into_iter().find(|row| row.name == name);
                let row = row.unwrap_or(&THRESHOLDED_RELU);
                let mut parameters = [0.0; 2];
                parameters.iter_mut().zip(named).for_each(|(to, (_, value))| *to = value);
                self.apply(Activation { row, parameters }, &[])
            }
        }
    }

    /// Clamps each element to `low..=high`.
    pub fn clamp(self, low: f64, high: f64) -> Expr<'t> {
        self.apply(Clip, &[self.number(low), self.number(high)])
    }

    /// The derivative of `x · sigmoid(alpha · x)`.
    fn swish_grad(self, alpha: f64) -> Expr<'t> {
        let gate = (self * alpha).sigmoid();
        gate * (self * alpha * (-gate + 1.0) + 1.0)
    }
}

/// `min(max(x, low), high)`, with the bounds as optional inputs 1 and 2.
pub struct Clip;

static CLIP: Kernel = kernel!(NUMERIC T, activation::clip::<T>,
    |f, a, _p| f(a.input(0), a.optional(1), a.optional(2), a.output(0)),
    in_place clip_in_place::<T> |f, a, _p| f(a.output(0), a.optional(0), a.optional(1)));

/// Reads `Clip` before version 11, where the bounds were attributes.
fn clip(node: &mut Reader<'_>, defaults: [Option<f32>; 2]) -> Result<Rc<dyn Op>> {
    for (i, (name, default)) in ["min", "max"].into_iter().zip(defaults).enumerate() {
        if let Some(bound) = node.maybe_float(name)?.or(default) {
            let dtype = node.dtype(0)?;
            node.add_input(name, i + 1, Tensor::from_number(dtype, f64::from(bound))?);
        }
    }
    Ok(Rc::new(Clip))
}

impl Op for Clip {
    fn name(&self) -> &'static str {
        "Clip"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, NUMERIC)?.clone();
        for i in 1..3 {
            if cx.has(i) {
                cx.same_dtype(0, i)?;
                cx.require_one_element(i)?;
            }
        }
        let bound = |i| if cx.has(i) { Some(Some(cx.known(i)?.first()?)) } else { Some(None) };
        if let (Some(x), Some(min), Some(max)) = (cx.known(0), bound(1), bound(2)) {
            let clip = |x: &Dim| {
                let x = min.map_or_else(|| x.clone(), |min| x.at_least(min));
                max.map_or_else(|| x.clone(), |max| x.at_most(max)).if_sure()
            };
            cx.set_computed(0, ty.dtype, x.iter().map(clip).collect());
        }
        Ok(vec![ty.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let x = cx.input(0)?.into();
        let (min, max) = (cx.optional(1)?.into(), cx.optional(2)?.into());
        let y = cx.output(0)?.into();
        cx.call_on(&CLIP, cx.ty(0)?.dtype, vec![x, min, max], vec![y], NoParams)
    }

    /// Where the input equals a bound, the gradient goes to the input.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, Some(dy)) = (g.x(0), g.dy(0)) else { return Ok(()) };
        let (min, max) = (g.optional(1), g.optional(2));
        let low = min.unwrap_or_else(|| dy.number(f64::NEG_INFINITY));
        let high = max.unwrap_or_else(|| dy.number(f64::INFINITY));
        g.set(0, dy.where_between(x, low, high));
        let below = x.less(low);
        let above = below.select(low, x).greater(high);
        if min.is_some() {
            g.set(1, above.select(dy.number(0.0), dy.only_where(below)));
        }
        if max.is_some() {
            g.set(2, dy.only_where(above));
        }
        Ok(())
    }
}

/// `x` where it is not negative, and `slope · x` elsewhere; the slope, input 1, is broadcast to the
/// shape of `x`.
pub struct PRelu;

static PRELU: Kernel<Broadcast> = kernel!(NUMERIC T, activation::prelu::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p),
    in_place prelu_in_place::<T> |f, a, p| f(a.output(0), a.input(0), p));

impl Op for PRelu {
    fn name(&self) -> &'static str {
        "PRelu"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (x, slope) = (cx.of(0, NUMERIC)?, cx.ty(1)?);
        cx.same_dtype(0, 1)?;
        let shape = cx.broadcast(&[&x.shape, &slope.shape])?;
        if shape.len() != x.rank() {
            let message = "the slope has more axes than the input";
            return Err(cx.diagnostic(Code::ShapeMismatch, message));
        }
        for (size, broadcast) in x.shape.iter().zip(&shape) {
            cx.require_equal(size, broadcast, "an axis of the input and of the broadcast shape")?;
        }
        Ok(vec![x.clone().into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let x = &cx.ty(0)?.shape;
        cx.call(&PRELU, Broadcast::of(x, x, &cx.ty(1)?.shape))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (x, slope, Some(dy)) = (g.x(0), g.x(1), g.dy(0)) else { return Ok(()) };
        g.set(0, x.above(0.0).select(dy, dy * slope));
        g.set(1, (dy * x).only_where(x.below(0.0)));
        Ok(())
    }
}

/// `Swish(gate) · x`, with `gate` and `x` as inputs 0 and 1 of the same shape.
pub struct SwiGlu {
    /// The coefficient of the gate in the sigmoid of `Swish`.
    pub alpha: f32,
}

static SWIGLU: Kernel<(f32,)> = kernel!(FLOATS T, activation::swiglu::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p.0),
    in_place swiglu_in_place::<T> |f, a, p| f(a.output(0), a.input(0), p.0));

impl Op for SwiGlu {
    fn name(&self) -> &'static str {
        "SwiGLU"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.float("alpha", self.alpha);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (gate, x) = (cx.of(0, FLOATS)?, cx.ty(1)?);
        cx.same_dtype(0, 1)?;
        if gate.rank() != x.rank() {
            return Err(cx.diagnostic(Code::ShapeMismatch, "the inputs must have the same shape"));
        }
        for (a, b) in gate.shape.iter().zip(&x.shape) {
            cx.require_equal(a, b, "the sizes of the two inputs")?;
        }
        Ok(vec![gate.clone().into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call(&SWIGLU, (self.alpha,))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (gate, x, Some(dy)) = (g.x(0), g.x(1), g.dy(0)) else { return Ok(()) };
        let alpha = f64::from(self.alpha);
        g.set(0, dy * x * gate.swish_grad(alpha));
        g.set(1, dy * gate * (gate * alpha).sigmoid());
        Ok(())
    }
}
