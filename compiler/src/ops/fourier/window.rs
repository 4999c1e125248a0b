//! `BlackmanWindow`, `HammingWindow` and `HannWindow`: a table, and one [`Op`] for its rows.

use super::known_size;
use crate::{
    diag::{Code, Diagnostic, Result},
    dtype::{DType, NUMERIC},
    ir::{Attributes, Infer, Inferred, Lower, Op, Reader},
    ops::{Entry, entry},
    plan::{Kernel, NoParams, kernel},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[
    entry("BlackmanWindow", 17, |node| read(node, &BLACKMAN)),
    entry("HammingWindow", 17, |node| read(node, &HAMMING)),
    entry("HannWindow", 17, |node| read(node, &HANN)),
];

/// A row of the table.
struct Shape {
    name: &'static str,
    /// The coefficients `a` of `a₀ - a₁ cos(2πi / n) + a₂ cos(4πi / n)`.
    cosines: [f64; 3],
}

static BLACKMAN: Shape = Shape { name: "BlackmanWindow", cosines: [0.42, 0.5, 0.08] };
static HAMMING: Shape =
    Shape { name: "HammingWindow", cosines: [25.0 / 46.0, 1.0 - 25.0 / 46.0, 0.0] };
static HANN: Shape = Shape { name: "HannWindow", cosines: [0.5, 0.5, 0.0] };

/// A window; the input holds its length.
pub struct Window {
    shape: &'static Shape,
    /// Whether the window is symmetric, not periodic.
    symmetric: bool,
    dtype: DType,
}

static WINDOW: Kernel<([f64; 3], bool)> =
    kernel!(NUMERIC T, fourier::window::<T>, |f, a, p| f(a.output(0), p.0, p.1));
static WINDOW_SIZES: Kernel = kernel!(checked INDICES T, fourier::window_sizes::<T>,
    |f, a, _p| f(a.sizes(), a.input(0)));

fn read(node: &mut Reader<'_>, shape: &'static Shape) -> Result<Rc<dyn Op>> {
    let symmetric = !node.flag("periodic", true)?;
    Ok(Rc::new(Window { shape, symmetric, dtype: output_type(node)? }))
}

/// Reads the attribute `output_datatype`, a numeric type.
pub(super) fn output_type(node: &mut Reader<'_>) -> Result<DType> {
    let dtype = node.maybe_dtype("output_datatype")?.unwrap_or(DType::F32);
    if NUMERIC.contains(&dtype) {
        return Ok(dtype);
    }
    let message = format!("`output_datatype` is {dtype}, but must be a numeric type");
    Err(Diagnostic::new(Code::BadAttribute, message))
}

impl Op for Window {
    fn name(&self) -> &'static str {
        self.shape.name
    }

    fn attributes(&self, a: &mut Attributes) {
        a.int("output_datatype", self.dtype.code().into());
        a.flag("periodic", !self.symmetric);
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let size = match known_size(cx, 0, 0, "the length of a window")? {
            Some(size) => size,
            None => cx.fresh_sizes([None]).remove(0),
        };
        Ok(vec![Type::tensor(self.dtype, [size])])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let (size, y) = (cx.input(0)?.into(), cx.output(0)?.into());
        cx.bind(&WINDOW_SIZES, cx.ty(0)?.dtype, vec![size], NoParams)?;
        let formula = (self.shape.cosines, self.symmetric);
        cx.call_on(&WINDOW, self.dtype, Vec::new(), vec![y], formula)
    }
}
