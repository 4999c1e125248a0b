//! Conversion of element types: `Cast`, `CastLike` and `BitCast`.

use super::{Entry, entry};
use crate::{
    array::Array,
    diag::{Code, Diagnostic, Result},
    dim::Dim,
    dtype::{ANY, DType, FLOAT8S, REALS, dispatch},
    ir::{Attributes, Expr, Gradient, Infer, Inferred, Lower, Op, Reader, Views},
    plan::{Args, Kernel, NoParams, Operand, kernel},
    tensor::Tensor,
    ty::Type,
};
use onnxc_runtime::{Exact, Float8, Real};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("BitCast", 26, |node| Ok(Rc::new(BitCast { to: target(node)? }))),
    entry("Cast", 1, |node| {
        // Version 1 names the type by its name in `TensorProto.DataType`.
        let name = node.maybe_string("to")?.unwrap_or_default();
        let to = DType::from_name(&name.to_lowercase()).ok_or_else(|| {
            let message = format!("`to` is {name:?}, which is not an element type");
            Diagnostic::new(Code::BadAttribute, message)
        })?;
        Ok(Rc::new(Cast { to, mode: CastMode::DEFAULT }))
    }),
    entry("Cast", 6, |node| Ok(Rc::new(Cast { to: target(node)?, mode: CastMode::read(node)? }))),
    entry("CastLike", 15, |node| Ok(Rc::new(CastLike { mode: CastMode::read(node)? }))),
];

/// Reads the required attribute `to`.
fn target(node: &mut Reader<'_>) -> Result<DType> {
    let missing = || Diagnostic::new(Code::BadAttribute, "the attribute `to` is missing");
    node.maybe_dtype("to")?.ok_or_else(missing)
}

/// How casts to 8-bit floating-point types treat numbers that the type cannot represent.
#[derive(Clone, Copy, PartialEq)]
pub struct CastMode {
    /// Whether numbers out of range become the largest finite one, not infinity or NaN.
    pub saturate: bool,
    /// How casts to `float8e8m0` round to a power of two.
    pub rounding: Rounding,
}

/// The attribute `round_mode`: how a number is rounded to a power of two.
#[derive(Clone, Copy, PartialEq)]
pub enum Rounding {
    /// To the next greater one.
    Up,
    /// To the next smaller one.
    Down,
    /// To the nearest one.
    Nearest,
}

impl CastMode {
    /// The defaults of `Cast`.
    pub const DEFAULT: CastMode = CastMode { saturate: true, rounding: Rounding::Up };

    fn read(node: &mut Reader<'_>) -> Result<CastMode> {
        let roundings =
            [("up", Rounding::Up), ("down", Rounding::Down), ("nearest", Rounding::Nearest)];
        Ok(CastMode {
            saturate: node.flag("saturate", true)?,
            rounding: node.choice("round_mode", &roundings)?,
        })
    }

    fn attributes(self, a: &mut Attributes) {
        if !self.saturate {
            a.flag("saturate", false);
        }
        match self.rounding {
            Rounding::Up => {}
            Rounding::Down => a.string("round_mode", "down"),
            Rounding::Nearest => a.string("round_mode", "nearest"),
        }
    }
}

/// Converts each element to another type.
pub struct Cast {
    /// The element type of the result.
    pub to: DType,
    /// The treatment of numbers that `to` cannot represent.
    pub mode: CastMode,
}

static CAST: Kernel = Kernel::new("cast::cast", REALS, |a, _| {
    let x = exact(a);
    dispatch!(REALS a.output_dtype(0), U => write(a.output(0), x, U::nearest));
    Ok(())
});
static CAST_UNSATURATED: Kernel = Kernel::new("cast::cast_unsaturated", REALS, |a, _| {
    let x = exact(a);
    dispatch!(FLOAT8S a.output_dtype(0), U => write(a.output(0), x, U::unsaturated));
    Ok(())
});

/// Reads the input of a cast in this process. Each type has a function to [`Exact`] and one from
/// it, because a kernel for each pair of types would take seconds to compile.
fn exact<'a>(a: &Args<'a>) -> Box<dyn Iterator<Item = Exact> + 'a> {
    dispatch!(REALS a.input_dtype(0), T => Box::new(a.input(0).iter().map(|x: &T| x.exact())))
}

/// Writes the output of a cast in this process.
fn write<U>(y: &mut [U], x: Box<dyn Iterator<Item = Exact> + '_>, round: fn(Exact) -> U) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y = round(x));
}

macro_rules! one_kernel {
    ($kernel:ident) => {
        kernel!(REALS T, cast::$kernel::<T>, |f, a, _p| f(a.input(0), a.output(0)))
    };
}

static CAST_DOWN: Kernel = one_kernel!(cast_down);
static CAST_DOWN_UNSATURATED: Kernel = one_kernel!(cast_down_unsaturated);
static CAST_NEAREST: Kernel = one_kernel!(cast_nearest);
static CAST_NEAREST_UNSATURATED: Kernel = one_kernel!(cast_nearest_unsaturated);
static CAST_TO_STRINGS: Kernel = one_kernel!(cast_to_strings);
static CAST_FROM_STRINGS: Kernel = kernel!(checked REALS T, cast::cast_from_strings::<T>,
    |f, a, _p| f(a.input(0), a.output(0)));

impl CastMode {
    /// The kernel that casts to `to`.
    fn kernel(self, to: DType) -> Option<&'static Kernel> {
        match (to, self.rounding, self.saturate) {
            (DType::F8E8M0, Rounding::Down, true) => Some(&CAST_DOWN),
            (DType::F8E8M0, Rounding::Down, false) => Some(&CAST_DOWN_UNSATURATED),
            (DType::F8E8M0, Rounding::Nearest, true) => Some(&CAST_NEAREST),
            (DType::F8E8M0, Rounding::Nearest, false) => Some(&CAST_NEAREST_UNSATURATED),
            (DType::String, ..) => Some(&CAST_TO_STRINGS),
            (to, _, false) if FLOAT8S.contains(&to) => Some(&CAST_UNSATURATED),
            (to, ..) if REALS.contains(&to) => Some(&CAST),
            _ => None,
        }
    }

    fn infer(self, cx: &mut Infer<'_>, to: DType) -> Inferred {
        let ty = cx.ty(0)?;
        for dtype in [ty.dtype, to] {
            if dtype != DType::String && !REALS.contains(&dtype) {
                let message = format!("elements of type {dtype} cannot be cast");
                return Err(cx.diagnostic(Code::TypeMismatch, message));
            }
        }
        if let Some(known) = cx.known(0) {
            let cast = known.iter().map(|dim| cast_size(dim, to)).collect();
            cx.set_computed(0, to, Some(cast));
        }
        Ok(vec![Type::tensor(to, &ty.shape)])
    }

    fn lower(self, cx: &mut Lower<'_>, to: DType) -> Result {
        let from = cx.ty(0)?.dtype;
        if from == to {
            return Ok(());
        }
        let (x, y) = (cx.input(0)?, cx.output(0)?);
        if from == DType::String {
            let is_supported = self == CastMode::DEFAULT || !FLOAT8S.contains(&to);
            let unsupported =
                || cx.unsupported("casting strings to 8-bit floats without `saturate`");
            is_supported.then_some(()).ok_or_else(unsupported)?;
            return cx.call_on(&CAST_FROM_STRINGS, to, vec![x.into()], vec![y.into()], NoParams);
        }
        self.call(cx, from, x, to, y)
    }

    /// Calls the kernel that casts `x`, of type `from`, to `y`, of type `to`.
    pub fn call(
        self,
        cx: &mut Lower<'_>,
        from: DType,
        x: Operand,
        to: DType,
        y: Operand,
    ) -> Result {
        let kernel = self.kernel(to).ok_or_else(|| cx.unsupported(&format!("the type {to}")))?;
        cx.call_on(kernel, from, vec![x.into()], vec![y.into()], NoParams)
    }
}

/// A dimension expression after a cast to `to`, provided that `to` can represent its value.
fn cast_size(dim: &Dim, to: DType) -> Dim {
    match to {
        DType::Bool => Dim::from(1) - dim.equal(&0.into()),
        _ => dim.clone(),
    }
}

/// Makes the output a view of the input if their types are equal.
fn view_same_type(cx: &mut Views<'_>) {
    if let (Some(from), Some(to)) = (cx.ty(0), cx.output_ty(0))
        && from.dtype == to.dtype
    {
        cx.view(0, 0, 0.into());
    }
}

impl Op for Cast {
    fn name(&self) -> &'static str {
        "Cast"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("to", self.to.code().into());
        self.mode.attributes(a);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        self.mode.infer(cx, self.to)
    }

    fn views(&self, cx: &mut Views<'_>) {
        view_same_type(cx);
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        self.mode.lower(cx, self.to)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        if let Some(dy) = g.dy(0) {
            g.set(0, dy.cast_like(g.x(0)));
        }
        Ok(())
    }
}

impl<'t> Expr<'t> {
    /// Converts each element to type `to`.
    pub fn cast(self, to: DType) -> Expr<'t> {
        if self.dtype() == to {
            self
        } else {
            self.apply(Cast { to, mode: CastMode::DEFAULT }, &[])
        }
    }

    /// Converts each element to the type of `other`.
    pub fn cast_like(self, other: Expr<'t>) -> Expr<'t> {
        self.cast(other.dtype())
    }
}

/// Converts each element of input 0 to the type of input 1.
pub struct CastLike {
    /// The treatment of numbers that the type cannot represent.
    pub mode: CastMode,
}

impl Op for CastLike {
    fn name(&self) -> &'static str {
        "CastLike"
    }

    fn attributes(&self, a: &mut Attributes) {
        self.mode.attributes(a);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let to = match cx.any(1)? {
            Type::Unranked(dtype) => *dtype,
            _ => cx.ty(1)?.dtype,
        };
        self.mode.infer(cx, to)
    }

    fn views(&self, cx: &mut Views<'_>) {
        view_same_type(cx);
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        self.mode.lower(cx, cx.output_ty(0)?.dtype)
    }

    fn gradient(&self, g: &mut Gradient<'_>) -> Result {
        if let Some(dy) = g.dy(0) {
            g.set(0, dy.cast_like(g.x(0)));
        }
        Ok(())
    }
}

/// Reinterprets the bits of each element as another type of the same width.
pub struct BitCast {
    /// The element type of the result.
    pub to: DType,
}

/// In this process, the bytes of a tensor are the common form of all types.
static BIT_CAST: Kernel = Kernel::new("cast::bit_cast", ANY, |a, _| {
    let to = a.output_dtype(0);
    let x = a.input_part(0);
    let shape = vec![x.len()];
    let bits = Tensor::from_raw(to, shape.clone(), x.into_tensor(shape).raw());
    a.set_output(0, Array::from_tensor(&bits));
    Ok(())
});

impl Op for BitCast {
    fn name(&self) -> &'static str {
        "BitCast"
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("to", self.to.code().into());
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let ty = cx.ty(0)?;
        let (from, to) = (ty.dtype.bits(), self.to.bits());
        if from != to || from == 0 {
            let message =
                format!("elements of type {} do not have the same width as {}", ty.dtype, self.to);
            return Err(cx.diagnostic(Code::TypeMismatch, message));
        }
        Ok(vec![Type::tensor(self.to, &ty.shape)])
    }

    fn views(&self, cx: &mut Views<'_>) {
        view_same_type(cx);
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let from = cx.ty(0)?.dtype;
        if from == self.to {
            return Ok(());
        }
        cx.call_for_input(&BIT_CAST, NoParams)
    }

    /// Bit patterns are discrete, so there is no gradient.
    fn gradient(&self, _: &mut Gradient<'_>) -> Result {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Element;
    use onnxc_runtime::{F8E4M3FN, bf16, kernels::cast};

    /// Compares [`CAST`] in this process with the kernel that generated code calls.
    fn check<A: Element + Real, B: Element + Real>(x: &[A]) {
        let mut expected = vec![B::default(); x.len()];
        cast::cast(x, &mut expected);
        let (from, mut to) = (A::array(x.to_vec()), B::array(vec![B::default(); x.len()]));
        let (inputs, outputs) =
            (vec![Some((&from, 0..x.len()))], vec![Some((&mut to, 0..x.len()))]);
        let iterations = Default::default();
        let mut args = Args::new(A::DTYPE, inputs, outputs, &mut [], &iterations);
        assert_eq!((CAST.run)(&mut args, ()), Ok(()));
        assert_eq!(to, B::array(expected), "from {} to {}", A::DTYPE, B::DTYPE);
    }

    #[test]
    fn casts_have_the_bits_of_the_kernel() {
        let x = [1.5, -300.5, 3e9, 65_535.9, -0.0, 1e-9, f32::INFINITY, f32::NAN];
        check::<f32, i8>(&x);
        check::<f32, u16>(&x);
        check::<f32, i64>(&x);
        check::<f32, bool>(&x);
        check::<f32, F8E4M3FN>(&x[..7]);
        check::<f64, bf16>(&[1.0 + 1.0 / 256.0 + 1e-12, -1e300]);
        check::<i64, f32>(&[i64::MIN, 16_777_217, -7]);
        check::<u64, f64>(&[u64::MAX, 1 << 53 | 1]);
        check::<bool, f32>(&[true, false]);
    }
}
