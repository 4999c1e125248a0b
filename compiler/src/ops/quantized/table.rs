//! Functions of one quantized element.

use crate::{
    diag::Result,
    dtype::{DType, INT8S},
    ir::{Domain, Infer, Inferred, Lower, Op},
    ops::{Entry, internal},
    plan::{Kernel, NoParams, kernel},
    ty::Type,
};
use std::rc::Rc;

pub const OPS: &[Entry] = &[internal("QuantizedTable", |_| Ok(Rc::new(QuantizedTable)))];

/// A function of a quantized element. Input 1 holds its value for each element, from the smallest
/// on.
pub struct QuantizedTable;

macro_rules! table {
    ($Y:ty) => {
        kernel!(INT8S T, quantized::table::<T, $Y>,
            |f, a, _p| f(a.input(0), a.input(1), a.output(0)))
    };
}

/// Kernels by output type.
static TABLE: &[(DType, Kernel<NoParams>)] = &[(DType::I8, table!(i8)), (DType::U8, table!(u8))];

impl Op for QuantizedTable {
    fn name(&self) -> &'static str {
        "QuantizedTable"
    }

    fn domain(&self) -> Domain {
        Domain::Internal
    }

    fn infer(&self, cx: &mut Infer<'_>) -> Inferred {
        let shape = cx.of(0, INT8S)?.shape.clone();
        let table = cx.of(1, INT8S)?;
        cx.require_equal(&table.len(), &256.into(), "the entries of the table and 256")?;
        Ok(vec![Type::tensor(table.dtype, shape)])
    }

    fn lower(&self, cx: &mut Lower<'_>) -> Result {
        let kernel = cx.choose(TABLE, 1)?;
        cx.call_for_input(kernel, NoParams)
    }
}
