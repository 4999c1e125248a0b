//! Element-wise arithmetic on two operands with broadcasting: a table, and one [`Op`] for its rows.

use super::{Entry, entry, reshape::Unsqueeze};
use crate::{
    diag::{Code, Diagnostic, Result, counted},
    dim::Dim,
    dtype::{DType, FLOATS, INTEGERS, NUMERIC, POW_TYPES},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Reader},
    plan::{Kernel, NoParams, geometry::Broadcast, kernel},
    tensor::Tensor,
    ty::TensorType,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("Add", 1, |node| axis_style(node, &ADD)),
    entry("Add", 7, |_| Ok(Rc::new(&ADD))),
    entry("BitShift", 11, |node| {
        let choices: [(&str, &'static Binary); 2] =
            [("LEFT", &SHIFT_LEFT), ("RIGHT", &SHIFT_RIGHT)];
        Ok(Rc::new(node.choice("direction", &choices)?))
    }),
    entry("BitwiseAnd", 18, |_| Ok(Rc::new(&BITWISE_AND))),
    entry("BitwiseOr", 18, |_| Ok(Rc::new(&BITWISE_OR))),
    entry("BitwiseXor", 18, |_| Ok(Rc::new(&BITWISE_XOR))),
    entry("Div", 1, |node| axis_style(node, &DIV)),
    entry("Div", 7, |_| Ok(Rc::new(&DIV))),
    entry("Mod", 10, read_mod),
    entry("Mul", 1, |node| axis_style(node, &MUL)),
    entry("Mul", 7, |_| Ok(Rc::new(&MUL))),
    entry("Pow", 1, |node| {
        align_second_operand(node)?;
        Ok(Rc::new(Pow))
    }),
    entry("Pow", 7, |_| Ok(Rc::new(Pow))),
    entry("Sub", 1, |node| axis_style(node, &SUB)),
    entry("Sub", 7, |_| Ok(Rc::new(&SUB))),
];

/// A row of the table.
pub struct Binary {
    name: &'static str,
    attribute: Option<(&'static str, &'static str)>,
    types: &'static [DType],
    /// Evaluates the operation on dimension expressions; `None` if the result is none.
    sizes: fn(&Dim, &Dim) -> Option<Dim>,
    kernel: Kernel<Broadcast>,
    /// The gradients of both operands, for differentiable operators.
    gradients: Option<Grads>,
}

/// Builds `[da, db]` from `a`, `b`, `y` and `dy`.
type Grads = for<'t> fn(a: Expr<'t>, b: Expr<'t>, y: Expr<'t>, dy: Expr<'t>) -> [Expr<'t>; 2];

macro_rules! row {
    ($name:literal $set:ident, $kernel:ident :: <$($G:ty),+>, $in_place:ident, $sizes:expr) => {
        Binary {
            name: $name,
            attribute: None,
            types: $set,
            sizes: $sizes,
            kernel: kernel!($set T, binary::$kernel::<$($G),+>,
                |f, a, p| f(a.input(0), a.input(1), a.output(0), p),
                in_place $in_place::<$($G),+> |f, a, p| f(a.output(0), a.input(0), p)),
            gradients: None,
        }
    };
}

pub static ADD: Binary = Binary {
    gradients: Some(|_, _, _, dy| [dy, dy]),
    ..row!("Add" NUMERIC, add::<T>, add_in_place, |a, b| a.checked_add(b))
};
pub static SUB: Binary = Binary {
    gradients: Some(|_, _, _, dy| [dy, -dy]),
    ..row!("Sub" NUMERIC, sub::<T>, sub_in_place, |a, b| a.checked_sub(b))
};
pub static MUL: Binary = Binary {
    gradients: Some(|a, b, _, dy| [dy * b, dy * a]),
    ..row!("Mul" NUMERIC, mul::<T>, mul_in_place, |a, b| a.checked_mul(b))
};
pub static DIV: Binary = Binary {
    gradients: Some(|_, b, y, dy| [dy / b, -(dy * y) / b]),
    ..row!("Div" NUMERIC, div::<T>, div_in_place, |a, b| {
        // `Dim` rounds quotients down, `Div` toward zero; they agree if no operand is negative.
        (a.is_size() && b.known().is_some_and(|n| n > 0)).then(|| a.floor_div(b))
    })
};
static MODULO: Binary = Binary {
    gradients: Some(|a, b, _, dy| [dy, -dy * (a / b).floor()]),
    ..row!("Mod" NUMERIC, modulo::<T>, modulo_in_place, |a, b| {
        (a.is_size() && b.known().is_some_and(|n| n > 0)).then(|| a.modulo(b))
    })
};
static FMOD: Binary = Binary {
    attribute: Some(("fmod", "1")),
    gradients: Some(|a, b, _, dy| [dy, -dy * (a / b).trunc()]),
    ..row!("Mod" NUMERIC, fmod::<T>, fmod_in_place, |_, _| None)
};
static SHIFT_LEFT: Binary = Binary {
    attribute: Some(("direction", "LEFT")),
    ..row!("BitShift" INTEGERS, bit_shift_left::<T>, bit_shift_left_in_place, |_, _| None)
};
static SHIFT_RIGHT: Binary = Binary {
    attribute: Some(("direction", "RIGHT")),
    ..row!("BitShift" INTEGERS, bit_shift_right::<T>, bit_shift_right_in_place, |_, _| None)
};
static BITWISE_AND: Binary =
    row!("BitwiseAnd" INTEGERS, bitwise_and::<T>, bitwise_and_in_place, |_, _| None);
static BITWISE_OR: Binary =
    row!("BitwiseOr" INTEGERS, bitwise_or::<T>, bitwise_or_in_place, |_, _| None);
static BITWISE_XOR: Binary =
    row!("BitwiseXor" INTEGERS, bitwise_xor::<T>, bitwise_xor_in_place, |_, _| None);

/// Reads `Mod`. Before version 28, floating-point numbers require `fmod`.
fn read_mod(node: &mut Reader<'_>) -> Result<Rc<dyn Op>> {
    if node.flag("fmod", false)? {
        return Ok(Rc::new(&FMOD));
    }
    let of_floats = node.dtype(0).is_ok_and(|dtype| FLOATS.contains(&dtype));
    if of_floats && node.version < 28 {
        let message = "`fmod` must be 1 for floating-point numbers before version 28";
        let warning = Diagnostic::warning(Code::MissingAttribute, message)
            .note("the result has the sign of the divisor, as in version 28")
            .help("set `fmod` to 1 for the sign of the dividend");
        node.warnings.push(warning);
    }
    Ok(Rc::new(&MODULO))
}

/// Reads an operator before version 7, which has the attributes `axis` and `broadcast`.
fn axis_style(node: &mut Reader<'_>, row: &'static Binary) -> Result<Rc<dyn Op>> {
    align_second_operand(node)?;
    Ok(Rc::new(row))
}

/// Appends axes of size 1 to the second operand, as `axis` and `broadcast` require.
///
/// Before version 7, with `broadcast` set, the first axis of the second operand was aligned with
/// axis `axis` of the first operand. Since version 7 the last axes are aligned.
pub(super) fn align_second_operand(node: &mut Reader<'_>) -> Result {
    let (broadcast, axis) = (node.flag("broadcast", false)?, node.maybe_int("axis")?);
    if let (true, Some(axis)) = (broadcast, axis) {
        let (a, b) = (node.rank(0)? as i64, node.rank(1)? as i64);
        let axis = if axis < 0 { axis + a } else { axis };
        if axis < 0 || axis + b > a {
            let b = counted(b, "axis");
            let message = format!("`axis` is {axis}, but the operands have {a} and {b}");
            return Err(Diagnostic::new(Code::BadAttribute, message));
        }
        let trailing: Vec<i64> = (b..a - axis).collect();
        if !trailing.is_empty() {
            node.wrap_input(1, Unsqueeze, &[Tensor::from_ints(&trailing)])?;
        }
    }
    Ok(())
}

impl Op for &'static Binary {
    fn name(&self) -> &'static str {
        self.name
    }

    fn attributes(&self, a: &mut Attributes) {
        match self.attribute {
            Some(("fmod", _)) => a.flag("fmod", true),
            Some((name, value)) => a.string(name, value),
            None => {}
        }
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let a = cx.of(0, self.types)?;
        let b = cx.ty(1)?;
        cx.same_dtype(0, 1)?;
        let shape = cx.broadcast(&[&a.shape, &b.shape])?;
        if let Some([x, y]) = cx.all_known(0..2).as_deref() {
            let sizes = x.iter().zip(y).map(|(x, y)| (self.sizes)(x, y)).collect();
            cx.set_computed(0, a.dtype, sizes);
        }
        Ok(vec![TensorType { dtype: a.dtype, shape }.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let geometry = Broadcast::of(&cx.output_ty(0)?.shape, &cx.ty(0)?.shape, &cx.ty(1)?.shape);
        cx.call(&self.kernel, geometry)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        if let (Some(gradients), Some(dy)) = (self.gradients, g.dy(0)) {
            let [da, db] = gradients(g.x(0), g.x(1), g.y(0), dy);
            g.set(0, da);
            g.set(1, db);
        }
        Ok(())
    }
}

/// Implements an operator of Rust for gradient formulas, with a value or a number on the right.
macro_rules! operator {
    ($Trait:ident $method:ident $ROW:ident) => {
        impl<'t> std::ops::$Trait for Expr<'t> {
            type Output = Expr<'t>;

            fn $method(self, other: Expr<'t>) -> Expr<'t> {
                self.apply(&$ROW, &[other])
            }
        }

        impl<'t> std::ops::$Trait<f64> for Expr<'t> {
            type Output = Expr<'t>;

            fn $method(self, other: f64) -> Expr<'t> {
                self.apply(&$ROW, &[self.number(other)])
            }
        }
    };
}

operator!(Add add ADD);
operator!(Div div DIV);
operator!(Mul mul MUL);
operator!(Sub sub SUB);

impl<'t> Expr<'t> {
    /// Raises each element to the power `exponent`.
    pub fn pow(self, exponent: Expr<'t>) -> Expr<'t> {
        self.apply(Pow, &[exponent])
    }
}

/// `a ^ b`, element-wise with broadcasting. The exponent may have another type.
pub struct Pow;

static POW: Kernel<Broadcast> = kernel!(POW_TYPES T, binary::pow::<T, f64>,
    |f, a, p| f(a.input(0), &a.numbers(1), a.output(0), p),
    in_place pow_in_place::<T, f64> |f, a, p| f(a.output(0), &a.numbers(0), p));
/// For exponents of type `f32`, with which `f32` uses vectors.
static POW_F32: Kernel<Broadcast> = kernel!(POW_TYPES T, binary::pow::<T, f32>,
    |f, a, p| f(a.input(0), a.input(1), a.output(0), p),
    in_place pow_in_place::<T, f32> |f, a, p| f(a.output(0), a.input(0), p));

static HALF_POWER: Kernel = kernel!(FLOATS T, unary::half_power::<T>,
    |f, a, _p| f(a.input(0), a.output(0)),
    in_place half_power_in_place::<T> |f, a, _p| f(a.output(0)));
static INVERSE_HALF_POWER: Kernel = kernel!(FLOATS T, unary::inverse_half_power::<T>,
    |f, a, _p| f(a.input(0), a.output(0)),
    in_place inverse_half_power_in_place::<T> |f, a, _p| f(a.output(0)));

/// Returns the kernel for a constant exponent that does not change the shape of the base.
fn root_kernel(cx: &Lower<'_>) -> Option<&'static Kernel> {
    let (x, y) = (cx.ty(0).ok()?, cx.output_ty(0).ok()?);
    let &[exponent] = cx.constant(1)?.floats()?.as_slice() else { return None };
    let kernel = match exponent {
        0.5 => &HALF_POWER,
        -0.5 => &INVERSE_HALF_POWER,
        _ => return None,
    };
    (x.shape == y.shape && kernel.types.contains(&x.dtype)).then_some(kernel)
}

impl Op for Pow {
    fn name(&self) -> &'static str {
        "Pow"
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let (a, b) = (cx.of(0, POW_TYPES)?, cx.of(1, NUMERIC)?);
        let shape = cx.broadcast(&[&a.shape, &b.shape])?;
        Ok(vec![TensorType { dtype: a.dtype, shape }.into()])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        if let Some(kernel) = root_kernel(cx) {
            let (x, y) = (cx.input(0)?.into(), cx.output(0)?.into());
            return cx.call_on(kernel, cx.ty(0)?.dtype, vec![x], vec![y], NoParams);
        }
        let geometry = Broadcast::of(&cx.output_ty(0)?.shape, &cx.ty(0)?.shape, &cx.ty(1)?.shape);
        let exponent = cx.ty(1)?.dtype;
        cx.call(if exponent == DType::F32 { &POW_F32 } else { &POW }, geometry)
    }

    /// `da = dy · b · a^(b-1)` and `db = dy · y · ln a`. `da` is 0 for `b = 0`, even at `a = 0`,
    /// and `db` is 0 for `a = 0`.
    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        let (a, b, y, Some(dy)) = (g.x(0), g.x(1), g.y(0), g.dy(0)) else { return Ok(()) };
        if g.wants(0) {
            let b = b.cast_like(a);
            let zero = b.equal(b.number(0.0));
            let is_zero = a.equal(a.number(0.0));
            let base = zero.select(is_zero.select(a.number(1.0), a), a);
            g.set(0, dy * b * base.pow(b - 1.0));
        }
        if g.wants(1) {
            let zero = a.equal(a.number(0.0));
            g.set(1, (dy * y * zero.select(a.number(1.0), a).log()).cast_like(b));
        }
        Ok(())
    }
}
