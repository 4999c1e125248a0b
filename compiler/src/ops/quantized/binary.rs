//! Element-wise sums and products of two quantized tensors.

use super::requantize::Requantization;
use crate::{
    diag::Result,
    dim::Dim,
    dtype::{DType, INT8S},
    ir::{Attributes, Domain, Infer, Inferred, Lower, Op, Reader},
    ops::{Entry, internal},
    plan::{
        Kernel,
        formula::Formula,
        geometry::{self, Requantize},
        kernel,
    },
    ty::Type,
};
use onnxc_runtime::kernels::quantized::{self, Blend, sum_factors};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    internal("QuantizedAdd", |node| read(node, Form::Add)),
    internal("QuantizedMul", |node| read(node, Form::Mul)),
];

/// The function of two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The sum.
    Add,
    /// The product.
    Mul,
}

/// The sum or product of two quantized tensors of one shape, of a tensor and one element, or of a
/// tensor and rows that are repeated.
pub struct QuantizedBinary {
    /// The function.
    pub form: Form,
    /// The zero points and scales of the operands, and the scale of the result.
    pub of: Blend,
    /// The requantization of the result.
    pub to: Requantization,
}

/// How the rows of one tensor repeat to the shape of another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeated {
    /// The number of elements of a row.
    row: Dim,
    /// How often each row is repeated.
    times: Dim,
}

impl Repeated {
    /// Returns how a tensor of shape `b` repeats to the shape `a`; `None` if it does not, or on
    /// axes that are not neighbors.
    pub fn of(a: &[Dim], b: &[Dim]) -> Option<Repeated> {
        let differs = |&axis: &usize| a[axis] != b[axis];
        if a.len() != b.len() {
            return None;
        }
        let first = (0..a.len()).find(differs).unwrap_or(a.len());
        let end = (0..a.len()).rfind(differs).map_or(a.len(), |last| last + 1);
        let are_one = b[first..end].iter().all(|size| size.known() == Some(1));
        let (row, times) = (a[end..].iter().product(), a[first..end].iter().product());
        are_one.then_some(Repeated { row, times })
    }
}

fn read(node: &mut Reader<'_>, form: Form) -> Result<Rc<dyn Op>> {
    Ok(Rc::new(QuantizedBinary { form, of: read_blend(node)?, to: Requantization::read(node)? }))
}

/// Reads the scales and zero points of both operands, and the scale of the result.
pub fn read_blend(node: &mut Reader<'_>) -> Result<Blend> {
    Ok(Blend {
        zeros: [node.int("a_zero", 0)? as i32, node.int("b_zero", 0)? as i32],
        scales: [node.float("a_scale", 1.0)?, node.float("b_scale", 1.0)?],
        scale: node.float("y_scale", 1.0)?,
        one: false,
        factors: None,
    })
}

/// Returns the parameters of a kernel; `one` tells that the second operand has one element.
fn to_geometry(of: Blend, one: bool) -> geometry::Blend {
    let Blend { zeros, scales, scale, factors, .. } = of;
    geometry::Blend { zeros, scales, scale, one, factors }
}

/// Returns the parameters of the kernel `add`, with the factors of [`sum_factors`] if they exist.
/// `types` are the types of both operands and of the result.
pub fn sum_parameters(
    of: Blend,
    one: bool,
    to: quantized::Requantize,
    types: [DType; 3],
) -> geometry::Blend {
    let [a, b, y] = types.map(|dtype| if dtype == DType::I8 { 128 } else { 0 });
    let unsigned = Blend { zeros: [of.zeros[0] + a, of.zeros[1] + b], ..of };
    let [y_zero, low, high] = [to.y_zero, to.low, to.high].map(|byte| byte + y);
    let to = quantized::Requantize { y_zero, low, high, ..to };
    to_geometry(Blend { factors: sum_factors(unsigned, to), ..of }, one)
}

/// Writes the attributes that [`read_blend`] reads.
pub fn blend_attributes(of: &Blend, a: &mut Attributes) {
    a.int("a_zero", of.zeros[0].into());
    a.int("b_zero", of.zeros[1].into());
    a.float("a_scale", of.scales[0]);
    a.float("b_scale", of.scales[1]);
    a.float("y_scale", of.scale);
}

macro_rules! binary {
    ($name:ident $B:ty, $Y:ty) => {
        kernel!(INT8S T, quantized::$name::<T, $B, $Y>,
            |f, a, p| f(a.input(0), a.input(1), a.output(0), p.0, p.1))
    };
}

macro_rules! repeated {
    ($name:ident $B:ty, $Y:ty) => {
        kernel!(INT8S T, quantized::$name::<T, $B, $Y>,
            |f, a, p| f(a.input(0), a.input(1), a.output(0), p.0, p.1, p.2))
    };
}

/// Kernels by the types of the second operand and of the result.
type Table<P> = [([DType; 2], Kernel<P>)];
type Binaries = Table<(geometry::Blend, Requantize)>;
type RepeatedBinaries = Table<(geometry::Blend, Requantize, geometry::Repeated)>;

static ADD: &Binaries = &[
    ([DType::I8, DType::I8], binary!(add i8, i8)),
    ([DType::I8, DType::U8], binary!(add i8, u8)),
    ([DType::U8, DType::I8], binary!(add u8, i8)),
    ([DType::U8, DType::U8], binary!(add u8, u8)),
];
static MUL: &Binaries = &[
    ([DType::I8, DType::I8], binary!(mul i8, i8)),
    ([DType::I8, DType::U8], binary!(mul i8, u8)),
    ([DType::U8, DType::I8], binary!(mul u8, i8)),
    ([DType::U8, DType::U8], binary!(mul u8, u8)),
];
static ADD_REPEATED: &RepeatedBinaries = &[
    ([DType::I8, DType::I8], repeated!(add_repeated i8, i8)),
    ([DType::I8, DType::U8], repeated!(add_repeated i8, u8)),
    ([DType::U8, DType::I8], repeated!(add_repeated u8, i8)),
    ([DType::U8, DType::U8], repeated!(add_repeated u8, u8)),
];
static MUL_REPEATED: &RepeatedBinaries = &[
    ([DType::I8, DType::I8], repeated!(mul_repeated i8, i8)),
    ([DType::I8, DType::U8], repeated!(mul_repeated i8, u8)),
    ([DType::U8, DType::I8], repeated!(mul_repeated u8, i8)),
    ([DType::U8, DType::U8], repeated!(mul_repeated u8, u8)),
];

/// Returns the kernel for these types.
fn kernel_of<P: Formula>(table: &'static Table<P>, types: [DType; 2]) -> &'static Kernel<P> {
    let found = table.iter().find(|(of, _)| *of == types);
    let (_, kernel) = found.expect("`infer` checked the types");
    kernel
}

impl Op for QuantizedBinary {
    fn name(&self) -> &'static str {
        match self.form {
            Form::Add => "QuantizedAdd",
            Form::Mul => "QuantizedMul",
        }
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn attributes(&self, a: &mut Attributes) {
        blend_attributes(&self.of, a);
        self.to.attributes(a);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let shape = cx.of(0, INT8S)?.shape.clone();
        let other = cx.of(1, INT8S)?;
        if other.len().known() != Some(1) {
            let other = cx.ranked(1, shape.len())?.shape.clone();
            if Repeated::of(&shape, &other).is_none() {
                for (a, b) in other.iter().zip(&shape) {
                    cx.require_equal(a, b, "the sizes of the operands")?;
                }
            }
        }
        Ok(vec![Type::tensor(self.to.dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (a, b) = (cx.ty(0)?, cx.ty(1)?);
        let one = b.len().known() == Some(1);
        let types = [b.dtype, self.to.dtype];
        let of = match self.form {
            Form::Add => sum_parameters(self.of, one, self.to.to, [a.dtype, b.dtype, types[1]]),
            Form::Mul => to_geometry(self.of, one),
        };
        let to = self.to.formula();
        let repeated = Repeated::of(&a.shape, &b.shape).filter(|_| !one && a.shape != b.shape);
        if let Some(Repeated { row, times }) = repeated {
            let table = match self.form {
                Form::Add => ADD_REPEATED,
                Form::Mul => MUL_REPEATED,
            };
            let rows = geometry::Repeated { row, times };
            return cx.call_for_input(kernel_of(table, types), (of, to, rows));
        }
        let table = match self.form {
            Form::Add => ADD,
            Form::Mul => MUL,
        };
        cx.call_for_input(kernel_of(table, types), (of, to))
    }
}
