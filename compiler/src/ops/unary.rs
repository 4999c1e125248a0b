//! Element-wise functions of one operand: a table, and one [`Op`] for its rows.

use super::{
    Entry,
    cast::{Cast, CastMode},
    entry,
};
use crate::{
    diag::Result,
    dim::Dim,
    dtype::{BOOL_ONLY, DType, FLOAT8S, FLOATS, INTEGERS, NUMERIC},
    ir::{Attributes, Expr, Grad, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{Kernel, NoParams, kernel},
    ty::{TensorType, Type},
};
use std::{f64::consts::FRAC_2_SQRT_PI, rc::Rc};

pub const OPS: &[Entry] = &[
    entry("Abs", 1, |_| Ok(Rc::new(&ABS))),
    entry("Acos", 7, |_| Ok(Rc::new(&ACOS))),
    entry("Acosh", 9, |_| Ok(Rc::new(&ACOSH))),
    entry("Asin", 7, |_| Ok(Rc::new(&ASIN))),
    entry("Asinh", 9, |_| Ok(Rc::new(&ASINH))),
    entry("Atan", 7, |_| Ok(Rc::new(&ATAN))),
    entry("Atanh", 9, |_| Ok(Rc::new(&ATANH))),
    entry("BitwiseNot", 18, |_| Ok(Rc::new(&BITWISE_NOT))),
    entry("Ceil", 1, |_| Ok(Rc::new(&CEIL))),
    entry("Cos", 7, |_| Ok(Rc::new(&COS))),
    entry("Cosh", 9, |_| Ok(Rc::new(&COSH))),
    entry("Erf", 9, read_erf),
    entry("Exp", 1, |_| Ok(Rc::new(&EXP))),
    entry("Floor", 1, |_| Ok(Rc::new(&FLOOR))),
    entry("IsInf", 10, |node| {
        widen(node)?;
        Ok(Rc::new(IsInf {
            negative: node.flag("detect_negative", true)?,
            positive: node.flag("detect_positive", true)?,
        }))
    }),
    entry("IsNaN", 9, |node| {
        widen(node)?;
        Ok(Rc::new(IsNaN))
    }),
    entry("Log", 1, |_| Ok(Rc::new(&LOG))),
    entry("Neg", 1, |_| Ok(Rc::new(&NEG))),
    entry("Not", 1, |_| Ok(Rc::new(&NOT))),
    entry("Reciprocal", 1, |_| Ok(Rc::new(&RECIPROCAL))),
    entry("Round", 11, |_| Ok(Rc::new(&ROUND))),
    entry("Sign", 9, |_| Ok(Rc::new(&SIGN))),
    entry("Sin", 7, |_| Ok(Rc::new(&SIN))),
    entry("Sinh", 9, |_| Ok(Rc::new(&SINH))),
    entry("Sqrt", 1, |_| Ok(Rc::new(&SQRT))),
    entry("Tan", 7, |_| Ok(Rc::new(&TAN))),
    entry("Tanh", 1, |_| Ok(Rc::new(&TANH))),
];

/// Returns the element type of input 0, if it is known.
fn dtype(node: &Reader<'_>) -> Option<DType> {
    match node.ty(0)? {
        Type::Tensor(TensorType { dtype, .. }) | Type::Unranked(dtype) => Some(*dtype),
        _ => None,
    }
}

/// Reads `Erf`. Before version 13 it took integers, which are computed in `float`, and truncated.
fn read_erf(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    let Some(whole) = dtype(node).filter(|dtype| INTEGERS.contains(dtype)) else {
        return Ok(Rc::new(&ERF));
    };
    node.wrap_input(0, Cast { to: DType::F32, mode: CastMode::DEFAULT }, &[])?;
    node.wrap_input(0, &ERF, &[])?;
    Ok(Rc::new(Cast { to: whole, mode: CastMode::DEFAULT }))
}

/// Casts float8 inputs to `float`, which represents all of their values.
fn widen(node: &mut Reader<'_>) -> Result {
    if dtype(node).is_some_and(|dtype| FLOAT8S.contains(&dtype)) {
        node.wrap_input(0, Cast { to: DType::F32, mode: CastMode::DEFAULT }, &[])?;
    }
    Ok(())
}

/// A row of the table: an operator whose output has the type of its input.
pub struct Unary {
    name: &'static str,
    types: &'static [DType],
    /// The function of a size, if the result is a size.
    sizes: fn(&Dim) -> Option<Dim>,
    kernel: Kernel,
    /// The gradient, unless it is zero.
    gradient: Option<Grad>,
}

macro_rules! row {
    ($name:literal $set:ident, $kernel:ident $(::<$G:ident>)?, $in_place:ident
        $(, $gradient:expr)?) => {
        Unary {
            name: $name,
            types: $set,
            sizes: |_| None,
            kernel: kernel!($set T, unary::$kernel $(::<$G>)?,
                |f, a, _p| f(a.input(0), a.output(0)),
                in_place $in_place $(::<$G>)? |f, a, _p| f(a.output(0))),
            gradient: [$(Some($gradient as Grad),)? None][0],
        }
    };
}

static ABS: Unary = row!("Abs" NUMERIC, abs::<T>, abs_in_place,
    |x, _, dy| dy * x.sign());
static ACOS: Unary = row!("Acos" FLOATS, acos::<T>, acos_in_place,
    |x, _, dy| -dy / ((-x + 1.0) * (x + 1.0)).sqrt());
static ACOSH: Unary = row!("Acosh" FLOATS, acosh::<T>, acosh_in_place,
    |x, _, dy| dy / ((x - 1.0).sqrt() * (x + 1.0).sqrt()));
static ASIN: Unary = row!("Asin" FLOATS, asin::<T>, asin_in_place,
    |x, _, dy| dy / ((-x + 1.0) * (x + 1.0)).sqrt());
static ASINH: Unary = row!("Asinh" FLOATS, asinh::<T>, asinh_in_place,
    |x, _, dy| dy / (x * x + 1.0).sqrt());
static ATAN: Unary = row!("Atan" FLOATS, atan::<T>, atan_in_place,
    |x, _, dy| dy / (x * x + 1.0));
static ATANH: Unary = row!("Atanh" FLOATS, atanh::<T>, atanh_in_place,
    |x, _, dy| dy / ((-x + 1.0) * (x + 1.0)));
static BITWISE_NOT: Unary = row!("BitwiseNot" INTEGERS, bitwise_not::<T>, bitwise_not_in_place);
static CEIL: Unary = row!("Ceil" FLOATS, ceil::<T>, ceil_in_place);
static COS: Unary = row!("Cos" FLOATS, cos::<T>, cos_in_place,
    |x, _, dy| -dy * x.sin());
static COSH: Unary = row!("Cosh" FLOATS, cosh::<T>, cosh_in_place,
    |x, _, dy| dy * x.sinh());
pub static ERF: Unary = row!("Erf" FLOATS, erf::<T>, erf_in_place,
    |x, _, dy| dy * (-x * x).exp() * FRAC_2_SQRT_PI);
pub static EXP: Unary = row!("Exp" FLOATS, exp::<T>, exp_in_place,
    |_, y, dy| dy * y);
static FLOOR: Unary = row!("Floor" FLOATS, floor::<T>, floor_in_place);
pub static LOG: Unary = row!("Log" FLOATS, log::<T>, log_in_place,
    |x, _, dy| dy / x);
pub static NEG: Unary = row!("Neg" NUMERIC, neg::<T>, neg_in_place,
    |_, _, dy| -dy);
static NOT: Unary = Unary {
    // The negation of a condition over sizes is a condition.
    sizes: |x| match x.known() {
        Some(n) => Some(i64::from(n == 0).into()),
        None => Some(Dim::from(1) - x),
    },
    ..row!("Not" BOOL_ONLY, not, not_in_place)
};
pub static RECIPROCAL: Unary = row!("Reciprocal" FLOATS, reciprocal::<T>, reciprocal_in_place,
    |_, y, dy| -dy * y * y);
static ROUND: Unary = row!("Round" FLOATS, round::<T>, round_in_place);
static SIGN: Unary = row!("Sign" NUMERIC, sign::<T>, sign_in_place);
static SIN: Unary = row!("Sin" FLOATS, sin::<T>, sin_in_place,
    |x, _, dy| dy * x.cos());
static SINH: Unary = row!("Sinh" FLOATS, sinh::<T>, sinh_in_place,
    |x, _, dy| dy * x.cosh());
pub static SQRT: Unary = row!("Sqrt" FLOATS, sqrt::<T>, sqrt_in_place,
    |_, y, dy| dy / (y * 2.0));
static TAN: Unary = row!("Tan" FLOATS, tan::<T>, tan_in_place,
    |_, y, dy| dy * (y * y + 1.0));
pub static TANH: Unary = row!("Tanh" FLOATS, tanh::<T>, tanh_in_place,
    |_, y, dy| dy * (-y * y + 1.0));

impl Op for &'static Unary {
    fn name(&self) -> &'static str {
        self.name
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, self.types)?.clone();
        if let Some(known) = cx.known(0) {
            cx.set_computed(0, ty.dtype, known.iter().map(self.sizes).collect());
        }
        Ok(vec![ty.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call(&self.kernel, NoParams)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        if let (Some(gradient), Some(dy)) = (self.gradient, g.dy(0)) {
            g.set(0, gradient(g.x(0), g.y(0), dy));
        }
        Ok(())
    }
}

impl<'t> std::ops::Neg for Expr<'t> {
    type Output = Expr<'t>;

    fn neg(self) -> Expr<'t> {
        self.apply(&NEG, &[])
    }
}

/// Methods of [`Expr`] for rows of the table.
macro_rules! methods {
    ($($method:ident $ROW:ident $value:literal;)*) => {
        impl<'t> Expr<'t> {$(
            #[doc = concat!("The ", $value, " of each element.")]
            pub fn $method(self) -> Expr<'t> {
                self.apply(&$ROW, &[])
            }
        )*}
    };
}

methods! {
    abs ABS "absolute value";
    cos COS "cosine";
    cosh COSH "hyperbolic cosine";
    exp EXP "exponential function";
    floor FLOOR "greatest whole number below";
    log LOG "natural logarithm";
    round ROUND "nearest whole number";
    sign SIGN "sign";
    sin SIN "sine";
    sinh SINH "hyperbolic sine";
    sqrt SQRT "square root";
    tanh TANH "hyperbolic tangent";
    erf ERF "error function";
}

impl<'t> Expr<'t> {
    /// Rounds each element toward zero.
    pub fn trunc(self) -> Expr<'t> {
        self.sign() * self.abs().floor()
    }

    /// Negates each boolean.
    pub fn logical_not(self) -> Expr<'t> {
        self.apply(&NOT, &[])
    }
}

/// Whether each element is infinite, with one of the selected signs.
pub struct IsInf {
    /// Whether to detect -∞.
    pub negative: bool,
    /// Whether to detect +∞.
    pub positive: bool,
}

static IS_INF: Kernel =
    kernel!(FLOATS T, unary::is_inf::<T>, |f, a, _p| f(a.input(0), a.output(0)));
static IS_POSITIVE_INF: Kernel =
    kernel!(FLOATS T, unary::is_positive_inf::<T>, |f, a, _p| f(a.input(0), a.output(0)));
static IS_NEGATIVE_INF: Kernel =
    kernel!(FLOATS T, unary::is_negative_inf::<T>, |f, a, _p| f(a.input(0), a.output(0)));
static IS_NEITHER_INF: Kernel =
    kernel!(FLOATS T, unary::is_neither_inf::<T>, |f, a, _p| f(a.input(0), a.output(0)));

impl Op for IsInf {
    fn name(&self) -> &'static str {
        "IsInf"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.flag("detect_negative", self.negative);
        a.flag("detect_positive", self.positive);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let shape = cx.of(0, FLOATS)?.shape.clone();
        Ok(vec![Type::tensor(DType::Bool, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let kernel = match (self.negative, self.positive) {
            (true, true) => &IS_INF,
            (false, true) => &IS_POSITIVE_INF,
            (true, false) => &IS_NEGATIVE_INF,
            (false, false) => &IS_NEITHER_INF,
        };
        cx.call_for_input(kernel, NoParams)
    }
}

/// Whether each element is NaN.
pub struct IsNaN;

static IS_NAN: Kernel =
    kernel!(FLOATS T, unary::is_nan::<T>, |f, a, _p| f(a.input(0), a.output(0)));

impl Op for IsNaN {
    fn name(&self) -> &'static str {
        "IsNaN"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let shape = cx.of(0, FLOATS)?.shape.clone();
        Ok(vec![Type::tensor(DType::Bool, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call_for_input(&IS_NAN, NoParams)
    }
}
