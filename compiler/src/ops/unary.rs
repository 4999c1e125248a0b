//! Operators on every element by itself: a table, and one [`Op`] for its rows.

use super::{
    Entry,
    cast::{Cast, Fit},
    entry, nodes,
};
use crate::{
    diag::Result,
    dtype::{BOOL_ONLY, DType, FLOAT8S, FLOATS, INTEGERS, NUMBERS},
    ir::{Attributes, Infer, Inferred, Lower, Op, Reader, ValueId},
    plan::{Kernel, NoParams, kernel},
    ty::{TensorType, Type},
};
use std::rc::Rc;

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
    nodes("Erf", 9, erf),
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

/// The element type of input 0, where it is known.
fn dtype(node: &Reader<'_>) -> Option<DType> {
    match node.ty(0)? {
        Type::Tensor(TensorType { dtype, .. }) | Type::Unranked(dtype) => Some(*dtype),
        _ => None,
    }
}

/// Reads `Erf`, which whole numbers have, too: theirs, in single precision, is cut to one.
fn erf(node: &mut Reader<'_>) -> Result<Vec<ValueId>> {
    let x = node.input(0)?;
    let Some(whole) = dtype(node).filter(|dtype| INTEGERS.contains(dtype)) else {
        return Ok(vec![node.add(&ERF, &[x], &[])?]);
    };
    let x = node.add(Cast { to: DType::F32, fit: Fit::DEFAULT }, &[x], &[])?;
    let y = node.add(&ERF, &[x], &[])?;
    Ok(vec![node.add(Cast { to: whole, fit: Fit::DEFAULT }, &[y], &[])?])
}

/// Makes single precision of floats of a byte, which has all of their numbers.
fn widen(node: &mut Reader<'_>) -> Result {
    if dtype(node).is_some_and(|dtype| FLOAT8S.contains(&dtype)) {
        node.wrap_input(0, Cast { to: DType::F32, fit: Fit::DEFAULT }, &[])?;
    }
    Ok(())
}

/// A row of the table: an operator whose output has the type of its input.
pub struct Unary {
    name: &'static str,
    types: &'static [DType],
    kernel: Kernel,
}

macro_rules! row {
    ($name:literal $set:ident, $kernel:ident $(::<$G:ident>)?, $in_place:ident) => {
        Unary {
            name: $name,
            types: $set,
            kernel: kernel!($set T, unary::$kernel $(::<$G>)?,
                |f, a, _p| f(a.input(0), a.output(0)),
                in_place $in_place $(::<$G>)? |f, a, _p| f(a.output(0))),
        }
    };
}

static ABS: Unary = row!("Abs" NUMBERS, abs::<T>, abs_in_place);
static ACOS: Unary = row!("Acos" FLOATS, acos::<T>, acos_in_place);
static ACOSH: Unary = row!("Acosh" FLOATS, acosh::<T>, acosh_in_place);
static ASIN: Unary = row!("Asin" FLOATS, asin::<T>, asin_in_place);
static ASINH: Unary = row!("Asinh" FLOATS, asinh::<T>, asinh_in_place);
static ATAN: Unary = row!("Atan" FLOATS, atan::<T>, atan_in_place);
static ATANH: Unary = row!("Atanh" FLOATS, atanh::<T>, atanh_in_place);
static BITWISE_NOT: Unary = row!("BitwiseNot" INTEGERS, bitwise_not::<T>, bitwise_not_in_place);
static CEIL: Unary = row!("Ceil" FLOATS, ceil::<T>, ceil_in_place);
static COS: Unary = row!("Cos" FLOATS, cos::<T>, cos_in_place);
static COSH: Unary = row!("Cosh" FLOATS, cosh::<T>, cosh_in_place);
pub static ERF: Unary = row!("Erf" FLOATS, erf::<T>, erf_in_place);
static EXP: Unary = row!("Exp" FLOATS, exp::<T>, exp_in_place);
static FLOOR: Unary = row!("Floor" FLOATS, floor::<T>, floor_in_place);
static LOG: Unary = row!("Log" FLOATS, log::<T>, log_in_place);
static NEG: Unary = row!("Neg" NUMBERS, neg::<T>, neg_in_place);
static NOT: Unary = row!("Not" BOOL_ONLY, not, not_in_place);
static RECIPROCAL: Unary = row!("Reciprocal" FLOATS, reciprocal::<T>, reciprocal_in_place);
static ROUND: Unary = row!("Round" FLOATS, round::<T>, round_in_place);
static SIGN: Unary = row!("Sign" NUMBERS, sign::<T>, sign_in_place);
static SIN: Unary = row!("Sin" FLOATS, sin::<T>, sin_in_place);
static SINH: Unary = row!("Sinh" FLOATS, sinh::<T>, sinh_in_place);
pub static SQRT: Unary = row!("Sqrt" FLOATS, sqrt::<T>, sqrt_in_place);
static TAN: Unary = row!("Tan" FLOATS, tan::<T>, tan_in_place);
pub static TANH: Unary = row!("Tanh" FLOATS, tanh::<T>, tanh_in_place);

impl Op for &'static Unary {
    fn name(&self) -> &'static str {
        self.name
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.of(0, self.types)?.clone();
        // A condition over sizes stays one.
        if let (true, Some(known)) = (self.name == "Not", cx.known(0)) {
            let flipped = known.iter().map(|dim| crate::dim::Dim::from(1) - dim).collect();
            cx.set_known(0, flipped);
        }
        Ok(vec![ty.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        cx.call(&self.kernel, NoParams)
    }
}

/// Whether each element is infinite, of the signs asked for.
pub struct IsInf {
    /// Whether -∞ counts.
    pub negative: bool,
    /// Whether +∞ counts.
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

/// Whether each element is not a number.
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
