//! Comparisons and logical operators with broadcasting: a table, one [`Op`] for its rows, and
//! `Where`.

use super::{Entry, binary::align_second_operand, entry};
use crate::{
    diag::Result,
    dim::Dim,
    dtype::{ANY, BOOL_ONLY, DType, NUMERIC},
    ir::{Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{
        Kernel,
        geometry::{Broadcast, Broadcast3},
        kernel,
    },
    ty::{TensorType, Type},
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("And", 1, |node| axis_style(node, &AND)),
    entry("And", 7, |_| Ok(Rc::new(&AND))),
    entry("Equal", 1, |node| axis_style(node, &EQUAL)),
    entry("Equal", 7, |_| Ok(Rc::new(&EQUAL))),
    entry("Greater", 1, |node| axis_style(node, &GREATER)),
    entry("Greater", 7, |_| Ok(Rc::new(&GREATER))),
    entry("GreaterOrEqual", 12, |_| Ok(Rc::new(&GREATER_OR_EQUAL))),
    entry("Less", 1, |node| axis_style(node, &LESS)),
    entry("Less", 7, |_| Ok(Rc::new(&LESS))),
    entry("LessOrEqual", 12, |_| Ok(Rc::new(&LESS_OR_EQUAL))),
    entry("Or", 1, |node| axis_style(node, &OR)),
    entry("Or", 7, |_| Ok(Rc::new(&OR))),
    entry("Where", 9, |_| Ok(Rc::new(Where))),
    entry("Xor", 1, |node| axis_style(node, &XOR)),
    entry("Xor", 7, |_| Ok(Rc::new(&XOR))),
];

/// A row of the table.
pub struct Compare {
    name: &'static str,
    types: &'static [DType],
    /// Evaluates the comparison on dimension expressions: 1 for true, 0 for false.
    sizes: fn(&Dim, &Dim) -> Dim,
    kernel: Kernel<Broadcast>,
}

macro_rules! row {
    ($name:literal $set:ident, $kernel:ident $(::<$G:ident>)?, $sizes:expr
        $(, $in_place:ident)?) => {
        Compare {
            name: $name,
            types: $set,
            sizes: $sizes,
            kernel: kernel!($set T, compare::$kernel $(::<$G>)?,
                |f, a, p| f(a.input(0), a.input(1), a.output(0), p)
                $(, in_place $in_place |f, a, p| f(a.output(0), a.input(0), p))?),
        }
    };
}

static AND: Compare = row!("And" BOOL_ONLY, and, |a, b| a * b, and_in_place);
pub static EQUAL: Compare = row!("Equal" ANY, equal::<T>, |a, b| a.equal(b));
pub static GREATER: Compare = row!("Greater" NUMERIC, greater::<T>, |a, b| b.less(a));
static GREATER_OR_EQUAL: Compare =
    row!("GreaterOrEqual" NUMERIC, greater_or_equal::<T>, |a, b| not(&a.less(b)));
static LESS: Compare = row!("Less" NUMERIC, less::<T>, |a, b| a.less(b));
static LESS_OR_EQUAL: Compare =
    row!("LessOrEqual" NUMERIC, less_or_equal::<T>, |a, b| not(&b.less(a)));
static OR: Compare = row!("Or" BOOL_ONLY, or, |a, b| a + b - a * b, or_in_place);
static XOR: Compare = row!("Xor" BOOL_ONLY, xor, |a, b| a + b - a * b * 2, xor_in_place);

/// The negation of a condition that is 0 or 1.
fn not(condition: &Dim) -> Dim {
    Dim::from(1) - condition
}

/// Reads an operator before version 7, which has the attributes `axis` and `broadcast`.
fn axis_style(node: &mut Reader<'_>, row: &'static Compare) -> Result<Rc<dyn Op>> {
    align_second_operand(node)?;
    Ok(Rc::new(row))
}

impl Op for &'static Compare {
    fn name(&self) -> &'static str {
        self.name
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (a, b) = (cx.of(0, self.types)?, cx.ty(1)?);
        cx.same_dtype(0, 1)?;
        let shape = cx.broadcast(&[&a.shape, &b.shape])?;
        if let Some([x, y]) = cx.all_known(0..2).as_deref() {
            let compared = x.iter().zip(y).map(|(x, y)| (self.sizes)(x, y)).collect();
            cx.set_known(0, compared);
        }
        Ok(vec![Type::tensor(DType::Bool, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = Broadcast::of(&cx.output_ty(0)?.shape, &cx.ty(0)?.shape, &cx.ty(1)?.shape);
        cx.call_for_input(&self.kernel, geometry)
    }
}

/// Input 1 where input 0 is true, and input 2 elsewhere.
pub struct Where;

static WHERE: Kernel<Broadcast3> = kernel!(moves T, compare::where_::<T>,
    |f, a, p| f(a.input(0), a.input(1), a.input(2), a.output(0), p));

impl Op for Where {
    fn name(&self) -> &'static str {
        "Where"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (condition, a, b) = (cx.of(0, BOOL_ONLY)?, cx.ty(1)?, cx.ty(2)?);
        cx.same_dtype(1, 2)?;
        let shape = cx.broadcast(&[&condition.shape, &a.shape, &b.shape])?;
        if let Some([condition, x, y]) = cx.all_known(0..3).as_deref() {
            let select = |(condition, (x, y)): (&Dim, (&Dim, &Dim))| match condition.known() {
                Some(0) => Some(y.clone()),
                Some(_) => Some(x.clone()),
                None => condition.checked_mul(x)?.checked_add(&not(condition).checked_mul(y)?),
            };
            let selected = condition.iter().zip(x.iter().zip(y)).map(select).collect();
            cx.set_computed(0, a.dtype, selected);
        }
        Ok(vec![TensorType { dtype: a.dtype, shape }.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (condition, a, b) = (cx.ty(0)?, cx.ty(1)?, cx.ty(2)?);
        let shape = &cx.output_ty(0)?.shape;
        cx.call(&WHERE, Broadcast3::of(shape, &condition.shape, &a.shape, &b.shape))
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        if let (condition, Some(dy)) = (g.x(0), g.dy(0)) {
            g.set(1, condition.select(dy, dy.number(0.0)));
            g.set(2, condition.select(dy.number(0.0), dy));
        }
        Ok(())
    }
}

/// The methods that apply the rows of the table in gradient formulas.
macro_rules! methods {
    ($($method:ident $ROW:ident $what:literal;)*) => {
        impl<'t> Expr<'t> {$(
            #[doc = concat!("Whether each element is ", $what, " that of `other`.")]
            pub fn $method(self, other: Expr<'t>) -> Expr<'t> {
                self.apply(&$ROW, &[other])
            }
        )*}
    };
}

methods! {
    equal EQUAL "equal to";
    greater GREATER "greater than";
    at_least GREATER_OR_EQUAL "greater than or equal to";
    less LESS "less than";
    at_most LESS_OR_EQUAL "less than or equal to";
    and AND "true and so is";
}

impl<'t> Expr<'t> {
    /// `yes` where `self` is true, and `no` elsewhere.
    pub fn select(self, yes: Expr<'t>, no: Expr<'t>) -> Expr<'t> {
        self.apply(Where, &[yes, no])
    }

    /// Returns whether each element is greater than a number.
    pub fn above(self, number: f64) -> Expr<'t> {
        self.greater(self.number(number))
    }

    /// Returns whether each element is less than a number.
    pub fn below(self, number: f64) -> Expr<'t> {
        self.less(self.number(number))
    }

    /// Replaces each zero by `number`.
    pub fn replace_zeros(self, number: f64) -> Expr<'t> {
        self.equal(self.number(0.0)).select(self.number(number), self)
    }

    /// `self` where `condition` is true, and zero elsewhere.
    pub fn only_where(self, condition: Expr<'t>) -> Expr<'t> {
        condition.select(self, self.number(0.0))
    }
}
